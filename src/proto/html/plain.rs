//! Recognises plain elements by the bytes of their names: most tags of a page, in one look-up.
//!
//! A plain element has no effect except that it may separate words: [`Traits::is_plain`]. The table
//! here has the common names, of up to seven bytes, in lower case. A name with the slash of its end
//! tag fits in a `u64`, so a hit says at once that the name was well formed and which kind of tag
//! it is. A name that is not found may be plain all the same; the module `name` can tell, in some
//! 60 instructions where this takes 20.

use super::name::{TagName, Traits};
use crate::sys::scan::{Lanes, Native, WINDOW_BYTES};

/// A tag that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain {
    /// The name as a number, its first byte lowest; for an end tag the slash comes first.
    number: u64,
    /// Where the name ends.
    pub end: usize,
    kind: u8,
}

/// Bits of a tag's kind.
const IS_INLINE: u8 = 1;
const IS_END_TAG: u8 = 2;

impl Plain {
    /// Reads the tag at the start of a window, which begins behind a `<`.
    #[inline(always)]
    pub fn read(window: &[u8; WINDOW_BYTES]) -> Option<Plain> {
        let lanes = Native::load(window);
        // This set has every byte that ends a name, and others; no name in the table has one of
        // them inside. The first byte is masked out, because it may be the slash of an end tag.
        let ends = (lanes.at_most(b'/') | lanes.equal(b'>')).mask() & !1;
        let end = ends.trailing_zeros();
        if end > NUMBER_BYTES {
            return None;
        }
        let head = u64::from_le_bytes(*window.first_chunk()?);
        let number = head & u64::MAX.unbounded_shr(u64::BITS - 8 * end);
        let slot = slot_of(number);
        let kind = KINDS[slot];
        (NUMBERS[slot] == number).then_some(Plain { number, end: end as usize, kind })
    }

    #[inline(always)]
    pub fn is_end_tag(self) -> bool {
        self.kind & IS_END_TAG != 0
    }

    /// Returns where the name begins.
    #[inline(always)]
    pub fn start(self) -> usize {
        usize::from(self.is_end_tag())
    }

    #[inline(always)]
    pub fn name(self) -> TagName {
        TagName::of_number(self.number >> (8 * self.start()), self.end - self.start())
    }

    #[inline(always)]
    pub fn traits(self) -> Traits {
        if self.kind & IS_INLINE != 0 { Traits::INLINE } else { Traits::default() }
    }
}

/// The length of a slash and the longest name.
const NUMBER_BYTES: u32 = 8;

const SLOT_BITS: u32 = 10;
/// Found by trying: no two names share a slot, and none has the slot of the empty name. The
/// compiler checks it.
const SLOT_KEY: u64 = 0x8BE4_8B07_09BD_B3D1;

#[inline(always)]
const fn slot_of(number: u64) -> usize {
    (number.wrapping_mul(SLOT_KEY) >> (u64::BITS - SLOT_BITS)) as usize
}

static NUMBERS: [u64; 1 << SLOT_BITS] = TABLE.0;
static KINDS: [u8; 1 << SLOT_BITS] = TABLE.1;
const TABLE: ([u64; 1 << SLOT_BITS], [u8; 1 << SLOT_BITS]) = {
    let (mut numbers, mut kinds) = ([0; 1 << SLOT_BITS], [0; 1 << SLOT_BITS]);
    // The empty name has number 0 and so slot 0; this entry keeps it from being found.
    numbers[0] = 1;
    let mut index = 0;
    while index < 2 * (INLINE.len() + PARTING.len()) {
        let (is_end_tag, index_of_name) = (index % 2 == 1, index / 2);
        let is_inline = index_of_name < INLINE.len();
        let name =
            if is_inline { INLINE[index_of_name] } else { PARTING[index_of_name - INLINE.len()] };
        assert!(name.len() < NUMBER_BYTES as usize, "a name and a slash must fit in a number");
        let number = number_of(name.as_bytes());
        let number = if is_end_tag { number << 8 | b'/' as u64 } else { number };
        let slot = slot_of(number);
        assert!(numbers[slot] == 0, "two names share a slot");
        numbers[slot] = number;
        let inline = if is_inline { IS_INLINE } else { 0 };
        kinds[slot] = inline | if is_end_tag { IS_END_TAG } else { 0 };
        index += 1;
    }
    (numbers, kinds)
};

const fn number_of(name: &[u8]) -> u64 {
    let (mut number, mut index) = (0, 0);
    while index < name.len() {
        number |= (name[index] as u64) << (8 * index);
        index += 1;
    }
    number
}

#[rustfmt::skip]
const INLINE: [&str; 33] = [
    "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font",
    "i", "ins", "kbd", "label", "mark", "nobr", "q", "s", "samp", "small", "span", "strike",
    "strong", "sub", "sup", "time", "tt", "u", "var", "wbr",
];

#[rustfmt::skip]
const PARTING: [&str; 51] = [
    "address", "article", "aside", "body", "br", "button", "caption", "center", "col", "dd",
    "details", "div", "dl", "dt", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6",
    "head", "header", "hr", "img", "input", "legend", "li", "main", "nav", "ol", "option", "p",
    "param", "picture", "pre", "section", "select", "source", "summary", "table", "tbody", "td",
    "tfoot", "th", "thead", "tr", "ul", "video",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Plain> {
        Plain::read(format!("{text:<16}").as_bytes().first_chunk().expect("a window"))
    }

    #[test]
    fn a_plain_name_means_what_its_full_name_does() {
        for name in INLINE.into_iter().chain(PARTING) {
            for end in [">", "/>", " class=a>"] {
                let plain = read(&format!("{name}{end}")).expect(name);
                assert_eq!((plain.start(), plain.end), (0, name.len()));
                let closing = read(&format!("/{name}{end}")).expect(name);
                assert_eq!((closing.start(), closing.end), (1, 1 + name.len()));
                assert_eq!(closing.name(), plain.name());
                assert_eq!(closing.traits(), plain.traits());
                assert!(closing.is_end_tag() && !plain.is_end_tag());
                assert_eq!(plain.name(), TagName::of(name.as_bytes()));
                assert_eq!(plain.traits(), plain.name().traits(), "{name}");
                assert!(plain.traits().is_plain(), "{name}");
            }
        }
    }

    #[test]
    fn what_is_no_plain_name_is_left_to_others() {
        for text in [
            "",
            ">",
            "/>",
            "//p>",
            "/",
            "//>",
            "a>",
            "/a>",
            "script>",
            "DIV>",
            "p=>",
            "p\u{e9}>",
            "\0>",
            "blockquote>",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        // The byte that ends the name is for the caller to judge.
        assert_eq!(read("p\0>").map(|plain| plain.end), Some(1));
    }
}

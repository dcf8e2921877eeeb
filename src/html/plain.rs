//! Plain elements by the bytes of their names: most tags of a page, told by one look-up.
//!
//! A plain element does nothing but part words, or not: [`Traits::is_plain`]. The names here are
//! the common ones, of up to seven bytes, in lower case, so that a name and what it means fit in a
//! `u64` and a hit says at once that the name was well formed. What is not found may be plain all
//! the same; `name` knows, for some 60 instructions where this takes 20.

use super::name::{TagName, Traits};
use crate::sys::scan::{Lanes, Native, WINDOW_BYTES};

/// A tag that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain {
    /// The name as a number, its first byte lowest.
    number: u64,
    /// Where the name begins, behind the slash of an end tag, and where it ends.
    pub start: usize,
    pub end: usize,
    pub is_inline: bool,
}

impl Plain {
    /// The tag that a window, of what stands behind a `<`, begins with.
    #[inline(always)]
    pub fn read(window: &[u8; WINDOW_BYTES]) -> Option<Plain> {
        let lanes = Native::load(window);
        // More than ends a name, and less: a hit has neither between its bytes. Where it ends does
        // not wait for whether it begins with a slash: all that follows in the page waits for it.
        let ends = (lanes.at_most(b'/') | lanes.equal(b'>')).mask() & !1;
        let start = u32::from(window[0] == b'/');
        let end = ends.trailing_zeros();
        let len = end - start;
        if len > BYTES_MAX {
            return None;
        }
        let head = u64::from_le_bytes(*window.first_chunk()?) >> (8 * start);
        let number = head & !(!0 << (8 * len));
        let entry = TABLE[slot_of(number)];
        let is_known = (entry ^ number) << 8 == 0;
        let (start, end) = (start as usize, end as usize);
        is_known.then_some(Plain { number, start, end, is_inline: entry >> 56 != 0 })
    }

    #[inline(always)]
    pub fn name(self) -> TagName {
        TagName::of_number(self.number, self.end - self.start)
    }

    #[inline(always)]
    pub fn traits(self) -> Traits {
        if self.is_inline { Traits::INLINE } else { Traits::default() }
    }
}

/// The eighth byte of an entry says whether it is inline.
const BYTES_MAX: u32 = 7;

/// Found by trying: no two names meet, nor one and no name at all, which the compiler checks.
const SLOT_KEY: u64 = 0xA290_ECD1_CDFB_25E5;

#[inline(always)]
const fn slot_of(number: u64) -> usize {
    (number.wrapping_mul(SLOT_KEY) >> 56) as usize
}

static TABLE: [u64; 256] = {
    let mut table = [0; 256];
    // Where no name at all is looked for: an entry that it is not.
    table[0] = 1;
    let mut index = 0;
    while index < INLINE.len() + PARTING.len() {
        let is_inline = index < INLINE.len();
        let name = if is_inline { INLINE[index] } else { PARTING[index - INLINE.len()] };
        let number = number_of(name.as_bytes());
        let slot = slot_of(number);
        assert!(name.len() <= BYTES_MAX as usize && table[slot] == 0, "two in one slot");
        table[slot] = number | (is_inline as u64) << 56;
        index += 1;
    }
    table
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
                assert_eq!((plain.start, plain.end), (0, name.len()));
                let closing = read(&format!("/{name}{end}")).expect(name);
                assert_eq!((closing.start, closing.end), (1, 1 + name.len()));
                assert_eq!(closing.name(), plain.name());
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
        // The byte that ends it is for the caller to judge.
        assert_eq!(read("p\0>").map(|plain| plain.end), Some(1));
    }
}

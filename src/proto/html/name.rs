//! Names of elements as numbers. A name of up to eight bytes is its own lower-cased bytes in a
//! `u64`, so it is compared and matched in a register, and two names are never confused. The few
//! longer names that matter have numbers that no name's bytes can form.
//!
//! What an element means to a crawler is looked up once per tag, in a table without collisions
//! ([`TagName::traits`]). Most elements mean nothing, and one bit says so, where a `match` over
//! numbers of eight bytes takes five steps that no processor predicts.

use crate::sys::scan;

/// An element's name in ASCII lower case. Names that are longer than eight bytes and not in
/// [`LONG`] are all [`TagName::OTHER`].
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct TagName(u64);

/// The known names of more than eight bytes. A name begins with a letter, so no name of eight bytes
/// is as large a number as the numbers of these.
const LONG: [&[u8]; 4] = [b"blockquote", b"plaintext", b"foreignobject", b"annotation-xml"];
const LONG_BASE: u64 = 0xFF << 56;

impl TagName {
    /// The longest name that is distinguished from others.
    pub const BYTES_MAX: usize = 16;
    pub const OTHER: TagName = TagName(0);

    /// Reads the name that begins at `at`; returns it and where it ends. This is the fast twin of
    /// [`TagName::of`]. `None` if there is no letter at `at`, or if the name may not end within
    /// [`scan::WINDOW_BYTES`] of this chunk.
    #[inline(always)]
    pub fn read(chunk: &[u8], at: usize) -> Option<(TagName, usize)> {
        let window: &[u8; scan::WINDOW_BYTES] = chunk.get(at..)?.first_chunk()?;
        let len = scan::name_end(window)?;
        if !window[0].is_ascii_alphabetic() {
            return None;
        }
        let name = match window.first_chunk() {
            Some(head) if len <= 8 => {
                TagName(lower(u64::from_be_bytes(*head) >> (64 - 8 * len as u32)))
            }
            _ => TagName::of_long(&window[..len]),
        };
        Some((name, at + len))
    }

    #[inline]
    pub const fn of(raw: &[u8]) -> TagName {
        if raw.len() > 8 {
            return TagName::of_long(raw);
        }
        let mut packed = 0u64;
        let mut index = 0;
        while index < raw.len() {
            packed = (packed << 8) | raw[index].to_ascii_lowercase() as u64;
            index += 1;
        }
        TagName(packed)
    }

    /// Returns the name of `len` bytes, at least one and at most eight, that `number` holds in
    /// lower case, the first byte lowest.
    #[inline(always)]
    pub(super) fn of_number(number: u64, len: usize) -> TagName {
        TagName(number.swap_bytes() >> (64 - 8 * len as u32))
    }

    const fn of_long(raw: &[u8]) -> TagName {
        let mut index = 0;
        while index < LONG.len() {
            if raw.eq_ignore_ascii_case(LONG[index]) {
                return TagName(LONG_BASE + index as u64);
            }
            index += 1;
        }
        TagName::OTHER
    }

    #[inline(always)]
    pub fn traits(self) -> Traits {
        let slot = slot_of(self);
        // There is no branch, because it cannot be predicted whether an element has traits.
        let is_known = 0u8.wrapping_sub(u8::from(NAMES[slot] == self.0));
        Traits(TRAITS[slot] & is_known)
    }
}

/// Returns the eight bytes in ASCII lower case.
#[inline(always)]
fn lower(bytes: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    let low_bits = bytes & (0x7F * ONES);
    let from_a = low_bits + (0x80 - b'A' as u64) * ONES;
    let after_z = low_bits + (0x7F - b'Z' as u64) * ONES;
    let is_upper = (from_a ^ after_z) & !bytes & (0x80 * ONES);
    bytes | is_upper >> 2
}

/// What an element means to a crawler, as a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits(u8);

impl Traits {
    /// Does not separate words: `<b>f</b>oo` is one word.
    pub const INLINE: Traits = Traits(1);
    /// Has attributes that matter to a crawler.
    pub const ATTRIBUTES: Traits = Traits(2);
    /// Its start tag does something besides separating words.
    pub const STARTS: Traits = Traits(4);
    /// Its end tag does something besides separating words.
    pub const ENDS: Traits = Traits(8);
    /// Its content is not markup.
    pub const RAW: Traits = Traits(16);
    /// Is the root of foreign content.
    pub const FOREIGN: Traits = Traits(32);

    /// Reports whether an element has no effect except that it may separate words.
    #[inline(always)]
    pub const fn is_plain(self) -> bool {
        self.0 & !Traits::INLINE.0 == 0
    }

    #[inline(always)]
    pub const fn has(self, any: Traits) -> bool {
        self.0 & any.0 != 0
    }
}

const SLOT_BITS: u32 = 8;
/// Found by trying: no two names of [`MEANINGS`] share a slot, which the compiler checks.
const SLOT_KEY: u64 = 0x5DBE_3023_A906_922F;

#[inline(always)]
const fn slot_of(name: TagName) -> usize {
    (name.0.wrapping_mul(SLOT_KEY) >> (64 - SLOT_BITS)) as usize
}

static NAMES: [u64; 1 << SLOT_BITS] = TABLE.0;
static TRAITS: [u8; 1 << SLOT_BITS] = TABLE.1;
const TABLE: ([u64; 1 << SLOT_BITS], [u8; 1 << SLOT_BITS]) = {
    let (mut names, mut traits) = ([0; 1 << SLOT_BITS], [0; 1 << SLOT_BITS]);
    let mut line = 0;
    while line < MEANINGS.len() {
        let (meaning, elements) = MEANINGS[line];
        let mut index = 0;
        while index < elements.len() {
            let slot = slot_of(elements[index]);
            assert!(names[slot] == 0 || names[slot] == elements[index].0, "names share a slot");
            names[slot] = elements[index].0;
            traits[slot] |= meaning.0;
            index += 1;
        }
        line += 1;
    }
    (names, traits)
};

#[rustfmt::skip]
const MEANINGS: [(Traits, &[TagName]); 6] = {
    use TagName as T;
    [
        (Traits::INLINE, &[
            T::A, T::ABBR, T::ACRONYM, T::B, T::BDI, T::BDO, T::BIG, T::CITE, T::CODE, T::DATA,
            T::DEL, T::DFN, T::EM, T::FONT, T::I, T::INS, T::KBD, T::LABEL, T::MARK, T::NOBR, T::Q,
            T::S, T::SAMP, T::SMALL, T::SPAN, T::STRIKE, T::STRONG, T::SUB, T::SUP, T::TIME, T::TT,
            T::U, T::VAR, T::WBR,
        ]),
        (Traits::ATTRIBUTES, &[
            T::A, T::AREA, T::LINK, T::IFRAME, T::FRAME, T::META, T::BASE, T::HTML,
        ]),
        (Traits::STARTS, &[
            T::A, T::SCRIPT, T::STYLE, T::TITLE, T::IFRAME, T::NOEMBED, T::NOFRAMES, T::AREA,
            T::LINK, T::FRAME, T::META, T::BASE, T::HTML, T::TEMPLATE, T::NOSCRIPT,
        ]),
        (Traits::ENDS, &[
            T::A, T::TITLE, T::TEMPLATE, T::NOSCRIPT, T::SCRIPT, T::STYLE, T::IFRAME, T::NOEMBED,
            T::NOFRAMES,
        ]),
        (Traits::RAW, &[
            T::SCRIPT, T::STYLE, T::XMP, T::IFRAME, T::NOEMBED, T::NOFRAMES, T::TITLE, T::TEXTAREA,
            T::PLAINTEXT,
        ]),
        (Traits::FOREIGN, &[T::SVG, T::MATH]),
    ]
};

impl std::fmt::Debug for TagName {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.0.to_be_bytes();
        let start = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
        let name = match self.0.checked_sub(LONG_BASE) {
            Some(index) => LONG.get(index as usize).copied().unwrap_or_default(),
            None => &bytes[start..],
        };
        write!(out, "<{}>", String::from_utf8_lossy(name))
    }
}

macro_rules! names {
    ($($constant:ident $text:literal)*) => {
        impl TagName {
            $(pub const $constant: TagName = TagName::of($text.as_bytes());)*
        }
    };
}

#[rustfmt::skip]
names! {
    A "a"  ABBR "abbr"  ACRONYM "acronym"  ANNOTATION_XML "annotation-xml"  AREA "area"  B "b"
    BASE "base"  BDI "bdi"  BDO "bdo"  BIG "big"  BLOCKQUOTE "blockquote"  BODY "body"  BR "br"
    CENTER "center"  CITE "cite"  CODE "code"  DATA "data"  DD "dd"  DEL "del"  DESC "desc"
    DFN "dfn"  DIV "div"  DL "dl"  DT "dt"  EM "em"  EMBED "embed"  FONT "font"
    FOREIGN_OBJECT "foreignobject"  FRAME "frame"  H1 "h1"  H2 "h2"  H3 "h3"  H4 "h4"  H5 "h5"
    H6 "h6"  HEAD "head"  HR "hr"  HTML "html"  I "i"  IFRAME "iframe"  IMG "img"  INS "ins"
    KBD "kbd"  LABEL "label"  LI "li"  LINK "link"  LISTING "listing"  MARK "mark"  MATH "math"
    MENU "menu"  META "meta"  MI "mi"  MN "mn"  MO "mo"  MS "ms"  MTEXT "mtext"  NOBR "nobr"
    NOEMBED "noembed"  NOFRAMES "noframes"  NOSCRIPT "noscript"  OL "ol"  P "p"
    PLAINTEXT "plaintext"  PRE "pre"  Q "q"  RUBY "ruby"  S "s"  SAMP "samp"  SCRIPT "script"
    SMALL "small"  SPAN "span"  STRIKE "strike"  STRONG "strong"  STYLE "style"  SUB "sub"
    SUP "sup"  SVG "svg"  TABLE "table"  TEMPLATE "template"  TEXTAREA "textarea"  TIME "time"
    TITLE "title"  TT "tt"  U "u"  UL "ul"  VAR "var"  WBR "wbr"  XMP "xmp"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_compare_without_case_and_in_full() {
        assert_eq!(TagName::of(b"ForeignObject"), TagName::FOREIGN_OBJECT);
        assert_ne!(TagName::of(b"foreignobjec"), TagName::FOREIGN_OBJECT);
        assert_ne!(TagName::of(b"a\0"), TagName::A);
        assert_eq!(TagName::of(b"a-name-of-more-than-16-bytes"), TagName::OTHER);
        assert_eq!(TagName::of(b"blockquot"), TagName::OTHER);
        assert_ne!(TagName::BLOCKQUOTE, TagName::PLAINTEXT);
        assert_eq!(format!("{:?}{:?}", TagName::BLOCKQUOTE, TagName::A), "<blockquote><a>");
    }

    #[test]
    fn names_read_in_a_window_are_those_read_byte_by_byte() {
        let names = [
            "a",
            "A",
            "h1",
            "DiV",
            "template",
            "TEXTAREA",
            "blockquote",
            "PlainText",
            "a-name",
            "foreignObject",
            "annotation-xml",
            "b\u{c4}\u{e9}",
            "z[@`{~",
            "x\u{7f}",
        ];
        for name in names {
            for end in ["> and more that follows", " class=a and more", "/> and so on and on"] {
                let chunk = format!("<{name}{end}");
                let (read, at) = TagName::read(chunk.as_bytes(), 1).expect("a name that ends");
                assert_eq!((read, at), (TagName::of(name.as_bytes()), 1 + name.len()), "{chunk}");
            }
        }
        for not in ["<1a> and more that follows", "<a>", "<abcdefghijklmnopq>"] {
            assert_eq!(TagName::read(not.as_bytes(), 1), None, "{not}");
        }
    }

    #[test]
    fn elements_mean_what_the_table_says_and_others_nothing() {
        for (meaning, elements) in MEANINGS {
            let meant: Vec<_> = elements.iter().filter(|name| name.traits().has(meaning)).collect();
            assert_eq!(meant.len(), elements.len());
        }
        assert!(!TagName::B.traits().has(Traits::ENDS));
        for name in [TagName::DIV, TagName::OTHER, TagName::of(b"aa"), TagName::FOREIGN_OBJECT] {
            assert_eq!(name.traits(), Traits(0), "{name:?}");
        }
    }
}

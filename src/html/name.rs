//! Names of elements as numbers: a name of up to eight bytes is its own lower-cased bytes in a
//! `u64`, so that it is compared and matched in a register and two names are never confused. The
//! few longer ones that matter have numbers that no name's bytes make.

/// An element's name, ASCII-lower-cased. Longer names than [`LONG`] knows are all
/// [`TagName::OTHER`].
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct TagName(u64);

/// Names of more than eight bytes. A name begins with a letter, so none of eight bytes is a number
/// as large as these.
const LONG: [&[u8]; 4] = [b"blockquote", b"plaintext", b"foreignobject", b"annotation-xml"];
const LONG_BASE: u64 = 0xFF << 56;

impl TagName {
    /// The longest name that is told apart.
    pub const BYTES_MAX: usize = 16;
    pub const OTHER: TagName = TagName(0);

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
}

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
}

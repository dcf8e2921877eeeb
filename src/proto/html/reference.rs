//! Character references (`&amp;`, `&#8217;`): the full table of the HTML standard, longest match,
//! and the rules that differ inside attributes (WHATWG HTML 13.2.5.72 to 13.2.5.80).
//!
//! The table is text, one name a line in byte order. A line `name !c6` is a name that is also valid
//! without its semicolon; a line `name 2242 338` is a name for two characters. The compiler builds
//! an index of its lines. A look-up is a binary search over the names in the text itself, among
//! those with the same first letter.

/// The result of reading at an ampersand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// More bytes are needed to decide.
    Incomplete,
    /// There is no reference: the ampersand stands for itself.
    None,
    /// `byte_count` bytes after the ampersand stand for these one or two characters.
    Found { byte_count: usize, first: char, second: Option<char> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Text,
    Attribute,
}

/// The longest name, without its semicolon: `CounterClockwiseContourIntegral`.
const NAME_BYTES_MAX: usize = 31;
/// The longest name with its ampersand and the byte that decides.
pub const HELD_BYTES_MAX: usize = NAME_BYTES_MAX + 2;
/// The longest and the shortest name that needs no semicolon.
const LEGACY_BYTES_MAX: usize = 6;
const LEGACY_BYTES_MIN: usize = 2;

const TABLE: &[u8] = include_bytes!("entities.txt");
const NAME_COUNT: usize = 2125;
static LINES: [u16; NAME_COUNT] = line_starts();

/// Reads the reference whose ampersand stands just before `bytes`. `last` says that nothing follows
/// `bytes`.
pub fn read(bytes: &[u8], place: Place, last: bool) -> Reference {
    match bytes.first() {
        None if last => Reference::None,
        None => Reference::Incomplete,
        Some(b'#') => read_numeric(bytes, last),
        Some(byte) if byte.is_ascii_alphanumeric() => read_named(bytes, place, last),
        Some(_) => Reference::None,
    }
}

/// Appends the meaning of `raw`, a whole value or text: references replaced, line ends normalised,
/// NUL replaced.
pub fn decode(raw: &[u8], place: Place, out: &mut Vec<u8>) {
    let mut rest = raw;
    while let Some(index) = memchr::memchr3(b'&', b'\r', 0, rest) {
        out.extend_from_slice(&rest[..index]);
        let special = rest[index];
        rest = &rest[index + 1..];
        match special {
            b'\r' => {
                out.push(b'\n');
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            }
            0 => push_char(out, char::REPLACEMENT_CHARACTER),
            _ => match read(rest, place, true) {
                Reference::Found { byte_count, first, second } => {
                    push_char(out, first);
                    second.into_iter().for_each(|second| push_char(out, second));
                    rest = &rest[byte_count..];
                }
                Reference::None | Reference::Incomplete => out.push(b'&'),
            },
        }
    }
    out.extend_from_slice(rest);
}

pub fn push_char(out: &mut Vec<u8>, character: char) {
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Puts `raw`, a reference that is not complete yet, into `held`. A numeric one (`&#000…`) is
/// shortened without changing its meaning, so that a reference of any length is carried between
/// chunks in a few bytes.
pub fn hold(raw: &[u8], held: &mut Vec<u8>) {
    held.clear();
    let digits_start = match raw.get(..3) {
        Some(b"&#x" | b"&#X") => 3,
        Some([b'&', b'#', _]) => 2,
        _ => return held.extend_from_slice(raw),
    };
    let (prefix, digits) = raw.split_at(digits_start);
    let zero_count = digits.iter().take_while(|byte| **byte == b'0').count();
    // One digit stays, because a reference without any digit is not a reference.
    let is_zero = zero_count > 0 && zero_count == digits.len();
    let digits = &digits[zero_count - usize::from(is_zero)..];
    held.extend_from_slice(prefix);
    // Nine digits exceed U+10FFFF in either base, and more digits do not change that.
    held.extend_from_slice(&digits[..digits.len().min(9)]);
}

fn read_numeric(bytes: &[u8], last: bool) -> Reference {
    let hex = matches!(bytes.get(1), Some(b'x' | b'X'));
    let start = if hex { 2 } else { 1 };
    let base = if hex { 16 } else { 10 };
    let mut value = 0u32;
    let mut end = start;
    while let Some(digit) = bytes.get(end).and_then(|byte| char::from(*byte).to_digit(base)) {
        value = value.saturating_mul(base).saturating_add(digit);
        end += 1;
    }
    match bytes.get(end) {
        None if !last => Reference::Incomplete,
        _ if end == start => Reference::None,
        next => Reference::Found {
            byte_count: end + usize::from(next == Some(&b';')),
            first: numeric_char(value),
            second: None,
        },
    }
}

/// Returns the character of a numeric reference (13.2.5.80): a number that is no character becomes
/// U+FFFD, and the C1 range is read as windows-1252.
fn numeric_char(value: u32) -> char {
    #[rustfmt::skip]
    const C1: [u16; 32] = [
        0x20AC, 0x81, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021,
        0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0x8D, 0x017D, 0x8F,
        0x90, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
        0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x9D, 0x017E, 0x0178,
    ];
    let value = match value {
        0 => return char::REPLACEMENT_CHARACTER,
        0x80..=0x9F => u32::from(C1[value as usize - 0x80]),
        _ => value,
    };
    char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Reads the names that make up nine of ten references on real pages, without a search.
#[inline]
fn read_common(bytes: &[u8]) -> Option<Reference> {
    const COMMON: [(&[u8], char); 6] = [
        (b"amp;", '&'),
        (b"quot;", '"'),
        (b"nbsp;", '\u{a0}'),
        (b"lt;", '<'),
        (b"gt;", '>'),
        (b"raquo;", '\u{bb}'),
    ];
    let (name, first) = COMMON.into_iter().find(|(name, _)| bytes.starts_with(name))?;
    Some(Reference::Found { byte_count: name.len(), first, second: None })
}

fn read_named(bytes: &[u8], place: Place, last: bool) -> Reference {
    // Names are alphanumeric, so a name with a semicolon can only be the whole run.
    let run = bytes.iter().take(NAME_BYTES_MAX + 1);
    let run = run.take_while(|byte| byte.is_ascii_alphanumeric()).count();
    if run == bytes.len() && !last && run <= NAME_BYTES_MAX {
        return Reference::Incomplete;
    }
    if let Some(found) = read_common(bytes) {
        return found;
    }
    if bytes.get(run) == Some(&b';')
        && let Some(entry) = look_up(&bytes[..run])
    {
        return entry.found(run + 1);
    }
    // Most ampersands in addresses begin a parameter, not a name.
    if !begins_legacy(bytes) {
        return Reference::None;
    }
    for len in (LEGACY_BYTES_MIN..=run.min(LEGACY_BYTES_MAX)).rev() {
        if let Some(entry) = look_up(&bytes[..len])
            && entry.legacy
        {
            // 13.2.5.73: `?a=1&copy=2` in an attribute is not a copyright sign.
            let next = bytes.get(len).copied().unwrap_or(0);
            if place == Place::Attribute && (next == b'=' || next.is_ascii_alphanumeric()) {
                return Reference::None;
            }
            return entry.found(len);
        }
    }
    Reference::None
}

/// Reports whether a name that needs no semicolon may begin with the first two of these bytes.
#[inline]
fn begins_legacy(bytes: &[u8]) -> bool {
    let [first, second, ..] = bytes else { return false };
    LEGACY_HEADS[usize::from(first & 0x7F)] >> (second & 0x3F) & 1 == 1
}

/// For the first byte of a legacy name, a bit for each possible second byte. A digit may be taken
/// for a letter, which costs a search and nothing else.
static LEGACY_HEADS: [u64; 128] = {
    let mut heads = [0; 128];
    let mut at = 0;
    let mut start = 0;
    while at < TABLE.len() {
        match TABLE[at] {
            b'\n' => start = at + 1,
            b'!' => heads[TABLE[start] as usize] |= 1 << (TABLE[start + 1] & 0x3F),
            _ => {}
        }
        at += 1;
    }
    heads
};

struct Entry {
    legacy: bool,
    first: char,
    second: Option<char>,
}

impl Entry {
    fn found(&self, byte_count: usize) -> Reference {
        Reference::Found { byte_count, first: self.first, second: self.second }
    }
}

fn look_up(name: &[u8]) -> Option<Entry> {
    let first = usize::from(*name.first()? & 0x7F);
    let lines = &LINES[usize::from(FIRST_LINES[first])..usize::from(FIRST_LINES[first + 1])];
    let index = lines.binary_search_by(|start| name_at(*start).cmp(name)).ok()?;
    let line = &TABLE[usize::from(lines[index]) + name.len() + 1..];
    let line = &line[..memchr::memchr(b'\n', line)?];
    let (legacy, codes) = match line.strip_prefix(b"!") {
        Some(codes) => (true, codes),
        None => (false, line),
    };
    let mut codes = codes.split(|byte| *byte == b' ').map(|code| {
        let digits = code.iter().filter_map(|byte| char::from(*byte).to_digit(16));
        char::from_u32(digits.fold(0, |value, digit| value * 16 + digit))
    });
    Some(Entry { legacy, first: codes.next()??, second: codes.next().flatten() })
}

fn name_at(start: u16) -> &'static [u8] {
    let line = &TABLE[usize::from(start)..];
    let end = line.iter().position(|byte| *byte == b' ').unwrap_or(0);
    &line[..end]
}

/// For each first byte, how many names begin with a smaller one.
static FIRST_LINES: [u16; 129] = {
    let starts = line_starts();
    let mut first_lines = [NAME_COUNT as u16; 129];
    let mut byte = 0;
    let mut line = 0;
    while byte < first_lines.len() {
        while line < NAME_COUNT && (TABLE[starts[line] as usize] as usize) < byte {
            line += 1;
        }
        first_lines[byte] = line as u16;
        byte += 1;
    }
    first_lines
};

const fn line_starts() -> [u16; NAME_COUNT] {
    assert!(TABLE.len() <= u16::MAX as usize, "an index of two bytes must reach every line");
    let mut starts = [0u16; NAME_COUNT];
    let mut line = 0;
    let mut at = 0;
    let mut start = 0;
    while at < TABLE.len() {
        if TABLE[at] == b'\n' {
            starts[line] = start as u16;
            line += 1;
            start = at + 1;
        }
        at += 1;
    }
    assert!(line == NAME_COUNT);
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(raw: &str) -> String {
        let mut out = Vec::new();
        decode(raw.as_bytes(), Place::Attribute, &mut out);
        String::from_utf8(out).expect("decoding keeps UTF-8")
    }

    #[test]
    fn the_table_is_in_byte_order_and_every_line_reads() {
        let names: Vec<_> = LINES.iter().map(|start| name_at(*start)).collect();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(names.iter().all(|name| look_up(name).is_some()));
        assert_eq!(names.iter().map(|name| name.len()).max(), Some(NAME_BYTES_MAX));
        let legacy = || names.iter().filter(|name| look_up(name).is_some_and(|it| it.legacy));
        assert_eq!(legacy().count(), 106);
        assert_eq!(legacy().map(|name| name.len()).max(), Some(LEGACY_BYTES_MAX));
        assert_eq!(legacy().map(|name| name.len()).min(), Some(LEGACY_BYTES_MIN));
    }

    #[test]
    fn names_known_by_heart_mean_what_the_table_says() {
        for (name, byte_count) in
            [("amp", 4), ("quot", 5), ("nbsp", 5), ("lt", 3), ("gt", 3), ("raquo", 6)]
        {
            let by_heart = read_common(format!("{name};x").as_bytes());
            let entry = look_up(name.as_bytes()).expect("in the table");
            assert_eq!(by_heart, Some(entry.found(byte_count)), "{name}");
        }
        assert_eq!(read_common(b"ampere;"), None);
    }

    #[test]
    fn two_bytes_tell_which_names_may_need_no_semicolon() {
        let names = LINES.iter().map(|start| name_at(*start));
        let legacy = names.filter(|name| look_up(name).is_some_and(|entry| entry.legacy));
        assert!(legacy.into_iter().all(begins_legacy));
        for not in ["id=1", "key=2", "b", "", "1x"] {
            assert!(!begins_legacy(not.as_bytes()), "{not}");
        }
    }

    #[test]
    fn query_parameters_that_look_like_references_stay() {
        assert_eq!(attribute("?a=1&copy=2&reg&amp;x"), "?a=1&copy=2\u{ae}&x");
        assert_eq!(attribute("?a&notit;"), "?a&notit;");
        assert_eq!(attribute("&copy"), "\u{a9}");
        assert_eq!(attribute("&NotEqualTilde;"), "\u{2242}\u{338}");
    }

    #[test]
    fn numeric_references_read_c1_as_windows_1252() {
        assert_eq!(
            attribute("&#146;&#x80;&#x110000;&#0;&#xD800;"),
            "\u{2019}\u{20ac}\u{fffd}\u{fffd}\u{fffd}"
        );
        assert_eq!(attribute("&#;&#x;&#xg"), "&#;&#x;&#xg");
    }

    #[test]
    fn a_growing_numeric_reference_is_compacted_without_a_change_of_meaning() {
        let mut held = Vec::new();
        for (long, short) in [
            ("&#x000000041", "&#x41"),
            ("&#0000", "&#0"),
            ("&#65", "&#65"),
            ("&#x", "&#x"),
            ("&#", "&#"),
            ("&am", "&am"),
        ] {
            hold(long.as_bytes(), &mut held);
            assert_eq!(held, short.as_bytes());
        }
        hold(b"&#99999999999999999999", &mut held);
        assert_eq!(attribute(std::str::from_utf8(&held).expect("ASCII")), "\u{fffd}");
    }
}

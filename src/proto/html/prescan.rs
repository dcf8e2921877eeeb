//! Searches a page's first bytes for a declared charset, before any parsing (WHATWG HTML 13.2.3.2,
//! "prescan a byte stream to determine its encoding").

use super::meta::charset_label;
use super::tokenizer::is_space;
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252, X_USER_DEFINED};

/// Returns the encoding that a `meta` in `head` declares. A declaration cut by the end of `head`
/// does not count.
pub fn prescan(head: &[u8]) -> Option<&'static Encoding> {
    if head.starts_with(b"<\0?\0x\0") {
        return Some(UTF_16LE);
    }
    if head.starts_with(b"\0<\0?\0x") {
        return Some(UTF_16BE);
    }
    let mut rest = head;
    loop {
        rest = &rest[memchr::memchr(b'<', rest)?..];
        if rest.starts_with(b"<!--") {
            // The two dashes may be those of `<!--` itself.
            rest = &rest[2 + memchr::memmem::find(&rest[2..], b"-->")? + 3..];
        } else if rest.get(1..5).is_some_and(|name| name.eq_ignore_ascii_case(b"meta"))
            && rest.get(5).is_some_and(|byte| is_space(*byte) || *byte == b'/')
        {
            rest = &rest[5..];
            if let Some(encoding) = read_meta(&mut rest)? {
                return Some(encoding);
            }
        } else if is_tag(rest) {
            let end = rest.iter().position(|byte| is_space(*byte) || *byte == b'>')?;
            rest = &rest[end..];
            while next_attribute(&mut rest)?.is_some() {}
        } else if matches!(rest.get(1), Some(b'!' | b'/' | b'?')) {
            rest = &rest[memchr::memchr(b'>', rest)?..];
        } else {
            rest = &rest[1..];
        }
    }
}

/// Returns the encoding that a label in a page means. A page that calls itself UTF-16, yet could be
/// read up to the label, is UTF-8.
pub fn declared(label: &[u8]) -> Option<&'static Encoding> {
    let encoding = Encoding::for_label(label)?;
    Some(match encoding {
        _ if encoding == UTF_16LE || encoding == UTF_16BE => UTF_8,
        _ if encoding == X_USER_DEFINED => WINDOWS_1252,
        _ => encoding,
    })
}

fn is_tag(rest: &[u8]) -> bool {
    let name = rest[1..].strip_prefix(b"/").unwrap_or(&rest[1..]);
    name.first().is_some_and(u8::is_ascii_alphabetic)
}

/// Reads a `meta` element. `None`: the bytes ran out. `Some(None)`: this element declares no
/// encoding.
#[expect(clippy::option_option)]
fn read_meta(rest: &mut &[u8]) -> Option<Option<&'static Encoding>> {
    // Which of the names that count have come; only the first attribute of each name counts. A list
    // of all names would take time that grows with the square of their number.
    const NAMES: [&[u8]; 3] = [b"http-equiv", b"content", b"charset"];
    let mut seen = [false; NAMES.len()];
    let mut got_pragma = false;
    let mut need_pragma = None;
    let mut charset = None;
    while let Some(Attribute { name, value }) = next_attribute(rest)? {
        let known = NAMES.iter().position(|known| *known == name);
        if known.is_none_or(|index| std::mem::replace(&mut seen[index], true)) {
            continue;
        }
        match name.as_slice() {
            b"http-equiv" => got_pragma |= value.eq_ignore_ascii_case(b"content-type"),
            b"content" if charset.is_none() => {
                if let Some(encoding) = charset_label(&value).and_then(declared) {
                    charset = Some(encoding);
                    need_pragma = Some(true);
                }
            }
            b"charset" => {
                charset = declared(&value);
                need_pragma = Some(false);
            }
            _ => {}
        }
    }
    let usable = need_pragma.is_some_and(|needed| !needed || got_pragma);
    Some(charset.filter(|_| usable))
}

struct Attribute {
    /// The name in lower case.
    name: Vec<u8>,
    value: Vec<u8>,
}

/// Does the standard's "get an attribute". `None`: the bytes ran out. `Some(None)`: the tag's end;
/// `rest` is at its `>`.
#[expect(clippy::option_option)]
fn next_attribute(rest: &mut &[u8]) -> Option<Option<Attribute>> {
    skip_while(rest, |byte| is_space(byte) || byte == b'/')?;
    if rest.first()? == &b'>' {
        return Some(None);
    }
    let is_name = |byte: u8| !is_space(byte) && !matches!(byte, b'/' | b'>');
    // A leading `=` belongs to the name.
    let tail = rest[1..].iter().position(|byte| *byte == b'=' || !is_name(*byte))?;
    let name = rest[..=tail].to_ascii_lowercase();
    *rest = &rest[tail + 1..];
    skip_while(rest, is_space)?;
    let mut attribute = Attribute { name, value: Vec::new() };
    let Some(after) = rest.strip_prefix(b"=") else {
        return Some(Some(attribute));
    };
    *rest = after;
    skip_while(rest, is_space)?;
    match *rest.first()? {
        b'>' => {}
        quote @ (b'"' | b'\'') => {
            let end = memchr::memchr(quote, &rest[1..])?;
            attribute.value = rest[1..=end].to_vec();
            *rest = &rest[end + 2..];
        }
        _ => {
            let end = rest.iter().position(|byte| is_space(*byte) || *byte == b'>')?;
            attribute.value = rest[..end].to_vec();
            *rest = &rest[end..];
        }
    }
    Some(Some(attribute))
}

fn skip_while(rest: &mut &[u8], is_skipped: impl Fn(u8) -> bool) -> Option<()> {
    *rest = &rest[rest.iter().position(|byte| !is_skipped(*byte))?..];
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(head: &str) -> Option<&'static str> {
        prescan(head.as_bytes()).map(Encoding::name)
    }

    #[test]
    fn the_first_attribute_of_a_name_counts() {
        assert_eq!(found("<meta charset=koi8-r charset=gbk>"), Some("KOI8-R"));
        assert_eq!(found("<meta a a=b charset=koi8-r a=charset>"), Some("KOI8-R"));
        let content = "content='text/html; charset=gbk'";
        let twice = format!("<meta http-equiv=x http-equiv=content-type {content}>");
        assert_eq!(found(&twice), None, "only the first http-equiv counts");
        let pragma = format!("<meta {content} {content} http-equiv=Content-Type>");
        assert_eq!(found(&pragma), Some("GBK"));
    }

    #[test]
    fn a_declaration_that_is_cut_commented_or_in_an_attribute_is_none() {
        for head in [
            "<meta charset=koi8-r",
            "<!-- <meta charset=koi8-r> ",
            "<a title='<meta charset=koi8-r>' ",
            "<metacharset=koi8-r>",
            "<meta charset=no-such-charset>",
        ] {
            assert_eq!(found(head), None, "{head}");
        }
        assert_eq!(found("<!--><meta charset=koi8-r>"), Some("KOI8-R"));
        assert_eq!(found("<meta/charset=utf-16>"), Some("UTF-8"));
    }
}

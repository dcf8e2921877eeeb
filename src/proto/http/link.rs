//! The Link header (RFC 8288): links that an answer names in its head, whatever its body is.
//!
//! The bytes of one field value flow in, [`HeaderLink`]s flow out, one by one and without a copy of
//! the targets. A syntax error ends the value (RFC 8288 B.2): the links before it count, nothing
//! behind it does.

use std::borrow::Cow;

/// One link of a Link header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderLink<'v> {
    /// The text between `<` and `>`, trimmed; not yet resolved.
    pub target: &'v [u8],
    /// Relation types, separated by blanks; empty if none is named. The first `rel` counts.
    pub rel: Cow<'v, [u8]>,
    /// The link is about another resource than the answer (RFC 8288 3.2).
    pub has_anchor: bool,
}

/// Returns the links of one field value, in order.
pub fn header_links(value: &[u8]) -> impl Iterator<Item = HeaderLink<'_>> {
    let mut rest = value;
    std::iter::from_fn(move || {
        // Empty elements of a list are skipped (RFC 9110 5.6.1).
        while let [b',' | b' ' | b'\t', behind @ ..] = rest {
            rest = behind;
        }
        let Some((link, behind)) = parse_link(rest) else {
            rest = &[];
            return None;
        };
        rest = behind;
        Some(link)
    })
}

/// Reads a link at the start of `text`. Returns it and the text behind it.
fn parse_link(text: &[u8]) -> Option<(HeaderLink<'_>, &[u8])> {
    let text = text.strip_prefix(b"<")?;
    let end = memchr::memchr(b'>', text)?;
    let (target, mut rest) = (text[..end].trim_ascii(), &text[end + 1..]);
    let (mut rel, mut has_anchor) = (None, false);
    loop {
        rest = without_blanks(rest);
        rest = match rest {
            [] | [b',', ..] => break,
            [b';', behind @ ..] => without_blanks(behind),
            _ => return None,
        };
        let name_end = rest.iter().position(|byte| is_end_of_name(*byte)).unwrap_or(rest.len());
        let (name, behind) = rest.split_at(name_end);
        rest = without_blanks(behind);
        let mut value = Cow::Borrowed(&b""[..]);
        if let [b'=', behind @ ..] = rest {
            (value, rest) = parse_value(without_blanks(behind));
        }
        if name.eq_ignore_ascii_case(b"rel") {
            rel.get_or_insert(value);
        } else {
            has_anchor |= name.eq_ignore_ascii_case(b"anchor");
        }
    }
    Some((HeaderLink { target, rel: rel.unwrap_or_default(), has_anchor }, rest))
}

/// Reads a token or a quoted string. Returns it and the text behind it. A string without a closing
/// quote ends with the text.
fn parse_value(text: &[u8]) -> (Cow<'_, [u8]>, &[u8]) {
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let end = text.iter().position(|byte| matches!(byte, b';' | b',')).unwrap_or(text.len());
        return (Cow::Borrowed(text[..end].trim_ascii_end()), &text[end..]);
    };
    let mut unescaped: Option<Vec<u8>> = None;
    let mut at = 0;
    loop {
        let (byte, taken) = match quoted.get(at..).unwrap_or_default() {
            [] => break,
            [b'"', ..] => break,
            [b'\\', escaped, ..] => (*escaped, 2),
            [byte, ..] => (*byte, 1),
        };
        if taken == 2 {
            unescaped.get_or_insert_with(|| quoted[..at].to_vec());
        }
        if let Some(unescaped) = &mut unescaped {
            unescaped.push(byte);
        }
        at += taken;
    }
    let value = unescaped.map_or(Cow::Borrowed(&quoted[..at]), Cow::Owned);
    (value, quoted.get(at + 1..).unwrap_or_default())
}

fn is_end_of_name(byte: u8) -> bool {
    matches!(byte, b'=' | b';' | b',' | b' ' | b'\t')
}

fn without_blanks(text: &[u8]) -> &[u8] {
    let blank_count = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    &text[blank_count..]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns target, relation types, and whether there is an anchor.
    fn links(value: &[u8]) -> Vec<(String, String, bool)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let told = |link: HeaderLink<'_>| (text(link.target), text(&link.rel), link.has_anchor);
        header_links(value).map(told).collect()
    }

    fn one(target: &str, rel: &str) -> Vec<(String, String, bool)> {
        vec![(target.into(), rel.into(), false)]
    }

    #[test]
    fn rfc_8288_3_links_are_read_with_their_relations() {
        assert_eq!(links(b"</p?page=2>; rel=\"next\""), one("/p?page=2", "next"));
        assert_eq!(links(b"<x>;rel=next"), one("x", "next"));
        assert_eq!(links(b"< x >\t; \tREL = \"next  foo\" ; title=a"), one("x", "next  foo"));
        assert_eq!(links(b"<x>"), one("x", ""));
        assert_eq!(links(b"<x>; rel"), one("x", ""));
        assert_eq!(links(b"<>; rel=next"), one("", "next"));
        let two = links(b"</1>; rel=\"prev\", </3>; rel=\"next\"");
        assert_eq!(two, [one("/1", "prev"), one("/3", "next")].concat());
    }

    #[test]
    fn rfc_8288_3_3_the_first_rel_counts_and_an_anchor_is_told() {
        assert_eq!(links(b"<x>; rel=prev; rel=next"), one("x", "prev"));
        let anchored = vec![("x".to_owned(), "next".to_owned(), true)];
        assert_eq!(links(b"<x>; anchor=\"#a\"; rel=next"), anchored);
    }

    #[test]
    fn commas_and_semicolons_inside_brackets_and_quotes_part_nothing() {
        let value = b"</a,b;c>; title=\"x, <y>; rel=prev \\\" \\\\\"; rel=\"next\", <z>; rel=prev";
        assert_eq!(links(value), [one("/a,b;c", "next"), one("z", "prev")].concat());
        assert_eq!(links(b"<x>; rel=\"ne\\xt\""), one("x", "next"));
        assert_eq!(links(b" ,, ,<x>; rel=next,,"), one("x", "next"));
    }

    #[test]
    fn lenient_what_stands_before_a_mistake_counts_and_what_follows_does_not() {
        assert_eq!(links(b"<x>; rel=next, y; rel=prev, <z>; rel=prev"), one("x", "next"));
        assert_eq!(links(b"<x>; rel=next, <y"), one("x", "next"));
        assert_eq!(links(b"<x> y; rel=next"), []);
        assert_eq!(links(b"<x>; rel=\"next"), one("x", "next"));
        assert_eq!(links(b"<x>; rel=\"next\\"), one("x", "next\\"));
        assert_eq!(links(b"x"), []);
        assert_eq!(links(b"<x>;;;; rel=next"), one("x", "next"));
    }

    #[test]
    fn a_value_cut_anywhere_gives_no_link_that_the_whole_has_not() {
        let value =
            b"</1>; rel=\"prev\"; title=\"a, <b>\", </2> ;rel=next, </3>;rel=\"x \\\" next\"";
        let whole = links(value);
        assert_eq!(whole.len(), 3);
        for end in 0..value.len() {
            let cut = links(&value[..end]);
            let whole_count = cut.len().saturating_sub(1);
            assert_eq!(cut[..whole_count], whole[..whole_count], "{end}");
            assert!(cut.iter().zip(&whole).all(|(one, other)| one.0 == other.0), "{end}");
        }
    }

    #[test]
    fn a_megabyte_of_quotes_is_read_once() {
        let value = [b"<x>; rel=\"".as_slice(), &b"\\\"".repeat(500_000)].concat();
        assert_eq!(links(&value)[0].1.len(), 500_000);
        let value = b"<x>;rel=next,".repeat(80_000);
        assert_eq!(header_links(&value).count(), 80_000);
    }
}

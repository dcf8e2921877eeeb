//! Normal form: one spelling for the many that lead to the same page, so that URL-seen can compare
//! bytes. A [`Url`] goes in, a [`Url`] comes out; to normalise twice gives the same as once.
//!
//! The parser has lower-cased scheme and host, dropped the default port, user info and fragment,
//! and resolved dot segments. These steps are done here, and are safe for the reasons given:
//! 1. Escapes: hex digits are written in upper case, unreserved characters decoded (RFC 3986
//!    6.2.2). What RFC 3986 does not allow is encoded (`[`, `|`, a `%` that starts no escape):
//!    servers decode it, and strict servers refuse the spelling that it had.
//! 2. The dot at the end of a host is dropped: it is the same name in DNS, and the same host to be
//!    polite to.
//! 3. Tracking and session parameters are dropped (see `params`), `;jsessionid=` in the path too.
//! 4. Empty parameters are dropped. A query without parameters is dropped with its `?`.
//!
//! The order of parameters stays as it was found. It is sorted only for the comparison, and the
//! page is asked for as some page linked to it (see `compared`).
//!
//! Four changes are refused, because servers do treat the spellings as different: collapsing `//`
//! in a path (`/web/http://a/` in archives), dropping `index.html`, `www.` or a final slash, `b=`
//! as `b`, `+` as `%20`.

use super::params::{UnwantedParams, params, split_at_byte};
use super::run::path_run;
use super::scratch::Room;
use super::{Parts, Url};
use crate::sys::scan;

/// Brings URLs to normal form. Built once per core from the operator's settings, and used for every
/// link.
pub struct Normaliser {
    unwanted: UnwantedParams,
}

impl Normaliser {
    /// Makes a normaliser. `extra_params` are names of query parameters to drop besides the known
    /// ones; case does not count, and a `*` at the end makes a name a prefix.
    pub fn new(extra_params: &[String]) -> Normaliser {
        let spelled = extra_params.iter().map(|name| {
            let mut out = String::with_capacity(name.len());
            append_spelled(name, &mut out);
            out
        });
        Normaliser { unwanted: UnwantedParams::new(spelled) }
    }

    /// Returns the normal form of `url`; a URL that has it already comes back without an
    /// allocation. If the normal form is over [`crate::base::limits::URL_BYTES_MAX`], the URL stays
    /// as it is.
    pub fn normalise(&self, url: Url) -> Url {
        if self.is_normal(url.host(), url.path_and_query()) {
            return url;
        }
        let mut room = Room::default();
        match self.rewrite(&url.text, url.parts, &mut room) {
            Some(parts) => Url { text: room.out.into_boxed_str(), parts },
            None => url,
        }
    }

    /// Reports whether the URL is in normal form. It may answer no for one that is.
    pub fn is_normal_url(&self, url: &Url) -> bool {
        self.is_normal(url.host(), url.path_and_query())
    }

    /// Reports whether [`Normaliser::rewrite`] would change nothing. It may answer no needlessly.
    pub(super) fn is_normal(&self, host: &str, target: &str) -> bool {
        let query = match spelled_until(target.as_bytes(), b'?') {
            Spelled::Whole => None,
            Spelled::Until(end) => Some(&target[end + 1..]),
            Spelled::Otherwise => return false,
        };
        !host.ends_with('.') && query.is_none_or(|query| self.is_normal_query(query))
    }

    fn is_normal_query(&self, query: &str) -> bool {
        if !matches!(spelled_until(query.as_bytes(), b'#'), Spelled::Whole) {
            return false;
        }
        params(query).all(|param| self.is_wanted(param))
    }

    #[inline]
    fn is_wanted(&self, param: &str) -> bool {
        let (key, value) = split_at_byte(param.as_bytes(), b'=');
        !param.is_empty() && !self.unwanted.covers(key, value.unwrap_or(b""))
    }

    /// Writes the normal form to `room.out`. `None` if it is too long.
    pub(super) fn rewrite(&self, text: &str, parts: Parts, room: &mut Room) -> Option<Parts> {
        let Parts { host_end, path_start, scheme, port } = parts;
        let (origin, target) = text.split_at(path_start as usize);
        let Room { spelled, out } = room;
        spelled.clear();
        spelled.reserve(target.len() + 16);
        append_spelled(target, spelled);
        let (path, query) = spelled.split_at(scan::find_byte(spelled.as_bytes(), 0, b'?'));

        out.clear();
        out.reserve(origin.len() + spelled.len());
        let host = without_root_dot(parts.host(text));
        out.push_str(&origin[..scheme.host_start()]);
        out.push_str(host);
        out.push_str(&origin[host_end as usize..]);
        let path_start = out.len();
        append_path(path, out);
        self.append_query(query.get(1..).unwrap_or(""), out);
        Parts::of(out, scheme, host.len(), path_start, port).ok()
    }

    fn append_query(&self, query: &str, out: &mut String) {
        let wanted = params(query).filter(|param| self.is_wanted(param));
        for (index, param) in wanted.enumerate() {
            out.push(if index == 0 { '?' } else { '&' });
            out.push_str(param);
        }
    }
}

/// Drops the root's dot. A host that is only dots, or has an empty label before the root, is not a
/// name and stays unchanged.
fn without_root_dot(host: &str) -> &str {
    match host.strip_suffix('.') {
        Some(name) if !name.is_empty() && !name.ends_with('.') => name,
        _ => host,
    }
}

// --- Path ---------------------------------------------------------------------------------------

fn append_path(path: &str, out: &mut String) {
    if scan::find_byte(path.as_bytes(), 0, b';') == path.len() {
        return out.push_str(path);
    }
    for (index, segment) in path.split('/').enumerate() {
        if index > 0 {
            out.push('/');
        }
        append_segment(segment, out);
    }
}

fn append_segment(segment: &str, out: &mut String) {
    let start = out.len();
    for (index, piece) in segment.split(';').enumerate() {
        if index > 0 {
            if is_session(piece) {
                continue;
            }
            out.push(';');
        }
        out.push_str(piece);
    }
    // `..;jsessionid=1` is an ordinary segment; without its parameter it would become a dot
    // segment.
    if matches!(&out[start..], "." | "..") {
        out.truncate(start);
        out.push_str(segment);
    }
}

fn is_session(piece: &str) -> bool {
    let name = piece.split_once('=').map_or("", |(name, _)| name);
    ["jsessionid", "phpsessid"].iter().any(|session| name.eq_ignore_ascii_case(session))
}

// --- Escapes ------------------------------------------------------------------------------------

/// Reports whether RFC 3986 2.3 makes an escape of this byte needless.
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Reports whether the byte may stand for itself in a path or a query (RFC 3986 3.3, 3.4).
const fn is_literal(byte: u8) -> bool {
    is_unreserved(byte)
        || matches!(byte, b'!' | b'$' | b'&'..=b',' | b';' | b'=' | b':' | b'@' | b'/' | b'?')
}

/// Reports whether the byte is a literal that can stand anywhere in a path in normal form. A `?`
/// ends the path, and a `;` may start a session.
pub(super) const fn is_plain(byte: u8) -> bool {
    is_literal(byte) && !matches!(byte, b'?' | b';')
}

const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        plain[byte] = is_plain(byte as u8);
        byte += 1;
    }
    plain
};

const LITERAL: [bool; 256] = {
    let mut literal = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        literal[byte] = is_literal(byte as u8);
        byte += 1;
    }
    literal
};

enum Spelled {
    Whole,
    /// In normal spelling up to the byte that was asked for, which is at this index.
    Until(usize),
    /// Some part has another spelling, or may have to be dropped.
    Otherwise,
}

/// Reports how far `text` is in normal spelling: as a whole, or up to the first `end`. A path ends
/// at `?`. In a query `?` and `;` are literals; it is asked for with `#`, which no URL of ours has.
fn spelled_until(text: &[u8], end: u8) -> Spelled {
    let mut index = path_run(text).end;
    while let Some(&byte) = text.get(index) {
        if PLAIN[byte as usize] {
            index += 1;
        } else if byte == end {
            return Spelled::Until(index);
        } else if byte == b'%' {
            let Some(code) = escape_at(text, index) else { return Spelled::Otherwise };
            if is_unreserved(code) || text[index + 1..index + 3].iter().any(u8::is_ascii_lowercase)
            {
                return Spelled::Otherwise;
            }
            index += 3;
        } else if end == b'#' && is_literal(byte) {
            index += 1;
        } else {
            return Spelled::Otherwise;
        }
    }
    Spelled::Whole
}

/// Appends `text` with every escape in its normal spelling.
fn append_spelled(text: &str, out: &mut String) {
    let bytes = text.as_bytes();
    let (mut index, mut copied) = (0, 0);
    while let Some(&byte) = bytes.get(index) {
        if LITERAL[byte as usize] {
            index += 1;
            continue;
        }
        // Between two bytes of one character there is nothing to copy, and a slice there would
        // panic.
        if copied < index {
            out.push_str(&text[copied..index]);
        }
        if let Some(code) = escape_at(bytes, index) {
            if is_unreserved(code) {
                out.push(code as char)
            } else {
                append_escape(code, out)
            }
            index += 3;
        } else {
            append_escape(byte, out);
            index += 1;
        }
        copied = index;
    }
    out.push_str(&text[copied..]);
}

/// Returns the byte that an escape at `index` stands for, if there is an escape.
fn escape_at(text: &[u8], index: usize) -> Option<u8> {
    let [b'%', high, low] = *text.get(index..index + 3)? else { return None };
    let digit = |digit: u8| (digit as char).to_digit(16);
    Some((digit(high)? << 4 | digit(low)?) as u8)
}

fn append_escape(code: u8, out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.push('%');
    out.push(DIGITS[(code >> 4) as usize] as char);
    out.push(DIGITS[(code & 15) as usize] as char);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::URL_BYTES_MAX;
    use crate::proto::url::tests::{corpus_text, url_text};
    use proptest::prelude::*;

    fn normal(text: &str) -> String {
        let url = Url::parse(text).expect(text);
        Normaliser::new(&["ref".into(), "x[y]".into()]).normalise(url).as_str().to_owned()
    }

    #[test]
    fn spellings_of_one_page_have_one_normal_form() {
        for spelling in [
            "HTTP://Example.org.:80/%7Ea/./b%2f?z=1&a=%c3%a9&utm_source=x#top",
            "http://example.org/~a/c/../b%2F;jsessionid=0A?z=1&&a=%C3%A9&PHPSESSID=1&ref=2",
        ] {
            assert_eq!(normal(spelling), "http://example.org/~a/b%2F?z=1&a=%C3%A9");
        }
    }

    #[test]
    fn a_query_without_parameters_goes_with_its_question_mark() {
        for spelling in ["http://a/?", "http://a/?&&", "http://a/?utm_source=x&x%5by%5d=1"] {
            assert_eq!(normal(spelling), "http://a/");
        }
    }

    #[test]
    fn parameters_keep_the_order_in_which_they_were_found() {
        assert_eq!(normal("http://a/?b=2&a=2&a&a=1"), "http://a/?b=2&a=2&a&a=1");
        assert_eq!(normal("http://a/?y=2026&utm_id=1&m=11"), "http://a/?y=2026&m=11");
    }

    #[test]
    fn what_servers_tell_apart_stays_apart() {
        for text in ["http://a//b//c/", "http://a/b?c=", "http://a/b?c", "http://www.a/index.html"]
        {
            assert_eq!(normal(text), text);
        }
    }

    #[test]
    fn a_session_is_cut_from_its_segment_alone() {
        assert_eq!(normal("http://a/b;v=1;JSESSIONID=9;w/c"), "http://a/b;v=1;w/c");
        assert_eq!(normal("http://a/..;jsessionid=1/b"), "http://a/..;jsessionid=1/b");
        assert_eq!(normal("http://a/b;jsessionid"), "http://a/b;jsessionid");
    }

    #[test]
    fn a_percent_sign_never_joins_what_was_decoded_behind_it() {
        assert_eq!(normal("http://a/%%341"), "http://a/%2541");
    }

    #[test]
    fn a_normal_form_over_the_limit_is_not_taken() {
        let text = format!("http://a/?{}", "[".repeat(URL_BYTES_MAX - 20));
        assert_eq!(normal(&text), text);
    }

    fn check(normaliser: &Normaliser, text: &str) -> Result<(), TestCaseError> {
        let Ok(url) = Url::parse(text) else { return Ok(()) };
        let mut room = Room::default();
        let long_way = match normaliser.rewrite(&url.text, url.parts, &mut room) {
            Some(parts) => Url { text: room.out.into_boxed_str(), parts },
            None => url.clone(),
        };
        let once = normaliser.normalise(url);
        prop_assert_eq!(&once, &long_way, "is_normal and rewrite disagree");
        prop_assert_eq!(&normaliser.normalise(once.clone()), &once, "not idempotent");
        prop_assert_eq!(&Url::parse(once.as_str()), &Ok(once), "not serialised form");
        Ok(())
    }

    #[test]
    fn real_urls_are_normalised_once_and_for_all() {
        let (text, _) = corpus_text("urls/real-urls.txt");
        let normaliser = Normaliser::new(&[]);
        for line in text.lines() {
            check(&normaliser, line).expect(line);
        }
    }

    proptest! {
        #[test]
        fn normalising_twice_is_normalising_once(text in url_text()) {
            check(&Normaliser::new(&["r*".into()]), &text)?;
        }
    }
}

//! The fast path: URLs as they are on nearly every page, parsed and joined in one pass over the
//! bytes and one allocation. Whatever it is not sure of it leaves to [`super::reference`], by
//! answering `None`; where it answers, the answer is the reference's, errors included (by property
//! test, over the WHATWG suite and 48,000 real URLs).
//!
//! What makes it short:
//! 1. A byte's class says at once whether it stays as it is in a path and in a query. If all do
//!    and no segment is `.` or `..`, the result is two pieces copied behind one another.
//! 2. A path or query that needs percent-encoding or has dot segments is written piece by piece:
//!    encoding goes byte by byte, so UTF-8 needs no decoding.
//! 3. Hosts are accepted only if lower-casing is all that UTS 46 would do to them.
//! 4. A fragment is not looked at: nothing in it can make a URL invalid, and we drop it.

use super::normal::is_plain;
use super::run::{path_run, query_run};
use super::{Parts, Scheme, Url, UrlError, reference::trim};
use crate::base::limits::HOST_NAME_BYTES_MAX;
use crate::sys::scan;
use std::net::Ipv4Addr;

/// Where the parts are of what was written, and whether all that was not copied from the base is
/// certainly in normal form. `None`: in doubt, ask the reference; what was written means nothing.
type Verdict = Option<Result<(Parts, bool), UrlError>>;

/// Into `out`, which is empty.
pub(super) fn parse(text: &str, out: &mut String) -> Verdict {
    let text = trim(text);
    let (name, rest) = split_scheme(text)?;
    absolute(name, rest, out)
}

/// Into `out`, which is empty. `directory_end` is the base's.
pub(super) fn join(
    base: &Url,
    directory_end: impl FnOnce() -> usize,
    reference: &str,
    out: &mut String,
) -> Verdict {
    let reference = trim(reference);
    match reference.as_bytes() {
        [] | [b'#', ..] => {
            out.push_str(&base.text);
            Some(Ok((base.parts, false)))
        }
        [b'?', ..] => target(base, base.path_end(), reference, out),
        [b'/', b'/', ..] => authority(base.parts.scheme, &reference[2..], out),
        [b'/', ..] => target(base, base.parts.path_start as usize, reference, out),
        [first, ..] => {
            if first.is_ascii_alphabetic()
                && let Some((name, rest)) = split_scheme(reference)
            {
                return absolute(name, rest, out);
            }
            // Steps to where it is already: without them most have no dot to look after.
            let mut reference = reference;
            while let Some(rest) = reference.strip_prefix("./") {
                reference = rest;
            }
            target(base, directory_end(), reference, out)
        }
    }
}

// --- Scheme and authority -----------------------------------------------------------------------

/// `scheme` and what follows its colon, if the text starts with one. A tab or a line break inside
/// makes it look like a path here; that path then is in doubt for the same byte.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let named = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    let end = text.bytes().position(|byte| !named(&byte))?;
    let starts_well = text.as_bytes()[0].is_ascii_alphabetic();
    (starts_well && text.as_bytes()[end] == b':').then(|| (&text[..end], &text[end + 1..]))
}

fn absolute(name: &str, rest: &str, out: &mut String) -> Verdict {
    let scheme = if name.eq_ignore_ascii_case("https") {
        Scheme::Https
    } else if name.eq_ignore_ascii_case("http") {
        Scheme::Http
    } else {
        return other_scheme(name, rest);
    };
    // `http:path` is relative to an http base, and an odd absolute URL otherwise: in doubt.
    authority(scheme, rest.strip_prefix("//")?, out)
}

/// `mailto:`, `javascript:`, `tel:`, `data:` ...: every page has some. Without a slash behind the
/// colon their path is opaque and cannot fail to parse, so they are well-formed and not ours.
fn other_scheme(name: &str, rest: &str) -> Verdict {
    let special = ["ftp", "file", "ws", "wss"].iter().any(|other| name.eq_ignore_ascii_case(other));
    let opaque = matches!(rest.as_bytes().first(), Some(b'!'..) if !rest.starts_with(['/', '\\']));
    (!special && opaque).then_some(Err(UrlError::Scheme))
}

/// `text`: host, port and the rest of an absolute URL, behind the two slashes.
fn authority(scheme: Scheme, text: &str, out: &mut String) -> Verdict {
    let (host_bytes, is_lower_case) = host_extent(text.as_bytes())?;
    let host = &text[..host_bytes];
    let (port, port_bytes) = port_extent(&text.as_bytes()[host_bytes..])?;
    let rest = &text[host_bytes + port_bytes..];
    let extent = Extent::measure(rest.as_bytes())?;
    let (port, port_text) = match port {
        Some(port) if port != scheme.default_port() => {
            (port, &text[host_bytes..host_bytes + port_bytes])
        }
        _ => (scheme.default_port(), ""),
    };

    let prefix_bytes = scheme.as_str().len() + 3;
    let path_start = prefix_bytes + host_bytes + port_text.len();
    let slash = if rest.starts_with('/') { "" } else { "/" };
    out.reserve(path_start + slash.len() + extent.end);
    out.push_str(match scheme {
        Scheme::Http => "http://",
        Scheme::Https => "https://",
    });
    let is_as_written = is_lower_case && port_bytes == port_text.len() && slash.is_empty();
    if is_as_written && extent.is_copied() {
        out.push_str(&text[..host_bytes + port_bytes + extent.end]);
    } else {
        out.push_str(host);
        out[prefix_bytes..].make_ascii_lowercase();
        out.push_str(port_text);
        out.push_str(slash);
        extent.append(rest, path_start, out)?;
    }
    let parts = Parts::of(out, scheme, host_bytes, path_start, port);
    Some(parts.map(|parts| (parts, extent.is_normal())))
}

/// In a host: no byte of it, a dot, a hyphen, a capital.
const HOST_ODD: u8 = 1;
const HOST_DOT: u8 = 2;
const HOST_HYPHEN: u8 = 4;
const HOST_CAPITAL: u8 = 8;

const HOST_CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        class[byte] = match byte as u8 {
            b'a'..=b'z' | b'0'..=b'9' | b'_' => 0,
            b'A'..=b'Z' => HOST_CAPITAL,
            b'.' => HOST_DOT,
            b'-' => HOST_HYPHEN,
            _ => HOST_ODD,
        };
        byte += 1;
    }
    class
};

/// The length of a host that only needs lower case, and whether it has that: letters, digits,
/// hyphens and underscores in labels that are not empty and have no `--` where Punycode has it, or
/// a plain IPv4 address. No branch for a byte: it sees the host of every link.
fn host_extent(text: &[u8]) -> Option<(usize, bool)> {
    let end = scan::find_host_end(text);
    let host = &text[..end];
    // As if a dot stood before it: what begins with one has an empty label.
    let (mut classes, mut pairs, mut previous) = (0, 0, HOST_DOT);
    for byte in host {
        let class = HOST_CLASS[*byte as usize];
        classes |= class;
        pairs |= class & previous;
        previous = class;
    }
    let is_empty_label = pairs & HOST_DOT != 0 || previous == HOST_DOT;
    if classes & HOST_ODD != 0 || is_empty_label || end > HOST_NAME_BYTES_MAX {
        return None;
    }
    let is_puny = |label: &[u8]| label.get(2..4) == Some(b"--");
    if pairs & HOST_HYPHEN != 0 && host.split(|byte| *byte == b'.').any(is_puny) {
        return None;
    }
    let label_start = memchr::memrchr(b'.', host).map_or(0, |dot| dot + 1);
    // A last label that starts as a number makes the whole an IPv4 address or invalid. `std` takes
    // only what is already in the serialised form: four decimal numbers, no leading zeros.
    if text[label_start].is_ascii_digit() {
        std::str::from_utf8(&text[..end]).ok()?.parse::<Ipv4Addr>().ok()?;
    }
    Some((end, classes & HOST_CAPITAL == 0))
}

/// The port, if there is one, and the bytes it takes with its colon.
fn port_extent(text: &[u8]) -> Option<(Option<u16>, usize)> {
    if text.first() != Some(&b':') {
        return Some((None, 0));
    }
    let digits = text[1..].iter().take(6).take_while(|byte| byte.is_ascii_digit()).count();
    if !(1..=5).contains(&digits) || text[1] == b'0' {
        return None;
    }
    let port = std::str::from_utf8(&text[1..=digits]).ok()?.parse().ok()?;
    matches!(text.get(digits + 1), None | Some(b'/' | b'?' | b'#'))
        .then_some((Some(port), digits + 1))
}

// --- Path and query -----------------------------------------------------------------------------

/// `reference` (a path, a query or both) behind the first `kept` bytes of the base.
fn target(base: &Url, kept: usize, reference: &str, out: &mut String) -> Verdict {
    let extent = Extent::measure(reference.as_bytes())?;
    out.reserve(kept + extent.end);
    out.push_str(&base.text[..kept]);
    let Parts { host_end, path_start, scheme, port } = base.parts;
    let path_start = path_start as usize;
    extent.append(reference, path_start, out)?;
    let host_bytes = host_end as usize - scheme.host_start();
    let parts = Parts::of(out, scheme, host_bytes, path_start, port);
    Some(parts.map(|parts| (parts, extent.is_normal())))
}

/// Percent-encoded in a path, in a query.
const PATH_ENCODED: u16 = 1;
const QUERY_ENCODED: u16 = 2;
/// Changes what the bytes around it mean: tabs and line breaks vanish, `\` is a slash in paths.
const PATH_DOUBT: u16 = 4;
const QUERY_DOUBT: u16 = 8;
/// A segment starts with a dot, or with a percent sign that may be one.
const DOTTED: u16 = 16;
/// Has, or may have, another spelling in normal form.
const RESPELLED: u16 = 32;
const SLASH: u16 = 64;
/// A dot or a percent sign; where a slash stands before it, one bit higher than [`SLASH`] counts.
const DOT: u16 = 128;
/// The path ends.
const END: u16 = 256;

const CLASS: [u16; 256] = {
    let mut class = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        class[byte] = match byte as u8 {
            b'\t' | b'\n' | b'\r' => PATH_DOUBT | QUERY_DOUBT,
            b'\\' => PATH_DOUBT,
            0..=b' ' | 0x7f.. | b'"' | b'<' | b'>' => PATH_ENCODED | QUERY_ENCODED,
            b'`' | b'{' | b'}' => PATH_ENCODED,
            b'\'' => QUERY_ENCODED,
            b'/' => SLASH,
            b'.' | b'%' => DOT,
            b'?' | b'#' => END,
            _ => 0,
        };
        if !is_plain(byte as u8) {
            class[byte] |= RESPELLED;
        }
        byte += 1;
    }
    class
};

/// Where path and query of a reference end, and whether they can be copied as they are.
struct Extent {
    path_end: usize,
    end: usize,
    path_flags: u16,
    query_flags: u16,
}

impl Extent {
    /// Most are plain to their end, or to a query that is.
    fn measure(text: &[u8]) -> Option<Extent> {
        let path = path_run(text);
        let path_flags = if path.is_dotted { DOTTED } else { 0 };
        let end = match text.get(path.end) {
            None | Some(b'#') => path.end,
            Some(b'?') => {
                let end = path.end + 1 + query_run(&text[path.end + 1..]);
                if !matches!(text.get(end), None | Some(b'#')) {
                    return Extent::measure_any(text);
                }
                end
            }
            Some(_) => return Extent::measure_any(text),
        };
        Some(Extent { path_end: path.end, end, path_flags, query_flags: 0 })
    }

    fn measure_any(text: &[u8]) -> Option<Extent> {
        let mut path_end = text.len();
        let mut path_flags = path_flags(text);
        if path_flags & END != 0 {
            let end = text.iter().position(|byte| matches!(byte, b'?' | b'#'));
            path_end = end.unwrap_or(text.len());
            path_flags = self::path_flags(&text[..path_end]);
        }
        let query = &text[path_end..];
        let query_bytes = query.iter().position(|&byte| byte == b'#').unwrap_or(query.len());
        let query_flags =
            query[..query_bytes].iter().fold(0, |flags, &byte| flags | CLASS[byte as usize]);
        let doubtful = path_flags & PATH_DOUBT != 0 || query_flags & QUERY_DOUBT != 0;
        let end = path_end + query_bytes;
        (!doubtful).then_some(Extent { path_end, end, path_flags, query_flags })
    }

    /// What is appended is as it was, without a query, and in normal form.
    fn is_normal(&self) -> bool {
        self.path_flags & (DOTTED | RESPELLED) == 0 && self.end == self.path_end
    }

    /// What is appended is as it was.
    fn is_copied(&self) -> bool {
        self.path_flags & (DOTTED | PATH_ENCODED) == 0 && self.query_flags & QUERY_ENCODED == 0
    }

    /// `None` where the reference has to decide how far `..` goes up.
    fn append(&self, text: &str, path_start: usize, out: &mut String) -> Option<()> {
        let (path, query) = (&text[..self.path_end], &text[self.path_end..self.end]);
        if self.path_flags & DOTTED != 0 {
            append_segments(path, path_start, out)?;
        } else if self.path_flags & PATH_ENCODED != 0 {
            append_encoded(path, PATH_ENCODED, out);
        } else {
            out.push_str(path);
        }
        if self.query_flags & QUERY_ENCODED != 0 {
            append_encoded(query, QUERY_ENCODED, out);
        } else {
            out.push_str(query);
        }
        Some(())
    }
}

/// What stands in a path, all of it together. No branch in it: it sees every byte of every link.
fn path_flags(path: &[u8]) -> u16 {
    // Whatever the path is appended to ends with a slash, or the path starts with one.
    let (mut flags, mut dotted, mut previous) = (0, 0, SLASH);
    for byte in path {
        let class = CLASS[*byte as usize];
        flags |= class;
        dotted |= (previous << 1) & class;
        previous = class;
    }
    if dotted & DOT != 0 { flags | DOTTED } else { flags }
}

fn append_encoded(text: &str, set: u16, out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut copied = 0;
    for (index, &byte) in text.as_bytes().iter().enumerate() {
        if CLASS[byte as usize] & set != 0 {
            // Between two bytes of one character there is nothing to copy, and no slice either.
            if copied < index {
                out.push_str(&text[copied..index]);
            }
            out.push('%');
            out.push(DIGITS[(byte >> 4) as usize] as char);
            out.push(DIGITS[(byte & 15) as usize] as char);
            copied = index + 1;
        }
    }
    out.push_str(&text[copied..]);
}

/// Appends a path segment by segment, `.` and `..` resolved against what is there already.
fn append_segments(path: &str, path_start: usize, out: &mut String) -> Option<()> {
    let mut rest = path;
    if out.len() == path_start {
        rest = rest.strip_prefix('/').unwrap_or(rest);
        out.push('/');
    }
    loop {
        debug_assert!(out.ends_with('/') && out.len() > path_start);
        let slash = rest.bytes().position(|byte| byte == b'/');
        let segment = &rest[..slash.unwrap_or(rest.len())];
        match dots(segment) {
            1 => {}
            2 => pop_segment(path_start, out)?,
            _ => {
                append_encoded(segment, PATH_ENCODED, out);
                if slash.is_some() {
                    out.push('/');
                }
            }
        }
        match slash {
            Some(slash) => rest = &rest[slash + 1..],
            None => return Some(()),
        }
    }
}

/// How many dots the segment consists of, if of nothing else and of at most two; else 0.
fn dots(segment: &str) -> usize {
    let mut rest = segment.as_bytes();
    let mut count = 0;
    while !rest.is_empty() && count < 3 {
        rest = match rest {
            [b'.', rest @ ..] | [b'%', b'2', b'e' | b'E', rest @ ..] => rest,
            _ => return 0,
        };
        count += 1;
    }
    if count > 2 { 0 } else { count }
}

/// Removes the last segment before the slash that `out` ends with; the root has none.
fn pop_segment(path_start: usize, out: &mut String) -> Option<()> {
    let end = out.len() - 1;
    let slash = memchr::memrchr(b'/', &out.as_bytes()[path_start..end]);
    let Some(slash) = slash else { return Some(()) };
    let segment = &out.as_bytes()[path_start + slash + 1..end];
    // The reference keeps `C:` as if this were a file; the standard does not. It decides.
    if let [letter, b':' | b'|'] = segment
        && letter.is_ascii_alphabetic()
    {
        return None;
    }
    out.truncate(path_start + slash + 1);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_reference_is_measured_as_it_is_byte_by_byte(
            text in "(/|\\.|\\.\\./|[a-zA-Z0-9_-]{1,20}|\\?|#|&a=1|%2[eE]|[~;'\"\\[ \\t]|é){0,12}",
        ) {
            let told = |extent: Extent| {
                let is_dotted = extent.path_flags & DOTTED != 0;
                let (is_copied, is_normal) = (extent.is_copied(), extent.is_normal());
                (extent.path_end, extent.end, is_dotted, is_copied, is_normal)
            };
            let fast = Extent::measure(text.as_bytes()).map(told);
            prop_assert_eq!(fast, Extent::measure_any(text.as_bytes()).map(told));
        }
    }
}

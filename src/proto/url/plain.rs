//! The fast path: parses and joins URLs as they are on nearly every page, in one pass over the
//! bytes and one allocation. Text goes in, a text and its parts come out. Whatever this path is not
//! sure of it leaves to [`super::reference`], by answering `None`. Where it answers, the answer is
//! the reference's, errors included (checked by property test, over the WHATWG suite and 48,000
//! real URLs).
//!
//! Why it is short:
//! 1. A byte's class says at once whether it stays unchanged in a path and in a query. If all bytes
//!    do and no segment is `.` or `..`, the result is two copied pieces, one behind the other.
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

/// The parts of what was written, and whether all that was not copied from the base is certainly in
/// normal form. `None`: the result is in doubt, so the reference must be asked; what was written
/// means nothing then.
type Verdict = Option<Result<(Parts, bool), UrlError>>;

/// Parses `text` into `out`, which is empty.
pub(super) fn parse(text: &str, out: &mut String) -> Verdict {
    let text = trim(text);
    let (name, rest) = split_scheme(text)?;
    absolute(name, rest, out)
}

/// Joins `reference` to `base` into `out`, which is empty. `directory_end` is the base's.
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
            // `./` leads to where we are already; without it most references have no dot segment to
            // resolve.
            let mut reference = reference;
            while let Some(rest) = reference.strip_prefix("./") {
                reference = rest;
            }
            target(base, directory_end(), reference, out)
        }
    }
}

// --- Scheme and authority -----------------------------------------------------------------------

/// Returns the scheme and what follows its colon, if the text starts with one. A tab or a line
/// break inside a scheme makes it look like a path here; the path is then in doubt because of the
/// same byte.
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
    // `http:path` is relative to an http base, and an odd absolute URL otherwise, so it is in
    // doubt.
    authority(scheme, rest.strip_prefix("//")?, out)
}

/// Judges `mailto:`, `javascript:`, `tel:`, `data:` and the like, of which every page has some.
/// Without a slash behind the colon their path is opaque and cannot fail to parse, so they are
/// well-formed and simply not http or https.
fn other_scheme(name: &str, rest: &str) -> Verdict {
    let special = ["ftp", "file", "ws", "wss"].iter().any(|other| name.eq_ignore_ascii_case(other));
    let opaque = matches!(rest.as_bytes().first(), Some(b'!'..) if !rest.starts_with(['/', '\\']));
    (!special && opaque).then_some(Err(UrlError::Scheme))
}

/// Reads `text`, which is host, port and the rest of an absolute URL, behind the two slashes.
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

/// The classes of bytes in a host. This one can be in no host that the fast path takes.
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

/// Returns the length of a host that needs at most lower case, and whether it has that already. The
/// host consists of letters, digits, hyphens and underscores in labels that are not empty and have
/// no `--` where Punycode has it, or it is a plain IPv4 address. There is no branch per byte,
/// because this sees the host of every link.
fn host_extent(text: &[u8]) -> Option<(usize, bool)> {
    let end = scan::find_host_end(text);
    let host = &text[..end];
    // Begins as if a dot stood before the host: a host that begins with a dot has an empty label.
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
    // A last label that starts like a number makes the whole an IPv4 address or invalid. `std`
    // takes only what is in serialised form already: four decimal numbers, no leading zeros.
    if text[label_start].is_ascii_digit() {
        std::str::from_utf8(&text[..end]).ok()?.parse::<Ipv4Addr>().ok()?;
    }
    Some((end, classes & HOST_CAPITAL == 0))
}

/// Returns the port, if there is one, and the number of bytes that it takes with its colon.
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

/// Appends `reference` (a path, a query or both) to the first `kept` bytes of the base.
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

/// Is percent-encoded in a path.
const PATH_ENCODED: u16 = 1;
/// Is percent-encoded in a query.
const QUERY_ENCODED: u16 = 2;
/// Changes in a path what the bytes around it mean: tabs and line breaks vanish, `\` is a slash.
const PATH_DOUBT: u16 = 4;
/// Changes in a query what the bytes around it mean: tabs and line breaks vanish.
const QUERY_DOUBT: u16 = 8;
/// A segment starts with a dot, or with a percent sign that may be one.
const DOTTED: u16 = 16;
/// Has, or may have, another spelling in normal form.
const RESPELLED: u16 = 32;
const SLASH: u16 = 64;
/// A dot or a percent sign. This bit is one above [`SLASH`], so that the bit of a slash, shifted by
/// one, meets the dot behind it.
const DOT: u16 = 128;
/// Ends the path.
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

/// Where the path and the query of a reference end, and whether they can be copied unchanged.
struct Extent {
    path_end: usize,
    end: usize,
    path_flags: u16,
    query_flags: u16,
}

impl Extent {
    /// Measures a reference. Most are simple up to their end, or up to a query that is simple too;
    /// all others go to [`Extent::measure_any`].
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

    /// Reports whether what is appended is unchanged, has no query, and is in normal form.
    fn is_normal(&self) -> bool {
        self.path_flags & (DOTTED | RESPELLED) == 0 && self.end == self.path_end
    }

    /// Reports whether what is appended is unchanged.
    fn is_copied(&self) -> bool {
        self.path_flags & (DOTTED | PATH_ENCODED) == 0 && self.query_flags & QUERY_ENCODED == 0
    }

    /// Appends path and query to `out`. `None` if only the reference can decide how far `..` goes
    /// up.
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

/// Returns the flags of all bytes of a path, put together. It has no branch per byte, because it
/// sees every byte of every link.
fn path_flags(path: &[u8]) -> u16 {
    // The path itself starts with a slash, or it is appended to something that ends with one.
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
            // Between two bytes of one character there is nothing to copy, and a slice there would
            // panic.
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

/// Appends a path segment by segment, and resolves `.` and `..` against what is there already.
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

/// Returns how many dots the segment consists of, if it has nothing else and at most two; else 0.
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

/// Removes the last segment before the slash that `out` ends with; the root has none to remove.
fn pop_segment(path_start: usize, out: &mut String) -> Option<()> {
    let end = out.len() - 1;
    let slash = memchr::memrchr(b'/', &out.as_bytes()[path_start..end]);
    let Some(slash) = slash else { return Some(()) };
    let segment = &out.as_bytes()[path_start + slash + 1..end];
    // The `url` crate keeps `C:` as in a file URL; the standard does not. We leave it to the crate.
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

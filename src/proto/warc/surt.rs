//! Sort-friendly keys of URLs: `http://www.example.com:8080/A/?b&a` becomes
//! `com,example:8080)/a?a&b`.
//!
//! The rules are those of the Internet Archive's canonicalizer as the `surt` package has them,
//! because a key is useful only if every tool computes the same one. Scheme, `www.` and default
//! ports are dropped, percent-escapes are undone and redone, everything is lower-cased; dot
//! segments, doubled and trailing slashes and known session ids are dropped, query arguments are
//! sorted. Many URLs share a key; the key is for look-up, never for identity.

use crate::base::text;
use crate::proto::url::Url;

/// Appends the key of `url`.
pub fn push_key(out: &mut Vec<u8>, url: &Url) {
    push_host(out, url.host());
    if url.port() != url.scheme().default_port() {
        out.push(b':');
        text::push_number(out, url.port().into());
    }
    out.push(b')');
    let (path, query) = match url.path_and_query().split_once('?') {
        Some((path, query)) => (path, query),
        None => (url.path_and_query(), ""),
    };
    if !push_plain_path(out, path.as_bytes()) {
        push_path(out, path);
    }
    if !push_plain_query(out, query.as_bytes()) {
        push_query(out, query);
    }
}

/// Does what [`push_path`] does, for a path that is its own key except for case and a trailing
/// slash, without a buffer for each step. Returns false, with nothing done, for any other path.
fn push_plain_path(out: &mut Vec<u8>, path: &[u8]) -> bool {
    let is_odd = |pair: &[u8]| pair[0] == b'/' && matches!(pair[1], b'/' | b'.');
    if path.first() != Some(&b'/') || !is_plain(path) || path.windows(2).any(is_odd) {
        return false;
    }
    let session =
        |dot: usize| path[dot..].get(..5).is_some_and(|end| end.eq_ignore_ascii_case(ASPX));
    if memchr::memchr_iter(b'.', path).any(session) {
        return false;
    }
    let kept = if path.len() > 1 { path.strip_suffix(b"/").unwrap_or(path) } else { path };
    push_lower(out, kept);
    true
}

/// Does what [`push_query`] does, for no query or for one plain argument.
fn push_plain_query(out: &mut Vec<u8>, query: &[u8]) -> bool {
    if query.is_empty() {
        return true;
    }
    // Every session's name ends like this: `sid`, `sessionid`, `cfid`.
    let session = |part: &[u8]| {
        matches!(part[0] | 0x20, b's' | b'n' | b'f') && part[1..].eq_ignore_ascii_case(b"id")
    };
    if !is_plain(query) || query.contains(&b'&') || query.windows(3).any(session) {
        return false;
    }
    out.push(b'?');
    push_lower(out, query);
    true
}

/// Reports whether nothing in a text is escaped or has to be.
fn is_plain(text: &[u8]) -> bool {
    text.iter().all(|byte| matches!(byte, 33..127) && *byte != b'%' && *byte != b'#')
}

fn push_lower(out: &mut Vec<u8>, text: &[u8]) {
    let start = out.len();
    out.extend_from_slice(text);
    out[start..].make_ascii_lowercase();
}

/// Appends the labels from last to first. An IPv6 address has no dots and stays unchanged, without
/// brackets.
fn push_host(out: &mut Vec<u8>, host: &str) {
    // A host is in lower case already.
    let host = host.trim_matches(['[', ']']).trim_matches('.');
    let start = out.len();
    for label in without_www(host).rsplit('.') {
        if out.len() > start {
            out.push(b',');
        }
        out.extend_from_slice(label.as_bytes());
    }
}

/// Drops a leading `www.`, `www2.` and the like.
fn without_www(host: &str) -> &str {
    host.strip_prefix("www")
        .map(|rest| rest.trim_start_matches(|char: char| char.is_ascii_digit()))
        .and_then(|rest| rest.strip_prefix('.'))
        .unwrap_or(host)
}

fn push_path(out: &mut Vec<u8>, path: &str) {
    let plain = unescaped(path.as_bytes());
    let mut path = Vec::with_capacity(plain.len());
    push_escaped(&mut path, &without_dots(&plain));
    path.make_ascii_lowercase();
    strip_path_session(&mut path);
    if path.len() > 1 && path.last() == Some(&b'/') {
        path.pop();
    }
    out.extend_from_slice(&path);
}

fn push_query(out: &mut Vec<u8>, query: &str) {
    if query.is_empty() {
        return;
    }
    let mut escaped = Vec::with_capacity(query.len());
    push_escaped(&mut escaped, &unescaped(query.as_bytes()));
    escaped.make_ascii_lowercase();
    strip_query_session(&mut escaped);
    if escaped.is_empty() {
        return;
    }
    // Sorted by name, then by value; `a` comes before `a=`. Comparing whole arguments would put
    // `a-b` before `a=`.
    let mut arguments: Vec<&[u8]> = escaped.split(|byte| *byte == b'&').collect();
    arguments.sort_by_key(|argument| {
        let mut parts = argument.splitn(2, |byte| *byte == b'=');
        (parts.next(), parts.next())
    });
    for (index, argument) in arguments.iter().enumerate() {
        out.push(if index == 0 { b'?' } else { b'&' });
        out.extend_from_slice(argument);
    }
}

/// Undoes percent-escapes until none is left: `%2541` is `A`. Each byte that is pushed may complete
/// an escape with the two before it, so one pass over the input is enough; the obvious loop over
/// the whole text takes quadratic time on `%252525...`.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    for byte in text {
        out.push(*byte);
        while let [.., b'%', high, low] = out[..]
            && let (Some(high), Some(low)) = (hex(high), hex(low))
        {
            out.truncate(out.len() - 3);
            out.push(high << 4 | low);
        }
    }
    out
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// Escapes controls, space, `#`, `%` and everything beyond ASCII.
fn push_escaped(out: &mut Vec<u8>, plain: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in plain {
        match byte {
            b'#' | b'%' | 0..=32 | 127.. => out.extend_from_slice(&[
                b'%',
                DIGITS[usize::from(byte >> 4)],
                DIGITS[usize::from(byte & 15)],
            ]),
            _ => out.push(*byte),
        }
    }
}

/// Resolves `.` and `..`, and joins runs of slashes into one; a `..` with nothing before it stays.
fn without_dots(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    for segment in path.split(|byte| *byte == b'/').skip(1) {
        match segment {
            b"." => {}
            b".." if !kept.is_empty() => {
                kept.pop();
            }
            _ => kept.push(segment),
        }
    }
    let mut out = vec![b'/'];
    if let Some((last, before)) = kept.split_last() {
        for segment in before.iter().filter(|segment| !segment.is_empty()) {
            out.extend_from_slice(segment);
            out.push(b'/');
        }
        out.extend_from_slice(last);
    }
    out
}

const ASPX: &[u8] = b".aspx";

/// Drops a session of ASP.NET: `/(a(24 letters or digits))/` and `/(24 letters or digits)/` before
/// some `.aspx`.
fn strip_path_session(path: &mut Vec<u8>) {
    if memchr::memmem::find(path, ASPX).is_none() {
        return;
    }
    for is_session in [is_lettered_session as fn(&[u8]) -> bool, is_bare_session] {
        let slashes: Vec<usize> = memchr::memchr_iter(b'/', path).collect();
        let found = slashes.windows(2).rev().find(|pair| {
            is_session(&path[pair[0] + 1..pair[1]]) && leads_to_aspx(&path[pair[1] + 1..])
        });
        if let Some(pair) = found {
            path.drain(pair[0] + 1..=pair[1]);
        }
    }
}

fn leads_to_aspx(rest: &[u8]) -> bool {
    memchr::memmem::find_iter(rest, ASPX)
        .find(|at| *at > 0)
        .is_some_and(|at| !rest[..at].contains(&b'?'))
}

fn is_bare_session(segment: &[u8]) -> bool {
    let inner = segment.strip_prefix(b"(").and_then(|rest| rest.strip_suffix(b")"));
    inner.is_some_and(|inner| inner.len() == 24 && inner.iter().all(u8::is_ascii_alphanumeric))
}

fn is_lettered_session(segment: &[u8]) -> bool {
    let inner = segment.strip_prefix(b"(").and_then(|rest| rest.strip_suffix(b")"));
    inner.is_some_and(|inner| {
        !inner.is_empty()
            && inner.chunks(27).all(|one| {
                one.len() == 27 && one[0].is_ascii_alphabetic() && is_bare_session(&one[1..])
            })
    })
}

/// The length of the session argument that a text begins with.
type SessionLen = fn(&[u8]) -> Option<usize>;

/// Drops one session argument of each known kind, the last one if there are several. `query` is in
/// lower case.
fn strip_query_session(query: &mut Vec<u8>) {
    // Every kind has one of these texts; most queries have none.
    if memchr::memmem::find(query, b"sid=").is_none()
        && memchr::memmem::find(query, b"sessionid").is_none()
        && memchr::memmem::find(query, b"cfid=").is_none()
    {
        return;
    }
    let kinds: [SessionLen; 5] = [
        |text| token_len(text, b"jsessionid="),
        |text| token_len(text, b"phpsessid="),
        |text| token_len(text, b"sid="),
        asp_session_len,
        coldfusion_session_len,
    ];
    for session_len in kinds {
        let found = (0..query.len()).rev().find_map(|start| {
            let end = start + session_len(&query[start..])?;
            (end == query.len() || query[end] == b'&').then_some((start, end))
        });
        if let Some((start, end)) = found {
            query.drain(start..query.len().min(end + 1));
        }
    }
}

/// Returns the length of `name` and 32 letters or digits.
fn token_len(text: &[u8], name: &[u8]) -> Option<usize> {
    let token = text.strip_prefix(name)?.get(..32)?;
    token.iter().all(u8::is_ascii_alphanumeric).then_some(name.len() + 32)
}

/// Returns the length of `aspsessionid`, 8 letters, `=`, 24 letters.
fn asp_session_len(text: &[u8]) -> Option<usize> {
    let rest = text.strip_prefix(b"aspsessionid")?.get(..33)?;
    let letters = |part: &[u8]| part.iter().all(u8::is_ascii_alphabetic);
    (letters(&rest[..8]) && rest[8] == b'=' && letters(&rest[9..])).then_some(12 + 33)
}

/// Returns the length of `cfid=...&cftoken=...`, neither empty.
fn coldfusion_session_len(text: &[u8]) -> Option<usize> {
    let id = text.strip_prefix(b"cfid=")?;
    let id_len = memchr::memchr(b'&', id).filter(|len| *len > 0)?;
    let token = id[id_len..].strip_prefix(b"&cftoken=")?;
    let token_len = memchr::memchr(b'&', token).unwrap_or(token.len());
    (token_len > 0).then_some(5 + id_len + 9 + token_len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> String {
        let mut out = Vec::new();
        push_key(&mut out, &Url::parse(text).unwrap());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn keys_are_those_of_the_surt_package() {
        // The right-hand sides were printed by surt 0.3.1.
        for (url, expected) in [
            ("http://[::1]/", "::1)/"),
            ("http://[::1]:8080/a", "::1:8080)/a"),
            ("http://www.example.com/", "com,example)/"),
            ("http://www2.Example.com:8080/A/B/?b=2&a=1&A", "com,example:8080)/a/b?a&a=1&b=2"),
            ("https://example.com:443/", "com,example)/"),
            ("http://1.2.3.4/x", "4,3,2,1)/x"),
            ("http://example.com/?", "com,example)/"),
            ("http://example.com//a//b/", "com,example)/a/b"),
            ("http://example.com/%C3%A9%20x", "com,example)/%c3%a9%20x"),
            ("http://www.com/", "com)/"),
            ("http://example.com./a", "com,example)/a"),
            ("http://example.com/a%2Fb%252f?q=%26x", "com,example)/a/b?q=&x"),
            ("https://example.com/%23a?%23", "com,example)/%23a?%23"),
            ("http://example.com/a/%2e%2e/b", "com,example)/b"),
            ("http://www1.x.y/?&a=1&&b", "y,x)/?&&a=1&b"),
        ] {
            assert_eq!(key(url), expected, "{url}");
        }
    }

    #[test]
    fn plain_paths_and_queries_have_the_keys_of_the_long_way() {
        let parts = [
            "/",
            "/",
            "a",
            "B",
            ".",
            "..",
            "%41",
            "#",
            "?",
            "&",
            "=",
            "x.aspx",
            ".ASPX",
            "sid=",
            "PHPSESSID=",
            "cfid=1",
            "0123456789abcdef0123456789ABCDEF",
            "-_~",
            "é",
            " ",
            "id=2",
        ];
        let mut seed = 7u64;
        let (mut plain_paths, mut plain_queries) = (0, 0);
        for _ in 0..50_000 {
            let mut text = String::from("/");
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            for n in 0..(seed >> 61) {
                text += parts[(seed >> (6 * n + 8)) as usize % parts.len()];
            }
            let (mut fast, mut slow) = (Vec::new(), Vec::new());
            if push_plain_path(&mut fast, text.as_bytes()) {
                push_path(&mut slow, &text);
                assert_eq!(fast, slow, "{text}");
                plain_paths += 1;
            }
            let (mut fast, mut slow) = (Vec::new(), Vec::new());
            if push_plain_query(&mut fast, &text.as_bytes()[1..]) {
                push_query(&mut slow, &text[1..]);
                assert_eq!(fast, slow, "{text}");
                plain_queries += 1;
            }
        }
        assert!(plain_paths > 1_000 && plain_queries > 1_000, "{plain_paths} {plain_queries}");
    }

    #[test]
    fn session_ids_leave_the_key() {
        let id = "0123456789abcdef0123456789ABCDEF";
        let at = |rest: String| key(&format!("http://example.com/{rest}"));
        assert_eq!(at(format!("a?jsessionid={id}&x=1")), "com,example)/a?x=1");
        assert_eq!(at(format!("a?x=1&PHPSESSID={id}")), "com,example)/a?&x=1");
        assert_eq!(at(format!("a?sid={id}")), "com,example)/a");
        assert_eq!(at(format!("a?sid={id}0")), format!("com,example)/a?sid={id}0").to_lowercase());
        assert_eq!(at("a?cfid=1&cftoken=2&z".into()), "com,example)/a?z");
        let letters = "abcdefghijklmnopqrstuvwx";
        assert_eq!(at(format!("a?aspsessionidabcdefgh={letters}")), "com,example)/a");
        assert_eq!(at(format!("(S({letters}))/x.aspx")), "com,example)/x.aspx");
        assert_eq!(at(format!("b/({letters})/x.aspx")), "com,example)/b/x.aspx");
        assert_eq!(at(format!("({letters})/x.html")), format!("com,example)/({letters})/x.html"));
    }

    #[test]
    fn escapes_come_undone_as_by_repeated_passes() {
        fn one_pass(text: &[u8]) -> Vec<u8> {
            let mut out = Vec::new();
            let mut at = 0;
            while at < text.len() {
                let pair = text.get(at + 1..at + 3);
                match pair.and_then(|pair| Some((hex(pair[0])?, hex(pair[1])?))) {
                    Some((high, low)) if text[at] == b'%' => {
                        out.push(high << 4 | low);
                        at += 3;
                    }
                    _ => {
                        out.push(text[at]);
                        at += 1;
                    }
                }
            }
            out
        }
        let mut seed = 7u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let text: Vec<u8> =
                (0..12).map(|n| b"%%2354a"[(seed >> (4 * n + 8)) as usize % 7]).collect();
            let mut slow = text.clone();
            while one_pass(&slow) != slow {
                slow = one_pass(&slow);
            }
            assert_eq!(unescaped(&text), slow, "{}", text.escape_ascii());
        }
    }
}

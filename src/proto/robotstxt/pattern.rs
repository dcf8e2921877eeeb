//! Path patterns: brings each to one spelling, and matches them in linear time.
//!
//! RFC 9309 2.2.2 compares octets after percent-encoding. To make that a comparison of bytes,
//! patterns and paths are first brought to the same normal form: `%XX` of an unreserved character
//! is decoded, other `%XX` are written in upper case, and octets that are neither unreserved nor
//! reserved (spaces, quotes, everything outside ASCII) are encoded. A `%` without two digits stays.
//!
//! A query has more than one normal form: `?u=http://a` and `?u=http%3A%2F%2Fa` ask for the same,
//! and in the RFC's table a rule written one way matches a path written the other.
//! [`query_spellings`] gives both; a rule that matches any of them matches. Before the `?` the two
//! differ: there `%2F` is no slash.
//!
//! In a pattern, `*` stands for any octets, and `$` at the end for the end of the path; these are
//! kept as bytes. The literal characters are written `%2A` and `%24` in patterns and paths alike,
//! as in the RFC's examples.

use std::borrow::Cow;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Octet {
    /// Stands for itself.
    Plain,
    /// Is percent-encoded in normal form.
    Encoded,
    Percent,
    /// `*` or `$`.
    Special,
}

const OCTETS: [Octet; 256] = {
    let mut table = [Octet::Encoded; 256];
    let plain = b"-._~:/?#[]@!&'()+,;=";
    let mut index = 0;
    while index < plain.len() {
        table[plain[index] as usize] = Octet::Plain;
        index += 1;
    }
    let mut byte = 0;
    while byte < 128 {
        if (byte as u8).is_ascii_alphanumeric() {
            table[byte] = Octet::Plain;
        }
        byte += 1;
    }
    table[b'%' as usize] = Octet::Percent;
    table[b'*' as usize] = Octet::Special;
    table[b'$' as usize] = Octet::Special;
    table
};

/// Returns the normal form of a path with its query. It is borrowed if the path is in that form
/// already, as almost every URL is.
pub(super) fn normal_path(path: &str) -> Cow<'_, [u8]> {
    let bytes = path.as_bytes();
    match bytes.iter().position(|&byte| OCTETS[byte as usize] != Octet::Plain) {
        None => Cow::Borrowed(bytes),
        Some(clean) => {
            let mut out = String::with_capacity(bytes.len() + 16);
            out.push_str(&path[..clean]);
            normalise(&bytes[clean..], |_, _| false, &mut out);
            Cow::Owned(out.into_bytes())
        }
    }
}

/// Characters that mean the same in a query whether they are encoded or not (RFC 3986 3.4, and the
/// brackets that forms put there).
const QUERY_DELIMITERS: &[u8; 5] = b":/@[]";

/// Returns the other spellings of a path in normal form: one with the delimiters in its query all
/// encoded, one with none. The result is empty, without an allocation, if the query has no such
/// character, which holds for almost every URL.
pub(super) fn query_spellings(path: &[u8]) -> Vec<Vec<u8>> {
    let Some(query_start) = memchr::memchr(b'?', path).map(|mark| mark + 1) else {
        return Vec::new();
    };
    let delimiter_at = |index: usize| match path[index] {
        b'%' => hex_pair(&path[index + 1..]).filter(|octet| QUERY_DELIMITERS.contains(octet)),
        byte => Some(byte).filter(|octet| QUERY_DELIMITERS.contains(octet)),
    };
    if !(query_start..path.len()).any(|index| delimiter_at(index).is_some()) {
        return Vec::new();
    }
    let spelt = |is_encoded: bool| {
        let mut out = String::with_capacity(3 * path.len());
        let mut index = query_start;
        while index < path.len() {
            match delimiter_at(index) {
                Some(octet) if is_encoded => push_encoded(octet, &mut out),
                Some(octet) => out.push(char::from(octet)),
                None => out.push(char::from(path[index])),
            }
            index += if path[index] == b'%' && delimiter_at(index).is_some() { 3 } else { 1 };
        }
        [&path[..query_start], out.as_bytes()].concat()
    };
    vec![spelt(true), spelt(false)]
}

/// Appends the normal form of `pattern` to `out`. Its length is the rule's precedence: RFC 9309
/// 2.2.2 counts the octets that match, and those are compared in normal form. Google's parser
/// counts them as written, so `/%62%61%7A` would win over `/baz/q`.
pub(super) fn push_normal_pattern(pattern: &[u8], out: &mut String) {
    let last = pattern.len().wrapping_sub(1);
    normalise(pattern, |byte, index| byte == b'*' || index == last, out);
}

/// Appends the normal form of `bytes`. `is_wild` says of a `*` or `$` whether it is special at its
/// place.
fn normalise(bytes: &[u8], is_wild: impl Fn(u8, usize) -> bool, out: &mut String) {
    let mut index = 0;
    while index < bytes.len() {
        let byte = bytes[index];
        match OCTETS[byte as usize] {
            Octet::Plain => out.push(char::from(byte)),
            Octet::Special if is_wild(byte, index) => out.push(char::from(byte)),
            Octet::Special | Octet::Encoded => push_encoded(byte, out),
            Octet::Percent => match hex_pair(&bytes[index + 1..]) {
                Some(octet) => {
                    if octet.is_ascii_alphanumeric() || b"-._~".contains(&octet) {
                        out.push(char::from(octet));
                    } else {
                        push_encoded(octet, out);
                    }
                    index += 2;
                }
                None => out.push('%'),
            },
        }
        index += 1;
    }
}

fn push_encoded(byte: u8, out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.push('%');
    out.push(char::from(DIGITS[usize::from(byte >> 4)]));
    out.push(char::from(DIGITS[usize::from(byte & 15)]));
}

fn hex_pair(bytes: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    match bytes {
        [high, low, ..] => Some((digit(*high)? * 16 + digit(*low)?) as u8),
        _ => None,
    }
}

/// Reports whether `pattern` matches the beginning of `path`, or all of it if the pattern ends in
/// `$`. Both are in normal form, so neither `*` nor `$` occurs in the path.
///
/// Each literal between stars is taken at its first place behind the previous one: a later place
/// can only leave less room for the rest. So nothing is ever tried twice. A pattern like `*a*a*a*a`
/// costs no more than its own length and the path's, times the few bytes of a short literal. The
/// cost is taken from `step_count_left`, which may end below zero.
pub(super) fn matches(pattern: &[u8], path: &[u8], step_count_left: &mut isize) -> bool {
    // Most rules fail within their first few bytes, before their stars are even searched for.
    let same_count = pattern.iter().zip(path).take_while(|(ours, theirs)| ours == theirs).count();
    *step_count_left -= 1 + same_count as isize;
    let mut rest = &path[same_count..];
    let mut pattern = match &pattern[same_count..] {
        [] => return true,
        b"$" => return rest.is_empty(),
        [b'*', after @ ..] => after,
        _ => return false,
    };
    while let Some(star) = memchr::memchr(b'*', pattern) {
        match after_first(rest, &pattern[..star], step_count_left) {
            Some(after) => rest = after,
            None => return false,
        }
        pattern = &pattern[star + 1..];
    }
    match pattern.strip_suffix(b"$") {
        Some(literal) => rest.ends_with(literal),
        None => after_first(rest, pattern, step_count_left).is_some(),
    }
}

/// Longer literals pay for the set-up of a searcher that is linear whatever they hold.
const SHORT_LITERAL_BYTES: usize = 32;

/// Returns what follows the first `literal` in `path`.
fn after_first<'a>(
    path: &'a [u8],
    literal: &[u8],
    step_count_left: &mut isize,
) -> Option<&'a [u8]> {
    let Some((first, others)) = literal.split_first() else { return Some(path) };
    if literal.len() > SHORT_LITERAL_BYTES {
        let at = memchr::memmem::find(path, literal);
        *step_count_left -= (literal.len() + at.unwrap_or(path.len())) as isize;
        return Some(&path[at? + literal.len()..]);
    }
    let mut rest = path;
    loop {
        let at = memchr::memchr(*first, rest);
        *step_count_left -= (literal.len() + at.unwrap_or(rest.len())) as isize;
        rest = &rest[at? + 1..];
        if let Some(after) = rest.strip_prefix(others) {
            return Some(after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn normal_pattern(pattern: &str) -> String {
        let mut out = String::new();
        push_normal_pattern(pattern.as_bytes(), &mut out);
        out
    }

    fn fast_matches(pattern: &[u8], path: &[u8]) -> bool {
        let mut step_count_left = isize::MAX;
        matches(pattern, path, &mut step_count_left)
    }

    fn is_match(pattern: &str, path: &str) -> bool {
        fast_matches(normal_pattern(pattern).as_bytes(), &normal_path(path))
    }

    /// The definition, which tries every way: the oracle of [`matches`].
    fn naive_matches(pattern: &[u8], path: &[u8]) -> bool {
        match pattern {
            [] => true,
            [b'$'] => path.is_empty(),
            [b'*', rest @ ..] => (0..=path.len()).any(|skip| naive_matches(rest, &path[skip..])),
            [byte, rest @ ..] => path.first() == Some(byte) && naive_matches(rest, &path[1..]),
        }
    }

    #[test]
    fn rfc_9309_2_2_2_the_table_of_encoded_paths_matches() {
        assert!(is_match("/foo/bar?baz=quz", "/foo/bar?baz=quz"));
        assert!(is_match("/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https://foo.bar"));
        assert!(is_match("/foo/bar/\u{30c4}", "/foo/bar/%E3%83%84"));
        assert!(is_match("/foo/bar/%E3%83%84", "/foo/bar/%e3%83%84"));
        assert!(is_match("/foo/bar/%62%61%7A", "/foo/bar/baz"));
    }

    #[test]
    fn rfc_9309_2_2_3_special_characters_match_themselves_when_encoded() {
        assert!(is_match("/path/file-with-a-%2A.html", "/path/file-with-a-*.html"));
        assert!(!is_match("/path/file-with-a-%2A.html", "/path/file-with-a-b.html"));
        assert!(is_match("/path/foo-%24", "/path/foo-$"));
        assert!(is_match("/a$b", "/a$b"), "a dollar that is not last is a literal");
        assert!(!is_match("/a$b", "/a"));
    }

    #[test]
    fn rfc_9309_2_2_2_delimiters_in_a_query_match_however_they_are_written() {
        let matches_any = |pattern: &str, path: &str| {
            let (pattern, path) = (normal_pattern(pattern), normal_path(path));
            let spellings = query_spellings(&path);
            let all = spellings.iter().map(Vec::as_slice).chain([&*path]);
            all.into_iter().any(|path| fast_matches(pattern.as_bytes(), path))
        };
        let (plain, encoded) =
            ("/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https%3A%2f%2Ffoo.bar");
        for pattern in [plain, encoded, "/*=https:", "/*=https%3A"] {
            assert!(matches_any(pattern, plain) && matches_any(pattern, encoded), "{pattern}");
        }
        assert!(matches_any("/*?filter[", "/a?filter%5Bx%5D=1"));
        assert!(matches_any("/*?filter%5B", "/a?filter[x]=1"));
        // Encoding does change a character in a path, and one that separates parameters.
        assert!(!matches_any("/a/b?c", "/a%2Fb?c") && !matches_any("/a%2Fb", "/a/b?c:d"));
        assert!(!matches_any("/a?b=c&d", "/a?b=c%26d"));
        assert!(query_spellings(b"/a/b:c?d=e&f=%26").is_empty());
        assert!(query_spellings(b"/a/b:c").is_empty());
    }

    #[test]
    fn rfc_reserved_characters_differ_from_their_encoding() {
        assert!(!is_match("/a%2Fb", "/a/b"));
        assert!(is_match("/a%2fb", "/a%2Fb"));
    }

    #[test]
    fn lenient_spaces_and_broken_percents_match_what_a_url_makes_of_them() {
        assert!(is_match("/a b", "/a%20b"));
        assert!(is_match("/a|b", "/a|b") && is_match("/a|b", "/a%7Cb"));
        assert!(is_match("/talk%3Mediation", "/talk%3Mediation"));
        assert!(is_match("/a%", "/a%"));
    }

    #[test]
    fn stars_and_the_final_dollar() {
        for (pattern, path, wanted) in [
            ("/", "/", true),
            ("/fish", "/fish.html", true),
            ("/fish", "/Fish", false),
            ("/fish*", "/fishheads/yummy.html", true),
            ("/*.php$", "/folder/filename.php", true),
            ("/*.php$", "/filename.php?parameters", false),
            ("/*.php$", "/a.php.php", true),
            ("/fish*.php", "/fishheads/catfish.php?parameters", true),
            ("*.gif$", "/a.gif", true),
            ("/a*$", "/abc", true),
            ("/a**b$", "/ab", true),
            ("/ab*b$", "/ab", false),
            ("/$", "/", true),
            ("/$", "/a", false),
            ("$", "/", false),
            ("*", "/", true),
        ] {
            assert_eq!(is_match(pattern, path), wanted, "{pattern} on {path}");
        }
    }

    #[test]
    fn long_literals_match_as_short_ones_do() {
        let long = "ab".repeat(40);
        assert!(is_match(&format!("/*{long}c"), &format!("/ab{long}c")));
        assert!(!is_match(&format!("/*{long}c"), &format!("/ab{long}d")));
        assert!(is_match(&format!("/*{long}$"), &format!("/x{long}")));
    }

    #[test]
    fn a_pattern_of_many_stars_is_not_exponential() {
        let pattern = "/".to_string() + &"*a".repeat(8_000) + "b$";
        let path = "/".to_string() + &"a".repeat(4_000);
        // A matcher that tried every way would not end in any useful time.
        let mut step_count_left = 0;
        assert!(!matches(pattern.as_bytes(), path.as_bytes(), &mut step_count_left));
        let step_count = -step_count_left as usize;
        assert!(step_count < 20_000, "{step_count} steps");
    }

    proptest! {
        #[test]
        fn fast_matching_equals_naive(pattern in "/?[ab*]{0,9}\\$?", path in "/?[ab]{0,12}") {
            prop_assert_eq!(
                fast_matches(pattern.as_bytes(), path.as_bytes()),
                naive_matches(pattern.as_bytes(), path.as_bytes())
            );
        }

        #[test]
        fn the_normal_form_of_a_path_is_its_own(path in any::<String>()) {
            let once = normal_path(&path).into_owned();
            let text = String::from_utf8(once.clone()).unwrap();
            prop_assert!(text.is_ascii());
            prop_assert_eq!(normal_path(&text).into_owned(), once);
        }
    }
}

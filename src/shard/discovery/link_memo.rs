//! A memo of the links that were handled lately, by their text. Most links of a page were on the
//! page before too, and need not be joined, normalised and looked up again.
//!
//! The base of a page and the text of a link go in, and a key of 128 bits comes out. Two links have
//! the same key only if they lead to the same URL (with the certainty of fingerprints). A key is
//! remembered when its URL cannot be lost any more: it is queued, was known before, or is on its
//! way to the core or the merge that will judge it. So a hit never hides a URL that nobody has. One
//! core owns the memo.

use crate::base::HashKey;
use crate::base::limits::LINK_MEMO_COUNT;
use crate::base::recent::Recent;
use crate::proto::url::{HostKey, Scheme, Url};

/// The links that were handled lately.
pub(super) struct LinkMemo {
    hash_key: HashKey,
    starts: Starts,
    recent: Recent,
    /// A buffer for building a path.
    path: Vec<u8>,
}

/// The base of a page's links. What a link means depends on the page that has it. Most links lead
/// to a path of their page's own origin, however they are spelled. The key of such a link is made
/// of origin and path, so that `../b`, `/a/b` and `http://host/a/b` have the same key. The key of
/// any unusual link is made of its text and its whole base.
pub(super) struct Bases<'u> {
    url: &'u Url,
    host_key: HostKey,
    /// The directory of the page's path, to which a relative link is appended.
    directory: &'u [u8],
    /// Where the hashes of links to other hosts begin: one for `http`, one for `https`.
    schemes: [u128; 2],
    /// Where the hashes of links begin whose key is made of origin and path.
    origin: u128,
    /// Where the hashes of links begin whose key is made of their text and whole base.
    whole: u128,
}

/// Where hashes begin: for the text after `http://`, for the text after `https://`, for origins,
/// and for whole bases. These are hashes themselves, so that a text of one kind cannot give the
/// hash of a text of another kind.
#[derive(Clone, Copy)]
struct Starts([u128; 4]);

impl<'u> Bases<'u> {
    fn of(url: &'u Url, host_key: HostKey, hash_key: &HashKey, starts: Starts) -> Bases<'u> {
        let Starts([http, https, origin, whole]) = starts;
        let origin = hash_key.hash_behind(origin, url.origin().as_bytes());
        let whole = hash_key.hash_behind(whole, url.as_str().as_bytes());
        let directory = &url.directory().as_bytes()[url.origin().len()..];
        Bases { url, host_key, directory, schemes: [http, https], origin, whole }
    }

    pub(super) fn url(&self) -> &'u Url {
        self.url
    }

    pub(super) fn host_key(&self) -> HostKey {
        self.host_key
    }

    /// Returns the key of a link. `path` is a buffer for building a path.
    fn key(&self, hash_key: &HashKey, href: &str, path: &mut Vec<u8>) -> u128 {
        let (mut href, mut signs) = (href.as_bytes(), Signs::of(href.as_bytes()));
        if signs.has_fragment {
            // A fragment does not change which URL is fetched, whatever is in it.
            href = &href[..memchr::memchr(b'#', href).unwrap_or(href.len())];
            signs = Signs::of(href);
        }
        let simple = if signs.is_odd { None } else { self.simple(href, path) };
        let (start, text) = simple.unwrap_or((self.whole, href));
        hash_key.hash_behind(start, text)
    }

    /// Returns the start of the hash and the text to be hashed, for a link without odd bytes. The
    /// result is `None` if only a URL parser can tell what the link means.
    fn simple<'t>(&self, bytes: &'t [u8], path: &'t mut Vec<u8>) -> Option<(u128, &'t [u8])> {
        match bytes {
            [] | [b'?', ..] => None,
            [b'/', b'/', ..] => Some(self.absolute(self.url.scheme(), &bytes[2..])),
            [b'/', ..] => Some((self.origin, bytes)),
            _ => {
                if let Some((scheme, rest)) = split_scheme(bytes) {
                    return Some(self.absolute(scheme, rest));
                }
                self.relative(bytes, path)
            }
        }
    }

    /// Returns the start of the hash and the text to be hashed, for a link whose text after `//` is
    /// `rest`.
    fn absolute<'t>(&self, scheme: Scheme, rest: &'t [u8]) -> (u128, &'t [u8]) {
        let authority = self.url.authority().as_bytes();
        if scheme == self.url.scheme()
            && let Some((start, path)) = rest.split_at_checked(authority.len())
            && path.first() == Some(&b'/')
            && start.eq_ignore_ascii_case(authority)
        {
            return (self.origin, path);
        }
        (self.schemes[usize::from(scheme == Scheme::Https)], rest)
    }

    fn relative<'t>(&self, mut href: &[u8], path: &'t mut Vec<u8>) -> Option<(u128, &'t [u8])> {
        let mut directory = self.directory;
        loop {
            href = match href {
                [b'.', b'/', rest @ ..] => rest,
                [b'.', b'.', b'/', rest @ ..] => {
                    directory = parent(directory)?;
                    rest
                }
                // This is `..//a` or similar: joined to the root, the rest would look like a host.
                [b'/', ..] => return None,
                _ => break,
            };
        }
        // A colon may end a scheme.
        let segment_end = href.iter().position(|byte| matches!(byte, b'/' | b'?' | b':'));
        if segment_end.is_some_and(|end| href[end] == b':') {
            return None;
        }
        path.clear();
        path.extend_from_slice(directory);
        path.extend_from_slice(href);
        Some((self.origin, path))
    }
}

/// Returns the scheme and the text after `http://` or `https://`, in upper or lower case. The text
/// must not have control characters, because two of these become a colon and a slash when letters
/// are made lower case.
fn split_scheme(text: &[u8]) -> Option<(Scheme, &[u8])> {
    const SMALL: u64 = u64::from_le_bytes([b' '; 8]);
    const HTTPS: u64 = u64::from_le_bytes(*b"https://");
    const HTTP: u64 = u64::from_le_bytes(*b"http://\0");
    let start = u64::from_le_bytes(*text.first_chunk()?) | SMALL;
    if start == HTTPS {
        return Some((Scheme::Https, &text[8..]));
    }
    (start & (u64::MAX >> 8) == HTTP).then(|| (Scheme::Http, &text[7..]))
}

/// Returns the parent directory with its slash. The parent of the root is the root. The result is
/// `None` if the URL parser may keep the `..`: see `url::plain` on drive letters.
fn parent(directory: &[u8]) -> Option<&[u8]> {
    let name = directory.strip_suffix(b"/")?;
    let Some(slash) = memchr::memrchr(b'/', name) else { return Some(directory) };
    let is_drive = matches!(name[slash + 1..], [_, b':' | b'|']);
    (!is_drive).then_some(&name[..=slash])
}

/// Which special bytes a link's text has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Signs {
    has_fragment: bool,
    /// The text has blanks, control characters or a backslash. The URL parser may drop the former,
    /// and may read a backslash as a slash.
    is_odd: bool,
}

impl Signs {
    /// Examines a text eight bytes at a time. The last eight bytes may overlap those before. Vector
    /// instructions are not used, because links are too short for them.
    #[inline]
    fn of(text: &[u8]) -> Signs {
        let (mut fragments, mut odd) = (0, 0);
        let mut look = |word: [u8; 8]| {
            let word = u64::from_le_bytes(word);
            fragments |= below(word ^ (ONES * u64::from(b'#')), 1);
            odd |= below(word, b' ' + 1) | below(word ^ (ONES * u64::from(b'\\')), 1);
        };
        match text.last_chunk() {
            Some(last) => {
                text.as_chunks().0.iter().for_each(|word| look(*word));
                look(*last);
            }
            None => {
                let mut word = [b'a'; 8];
                word[..text.len()].copy_from_slice(text);
                look(word);
            }
        }
        Signs { has_fragment: fragments != 0, is_odd: odd != 0 }
    }
}

const ONES: u64 = u64::MAX / 255;

/// Returns a value that is not zero if any byte of `word` is below `bound`, which is at most 128.
/// Only the lowest bit that is set marks such a byte for certain: a borrow may set bits above it.
#[inline]
fn below(word: u64, bound: u8) -> u64 {
    word.wrapping_sub(ONES * u64::from(bound)) & !word & (ONES * 0x80)
}

impl LinkMemo {
    /// Makes a memo of at most `size_mb`.
    pub(super) fn new(size_mb: usize, hash_key: HashKey) -> LinkMemo {
        let count_max = (size_mb << 20) / size_of::<u64>();
        let starts = Starts([0, 1, 2, 3].map(|kind| hash_key.hash(&[kind])));
        let recent = Recent::growing(LINK_MEMO_COUNT, count_max);
        LinkMemo { hash_key, starts, recent, path: Vec::new() }
    }

    /// Returns the base of the links of a page at `url`.
    pub(super) fn bases<'u>(&self, url: &'u Url, host_key: HostKey) -> Bases<'u> {
        Bases::of(url, host_key, &self.hash_key, self.starts)
    }

    /// Returns a link's key, and prefetches its place. The caller asks [`LinkMemo::knows`] for this
    /// key soon after.
    pub(super) fn prefetch(&mut self, bases: &Bases<'_>, href: &str) -> u128 {
        let key = bases.key(&self.hash_key, href, &mut self.path);
        self.recent.prefetch(key);
        key
    }

    /// Reports whether the link was handled lately.
    pub(super) fn knows(&mut self, key: u128) -> bool {
        self.recent.touch(key)
    }

    /// Remembers a link whose URL is new.
    pub(super) fn remember(&mut self, key: u128) {
        self.recent.insert(key);
    }

    /// Remembers a link whose URL was known before, or may have been, and lets the memo grow: a
    /// larger memo would have known the link.
    pub(super) fn remember_again(&mut self, key: u128) {
        self.recent.insert(key);
        self.recent.grow();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::hash_key::test_key;

    fn memo() -> LinkMemo {
        LinkMemo::new(1, test_key())
    }

    fn keys(memo: &LinkMemo, base: &str, hrefs: &[&str]) -> Vec<u128> {
        let base = Url::parse(base).expect("a base");
        let bases = memo.bases(&base, HostKey(0));
        hrefs.iter().map(|href| bases.key(&memo.hash_key, href, &mut Vec::new())).collect()
    }

    /// Two links may share a key only if they join to the same URL.
    #[test]
    fn equal_keys_lead_to_equal_urls() {
        let bases = [
            "http://a.test/",
            "http://a.test/d/",
            "http://a.test/d/x",
            "http://a.test/d/y?q",
            "http://a.test/d/e/x",
            "http://a.test/d//x",
            "http://a.test/d/C:/x",
            "http://a.test/C:/x?a/b",
            "https://a.test/d/x",
            "http://a.test:81/d/x",
            "http://b.test/d/x",
        ];
        let hrefs = [
            "",
            "#f",
            "?q",
            "x",
            "./x",
            "../x",
            "d/x",
            "/d/x",
            "/",
            "//b.test/d/x",
            "y?q",
            "http://a.test/d/x",
            "https://a.test/d/x",
            "HTTP://a.test/d/x",
            "http:x",
            "http:/x",
            "mailto:a@b",
            "d:x",
            " x",
            "x ",
            "x\t",
            "./ x",
            "./\t/d/x",
            "..//x",
            "..//b.test/d/x",
            ".//b.test/d/x",
            "../\\x",
            "\\x",
            "/\\b.test/d/x",
            "/\t/b.test/d/x",
            "../../x",
            "./.././x",
            "../e/x",
            "../d/x",
            ".",
            "..",
            "../",
            "...",
            "x/../x",
            "%2e%2e/x",
            "./d:x",
            "./?q",
            "../?q",
            "//a.test/d/x",
            "//A.test/d/x",
            "//a.test",
            "//a.test?q",
            "//a.test:80/d/x",
            "//a.test:81/d/x",
            "//a.test.b/d/x",
            "http://A.TEST/d/x",
            "http://a.test/D/x",
            "HTTP://b.test/d/x",
            "https://b.test/d/x",
            "http:////b.test/d/x",
            "http://u@a.test/d/x",
            "hTTps:x",
            "C:/x",
            "../C:/x",
        ];
        let (mut shared, memo) = (0, memo());
        let mut links = Vec::new();
        for base in bases {
            let keys = keys(&memo, base, &hrefs);
            links.extend(hrefs.into_iter().zip(keys).map(|(href, key)| (base, href, key)));
        }
        for (one_base, one, one_key) in &links {
            for (other_base, other, other_key) in &links {
                if one_key != other_key {
                    continue;
                }
                let join = |base: &str, href: &str| Url::parse(base).expect("a base").join(href);
                let (one_url, other_url) = (join(one_base, one), join(other_base, other));
                assert_eq!(one_url, other_url, "{one_base} {one}; {other_base} {other}");
                shared += usize::from(one_base != other_base);
            }
        }
        assert!(shared > 2_000, "{shared} pairs on two pages share a key");
    }

    #[test]
    fn signs_are_those_of_each_byte_wherever_it_stands() {
        for byte in 0..=255 {
            for (len, at) in (1..=33).flat_map(|len| (0..len).map(move |at| (len, at))) {
                let mut text = vec![b'x'; len];
                text[at] = byte;
                text[len - 1 - at] = text[len - 1 - at].max(0x80 * u8::from(at % 3 == 0));
                let has_fragment = text.contains(&b'#');
                let is_odd = text.iter().any(|byte| *byte <= b' ' || *byte == b'\\');
                assert_eq!(Signs::of(&text), Signs { has_fragment, is_odd }, "{text:?}");
            }
        }
        assert_eq!(Signs::of(b""), Signs::default());
    }

    #[test]
    fn spellings_of_one_path_share_their_key() {
        let base = "http://a.test/d/e/f?q";
        let spellings = [
            "/d/x",
            "../x",
            "./../x#top",
            "//a.test/d/x",
            "//A.Test/d/x",
            "http://a.test/d/x",
            "HTTP://A.TEST/d/x#top",
        ];
        let memo = memo();
        let plain = keys(&memo, "http://a.test/", &["d/x"])[0];
        for (spelling, key) in spellings.into_iter().zip(keys(&memo, base, &spellings)) {
            assert_eq!(key, plain, "{spelling}");
        }
    }

    #[test]
    fn a_link_is_known_once_it_was_remembered() {
        let mut memo = memo();
        let base = Url::parse("http://a.test/x").expect("a base");
        let bases = memo.bases(&base, HostKey(0));
        let keys = ["/a", "/b"].map(|href| memo.prefetch(&bases, href));
        assert!(keys.iter().all(|key| !memo.knows(*key)));
        memo.remember(keys[1]);
        let again = ["/a", "/b"].map(|href| memo.prefetch(&bases, href));
        assert_eq!(again.map(|key| memo.knows(key)), [false, true]);
    }
}

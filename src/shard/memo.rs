//! Links that were dealt with lately, by their text: most links of a page stood on the page before,
//! and those need not be joined, normalised and looked up again.
//!
//! In: the base of a page and the text of a link. Out: a key of 128 bits, the same for two links
//! only if they lead to the same URL (as sure as fingerprints are). A key is remembered once its
//! URL is known for good: queued, known before, or on its way to the core or the merge that will
//! judge it. So a hit never hides a URL that nobody has. Owned by one core.

use crate::base::recent::Recent;
use crate::limits::LINK_MEMO_COUNT;
use crate::url::Url;
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

pub(super) struct LinkMemo {
    recent: Recent,
    /// Of the links of one page.
    keys: Vec<(u128, bool)>,
}

impl Default for LinkMemo {
    fn default() -> LinkMemo {
        LinkMemo { recent: Recent::with_places(LINK_MEMO_COUNT), keys: Vec::new() }
    }
}

/// What a link means depends on where it stands: on nothing, on the origin, on the directory or on
/// the whole URL of its base.
pub(super) struct Bases {
    origin: u64,
    directory: u64,
    whole: u64,
}

impl Bases {
    pub(super) fn of(base: &Url) -> Bases {
        let hash = |kind, text: &str| xxh3_64_with_seed(text.as_bytes(), kind);
        Bases {
            origin: hash(1, base.origin()),
            directory: hash(2, base.directory()),
            whole: hash(3, base.as_str()),
        }
    }

    fn key(&self, href: &str) -> u128 {
        // A fragment leads nowhere else, whatever is in it.
        let href = &href[..memchr::memchr(b'#', href.as_bytes()).unwrap_or(href.len())];
        let seed = match href.as_bytes() {
            [] | [b'?', ..] => self.whole,
            // Of the base's scheme; the origin has it.
            [b'/', ..] => self.origin,
            _ if href.starts_with("http://") || href.starts_with("https://") => 0,
            _ => self.directory,
        };
        xxh3_128_with_seed(href.as_bytes(), seed)
    }
}

impl LinkMemo {
    /// Looks all links of a page up at once, so that one need not wait for another's memory. Says
    /// for each its key and whether it was dealt with. Give the list back.
    pub(super) fn look_up<'l>(
        &mut self,
        bases: &Bases,
        hrefs: impl Iterator<Item = &'l str>,
    ) -> Vec<(u128, bool)> {
        let mut keys = std::mem::take(&mut self.keys);
        keys.clear();
        keys.extend(hrefs.map(|href| (bases.key(href), false)));
        for (key, is_known) in &mut keys {
            *is_known = self.recent.contains(*key);
        }
        keys
    }

    pub(super) fn give_back(&mut self, keys: Vec<(u128, bool)>) {
        self.keys = keys;
    }

    pub(super) fn remember(&mut self, key: u128) {
        self.recent.insert(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(base: &str, href: &str) -> u128 {
        Bases::of(&Url::parse(base).expect("a base")).key(href)
    }

    /// Two links may share a key only if they join to the same URL.
    #[test]
    fn equal_keys_lead_to_equal_urls() {
        let bases = [
            "http://a.test/",
            "http://a.test/d/",
            "http://a.test/d/x",
            "http://a.test/d/y?q",
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
        ];
        let mut shared = 0;
        for (one_base, one) in bases.iter().flat_map(|base| hrefs.map(|href| (base, href))) {
            for (other_base, other) in bases.iter().flat_map(|base| hrefs.map(|h| (base, h))) {
                if key(one_base, one) != key(other_base, other) {
                    continue;
                }
                let join = |base: &str, href: &str| Url::parse(base).expect("a base").join(href);
                let (one_url, other_url) = (join(one_base, one), join(other_base, other));
                assert_eq!(one_url, other_url, "{one_base} {one}; {other_base} {other}");
                shared += usize::from(one_base != other_base);
            }
        }
        assert!(shared > 20, "{shared} pairs on two pages share a key");
    }

    #[test]
    fn a_link_is_known_once_it_was_remembered() {
        let mut memo = LinkMemo::default();
        let bases = Bases::of(&Url::parse("http://a.test/x").expect("a base"));
        let keys = memo.look_up(&bases, ["/a", "/b"].into_iter());
        assert!(keys.iter().all(|(_, is_known)| !is_known));
        memo.remember(keys[1].0);
        memo.give_back(keys);
        let again = memo.look_up(&bases, ["/a", "/b"].into_iter());
        assert_eq!(again.iter().map(|key| key.1).collect::<Vec<_>>(), [false, true]);
    }
}

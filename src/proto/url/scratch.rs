//! A URL in a buffer that is reused: nine links of ten are known, and need no URL of their own.
//!
//! A base and a link go in; the URL's hashes and, if someone keeps it, a [`Url`] come out. Between
//! two uses the text in the buffer means nothing. A scratch stays on one core.

use super::{HostKey, Normaliser, Parts, Scheme, Url, UrlError, UrlId, plain, reference};
use crate::base::HashKey;

pub struct Scratch {
    text: String,
    parts: Parts,
    /// The buffers in which its normal form is written.
    room: Room,
}

/// Buffers to write in: a text in normal spelling, and the whole URL in normal form.
#[derive(Default)]
pub(super) struct Room {
    pub(super) spelled: String,
    pub(super) out: String,
}

/// The URL that links are joined to, with what each of them would otherwise compute from it.
pub struct Base<'u> {
    url: &'u Url,
    directory_end: usize,
    /// The base is in normal form, so what is appended to a part of it need not be checked again.
    is_normal: bool,
}

impl<'u> Base<'u> {
    pub fn of(url: &'u Url, normaliser: &Normaliser) -> Base<'u> {
        Base { url, directory_end: url.directory_end(), is_normal: normaliser.is_normal_url(url) }
    }
}

impl Default for Scratch {
    fn default() -> Scratch {
        let parts = Parts { host_end: 0, path_start: 0, scheme: Scheme::Http, port: 0 };
        Scratch { text: String::new(), parts, room: Room::default() }
    }
}

impl Scratch {
    /// Does what [`Url::join`] does and, if `is_wanted` accepts the host, what
    /// [`Normaliser::normalise`] does. Returns what `is_wanted` said.
    pub fn join(
        &mut self,
        base: &Base<'_>,
        reference: &str,
        normaliser: &Normaliser,
        is_wanted: impl FnOnce(&str) -> bool,
    ) -> Result<bool, UrlError> {
        self.text.clear();
        let mut is_normal = false;
        match plain::join(base.url, || base.directory_end, reference, &mut self.text) {
            Some(found) => (self.parts, is_normal) = found?,
            None => self.copy(&reference::join(base.url, reference)?),
        }
        let is_wanted = is_wanted(self.host());
        if is_wanted && !(is_normal && base.is_normal) {
            self.normalise(normaliser);
        }
        Ok(is_wanted)
    }

    fn normalise(&mut self, normaliser: &Normaliser) {
        if !normaliser.is_normal(self.host(), self.path_and_query())
            && let Some(parts) = normaliser.rewrite(&self.text, self.parts, &mut self.room)
        {
            self.parts = parts;
            std::mem::swap(&mut self.text, &mut self.room.out);
        }
    }

    fn copy(&mut self, url: &Url) {
        self.text.clear();
        self.text.push_str(&url.text);
        self.parts = url.parts;
    }

    #[inline]
    pub fn host(&self) -> &str {
        self.parts.host(&self.text)
    }

    pub fn path_and_query(&self) -> &str {
        &self.text[self.parts.path_start as usize..]
    }

    /// Returns what [`Url::id`] returns. `host_key` is the key of `host`; if the URL has that host,
    /// it need not be hashed again.
    pub fn id(&self, key: &HashKey, host: &str, host_key: HostKey) -> UrlId {
        let is_same = self.host() == host;
        let host_key = if is_same { host_key } else { HostKey::of(key, self.host()) };
        UrlId::of(key, host_key, &self.text, self.parts.path_start as usize)
    }

    pub fn url(&self) -> Url<&str> {
        Url { text: &self.text, parts: self.parts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::hash_key::test_key;
    use crate::proto::url::tests::{corpus_text, url_text};
    use proptest::prelude::*;

    fn check(normaliser: &Normaliser, base: &Url, reference: &str) -> Result<(), TestCaseError> {
        let expected = base.join(reference).map(|url| normaliser.normalise(url));
        let mut scratch = Scratch::default();
        // A URL that was in the buffer before must leave no trace.
        let other = "http://b.test/%7Eother?z=1&utm_source=x&a=2";
        let _ = scratch.join(&Base::of(base, normaliser), other, normaliser, |_| true);
        let joined = scratch.join(&Base::of(base, normaliser), reference, normaliser, |_| true);
        prop_assert_eq!(joined.is_ok(), expected.is_ok());
        if let Ok(expected) = expected {
            let key = test_key();
            let id = scratch.id(&key, base.host(), base.host_key(&key));
            prop_assert_eq!(id, expected.id(&key), "{}", reference);
            prop_assert_eq!(scratch.url(), expected.lent());
        }
        Ok(())
    }

    const BASES: [&str; 6] = [
        "http://a.test/",
        "http://a.test/d/e?q=/x",
        "http://a.test./d/%7Ee/f",
        "https://a.test:81/d;jsessionid=1/[x]/",
        "http://a.test/d//C:/x;y",
        "http://a.test/?b&a",
    ];

    #[test]
    fn real_links_are_joined_and_normalised_as_the_long_way_does() {
        let (text, _) = corpus_text("urls/real-urls.txt");
        let normaliser = Normaliser::new(&[]);
        for (line, base) in text.lines().zip(BASES.iter().cycle()) {
            let base = Url::parse(base).expect("a base");
            check(&normaliser, &base, line).expect(line);
            let Ok(url) = Url::parse(line) else { continue };
            check(&normaliser, &base, url.path_and_query()).expect(line);
            check(&normaliser, &base, &url.path_and_query()[1..]).expect(line);
        }
    }

    proptest! {
        #[test]
        fn links_are_joined_and_normalised_as_the_long_way_does(
            text in url_text(),
            reference in "(/|\\./|\\.\\./|\\?|;|%2[eE]|%7e|[a-c.:;'\"~ ]|//|#|&b=1|é){0,9}",
            base in prop::sample::select(&BASES[..]),
        ) {
            let normaliser = Normaliser::new(&["r*".into()]);
            let base = Url::parse(base).expect("a base");
            check(&normaliser, &base, &text)?;
            check(&normaliser, &base, &reference)?;
        }
    }
}

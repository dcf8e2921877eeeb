//! Which URLs a sitemap may list (sitemaps.org, "Sitemap file location" and "Sitemaps & Cross
//! Submits").
//!
//! A site says in its robots.txt where its sitemaps are, and so lets them speak for it: such a
//! file, wherever it lies, may list any URL of that host. For its own host a file may list what
//! lies in its directory or below. A URL of any third host is refused, because a stranger's list
//! does not come from those who run that host.
//!
//! Scheme and port are not compared, although the protocol asks for it: sites that moved to https
//! list both, and robots.txt and the pace of the URL's own origin apply all the same.

use crate::base::HashKey;
use crate::proto::url::{HostKey, Url};

/// The URLs that one sitemap may list.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    sitemap: &'a Url,
    submitter: HostKey,
    hash_key: &'a HashKey,
}

impl<'a> Scope<'a> {
    /// Makes a scope. `submitter` is the host whose robots.txt named the sitemap, or the index that
    /// named it; its key is under `hash_key`.
    pub fn new(sitemap: &'a Url, submitter: HostKey, hash_key: &'a HashKey) -> Scope<'a> {
        Scope { sitemap, submitter, hash_key }
    }

    pub fn submitter(&self) -> HostKey {
        self.submitter
    }

    pub fn allows(&self, listed: &Url) -> bool {
        listed.host_key(self.hash_key) == self.submitter
            || (listed.host() == self.sitemap.host()
                && listed.path_and_query().starts_with(directory(self.sitemap)))
    }
}

/// Returns the path up to its last slash, without the query.
fn directory(url: &Url) -> &str {
    let target = url.path_and_query();
    let path = &target[..target.find('?').unwrap_or(target.len())];
    &path[..path.rfind('/').map_or(0, |slash| slash + 1)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::hash_key::test_key;

    fn url(text: &str) -> Url {
        Url::parse(text).expect("a test's URL")
    }

    #[test]
    fn rfc_a_sitemap_speaks_for_its_directory_and_for_the_host_that_named_it() {
        let sitemap = url("http://cdn.test/maps/a.xml?list=/x/");
        let key = test_key();
        let scope = Scope::new(&sitemap, HostKey::of(&key, "shop.test"), &key);
        for listed in ["http://shop.test/", "https://shop.test:8443/x?y", "http://cdn.test/maps/"] {
            assert!(scope.allows(&url(listed)), "{listed}");
        }
        for listed in ["http://cdn.test/", "http://cdn.test/x/", "http://www.shop.test/"] {
            assert!(!scope.allows(&url(listed)), "{listed}");
        }
    }

    #[test]
    fn a_host_that_names_its_own_sitemap_is_spoken_for_whole() {
        let sitemap = url("http://shop.test/deep/down/a.xml");
        let key = test_key();
        let scope = Scope::new(&sitemap, HostKey::of(&key, "shop.test"), &key);
        assert!(scope.allows(&url("http://shop.test/elsewhere")));
        assert!(!scope.allows(&url("http://other.test/deep/down/")));
    }
}

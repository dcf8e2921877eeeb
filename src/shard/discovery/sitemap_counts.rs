//! How many sitemaps and listed URLs each host has been allowed so far.

use crate::base::limits::{SITEMAP_HOST_DOCUMENT_COUNT_MAX, SITEMAP_HOST_URL_COUNT_MAX};
use crate::proto::url::HostKey;
use hashbrown::HashMap;

/// The counts by host. Only hosts that served a sitemap are in it.
#[derive(Default)]
pub(in crate::shard) struct SitemapCounts {
    hosts: HashMap<HostKey, Taken>,
}

#[derive(Clone, Copy, Default)]
struct Taken {
    document_count: u32,
    url_count: u32,
}

impl SitemapCounts {
    /// Returns how many sitemaps and listed URLs of a host were booked so far.
    pub(in crate::shard) fn taken(&self, host: HostKey) -> (u32, u32) {
        self.hosts.get(&host).map_or((0, 0), |taken| (taken.document_count, taken.url_count))
    }

    pub(in crate::shard) fn restore(&mut self, host: HostKey, document_count: u32, url_count: u32) {
        if document_count > 0 || url_count > 0 {
            self.hosts.insert(host, Taken { document_count, url_count });
        }
    }

    /// Books one more address that a sitemap of `host` lists. Returns false if that is one too
    /// many.
    pub(in crate::shard) fn book(&mut self, host: HostKey, is_document: bool) -> bool {
        let taken = self.hosts.entry(host).or_default();
        let (count, max) = if is_document {
            (&mut taken.document_count, SITEMAP_HOST_DOCUMENT_COUNT_MAX)
        } else {
            (&mut taken.url_count, SITEMAP_HOST_URL_COUNT_MAX)
        };
        let has_room = *count < max;
        *count += u32::from(has_room);
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_so_many_sitemaps_and_listed_urls_and_no_more() {
        let mut counts = SitemapCounts::default();
        let (one, two) = (HostKey(1), HostKey(2));
        for _ in 0..SITEMAP_HOST_DOCUMENT_COUNT_MAX {
            assert!(counts.book(one, true));
        }
        assert!(!counts.book(one, true));
        assert!(counts.book(one, false) && counts.book(two, true));
        for _ in 1..SITEMAP_HOST_URL_COUNT_MAX {
            assert!(counts.book(one, false));
        }
        assert!(!counts.book(one, false));
    }
}

//! Found URLs on their way into discovery, and the counts of what happens to them.

use super::Shard;
use super::discovery::Discovery;
use super::discovery::link_desk::LinkTally;
use super::manners::Pace;
use crate::crawl::flow::Candidate;
use crate::crawl::frontier::seen::DiskSieve;
use crate::crawl::frontier::{Frontier, Offered};
use crate::crawl::metrics::Count;
use crate::io::World;
use crate::proto::url::Url;
use std::cell::{Ref, RefMut};

impl<W: World> Shard<W> {
    /// Admits a candidate of a host of this shard, or sends it to the shard that owns its host.
    pub(in crate::shard) fn route(&self, candidate: Candidate) {
        let now = self.kit.world.now();
        let offered = self.discovery.borrow_mut().offer(candidate, now, &mut self.out());
        if let Some(offered) = offered {
            self.offered(offered);
        }
    }

    pub(in crate::shard) fn frontier(&self) -> Ref<'_, Frontier<DiskSieve<W::File>, Pace>> {
        Ref::map(self.discovery.borrow(), Discovery::frontier)
    }

    pub(in crate::shard) fn frontier_mut(&self) -> RefMut<'_, Frontier<DiskSieve<W::File>, Pace>> {
        RefMut::map(self.discovery.borrow_mut(), Discovery::frontier_mut)
    }

    /// Counts what happened to a candidate, at once or after a merge.
    pub(in crate::shard) fn offered(&self, offered: Offered) {
        let count = match offered {
            Offered::Queued => Count::UrlsNew,
            Offered::Known => Count::UrlsKnown,
            Offered::Later => Count::UrlsDeferred,
            Offered::Dropped(reason) if reason.is_trap() => Count::UrlsTrapped,
            Offered::Dropped(_) => Count::UrlsDropped,
        };
        self.kit.probe.add(count, 1);
        if count == Count::UrlsNew {
            self.kit.wake.poke();
        }
    }

    /// Returns the number that stands for a URL in redirect trails and in the near-duplicate
    /// tables.
    pub(in crate::shard) fn trail_step(&self, url: &Url) -> u64 {
        url.fingerprint(&self.kit.plan.hash_key).0 as u64
    }

    /// Counts the links left out of a page with too many links, and warns at the first such page,
    /// the tenth, the hundredth and so on. The index names all such pages.
    pub(in crate::shard) fn tell_left_out(&self, url: &Url, link_count: u32) {
        if link_count == 0 {
            return;
        }
        let probe = &self.kit.probe;
        probe.add(Count::LinksOverCap, link_count.into());
        probe.add(Count::PagesOverLinkCap, 1);
        let page_count = probe.count(Count::PagesOverLinkCap);
        let is_power_of_ten = page_count == 10u64.pow(page_count.ilog10());
        if is_power_of_ten {
            tracing::warn!(
                "{link_count} links of {url} are left out: a page may have {} \
                 (page_link_count_max). Shard {} has left out {} links of {page_count} pages so \
                 far; the CDXJ lines of these pages say links_left_out",
                self.kit.plan.settings.page_link_count_max,
                self.kit.index.0,
                probe.count(Count::LinksOverCap),
            );
        }
    }

    /// Counts what happened to many links at once. [`Shard::offered`] does so for one URL.
    pub(in crate::shard) fn count_links(&self, tally: LinkTally) {
        let probe = &self.kit.probe;
        probe.add(Count::LinksRemembered, tally.remembered_count);
        probe.add(Count::LinksRefused, tally.refused_count);
        probe.add(Count::LinksOutside, tally.outside_count);
        probe.add(Count::UrlsKnown, tally.remembered_count + tally.known_count);
        probe.add(Count::UrlsNew, tally.queued_count);
        probe.add(Count::UrlsDeferred, tally.deferred_count);
        probe.add(Count::UrlsTrapped, tally.trapped_count);
        probe.add(Count::UrlsDropped, tally.dropped_count);
        if tally.queued_count > 0 {
            self.kit.wake.poke();
        }
    }
}

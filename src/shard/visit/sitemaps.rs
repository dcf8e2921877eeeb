//! Sitemaps: routed from a robots.txt to the frontier, and the URLs they list routed to the
//! frontier.
//!
//! A sitemap is requested like a page, through the frontier of the shard that owns its host. Robots
//! rules, politeness and URL seen apply to it, so URL seen rejects an index that lists itself. What
//! a sitemap lists is routed as links of depth one. Bounds: the entries per file
//! ([`crate::proto::sitemap`]), the indexes above a file by its depth, and the sitemaps and URLs
//! per host by [`crate::shard::discovery`].

use crate::base::limits::SITEMAP_INDEX_DEPTH_MAX;
use crate::crawl::flow::{Candidate, Class, Trail, Via};
use crate::crawl::frontier::Queued;
use crate::crawl::metrics::Count;
use crate::crawl::parse::Listed;
use crate::crawl::resolve::RobotsState;
use crate::io::World;
use crate::proto::sitemap::Scope;
use crate::proto::url::{HostKey, Url};
use crate::shard::Shard;

/// The number of addresses routed before other tasks get a turn: about as many as a large page has
/// links.
const ROUTED_AT_ONCE: usize = 500;

/// What happened to one listed address.
enum Fate {
    Routed,
    /// The address is no URL, or the sitemap may not list it.
    Refused,
    /// The address lies outside what `stay` or the depth limit allows.
    Outside,
    OverCap,
}

impl<W: World> Shard<W> {
    /// Routes the sitemaps that the robots.txt of `page`'s origin names. URL seen rejects the known
    /// ones, so a robots.txt that is read again a day later adds none twice.
    pub(in crate::shard) fn route_sitemaps(&self, page: &Url) {
        if !self.kit.plan.settings.sitemaps {
            return;
        }
        let state = self.manners.borrow().robots_state(page.origin(), self.kit.world.now());
        let RobotsState::Ready(rules) = state else { return };
        for address in rules.sitemaps() {
            let fate = match page.join(address) {
                Err(_) => Fate::Refused,
                Ok(url) if !self.discovery.borrow().territory().is_home(url.host()) => {
                    Fate::Outside
                }
                Ok(url) => self.route_sitemap(url, 0, page.host_key(&self.kit.plan.hash_key)),
            };
            self.count_fates([fate]);
        }
    }

    /// Reports whether `queued` was named as a sitemap. This holds also if a link had brought its
    /// URL before the robots.txt was read, because URL seen prevents a second visit.
    pub(in crate::shard) fn is_sitemap(&self, queued: &Queued) -> bool {
        let url = &queued.url;
        queued.via == Via::Sitemap
            || match self.manners.borrow().robots_state(url.origin(), self.kit.world.now()) {
                RobotsState::Ready(rules) if self.kit.plan.settings.sitemaps => {
                    rules.sitemaps().any(|address| address == url.as_str())
                }
                _ => false,
            }
    }

    /// Routes what the sitemap `queued` listed. `listed` is `None` if the answer was no sitemap.
    pub(in crate::shard) async fn take_listed(&self, queued: &Queued, listed: Option<&Listed>) {
        let Some(listed) = listed else {
            return self.kit.probe.add(Count::SitemapsRefused, 1);
        };
        {
            let summary = listed.summary;
            let probe = &self.kit.probe;
            probe.add(Count::Sitemaps, 1);
            let over_count = u64::from(summary.over_count) + u64::from(listed.unkept_count);
            let refused_count = u64::from(summary.refused_count);
            probe.add(Count::SitemapUrls, over_count + refused_count);
            probe.add(Count::SitemapUrlsOverCap, over_count);
            probe.add(Count::SitemapUrlsRefused, refused_count);
        }
        let named_by = queued.trail.first().filter(|_| queued.via == Via::Sitemap);
        let submitter =
            named_by.map_or(queued.url.host_key(&self.kit.plan.hash_key), |key| HostKey(*key));
        let scope = Scope::new(&queued.url, submitter, &self.kit.plan.hash_key);
        let mut locs = listed.locs();
        loop {
            let batch = locs.by_ref().take(ROUTED_AT_ONCE);
            let count =
                self.count_fates(batch.map(|loc| self.route_listed(queued, listed, scope, loc)));
            if count < ROUTED_AT_ONCE {
                return;
            }
            self.kit.world.yield_now().await;
        }
    }

    fn route_listed(&self, queued: &Queued, listed: &Listed, scope: Scope<'_>, loc: &str) -> Fate {
        let Ok(url) = queued.url.join(loc) else { return Fate::Refused };
        if !scope.allows(&url) {
            return Fate::Refused;
        }
        if !self.discovery.borrow().territory().is_home(url.host()) {
            return Fate::Outside;
        }
        let is_index = listed.is_index();
        if is_index && queued.depth >= SITEMAP_INDEX_DEPTH_MAX {
            return Fate::OverCap;
        }
        let host = queued.url.host_key(&self.kit.plan.hash_key);
        if !self.discovery.borrow_mut().book_listed(host, is_index) {
            return Fate::OverCap;
        }
        if is_index {
            return self.route_sitemap(url, queued.depth + 1, scope.submitter());
        }
        if self.kit.plan.settings.depth_max == 0 {
            return Fate::Outside;
        }
        // Listed URLs have low priority: a link says that someone thinks a page is worth a visit, a
        // list does not. Pages that links lead to come first, and a full frontier evicts listed
        // ones first. Each class has its turns, so none waits for ever.
        let url = self.discovery.borrow().territory().normaliser.normalise(url);
        let (class, via, trail) = (Class::Low, Via::Link, Trail::default());
        self.route(Candidate { url, depth: 1, class, via, trail });
        Fate::Routed
    }

    /// Routes one sitemap. `depth` is the number of indexes above it.
    fn route_sitemap(&self, url: Url, depth: u16, submitter: HostKey) -> Fate {
        let url = self.discovery.borrow().territory().normaliser.normalise(url);
        let (class, via, trail) = (Class::Normal, Via::Sitemap, Trail::from([submitter.0]));
        self.route(Candidate { url, depth, class, via, trail });
        Fate::Routed
    }

    /// Counts what happened to addresses, and returns how many there were.
    fn count_fates(&self, fates: impl IntoIterator<Item = Fate>) -> usize {
        let (mut count, mut refused, mut outside, mut over) = (0, 0, 0, 0);
        for fate in fates {
            count += 1;
            match fate {
                Fate::Routed => {}
                Fate::Refused => refused += 1,
                Fate::Outside => outside += 1,
                Fate::OverCap => over += 1,
            }
        }
        let probe = &self.kit.probe;
        probe.add(Count::SitemapUrls, count as u64);
        probe.add(Count::SitemapUrlsRefused, refused);
        probe.add(Count::LinksOutside, outside);
        probe.add(Count::SitemapUrlsOverCap, over);
        count
    }
}

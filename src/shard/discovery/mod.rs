//! From found URLs to hosts that may be visited: the frontier with URL seen and the queues on disk,
//! the memo of links, and what sitemaps may list.
//!
//! Owns every URL that is known and has not ended. In: seeds, links, redirects, listed URLs,
//! parcels of other shards. Out: hosts and URLs for visits, and, through an [`Out`], journal
//! entries of what was queued and links for other shards. Invariants: a URL is queued, waits for
//! another try, or is open; a link to another shard's host never touches this frontier. It does no
//! I/O and has no clock of its own. Touched by one core.

pub mod link_desk;
mod link_memo;
mod sitemap_counts;
mod territory;

pub(super) use sitemap_counts::SitemapCounts;
pub(super) use territory::Territory;

use super::manners::Pace;
use super::out::Out;
use crate::base::{HashKey, Time};
use crate::crawl::flow::{Candidate, Parcel, Queued};
use crate::crawl::frontier::seen::DiskSieve;
use crate::crawl::frontier::{Frontier, Offered};
use crate::crawl::journal;
use crate::io::File;
use crate::proto::url::{HostKey, Normaliser, Url, UrlId};
use link_desk::{LinkDesk, LinkTally, Ways};
use std::cell::{RefCell, RefMut};

pub(super) struct Discovery<F> {
    territory: Territory,
    frontier: Frontier<DiskSieve<F>, Pace>,
    links: LinkDesk,
    sitemaps: SitemapCounts,
}

impl<F: File> Discovery<F> {
    pub(super) fn new(
        territory: Territory,
        frontier: Frontier<DiskSieve<F>, Pace>,
        links: LinkDesk,
        sitemaps: SitemapCounts,
    ) -> Discovery<F> {
        Discovery { territory, frontier, links, sitemaps }
    }

    pub(super) fn territory(&self) -> &Territory {
        &self.territory
    }

    pub(super) fn frontier(&self) -> &Frontier<DiskSieve<F>, Pace> {
        &self.frontier
    }

    pub(super) fn frontier_mut(&mut self) -> &mut Frontier<DiskSieve<F>, Pace> {
        &mut self.frontier
    }

    /// Returns what a checkpoint packs with each host.
    pub(super) fn lore(&mut self) -> (&mut Frontier<DiskSieve<F>, Pace>, &mut SitemapCounts) {
        (&mut self.frontier, &mut self.sitemaps)
    }

    /// Admits a candidate of a host of this shard, or sends it to the shard that owns its host.
    /// Returns `None` if it was sent.
    pub(super) fn offer(
        &mut self,
        candidate: Candidate,
        now: Time,
        out: &mut impl Out,
    ) -> Option<Offered> {
        let host = candidate.url.host_key(&self.territory.hash_key);
        if self.territory.is_own(host) {
            return Some(self.offer_own(candidate, now, out));
        }
        let owner = self.territory.owner(host);
        out.link(owner, candidate.url.id(&self.territory.hash_key), &candidate.lent());
        None
    }

    /// Admits a candidate of a host of this shard.
    pub(super) fn offer_own(
        &mut self,
        candidate: Candidate,
        now: Time,
        out: &mut impl Out,
    ) -> Offered {
        let note = |queued: &Queued<&str>| out.entry(|bytes| journal::push_admitted(bytes, queued));
        self.frontier.offer_noting(candidate, now, note)
    }

    /// Routes the links of a page that was found at `depth - 1`: each goes to the frontier or to
    /// the shard that owns its host.
    pub(super) fn offer_links<'l>(
        &mut self,
        base: &Url,
        hrefs: impl Iterator<Item = &'l str>,
        depth: u16,
        now: Time,
        out: &mut impl Out,
    ) -> LinkTally {
        let Discovery { territory, frontier, links, .. } = self;
        links.route(&Way::new(territory, frontier, out), base, hrefs, depth, now)
    }

    /// Admits URLs of this shard's hosts that another shard has found.
    pub(super) fn offer_parcel(
        &mut self,
        parcel: &Parcel,
        now: Time,
        out: &mut impl Out,
    ) -> LinkTally {
        let Discovery { territory, frontier, links, .. } = self;
        links.take(&Way::new(territory, frontier, out), parcel, now)
    }

    /// Queues the next URL that a merge has proved new.
    pub(super) fn settle_next(&mut self, now: Time, out: &mut impl Out) -> Option<Offered> {
        let (offered, queued) = self.frontier.settle_next(now)?;
        if offered == Offered::Queued {
            out.entry(|bytes| journal::push_admitted(bytes, &queued.lent()));
        }
        Some(offered)
    }

    /// Books one more address that a sitemap of `host` lists. Returns false if that is one too
    /// many.
    pub(super) fn book_listed(&mut self, host: HostKey, is_document: bool) -> bool {
        self.sitemaps.book(host, is_document)
    }
}

/// What the link desk needs of discovery, lent for one call.
struct Way<'d, F, O> {
    territory: &'d Territory,
    frontier: RefCell<&'d mut Frontier<DiskSieve<F>, Pace>>,
    out: RefCell<&'d mut O>,
}

impl<'d, F, O: Out> Way<'d, F, O> {
    fn new(
        territory: &'d Territory,
        frontier: &'d mut Frontier<DiskSieve<F>, Pace>,
        out: &'d mut O,
    ) -> Way<'d, F, O> {
        Way { territory, frontier: RefCell::new(frontier), out: RefCell::new(out) }
    }
}

impl<F: File, O: Out> Ways for Way<'_, F, O> {
    type Sieve = DiskSieve<F>;
    type Data = Pace;

    fn frontier(&self) -> RefMut<'_, Frontier<DiskSieve<F>, Pace>> {
        RefMut::map(self.frontier.borrow_mut(), |frontier| &mut **frontier)
    }

    fn hash_key(&self) -> &HashKey {
        &self.territory.hash_key
    }

    fn normaliser(&self) -> &Normaliser {
        &self.territory.normaliser
    }

    fn is_home(&self, host: &str) -> bool {
        self.territory.is_home(host)
    }

    fn is_own(&self, host: HostKey) -> bool {
        self.territory.is_own(host)
    }

    fn send(&self, id: UrlId, candidate: &Candidate<&str>) {
        self.out.borrow_mut().link(self.territory.owner(id.host), id, candidate);
    }

    fn admitted(&self, queued: &Queued<&str>) {
        self.out.borrow_mut().entry(|bytes| journal::push_admitted(bytes, queued));
    }
}

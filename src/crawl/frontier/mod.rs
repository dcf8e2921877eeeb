//! The frontier of one core: decides which URL is fetched next, and when.
//!
//! This module owns URL-seen (the [`Sieve`]), the URLs that are still to be fetched, and the
//! next-eligible time of every host. Candidates from seeds, links, redirects and sitemaps flow in,
//! and the result of each host's turn. Hosts whose time has come flow out, and their URLs.
//!
//! Invariants: a URL is queued only once, except for retries; a host's turn never begins before the
//! time that its last release named, whether its URLs were queued by then or came later; hosts in
//! state Waiting or Ready have URLs, Idle hosts have none.
//!
//! It is a plain data structure that only its own core touches: it does no I/O (disk work is handed
//! out as jobs of the sieve and of [`spill`], which the shard runs) and reads no clock (time is an
//! argument).
//!
//! A URL's way through it:
//!
//! 1. [`Frontier::offer`]: the sieve says whether the URL is new, [`traps`] whether it looks like
//!    part of an endless site, the caps whether there is room.
//! 2. The URL joins the queue of its host and class. All of that queue but its head may be on disk.
//!    A host that was idle joins the wheel and waits there for its next-eligible time.
//! 3. [`Frontier::advance`] moves hosts whose time has come to the front queues.
//! 4. [`Frontier::pop_ready`] takes a host and marks it busy, so that it cannot be popped again;
//!    [`Frontier::next_url`] takes its next URL.
//! 5. [`Frontier::retry_at`] lets a URL wait for another try; [`Frontier::requeue`] puts it back at
//!    once; [`Frontier::release`] ends the turn and says when the next may begin.

pub mod bloom;
mod bounds;
mod census;
mod cold;
mod front;
mod host;
mod host_eviction;
mod image;
mod index;
mod leftovers;
mod links;
#[cfg(test)]
mod model_tests;
mod open;
mod packed;
mod paged;
mod prefetch;
mod retries;
pub mod seen;
pub mod sieve;
pub mod spill;
mod stale;
#[cfg(test)]
mod tests;
mod traps;
mod url_eviction;
mod wheel;

pub use crate::crawl::flow::Queued;
pub use bounds::{Caps, DropReason, Figures, Next, Offered};
pub use host::{HostId, HostState, IDLE_BYTES, Origin};
pub use host_eviction::HostSweep;
pub use image::{Middle, Unreadable, packed_chunks};
pub use open::OpenUrl;
pub use packed::OVERHEAD_BYTES;
pub use sieve::{MemorySieve, Seen, Sieve, SieveFigures};

use crate::base::limits::HOST_COUNT_MAX;
use crate::base::{HashKey, Time};
use crate::crawl::flow::{Candidate, Class};
use crate::proto::url::{Fingerprint, HostKey, Skeleton, Text, Url, UrlId};
use cold::ColdHosts;
use front::Front;
use host::{Host, HostTable};
use open::OpenUrls;
use packed::Record;
use retries::Retries;
use spill::{Popped, TailLimits, Tails};
use stale::StaleUrls;
use traps::Traps;
use url_eviction::EvictionLists;
use wheel::Wheel;

/// The frontier of one core. `X` is the data that the shard keeps with each host (pace, failures,
/// robots), so that it needs no second lookup.
pub struct Frontier<S = MemorySieve, X = ()> {
    /// The key under which host keys and fingerprints are computed.
    hash_key: HashKey,
    sieve: S,
    hosts: HostTable<X>,
    cold: ColdHosts,
    /// The host slot that [`Frontier::sweep`] looks at next.
    hand: u32,
    wheel: Wheel,
    front: Front,
    eviction: EvictionLists,
    retries: Retries,
    open: OpenUrls,
    /// Whether images of hosts are only inspected: URLs that were handed out are then not put back
    /// into the queues.
    keeps_open: bool,
    stale: StaleUrls,
    traps: Traps,
    tails: Tails,
    caps: Caps,
    /// The latest time that any call has passed in.
    now: Time,
    queued_count_by_class: [u64; 4],
    queued_bytes: u64,
    busy_count: usize,
    figures: Figures,
}

impl<X: Default> Frontier<MemorySieve, X> {
    pub fn new(caps: Caps, hash_key: HashKey) -> Frontier<MemorySieve, X> {
        Frontier::with_sieve(MemorySieve::default(), caps, hash_key)
    }
}

impl<S: Sieve, X: Default> Frontier<S, X> {
    pub fn with_sieve(sieve: S, caps: Caps, hash_key: HashKey) -> Frontier<S, X> {
        assert!(caps.host_count_max <= HOST_COUNT_MAX, "a cap exceeds its limit");
        Frontier {
            hash_key,
            sieve,
            hosts: HostTable::new(),
            cold: ColdHosts::new(),
            hand: 0,
            wheel: Wheel::new(),
            front: Front::new(),
            eviction: EvictionLists::default(),
            retries: Retries::default(),
            open: OpenUrls::default(),
            keeps_open: false,
            stale: StaleUrls::default(),
            traps: Traps::new(caps.skeleton_page_count_max),
            tails: Tails::new(TailLimits::sized(caps.resident_bytes_max)),
            caps,
            now: Time::ZERO,
            queued_count_by_class: [0; 4],
            queued_bytes: 0,
            busy_count: 0,
            figures: Figures::default(),
        }
    }

    pub fn hash_key(&self) -> &HashKey {
        &self.hash_key
    }

    /// Queues a normalised candidate if it is new and there is room.
    pub fn offer(&mut self, candidate: Candidate, now: Time) -> Offered {
        self.offer_noting(candidate, now, |_| ())
    }

    /// Works as [`Frontier::offer`]; calls `note` at once if the URL was queued.
    pub fn offer_noting(
        &mut self,
        candidate: Candidate,
        now: Time,
        note: impl FnOnce(&Queued<&str>),
    ) -> Offered {
        let id = candidate.url.id(&self.hash_key);
        let seen = self.check(id.fingerprint);
        self.offer_checked(seen, id, candidate.lent(), now, note)
    }

    /// Returns what URL-seen says of a fingerprint. The caller passes the answer to
    /// [`Frontier::offer_checked`], unless the URL is known.
    pub fn check(&mut self, fingerprint: Fingerprint) -> Seen {
        let seen = self.sieve.probe(fingerprint);
        self.figures.known_count += u64::from(seen == Seen::Known);
        seen
    }

    /// Works as [`Frontier::offer_noting`], for a candidate that [`Frontier::check`] has answered
    /// with `seen` and that was not queued since. `id` is the identity of its URL.
    pub fn offer_checked(
        &mut self,
        seen: Seen,
        id: UrlId,
        candidate: Candidate<&str>,
        now: Time,
        note: impl FnOnce(&Queued<&str>),
    ) -> Offered {
        debug_assert_eq!(id, candidate.url.id(&self.hash_key), "the id is another URL's");
        self.now = self.now.max(now);
        match seen {
            Seen::Known => Offered::Known,
            Seen::Later => {
                self.figures.later_count += 1;
                self.sieve.defer(id.fingerprint, &candidate, now);
                Offered::Later
            }
            Seen::New if self.sieve.is_full() => self.dropped(DropReason::SeenFull),
            Seen::New => {
                let queued = candidate.into();
                let offered = self.take_in(&queued, id.host);
                if offered == Offered::Queued {
                    self.sieve.admit(id.fingerprint);
                    note(&queued);
                }
                offered
            }
        }
    }

    /// Queues the deferred candidates that the sieve has proved new; returns how many it queued.
    /// Candidates that the caps refuse stay known: a merge cannot be taken back.
    pub fn settle(&mut self, now: Time) -> usize {
        let settled = std::iter::from_fn(|| self.settle_next(now));
        settled.filter(|(offered, _)| *offered == Offered::Queued).count()
    }

    /// Works as [`Frontier::settle`], for one candidate: returns what became of it, and the
    /// candidate.
    pub fn settle_next(&mut self, now: Time) -> Option<(Offered, Queued)> {
        self.now = self.now.max(now);
        let queued: Queued = self.sieve.settle()?.into();
        let key = queued.url.host_key(&self.hash_key);
        Some((self.take_in(&queued, key), queued))
    }

    /// Puts a URL of `host` back at the front of its class, past the sieve and the caps, because it
    /// was queued before. The whole host waits until `not_before` at least. Returns false, and
    /// counts the URL as dropped, if the host has too many origins; only a URL that was never
    /// queued can have a new origin.
    pub fn requeue(&mut self, host: HostId, queued: Queued, not_before: Time) -> bool {
        assert_eq!(self.hosts[host].name(), queued.url.host(), "a URL returns to its own host");
        self.open.close(host, queued.url.fingerprint(&self.hash_key));
        let record_host = &mut self.hosts[host];
        let Some(origin) = record_host.intern_origin(Origin::of(&queued.url)) else {
            self.dropped(DropReason::OriginsFull);
            return false;
        };
        record_host.fetched_count = record_host.fetched_count.saturating_sub(1);
        let record = record_of(&queued, origin);
        self.tails.push_front(host, record_host, queued.class, &record);
        self.pushed(host, queued.class, 1, record.size_bytes());
        self.postpone(host, not_before);
        true
    }

    /// Works as [`Frontier::requeue`], but puts the URL behind the others of its class, so that
    /// they go first.
    pub fn requeue_last(&mut self, host: HostId, queued: Queued) {
        assert_eq!(self.hosts[host].name(), queued.url.host(), "a URL returns to its own host");
        self.open.close(host, queued.url.fingerprint(&self.hash_key));
        let record_host = &mut self.hosts[host];
        let origin = record_host.intern_origin(Origin::of(&queued.url));
        let record = record_of(&queued, origin.expect("it was in a queue of this host"));
        record_host.fetched_count = record_host.fetched_count.saturating_sub(1);
        self.tails.push_back(host, record_host, queued.class, &record);
        self.pushed(host, queued.class, 1, record.size_bytes());
    }

    /// Rotates each queue of a host: moves the first of its URLs in RAM behind the last of them.
    /// `draw`, a random number, decides how many, so that any of them may be the next.
    pub fn rotate_queues(&mut self, host: HostId, draw: u64) {
        for class in Class::ALL {
            let Some(head) = self.hosts[host].head(class) else { continue };
            let size_max = draw % (head.size_bytes() as u64).max(1);
            self.hosts[host].move_head(class, |head| head.rotate(size_max as usize));
        }
    }

    /// Works as [`Frontier::requeue`], but only the URL waits: its host goes on with other URLs.
    /// When too many URLs wait already, the host waits with this one.
    pub fn retry_at(&mut self, host: HostId, queued: Queued, at: Time) {
        self.hand_out(host, &queued, Some(at));
        if let Err(queued) = self.retries.push(host, queued, at) {
            self.requeue(host, queued, at);
        }
    }

    /// Moves hosts whose time has come to the front queues, and retries whose time has come to the
    /// queues of their hosts.
    pub fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        while let Some((host, queued)) = self.retries.pop_due(self.now) {
            self.requeue(host, queued, Time::ZERO);
        }
        while let Some(host) = self.wheel.pop_due(self.now) {
            self.prefetch_due();
            self.schedule(host);
        }
    }

    /// Returns the next host to fetch from. It is busy until it is released.
    pub fn pop_ready(&mut self) -> Option<HostId> {
        let (host, class) = self.front.pop()?;
        self.prefetch_visits(class);
        self.hosts[host].state = HostState::Busy;
        self.busy_count += 1;
        Some(host)
    }

    /// Returns the next URL of a busy host. If that URL is on disk, requests it: the job that reads
    /// it comes from [`Frontier::next_tail_job`].
    pub fn next_url(&mut self, host: HostId) -> Next {
        assert_eq!(self.hosts[host].state, HostState::Busy, "pop_ready makes a host busy first");
        loop {
            let (class, record) = match self.tails.pop(host, &mut self.hosts[host]) {
                Popped::Record(class, record) => (class, record),
                Popped::OnDisk => return Next::OnDisk,
                Popped::Nothing => break,
            };
            self.removed(class, 1, record.size_bytes());
            let queued = read_back(&self.hosts[host], class, record);
            if self.stale.is_stale(host, || queued.url.fingerprint(&self.hash_key), queued.tries) {
                self.figures.stale_count += 1;
                self.stale.told_apart(host);
                continue;
            }
            self.hosts[host].fetched_count += 1;
            self.hand_out(host, &queued, None);
            return Next::Url(queued);
        }
        let is_dry = !self.open.has(host);
        if is_dry && self.stale.are_at(host) && !self.retries.has(host) {
            self.stale.lay(host);
        }
        Next::Nothing
    }

    /// Closes a URL that was handed out, once it has ended and a restart would know of it.
    pub fn complete(&mut self, host: HostId, fingerprint: Fingerprint) {
        self.open.close(host, fingerprint);
    }

    /// Returns the origin of the URL that [`Frontier::next_url`] would return if it was called now;
    /// `None` if that URL is on disk or there is none.
    pub fn peek_origin(&self, host: HostId) -> Option<Origin> {
        self.hosts[host].peek_origin()
    }

    /// Ends a busy host's turn. The next turn begins at `eligible_at`, or later if a requeue said
    /// so.
    pub fn release(&mut self, host: HostId, eligible_at: Time) {
        let released = &mut self.hosts[host];
        assert_eq!(released.state, HostState::Busy, "only a busy host is released");
        released.state = HostState::Idle;
        released.eligible_at = released.eligible_at.max(eligible_at);
        self.busy_count -= 1;
        self.schedule(host);
    }

    /// Lets no turn of `host` begin before `not_before`. Never shortens a wait.
    pub fn postpone(&mut self, host: HostId, not_before: Time) {
        if not_before <= self.hosts[host].eligible_at {
            return;
        }
        self.hosts[host].eligible_at = not_before;
        if self.hosts[host].state != HostState::Busy {
            self.unschedule(host);
            self.schedule(host);
        }
    }

    /// Removes and returns the URLs of a host that are in RAM, in order within a class, for the
    /// dead-letter list. The flag is true if more URLs are on disk. They have been requested, and
    /// the caller drains again whenever the host is refilled. It must do so at once, because URLs
    /// that were refilled for a host that is not busy may be spilled again. A busy host stays busy.
    pub fn drain_host(&mut self, host: HostId) -> (Vec<Queued>, bool) {
        let mut drained = Vec::new();
        for class in Class::ALL {
            let head = self.tails.take_head(host, &mut self.hosts[host], class);
            let Some(mut head) = head else { continue };
            self.removed(class, u64::from(head.count()), head.size_bytes());
            let from = &self.hosts[host];
            let records = std::iter::from_fn(|| head.pop_front());
            drained.extend(records.map(|record| read_back(from, class, record)));
        }
        if self.hosts[host].state != HostState::Busy {
            self.unschedule(host);
            self.schedule(host);
        }
        (drained, self.hosts[host].queued_count > 0)
    }

    /// Returns the URLs at the heads of a host's queues, in order within a class, for an operator.
    pub fn queued_in(&self, host: HostId) -> impl Iterator<Item = Queued> {
        let from = &self.hosts[host];
        let heads = Class::ALL.into_iter().filter_map(|class| Some((class, from.head(class)?)));
        heads.flat_map(move |(class, queue)| {
            queue.iter().map(move |record| read_back(from, class, record))
        })
    }

    /// Returns the host of `url` and adds it if it is new, so that its next-eligible time can be
    /// restored before any of its URLs.
    pub fn host_for(&mut self, url: &Url) -> Result<HostId, DropReason> {
        self.host_with_room(url.lent(), url.host_key(&self.hash_key), u32::MAX)
    }

    /// Works as [`Frontier::host_for`], but does not bring a cold host back that has had
    /// `page_count_max` pages or more.
    fn host_with_room(
        &mut self,
        url: Url<&str>,
        key: HostKey,
        page_count_max: u32,
    ) -> Result<HostId, DropReason> {
        match self.hosts.by_name(key, url.host()) {
            Err(host::KeyTaken) => Err(DropReason::HostKeyTaken),
            Ok(Some(host)) => Ok(host),
            Ok(None) if self.cold.page_count(key) >= page_count_max => {
                Err(DropReason::HostPagesFull)
            }
            Ok(None) if self.hosts.count() >= self.caps.host_count_max => {
                Err(DropReason::HostsFull)
            }
            Ok(None) => Ok(self.add_host(url, key)),
        }
    }

    /// Adds a host that is not in RAM. A cold host gets back the page count that it left with.
    fn add_host(&mut self, url: Url<&str>, key: HostKey) -> HostId {
        let host = self.hosts.add(key, url.host(), Origin::of(&url));
        if let Some(page_count) = self.cold.take(key) {
            self.hosts[host].fetched_count = page_count;
            self.figures.returned_count += 1;
        }
        host
    }

    /// Queues a new URL at the back, if the caps allow it.
    fn take_in<T: Text>(&mut self, queued: &Queued<T>, key: HostKey) -> Offered {
        match self.try_take_in(queued, key) {
            Ok(()) => {
                self.figures.queued_count += 1;
                Offered::Queued
            }
            Err(reason) => self.dropped(reason),
        }
    }

    fn try_take_in<T: Text>(&mut self, queued: &Queued<T>, key: HostKey) -> Result<(), DropReason> {
        let is_checked = traps::is_checked(queued.via);
        if is_checked {
            traps::check_path(&queued.url)?;
        }
        let page_count_max = self.caps.host_page_count_max;
        let host = self.host_with_room(queued.url.lent(), key, page_count_max)?;
        let taking = &mut self.hosts[host];
        let taken_count = taking.queued_count.saturating_add(taking.fetched_count);
        if taken_count >= page_count_max {
            return Err(DropReason::HostPagesFull);
        }
        let skeleton = || Skeleton::of(&self.hash_key, &queued.url);
        let skeleton =
            if is_checked { self.traps.check(host, taken_count, skeleton)? } else { None };
        let origin = taking.intern_origin(Origin::of(&queued.url));
        let record = record_of(queued, origin.ok_or(DropReason::OriginsFull)?);
        let size_bytes = record.size_bytes();
        self.make_room(queued.class, size_bytes)?;
        self.tails.push_back(host, &mut self.hosts[host], queued.class, &record);
        self.pushed(host, queued.class, 1, size_bytes);
        if let Some(skeleton) = skeleton {
            self.traps.took(host, skeleton);
        }
        Ok(())
    }

    /// Records a URL that leaves its queue as open.
    fn hand_out(&mut self, host: HostId, queued: &Queued, waits_until: Option<Time>) {
        let fingerprint = queued.url.fingerprint(&self.hash_key);
        self.open.hand_out(host, queued, fingerprint, waits_until);
    }

    /// Counts URLs that were pushed, and makes sure that their host is scheduled.
    fn pushed(&mut self, host: HostId, class: Class, count: u64, size_bytes: usize) {
        self.queued_count_by_class[class.index()] += count;
        self.queued_bytes += size_bytes as u64;
        self.eviction.list(&mut self.hosts[host].eviction_listed, host, class);
        match self.hosts[host].state {
            HostState::Idle => self.schedule(host),
            // The host is asked first: its record is in the cache, its link in the front queues is
            // not. A host that had URLs of this class before already stands in its list or in a
            // better one.
            HostState::Ready if self.hosts[host].best_class() == Some(class) => {
                if !self.hosts[host].has_more_than(class, count) {
                    self.front.promote(host, class);
                }
                debug_assert!(self.front.is_as_good(host, class), "an earlier URL put it there");
            }
            HostState::Ready | HostState::Waiting | HostState::Busy => {}
        }
    }

    fn removed(&mut self, class: Class, count: u64, size_bytes: usize) {
        self.queued_count_by_class[class.index()] -= count;
        self.queued_bytes -= size_bytes as u64;
    }

    /// Puts a host that is in no list into the list where it belongs now.
    fn schedule(&mut self, host: HostId) {
        let (class, eligible_at) = (self.hosts[host].best_class(), self.hosts[host].eligible_at);
        self.hosts[host].state = match class {
            None => HostState::Idle,
            // The times are compared exactly, and not in ticks of the wheel, so that a host without
            // a delay is ready again at once.
            Some(class) if eligible_at <= self.now => {
                self.front.push(host, class);
                HostState::Ready
            }
            Some(_) => {
                self.wheel.insert(host, eligible_at);
                HostState::Waiting
            }
        };
    }

    fn unschedule(&mut self, host: HostId) {
        match self.hosts[host].state {
            HostState::Waiting => {
                assert!(self.wheel.cancel(host), "Waiting hosts are in the wheel")
            }
            HostState::Ready => assert!(self.front.remove(host), "Ready hosts are in the front"),
            HostState::Idle | HostState::Busy => {}
        }
        self.hosts[host].state = HostState::Idle;
    }

    fn dropped(&mut self, reason: DropReason) -> Offered {
        self.figures.dropped_count[reason as usize] += 1;
        Offered::Dropped(reason)
    }
}

fn record_of<T: Text>(queued: &Queued<T>, origin: u8) -> Record<&str> {
    Record {
        origin,
        depth: queued.depth,
        tries: queued.tries,
        via: queued.via,
        trail: queued.trail.clone(),
        path_and_query: queued.url.path_and_query(),
    }
}

/// Joins a record with its host's name and origin to the queued URL.
fn read_back<X>(host: &Host<X>, class: Class, record: Record) -> Queued {
    let Origin { scheme, port } = host.origin(record.origin);
    let Record { depth, tries, via, trail, path_and_query, .. } = record;
    let url = Url::of_host(scheme, host.name(), port, &path_and_query);
    Queued { url, depth, class, via, tries, trail }
}

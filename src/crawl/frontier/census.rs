//! Queries to a frontier: its hosts, and how much there is of everything.

use super::host::{HostId, HostState};
use super::{Figures, Frontier, OpenUrl, Queued, Sieve};
use crate::base::Time;
use crate::proto::url::{Fingerprint, HostKey};

impl<S: Sieve, X: Default> Frontier<S, X> {
    pub fn host_by_key(&self, key: HostKey) -> Option<HostId> {
        self.hosts.by_key(key)
    }

    /// Returns the hosts that are in RAM now.
    pub fn host_ids(&self) -> impl Iterator<Item = HostId> + use<S, X> {
        let slots = 0..self.slot_count() as u32;
        slots.filter_map(|slot| self.host_in_slot(slot)).collect::<Vec<_>>().into_iter()
    }

    pub fn host_name(&self, host: HostId) -> &str {
        self.hosts[host].name()
    }

    pub fn host_data(&mut self, host: HostId) -> &mut X {
        &mut self.hosts[host].data
    }

    pub fn host_lore(&self, host: HostId) -> &X {
        &self.hosts[host].data
    }

    pub fn host_state(&self, host: HostId) -> HostState {
        self.hosts[host].state
    }

    pub fn host_eligible_at(&self, host: HostId) -> Time {
        self.hosts[host].eligible_at
    }

    pub fn host_queued_count(&self, host: HostId) -> u32 {
        self.hosts[host].queued_count
    }

    pub fn host_fetched_count(&self, host: HostId) -> u32 {
        self.hosts[host].fetched_count
    }

    /// Returns when to call [`Frontier::advance`] next: never later than the next host is due,
    /// perhaps earlier. Ready hosts do not count.
    pub fn next_due(&self) -> Option<Time> {
        self.wheel.next_due().into_iter().chain(self.retries.next_due()).min()
    }

    /// Returns the number of queued URLs. URLs that wait for a retry are included; URLs in flight
    /// or deferred are not.
    pub fn pending_url_count(&self) -> u64 {
        self.queued_count_by_class.iter().sum::<u64>() + self.retries.count() as u64
    }

    /// Returns [`Frontier::pending_url_count`] without stale copies: copies of URLs that have
    /// ended, or wait for another try, since the checkpoint that a restart read. They cause no
    /// request.
    pub fn live_url_count(&self) -> u64 {
        self.pending_url_count().saturating_sub(self.stale.copy_count())
    }

    /// Returns when the next host's turn may begin, for an operator. Ready hosts do not count.
    pub fn next_turn(&self) -> Option<Time> {
        self.wheel.first_due()
    }

    /// Returns when the next URL that waits by itself is tried again.
    pub fn next_retry(&self) -> Option<Time> {
        self.retries.next_due()
    }

    /// Returns the number of URLs that wait by themselves for another try.
    pub fn retry_count(&self) -> usize {
        self.retries.count()
    }

    /// Reports whether a host has URLs that are queued or wait for another try.
    pub fn has_work(&self, host: HostId) -> bool {
        self.hosts[host].queued_count > 0 || self.retries.has(host)
    }

    /// Returns the URLs that wait by themselves for another try, and until when, in no order.
    pub fn waiting_retries(&self) -> impl Iterator<Item = (Time, HostId, &Queued)> {
        self.retries.iter()
    }

    /// Stops putting URLs that an image has as handed out back into the queues. An inspection of a
    /// crawl that may be under way needs this.
    pub fn keep_open(&mut self) {
        self.keeps_open = true;
    }

    /// Returns the URLs of a host that were handed out and have not ended, stale copies included.
    pub fn open_of(&self, host: HostId) -> impl Iterator<Item = &OpenUrl> {
        self.open.of(host)
    }

    /// Reports whether `queued` is a stale copy: the journal knows a later state of its URL.
    pub fn is_stale(&self, host: HostId, queued: &Queued) -> bool {
        self.stale.is_stale(host, || queued.url.fingerprint(&self.hash_key), queued.tries)
    }

    /// Reports whether an ended URL of the host has a life left, so that it can be put back.
    pub fn can_revive(&self, host: HostId, fingerprint: Fingerprint) -> bool {
        self.stale.can_revive(host, fingerprint)
    }

    /// Returns the URL that the host's next turn would take; stale copies are passed over.
    pub fn peek_url(&self, host: HostId) -> Option<Queued> {
        let first = self.hosts[host].next_class()?;
        let mut best = None;
        for queued in self.queued_in(host).filter(|queued| !self.is_stale(host, queued)) {
            if queued.class == first {
                return Some(queued);
            }
            best.get_or_insert(queued);
        }
        best
    }

    /// Reports whether the host has more than one scheme and port.
    pub fn host_has_several_origins(&self, host: HostId) -> bool {
        self.hosts[host].origin_count() > 1
    }

    pub fn pending_url_bytes(&self) -> u64 {
        self.queued_bytes
    }

    /// Returns the number of hosts in RAM.
    pub fn host_count(&self) -> usize {
        self.hosts.count()
    }

    /// Returns the number of hosts that are large enough for the shapes of their URLs to be
    /// counted.
    pub fn watched_host_count(&self) -> usize {
        self.traps.watched_count()
    }

    pub fn ready_count(&self) -> usize {
        self.front.count()
    }

    pub fn waiting_count(&self) -> usize {
        self.wheel.count()
    }

    /// Returns the number of URLs that were handed out and have not ended.
    pub fn open_count(&self) -> usize {
        self.open.count()
    }

    pub fn busy_count(&self) -> usize {
        self.busy_count
    }

    /// Reports whether no URL is queued or deferred, and no host is busy.
    pub fn is_drained(&self) -> bool {
        self.pending_url_count() == 0 && self.busy_count == 0 && self.sieve.deferred_count() == 0
    }

    pub fn figures(&self) -> Figures {
        self.figures
    }

    pub fn sieve(&self) -> &S {
        &self.sieve
    }

    pub fn sieve_mut(&mut self) -> &mut S {
        &mut self.sieve
    }
}

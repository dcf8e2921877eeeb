//! Prefetching: asks memory for what will be touched soon. The links of a page are known together,
//! so none of them need wait for another's cache lines. These are hints alone; they change nothing.

use super::{Frontier, HostId, Sieve};
use crate::base::limits::PARCEL_BATCH_COUNT;
use crate::crawl::flow::Class;
use crate::proto::url::{Fingerprint, HostKey, UrlId};
use std::collections::VecDeque;

impl<S: Sieve, X: Default> Frontier<S, X> {
    /// Prefetches what [`Frontier::knows_early`] will read for a fingerprint.
    pub fn prefetch(&self, fingerprint: Fingerprint) {
        self.sieve.prefetch(fingerprint);
    }

    /// Reports whether a fingerprint is known, as far as the cheapest gate can tell. If it says no,
    /// [`Frontier::check`] has to be asked.
    pub fn knows_early(&mut self, fingerprint: Fingerprint) -> bool {
        let is_known = self.sieve.knows_early(fingerprint);
        self.figures.known_count += u64::from(is_known);
        is_known
    }

    /// Prefetches what an offer of a URL will read first, once [`Frontier::check`] has called the
    /// URL new. [`Frontier::prefetch_hosts`] follows before the offer.
    pub fn prefetch_offer(&self, id: UrlId) {
        self.sieve.prefetch_admit(id.fingerprint);
        self.hosts.prefetch(id.host);
    }

    /// Prefetches the hosts, with their queues, to which URLs are to be added. It goes step by
    /// step, each as far as the one before has told where to look; the first step was
    /// [`Frontier::prefetch_offer`]. Hosts beyond [`PARCEL_BATCH_COUNT`] are left out.
    pub fn prefetch_hosts(&self, keys: impl Iterator<Item = HostKey>) {
        let mut hosts = [HostId(0); PARCEL_BATCH_COUNT];
        let mut count = 0;
        for (host, found) in hosts.iter_mut().zip(keys.filter_map(|key| self.hosts.guess(key))) {
            *host = found;
            self.hosts[found].prefetch();
            count += 1;
        }
        hosts[..count].iter().for_each(|host| self.hosts[*host].prefetch_queues());
        let hosts = &hosts[..count];
        hosts.iter().for_each(|host| self.tails.prefetch(*host, &self.hosts[*host]));
        hosts.iter().for_each(|host| self.hosts[*host].prefetch_records());
        hosts.iter().for_each(|host| self.tails.prefetch_records(*host, &self.hosts[*host]));
    }

    /// Prefetches the hosts at the front of `list`, which will give up one after the other what
    /// exceeds their heads. Three steps ahead it prefetches a host, two steps ahead the host's
    /// queues, one step ahead their last records.
    pub(super) fn prefetch_spill(&self, list: &VecDeque<HostId>) {
        const STEP: usize = 4;
        if let Some(host) = list.get(3 * STEP) {
            self.hosts[*host].prefetch();
        }
        if let Some(host) = list.get(2 * STEP) {
            self.hosts[*host].prefetch_queues();
            self.tails.prefetch(*host, &self.hosts[*host]);
        }
        if let Some(host) = list.get(STEP) {
            self.hosts[*host].prefetch_records();
            self.tails.prefetch_records(*host, &self.hosts[*host]);
        }
    }

    /// Prefetches the hosts behind the one that was popped, which will be popped next: the record
    /// of the third, the queues of the second, the URLs of the first. So each host is prefetched in
    /// three steps.
    pub(super) fn prefetch_visits(&self, class: Class) {
        let Some([first, second, third]) = self.front.upcoming(class) else { return };
        self.hosts[third].prefetch();
        self.hosts[second].prefetch_queues();
        self.hosts[first].prefetch_records();
    }

    /// Prefetches the hosts that are due next, because they will be scheduled.
    pub(super) fn prefetch_due(&self) {
        let Some([first, second]) = self.wheel.upcoming() else { return };
        self.hosts[first].prefetch();
        self.hosts[second].prefetch();
        self.front.prefetch(first);
    }
}

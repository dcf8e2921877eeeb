//! What will be touched soon, asked of memory before it is: a page's links are known together, so
//! that one of them need not wait for another's cache lines. Hints alone; nothing changes.

use super::{Frontier, HostId, Sieve};
use crate::base::limits::PARCEL_BATCH_COUNT;
use crate::crawl::flow::Class;
use crate::proto::url::{Fingerprint, HostKey, UrlId};
use std::collections::VecDeque;

impl<S: Sieve, X: Default> Frontier<S, X> {
    /// That [`Frontier::knows_early`] is to be asked of a fingerprint.
    pub fn prefetch(&self, fingerprint: Fingerprint) {
        self.sieve.prefetch(fingerprint);
    }

    /// Whether a fingerprint is known, as far as that is easy to say. If not,
    /// [`Frontier::check`] is to be asked.
    pub fn knows_early(&mut self, fingerprint: Fingerprint) -> bool {
        let is_known = self.sieve.knows_early(fingerprint);
        self.figures.known_count += u64::from(is_known);
        is_known
    }

    /// That a URL which [`Frontier::check`] has called new is to be offered, after
    /// [`Frontier::prefetch_hosts`].
    pub fn prefetch_offer(&self, id: UrlId) {
        self.sieve.prefetch_admit(id.fingerprint);
        self.hosts.prefetch(id.host);
    }

    /// That URLs of these hosts, all prefetched, are to be queued: step by step, each as far as the
    /// one before has told where to look. Beyond [`PARCEL_BATCH_COUNT`] hosts it gives up.
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

    /// That the hosts at the front of a list will give up what exceeds their heads, one after the
    /// other: those further behind have their records asked for, those before them their queues.
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

    /// That the hosts behind the one that was popped will be: the next but two has its record asked
    /// for, the next but one its queues, the next its URLs. Each is passed by three times.
    pub(super) fn prefetch_visits(&self, class: Class) {
        let Some([first, second, third]) = self.front.upcoming(class) else { return };
        self.hosts[third].prefetch();
        self.hosts[second].prefetch_queues();
        self.hosts[first].prefetch_records();
    }

    /// That the hosts that are due next will be put where they belong.
    pub(super) fn prefetch_due(&self) {
        let Some([first, second]) = self.wheel.upcoming() else { return };
        self.hosts[first].prefetch();
        self.hosts[second].prefetch();
        self.front.prefetch(first);
    }
}

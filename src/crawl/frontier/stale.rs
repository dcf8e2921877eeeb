//! Stale copies: copies of URLs that a checkpoint still has in its queues although the journal
//! knows a later state of these URLs.
//!
//! This module owns, by host, the number of tries of each such URL, until the host's queues have
//! run empty. It also counts the stale copies that are still to come up, so that an operator is
//! told how many URLs are really to come. The ends, retries and revivals of the journal flow in.
//! The answer whether a copy is stale flows out. Only its own core touches it.
//!
//! After a restart a queue holds what it held when it was checkpointed. URLs that have ended since,
//! or that wait for another try, are recognised when their turn comes: a copy with fewer tries than
//! the journal knows of is stale. So no queue is searched, and no queue on disk is rewritten. A URL
//! that has ended is given as many tries as its next life begins with, so it stays ended until an
//! operator puts it back: then that life begins, and all copies of earlier lives are stale.

use super::host::HostId;
use crate::base::limits::TRIES_PER_LIFE;
use crate::proto::url::Fingerprint;
use hashbrown::HashMap;

/// More tries than any URL has: every copy is stale, for ever.
const GONE: u8 = u8::MAX;

#[derive(Default)]
pub struct StaleUrls {
    by_host: HashMap<HostId, HashMap<Fingerprint, u8>>,
    /// Stale copies in the queues and among the retries, by host. `copy_count` is their sum.
    copies: HashMap<HostId, u32>,
    copy_count: u64,
}

impl StaleUrls {
    /// Makes copies with fewer tries than `tries` stale.
    pub fn add(&mut self, host: HostId, fingerprint: Fingerprint, tries: u8) {
        let known = self.by_host.entry(host).or_default().entry(fingerprint).or_default();
        *known = tries.max(*known);
    }

    /// Records that a URL has ended: every copy of this life is stale.
    pub fn end(&mut self, host: HostId, fingerprint: Fingerprint) {
        let known = self.by_host.entry(host).or_default().entry(fingerprint).or_default();
        *known = next_life(*known);
    }

    /// Reports whether [`StaleUrls::revive`] would return a life.
    pub fn can_revive(&self, host: HostId, fingerprint: Fingerprint) -> bool {
        let known = self.by_host.get(&host).and_then(|of_host| of_host.get(&fingerprint));
        known.is_none_or(|known| *known <= GONE - GONE % TRIES_PER_LIFE)
    }

    /// Begins the next life of a URL that had ended and that an operator puts back. Returns the
    /// tries that the life begins with; `None` if the URL has had its last life.
    pub fn revive(&mut self, host: HostId, fingerprint: Fingerprint) -> Option<u8> {
        let known = self.by_host.entry(host).or_default().entry(fingerprint).or_default();
        // Otherwise these are the tries of a life under way: the URL had not ended, as far as this
        // host's image knows.
        let is_ended = *known > 0 && known.is_multiple_of(TRIES_PER_LIFE);
        *known = if is_ended { *known } else { next_life(*known) };
        (*known != GONE).then_some(*known)
    }

    /// Reports whether a copy of a URL that has had `tries` tries is stale.
    pub fn is_stale(&self, host: HostId, fingerprint: impl Fn() -> Fingerprint, tries: u8) -> bool {
        !self.by_host.is_empty()
            && self.by_host.get(&host).is_some_and(|of_host| {
                of_host.get(&fingerprint()).is_some_and(|known| tries < *known)
            })
    }

    /// Counts `count` more stale copies of the host.
    pub fn add_copies(&mut self, host: HostId, count: u32) {
        if count > 0 {
            *self.copies.entry(host).or_default() += count;
            self.copy_count += u64::from(count);
        }
    }

    /// Counts a stale copy that came up and was passed over.
    pub fn told_apart(&mut self, host: HostId) {
        if let Some(count) = self.copies.get_mut(&host).filter(|count| **count > 0) {
            *count -= 1;
            self.copy_count -= 1;
        }
    }

    pub fn copies_at(&self, host: HostId) -> u32 {
        self.copies.get(&host).copied().unwrap_or(0)
    }

    /// Returns the number of stale copies that are still to come up.
    pub fn copy_count(&self) -> u64 {
        self.copy_count
    }

    pub fn are_at(&self, host: HostId) -> bool {
        self.by_host.contains_key(&host)
    }

    /// Forgets a host of which no copy is left.
    pub fn lay(&mut self, host: HostId) {
        self.by_host.remove(&host);
        self.copy_count -= u64::from(self.copies.remove(&host).unwrap_or(0));
    }

    pub fn of(&self, host: HostId) -> impl ExactSizeIterator<Item = (Fingerprint, u8)> {
        let of_host = self.by_host.get(&host);
        let mut all: Vec<(Fingerprint, u8)> =
            of_host.into_iter().flatten().map(|(of, tries)| (*of, *tries)).collect();
        // They are sorted, so that one state has one image: hash tables have no order.
        all.sort_unstable_by_key(|(fingerprint, _)| fingerprint.0);
        all.into_iter()
    }
}

fn next_life(tries: u8) -> u8 {
    (tries / TRIES_PER_LIFE + 1).checked_mul(TRIES_PER_LIFE).unwrap_or(GONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: HostId = HostId(3);
    const URL: Fingerprint = Fingerprint(77);

    #[test]
    fn whoever_is_put_back_lives_once_and_no_copy_of_an_earlier_life_does() {
        let mut stale = StaleUrls::default();
        let is_stale = |stale: &StaleUrls, tries| stale.is_stale(HOST, || URL, tries);
        let mut earlier: Vec<u8> = (0..=11).collect();
        for life in 1..16 {
            stale.end(HOST, URL);
            assert!(earlier.iter().all(|tries| is_stale(&stale, *tries)), "life {life}");
            assert!(stale.can_revive(HOST, URL));
            let tries = stale.revive(HOST, URL).expect("a life is left");
            assert_eq!(tries, life * TRIES_PER_LIFE);
            assert!(earlier.iter().all(|tries| is_stale(&stale, *tries)), "life {life}");
            assert!(!is_stale(&stale, tries));
            // The URL is tried again in this life: the copy before is stale, this one is not.
            stale.add(HOST, URL, tries + 2);
            assert!(is_stale(&stale, tries + 1) && !is_stale(&stale, tries + 2));
            earlier.extend(tries..tries + 12);
        }
        stale.end(HOST, URL);
        assert!(!stale.can_revive(HOST, URL));
        assert_eq!(stale.revive(HOST, URL), None, "it has had its last life");
        assert!((0..GONE).all(|tries| is_stale(&stale, tries)));
    }

    #[test]
    fn one_whose_end_is_forgotten_is_put_back_all_the_same() {
        let mut stale = StaleUrls::default();
        assert_eq!(stale.revive(HOST, URL), Some(TRIES_PER_LIFE));
    }
}

//! Copies of URLs that a checkpoint still has in its queues and the journal knows better about.
//!
//! After a restart a queue holds what it held when it was checkpointed. URLs that came to their end
//! since, or that wait for another try, are told apart when their turn comes: a copy with fewer
//! tries than the journal knows of is a stale copy. So no queue is searched, and none on disk rewritten.
//! A URL at its end has as many as its next life begins with, and so stays dead until an operator
//! puts it back: then that life begins, and all copies of earlier ones are stale.
//!
//! Owns a number of tries per such URL, by host, until the host's queues have run dry; and how many
//! such copies are left to come up, so that an operator is told what is really to come.

use super::host::HostId;
use crate::base::limits::TRIES_PER_LIFE;
use crate::proto::url::Fingerprint;
use hashbrown::HashMap;

/// More tries than any URL has: no copy is good, nor ever will be.
const GONE: u8 = u8::MAX;

#[derive(Default)]
pub struct StaleUrls {
    by_host: HashMap<HostId, HashMap<Fingerprint, u8>>,
    /// Copies in the queues and among the retries that are stale, by host, and of all hosts.
    copies: HashMap<HostId, u32>,
    copy_count: u64,
}

impl StaleUrls {
    /// Copies with fewer tries are stale.
    pub fn add(&mut self, host: HostId, fingerprint: Fingerprint, tries: u8) {
        let known = self.by_host.entry(host).or_default().entry(fingerprint).or_default();
        *known = tries.max(*known);
    }

    /// It came to its end: every copy of this life is a stale copy.
    pub fn end(&mut self, host: HostId, fingerprint: Fingerprint) {
        let known = self.by_host.entry(host).or_default().entry(fingerprint).or_default();
        *known = next_life(*known);
    }

    /// Whether [`StaleUrls::revive`] would.
    pub fn can_revive(&self, host: HostId, fingerprint: Fingerprint) -> bool {
        let known = self.by_host.get(&host).and_then(|of_host| of_host.get(&fingerprint));
        known.is_none_or(|known| *known <= GONE - GONE % TRIES_PER_LIFE)
    }

    /// An operator puts back a URL that had ended: the tries its next life begins with; `None` if
    /// it has had its last.
    pub fn revive(&mut self, host: HostId, fingerprint: Fingerprint) -> Option<u8> {
        let known = self.by_host.entry(host).or_default().entry(fingerprint).or_default();
        // Tries of a life under way: it had not ended, as far as this host's image knows.
        let is_ended = *known > 0 && known.is_multiple_of(TRIES_PER_LIFE);
        *known = if is_ended { *known } else { next_life(*known) };
        (*known != GONE).then_some(*known)
    }

    pub fn is_stale(&self, host: HostId, fingerprint: impl Fn() -> Fingerprint, tries: u8) -> bool {
        !self.by_host.is_empty()
            && self.by_host.get(&host).is_some_and(|of_host| {
                of_host.get(&fingerprint()).is_some_and(|known| tries < *known)
            })
    }

    /// So many more copies of the host are stale.
    pub fn add_copies(&mut self, host: HostId, count: u32) {
        if count > 0 {
            *self.copies.entry(host).or_default() += count;
            self.copy_count += u64::from(count);
        }
    }

    /// A stale copy came up and was passed over.
    pub fn told_apart(&mut self, host: HostId) {
        if let Some(count) = self.copies.get_mut(&host).filter(|count| **count > 0) {
            *count -= 1;
            self.copy_count -= 1;
        }
    }

    pub fn copies_at(&self, host: HostId) -> u32 {
        self.copies.get(&host).copied().unwrap_or(0)
    }

    /// StaleUrls that are still to come up.
    pub fn copy_count(&self) -> u64 {
        self.copy_count
    }

    pub fn are_at(&self, host: HostId) -> bool {
        self.by_host.contains_key(&host)
    }

    /// The host has no copy of anything left.
    pub fn lay(&mut self, host: HostId) {
        self.by_host.remove(&host);
        self.copy_count -= u64::from(self.copies.remove(&host).unwrap_or(0));
    }

    pub fn of(&self, host: HostId) -> impl ExactSizeIterator<Item = (Fingerprint, u8)> {
        let of_host = self.by_host.get(&host);
        let mut all: Vec<(Fingerprint, u8)> =
            of_host.into_iter().flatten().map(|(of, tries)| (*of, *tries)).collect();
        // One state, one image: hash tables have no order.
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
            // Tried again, in this life: the copy before is a stale copy, this one is not.
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

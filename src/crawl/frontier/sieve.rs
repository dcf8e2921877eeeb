//! URL-seen: tells whether a URL has been taken before.
//!
//! This module owns the fingerprints of every URL the core ever queued. Fingerprints of normalised
//! URLs flow in, [`Seen`] flows out. Invariant: a URL is called `Known` only if its own fingerprint
//! was admitted, or deferred for a merge that will judge it. So an error of the Bloom filter never
//! loses a URL; the URL is only answered later. (The cache of recent fingerprints compares fewer
//! bits: [`crate::base::recent`] has the odds.) Only its own core touches it.
//!
//! There are three gates, the cheapest first: a cache of recent fingerprints (most links of a page
//! were on the last page), a Bloom filter whose "no" is final, and an exact set for its "maybe".
//! [`MemorySieve`] keeps the exact set in RAM and answers at once. [`super::seen::DiskSieve`] has
//! it in sorted runs on disk: it answers [`Seen::Later`] instead, keeps the candidate, and hands it
//! back from [`Sieve::settle`] when a merge has proved it new.
//!
//! Asking and remembering are two calls because a candidate that is new may still be refused (host
//! cap, full queues). Refused URLs are not admitted: a trap that makes up URLs without end must not
//! fill the exact set, and a URL that was refused for want of room may be found again.

use super::bloom::Bloom;
use crate::base::Time;
use crate::base::limits::{RECENT_FINGERPRINT_COUNT, SEEN_URL_COUNT_MAX};
use crate::base::recent::Recent;
use crate::crawl::flow::Candidate;
use crate::proto::url::Fingerprint;
use hashbrown::HashTable;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The URL was certainly not seen.
    New,
    Known,
    /// The Bloom filter said "maybe"; a batch merge will settle it.
    Later,
}

pub trait Sieve {
    /// Answers without remembering the fingerprint.
    fn probe(&mut self, fingerprint: Fingerprint) -> Seen;

    /// Prefetches what [`Sieve::knows_early`] will read. This is a hint.
    fn prefetch(&self, _: Fingerprint) {}

    /// Makes the cheap part of a probe: returns true where the probe would answer `Known`. If it
    /// returns false the probe has to follow, and what that will read has been prefetched.
    fn knows_early(&mut self, _: Fingerprint) -> bool {
        false
    }

    /// Prefetches what admitting a fingerprint will read, once a probe has called it new.
    fn prefetch_admit(&self, _: Fingerprint) {}

    /// Remembers a fingerprint. Admitting one twice changes nothing.
    fn admit(&mut self, fingerprint: Fingerprint);

    /// Keeps a candidate whose fingerprint `probe` answered with `Later`, until a merge.
    fn defer(&mut self, fingerprint: Fingerprint, candidate: &Candidate<&str>, now: Time);

    /// Returns the next deferred candidate that was proved new. It is admitted already, and each
    /// URL comes once.
    fn settle(&mut self) -> Option<Candidate>;

    /// Returns the number of candidates that were deferred and neither settled nor found known.
    fn deferred_count(&self) -> usize;

    /// Reports whether no further fingerprint can be admitted.
    fn is_full(&self) -> bool;

    /// Asks, and remembers the fingerprint if it is new. This is for callers that never refuse.
    fn offer(&mut self, fingerprint: Fingerprint) -> Seen {
        let seen = self.probe(fingerprint);
        if seen == Seen::New {
            self.admit(fingerprint);
        }
        seen
    }
}

/// What the gates did since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SieveFigures {
    pub probe_count: u64,
    /// Probes that the cache of recent fingerprints answered.
    pub recent_hit_count: u64,
    /// Probes that the Bloom filter answered with "no".
    pub bloom_no_count: u64,
    /// Probes that the Bloom filter answered with "maybe", and the exact set with new.
    pub bloom_wrong_count: u64,
    pub url_count: usize,
    pub bloom_bit_count: usize,
}

impl SieveFigures {
    /// Returns the share of truly new URLs that the Bloom filter could not call new.
    pub fn bloom_wrong_rate(&self) -> f64 {
        let new_count = self.bloom_no_count + self.bloom_wrong_count;
        if new_count == 0 { 0.0 } else { self.bloom_wrong_count as f64 / new_count as f64 }
    }

    pub fn bloom_bits_per_url(&self) -> f64 {
        self.bloom_bit_count as f64 / self.url_count.max(1) as f64
    }
}

/// All three gates in RAM: about 30 bytes a URL. Growth doubles the tables and rehashes everything
/// in one go (some 20 ns a URL), so crawls beyond a hundred million URLs a core need the sieve on
/// disk.
pub struct MemorySieve {
    recent: Recent,
    bloom: Bloom,
    exact: HashTable<u128>,
    url_count_max: usize,
    figures: SieveFigures,
}

impl MemorySieve {
    /// Makes a sieve with room for `url_count` URLs before it first grows.
    pub fn with_room_for(url_count: usize) -> MemorySieve {
        MemorySieve {
            recent: Recent::with_places(url_count.min(RECENT_FINGERPRINT_COUNT)),
            bloom: Bloom::with_room_for(url_count),
            exact: HashTable::with_capacity(url_count),
            url_count_max: SEEN_URL_COUNT_MAX,
            figures: SieveFigures::default(),
        }
    }

    /// Lowers the bound of remembered URLs from [`SEEN_URL_COUNT_MAX`].
    pub fn limited_to(mut self, url_count_max: usize) -> MemorySieve {
        self.url_count_max = url_count_max.min(SEEN_URL_COUNT_MAX);
        self
    }

    pub fn figures(&self) -> SieveFigures {
        SieveFigures {
            url_count: self.exact.len(),
            bloom_bit_count: self.bloom.bit_count(),
            ..self.figures
        }
    }

    fn grow_bloom(&mut self) {
        let mut larger = Bloom::with_room_for(self.exact.len() * 2);
        self.exact.iter().for_each(|&fingerprint| larger.insert(Fingerprint(fingerprint)));
        self.bloom = larger;
    }
}

impl Default for MemorySieve {
    fn default() -> MemorySieve {
        MemorySieve::with_room_for(1 << 16)
    }
}

impl Sieve for MemorySieve {
    fn probe(&mut self, fingerprint: Fingerprint) -> Seen {
        self.figures.probe_count += 1;
        if self.recent.touch(fingerprint.0) {
            self.figures.recent_hit_count += 1;
            return Seen::Known;
        }
        if !self.bloom.may_contain(fingerprint) {
            self.figures.bloom_no_count += 1;
            return Seen::New;
        }
        if self.exact.find(exact_hash(&fingerprint.0), |known| *known == fingerprint.0).is_some() {
            self.recent.insert(fingerprint.0);
            return Seen::Known;
        }
        self.figures.bloom_wrong_count += 1;
        Seen::New
    }

    fn admit(&mut self, fingerprint: Fingerprint) {
        self.recent.insert(fingerprint.0);
        let hash = exact_hash(&fingerprint.0);
        let entry = self.exact.entry(hash, |known| *known == fingerprint.0, exact_hash);
        if let hashbrown::hash_table::Entry::Vacant(vacant) = entry {
            vacant.insert(fingerprint.0);
            self.bloom.insert(fingerprint);
            if self.bloom.is_full() {
                self.grow_bloom();
            }
        }
    }

    fn defer(&mut self, _: Fingerprint, _: &Candidate<&str>, _: Time) {
        unreachable!("a sieve in RAM never answers Later");
    }

    fn settle(&mut self) -> Option<Candidate> {
        None
    }

    fn deferred_count(&self) -> usize {
        0
    }

    fn is_full(&self) -> bool {
        self.exact.len() >= self.url_count_max
    }
}

/// Returns the low half of a fingerprint, which is a hash already. The table takes its bucket from
/// the low bits and its tag from the top seven, and both ends of a half are equally random.
fn exact_hash(fingerprint: &u128) -> u64 {
    *fingerprint as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use xxhash_rust::xxh3::xxh3_128;

    fn fingerprint(number: u64) -> Fingerprint {
        Fingerprint(xxh3_128(&number.to_le_bytes()))
    }

    #[test]
    fn every_answer_equals_that_of_a_plain_set_while_the_filter_grows() {
        let mut sieve = MemorySieve::with_room_for(100);
        let mut naive = HashSet::new();
        let mut number = 7u64;
        for _ in 0..300_000 {
            number = number.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let fingerprint = fingerprint((number >> 33) % 100_000);
            let expected = if naive.insert(fingerprint) { Seen::New } else { Seen::Known };
            assert_eq!(sieve.offer(fingerprint), expected);
        }
        let figures = sieve.figures();
        assert_eq!(figures.url_count, naive.len());
        assert!(figures.bloom_wrong_count > 0, "the third gate was never asked");
        assert!(figures.bloom_wrong_rate() < 0.01, "{figures:?}");
        assert!(figures.bloom_bits_per_url() >= 12.0, "{figures:?}");
    }

    #[test]
    fn a_probe_remembers_nothing() {
        let mut sieve = MemorySieve::default();
        assert_eq!(sieve.probe(fingerprint(1)), Seen::New);
        assert_eq!(sieve.probe(fingerprint(1)), Seen::New);
        sieve.admit(fingerprint(1));
        sieve.admit(fingerprint(1));
        assert_eq!(sieve.probe(fingerprint(1)), Seen::Known);
        assert_eq!(sieve.figures().url_count, 1);
    }

    #[test]
    fn no_fingerprint_is_known_to_an_empty_sieve() {
        let mut sieve = MemorySieve::default();
        let high = RECENT_FINGERPRINT_COUNT as u128;
        for odd in [0, 1, 2, high, high + 1, u128::MAX] {
            assert_eq!(sieve.probe(Fingerprint(odd)), Seen::New, "{odd}");
        }
    }

    #[test]
    fn recent_fingerprints_are_answered_by_the_cache() {
        let mut sieve = MemorySieve::default();
        sieve.admit(fingerprint(1));
        (0..10).for_each(|_| assert_eq!(sieve.probe(fingerprint(1)), Seen::Known));
        assert_eq!(sieve.figures().recent_hit_count, 10);
    }

    #[test]
    fn a_full_sieve_says_so() {
        let mut sieve = MemorySieve::default().limited_to(2);
        sieve.admit(fingerprint(1));
        assert!(!sieve.is_full());
        sieve.admit(fingerprint(2));
        assert!(sieve.is_full());
    }
}

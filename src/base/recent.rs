//! A cache of recent hashes that evicts the oldest. A miss proves nothing. A hit compares 64 bits
//! of the hash, and other bits choose its set: of crawls of a billion pages with 60 links each, one
//! in seventy million would mistake one hash for another (four in 2^64 for each question).
//!
//! A hash may lie in one set only, half a cache line that holds the last four hashes that were
//! inserted or asked for. With a single place instead of four, two links of a page that share the
//! place would evict each other on every page. The hash asked for last stays longest, so what is on
//! many pages outlasts what comes once.
//!
//! The whole hash was kept before. That was dropped: at twice the size, only half as much of the
//! table was covered by the translation caches, and each look-up outside of them costs more than
//! the comparison.
//!
//! The cache may begin small and grow, one set at a time, when its owner calls [`Recent::grow`]:
//! when something new has come, or when a hash that was asked for had been forgotten. The method is
//! linear hashing: the new set is the twin of an existing set, whose hashes are divided between the
//! two by one more bit. That bit was not kept, so both sets get all four hashes. Those in the wrong
//! set are never asked for there, and are evicted in time. Growing forgets nothing, and each step
//! costs one set only.

use crate::sys::memory;

pub struct Recent {
    sets: Vec<Set>,
    set_count_max: usize,
    /// The bits of a mixed hash that choose a set. If there is no set with that number yet, the
    /// hash belongs to the set whose number lacks the highest bit, because its twin is yet to come.
    mask: usize,
}

/// The tags of a set, newest first. Zero means an empty place.
#[derive(Clone, Copy)]
#[repr(align(32))]
struct Set([u64; WAY_COUNT]);

const WAY_COUNT: usize = 4;
const _: () = assert!(size_of::<Set>() == 32, "a set never spans two cache lines");

impl Recent {
    /// Makes a cache of `count` places, in two sets at least, that does not grow.
    pub fn with_places(count: usize) -> Recent {
        Recent::growing(count, count)
    }

    /// Makes a cache of `count` places at first and `count_max` at most. Places that do not exist
    /// yet cost no memory.
    pub fn growing(count: usize, count_max: usize) -> Recent {
        let set_count = (count / WAY_COUNT).max(2);
        let set_count_max = (count_max / WAY_COUNT).max(set_count);
        assert!(set_count_max <= 1 << HASH_BITS, "every set has a number");
        let mut sets = Vec::with_capacity(set_count_max);
        memory::want_huge_pages(sets.spare_capacity_mut());
        sets.resize(set_count, Set([0; WAY_COUNT]));
        Recent { sets, set_count_max, mask: set_count.next_power_of_two() - 1 }
    }

    pub fn place_count(&self) -> usize {
        self.sets.len() * WAY_COUNT
    }

    /// Adds one set of places, unless the cache has its largest size.
    #[inline]
    pub fn grow(&mut self) {
        let number = self.sets.len();
        if number < self.set_count_max {
            let twin = number - (1 << number.ilog2());
            self.sets.push(self.sets[twin]);
            self.mask |= number;
        }
    }

    /// Prefetches the set of a hash that is going to be asked for soon.
    #[inline]
    pub fn prefetch(&self, hash: u128) {
        memory::prefetch(&self.sets[self.set_of(hash)]);
    }

    #[inline]
    pub fn contains(&self, hash: u128) -> bool {
        hits(&self.sets[self.set_of(hash)].0, tag(hash)) != 0
    }

    /// Reports the same as [`Recent::contains`]; a hash that is found counts as the newest again.
    #[inline]
    pub fn touch(&mut self, hash: u128) -> bool {
        let (set, tag) = (self.set_of(hash), tag(hash));
        let Set(ways) = &mut self.sets[set];
        let hits = hits(ways, tag);
        if hits > 1 {
            let way = hits.trailing_zeros() as usize;
            // Rotating a slice of unknown length would be a call; this loop has a fixed length.
            let before = *ways;
            for place in 1..WAY_COUNT {
                ways[place] = if place <= way { before[place - 1] } else { before[place] };
            }
            ways[0] = tag;
        }
        hits != 0
    }

    #[inline]
    pub fn insert(&mut self, hash: u128) {
        if self.touch(hash) {
            return;
        }
        let set = self.set_of(hash);
        let Set([first, second, third, _]) = self.sets[set];
        self.sets[set] = Set([tag(hash), first, second, third]);
    }

    /// Returns the number of the set of a hash. It is computed from the high half, mixed first: in
    /// a fingerprint most of the high half comes from the host, and those of one core begin alike.
    #[inline]
    fn set_of(&self, hash: u128) -> usize {
        let mixed = ((hash >> 64) as u64).wrapping_mul(MIXER) >> (u64::BITS - HASH_BITS);
        let number = mixed as usize & self.mask;
        if number < self.sets.len() { number } else { number & (self.mask >> 1) }
    }
}

/// Bits of a mixed hash that sets are chosen by: its upper half, which all other bits influence.
const HASH_BITS: u32 = 32;

/// The golden ratio's multiplier, as in Fibonacci hashing: every bit of the high half influences
/// the result.
const MIXER: u64 = 0x9E37_79B9_7F4A_7C15;

/// Returns the low half of a hash. Zero means an empty place, so a zero half is stored as one.
#[inline]
fn tag(hash: u128) -> u64 {
    (hash as u64).max(1)
}

/// Returns a bit for each place that holds the tag; one place does at most. The loop has no early
/// exit, because a branch on which of the four it is cannot be predicted.
#[inline]
fn hits(ways: &[u64; WAY_COUNT], tag: u64) -> u32 {
    (0..WAY_COUNT).fold(0, |hits, way| hits | u32::from(ways[way] == tag) << way)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_a_list_to_whose_front_comes_what_is_asked_for() {
        let (mut recent, mut naive) = (Recent::with_places(8), Vec::new());
        let mut number = 7u64;
        for _ in 0..20_000 {
            number = number.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            // All of these hashes belong to one set.
            let (hash, is_new) = (u128::from(number >> 40) % 9 * 2 + 3, number >> 33 & 1 == 1);
            let before = naive.iter().position(|known| *known == hash);
            assert_eq!(recent.contains(hash), before.is_some());
            if is_new {
                recent.insert(hash);
            } else {
                assert_eq!(recent.touch(hash), before.is_some());
            }
            if before.is_some() || is_new {
                before.map(|at| naive.remove(at));
                naive.insert(0, hash);
                naive.truncate(WAY_COUNT);
            }
        }
    }

    #[test]
    fn nothing_is_there_by_chance_and_the_last_of_a_set_stay() {
        let mut recent = Recent::with_places(16);
        for hash in [0, 1, 2, 3, 4, u128::MAX, 1 << 64] {
            assert!(!recent.contains(hash), "{hash}");
        }
        let other = (1..).map(|high| high << 64 | 6).find(|hash| recent.set_of(*hash) > 0);
        let other = other.expect("a hash of another set");
        // All of these hashes belong to set zero, and the first is inserted twice.
        for hash in [5, 9, 5, 13, 17] {
            recent.insert(hash);
        }
        recent.insert(other);
        assert!([5, 9, 13, 17, other].iter().all(|hash| recent.contains(*hash)));
        recent.insert(21);
        assert!(!recent.contains(9), "the oldest is evicted");
        assert!([5, 13, 17, 21, other].iter().all(|hash| recent.contains(*hash)));
        assert!(recent.touch(5) && !recent.touch(9) && !recent.touch(1));
        [25, 29, 33].iter().for_each(|hash| recent.insert(*hash));
        assert!([5, 25, 29, 33].iter().all(|hash| recent.contains(*hash)), "5 was touched");
        assert!(!recent.contains(21) && !recent.contains(other ^ 6 | 5));
    }

    #[test]
    fn nothing_is_forgotten_by_growing_and_what_is_new_has_the_new_room() {
        let mut number = 7u64;
        let mut hash = || {
            number = number.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            u128::from(number) << 64 | u128::from(number ^ number >> 29)
        };
        let mut recent = Recent::growing(8, 4_000);
        let mut known: Vec<u128> = Vec::new();
        for _ in 0..3_000 {
            let before = recent.place_count();
            known.retain(|hash| recent.contains(*hash));
            recent.grow();
            assert!(recent.place_count() == (before + WAY_COUNT).min(4_000));
            assert!(known.iter().all(|hash| recent.contains(*hash)), "at {before} places");
            let new = hash();
            assert!(!recent.contains(new), "found by chance");
            recent.insert(new);
            known.push(new);
        }
        // Three thousand hashes in four thousand places: three a set on average, in some over four.
        let kept_count = known.iter().filter(|hash| recent.contains(**hash)).count();
        assert!(kept_count > 2_300, "{kept_count}");
        (0..40_000).for_each(|_| recent.insert(hash()));
        let is_full = |Set(ways): &Set| ways.iter().all(|tag| *tag != 0);
        assert!(recent.sets.iter().all(is_full), "every set is in use");
    }

    #[test]
    fn a_table_that_has_grown_is_as_one_that_was_made_so() {
        for place_count in [8, 12, 16, 20, 60, 64, 68, 1_024] {
            let made = Recent::with_places(place_count);
            let mut grown = Recent::growing(8, 1_024);
            while grown.place_count() < place_count {
                grown.grow();
            }
            for high in (0..2_000).map(|number| number * 0x1234_5678_9ABC_DEF7u128) {
                assert_eq!(made.set_of(high << 64), grown.set_of(high << 64), "{place_count}");
            }
        }
    }

    /// Whether the hashes share a host, a slot or nothing, no set gets many more than its share.
    #[test]
    fn hashes_that_begin_alike_use_all_sets() {
        let recent = Recent::with_places(1 << 10);
        for same_bits in [0, 12, 40] {
            let mut counts = vec![0; recent.sets.len()];
            let mut number = 1u64;
            for _ in 0..counts.len() * 64 {
                number = number.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let high = (0xABCD_EF01_2345_6789 & !(u64::MAX >> same_bits)) | number >> same_bits;
                counts[recent.set_of(u128::from(high) << 64)] += 1;
            }
            assert!(counts.iter().all(|count| (20..140).contains(count)), "{same_bits}");
        }
    }
}

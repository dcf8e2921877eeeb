//! Hashes of late, whole: what was there a moment ago. A hit is as sure as its 128 bits are; a miss
//! says nothing.
//!
//! A hash has one cache line, which holds the last four that came to it or were asked for. Four and
//! not one: with a single place, two links of a page that meet there turn each other out on every
//! page. The one asked for last stays longest: what is on many pages outlasts what comes once.

use crate::sys::memory;

pub struct Recent(Box<[Line]>);

/// The newest first.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u128; WAY_COUNT]);

const WAY_COUNT: usize = 4;
const _: () = assert!(size_of::<Line>() == 64, "one access");

impl Recent {
    /// `count` is a power of two; there are two lines at least. An empty place holds a value that
    /// belongs to another line, so no hash is there by chance: zero, but one in line zero.
    pub fn with_places(count: usize) -> Recent {
        assert!(count.is_power_of_two(), "indexed by a mask");
        let line_count = (count / WAY_COUNT).max(2);
        let mut lines = Vec::with_capacity(line_count);
        memory::want_huge_pages(lines.spare_capacity_mut());
        lines.resize(line_count, Line([0; WAY_COUNT]));
        lines[0] = Line([1; WAY_COUNT]);
        Recent(lines.into_boxed_slice())
    }

    /// That a hash is to be asked for soon.
    #[inline]
    pub fn foresee(&self, hash: u128) {
        memory::prefetch(&self.0[self.line(hash)]);
    }

    #[inline]
    pub fn contains(&self, hash: u128) -> bool {
        hits(&self.0[self.line(hash)].0, hash) != 0
    }

    /// As [`Recent::contains`], and if so it counts as new again.
    #[inline]
    pub fn touch(&mut self, hash: u128) -> bool {
        let line = self.line(hash);
        let Line(ways) = &mut self.0[line];
        let hits = hits(ways, hash);
        if hits > 1 {
            let way = hits.trailing_zeros() as usize;
            // No slice of unknown length: to rotate one is a call.
            let before = *ways;
            for place in 1..WAY_COUNT {
                ways[place] = if place <= way { before[place - 1] } else { before[place] };
            }
            ways[0] = hash;
        }
        hits != 0
    }

    #[inline]
    pub fn insert(&mut self, hash: u128) {
        if self.touch(hash) {
            return;
        }
        let line = self.line(hash);
        let Line([first, second, third, _]) = self.0[line];
        self.0[line] = Line([hash, first, second, third]);
    }

    #[inline]
    fn line(&self, hash: u128) -> usize {
        hash as usize & (self.0.len() - 1)
    }
}

/// A bit for each place that holds the hash; it is in one at most. No early exit: which of the four
/// it is cannot be foreseen.
#[inline]
fn hits(ways: &[u128; WAY_COUNT], hash: u128) -> u32 {
    (0..WAY_COUNT).fold(0, |hits, way| hits | u32::from(ways[way] == hash) << way)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_list_to_whose_front_comes_what_is_asked_for() {
        let (mut recent, mut naive) = (Recent::with_places(8), Vec::new());
        let mut number = 7u64;
        for _ in 0..20_000 {
            number = number.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            // All of line one.
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
    fn nothing_is_there_by_chance_and_the_last_of_a_line_stay() {
        let mut recent = Recent::with_places(16);
        for hash in [0, 1, 2, 3, 4, u128::MAX, 1 << 64] {
            assert!(!recent.contains(hash), "{hash}");
        }
        // All of line one, the first of them twice.
        for hash in [5, 9, 5, 13, 17] {
            recent.insert(hash);
        }
        recent.insert(6);
        assert!([5, 9, 13, 17, 6].iter().all(|hash| recent.contains(*hash)));
        recent.insert(21);
        assert!(!recent.contains(9), "the oldest goes");
        assert!([5, 13, 17, 21, 6].iter().all(|hash| recent.contains(*hash)));
        assert!(recent.touch(5) && !recent.touch(9) && !recent.touch(1));
        [25, 29, 33].iter().for_each(|hash| recent.insert(*hash));
        assert!([5, 25, 29, 33].iter().all(|hash| recent.contains(*hash)), "asked for stays");
        assert!(!recent.contains(21) && !recent.contains(1 << 64 | 5));
    }
}

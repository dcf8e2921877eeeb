//! The last hash of each residue, whole: what was there a moment ago. A hit is as sure as its 128
//! bits are; a miss says nothing.

use crate::sys::memory;

/// Direct-mapped, 16 bytes a place.
pub struct Recent(Box<[u128]>);

impl Recent {
    /// An empty place holds a value that belongs to another place, so no hash is there by chance:
    /// zero everywhere but at place zero, where it is one. There are at least two, a power of two.
    pub fn with_places(count: usize) -> Recent {
        assert!(count.is_power_of_two() && count >= 2, "indexed by a mask");
        let mut places = vec![0; count].into_boxed_slice();
        memory::want_huge_pages(&places);
        places[0] = 1;
        Recent(places)
    }

    /// That [`Recent::contains`] is to be asked soon.
    #[inline]
    pub fn foresee(&self, hash: u128) {
        memory::prefetch(&self.0[self.place(hash)]);
    }

    #[inline]
    pub fn contains(&self, hash: u128) -> bool {
        self.0[self.place(hash)] == hash
    }

    #[inline]
    pub fn insert(&mut self, hash: u128) {
        let place = self.place(hash);
        self.0[place] = hash;
    }

    #[inline]
    fn place(&self, hash: u128) -> usize {
        hash as usize & (self.0.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_there_by_chance_and_the_last_of_a_place_stays() {
        let mut recent = Recent::with_places(4);
        for hash in [0, 1, 2, 3, u128::MAX, 1 << 64] {
            assert!(!recent.contains(hash), "{hash}");
        }
        recent.insert(5);
        recent.insert(6);
        assert!(recent.contains(5) && recent.contains(6) && !recent.contains(1));
        recent.insert(9);
        assert!(recent.contains(9) && !recent.contains(5));
    }
}

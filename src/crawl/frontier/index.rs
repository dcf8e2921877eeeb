//! The index of hosts: finds a host's slot by its key.
//!
//! This module owns eight bytes a place: a part of the key, and the slot. Keys flow in, slots flow
//! out. Invariants: a slot is in the index once; there is always a free place, where a search ends.
//! Only its own core touches it.
//!
//! The table is our own for two reasons. A search mostly touches one cache line, whose address
//! follows from the key alone, so the lines for all links of a page can be prefetched at once
//! ([`HostIndex::prefetch`]). And the part of the key in each place tells hosts apart without a
//! look at their records.

use crate::proto::url::HostKey;
use crate::sys::memory;

pub struct HostIndex {
    /// Zero means free. Otherwise a place has the tag and, below it, the slot plus one.
    places: Box<[u64]>,
    count: usize,
}

const PLACE_COUNT_MIN: usize = 16;

impl HostIndex {
    /// The most that the index takes for a host: it grows by half when it is three quarters full.
    pub const BYTES_PER_HOST: usize = 16;

    pub fn new() -> HostIndex {
        HostIndex { places: vec![0; PLACE_COUNT_MIN].into(), count: 0 }
    }

    /// Prefetches the place where a search for `key` begins.
    #[inline]
    pub fn prefetch(&self, key: HostKey) {
        memory::prefetch(&self.places[self.home(key)]);
    }

    /// Returns the slot for which `is_same` holds, among those whose keys may be `key`.
    #[inline]
    pub fn find(&self, key: HostKey, is_same: impl Fn(u32) -> bool) -> Option<u32> {
        self.place_of(key, is_same).map(|place| slot(self.places[place]))
    }

    /// Returns a slot whose key may be `key`, if there is one, so that its record can be
    /// prefetched.
    pub fn guess(&self, key: HostKey) -> Option<u32> {
        self.find(key, |_| true)
    }

    /// Adds a slot that is not in the index; `key_of` returns the key of each slot that is.
    pub fn insert(&mut self, key: HostKey, slot: u32, key_of: impl Fn(u32) -> HostKey) {
        if (self.count + 1) * 4 > self.places.len() * 3 {
            let place_count = self.places.len() * 3 / 2;
            let mut places = Vec::with_capacity(place_count);
            memory::want_huge_pages(places.spare_capacity_mut());
            places.resize(place_count, 0);
            let before = std::mem::replace(&mut self.places, places.into());
            for entry in before.into_iter().filter(|entry| *entry != 0) {
                self.put(key_of(self::slot(entry)), entry);
            }
        }
        self.put(key, tag(key) | u64::from(slot + 1));
        self.count += 1;
    }

    /// Removes a slot, and moves up the slots behind it that had no room nearer to their home
    /// (backward-shift deletion, which leaves no marks).
    pub fn remove(&mut self, key: HostKey, slot: u32, key_of: impl Fn(u32) -> HostKey) {
        let found = self.place_of(key, |other| other == slot);
        let mut hole = found.expect("a host in RAM is in the index");
        let place_count = self.places.len();
        let mut place = hole;
        loop {
            place = self.behind(place);
            if self.places[place] == 0 {
                break;
            }
            let home = self.home(key_of(self::slot(self.places[place])));
            let behind = |from: usize| (place + place_count - from) % place_count;
            if behind(home) >= behind(hole) {
                self.places[hole] = self.places[place];
                hole = place;
            }
        }
        self.places[hole] = 0;
        self.count -= 1;
    }

    #[inline]
    fn place_of(&self, key: HostKey, is_same: impl Fn(u32) -> bool) -> Option<usize> {
        let mut place = self.home(key);
        loop {
            let entry = self.places[place];
            if entry == 0 {
                return None;
            }
            if entry & TAG_MASK == tag(key) && is_same(slot(entry)) {
                return Some(place);
            }
            place = self.behind(place);
        }
    }

    fn put(&mut self, key: HostKey, entry: u64) {
        let mut place = self.home(key);
        while self.places[place] != 0 {
            place = self.behind(place);
        }
        self.places[place] = entry;
    }

    /// Chooses a place by the low half of the key: the top bits chose the core and are nearly the
    /// same for all its hosts.
    #[inline]
    fn home(&self, key: HostKey) -> usize {
        ((u64::from(key.0 as u32) * self.places.len() as u64) >> 32) as usize
    }

    fn behind(&self, place: usize) -> usize {
        if place + 1 == self.places.len() { 0 } else { place + 1 }
    }
}

const TAG_MASK: u64 = !(u32::MAX as u64);

/// Takes the tag from the bits below those that chose the core; some of them chose the place as
/// well.
fn tag(key: HostKey) -> u64 {
    (key.0 << 12) & TAG_MASK
}

fn slot(entry: u64) -> u32 {
    entry as u32 - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::hash_key::test_key;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Uses keys that crowd at few home places, some of them with the same tag.
        #[test]
        fn finds_what_an_ordinary_map_finds(
            steps in prop::collection::vec((0..200u64, any::<bool>()), 1..600),
        ) {
            let key = |number: u64| HostKey((number % 3) << 40 | (number % 7) << 29 | number >> 3);
            let keys: Vec<HostKey> = (0..200).map(key).collect();
            let key_of = |slot: u32| keys[slot as usize];
            let (mut index, mut naive) = (HostIndex::new(), BTreeMap::new());
            for (number, is_added) in steps {
                let slot = number as u32;
                if is_added && naive.insert(slot, ()).is_none() {
                    index.insert(key(number), slot, key_of);
                } else if !is_added && naive.remove(&slot).is_some() {
                    index.remove(key(number), slot, key_of);
                }
            }
            for number in 0..200 {
                let found = index.find(key(number), |slot| slot == number as u32);
                prop_assert_eq!(found.is_some(), naive.contains_key(&(number as u32)));
            }
            prop_assert_eq!(index.count, naive.len());
        }
    }

    /// Returns the steps that the searches for all of `keys` take.
    fn step_count(index: &HostIndex, keys: &[HostKey]) -> usize {
        let steps = |key: &HostKey| {
            let (home, count) = (index.home(*key), index.places.len());
            let is_own = |entry: u64| entry != 0 && keys[slot(entry) as usize] == *key;
            (0..count).find(|step| is_own(index.places[(home + step) % count])).expect("it is in")
        };
        keys.iter().map(steps).sum()
    }

    /// Uses 4,000 names that crowded into one part of the table when keys were hashes without a
    /// secret, which anyone can compute.
    #[test]
    fn hosts_chosen_to_fill_one_place_do_not() {
        let names = (0..).map(|number: u64| format!("h{number}.flood.test"));
        let is_chosen =
            |name: &String| xxhash_rust::xxh3::xxh3_64(name.as_bytes()) as u32 >> 24 == 9;
        let chosen: Vec<String> = names.clone().filter(is_chosen).take(4_000).collect();
        let any: Vec<String> = names.take(4_000).collect();
        let steps = [chosen, any].map(|names| {
            let keys: Vec<_> = names.iter().map(|name| HostKey::of(&test_key(), name)).collect();
            let mut index = HostIndex::new();
            for (slot, key) in keys.iter().enumerate() {
                index.insert(*key, slot as u32, |slot| keys[slot as usize]);
            }
            step_count(&index, &keys)
        });
        assert!(steps.iter().all(|steps| *steps < 8 * 4_000), "{steps:?}");
    }

    #[test]
    fn a_million_hosts_are_found_with_few_steps() {
        let key = |slot: u32| HostKey(u64::from(slot).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut index = HostIndex::new();
        (0..1_000_000).for_each(|slot| index.insert(key(slot), slot, key));
        for slot in 0..1_000_000 {
            assert_eq!(index.find(key(slot), |other| key(other) == key(slot)), Some(slot));
        }
        let each = index.places.len() * 8 / index.count;
        assert!(each <= HostIndex::BYTES_PER_HOST, "{each} bytes a host");
    }
}

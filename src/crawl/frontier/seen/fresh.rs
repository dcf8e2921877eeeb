//! Fresh fingerprints, those that are in no run yet: a set in RAM.
//!
//! This module owns 16 bytes a place, three quarters of them taken at most, and four bytes for each
//! that is taken. Fingerprints flow in. The answer whether one is in the set flows out, and so do
//! the fingerprints of one slice of the filter. Invariant: there is always a free place, where a
//! search ends. Only its own core touches it.
//!
//! The table is our own because the place of a fingerprint follows from the fingerprint alone: one
//! cache line, which can be prefetched ([`Fresh::prefetch`]) before it is needed.
//!
//! The fingerprints of one slice have a list of their places, because a slice that grows needs them
//! all. To go through the whole table took 2 to 8 ms each time; a chain through the places waited
//! for memory at every link, and for one more line at every insertion. The ends of the lists stay
//! in the caches.

use super::filter::slice_of;
use crate::base::limits::{SEEN_FRESH_COUNT_FIRST, SEEN_SLICE_COUNT};
use crate::proto::url::Fingerprint;
use crate::sys::memory;

pub(super) struct Fresh {
    /// Zero means that the place is free.
    places: Box<[u128]>,
    /// For each slice: the places of its fingerprints, in the order in which they came.
    of_slices: Box<[Vec<u32>; SEEN_SLICE_COUNT]>,
    count: usize,
    /// Whether the set has fingerprint zero, which looks like a free place.
    has_zero: bool,
    /// How many fingerprints the table is to have room for as soon as it grows.
    room_next: usize,
}

impl Fresh {
    /// Makes a table with room for a few fingerprints, which grows at once to room for `count`: a
    /// crawl that never knows many URLs need not touch 16 MB. One that does has them by its first
    /// few thousand pages.
    pub(super) fn growing_to(count: usize) -> Fresh {
        Fresh { room_next: count, ..Fresh::with_room_for(count.min(SEEN_FRESH_COUNT_FIRST)) }
    }

    /// Makes a table with room for `count` fingerprints before it grows.
    pub(super) fn with_room_for(count: usize) -> Fresh {
        let mut blank = Blank::for_room(count);
        while !blank.step() {}
        blank.into_fresh()
    }

    pub(super) fn len(&self) -> usize {
        self.count + usize::from(self.has_zero)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Prefetches the place of a fingerprint that is to be looked up or inserted soon.
    #[inline]
    pub(super) fn prefetch(&self, fingerprint: Fingerprint) {
        memory::prefetch(&self.places[self.home(fingerprint.0)]);
    }

    #[inline]
    pub(super) fn contains(&self, fingerprint: Fingerprint) -> bool {
        match fingerprint.0 {
            0 => self.has_zero,
            known => self.places[self.place_of(known)] == known,
        }
    }

    /// Adds a fingerprint; returns false if it was in the set already.
    pub(super) fn insert(&mut self, fingerprint: Fingerprint) -> bool {
        if fingerprint.0 == 0 {
            return !std::mem::replace(&mut self.has_zero, true);
        }
        let place = self.place_of(fingerprint.0);
        if self.places[place] == fingerprint.0 {
            return false;
        }
        self.put(place, fingerprint.0);
        self.count += 1;
        if self.count * 4 > self.places.len() * 3 {
            self.grow();
        }
        true
    }

    /// Returns all fingerprints, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &u128> {
        let zero = self.has_zero.then_some(&0);
        self.places.iter().filter(|place| **place != 0).chain(zero)
    }

    /// Returns the fingerprints of a slice, in no order.
    pub(super) fn of_slice(&self, slice: usize) -> impl Iterator<Item = u128> {
        let known = self.of_slices[slice].iter().map(|place| self.places[*place as usize]);
        let has_zero = self.has_zero && slice_of(Fingerprint(0)) == slice;
        known.chain(has_zero.then_some(0))
    }

    fn grow(&mut self) {
        let mut larger = Fresh::with_room_for(self.room_next.max(self.count * 2));
        self.places.iter().filter(|place| **place != 0).for_each(|known| {
            larger.put(larger.place_of(*known), *known);
        });
        (larger.count, larger.has_zero) = (self.count, self.has_zero);
        *self = larger;
    }

    /// Puts a fingerprint into a free place.
    fn put(&mut self, place: usize, fingerprint: u128) {
        self.places[place] = fingerprint;
        self.of_slices[slice_of(Fingerprint(fingerprint))].push(place as u32);
    }

    /// Returns the place where a fingerprint is, or would be.
    #[inline]
    fn place_of(&self, fingerprint: u128) -> usize {
        let mut place = self.home(fingerprint);
        while self.places[place] != 0 && self.places[place] != fingerprint {
            place = if place + 1 == self.places.len() { 0 } else { place + 1 };
        }
        place
    }

    /// Chooses a place by the low half: the top bits are the slot's, nearly the same for all hosts
    /// of a core.
    #[inline]
    fn home(&self, fingerprint: u128) -> usize {
        ((u128::from(fingerprint as u64) * self.places.len() as u128) >> 64) as usize
    }
}

/// A [`Fresh`] that is being made, a step at a time: to get sixteen megabytes from the system, and
/// to clear them, takes longer than a core may be kept.
pub(super) struct Blank {
    places: Vec<u128>,
    place_count: usize,
}

const BLANK_STEP_COUNT: usize = 1 << 14;

impl Blank {
    /// Begins a table with room for `count` fingerprints before it grows.
    pub(super) fn for_room(count: usize) -> Blank {
        let place_count = (count * 4).div_ceil(3).max(8);
        assert!(u32::try_from(place_count).is_ok(), "limits keep it far smaller");
        let mut places = Vec::with_capacity(place_count);
        memory::want_huge_pages(places.spare_capacity_mut());
        Blank { places, place_count }
    }

    /// Clears the next part of the table; returns true once all of it is done.
    pub(super) fn step(&mut self) -> bool {
        let cleared_count = (self.places.len() + BLANK_STEP_COUNT).min(self.place_count);
        self.places.resize(cleared_count, 0);
        cleared_count == self.place_count
    }

    pub(super) fn into_fresh(self) -> Fresh {
        Fresh {
            places: self.places.into(),
            of_slices: Box::new([const { Vec::new() }; SEEN_SLICE_COUNT]),
            count: 0,
            has_zero: false,
            room_next: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_table_that_begins_small_has_its_whole_room_once_it_grows() {
        let (room, number) = (3 * SEEN_FRESH_COUNT_FIRST, |n: usize| {
            Fingerprint((n as u128 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835))
        });
        let (mut fresh, whole) = (Fresh::growing_to(room), Fresh::with_room_for(room));
        assert!(fresh.places.len() * 2 < whole.places.len());
        for count in 0..room {
            assert!(fresh.insert(number(count)) && !fresh.insert(number(count)));
            let is_whole = fresh.places.len() == whole.places.len();
            assert_eq!(is_whole, count >= SEEN_FRESH_COUNT_FIRST, "{count}");
        }
        assert!((0..room).all(|count| fresh.contains(number(count))));
        assert_eq!(fresh.len(), room);
    }

    proptest! {
        /// The numbers include zero, and many that want the same place.
        #[test]
        fn holds_what_an_ordinary_set_holds(
            numbers in prop::collection::vec((0..4u64, 0..60u128, 0..3u128), 0..300),
        ) {
            let (mut fresh, mut naive) = (Fresh::with_room_for(4), BTreeSet::new());
            for (crowd, number, slice) in numbers {
                let known = slice << 126 | number << 64 | u128::from(crowd << 62);
                prop_assert_eq!(fresh.contains(Fingerprint(known)), naive.contains(&known));
                prop_assert_eq!(fresh.insert(Fingerprint(known)), naive.insert(known));
            }
            prop_assert_eq!((fresh.len(), fresh.is_empty()), (naive.len(), naive.is_empty()));
            prop_assert_eq!(&fresh.iter().copied().collect::<BTreeSet<_>>(), &naive);
            let mut in_slices = 0;
            for slice in 0..SEEN_SLICE_COUNT {
                for known in fresh.of_slice(slice) {
                    prop_assert!(slice_of(Fingerprint(known)) == slice && naive.contains(&known));
                    in_slices += 1;
                }
            }
            prop_assert_eq!(in_slices, naive.len());
        }
    }
}

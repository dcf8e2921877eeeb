//! The Bloom filter in slices, each for a range of slots.
//!
//! This module owns the slices. Fingerprints flow in; "no" and "maybe" flow out. Invariant: what
//! was inserted is never answered "no", before, during and after a growth. Only its own core
//! touches it.
//!
//! A slice that is full is rebuilt from the runs, larger, while the old one goes on answering; what
//! is admitted meanwhile is noted and inserted at the end. Only one slice grows at a time, so the
//! extra memory is that of one slice. Slices begin at different sizes, so that hosts spread evenly
//! over slots do not fill all slices at one moment: between 12 and 16 bits a URL, 14 on average.

use crate::base::limits::{SEEN_GROWTH_DENOMINATOR, SEEN_GROWTH_NUMERATOR, SEEN_SLICE_COUNT};
use crate::crawl::frontier::bloom::Bloom;
use crate::proto::url::Fingerprint;

pub(super) struct Filter {
    slices: Vec<Bloom>,
    growing: Option<Growing>,
    /// Some slice may be full.
    is_growth_due: bool,
}

struct Growing {
    slice: usize,
    /// Fingerprints that were admitted to the slice since its growth began.
    added: Vec<Fingerprint>,
}

impl Filter {
    /// `room_for` returns how many URLs a slice is to have room for.
    pub(super) fn new(room_for: impl Fn(usize) -> usize) -> Filter {
        let slice = |index| Bloom::with_room_for(staggered(room_for(index), index));
        Filter {
            slices: (0..SEEN_SLICE_COUNT).map(slice).collect(),
            growing: None,
            is_growth_due: false,
        }
    }

    #[inline]
    pub(super) fn prefetch(&self, fingerprint: Fingerprint) {
        self.slices[slice_of(fingerprint)].prefetch(fingerprint);
    }

    #[inline]
    pub(super) fn may_contain(&self, fingerprint: Fingerprint) -> bool {
        self.slices[slice_of(fingerprint)].may_contain(fingerprint)
    }

    pub(super) fn insert(&mut self, fingerprint: Fingerprint) {
        let slice = slice_of(fingerprint);
        self.slices[slice].insert(fingerprint);
        self.is_growth_due |= self.slices[slice].is_full();
        if let Some(growing) = self.growing.as_mut().filter(|growing| growing.slice == slice) {
            growing.added.push(fingerprint);
        }
    }

    /// Begins the growth of a full slice, if there is one and no other grows. Returns the slice,
    /// and the room that the new one is to have.
    pub(super) fn begin_growth(&mut self) -> Option<(usize, usize)> {
        if self.growing.is_some() || !self.is_growth_due {
            return None;
        }
        // The fullest slice grows first: a host with many URLs fills its own slice.
        let fullness = |slice: &Bloom| slice.url_count() * 1_024 / slice.bit_count();
        let full = self.slices.iter().enumerate().filter(|(_, slice)| slice.is_full());
        let Some((index, slice)) = full.max_by_key(|(_, slice)| fullness(slice)) else {
            self.is_growth_due = false;
            return None;
        };
        let room = slice.url_count() * SEEN_GROWTH_NUMERATOR / SEEN_GROWTH_DENOMINATOR;
        self.growing = Some(Growing { slice: index, added: Vec::new() });
        Some((index, room))
    }

    /// Puts the larger slice in place, which was built from all that was admitted before the growth
    /// began.
    pub(super) fn end_growth(&mut self, mut larger: Bloom) {
        let growing = self.growing.take().expect("a growth was begun");
        growing.added.into_iter().for_each(|fingerprint| larger.insert(fingerprint));
        self.slices[growing.slice] = larger;
    }

    /// Puts a slice in place that was built apart.
    pub(super) fn replace(&mut self, slice: usize, built: Bloom) {
        self.slices[slice] = built;
    }

    /// Ends a growth whose runs could not be read: the old slice stays, and its growth may be tried
    /// again.
    pub(super) fn abandon_growth(&mut self) {
        self.growing = None;
    }

    pub(super) fn bit_count(&self) -> usize {
        self.slices.iter().map(Bloom::bit_count).sum()
    }

    pub(super) fn url_count(&self) -> usize {
        self.slices.iter().map(Bloom::url_count).sum()
    }
}

const SLICE_SHIFT: u32 = u128::BITS - SEEN_SLICE_COUNT.ilog2();

#[inline]
pub(super) fn slice_of(fingerprint: Fingerprint) -> usize {
    (fingerprint.0 >> SLICE_SHIFT) as usize
}

/// Returns the first and the last fingerprint that belong to a slice.
pub(super) fn slice_range(slice: usize) -> (u128, u128) {
    let first = (slice as u128) << SLICE_SHIFT;
    (first, first | (u128::MAX >> (u128::BITS - SLICE_SHIFT)))
}

/// Returns the room that slice `index` begins with: from `room` to four thirds of it, in equal
/// ratios.
fn staggered(room: usize, index: usize) -> usize {
    let ratio = SEEN_GROWTH_NUMERATOR as f64 / SEEN_GROWTH_DENOMINATOR as f64;
    (room as f64 * ratio.powf(index as f64 / SEEN_SLICE_COUNT as f64)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::xxh3_128;

    fn fingerprint(number: u64) -> Fingerprint {
        Fingerprint(xxh3_128(&number.to_le_bytes()))
    }

    #[test]
    fn what_comes_during_a_growth_is_in_the_new_slice() {
        let mut filter = Filter::new(|_| 100);
        let mut number = 0;
        while !filter.slices[9].is_full() {
            filter.insert(fingerprint(number));
            number += 1;
        }
        let mut next = filter.begin_growth();
        while let Some((slice, room)) = next {
            assert!(filter.begin_growth().is_none(), "one at a time");
            let mut larger = Bloom::with_room_for(room);
            let before = (0..number).map(fingerprint).filter(|of| slice_of(*of) == slice);
            before.for_each(|fingerprint| larger.insert(fingerprint));
            let old = &filter.slices[slice];
            assert!(larger.bit_count() > old.bit_count() && old.is_full());
            for _ in 0..200 {
                filter.insert(fingerprint(number));
                number += 1;
            }
            filter.end_growth(larger);
            assert!((0..number).all(|number| filter.may_contain(fingerprint(number))));
            next = if number < 20_000 { filter.begin_growth() } else { None };
        }
        assert_eq!(filter.url_count(), number as usize);
    }

    #[test]
    fn slices_cover_all_fingerprints_in_order() {
        assert_eq!(slice_range(0).0, 0);
        assert_eq!(slice_range(SEEN_SLICE_COUNT - 1).1, u128::MAX);
        for slice in 1..SEEN_SLICE_COUNT {
            let (first, last) = slice_range(slice);
            assert_eq!(slice_range(slice - 1).1 + 1, first);
            assert_eq!((slice_of(Fingerprint(first)), slice_of(Fingerprint(last))), (slice, slice));
        }
    }
}

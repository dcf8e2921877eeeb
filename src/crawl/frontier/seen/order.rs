//! Sorts fingerprints a step at a time, so that a core that sorts half a million still fetches.
//!
//! 1. It counts by slot: the top bits alone are uneven, because a crawl of one site has a single
//!    slot.
//! 2. It gives each slot buckets by its count. Behind the slot a fingerprint is a hash of its host,
//!    so equal parts of the slot's range hold about equally many hosts.
//! 3. It scatters the fingerprints into the buckets, and sorts each bucket: a few hundred, in
//!    cache.
//! 4. A large host has a bucket to itself, which is too much for one step: its parts are sorted one
//!    by one and then merged, all at once.

use crate::base::limits::{SEEN_STEP_COUNT, SLOT_BITS, SLOT_COUNT};
use crate::io::Clock;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

pub(super) trait Keyed: Copy {
    fn key(&self) -> u128;
}

impl Keyed for u128 {
    fn key(&self) -> u128 {
        *self
    }
}

const BUCKET_COUNT_AIM: usize = 256;

pub(super) async fn sorted<T: Keyed>(items: &[T], clock: &impl Clock) -> Vec<T> {
    let mut slot_counts = vec![0u32; SLOT_COUNT];
    for step in items.chunks(SEEN_STEP_COUNT) {
        step.iter().for_each(|item| slot_counts[slot(item.key())] += 1);
        clock.yield_now().await;
    }
    let buckets = Buckets::new(&slot_counts);
    let mut ends = vec![0u32; buckets.count + 1];
    for step in items.chunks(SEEN_STEP_COUNT) {
        step.iter().for_each(|item| ends[buckets.of(item.key()) + 1] += 1);
        clock.yield_now().await;
    }
    for bucket in 0..buckets.count {
        ends[bucket + 1] += ends[bucket];
    }
    // The room is filled first, in steps like everything else: the system may be slow to provide
    // the memory.
    let mut sorted = Vec::with_capacity(items.len());
    for step in items.chunks(SEEN_STEP_COUNT) {
        sorted.extend_from_slice(step);
        clock.yield_now().await;
    }
    // `ends` now has the start of each bucket; scattering moves it to the bucket's end.
    for step in items.chunks(SEEN_STEP_COUNT) {
        for item in step {
            let end = &mut ends[buckets.of(item.key())];
            sorted[*end as usize] = *item;
            *end += 1;
        }
        clock.yield_now().await;
    }
    let (mut start, mut since_yield) = (0, 0);
    for end in &ends[..buckets.count] {
        let end = *end as usize;
        let bucket = &mut sorted[start..end];
        since_yield += bucket.len();
        start = end;
        if bucket.len() <= SEEN_STEP_COUNT {
            bucket.sort_unstable_by_key(Keyed::key);
        } else {
            sort_in_parts(bucket, clock).await;
        }
        if since_yield >= SEEN_STEP_COUNT {
            since_yield = 0;
            clock.yield_now().await;
        }
    }
    sorted
}

async fn sort_in_parts<T: Keyed>(items: &mut [T], clock: &impl Clock) {
    let mut heads = BinaryHeap::new();
    for (number, part) in items.chunks_mut(SEEN_STEP_COUNT).enumerate() {
        part.sort_unstable_by_key(Keyed::key);
        heads.push(Reverse((part[0].key(), number * SEEN_STEP_COUNT)));
        clock.yield_now().await;
    }
    let mut merged = Vec::with_capacity(items.len());
    while let Some(mut least) = heads.peek_mut() {
        let Reverse((key, at)) = &mut *least;
        merged.push(items[*at]);
        *at += 1;
        // A part ends where the next begins, and the next has a head of its own.
        if *at < items.len() && !at.is_multiple_of(SEEN_STEP_COUNT) {
            *key = items[*at].key();
            drop(least);
        } else {
            PeekMut::pop(least);
        }
        if merged.len().is_multiple_of(SEEN_STEP_COUNT) {
            clock.yield_now().await;
        }
    }
    for (part, sorted) in items.chunks_mut(SEEN_STEP_COUNT).zip(merged.chunks(SEEN_STEP_COUNT)) {
        part.copy_from_slice(sorted);
        clock.yield_now().await;
    }
}

struct Buckets {
    /// For each slot: its first bucket, and how many it has.
    of_slot: Vec<(u32, u32)>,
    count: usize,
}

impl Buckets {
    fn new(slot_counts: &[u32]) -> Buckets {
        let mut count = 0;
        let mut give = |items: &u32| {
            let own = items.div_ceil(BUCKET_COUNT_AIM as u32);
            count += own;
            (count - own, own)
        };
        let of_slot = slot_counts.iter().map(&mut give).collect();
        Buckets { of_slot, count: count as usize }
    }

    fn of(&self, key: u128) -> usize {
        let (first, count) = self.of_slot[slot(key)];
        let behind_slot = ((key << SLOT_BITS) >> 96) as u64;
        first as usize + ((behind_slot * u64::from(count)) >> 32) as usize
    }
}

fn slot(key: u128) -> usize {
    (key >> (u128::BITS - SLOT_BITS)) as usize
}

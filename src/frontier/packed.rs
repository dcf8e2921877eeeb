//! A first-in first-out queue of URLs of one host and class, packed into one ring of bytes.
//!
//! Owns the bytes. In: [`Record`]s at the back (or, for retries, at the front). Out: records from
//! the front; at the back only dropped. Invariant: the ring is a sequence of whole records, `count`
//! of them. One core, one host.
//!
//! A record costs [`OVERHEAD_BYTES`] beside its path, against 48 bytes and an allocation for a
//! `Url`. The host's name and origin are kept once, by the host:
//!
//! ```text
//! size u16 | origin u8 | depth u16 | tries u8 | via, trail count u8 | trail u64* | path | size u16
//! ```
//!
//! Via takes three bits and the trail's count five. The size stands at both ends so that a full
//! frontier can drop the newest record, which is the deepest, instead of the oldest.

use crate::flow::{Trail, Via};
use crate::limits::{REDIRECT_COUNT_MAX, URL_BYTES_MAX};
use std::collections::VecDeque;

const HEAD_BYTES: usize = 7;
const FOOT_BYTES: usize = 2;
/// Via and the trail's count share a byte.
const VIA_BITS: u32 = 3;
const TRAIL_COUNT_MAX: usize = (1 << (8 - VIA_BITS)) - 1;
/// Rings below this are left as they are; freeing less is not worth a copy.
const SHRINK_BYTES_MIN: usize = 256;

/// What a queued URL costs beside its path and its (mostly empty) trail.
pub const OVERHEAD_BYTES: usize = HEAD_BYTES + FOOT_BYTES;

const _: () = {
    assert!(OVERHEAD_BYTES + 8 * TRAIL_COUNT_MAX + URL_BYTES_MAX <= u16::MAX as usize);
    assert!(REDIRECT_COUNT_MAX as usize <= TRAIL_COUNT_MAX);
};

/// A queued URL without what its host knows: name, scheme and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<P = String> {
    /// Index among the host's origins.
    pub origin: u8,
    pub depth: u16,
    pub tries: u8,
    pub via: Via,
    pub trail: Trail,
    pub path_and_query: P,
}

#[derive(Default)]
pub struct PackedQueue {
    ring: VecDeque<u8>,
    count: u32,
}

impl PackedQueue {
    pub fn push_back(&mut self, record: &Record<&str>) {
        let size = record.size_bytes();
        self.ring.reserve(size);
        self.ring.extend(&record.head());
        for hop in &record.trail {
            self.ring.extend(&hop.to_le_bytes());
        }
        self.ring.extend(record.path_and_query.as_bytes());
        self.ring.extend(&(size as u16).to_le_bytes());
        self.count += 1;
    }

    /// For retries only: byte by byte, from the record's end to its start.
    pub fn push_front(&mut self, record: &Record<&str>) {
        let size = record.size_bytes();
        self.ring.reserve(size);
        let foot = (size as u16).to_le_bytes();
        let hops: Vec<u8> = record.trail.iter().flat_map(|hop| hop.to_le_bytes()).collect();
        for part in [&foot, record.path_and_query.as_bytes(), &hops, &record.head()] {
            part.iter().rev().for_each(|byte| self.ring.push_front(*byte));
        }
        self.count += 1;
    }

    pub fn pop_front(&mut self) -> Option<Record> {
        let (record, size) = self.read_at(0)?;
        self.ring.drain(..size);
        self.removed_one();
        Some(record)
    }

    /// Drops the newest record and says how many bytes it took.
    pub fn drop_back(&mut self) -> Option<usize> {
        let foot_at = self.ring.len().checked_sub(FOOT_BYTES)?;
        let size = self.u16_at(foot_at) as usize;
        self.ring.truncate(self.ring.len() - size);
        self.removed_one();
        Some(size)
    }

    /// Origin index of the front record.
    pub fn front_origin(&self) -> Option<u8> {
        self.ring.get(2).copied()
    }

    /// Front to back, without removing.
    pub fn iter(&self) -> impl Iterator<Item = Record> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let (record, size) = self.read_at(at)?;
            at += size;
            Some(record)
        })
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    pub fn size_bytes(&self) -> usize {
        self.ring.len()
    }

    fn read_at(&self, at: usize) -> Option<(Record, usize)> {
        if at >= self.ring.len() {
            return None;
        }
        let size = self.u16_at(at) as usize;
        let mixed = self.ring[at + 6];
        let trail_count = (mixed >> VIA_BITS) as usize;
        let path_start = at + HEAD_BYTES + 8 * trail_count;
        let path = self.bytes(path_start, at + size - FOOT_BYTES);
        let record = Record {
            origin: self.ring[at + 2],
            depth: self.u16_at(at + 3),
            tries: self.ring[at + 5],
            via: via_from_bits(mixed & ((1 << VIA_BITS) - 1)),
            trail: self.trail(at + HEAD_BYTES, trail_count),
            path_and_query: String::from_utf8(path).expect("the bytes of a str"),
        };
        Some((record, size))
    }

    fn trail(&self, at: usize, count: usize) -> Trail {
        let bytes = self.bytes(at, at + 8 * count);
        bytes.as_chunks().0.iter().map(|hop| u64::from_le_bytes(*hop)).collect()
    }

    fn u16_at(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.ring[at], self.ring[at + 1]])
    }

    /// Copies a range out of the ring's one or two pieces.
    fn bytes(&self, start: usize, end: usize) -> Vec<u8> {
        let (first, second) = self.ring.as_slices();
        let mut bytes = Vec::with_capacity(end - start);
        let split = first.len();
        bytes.extend_from_slice(&first[start.min(split)..end.min(split)]);
        bytes.extend_from_slice(&second[start.max(split) - split..end.max(split) - split]);
        bytes
    }

    /// Keeps the ring at least a quarter full; halving only then makes shrinking amortised O(1).
    fn removed_one(&mut self) {
        self.count -= 1;
        let capacity = self.ring.capacity();
        if capacity >= SHRINK_BYTES_MIN && self.ring.len() < capacity / 4 {
            self.ring.shrink_to(capacity / 2);
        }
    }
}

impl<P: AsRef<str>> Record<P> {
    /// Bytes it takes in a queue.
    pub fn size_bytes(&self) -> usize {
        OVERHEAD_BYTES + 8 * self.trail.len() + self.path_and_query.as_ref().len()
    }

    fn head(&self) -> [u8; HEAD_BYTES] {
        assert!(self.trail.len() <= TRAIL_COUNT_MAX, "a trail is cut at the redirect limit");
        assert!(self.path_and_query.as_ref().len() <= URL_BYTES_MAX, "a Url is bounded");
        let [size_low, size_high] = (self.size_bytes() as u16).to_le_bytes();
        let [depth_low, depth_high] = self.depth.to_le_bytes();
        let mixed = (self.via as u8) | (self.trail.len() as u8) << VIA_BITS;
        [size_low, size_high, self.origin, depth_low, depth_high, self.tries, mixed]
    }
}

fn via_from_bits(bits: u8) -> Via {
    match bits {
        0 => Via::Seed,
        1 => Via::Link,
        2 => Via::Redirect,
        3 => Via::Sitemap,
        _ => Via::Robots,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(path: &str) -> Record<&str> {
        Record {
            origin: 0,
            depth: 1,
            tries: 0,
            via: Via::Link,
            trail: Box::default(),
            path_and_query: path,
        }
    }

    fn owned(record: &Record<&str>) -> Record {
        Record {
            origin: record.origin,
            depth: record.depth,
            tries: record.tries,
            via: record.via,
            trail: record.trail.clone(),
            path_and_query: record.path_and_query.to_string(),
        }
    }

    #[test]
    fn a_url_costs_nine_bytes_beside_its_path() {
        let mut queue = PackedQueue::default();
        queue.push_back(&record("/a/path?with=query"));
        assert_eq!(queue.size_bytes(), "/a/path?with=query".len() + 9);
    }

    #[test]
    fn memory_shrinks_as_the_queue_drains() {
        let mut queue = PackedQueue::default();
        let path = format!("/{}", "x".repeat(90));
        (0..10_000).for_each(|_| queue.push_back(&record(&path)));
        let full = queue.ring.capacity();
        (0..9_900).for_each(|_| assert!(queue.pop_front().is_some()));
        assert_eq!(queue.count(), 100);
        assert!(queue.ring.capacity() * 20 < full, "{} of {full}", queue.ring.capacity());
    }

    #[test]
    fn every_way_a_url_was_found_comes_back() {
        for via in [Via::Seed, Via::Link, Via::Redirect, Via::Sitemap, Via::Robots] {
            assert_eq!(via_from_bits(via as u8), via);
        }
    }

    #[test]
    fn the_longest_record_fits() {
        let path = "/".repeat(URL_BYTES_MAX);
        let trail: Trail = (0..TRAIL_COUNT_MAX as u64).collect();
        let long = Record { trail, depth: u16::MAX, tries: u8::MAX, origin: 255, ..record(&path) };
        let mut queue = PackedQueue::default();
        queue.push_back(&long);
        queue.push_front(&long);
        assert_eq!(queue.pop_front(), Some(owned(&long)));
        assert_eq!(queue.pop_front(), Some(owned(&long)));
        assert_eq!(queue.size_bytes(), 0);
    }

    proptest! {
        /// Against a plain deque of records: pushes and pops at both ends, wrapping the ring.
        #[test]
        fn behaves_as_a_deque_of_records(
            steps in prop::collection::vec(
                (
                    0..6u8,
                    "/[a-z]{0,40}",
                    any::<(u8, u16, u8)>(),
                    prop::collection::vec(any::<u64>(), 0..6),
                ),
                1..300,
            ),
        ) {
            let mut queue = PackedQueue::default();
            let mut naive = VecDeque::new();
            for (step, path, (origin, depth, tries), trail) in &steps {
                let record = Record {
                    origin: *origin, depth: *depth, tries: *tries,
                    via: via_from_bits(depth.to_le_bytes()[0] % 5),
                    trail: trail.clone().into(), path_and_query: path.as_str(),
                };
                match step {
                    0..=2 => {
                        queue.push_back(&record);
                        naive.push_back(owned(&record));
                    }
                    3 => {
                        queue.push_front(&record);
                        naive.push_front(owned(&record));
                    }
                    4 => prop_assert_eq!(queue.pop_front(), naive.pop_front()),
                    _ => prop_assert_eq!(queue.drop_back().is_some(), naive.pop_back().is_some()),
                }
                prop_assert_eq!(queue.count() as usize, naive.len());
                prop_assert_eq!(queue.front_origin(), naive.front().map(|record| record.origin));
            }
            prop_assert_eq!(queue.iter().collect::<VecDeque<_>>(), naive);
        }
    }
}

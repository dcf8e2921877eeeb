//! A first-in first-out queue of URLs of one host and class, packed into one ring of bytes.
//!
//! This module owns the bytes. [`Record`]s flow in at the back or, for retries, at the front. They
//! flow out at the front; at the back they are only dropped. Stretches of whole records move to the
//! disk and back unchanged. Invariant: the ring is a sequence of `count` whole records. A queue
//! belongs to one host, and only that host's core touches it.
//!
//! A record costs [`OVERHEAD_BYTES`] beside its path, against 48 bytes and an allocation for a
//! `Url`. The host keeps its name and its origins once:
//!
//! ```text
//! size u16 | origin u8 | depth u16 | tries u8 | via, trail count u8 | trail u64* | path | size u16
//! ```
//!
//! Via takes three bits and the trail's count five. The size stands at both ends so that a full
//! frontier can drop the newest record, which is the deepest, instead of the oldest.

use crate::base::limits::{REDIRECT_COUNT_MAX, URL_BYTES_MAX};
use crate::crawl::flow::{Trail, Via};
use crate::sys::memory;
use std::collections::VecDeque;

const HEAD_BYTES: usize = 7;
const FOOT_BYTES: usize = 2;
/// Bits of `via` in the byte that it shares with the trail's count.
const VIA_BITS: u32 = 3;
const TRAIL_COUNT_MAX: usize = (1 << (8 - VIA_BITS)) - 1;
/// Rings with a smaller capacity are not shrunk when single records leave; freeing less is not
/// worth a copy.
const SHRINK_BYTES_MIN: usize = 256;

/// Bytes that a queued URL costs beside its path and its (mostly empty) trail.
pub const OVERHEAD_BYTES: usize = HEAD_BYTES + FOOT_BYTES;

const _: () = {
    assert!(OVERHEAD_BYTES + 8 * TRAIL_COUNT_MAX + URL_BYTES_MAX <= u16::MAX as usize);
    assert!(REDIRECT_COUNT_MAX as usize <= TRAIL_COUNT_MAX);
};

/// A queued URL without what its host knows: name, scheme and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<P = String> {
    /// The index of the URL's origin among the host's origins.
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
        self.make_room(size);
        self.ring.extend(&record.head());
        for hop in &record.trail {
            self.ring.extend(&hop.to_le_bytes());
        }
        self.ring.extend(record.path_and_query.as_bytes());
        self.ring.extend(&(size as u16).to_le_bytes());
        self.count += 1;
    }

    /// Prefetches the end of the last record, because a record is to be pushed soon.
    #[inline]
    pub fn prefetch(&self) {
        self.ring.back().inspect(|last| memory::prefetch(*last));
    }

    /// Puts a record at the front, byte by byte from its end to its start. Only retries use this.
    pub fn push_front(&mut self, record: &Record<&str>) {
        let size = record.size_bytes();
        self.make_room(size);
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

    /// Moves the first records that fit into `size_max` bytes behind the last.
    pub fn rotate(&mut self, size_max: usize) {
        let (end, _) = self.reach(size_max);
        self.ring.rotate_left(end);
    }

    /// Drops the newest record and returns how many bytes it took.
    pub fn drop_back(&mut self) -> Option<usize> {
        let foot_at = self.ring.len().checked_sub(FOOT_BYTES)?;
        let size = self.u16_at(foot_at) as usize;
        self.ring.truncate(self.ring.len() - size);
        self.removed_one();
        Some(size)
    }

    /// Cuts off and returns records at the back: those behind the first that fit into `keep_bytes`,
    /// but no more than `take_bytes` of them. Only the last cut may take more, by less than a
    /// record.
    pub fn split_back(&mut self, keep_bytes: usize, take_bytes: usize) -> PackedQueue {
        let is_last_cut = self.ring.len() <= keep_bytes.saturating_add(take_bytes);
        let (at, count) = if is_last_cut {
            let (at, kept_count) = self.reach(keep_bytes);
            (at, self.count - kept_count)
        } else {
            self.reach_back(take_bytes)
        };
        let back = PackedQueue { ring: self.ring.split_off(at), count };
        self.count -= count;
        // What is left after the last cut is small, so all spare capacity is given back.
        if is_last_cut || self.ring.capacity() > 2 * self.ring.len() {
            self.ring.shrink_to_fit();
        }
        back
    }

    /// Moves the first records that fit into `size_max` bytes to the end of `bytes`; returns how
    /// many they are.
    pub fn drain_into(&mut self, size_max: usize, bytes: &mut Vec<u8>) -> u32 {
        let (end, count) = self.reach(size_max);
        let (first, second) = self.ring.as_slices();
        let split = end.min(first.len());
        bytes.extend_from_slice(&first[..split]);
        bytes.extend_from_slice(&second[..end - split]);
        self.ring.drain(..end);
        self.count -= count;
        if self.ring.capacity() > 4 * self.ring.len() {
            self.ring.shrink_to_fit();
        }
        count
    }

    /// Appends `count` records as [`PackedQueue::drain_into`] wrote them. Bytes that come from a
    /// disk must have passed [`are_records`].
    pub fn append(&mut self, bytes: &[u8], count: u32) {
        self.ring.reserve_exact(bytes.len());
        self.ring.extend(bytes);
        self.count += count;
    }

    /// Appends all of another queue.
    pub fn append_queue(&mut self, behind: PackedQueue) {
        if self.count == 0 {
            *self = behind;
            return;
        }
        let (first, second) = behind.ring.as_slices();
        self.append(first, behind.count);
        self.append(second, 0);
    }

    /// Makes room for a record. Grows the ring by half at most: if a million queues doubled, a
    /// quarter of the RAM would be unused.
    fn make_room(&mut self, size: usize) {
        if self.ring.capacity() - self.ring.len() < size {
            self.ring.reserve_exact(size.max(self.ring.len() / 2));
        }
    }

    /// Returns where the first records that fit into `size_max` bytes end, and how many they are.
    fn reach(&self, size_max: usize) -> (usize, u32) {
        if self.ring.len() <= size_max {
            return (self.ring.len(), self.count);
        }
        let (mut end, mut count) = (0, 0);
        loop {
            let next = end + self.u16_at(end) as usize;
            if next > size_max {
                return (end, count);
            }
            (end, count) = (next, count + 1);
        }
    }

    /// Returns where the last records that fit into `size_max` bytes begin, and how many they are.
    fn reach_back(&self, size_max: usize) -> (usize, u32) {
        let (mut start, mut count) = (self.ring.len(), 0);
        while start > 0 {
            let next = start - self.u16_at(start - FOOT_BYTES) as usize;
            if self.ring.len() - next > size_max {
                break;
            }
            (start, count) = (next, count + 1);
        }
        (start, count)
    }

    /// Returns the size of the front record; zero if the queue is empty.
    pub fn front_bytes(&self) -> usize {
        if self.count == 0 { 0 } else { self.u16_at(0) as usize }
    }

    /// Returns the origin index of the front record.
    pub fn front_origin(&self) -> Option<u8> {
        self.ring.get(2).copied()
    }

    /// Appends all records to `out` as they are.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        let (first, second) = self.ring.as_slices();
        out.extend_from_slice(first);
        out.extend_from_slice(second);
    }

    /// Reads the records in `bytes`, those of a robots.txt left out, into a queue of a host with
    /// `origin_count` origins. Returns `None` if they are not what [`PackedQueue::append_to`]
    /// wrote.
    pub fn from_bytes(bytes: &[u8], origin_count: usize) -> Option<PackedQueue> {
        let mut queue = PackedQueue::default();
        let mut rest = bytes;
        while !rest.is_empty() {
            let size = usize::from(u16::from_le_bytes(*rest.first_chunk()?));
            let (record, behind) = rest.split_at_checked(size)?;
            let mixed = *record.get(HEAD_BYTES - 1)?;
            let trail_bytes = 8 * usize::from(mixed >> VIA_BITS);
            let via = Via::from_number(mixed & ((1 << VIA_BITS) - 1))?;
            let (content, foot) = record.split_last_chunk::<FOOT_BYTES>()?;
            let path = content.get(HEAD_BYTES + trail_bytes..)?;
            if usize::from(record[2]) >= origin_count
                || record.first_chunk() != Some(foot)
                || path.first() != Some(&b'/')
                || !path.iter().all(u8::is_ascii_graphic)
            {
                return None;
            }
            // A robots.txt is left out: whoever needs it asks for it anew.
            if via != Via::Robots {
                queue.ring.extend(record);
                queue.count += 1;
            }
            rest = behind;
        }
        Some(queue)
    }

    /// Returns the records from front to back, without removing them.
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

    /// Returns the RAM that the queue takes.
    pub fn memory_bytes(&self) -> usize {
        self.ring.capacity()
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
            via: Via::from_number(mixed & ((1 << VIA_BITS) - 1)).expect("written by `head`"),
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

    /// Counts a record as removed, and keeps the ring at least a quarter full. Halving it only then
    /// makes shrinking amortised O(1).
    fn removed_one(&mut self) {
        self.count -= 1;
        let capacity = self.ring.capacity();
        if capacity >= SHRINK_BYTES_MIN && self.ring.len() < capacity / 4 {
            self.ring.shrink_to(capacity / 2);
        }
    }
}

impl Record {
    pub fn borrowed(&self) -> Record<&str> {
        Record {
            origin: self.origin,
            depth: self.depth,
            tries: self.tries,
            via: self.via,
            trail: self.trail.clone(),
            path_and_query: &self.path_and_query,
        }
    }
}

impl<P: AsRef<str>> Record<P> {
    /// Returns the bytes that the record takes in a queue.
    pub fn size_bytes(&self) -> usize {
        OVERHEAD_BYTES + 8 * self.trail.len() + self.path_and_query.as_ref().len()
    }

    fn head(&self) -> [u8; HEAD_BYTES] {
        assert!(self.trail.len() <= TRAIL_COUNT_MAX, "a trail is cut at the redirect limit");
        assert!(self.path_and_query.as_ref().len() <= URL_BYTES_MAX, "a Url is not that long");
        let [size_low, size_high] = (self.size_bytes() as u16).to_le_bytes();
        let [depth_low, depth_high] = self.depth.to_le_bytes();
        let mixed = (self.via as u8) | (self.trail.len() as u8) << VIA_BITS;
        [size_low, size_high, self.origin, depth_low, depth_high, self.tries, mixed]
    }
}

/// Reports whether `bytes`, which come from a disk, are `count` whole records of a host with
/// `origin_count` origins. [`PackedQueue::append`] may be given such bytes only.
pub fn are_records(mut bytes: &[u8], count: u32, origin_count: usize) -> bool {
    for _ in 0..count {
        let size = match bytes {
            [low, high, ..] => u16::from_le_bytes([*low, *high]) as usize,
            _ => return false,
        };
        let Some((record, rest)) = bytes.split_at_checked(size) else { return false };
        if record.len() < OVERHEAD_BYTES || record[..2] != record[size - FOOT_BYTES..] {
            return false;
        }
        let path_start = HEAD_BYTES + 8 * (record[6] >> VIA_BITS) as usize;
        let path = record.get(path_start..size - FOOT_BYTES);
        let is_text = path.is_some_and(|path| str::from_utf8(path).is_ok());
        let is_via = Via::from_number(record[6] & ((1 << VIA_BITS) - 1)).is_some();
        if !is_text || !is_via || record[2] as usize >= origin_count {
            return false;
        }
        bytes = rest;
    }
    bytes.is_empty()
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
        let mut queue = PackedQueue::default();
        for via in Via::ALL {
            queue.push_back(&Record { via, ..record("/") });
            assert_eq!(queue.pop_front().map(|record| record.via), Some(via));
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
        /// Records that go to the disk and come back are the same, and `are_records` accepts
        /// nothing else.
        #[test]
        fn stretches_of_records_leave_and_come_back(
            paths in prop::collection::vec("/[a-z]{0,40}", 1..60),
            (keep_bytes, take_bytes, size_max) in (0..900usize, 0..900usize, 70..400usize),
            (turn_count, flipped) in (0..40usize, any::<prop::sample::Index>()),
        ) {
            let mut queue = PackedQueue::default();
            paths.iter().for_each(|path| queue.push_back(&record(path)));
            // Pops and pushes, so that the ring wraps.
            for _ in 0..turn_count {
                let first = queue.pop_front().expect("one at least");
                queue.push_back(&Record { trail: [7].into(), ..record(&first.path_and_query) });
            }
            let whole: Vec<Record> = queue.iter().collect();
            let mut back = queue.split_back(keep_bytes, take_bytes);
            prop_assert!(back.size_bytes() <= take_bytes || queue.size_bytes() <= keep_bytes);
            if back.size_bytes() + 80 < take_bytes {
                prop_assert!(queue.size_bytes() + 80 >= keep_bytes.min(queue.size_bytes() + 80));
                prop_assert!(queue.size_bytes() <= keep_bytes);
            }
            let split: Vec<Record> = queue.iter().chain(back.iter()).collect();
            prop_assert_eq!(&split, &whole);
            prop_assert_eq!(queue.front_bytes() == 0, queue.count() == 0);
            let mut behind = PackedQueue::default();
            while back.count() > 0 {
                let mut bytes = Vec::new();
                let count = back.drain_into(size_max, &mut bytes);
                prop_assert!(count > 0 && bytes.len() <= size_max);
                prop_assert!(are_records(&bytes, count, 1));
                prop_assert!(!are_records(&bytes, count + 1, 1));
                prop_assert!(!are_records(&bytes, count - 1, 1));
                prop_assert!(!are_records(&bytes, count, 0), "the host has no such origin");
                prop_assert!(!are_records(&bytes[..bytes.len() - 1], count, 1));
                behind.append(&bytes, count);
                let at = flipped.index(bytes.len());
                bytes[at] ^= 0x80;
                // Bytes with a flipped bit that `are_records` accepts can still be read.
                if are_records(&bytes, count, 256) {
                    let mut other = PackedQueue::default();
                    other.append(&bytes, count);
                    prop_assert_eq!(other.iter().count(), count as usize);
                }
            }
            queue.append_queue(behind);
            prop_assert_eq!(queue.iter().collect::<Vec<_>>(), whole);
        }

        /// Compares with a plain deque of records: pushes and pops at both ends, so that the ring
        /// wraps.
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
                    via: Via::ALL[usize::from(*depth % 5)],
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

//! A table from a payload's digest to the place where the payload was first stored.
//!
//! The key is 16 of the digest's 20 bytes: two payloads that agree in 128 bits of SHA-1 count as
//! one. Two generations bound the table. When the young one is full, the old one is forgotten and
//! the young one takes its place. An entry that is asked for again moves to the young generation,
//! so common payloads stay. The table is divided into [`PART_COUNT`] independent parts: to grow or
//! to drop a table of two million entries takes a tenth of a second, in which the core could do
//! nothing else.

use crate::base::limits::DIGEST_COUNT_MAX;
use crate::crawl::flow::Original;
use std::collections::HashMap;

const PART_COUNT: usize = 256;

/// For each payload digest, the first place where the payload was stored.
pub struct Digests {
    parts: Box<[Part]>,
    generation_count_max: usize,
    forgotten_count: u64,
}

/// One part of the table. It uses the standard library's hash map because that has a random key: a
/// server can try many payloads to get the digests that it wants.
#[derive(Default)]
struct Part {
    young: HashMap<u128, Original>,
    old: HashMap<u128, Original>,
}

impl Default for Digests {
    fn default() -> Digests {
        Digests::with_room_for(DIGEST_COUNT_MAX)
    }
}

impl Digests {
    pub fn with_room_for(count_max: usize) -> Digests {
        Digests {
            parts: std::iter::repeat_with(Part::default).take(PART_COUNT).collect(),
            generation_count_max: (count_max / (2 * PART_COUNT)).max(1),
            forgotten_count: 0,
        }
    }

    /// Returns where this payload was first stored. If it was not stored yet, remembers `original`
    /// and returns `None`.
    pub fn ask(&mut self, digest: &[u8; 20], original: Original) -> Option<Original> {
        let key = key(digest);
        let part = &mut self.parts[usize::from(digest[19])];
        if let Some(known) = part.young.get(&key) {
            return Some(known.clone());
        }
        let known = part.old.remove(&key);
        if part.young.len() >= self.generation_count_max {
            self.forgotten_count += part.old.len() as u64;
            part.old = std::mem::take(&mut part.young);
        }
        part.young.insert(key, known.clone().unwrap_or(original));
        known
    }

    pub fn count(&self) -> usize {
        self.parts.iter().map(|part| part.young.len() + part.old.len()).sum()
    }

    pub fn forgotten_count(&self) -> u64 {
        self.forgotten_count
    }
}

fn key(digest: &[u8; 20]) -> u128 {
    let mut head = [0; 16];
    head.copy_from_slice(&digest[..16]);
    u128::from_be_bytes(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn original(number: u64) -> Original {
        Original { url: format!("http://h.test/{number}").into(), at_seconds: number }
    }

    /// Returns a digest; all digests of this function lie in one part of the table.
    fn digest(number: u8) -> [u8; 20] {
        let mut digest = [number; 20];
        digest[19] = 0;
        digest
    }

    #[test]
    fn the_first_copy_is_the_original() {
        let mut digests = Digests::default();
        assert_eq!(digests.ask(&digest(1), original(1)), None);
        assert_eq!(digests.ask(&digest(1), original(2)), Some(original(1)));
        assert_eq!(digests.ask(&digest(2), original(3)), None);
    }

    #[test]
    fn parts_know_nothing_of_one_another_and_are_counted_together() {
        let mut digests = Digests::with_room_for(2 * PART_COUNT);
        for last in 0..=255 {
            let digest = [[7; 19].as_slice(), &[last]].concat().try_into().expect("20 bytes");
            // The digests differ only in their last byte, so the key is the same for all of them.
            assert_eq!(digests.ask(&digest, original(u64::from(last))), None);
            assert_eq!(digests.count(), usize::from(last) + 1);
        }
        assert_eq!(digests.forgotten_count(), 0);
    }

    #[test]
    fn a_full_table_forgets_the_oldest_and_keeps_what_is_asked_for() {
        let mut digests = Digests::with_room_for(8 * PART_COUNT);
        for number in 0..100 {
            digests.ask(&digest(number), original(u64::from(number)));
            assert_eq!(digests.ask(&digest(0), original(999)).map(|o| o.at_seconds), Some(0));
            assert!(digests.count() <= 8);
        }
        assert!(digests.forgotten_count() > 80);
        assert_eq!(digests.ask(&digest(50), original(50)), None, "the entry was forgotten");
    }
}

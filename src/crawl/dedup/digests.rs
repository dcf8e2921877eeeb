//! Payload digest to the first place it was stored.
//!
//! Keyed by 16 of the digest's 20 bytes: two payloads that agree in 128 bits of SHA-1 are one. Two
//! generations bound it: when the young one is full the old one is forgotten, and what is asked for
//! again moves to the young one, so that common payloads stay. All this in [`PART_COUNT`] parts,
//! each for itself: a table of two million is moved to a larger place, and forgotten, in a tenth of
//! a second, in which the core would do nothing else.

use crate::base::limits::DIGEST_COUNT_MAX;
use crate::crawl::flow::Original;
use std::collections::HashMap;

const PART_COUNT: usize = 256;

pub struct Digests {
    parts: Box<[Part]>,
    generation_count_max: usize,
    forgotten_count: u64,
}

/// Of the standard library's tables: their hash has a random key, and digests are as servers want
/// them, as far as they care to try.
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

    /// Where this payload was first stored; if nowhere, `original` is remembered.
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

    /// All in one part.
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
            // The key is the same for all: a digest that differs in its last bytes alone.
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
        assert_eq!(digests.ask(&digest(50), original(50)), None, "forgotten long ago");
    }
}

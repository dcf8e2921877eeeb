//! Payload digest to the first place it was stored.
//!
//! Keyed by 16 of the digest's 20 bytes: two payloads that agree in 128 bits of SHA-1 are one. Two
//! generations bound it: when the young one is full the old one is forgotten, and what is asked for
//! again moves to the young one, so that common payloads stay.

use crate::flow::Original;
use crate::limits::DIGEST_COUNT_MAX;
use hashbrown::HashMap;

pub struct Digests {
    young: HashMap<u128, Original>,
    old: HashMap<u128, Original>,
    generation_count_max: usize,
    forgotten_count: u64,
}

impl Default for Digests {
    fn default() -> Digests {
        Digests::with_room_for(DIGEST_COUNT_MAX)
    }
}

impl Digests {
    pub fn with_room_for(count_max: usize) -> Digests {
        let generation_count_max = (count_max / 2).max(1);
        let (young, old) = (HashMap::new(), HashMap::new());
        Digests { young, old, generation_count_max, forgotten_count: 0 }
    }

    /// Where this payload was first stored; if nowhere, `original` is remembered.
    pub fn ask(&mut self, digest: &[u8; 20], original: Original) -> Option<Original> {
        let key = key(digest);
        if let Some(known) = self.young.get(&key) {
            return Some(known.clone());
        }
        let known = self.old.remove(&key);
        self.remember(key, known.clone().unwrap_or(original));
        known
    }

    pub fn count(&self) -> usize {
        self.young.len() + self.old.len()
    }

    pub fn forgotten_count(&self) -> u64 {
        self.forgotten_count
    }

    fn remember(&mut self, key: u128, original: Original) {
        if self.young.len() >= self.generation_count_max {
            self.forgotten_count += self.old.len() as u64;
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, original);
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

    fn digest(number: u8) -> [u8; 20] {
        [number; 20]
    }

    #[test]
    fn the_first_copy_is_the_original() {
        let mut digests = Digests::default();
        assert_eq!(digests.ask(&digest(1), original(1)), None);
        assert_eq!(digests.ask(&digest(1), original(2)), Some(original(1)));
        assert_eq!(digests.ask(&digest(2), original(3)), None);
    }

    #[test]
    fn a_full_table_forgets_the_oldest_and_keeps_what_is_asked_for() {
        let mut digests = Digests::with_room_for(8);
        for number in 0..100 {
            digests.ask(&digest(number), original(u64::from(number)));
            assert_eq!(digests.ask(&digest(0), original(999)).map(|o| o.at_seconds), Some(0));
            assert!(digests.count() <= 8);
        }
        assert!(digests.forgotten_count() > 80);
        assert_eq!(digests.ask(&digest(50), original(50)), None, "forgotten long ago");
    }
}

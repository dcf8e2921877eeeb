//! The secret under which the names, links, URLs and addresses of strangers are hashed.
//!
//! Whoever knows how a hash is computed can make a name that has the hash of another name, and so
//! take its host, its page or its place in a table. So all such hashes are computed with a key. A
//! crawl draws its key when it begins and keeps it in its manifest, for hashes that are stored on
//! disk or sent from core to core; what one process alone keeps may have a key of its own.
//! Checksums of our own files need no key.

use crate::sys::cmac::Cmac;

/// A secret, expanded and ready for use. Each copy belongs to its holder.
#[derive(Clone)]
pub struct HashKey(Cmac);

impl HashKey {
    pub fn new(secret: u128) -> HashKey {
        HashKey(Cmac::new(secret.to_be_bytes()))
    }

    /// Returns the hash of `text`: 128 evenly spread bits.
    #[inline]
    pub fn hash(&self, text: &[u8]) -> u128 {
        self.0.tag(0, text)
    }

    /// Returns the hash of a text that consists of a first part with the hash `start` and of
    /// `text`, so that a beginning that many texts share is hashed once. `start` must be secret, as
    /// hashes are: the text could be chosen to cancel a known one.
    #[inline]
    pub fn hash_behind(&self, start: u128, text: &[u8]) -> u128 {
        self.0.tag(start, text)
    }
}

/// Makes a key for tests that work with any key.
#[cfg(test)]
pub fn test_key() -> HashKey {
    HashKey::new(7)
}

/// Returns a name and another one made to have the same hash without a key. `what` is `host`, `url`
/// or `origin`.
#[cfg(test)]
pub fn made_to_collide(what: &str) -> [&'static str; 2] {
    let lines = include_str!("../../tests/data/collisions.txt").lines();
    let words = lines.map(|line| line.split(' ').collect::<Vec<_>>());
    let found = words.filter(|words| words[0] == what).map(|words| [words[1], words[2]]).next();
    found.expect("the file has a pair of this kind")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

    #[test]
    fn names_made_to_collide_without_a_key_are_apart_under_any() {
        let keys = [HashKey::new(0), HashKey::new(1), test_key()];
        for what in ["host", "url", "origin"] {
            let [victim, made] = made_to_collide(what).map(str::as_bytes);
            if what == "url" {
                assert_eq!(xxh3_128(victim) as u64, xxh3_128(made) as u64, "same without a key");
            } else {
                assert_eq!(xxh3_64(victim), xxh3_64(made), "same without a key");
            }
            for key in &keys {
                let [victim, made] = [key.hash(victim), key.hash(made)];
                assert_ne!(victim as u64, made as u64, "{what}");
                assert_ne!(victim >> 64, made >> 64, "{what}");
            }
        }
    }

    /// The hashes are cut to 32 bits, so that colliding pairs are found. Under the other key as
    /// many names collide, but by chance only.
    #[test]
    fn a_pair_that_collides_under_one_key_does_not_under_another() {
        let (one, other) = (HashKey::new(1), HashKey::new(2));
        let short = |key: &HashKey, name: &str| key.hash(name.as_bytes()) as u32;
        let mut met = HashMap::new();
        let mut pair_count = 0;
        for number in 0..400_000 {
            let name = format!("h{number}.test");
            if let Some(before) = met.insert(short(&one, &name), name.clone()) {
                assert_ne!(short(&other, &before), short(&other, &name), "{before} {name}");
                pair_count += 1;
            }
        }
        assert!(pair_count > 5, "{pair_count} pairs");
    }

    #[test]
    fn a_text_behind_another_has_the_hash_of_no_other_pair() {
        let key = test_key();
        let starts = ["a", "ab", ""].map(|start| key.hash(start.as_bytes()));
        let ends: [&[u8]; 4] = [b"", b"b", b"bc", b"c"];
        let pairs = starts.iter().flat_map(|start| ends.map(|end| key.hash_behind(*start, end)));
        let mut hashes: Vec<u128> = pairs.collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), starts.len() * ends.len());
    }
}

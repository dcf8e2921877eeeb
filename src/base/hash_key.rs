//! The secret under which names, links, URLs and addresses of strangers are hashed.
//!
//! Whoever knows how a hash is made can make a name that has the hash of another: its host, its
//! page, its place in a table. So all such hashes are made with a key. That of a crawl is drawn
//! when it begins and kept in its manifest, for what lies on disk or is told from core to core;
//! what one process alone keeps may have a key of its own. Checksums of our own files need none.

use crate::sys::cmac::Cmac;

/// A secret, made ready for use. Belongs to whoever has a copy.
#[derive(Clone)]
pub struct HashKey(Cmac);

impl HashKey {
    pub fn new(secret: u128) -> HashKey {
        HashKey(Cmac::new(secret.to_be_bytes()))
    }

    /// 128 bits, all of them evenly spread.
    #[inline]
    pub fn hash(&self, text: &[u8]) -> u128 {
        self.0.tag(0, text)
    }

    /// The hash of `text` behind a text whose hash is `start`. What many texts begin with is hashed
    /// once. `start` must be secret, as hashes are: a known one could be undone by the text.
    #[inline]
    pub fn hash_behind(&self, start: u128, text: &[u8]) -> u128 {
        self.0.tag(start, text)
    }
}

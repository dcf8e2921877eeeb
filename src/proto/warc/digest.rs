//! SHA-1 digests as WARC and CDXJ spell them: `sha1:` and 32 letters of RFC 4648 base32.
//!
//! SHA-1 identifies payloads here and protects nothing: every index of archived pages is keyed by
//! it, and with the processor's SHA instructions it is the cheapest digest that indexes understand.

use crate::sys::sha1;
use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, digest};

pub type Sha1 = [u8; 20];

/// The number of characters of a digest in base32: 160 bits, five per character, no padding.
pub const BASE32_CHARS: usize = 32;

/// The digest of a payload, computed while the payload arrives, with its transfer coding removed
/// and its content coding kept (WARC 1.1, WARC-Payload-Digest).
#[derive(Clone)]
pub struct PayloadDigest(Context);

impl PayloadDigest {
    pub fn new() -> PayloadDigest {
        PayloadDigest(Context::new(&SHA1_FOR_LEGACY_USE_ONLY))
    }

    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    pub fn finish(self) -> Sha1 {
        to_array(self.0.finish().as_ref())
    }

    /// Returns the digest of a payload that is complete.
    pub fn of(payload: &[u8]) -> Sha1 {
        to_array(digest(&SHA1_FOR_LEGACY_USE_ONLY, payload).as_ref())
    }

    /// Returns the digests of several payloads, which is cheaper together than one after the other.
    pub fn of_all(payloads: &[&[u8]]) -> Vec<Sha1> {
        let one_by_one = || payloads.iter().map(|payload| PayloadDigest::of(payload)).collect();
        sha1::digest_all(payloads).unwrap_or_else(one_by_one)
    }
}

impl Default for PayloadDigest {
    fn default() -> Self {
        PayloadDigest::new()
    }
}

/// Appends `sha1:` and the digest.
pub fn push_labelled(out: &mut Vec<u8>, digest: &Sha1) {
    out.extend_from_slice(b"sha1:");
    out.extend_from_slice(&base32(digest));
}

/// Returns the digest in base32 (RFC 4648 6), upper case. Twenty bytes are four whole groups of
/// five, so there is no padding.
pub fn base32(digest: &Sha1) -> [u8; BASE32_CHARS] {
    let mut chars = [0; BASE32_CHARS];
    for (group, out) in digest.chunks_exact(5).zip(chars.chunks_exact_mut(8)) {
        let bits = group.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
        for (index, char) in out.iter_mut().enumerate() {
            *char = ALPHABET[(bits >> (35 - 5 * index) & 31) as usize];
        }
    }
    chars
}

/// Reads `sha1:` and 32 characters; `None` for anything else, also for another algorithm.
pub fn parse_labelled(text: &str) -> Option<Sha1> {
    let chars = text.strip_prefix("sha1:")?.as_bytes();
    if chars.len() != BASE32_CHARS {
        return None;
    }
    let mut digest = [0; 20];
    for (group, out) in chars.chunks_exact(8).zip(digest.chunks_exact_mut(5)) {
        let mut bits = 0u64;
        for char in group {
            let value = ALPHABET.iter().position(|letter| letter == char)?;
            bits = bits << 5 | value as u64;
        }
        out.copy_from_slice(&bits.to_be_bytes()[3..]);
    }
    Some(digest)
}

const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

fn to_array(bytes: &[u8]) -> Sha1 {
    let mut array = [0; 20];
    array.copy_from_slice(bytes);
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(digest: &Sha1) -> String {
        let mut out = Vec::new();
        push_labelled(&mut out, digest);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn rfc_3174_digests_are_spelled_as_archives_spell_them() {
        // The empty payload's label is in every CDX index.
        let empty = PayloadDigest::new().finish();
        assert_eq!(label(&empty), "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ");
        assert_eq!(PayloadDigest::of(b"abc")[..4], [0xa9, 0x99, 0x3e, 0x36]);
        assert_eq!(label(&PayloadDigest::of(b"abc")), "sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5");
    }

    #[test]
    fn rfc_4648_base32_of_repeated_foobar() {
        // "fooba" is MZXW6YTB in RFC 4648 10.
        assert_eq!(base32(b"foobafoobafoobafooba").as_slice(), b"MZXW6YTB".repeat(4));
    }

    #[test]
    fn labels_are_read_back_and_others_refused() {
        let digest: Sha1 = std::array::from_fn(|index| (index * 37) as u8);
        assert_eq!(parse_labelled(&label(&digest)), Some(digest));
        assert_eq!(parse_labelled("md5:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5"), None);
        assert_eq!(parse_labelled("sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE"), None);
        assert_eq!(parse_labelled("sha1:vgmt4nsha2awvor6evyxqugcnsonbwe5"), None);
    }

    #[test]
    fn pieces_digest_like_the_whole() {
        let payload = b"a payload that comes in pieces".repeat(99);
        for step in [1, 7, 64, 1000] {
            let mut digest = PayloadDigest::new();
            payload.chunks(step).for_each(|piece| digest.update(piece));
            assert_eq!(digest.finish(), PayloadDigest::of(&payload));
        }
    }
}

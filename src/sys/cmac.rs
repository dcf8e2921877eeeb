//! AES-CMAC (RFC 4493, NIST SP 800-38B): the keyed function that hashes what strangers name.
//!
//! In: a key of 128 bits and texts. Out: 128 bits for each text, which nobody can predict or make
//! collide without the key, because CMAC is a pseudo-random function as long as AES is a secure
//! cipher. SipHash-1-3 was the other choice. It takes 183 instructions for a link of 22 bytes and
//! 268 for a URL of 58; CMAC takes 105 and 133 with the processor's AES instructions (xxh3_128
//! without a key: 70 and 96). Every processor with AVX2 has these instructions, but the x86-64-v3
//! level does not include them, so the processor is asked for them when a key is made. Without them
//! the safe twin computes the same values more slowly. The values must be the same because they are
//! stored on disk. The twin is also the oracle in the tests.
//!
//! Unsafe are a load of sixteen bytes from an array of sixteen, and calls of instructions that
//! [`Cmac::new`] has asked the processor for, because safe code has no AES instructions.

/// An expanded key. Each copy belongs to its holder.
#[derive(Clone)]
pub struct Cmac {
    round_keys: RoundKeys,
    /// The subkeys that are mixed into the last block: one for a whole block, one for a padded
    /// block (RFC 4493 2.3).
    whole_key: u128,
    padded_key: u128,
    /// True if the processor has AES instructions.
    is_native: bool,
}

type Block = [u8; 16];
type RoundKeys = [Block; 11];

/// The constant that is mixed in for a bit shifted out of a subkey (RFC 4493 2.3).
const SUBKEY_BIT: u128 = 0x87;

impl Cmac {
    pub fn new(key: Block) -> Cmac {
        let round_keys = expand(key);
        let zero = u128::from_be_bytes(encrypt(&round_keys, [0; 16]));
        let whole_key = double(zero);
        let padded_key = double(whole_key);
        #[cfg(target_arch = "x86_64")]
        let is_native = is_x86_feature_detected!("aes");
        #[cfg(not(target_arch = "x86_64"))]
        let is_native = false;
        Cmac {
            round_keys,
            whole_key: whole_key.swap_bytes(),
            padded_key: padded_key.swap_bytes(),
            is_native,
        }
    }

    /// Returns the CMAC of `text` if `start` is zero. A start that is itself a result under this
    /// key stands for the text that it was computed from, so that a beginning that many texts share
    /// is hashed once.
    #[inline]
    pub fn tag(&self, start: u128, text: &[u8]) -> u128 {
        #[cfg(target_arch = "x86_64")]
        if self.is_native {
            // SAFETY: the processor has the instructions.
            return unsafe { native::tag(self, start, text) };
        }
        self.tag_by_twin(start, text)
    }

    fn tag_by_twin(&self, start: u128, text: &[u8]) -> u128 {
        let (blocks, last) = self.split(text);
        let state = blocks.iter().fold(start, |state, block| {
            let mixed = state ^ u128::from_le_bytes(*block);
            u128::from_le_bytes(encrypt(&self.round_keys, mixed.to_le_bytes()))
        });
        u128::from_le_bytes(encrypt(&self.round_keys, (state ^ last).to_le_bytes()))
    }

    /// Returns all blocks but the last, and the last block, padded if necessary and mixed with its
    /// subkey.
    #[inline(always)]
    fn split<'t>(&self, text: &'t [u8]) -> (&'t [Block], u128) {
        let (blocks, rest) = text.as_chunks();
        match (blocks, rest, text.last_chunk()) {
            ([before @ .., last], [], _) => (before, u128::from_le_bytes(*last) ^ self.whole_key),
            (_, _, last) => {
                let bits = 8 * rest.len() as u32;
                let part = match last {
                    // The last sixteen bytes, without those that belong to a whole block.
                    Some(last) => u128::from_le_bytes(*last) >> (u128::BITS - bits),
                    None => short(rest),
                };
                (blocks, (part | 0x80 << bits) ^ self.padded_key)
            }
        }
    }
}

/// Returns up to fifteen bytes as a number. The reads overlap, because a copy of unknown length
/// would be a call.
#[inline(always)]
fn short(text: &[u8]) -> u128 {
    let bits = 8 * text.len() as u32;
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        let [first, last] = [*first, *last].map(|part| u128::from(u64::from_le_bytes(part)));
        return first | last << (bits - u64::BITS);
    }
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        let [first, last] = [*first, *last].map(|part| u64::from(u32::from_le_bytes(part)));
        return u128::from(first | last << (bits - u32::BITS));
    }
    text.iter().rev().fold(0, |word, byte| word << 8 | u128::from(*byte))
}

#[cfg(target_arch = "x86_64")]
mod native {
    use super::{Block, Cmac};
    use std::arch::x86_64::{
        __m128i, _mm_aesenc_si128, _mm_aesenclast_si128, _mm_cvtsi128_si64, _mm_loadu_si128,
        _mm_set_epi64x, _mm_unpackhi_epi64, _mm_xor_si128,
    };

    /// Computes the same as [`Cmac::tag_by_twin`].
    #[target_feature(enable = "aes")]
    pub(super) fn tag(cmac: &Cmac, start: u128, text: &[u8]) -> u128 {
        let (blocks, last) = cmac.split(text);
        let mut state = vector(start);
        for block in blocks {
            state = encrypt(cmac, _mm_xor_si128(state, load(block)));
        }
        let tag = encrypt(cmac, _mm_xor_si128(state, vector(last)));
        let high = _mm_cvtsi128_si64(_mm_unpackhi_epi64(tag, tag)) as u64;
        u128::from(high) << 64 | u128::from(_mm_cvtsi128_si64(tag) as u64)
    }

    #[inline]
    #[target_feature(enable = "aes")]
    fn encrypt(cmac: &Cmac, block: __m128i) -> __m128i {
        let [first, rounds @ .., last] = &cmac.round_keys;
        let mut state = _mm_xor_si128(block, load(first));
        for key in rounds {
            state = _mm_aesenc_si128(state, load(key));
        }
        _mm_aesenclast_si128(state, load(last))
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn load(block: &Block) -> __m128i {
        // SAFETY: sixteen bytes are read from an array of sixteen; no alignment is required.
        unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn vector(number: u128) -> __m128i {
        _mm_set_epi64x((number >> 64) as i64, number as i64)
    }
}

/// Derives the next subkey (RFC 4493 2.3).
fn double(key: u128) -> u128 {
    (key << 1) ^ ((key >> (u128::BITS - 1)) * SUBKEY_BIT)
}

/// Encrypts a block (FIPS 197 5.1). The timing of its tables may leak the key to a program that
/// shares the processor's cache, but not to a server.
fn encrypt(round_keys: &RoundKeys, block: Block) -> Block {
    let mix = |state: Block, key: &Block| std::array::from_fn(|at| state[at] ^ key[at]);
    let [first, rounds @ .., last] = round_keys;
    let mut state: Block = mix(block, first);
    for key in rounds {
        state = mix(mix_columns(substitute_and_shift(state)), key);
    }
    mix(substitute_and_shift(state), last)
}

/// Substitutes each byte and shifts each row by its number (FIPS 197 5.1.1 and 5.1.2).
fn substitute_and_shift(state: Block) -> Block {
    std::array::from_fn(|at| SUBSTITUTES[usize::from(state[(at + 4 * (at % 4)) % 16])])
}

/// Mixes each column (FIPS 197 5.1.3).
fn mix_columns(state: Block) -> Block {
    std::array::from_fn(|at| {
        let byte = |row: usize| state[at / 4 * 4 + (at + row) % 4];
        times_two(byte(0)) ^ times_two(byte(1)) ^ byte(1) ^ byte(2) ^ byte(3)
    })
}

/// Multiplies by two in the field of AES (FIPS 197 4.2.1).
const fn times_two(byte: u8) -> u8 {
    (byte << 1) ^ ((byte >> 7) * 0x1B)
}

/// Expands the key into the round keys (FIPS 197 5.2).
fn expand(key: Block) -> RoundKeys {
    let mut keys = [key; 11];
    let mut constant = 1;
    for round in 1..keys.len() {
        let before = keys[round - 1];
        let turned = [before[13], before[14], before[15], before[12]];
        let mut word = turned.map(|byte| SUBSTITUTES[usize::from(byte)]);
        word[0] ^= constant;
        constant = times_two(constant);
        for (at, byte) in before.into_iter().enumerate() {
            word[at % 4] ^= byte;
            keys[round][at] = word[at % 4];
        }
    }
    keys
}

/// The substitution table (FIPS 197 5.1.1): the inverse in the field, followed by an affine map.
/// The powers of three and of its inverse reach every byte but zero once.
static SUBSTITUTES: [u8; 256] = {
    let mut table = [0x63; 256];
    let (mut power, mut inverse) = (1u8, 1u8);
    loop {
        let affine = inverse
            ^ inverse.rotate_left(1)
            ^ inverse.rotate_left(2)
            ^ inverse.rotate_left(3)
            ^ inverse.rotate_left(4);
        table[power as usize] = affine ^ 0x63;
        power ^= times_two(power);
        // Divides by three.
        inverse ^= inverse << 1;
        inverse ^= inverse << 2;
        inverse ^= inverse << 4;
        inverse ^= (inverse >> 7) * 0x09;
        if power == 1 {
            break table;
        }
    }
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes<const N: usize>(hex: &str) -> [u8; N] {
        std::array::from_fn(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hex"))
    }

    /// The examples of RFC 4493 4.
    #[test]
    fn rfc_4493_examples_have_their_tags_by_both_ways() {
        let cmac = Cmac::new(bytes("2b7e151628aed2a6abf7158809cf4f3c"));
        let text: [u8; 64] = bytes(concat!(
            "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51",
            "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710",
        ));
        for (len, tag) in [
            (0, "bb1d6929e95937287fa37d129b756746"),
            (16, "070a16b46b4d4144f79bdd9dd04a287c"),
            (40, "dfa66747de9ae63030ca32611497c827"),
            (64, "51f0bebf7e3b9d92fc49741779363cfe"),
        ] {
            let expected = u128::from_le_bytes(bytes(tag));
            assert_eq!(cmac.tag(0, &text[..len]), expected, "{len} bytes");
            assert_eq!(cmac.tag_by_twin(0, &text[..len]), expected, "{len} bytes, the twin");
        }
    }

    /// The example of FIPS 197 C.1.
    #[test]
    fn fips_197_example_is_enciphered() {
        let keys = expand(bytes("000102030405060708090a0b0c0d0e0f"));
        let block = encrypt(&keys, bytes("00112233445566778899aabbccddeeff"));
        assert_eq!(block, bytes("69c4e0d86a7b0430d8cdb78070b4c55a"));
    }

    proptest! {
        #[test]
        fn both_ways_give_the_same_tags(
            key: Block, start: u128, text in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let cmac = Cmac::new(key);
            prop_assert_eq!(cmac.tag(start, &text), cmac.tag_by_twin(start, &text));
        }
    }

    #[test]
    fn texts_of_every_length_have_tags_of_their_own() {
        let cmac = Cmac::new([7; 16]);
        let text = [0; 70];
        let mut tags: Vec<u128> = (0..=70).map(|len| cmac.tag(0, &text[..len])).collect();
        tags.extend((0..=70).map(|len| cmac.tag(1, &text[..len])));
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), 142);
    }
}

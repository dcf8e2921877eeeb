//! Computes the SHA-1 of several payloads, two or eight at a time.
//!
//! Each of the processor's SHA-1 instructions waits for the one before, so a core that hashes one
//! payload stands still half of the time. Two payloads side by side fill the gaps: 25 KB take
//! 8.7 us instead of 15.4 (aws-lc, one by one), where the unit can do more than one at a time.
//! Where the processor has AVX-512, eight payloads go side by side without that unit ([`wide`]).
//!
//! In: payloads. Out: their digests, in the same order, or `None` where the processor has no SHA-1
//! instructions. Then the caller uses another implementation, which is also the oracle in the
//! tests. Unsafe are a load of sixteen bytes from an array of sixteen, and calls of instructions
//! that [`digest_all`] has asked the processor for.

pub type Digest = [u8; 20];

/// Returns the digests of `payloads`, or `None` if the processor lacks the instructions.
pub fn digest_all(payloads: &[&[u8]]) -> Option<Vec<Digest>> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("sha")
        && is_x86_feature_detected!("sse4.1")
        && is_x86_feature_detected!("avx")
    {
        let mut digests = vec![[0; 20]; payloads.len()];
        // SAFETY: the processor has the instructions.
        unsafe { digest_with(payloads, is_wide(), &mut digests) };
        return Some(digests);
    }
    let _ = payloads;
    None
}

#[cfg(target_arch = "x86_64")]
mod wide;

#[cfg(target_arch = "x86_64")]
fn is_wide() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl")
}

/// Computes the digests. `is_wide` states that the processor has what [`wide`] needs.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sha,sse4.1,avx")]
fn digest_with(payloads: &[&[u8]], is_wide: bool, digests: &mut [Digest]) {
    // The longest payloads go first: what one lane has left when the others have run out is hashed
    // at half the speed, and a short payload leaves little (in order of arrival that took a sixth
    // of the time).
    let mut order: Vec<(usize, &&[u8])> = payloads.iter().enumerate().collect();
    order.sort_unstable_by_key(|(_, payload)| std::cmp::Reverse(payload.len()));
    let waiting = order.into_iter().map(lanes::Lane::new);
    if is_wide {
        // SAFETY: the caller states that the processor has the instructions.
        let left = unsafe { wide::digest_most(waiting, digests) };
        lanes::digest_all(left.into_iter(), digests);
    } else {
        lanes::digest_all(waiting, digests);
    }
}

#[cfg(target_arch = "x86_64")]
mod lanes {
    use super::Digest;
    use std::arch::x86_64::{
        __m128i, _mm_add_epi32, _mm_extract_epi32, _mm_loadu_si128, _mm_set_epi32, _mm_set_epi64x,
        _mm_setzero_si128, _mm_sha1msg1_epu32, _mm_sha1msg2_epu32, _mm_sha1nexte_epu32,
        _mm_sha1rnds4_epu32, _mm_shuffle_epi8, _mm_xor_si128, _mm256_zeroupper,
    };

    pub(super) const BLOCK_BYTES: usize = 64;
    const START: [u32; 5] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476, 0xC3D2_E1F0];

    /// A payload under way: first its whole blocks, then the rest of it with the padding.
    pub(super) struct Lane<'p> {
        pub(super) index: usize,
        payload: &'p [u8],
        tail: [u8; 2 * BLOCK_BYTES],
        tail_bytes: usize,
        is_in_tail: bool,
        /// Where the next block begins, in the payload or in the tail.
        at: usize,
        pub(super) state: [u32; 5],
    }

    impl<'p> Lane<'p> {
        pub(super) fn new((index, payload): (usize, &&'p [u8])) -> Lane<'p> {
            let mut tail = [0; 2 * BLOCK_BYTES];
            let rest = payload.as_chunks::<BLOCK_BYTES>().1;
            tail[..rest.len()].copy_from_slice(rest);
            tail[rest.len()] = 0x80;
            // FIPS 180-4 5.1.1: the last block ends with the length in bits.
            let tail_bytes =
                if rest.len() + 9 <= BLOCK_BYTES { BLOCK_BYTES } else { 2 * BLOCK_BYTES };
            let bit_count = payload.len() as u64 * 8;
            tail[tail_bytes - 8..tail_bytes].copy_from_slice(&bit_count.to_be_bytes());
            let is_in_tail = payload.len() < BLOCK_BYTES;
            Lane { index, payload, tail, tail_bytes, is_in_tail, at: 0, state: START }
        }

        pub(super) fn blocks(&self) -> &[[u8; BLOCK_BYTES]] {
            let part = if self.is_in_tail { &self.tail[..self.tail_bytes] } else { self.payload };
            part[self.at..].as_chunks().0
        }

        /// Moves past `block_count` blocks; returns true if no block is left.
        pub(super) fn advance(&mut self, block_count: usize) -> bool {
            self.at += block_count * BLOCK_BYTES;
            if !self.blocks().is_empty() {
                return false;
            }
            self.at = 0;
            std::mem::replace(&mut self.is_in_tail, true)
        }

        pub(super) fn digest(&self) -> Digest {
            let mut digest = [0; 20];
            for (out, word) in digest.as_chunks_mut().0.iter_mut().zip(self.state) {
                *out = word.to_be_bytes();
            }
            digest
        }
    }

    #[target_feature(enable = "sha,sse4.1,avx")]
    pub(super) fn digest_all<'p>(
        mut waiting: impl Iterator<Item = Lane<'p>>,
        digests: &mut [Digest],
    ) {
        let (mut first, mut second) = (waiting.next(), waiting.next());
        while let (Some(one), Some(other)) = (&mut first, &mut second) {
            let (blocks, others) = (one.blocks(), other.blocks());
            let count = blocks.len().min(others.len());
            let mut states = [one.state, other.state];
            compress(&mut states, [&blocks[..count], &others[..count]]);
            [one.state, other.state] = states;
            if one.advance(count) {
                digests[one.index] = one.digest();
                first = waiting.next();
            }
            if other.advance(count) {
                digests[other.index] = other.digest();
                second = waiting.next();
            }
        }
        if let Some(mut last) = first.or(second) {
            loop {
                let (count, mut states) = (last.blocks().len(), [last.state]);
                compress(&mut states, [last.blocks()]);
                [last.state] = states;
                if last.advance(count) {
                    break;
                }
            }
            digests[last.index] = last.digest();
        }
    }

    /// Hashes the blocks of all lanes, which have equally many.
    // The loops take the same block of every lane, which no iterator gives side by side.
    #[allow(clippy::needless_range_loop)]
    #[target_feature(enable = "sha,sse4.1,avx")]
    fn compress<const LANES: usize>(
        states: &mut [[u32; 5]; LANES],
        blocks: [&[[u8; BLOCK_BYTES]]; LANES],
    ) {
        let words =
            |[a, b, c, d, _]: [u32; 5]| _mm_set_epi32(a as i32, b as i32, c as i32, d as i32);
        let last_word = |[.., e]: [u32; 5]| _mm_set_epi32(e as i32, 0, 0, 0);
        // The SHA-1 instructions have no AVX form, but the instructions between them do, and a
        // processor whose upper register halves are in use may take a hundred cycles to change from
        // one kind to the other: 2,200 us for 25 KB that take 16 otherwise. The compiler clears the
        // halves at calls, not between single instructions.
        _mm256_zeroupper();
        let mut abcd = states.map(words);
        let mut e = states.map(last_word);
        for index in 0..blocks[0].len() {
            let (abcd_before, e_before) = (abcd, e);
            let mut previous = abcd;
            let mut schedule = [[_mm_setzero_si128(); 4]; LANES];
            for lane in 0..LANES {
                schedule[lane] = load(&blocks[lane][index]);
            }
            // Four rounds of every lane. It is a macro, because the function's number is part of
            // the instruction.
            macro_rules! rounds {
                ($function:literal: $($step:literal)*) => {$(
                    for lane in 0..LANES {
                        let words = &mut schedule[lane];
                        if $step >= 4 {
                            let [a, b, c, d] = [0, 1, 2, 3].map(|at| words[($step + at) % 4]);
                            let mixed = _mm_xor_si128(_mm_sha1msg1_epu32(a, b), c);
                            words[$step % 4] = _mm_sha1msg2_epu32(mixed, d);
                        }
                        let word = words[$step % 4];
                        let added = match $step {
                            0 => _mm_add_epi32(e_before[lane], word),
                            _ => _mm_sha1nexte_epu32(previous[lane], word),
                        };
                        previous[lane] = abcd[lane];
                        abcd[lane] = _mm_sha1rnds4_epu32::<$function>(abcd[lane], added);
                    }
                )*};
            }
            rounds!(0: 0 1 2 3 4);
            rounds!(1: 5 6 7 8 9);
            rounds!(2: 10 11 12 13 14);
            rounds!(3: 15 16 17 18 19);
            for lane in 0..LANES {
                e[lane] = _mm_sha1nexte_epu32(previous[lane], e_before[lane]);
                abcd[lane] = _mm_add_epi32(abcd[lane], abcd_before[lane]);
            }
        }
        for lane in 0..LANES {
            states[lane] = [
                _mm_extract_epi32::<3>(abcd[lane]) as u32,
                _mm_extract_epi32::<2>(abcd[lane]) as u32,
                _mm_extract_epi32::<1>(abcd[lane]) as u32,
                _mm_extract_epi32::<0>(abcd[lane]) as u32,
                _mm_extract_epi32::<3>(e[lane]) as u32,
            ];
        }
    }

    /// Loads sixteen words in big-endian order, the first one in the highest place.
    #[target_feature(enable = "sha,sse4.1")]
    fn load(block: &[u8; BLOCK_BYTES]) -> [__m128i; 4] {
        let turned = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0A0B_0C0D_0E0F);
        let mut words = [_mm_setzero_si128(); 4];
        for (words, bytes) in words.iter_mut().zip(block.as_chunks::<16>().0) {
            // SAFETY: sixteen bytes are read from a reference to sixteen; no alignment is required.
            let loaded = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
            *words = _mm_shuffle_epi8(loaded, turned);
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

    fn check(lens: &[usize]) {
        let payload = |(index, len): (usize, &usize)| -> Vec<u8> {
            (0..*len).map(|at| (at * 31 + index * 7 + at / 251) as u8).collect()
        };
        let payloads: Vec<Vec<u8>> = lens.iter().enumerate().map(payload).collect();
        let slices: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
        let Some(digests) = digest_all(&slices) else { return };
        // The digests by the SHA-1 unit alone, also where the processor has AVX-512.
        let mut narrow = vec![[0; 20]; slices.len()];
        // SAFETY: the processor has the unit, or `digest_all` would have returned `None`.
        unsafe { digest_with(&slices, false, &mut narrow) };
        for ((payload, found), narrow) in slices.iter().zip(digests).zip(narrow) {
            let wanted = digest(&SHA1_FOR_LEGACY_USE_ONLY, payload);
            assert_eq!(found, wanted.as_ref(), "{} bytes of {lens:?}", payload.len());
            assert_eq!(narrow, wanted.as_ref(), "{} bytes of {lens:?}", payload.len());
        }
    }

    #[test]
    fn several_payloads_have_the_digests_that_each_has_alone() {
        check(&[]);
        (0..300).for_each(|len| check(&[len]));
        // Each place of the padding next to each other place.
        for one in 0..130 {
            (0..130).for_each(|other| check(&[one, other]));
        }
        check(&[25_000, 1, 64, 9_999, 0, 63, 100_000, 55, 56, 25_600, 128]);
        check(&[0, 0, 0, 5_000]);
        check(&[70_000, 0, 0]);
        // Lanes that end at each place of the padding and then take the next waiting payload.
        for count in 3..20 {
            check(
                &(0..count).map(|number| number * 37 % 130 + number % 3 * 640).collect::<Vec<_>>(),
            );
        }
    }
}

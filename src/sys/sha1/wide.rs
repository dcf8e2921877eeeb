//! Computes the SHA-1 of eight payloads side by side, each in one lane of the vectors, without the
//! processor's SHA-1 instructions. It is for processors whose SHA-1 unit takes one payload at a
//! time, however many wait, and whose vectors rotate bits and choose among three words in one
//! instruction (AVX-512).
//!
//! 1. Sixteen words of a block from each of eight lanes are transposed into sixteen vectors with
//!    one word of each lane.
//! 2. Eighty rounds follow, as in FIPS 180-4 6.1.2, each for all lanes.
//! 3. A lane whose payload ends takes the next waiting payload. When fewer than [`LEAST_COUNT`]
//!    payloads are left, the SHA-1 unit is faster: they are handed to it with their present state.

use super::Digest;
use super::lanes::{BLOCK_BYTES, Lane};
use std::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_loadu_si256, _mm256_permute2x128_si256, _mm256_rol_epi32,
    _mm256_set_epi64x, _mm256_set1_epi32, _mm256_shuffle_epi8, _mm256_storeu_si256,
    _mm256_ternarylogic_epi32, _mm256_unpackhi_epi32, _mm256_unpackhi_epi64, _mm256_unpacklo_epi32,
    _mm256_unpacklo_epi64, _mm256_xor_si256,
};

const LANE_COUNT: usize = 8;
/// Least number of payloads under way; eight lanes take about as long as two payloads in the SHA-1
/// unit.
const LEAST_COUNT: usize = 3;

const NO_BLOCK: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// The five SHA-1 state words, one vector per word; lane i belongs to payload i.
type States = [[u32; LANE_COUNT]; 5];

/// Hashes payloads while there are enough of them; returns those that are left, under way or not
/// begun.
#[target_feature(enable = "avx512f,avx512vl,avx2")]
pub(super) fn digest_most<'p>(
    mut waiting: impl Iterator<Item = Lane<'p>>,
    digests: &mut [Digest],
) -> Vec<Lane<'p>> {
    let mut lanes: Vec<Lane> = waiting.by_ref().take(LANE_COUNT).collect();
    while lanes.len() >= LEAST_COUNT {
        let mut blocks: [&[[u8; BLOCK_BYTES]]; LANE_COUNT] = [&[]; LANE_COUNT];
        let mut states = States::default();
        for (number, lane) in lanes.iter().enumerate() {
            blocks[number] = lane.blocks();
            for (words, word) in states.iter_mut().zip(lane.state) {
                words[number] = word;
            }
        }
        let count = blocks[..lanes.len()].iter().map(|of_lane| of_lane.len()).min().unwrap_or(0);
        compress(&mut states, &blocks, count);
        for (number, lane) in lanes.iter_mut().enumerate() {
            lane.state = states.map(|words| words[number]);
        }
        lanes.retain_mut(|lane| {
            let is_done = lane.advance(count);
            if is_done {
                digests[lane.index] = lane.digest();
            }
            !is_done
        });
        lanes.extend(waiting.by_ref().take(LANE_COUNT - lanes.len()));
    }
    lanes
}

/// Hashes `count` blocks of each lane. A lane without a payload is computed with zeros, and its
/// result has no meaning.
#[target_feature(enable = "avx512f,avx512vl,avx2")]
fn compress(states: &mut States, blocks: &[&[[u8; BLOCK_BYTES]]; LANE_COUNT], count: usize) {
    let [mut a, mut b, mut c, mut d, mut e] = states.map(|words| load(&words));
    for index in 0..count {
        let before = [a, b, c, d, e];
        let mut words = [_mm256_set1_epi32(0); 16];
        let halves = |half: usize| {
            blocks.map(|of_lane| {
                let block = of_lane.get(index).unwrap_or(&NO_BLOCK);
                load(&block.as_chunks::<32>().0[half])
            })
        };
        words[..8].copy_from_slice(&turned(halves(0)));
        words[8..].copy_from_slice(&turned(halves(1)));
        macro_rules! round {
            ($table:literal $key:ident $at:expr, $a:ident $b:ident $c:ident $d:ident $e:ident) => {
                if $at >= 16 {
                    let [first, second, third] =
                        [13, 8, 2].map(|behind| words[($at + behind) % 16]);
                    let mixed = _mm256_ternarylogic_epi32::<PARITY>(first, second, third);
                    let mixed = _mm256_xor_si256(mixed, words[$at % 16]);
                    words[$at % 16] = _mm256_rol_epi32::<1>(mixed);
                }
                let chosen = _mm256_ternarylogic_epi32::<$table>($b, $c, $d);
                let added = _mm256_add_epi32(_mm256_add_epi32($e, $key), words[$at % 16]);
                let turned = _mm256_add_epi32(_mm256_rol_epi32::<5>($a), chosen);
                $e = _mm256_add_epi32(added, turned);
                $b = _mm256_rol_epi32::<30>($b);
            };
        }
        macro_rules! rounds {
            ($table:literal $key:ident: $($at:literal)*) => {$(
                round!($table $key $at, a b c d e);
                round!($table $key $at + 1, e a b c d);
                round!($table $key $at + 2, d e a b c);
                round!($table $key $at + 3, c d e a b);
                round!($table $key $at + 4, b c d e a);
            )*};
        }
        let [first, second, third, fourth] =
            [0x5A82_7999, 0x6ED9_EBA1, 0x8F1B_BCDCu32 as i32, 0xCA62_C1D6u32 as i32]
                .map(|key| _mm256_set1_epi32(key));
        // The functions Ch, Parity, Maj and Parity, as truth tables of three bits.
        rounds!(0xCA first: 0 5 10 15);
        rounds!(0x96 second: 20 25 30 35);
        rounds!(0xE8 third: 40 45 50 55);
        rounds!(0x96 fourth: 60 65 70 75);
        let [a_before, b_before, c_before, d_before, e_before] = before;
        a = _mm256_add_epi32(a, a_before);
        b = _mm256_add_epi32(b, b_before);
        c = _mm256_add_epi32(c, c_before);
        d = _mm256_add_epi32(d, d_before);
        e = _mm256_add_epi32(e, e_before);
    }
    for (words, vector) in states.iter_mut().zip([a, b, c, d, e]) {
        // SAFETY: 32 bytes are written into an array of 32; no alignment is required.
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), vector) };
    }
}

const PARITY: i32 = 0x96;

/// Transposes eight words of each of eight lanes into eight vectors with one word of each lane,
/// first to last, and changes the byte order from the block's to the processor's.
#[target_feature(enable = "avx512f,avx512vl,avx2")]
fn turned(lanes: [__m256i; LANE_COUNT]) -> [__m256i; 8] {
    let swap = _mm256_set_epi64x(
        0x0C0D_0E0F_0809_0A0B,
        0x0405_0607_0001_0203,
        0x0C0D_0E0F_0809_0A0B,
        0x0405_0607_0001_0203,
    );
    let rows = lanes.map(|lane| _mm256_shuffle_epi8(lane, swap));
    // First pairs of lanes, word by word, then fours, then all eight. The vectors of the upper four
    // words come from the upper halves.
    let pair = |at: usize| {
        let (one, other) = (rows[at], rows[at + 1]);
        (_mm256_unpacklo_epi32(one, other), _mm256_unpackhi_epi32(one, other))
    };
    let four = |at: usize| {
        let ((low, high), (other_low, other_high)) = (pair(at), pair(at + 2));
        [
            _mm256_unpacklo_epi64(low, other_low),
            _mm256_unpackhi_epi64(low, other_low),
            _mm256_unpacklo_epi64(high, other_high),
            _mm256_unpackhi_epi64(high, other_high),
        ]
    };
    let (one, other) = (four(0), four(4));
    let mut words = [_mm256_set1_epi32(0); 8];
    for at in 0..4 {
        words[at] = _mm256_permute2x128_si256::<0x20>(one[at], other[at]);
        words[at + 4] = _mm256_permute2x128_si256::<0x31>(one[at], other[at]);
    }
    words
}

/// Loads 32 bytes of any type.
#[target_feature(enable = "avx2")]
fn load<T>(from: &T) -> __m256i {
    const { assert!(size_of::<T>() == 32) };
    // SAFETY: 32 bytes are read from a reference to 32; no alignment is required.
    unsafe { _mm256_loadu_si256(std::ptr::from_ref(from).cast()) }
}

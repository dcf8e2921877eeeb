//! Blocks of 64 bytes as bit masks: bit `i` for byte `i`.
//!
//! What [`scan`](super::scan) asks of sixteen bytes and goes on to the next is here asked of 64 at
//! once, so that what follows is arithmetic on masks: where a text ends, where its words do. Unsafe
//! is a load of 32 bytes out of an array of 32, a store into such an array, and the naming of AVX2
//! instructions in a build that takes them for granted (`.cargo/config.toml`); other builds get two
//! of `scan::Native` side by side. The tests hold both against bytes one by one.

#[cfg(not(all(target_arch = "x86_64", target_feature = "avx2")))]
use self::pair::Half;
#[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
use avx2::Half;

pub const BLOCK_BYTES: usize = 64;
const HALF_BYTES: usize = BLOCK_BYTES / 2;

/// The block from `at`, if there are so many bytes.
#[inline(always)]
pub fn block(bytes: &[u8], at: usize) -> Option<&[u8; BLOCK_BYTES]> {
    bytes.get(at..)?.first_chunk()
}

/// What ends a text, and what parts its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextMarks {
    /// `<` and `&`.
    pub stops: u64,
    /// White space of HTML.
    pub spaces: u64,
}

#[inline(always)]
pub fn text_marks(block: &[u8; BLOCK_BYTES]) -> TextMarks {
    let stops = mask(block, |half| half.equal(b'<').or(half.equal(b'&')));
    TextMarks { stops, spaces: mask(block, Half::is_space) }
}

/// What keeps an attribute's value from meaning its own bytes: `&`, a carriage return, NUL.
#[inline(always)]
pub fn reference_marks(block: &[u8; BLOCK_BYTES]) -> u64 {
    mask(block, |half| half.equal(b'&').or(half.equal(b'\r')).or(half.equal(0)))
}

/// Bits for the first `len` bytes of a block.
#[inline(always)]
pub fn first(len: usize) -> u64 {
    u64::MAX.unbounded_shr(BLOCK_BYTES.saturating_sub(len) as u32)
}

/// Which bytes are `wanted`.
#[inline(always)]
pub fn equal(block: &[u8; BLOCK_BYTES], wanted: u8) -> u64 {
    mask(block, |half| half.equal(wanted))
}

/// Which bytes are from `first` to `last`.
#[inline(always)]
pub fn in_range(block: &[u8; BLOCK_BYTES], first: u8, last: u8) -> u64 {
    mask(block, |half| half.within(first, last))
}

/// Bytes of which [`value_marks`] tells.
pub const SHORT_BYTES: usize = HALF_BYTES;

/// What parts an attribute from its value, in half a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueMarks {
    /// `"`.
    pub quotes: u32,
    /// `=`, `'` and `>`.
    pub others: u32,
}

#[inline(always)]
pub fn value_marks(bytes: &[u8; SHORT_BYTES]) -> ValueMarks {
    let half = Half::load(bytes);
    let others = half.equal(b'=').or(half.equal(b'\'')).or(half.equal(b'>'));
    ValueMarks { quotes: half.equal(b'"').mask(), others: others.mask() }
}

/// Which bytes are of words: ASCII letters, digits or outside ASCII; and whether any is outside.
#[inline(always)]
pub fn words(block: &[u8; BLOCK_BYTES]) -> (u64, bool) {
    let words = mask(block, |half| {
        let is_letter = half.or(Half::load(&[0x20; HALF_BYTES])).within(b'a', b'z');
        let is_digit = half.within(b'0', b'9');
        // Outside ASCII is the top bit, which is all that a mask takes.
        is_letter.or(is_digit).or(half)
    });
    let halves = block.as_chunks().0.iter().map(Half::load);
    let others = halves.reduce(Half::or).map_or(0, Half::mask);
    (words, others != 0)
}

/// In ASCII lower case.
#[inline]
pub fn lower(block: &[u8; BLOCK_BYTES]) -> [u8; BLOCK_BYTES] {
    let mut lower = *block;
    for bytes in lower.as_chunks_mut::<HALF_BYTES>().0 {
        let half = Half::load(bytes);
        let is_letter = half.or(Half::load(&[0x20; HALF_BYTES])).within(b'a', b'z');
        *bytes = half.or(is_letter.and(0x20)).store();
    }
    lower
}

#[inline(always)]
fn mask(block: &[u8; BLOCK_BYTES], is: impl Fn(Half) -> Half) -> u64 {
    let halves = block.as_chunks().0.iter().enumerate();
    halves.fold(0, |mask, (index, half)| {
        mask | u64::from(is(Half::load(half)).mask()) << (index * HALF_BYTES)
    })
}

#[cfg(all(target_arch = "x86_64", target_feature = "avx2"))]
mod avx2 {
    use super::HALF_BYTES;
    use std::arch::x86_64::*;

    #[derive(Clone, Copy)]
    pub struct Half(__m256i);

    /// By low bits of a byte: the white space that ends in them.
    const SPACES: [u8; HALF_BYTES] =
        *b" \0\0\0\0\0\0\0\0\t\n\0\x0c\r\0\0 \0\0\0\0\0\0\0\0\t\n\0\x0c\r\0\0";

    impl Half {
        #[inline(always)]
        pub fn load(bytes: &[u8; HALF_BYTES]) -> Half {
            // SAFETY: 32 bytes are read, from a reference to 32; no alignment is asked for.
            Half(unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) })
        }

        #[inline(always)]
        pub fn store(self) -> [u8; HALF_BYTES] {
            let mut bytes = [0; HALF_BYTES];
            // SAFETY: 32 bytes are written, into an array of 32.
            unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), self.0) };
            bytes
        }

        #[inline(always)]
        fn splat(byte: u8) -> Half {
            // SAFETY: here and below, registers only, and the build has AVX2.
            Half(unsafe { _mm256_set1_epi8(byte as i8) })
        }

        #[inline(always)]
        pub fn equal(self, byte: u8) -> Half {
            // SAFETY: see `splat`.
            Half(unsafe { _mm256_cmpeq_epi8(self.0, Half::splat(byte).0) })
        }

        /// From `first` to `last`, as unsigned numbers, but not all of them. `first` is brought to
        /// the least signed number, and what is less than one behind `last` is within: one
        /// instruction fewer than by a minimum.
        #[inline(always)]
        pub fn within(self, first: u8, last: u8) -> Half {
            debug_assert!(first <= last && last - first < u8::MAX);
            let least = Half::splat(first ^ 0x80);
            let behind = Half::splat((last - first + 1) ^ 0x80);
            // SAFETY: see `splat`.
            Half(unsafe { _mm256_cmpgt_epi8(behind.0, _mm256_sub_epi8(self.0, least.0)) })
        }

        #[inline(always)]
        pub fn and(self, byte: u8) -> Half {
            // SAFETY: see `splat`.
            Half(unsafe { _mm256_and_si256(self.0, Half::splat(byte).0) })
        }

        #[inline(always)]
        pub fn or(self, other: Half) -> Half {
            // SAFETY: see `splat`.
            Half(unsafe { _mm256_or_si256(self.0, other.0) })
        }

        /// White space of HTML.
        #[inline(always)]
        pub fn is_space(self) -> Half {
            // SAFETY: see `splat`. A byte from 0x80 on looks up a zero, which it is not.
            unsafe {
                let alike = _mm256_shuffle_epi8(Half::load(&SPACES).0, self.0);
                Half(_mm256_cmpeq_epi8(alike, self.0))
            }
        }

        /// The top bits.
        #[inline(always)]
        pub fn mask(self) -> u32 {
            // SAFETY: see `splat`.
            unsafe { _mm256_movemask_epi8(self.0) as u32 }
        }
    }
}

/// What a build without AVX2 gets, and a twin in the tests.
#[cfg(any(test, not(all(target_arch = "x86_64", target_feature = "avx2"))))]
mod pair {
    use super::HALF_BYTES;
    use crate::sys::scan::{Lanes, Native, WINDOW_BYTES};

    #[derive(Clone, Copy)]
    pub struct Half([Native; 2]);

    impl Half {
        pub fn load(bytes: &[u8; HALF_BYTES]) -> Half {
            let windows = bytes.as_chunks::<WINDOW_BYTES>().0;
            Half([Native::load(&windows[0]), Native::load(&windows[1])])
        }

        pub fn store(self) -> [u8; HALF_BYTES] {
            let mut bytes = [0; HALF_BYTES];
            let (windows, _) = bytes.as_chunks_mut();
            windows.iter_mut().zip(self.0).for_each(|(window, lanes)| *window = lanes.store());
            bytes
        }

        pub fn equal(self, byte: u8) -> Half {
            Half(self.0.map(|lanes| lanes.equal(byte)))
        }

        pub fn within(self, first: u8, last: u8) -> Half {
            Half(self.0.map(|lanes| lanes.minus(first).at_most(last - first)))
        }

        pub fn and(self, byte: u8) -> Half {
            Half(self.0.map(|lanes| lanes.and(byte)))
        }

        pub fn or(self, other: Half) -> Half {
            Half(std::array::from_fn(|index| self.0[index] | other.0[index]))
        }

        pub fn is_space(self) -> Half {
            let line_ends = self.equal(b'\n').or(self.equal(b'\r')).or(self.equal(b'\x0c'));
            line_ends.or(self.equal(b' ')).or(self.equal(b'\t'))
        }

        pub fn mask(self) -> u32 {
            self.0[0].mask() | self.0[1].mask() << WINDOW_BYTES
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte value, in many places.
    fn blocks() -> impl Iterator<Item = [u8; BLOCK_BYTES]> {
        (0..=255u8).map(|first| {
            std::array::from_fn(|index| first.wrapping_add((5 * index) as u8) & (first | 0x7F))
        })
    }

    fn bits(block: &[u8; BLOCK_BYTES], is: impl Fn(u8) -> bool) -> u64 {
        let bits = block.iter().enumerate();
        bits.fold(0, |mask, (index, byte)| mask | u64::from(is(*byte)) << index)
    }

    #[test]
    fn words_are_found_and_folded_as_byte_by_byte() {
        for block in blocks() {
            let wanted = bits(&block, |byte| byte.is_ascii_alphanumeric() || !byte.is_ascii());
            assert_eq!(words(&block), (wanted, !block.is_ascii()));
            assert_eq!(lower(&block), block.map(|byte| byte.to_ascii_lowercase()));
        }
    }

    #[test]
    fn marks_are_those_of_each_byte() {
        for block in blocks() {
            let marks = text_marks(&block);
            assert_eq!(marks.stops, bits(&block, |byte| matches!(byte, b'<' | b'&')));
            assert_eq!(marks.spaces, bits(&block, |byte| b" \t\n\x0c\r".contains(&byte)));
            let references = bits(&block, |byte| matches!(byte, b'&' | b'\r' | 0));
            assert_eq!(reference_marks(&block), references);
            let values = value_marks(block.first_chunk().expect("a half"));
            assert_eq!(values.quotes, bits(&block, |byte| byte == b'"') as u32);
            assert_eq!(values.others, bits(&block, |byte| b"='>".contains(&byte)) as u32);
            assert_eq!(in_range(&block, 0x80, 0xBF), bits(&block, |byte| byte & 0xC0 == 0x80));
            (0..=255).for_each(|wanted| {
                assert_eq!(equal(&block, wanted), bits(&block, |byte| byte == wanted));
            });
        }
    }

    #[test]
    fn both_kinds_of_halves_answer_the_same() {
        for block in blocks() {
            let bytes = block.first_chunk().expect("a half");
            let (fast, slow) = (Half::load(bytes), pair::Half::load(bytes));
            assert_eq!(fast.mask(), slow.mask());
            assert_eq!(fast.is_space().store(), slow.is_space().store());
            for byte in [0, 9, 25, 0x20, b'<', 0x7F, 0x80, 0xFF] {
                assert_eq!(fast.equal(byte).store(), slow.equal(byte).store());
                for last in [byte, byte | 0x0F, byte | 0x7F] {
                    assert_eq!(fast.within(byte, last).store(), slow.within(byte, last).store());
                }
                assert_eq!(fast.and(byte).store(), slow.and(byte).store());
                let (fast, slow) = (fast.equal(byte).or(fast), slow.equal(byte).or(slow));
                assert_eq!(fast.store(), slow.store());
            }
        }
    }
}

//! Where words start and end in a buffer of text.
//!
//! A word is a run of ASCII letters, digits and bytes outside ASCII, with two amendments:
//! - Characters of U+0080 to U+00BF and U+2000 to U+2FFF (UTF-8 that starts with C2 or E2: no-break
//!   space, typographic quotes and dashes, arrows, symbols) separate words like a blank. The few
//!   letters among them, as in Glagolitic, are the price of looking at one byte only.
//! - Each character of U+3000 to U+9FFF (starts with E3 to E9: kana and ideographs) starts a word.
//!   Those scripts put no blanks between words, and a word of a whole paragraph would make one
//!   shingle of three paragraphs.
//!
//! Both hold for broken UTF-8 as well: only continuation bytes are taken to belong to a lead byte.

use crate::sys::block::{self, BLOCK_BYTES};

/// Text read at a time: the text and its hashes stay in the first-level cache. A power of two, so
/// that a position is brought into bounds by a mask.
pub(super) const BUFFER_BYTES: usize = 1_024;
const _: () = assert!(BUFFER_BYTES.is_power_of_two() && BUFFER_BYTES.is_multiple_of(BLOCK_BYTES));
/// At most, a byte ends one word and starts the next.
const EDGE_COUNT_MAX: usize = 2 * BUFFER_BYTES;
const _: () = assert!(BUFFER_BYTES <= u16::MAX as usize, "a position fits");

/// Where words start and end in one buffer: start, end, start, end. One list for all of it, so that
/// a loop over the words ends once in a buffer: how many there are in 64 bytes cannot be foreseen.
pub(super) struct Edges {
    /// With room for the eight that are written at a time.
    positions: [u16; EDGE_COUNT_MAX + 8],
    count: usize,
}

/// What the last byte of a buffer means for the first of the next: bit 0 of masks that were
/// shifted out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Carry {
    /// A separator's lead byte was last.
    lead: u64,
    /// It was one of three bytes.
    long_lead: u64,
    /// Its second byte was.
    second: u64,
}

impl Edges {
    pub(super) fn new() -> Edges {
        Edges { positions: [0; EDGE_COUNT_MAX + 8], count: 0 }
    }

    /// The start and the end of each word that ends in the buffer.
    #[inline(always)]
    pub(super) fn words(&self) -> &[[u16; 2]] {
        self.positions[..self.count].as_chunks().0
    }

    /// Where a word starts that reaches the buffer's end and may go on in the next.
    pub(super) fn unfinished(&self) -> Option<usize> {
        (self.count % 2 == 1).then(|| usize::from(self.positions[self.count - 1]))
    }

    /// Appends the places of the bits, without a branch: eight for each byte of the mask, of which
    /// as many count as the byte has bits.
    #[inline(always)]
    fn push(&mut self, mut mask: u64, base: usize) {
        let mut bases = [base as u16; 8];
        for _ in 0..8 {
            let places = &PLACES[(mask & 0xFF) as usize];
            let out = &mut self.positions[self.count % EDGE_COUNT_MAX..][..8];
            for (position, (place, base)) in out.iter_mut().zip(places.iter().zip(bases)) {
                *position = base + place;
            }
            self.count += (mask & 0xFF).count_ones() as usize;
            mask >>= 8;
            bases = bases.map(|base| base + 8);
        }
    }

    /// As [`Edges::push`], the bits of `twice` two times.
    #[cold]
    fn push_some_twice(&mut self, mut mask: u64, twice: u64, base: usize) {
        while mask != 0 {
            let position = (base + mask.trailing_zeros() as usize) as u16;
            let times = 1 + usize::from(mask & mask.wrapping_neg() & twice != 0);
            self.positions[self.count..][..times].fill(position);
            self.count += times;
            mask &= mask - 1;
        }
    }
}

/// Of each byte, the places of its bits, lowest first.
static PLACES: [[u16; 8]; 256] = {
    let mut places = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut count) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                places[byte][count] = bit as u16;
                count += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    places
};

/// Folds `buffer[..text_len]` to ASCII lower case and finds its words. `text_len` is a multiple of
/// 64.
pub(super) fn find(
    buffer: &mut [u8; BUFFER_BYTES],
    text_len: usize,
    carry: &mut Carry,
    edges: &mut Edges,
) {
    let mut after_word = 0;
    let (blocks, _) = buffer[..text_len].as_chunks_mut();
    edges.count = 0;
    for (index, bytes) in blocks.iter_mut().enumerate() {
        let (mut word, has_others) = block::fold_words(bytes);
        let mut ideograph = 0;
        if has_others {
            let separator;
            (separator, ideograph) = classify_others(bytes, carry);
            word &= !separator;
        } else {
            *carry = Carry::default();
        }
        let after = word << 1 | after_word;
        after_word = word >> 63;
        let both = word & after & ideograph;
        if both == 0 {
            edges.push(word ^ after, index * BLOCK_BYTES);
        } else {
            edges.push_some_twice(word ^ after | both, both, index * BLOCK_BYTES);
        }
    }
}

/// The masks of bytes that separate although they are outside ASCII, and of those that start a
/// word of their own.
fn classify_others(bytes: &[u8; BLOCK_BYTES], carry: &mut Carry) -> (u64, u64) {
    let short_lead = block::in_range(bytes, 0xc2, 0xc2);
    let long_lead = block::in_range(bytes, 0xe2, 0xe2);
    let trail = block::in_range(bytes, 0x80, 0xbf);
    let ideograph = block::in_range(bytes, 0xe3, 0xe9);
    let lead = short_lead | long_lead;
    let first = (lead << 1 | carry.lead) & trail;
    let second_of_long = (long_lead << 1 | carry.long_lead) & trail;
    let third = (second_of_long << 1 | carry.second) & trail;
    *carry = Carry { lead: lead >> 63, long_lead: long_lead >> 63, second: second_of_long >> 63 };
    (lead | first | third, ideograph)
}

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

use crate::sys::scan::{self, BLOCK_BYTES};

/// Text read at a time: the text and its hashes stay in the first-level cache. A power of two, so
/// that a position is brought into bounds by a mask.
pub(super) const BUFFER_BYTES: usize = 1_024;
/// Loads of a word's hash reach this far over the end of the text.
pub(super) const LOAD_BYTES: usize = 16;
const BLOCK_COUNT: usize = BUFFER_BYTES / BLOCK_BYTES;
const _: () = assert!(BUFFER_BYTES.is_power_of_two() && BUFFER_BYTES.is_multiple_of(BLOCK_BYTES));

/// Where words start and end in one buffer: bit `i` of block `b` is position `64 b + i`.
pub(super) struct Edges {
    blocks: [Block; BLOCK_COUNT],
    count: usize,
}

#[derive(Clone, Copy, Default)]
struct Block {
    starts: u64,
    ends: u64,
    /// The last byte is a word's, all ones or zeros: the word goes on in the next block.
    open: u64,
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
        Edges { blocks: [Block::default(); BLOCK_COUNT], count: 0 }
    }

    /// Calls `take` with the start and the end of each word that ends in the buffer; returns where
    /// a word starts that reaches the buffer's end and may go on in the next.
    #[inline(always)]
    pub(super) fn each_word(&self, mut take: impl FnMut(usize, usize)) -> Option<usize> {
        let mut start = 0;
        let mut open = 0;
        for (index, block) in self.blocks[..self.count].iter().enumerate() {
            let base = index * BLOCK_BYTES;
            let (mut starts, mut ends) = (block.starts, block.ends);
            // Without a branch: where a block cuts cannot be foreseen.
            let first = base + starts.trailing_zeros() as usize;
            start = (start & open as usize) | (first & !open as usize);
            starts &= starts.wrapping_sub(1) | open;
            while ends != 0 {
                take(start, base + ends.trailing_zeros() as usize);
                ends &= ends - 1;
                start = base + starts.trailing_zeros() as usize;
                starts &= starts.wrapping_sub(1);
            }
            open = block.open;
        }
        (open != 0).then_some(start)
    }
}

/// Folds `buffer[..text_len]` to ASCII lower case and finds its words. `text_len` is a multiple of
/// 64.
pub(super) fn find(
    buffer: &mut [u8; BUFFER_BYTES + LOAD_BYTES],
    text_len: usize,
    carry: &mut Carry,
    edges: &mut Edges,
) {
    let mut after_word = 0;
    let (blocks, _) = buffer[..text_len].as_chunks_mut();
    edges.count = blocks.len();
    for (block, out) in blocks.iter_mut().zip(&mut edges.blocks) {
        let (mut word, has_others) = scan::fold_words(block);
        let mut ideograph = 0;
        if has_others {
            let separator;
            (separator, ideograph) = classify_others(block, carry);
            word &= !separator;
        } else {
            *carry = Carry::default();
        }
        let after = word << 1 | after_word;
        after_word = word >> 63;
        *out = Block {
            starts: word & (!after | ideograph),
            ends: after & (!word | ideograph),
            open: 0u64.wrapping_sub(after_word),
        };
    }
}

/// The masks of bytes that separate although they are outside ASCII, and of those that start a
/// word of their own.
fn classify_others(block: &[u8; BLOCK_BYTES], carry: &mut Carry) -> (u64, u64) {
    let short_lead = scan::in_range(block, 0xc2, 0xc2);
    let long_lead = scan::in_range(block, 0xe2, 0xe2);
    let trail = scan::in_range(block, 0x80, 0xbf);
    let ideograph = scan::in_range(block, 0xe3, 0xe9);
    let lead = short_lead | long_lead;
    let first = (lead << 1 | carry.lead) & trail;
    let second_of_long = (long_lead << 1 | carry.long_lead) & trail;
    let third = (second_of_long << 1 | carry.second) & trail;
    *carry = Carry { lead: lead >> 63, long_lead: long_lead >> 63, second: second_of_long >> 63 };
    (lead | first | third, ideograph)
}

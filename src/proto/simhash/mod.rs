//! SimHash: 64 bits that change little when a text changes little.
//!
//! This module owns the way from visible text to a fingerprint. Text goes in by
//! [`SimHasher::push_text`], in pieces that may split words and characters anywhere; the
//! fingerprint comes out of [`SimHasher::finish`]. The dedup stage finds neighbours: it looks them
//! up by [`blocks`] and confirms them by [`distance`].
//!
//! A shingle is three words in a row. Each shingle is hashed to 64 bits and votes on every bit of
//! the fingerprint; the majority decides each bit. Texts that share most of their shingles agree on
//! most bits.
//!
//! It is fast by doing each step for many words at once:
//! 1. Text is gathered in a buffer of 1 KiB, so that no later step has to join pieces. Pieces of a
//!    page are short, and 64 bytes are copied for each, whatever its length
//!    ([`SimHasher::push_short`]).
//! 2. Word bytes become a bit mask of a window of 64 bytes; where words start and end is then found
//!    by shifts. A word that is cut by the end of a window begins the next window, so no word is
//!    ever joined ([`words`]).
//! 3. A word is hashed from two masked loads and one multiplication; only the rare words longer
//!    than 16 bytes take a loop. A shingle's hash is the XOR of its words' hashes, each rotated by
//!    another amount: word hashes are well mixed already, so shingles that differ in one word
//!    differ in random bits.
//! 4. Votes are counted in planes: plane `k` holds bit `k` of all 64 counters, so counting a
//!    shingle takes about five operations instead of 64 ([`planes`]).
//!
//! The tests compare it with a twin of two dozen lines that does all this byte by byte.
//!
//! Invariant: the fingerprint depends on the text alone, not on how it was cut. Any core may use
//! it; one hasher per core is reused for page after page.

mod planes;
#[cfg(test)]
mod tests;
mod words;

use crate::base::limits::{
    SIMHASH_SHINGLE_COUNT_MAX, SIMHASH_WORD_BYTES_MAX, SIMHASH_WORD_COUNT_MIN,
};
use crate::sys::block::{self, BLOCK_BYTES};
use planes::Planes;
use words::{Carry, Words};

/// Returns the number of bits in which two fingerprints differ.
pub fn distance(a: u64, b: u64) -> u32 {
    (a ^ b).count_ones()
}

/// Returns the four 16-bit blocks of a fingerprint, lowest first. Two fingerprints that differ in
/// at most three bits agree in at least one block.
pub fn blocks(simhash: u64) -> [u16; 4] {
    [0, 16, 32, 48].map(|shift| (simhash >> shift) as u16)
}

/// Takes a text piece by piece. The module's text says how.
pub struct SimHasher {
    /// Text not yet read, with room behind it for loads that reach beyond its end.
    buffer: Buffer,
    buffered_count: usize,
    /// A break has come, and no text after it yet.
    is_broken: bool,
    carry: Carry,
    /// The hashes of the last two words of the previous batch, the older first, then those of this
    /// batch.
    hashes: [u64; HASH_COUNT_MAX],
    /// The number of word hashes in this batch.
    hash_count: usize,
    /// The number of words in the previous batches.
    word_count: usize,
    planes: Planes,
}

impl Default for SimHasher {
    #[inline]
    fn default() -> SimHasher {
        SimHasher::new()
    }
}

impl SimHasher {
    #[inline]
    pub fn new() -> SimHasher {
        SimHasher {
            buffer: [0; BUFFER_BYTES + OVER_BYTES],
            buffered_count: 0,
            is_broken: false,
            carry: Carry::default(),
            hashes: [0; HASH_COUNT_MAX],
            hash_count: 0,
            word_count: 0,
            planes: Planes::default(),
        }
    }

    /// Takes the next piece of the text, which should be UTF-8, but any bytes will do. The end of a
    /// piece does not end a word: push a space where the text has a break that is not written in
    /// it.
    pub fn push_text(&mut self, piece: impl AsRef<[u8]>) {
        let mut piece = piece.as_ref();
        self.put_break();
        while !piece.is_empty() {
            let take = piece.len().min(BUFFER_BYTES - self.buffered_count);
            let (now, later) = piece.split_at(take);
            self.buffer[self.buffered_count..][..take].copy_from_slice(now);
            self.buffered_count += take;
            piece = later;
            if self.buffered_count == BUFFER_BYTES {
                self.drain();
            }
        }
    }

    /// Does what [`SimHasher::push_text`] does for a space, if `is_break`.
    #[inline(always)]
    pub fn push_break(&mut self, is_break: bool) {
        self.is_broken |= is_break;
    }

    /// Does what [`SimHasher::push_text`] does for a space, if `is_break`, and for
    /// `chunk[start..end]`. It is made for the short texts of which pages consist. The bytes behind
    /// them in the chunk are copied too, and overwritten by the next text: a copy of 64 bytes takes
    /// a few instructions, a copy of any length is a call with branches that cannot be predicted.
    #[inline(always)]
    pub fn push_short(&mut self, is_break: bool, chunk: &[u8], start: usize, end: usize) {
        self.push_break(is_break);
        let Some(block) = block::block(chunk, start) else {
            return self.push_long(&chunk[start..end]);
        };
        let len = (end - start).min(COPY_BYTES);
        let at = self.buffered_count % BUFFER_BYTES;
        self.buffer[at] = b' ';
        let at = at + usize::from(self.is_broken);
        self.is_broken = false;
        self.buffer[at..at + COPY_BYTES].copy_from_slice(block);
        self.buffered_count = at + len;
        if self.buffered_count >= BUFFER_BYTES {
            self.drain();
        }
        if start + len < end {
            self.push_long(&chunk[start + len..end]);
        }
    }

    #[inline(never)]
    fn push_long(&mut self, mut piece: &[u8]) {
        self.put_break();
        while let Some((block, later)) = piece.split_first_chunk::<COPY_BYTES>() {
            let at = self.buffered_count % BUFFER_BYTES;
            self.buffer[at..at + COPY_BYTES].copy_from_slice(block);
            self.buffered_count = at + COPY_BYTES;
            if self.buffered_count >= BUFFER_BYTES {
                self.drain();
            }
            piece = later;
        }
        self.push_text(piece);
    }

    /// Writes the pending break, if any, to the buffer.
    #[inline(always)]
    fn put_break(&mut self) {
        let at = self.buffered_count % BUFFER_BYTES;
        self.buffer[at] = b' ';
        self.buffered_count = at + usize::from(self.is_broken);
        self.is_broken = false;
        if self.buffered_count == BUFFER_BYTES {
            self.drain();
        }
    }

    /// Returns the fingerprint of all text since the last reset, or `None` if it has fewer words
    /// than [`SIMHASH_WORD_COUNT_MIN`]. Leaves the hasher reset.
    pub fn finish(&mut self) -> Option<u64> {
        // After these blanks, all text lies in whole windows.
        self.push_text([b' '; BLOCK_BYTES]);
        self.drain();
        self.vote(self.hash_count);
        let simhash = self.planes.majority();
        let is_enough = self.word_count >= SIMHASH_WORD_COUNT_MIN;
        self.reset();
        is_enough.then_some(simhash)
    }

    /// Forgets the text, so that the hasher is like a new one.
    pub fn reset(&mut self) {
        self.buffered_count = 0;
        self.is_broken = false;
        self.carry = Carry::default();
        self.hashes[..2].fill(0);
        self.hash_count = 0;
        self.word_count = 0;
        self.planes = Planes::default();
    }

    /// Reads all whole windows of the buffer; the bytes behind them stay there.
    #[inline(never)]
    fn drain(&mut self) {
        let mut at = 0;
        while at + BLOCK_BYTES <= self.buffered_count {
            let Some(bytes) = self.buffer[at..].first_chunk() else { break };
            at += hash_words(bytes, &mut self.carry, &mut self.hashes, &mut self.hash_count);
            if self.hash_count >= BATCH_COUNT {
                self.vote(BATCH_COUNT);
            }
        }
        self.buffer.copy_within(at..at + BLOCK_BYTES, 0);
        self.buffered_count -= at;
    }

    /// Counts the shingles that end with the first `count` words of the batch.
    fn vote(&mut self, count: usize) {
        let hashes = &mut self.hashes;
        let last = [hashes[count], hashes[count + 1]];
        // This is done in place: a shingle's hash replaces the word hash that no later shingle
        // reads.
        for first in 0..count {
            let Some([a, b, c]) = hashes[first..].first_chunk().copied() else { break };
            hashes[first] = shingle_hash(a, b, c);
        }
        // The first two words of a text end no shingle.
        let skip = 2usize.saturating_sub(self.word_count).min(count);
        self.word_count += count;
        let room = SIMHASH_SHINGLE_COUNT_MAX - self.planes.total_count();
        let end = count.min(skip + room);
        self.planes.add(&hashes[skip..end]);
        hashes[..2].copy_from_slice(&last);
        hashes.copy_within(2 + count..2 + self.hash_count, 2);
        self.hash_count -= count;
    }
}

/// Appends the hashes of the words that end in the window of the first 64 `bytes`; returns where
/// the next window is.
#[inline(always)]
fn hash_words(
    bytes: &[u8; WINDOW_BYTES],
    carry: &mut Carry,
    hashes: &mut [u64; HASH_COUNT_MAX],
    hash_count: &mut usize,
) -> usize {
    let Some(window) = bytes.first_chunk() else { return BLOCK_BYTES };
    let (words, is_ascii) = words::find(window, carry);
    let room = hashes[2 + *hash_count % BATCH_COUNT..].first_chunk_mut();
    if let Some(out) = room {
        if is_ascii {
            // To set this bit is all that lower-casing takes in ASCII words: digits have it
            // already. If the bytes were folded in a buffer, loads would wait for the stores just
            // before them.
            hash_window(bytes, &words, 0x20 * (u64::MAX / 255), out);
        } else {
            hash_folded(window, &words, out);
        }
    }
    *hash_count += words.count;
    words.step
}

#[inline(never)]
fn hash_folded(window: &[u8; BLOCK_BYTES], words: &Words, out: &mut [u64; BLOCK_BYTES]) {
    let mut folded = [0; WINDOW_BYTES];
    folded[..BLOCK_BYTES].copy_from_slice(&block::lower(window));
    hash_window(&folded, words, 0, out);
}

/// Hashes the words of a window. `fold` holds the bits to be set in every byte of a word.
#[inline(always)]
fn hash_window(bytes: &[u8; WINDOW_BYTES], words: &Words, fold: u64, out: &mut [u64; BLOCK_BYTES]) {
    let (mut starts, mut ends) = (words.starts, words.ends);
    // Words are hashed four at a time, and hashes beyond the last word are wasted: how many words
    // there are cannot be predicted.
    let (groups, _) = out.as_chunks_mut::<4>();
    let group_count = words.count.div_ceil(4).min(groups.len());
    for group in &mut groups[..group_count] {
        for hash in group {
            *hash = word_hash(bytes, starts.trailing_zeros(), ends.trailing_zeros(), fold);
            starts &= starts.wrapping_sub(1);
            ends &= ends.wrapping_sub(1);
        }
    }
}

/// Odd constants with about half of their bits set (from wyhash).
const KEYS: [u64; 4] =
    [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3, 0x5899_65cc_7537_4cc3];

/// XORs both halves of a 128-bit product: every bit of either factor affects every bit of the
/// result.
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// The number of words whose shingles are counted at a time; the words of one more window fit
/// behind them.
const BATCH_COUNT: usize = 256;
const HASH_COUNT_MAX: usize = 2 + BATCH_COUNT + BLOCK_BYTES;

/// The number of text bytes read at a time: they and their hashes stay in the first-level cache. It
/// is a power of two, so that a mask brings a position into bounds.
const BUFFER_BYTES: usize = 1_024;
const _: () = assert!(BUFFER_BYTES.is_power_of_two());
/// The number of bytes copied at a time.
const COPY_BYTES: usize = BLOCK_BYTES;
/// A window of text, and the bytes behind it that loads of a word's hash reach.
const WINDOW_BYTES: usize = BLOCK_BYTES + 16;
/// Room for a break, for what is copied behind it, and for a window behind that.
const OVER_BYTES: usize = 1 + COPY_BYTES + WINDOW_BYTES;
type Buffer = [u8; BUFFER_BYTES + OVER_BYTES];
const _: () =
    assert!(SIMHASH_WORD_BYTES_MAX == BLOCK_BYTES, "a word counts up to the length of a window");

/// Returns the hash of the word from `start` to `end`.
#[inline(always)]
fn word_hash(bytes: &[u8; WINDOW_BYTES], start: u32, end: u32, fold: u64) -> u64 {
    let (start, len) = (start as usize, end.wrapping_sub(start) as usize);
    let Some([low_mask, high_mask]) = MASKS.get(len).copied() else {
        return long_word_hash(bytes, start, len, fold);
    };
    let low = (load(bytes, start) | fold) & low_mask;
    let high = (load(bytes, start + 8) | fold) & high_mask;
    mix(low ^ KEYS[0], high ^ KEYS[1])
}

#[cold]
#[inline(never)]
fn long_word_hash(bytes: &[u8; WINDOW_BYTES], start: usize, len: usize, fold: u64) -> u64 {
    let load = |offset: usize| load(bytes, start + offset) | fold;
    let mut hash = mix(load(0) ^ KEYS[0], load(8) ^ KEYS[1]);
    for offset in (16..len).step_by(8) {
        let number = load(offset) & MASKS[(len - offset).min(8)][0];
        hash = mix(hash ^ KEYS[2], number ^ KEYS[3]);
    }
    hash
}

/// Loads eight bytes at `start`, which is in the window or up to eight bytes behind it.
#[inline(always)]
fn load(bytes: &[u8; WINDOW_BYTES], start: usize) -> u64 {
    u64::from_le_bytes(bytes[start..][..8].try_into().unwrap_or_default())
}

/// For each length of a word up to 16, which bits of the first 16 bytes from its start belong to
/// it.
const MASKS: [[u64; 2]; 17] = {
    let mut masks = [[0, 0]; 17];
    let mut len = 1;
    while len <= 16 {
        let shared = if len < 8 { len } else { 8 };
        masks[len][0] = !0 >> (64 - 8 * shared);
        if len > 8 {
            masks[len][1] = !0 >> (64 - 8 * (len - 8));
        }
        len += 1;
    }
    masks
};

#[inline(always)]
fn shingle_hash(first: u64, second: u64, third: u64) -> u64 {
    // The rotations are multiples of 16 bits: the compiler has instructions that rotate two hashes
    // at once.
    first.rotate_left(48) ^ second.rotate_left(16) ^ third
}

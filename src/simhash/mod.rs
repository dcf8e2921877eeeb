//! SimHash: 64 bits that change little when a text changes little.
//!
//! Owns the way from visible text to a fingerprint. Text goes in by [`SimHasher::push_text`], in
//! pieces that may split words and characters anywhere; the fingerprint comes out of
//! [`SimHasher::finish`]. Finding neighbours is the dedup stage's work; it looks them up by
//! [`blocks`] and confirms them by [`distance`].
//!
//! A shingle is three words in a row. Each shingle is hashed to 64 bits and votes on every bit of
//! the fingerprint; the majority wins. Texts that share most of their shingles agree on most bits.
//!
//! It is fast by doing each step for many words at once:
//! 1. Text is gathered in a buffer of 1 KiB and folded to lower case there, so that no step behind
//!    it has to join pieces. Pieces of a page are short: they are copied by 64 bytes, whatever
//!    their length ([`SimHasher::push_short`]).
//! 2. Word bytes become a bit mask of 64 at a time; where words start and end is then a matter of
//!    shifts, and one list of places for all the buffer ([`words`]).
//! 3. A word is hashed from two masked loads and one multiplication; only the rare words
//!    longer than 16 bytes take a loop. A shingle's hash is that of its words turned and put over
//!    one another: they are mixed already, and shingles that differ in a word differ at random.
//! 4. Votes are counted in planes: plane `k` holds bit `k` of all 64 counters, so that counting a
//!    shingle takes about five operations instead of 64 ([`planes`]).
//!
//! The tests hold a twin of two dozen lines that does all this byte by byte.
//!
//! Invariant: the fingerprint depends on the text alone, not on how it was cut. Any core; one
//! hasher per core is reused for page after page.

mod planes;
#[cfg(test)]
mod tests;
mod words;

use crate::limits::{SIMHASH_SHINGLE_COUNT_MAX, SIMHASH_WORD_BYTES_MAX, SIMHASH_WORD_COUNT_MIN};
use crate::sys::block::{self, BLOCK_BYTES};
use planes::Planes;
use words::{BUFFER_BYTES, Carry, Edges};

/// Differing bits of two fingerprints.
pub fn distance(a: u64, b: u64) -> u32 {
    (a ^ b).count_ones()
}

/// The four 16-bit blocks of a fingerprint, lowest first. Two fingerprints within three bits agree
/// in at least one of them.
pub fn blocks(simhash: u64) -> [u16; 4] {
    [0, 16, 32, 48].map(|shift| (simhash >> shift) as u16)
}

/// Takes a text piece by piece. See the module's text for how.
pub struct SimHasher {
    /// Text not yet read, with room behind it for loads that reach over its end.
    buffer: Buffer,
    buffered_count: usize,
    carry: Carry,
    edges: Edges,
    /// Hashes of the last two words of the batch before, older first, and of those of this one.
    hashes: [u64; 2 + BATCH_COUNT],
    word_count: usize,
    planes: Planes,
}

impl Default for SimHasher {
    fn default() -> SimHasher {
        SimHasher::new()
    }
}

impl SimHasher {
    pub fn new() -> SimHasher {
        SimHasher {
            buffer: [0; BUFFER_BYTES + OVER_BYTES],
            buffered_count: 0,
            carry: Carry::default(),
            edges: Edges::new(),
            hashes: [0; 2 + BATCH_COUNT],
            word_count: 0,
            planes: Planes::default(),
        }
    }

    /// Takes the next piece of the text, UTF-8 as a rule but any bytes will do. A piece's end does
    /// not end a word: push a space where the text has a break that is not in it.
    pub fn push_text(&mut self, piece: impl AsRef<[u8]>) {
        let mut piece = piece.as_ref();
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

    /// As [`SimHasher::push_text`] of a space, if there `is_break`.
    #[inline(always)]
    pub fn push_break(&mut self, is_break: bool) {
        let at = self.buffered_count % BUFFER_BYTES;
        self.buffer[at] = b' ';
        self.buffered_count = at + usize::from(is_break);
        if self.buffered_count == BUFFER_BYTES {
            self.drain();
        }
    }

    /// As [`SimHasher::push_text`] of a space, if there `is_break`, and of `chunk[start..end]`; for
    /// the short texts that pages are made of. What stands behind them in the chunk is copied as
    /// well, and written over by the next: a copy of 64 bytes is a few instructions, and one of any
    /// length a call that cannot foresee which way it takes.
    #[inline(always)]
    pub fn push_short(&mut self, is_break: bool, chunk: &[u8], start: usize, end: usize) {
        let Some(block) = block::block(chunk, start) else {
            return self.push_long(is_break, &chunk[start..end]);
        };
        let len = (end - start).min(COPY_BYTES);
        let at = self.buffered_count % BUFFER_BYTES;
        self.buffer[at] = b' ';
        let at = at + usize::from(is_break);
        self.buffer[at..at + COPY_BYTES].copy_from_slice(block);
        self.buffered_count = at + len;
        if self.buffered_count >= BUFFER_BYTES {
            self.drain();
        }
        if start + len < end {
            self.push_long(false, &chunk[start + len..end]);
        }
    }

    #[inline(never)]
    fn push_long(&mut self, is_break: bool, mut piece: &[u8]) {
        self.push_break(is_break);
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

    /// The fingerprint of all text since the last reset, or `None` if it has fewer words than
    /// [`SIMHASH_WORD_COUNT_MIN`]. Leaves the hasher reset.
    pub fn finish(&mut self) -> Option<u64> {
        // The buffer always has room for one byte: it is drained when it is full.
        self.push_text(b" ");
        self.drain();
        let simhash = self.planes.majority();
        let is_enough = self.word_count >= SIMHASH_WORD_COUNT_MIN;
        self.reset();
        is_enough.then_some(simhash)
    }

    /// Forgets the text: the hasher is as new.
    pub fn reset(&mut self) {
        self.buffered_count = 0;
        self.carry = Carry::default();
        self.hashes[..2].fill(0);
        self.word_count = 0;
        self.planes = Planes::default();
    }

    /// Reads the words that end in the buffer; the beginning of one that does not stays there, and
    /// so does what lies behind the buffer.
    #[inline(never)]
    fn drain(&mut self) {
        let count = self.buffered_count.min(BUFFER_BYTES);
        let over = count..self.buffered_count;
        let text_len = count.next_multiple_of(BLOCK_BYTES);
        self.buffer[count..text_len].fill(b' ');
        if let Some(buffer) = self.buffer.first_chunk_mut() {
            words::find(buffer, text_len, &mut self.carry, &mut self.edges);
        }
        self.hash_words();
        self.buffered_count = 0;
        if let Some(start) = self.edges.unfinished() {
            // Of a long word only the beginning counts, so only that is kept.
            let len = (text_len - start).min(SIMHASH_WORD_BYTES_MAX);
            self.buffer.copy_within(start..start + len, 0);
            self.buffered_count = len;
        }
        let over_len = over.len();
        self.buffer.copy_within(over, self.buffered_count);
        self.buffered_count += over_len;
    }

    /// Takes the words that end in the buffer.
    fn hash_words(&mut self) {
        for words in self.edges.words().chunks(BATCH_COUNT) {
            let (count, hashes) = (words.len(), &mut self.hashes);
            for ([start, end], hash) in words.iter().zip(&mut hashes[2..]) {
                *hash = word_hash(&self.buffer, usize::from(*start), usize::from(*end));
            }
            let last = [hashes[count], hashes[count + 1]];
            // In place: a shingle's hash is written where only it was still to read.
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
        }
    }
}

/// Odd constants with about half of their bits set (from wyhash).
const KEYS: [u64; 4] =
    [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3, 0x5899_65cc_7537_4cc3];

/// Both halves of a 128-bit product: every bit of either factor reaches every bit of the result.
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Words hashed at a time.
const BATCH_COUNT: usize = 256;

type Buffer = [u8; BUFFER_BYTES + OVER_BYTES];
/// Copied at a time, and room for it and a break behind the buffer. Loads of a word's hash reach
/// over its end too, by sixteen bytes.
const COPY_BYTES: usize = 64;
const OVER_BYTES: usize = COPY_BYTES + 16;

/// The hash of `buffer[start..end]`, of which at most [`SIMHASH_WORD_BYTES_MAX`] bytes count.
#[inline(always)]
fn word_hash(buffer: &Buffer, start: usize, end: usize) -> u64 {
    let (start, len) = (start % BUFFER_BYTES, end - start);
    let Some([low_mask, high_mask]) = MASKS.get(len).copied() else {
        return long_word_hash(buffer, start, len);
    };
    let low = load(buffer, start) & low_mask;
    let high = load(buffer, start + 8) & high_mask;
    mix(low ^ KEYS[0], high ^ KEYS[1])
}

#[cold]
#[inline(never)]
fn long_word_hash(buffer: &Buffer, start: usize, len: usize) -> u64 {
    let len = len.min(SIMHASH_WORD_BYTES_MAX);
    let mut hash = mix(load(buffer, start) ^ KEYS[0], load(buffer, start + 8) ^ KEYS[1]);
    for offset in (16..len).step_by(8) {
        let number = load(buffer, start + offset) & MASKS[(len - offset).min(8)][0];
        hash = mix(hash ^ KEYS[2], number ^ KEYS[3]);
    }
    hash
}

/// Eight bytes at `start`, which is in the text or less than eight bytes behind it.
#[inline(always)]
fn load(buffer: &Buffer, start: usize) -> u64 {
    u64::from_le_bytes(buffer[start..][..8].try_into().unwrap_or_default())
}

/// By a word's length up to 16: which bits of the first 16 bytes from its start are its own.
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
    // Turns by whole 16 bits: the compiler has instructions that turn two hashes at once.
    first.rotate_left(48) ^ second.rotate_left(16) ^ third
}

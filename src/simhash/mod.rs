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
//!    it has to join pieces; the copy is 2 percent of the whole.
//! 2. Word bytes become a bit mask of 64 at a time; where words start and end is then a matter of
//!    shifts ([`words`]).
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
use planes::Planes;
use words::{BUFFER_BYTES, Carry, Edges, LOAD_BYTES};

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
    /// Hashes of the last two words of the buffer before, older first, and of those that end in
    /// this one.
    hashes: [u64; 2 + BUFFER_BYTES],
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
            buffer: [0; BUFFER_BYTES + LOAD_BYTES],
            buffered_count: 0,
            carry: Carry::default(),
            edges: Edges::new(),
            hashes: [0; 2 + BUFFER_BYTES],
            word_count: 0,
            planes: Planes::default(),
        }
    }

    /// Takes the next piece of the text, UTF-8 as a rule but any bytes will do. A piece's end does
    /// not end a word: push a space where the text has a break that is not in it.
    pub fn push_text(&mut self, piece: impl AsRef<[u8]>) {
        let mut piece = piece.as_ref();
        if let [byte] = piece
            && self.buffered_count < BUFFER_BYTES - 1
        {
            // A break between blocks: as many as there are pieces of text.
            self.buffer[self.buffered_count] = *byte;
            self.buffered_count += 1;
            return;
        }
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

    /// Reads the words that end in the buffer; the beginning of one that does not stays there.
    fn drain(&mut self) {
        let text_len = self.buffered_count.next_multiple_of(64);
        self.buffer[self.buffered_count..text_len].fill(b' ');
        words::find(&mut self.buffer, text_len, &mut self.carry, &mut self.edges);
        let unfinished = self.hash_words();
        self.buffered_count = 0;
        if let Some(start) = unfinished {
            // Of a long word only the beginning counts, so only that is kept.
            let len = (text_len - start).min(SIMHASH_WORD_BYTES_MAX);
            self.buffer.copy_within(start..start + len, 0);
            self.buffered_count = len;
        }
    }

    /// Takes the words that end in the buffer; returns where one starts that does not.
    fn hash_words(&mut self) -> Option<usize> {
        let (buffer, hashes) = (&self.buffer, &mut self.hashes);
        let mut count = 0;
        let unfinished = self.edges.each_word(|start, end| {
            hashes[2 + count % BUFFER_BYTES] = word_hash(buffer, start % BUFFER_BYTES, end);
            count += 1;
        });
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
        self.planes.add(&self.hashes[skip..end]);
        self.hashes[..2].copy_from_slice(&last);
        unfinished
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

type Buffer = [u8; BUFFER_BYTES + LOAD_BYTES];

/// The hash of `buffer[start..end]`, of which at most [`SIMHASH_WORD_BYTES_MAX`] bytes count.
#[inline(always)]
fn word_hash(buffer: &Buffer, start: usize, end: usize) -> u64 {
    let len = end - start;
    let [low_mask, high_mask] = MASKS[len.min(16)];
    let low = load(buffer, start) & low_mask;
    let high = load(buffer, start + 8) & high_mask;
    let hash = mix(low ^ KEYS[0], high ^ KEYS[1]);
    if len <= 16 { hash } else { long_word_hash(buffer, start, len, hash) }
}

#[inline(never)]
fn long_word_hash(buffer: &Buffer, start: usize, len: usize, mut hash: u64) -> u64 {
    let len = len.min(SIMHASH_WORD_BYTES_MAX);
    for offset in (16..len).step_by(8) {
        let number = load(buffer, start + offset) & MASKS[(len - offset).min(8)][0];
        hash = mix(hash ^ KEYS[2], number ^ KEYS[3]);
    }
    hash
}

/// Eight bytes at `start`, which is in the text or less than eight bytes behind it.
#[inline(always)]
fn load(buffer: &Buffer, start: usize) -> u64 {
    u64::from_le_bytes(buffer[start..].first_chunk().copied().unwrap_or_default())
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

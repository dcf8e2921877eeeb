//! Text as a reader sees it: white space collapsed, bounded, and without a character that the bound
//! has cut.

use super::tokenizer::is_space;
use crate::sys::block::{self, BLOCK_BYTES};
use crate::sys::scan;

/// Reports whether the first `len` bytes have no white space except single blanks between words or
/// behind the last word.
#[inline(always)]
pub(super) fn is_collapsed(bytes: &[u8; BLOCK_BYTES], len: usize) -> bool {
    let own = block::first(len);
    let spaces = block::text_marks(bytes).spaces & own;
    let plain = block::equal(bytes, b' ') & own;
    spaces == plain && spaces & (spaces << 1 | 1) == 0
}

/// Text with its white space collapsed, up to `MAX` bytes.
pub(super) struct Collapsed<const MAX: usize> {
    bytes: [u8; MAX],
    len: usize,
}

impl<const MAX: usize> Default for Collapsed<MAX> {
    fn default() -> Self {
        Collapsed { bytes: [0; MAX], len: 0 }
    }
}

impl<const MAX: usize> Collapsed<MAX> {
    /// Takes `chunk[start..stop]`. Most texts need no change, and three masks can tell that for 64
    /// bytes.
    #[inline(always)]
    pub(super) fn push_run(&mut self, chunk: &[u8], mut start: usize, stop: usize) {
        if start < stop && is_space(chunk[start]) {
            self.push_blank();
            start = scan::find_nonspace(chunk, start).min(stop);
        }
        let len = stop - start;
        if let Some(bytes) = block::block(chunk, start)
            && len <= BLOCK_BYTES
            && let Some(out) = self.bytes.get_mut(self.len..self.len + BLOCK_BYTES)
            && is_collapsed(bytes, len)
        {
            out.copy_from_slice(bytes);
            self.len += len;
            return;
        }
        self.push(&chunk[start..stop]);
    }

    #[inline(always)]
    pub(super) fn push_blank(&mut self) {
        if self.len > 0 && self.len < MAX && self.bytes[self.len - 1] != b' ' {
            self.bytes[self.len] = b' ';
            self.len += 1;
        }
    }

    /// Takes a piece, without a branch per byte: where words end cannot be predicted.
    pub(super) fn push(&mut self, mut piece: &[u8]) {
        const { assert!(MAX.is_power_of_two()) }
        let mut len = self.len;
        // Begins as if a blank stood before the first byte, so that the text does not begin with
        // one.
        let mut after_blank = len == 0 || self.bytes[len - 1] == b' ';
        while !piece.is_empty() && len < MAX {
            let (now, later) = piece.split_at(piece.len().min(MAX - len));
            for byte in now {
                let is_blank = is_space(*byte);
                self.bytes[len % MAX] = if is_blank { b' ' } else { *byte };
                len += usize::from(!(is_blank & after_blank));
                after_blank = is_blank;
            }
            piece = later;
        }
        self.len = len;
    }

    /// Returns the text without a space at the end, and without a character that the bound has cut.
    pub(super) fn trimmed(&self) -> &[u8] {
        let bytes = &self.bytes[..self.len];
        if bytes.last().is_none_or(u8::is_ascii) {
            return bytes.trim_ascii_end();
        }
        let whole = match std::str::from_utf8(bytes) {
            Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
            _ => bytes,
        };
        whole.trim_ascii_end()
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_collapsed_the_same_in_blocks_and_byte_by_byte() {
        let texts = ["plain words", "two  blanks", "a\ttab", "ends in one ", "x", "\u{e9}t\u{e9}"];
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        for _ in 0..2_000 {
            let (mut fast, mut safe) = (Collapsed::<256>::default(), Collapsed::<256>::default());
            for _ in 0..12 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let text = texts[(state >> 33) as usize % texts.len()];
                let times = 1 + (state >> 41) as usize % 8;
                let (len, is_blank) = (text.len() * times, state >> 50 & 1 == 1);
                // The chunk is made with and without a block's bytes behind the text.
                let chunk = text.repeat(times + (state >> 55) as usize % 2 * 64);
                if is_blank {
                    fast.push_blank();
                    safe.push(b" ");
                }
                fast.push_run(chunk.as_bytes(), 0, len);
                safe.push(&chunk.as_bytes()[..len]);
                assert_eq!(fast.bytes[..fast.len], safe.bytes[..safe.len]);
            }
        }
    }
}

//! Appends past the page cache: whole blocks from aligned memory, and the unfinished block at the
//! end kept.
//!
//! A WARC file is written once and read by others later. Through the page cache a kernel thread
//! copies each byte into memory that is fresh every time, and the bytes are written back in bursts
//! that stop whoever syncs: 280 MB/s on a disk that takes 1,500 MB/s past the cache.
//!
//! The file is always as long as what was appended: bytes that do not fill a block are written
//! through the page cache, and once more with the rest of their block when that comes. The kernel
//! keeps both ways coherent. A [`Direct`] belongs to one file of one core.

use crate::base::limits::{
    DIRECT_ALIGN_BYTES, DIRECT_BLOCK_BYTES, DIRECT_WRITE_BYTES, DIRECT_WRITE_BYTES_MAX,
};
use std::cell::RefCell;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

pub(super) struct Direct {
    fd: OwnedFd,
    /// What the file contains behind its last whole block.
    tail: RefCell<Vec<u8>>,
    /// Memory in which blocks are put together. Its aligned part is computed each time, because a
    /// `Vec` is not aligned.
    room: RefCell<Vec<u8>>,
}

/// The next write of whole blocks.
pub(super) struct Step {
    /// How many of the new bytes it appends.
    pub(super) byte_count: usize,
    /// How many bytes at the file's end it writes again, before the new ones.
    pub(super) again_byte_count: u64,
    /// The blocks, put together, and where they start; `None` if the bytes can be written in place.
    pub(super) staged: Option<(Vec<u8>, usize)>,
}

impl Direct {
    pub(super) fn new(fd: OwnedFd) -> Direct {
        Direct { fd, tail: RefCell::default(), room: RefCell::default() }
    }

    pub(super) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Returns the next write to a file of length `size` that gets `bytes`, or `None` if they fill
    /// no block.
    pub(super) fn step(&self, size: u64, bytes: &[u8]) -> Option<Step> {
        let tail = self.tail.borrow();
        debug_assert_eq!(tail.len() as u64, size % DIRECT_BLOCK_BYTES as u64);
        let whole = tail.len() + bytes.len();
        let whole = whole - whole % DIRECT_BLOCK_BYTES;
        if whole == 0 {
            return None;
        }
        let whole = whole.min(DIRECT_WRITE_BYTES_MAX);
        let lead = (DIRECT_BLOCK_BYTES - tail.len()) % DIRECT_BLOCK_BYTES;
        let goes_as_it_lies = bytes[lead..].as_ptr().align_offset(DIRECT_ALIGN_BYTES) == 0;
        if tail.is_empty() && goes_as_it_lies {
            return Some(Step { byte_count: whole, again_byte_count: 0, staged: None });
        }
        // If the rest can follow without a copy, only the block that is begun already is copied.
        let most = if goes_as_it_lies { DIRECT_BLOCK_BYTES } else { DIRECT_WRITE_BYTES };
        let byte_count = whole.min(most) - tail.len();
        let mut room = self.room.take();
        room.clear();
        room.reserve(DIRECT_WRITE_BYTES + DIRECT_BLOCK_BYTES);
        let start = room.as_ptr().align_offset(DIRECT_BLOCK_BYTES);
        room.resize(start, 0);
        room.extend_from_slice(&tail);
        room.extend_from_slice(&bytes[..byte_count]);
        let again_byte_count = tail.len() as u64;
        Some(Step { byte_count, again_byte_count, staged: Some((room, start)) })
    }

    /// Takes back the memory of a step that was written.
    pub(super) fn take_back(&self, room: Vec<u8>) {
        *self.room.borrow_mut() = room;
    }

    /// Notes that a step succeeded: the file now ends with a whole block.
    pub(super) fn wrote_blocks(&self) {
        self.tail.borrow_mut().clear();
    }

    /// Keeps `bytes`, which fill no block and are written through the page cache.
    pub(super) fn keep_tail(&self, bytes: &[u8]) {
        self.tail.borrow_mut().extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces of any length, from any place in memory, must make one file, and each of its blocks
    /// must be written from aligned memory.
    #[test]
    fn blocks_are_whole_and_the_rest_is_kept() {
        let direct = Direct::new(tempfile::tempfile().expect("a file").into());
        let lens = [0, 1, 4_095, 4_096, 5_000, 3, DIRECT_WRITE_BYTES, 3 * DIRECT_WRITE_BYTES + 7];
        let (mut written, mut expected, mut uncopied) = (Vec::new(), Vec::new(), 0);
        for (index, len) in lens.into_iter().chain(lens).enumerate() {
            let mut buffer: Vec<u8> = (0..len + 8_192).map(|at| (at * 7 + index) as u8).collect();
            // The second round lays the bytes out as a store does, the first one does not.
            let mut from = buffer.as_ptr().align_offset(DIRECT_BLOCK_BYTES);
            from += expected.len() % DIRECT_BLOCK_BYTES + usize::from(index < lens.len());
            buffer.truncate(from + len);
            expected.extend_from_slice(&buffer[from..]);
            while let Some(step) = direct.step(written.len() as u64, &buffer[from..]) {
                let at = written.len() - step.again_byte_count as usize;
                assert!(at.is_multiple_of(DIRECT_BLOCK_BYTES));
                let blocks = match &step.staged {
                    Some((room, start)) => &room[*start..],
                    None => &buffer[from..from + step.byte_count],
                };
                assert_eq!(blocks.as_ptr().align_offset(DIRECT_ALIGN_BYTES), 0);
                assert!(blocks.len().is_multiple_of(DIRECT_BLOCK_BYTES));
                written.truncate(at);
                written.extend_from_slice(blocks);
                from += step.byte_count;
                uncopied += if step.staged.is_none() { step.byte_count } else { 0 };
                direct.wrote_blocks();
                step.staged.into_iter().for_each(|(room, _)| direct.take_back(room));
            }
            assert!(buffer.len() - from < DIRECT_BLOCK_BYTES);
            direct.keep_tail(&buffer[from..]);
            written.extend_from_slice(&buffer[from..]);
            assert!(written == expected, "after piece {index}");
        }
        assert!(uncopied > 4 * DIRECT_WRITE_BYTES - 4 * DIRECT_BLOCK_BYTES, "{uncopied}");
    }
}

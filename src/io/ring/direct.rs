//! Appends past the page cache: whole blocks from aligned memory, and the block at the end kept.
//!
//! A WARC file is written once and read by others later. Through the page cache each byte is copied
//! by a kernel thread into memory that is fresh every time, and written back in bursts that stop
//! whoever syncs: 280 MB/s on a disk that takes 1,500 MB/s past it.
//!
//! The file is as long as what was appended, always: what does not fill a block is written through
//! the page cache, and once more with the rest of its block when that comes. The kernel keeps both
//! ways coherent. Owned by one file of one core.

use crate::base::limits::{
    DIRECT_ALIGN_BYTES, DIRECT_BLOCK_BYTES, DIRECT_WRITE_BYTES, DIRECT_WRITE_BYTES_MAX,
};
use std::cell::RefCell;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

pub(super) struct Direct {
    fd: OwnedFd,
    /// What stands in the file behind its last whole block.
    tail: RefCell<Vec<u8>>,
    /// Room to put blocks together. Its aligned part is found anew each time: a `Vec` has none.
    room: RefCell<Vec<u8>>,
}

/// The next write of whole blocks.
pub(super) struct Step {
    /// How many of the bytes at hand it appends.
    pub(super) byte_count: usize,
    /// Bytes of the file's end that it writes again, before them.
    pub(super) again_byte_count: u64,
    /// The blocks, put together, and where they start; `None` if the bytes can go as they lie.
    pub(super) staged: Option<(Vec<u8>, usize)>,
}

impl Direct {
    pub(super) fn new(fd: OwnedFd) -> Direct {
        Direct { fd, tail: RefCell::default(), room: RefCell::default() }
    }

    pub(super) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// The next write of a file that is `size` long and gets `bytes`; `None` if they fill no block.
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
        // The block that is begun already, if the others can follow without a copy.
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

    /// The room of a step that was written.
    pub(super) fn take_back(&self, room: Vec<u8>) {
        *self.room.borrow_mut() = room;
    }

    /// A step has succeeded: the file ends with a block.
    pub(super) fn wrote_blocks(&self) {
        self.tail.borrow_mut().clear();
    }

    /// `bytes` fill no block and go to the file another way.
    pub(super) fn keep_tail(&self, bytes: &[u8]) {
        self.tail.borrow_mut().extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces of any length, and from anywhere in memory, make one file, each block of it written
    /// from aligned memory.
    #[test]
    fn blocks_are_whole_and_the_rest_is_kept() {
        let direct = Direct::new(tempfile::tempfile().expect("a file").into());
        let lens = [0, 1, 4_095, 4_096, 5_000, 3, DIRECT_WRITE_BYTES, 3 * DIRECT_WRITE_BYTES + 7];
        let (mut written, mut expected, mut uncopied) = (Vec::new(), Vec::new(), 0);
        for (index, len) in lens.into_iter().chain(lens).enumerate() {
            let mut buffer: Vec<u8> = (0..len + 8_192).map(|at| (at * 7 + index) as u8).collect();
            // In the second round as a store lays them out, in the first as they come.
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

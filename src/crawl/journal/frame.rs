//! Frames: entries that were written together, under one checksum.
//!
//! | part | bytes |
//! |---|---|
//! | magic | 4 |
//! | payload size, entry count | 4 each |
//! | file sequence (low half) | 4 |
//! | number of the first entry | 8 |
//! | checksum of the head before it and the payload | 8 |
//! | payload: entries, each its kind, its size and its body | |
//!
//! The checksum covers the file's sequence and the entries' numbers, so a frame in the wrong place
//! or of another file is damage too.

use super::JournalError;
use super::file::{FileName, HEAD_BYTES};
use crate::base::limits::{FRAME_BYTES_MAX, FRAME_SCAN_BYTES};
use crate::base::pack::{Pack, Unpack};
use crate::io::{Disk, File};
use std::path::Path;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

pub(super) const FRAME_HEAD_BYTES: usize = 32;
const MAGIC: [u8; 4] = *b"nFRM";

/// Clears a buffer and leaves room for a frame's head, so that entries can be added.
pub(super) fn begin(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.resize(FRAME_HEAD_BYTES, 0);
}

/// Appends one entry: its kind, its size, its body.
pub(super) fn push(buffer: &mut Vec<u8>, kind: u8, fill: impl FnOnce(&mut Pack<'_>)) {
    let mut pack = Pack(buffer);
    pack.u8(kind);
    pack.nested(fill);
}

/// Fills in the head of a buffer that holds `entry_count` entries from `first_lsn` on.
pub(super) fn seal(buffer: &mut [u8], sequence: u64, first_lsn: u64, entry_count: u32) {
    let (head, payload) = buffer.split_at_mut(FRAME_HEAD_BYTES);
    let size = u32::try_from(payload.len()).expect("frames are bounded");
    let mut signed = Vec::with_capacity(FRAME_HEAD_BYTES);
    let mut pack = Pack(&mut signed);
    pack.0.extend_from_slice(&MAGIC);
    pack.u32(size);
    pack.u32(entry_count);
    pack.u32(sequence as u32);
    pack.u64(first_lsn);
    let checksum = xxh3_64_with_seed(payload, xxh3_64(pack.0));
    pack.u64(checksum);
    head.copy_from_slice(&signed);
}

/// A whole frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub(super) first_lsn: u64,
    pub(super) entry_count: u32,
    payload: Vec<u8>,
}

impl Frame {
    /// Returns kind and body of each entry; `None` stands for a payload that is not what it claims.
    pub(super) fn entries(&self) -> impl Iterator<Item = Option<(u8, &[u8])>> {
        let mut rest = Unpack(&self.payload);
        (0..self.entry_count).map(move |_| Some((rest.u8()?, rest.bytes()?)))
    }
}

impl Frame {
    pub(super) fn size_bytes(&self) -> u64 {
        (FRAME_HEAD_BYTES + self.payload.len()) as u64
    }

    /// Returns the frame as bytes, for another file.
    pub(super) fn sealed(&self, sequence: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FRAME_HEAD_BYTES + self.payload.len());
        begin(&mut bytes);
        bytes.extend_from_slice(&self.payload);
        seal(&mut bytes, sequence, self.first_lsn, self.entry_count);
        bytes
    }
}

/// Why there is no further frame.
pub(super) enum End {
    /// The file ends where the last frame does.
    Clean,
    /// What follows is no frame, and no frame comes behind it.
    Torn,
    /// What follows is no frame, but a frame comes behind it.
    Damaged,
}

/// A reader of a file's frames, in their order.
pub(super) struct FrameReader<F> {
    pub(super) name: FileName,
    file: F,
    pub(super) at: u64,
}

impl<F: File> FrameReader<F> {
    /// Opens the file at `path`. Its head is checked by [`FrameReader::check_head`].
    pub(super) async fn open<D: Disk<File = F>>(
        disk: &D,
        path: &Path,
        name: FileName,
    ) -> Result<FrameReader<F>, JournalError> {
        let file = disk.open(path).await.map_err(JournalError::disk("open", &name.text()))?;
        Ok(FrameReader { name, file, at: HEAD_BYTES as u64 })
    }

    /// Returns the number of the file's first entry, if its head is sound.
    pub(super) async fn check_head(&self) -> Result<u64, JournalError> {
        self.name.check_head(&self.read(0, HEAD_BYTES).await?)
    }

    pub(super) fn file(&self) -> &F {
        &self.file
    }

    pub(super) async fn next(&mut self) -> Result<Result<Frame, End>, JournalError> {
        if self.at == self.file.size() {
            return Ok(Err(End::Clean));
        }
        if let Some(frame) = self.frame_at(self.at).await? {
            self.at += frame.size_bytes();
            return Ok(Ok(frame));
        }
        let behind = self.frame_behind().await?;
        Ok(Err(if behind.is_some() { End::Damaged } else { End::Torn }))
    }

    /// Returns the next whole frame, whatever lies before it.
    pub(super) async fn next_sound(&mut self) -> Result<Option<Frame>, JournalError> {
        let (at, frame) = match self.frame_at(self.at).await? {
            Some(frame) => (self.at, frame),
            None => match self.frame_behind().await? {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        self.at = at + frame.size_bytes();
        Ok(Some(frame))
    }

    async fn frame_at(&self, at: u64) -> Result<Option<Frame>, JournalError> {
        let head = self.read(at, FRAME_HEAD_BYTES).await?;
        let Some(head) = head.first_chunk::<FRAME_HEAD_BYTES>() else { return Ok(None) };
        let mut fields = Unpack(&head[4..]);
        let (size, entry_count) = (fields.u32().unwrap_or(0), fields.u32().unwrap_or(0));
        let (sequence, first_lsn) = (fields.u32().unwrap_or(0), fields.u64().unwrap_or(0));
        let left = self.file.size().saturating_sub(at + FRAME_HEAD_BYTES as u64);
        if head[..4] != MAGIC
            || sequence != self.name.sequence as u32
            || size as usize > FRAME_BYTES_MAX
            || u64::from(size) > left
        {
            return Ok(None);
        }
        let payload = self.read(at + FRAME_HEAD_BYTES as u64, size as usize).await?;
        let checksum = xxh3_64_with_seed(&payload, xxh3_64(&head[..24]));
        let is_whole = payload.len() == size as usize && head[24..] == checksum.to_le_bytes();
        Ok(is_whole.then_some(Frame { first_lsn, entry_count, payload }))
    }

    /// Looks for a whole frame behind the place where one should be; returns where it is, and the
    /// frame.
    async fn frame_behind(&self) -> Result<Option<(u64, Frame)>, JournalError> {
        let mut at = self.at + 1;
        while at < self.file.size() {
            let piece = self.read(at, FRAME_SCAN_BYTES).await?;
            for found in memchr::memmem::find_iter(&piece, &MAGIC) {
                let at = at + found as u64;
                if let Some(frame) = self.frame_at(at).await? {
                    return Ok(Some((at, frame)));
                }
            }
            // A magic may lie across two pieces.
            let step = piece.len().saturating_sub(MAGIC.len() - 1).max(1);
            at += step as u64;
        }
        Ok(None)
    }

    async fn read(&self, at: u64, size: usize) -> Result<Vec<u8>, JournalError> {
        self.file.read_at(at, size).await.map_err(JournalError::disk("read", &self.name.text()))
    }
}

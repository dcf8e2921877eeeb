//! Writes a run. Fingerprints flow in, in ascending order; blocks flow to the end of a new file.
//!
//! Nothing of a run is used before [`RunWriter::finish`] has synced the file and its directory. The
//! caller removes a run that could not be finished.

use super::SeenError;
use super::run::{
    BLOCK_COUNT_MAX, BLOCK_HEAD_BYTES, Run, Trailer, block_checksum, header, name_of,
};
use crate::base::limits::{SEEN_BLOCK_BYTES, SEEN_TRANSFER_BYTES};
use crate::io::{Disk, File};
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub(super) struct RunWriter<F> {
    serial: u64,
    file: F,
    /// Whole blocks, and the one being filled.
    buffer: Vec<u8>,
    /// Where the block being filled begins, and how many fingerprints are in it.
    block_start: usize,
    block_count: usize,
    index: Vec<u128>,
    count: u64,
    last: u128,
}

impl<F: File> RunWriter<F> {
    pub(super) async fn create<D: Disk<File = F>>(
        disk: &D,
        directory: &Path,
        serial: u64,
    ) -> Result<RunWriter<F>, SeenError> {
        let name = name_of(serial);
        let file = disk.create(&directory.join(&name)).await;
        let file = file.map_err(|error| SeenError::disk("create", &name, error))?;
        let writer = RunWriter {
            serial,
            file,
            buffer: Vec::with_capacity(SEEN_TRANSFER_BYTES + SEEN_BLOCK_BYTES),
            block_start: 0,
            block_count: 0,
            index: Vec::new(),
            count: 0,
            last: 0,
        };
        writer.append(header(serial)).await?;
        Ok(writer)
    }

    /// Adds the next fingerprint; leaves out one that equals the last. Returns true if it is time
    /// to `flush`.
    pub(super) fn push(&mut self, fingerprint: u128) -> bool {
        if self.count > 0 && fingerprint <= self.last {
            assert_eq!(fingerprint, self.last, "runs are sorted");
            return false;
        }
        if self.block_count == 0 {
            self.index.push(fingerprint);
            self.block_start = self.buffer.len();
            self.buffer.extend_from_slice(&[0; BLOCK_HEAD_BYTES]);
        }
        self.buffer.extend_from_slice(&fingerprint.to_le_bytes());
        self.block_count += 1;
        self.count += 1;
        self.last = fingerprint;
        if self.block_count == BLOCK_COUNT_MAX {
            self.seal_block();
        }
        self.block_count == 0 && self.buffer.len() >= SEEN_TRANSFER_BYTES
    }

    /// Appends the whole blocks; returns how many bytes they were.
    pub(super) async fn flush(&mut self) -> Result<usize, SeenError> {
        debug_assert_eq!(self.block_count, 0, "only whole blocks are written");
        let full = std::mem::take(&mut self.buffer);
        let size_bytes = full.len();
        self.buffer = self.append(full).await?;
        self.buffer.clear();
        Ok(size_bytes)
    }

    /// Makes the run durable and ready to be read.
    pub(super) async fn finish<D: Disk<File = F>>(
        mut self,
        disk: &D,
        directory: &Path,
    ) -> Result<Run<F>, SeenError> {
        assert!(self.count > 0, "an empty run is never begun");
        if self.block_count > 0 {
            self.seal_block();
        }
        self.flush().await?;
        let mut tail: Vec<u8> = self.index.iter().flat_map(|first| first.to_le_bytes()).collect();
        let trailer = Trailer {
            block_count: u32::try_from(self.index.len()).expect("bounded by the disk's size"),
            count: self.count,
            last: self.last,
            index_checksum: xxh3_64_with_seed(&tail, self.serial),
        };
        tail.extend_from_slice(&trailer.write());
        self.append(tail).await?;
        let name = name_of(self.serial);
        self.file.sync().await.map_err(|error| SeenError::disk("sync", &name, error))?;
        let synced = disk.sync_dir(directory).await;
        synced.map_err(|error| SeenError::disk("sync the directory of", &name, error))?;
        let RunWriter { serial, file, index, count, last, .. } = self;
        Ok(Run { serial, count, last, index, file })
    }

    fn seal_block(&mut self) {
        let number = u32::try_from(self.index.len() - 1).expect("bounded by the disk's size");
        self.buffer.resize(self.block_start + SEEN_BLOCK_BYTES, 0);
        let block = &mut self.buffer[self.block_start..];
        block[8..12].copy_from_slice(&(self.block_count as u32).to_le_bytes());
        block[12..16].copy_from_slice(&number.to_le_bytes());
        let checksum = block_checksum(&block[8..], self.serial);
        block[..8].copy_from_slice(&checksum.to_le_bytes());
        self.block_count = 0;
    }

    async fn append(&self, bytes: Vec<u8>) -> Result<Vec<u8>, SeenError> {
        let appended = self.file.append(bytes).await;
        appended.map_err(|error| SeenError::disk("write", &name_of(self.serial), error))
    }
}

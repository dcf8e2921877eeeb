//! A run: a file of sorted fingerprints, written once, read many times, never changed.
//!
//! | part | bytes | what |
//! |---|---|---|
//! | header | 4,096 | magic, version, block size, serial, checksum; zeros up to a page |
//! | blocks | 4,096 each | checksum, count, block number; fingerprints, little-endian; zeros |
//! | index | 16 a block | the first fingerprint of each block |
//! | trailer | 64 | magic, version, block count, count, last fingerprint, checksums |
//!
//! A block's checksum (xxh3, against decay) is seeded with the run's serial and covers the block's
//! number, so a block in the wrong place, or of another file, is damage too. The index stays in RAM
//! and takes half a bit a URL. Invariant: everything of an open [`Run`] was checked but its blocks,
//! and each block is checked when it is read.

use super::SeenError;
use crate::base::limits::{SEEN_BLOCK_BYTES, SEEN_INDEX_BYTES_MAX};
use crate::base::pack::{Pack, Unpack};
use crate::io::{Disk, File};
use std::path::Path;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

pub(super) const VERSION: u32 = 2;
pub(super) const HEADER_MAGIC: [u8; 8] = *b"nephseen";
pub(super) const TRAILER_MAGIC: [u8; 8] = *b"nephtail";
pub(super) const HEADER_BYTES: usize = 4_096;
pub(super) const TRAILER_BYTES: usize = 64;
pub(super) const BLOCK_HEAD_BYTES: usize = 16;
pub(super) const FINGERPRINT_BYTES: usize = 16;
pub(super) const BLOCK_COUNT_MAX: usize = (SEEN_BLOCK_BYTES - BLOCK_HEAD_BYTES) / FINGERPRINT_BYTES;

/// What a checkpoint keeps of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunImage {
    pub name: String,
    pub count: u64,
    pub first: u128,
    pub last: u128,
}

impl RunImage {
    pub fn pack(&self, pack: &mut Pack<'_>) {
        pack.text(&self.name);
        pack.u64(self.count);
        pack.u128(self.first);
        pack.u128(self.last);
    }

    pub fn unpack(image: &[u8]) -> Option<RunImage> {
        let mut image = Unpack(image);
        let (name, count) = (image.text()?.to_owned(), image.u64()?);
        let run = RunImage { name, count, first: image.u128()?, last: image.u128()? };
        image.is_empty().then_some(run)
    }
}

pub(super) struct Run<F> {
    pub(super) serial: u64,
    pub(super) count: u64,
    pub(super) last: u128,
    /// The first fingerprint of each block; never empty.
    pub(super) index: Vec<u128>,
    pub(super) file: F,
}

impl<F: File> Run<F> {
    /// Opens a run and checks all but its blocks, which are checked as they are read.
    pub(super) async fn open<D: Disk<File = F>>(
        disk: &D,
        directory: &Path,
        image: &RunImage,
    ) -> Result<Run<F>, SeenError> {
        let name = image.name.as_str();
        let damaged = |what| SeenError::damaged(name, what);
        let failed = |error| SeenError::disk("open", name, error);
        let serial = serial_of(name).ok_or(damaged("the name is not a run's"))?;
        let file = disk.open(&directory.join(name)).await.map_err(failed)?;
        let header = file.read_at(0, HEADER_BYTES).await.map_err(failed)?;
        check_header(&header, serial).map_err(damaged)?;
        let size = file.size();
        let trailer_at =
            size.checked_sub(TRAILER_BYTES as u64).ok_or(damaged("the file is too short"))?;
        let trailer = file.read_at(trailer_at, TRAILER_BYTES).await.map_err(failed)?;
        let trailer = Trailer::read(&trailer).ok_or(damaged("the trailer is damaged"))?;
        let index_bytes = u64::from(trailer.block_count) * FINGERPRINT_BYTES as u64;
        let index_at = block_offset(trailer.block_count);
        if index_bytes > SEEN_INDEX_BYTES_MAX || index_at + index_bytes != trailer_at {
            return Err(damaged("the size is not what the trailer says"));
        }
        let index = file.read_at(index_at, index_bytes as usize).await.map_err(failed)?;
        if index.is_empty() || xxh3_64_with_seed(&index, serial) != trailer.index_checksum {
            return Err(damaged("the index is damaged"));
        }
        let index: Vec<u128> = fingerprints(&index).collect();
        let run = Run { serial, count: trailer.count, last: trailer.last, index, file };
        if run.image() != *image {
            return Err(damaged("the checkpoint names another run"));
        }
        Ok(run)
    }
}

impl<F> Run<F> {
    pub(super) fn name(&self) -> String {
        name_of(self.serial)
    }

    pub(super) fn image(&self) -> RunImage {
        let first = self.index[0];
        RunImage { name: self.name(), count: self.count, first, last: self.last }
    }

    pub(super) fn block_count(&self) -> usize {
        self.index.len()
    }

    /// Returns the block that holds `fingerprint`, if any does: the last that begins at or before
    /// it.
    pub(super) fn block_of(&self, fingerprint: u128) -> usize {
        self.index.partition_point(|first| *first <= fingerprint).saturating_sub(1)
    }

    /// Returns the fingerprints of block `number`, if the block is sound.
    pub(super) fn block<'b>(
        &self,
        number: usize,
        block: &'b [u8],
    ) -> Result<&'b [[u8; FINGERPRINT_BYTES]], SeenError> {
        let damaged = |what| SeenError::damaged(&self.name(), what);
        if block.len() != SEEN_BLOCK_BYTES {
            return Err(damaged("a block is cut short"));
        }
        let (checksum, rest) = block.split_at(8);
        if checksum != block_checksum(rest, self.serial).to_le_bytes() {
            return Err(damaged("a block is damaged"));
        }
        let count = u32_at(block, 8) as usize;
        if u32_at(block, 12) as usize != number || !(1..=BLOCK_COUNT_MAX).contains(&count) {
            return Err(damaged("a block is in the wrong place"));
        }
        let found = &block[BLOCK_HEAD_BYTES..].as_chunks().0[..count];
        if u128::from_le_bytes(found[0]) != self.index[number] {
            return Err(damaged("a block does not begin as the index says"));
        }
        Ok(found)
    }
}

pub(super) struct Trailer {
    pub(super) block_count: u32,
    pub(super) count: u64,
    pub(super) last: u128,
    pub(super) index_checksum: u64,
}

impl Trailer {
    pub(super) fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(TRAILER_BYTES);
        bytes.extend_from_slice(&TRAILER_MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.block_count.to_le_bytes());
        bytes.extend_from_slice(&self.count.to_le_bytes());
        bytes.extend_from_slice(&self.last.to_le_bytes());
        bytes.extend_from_slice(&self.index_checksum.to_le_bytes());
        bytes.resize(TRAILER_BYTES - 8, 0);
        bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Trailer> {
        let (body, checksum) = bytes.split_last_chunk::<8>()?;
        let is_sound = bytes.len() == TRAILER_BYTES
            && xxh3_64(body).to_le_bytes() == *checksum
            && body.starts_with(&TRAILER_MAGIC)
            && u32_at(body, 8) == VERSION;
        is_sound.then(|| Trailer {
            block_count: u32_at(body, 12),
            count: u64_at(body, 16),
            last: u128::from(u64_at(body, 24)) | u128::from(u64_at(body, 32)) << 64,
            index_checksum: u64_at(body, 40),
        })
    }
}

pub(super) fn header(serial: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    bytes.extend_from_slice(&HEADER_MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&(SEEN_BLOCK_BYTES as u32).to_le_bytes());
    bytes.extend_from_slice(&serial.to_le_bytes());
    bytes.resize(HEADER_BYTES - 8, 0);
    bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
    bytes
}

fn check_header(found: &[u8], serial: u64) -> Result<(), &'static str> {
    match () {
        () if found == header(serial) => Ok(()),
        () if !found.starts_with(&HEADER_MAGIC) || found.len() < HEADER_BYTES => {
            Err("the file is not a run of fingerprints")
        }
        () if u32_at(found, 8) != VERSION => Err("another version wrote this run"),
        () => Err("the header is damaged"),
    }
}

/// Computes the checksum of a block over its number, its count, its fingerprints and the zeros
/// behind them.
pub(super) fn block_checksum(behind_checksum: &[u8], serial: u64) -> u64 {
    xxh3_64_with_seed(behind_checksum, serial)
}

pub(super) fn block_offset(block: u32) -> u64 {
    HEADER_BYTES as u64 + u64::from(block) * SEEN_BLOCK_BYTES as u64
}

pub(super) fn fingerprints(bytes: &[u8]) -> impl Iterator<Item = u128> {
    bytes.as_chunks().0.iter().map(|bytes| u128::from_le_bytes(*bytes))
}

pub(super) fn name_of(serial: u64) -> String {
    format!("seen-{serial:06}.run")
}

pub(super) fn serial_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("seen-")?.strip_suffix(".run")?;
    let serial = digits.parse().ok()?;
    (name_of(serial) == name).then_some(serial)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

//! A chunk: some of a host's records of one class, as they lie in a segment.
//!
//! | part | bytes | what |
//! |---|---|---|
//! | checksum | 8 | xxh3 of all that follows, seeded with segment and offset, against decay |
//! | host | 8 | the host's key |
//! | size, count | 2 + 2 | of the records |
//! | magic | 4 | |
//! | records | size | as [`crate::crawl::frontier::packed`] has them |
//!
//! Because of the seed, a chunk in the wrong place or of another file is damage too. Records name
//! their origin by its index among the host's origins: a chunk is read together with its host,
//! never alone.

use crate::proto::url::HostKey;
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub(super) const HEADER_BYTES: usize = 24;
const MAGIC: [u8; 4] = *b"chnk";

/// Where a chunk lies, and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRef {
    pub segment: u32,
    pub offset: u32,
    /// Bytes of its records.
    pub size: u16,
    pub count: u16,
}

const _: () = assert!(size_of::<ChunkRef>() <= 16);

impl ChunkRef {
    /// Returns the bytes that the chunk takes in its segment.
    pub(super) fn footprint(self) -> u64 {
        u64::from(self.size) + HEADER_BYTES as u64
    }

    fn seed(self) -> u64 {
        u64::from(self.segment) << 32 | u64::from(self.offset)
    }
}

/// Writes the header into its place before the records; `bytes` is the whole chunk.
pub(super) fn seal(bytes: &mut [u8], chunk: ChunkRef, key: HostKey) {
    bytes[8..16].copy_from_slice(&key.0.to_le_bytes());
    bytes[16..18].copy_from_slice(&chunk.size.to_le_bytes());
    bytes[18..20].copy_from_slice(&chunk.count.to_le_bytes());
    bytes[20..24].copy_from_slice(&MAGIC);
    let checksum = xxh3_64_with_seed(&bytes[8..], chunk.seed());
    bytes[..8].copy_from_slice(&checksum.to_le_bytes());
}

/// Returns the host's key and the chunk whose header `bytes` begin with; `None` if they begin with
/// no header. Only [`records`] proves the chunk right.
pub(super) fn header(bytes: &[u8], segment: u32, offset: u32) -> Option<(HostKey, ChunkRef)> {
    let (head, _) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    if head[20..24] != MAGIC {
        return None;
    }
    let key = head[8..16].first_chunk().map(|key| HostKey(u64::from_le_bytes(*key)))?;
    let size = u16::from_le_bytes([head[16], head[17]]);
    let count = u16::from_le_bytes([head[18], head[19]]);
    Some((key, ChunkRef { segment, offset, size, count }))
}

/// Returns the records of `chunk`. `bytes` must be that chunk, whole and unchanged.
pub(super) fn records(bytes: &[u8], chunk: ChunkRef, key: HostKey) -> Result<&[u8], &'static str> {
    let (written_key, written) =
        header(bytes, chunk.segment, chunk.offset).ok_or("a chunk has no header")?;
    let checksum = xxh3_64_with_seed(&bytes[8..], chunk.seed());
    if bytes.len() as u64 != chunk.footprint() || bytes[..8] != checksum.to_le_bytes() {
        return Err("a chunk is damaged");
    }
    if written != chunk || written_key != key {
        return Err("a chunk is not the expected one");
    }
    Ok(&bytes[HEADER_BYTES..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_read_as_itself_and_as_no_other() {
        let chunk = ChunkRef { segment: 3, offset: 4_096, size: 5, count: 1 };
        let (key, mut bytes) = (HostKey(77), vec![0; HEADER_BYTES]);
        bytes.extend_from_slice(b"hello");
        seal(&mut bytes, chunk, key);
        assert_eq!(header(&bytes, 3, 4_096), Some((key, chunk)));
        assert_eq!(records(&bytes, chunk, key), Ok(&b"hello"[..]));
        let elsewhere = ChunkRef { offset: 4_097, ..chunk };
        assert_eq!(records(&bytes, elsewhere, key), Err("a chunk is damaged"));
        assert_eq!(records(&bytes, chunk, HostKey(78)), Err("a chunk is not the expected one"));
        let other = ChunkRef { count: 2, ..chunk };
        assert_eq!(records(&bytes, other, key), Err("a chunk is not the expected one"));
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            assert!(records(&flipped, chunk, key).is_err(), "byte {at}");
            assert!(records(&bytes[..at], chunk, key).is_err(), "cut at {at}");
        }
    }
}

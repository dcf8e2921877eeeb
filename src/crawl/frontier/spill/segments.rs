//! Segments: the files that chunks lie in, how much of each is in use, and which may be removed.
//!
//! This module owns their sizes, not their bytes. Chunks flow in as they are written and given up.
//! The place of the next chunk flows out, with the segments that are sparse and those that nothing
//! in RAM refers to any more. Invariants: there is at most one open segment a class; a segment in
//! the table is open or has a chunk in use; serials are never used twice. Only its own core touches
//! it.

use super::chunk::ChunkRef;
use super::{TailError, TailLimits};
use crate::base::limits::QUEUE_SPARSE_DIVISOR;
use crate::base::pack::{Pack, Unpack};
use crate::crawl::flow::Class;
use crate::crawl::frontier::leftovers::Leftovers;
use std::collections::{BTreeMap, VecDeque};
use xxhash_rust::xxh3::xxh3_64;

pub(super) const FILE_HEADER_BYTES: usize = 32;
const FILE_MAGIC: [u8; 8] = *b"nephqueu";
const VERSION: u32 = 1;

/// What a checkpoint keeps of a segment. Bytes behind `size_bytes` are not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentImage {
    pub serial: u32,
    pub class: Class,
    pub size_bytes: u64,
}

impl SegmentImage {
    pub fn name(&self) -> String {
        name_of(self.class, self.serial)
    }

    pub fn pack(&self, pack: &mut Pack<'_>) {
        pack.u32(self.serial);
        pack.u8(self.class as u8);
        pack.u64(self.size_bytes);
    }

    pub fn unpack(image: &[u8]) -> Option<SegmentImage> {
        let mut image = Unpack(image);
        let (serial, class) = (image.u32()?, Class::from_number(image.u8()?)?);
        let segment = SegmentImage { serial, class, size_bytes: image.u64()? };
        image.is_empty().then_some(segment)
    }
}

pub(super) struct Segment {
    pub class: Class,
    /// Bytes of the file, with what is being written.
    pub size_bytes: u64,
    /// Bytes that are proven durable.
    pub synced_bytes: u64,
    live_bytes: u64,
    is_sealed: bool,
    is_listed_sparse: bool,
}

pub(super) struct Segments {
    table: BTreeMap<u32, Segment>,
    open: [Option<u32>; 4],
    next_serial: u32,
    sparse: VecDeque<u32>,
    pub leftovers: Leftovers,
    live_bytes: u64,
    sealed_bytes: u64,
}

impl Segments {
    pub fn new() -> Segments {
        Segments {
            table: BTreeMap::new(),
            open: [None; 4],
            next_serial: 1,
            sparse: VecDeque::new(),
            leftovers: Leftovers::default(),
            live_bytes: 0,
            sealed_bytes: 0,
        }
    }

    /// Returns the open segment of a class; begins one if there is none.
    pub fn open_for(&mut self, class: Class) -> u32 {
        if let Some(serial) = self.open[class.index()] {
            return serial;
        }
        let serial = self.next_serial;
        self.next_serial += 1;
        let segment = Segment {
            class,
            size_bytes: 0,
            synced_bytes: 0,
            live_bytes: 0,
            is_sealed: false,
            is_listed_sparse: false,
        };
        self.table.insert(serial, segment);
        self.open[class.index()] = Some(serial);
        serial
    }

    pub fn segment(&self, serial: u32) -> Option<&Segment> {
        self.table.get(&serial)
    }

    /// Counts bytes that will be written and are no chunk.
    pub fn add_header(&mut self, serial: u32, size_bytes: usize) {
        self.of(serial).size_bytes += size_bytes as u64;
    }

    /// Counts a chunk that will be written at the end.
    pub fn add(&mut self, chunk: ChunkRef) {
        let segment = self.of(chunk.segment);
        debug_assert_eq!(segment.size_bytes, u64::from(chunk.offset), "chunks follow each other");
        segment.size_bytes += chunk.footprint();
        segment.live_bytes += chunk.footprint();
        self.live_bytes += chunk.footprint();
    }

    /// Counts a chunk that a checkpoint names as in use again.
    pub fn restore(&mut self, chunk: ChunkRef) {
        self.of(chunk.segment).live_bytes += chunk.footprint();
        self.live_bytes += chunk.footprint();
    }

    /// Counts a chunk as no longer in use.
    pub fn release(&mut self, chunk: ChunkRef) {
        self.of(chunk.segment).live_bytes -= chunk.footprint();
        self.live_bytes -= chunk.footprint();
        self.look_at(chunk.segment);
    }

    /// Records that all of a segment is durable; seals it if it is full.
    pub fn synced(&mut self, serial: u32, limits: &TailLimits) {
        let segment = self.of(serial);
        segment.synced_bytes = segment.size_bytes;
        if segment.size_bytes >= limits.segment_bytes {
            let class = segment.class;
            self.open[class.index()] = None;
            self.seal(serial);
        }
    }

    /// Adds a segment of a checkpoint. It is never written to again, though perhaps not full.
    pub fn adopt(&mut self, image: SegmentImage) {
        let size_bytes = image.size_bytes;
        let segment = Segment {
            class: image.class,
            size_bytes,
            synced_bytes: size_bytes,
            live_bytes: 0,
            is_sealed: false,
            is_listed_sparse: false,
        };
        self.table.insert(image.serial, segment);
        self.avoid(image.serial);
    }

    /// Makes sure that this serial is never given out.
    pub fn avoid(&mut self, serial: u32) {
        self.next_serial = self.next_serial.max(serial.saturating_add(1));
    }

    /// Ends the adoption when all chunks of the checkpoint are restored: adopted segments without a
    /// chunk may be removed.
    pub fn end_adoption(&mut self) {
        let is_adopted = |serial: &u32| !self.open.contains(&Some(*serial));
        let adopted: Vec<u32> = self.table.keys().copied().filter(is_adopted).collect();
        for serial in adopted {
            if !self.of(serial).is_sealed {
                self.seal(serial);
            }
        }
    }

    /// Returns the next sparse segment to be compacted that is still in the table.
    pub fn next_sparse(&mut self) -> Option<u32> {
        loop {
            let serial = self.sparse.pop_front()?;
            if self.table.contains_key(&serial) {
                return Some(serial);
            }
        }
    }

    pub fn has_sparse(&self) -> bool {
        !self.sparse.is_empty()
    }

    pub fn images(&self) -> Vec<SegmentImage> {
        let durable = self.table.iter().filter(|(_, segment)| segment.synced_bytes > 0);
        let image = |(serial, segment): (&u32, &Segment)| SegmentImage {
            serial: *serial,
            class: segment.class,
            size_bytes: segment.synced_bytes,
        };
        durable.map(image).collect()
    }

    pub fn count(&self) -> usize {
        self.table.len()
    }

    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Returns the bytes that the segments in the table take; those to be removed are not counted.
    pub fn disk_bytes(&self) -> u64 {
        let open = self.open.iter().flatten().filter_map(|serial| self.table.get(serial));
        self.sealed_bytes + open.map(|segment| segment.size_bytes).sum::<u64>()
    }

    fn seal(&mut self, serial: u32) {
        let segment = self.of(serial);
        segment.is_sealed = true;
        self.sealed_bytes += self.of(serial).size_bytes;
        self.look_at(serial);
    }

    /// Lists a sealed segment that has become sparse, or drops one that is not in use at all.
    fn look_at(&mut self, serial: u32) {
        let segment = self.of(serial);
        if !segment.is_sealed {
            return;
        }
        if segment.live_bytes == 0 {
            let (class, size_bytes) = (segment.class, segment.size_bytes);
            self.table.remove(&serial);
            self.sealed_bytes -= size_bytes;
            self.leftovers.supersede([name_of(class, serial)]);
        } else if segment.live_bytes * QUEUE_SPARSE_DIVISOR < segment.size_bytes
            && !segment.is_listed_sparse
        {
            segment.is_listed_sparse = true;
            self.sparse.push_back(serial);
        }
    }

    fn of(&mut self, serial: u32) -> &mut Segment {
        self.table.get_mut(&serial).expect("a segment with a chunk in use is in the table")
    }
}

pub(super) fn name_of(class: Class, serial: u32) -> String {
    format!("queue-{}-{serial:06}.seg", class.index())
}

/// Returns class and serial of a segment's name; `None` for other files.
pub(super) fn serial_of(name: &str) -> Option<(Class, u32)> {
    let rest = name.strip_prefix("queue-")?.strip_suffix(".seg")?;
    let (class, serial) = rest.split_once('-')?;
    let class = Class::ALL.get(class.parse::<usize>().ok()?)?;
    let serial = serial.parse().ok()?;
    (name_of(*class, serial) == name).then_some((*class, serial))
}

pub(super) fn file_header(class: Class, serial: u32) -> [u8; FILE_HEADER_BYTES] {
    let mut header = [0; FILE_HEADER_BYTES];
    header[..8].copy_from_slice(&FILE_MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&serial.to_le_bytes());
    header[16] = class.index() as u8;
    let checksum = xxh3_64(&header[..24]);
    header[24..].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// Checks that `bytes` begin with the header of the segment that `name` names.
pub(super) fn check_file_header(bytes: &[u8], name: &str) -> Result<(), TailError> {
    let expected = serial_of(name).map(|(class, serial)| file_header(class, serial));
    if expected.is_some_and(|expected| bytes.starts_with(&expected)) {
        return Ok(());
    }
    Err(TailError::damaged(name, "the header is damaged"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: TailLimits = TailLimits { segment_bytes: 10_000, ..TailLimits::sized(1 << 20) };

    fn fill(segments: &mut Segments, class: Class) -> Vec<ChunkRef> {
        let serial = segments.open_for(class);
        let mut chunks = Vec::new();
        while segments.segment(serial).is_some_and(|of| of.size_bytes < LIMITS.segment_bytes) {
            let offset = segments.segment(serial).map_or(0, |of| of.size_bytes) as u32;
            let chunk = ChunkRef { segment: serial, offset, size: 976, count: 20 };
            segments.add(chunk);
            chunks.push(chunk);
        }
        segments.synced(serial, &LIMITS);
        chunks
    }

    #[test]
    fn a_sealed_segment_is_listed_when_sparse_and_goes_when_nothing_is_in_use() {
        let mut segments = Segments::new();
        let chunks = fill(&mut segments, Class::Low);
        assert_eq!(chunks.len(), 10);
        assert_ne!(segments.open_for(Class::Low), chunks[0].segment, "sealed");
        chunks[..7].iter().for_each(|chunk| segments.release(*chunk));
        assert_eq!(segments.next_sparse(), None, "three of ten are more than a quarter");
        segments.release(chunks[7]);
        assert_eq!(segments.next_sparse(), Some(chunks[0].segment));
        assert_eq!((segments.live_bytes(), segments.disk_bytes()), (2_000, 10_000));
        chunks[8..].iter().for_each(|chunk| segments.release(*chunk));
        assert_eq!((segments.live_bytes(), segments.disk_bytes()), (0, 0));
        assert_eq!(segments.leftovers.superseded(), ["queue-3-000001.seg"]);
    }

    #[test]
    fn an_open_segment_stays_though_nothing_in_it_is_in_use() {
        let mut segments = Segments::new();
        let serial = segments.open_for(Class::High);
        let chunk = ChunkRef { segment: serial, offset: 0, size: 976, count: 20 };
        segments.add(chunk);
        segments.release(chunk);
        assert_eq!(segments.open_for(Class::High), serial);
        assert!(segments.leftovers.superseded().is_empty());
    }

    #[test]
    fn a_name_is_read_back_and_no_other_files_is() {
        for class in Class::ALL {
            let name = name_of(class, 1_234_567);
            assert_eq!(serial_of(&name), Some((class, 1_234_567)));
            assert_eq!(check_file_header(&file_header(class, 1_234_567), &name), Ok(()));
            assert!(check_file_header(&file_header(class, 1_234_568), &name).is_err());
        }
        for name in ["queue-4-000001.seg", "queue-0-1.seg", "queue-0-000001.run", "seen-000001.run"]
        {
            assert_eq!(serial_of(name), None, "{name}");
        }
    }
}

//! What a checkpoint keeps of the tails, and how a restart makes tails of it again.
//!
//! A checkpoint names the segments and, in each host's image ([`crate::crawl::frontier`] makes it),
//! the chunks between head and `behind`. A restart begins with [`open`] and
//! [`Frontier::adopt_segments`], and ends with [`Frontier::end_adoption`].

use super::chunk;
use super::segments::{check_file_header, serial_of};
use super::{ChunkRef, Files, Place, SegmentImage, TailError};
use crate::crawl::flow::Class;
use crate::crawl::frontier::host::HostId;
use crate::crawl::frontier::{Frontier, Sieve};
use crate::io::{Disk, File};
use crate::proto::url::HostKey;
use std::path::Path;

/// The segments that a checkpoint names, and the first serial that no file has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TailImage {
    pub segments: Vec<SegmentImage>,
    pub serial_min: u32,
    /// Files that only another checkpoint may name.
    pub unnamed: Vec<String>,
}

/// Opens the directory of the segments, which is created if it is missing. Checks that the segments
/// of the checkpoint are there; their chunks are checked when they are read. Segments that it does
/// not name are superseded: they are removed when no checkpoint that names them can be fallen back
/// upon.
pub async fn open<D: Disk>(
    disk: &D,
    directory: &Path,
    segments: Vec<SegmentImage>,
) -> Result<TailImage, TailError> {
    let failed = |doing| move |error| TailError::disk(doing, "the queues", error);
    disk.create_dir(directory).await.map_err(failed("make the directory of"))?;
    let mut serial_min = 1;
    let mut unnamed = Vec::new();
    for name in disk.list(directory).await.map_err(failed("list"))? {
        let Some((_, serial)) = serial_of(&name) else { continue };
        serial_min = serial_min.max(serial.saturating_add(1));
        if segments.iter().all(|segment| segment.name() != name) {
            unnamed.push(name);
        }
    }
    for segment in &segments {
        check_segment(disk, directory, segment).await?;
    }
    Ok(TailImage { segments, serial_min, unnamed })
}

/// Reads the records of a chunk of host `key` by itself, for a host that moves to another core.
pub async fn read_chunk<D: Disk>(
    disk: &D,
    files: &Files<D::File>,
    (class, chunk): (Class, ChunkRef),
    key: HostKey,
) -> Result<Vec<u8>, TailError> {
    let name = super::segments::name_of(class, chunk.segment);
    let file = files.segment(disk, class, chunk.segment).await?;
    let bytes = file.read_at(chunk.offset.into(), chunk.footprint() as usize).await;
    let bytes = bytes.map_err(|error| TailError::disk("read", &name, error))?;
    let records = chunk::records(&bytes, chunk, key);
    Ok(records.map_err(|what| TailError::damaged(&name, what))?.to_vec())
}

/// Checks that a segment is there, with its header and as long as it should be.
pub async fn check_segment<D: Disk>(
    disk: &D,
    directory: &Path,
    segment: &SegmentImage,
) -> Result<(), TailError> {
    let name = segment.name();
    let failed = |error| TailError::disk("open", &name, error);
    let file = disk.open(&directory.join(&name)).await.map_err(failed)?;
    let header = file.read_at(0, super::segments::FILE_HEADER_BYTES).await.map_err(failed)?;
    check_file_header(&header, &name)?;
    if file.size() < segment.size_bytes {
        return Err(TailError::damaged(&name, "the file is shorter than the checkpoint says"));
    }
    Ok(())
}

impl<S: Sieve, X: Default> Frontier<S, X> {
    /// Begins or ends a hold of the tails. While they are held, no queue goes to disk and no chunk
    /// is moved; a batch that is on its way is written, and reads go on. A checkpoint needs this,
    /// because it can only name what is durable.
    pub fn hold_tails(&mut self, is_held: bool) {
        self.tails.is_held = is_held;
    }

    /// Reports whether every chunk is durable. This stays so while the tails are held.
    pub fn are_tails_durable(&self) -> bool {
        self.tails.batch.is_none()
    }

    /// Returns the chunks of a host, by class, in order. [`Frontier::are_tails_durable`] must hold.
    pub fn tail_image(&self, host: HostId) -> [Vec<ChunkRef>; 4] {
        assert!(self.are_tails_durable(), "a checkpoint names no chunk that may be lost");
        Class::ALL.map(|class| {
            let tail = self.tails.tails.get(&Place::new(host, class));
            tail.map_or_else(Vec::new, |tail| tail.chunks.iter().copied().collect())
        })
    }

    /// Returns the segments that the chunks of all hosts lie in.
    pub fn segment_images(&self) -> Vec<SegmentImage> {
        self.tails.segments.images()
    }

    /// Adopts the segments that [`open`] found, after a restart.
    pub fn adopt_segments(&mut self, image: &TailImage) {
        self.tails.segments.avoid(image.serial_min.saturating_sub(1));
        image.segments.iter().for_each(|segment| self.tails.segments.adopt(*segment));
        self.tails.segments.leftovers.supersede(image.unnamed.iter().cloned());
    }

    /// Restores chunks of a host after a restart, behind what was restored of the class before.
    /// Returns an error if they lie in none of the segments that were adopted.
    pub fn restore_tail(
        &mut self,
        host: HostId,
        class: Class,
        chunks: &[ChunkRef],
    ) -> Result<(), TailError> {
        for chunk in chunks {
            let segment = self.tails.segments.segment(chunk.segment);
            let end = u64::from(chunk.offset) + chunk.footprint();
            if segment.is_none_or(|of| of.class != class || end > of.synced_bytes) {
                let name = super::segments::name_of(class, chunk.segment);
                return Err(TailError::damaged(&name, "a chunk lies outside of the segment"));
            }
        }
        if chunks.is_empty() {
            return Ok(());
        }
        let restored = &mut self.hosts[host];
        assert!(!restored.is_tailed(class), "a tail is restored once");
        restored.set_tailed(class, true);
        let tail = self.tails.tails.entry(Place::new(host, class)).or_default();
        tail.chunks.extend(chunks);
        for chunk in chunks {
            self.tails.segments.restore(*chunk);
            self.tails.figures.url_count += u64::from(chunk.count);
            restored.queued_count += u32::from(chunk.count);
        }
        let url_count = chunks.iter().map(|chunk| u64::from(chunk.count)).sum();
        let size_bytes = chunks.iter().map(|chunk| usize::from(chunk.size)).sum();
        self.pushed(host, class, url_count, size_bytes);
        Ok(())
    }

    /// Ends the restore after a restart: every tail is restored, so a segment without a chunk may
    /// be removed.
    pub fn end_adoption(&mut self) {
        self.tails.segments.end_adoption();
    }
}

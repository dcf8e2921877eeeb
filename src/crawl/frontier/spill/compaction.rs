//! Compaction: a segment of which little is in use has its live chunks moved, so that its file can
//! be removed.
//!
//! Nothing in RAM says what lies in a segment; the segment itself does. It is read piece by piece,
//! and for each chunk in it the host is asked whether the chunk is still one of its own.

use super::jobs::Work;
use super::segments::{FILE_HEADER_BYTES, name_of};
use super::{ChunkRef, Compacting, Lane, Place, Refill, TailError, Tails, chunk};
use crate::crawl::flow::Class;
use crate::crawl::frontier::{Frontier, Sieve};
use crate::proto::url::HostKey;

impl Tails {
    pub(super) fn has_compaction(&self) -> bool {
        !self.is_held && (self.compacting.is_some() || self.segments.has_sparse())
    }

    /// Returns the job that reads the next piece of the segment under compaction, or of the next
    /// one.
    pub(super) fn compaction_due(&mut self) -> Option<Work> {
        if self.is_held {
            return None;
        }
        loop {
            if self.compacting.is_none() {
                let serial = self.segments.next_sparse()?;
                let class = self.segments.segment(serial)?.class;
                // A batch is of one class: a batch of another class that is being filled goes
                // first.
                if self.batch.as_ref().is_some_and(|batch| batch.class != class) {
                    self.compacting =
                        Some(Compacting { class, serial, offset: FILE_HEADER_BYTES as u64 });
                    return self.write_batch();
                }
                self.compacting =
                    Some(Compacting { class, serial, offset: FILE_HEADER_BYTES as u64 });
            }
            let &Compacting { class, serial, offset } = self.compacting.as_ref()?;
            // All that was in use may have been read or dropped meanwhile.
            let size_bytes = self.segments.segment(serial).map_or(0, |segment| segment.size_bytes);
            if offset >= size_bytes {
                self.compacting = None;
                continue;
            }
            let size_bytes =
                (size_bytes - offset).min(self.limits.compaction_bytes as u64) as usize;
            self.lane = Some(Lane::Compact);
            return Some(Work::Compact { class, serial, offset, size_bytes });
        }
    }
}

impl<S: Sieve, X: Default> Frontier<S, X> {
    /// Moves the chunks of a piece that are in use into the batch.
    pub(super) fn end_compaction(
        &mut self,
        offset: u64,
        read: Result<Vec<u8>, TailError>,
    ) -> Result<(), TailError> {
        assert!(self.tails.lane.take() == Some(Lane::Compact), "jobs end once");
        let piece = read?;
        let Some(&Compacting { class, serial, .. }) = self.tails.compacting.as_ref() else {
            return Ok(());
        };
        let Some(segment) = self.tails.segments.segment(serial) else {
            self.tails.compacting = None;
            return Ok(());
        };
        let rest_bytes = segment.size_bytes - offset;
        let damaged = |what| TailError::damaged(&name_of(class, serial), what);
        let mut at = 0;
        while (at as u64) < rest_bytes {
            let chunk_at = u32::try_from(offset).expect("segments are bounded") + at as u32;
            let Some((key, found)) = chunk::header(&piece[at..], serial, chunk_at) else {
                // The end of the piece may cut a header, but no header is longer than a piece.
                let is_cut = at > 0 && piece.len() - at < chunk::HEADER_BYTES;
                if is_cut && (piece.len() as u64) < rest_bytes {
                    break;
                }
                return Err(damaged("a chunk has no header"));
            };
            let end = at + found.footprint() as usize;
            if end > piece.len() {
                if at > 0 && end as u64 <= rest_bytes {
                    break;
                }
                return Err(damaged("a chunk is cut short"));
            }
            self.move_chunk(class, key, found, &piece[at..end]).map_err(damaged)?;
            at = end;
        }
        if let Some(compacting) = &mut self.tails.compacting {
            compacting.offset = offset + at as u64;
        }
        Ok(())
    }

    /// Moves a chunk if a queue still refers to it. The first chunk of a queue that is being read
    /// stays: it will not be in use for long.
    fn move_chunk(
        &mut self,
        class: Class,
        key: HostKey,
        found: ChunkRef,
        bytes: &[u8],
    ) -> Result<(), &'static str> {
        let Some(id) = self.hosts.by_key(key) else { return Ok(()) };
        let place = Place::new(id, class);
        let Some(tail) = self.tails.tails.get(&place) else { return Ok(()) };
        let is_it =
            |chunk: &ChunkRef| (chunk.segment, chunk.offset) == (found.segment, found.offset);
        let Some(index) = tail.chunks.iter().position(is_it) else { return Ok(()) };
        if index == 0 && tail.refill == Refill::Reading {
            return Ok(());
        }
        let old = tail.chunks[index];
        let records = chunk::records(bytes, old, key)?;
        let new = self.tails.write_chunk(class, key, |batch| {
            batch.extend_from_slice(records);
            u32::from(old.count)
        });
        self.tails.tail(place).chunks[index] = new;
        self.tails.segments.release(old);
        self.tails.figures.moved_chunk_count += 1;
        Ok(())
    }
}

//! Batches: decides which queues give up what, and fills the batches by which it reaches the disk.

use super::chunk::{self, ChunkRef, HEADER_BYTES};
use super::jobs::Work;
use super::segments::file_header;
use super::{Batch, Lane, Place, Refill, TailError, Tails};
use crate::base::limits::QUEUE_CHUNK_BYTES_MAX;
use crate::crawl::flow::Class;
use crate::crawl::frontier::host::{Host, HostId, HostState};
use crate::crawl::frontier::packed::PackedQueue;
use crate::crawl::frontier::{Frontier, Sieve};
use crate::proto::url::HostKey;
use std::cmp::Reverse;
use std::rc::Rc;

impl<S: Sieve, X: Default> Frontier<S, X> {
    /// Returns the next job of the batch lane. It writes the batch that is full, torn or waited
    /// for; or it fills one from queues, if they hold too much, or from segments under compaction.
    /// The two sources take turns, a batch each: otherwise a disk that is always behind would never
    /// be compacted.
    pub(super) fn batch_due(&mut self) -> Option<Work> {
        if self.tails.lane.is_some() {
            return None;
        }
        let is_spill_due = self.tails.is_spill_due();
        let has_compaction = self.tails.has_compaction();
        let is_spill_next = is_spill_due && !(self.tails.is_compaction_next && has_compaction);
        let batch_bytes = self.tails.limits.batch_bytes;
        let is_full = |batch: &Batch| batch.is_torn || batch.bytes.len() >= batch_bytes;
        if let Some(batch) = &self.tails.batch
            && (is_full(batch) || is_spill_next || !has_compaction)
        {
            self.tails.is_compaction_next &= batch.is_torn;
            return self.tails.write_batch();
        }
        let work = if is_spill_next { None } else { self.tails.compaction_due() };
        if work.is_some() {
            return work;
        }
        if is_spill_due && self.tails.batch.is_none() {
            self.gather();
            self.tails.is_compaction_next = self.tails.batch.is_some();
        }
        self.tails.write_batch().or_else(|| self.tails.compaction_due())
    }

    /// Fills a batch of one class from the queues whose turn it is to give way.
    fn gather(&mut self) {
        for class in self.tails.classes_to_spill() {
            // Goes round once: a host may have to keep what it has, and stays listed.
            for _ in 0..self.tails.spill_lists[class.index()].len() {
                self.prefetch_spill(&self.tails.spill_lists[class.index()]);
                let Frontier { tails, hosts, .. } = self;
                let Some(id) = tails.spill_lists[class.index()].pop_front() else { break };
                let host = &mut hosts[id];
                host.set_spill_listed(class, false);
                tails.give_up(id, host, class);
                tails.list(id, host, class);
                if tails.batch_room() == 0 {
                    return;
                }
            }
            if self.tails.batch.is_some() {
                return;
            }
        }
    }
}

impl Tails {
    fn is_spill_due(&self) -> bool {
        !self.is_held && self.resident_bytes() > self.limits.resident_bytes_max
    }

    /// Returns the classes in the order in which they spill. The lowest class goes first that holds
    /// a fair part of the RAM; of those that do not, the one that holds most. If the lowest class
    /// always went first, its URLs would be written one by one while better ones fill the RAM.
    fn classes_to_spill(&self) -> [Class; 4] {
        let fair_bytes = self.limits.resident_bytes_max / 8;
        let mut classes = Class::ALL;
        classes.sort_by_key(|class| {
            let resident_bytes = self.resident_bytes[class.index()];
            let is_fair = resident_bytes > fair_bytes;
            Reverse((is_fair, if is_fair { class.index() as u64 } else { resident_bytes }))
        });
        classes
    }

    /// Moves what exceeds a queue's head into the batch, as far as there is room. A host that is
    /// being visited keeps one record at least, or it might never get to ask for it. A queue whose
    /// next chunk is being read keeps its whole head.
    fn give_up<X>(&mut self, id: HostId, host: &mut Host<X>, class: Class) {
        let place = Place::new(id, class);
        let is_read = self.tails.get(&place).is_some_and(|tail| tail.refill == Refill::Reading);
        let is_busy = host.state == HostState::Busy;
        let before = host.head_memory_bytes(class);
        if before > self.limits.head_bytes && !is_read {
            let (head_bytes, room) = (self.limits.head_bytes, self.batch_room());
            let mut back = PackedQueue::default();
            host.move_head(class, |head| {
                let least_bytes = if is_busy { head.front_bytes() } else { 0 };
                back = head.split_back(head_bytes.max(least_bytes), room);
            });
            self.head_changed(class, before, host);
            let chunks = self.write_chunks(class, host.key(), &mut back, usize::MAX);
            if !chunks.is_empty() {
                let tail = self.tails.entry(place).or_default();
                chunks.into_iter().rev().for_each(|chunk| tail.chunks.push_front(chunk));
                host.set_tailed(class, true);
            }
        }
        if !host.is_tailed(class) {
            return;
        }
        let mut behind = std::mem::take(&mut self.tail(place).behind);
        let (before, room) = (behind.memory_bytes(), self.batch_room());
        let chunks = self.write_chunks(class, host.key(), &mut behind, room);
        if behind.count() == 0 {
            behind = PackedQueue::default();
        }
        self.behind_changed(class, before, behind.memory_bytes());
        let tail = self.tail(place);
        tail.chunks.extend(chunks);
        tail.behind = behind;
    }

    /// Writes records into the batch, until all are written or at least `size_max` bytes.
    fn write_chunks(
        &mut self,
        class: Class,
        key: HostKey,
        records: &mut PackedQueue,
        size_max: usize,
    ) -> Vec<ChunkRef> {
        let (mut chunks, mut written) = (Vec::new(), 0);
        while records.count() > 0 && written < size_max {
            let chunk = self
                .write_chunk(class, key, |bytes| records.drain_into(QUEUE_CHUNK_BYTES_MAX, bytes));
            self.figures.spilled_chunk_count += 1;
            self.figures.url_count += u64::from(chunk.count);
            written += usize::from(chunk.size);
            chunks.push(chunk);
        }
        chunks
    }

    /// Adds a chunk to the batch; begins a batch if there is none.
    pub(super) fn write_chunk(
        &mut self,
        class: Class,
        key: HostKey,
        fill: impl FnOnce(&mut Vec<u8>) -> u32,
    ) -> ChunkRef {
        let Tails { batch, segments, limits, .. } = self;
        let batch = batch.get_or_insert_with(|| {
            let serial = segments.open_for(class);
            let base = segments.segment(serial).map_or(0, |segment| segment.size_bytes);
            let mut bytes = Vec::with_capacity(limits.batch_bytes + 2 * QUEUE_CHUNK_BYTES_MAX);
            if base == 0 {
                bytes.extend_from_slice(&file_header(class, serial));
                segments.add_header(serial, bytes.len());
            }
            Batch { class, serial, base, bytes: Rc::new(bytes), is_torn: false }
        });
        assert_eq!(batch.class, class, "a batch is of one class");
        let bytes = Rc::get_mut(&mut batch.bytes).expect("no job has a batch that is being filled");
        let start = bytes.len();
        bytes.resize(start + HEADER_BYTES, 0);
        let count = fill(bytes);
        let chunk = ChunkRef {
            segment: batch.serial,
            offset: u32::try_from(batch.base + start as u64).expect("segments are bounded"),
            size: (bytes.len() - start - HEADER_BYTES) as u16,
            count: u16::try_from(count).expect("chunks are bounded"),
        };
        chunk::seal(&mut bytes[start..], chunk, key);
        segments.add(chunk);
        chunk
    }

    /// Returns the room for records in the batch: for a chunk at least, until it is full.
    fn batch_room(&self) -> usize {
        let used = self.batch.as_ref().map_or(0, |batch| batch.bytes.len());
        match self.limits.batch_bytes.saturating_sub(used) {
            0 => 0,
            room => room.max(QUEUE_CHUNK_BYTES_MAX),
        }
    }

    pub(super) fn write_batch(&mut self) -> Option<Work> {
        let batch = self.batch.as_ref()?;
        self.lane = Some(Lane::Append);
        Some(Work::Append {
            class: batch.class,
            serial: batch.serial,
            base: batch.base,
            bytes: batch.bytes.clone(),
            is_torn: batch.is_torn,
        })
    }

    /// Ends the write of the batch: it is durable, or stays to be written again.
    pub(super) fn end_append(&mut self, appended: Result<(), TailError>) -> Result<(), TailError> {
        assert!(self.lane.take() == Some(Lane::Append), "jobs end once");
        match appended {
            Ok(()) => {
                let batch = self.batch.take().expect("a batch that was written is kept until then");
                self.segments.synced(batch.serial, &self.limits);
                self.figures.batch_count += 1;
                Ok(())
            }
            Err(error) => {
                self.batch.as_mut().expect("a batch that failed is kept").is_torn = true;
                Err(error)
            }
        }
    }
}

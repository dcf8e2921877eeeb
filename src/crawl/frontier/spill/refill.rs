//! Refill: heads that run low get their oldest chunk back.

use super::jobs::Work;
use super::segments::name_of;
use super::{ChunkRef, Place, Refill, TailError, Tails, chunk};
use crate::base::limits::{QUEUE_REFILL_COUNT, QUEUE_REFILL_JOB_COUNT_MAX};
use crate::crawl::frontier::host::{Host, HostId};
use crate::crawl::frontier::packed::are_records;
use crate::crawl::frontier::{Frontier, Sieve};

/// What the end of a job has brought about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Hosts whose next URLs are in RAM again.
    pub refilled: Vec<HostId>,
    pub error: Option<TailError>,
}

impl Ended {
    pub(super) fn after(result: Result<(), TailError>) -> Ended {
        Ended { refilled: Vec::new(), error: result.err() }
    }
}

impl<S: Sieve, X: Default> Frontier<S, X> {
    /// Returns a job that reads for the queues that wait, those whose hosts are being visited
    /// first.
    pub(super) fn refill_due(&mut self) -> Option<Work> {
        if self.tails.refill_job_count >= QUEUE_REFILL_JOB_COUNT_MAX {
            return None;
        }
        let mut wanted = Vec::new();
        while wanted.len() < QUEUE_REFILL_COUNT
            && let Some(place) = self.tails.wanted.pop_front()
        {
            let tail = self.tails.tails.get_mut(&place);
            let Some(tail) = tail.filter(|tail| tail.refill == Refill::Wanted) else { continue };
            let Some(chunk) = tail.chunks.front().copied() else { continue };
            tail.refill = Refill::Reading;
            // A chunk that is not durable yet is still in RAM.
            let bytes = self.tails.in_batch(chunk).map(<[u8]>::to_vec);
            wanted.push((place, chunk, bytes));
        }
        if wanted.is_empty() {
            return None;
        }
        self.tails.refill_job_count += 1;
        Some(Work::Refill { wanted })
    }

    pub(super) fn end_refill(
        &mut self,
        refilled: Vec<(Place, ChunkRef, Result<Vec<u8>, TailError>)>,
    ) -> Ended {
        self.tails.refill_job_count -= 1;
        let mut ended = Ended::default();
        for (place, chunk, read) in refilled {
            let Some(tail) = self.tails.tails.get_mut(&place) else { continue };
            // The chunk was dropped while it was read.
            if tail.refill != Refill::Reading || tail.chunks.front() != Some(&chunk) {
                continue;
            }
            let host = &mut self.hosts[place.host()];
            let taken = read.and_then(|bytes| self.tails.take_chunk(place, host, chunk, &bytes));
            match taken {
                Ok(()) => ended.refilled.push(place.host()),
                Err(error) => {
                    self.tails.tail(place).refill = Refill::Wanted;
                    self.tails.wanted.push_front(place);
                    ended.error = Some(error);
                }
            }
        }
        ended
    }
}

impl Tails {
    /// Appends the first chunk of a tail to the head. `bytes` must be that chunk.
    fn take_chunk<X>(
        &mut self,
        place: Place,
        host: &mut Host<X>,
        chunk: ChunkRef,
        bytes: &[u8],
    ) -> Result<(), TailError> {
        let (class, count) = (place.class(), u32::from(chunk.count));
        let damaged = |what| TailError::damaged(&name_of(class, chunk.segment), what);
        let records = chunk::records(bytes, chunk, host.key()).map_err(damaged)?;
        if !are_records(records, count, host.origin_count()) {
            return Err(damaged("a chunk has no valid records of its host"));
        }
        let before = host.head_memory_bytes(class);
        host.move_head(class, |head| head.append(records, count));
        self.head_changed(class, before, host);
        let tail = self.tail(place);
        tail.chunks.pop_front();
        tail.refill = Refill::None;
        self.segments.release(chunk);
        self.figures.url_count -= u64::from(count);
        self.figures.refill_count += 1;
        self.end_if_read(place.host(), host, class);
        self.list(place.host(), host, class);
        Ok(())
    }
}

//! Tails: what does not fit into RAM of the hosts' queues, in segments on disk.
//!
//! Owns what lies behind the heads of the queues. A host's queue of a class is, in this order: the
//! head, in the host's own record; chunks on disk, in the order in which they are to be read; and
//! `behind`, in RAM again, what came since the last spill. In: records, and jobs that are done.
//! Out: records, and [`Job`]s that the shard runs beside its fetches. No I/O and no clock here;
//! touched by its own core alone.
//!
//! A record's way:
//! 1. It joins the head of its queue or, if that has a tail, what lies behind.
//! 2. When there is more in RAM than may be, queues give up what exceeds their heads, each in its
//!    turn, the lowest class first ([`spill`]). Chunks of many hosts make a batch, which is
//!    appended to the open segment of the class and synced. Until both have succeeded the batch
//!    stays in RAM, and what is wanted of it is read there.
//! 3. When a head runs low, its oldest chunk is read, checked and appended to it ([`refill`]).
//! 4. A sealed segment that is mostly out of use has its chunks moved ([`sift`]); one that nothing
//!    refers to is superseded, and removed once it is retired: a checkpoint may name it.
//!
//! Invariants: a tail has a chunk, so `behind` is never reached from an empty head without one
//! (when the last chunk is read, `behind` joins the head and the tail is gone); a chunk's place is
//! known before it is written and never changes by that; order is kept across all of this.

mod chunk;
mod files;
mod image;
mod jobs;
mod queue;
mod refill;
mod segments;
mod sift;
mod spill;
#[cfg(test)]
mod tests;

pub use chunk::ChunkRef;
pub use files::Files;
pub use image::{TailImage, check_segment, open, read_chunk};
pub use jobs::{Finished, Job};
pub use queue::Popped;
pub use refill::Ended;
pub use segments::SegmentImage;

use super::host::HostId;
use super::leftovers::Leftovers;
use super::packed::PackedQueue;
use super::{Frontier, Sieve};
use crate::flow::Class;
use crate::io::DiskError;
use crate::limits;
use hashbrown::HashMap;
use jobs::{Outcome, Work};
use segments::Segments;
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TailError {
    /// The disk refused; what was to be done can be tried again.
    Disk { doing: &'static str, name: String, error: DiskError },
    /// A file is not what was written. Nothing of it is used.
    Damaged { name: String, what: &'static str },
}

impl TailError {
    fn disk(doing: &'static str, name: &str, error: DiskError) -> TailError {
        TailError::Disk { doing, name: name.to_owned(), error }
    }

    fn damaged(name: &str, what: &'static str) -> TailError {
        TailError::Damaged { name: name.to_owned(), what }
    }
}

impl fmt::Display for TailError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TailError::Disk { doing, name, error } => write!(out, "cannot {doing} {name}: {error}"),
            TailError::Damaged { name, what } => write!(out, "{name}: {what}"),
        }
    }
}

impl std::error::Error for TailError {}

/// When queues go to disk, and in what portions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TailLimits {
    pub resident_bytes_max: u64,
    pub head_bytes: usize,
    pub batch_bytes: usize,
    pub segment_bytes: u64,
    pub sift_bytes: usize,
}

impl TailLimits {
    /// For so much in RAM, the rest in proportion. Small ones let a crawl of some hundred pages
    /// meet every job.
    pub const fn sized(resident_bytes_max: u64) -> TailLimits {
        let batch_bytes = within(
            resident_bytes_max / 64,
            limits::QUEUE_BATCH_BYTES_MIN as u64,
            limits::QUEUE_BATCH_BYTES as u64,
        );
        let segment_bytes = within(
            resident_bytes_max / 4,
            limits::QUEUE_SEGMENT_BYTES_MIN,
            limits::QUEUE_SEGMENT_BYTES,
        );
        let sift_bytes = within(
            batch_bytes,
            limits::QUEUE_SIFT_BYTES_MIN as u64,
            limits::QUEUE_SIFT_BYTES as u64,
        );
        let head_bytes = within(resident_bytes_max / 1_024, 40, limits::QUEUE_HEAD_BYTES as u64);
        TailLimits {
            resident_bytes_max,
            head_bytes: head_bytes as usize,
            batch_bytes: batch_bytes as usize,
            segment_bytes,
            sift_bytes: sift_bytes as usize,
        }
    }
}

const fn within(number: u64, least: u64, most: u64) -> u64 {
    if number < least {
        least
    } else if number > most {
        most
    } else {
        number
    }
}

/// What there is to see of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TailFigures {
    /// URLs on disk, and the bytes that their chunks take there.
    pub url_count: u64,
    pub live_bytes: u64,
    /// With what is not in use any more.
    pub disk_bytes: u64,
    pub segment_count: usize,
    /// RAM that queues take beyond their heads.
    pub resident_bytes: u64,
    pub batch_count: u64,
    pub spilled_chunk_count: u64,
    pub refill_count: u64,
    pub moved_chunk_count: u64,
    /// Read and written by all jobs.
    pub job_bytes: u64,
}

/// A host's queue of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Place(u32);

impl Place {
    fn new(host: HostId, class: Class) -> Place {
        Place(host.0 << 2 | class.index() as u32)
    }

    fn host(self) -> HostId {
        HostId(self.0 >> 2)
    }

    fn class(self) -> Class {
        Class::ALL[(self.0 & 3) as usize]
    }
}

/// What lies behind a head.
#[derive(Default)]
struct Tail {
    /// Never empty, but while the tail is being made or ended.
    chunks: VecDeque<ChunkRef>,
    behind: PackedQueue,
    refill: Refill,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Refill {
    #[default]
    None,
    /// It stands in `wanted`.
    Wanted,
    /// A job reads its first chunk.
    Reading,
}

/// Chunks that are gathered, or on their way to the disk.
struct Batch {
    class: Class,
    serial: u32,
    /// Where in the segment it begins.
    base: u64,
    bytes: Rc<Vec<u8>>,
    /// An attempt to write it has failed.
    is_torn: bool,
}

/// A job of the one lane in which batches are gathered and written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lane {
    Append,
    Sift,
}

/// How far a segment has been moved.
struct Sifting {
    class: Class,
    serial: u32,
    offset: u64,
}

pub struct Tails {
    limits: TailLimits,
    tails: HashMap<Place, Box<Tail>>,
    /// By class: hosts that have something to give up. A bit in the host says that it is listed.
    spill_lists: [VecDeque<HostId>; 4],
    /// By class: RAM that queues take beyond their heads.
    resident_bytes: [u64; 4],
    segments: Segments,
    batch: Option<Batch>,
    lane: Option<Lane>,
    sifting: Option<Sifting>,
    /// The last batch was of queues that held too much: the next is of segments that are moved.
    is_sift_next: bool,
    is_held: bool,
    wanted: VecDeque<Place>,
    /// Hosts whose next URLs were asked for and dropped meanwhile.
    unread: Vec<HostId>,
    refill_job_count: usize,
    is_removing: bool,
    figures: TailFigures,
}

impl Tails {
    pub fn new(limits: TailLimits) -> Tails {
        Tails {
            limits,
            tails: HashMap::new(),
            spill_lists: Default::default(),
            resident_bytes: [0; 4],
            segments: Segments::new(),
            batch: None,
            lane: None,
            sifting: None,
            is_sift_next: false,
            is_held: false,
            wanted: VecDeque::new(),
            unread: Vec::new(),
            refill_job_count: 0,
            is_removing: false,
            figures: TailFigures::default(),
        }
    }

    fn resident_bytes(&self) -> u64 {
        self.resident_bytes.iter().sum()
    }

    fn tail(&mut self, place: Place) -> &mut Tail {
        self.tails.get_mut(&place).expect("a host with the bit of a tail has one")
    }

    /// The bytes of a chunk that is not durable yet.
    fn in_batch(&self, chunk: ChunkRef) -> Option<&[u8]> {
        let batch = self.batch.as_ref().filter(|batch| batch.serial == chunk.segment)?;
        let start = u64::from(chunk.offset).checked_sub(batch.base)? as usize;
        Some(&batch.bytes[start..start + chunk.footprint() as usize])
    }

    fn removal_due(&mut self) -> Option<Work> {
        if self.is_removing || !self.segments.leftovers.has_retired() {
            return None;
        }
        self.is_removing = true;
        Some(Work::Remove { names: self.segments.leftovers.take_retired() })
    }
}

impl<S: Sieve, X: Default> Frontier<S, X> {
    /// The next thing that the disk shall do for the queues, if any is due: several reads at a
    /// time, one write, one removal.
    pub fn next_tail_job(&mut self) -> Option<Job> {
        let work = self.refill_due().or_else(|| self.batch_due());
        work.or_else(|| self.tails.removal_due()).map(Job)
    }

    /// Takes a job's outcome in. After an error of the disk the work is due again; the caller waits
    /// before it asks.
    pub fn finish_tail_job(&mut self, finished: Finished) -> Ended {
        self.tails.figures.job_bytes += finished.bytes;
        match finished.outcome {
            Outcome::Appended(appended) => Ended::after(self.tails.end_append(appended)),
            Outcome::Refilled(refilled) => self.end_refill(refilled),
            Outcome::Sifted { offset, read } => Ended::after(self.end_sift(offset, read)),
            Outcome::Removed(names, removed) => {
                self.tails.is_removing = false;
                if removed.is_err() {
                    self.tails.segments.leftovers.condemn(names);
                }
                Ended::after(removed)
            }
        }
    }

    /// So much waits for the disk that no new fetches shall start.
    pub fn is_tail_backed_up(&self) -> bool {
        let TailLimits { resident_bytes_max, batch_bytes, .. } = self.tails.limits;
        let slack_bytes = resident_bytes_max / 4 + 4 * batch_bytes as u64;
        // Where nothing is being written, nothing would become of waiting.
        self.tails.resident_bytes() > resident_bytes_max.saturating_add(slack_bytes)
            && self.tails.batch.is_some()
    }

    pub fn tail_figures(&self) -> TailFigures {
        let Tails { segments, figures, .. } = &self.tails;
        TailFigures {
            live_bytes: segments.live_bytes(),
            disk_bytes: segments.disk_bytes(),
            segment_count: segments.count(),
            resident_bytes: self.tails.resident_bytes(),
            ..*figures
        }
    }

    /// Hosts whose next URLs were asked for and will not come: they gave way to better ones.
    /// Whoever waits for them asks again, and finds what is left.
    pub fn take_unread(&mut self) -> Vec<HostId> {
        std::mem::take(&mut self.tails.unread)
    }

    /// Segments that only a checkpoint may still name.
    pub fn segment_leftovers(&mut self) -> &mut Leftovers {
        &mut self.tails.segments.leftovers
    }
}

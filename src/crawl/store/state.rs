//! What a [`super::WarcStore`] and its writer task share: buffers, watermarks, and the tasks that
//! wait. This module decides what is due and does no I/O.

use super::StoreError;
use super::gather::{Batch, Gatherer, Seal, new_buffer};
use crate::base::Time;
use crate::base::limits::{WRITE_BUFFER_BYTES, WRITE_BUFFER_COUNT_MAX, WRITE_BUFFER_OVER_BYTES};
use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;

/// The greatest number of bytes that may wait for the disk together. A buffer exceeds its size only
/// by its last record, so usually the count of buffers is the tighter bound; this one applies to
/// bodies far above the usual size.
const WRITE_BYTES_MAX: usize =
    WRITE_BUFFER_COUNT_MAX * (WRITE_BUFFER_BYTES + WRITE_BUFFER_OVER_BYTES);

/// A buffer on its way to the file.
struct Sealed {
    batch: Batch,
    /// When the first of its records was gathered.
    since: Option<Time>,
}

/// What the writer task does next.
pub(super) enum Work {
    Write(Batch),
    Sync,
    Recover,
    Stop,
}

pub(super) struct State {
    pub(super) gatherer: Gatherer,
    /// Full buffers that wait for the disk, in order.
    sealed: VecDeque<Sealed>,
    /// How many batches the task holds that are not proven durable, whether written or about to be.
    pub(super) unsynced_count: usize,
    pub(super) unsynced_bytes: usize,
    /// The bytes of the buffers in `sealed`.
    sealed_bytes: usize,
    /// Empty buffers, kept from a sync to the next seal, because a new buffer costs page faults.
    spare: Vec<Vec<u8>>,
    pub(super) flushed_through: u64,
    pub(super) synced_through: u64,
    pub(super) sync_wanted: u64,
    /// When the first record in the buffer that is being filled was gathered.
    pub(super) filling_since: Option<Time>,
    /// When the first record in the buffer that is being written was gathered.
    writing_since: Option<Time>,
    /// When the first record that is in the file but not synced was gathered.
    pub(super) flushed_since: Option<Time>,
    /// Why the task stands still, until a recovery has succeeded.
    pub(super) failed: Option<StoreError>,
    pub(super) recovering: bool,
    pub(super) closing: bool,
    pub(super) closed: bool,
    pub(super) abandoned: bool,
    pub(super) worker: Option<Waker>,
    pub(super) room: Vec<Waker>,
    pub(super) durable: Vec<Waker>,
    /// How often the waiters were woken. It tells a waiter whether it is still on its list.
    pub(super) wake_round: u64,
}

impl State {
    pub(super) fn new(gatherer: Gatherer) -> State {
        State {
            gatherer,
            sealed: VecDeque::new(),
            unsynced_count: 0,
            unsynced_bytes: 0,
            sealed_bytes: 0,
            spare: Vec::new(),
            flushed_through: 0,
            synced_through: 0,
            sync_wanted: 0,
            filling_since: None,
            writing_since: None,
            flushed_since: None,
            failed: None,
            recovering: false,
            closing: false,
            closed: false,
            abandoned: false,
            worker: None,
            room: Vec::new(),
            durable: Vec::new(),
            wake_round: 0,
        }
    }

    /// Returns when the oldest record that is not yet durable was gathered.
    pub(super) fn oldest(&self) -> Option<Time> {
        let sealed_since = self.sealed.front().and_then(|sealed| sealed.since);
        self.flushed_since.or(self.writing_since).or(sealed_since).or(self.filling_since)
    }

    /// Returns `Some` once a writer may go on (`Ok`) or must not (`Err`).
    pub(super) fn has_room(&mut self) -> Option<Result<(), StoreError>> {
        if self.closing {
            return Some(Err(StoreError::Closed));
        }
        if self.gatherer.is_full() && !self.try_seal(Seal::Blocks) {
            return None;
        }
        Some(Ok(()))
    }

    /// Returns `Some` once all bytes up to `mark` survive a power cut. A disk failure does not end
    /// the wait.
    pub(super) fn durability(&self, mark: u64) -> Option<Result<(), StoreError>> {
        (mark <= self.synced_through).then_some(Ok(()))
    }

    /// Seals the filling buffer, so that it waits for the disk, if it holds something and there is
    /// room.
    pub(super) fn try_seal(&mut self, seal: Seal) -> bool {
        if self.is_at_bound() {
            return false;
        }
        let empty = self.spare.pop().unwrap_or_else(new_buffer);
        match self.gatherer.seal(empty, seal) {
            Ok(batch) => {
                self.sealed_bytes += batch.bytes.len();
                self.sealed.push_back(Sealed { batch, since: self.filling_since });
                // The records that stay in the filling buffer are at most as old as this.
                self.filling_since = self.filling_since.filter(|_| !self.gatherer.is_empty());
                true
            }
            Err(empty) => {
                self.spare.push(empty);
                false
            }
        }
    }

    fn is_at_bound(&self) -> bool {
        self.sealed.len() + self.unsynced_count >= WRITE_BUFFER_COUNT_MAX
            || self.sealed_bytes + self.unsynced_bytes >= WRITE_BYTES_MAX
    }

    pub(super) fn has_sealed(&self) -> bool {
        !self.sealed.is_empty()
    }

    /// Keeps buffers whose bytes are durable for later use.
    pub(super) fn keep_spare(&mut self, buffers: impl Iterator<Item = Vec<u8>>) {
        self.spare.extend(buffers.map(|mut bytes| {
            bytes.clear();
            bytes.shrink_to(2 * WRITE_BUFFER_BYTES);
            bytes
        }));
        self.spare.truncate(WRITE_BUFFER_COUNT_MAX);
    }

    /// Returns what the task does next; `None` if nothing is due.
    pub(super) fn next_work(
        &mut self,
        now: Time,
        sync_span: Duration,
        sync_bytes: u64,
    ) -> Option<Work> {
        if self.abandoned || self.closed {
            return Some(Work::Stop);
        }
        if self.recovering {
            return Some(Work::Recover);
        }
        if self.failed.is_some() {
            return None;
        }
        let due = self.closing
            || self.sync_wanted > self.synced_through
            || self.oldest().is_some_and(|oldest| now >= oldest + sync_span);
        let ends = self.closing && self.gatherer.has_file();
        if ends || self.gatherer.is_full() || due && !self.gatherer.is_empty() {
            self.try_seal(match (ends, due) {
                (true, _) => Seal::EndFile,
                (false, true) => Seal::All,
                (false, false) => Seal::Blocks,
            });
        }
        let unsynced_bytes = self.flushed_through - self.synced_through;
        let is_overdue = self.flushed_since.is_some_and(|since| now >= since + sync_span);
        // The sync comes before the next write: otherwise a store that always has something to
        // write would never be synced.
        if unsynced_bytes >= sync_bytes.max(1) || is_overdue && unsynced_bytes > 0 {
            return Some(Work::Sync);
        }
        if let Some(batch) = self.take_sealed(|_| true) {
            return Some(Work::Write(batch));
        }
        if (due || self.is_at_bound()) && unsynced_bytes > 0 {
            return Some(Work::Sync);
        }
        if self.closing {
            self.closed = true;
            return Some(Work::Stop);
        }
        None
    }

    /// Notes that the buffer that the task took is in the file.
    pub(super) fn note_flushed(&mut self, mark: u64) {
        self.flushed_through = mark;
        self.flushed_since = self.flushed_since.or(self.writing_since.take());
    }

    /// Returns the next full buffer, to be written now, if it is `fit` for that.
    fn take_sealed(&mut self, fit: impl Fn(&Batch) -> bool) -> Option<Batch> {
        self.sealed.front().filter(|next| fit(&next.batch))?;
        let Sealed { batch, since } = self.sealed.pop_front()?;
        self.sealed_bytes -= batch.bytes.len();
        self.writing_since = since;
        Some(batch)
    }

    /// Returns a full buffer of the file that is being synced, to be written meanwhile. A buffer
    /// that ends its file has to wait, and so do those behind it.
    pub(super) fn take_sealed_of_file(&mut self) -> Option<Batch> {
        if self.gatherer.is_full() {
            self.try_seal(Seal::Blocks);
        }
        self.take_sealed(|batch| batch.ends_file.is_none())
    }

    /// Notes that a sync of all that is flushed has begun, and returns how much that is. Later
    /// records wait for the next sync.
    pub(super) fn note_syncing(&mut self) -> u64 {
        self.flushed_since = None;
        self.flushed_through
    }

    /// Notes that all bytes up to `mark` are durable.
    pub(super) fn note_synced(&mut self, mark: u64) {
        debug_assert!((self.synced_through..=self.flushed_through).contains(&mark));
        self.synced_through = mark;
    }

    pub(super) fn note_failed(&mut self, error: StoreError) {
        self.failed = Some(error);
        self.recovering = false;
    }

    pub(super) fn note_recovered(&mut self) {
        self.failed = None;
        self.recovering = false;
    }
}

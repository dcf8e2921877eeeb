//! What a [`super::WarcStore`] and its writer task share: buffers, watermarks, and who waits.
//! Decides what is due; does no I/O.

use super::StoreError;
use super::gather::{Batch, Gatherer, Seal, new_buffer};
use crate::base::Time;
use std::task::Waker;
use std::time::Duration;

/// The second buffer.
pub(super) enum Outgoing {
    /// Empty, and ours to swap with the filling one.
    Idle(Vec<u8>),
    Sealed(Batch),
    /// With the disk.
    Writing,
}

pub(super) enum Work {
    Write(Batch),
    Sync,
    Recover,
    Stop,
}

pub(super) struct State {
    pub(super) gatherer: Gatherer,
    pub(super) outgoing: Outgoing,
    pub(super) flushed_through: u64,
    pub(super) synced_through: u64,
    pub(super) sync_wanted: u64,
    /// When the first record was gathered of those in the filling buffer, ...
    pub(super) filling_since: Option<Time>,
    /// ... in the outgoing one, ...
    pub(super) outgoing_since: Option<Time>,
    /// ... and in the file but not synced.
    pub(super) flushed_since: Option<Time>,
    /// Why the task stands still; until a recovery has succeeded.
    pub(super) failed: Option<StoreError>,
    pub(super) recovering: bool,
    pub(super) closing: bool,
    pub(super) closed: bool,
    pub(super) abandoned: bool,
    pub(super) worker: Option<Waker>,
    pub(super) room: Vec<Waker>,
    pub(super) durable: Vec<Waker>,
    /// How often the waiters were woken: tells a waiter whether it is still on its list.
    pub(super) wake_round: u64,
}

impl State {
    pub(super) fn new(gatherer: Gatherer) -> State {
        State {
            gatherer,
            outgoing: Outgoing::Idle(new_buffer()),
            flushed_through: 0,
            synced_through: 0,
            sync_wanted: 0,
            filling_since: None,
            outgoing_since: None,
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

    /// When the first record was gathered that is not yet durable.
    pub(super) fn oldest(&self) -> Option<Time> {
        self.flushed_since.or(self.outgoing_since).or(self.filling_since)
    }

    /// `Some` when a writer may go on, or must not.
    pub(super) fn has_room(&mut self) -> Option<Result<(), StoreError>> {
        if self.closing {
            return Some(Err(StoreError::Closed));
        }
        if self.gatherer.is_full() && !self.try_seal(Seal::Blocks) {
            return None;
        }
        Some(Ok(()))
    }

    /// `Some` once all up to `mark` survives a power cut. A failure is waited out.
    pub(super) fn durability(&self, mark: u64) -> Option<Result<(), StoreError>> {
        (mark <= self.synced_through).then_some(Ok(()))
    }

    /// Moves the filling buffer to the outgoing side, if that is free and there is something.
    pub(super) fn try_seal(&mut self, seal: Seal) -> bool {
        let Outgoing::Idle(empty) = &mut self.outgoing else { return false };
        match self.gatherer.seal(std::mem::take(empty), seal) {
            Some(batch) => {
                self.outgoing = Outgoing::Sealed(batch);
                self.outgoing_since = self.filling_since;
                // What stays is as old at the most.
                self.filling_since = self.filling_since.filter(|_| !self.gatherer.is_empty());
                true
            }
            None => false,
        }
    }

    /// What the task does next; `None` if nothing is due.
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
        // Before more is written: who writes without end would never be synced.
        if unsynced_bytes >= sync_bytes.max(1) || is_overdue && unsynced_bytes > 0 {
            return Some(Work::Sync);
        }
        match std::mem::replace(&mut self.outgoing, Outgoing::Writing) {
            Outgoing::Sealed(batch) => return Some(Work::Write(batch)),
            other => self.outgoing = other,
        }
        if due && unsynced_bytes > 0 {
            return Some(Work::Sync);
        }
        if self.closing {
            self.closed = true;
            return Some(Work::Stop);
        }
        None
    }

    /// The outgoing buffer is in the file; `empty` takes its place.
    pub(super) fn note_flushed(&mut self, empty: Vec<u8>, mark: u64) {
        self.outgoing = Outgoing::Idle(empty);
        self.flushed_through = mark;
        self.flushed_since = self.flushed_since.or(self.outgoing_since.take());
    }

    /// A full buffer of the file that is being synced, to be written meanwhile. One that ends its
    /// file waits.
    pub(super) fn take_sealed(&mut self) -> Option<Batch> {
        if self.gatherer.is_full() {
            self.try_seal(Seal::Blocks);
        }
        match std::mem::replace(&mut self.outgoing, Outgoing::Writing) {
            Outgoing::Sealed(batch) if batch.ends_file.is_none() => Some(batch),
            other => {
                self.outgoing = other;
                None
            }
        }
    }

    /// What is flushed so far is being synced: says how much. What comes after waits anew.
    pub(super) fn note_syncing(&mut self) -> u64 {
        self.flushed_since = None;
        self.flushed_through
    }

    /// All up to `mark` is durable.
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

//! The phase of a shard's life, which only rises.
//!
//! Owns the phase, and the mark that every background task of the shard is raced against. In: the
//! control thread's commands, a store that can no longer be written, the end of [`super::run`].
//! Out: what may still be started. Touched by one core.

use crate::base::watermark::Watermark;
use std::cell::Cell;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// The shard has its state and waits for the other shards: no visit may begin.
    #[default]
    Waiting,
    /// Every shard of the crawl is ready, so visits may begin.
    Open,
    /// No visit begins any more; what is under way is finished.
    Draining,
    /// The shard ends without waiting for what is under way.
    Halted,
    /// The shard's loop is over. Only its files are still closed.
    Ended,
}

#[derive(Default)]
pub(super) struct Lifecycle {
    phase: Cell<Phase>,
    over: Watermark,
}

impl Lifecycle {
    fn rise(&self, to: Phase) {
        self.phase.set(self.phase.get().max(to));
    }

    pub(super) fn open(&self) {
        self.rise(Phase::Open);
    }

    pub(super) fn drain(&self) {
        self.rise(Phase::Draining);
    }

    pub(super) fn halt(&self) {
        self.rise(Phase::Halted);
    }

    pub(super) fn end(&self) {
        self.rise(Phase::Ended);
    }

    /// Reports whether visits may begin.
    pub(super) fn is_open(&self) -> bool {
        self.phase.get() == Phase::Open
    }

    /// Reports whether the shard was told to end, in whatever way.
    pub(super) fn is_draining(&self) -> bool {
        self.phase.get() >= Phase::Draining
    }

    pub(super) fn is_halted(&self) -> bool {
        self.phase.get() >= Phase::Halted
    }

    pub(super) fn is_ended(&self) -> bool {
        self.phase.get() == Phase::Ended
    }

    /// Ends every task that is raced against [`Lifecycle::over`], because the shard has ended.
    pub(super) fn finish(&self) {
        self.end();
        self.over.rise(1);
    }

    /// Resolves when the shard is finished.
    pub(super) async fn over(&self) {
        self.over.reached(1).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_only_rises() {
        let life = Lifecycle::default();
        assert!(!life.is_open() && !life.is_draining());
        life.drain();
        life.open();
        assert!(!life.is_open() && life.is_draining() && !life.is_halted());
        life.halt();
        life.drain();
        assert!(life.is_halted() && !life.is_ended());
        life.finish();
        assert!(life.is_ended() && life.is_halted() && life.is_draining());
    }
}

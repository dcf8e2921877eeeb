//! The books of checkpoints: which are on disk and which files they need, when the next one is due,
//! and the archive's part in writing it. The shard's loop takes the checkpoint itself, because it
//! reads every service ([`crate::shard::checkpoint`]). Touched by one core.

use super::Archive;
use crate::base::Time;
use crate::base::limits::{DISK_RETRY_MS_MIN, JOURNAL_BYTES_MAX};
use crate::base::notify::Notify;
use crate::base::pack::Pack;
use crate::base::race::race;
use crate::base::watermark::Watermark;
use crate::crawl::flow::{ShardIndex, state_dir};
use crate::crawl::journal::{
    CheckpointWriter, Entry, FileKind, FileName, Journal, JournalError, remove_before,
};
use crate::crawl::metrics::{Count, Metrics};
use crate::crawl::store::StoreError;
use crate::io::{DiskError, File, World};
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// A checkpoint on disk, and the files that it needs.
#[derive(Clone, Debug)]
pub(in crate::shard) struct Kept {
    pub name: FileName,
    pub cut_sequence: u64,
    pub run_names: Vec<String>,
    pub segment_names: Vec<String>,
}

pub(in crate::shard) struct CheckpointBooks {
    /// The last two checkpoints, the older first.
    kept: RefCell<Vec<Kept>>,
    next_sequence: Cell<u64>,
    /// The size of the journal from before the restart, which the next checkpoint makes useless.
    carried_bytes: Cell<u64>,
    due: Cell<Time>,
    /// Whether checkpoints may begin: the generation is valid, so what the one before it left may
    /// be removed.
    is_begun: Cell<bool>,
    wake: Notify,
    is_active: Cell<bool>,
    /// Counts the attempts that are over.
    ended: Watermark,
}

/// A checkpoint that is being written.
pub(in crate::shard) struct CheckpointDraft<F> {
    pub writer: CheckpointWriter<F>,
    kept: Kept,
    begun: Time,
}

/// The checkpoints whose files are still needed. A file that none of them names may be removed.
pub(in crate::shard) struct Retired {
    kept: Vec<Kept>,
}

impl Retired {
    pub(in crate::shard) fn needs_run(&self, name: &String) -> bool {
        self.kept.iter().any(|kept| kept.run_names.contains(name))
    }

    pub(in crate::shard) fn needs_segment(&self, name: &String) -> bool {
        self.kept.iter().any(|kept| kept.segment_names.contains(name))
    }
}

impl CheckpointBooks {
    pub(in crate::shard) fn new(
        kept: Option<Kept>,
        next_sequence: u64,
        carried_bytes: u64,
        due: Time,
    ) -> CheckpointBooks {
        CheckpointBooks {
            kept: RefCell::new(kept.into_iter().collect()),
            next_sequence: Cell::new(next_sequence),
            carried_bytes: Cell::new(carried_bytes),
            due: Cell::new(due),
            is_begun: Cell::new(false),
            wake: Notify::default(),
            is_active: Cell::new(false),
            ended: Watermark::default(),
        }
    }
}

/// Returns until when no checkpoint can be taken, or `None` if one is due and can be taken. The
/// time is never in the past: otherwise a journal that is too long, on a disk that fails, would
/// keep the core busy.
fn rest(now: Time, due: Time, journal_bytes: u64, is_failing: bool) -> Option<Time> {
    if now < due && journal_bytes < JOURNAL_BYTES_MAX {
        return Some(due);
    }
    is_failing.then(|| now + Duration::from_millis(DISK_RETRY_MS_MIN))
}

impl<W: World> Archive<W> {
    /// Resolves when a checkpoint is due and can be taken, or when the shard is halted.
    pub(in crate::shard) async fn checkpoint_due(&self) {
        let Some(journal) = &self.journal else { return };
        let books = &self.books;
        while !self.kit.life.is_halted() {
            if !books.is_begun.get() {
                books.wake.wait().await;
                continue;
            }
            let bytes = journal.size_bytes() + books.carried_bytes.get();
            let is_failing = self.failure().is_some();
            let world = &self.kit.world;
            let Some(until) = rest(world.now(), books.due.get(), bytes, is_failing) else {
                return;
            };
            race(books.wake.wait(), world.sleep_until(until)).await;
        }
    }

    /// Sets when the next checkpoint is due, after an attempt.
    pub(in crate::shard) fn plan_checkpoint(&self) {
        let period = Duration::from_secs(self.kit.plan.settings.checkpoint_seconds);
        self.books.due.set(self.kit.world.now() + period);
    }

    /// Allows checkpoints: every shard has its state, and the manifest says so.
    pub(in crate::shard) fn begin_checkpoints(&self) {
        self.books.is_begun.set(true);
        self.books.wake.poke();
    }

    pub(in crate::shard) fn have_checkpoints_begun(&self) -> bool {
        self.books.is_begun.get()
    }

    /// Wakes the task that waits for a checkpoint to be due, if the journal has grown long enough.
    pub(in crate::shard) fn prod_checkpoints(&self) {
        if let Some(journal) = &self.journal
            && journal.size_bytes() + self.books.carried_bytes.get() >= JOURNAL_BYTES_MAX
        {
            self.books.wake.poke();
        }
    }

    /// Marks an attempt as under way, or as over.
    pub(in crate::shard) fn set_checkpoint_active(&self, is_active: bool) {
        self.books.is_active.set(is_active);
        if !is_active {
            self.books.ended.step();
        }
    }

    /// Waits until no checkpoint is under way.
    pub(in crate::shard) async fn checkpoint_ended(&self) {
        while self.books.is_active.get() {
            self.books.ended.stepped().await;
        }
    }

    pub(in crate::shard) fn checkpoint_failed(&self, error: &JournalError) {
        self.kit.probe.add(Count::CheckpointFailures, 1);
        tracing::warn!(
            "no checkpoint could be taken: {error}. Nothing is lost: the last checkpoint and the \
             journal since then are on disk, and another checkpoint will be tried. Check the disk \
             and its free space"
        );
    }

    /// Returns the number of the last journal entry.
    pub(in crate::shard) fn lsn(&self) -> u64 {
        self.journal.as_ref().map_or(0, Journal::lsn)
    }

    /// Begins a new file of the journal, which is the cut. Returns the last entry of the file
    /// before and the number of the new file.
    pub(in crate::shard) async fn cut(&self) -> Result<(u64, u64), JournalError> {
        self.journal.as_ref().expect("only a shard with a journal takes checkpoints").rotate().await
    }

    /// Creates the file of a checkpoint for everything before the cut.
    pub(in crate::shard) async fn draft(
        &self,
        (cut_lsn, cut_sequence): (u64, u64),
        begun: Time,
    ) -> Result<CheckpointDraft<W::File>, JournalError> {
        let (world, shard) = (&self.kit.world, self.kit.index);
        let next = &self.books.next_sequence;
        let sequence = next.replace(next.get() + 1);
        let generation = self.kit.plan.generation;
        let name = FileName { kind: FileKind::Checkpoint, generation, sequence };
        let mut writer = CheckpointWriter::create(world, &state_dir(shard), name).await?;
        let at = world.wall();
        writer.push(&Entry::Begun { shard: shard.0, cut_lsn, cut_sequence, at });
        let (run_names, segment_names) = (Vec::new(), Vec::new());
        let kept = Kept { name, cut_sequence, run_names, segment_names };
        Ok(CheckpointDraft { writer, kept, begun })
    }

    /// Ends a checkpoint: makes durable what it depends on, reads it back and gives it its name.
    /// `run` are the counters of this run.
    pub(in crate::shard) async fn finish_draft(
        &self,
        draft: CheckpointDraft<W::File>,
        host_count: u64,
        run: &Metrics,
    ) -> Result<(), JournalError> {
        let CheckpointDraft { mut writer, kept, begun } = draft;
        let journal = self.journal.as_ref().expect("only a shard with a journal has a draft");
        let lsn = journal.lsn();
        let (is_last, mut image) = (self.kit.life.is_draining(), Vec::new());
        self.totals_with(run).pack(&mut Pack(&mut image));
        writer.push(&Entry::Totals { lsn, is_last, image });
        writer.push(&Entry::Finished { host_count, lsn });
        journal.sync().await?;
        self.sync_dead_letters().await?;
        let size_bytes = writer.finish(&self.kit.world, &state_dir(self.kit.index)).await?;
        self.books.carried_bytes.set(0);
        self.books.kept.borrow_mut().push(kept);
        self.kit.probe.add(Count::Checkpoints, 1);
        self.kit.probe.add(Count::CheckpointBytes, size_bytes);
        let took_ms = self.kit.world.now().since(begun).as_millis() as u64;
        tracing::debug!(shard = self.kit.index.0, host_count, size_bytes, took_ms, "checkpoint");
        Ok(())
    }

    /// Makes the dead letters durable, because the journal that would name them again is about to
    /// be removed.
    async fn sync_dead_letters(&self) -> Result<(), JournalError> {
        match self.dead_letters.sync().await {
            Err(StoreError::Disk { error, .. }) => {
                let name = "the dead letters".to_owned();
                Err(JournalError::Disk { doing: "sync", name, error })
            }
            _ => Ok(()),
        }
    }

    /// Removes what only checkpoints older than the last two need, and returns what these two need.
    /// Called when a checkpoint is proven.
    pub(in crate::shard) async fn retire(&self) -> Result<Retired, JournalError> {
        let (oldest, first_journal) = {
            let mut kept = self.books.kept.borrow_mut();
            while kept.len() > 2 {
                kept.remove(0);
            }
            (kept[0].name, kept[0].cut_sequence)
        };
        let (world, index) = (&self.kit.world, self.kit.index);
        remove_before(world, &state_dir(index), oldest, first_journal).await?;
        if index.0 == 0 {
            self.remove_former().await?;
        }
        Ok(Retired { kept: self.books.kept.borrow().clone() })
    }

    /// Removes the state of shards that no longer exist.
    async fn remove_former(&self) -> Result<(), JournalError> {
        let (world, plan) = (&self.kit.world, &self.kit.plan);
        let former = plan.past.map_or(0, |past| past.shard_count);
        for shard in plan.placement.shard_count()..former {
            let directory = state_dir(ShardIndex(shard));
            let text = directory.display().to_string();
            let failed = |doing, error| JournalError::Disk { doing, name: text.clone(), error };
            let names = match world.list(&directory).await {
                Err(DiskError::NotFound) => continue,
                names => names.map_err(|error| failed("list", error))?,
            };
            for name in names {
                let removed = world.remove(&directory.join(name)).await;
                removed.map_err(|error| failed("remove files of", error))?;
            }
        }
        Ok(())
    }

    pub(in crate::shard) async fn close_journal(&self) -> Result<(), JournalError> {
        match &self.journal {
            Some(journal) => journal.close().await,
            None => Ok(()),
        }
    }
}

impl<F: File> CheckpointDraft<F> {
    /// Adds a run of URL seen that the checkpoint needs.
    pub(in crate::shard) fn push_run(&mut self, name: String, pack: impl FnOnce(&mut Pack<'_>)) {
        let mut image = Vec::new();
        pack(&mut Pack(&mut image));
        self.writer.push(&Entry::Run { image });
        self.kept.run_names.push(name);
    }

    /// Adds a segment of the queues that the checkpoint needs.
    pub(in crate::shard) fn push_segment(
        &mut self,
        name: String,
        pack: impl FnOnce(&mut Pack<'_>),
    ) {
        let mut image = Vec::new();
        pack(&mut Pack(&mut image));
        self.writer.push(&Entry::Segment { image });
        self.kept.segment_names.push(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_due_on_a_failing_disk_does_not_spin() {
        let (now, due) = (Time::from_ms(9_000), Time::from_ms(60_000));
        for (due, bytes) in [(due, JOURNAL_BYTES_MAX), (now, 0), (Time::ZERO, u64::MAX)] {
            assert_eq!(rest(now, due, bytes, false), None, "due, and it can be taken");
            let until = rest(now, due, bytes, true).expect("the disk fails");
            assert!(until > now);
        }
        assert_eq!(rest(now, due, 0, true), Some(due));
        assert_eq!(rest(now, due, 0, false), Some(due));
    }
}

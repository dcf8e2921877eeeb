//! Checkpoints while the crawl goes on: when one is due, and how it is taken.
//!
//! 1. The journal begins a new file: the cut.
//! 2. All that URL seen knew at the cut goes to runs on disk, and no more of the queues goes there
//!    until the end.
//! 3. The cold hosts are packed, as they were at the cut: none leaves RAM while this goes on.
//! 4. Host after host is packed, a few at a time, with the number of the last journal entry at that
//!    moment; between them the crawl goes on.
//! 5. The journal is synced up to the last host's number.
//! 6. The checkpoint is synced, read back and named; what the last two do not need is removed.
//!
//! A restart applies to each host the entries behind its own number, so no moment is needed at
//! which all stands still. URL seen takes every entry behind the cut: knowing twice is knowing
//! once. Belongs to one core.

use super::Shard;
use super::image::{Clocks, Lore};
use crate::base::Time;
use crate::base::limits::JOURNAL_BYTES_MAX;
use crate::base::limits::{CHECKPOINT_BYTES_PER_SECOND, DISK_RETRY_MS_MAX, DISK_RETRY_MS_MIN};
use crate::base::notify::Notify;
use crate::base::pack::Pack;
use crate::base::race::race;
use crate::base::watermark::Watermark;
use crate::crawl::flow::{ShardIndex, state_dir};
use crate::crawl::journal::{
    CheckpointWriter, Entry, FileKind, FileName, Journal, JournalError, remove_before,
};
use crate::crawl::metrics::Count;
use crate::crawl::store::StoreError;
use crate::io::{DiskError, World};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// A checkpoint that is on disk, and what it needs there.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub name: FileName,
    pub cut_sequence: u64,
    pub run_names: Vec<String>,
    pub segment_names: Vec<String>,
}

pub(super) struct Checkpoints {
    /// The last two, the older first.
    kept: RefCell<Vec<Kept>>,
    next_sequence: Cell<u64>,
    /// Journal from before the restart that the next one makes useless.
    carried_bytes: Cell<u64>,
    due: Cell<Time>,
    /// The generation holds: what the one before it left may go.
    is_begun: Cell<bool>,
    wake: Notify,
    is_active: Cell<bool>,
    /// Attempts that are over.
    ended: Watermark,
}

impl Checkpoints {
    pub(super) fn new(
        kept: Option<Kept>,
        next_sequence: u64,
        carried_bytes: u64,
        due: Time,
    ) -> Checkpoints {
        Checkpoints {
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

/// Until when there is no checkpoint to take; `None` if one is due and can be taken. Never in the
/// past: a journal that is too long on a disk that fails would keep the core for itself.
fn rest(now: Time, due: Time, journal_bytes: u64, is_failing: bool) -> Option<Time> {
    if now < due && journal_bytes < JOURNAL_BYTES_MAX {
        return Some(due);
    }
    is_failing.then(|| now + Duration::from_millis(DISK_RETRY_MS_MIN))
}

impl<W: World> Shard<W> {
    /// Takes checkpoints as they become due, until the crawl ends.
    pub(super) async fn keep_checkpoints(self: Rc<Self>) {
        let Some(journal) = &self.journal else { return };
        // Told to end, the shard takes the last one itself.
        while !self.kit.life.is_ended() && !self.kit.life.is_halted() {
            let own = &self.checkpoints;
            if !own.is_begun.get() {
                own.wake.wait().await;
                continue;
            }
            let bytes = journal.size_bytes() + own.carried_bytes.get();
            let is_failing = self.disk_failure().is_some();
            if let Some(until) = rest(self.kit.world.now(), own.due.get(), bytes, is_failing) {
                race(own.wake.wait(), self.kit.world.sleep_until(until)).await;
                continue;
            }
            if let Err(error) = self.checkpoint(journal).await {
                self.checkpoint_failed(&error);
                let pause = Duration::from_millis(DISK_RETRY_MS_MAX);
                self.kit.world.sleep_until(self.kit.world.now() + pause).await;
            }
            let period = Duration::from_secs(self.kit.plan.settings.checkpoint_seconds);
            own.due.set(self.kit.world.now() + period);
        }
    }

    /// Every shard has its state, and the manifest says so.
    pub(super) fn begin_checkpoints(&self) {
        self.checkpoints.is_begun.set(true);
        self.checkpoints.wake.poke();
    }

    /// The journal may have grown long enough for a checkpoint.
    pub(super) fn prod_checkpoints(&self) {
        if let Some(journal) = &self.journal
            && journal.size_bytes() + self.checkpoints.carried_bytes.get() >= JOURNAL_BYTES_MAX
        {
            self.checkpoints.wake.poke();
        }
    }

    /// The first one of a generation: nothing goes, for the one before still holds.
    pub(super) async fn first_checkpoint(&self) -> Result<(), JournalError> {
        match &self.journal {
            Some(journal) => self.take_checkpoint(journal).await,
            None => Ok(()),
        }
    }

    /// The last one, when nothing is under way any more.
    pub(super) async fn end_journal(&self) -> Result<(), StoreError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let own = &self.checkpoints;
        if !own.is_begun.get() {
            return journal.close().await.map_err(as_store_error);
        }
        while own.is_active.get() {
            own.ended.stepped().await;
        }
        let ended = async {
            self.checkpoint(journal).await?;
            self.remove_retired().await;
            journal.close().await
        };
        ended.await.map_err(|error: JournalError| {
            self.checkpoint_failed(&error);
            as_store_error(error)
        })
    }

    /// At the end nobody runs the jobs that would. What cannot be removed is found at the next
    /// start, where no checkpoint names it.
    async fn remove_retired(&self) {
        let names = {
            let mut frontier = self.frontier.borrow_mut();
            let mut names = frontier.segment_leftovers().take_retired();
            names.extend(frontier.sieve_mut().leftovers().take_retired());
            names
        };
        for name in names {
            let _ = self.kit.world.remove(&state_dir(self.kit.index).join(name)).await;
        }
    }

    fn checkpoint_failed(&self, error: &JournalError) {
        self.kit.probe.add(Count::CheckpointFailures, 1);
        tracing::warn!(
            "no checkpoint could be taken: {error}; nothing is lost, for the last checkpoint and \
             the journal since are there, and another is tried; check the disk and its free space"
        );
    }

    async fn checkpoint(&self, journal: &Journal<W>) -> Result<(), JournalError> {
        let own = &self.checkpoints;
        own.is_active.set(true);
        let taken = async {
            self.take_checkpoint(journal).await?;
            self.retire().await
        };
        let taken = taken.await;
        own.is_active.set(false);
        own.ended.step();
        taken
    }

    async fn take_checkpoint(&self, journal: &Journal<W>) -> Result<(), JournalError> {
        self.hold_cooling(true);
        let left_count = || self.frontier.borrow().figures().left_count;
        let left_before = left_count();
        let written = self.write_checkpoint(journal).await;
        assert_eq!(left_count(), left_before, "a host that leaves now is in no checkpoint");
        self.hold_cooling(false);
        self.release_tails();
        written
    }

    async fn write_checkpoint(&self, journal: &Journal<W>) -> Result<(), JournalError> {
        let own = &self.checkpoints;
        let directory = state_dir(self.kit.index);
        let begun = self.kit.world.now();
        let (cut_lsn, cut_sequence) = journal.rotate().await?;
        self.flush_sieve().await?;
        self.hold_tails().await?;
        let sequence = own.next_sequence.replace(own.next_sequence.get() + 1);
        let generation = self.kit.plan.generation;
        let name = FileName { kind: FileKind::Checkpoint, generation, sequence };
        let mut writer = CheckpointWriter::create(&self.kit.world, &directory, name).await?;
        let (shard, at) = (self.kit.index.0, self.kit.world.wall());
        writer.push(&Entry::Begun { shard, cut_lsn, cut_sequence, at });
        let runs = self.frontier.borrow().sieve().runs().runs;
        let run_names: Vec<String> = runs.iter().map(|run| run.name.clone()).collect();
        for run in runs {
            let mut image = Vec::new();
            run.pack(&mut Pack(&mut image));
            writer.push(&Entry::Run { image });
        }
        let segments = self.frontier.borrow().segment_images();
        let segment_names = segments.iter().map(|segment| segment.name()).collect();
        for segment in segments {
            let mut image = Vec::new();
            segment.pack(&mut Pack(&mut image));
            writer.push(&Entry::Segment { image });
        }
        self.pack_cold(&mut writer).await?;
        let host_count = self.pack_hosts(journal, &mut writer).await?;
        let lsn = journal.lsn();
        writer.push(&self.totals_entry(lsn));
        writer.push(&Entry::Finished { host_count, lsn });
        journal.sync().await?;
        self.sync_dead_letters().await?;
        let size_bytes = writer.finish(&self.kit.world, &directory).await?;
        own.carried_bytes.set(0);
        own.kept.borrow_mut().push(Kept { name, cut_sequence, run_names, segment_names });
        let probe = &self.kit.probe;
        probe.add(Count::Checkpoints, 1);
        probe.add(Count::CheckpointBytes, size_bytes);
        let took_ms = self.kit.world.now().since(begun).as_millis() as u64;
        tracing::debug!(shard, host_count, size_bytes, took_ms, "checkpoint");
        Ok(())
    }

    /// What the crawl has amounted to, this run with those before it.
    fn totals_entry(&self, lsn: u64) -> Entry {
        let mut totals = self.totals.borrow().clone();
        totals.add_run(&self.full_metrics());
        totals.span_ms += self.kit.world.now().since(self.begun).as_millis() as u64;
        let (is_last, mut image) = (self.kit.life.is_draining(), Vec::new());
        totals.pack(&mut Pack(&mut image));
        Entry::Totals { lsn, is_last, image }
    }

    /// The journal that would name them again is about to go.
    async fn sync_dead_letters(&self) -> Result<(), JournalError> {
        match self.dead_letters.sync().await {
            Err(StoreError::Disk { error, .. }) => {
                let name = "the dead letters".to_owned();
                Err(JournalError::Disk { doing: "sync", name, error })
            }
            _ => Ok(()),
        }
    }

    /// Packs the cold hosts. Those that come back meanwhile are packed again, as hosts.
    async fn pack_cold(&self, writer: &mut CheckpointWriter<W::File>) -> Result<(), JournalError> {
        let (begun, mut bytes, mut part) = (self.kit.world.now(), 0, 0);
        loop {
            let image = self.with_lore(|lore| lore.pack_cold(&mut part));
            if image.is_empty() {
                return Ok(());
            }
            if writer.push(&Entry::Cold { image }) {
                bytes += writer.flush().await? as u64;
                self.pace_checkpoint(begun, bytes).await;
            }
        }
    }

    /// Packs all hosts in RAM; says how many. One that comes meanwhile may be missing: the journal
    /// behind the cut has all of it, and if it came back from the cold, its page count is packed.
    async fn pack_hosts(
        &self,
        journal: &Journal<W>,
        writer: &mut CheckpointWriter<W::File>,
    ) -> Result<u64, JournalError> {
        let (begun, mut bytes, mut slot, mut host_count) = (self.kit.world.now(), 0, 0, 0);
        loop {
            if slot as usize >= self.frontier.borrow().slot_count() {
                return Ok(host_count);
            }
            let host = self.frontier.borrow().host_in_slot(slot);
            slot += 1;
            let Some(host) = host else { continue };
            let image = self.with_lore(|lore| lore.pack_host(host, self.clocks()));
            host_count += 1;
            if writer.push(&Entry::Host { lsn: journal.lsn(), image }) {
                bytes += writer.flush().await? as u64;
                self.pace_checkpoint(begun, bytes).await;
            }
        }
    }

    fn with_lore<T>(&self, pack: impl FnOnce(&mut Lore<'_, W::File>) -> T) -> T {
        pack(&mut Lore {
            frontier: &mut self.frontier.borrow_mut(),
            health: &mut self.health.borrow_mut(),
            robots: &mut self.robots.borrow_mut(),
            sitemaps: &mut self.sitemaps.borrow_mut(),
        })
    }

    /// Lets others have their turn, and the disk its rest.
    async fn pace_checkpoint(&self, begun: Time, bytes: u64) {
        self.kit.world.yield_now().await;
        let due_ns = bytes.saturating_mul(1_000_000_000) / CHECKPOINT_BYTES_PER_SECOND;
        let due = begun + Duration::from_nanos(due_ns);
        if !self.kit.life.is_ended() && due > self.kit.world.now() {
            self.kit.world.sleep_until(due).await;
        }
    }

    /// A checkpoint is proven: what only older ones than the last two need goes.
    async fn retire(&self) -> Result<(), JournalError> {
        let own = &self.checkpoints;
        let (oldest, first_journal) = {
            let mut kept = own.kept.borrow_mut();
            while kept.len() > 2 {
                kept.remove(0);
            }
            (kept[0].name, kept[0].cut_sequence)
        };
        remove_before(&self.kit.world, &state_dir(self.kit.index), oldest, first_journal).await?;
        if self.kit.index.0 == 0 {
            self.remove_former().await?;
        }
        let kept = own.kept.borrow();
        let is_named = |run: &String| kept.iter().any(|of| of.run_names.contains(run));
        let mut frontier = self.frontier.borrow_mut();
        frontier.sieve_mut().leftovers().retire_unless(is_named);
        let is_named = |name: &String| kept.iter().any(|of| of.segment_names.contains(name));
        frontier.segment_leftovers().retire_unless(is_named);
        Ok(())
    }

    /// What shards have left that are no more.
    async fn remove_former(&self) -> Result<(), JournalError> {
        let former = self.kit.plan.past.map_or(0, |past| past.shard_count);
        for shard in self.kit.plan.placement.shard_count()..former {
            let directory = state_dir(ShardIndex(shard));
            let text = directory.display().to_string();
            let failed = |doing, error| JournalError::Disk { doing, name: text.clone(), error };
            let names = match self.kit.world.list(&directory).await {
                Err(DiskError::NotFound) => continue,
                names => names.map_err(|error| failed("list", error))?,
            };
            for name in names {
                let removed = self.kit.world.remove(&directory.join(name)).await;
                removed.map_err(|error| failed("remove files of", error))?;
            }
        }
        Ok(())
    }

    pub(super) fn clocks(&self) -> Clocks {
        Clocks::of(&self.kit.world, self.kit.plan.settings.crawl_delay_ms_max)
    }
}

/// For the notices, which speak of the store.
pub(super) fn as_store_error(error: JournalError) -> StoreError {
    match error {
        JournalError::Disk { error, .. } => StoreError::Disk { doing: "write the journal", error },
        JournalError::Damaged { name, what, .. } => StoreError::Damaged { name, what },
        JournalError::Version { name, .. } => {
            StoreError::Damaged { name, what: "another version wrote it" }
        }
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

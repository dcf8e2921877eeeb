//! Checkpoints while the crawl goes on: how one is taken.
//!
//! 1. The journal begins a new file. This point is the cut.
//! 2. All that URL seen knew at the cut is written to runs on disk. From here until the end, no
//!    more of the queues is moved to disk.
//! 3. The cold hosts are packed as they were at the cut. No host is evicted until the end.
//! 4. The hosts in RAM are packed one after the other, a few at a time, each with the number of the
//!    last journal entry at that moment. The crawl goes on between them.
//! 5. The journal is synced up to the last host's number.
//! 6. The checkpoint is synced, read back and named. What the last two checkpoints do not need is
//!    removed.
//!
//! A restart applies to each host the entries behind its own number, so the crawl never has to
//! stand still. URL seen takes every entry behind the cut, because adding a known URL again changes
//! nothing. A checkpoint reads every service, so it belongs to the shard's loop. The archive's
//! books record when one is due and which are on disk. Touched by one core.

use super::Shard;
use super::archive::{CheckpointDraft, as_store_error};
use super::image::Lore;
use crate::base::Time;
use crate::base::limits::{CHECKPOINT_BYTES_PER_SECOND, DISK_RETRY_MS_MAX};
use crate::crawl::flow::state_dir;
use crate::crawl::journal::{Entry, JournalError};
use crate::crawl::store::StoreError;
use crate::io::World;
use std::rc::Rc;
use std::time::Duration;

impl<W: World> Shard<W> {
    /// Takes checkpoints as they become due, until the crawl ends.
    pub(super) async fn keep_checkpoints(self: Rc<Self>) {
        if !self.archive.has_journal() {
            return;
        }
        loop {
            self.archive.checkpoint_due().await;
            // When the shard is told to end, it takes the last checkpoint itself.
            if self.kit.life.is_halted() {
                return;
            }
            if let Err(error) = self.checkpoint().await {
                self.archive.checkpoint_failed(&error);
                let pause = Duration::from_millis(DISK_RETRY_MS_MAX);
                self.kit.world.sleep_until(self.kit.world.now() + pause).await;
            }
            self.archive.plan_checkpoint();
        }
    }

    /// Takes the first checkpoint of a generation. Nothing is removed, because the checkpoint
    /// before is still valid.
    pub(super) async fn first_checkpoint(&self) -> Result<(), JournalError> {
        match self.archive.has_journal() {
            true => self.take_checkpoint().await,
            false => Ok(()),
        }
    }

    /// Takes the last checkpoint, when nothing is under way any more, and closes the journal.
    pub(super) async fn end_journal(&self) -> Result<(), StoreError> {
        if !self.archive.has_journal() {
            return Ok(());
        }
        if !self.archive.have_checkpoints_begun() {
            return self.archive.close_journal().await.map_err(as_store_error);
        }
        self.archive.checkpoint_ended().await;
        let ended = async {
            self.checkpoint().await?;
            self.remove_retired().await;
            self.archive.close_journal().await
        };
        ended.await.map_err(|error: JournalError| {
            self.archive.checkpoint_failed(&error);
            as_store_error(error)
        })
    }

    /// Removes retired files at the end, when the jobs that would do so no longer run. A file that
    /// cannot be removed is found at the next start, because no checkpoint names it.
    async fn remove_retired(&self) {
        let names = {
            let mut frontier = self.frontier_mut();
            let mut names = frontier.segment_leftovers().take_retired();
            names.extend(frontier.sieve_mut().leftovers().take_retired());
            names
        };
        for name in names {
            let _ = self.kit.world.remove(&state_dir(self.kit.index).join(name)).await;
        }
    }

    async fn checkpoint(&self) -> Result<(), JournalError> {
        self.archive.set_checkpoint_active(true);
        let taken = async {
            self.take_checkpoint().await?;
            self.retire().await
        };
        let taken = taken.await;
        self.archive.set_checkpoint_active(false);
        taken
    }

    async fn take_checkpoint(&self) -> Result<(), JournalError> {
        self.hold_cooling(true);
        let left_count = || self.frontier().figures().left_count;
        let left_before = left_count();
        let written = self.write_checkpoint().await;
        assert_eq!(left_count(), left_before, "no host is evicted during a checkpoint");
        self.hold_cooling(false);
        self.release_tails();
        written
    }

    async fn write_checkpoint(&self) -> Result<(), JournalError> {
        let begun = self.kit.world.now();
        let cut = self.archive.cut().await?;
        self.flush_sieve().await?;
        self.hold_tails().await?;
        let mut draft = self.archive.draft(cut, begun).await?;
        let runs = self.frontier().sieve().runs().runs;
        for run in runs {
            draft.push_run(run.name.clone(), |pack| run.pack(pack));
        }
        let segments = self.frontier().segment_images();
        for segment in segments {
            draft.push_segment(segment.name(), |pack| segment.pack(pack));
        }
        self.pack_cold(&mut draft).await?;
        let host_count = self.pack_hosts(&mut draft).await?;
        let run = self.full_metrics();
        self.archive.finish_draft(draft, host_count, &run).await
    }

    /// Packs the cold hosts. Those that come back meanwhile are packed again, as hosts.
    async fn pack_cold(&self, draft: &mut CheckpointDraft<W::File>) -> Result<(), JournalError> {
        let (begun, mut bytes, mut part) = (self.kit.world.now(), 0, 0);
        loop {
            let image = self.with_lore(|lore| lore.pack_cold(&mut part));
            if image.is_empty() {
                return Ok(());
            }
            if draft.writer.push(&Entry::Cold { image }) {
                bytes += draft.writer.flush().await? as u64;
                self.pace_checkpoint(begun, bytes).await;
            }
        }
    }

    /// Packs all hosts in RAM and returns how many. A host that comes meanwhile may be missing: the
    /// journal behind the cut has all of it, and if it was cold before, its page count is packed.
    async fn pack_hosts(&self, draft: &mut CheckpointDraft<W::File>) -> Result<u64, JournalError> {
        let (begun, mut bytes, mut slot, mut host_count) = (self.kit.world.now(), 0, 0, 0);
        loop {
            if slot as usize >= self.frontier().slot_count() {
                return Ok(host_count);
            }
            let host = self.frontier().host_in_slot(slot);
            slot += 1;
            let Some(host) = host else { continue };
            let image = self.with_lore(|lore| lore.pack_host(host, self.kit.clocks()));
            host_count += 1;
            if draft.writer.push(&Entry::Host { lsn: self.archive.lsn(), image }) {
                bytes += draft.writer.flush().await? as u64;
                self.pace_checkpoint(begun, bytes).await;
            }
        }
    }

    fn with_lore<T>(&self, pack: impl FnOnce(&mut Lore<'_, W::File>) -> T) -> T {
        let mut manners = self.manners.borrow_mut();
        let (health, robots) = manners.lore();
        let mut discovery = self.discovery.borrow_mut();
        let (frontier, sitemaps) = discovery.lore();
        pack(&mut Lore { frontier, health, robots, sitemaps })
    }

    /// Lets other tasks run, and limits the rate of writing, so that the disk is free for other
    /// work.
    async fn pace_checkpoint(&self, begun: Time, bytes: u64) {
        self.kit.world.yield_now().await;
        let due_ns = bytes.saturating_mul(1_000_000_000) / CHECKPOINT_BYTES_PER_SECOND;
        let due = begun + Duration::from_nanos(due_ns);
        if !self.kit.life.is_ended() && due > self.kit.world.now() {
            self.kit.world.sleep_until(due).await;
        }
    }

    /// Retires what only checkpoints older than the last two need, once the new checkpoint is
    /// proven.
    async fn retire(&self) -> Result<(), JournalError> {
        let retired = self.archive.retire().await?;
        let mut frontier = self.frontier_mut();
        frontier.sieve_mut().leftovers().retire_unless(|run| retired.needs_run(run));
        frontier.segment_leftovers().retire_unless(|name| retired.needs_segment(name));
        Ok(())
    }
}

//! Checkpoints while the crawl goes on: how one is taken.
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
//! once. A checkpoint reads every service, so it belongs to the shard's loop; when one is due and
//! which are on disk is in the archive's books. Belongs to one core.

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
            // Told to end, the shard takes the last one itself.
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

    /// The first checkpoint of a generation: nothing is removed, for the one before still holds.
    pub(super) async fn first_checkpoint(&self) -> Result<(), JournalError> {
        match self.archive.has_journal() {
            true => self.take_checkpoint().await,
            false => Ok(()),
        }
    }

    /// The last checkpoint, when nothing is under way any more.
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

    /// At the end nobody runs the jobs that would. What cannot be removed is found at the next
    /// start, where no checkpoint names it.
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
        assert_eq!(left_count(), left_before, "a host that leaves now is in no checkpoint");
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

    /// Packs all hosts in RAM; says how many. One that comes meanwhile may be missing: the journal
    /// behind the cut has all of it, and if it came back from the cold, its page count is packed.
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

    /// Lets others have their turn, and the disk its rest.
    async fn pace_checkpoint(&self, begun: Time, bytes: u64) {
        self.kit.world.yield_now().await;
        let due_ns = bytes.saturating_mul(1_000_000_000) / CHECKPOINT_BYTES_PER_SECOND;
        let due = begun + Duration::from_nanos(due_ns);
        if !self.kit.life.is_ended() && due > self.kit.world.now() {
            self.kit.world.sleep_until(due).await;
        }
    }

    /// A checkpoint is proven: what only older ones than the last two need is removed.
    async fn retire(&self) -> Result<(), JournalError> {
        let retired = self.archive.retire().await?;
        let mut frontier = self.frontier_mut();
        frontier.sieve_mut().leftovers().retire_unless(|run| retired.needs_run(run));
        frontier.segment_leftovers().retire_unless(|name| retired.needs_segment(name));
        Ok(())
    }
}

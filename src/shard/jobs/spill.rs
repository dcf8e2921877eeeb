//! The job lane of the queues on disk: runs the jobs of the frontier's tails beside the fetches,
//! and lets visits wait for URLs that are on disk.
//!
//! In: due jobs of [`crate::crawl::frontier::spill`], pokes of the scheduler. Out: URLs for visits,
//! counts, and, if a segment turns out to be damaged, the end of the crawl. If the disk refuses a
//! job, it is tried again after [`limits::QUEUE_RETRY_MS`]; fetching goes on until too much waits
//! to be written. Touched by one core.

use super::JobLane;
use crate::base::limits;
use crate::base::oneshot;
use crate::crawl::flow::{ShardIndex, state_dir};
use crate::crawl::frontier::spill::{Ended, Files, Finished, Job, TailError};
use crate::crawl::frontier::{HostId, Next, Queued};
use crate::crawl::journal::JournalError;
use crate::crawl::metrics::{Count, Gauges, Stage};
use crate::crawl::store::StoreError;
use crate::io::{File, World};
use crate::shard::Shard;
use hashbrown::HashMap;
use std::cell::RefCell;
use std::rc::Rc;

pub(in crate::shard) struct SpillLane<F> {
    files: Files<F>,
    lane: JobLane,
    /// Visits that wait for their host's next URLs.
    waiting: RefCell<HashMap<HostId, oneshot::Sender<()>>>,
}

impl<F: File> SpillLane<F> {
    pub(in crate::shard) fn new(shard: ShardIndex) -> SpillLane<F> {
        SpillLane {
            files: Files::new(state_dir(shard)),
            lane: JobLane::default(),
            waiting: RefCell::default(),
        }
    }
}

impl<W: World> Shard<W> {
    /// Starts the jobs that are due, until the crawl ends or a segment is found damaged.
    pub(in crate::shard) async fn keep_spill_lane(self: Rc<Self>) {
        let own = &self.spill_lane;
        while !self.kit.life.is_ended() && !own.lane.is_broken() {
            for host in self.frontier_mut().take_unread() {
                drop(own.waiting.borrow_mut().remove(&host));
            }
            if let Some(until) = own.lane.rests_until(self.kit.world.now()) {
                self.kit.world.sleep_until(until).await;
                continue;
            }
            // When the crawl is told to end, the remaining jobs are left to the next crawl, except
            // those that finish what is half on disk.
            let is_wanted = !self.kit.life.is_draining()
                || !own.waiting.borrow().is_empty()
                || !self.frontier().are_tails_durable();
            let job = if is_wanted { self.frontier_mut().next_tail_job() } else { None };
            match job {
                Some(job) => self.start_tail_job(job),
                None => own.lane.wake.wait().await,
            }
        }
    }

    /// Closes the lane when the crawl has ended: waits for the jobs under way, so that no file is
    /// left half-written.
    pub(in crate::shard) async fn close_spill_lane(&self) {
        self.spill_lane.lane.close().await;
    }

    /// Holds the tails as they are, for a checkpoint, and waits until everything on its way to disk
    /// is durable.
    pub(in crate::shard) async fn hold_tails(&self) -> Result<(), JournalError> {
        let own = &self.spill_lane;
        self.frontier_mut().hold_tails(true);
        own.lane.wake.poke();
        while !self.frontier().are_tails_durable() {
            if own.lane.is_broken() {
                let (name, what) = ("the queues".to_owned(), "a segment is damaged");
                return Err(JournalError::Damaged { name, what, at: 0 });
            }
            own.lane.job_ended().await;
        }
        Ok(())
    }

    pub(in crate::shard) fn release_tails(&self) {
        self.frontier_mut().hold_tails(false);
        self.spill_lane.lane.wake.poke();
    }

    /// Wakes the lane after the scheduler has done what it could for now.
    pub(in crate::shard) fn prod_spill_lane(&self) {
        self.spill_lane.lane.wake.poke();
    }

    /// Reports whether so much waits for the disk that nothing new may start. The beginning of each
    /// such stall is counted.
    pub(in crate::shard) fn is_tail_backed_up(&self) -> bool {
        let is_backed_up = self.frontier().is_tail_backed_up();
        if self.spill_lane.lane.note_stall(is_backed_up) {
            self.kit.probe.add(Count::QueueStalls, 1);
        }
        is_backed_up
    }

    /// Returns the next URL of a busy host, and waits for it if it is on disk. Returns `None` if
    /// there is none, or if the disk fails and the crawl ends; the URL then stays on disk.
    pub(in crate::shard) async fn next_url(&self, host: HostId) -> Option<Queued> {
        let own = &self.spill_lane;
        loop {
            let next = self.frontier_mut().next_url(host);
            match next {
                Next::Url(queued) => return Some(queued),
                Next::Nothing => return None,
                Next::OnDisk => {}
            }
            let is_failing = own.lane.rests_until(self.kit.world.now()).is_some();
            if own.lane.is_broken() || (is_failing && self.kit.life.is_draining()) {
                return None;
            }
            self.kit.probe.add(Count::QueueWaits, 1);
            let (refilled, wait) = oneshot::channel();
            own.waiting.borrow_mut().insert(host, refilled);
            own.lane.wake.poke();
            wait.await;
        }
    }

    pub(in crate::shard) fn tail_gauges(&self, gauges: Gauges) -> Gauges {
        let figures = self.frontier().tail_figures();
        Gauges {
            queue_disk_urls: figures.url_count,
            queue_live_bytes: figures.live_bytes,
            queue_disk_bytes: figures.disk_bytes,
            queue_segments: figures.segment_count as u64,
            ..gauges
        }
    }

    fn start_tail_job(self: &Rc<Self>, job: Job) {
        let shard = self.clone();
        self.spill_lane.lane.begin_job();
        self.kit.world.spawn(async move {
            let own = &shard.spill_lane;
            let job = job.run(&shard.kit.world, &own.files);
            let finished = shard.kit.spend_on(Stage::Disk, job).await;
            shard.kit.spend(Stage::Disk, || shard.end_tail_job(finished));
            own.lane.end_job();
            shard.kit.wake.poke();
        });
    }

    fn end_tail_job(&self, finished: Finished) {
        let Ended { refilled, error } = self.count_tail_job(finished);
        let mut waiting = self.spill_lane.waiting.borrow_mut();
        refilled.iter().for_each(|host| drop(waiting.remove(host)));
        let Some(error) = error else { return };
        // All waiting visits are woken: after a failure, some may no longer want to wait.
        waiting.clear();
        match error {
            TailError::Damaged { name, what } => {
                self.spill_lane.lane.break_off();
                self.kit.store_failed(StoreError::Damaged { name, what });
            }
            TailError::Disk { .. } => {
                tracing::warn!(
                    "the queues on disk: {error}; trying again in {} s, fetching goes on while RAM \
                     has room; check free space and the kernel log",
                    limits::QUEUE_RETRY_MS / 1_000
                );
                self.kit.probe.add(Count::QueueFailures, 1);
                self.spill_lane.lane.refuse(self.kit.world.now(), limits::QUEUE_RETRY_MS);
            }
        }
    }

    fn count_tail_job(&self, finished: Finished) -> Ended {
        let mut frontier = self.frontier_mut();
        let before = frontier.tail_figures();
        let ended = frontier.finish_tail_job(finished);
        if !self.archive.has_journal() {
            // Without a journal there is no checkpoint that could name a segment.
            frontier.segment_leftovers().retire_unless(|_| false);
        }
        let after = frontier.tail_figures();
        let probe = &self.kit.probe;
        probe.add(Count::QueueBatches, after.batch_count - before.batch_count);
        probe.add(Count::QueueRefills, after.refill_count - before.refill_count);
        probe.add(Count::QueueBytes, after.job_bytes - before.job_bytes);
        ended
    }
}

//! The job lane of URL seen: runs the sieve's jobs beside the fetches, and queues the URLs that
//! merges prove new.
//!
//! In: due jobs of the [`DiskSieve`], pokes of the scheduler. Out: queued URLs, counts, and, if a
//! run turns out to be damaged, the end of the crawl. If the disk refuses a job, it is tried again
//! after [`limits::SEEN_RETRY_MS`]; fetching goes on until the sieve is backed up. Touched by one
//! core.

use super::JobLane;
use crate::base::limits;
use crate::base::race::race;
use crate::crawl::flow::{ShardIndex, state_dir};
use crate::crawl::frontier::seen::{DiskSieve, Finished, Job, SeenError};
use crate::crawl::frontier::{Frontier, Sieve};
use crate::crawl::journal::JournalError;
use crate::crawl::metrics::{Count, Gauges, Stage};
use crate::crawl::store::StoreError;
use crate::io::{Disk, World};
use crate::shard::Shard;
use crate::shard::manners::Pace;
use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

pub(in crate::shard) struct SeenLane {
    directory: PathBuf,
    lane: JobLane,
    /// Whether the shard can do nothing until a job is done. If so, the job need not hold back in
    /// favour of fetches.
    is_awaited: Cell<bool>,
}

impl SeenLane {
    pub(in crate::shard) fn new(shard: ShardIndex) -> SeenLane {
        SeenLane {
            directory: state_dir(shard),
            lane: JobLane::default(),
            is_awaited: Cell::new(false),
        }
    }
}

impl<W: World> Shard<W> {
    /// Starts the jobs that are due, until the crawl ends or a run is found damaged.
    pub(in crate::shard) async fn keep_seen_lane(self: Rc<Self>) {
        while !self.kit.life.is_ended() && !self.seen_lane.lane.is_broken() {
            let now = self.kit.world.now();
            if let Some(until) = self.seen_lane.lane.rests_until(now) {
                self.kit.world.sleep_until(until).await;
                continue;
            }
            let is_hungry = self.is_hungry();
            let job = self.frontier_mut().sieve_mut().next_job(now, is_hungry);
            match job {
                Some(job) => self.start_job(job),
                None => {
                    let due = self.frontier().sieve().merge_at().filter(|at| *at > now);
                    let poked = self.seen_lane.lane.wake.wait();
                    match due {
                        Some(due) => _ = race(poked, self.kit.world.sleep_until(due)).await,
                        None => poked.await,
                    }
                }
            }
        }
    }

    /// Waits until everything that URL seen knows by now is in runs.
    pub(in crate::shard) async fn flush_sieve(&self) -> Result<(), JournalError> {
        let own = &self.seen_lane;
        self.frontier_mut().sieve_mut().want_flush();
        own.lane.wake.poke();
        while !self.frontier().sieve().is_flushed() {
            if own.lane.is_broken() {
                let (name, what) = ("URL seen".to_owned(), "a run is damaged");
                return Err(JournalError::Damaged { name, what, at: 0 });
            }
            own.lane.job_ended().await;
        }
        Ok(())
    }

    /// Closes the lane when the crawl has ended: waits for the jobs under way, so that no file is
    /// left half-written.
    pub(in crate::shard) async fn close_seen_lane(&self) {
        self.seen_lane.is_awaited.set(true);
        self.seen_lane.lane.close().await;
    }

    /// Wakes the lane after the scheduler has done what it could for now.
    pub(in crate::shard) fn prod_seen_lane(&self) {
        let is_awaited = self.seen_lane.lane.is_stalled() || self.is_hungry();
        self.seen_lane.is_awaited.set(is_awaited);
        self.seen_lane.lane.wake.poke();
    }

    /// Reports whether so much waits for the disk that nothing new may start. The beginning of each
    /// such stall is counted.
    pub(in crate::shard) fn is_sieve_backed_up(&self) -> bool {
        let is_backed_up = self.frontier().sieve().is_backed_up();
        if self.seen_lane.lane.note_stall(is_backed_up) {
            self.kit.probe.add(Count::SieveStalls, 1);
        }
        is_backed_up
    }

    pub(in crate::shard) fn sieve_gauges(
        &self,
        frontier: &Frontier<DiskSieve<W::File>, Pace>,
    ) -> Gauges {
        let figures = frontier.sieve().figures();
        let seen = frontier.sieve().seen_figures(self.kit.world.now());
        Gauges {
            seen_urls: figures.url_count as u64,
            seen_filter_bits: figures.bloom_bit_count as u64,
            seen_runs: seen.run_count as u64,
            seen_filter_right: figures.bloom_no_count,
            seen_filter_wrong: figures.bloom_wrong_count,
            seen_deferred: frontier.sieve().deferred_count() as u64,
            seen_lag_ms: u64::try_from(seen.lag.as_millis()).unwrap_or(u64::MAX),
            ..Gauges::default()
        }
    }

    /// Reports whether nothing is under way and nothing is queued, so that only a merge could bring
    /// work. While hosts wait for their turn, a merge waits for its time, because a merge of few
    /// URLs reads nearly as much as one of many.
    fn is_hungry(&self) -> bool {
        self.slots.is_idle()
            && self.called.hosts.borrow().is_empty()
            && self.frontier().pending_url_count() == 0
    }

    fn start_job(self: &Rc<Self>, job: Job<W::File>) {
        let shard = self.clone();
        let own = &self.seen_lane;
        own.lane.begin_job();
        self.kit.world.spawn(async move {
            let own = &shard.seen_lane;
            let job = job.run(&shard.kit.world, &own.directory, &own.is_awaited);
            let finished = shard.kit.spend_on(Stage::Disk, job).await;
            shard.kit.spend_on(Stage::Disk, shard.finish_job(finished)).await;
            own.lane.end_job();
            shard.kit.wake.poke();
        });
    }

    async fn finish_job(&self, finished: Finished<<W as Disk>::File>) {
        let ended = self.count_job(finished);
        match ended {
            Ok(()) => self.take_settled().await,
            Err(SeenError::Damaged { name, what }) => {
                self.seen_lane.lane.break_off();
                self.kit.store_failed(StoreError::Damaged { name, what });
            }
            Err(error @ SeenError::Disk { .. }) => {
                tracing::warn!(
                    "the set of known URLs on disk: {error}; trying again in {} s, fetching goes \
                     on while RAM has room; check free space and the kernel log",
                    limits::SEEN_RETRY_MS / 1_000
                );
                self.kit.probe.add(Count::SieveFailures, 1);
                self.seen_lane.lane.refuse(self.kit.world.now(), limits::SEEN_RETRY_MS);
            }
        }
    }

    fn count_job(&self, finished: Finished<<W as Disk>::File>) -> Result<(), SeenError> {
        let mut frontier = self.frontier_mut();
        let now = self.kit.world.now();
        let sieve = frontier.sieve_mut();
        let before = sieve.seen_figures(now);
        let ended = sieve.finish(finished);
        if !self.archive.has_journal() {
            // Without a journal there is no checkpoint that could name a run.
            sieve.leftovers().retire_unless(|_| false);
        }
        let after = sieve.seen_figures(now);
        let probe = &self.kit.probe;
        probe.add(Count::SieveMerges, after.merge_count - before.merge_count);
        probe.add(Count::SieveBytes, after.job_bytes - before.job_bytes);
        ended
    }

    /// Queues the URLs that a merge proved new, one step at a time.
    async fn take_settled(&self) {
        loop {
            let judged = self.frontier_mut().sieve_mut().judge(limits::SEEN_STEP_COUNT);
            self.kit.probe.add(Count::UrlsKnown, judged.known_count as u64);
            let settle_next = || {
                let now = self.kit.world.now();
                self.discovery.borrow_mut().settle_next(now, &mut self.out())
            };
            while let Some(offered) = settle_next() {
                self.offered(offered);
            }
            let judged_mark = self.frontier().sieve().judged_mark();
            self.archive.judged(judged_mark);
            if !judged.is_more {
                return;
            }
            self.kit.world.yield_now().await;
        }
    }
}

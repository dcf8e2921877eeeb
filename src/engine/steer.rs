//! The loop of the control thread: signals, limits, the page budget, and whether the crawl is done.

use super::Fleet;
use crate::base::limits;
use crate::crawl::config::Settings;
use crate::crawl::flow::{Candidate, Command, Outcome, ShardIndex};
use crate::crawl::metrics::{Report, Totals};
use crate::crawl::store::StoreError;
use crate::engine::report::{counted, span_text};
use crate::io::DiskError;
use crate::proto::url::Url;
use crate::shard::{BudgetDesk, Notice, Pulse, Recovery, Rounds, Verdict};
use crate::sys::process::{self, Signals};
use crossbeam::channel::Receiver;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why a crawl ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// Nothing was left to fetch.
    Done,
    PageLimit,
    TimeLimit,
    Interrupted,
    /// The disk failed. The files on it are sound.
    StoreFailed(StoreError),
    /// A shard ended by itself, so the crawl cannot go on.
    ShardEnded,
}

impl EndReason {
    pub fn name(&self) -> &'static str {
        match self {
            EndReason::Done => "done",
            EndReason::PageLimit => "page_limit",
            EndReason::TimeLimit => "time_limit",
            EndReason::Interrupted => "interrupted",
            EndReason::StoreFailed(_) => "store_failed",
            EndReason::ShardEnded => "shard_ended",
        }
    }
}

/// Whether all shards are ready for seeds.
pub(super) enum Gathered {
    Ready,
    Interrupted,
    /// One of the shards could not start. Its own result holds the reason.
    Failed,
}

/// The state of the control thread's loop.
pub(super) struct Steering {
    inbox: Receiver<Notice>,
    rounds: Rounds,
    round_begun_ns: u64,
    verdict: Verdict,
    pages: Vec<u64>,
    page_count_max: u64,
    budget: BudgetDesk,
    deadline_ns: u64,
    reports: Vec<Option<Report>>,
    /// Which shards have their state.
    ready: Vec<bool>,
    /// What the shards found when they resumed.
    recoveries: Vec<(ShardIndex, Recovery)>,
    /// Which shards have nothing under way any more.
    drained: Vec<bool>,
    store_failed: Option<StoreError>,
    /// Since when it is known that the crawl cannot end well: a shard has ended by itself, or the
    /// files of a shard are damaged.
    lost_ns: Option<u64>,
    /// Which shards wait for the disk.
    paused: Vec<bool>,
    directory: PathBuf,
    pub(super) failed_seeds: Vec<(Url, Outcome)>,
}

impl Steering {
    pub(super) fn new(
        settings: &Settings,
        shard_count: usize,
        inbox: Receiver<Notice>,
        directory: &Path,
    ) -> Steering {
        let now_ns = process::monotonic_ns();
        let span_ns = settings.max_seconds.saturating_mul(1_000_000_000);
        let deadline_ns =
            if settings.max_seconds == 0 { u64::MAX } else { now_ns.saturating_add(span_ns) };
        Steering {
            inbox,
            rounds: Rounds::new(shard_count),
            round_begun_ns: 0,
            verdict: Verdict::Again,
            pages: vec![0; shard_count],
            page_count_max: settings.max_pages,
            budget: BudgetDesk::new(settings.max_pages, shard_count),
            deadline_ns,
            reports: (0..shard_count).map(|_| None).collect(),
            ready: vec![false; shard_count],
            recoveries: Vec::new(),
            drained: vec![false; shard_count],
            store_failed: None,
            lost_ns: None,
            paused: vec![false; shard_count],
            directory: directory.to_owned(),
            failed_seeds: Vec::new(),
        }
    }

    /// Waits until every shard has its state.
    pub(super) fn gather(&mut self, fleet: &Fleet, signals: Option<&Signals>) -> Gathered {
        loop {
            self.listen(Duration::from_millis(limits::STEER_MS));
            if signals.is_some_and(|signals| signals.wait_ms(0)) {
                return Gathered::Interrupted;
            }
            if self.ready.iter().all(|ready| *ready) {
                return Gathered::Ready;
            }
            if fleet.is_over() {
                return Gathered::Failed;
            }
        }
    }

    /// Tells the operator what state the resumed crawl starts from.
    pub(super) fn tell_recovery(&self) {
        let Some((_, first)) = self.recoveries.first() else { return };
        let sum = |of: fn(&Recovery) -> u64| -> u64 {
            self.recoveries.iter().map(|(_, recovery)| of(recovery)).sum()
        };
        let slowest = self.recoveries.iter().map(|(_, of)| of.took).max().unwrap_or(first.took);
        tracing::info!(
            "resumed in {}: the crawl has {} of {} to come and knows {}; it read {}, cut {} of \
             unfinished entries and closed {} of the last run",
            span_text(slowest),
            counted(sum(|of| of.url_count), "URL", "URLs"),
            counted(sum(|of| of.host_count), "host", "hosts"),
            counted(sum(|of| of.seen_count), "URL", "URLs"),
            counted(sum(|of| of.entry_count), "journal entry", "journal entries"),
            counted(sum(|of| of.cut_bytes), "byte", "bytes"),
            counted(sum(|of| of.salvaged_count), "WARC file", "WARC files"),
        );
        let stale_count = sum(|of| of.stale_count);
        if stale_count > 0 {
            tracing::info!(
                "the queues also hold {} of URLs that have ended or wait for another try since the \
                 checkpoint; the crawl skips them",
                counted(stale_count, "copy", "copies")
            );
        }
        let earlier = self.earlier();
        tracing::info!(
            "the crawl has {} from {} so far",
            counted(earlier.page_count, "page", "pages"),
            counted(earlier.run_count, "run", "runs")
        );
    }

    /// Returns the totals of the runs before this one.
    pub(super) fn earlier(&self) -> Totals {
        let mut totals = Totals::default();
        self.recoveries.iter().for_each(|(_, recovery)| totals.merge(&recovery.totals));
        totals
    }

    /// Ends a crawl whose visits have not begun.
    pub(super) fn stop(
        &mut self,
        fleet: &Fleet,
        signals: Option<&Signals>,
        reason: EndReason,
    ) -> EndReason {
        self.end(fleet, signals, &reason);
        reason
    }

    /// Lets the shards begin, each with its seeds. Every shard has its state by now.
    pub(super) fn open(&mut self, fleet: &Fleet, shares: Vec<Vec<Candidate>>) {
        for (index, share) in shares.into_iter().enumerate() {
            for command in [Command::Open, Command::Seeds(share)] {
                let shard = ShardIndex(index as u16);
                let mut unsent = fleet.send(shard, command).err();
                while let Some(command) = unsent.take_if(|_| !fleet.has_ended(shard)) {
                    self.listen(Duration::from_millis(limits::STEER_MS));
                    unsent = fleet.send(shard, command).err();
                }
            }
        }
    }

    /// Reports whether the crawl has failed and the shards have had their time to end.
    pub(super) fn is_past_waiting(&self) -> bool {
        let bound_ms = limits::LOST_SHARD_DRAIN_MS + limits::LOST_SHARD_HALT_MS;
        self.is_lost_for_ms(bound_ms)
    }

    /// Steers until the crawl has to end, and tells the shards so.
    pub(super) fn run(
        &mut self,
        fleet: &Fleet,
        signals: Option<&Signals>,
        watch: &mut dyn FnMut(&[Report]),
    ) -> EndReason {
        let mut watched_ns = 0;
        let reason = loop {
            self.listen(Duration::from_millis(limits::STEER_MS));
            self.budget.deal(|shard, command| fleet.command(shard, command));
            let now_ns = process::monotonic_ns();
            if now_ns - watched_ns >= limits::WATCH_MS * 1_000_000 {
                watched_ns = now_ns;
                let reports: Vec<Report> = self.reports.iter().flatten().cloned().collect();
                watch(&reports);
            }
            if let Some(error) = self.store_failed.take() {
                break EndReason::StoreFailed(error);
            }
            if signals.is_some_and(|signals| signals.wait_ms(0)) {
                break EndReason::Interrupted;
            }
            if now_ns >= self.deadline_ns {
                break EndReason::TimeLimit;
            }
            if self.page_count_max > 0 && self.pages.iter().sum::<u64>() >= self.page_count_max {
                break EndReason::PageLimit;
            }
            if fleet.is_over() {
                break EndReason::ShardEnded;
            }
            if self.verdict == Verdict::Quiet {
                break EndReason::Done;
            }
            self.probe(fleet, now_ns);
        };
        self.end(fleet, signals, &reason);
        reason
    }

    /// Returns why the crawl ended, now that the shards have ended: the disk's failure if files are
    /// left open, else `reason`.
    pub(super) fn reason(&mut self, reason: EndReason) -> EndReason {
        self.store_failed.take().map_or(reason, EndReason::StoreFailed)
    }

    /// Receives notices for `span`. If it is zero, receives those that are waiting.
    pub(super) fn listen(&mut self, span: Duration) {
        let until_ns = process::monotonic_ns() + span.as_nanos() as u64;
        // The number is bounded by the inbox's capacity, so a flood of notices cannot keep this
        // thread from steering.
        for _ in 0..limits::NOTICE_COUNT_MAX {
            let left_ns = until_ns.saturating_sub(process::monotonic_ns());
            let Ok(notice) = self.inbox.recv_timeout(Duration::from_nanos(left_ns)) else {
                return;
            };
            match notice {
                Notice::Pulse(pulse) => self.take_pulse(pulse),
                Notice::Report(mut report) => {
                    report.gauges.resident_bytes = process::resident_bytes().0;
                    let shard = report.shard.0 as usize;
                    self.reports[shard] = Some(*report);
                }
                Notice::BudgetWanted(shard) => self.budget.wanted(shard),
                Notice::BudgetReturned(pages) => self.budget.returned(pages),
                Notice::SeedFailed { url, outcome } => {
                    if self.failed_seeds.len() < limits::SEED_PROBLEM_COUNT_MAX {
                        self.failed_seeds.push((url, outcome));
                    }
                }
                Notice::Ready { shard, recovery } => {
                    self.ready[shard.0 as usize] = true;
                    self.recoveries.extend(recovery.map(|recovery| (shard, *recovery)));
                }
                Notice::Drained(shard) => self.drained[shard.0 as usize] = true,
                Notice::StoreFailed { error, .. } => self.store_failed = Some(error),
                Notice::DiskFailed { shard, error } => self.pause(shard, &error),
                Notice::DiskWorks(shard) => self.resume(shard),
            }
        }
    }

    /// Notes that a shard waits for the disk. The operator gets one line for all shards, because
    /// they share the disk.
    fn pause(&mut self, shard: ShardIndex, error: &StoreError) {
        let is_first = !self.paused.contains(&true);
        self.paused[shard.0 as usize] = true;
        if is_first {
            let advice = match error {
                StoreError::Disk { error: DiskError::Full, .. } => "free space on it",
                _ => "check that disk and the kernel log",
            };
            tracing::warn!(
                "the crawl is paused, the disk fails: {}: {error}; {advice}. The crawl goes on by \
                 itself when the disk works again, and nothing is lost. Ctrl-C ends the crawl",
                self.directory.display()
            );
        }
    }

    fn resume(&mut self, shard: ShardIndex) {
        self.paused[shard.0 as usize] = false;
        if !self.paused.contains(&true) {
            tracing::info!("the disk works again, the crawl goes on: {}", self.directory.display());
        }
    }

    fn take_pulse(&mut self, pulse: Pulse) {
        self.pages[pulse.shard.0 as usize] = pulse.page_count;
        match self.rounds.answer(pulse) {
            Verdict::Waiting => {}
            verdict => self.verdict = verdict,
        }
    }

    /// Begins the next round of probes if the last is complete, or has waited too long for an
    /// answer.
    fn probe(&mut self, fleet: &Fleet, now_ns: u64) {
        let overdue = now_ns - self.round_begun_ns >= limits::PROBE_PATIENCE_MS * 1_000_000;
        if self.verdict == Verdict::Waiting && !overdue {
            return;
        }
        self.verdict = Verdict::Waiting;
        self.round_begun_ns = now_ns;
        let round = self.rounds.begin();
        for index in 0..self.pages.len() {
            fleet.command(ShardIndex(index as u16), Command::Probe { round });
        }
    }

    /// Lets every shard drain, then halts them all. Until the last shard has drained, the others
    /// answer its questions. A second signal halts the shards at once. So does a disk that fails,
    /// unless the crawl ended because it was done or reached its page limit. A lost shard can no
    /// longer answer the others, so they get a bounded time.
    fn end(&mut self, fleet: &Fleet, signals: Option<&Signals>, reason: &EndReason) {
        // If the crawl was told to stop, it does not wait for a disk that fails.
        let has_patience = matches!(reason, EndReason::Done | EndReason::PageLimit);
        if matches!(reason, EndReason::StoreFailed(_)) {
            self.lost_ns = Some(process::monotonic_ns());
        }
        let shards = || (0..fleet.shard_count()).map(|index| ShardIndex(index as u16));
        let mut untold: Vec<ShardIndex> = shards().collect();
        loop {
            untold
                .retain(|shard| !fleet.has_ended(*shard) && !fleet.command(*shard, Command::Drain));
            if fleet.is_over() && self.lost_ns.is_none() {
                self.lost_ns = Some(process::monotonic_ns());
            }
            let is_over = |shard| fleet.has_ended(shard);
            let all_drained =
                shards().all(|shard| self.drained[shard.0 as usize] || is_over(shard));
            if all_drained || signals.is_some_and(|signals| signals.wait_ms(0)) {
                break;
            }
            if !has_patience && self.paused.contains(&true) {
                break;
            }
            if self.is_lost_for_ms(limits::LOST_SHARD_DRAIN_MS) {
                break;
            }
            self.listen(Duration::from_millis(limits::STEER_MS));
        }
        untold = shards().collect();
        loop {
            untold
                .retain(|shard| !fleet.has_ended(*shard) && !fleet.command(*shard, Command::Halt));
            if untold.is_empty() || self.is_past_waiting() {
                return;
            }
            self.listen(Duration::from_millis(limits::STEER_MS));
        }
    }

    fn is_lost_for_ms(&self, span_ms: u64) -> bool {
        let now_ns = process::monotonic_ns();
        self.lost_ns.is_some_and(|lost_ns| now_ns - lost_ns >= span_ms * 1_000_000)
    }
}

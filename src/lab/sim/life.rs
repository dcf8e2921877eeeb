//! One life of a simulated crawler: from the start of its process to its end, or until a crash
//! strikes it.
//!
//! A task in a world of its own, [`CONTROL_WORLD`], plays the part of the control thread and dies
//! with the shards. It starts the shards, waits until all have recovered their state, notes how the
//! slots are dealt from now on, and sends the seeds. Then it probes the shards until all are idle
//! or the time is up, lets them drain, and halts them.

use crate::base::limits::{
    LOST_SHARD_DRAIN_MS, LOST_SHARD_HALT_MS, NOTICE_COUNT_MAX, SIM_DRAIN_MS_MAX,
    SIM_MAILBOX_BATCH_COUNT, SIM_MANIFEST_MS,
};
use crate::base::race::{First, race};
use crate::base::watermark::Watermark;
use crate::base::{HashKey, Time};
use crate::crawl::flow::{Candidate, Class, Command, Mail, Outcome, ShardIndex, Trail, Via};
use crate::crawl::metrics::Report;
use crate::io::sim::{Sim, SimError, SimInbox, SimOutbox, SimWorld};
use crate::io::{Clock, Inbox, Outbox, Spawn};
use crate::lab::sim::crash::Moment;
use crate::lab::sim::crawl::{CrawlError, CrawlPlan, DNS};
use crate::proto::url::Url;
use crate::shard::{self, BudgetDesk, Notice, Past, Placement, Plan, Rounds, Verdict};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// The control thread's world. The shards' worlds are numbered from zero; the servers' world is the
/// one after this.
pub(super) const CONTROL_WORLD: u16 = u16::MAX - 2;

/// How a life ended.
#[derive(Debug)]
pub enum End {
    /// Nothing was left to do, or time was up.
    Done(Done),
    /// The crash came first.
    Struck,
    /// The process could not go on.
    Failed(CrawlError),
}

/// What a life that ended by itself leaves.
#[derive(Debug)]
pub struct Done {
    pub reports: Vec<Report>,
    pub failed_seeds: Vec<(Url, Outcome)>,
    /// It ended because the time was up or the page limit was reached.
    pub is_stopped: bool,
}

/// A life under way.
pub(super) struct Life<'s> {
    sim: &'s Sim,
    shard_count: u16,
    began: Time,
    fell_at: Cell<Option<Time>>,
    shared: Rc<Shared>,
}

/// What the tasks of a life report to the code that runs it.
#[derive(Default)]
struct Shared {
    shard_ends: RefCell<Vec<Result<Report, CrawlError>>>,
    /// Raised when one of the shards has failed.
    lost: Watermark,
    /// How the control thread ended, and when.
    steered: RefCell<Option<(Time, Steered)>>,
    is_struck: Cell<bool>,
    is_dealt: Cell<bool>,
    is_sown: Cell<bool>,
    /// The shards that wait for a failing disk, and since when.
    failing: RefCell<BTreeMap<u16, Time>>,
}

type Steered = Result<(Vec<(Url, Outcome)>, bool), CrawlError>;

impl<'s> Life<'s> {
    pub fn begin(sim: &'s Sim, plan: &CrawlPlan, shard_count: u16, control: Control) -> Life<'s> {
        let shared = Rc::new(Shared::default());
        let crew = Crew::new(sim, plan, shard_count, &control, &shared);
        let (clock, task_shared) = (sim.world(CONTROL_WORLD), shared.clone());
        let seeds = plan.seeds.clone();
        sim.world(CONTROL_WORLD).spawn(async move {
            let steered = crew.govern(&clock, &seeds, &control, &task_shared).await;
            *task_shared.steered.borrow_mut() = Some((clock.now(), steered));
        });
        Life { sim, shard_count, began: sim.now(), fell_at: Cell::default(), shared }
    }

    /// Runs the life until its end or until `moment`. If only shard `lone` is killed then, the
    /// others must end by themselves.
    pub fn run(&self, moment: Option<Moment>, lone: Option<u16>) -> Result<End, SimError> {
        let mut strike_step = u64::MAX;
        let mut is_fallen = false;
        match moment {
            Some(Moment::Step(count)) => strike_step = self.sim.step_count() + count,
            Some(Moment::After(span)) => self.strike_at(self.began + span),
            None => {}
        }
        loop {
            if let Some(end) = self.end() {
                return Ok(end);
            }
            if !is_fallen && (self.shared.is_struck.get() || self.sim.step_count() >= strike_step) {
                let Some(lone) = lone else { return Ok(End::Struck) };
                is_fallen = true;
                self.fell_at.set(Some(self.sim.now()));
                let shard = lone % self.shard_count;
                self.sim.kill(shard);
                self.shared.shard_ended(Err(CrawlError::Lost(ShardIndex(shard))));
            }
            if !self.sim.run_until_step(self.sim.step_count() + 1)? {
                let task_count = self.sim.task_count();
                return Err(SimError::Deadlock { at: self.sim.now(), task_count });
            }
        }
    }

    /// Returns every world that dies with this process.
    pub fn worlds(&self) -> impl Iterator<Item = u16> + use<> {
        (0..self.shard_count).chain([CONTROL_WORLD])
    }

    /// Reports whether all shards had recovered their state and the way of dealing slots was noted.
    pub fn is_dealt(&self) -> bool {
        self.shared.is_dealt.get()
    }

    /// Returns when the shard that was killed alone died.
    pub fn fell_at(&self) -> Option<Time> {
        self.fell_at.get()
    }

    /// Returns since when a shard has been waiting for its disk.
    pub fn failing_since(&self) -> Option<Time> {
        self.shared.failing.borrow().values().min().copied()
    }

    fn strike_at(&self, at: Time) {
        let (clock, shared) = (self.sim.world(CONTROL_WORLD), self.shared.clone());
        self.sim.world(CONTROL_WORLD).spawn(async move {
            clock.sleep_until(at).await;
            shared.is_struck.set(true);
        });
    }

    fn end(&self) -> Option<End> {
        let mut shard_ends = self.shared.shard_ends.borrow_mut();
        let failed = shard_ends.iter().position(Result::is_err);
        let mut steered = self.shared.steered.borrow_mut();
        let (at, _) = steered.as_ref()?;
        if shard_ends.len() < usize::from(self.shard_count) {
            let halt_ms = if failed.is_some() { LOST_SHARD_HALT_MS } else { SIM_DRAIN_MS_MAX };
            let is_late = self.sim.now() > *at + Duration::from_millis(halt_ms);
            let is_given_up = matches!(&*steered, Some((_, Err(_)))) && failed.is_none();
            if !is_given_up {
                return is_late.then_some(End::Failed(CrawlError::Endless));
            }
        }
        if let Some(index) = failed {
            return shard_ends.swap_remove(index).err().map(End::Failed);
        }
        let (_, steered) = steered.take()?;
        Some(match steered {
            Err(error) => End::Failed(error),
            Ok((failed_seeds, is_stopped)) => {
                let reports = shard_ends.drain(..).flatten().collect();
                End::Done(Done { reports, failed_seeds, is_stopped })
            }
        })
    }
}

impl Shared {
    fn shard_ended(&self, end: Result<Report, CrawlError>) {
        let is_lost = end.is_err();
        self.shard_ends.borrow_mut().push(end);
        if is_lost {
            self.lost.step();
        }
    }
}

/// What the control thread of a life is told at its start.
#[derive(Clone, Copy)]
pub(super) struct Control {
    /// What an earlier process left.
    pub past: Option<Past>,
    pub generation: u32,
    pub stop_at: Time,
}

/// The shards before they start, and the mailboxes to them.
struct Crew {
    outboxes: Vec<SimOutbox<Mail>>,
    placement: Placement,
    hash_key: HashKey,
    control: SimInbox<Notice>,
    /// Each of these starts one shard in its own world.
    starts: Vec<Box<dyn FnOnce()>>,
    /// The page limit; zero if there is none.
    page_count_max: u64,
}

impl Crew {
    fn new(
        sim: &Sim,
        plan: &CrawlPlan,
        shard_count: u16,
        control: &Control,
        shared: &Rc<Shared>,
    ) -> Crew {
        let placement = Placement::new(shard_count);
        let hash_key = HashKey::new(plan.hash_secret);
        let shard_plan = Plan {
            hash_key: hash_key.clone(),
            upstreams: vec![DNS],
            placement,
            homes: Default::default(),
            extra_ca: None,
            has_budget: plan.settings.max_pages > 0,
            settings: plan.settings.clone(),
            sabotage: plan.sabotage,
            past: control.past,
            generation: control.generation,
        };
        let (to_control, notices) = sim.mailbox::<Notice>(NOTICE_COUNT_MAX);
        let (outboxes, inboxes): (Vec<_>, Vec<_>) =
            (0..shard_count).map(|_| sim.mailbox::<Mail>(SIM_MAILBOX_BATCH_COUNT)).unzip();
        let mut starts: Vec<Box<dyn FnOnce()>> = Vec::new();
        for (index, inbox) in (0..shard_count).zip(inboxes) {
            let world = sim.world(index);
            let peers: Vec<Option<SimOutbox<Mail>>> = (0..shard_count)
                .zip(&outboxes)
                .map(|(peer, outbox)| (peer != index).then(|| outbox.clone()))
                .collect();
            let (shard_plan, control) = (shard_plan.clone(), to_control.clone());
            let shared = shared.clone();
            starts.push(Box::new(move || {
                let own = world.clone();
                world.spawn(async move {
                    let shard = ShardIndex(index);
                    let end = shard::run(own, shard, shard_plan, inbox, peers, control).await;
                    shared.shard_ended(end.map_err(CrawlError::Shard));
                });
            }));
        }
        let page_count_max = plan.settings.max_pages;
        Crew { outboxes, placement, hash_key, control: notices, starts, page_count_max }
    }

    async fn govern(
        mut self,
        clock: &SimWorld,
        seeds: &[Url],
        control: &Control,
        shared: &Shared,
    ) -> Steered {
        self.starts.drain(..).for_each(|start| start());
        let steering = self.steer(clock, seeds, control, shared);
        match race(steering, shared.lost.reached(1)).await {
            First::Left(steered) => steered,
            First::Right(()) => self.give_up(clock).await,
        }
    }

    /// Ends the life as the engine does when a shard has ended by itself: the others have a while
    /// to drain, then they are halted. The life ends with the reason of the lost shard.
    async fn give_up(&self, clock: &SimWorld) -> Steered {
        let drain_end = clock.now() + Duration::from_millis(LOST_SHARD_DRAIN_MS);
        self.tell_all(&Command::Drain);
        clock.sleep_until(drain_end).await;
        let halt_end = drain_end + Duration::from_millis(LOST_SHARD_HALT_MS);
        for outbox in &self.outboxes {
            // The mailbox of the lost shard may be full for ever.
            race(tell(outbox, &Command::Halt, clock), clock.sleep_until(halt_end)).await;
        }
        Err(CrawlError::Endless)
    }

    /// Opens the shards, so that visits may begin, and sends each shard all of its seeds in one
    /// message.
    async fn open(&self, clock: &SimWorld, seeds: &[Url]) {
        let mut sown = vec![Vec::new(); self.outboxes.len()];
        for url in seeds {
            let owner = self.placement.of_host(url.host_key(&self.hash_key));
            let (class, via, trail) = (Class::High, Via::Seed, Trail::default());
            let candidate = Candidate { url: url.clone(), depth: 0, class, via, trail };
            sown[usize::from(owner.0)].push(candidate);
        }
        for (outbox, candidates) in self.outboxes.iter().zip(sown) {
            tell(outbox, &Command::Open, clock).await;
            tell(outbox, &Command::Seeds(candidates), clock).await;
        }
    }

    /// Steers the crawl; returns the seeds that failed, and whether time was up or the page limit
    /// was reached.
    async fn steer(
        &self,
        clock: &SimWorld,
        seeds: &[Url],
        control: &Control,
        shared: &Shared,
    ) -> Steered {
        let mut rounds = Rounds::new(self.outboxes.len());
        let mut budget = BudgetDesk::new(self.page_count_max, self.outboxes.len());
        let mut pages = vec![0; self.outboxes.len()];
        let mut failed_seeds = Vec::new();
        let mut recovered = vec![false; self.outboxes.len()];
        let mut drained = vec![false; self.outboxes.len()];
        // Whether time was up or the page limit was reached, and until when the drain may go on.
        let mut ending: Option<(bool, Time)> = None;
        let end = |is_stopped| {
            self.tell_all(&Command::Drain);
            Some((is_stopped, clock.now() + Duration::from_millis(SIM_DRAIN_MS_MAX)))
        };
        loop {
            match self.control.receive().await {
                Notice::Ready { shard, .. } => {
                    recovered[usize::from(shard.0)] = true;
                    if recovered.iter().all(|recovered| *recovered) {
                        let saved_at = clock.now() + Duration::from_millis(SIM_MANIFEST_MS);
                        clock.sleep_until(saved_at).await;
                        shared.is_dealt.set(true);
                        self.open(clock, seeds).await;
                        shared.is_sown.set(true);
                    }
                }
                Notice::Pulse(pulse) => {
                    pages[usize::from(pulse.shard.0)] = pulse.page_count;
                    let page_count = pages.iter().sum::<u64>();
                    let is_full = self.page_count_max > 0 && page_count >= self.page_count_max;
                    if is_full && ending.is_none() {
                        ending = end(true);
                    }
                    if rounds.answer(pulse) == Verdict::Quiet && ending.is_none() {
                        ending = end(false);
                    }
                }
                // Reports come once a second, which is often enough to probe.
                Notice::Report(report) if report.shard == ShardIndex(0) => match ending {
                    // Before the seeds are sent, idle shards mean nothing.
                    None if !shared.is_sown.get() => {}
                    None if clock.now() >= control.stop_at => ending = end(true),
                    None => self.tell_all(&Command::Probe { round: rounds.begin() }),
                    Some((_, patience_end)) if clock.now() >= patience_end => {
                        return Err(CrawlError::Endless);
                    }
                    Some(_) => self.tell_all(&Command::Drain),
                },
                Notice::Drained(shard) => drained[usize::from(shard.0)] = true,
                Notice::SeedFailed { url, outcome } => failed_seeds.push((url, outcome)),
                Notice::StoreFailed { error, .. } => return Err(CrawlError::Store(error)),
                // The shard waits for the disk by itself.
                Notice::DiskFailed { shard, .. } => {
                    shared.failing.borrow_mut().entry(shard.0).or_insert(clock.now());
                }
                Notice::DiskWorks(shard) => {
                    shared.failing.borrow_mut().remove(&shard.0);
                }
                Notice::BudgetWanted(shard) => budget.wanted(shard),
                Notice::BudgetReturned(page_count) => budget.returned(page_count),
                Notice::Report(_) => {}
            }
            budget.deal(|shard, command| {
                self.outboxes[usize::from(shard.0)].try_send(Mail::Command(command)).is_ok()
            });
            if let Some((is_stopped, _)) = ending
                && drained.iter().all(|drained| *drained)
            {
                for outbox in &self.outboxes {
                    tell(outbox, &Command::Halt, clock).await;
                }
                return Ok((failed_seeds, is_stopped));
            }
        }
    }

    /// Tries to send a command to all shards. A shard with a full mailbox gets it again after the
    /// next report.
    fn tell_all(&self, command: &Command) {
        for outbox in &self.outboxes {
            let _ = outbox.try_send(Mail::Command(command.clone()));
        }
    }
}

async fn tell(outbox: &SimOutbox<Mail>, command: &Command, clock: &SimWorld) {
    while outbox.try_send(Mail::Command(command.clone())).is_err() {
        clock.sleep_until(clock.now() + Duration::from_millis(1)).await;
    }
}

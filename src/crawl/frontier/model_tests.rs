//! The frontier against naive models, in random steps: no URL is lost or doubled, no host is asked
//! before its time, hosts leave RAM when they are cold and come back with their page counts, and at
//! the cap the class that must give way gives way. The steps run with all queues in RAM, and with
//! so little RAM that all queues go to a disk, which may fail.

// prop_oneof expands to an Arc.
#![allow(clippy::disallowed_types)]

use super::spill::{Ended, Files, Finished, TailError};
use super::tests::{candidate, offer};
use super::*;
use crate::base::hash_key::test_key;
use crate::crawl::flow::Trail;
use crate::io::sim::{DiskFaults, Sim, SimFile, SimWorld};
use crate::proto::url::HostKey;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

/// A frontier without any care for cost.
#[derive(Default)]
struct Naive {
    seen: HashSet<String>,
    hosts: HashMap<String, NaiveHost>,
    in_flight: Vec<(String, Queued)>,
    /// Pages of the hosts that have left.
    cold: HashMap<String, u32>,
    now: Time,
}

#[derive(Default)]
struct NaiveHost {
    queues: [VecDeque<Queued>; 4],
    eligible_at: Time,
    is_busy: bool,
    page_count: u32,
}

impl Naive {
    /// Returns the hosts that have had nothing left to do for `idle`.
    fn cold_names(&self, idle: Duration) -> HashSet<String> {
        let has_open = |name: &str| self.in_flight.iter().any(|(of, _)| of == name);
        let is_cold = |name: &&String| {
            let host = &self.hosts[*name];
            let has_work = host.is_busy || host.queued_count() > 0 || has_open(name);
            !has_work && host.eligible_at + idle <= self.now
        };
        self.hosts.keys().filter(is_cold).cloned().collect()
    }
}

impl NaiveHost {
    fn queued_count(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Offer {
        host: u8,
        path: u16,
        class: u8,
    },
    Advance {
        span_us: u64,
    },
    Pop,
    Next {
        pick: usize,
    },
    Requeue {
        pick: usize,
        wait_us: u64,
    },
    Release {
        pick: usize,
        wait_us: u64,
    },
    Postpone {
        host: u8,
        wait_us: u64,
    },
    Drain {
        host: u8,
    },
    /// Runs the next job; only a later step gives its result back.
    Run,
    Finish {
        pick: usize,
    },
    Hold {
        is_held: bool,
    },
    /// A URL in flight comes to its end.
    Complete {
        pick: usize,
    },
    /// The hand goes round once.
    Sweep {
        idle_us: u64,
        may_leave: u8,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let wait_us = || prop_oneof![Just(0), 0..3_000u64, 0..10_000_000u64];
    prop_oneof![
        8 => (0..6u8, 0..300u16, 0..4u8)
            .prop_map(|(host, path, class)| Step::Offer { host, path, class }),
        3 => wait_us().prop_map(|span_us| Step::Advance { span_us }),
        4 => Just(Step::Pop),
        4 => any::<usize>().prop_map(|pick| Step::Next { pick }),
        1 => (any::<usize>(), wait_us())
            .prop_map(|(pick, wait_us)| Step::Requeue { pick, wait_us }),
        4 => (any::<usize>(), wait_us())
            .prop_map(|(pick, wait_us)| Step::Release { pick, wait_us }),
        1 => (0..6u8, wait_us()).prop_map(|(host, wait_us)| Step::Postpone { host, wait_us }),
        1 => (0..6u8).prop_map(|host| Step::Drain { host }),
        4 => Just(Step::Run),
        4 => any::<usize>().prop_map(|pick| Step::Finish { pick }),
        1 => any::<bool>().prop_map(|is_held| Step::Hold { is_held }),
        4 => any::<usize>().prop_map(|pick| Step::Complete { pick }),
        2 => (wait_us(), any::<u8>())
            .prop_map(|(idle_us, may_leave)| Step::Sweep { idle_us, may_leave }),
    ]
}

struct Pair {
    frontier: Frontier,
    naive: Naive,
    handed_out: HashSet<String>,
    world: SimWorld,
    files: Files<SimFile>,
    /// Jobs that have run and were not given back yet.
    done: Vec<Finished>,
}

impl Pair {
    async fn new(world: SimWorld, caps: Caps) -> Pair {
        let image = spill::open(&world, "state".as_ref(), Vec::new()).await.expect("a disk");
        let files = Files::new("state".into());
        let mut frontier = Frontier::new(caps, test_key());
        frontier.adopt_segments(&image);
        let (naive, handed_out) = (Naive::default(), HashSet::new());
        Pair { frontier, naive, handed_out, world, files, done: Vec::new() }
    }

    async fn run_job(&mut self) -> bool {
        let Some(job) = self.frontier.next_tail_job() else { return false };
        self.done.push(job.run(&self.world, &self.files).await);
        true
    }

    fn finish_job(&mut self, pick: usize) -> Result<(), TestCaseError> {
        if !self.done.is_empty() {
            let finished = self.done.swap_remove(pick % self.done.len());
            let Ended { error, .. } = self.frontier.finish_tail_job(finished);
            prop_assert!(!matches!(error, Some(TailError::Damaged { .. })), "{:?}", error);
            self.frontier.segment_leftovers().retire_unless(|_| false);
        }
        Ok(())
    }

    /// Runs jobs until none is due, or for a while if the disk always fails.
    async fn run_jobs(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..1_000 {
            while self.run_job().await {}
            if self.done.is_empty() {
                return Ok(());
            }
            self.finish_job(0)?;
        }
        Ok(())
    }

    fn id(&self, name: &str) -> HostId {
        self.frontier.host_by_key(HostKey::of(&test_key(), name)).expect("the naive model knows it")
    }

    /// Returns one of the busy hosts, by the naive model.
    fn busy(&self, pick: usize) -> Option<String> {
        let mut busy: Vec<_> = self
            .naive
            .hosts
            .iter()
            .filter(|(_, host)| host.is_busy)
            .map(|(name, _)| name)
            .collect();
        busy.sort_unstable();
        if busy.is_empty() { None } else { Some(busy[pick % busy.len()].clone()) }
    }

    async fn apply(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Offer { host, path, class } => self.offer(host, path, class)?,
            Step::Advance { span_us } => {
                self.naive.now += Duration::from_micros(span_us);
                self.frontier.advance(self.naive.now);
                prop_assert!(self.frontier.next_due().is_none_or(|due| due > self.naive.now));
            }
            Step::Pop => self.pop()?,
            Step::Next { pick } => {
                if let Some(name) = self.busy(pick) {
                    let _ = self.next(&name)?;
                }
            }
            Step::Requeue { pick, wait_us } => self.requeue(pick, wait_us),
            Step::Release { pick, wait_us } => {
                if let Some(name) = self.busy(pick) {
                    self.release(&name, wait_us);
                }
            }
            Step::Postpone { host, wait_us } => {
                let name = format!("h{host}.test");
                let not_before = self.naive.now + Duration::from_micros(wait_us);
                if let Some(host) = self.naive.hosts.get_mut(&name) {
                    host.eligible_at = host.eligible_at.max(not_before);
                    let id = self.id(&name);
                    self.frontier.postpone(id, not_before);
                }
            }
            Step::Drain { host } => self.drain(&format!("h{host}.test")).await?,
            Step::Run => _ = self.run_job().await,
            Step::Finish { pick } => self.finish_job(pick)?,
            Step::Hold { is_held } => self.frontier.hold_tails(is_held),
            Step::Complete { pick } => self.complete(pick),
            Step::Sweep { idle_us, may_leave } => {
                self.sweep(Duration::from_micros(idle_us), |name| {
                    let number = name.as_bytes()[1] - b'0';
                    may_leave >> number & 1 == 1
                })?;
            }
        }
        self.check()
    }

    fn offer(&mut self, host: u8, path: u16, class: u8) -> Result<(), TestCaseError> {
        let class = Class::ALL[class as usize];
        let port = if path.is_multiple_of(3) { ":8080" } else { "" };
        let text = format!("http://h{host}.test{port}/{path}?{}", "q".repeat(path as usize % 50));
        let trail: Trail = (0..u64::from(path % 5)).collect();
        let found = Candidate { depth: path, trail, ..candidate(&text, class) };
        let is_new = self.naive.seen.insert(text);
        let offered = self.frontier.offer(found.clone(), self.naive.now);
        prop_assert_eq!(offered, if is_new { Offered::Queued } else { Offered::Known });
        if is_new {
            let name = format!("h{host}.test");
            let page_count = self.naive.cold.remove(&name).unwrap_or(0);
            let new = || NaiveHost { page_count, ..NaiveHost::default() };
            let host = self.naive.hosts.entry(name).or_insert_with(new);
            host.queues[class.index()].push_back(found.into());
        }
        Ok(())
    }

    fn pop(&mut self) -> Result<(), TestCaseError> {
        if let Some(id) = self.frontier.pop_ready() {
            let name = self.frontier.host_name(id).to_string();
            let host = self.naive.hosts.get_mut(&name).expect("a host that was offered");
            prop_assert!(!host.is_busy && host.queued_count() > 0);
            prop_assert!(host.eligible_at <= self.naive.now, "asked too early");
            host.is_busy = true;
        }
        Ok(())
    }

    /// Returns true if the next URL is on disk and has to be asked for again.
    fn next(&mut self, name: &str) -> Result<bool, TestCaseError> {
        let id = self.id(name);
        let next = self.frontier.next_url(id);
        let host = self.naive.hosts.get_mut(name).expect("busy");
        prop_assert_eq!(next == Next::Nothing, host.queued_count() == 0);
        let is_on_disk = next == Next::OnDisk;
        let Some(queued) = next.url() else { return Ok(is_on_disk) };
        prop_assert_eq!(Some(&queued), host.queues[queued.class.index()].front());
        host.queues[queued.class.index()].pop_front();
        host.page_count += 1;
        let is_first = self.handed_out.insert(queued.url.to_string());
        prop_assert!(is_first || queued.tries > 0, "handed out twice");
        self.naive.in_flight.push((name.to_string(), queued));
        Ok(false)
    }

    fn requeue(&mut self, pick: usize, wait_us: u64) {
        if self.naive.in_flight.is_empty() {
            return;
        }
        let pick = pick % self.naive.in_flight.len();
        let (name, mut queued) = self.naive.in_flight.swap_remove(pick);
        queued.tries += 1;
        let not_before = self.naive.now + Duration::from_micros(wait_us);
        let id = self.id(&name);
        let host = self.naive.hosts.get_mut(&name).expect("it was busy");
        host.queues[queued.class.index()].push_front(queued.clone());
        host.page_count -= 1;
        host.eligible_at = host.eligible_at.max(not_before);
        self.frontier.requeue(id, queued, not_before);
    }

    fn complete(&mut self, pick: usize) {
        if self.naive.in_flight.is_empty() {
            return;
        }
        let pick = pick % self.naive.in_flight.len();
        let (name, queued) = self.naive.in_flight.swap_remove(pick);
        let id = self.id(&name);
        self.frontier.complete(id, queued.url.fingerprint(&test_key()));
    }

    /// Moves the hand round once: exactly those hosts leave that are cold and may leave.
    fn sweep(
        &mut self,
        idle: Duration,
        may_leave: impl Fn(&str) -> bool,
    ) -> Result<(), TestCaseError> {
        let slot_count = self.frontier.slot_count();
        let sweep = HostSweep { slot_count, now: self.naive.now, idle, host_count_max: usize::MAX };
        let (mut asked, mut left) = (HashSet::new(), 0);
        let left_count = self.frontier.sweep(sweep, |frontier, id| {
            let name = frontier.host_name(id).to_owned();
            let goes = may_leave(&name);
            left += usize::from(goes);
            asked.insert(name);
            goes
        });
        prop_assert_eq!(&asked, &self.naive.cold_names(idle));
        prop_assert_eq!(left_count, left);
        for name in asked.into_iter().filter(|name| may_leave(name)) {
            let host = self.naive.hosts.remove(&name).expect("it was there");
            prop_assert_eq!(self.frontier.host_by_key(HostKey::of(&test_key(), &name)), None);
            let page_count = self.frontier.cold_page_count(HostKey::of(&test_key(), &name));
            prop_assert_eq!(page_count, host.page_count);
            if host.page_count > 0 {
                self.naive.cold.insert(name, host.page_count);
            }
        }
        Ok(())
    }

    fn release(&mut self, name: &str, wait_us: u64) {
        let eligible_at = self.naive.now + Duration::from_micros(wait_us);
        let host = self.naive.hosts.get_mut(name).expect("busy");
        host.is_busy = false;
        host.eligible_at = host.eligible_at.max(eligible_at);
        let id = self.id(name);
        self.frontier.release(id, eligible_at);
    }

    async fn drain(&mut self, name: &str) -> Result<(), TestCaseError> {
        if !self.naive.hosts.contains_key(name) {
            return Ok(());
        }
        let id = self.id(name);
        let mut by_class: [VecDeque<Queued>; 4] = Default::default();
        loop {
            let (drained, is_more) = self.frontier.drain_host(id);
            self.handed_out.extend(drained.iter().map(|queued| queued.url.to_string()));
            drained.into_iter().for_each(|one| by_class[one.class.index()].push_back(one));
            if !is_more {
                break;
            }
            self.run_job().await;
            self.finish_job(0)?;
        }
        let host = self.naive.hosts.get_mut(name).expect("it is there");
        prop_assert_eq!(by_class, std::mem::take(&mut host.queues));
        Ok(())
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let hosts = || self.naive.hosts.values();
        let queued_count: usize = hosts().map(NaiveHost::queued_count).sum();
        prop_assert_eq!(self.frontier.pending_url_count(), queued_count as u64);
        let busy_count = hosts().filter(|host| host.is_busy).count();
        prop_assert_eq!(self.frontier.busy_count(), busy_count);
        let with_urls = hosts().filter(|host| !host.is_busy && host.queued_count() > 0).count();
        prop_assert_eq!(self.frontier.ready_count() + self.frontier.waiting_count(), with_urls);
        self.frontier.assert_tails_are_sound();
        prop_assert_eq!(self.frontier.host_count(), self.naive.hosts.len());
        prop_assert_eq!(self.frontier.cold_count(), self.naive.cold.len());
        prop_assert!(self.frontier.slot_count() <= 6, "slots are used again");
        for (name, host) in &self.naive.hosts {
            let page_count = self.frontier.host_fetched_count(self.id(name));
            prop_assert_eq!(page_count, host.page_count);
        }
        Ok(())
    }

    /// Ends all turns, then takes turns until nothing is left: no URL may be missing.
    async fn run_out(mut self) -> Result<spill::TailFigures, TestCaseError> {
        self.frontier.hold_tails(false);
        while let Some(name) = self.busy(0) {
            self.release(&name, 0);
        }
        while !self.frontier.is_drained() {
            let Some(due) = self.frontier.next_due().or(Some(self.naive.now)) else { break };
            self.naive.now = self.naive.now.max(due);
            self.frontier.advance(self.naive.now);
            self.pop()?;
            self.run_jobs().await?;
            if let Some(name) = self.busy(0) {
                while self.next(&name)? {
                    self.run_jobs().await?;
                }
                self.release(&name, 700);
            }
            self.check()?;
        }
        prop_assert_eq!(&self.handed_out, &self.naive.seen);
        prop_assert_eq!(self.frontier.pending_url_bytes(), 0);
        self.run_jobs().await?;
        let figures = self.frontier.tail_figures();
        prop_assert_eq!((figures.url_count, figures.live_bytes, figures.resident_bytes), (0, 0, 0));
        Ok(figures)
    }
}

/// Runs the steps with this much RAM for queues, on a disk with these faults.
fn run(
    steps: Vec<Step>,
    resident_bytes_max: u64,
    faults: DiskFaults,
) -> Result<spill::TailFigures, TestCaseError> {
    let sim = Sim::new(steps.len() as u64);
    let caps = Caps { resident_bytes_max, ..Caps::default() };
    let program = async {
        let mut pair = Pair::new(sim.world(0), caps).await;
        sim.set_disk_faults(faults);
        for step in steps {
            pair.apply(step).await?;
        }
        pair.run_out().await
    };
    sim.block_on(program).expect("a simulation that ends")
}

proptest! {
    #[test]
    fn behaves_as_a_naive_frontier(steps in prop::collection::vec(step(), 1..400)) {
        let figures = run(steps, u64::MAX, DiskFaults::default())?;
        prop_assert_eq!(figures.job_bytes, 0);
    }

    #[test]
    fn behaves_as_a_naive_frontier_with_all_queues_on_disk(
        steps in prop::collection::vec(step(), 1..400),
    ) {
        run(steps, 0, DiskFaults::default())?;
    }

    #[test]
    fn behaves_as_a_naive_frontier_on_a_disk_that_fails(
        steps in prop::collection::vec(step(), 1..400),
        rates in prop::array::uniform3(0..300u64),
    ) {
        let [full_per_mille, error_per_mille, sync_error_per_mille] = rates;
        let faults = DiskFaults {
            full_per_mille,
            error_per_mille,
            sync_error_per_mille,
            ..DiskFaults::default()
        };
        run(steps, 0, faults)?;
    }

    /// Compares with a count per class: which offers are refused, and which class gives way.
    #[test]
    fn full_queues_give_up_the_lowest_class_and_count_it(
        steps in prop::collection::vec((0..4usize, 0..9u8, any::<bool>()), 1..300),
    ) {
        const QUEUED_COUNT_MAX: u64 = 20;
        let caps = Caps { queued_count_max: QUEUED_COUNT_MAX, ..Caps::default() };
        let mut frontier = Frontier::<_, ()>::new(caps, test_key());
        let (mut counts, mut evicted, mut taken) = ([0u64; 4], 0, 0);
        for (page, (class, host, pops)) in steps.into_iter().enumerate() {
            let text = format!("http://h{host}.test/{page}");
            let lowest = (0..4).rfind(|lowest| counts[*lowest] > 0 && *lowest > class);
            let is_full = counts.iter().sum::<u64>() >= QUEUED_COUNT_MAX;
            let mut expected = Offered::Queued;
            match lowest {
                Some(lowest) if is_full => {
                    counts[lowest] -= 1;
                    evicted += 1;
                }
                None if is_full => expected = Offered::Dropped(DropReason::QueueFull),
                _ => {}
            }
            counts[class] += u64::from(expected == Offered::Queued);
            prop_assert_eq!(offer(&mut frontier, &text, Class::ALL[class]), expected);
            if pops && page % 4 == 0 && let Some(host) = frontier.pop_ready() {
                let queued = frontier.next_url(host).url();
                prop_assert!(queued.is_some(), "a ready host has a URL");
                counts[queued.map_or(0, |queued| queued.class.index())] -= 1;
                taken += 1;
                frontier.release(host, Time::ZERO);
            }
            prop_assert_eq!(frontier.queued_count_by_class, counts);
        }
        let figures = frontier.figures();
        prop_assert_eq!(figures.dropped_count[DropReason::Evicted as usize], evicted);
        prop_assert_eq!(figures.queued_count, evicted + taken + frontier.pending_url_count());
    }
}

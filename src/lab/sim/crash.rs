//! Crashes of a simulated crawl: when the machine of its shards crashes, what that does to its
//! disk, and how long it takes until someone starts the crawler again.
//!
//! A [`Machine`] runs the lives of a plan one after the other on one disk. The servers are another
//! machine: they go on meanwhile, and so does their log. All of it runs on one thread, and nothing
//! here reads a real clock.

use crate::base::Time;
use crate::base::limits::{DISK_RETRY_MS_MIN, SIM_START_TRY_COUNT_MAX};
use crate::io::Clock;
use crate::io::sim::{DiskFaults, PowerCut, Sim};
use crate::lab::sim::crawl::{Crawl, CrawlError, CrawlPlan, WEB_WORLD};
use crate::lab::sim::life::{Control, Life};
pub use crate::lab::sim::life::{Done, End};
use crate::lab::web::chance::Dice;
use crate::shard::Past;
use std::fmt;
use std::time::Duration;

/// How one life ends, and how the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    pub when: Moment,
    /// If set, only this shard (modulo their count) is killed, and the others must end by
    /// themselves, in time.
    pub lone: Option<u16>,
    /// What the power cut does to the disk. `None` is a kill, which leaves the disk as it was
    /// written.
    pub cut: Option<PowerCut>,
    /// How long it takes until the crawler is started again.
    pub downtime: Duration,
    /// By how much the wall clock has been changed by then.
    pub wall_shift_seconds: i64,
    /// The shard count of the next life.
    pub shard_count: u16,
    pub disk_faults: DiskFaults,
}

/// When a crash strikes, counted from the beginning of a life, so that its salvage and its recovery
/// may be struck as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// After this number of polls of any task, the servers' tasks included.
    Step(u64),
    After(Duration),
}

/// The end of a life that did not end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Downfall {
    pub at: Time,
    /// When the next life began.
    pub back_at: Time,
    pub is_power_cut: bool,
    /// When one shard was killed alone, after which the others had to end.
    pub fell_at: Option<Time>,
    /// Not all shards had recovered their state yet.
    pub was_starting: bool,
    /// Since when a shard could not write.
    pub failing_since: Option<Time>,
    /// The disk faults of the life that ended.
    pub disk_faults: DiskFaults,
}

impl fmt::Display for Downfall {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |time: Time| time.0 as f64 / 1e9;
        let what = match self.fell_at {
            Some(_) => "one shard was killed, then the others ended,",
            None if self.is_power_cut => "power cut",
            None => "killed",
        };
        write!(out, "{what} at {:.3} s, back at {:.3} s", seconds(self.at), seconds(self.back_at))?;
        if self.was_starting {
            out.write_str(", while it was starting")?;
        }
        match self.unwritten_ms() {
            0 => Ok(()),
            ms => write!(out, ", on a failing disk (nothing durable for up to {ms} ms)"),
        }
    }
}

impl Downfall {
    /// Returns for how long, at most, the disk may have kept what was written from becoming
    /// durable.
    pub fn unwritten_ms(&self) -> u64 {
        let faults = &self.disk_faults;
        let spikes_ms = if faults.spike_per_mille > 0 { 4 * faults.spike_ms_max } else { 0 };
        let rates = [faults.error_per_mille, faults.full_per_mille, faults.sync_error_per_mille];
        // A fault is noticed within a second, and the disk is tried again after one, two, four
        // seconds and so on.
        let is_failing = rates.iter().any(|rate| *rate > 0);
        let pause_ms = if is_failing { 8 * DISK_RETRY_MS_MIN } else { 0 };
        let failing_ms = self.failing_since.map_or(0, |since| self.at.since(since).as_millis());
        let fallen_ms = self.fell_at.map_or(0, |fell_at| self.at.since(fell_at).as_millis());
        spikes_ms + pause_ms + failing_ms as u64 + fallen_ms as u64
    }
}

/// A machine that runs the crawler of a plan, life after life, until the crawl has ended.
pub struct Machine<'s> {
    sim: &'s Sim,
    plan: &'s CrawlPlan,
    began: Time,
    wall_ahead_ns: u64,
    shard_count: u16,
    disk_faults: DiskFaults,
    /// How the slots are dealt, as the data directory would record it.
    manifest: Past,
    life_count: u32,
    /// How many starts in a row have failed on a failing disk.
    failed_start_count: u32,
    downfalls: Vec<Downfall>,
}

impl<'s> Machine<'s> {
    pub fn new(sim: &'s Sim, plan: &'s CrawlPlan) -> Machine<'s> {
        // A plan without disk faults leaves those that the maker of the simulation has set.
        if plan.disk_faults != DiskFaults::default() {
            sim.set_disk_faults(plan.disk_faults);
        }
        let wall_ns = sim.world(WEB_WORLD).wall().0;
        Machine {
            sim,
            plan,
            began: sim.now(),
            wall_ahead_ns: wall_ns.saturating_sub(sim.now().0),
            shard_count: plan.shard_count,
            disk_faults: plan.disk_faults,
            manifest: Past { generation: 1, shard_count: plan.shard_count },
            life_count: 0,
            failed_start_count: 0,
            downfalls: Vec::new(),
        }
    }

    /// Runs all lives, with the plan's crashes between them.
    pub fn run(mut self) -> Result<Crawl, CrawlError> {
        for crash in &self.plan.crashes {
            if let Some(done) = self.live(Some(crash))? {
                return Ok(self.conclude(done));
            }
        }
        match self.live(None)? {
            Some(done) => Ok(self.conclude(done)),
            None => unreachable!("a life without a crash ends by itself"),
        }
    }

    /// Runs one life until the crawl is done or `crash` strikes. After a crash the machine is ready
    /// for the next life, which resumes.
    pub fn live(&mut self, crash: Option<&Crash>) -> Result<Option<Done>, CrawlError> {
        let stop_at = self.plan.stop_after.map_or(Time::NEVER, |span| self.began + span);
        loop {
            let dealt = self.dealt();
            let past = (self.life_count > 0).then_some(self.manifest);
            let control = Control { past, generation: dealt.generation, stop_at };
            self.life_count += 1;
            let life = Life::begin(self.sim, self.plan, self.shard_count, control);
            let lone = crash.and_then(|crash| crash.lone);
            let end = life.run(crash.map(|crash| crash.when), lone).map_err(CrawlError::Sim)?;
            if life.is_dealt() {
                self.manifest = dealt;
            }
            match (end, crash) {
                (End::Done(done), _) => return Ok(Some(done)),
                (End::Struck | End::Failed(CrawlError::Lost(_)), Some(crash)) => {
                    self.strike(&life, crash);
                    return Ok(None);
                }
                (End::Struck, None) => unreachable!("a life without a crash was struck"),
                (End::Failed(error), _) => self.start_over(&life, error)?,
            }
        }
    }

    /// Returns how the next life deals the slots. Another count of shards is another generation.
    fn dealt(&self) -> Past {
        let Past { generation, shard_count } = self.manifest;
        let is_new = shard_count != self.shard_count;
        Past { generation: generation + u32::from(is_new), shard_count: self.shard_count }
    }

    pub fn conclude(self, done: Done) -> Crawl {
        Crawl {
            log: Vec::new(),
            log_text: String::new(),
            files: self.sim.files(),
            reports: done.reports,
            failed_seeds: done.failed_seeds,
            is_stopped: done.is_stopped,
            downfalls: self.downfalls,
            wall_ahead_ns: self.wall_ahead_ns,
            digest: self.sim.digest(),
            began: self.began,
            ended: self.sim.now(),
            step_count: self.sim.step_count(),
        }
    }

    pub fn downfalls(&self) -> &[Downfall] {
        &self.downfalls
    }

    fn strike(&mut self, life: &Life<'_>, crash: &Crash) {
        self.failed_start_count = 0;
        match crash.cut {
            None => life.worlds().for_each(|world| self.sim.kill(world)),
            Some(cut) => {
                self.sim.set_power_cut(cut);
                self.sim.crash(life.worlds());
            }
        }
        self.stay_down(life, crash.cut.is_some(), crash.downtime);
        self.shard_count = crash.shard_count;
        self.disk_faults = crash.disk_faults;
        self.sim.set_disk_faults(crash.disk_faults);
        self.sim.shift_wall(crash.wall_shift_seconds);
    }

    /// Ends a life that failed. A failing disk may keep a process from starting, or end it; its
    /// operator starts it again, and after a few times repairs the disk. On a good disk the failure
    /// is an error.
    fn start_over(&mut self, life: &Life<'_>, error: CrawlError) -> Result<(), CrawlError> {
        let is_hung = matches!(error, CrawlError::Endless);
        if self.disk_faults == DiskFaults::default() || is_hung {
            return Err(error);
        }
        life.worlds().for_each(|world| self.sim.kill(world));
        self.stay_down(life, false, Duration::from_secs(1));
        self.failed_start_count += 1;
        if self.failed_start_count >= SIM_START_TRY_COUNT_MAX {
            self.disk_faults = DiskFaults::default();
            self.sim.set_disk_faults(self.disk_faults);
        }
        Ok(())
    }

    fn stay_down(&mut self, life: &Life<'_>, is_power_cut: bool, downtime: Duration) {
        let at = self.sim.now();
        let back_at = at + downtime;
        self.downfalls.push(Downfall {
            at,
            back_at,
            is_power_cut,
            fell_at: life.fell_at(),
            was_starting: !life.is_dealt(),
            failing_since: life.failing_since(),
            disk_faults: self.disk_faults,
        });
        self.sim.run_until(back_at).expect("servers alone neither spin nor run out of steps");
    }
}

/// The conditions for which crashes are drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Odds {
    /// A number of polls after which most lives have ended, so that a crash would come too late.
    pub step_count: u32,
    pub shard_count_max: u16,
    /// How long a packet may be under way. Nobody can keep a gap to a request that has not arrived
    /// yet, so the next life begins only after this time.
    pub quiet_ms: u64,
    pub has_wall_shifts: bool,
}

impl Crash {
    pub(super) fn draw(dice: &mut Dice, odds: &Odds) -> Crash {
        let downtime_ms = match dice.below(4) {
            0 => 0,
            1 => dice.below(1_000),
            2 => dice.below(20_000),
            _ => dice.below(600_000),
        };
        let wall_shift_seconds = match dice.below(4) {
            0 => i64::from(dice.below(200_000)) - 100_000,
            1 => i64::from(dice.below(10)) - 5,
            _ => 0,
        };
        Crash {
            when: Moment::draw(dice, odds.step_count),
            lone: None,
            cut: (dice.below(4) > 0).then(|| draw_cut(dice)),
            downtime: Duration::from_millis(odds.quiet_ms + u64::from(downtime_ms)),
            wall_shift_seconds: if odds.has_wall_shifts { wall_shift_seconds } else { 0 },
            shard_count: 1 + dice.below(u32::from(odds.shard_count_max)) as u16,
            disk_faults: draw_disk_faults(dice),
        }
    }
}

impl Moment {
    /// Returns about the same moment, given by the clock alone.
    pub(super) fn by_the_clock(self) -> Moment {
        match self {
            Moment::Step(count) => {
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                Moment::After(STEP_SPAN.saturating_mul(count))
            }
            Moment::After(span) => Moment::After(span),
        }
    }

    /// Draws a moment. One in three is early: in the salvage, in the recovery or just after them.
    fn draw(dice: &mut Dice, step_count: u32) -> Moment {
        match dice.below(6) {
            0 | 1 => Moment::Step(u64::from(1 + dice.below(300))),
            // Between two events: no task is ready, but a packet may be under way.
            2 => Moment::After(Duration::from_micros(dice.below(20_000_000).into())),
            _ => Moment::Step(u64::from(1 + dice.below(step_count))),
        }
    }
}

/// The time that a poll stands for where crashes are timed by the clock. It fits a life whose hosts
/// rest most of the time.
const STEP_SPAN: Duration = Duration::from_millis(2);

/// Draws a power cut: what was not synced is lost, kept, torn and reordered in any mixture.
fn draw_cut(dice: &mut Dice) -> PowerCut {
    let mut weight = || u64::from(dice.below(3));
    let (kept, lost, prefix, patchwork) = (weight(), weight(), weight(), weight());
    let lost = if kept + lost + prefix + patchwork == 0 { 1 } else { lost };
    let name_lost_per_mille = [0, 100, 500, 1_000][dice.below(4) as usize];
    PowerCut { kept, lost, prefix, patchwork, name_lost_per_mille, ..PowerCut::default() }
}

/// Draws disk faults; half of the lives have none.
pub(super) fn draw_disk_faults(dice: &mut Dice) -> DiskFaults {
    if dice.below(2) == 0 {
        return DiskFaults::default();
    }
    let mut rate = |most: u32| match dice.below(3) {
        0 => 0,
        _ => u64::from(dice.below(most + 1)),
    };
    DiskFaults {
        error_per_mille: rate(5),
        full_per_mille: rate(5),
        sync_error_per_mille: rate(20),
        spike_per_mille: rate(20),
        spike_ms_max: 300,
    }
}

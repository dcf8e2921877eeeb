//! `nephila bench frontier --course queues`: the cost of a queued URL when the queues are larger
//! than RAM. The other course, [`super::pages`], measures the cost of a page.
//!
//! Every URL is computed from its host and its number there, so that each URL that comes out is
//! compared in full with the one that must come: each host's numbers in order, none missing. URLs
//! are pushed, about the same number to each host, until there are a million, ten million and so
//! on. At each such mark visits and pushes alternate for a while. All of it runs on one core with
//! the disk jobs beside it, as in a shard, but without a sieve, which has a suite of its own. At
//! the end some hosts are drained to their last URL.

use super::{BenchError, on_core_with_marks};
use crate::base::notify::Notify;
use crate::base::{HashKey, Time};
use crate::crawl::flow::{Candidate, Class, Trail, Via};
use crate::crawl::frontier::spill::{self, Files, TailFigures};
use crate::crawl::frontier::{Caps, Frontier, HostId, Next, Offered, Queued, Seen, Sieve};
use crate::io::ring::{RingFile, RingWorld};
use crate::io::{Clock, Spawn};
use crate::proto::url::{Fingerprint, Url};
use crate::sys::process;
use hashbrown::HashSet;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc;

/// How many pushes or visits there are between two rounds of other work.
const STRIDE: u64 = 1_024;
/// How many visits may wait for the disk at the same time: a shard's fetch slots.
const PARKED_COUNT_MAX: usize = 8_192;
/// How many visits and pushes each host gets at a mark: enough to read some chunks of each.
const STEADY_ROUNDS: u64 = 10;
const DRAINED_HOST_COUNT: u32 = 1_000;

#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub url_count: u64,
    pub host_count: u32,
    pub memory_mb: u64,
    pub core: Option<usize>,
}

/// The figures when this number of URLs was queued.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub queued_count: u64,
    /// CPU time of the core: for each push since the last mark, and for each visit and each push
    /// when they alternate. It includes the jobs, but not the making and checking of URLs.
    pub fill_ns: f64,
    pub pop_ns: f64,
    pub push_ns: f64,
    pub wall_ns: u64,
    pub wait_count: u64,
    pub stall_count: u64,
    pub resident_bytes: u64,
    pub resident_bytes_max: u64,
    pub tails: TailFigures,
}

impl Mark {
    pub fn text(&self) -> String {
        format!(
            "{:>10} queued  {:>5.0} ns a push  {:>5.0} ns a visit and {:>5.0} ns a push in turn  \
             {:>7.1} MB ({:.1} at most)  {:>8.1} MB on disk, {:.1} in use  {} batches  {} reads  \
             {} moved  {} waits  {} stalls  {:.1} s\n",
            self.queued_count,
            self.fill_ns,
            self.pop_ns,
            self.push_ns,
            self.resident_bytes as f64 / 1e6,
            self.resident_bytes_max as f64 / 1e6,
            self.tails.disk_bytes as f64 / 1e6,
            self.tails.live_bytes as f64 / 1e6,
            self.tails.batch_count,
            self.tails.refill_count,
            self.tails.moved_chunk_count,
            self.wait_count,
            self.stall_count,
            self.wall_ns as f64 / 1e9,
        )
    }
}

pub fn json(marks: &[Mark]) -> Value {
    let mark = |mark: &Mark| {
        json!({
            "queued": mark.queued_count,
            "fill_ns": mark.fill_ns,
            "pop_ns": mark.pop_ns,
            "push_ns": mark.push_ns,
            "wall_ns": mark.wall_ns,
            "waits": mark.wait_count,
            "stalls": mark.stall_count,
            "resident_bytes": mark.resident_bytes,
            "resident_bytes_max": mark.resident_bytes_max,
            "disk_urls": mark.tails.url_count,
            "disk_bytes": mark.tails.disk_bytes,
            "live_bytes": mark.tails.live_bytes,
            "segments": mark.tails.segment_count,
            "batches": mark.tails.batch_count,
            "spilled_chunks": mark.tails.spilled_chunk_count,
            "reads": mark.tails.refill_count,
            "moved_chunks": mark.tails.moved_chunk_count,
            "job_bytes": mark.tails.job_bytes,
        })
    };
    marks.iter().map(mark).collect()
}

/// Runs the suite with its files in `dir`; `watch` is called with each mark when it is made.
pub fn run(plan: Plan, dir: &Path, watch: impl Fn(&Mark)) -> Result<Vec<Mark>, BenchError> {
    on_core_with_marks(plan.core, dir, watch, move |world, tell| async move {
        let course = Course::open(&world, plan, tell).await?;
        let done = course.clone().run().await;
        course.rest().await;
        done
    })
}

/// A sieve that calls every URL new. That is right here, because each URL is made once.
pub(super) struct NoSieve;

impl Sieve for NoSieve {
    fn probe(&mut self, _: Fingerprint) -> Seen {
        Seen::New
    }

    fn admit(&mut self, _: Fingerprint) {}

    fn defer(&mut self, _: Fingerprint, _: &Candidate<&str>, _: Time) {}

    fn settle(&mut self) -> Option<Candidate> {
        None
    }

    fn deferred_count(&self) -> usize {
        0
    }

    fn is_full(&self) -> bool {
        false
    }
}

/// How many URLs of a host were pushed, and how many came out.
#[derive(Clone, Copy, Default)]
struct Tally {
    pushed_count: u32,
    popped_count: u32,
}

struct Course {
    world: RingWorld,
    plan: Plan,
    tell: mpsc::Sender<Mark>,
    frontier: RefCell<Frontier<NoSieve, ()>>,
    files: Files<RingFile>,
    /// Tallies by host number, which is also the frontier's id of the host.
    tallies: RefCell<Vec<Tally>>,
    parked: RefCell<HashSet<HostId>>,
    active_count: Cell<usize>,
    ended: Notify,
    wait_count: Cell<u64>,
    stall_count: Cell<u64>,
    error: RefCell<Option<BenchError>>,
    state: Cell<u64>,
}

impl Course {
    async fn open(
        world: &RingWorld,
        plan: Plan,
        tell: mpsc::Sender<Mark>,
    ) -> Result<Rc<Course>, BenchError> {
        let opened = spill::open(world, Path::new("queues"), Vec::new()).await;
        let image = opened.map_err(BenchError::Tails)?;
        let files = Files::new("queues".into());
        let caps = Caps { resident_bytes_max: plan.memory_mb << 20, ..Caps::default() };
        let mut frontier = Frontier::with_sieve(NoSieve, caps, HashKey::new(1));
        frontier.adopt_segments(&image);
        Ok(Rc::new(Course {
            world: world.clone(),
            plan,
            tell,
            frontier: RefCell::new(frontier),
            files,
            tallies: RefCell::new(vec![Tally::default(); plan.host_count as usize]),
            parked: RefCell::default(),
            active_count: Cell::new(0),
            ended: Notify::default(),
            wait_count: Cell::new(0),
            stall_count: Cell::new(0),
            error: RefCell::default(),
            state: Cell::new(1),
        }))
    }

    async fn run(self: Rc<Self>) -> Result<(), BenchError> {
        let (making_ns, checking_ns) = self.making_ns();
        // Hosts get their ids in the order of their numbers.
        let (mut queued, mut next_mark) = (0, 1_000_000.min(self.plan.url_count));
        loop {
            let (begun, cpu_ns, from) = (self.world.now(), self.world.cpu_ns(), queued);
            while queued < next_mark {
                let end = (queued + STRIDE).min(next_mark);
                (queued..end).for_each(|index| self.push(self.host_in_turn(index)));
                queued = end;
                self.look_after().await?;
            }
            let fill_ns = (self.world.cpu_ns() - cpu_ns) as f64 / (queued - from) as f64;
            let (pop_ns, push_ns) = self.alternate().await?;
            let (resident_bytes, resident_bytes_max) = process::resident_bytes();
            let mark = Mark {
                queued_count: queued,
                fill_ns: fill_ns - making_ns,
                pop_ns: pop_ns - checking_ns,
                push_ns: push_ns - making_ns,
                wall_ns: self.world.now().since(begun).as_nanos() as u64,
                wait_count: self.wait_count.take(),
                stall_count: self.stall_count.take(),
                resident_bytes,
                resident_bytes_max,
                tails: self.frontier.borrow().tail_figures(),
            };
            // Sending cannot fail: the receiver lives until this thread ends.
            let _ = self.tell.send(mark);
            if queued == self.plan.url_count {
                break;
            }
            next_mark = (next_mark * 10).min(self.plan.url_count);
        }
        self.judge().await
    }

    /// Waits for the jobs under way, because they hold the sender of the marks.
    async fn rest(&self) {
        while self.active_count.get() > 0 {
            self.ended.wait().await;
        }
    }

    /// Runs visits and pushes in turn; returns the CPU time of each.
    async fn alternate(self: &Rc<Self>) -> Result<(f64, f64), BenchError> {
        let count = STEADY_ROUNDS * u64::from(self.plan.host_count);
        let (mut pop_ns, mut push_ns, mut at_ns) = (0, 0, self.world.cpu_ns());
        let mut lap = || {
            let now_ns = self.world.cpu_ns();
            now_ns - std::mem::replace(&mut at_ns, now_ns)
        };
        let (mut done, mut popped) = (0, 0);
        while done < count {
            let stride = STRIDE.min(count - done);
            for _ in 0..stride {
                popped += u64::from(self.visit());
            }
            self.look_after().await?;
            pop_ns += lap();
            for _ in 0..stride {
                let host = self.random() % u64::from(self.plan.host_count);
                self.push(host as u32);
            }
            self.look_after().await?;
            push_ns += lap();
            done += stride;
        }
        Ok((pop_ns as f64 / popped.max(1) as f64, push_ns as f64 / count as f64))
    }

    /// Checks that every pushed URL is queued or has come out; drains some hosts to prove it.
    async fn judge(self: &Rc<Self>) -> Result<(), BenchError> {
        while !self.parked.borrow().is_empty() || self.active_count.get() > 0 {
            self.start_jobs();
            self.ended.wait().await;
            self.take_error()?;
        }
        // With so little RAM, URLs that were read for the drain would go back to disk before they
        // come out.
        self.frontier.borrow_mut().hold_tails(true);
        let left = |tally: &Tally| u64::from(tally.pushed_count - tally.popped_count);
        let expected: u64 = self.tallies.borrow().iter().map(left).sum();
        let pending = self.frontier.borrow().pending_url_count();
        if expected != pending {
            return Err(BenchError::Lost(expected.abs_diff(pending)));
        }
        let step = (self.plan.host_count / DRAINED_HOST_COUNT).max(1);
        for host in (0..self.plan.host_count).step_by(step as usize).map(HostId) {
            loop {
                let (drained, is_more) = self.frontier.borrow_mut().drain_host(host);
                drained.iter().for_each(|queued| self.check(host, queued));
                self.take_error()?;
                if !is_more {
                    break;
                }
                self.start_jobs();
                self.ended.wait().await;
            }
            let lost = left(&self.tallies.borrow()[host.0 as usize]);
            if lost > 0 {
                return Err(BenchError::Lost(lost));
            }
        }
        Ok(())
    }

    fn push(&self, host: u32) {
        let number = {
            let tally = &mut self.tallies.borrow_mut()[host as usize];
            tally.pushed_count += 1;
            tally.pushed_count - 1
        };
        let offered = self.frontier.borrow_mut().offer(candidate(host, number), self.world.now());
        if offered != Offered::Queued {
            *self.error.borrow_mut() = Some(BenchError::Refused(offered));
        }
    }

    /// Begins a visit, which gets its URL at once or is parked. Returns false if no host is ready.
    fn visit(&self) -> bool {
        let host = self.frontier.borrow_mut().pop_ready();
        host.inspect(|host| self.ask(*host)).is_some()
    }

    fn ask(&self, host: HostId) {
        let next = self.frontier.borrow_mut().next_url(host);
        match next {
            Next::Url(queued) => {
                self.check(host, &queued);
                let mut frontier = self.frontier.borrow_mut();
                let fingerprint = queued.url.fingerprint(frontier.hash_key());
                frontier.complete(host, fingerprint);
                frontier.release(host, Time::ZERO);
            }
            Next::OnDisk => {
                self.wait_count.set(self.wait_count.get() + 1);
                self.parked.borrow_mut().insert(host);
            }
            Next::Nothing => *self.error.borrow_mut() = Some(BenchError::Lost(1)),
        }
    }

    /// Checks that a URL is the one that was due.
    fn check(&self, host: HostId, queued: &Queued) {
        let tally = &mut self.tallies.borrow_mut()[host.0 as usize];
        let expected = path(host.0, tally.popped_count);
        tally.popped_count += 1;
        if queued.url.path_and_query() != expected {
            let found = queued.url.to_string();
            *self.error.borrow_mut() = Some(BenchError::Wrong { expected, found });
        }
    }

    /// Starts the jobs that are due, lets them run, and waits while too much waits for the disk.
    async fn look_after(self: &Rc<Self>) -> Result<(), BenchError> {
        self.start_jobs();
        self.world.yield_now().await;
        self.start_jobs();
        loop {
            self.take_error()?;
            let is_backed_up = self.frontier.borrow().is_tail_backed_up();
            if !is_backed_up && self.parked.borrow().len() < PARKED_COUNT_MAX {
                return Ok(());
            }
            self.stall_count.set(self.stall_count.get() + 1);
            self.ended.wait().await;
            self.start_jobs();
        }
    }

    fn start_jobs(self: &Rc<Self>) {
        loop {
            let Some(job) = self.frontier.borrow_mut().next_tail_job() else { return };
            self.active_count.set(self.active_count.get() + 1);
            let course = self.clone();
            self.world.spawn(async move {
                let finished = job.run(&course.world, &course.files).await;
                course.end_job(finished);
                course.active_count.set(course.active_count.get() - 1);
                course.start_jobs();
                course.ended.poke();
            });
        }
    }

    fn end_job(&self, finished: spill::Finished) {
        let mut frontier = self.frontier.borrow_mut();
        let ended = frontier.finish_tail_job(finished);
        frontier.segment_leftovers().retire_unless(|_| false);
        drop(frontier);
        if let Some(error) = ended.error {
            *self.error.borrow_mut() = Some(BenchError::Tails(error));
        }
        for host in ended.refilled {
            if self.parked.borrow_mut().remove(&host) {
                self.ask(host);
            }
        }
    }

    fn take_error(&self) -> Result<(), BenchError> {
        self.error.take().map_or(Ok(()), Err)
    }

    /// Returns the host of a push. In each round every host comes once: in the first round in
    /// order, in later rounds in an order that a cache cannot guess.
    fn host_in_turn(&self, index: u64) -> u32 {
        let host_count = u64::from(self.plan.host_count);
        let (round, place) = (index / host_count, index % host_count);
        if round == 0 { place as u32 } else { (place * 2_654_435_761 % host_count) as u32 }
    }

    fn random(&self) -> u64 {
        self.state.set(self.state.get().wrapping_add(0x9E37_79B9_7F4A_7C15));
        mixed(self.state.get())
    }

    /// Measures what it takes to make a candidate and to check a URL, which is not the frontier's
    /// time.
    fn making_ns(&self) -> (f64, f64) {
        const COUNT: u32 = 1_000_000;
        let begun = self.world.cpu_ns();
        for number in 0..COUNT {
            drop(std::hint::black_box(candidate(number % self.plan.host_count, number)));
        }
        let between = self.world.cpu_ns();
        for number in 0..COUNT {
            drop(std::hint::black_box(path(number % self.plan.host_count, number)));
        }
        let each = |from: u64, to: u64| (to - from) as f64 / f64::from(COUNT);
        (each(begun, between), each(between, self.world.cpu_ns()))
    }
}

pub(super) fn candidate(host: u32, number: u32) -> Candidate {
    let url = Url::rebuild(&format!("http://www.host-{host}.test"), &path(host, number));
    // Some hosts are known from sitemaps alone.
    let class = if host.is_multiple_of(8) { Class::Low } else { Class::Normal };
    Candidate { url, depth: 1, class, via: Via::Link, trail: Trail::default() }
}

/// Returns a path of 20 to 60 bytes, some 40 in the mean.
pub(super) fn path(host: u32, number: u32) -> String {
    const WORDS: [&str; 8] =
        ["news", "articles", "products", "2026", "category", "about-us", "shop", "archive"];
    let mut random = mixed(u64::from(host) << 32 | u64::from(number));
    let mut path = String::with_capacity(64);
    for _ in 0..1 + random % 3 {
        random >>= 8;
        path.push('/');
        path.push_str(WORDS[random as usize % WORDS.len()]);
    }
    // Writing to a String does not fail.
    let _ = write!(path, "/page-{:0width$x}-{number}", random & 0xFFFF_FFFF, width = 8);
    path
}

/// The finaliser of SplitMix64.
pub(super) fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_run_spills_reads_back_and_loses_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let plan = Plan { url_count: 60_000, host_count: 500, memory_mb: 0, core: None };
        let marks = run(plan, dir.path(), |_| {}).expect("a run");
        let [mark] = marks[..] else { panic!("one mark: {marks:?}") };
        assert!(mark.tails.url_count > 40_000, "{mark:?}");
        assert!(mark.tails.refill_count > 400, "{mark:?}");
        assert!(mark.tails.disk_bytes >= mark.tails.live_bytes, "{mark:?}");
    }

    #[test]
    fn paths_are_as_long_as_real_ones_and_all_differ() {
        let paths: HashSet<String> =
            (0..100).flat_map(|host| (0..100).map(move |number| path(host, number))).collect();
        assert_eq!(paths.len(), 10_000);
        assert!(paths.iter().all(|path| (20..=60).contains(&path.len())));
    }
}

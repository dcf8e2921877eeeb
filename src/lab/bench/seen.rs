//! `nephila bench seen`: how many checks per second URL seen does while it grows, and how much
//! memory it takes.
//!
//! URLs are made from numbers: every tenth offer is the next number, the others are numbers that
//! came before. So the right answer is known: each number must be taken exactly once, which a
//! bitmap records. Offers run on one core with the sieve's jobs beside them, as in a shard, and
//! stop while the sieve is backed up. Figures are noted whenever the number of offers has grown
//! tenfold.

use super::{BenchError, on_core_with_marks};
use crate::base::Time;
use crate::base::limits::SEEN_STEP_COUNT;
use crate::crawl::flow::{Candidate, Class, Trail, Via};
use crate::crawl::frontier::seen::{DiskSieve, SeenError, SeenImage, SeenLimits};
use crate::crawl::frontier::{Seen, Sieve};
use crate::io::ring::{RingFile, RingWorld};
use crate::io::{Clock, Spawn};
use crate::proto::url::{Fingerprint, HostKey, Url};
use crate::sys::process;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc;

/// How many offers there are between two rounds of other work: the links of a few pages.
const STRIDE: u64 = 256;
const NEW_EVERY: u64 = 10;

#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub url_count: u64,
    pub is_uniform: bool,
    pub core: Option<usize>,
}

/// The figures when this number of URLs had been offered.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub offered_count: u64,
    pub distinct_count: u64,
    /// Since the last mark: wall time, CPU time of the core, and the part of it that making the
    /// offers took.
    pub wall_ns: u64,
    pub cpu_ns: u64,
    pub making_ns: u64,
    pub span_count: u64,
    pub deferred_count: u64,
    pub resident_bytes: u64,
    pub resident_bytes_max: u64,
    pub filter_bits_per_url: f64,
    pub filter_wrong_rate: f64,
    pub run_count: usize,
    pub merge_count: u64,
    pub job_bytes: u64,
}

impl Mark {
    /// Returns the checks per second, without the time to make the offers.
    pub fn checks_per_second(&self) -> f64 {
        let ns = self.wall_ns.saturating_sub(self.making_ns).max(1);
        self.span_count as f64 * 1e9 / ns as f64
    }

    pub fn text(&self) -> String {
        format!(
            "{:>11} offered {:>10} distinct  {:>9.0} checks/s ({:.0} with the making, {:.1} s \
             CPU)  {:>6.1} MB  {:.2} filter bits/URL  {:.3} % wrong  {} deferred  {} merges  {} \
             runs  {:.1} GB by jobs\n",
            self.offered_count,
            self.distinct_count,
            self.checks_per_second(),
            self.span_count as f64 * 1e9 / self.wall_ns.max(1) as f64,
            self.cpu_ns as f64 / 1e9,
            self.resident_bytes as f64 / 1e6,
            self.filter_bits_per_url,
            self.filter_wrong_rate * 100.0,
            self.deferred_count,
            self.merge_count,
            self.run_count,
            self.job_bytes as f64 / 1e9,
        )
    }
}

pub fn json(marks: &[Mark]) -> Value {
    let mark = |mark: &Mark| {
        json!({
            "offered": mark.offered_count,
            "distinct": mark.distinct_count,
            "checks_per_second": mark.checks_per_second(),
            "span": mark.span_count,
            "wall_ns": mark.wall_ns,
            "cpu_ns": mark.cpu_ns,
            "making_ns": mark.making_ns,
            "deferred": mark.deferred_count,
            "resident_bytes": mark.resident_bytes,
            "resident_bytes_max": mark.resident_bytes_max,
            "filter_bits_per_url": mark.filter_bits_per_url,
            "filter_wrong_rate": mark.filter_wrong_rate,
            "runs": mark.run_count,
            "merges": mark.merge_count,
            "job_bytes": mark.job_bytes,
        })
    };
    marks.iter().map(mark).collect()
}

/// Runs the suite with its files in `dir`; `watch` is called with each mark when it is made.
pub fn run(plan: Plan, dir: &Path, watch: impl Fn(&Mark)) -> Result<Vec<Mark>, BenchError> {
    on_core_with_marks(plan.core, dir, watch, move |world, tell| async move {
        Course::open(&world, plan, tell).await?.offer_all().await
    })
}

/// The course of offers, and the sieve that gets them.
struct Course {
    world: RingWorld,
    plan: Plan,
    tell: mpsc::Sender<Mark>,
    sieve: RefCell<DiskSieve<RingFile>>,
    /// One bit for each number: whether it was taken.
    taken: RefCell<Vec<u64>>,
    twice_count: Cell<u64>,
    deferred_count: Cell<u64>,
    active_count: Cell<usize>,
    is_awaited: Cell<bool>,
    error: RefCell<Option<SeenError>>,
    origins: Vec<String>,
}

impl Course {
    async fn open(
        world: &RingWorld,
        plan: Plan,
        tell: mpsc::Sender<Mark>,
    ) -> Result<Rc<Course>, BenchError> {
        let limits = SeenLimits::default();
        let sieve = DiskSieve::open(world, Path::new("seen"), &SeenImage::default(), limits).await;
        Ok(Rc::new(Course {
            world: world.clone(),
            plan,
            tell,
            sieve: RefCell::new(sieve.map_err(BenchError::Seen)?),
            taken: RefCell::new(vec![0; (plan.url_count / NEW_EVERY / 64 + 1) as usize]),
            twice_count: Cell::new(0),
            deferred_count: Cell::new(0),
            active_count: Cell::new(0),
            is_awaited: Cell::new(false),
            error: RefCell::default(),
            origins: (0..10_000).map(|host| format!("http://www.host-{host}.test")).collect(),
        }))
    }

    async fn offer_all(self: Rc<Self>) -> Result<(), BenchError> {
        let (fingerprint_ns, candidate_ns) = self.making_ns();
        let mut draws = Draws { state: 1, newest: 0, is_uniform: self.plan.is_uniform };
        let (mut offered, mut from, mut deferred_before) = (0, 0, 0);
        let (mut wall_ns, mut cpu_ns) = (self.world.now().0, self.world.cpu_ns());
        let mut next_mark = 1_000_000.min(self.plan.url_count);
        while offered < self.plan.url_count {
            let end = (offered + STRIDE).min(next_mark);
            (offered..end).for_each(|index| self.offer(draws.next(index)));
            offered = end;
            self.look_after().await?;
            if offered < next_mark {
                continue;
            }
            if offered == self.plan.url_count {
                self.drain().await?;
            }
            let (wall_now, cpu_now) = (self.world.now().0, self.world.cpu_ns());
            let deferred = self.deferred_count.get() - deferred_before;
            let making = (offered - from) as f64 * fingerprint_ns + deferred as f64 * candidate_ns;
            let mark = Mark {
                wall_ns: wall_now - wall_ns,
                cpu_ns: cpu_now - cpu_ns,
                making_ns: making as u64,
                span_count: offered - from,
                ..self.mark(offered, draws.newest)
            };
            // Sending cannot fail: the receiver lives until this thread ends.
            let _ = self.tell.send(mark);
            (wall_ns, cpu_ns, from) = (wall_now, cpu_now, offered);
            deferred_before = self.deferred_count.get();
            next_mark = (next_mark * 10).min(self.plan.url_count);
        }
        self.judge_course(draws.newest)
    }

    fn mark(&self, offered_count: u64, distinct_count: u64) -> Mark {
        let sieve = self.sieve.borrow();
        let (figures, seen) = (sieve.figures(), sieve.seen_figures(self.world.now()));
        let (resident_bytes, resident_bytes_max) = process::resident_bytes();
        Mark {
            offered_count,
            distinct_count,
            wall_ns: 0,
            cpu_ns: 0,
            making_ns: 0,
            span_count: 0,
            deferred_count: self.deferred_count.get(),
            resident_bytes,
            resident_bytes_max,
            filter_bits_per_url: figures.bloom_bits_per_url(),
            filter_wrong_rate: figures.bloom_wrong_rate(),
            run_count: seen.run_count,
            merge_count: seen.merge_count,
            job_bytes: seen.job_bytes,
        }
    }

    /// Checks that no URL is lost and none was taken twice.
    fn judge_course(&self, distinct_count: u64) -> Result<(), BenchError> {
        let taken: u64 = self.taken.borrow().iter().map(|bits| u64::from(bits.count_ones())).sum();
        match (self.twice_count.get(), distinct_count - taken) {
            (0, 0) => Ok(()),
            (0, lost) => Err(BenchError::Lost(lost)),
            (twice, _) => Err(BenchError::TakenTwice(twice)),
        }
    }

    fn offer(&self, number: u64) {
        let mut sieve = self.sieve.borrow_mut();
        let fingerprint = fingerprint(number);
        match sieve.probe(fingerprint) {
            Seen::Known => {}
            Seen::New => {
                sieve.admit(fingerprint);
                self.take(number);
            }
            Seen::Later => {
                self.deferred_count.set(self.deferred_count.get() + 1);
                sieve.defer(fingerprint, &self.candidate(number).lent(), self.world.now());
            }
        }
    }

    fn take(&self, number: u64) {
        let bits = &mut self.taken.borrow_mut()[number as usize / 64];
        let bit = 1 << (number % 64);
        self.twice_count.set(self.twice_count.get() + u64::from(*bits & bit != 0));
        *bits |= bit;
    }

    /// Starts the jobs that are due, lets them run, and waits while the sieve is backed up.
    async fn look_after(self: &Rc<Self>) -> Result<(), BenchError> {
        loop {
            while self.start_job(false) {}
            self.world.yield_now().await;
            if let Some(error) = self.error.take() {
                return Err(BenchError::Seen(error));
            }
            let is_backed_up = self.sieve.borrow().is_backed_up();
            self.is_awaited.set(is_backed_up);
            if !is_backed_up {
                return Ok(());
            }
        }
    }

    async fn drain(self: &Rc<Self>) -> Result<(), BenchError> {
        self.is_awaited.set(true);
        while self.sieve.borrow().deferred_count() > 0 || self.active_count.get() > 0 {
            while self.start_job(true) {}
            self.world.yield_now().await;
            if let Some(error) = self.error.take() {
                return Err(BenchError::Seen(error));
            }
        }
        Ok(())
    }

    fn start_job(self: &Rc<Self>, is_idle: bool) -> bool {
        let job = self.sieve.borrow_mut().next_job(self.world.now(), is_idle);
        let Some(job) = job else { return false };
        self.active_count.set(self.active_count.get() + 1);
        let course = self.clone();
        self.world.spawn(async move {
            let finished = job.run(&course.world, Path::new("seen"), &course.is_awaited).await;
            let ended = course.sieve.borrow_mut().finish(finished);
            *course.error.borrow_mut() = ended.err();
            course.settle().await;
            course.active_count.set(course.active_count.get() - 1);
        });
        true
    }

    async fn settle(&self) {
        while self.settle_step() {
            self.world.yield_now().await;
        }
    }

    /// Judges and settles a step; returns true if there is more to settle.
    fn settle_step(&self) -> bool {
        let mut sieve = self.sieve.borrow_mut();
        let judged = sieve.judge(SEEN_STEP_COUNT);
        while let Some(candidate) = sieve.settle() {
            let number = candidate.url.path_and_query().rsplit('/').next();
            self.take(
                number.and_then(|text| text.parse().ok()).expect("the path ends in a number"),
            );
        }
        sieve.leftovers().retire_unless(|_| false);
        judged.is_more
    }

    fn candidate(&self, number: u64) -> Candidate {
        let origin = &self.origins[(number % self.origins.len() as u64) as usize];
        let url = Url::rebuild(origin, &format!("/articles/{number}"));
        Candidate { url, depth: 1, class: Class::Normal, via: Via::Link, trail: Trail::default() }
    }

    /// Measures what it takes to make a fingerprint and a candidate, which is not the sieve's time.
    fn making_ns(&self) -> (f64, f64) {
        const COUNT: u64 = 1_000_000;
        let mut draws = Draws { state: 1, newest: COUNT, is_uniform: self.plan.is_uniform };
        let begun = self.world.now();
        for index in 0..COUNT {
            std::hint::black_box(fingerprint(draws.next(index)));
        }
        let between = self.world.now();
        for number in 0..COUNT {
            drop(std::hint::black_box(self.candidate(number)));
        }
        let each = |from: Time, to: Time| to.since(from).as_nanos() as f64 / COUNT as f64;
        (each(begun, between), each(between, self.world.now()))
    }
}

/// Draws the numbers that are offered.
struct Draws {
    state: u64,
    newest: u64,
    is_uniform: bool,
}

impl Draws {
    fn next(&mut self, index: u64) -> u64 {
        if index.is_multiple_of(NEW_EVERY) {
            self.newest += 1;
            return self.newest - 1;
        }
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let random = mixed(self.state);
        if self.is_uniform {
            return ((u128::from(random) * u128::from(self.newest)) >> 64) as u64;
        }
        // Zipf's law with exponent one, as links have it: the logarithm of the rank is uniform.
        let share = random as f64 / u64::MAX as f64;
        let rank = ((self.newest as f64 + 1.0).ln() * share).exp() - 1.0;
        (rank as u64).min(self.newest - 1)
    }
}

/// The finaliser of SplitMix64.
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// Makes the fingerprint of a number. There are ten thousand hosts, spread over all slots.
fn fingerprint(number: u64) -> Fingerprint {
    let low = mixed(number.wrapping_add(0x9E37_79B9_7F4A_7C15));
    let high = mixed(low ^ 0xD6E8_FEB8_6659_FD93);
    let host = HostKey(mixed(number % 10_000));
    Fingerprint::new(host, u128::from(high) << 64 | u128::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_course_takes_every_url_once_in_both_draws() {
        for is_uniform in [false, true] {
            let dir = tempfile::tempdir().expect("a directory");
            let plan = Plan { url_count: 50_000, is_uniform, core: None };
            let marks = run(plan, dir.path(), |_| {}).expect("none lost, none twice");
            assert_eq!(marks.last().map(|mark| mark.distinct_count), Some(5_000));
        }
    }
}

//! `nephila bench frontier`: what a page costs the frontier, on one core, while the queues grow.
//!
//! For each page, a host whose time has come and its URL are popped, 60 links are brought in as
//! texts, as a shard does it ([`LinkDesk`]: memo, join, normal form, URL seen on disk, queues), six
//! of them new, and the host is released with the time of its next turn. There is no network, no
//! parser and no journal. URLs are pushed, about the same number to each host, until there are a
//! million, ten million and so on; at each such mark pages are timed. The 60 links are:
//! - three new links to the page's own host and three to other hosts, drawn evenly: the record of
//!   the own host is in the cache, those of the others are not;
//! - twenty that the memo knows, drawn from 200,000 popular ones: a third, as in crawls of 25 KB
//!   pages;
//! - thirty that were taken lately, within [`RECENT_COUNT`], spelled so that the memo does not know
//!   them (a host's name in another case): most links of a page were met a moment ago;
//! - four drawn evenly from all that were ever taken, which no cache holds. Those go to the disk.
//!
//! Alternatively the 60 links come as URLs ([`Links::Urls`]), joined and in normal form, as other
//! cores send what they found. That measures the frontier alone: pop, URL seen, queues, release,
//! the disk's jobs. They come in a [`Parcel`] of all pages under way, like the links that a core
//! finds in a while. What the other core does is timed too: hashing each URL and putting it into
//! the parcel.
//!
//! Time is virtual: [`PAGE_NS`] a page, so that hosts come back, and deferred links wait for their
//! merge, as they would at 100,000 pages/s. [`STRIDE`] pages are under way at once. The making of
//! the links is not timed; the disk's jobs are. Each mark also shows how fast the machine was in
//! that time. At the end every URL that was taken must be queued or have come out, and none twice.

mod mark;

pub use mark::{Mark, json};

use super::frontier::{Plan, candidate, mixed, path};
use super::yardstick::Yardstick;
use super::{BenchError, on_core_with_marks};
use crate::base::limits::{LINK_MEMO_MB, SEEN_STEP_COUNT};
use crate::base::notify::Notify;
use crate::base::{HashKey, Time};
use crate::crawl::flow::{Candidate, Class, Parcel, Queued, Trail, Via};
use crate::crawl::frontier::seen::{DiskSieve, SeenImage, SeenLimits};
use crate::crawl::frontier::spill::{self, Files};
use crate::crawl::frontier::{Caps, Frontier, HostId, Next, Offered, Sieve};
use crate::io::ring::{RingFile, RingWorld};
use crate::io::{Clock, Spawn};
use crate::proto::url::{HostKey, Normaliser, Url, UrlId};
use crate::shard::discovery::link_desk::{LinkDesk, LinkTally, Ways};
use crate::sys::process;
use hashbrown::HashSet;
use std::cell::{Cell, RefCell, RefMut};
use std::fmt::Write;
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

const STRIDE: usize = 64;
/// How many pushes there are between two rounds of other work.
const PUSH_STRIDE: u64 = 1_024;
/// A page's share of virtual time, and a host's delay in virtual time.
const PAGE_NS: u64 = 10_000;
const DELAY: Duration = Duration::from_secs(1);
/// How many pages are timed at a mark, after a quarter as many that are not timed.
const PAGE_COUNT: u64 = 300_000;
const NEW_OWN_COUNT: usize = 3;
const NEW_OTHER_COUNT: usize = 3;
const POPULAR_LINK_COUNT: usize = 20;
const RECENT_LINK_COUNT: usize = 30;
const OLD_LINK_COUNT: usize = 4;
const POPULAR_COUNT: u64 = 200_000;
const RECENT_COUNT: usize = 1 << 16;

/// The form in which the links of a page come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    Texts,
    Urls,
}

/// Runs the suite with its files in `dir`; `watch` is called with each mark when it is made.
pub fn run(
    plan: Plan,
    links: Links,
    dir: &Path,
    watch: impl Fn(&Mark),
) -> Result<Vec<Mark>, BenchError> {
    on_core_with_marks(plan.core, dir, watch, move |world, tell| async move {
        let course = Course::open(&world, plan, links, tell).await?;
        let done = course.clone().run().await;
        course.rest().await;
        done
    })
}

struct Course {
    world: RingWorld,
    plan: Plan,
    links: Links,
    tell: mpsc::Sender<Mark>,
    frontier: RefCell<Frontier<DiskSieve<RingFile>, ()>>,
    files: Files<RingFile>,
    desk: RefCell<LinkDesk>,
    normaliser: Normaliser,
    hash_key: HashKey,
    /// How many URLs of each host have been made.
    made_counts: RefCell<Vec<u32>>,
    /// Hosts and numbers of the URLs that were made last.
    recent: RefCell<Vec<(u32, u32)>>,
    recent_next: Cell<usize>,
    made_count: Cell<u64>,
    popped_count: Cell<u64>,
    queued_count: Cell<u64>,
    now: Cell<Time>,
    /// Hosts whose next URL is on disk, and hosts for which it has been read.
    parked: RefCell<HashSet<HostId>>,
    refilled: RefCell<Vec<HostId>>,
    wait_count: Cell<u64>,
    active_count: Cell<usize>,
    is_awaited: Cell<bool>,
    ended: Notify,
    error: RefCell<Option<BenchError>>,
    state: Cell<u64>,
}

impl Ways for Course {
    type Sieve = DiskSieve<RingFile>;
    type Data = ();

    fn frontier(&self) -> RefMut<'_, Frontier<DiskSieve<RingFile>, ()>> {
        self.frontier.borrow_mut()
    }

    fn hash_key(&self) -> &HashKey {
        &self.hash_key
    }

    fn normaliser(&self) -> &Normaliser {
        &self.normaliser
    }

    fn is_home(&self, _: &str) -> bool {
        true
    }

    fn is_own(&self, _: HostKey) -> bool {
        true
    }

    fn send(&self, _: UrlId, _: &Candidate<&str>) {}

    fn admitted(&self, _: &Queued<&str>) {
        self.queued_count.set(self.queued_count.get() + 1);
    }
}

/// The time that the parts of pages took.
#[derive(Clone, Copy, Default)]
struct Spent {
    pop_ns: u64,
    send_ns: u64,
    links_ns: u64,
    jobs_ns: u64,
    wall_ns: u64,
}

/// The link texts of pages under way, one after the other.
#[derive(Default)]
struct Texts {
    text: String,
    ends: Vec<usize>,
}

impl Texts {
    fn end_link(&mut self) {
        self.ends.push(self.text.len());
    }

    fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    fn of_page(&self, page: usize) -> impl Iterator<Item = &str> {
        let links = page * LINK_COUNT..(page + 1) * LINK_COUNT;
        links.map(|link| {
            let start = if link == 0 { 0 } else { self.ends[link - 1] };
            &self.text[start..self.ends[link]]
        })
    }
}

const LINK_COUNT: usize =
    NEW_OWN_COUNT + NEW_OTHER_COUNT + POPULAR_LINK_COUNT + RECENT_LINK_COUNT + OLD_LINK_COUNT;

impl Course {
    async fn open(
        world: &RingWorld,
        plan: Plan,
        links: Links,
        tell: mpsc::Sender<Mark>,
    ) -> Result<Rc<Course>, BenchError> {
        let opened = spill::open(world, Path::new("queues"), Vec::new()).await;
        let image = opened.map_err(BenchError::Tails)?;
        let limits = SeenLimits::default();
        let sieve = DiskSieve::open(world, Path::new("seen"), &SeenImage::default(), limits).await;
        let caps = Caps { resident_bytes_max: plan.memory_mb << 20, ..Caps::default() };
        let mut frontier =
            Frontier::with_sieve(sieve.map_err(BenchError::Seen)?, caps, HashKey::new(1));
        frontier.adopt_segments(&image);
        Ok(Rc::new(Course {
            world: world.clone(),
            plan,
            links,
            tell,
            frontier: RefCell::new(frontier),
            files: Files::new("queues".into()),
            desk: RefCell::new(LinkDesk::new(LINK_MEMO_MB, HashKey::new(2))),
            normaliser: Normaliser::new(&[]),
            hash_key: HashKey::new(1),
            made_counts: RefCell::new(vec![0; plan.host_count as usize]),
            recent: RefCell::default(),
            recent_next: Cell::new(0),
            made_count: Cell::new(0),
            popped_count: Cell::new(0),
            queued_count: Cell::new(0),
            now: Cell::new(Time::ZERO),
            parked: RefCell::default(),
            refilled: RefCell::default(),
            wait_count: Cell::new(0),
            active_count: Cell::new(0),
            is_awaited: Cell::new(false),
            ended: Notify::default(),
            error: RefCell::default(),
            state: Cell::new(1),
        }))
    }

    async fn run(self: Rc<Self>) -> Result<(), BenchError> {
        let mut next_mark = 1_000_000.min(self.plan.url_count);
        loop {
            let (cpu_ns, from) = (self.world.cpu_ns(), self.made_count.get());
            while self.queued_count.get() < next_mark {
                (0..PUSH_STRIDE).for_each(|_| self.push());
                self.look_after().await?;
            }
            let pushed_count = (self.made_count.get() - from).max(1);
            let fill_ns = (self.world.cpu_ns() - cpu_ns) as f64 / pushed_count as f64;
            let page_count = PAGE_COUNT.min(self.plan.url_count / 20).max(STRIDE as u64);
            let yardstick = Yardstick::start(self.plan.core)?;
            self.pages(page_count / 4).await?;
            let queued_count = self.frontier.borrow().pending_url_count();
            self.wait_count.set(0);
            let merge_count = self.merge_count();
            let begun = Time(process::monotonic_ns());
            let (spent, tally, page_count) = self.pages(page_count).await?;
            let worth = yardstick.take()?.worth(begun, Time(process::monotonic_ns()));
            let each = |ns: u64| ns as f64 / page_count as f64;
            let mark = Mark {
                queued_count,
                page_count,
                pop_ns: each(spent.pop_ns),
                send_ns: each(spent.send_ns),
                links_ns: each(spent.links_ns),
                jobs_ns: each(spent.jobs_ns),
                wall_ns: each(spent.wall_ns),
                fill_ns,
                tally,
                wait_count: self.wait_count.get(),
                merge_count: self.merge_count() - merge_count,
                resident_bytes: process::resident_bytes().0,
                worth,
            };
            // Sending cannot fail: the receiver lives until this thread ends.
            let _ = self.tell.send(mark);
            if next_mark == self.plan.url_count {
                return self.judge().await;
            }
            next_mark = (next_mark * 10).min(self.plan.url_count);
        }
    }

    /// Waits for the jobs under way, because they hold the sender of the marks.
    async fn rest(&self) {
        while self.active_count.get() > 0 {
            self.ended.wait().await;
        }
    }

    /// Runs `count` pages, or some more if the last ones come together; returns what they took, the
    /// tally of their links, and how many they were.
    async fn pages(self: &Rc<Self>, count: u64) -> Result<(Spent, LinkTally, u64), BenchError> {
        let (mut spent, mut sum, mut done) = (Spent::default(), LinkTally::default(), 0);
        let (mut texts, mut visits) = (Texts::default(), Vec::new());
        let mut parcel = Parcel::default();
        while done < count {
            let begun = self.clocks();
            self.pop(&mut visits);
            let popped = self.clocks();
            self.make_links(&visits, &mut texts);
            if self.links == Links::Urls {
                spent.send_ns += self.send_links(&visits, &texts, &mut parcel);
            }
            let made = self.clocks();
            done += visits.len() as u64;
            sum.add(self.bring(&mut visits, &texts, &parcel));
            let routed = self.clocks();
            self.look_after().await?;
            let ended = self.clocks();
            spent.pop_ns += popped.0 - begun.0;
            spent.links_ns += routed.0 - made.0;
            spent.jobs_ns += ended.0 - routed.0;
            spent.wall_ns += (popped.1 - begun.1) + (ended.1 - made.1);
        }
        spent.wall_ns += spent.send_ns;
        Ok((spent, sum, done))
    }

    /// Brings in the links of the pages under way, and ends the pages.
    fn bring(
        self: &Rc<Self>,
        visits: &mut Vec<(HostId, Queued)>,
        texts: &Texts,
        parcel: &Parcel,
    ) -> LinkTally {
        let (now, mut desk) = (self.now.get(), self.desk.borrow_mut());
        let mut sum = LinkTally::default();
        if self.links == Links::Urls {
            sum.add(desk.take(self.as_ref(), parcel, now));
        }
        for (page, (host, queued)) in visits.drain(..).enumerate() {
            if self.links == Links::Texts {
                let links = texts.of_page(page);
                sum.add(desk.route(self.as_ref(), &queued.url, links, 2, now));
            }
            let mut frontier = self.frontier.borrow_mut();
            let fingerprint = queued.url.fingerprint(&self.hash_key);
            frontier.complete(host, fingerprint);
            frontier.release(host, now + self.delay());
        }
        sum
    }

    fn merge_count(&self) -> u64 {
        self.frontier.borrow().sieve().seen_figures(self.now.get()).merge_count
    }

    /// Returns the core's CPU time and the time of the clock.
    fn clocks(&self) -> (u64, u64) {
        (self.world.cpu_ns(), self.world.now().0)
    }

    /// Returns the hosts' delay. It is shorter where there are few hosts, so that enough of them
    /// are ready.
    fn delay(&self) -> Duration {
        DELAY.min(Duration::from_nanos(u64::from(self.plan.host_count) * PAGE_NS / 4))
    }

    fn pop(&self, visits: &mut Vec<(HostId, Queued)>) {
        let mut frontier = self.frontier.borrow_mut();
        self.now.set(self.now.get() + Duration::from_nanos(STRIDE as u64 * PAGE_NS));
        frontier.advance(self.now.get());
        let mut refilled = self.refilled.borrow_mut();
        while visits.len() < STRIDE {
            let Some(host) = refilled.pop().or_else(|| frontier.pop_ready()) else { break };
            match frontier.next_url(host) {
                Next::Url(queued) => visits.push((host, queued)),
                Next::OnDisk => {
                    self.wait_count.set(self.wait_count.get() + 1);
                    self.parked.borrow_mut().insert(host);
                }
                Next::Nothing => *self.error.borrow_mut() = Some(BenchError::Lost(1)),
            }
        }
        self.popped_count.set(self.popped_count.get() + visits.len() as u64);
    }

    fn make_links(&self, visits: &[(HostId, Queued)], texts: &mut Texts) {
        texts.clear();
        let mut made = Vec::with_capacity(STRIDE * (NEW_OWN_COUNT + NEW_OTHER_COUNT));
        for (host, _) in visits {
            for _ in 0..NEW_OWN_COUNT {
                let number = self.next_number(host.0);
                texts.text.push_str(&path(host.0, number));
                texts.end_link();
                made.push((host.0, number));
            }
            for _ in 0..NEW_OTHER_COUNT {
                let other = self.below(u64::from(self.plan.host_count)) as u32;
                let number = self.next_number(other);
                absolute(other, number, 0, texts);
                made.push((other, number));
            }
            for _ in 0..POPULAR_LINK_COUNT {
                let popular_count = POPULAR_COUNT.min(u64::from(self.plan.host_count));
                absolute(self.below(popular_count) as u32, 0, 0, texts);
            }
            for _ in 0..RECENT_LINK_COUNT {
                let recent = self.recent.borrow();
                let (other, number) = recent[self.below(recent.len() as u64) as usize];
                absolute(other, number, self.random(), texts);
            }
            for _ in 0..OLD_LINK_COUNT {
                let other = self.below(u64::from(self.plan.host_count)) as u32;
                let made_count = self.made_counts.borrow()[other as usize];
                absolute(other, self.below(u64::from(made_count)) as u32, self.random(), texts);
            }
        }
        // Added only now, because a link is known only from an earlier page.
        made.into_iter().for_each(|taken| self.remember(taken));
    }

    /// Packs the links of all pages into a parcel, as another core sends them. Returns how long it
    /// took to hash and pack them, without joining them. It is measured by the clock, because each
    /// part is short.
    fn send_links(&self, visits: &[(HostId, Queued)], texts: &Texts, parcel: &mut Parcel) -> u64 {
        let mut sent_ns = 0;
        parcel.clear();
        for (page, (_, queued)) in visits.iter().enumerate() {
            let urls: Vec<Url> = texts
                .of_page(page)
                .map(|text| queued.url.join(text).expect("our own links are URLs"))
                .map(|url| self.normaliser.normalise(url))
                .collect();
            let (depth, class, via) = (2, Class::Normal, Via::Link);
            let trail = Trail::default;
            let found: Vec<Candidate<&str>> = urls
                .iter()
                .map(|url| Candidate { url: url.lent(), depth, class, via, trail: trail() })
                .collect();
            let joined = self.world.now();
            let key = &self.hash_key;
            found.iter().for_each(|found| parcel.push(found.url.id(key), found));
            sent_ns += self.world.now().since(joined).as_nanos() as u64;
        }
        sent_ns
    }

    fn push(&self) {
        let index = self.made_count.get();
        let host_count = u64::from(self.plan.host_count);
        let (round, place) = (index / host_count, index % host_count);
        // The first round is in order, so that a host's id is its number.
        let host = if round == 0 { place } else { place * 2_654_435_761 % host_count } as u32;
        let number = self.next_number(host);
        let offered = self.frontier.borrow_mut().offer(candidate(host, number), self.now.get());
        match offered {
            Offered::Queued => self.queued_count.set(self.queued_count.get() + 1),
            Offered::Later => {}
            _ => *self.error.borrow_mut() = Some(BenchError::Refused(offered)),
        }
        self.remember((host, number));
    }

    fn next_number(&self, host: u32) -> u32 {
        let count = &mut self.made_counts.borrow_mut()[host as usize];
        *count += 1;
        self.made_count.set(self.made_count.get() + 1);
        *count - 1
    }

    fn remember(&self, taken: (u32, u32)) {
        let mut recent = self.recent.borrow_mut();
        if recent.len() < RECENT_COUNT {
            return recent.push(taken);
        }
        recent[self.recent_next.get()] = taken;
        self.recent_next.set((self.recent_next.get() + 1) % RECENT_COUNT);
    }

    /// Checks that every URL that was made is queued or has come out.
    async fn judge(self: &Rc<Self>) -> Result<(), BenchError> {
        self.is_awaited.set(true);
        while self.frontier.borrow().sieve().deferred_count() > 0 || self.active_count.get() > 0 {
            self.start_jobs(true);
            self.world.yield_now().await;
            self.take_error()?;
        }
        let expected = self.made_count.get() - self.popped_count.get();
        let pending = self.frontier.borrow().pending_url_count();
        if expected == pending { Ok(()) } else { Err(BenchError::Lost(expected.abs_diff(pending))) }
    }

    /// Starts the jobs that are due, lets them run, and waits while too much waits for the disk.
    async fn look_after(self: &Rc<Self>) -> Result<(), BenchError> {
        loop {
            self.start_jobs(false);
            self.world.yield_now().await;
            self.take_error()?;
            let is_backed_up = {
                let frontier = self.frontier.borrow();
                frontier.is_tail_backed_up() || frontier.sieve().is_backed_up()
            };
            self.is_awaited.set(is_backed_up);
            if !is_backed_up {
                return Ok(());
            }
        }
    }

    fn start_jobs(self: &Rc<Self>, is_idle: bool) {
        loop {
            let Some(job) = self.frontier.borrow_mut().next_tail_job() else { break };
            let course = self.clone();
            self.start(async move {
                let finished = job.run(&course.world, &course.files).await;
                course.end_tail_job(finished);
            });
        }
        loop {
            // Virtual time, by which candidates were deferred. The system's clock is far ahead of
            // it, so by that every merge would be overdue.
            let job = self.frontier.borrow_mut().sieve_mut().next_job(self.now.get(), is_idle);
            let Some(job) = job else { break };
            let course = self.clone();
            self.start(async move {
                let finished = job.run(&course.world, Path::new("seen"), &course.is_awaited).await;
                let ended = course.frontier.borrow_mut().sieve_mut().finish(finished);
                if let Err(error) = ended {
                    *course.error.borrow_mut() = Some(BenchError::Seen(error));
                }
                while course.settle_step() {
                    course.world.yield_now().await;
                }
            });
        }
    }

    fn start(self: &Rc<Self>, job: impl Future<Output = ()> + 'static) {
        let course = self.clone();
        self.active_count.set(self.active_count.get() + 1);
        self.world.spawn(async move {
            job.await;
            course.active_count.set(course.active_count.get() - 1);
            course.ended.poke();
        });
    }

    fn end_tail_job(&self, finished: spill::Finished) {
        let mut frontier = self.frontier.borrow_mut();
        let ended = frontier.finish_tail_job(finished);
        frontier.segment_leftovers().retire_unless(|_| false);
        if let Some(error) = ended.error {
            *self.error.borrow_mut() = Some(BenchError::Tails(error));
        }
        let mut parked = self.parked.borrow_mut();
        let refilled = ended.refilled.into_iter().filter(|host| parked.remove(host));
        self.refilled.borrow_mut().extend(refilled);
    }

    /// Judges and settles a step; returns true if there is more to settle.
    fn settle_step(&self) -> bool {
        let mut frontier = self.frontier.borrow_mut();
        let judged = frontier.sieve_mut().judge(SEEN_STEP_COUNT);
        let settled_count = frontier.settle(self.now.get()) as u64;
        self.queued_count.set(self.queued_count.get() + settled_count);
        frontier.sieve_mut().leftovers().retire_unless(|_| false);
        judged.is_more
    }

    fn take_error(&self) -> Result<(), BenchError> {
        self.error.take().map_or(Ok(()), Err)
    }

    fn random(&self) -> u64 {
        self.state.set(self.state.get().wrapping_add(0x9E37_79B9_7F4A_7C15));
        mixed(self.state.get())
    }

    fn below(&self, bound: u64) -> u64 {
        ((u128::from(self.random()) * u128::from(bound)) >> 64) as u64
    }
}

/// Appends a link to a page of another host. Each bit of `cases` decides the case of a letter in
/// the host's name.
fn absolute(host: u32, number: u32, mut cases: u64, texts: &mut Texts) {
    texts.text.push_str("http://");
    for letter in "www.host-".chars() {
        texts.text.push(if cases & 1 == 1 { letter.to_ascii_uppercase() } else { letter });
        cases >>= 1;
    }
    // Writing to a String does not fail.
    let _ = write!(texts.text, "{host}.");
    for letter in "test".chars() {
        texts.text.push(if cases & 1 == 1 { letter.to_ascii_uppercase() } else { letter });
        cases >>= 1;
    }
    texts.text.push_str(&path(host, number));
    texts.end_link();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(links: Links) -> Mark {
        let dir = tempfile::tempdir().expect("a directory");
        let plan = Plan { url_count: 60_000, host_count: 3_000, memory_mb: 0, core: None };
        let marks = run(plan, links, dir.path(), |_| {}).expect("none lost");
        let [mark] = marks[..] else { panic!("one mark: {marks:?}") };
        let [remembered, known, deferred, new] = mark.shares();
        assert!(remembered + known + deferred + new == LINK_COUNT as f64, "{mark:?}");
        assert!((5.9..=6.0).contains(&new), "{mark:?}");
        mark
    }

    #[test]
    fn a_small_course_takes_six_links_a_page_and_loses_nothing() {
        let [remembered, ..] = small(Links::Texts).shares();
        assert!(remembered > 15.0, "{remembered}");
    }

    #[test]
    fn links_that_come_as_urls_are_taken_as_well_and_none_is_remembered() {
        let [remembered, known, ..] = small(Links::Urls).shares();
        assert!(remembered == 0.0 && known > 45.0, "{remembered} {known}");
    }
}

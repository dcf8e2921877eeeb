//! Tests of the tails over a simulated disk: order, bounds, failures, damage, and disk space that
//! is given back. The random programs are in `frontier::model_tests`.

use super::*;
use crate::base::hash_key::test_key;
use crate::base::pack::{Pack, Unpack};
use crate::base::{Time, WallTime};
use crate::crawl::flow::{Candidate, Via};
use crate::crawl::frontier::{
    Caps, DropReason, HostState, MemorySieve, Middle, Next, Offered, Queued,
};
use crate::io::sim::{DiskFaults, DiskOperation, Sim, SimFile, SimWorld, Trouble};
use crate::io::{Clock, Disk, File, Random, Spawn};
use crate::proto::url::{HostKey, Url};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

const DIRECTORY: &str = "state/shard-00";

impl<S: Sieve, X: Default> Frontier<S, X> {
    /// Checks what must hold between any two steps.
    pub(in crate::crawl::frontier) fn assert_tails_are_sound(&self) {
        let (mut tail_count, mut url_count, mut live_bytes) = (0, 0, 0);
        let mut resident_bytes = [0; 4];
        for id in self.host_ids() {
            let (host, mut queued_count) = (&self.hosts[id], 0);
            for class in Class::ALL {
                let tail = self.tails.tails.get(&Place::new(id, class));
                assert_eq!(
                    tail.is_some(),
                    host.is_tailed(class),
                    "the bit says whether there is a tail"
                );
                let head_bytes = host.head_memory_bytes(class);
                queued_count += host.head(class).map_or(0, PackedQueue::count);
                let beyond = head_bytes.saturating_sub(self.tails.limits.head_bytes);
                let behind_bytes = tail.map_or(0, |tail| tail.behind.memory_bytes());
                resident_bytes[class.index()] += (beyond + behind_bytes) as u64;
                let has_behind = tail.is_some_and(|tail| tail.behind.count() > 0);
                assert!(host.is_spill_listed(class) || (beyond == 0 && !has_behind), "not listed");
                let Some(tail) = tail else { continue };
                assert!(!tail.chunks.is_empty(), "a tail has a chunk");
                tail_count += 1;
                queued_count += tail.behind.count();
                for chunk in &tail.chunks {
                    assert_eq!(
                        self.tails.segments.segment(chunk.segment).map(|s| s.class),
                        Some(class)
                    );
                    url_count += u64::from(chunk.count);
                    queued_count += u32::from(chunk.count);
                    live_bytes += chunk.footprint();
                }
            }
            assert_eq!(host.queued_count, queued_count, "each URL is counted");
        }
        assert_eq!(self.tails.tails.len(), tail_count);
        assert_eq!(self.tails.resident_bytes, resident_bytes);
        let figures = self.tail_figures();
        assert_eq!((figures.url_count, figures.live_bytes), (url_count, live_bytes));
    }
}

/// A frontier whose jobs run beside it, as in a shard.
struct Bench {
    world: SimWorld,
    frontier: RefCell<Frontier>,
    files: Files<SimFile>,
    active_count: Cell<usize>,
    errors: RefCell<Vec<TailError>>,
    /// The number that must come next, by host and class.
    expected: RefCell<BTreeMap<(HostId, Class), u64>>,
    /// The number that is offered next, by host and class.
    offered: RefCell<BTreeMap<(HostId, Class), u64>>,
}

impl Bench {
    async fn open(world: &SimWorld, caps: Caps) -> Rc<Bench> {
        let opened = open(world, Path::new(DIRECTORY), Vec::new()).await;
        let image = opened.expect("a disk");
        let files = Files::new(Path::new(DIRECTORY).to_owned());
        let mut frontier = Frontier::<MemorySieve, ()>::new(caps, test_key());
        frontier.adopt_segments(&image);
        Rc::new(Bench {
            world: world.clone(),
            frontier: RefCell::new(frontier),
            files,
            active_count: Cell::new(0),
            errors: RefCell::default(),
            expected: RefCell::default(),
            offered: RefCell::default(),
        })
    }

    /// Offers the next URL of a host and class: the path ends in its number.
    fn offer(&self, host: u64, class: Class) -> Offered {
        let url = Url::parse(&format!("http://h{host}.test/")).expect("a URL");
        let id = self.frontier.borrow_mut().host_for(&url).expect("room");
        let mut offered = self.offered.borrow_mut();
        let number = offered.entry((id, class)).or_default();
        let filler = "x".repeat(*number as usize * 7 % 40);
        let text = format!("http://h{host}.test/{filler}/{}/{number}", class.index());
        *number += 1;
        let url = Url::parse(&text).expect("a URL");
        let candidate = Candidate { url, depth: 1, class, via: Via::Link, trail: Box::default() };
        self.frontier.borrow_mut().offer(candidate, self.world.now())
    }

    /// Checks that a URL is the one that must come next.
    fn take(&self, host: HostId, queued: &Queued) {
        let mut expected = self.expected.borrow_mut();
        let number = expected.entry((host, queued.class)).or_default();
        let found = queued.url.path_and_query().rsplit('/').next();
        assert_eq!(found, Some(number.to_string().as_str()), "of {host:?} {:?}", queued.class);
        *number += 1;
    }

    fn start_jobs(self: &Rc<Self>) -> bool {
        let mut has_started = false;
        loop {
            let Some(job) = self.frontier.borrow_mut().next_tail_job() else { return has_started };
            has_started = true;
            self.active_count.set(self.active_count.get() + 1);
            let bench = self.clone();
            self.world.spawn(async move {
                let finished = job.run(&bench.world, &bench.files).await;
                let ended = bench.frontier.borrow_mut().finish_tail_job(finished);
                bench.errors.borrow_mut().extend(ended.error);
                bench.active_count.set(bench.active_count.get() - 1);
            });
        }
    }

    fn retire(&self) {
        self.frontier.borrow_mut().segment_leftovers().retire_unless(|_| false);
    }

    async fn pause(&self, us_max: u64) {
        let pause = Duration::from_micros(self.world.random_u64() % us_max);
        self.world.sleep_until(self.world.now() + pause).await;
    }

    /// Runs jobs until none is due or under way.
    async fn settle(self: &Rc<Self>) {
        self.retire();
        while self.start_jobs() || self.active_count.get() > 0 {
            self.pause(500).await;
            self.retire();
        }
    }

    /// Takes one turn of a host as a visit does: waits for what is on disk. Returns false if no
    /// host is ready.
    async fn visit(self: &Rc<Self>) -> bool {
        self.frontier.borrow_mut().advance(self.world.now());
        let Some(host) = self.frontier.borrow_mut().pop_ready() else { return false };
        loop {
            let next = self.frontier.borrow_mut().next_url(host);
            match next {
                Next::Url(queued) => break self.take(host, &queued),
                Next::Nothing => panic!("a ready host has URLs"),
                Next::OnDisk => {
                    self.start_jobs();
                    self.pause(300).await;
                }
            }
        }
        self.frontier.borrow_mut().release(host, Time::ZERO);
        true
    }

    async fn run_out(self: &Rc<Self>) {
        while self.visit().await {
            self.start_jobs();
        }
        self.settle().await;
        assert_eq!(*self.expected.borrow(), *self.offered.borrow(), "no URL is lost");
        self.frontier.borrow().assert_tails_are_sound();
    }

    fn figures(&self) -> TailFigures {
        self.frontier.borrow().tail_figures()
    }

    async fn disk_bytes(&self) -> u64 {
        let mut bytes = 0;
        for name in self.world.list(Path::new(DIRECTORY)).await.expect("a list") {
            let file = self.world.open(&Path::new(DIRECTORY).join(name)).await;
            bytes += file.expect("a file").size();
        }
        bytes
    }
}

fn caps(resident_bytes_max: u64) -> Caps {
    Caps { resident_bytes_max, skeleton_page_count_max: 0, ..Caps::default() }
}

fn in_sim<T>(seed: u64, body: impl AsyncFnOnce(&Sim, SimWorld) -> T) -> T {
    let sim = Sim::new(seed);
    sim.block_on(body(&sim, sim.world(0))).expect("a simulation that ends")
}

#[test]
fn whatever_the_order_of_jobs_and_visits_urls_come_in_order_and_none_is_lost() {
    let mut met = TailFigures::default();
    for seed in 0..30 {
        let figures = in_sim(seed, async |sim, world| {
            let bench = Bench::open(&world, caps(seed % 3 * 20_000)).await;
            if seed % 2 == 1 {
                let per_mille = 20 + seed * 5;
                sim.set_disk_faults(DiskFaults {
                    error_per_mille: per_mille,
                    sync_error_per_mille: per_mille,
                    full_per_mille: per_mille,
                    ..DiskFaults::default()
                });
            }
            for step in 0..6_000u64 {
                let random = world.random_u64();
                // Many offers, then few: segments fill, and empty again.
                if random % 10 < if step < 3_000 { 8 } else { 3 } {
                    let host = (random >> 8) % 12 * ((random >> 16) % 3);
                    bench.offer(host, Class::ALL[(random >> 24) as usize % 4]);
                } else {
                    bench.visit().await;
                }
                if random >> 32 & 7 == 0 {
                    bench.start_jobs();
                }
                if random >> 36 & 15 == 0 {
                    bench.pause(2_000).await;
                    bench.retire();
                }
            }
            bench.frontier.borrow().assert_tails_are_sound();
            bench.run_out().await;
            let damaged = |error: &TailError| matches!(error, TailError::Damaged { .. });
            assert!(!bench.errors.borrow().iter().any(damaged), "{:?}", bench.errors.borrow());
            assert_eq!(bench.errors.borrow().is_empty(), seed % 2 == 0);
            bench.figures()
        });
        assert_eq!((figures.url_count, figures.resident_bytes, figures.live_bytes), (0, 0, 0));
        met.batch_count += figures.batch_count;
        met.refill_count += figures.refill_count;
        met.moved_chunk_count += figures.moved_chunk_count;
    }
    assert!(met.batch_count > 500 && met.refill_count > 5_000, "{met:?}");
    assert!(met.moved_chunk_count > 50, "{met:?}");
}

#[test]
fn a_queue_of_one_host_goes_to_disk_and_comes_back_in_order() {
    in_sim(1, async |_, world| {
        let bench = Bench::open(&world, caps(10_000)).await;
        // A batch takes several chunks of the head.
        bench.frontier.borrow_mut().tails.limits.batch_bytes = 64 * 1024;
        (0..3_000).for_each(|_| _ = bench.offer(7, Class::Normal));
        bench.settle().await;
        let figures = bench.figures();
        assert!(figures.resident_bytes <= 10_000, "{figures:?}");
        assert!(figures.url_count > 2_500, "{figures:?}");
        // New ones join behind; the retried one goes first.
        bench.frontier.borrow_mut().advance(world.now());
        let host = bench.frontier.borrow_mut().pop_ready().expect("ready");
        let first = bench.frontier.borrow_mut().next_url(host).url().expect("at the head");
        bench.frontier.borrow_mut().requeue(host, first, Time::ZERO);
        bench.frontier.borrow_mut().release(host, Time::ZERO);
        (0..100).for_each(|_| _ = bench.offer(7, Class::Normal));
        bench.run_out().await;
    });
}

#[test]
fn a_host_in_waiting_has_its_next_urls_in_ram_before_its_turn() {
    in_sim(2, async |_, world| {
        let bench = Bench::open(&world, caps(64 << 10)).await;
        (0..20_000).for_each(|number| _ = bench.offer(number % 4, Class::Low));
        bench.settle().await;
        assert!(bench.figures().url_count > 10_000, "{:?}", bench.figures());
        for _ in 0..6_000 {
            bench.frontier.borrow_mut().advance(world.now());
            let host = bench.frontier.borrow_mut().pop_ready().expect("ready");
            let next = bench.frontier.borrow_mut().next_url(host);
            bench.take(host, &next.url().expect("never waited for"));
            bench.frontier.borrow_mut().release(host, Time::ZERO);
            bench.settle().await;
        }
        assert!(bench.figures().refill_count > 10);
    });
}

#[test]
fn what_is_not_durable_yet_is_read_from_ram() {
    in_sim(3, async |sim, world| {
        let bench = Bench::open(&world, caps(0)).await;
        (0..100).for_each(|_| _ = bench.offer(1, Class::High));
        let job = bench.frontier.borrow_mut().next_tail_job().expect("a spill");
        sim.trouble_disk(Trouble { count: 1_000, ..broken(DiskOperation::Read) });
        bench.run_out_of(job).await;
    });
}

fn broken(operation: DiskOperation) -> Trouble {
    Trouble { path_part: "queue", ..Trouble::next(operation, crate::io::DiskError::Os(5)) }
}

impl Bench {
    /// Takes all URLs while a spill is under way, which ends last.
    async fn run_out_of(self: &Rc<Self>, job: Job) {
        self.frontier.borrow_mut().advance(self.world.now());
        while self.frontier.borrow().pending_url_count() > 0 {
            assert!(self.visit().await);
            assert_eq!(*self.errors.borrow(), [], "the disk was not asked");
        }
        let finished = job.run(&self.world, &self.files).await;
        let ended = self.frontier.borrow_mut().finish_tail_job(finished);
        assert_eq!(ended.error, None);
        self.run_out().await;
    }
}

#[test]
fn a_batch_whose_write_or_sync_failed_is_written_again_and_survives_a_power_cut() {
    for operation in [
        DiskOperation::Create,
        DiskOperation::SyncDir,
        DiskOperation::Append,
        DiskOperation::Sync,
        DiskOperation::Truncate,
    ] {
        for skip_count in [0, 1] {
            in_sim(4, async |sim, world| {
                let bench = Bench::open(&world, caps(4_000)).await;
                let path_part = if operation == DiskOperation::SyncDir { "" } else { "queue" };
                sim.trouble_disk(Trouble { skip_count, count: 2, path_part, ..broken(operation) });
                // Only a failed write leads to a truncation.
                if operation == DiskOperation::Truncate {
                    sim.trouble_disk(Trouble { skip_count: 1, ..broken(DiskOperation::Sync) });
                }
                for round in 0..20 {
                    (0..40).for_each(|_| _ = bench.offer(round % 3, Class::Normal));
                    bench.settle().await;
                }
                let is_met = !bench.errors.borrow().is_empty();
                assert!(is_met || skip_count > 0, "{operation:?}");
                sim.lose_unsynced();
                bench.run_out().await;
            });
        }
    }
}

#[test]
fn a_flipped_bit_in_a_segment_is_found_and_nothing_of_its_chunk_is_used() {
    for seed in 0..40 {
        in_sim(seed, async |sim, world| {
            let bench = Bench::open(&world, caps(0)).await;
            (0..60).for_each(|_| _ = bench.offer(1, Class::Low));
            bench.settle().await;
            let name = "queue-3-000001.seg";
            let path = Path::new(DIRECTORY).join(name);
            let at = sim.flip_bit(&path).expect("a segment");
            for _ in 0..10_000 {
                bench.frontier.borrow_mut().advance(world.now());
                let host = bench.frontier.borrow_mut().pop_ready().expect("ready");
                let next = bench.frontier.borrow_mut().next_url(host);
                if let Next::Url(queued) = next {
                    bench.take(host, &queued);
                }
                bench.frontier.borrow_mut().release(host, Time::ZERO);
                if bench.frontier.borrow().pending_url_count() == 0 {
                    assert!(at < segments::FILE_HEADER_BYTES as u64, "byte {at}");
                    return;
                }
                bench.start_jobs();
                bench.pause(500).await;
                if let Some(error) = bench.errors.borrow().first() {
                    let TailError::Damaged { name: of, .. } = error else { panic!("{error}") };
                    assert_eq!(of, name);
                    return;
                }
            }
            panic!("neither found nor read: byte {at}");
        });
    }
}

#[test]
fn at_the_cap_the_newest_of_the_lowest_class_go_whether_in_ram_or_on_disk() {
    in_sim(5, async |_, world| {
        let bench = Bench::open(&world, Caps { queued_count_max: 3_000, ..caps(0) }).await;
        (0..3_000).for_each(|number| _ = bench.offer(number % 2, Class::Low));
        bench.settle().await;
        assert!(bench.figures().url_count > 2_900, "{:?}", bench.figures());
        let mut evicted_count = 0;
        for number in 0..300 {
            assert_eq!(bench.offer(2 + number % 2, Class::High), Offered::Queued);
            let frontier = bench.frontier.borrow();
            frontier.assert_tails_are_sound();
            assert!(frontier.pending_url_count() <= 3_000);
            evicted_count = frontier.figures().dropped_count[DropReason::Evicted as usize];
            let queued = frontier.pending_url_count() + evicted_count;
            assert_eq!(queued, 3_000 + number + 1, "each is queued or counted");
        }
        assert!((300..2_000).contains(&evicted_count), "{evicted_count}");
        bench.settle().await;
        // The oldest URLs of the lowest class are still there, and come first.
        while bench.visit().await {
            bench.start_jobs();
        }
        let expected = bench.expected.borrow();
        let low: u64 = expected.iter().filter(|((_, c), _)| *c == Class::Low).map(|(_, n)| n).sum();
        let high: u64 =
            expected.iter().filter(|((_, c), _)| *c == Class::High).map(|(_, n)| n).sum();
        assert_eq!((low, high), (3_000 - evicted_count, 300));
    });
}

#[test]
fn a_chunk_that_is_evicted_while_it_is_read_is_not_used() {
    in_sim(6, async |_, world| {
        let caps = Caps { queued_count_max: 20, ..caps(0) };
        let bench = Bench::open(&world, caps).await;
        (0..20).for_each(|_| _ = bench.offer(1, Class::Low));
        bench.settle().await;
        let host =
            bench.frontier.borrow().host_by_key(HostKey::of(&test_key(), "h1.test")).expect("met");
        let (drained, is_more) = bench.frontier.borrow_mut().drain_host(host);
        drained.iter().for_each(|queued| bench.take(host, queued));
        assert!(is_more, "asked for");
        let job = bench.frontier.borrow_mut().next_tail_job().expect("a refill");
        let finished = job.run(&world, &bench.files).await;
        (0..20).for_each(|_| _ = bench.offer(2, Class::High));
        assert_eq!(bench.frontier.borrow().host_queued_count(host), 0, "all evicted");
        assert_eq!(bench.frontier.borrow().host_state(host), HostState::Idle);
        let ended = bench.frontier.borrow_mut().finish_tail_job(finished);
        assert_eq!(ended, Ended::default());
        bench.frontier.borrow().assert_tails_are_sound();
        assert_eq!(bench.frontier.borrow().pending_url_count(), 20);
    });
}

/// Holds whether the read has begun or not: a visit that was not told would wait for ever.
#[test]
fn a_visit_whose_next_urls_are_evicted_while_it_waits_for_them_is_told() {
    for has_begun in [false, true] {
        in_sim(6, async |_, world| {
            let caps = Caps { queued_count_max: 20, ..caps(0) };
            let bench = Bench::open(&world, caps).await;
            (0..20).for_each(|_| _ = bench.offer(1, Class::Low));
            bench.settle().await;
            bench.frontier.borrow_mut().advance(world.now());
            let host = bench.frontier.borrow_mut().pop_ready().expect("a ready host");
            bench.frontier.borrow_mut().drain_host(host);
            let next = bench.frontier.borrow_mut().next_url(host);
            assert!(matches!(next, Next::OnDisk));
            let job = has_begun.then(|| bench.frontier.borrow_mut().next_tail_job());
            (0..20).for_each(|_| _ = bench.offer(2, Class::High));
            assert_eq!(bench.frontier.borrow_mut().take_unread(), [host]);
            let next = bench.frontier.borrow_mut().next_url(host);
            assert!(matches!(next, Next::Nothing));
            if let Some(Some(job)) = job {
                let finished = job.run(&world, &bench.files).await;
                let ended = bench.frontier.borrow_mut().finish_tail_job(finished);
                assert_eq!(ended, Ended::default());
            }
            assert_eq!(bench.frontier.borrow_mut().take_unread(), []);
            bench.frontier.borrow().assert_tails_are_sound();
        });
    }
}

#[test]
fn a_read_of_a_tail_that_is_gone_does_nothing_to_the_one_in_its_place() {
    in_sim(11, async |_, world| {
        let caps = Caps { queued_count_max: 20, ..caps(0) };
        let bench = Bench::open(&world, caps).await;
        (0..20).for_each(|_| _ = bench.offer(1, Class::Low));
        bench.settle().await;
        let id = |name| {
            bench.frontier.borrow().host_by_key(HostKey::of(&test_key(), name)).expect("met")
        };
        let (host, other) = (id("h1.test"), HostId(1));
        bench.frontier.borrow_mut().drain_host(host);
        let job = bench.frontier.borrow_mut().next_tail_job().expect("a refill");
        let stale = job.run(&world, &bench.files).await;
        (0..20).for_each(|_| _ = bench.offer(2, Class::High));
        assert_eq!(bench.frontier.borrow().host_queued_count(host), 0, "all evicted");
        let (drained, is_more) = bench.frontier.borrow_mut().drain_host(other);
        assert_eq!((drained.len(), is_more), (20, false));
        (0..20).for_each(|_| _ = bench.offer(1, Class::Low));
        let job = bench.frontier.borrow_mut().next_tail_job().expect("a spill");
        let spilled = job.run(&world, &bench.files).await;
        assert_eq!(bench.frontier.borrow_mut().finish_tail_job(spilled), Ended::default());
        assert_eq!(bench.frontier.borrow_mut().finish_tail_job(stale), Ended::default());
        bench.frontier.borrow().assert_tails_are_sound();
        bench.expected.borrow_mut().extend([((host, Class::Low), 20), ((other, Class::High), 20)]);
        bench.run_out().await;
    });
}

#[test]
fn the_disk_holds_a_small_multiple_of_what_is_queued() {
    in_sim(7, async |_, world| {
        let bench = Bench::open(&world, caps(64 * 1024)).await;
        let segment_bytes = bench.frontier.borrow().tails.limits.segment_bytes;
        (0..40_000).for_each(|number| _ = bench.offer(number % 150, Class::Normal));
        let mut most = 0;
        for step in 0..70_000 {
            assert!(bench.visit().await);
            if step % 4 != 0 {
                bench.offer(world.random_u64() % 150, Class::Normal);
            }
            if step % 64 == 0 {
                bench.settle().await;
            }
            if step % 2_000 == 0 {
                let figures = bench.figures();
                let bound = 4 * figures.live_bytes + 4 * segment_bytes;
                let on_disk = bench.disk_bytes().await;
                assert!(on_disk <= bound, "{on_disk} bytes for {figures:?}");
                most = most.max(on_disk);
            }
        }
        assert!(bench.figures().moved_chunk_count > 100, "{:?}", bench.figures());
        assert!(most > 8 * segment_bytes, "{most}");
        bench.run_out().await;
        assert!(bench.disk_bytes().await <= 4 * segment_bytes, "all but open segments are gone");
    });
}

#[test]
fn a_disk_that_does_not_keep_up_is_told_of() {
    in_sim(8, async |sim, world| {
        let bench = Bench::open(&world, caps(20_000)).await;
        sim.trouble_disk(Trouble { count: 3, ..broken(DiskOperation::Append) });
        for _ in 0..3_000 {
            bench.offer(1, Class::Normal);
        }
        assert!(!bench.frontier.borrow().is_tail_backed_up(), "nothing is being written");
        for _ in 0..3 {
            bench.start_jobs();
            assert!(bench.frontier.borrow().is_tail_backed_up());
            while bench.active_count.get() > 0 {
                bench.pause(100).await;
            }
            assert!(
                bench.frontier.borrow().is_tail_backed_up(),
                "refused, and still to be written"
            );
        }
        bench.settle().await;
        assert!(!bench.frontier.borrow().is_tail_backed_up());
        assert_eq!(bench.errors.borrow().len(), 3);
        bench.run_out().await;
    });
}

#[test]
fn tails_restored_from_an_image_are_as_they_were_and_other_segments_are_superseded() {
    in_sim(9, async |_, world| {
        let bench = Bench::open(&world, caps(0)).await;
        for number in 0..2_000 {
            bench.offer(number % 7, Class::ALL[number as usize % 3]);
            if number % 50 == 0 {
                bench.settle().await;
            }
        }
        bench.frontier.borrow_mut().hold_tails(true);
        bench.settle().await;
        let on_disk = bench.figures().url_count;
        (0..30).for_each(|number| _ = bench.offer(number % 7, Class::Normal));
        bench.settle().await;
        assert_eq!(bench.figures().url_count, on_disk, "held tails spill nothing");
        let stray = Path::new(DIRECTORY).join("queue-2-000900.seg");
        world.create(&stray).await.expect("a file").append(vec![1]).await.expect("room");

        assert!(bench.frontier.borrow().are_tails_durable());
        let segments = bench.frontier.borrow().segment_images();
        let opened = open(&world, Path::new(DIRECTORY), segments).await;
        let image = opened.expect("what was written");
        let files = Files::new(Path::new(DIRECTORY).to_owned());
        let mut new = Frontier::<MemorySieve, ()>::new(caps(0), test_key());
        new.adopt_segments(&image);
        assert_eq!(new.segment_leftovers().superseded(), ["queue-2-000900.seg"]);
        {
            let old = bench.frontier.borrow();
            for host in old.host_ids() {
                let mut image = Vec::new();
                old.pack_host(host, &mut Pack(&mut image), |time| WallTime(time.0));
                let (middle, time_of) = (Middle::Chunks, |wall: WallTime| Time(wall.0));
                assert_eq!(new.unpack_host(&mut Unpack(&image), &middle, time_of), Ok(host));
            }
            new.end_adoption();
            new.assert_tails_are_sound();
            assert_eq!(new.pending_url_count(), old.pending_url_count());
            assert_eq!(new.pending_url_bytes(), old.pending_url_bytes());
            assert_eq!(new.tail_figures().url_count, old.tail_figures().url_count);
            assert!(new.tail_figures().url_count > 1_000);
        }
        let offered = bench.offered.take();
        let again = Rc::new(Bench {
            world: world.clone(),
            frontier: RefCell::new(new),
            files,
            active_count: Cell::new(0),
            errors: RefCell::default(),
            expected: RefCell::default(),
            offered: RefCell::new(offered),
        });
        again.run_out().await;
        assert_eq!(*again.errors.borrow(), []);
        assert!(again.disk_bytes().await <= 4 * (16 * 1024 + 2_048 + 8_192), "old ones are gone");
    });
}

#[test]
fn an_image_that_does_not_fit_its_files_is_refused() {
    in_sim(10, async |_, world| {
        let bench = Bench::open(&world, caps(0)).await;
        (0..200).for_each(|_| _ = bench.offer(1, Class::Low));
        bench.settle().await;
        let segments = bench.frontier.borrow().segment_images();
        let [segment] = segments[..] else { panic!("one segment: {segments:?}") };
        let opened = async |segment| {
            let opened = open(&world, Path::new(DIRECTORY), vec![segment]).await;
            opened.map(|image| image.segments)
        };
        assert_eq!(opened(segment).await, Ok(vec![segment]));
        let long = SegmentImage { size_bytes: segment.size_bytes + 1, ..segment };
        let what = "the file is shorter than the checkpoint says";
        assert_eq!(opened(long).await, Err(TailError::damaged(&segment.name(), what)));
        let mut other = Frontier::<MemorySieve, ()>::new(caps(0), test_key());
        other.adopt_segments(&TailImage { segments, serial_min: 2, ..TailImage::default() });
        let host = other.host_for(&Url::parse("http://h1.test/").expect("a URL")).expect("room");
        let chunk = ChunkRef { segment: 1, offset: 32, size: u16::MAX, count: 1 };
        assert!(other.restore_tail(host, Class::Low, &[chunk]).is_err(), "beyond the end");
        let chunk = ChunkRef { size: 10, ..chunk };
        assert!(other.restore_tail(host, Class::High, &[chunk]).is_err(), "of another class");
        assert_eq!(other.restore_tail(host, Class::Low, &[chunk]), Ok(()));
    });
}

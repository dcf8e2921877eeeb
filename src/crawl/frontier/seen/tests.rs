//! Tests of the sieve against a plain set, over a simulated disk, with jobs and offers in any
//! order.

use super::writer::RunWriter;
use super::*;
use crate::base::hash_key::{made_to_collide, test_key};
use crate::crawl::flow::{Class, Trail, Via};
use crate::io::sim::{Sim, SimFile, SimWorld};
use crate::io::{Clock, Disk, Random, Spawn};
use crate::proto::url::{HostKey, Url};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::path::Path;

type Subject = DiskSieve<SimFile>;

pub(super) const DIRECTORY: &str = "state/shard-00";

/// Makes limits with a small cache of recent fingerprints, so that merges have something to settle.
fn small(fresh_count: usize) -> SeenLimits {
    SeenLimits::sized(fresh_count).remembering(8)
}

fn candidate(number: u64) -> Candidate {
    let text = format!("http://h{}.test/{number}", number % 50);
    let url = Url::parse(&text).expect("a URL");
    Candidate { url, depth: 1, class: Class::Normal, via: Via::Link, trail: Trail::default() }
}

/// A sieve under test, the set it must equal, and the jobs under way.
struct Bench {
    world: SimWorld,
    sieve: RefCell<Subject>,
    /// The URLs that were taken: what was offered is taken at once or still deferred.
    taken: RefCell<HashSet<Url>>,
    offered: RefCell<HashSet<Url>>,
    deferred: RefCell<HashSet<Url>>,
    active_count: Cell<usize>,
    errors: RefCell<Vec<SeenError>>,
    is_awaited: Cell<bool>,
}

impl Bench {
    async fn open(world: &SimWorld, limits: SeenLimits, image: &SeenImage) -> Rc<Bench> {
        let directory = Path::new(DIRECTORY);
        let sieve = DiskSieve::open(world, directory, image, limits).await.expect("a sieve");
        Rc::new(Bench {
            world: world.clone(),
            sieve: RefCell::new(sieve),
            taken: RefCell::default(),
            offered: RefCell::default(),
            deferred: RefCell::default(),
            active_count: Cell::new(0),
            errors: RefCell::default(),
            is_awaited: Cell::new(true),
        })
    }

    fn offer(&self, candidate: Candidate) {
        let mut sieve = self.sieve.borrow_mut();
        let fingerprint = candidate.url.fingerprint(&test_key());
        self.offered.borrow_mut().insert(candidate.url.clone());
        match sieve.probe(fingerprint) {
            Seen::New => {
                sieve.admit(fingerprint);
                self.take(candidate);
            }
            Seen::Known => {
                let is_taken = self.taken.borrow().contains(&candidate.url);
                let is_deferred = self.deferred.borrow().contains(&candidate.url);
                assert!(is_taken || is_deferred, "lost {}", candidate.url);
            }
            Seen::Later => {
                sieve.defer(fingerprint, &candidate.lent(), self.world.now());
                self.deferred.borrow_mut().insert(candidate.url);
            }
        }
    }

    fn take(&self, candidate: Candidate) {
        let url = candidate.url.clone();
        assert!(self.taken.borrow_mut().insert(candidate.url), "{url} was taken twice");
    }

    /// Starts the next job, if one is due.
    fn start_job(self: &Rc<Self>, is_idle: bool) -> bool {
        let job = self.sieve.borrow_mut().next_job(self.world.now(), is_idle);
        let Some(job) = job else { return false };
        self.active_count.set(self.active_count.get() + 1);
        let bench = self.clone();
        self.world.spawn(async move {
            let finished = job.run(&bench.world, Path::new(DIRECTORY), &bench.is_awaited).await;
            let ended = bench.sieve.borrow_mut().finish(finished);
            bench.errors.borrow_mut().extend(ended.err());
            bench.active_count.set(bench.active_count.get() - 1);
        });
        true
    }

    fn judge(&self, count: usize) {
        self.sieve.borrow_mut().judge(count);
        loop {
            let Some(candidate) = self.sieve.borrow_mut().settle() else { return };
            self.take(candidate);
        }
    }

    fn retire(&self) {
        self.sieve.borrow_mut().leftovers().retire_unless(|_| false);
    }

    async fn pause(&self, us_max: u64) {
        let pause = Duration::from_micros(self.world.random_u64() % us_max);
        self.world.sleep_until(self.world.now() + pause).await;
    }

    /// Runs jobs until nothing is due, under way or deferred.
    async fn drain(self: &Rc<Self>) {
        for _ in 0..100_000 {
            self.judge(1_000);
            self.retire();
            while self.start_job(true) {}
            let is_quiet = self.active_count.get() == 0;
            if is_quiet && self.sieve.borrow().deferred_count() == 0 {
                return;
            }
            assert_eq!(*self.errors.borrow(), []);
            self.pause(1_000).await;
        }
        panic!("the sieve never drains");
    }

    /// Offers candidates by chance: some often, some once, some again after a long time.
    async fn storm(self: &Rc<Self>, offer_count: u64, number_max: u64) {
        for step in 0..offer_count {
            let random = self.world.random_u64();
            let newest = 1 + step * number_max / offer_count;
            let number = match random % 10 {
                0..4 => newest,
                4..6 => newest.saturating_sub(random >> 32 & 63),
                _ => (random >> 32) % newest,
            };
            self.offer(candidate(number));
            if random >> 8 & 7 == 0 {
                self.start_job(random >> 11 & 3 == 0);
            }
            if random >> 16 & 15 == 0 {
                self.judge((random >> 20) as usize % 40);
            }
            if random >> 24 & 31 == 0 {
                self.retire();
                self.pause(700).await;
            }
        }
    }

    fn assert_exact(&self) {
        assert_eq!(*self.taken.borrow(), *self.offered.borrow());
        let count = self.taken.borrow().len();
        let sieve = self.sieve.borrow();
        let runs = sieve.runs().runs;
        let on_disk: u64 = runs.iter().map(|run| run.count).sum();
        assert_eq!(on_disk as usize + sieve.fresh().count(), count, "each URL is in one place");
        assert_eq!(sieve.figures().url_count, count);
    }
}

pub(super) fn in_sim<T>(seed: u64, body: impl AsyncFnOnce(SimWorld) -> T) -> (Sim, T) {
    let sim = Sim::new(seed);
    let done = sim.block_on(body(sim.world(0))).expect("a simulation that ends");
    (sim, done)
}

/// Writes a run of fingerprints in ascending order, in [`DIRECTORY`].
pub(super) async fn run_of(world: &SimWorld, serial: u64, all: &[u128]) -> Rc<Run<SimFile>> {
    let directory = Path::new(DIRECTORY);
    world.create_dir(directory).await.expect("a directory");
    let mut writer = RunWriter::create(world, directory, serial).await.expect("a run");
    for known in all {
        if writer.push(*known) {
            writer.flush().await.expect("room");
        }
    }
    Rc::new(writer.finish(world, directory).await.expect("a run"))
}

#[test]
fn whatever_the_order_of_jobs_and_offers_each_url_is_taken_once() {
    let mut met = SeenFigures::default();
    let mut wrong_count = 0;
    for seed in 0..40 {
        let (_, (seen, figures)) = in_sim(seed, async |world| {
            let limits = small(64 << (seed % 4));
            let bench = Bench::open(&world, limits, &SeenImage::default()).await;
            bench.storm(8_000, 6_000).await;
            bench.drain().await;
            bench.assert_exact();
            let sieve = bench.sieve.borrow();
            (sieve.seen_figures(world.now()), sieve.figures())
        });
        met.merge_count += seen.merge_count;
        met.flush_count += seen.flush_count;
        met.compaction_count += seen.compaction_count;
        met.growth_count += seen.growth_count;
        wrong_count += figures.bloom_wrong_count;
        assert!(seen.run_count < 20, "{seen:?}");
    }
    assert!(met.merge_count > 150 && met.flush_count > 200, "{met:?}");
    assert!(met.compaction_count > 40 && met.growth_count > 1_000, "{met:?}");
    assert!(wrong_count > 20, "merges proved {wrong_count} new");
}

#[test]
fn deferred_candidates_are_settled_in_the_order_in_which_they_came() {
    in_sim(1, async |world| {
        let bench = Bench::open(&world, small(64), &SeenImage::default()).await;
        (0..64).for_each(|number| bench.offer(candidate(number)));
        bench.drain().await;
        assert_eq!(bench.sieve.borrow().runs().runs.len(), 1);
        let late: Vec<Candidate> = [900, 700, 800, 700, 3, 600].map(candidate).into();
        for candidate in &late {
            let fingerprint = candidate.url.fingerprint(&test_key());
            bench.sieve.borrow_mut().defer(fingerprint, &candidate.lent(), world.now());
        }
        assert_eq!(bench.sieve.borrow().deferred().collect::<Vec<_>>(), late);
        assert_eq!(bench.sieve.borrow().deferred_count(), 6);
        assert!(bench.start_job(true));
        while bench.active_count.get() > 0 {
            bench.pause(100).await;
        }
        let judged = bench.sieve.borrow_mut().judge(100);
        assert_eq!(judged, Judged { known_count: 2, new_count: 4, is_more: false });
        let settled = std::iter::from_fn(|| bench.sieve.borrow_mut().settle());
        let settled: Vec<Candidate> = settled.collect();
        assert_eq!(settled, [900, 700, 800, 600].map(candidate));
        assert_eq!(bench.sieve.borrow().deferred_count(), 0);
    });
}

#[test]
fn what_waits_for_a_merge_waits_once_and_is_taken_once() {
    in_sim(5, async |world| {
        let bench = Bench::open(&world, small(64), &SeenImage::default()).await;
        (0..2_000).for_each(|number| bench.offer(candidate(number)));
        bench.drain().await;
        assert!(bench.sieve.borrow().seen_figures(world.now()).run_count > 0);
        // The filter answers "maybe" for few URLs that are new.
        let doubtful = (2_000..1_000_000).map(candidate).find(|candidate| {
            bench.sieve.borrow_mut().probe(candidate.url.fingerprint(&test_key())) == Seen::Later
        });
        let doubtful = doubtful.expect("the filter is wrong at times");
        (0..3).for_each(|_| bench.offer(doubtful.clone()));
        assert_eq!(bench.sieve.borrow().deferred_count(), 1);
        assert!(!bench.taken.borrow().contains(&doubtful.url));
        bench.drain().await;
        assert!(bench.taken.borrow().contains(&doubtful.url));
    });
}

#[test]
fn a_merge_is_due_by_count_by_bytes_by_age_or_when_the_shard_is_idle() {
    in_sim(1, async |world| {
        let limits = SeenLimits { batch_bytes: 1_000, ..small(64) };
        let bench = Bench::open(&world, limits, &SeenImage::default()).await;
        let defer = |number| {
            let candidate = candidate(number);
            let fingerprint = candidate.url.fingerprint(&test_key());
            bench.sieve.borrow_mut().defer(fingerprint, &candidate.lent(), world.now());
        };
        let is_due = |is_idle, now| {
            let mut sieve = bench.sieve.borrow_mut();
            let is_due = sieve.next_job(now, is_idle).is_some();
            if is_due {
                sieve.first_lane = None;
                sieve.merging = Merging::None;
            }
            is_due
        };
        assert!(!is_due(true, world.now()), "nothing to merge");
        defer(1);
        assert!(!is_due(false, world.now()));
        assert!(is_due(true, world.now()));
        defer(1);
        let at = bench.sieve.borrow().merge_at().expect("a time");
        assert_eq!(at, world.now() + Duration::from_millis(limits.lag_ms));
        assert!(is_due(false, at));
        (0..20).for_each(defer);
        assert!(!is_due(false, world.now()));
        (0..20).for_each(defer);
        assert!(is_due(false, world.now()), "a thousand bytes");
    });
}

#[test]
fn a_flipped_bit_anywhere_in_a_run_is_found_when_it_is_opened_or_merged() {
    let (sim, image) = in_sim(3, async |world| {
        let bench = Bench::open(&world, small(2_048), &SeenImage::default()).await;
        (0..2_048).for_each(|number| bench.offer(candidate(number)));
        bench.drain().await;
        bench.sieve.borrow().runs()
    });
    let path = Path::new(DIRECTORY).join(&image.runs[0].name);
    let whole = sim.files().into_iter().find(|(name, _)| name.ends_with(&path)).expect("a run").1;
    assert!(whole.len() > 3 * crate::base::limits::SEEN_BLOCK_BYTES, "several blocks");
    let opened = |bytes: Vec<u8>| {
        let (_, opened) = in_sim(4, async |world| {
            put(&world, &path, bytes).await;
            let limits = SeenLimits::default();
            let opened = Subject::open(&world, Path::new(DIRECTORY), &image, limits).await;
            opened.map(|sieve| sieve.figures().url_count)
        });
        opened
    };
    assert_eq!(opened(whole.clone()), Ok(2_048));
    for at in (0..whole.len()).step_by(97).chain(whole.len() - 80..whole.len()) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        let found = opened(flipped);
        assert!(matches!(found, Err(SeenError::Damaged { .. })), "byte {at}: {found:?}");
    }
    for cut in [0, 100, 4_096, whole.len() / 2, whole.len() - 1] {
        let found = opened(whole[..cut].to_vec());
        assert!(matches!(found, Err(SeenError::Damaged { .. })), "cut at {cut}: {found:?}");
    }
}

async fn put(world: &SimWorld, path: &Path, bytes: Vec<u8>) {
    use crate::io::{Disk, File};
    world.create_dir(Path::new(DIRECTORY)).await.expect("a directory");
    let file = world.create(path).await.expect("a file");
    file.append(bytes).await.expect("room");
}

#[test]
fn a_bit_that_flips_under_a_sieve_is_found_by_its_next_merge() {
    in_sim(5, async |world| {
        use crate::io::{Disk, File};
        let bench = Bench::open(&world, small(256), &SeenImage::default()).await;
        (0..256).for_each(|number| bench.offer(candidate(number)));
        bench.drain().await;
        let name = bench.sieve.borrow().runs().runs[0].name.clone();
        let file = world.open(&Path::new(DIRECTORY).join(&name)).await.expect("the run");
        let mut bytes = file.read_at(0, file.size() as usize).await.expect("its bytes");
        bytes[5_000] ^= 4;
        file.truncate(0).await.expect("empty");
        file.append(bytes).await.expect("full again");
        let late = candidate(7);
        bench.sieve.borrow_mut().defer(
            late.url.fingerprint(&test_key()),
            &late.lent(),
            world.now(),
        );
        assert!(bench.start_job(true));
        while bench.active_count.get() > 0 {
            bench.pause(100).await;
        }
        let what = "a block is damaged";
        assert_eq!(*bench.errors.borrow(), [SeenError::Damaged { name, what }]);
        assert_eq!(bench.sieve.borrow().deferred().collect::<Vec<_>>(), [late], "it is not lost");
    });
}

#[test]
fn a_sieve_opened_from_its_image_knows_what_is_in_its_runs_and_what_it_does_not_name_may_go() {
    in_sim(6, async |world| {
        use crate::io::Disk;
        let limits = small(128);
        let bench = Bench::open(&world, limits, &SeenImage::default()).await;
        bench.storm(4_000, 3_000).await;
        bench.drain().await;
        let image = bench.sieve.borrow().runs();
        let fresh: HashSet<Fingerprint> = bench.sieve.borrow().fresh().collect();
        put(&world, &Path::new(DIRECTORY).join("seen-000999.run"), vec![1, 2, 3]).await;
        let again = Bench::open(&world, limits, &image).await;
        let names: HashSet<String> = image.runs.iter().map(|run| run.name.clone()).collect();
        let on_disk = world.list(Path::new(DIRECTORY)).await.expect("a list");
        let unnamed: Vec<String> =
            on_disk.into_iter().filter(|name| !names.contains(name)).collect();
        assert!(unnamed.iter().any(|name| name == "seen-000999.run"), "{unnamed:?}");
        let superseded = again.sieve.borrow_mut().leftovers().superseded().to_vec();
        assert_eq!(superseded, unnamed, "an older checkpoint may name them");
        for url in bench.taken.borrow().iter() {
            let fingerprint = url.fingerprint(&test_key());
            let seen = again.sieve.borrow_mut().probe(fingerprint);
            assert!(fresh.contains(&fingerprint) || seen == Seen::Later, "{url}: {seen:?}");
        }
        assert!(again.sieve.borrow_mut().next_serial > 999, "names are not used again");
    });
}

#[test]
fn superseded_runs_stay_until_they_are_retired() {
    in_sim(7, async |world| {
        use crate::io::Disk;
        let bench = Bench::open(&world, small(64), &SeenImage::default()).await;
        for number in 0..600 {
            bench.offer(candidate(number));
            while bench.start_job(true) || bench.active_count.get() > 0 {
                bench.pause(50).await;
            }
            bench.judge(100);
        }
        let superseded = bench.sieve.borrow_mut().leftovers().superseded().to_vec();
        assert!(superseded.len() >= 4, "{superseded:?}");
        let count = async || world.list(Path::new(DIRECTORY)).await.expect("a list").len();
        let run_count = bench.sieve.borrow().runs().runs.len();
        assert_eq!(count().await, run_count + superseded.len());
        let is_named = |name: &String| superseded[3..].contains(name);
        bench.sieve.borrow_mut().leftovers().retire_unless(is_named);
        assert!(bench.start_job(false));
        while bench.active_count.get() > 0 {
            bench.pause(50).await;
        }
        assert_eq!(count().await, run_count + superseded.len() - 3);
    });
}

#[test]
fn a_sieve_whose_disk_is_slow_says_that_it_is_backed_up() {
    in_sim(8, async |world| {
        let bench = Bench::open(&world, small(64), &SeenImage::default()).await;
        (0..128).for_each(|number| bench.offer(candidate(number)));
        assert!(bench.sieve.borrow().is_backed_up(), "two flushes' worth");
        bench.drain().await;
        assert!(!bench.sieve.borrow().is_backed_up());
        (0..128).for_each(|number| {
            let late = candidate(number);
            bench.sieve.borrow_mut().defer(
                late.url.fingerprint(&test_key()),
                &late.lent(),
                world.now(),
            );
        });
        assert!(bench.sieve.borrow().is_backed_up(), "two batches' worth");
        bench.drain().await;
        assert!(!bench.sieve.borrow().is_backed_up());
    });
}

#[test]
fn sorting_in_steps_equals_sorting() {
    in_sim(9, async |world| {
        // Fingerprints of one host, of two hosts in one slot, of two in two slots, and of as many
        // hosts as fingerprints.
        for host_mask in [0, 1 << 30, 1 << 63, u64::MAX] {
            for count in [0, 1, 255, 256, 257, 4_096, 4_097, 20_000] {
                let of = |random: u64| {
                    let hash = u128::from(random) << 64 | u128::from(world.random_u64());
                    let host = HostKey(world.random_u64() & host_mask);
                    Fingerprint::new(host, hash).0
                };
                let items: Vec<u128> = (0..count).map(|_| of(world.random_u64())).collect();
                let mut expected = items.clone();
                expected.sort_unstable();
                assert!(order::sorted(&items, &world).await == expected, "{host_mask} {count}");
            }
        }
    });
}

/// The cache of recent fingerprints compares half of their bits.
#[test]
fn a_url_is_not_known_because_one_was_made_to_look_like_it() {
    in_sim(5, async |world| {
        let bench = Bench::open(&world, small(256), &SeenImage::default()).await;
        let [victim, made] = made_to_collide("url")
            .map(|text| Url::parse(text).expect("a URL").fingerprint(&test_key()));
        let mut sieve = bench.sieve.borrow_mut();
        sieve.admit(made);
        assert!(sieve.knows_early(made), "it was taken");
        assert!(!sieve.knows_early(victim) && sieve.probe(victim) == Seen::New);
    });
}

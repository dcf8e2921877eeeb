//! A shard that dies alone, at its start or in mid-crawl: the others end in time, whatever it owed
//! them, and the crawl can be resumed.

use super::anywhere::{crash, plan};
use super::judged::{self, crash_after};
use nephila::io::sim::{DiskFaults, Sim};
use nephila::limits::JOURNAL_PENDING_BYTES_MAX;
use nephila::tools::sim::crawl::Servers;
use nephila::tools::sim::{Crash, CrawlPlan, Machine, Moment, ScenePlan};
use nephila::url::Url;
use std::time::Duration;

/// Of each kind, unless `NEPHILA_LONE_SEEDS` says how many.
const SEED_COUNT: u64 = 25;

fn seed_count() -> u64 {
    let told = std::env::var("NEPHILA_LONE_SEEDS").ok();
    told.map_or(SEED_COUNT, |count| count.parse().expect("a count of seeds"))
}

fn lone(profile: &str) -> ScenePlan {
    ScenePlan { is_lone: true, ..plan(profile, 10, 120, 3) }
}

#[test]
fn a_crawl_one_of_whose_shards_dies_ends_in_time_and_goes_on_without_loss() {
    let count = seed_count();
    let met = crash(&lone("default"), 7_000..7_000 + count);
    assert!(met.crash_count as u64 > count && met.starting_count as u64 > count / 5, "{met:?}");
}

#[test]
fn shared_addresses_and_storms_do_not_keep_it_from_ending() {
    let count = seed_count();
    crash(&lone("rough"), 8_000..8_000 + count - count / 2);
    crash(&lone("storm"), 9_000..9_000 + count / 2);
}

/// The second life resumes with hosts that are due at once; one of its shards dies before it has
/// its state back.
#[test]
fn no_request_is_made_before_every_shard_is_ready() {
    let mut met_count = 0;
    for seed in 0..40 {
        let plan = judged::plan(seed);
        let kill = Crash { cut: None, ..crash_after(6_000) };
        let start = Crash { when: Moment::Step(5 + 2 * seed), lone: Some(1), ..kill };
        let sim = Sim::new(plan.seed);
        // A slow disk, so that one shard is ready long before the other.
        sim.set_disk_faults(DiskFaults {
            spike_per_mille: 200,
            spike_ms_max: 300,
            ..DiskFaults::default()
        });
        let servers = Servers::start(&sim, &plan).expect("servers");
        let mut machine = Machine::new(&sim, &plan);
        assert!(machine.live(Some(&kill)).expect("a crash").is_none());
        let began = sim.now();
        assert!(machine.live(Some(&start)).expect("an end in time").is_none(), "seed {seed}");
        let fall = *machine.downfalls().last().expect("a shard has died");
        if fall.was_starting {
            met_count += 1;
            let asked: Vec<_> =
                servers.entries().into_iter().filter(|entry| entry.at >= began).collect();
            assert!(asked.is_empty(), "seed {seed}: {} requests, {:?}", asked.len(), asked[0]);
        }
        let fell_at = fall.fell_at.expect("it died alone");
        assert!(fall.at.since(fell_at) < Duration::from_secs(13), "seed {seed}: {fall}");
    }
    assert!(met_count > 20, "only {met_count} died while they started");
}

/// Seeds that outrun a journal on a full disk wait for it. The shard that offers them is told to
/// end meanwhile, and hears it.
#[test]
fn a_shard_whose_seeds_wait_for_a_full_disk_hears_that_it_shall_end() {
    let tail = "a".repeat(4_000);
    let seed = |n: usize| format!("http://host{}.test/{n}/{tail}", n % 200);
    // More than twice what a journal may have pending, for two shards.
    let count = 4 * JOURNAL_PENDING_BYTES_MAX / tail.len();
    let seeds = (0..count).filter_map(|n| Url::parse(&seed(n)).ok()).collect();
    let plan = CrawlPlan { seeds, ..judged::plan(1) };
    let sim = Sim::new(plan.seed);
    let _servers = Servers::start(&sim, &plan).expect("servers");
    let death = Crash { lone: Some(0), cut: None, ..crash_after(10_000) };
    sim.set_disk_capacity(Some(100_000));
    let mut machine = Machine::new(&sim, &plan);
    assert!(machine.live(Some(&death)).expect("an end in time").is_none());
    let fall = *machine.downfalls().last().expect("a shard has died");
    assert!(!fall.was_starting, "it had its seeds");
}

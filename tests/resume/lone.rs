//! A shard dies alone, at its start or during the crawl. The others end in time, whatever they were
//! waiting for from it, and the crawl can be resumed.

use super::anywhere::{crash, plan};
use super::judged::{self, crash_after};
use super::scripted::{self, page, serve};
use super::support::{self, url};
use nephila::base::HashKey;
use nephila::base::limits::JOURNAL_PENDING_BYTES_MAX;
use nephila::crawl::config::Settings;
use nephila::crawl::flow::{Candidate, Class, Command, Mail, ShardIndex, Trail, Via};
use nephila::io::sim::{DiskOperation, Sim, SimOutbox, Trouble};
use nephila::io::{DiskError, Inbox, Outbox, Spawn};
use nephila::lab::sim::crawl::{DNS, Servers};
use nephila::lab::sim::{Crash, CrawlPlan, Machine, ScenePlan};
use nephila::proto::url::Url;
use nephila::shard::{self, Notice, Past, Placement, Plan, ShardError};
use std::time::Duration;

/// The number of seeds of each kind, unless `NEPHILA_LONE_SEEDS` gives another.
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
fn shared_addresses_do_not_keep_it_from_ending() {
    let count = seed_count();
    crash(&lone("rough"), 8_000..8_000 + count);
}

/// A crawl that was killed leaves hosts that are due at once. A shard that restores them waits
/// until it is told that the others are ready, which may never happen.
#[test]
fn no_request_is_made_before_the_word_that_every_shard_is_ready() {
    let plan = judged::plan(5);
    let sim = Sim::new(plan.seed);
    let servers = Servers::start(&sim, &plan).expect("servers");
    let mut machine = Machine::new(&sim, &plan);
    let kill = Crash { cut: None, ..crash_after(6_000) };
    assert!(machine.live(Some(&kill)).expect("a crash").is_none());
    let began = sim.now();
    let asked_count = || servers.entries().into_iter().filter(|entry| entry.at >= began).count();
    let (mail, inbox) = sim.mailbox::<Mail>(8);
    let (peer, _unread) = sim.mailbox::<Mail>(64);
    let (control, notices) = sim.mailbox::<Notice>(256);
    let one = shard_plan(&plan, 2, Past { generation: 1, shard_count: 2 }, 1);
    let world = sim.world(0);
    sim.world(0).spawn(async move {
        let peers = vec![None, Some(peer)];
        let _ = shard::run(world, ShardIndex(0), one, inbox, peers, control).await;
    });
    let wait = |seconds| sim.run_until(sim.now() + Duration::from_secs(seconds)).expect("no spin");
    wait(60);
    assert!(matches!(notices.try_receive(), Some(Notice::Ready { .. })), "it is ready");
    assert_eq!(asked_count(), 0);
    assert!(mail.try_send(Mail::Command(Command::Open)).is_ok());
    wait(20);
    assert!(asked_count() > 5, "it had work: {}", asked_count());
}

/// The plan of one of `shard_count` shards, for a crawl that is resumed.
fn shard_plan(plan: &CrawlPlan, shard_count: u16, past: Past, generation: u32) -> Plan {
    Plan {
        upstreams: vec![DNS],
        placement: Placement::new(shard_count),
        homes: Default::default(),
        hash_key: HashKey::new(plan.hash_secret),
        extra_ca: None,
        has_budget: false,
        settings: plan.settings.clone(),
        sabotage: None,
        past: Some(past),
        generation,
    }
}

/// Seeds that come faster than a full disk takes the journal must wait. The shard that offers them
/// is told to end in the meantime, and it must notice that.
#[test]
fn a_shard_whose_seeds_wait_for_a_full_disk_hears_that_it_shall_end() {
    let tail = "a".repeat(4_000);
    let seed = |n: usize| format!("http://host{}.test/{n}/{tail}", n % 200);
    // This is more than twice what a journal may have pending, for two shards.
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

/// The slots are dealt anew, and the disk refuses the checkpoint with the new state.
#[test]
fn a_shard_that_cannot_begin_leaves_no_task() {
    let plan = judged::plan(3);
    let sim = Sim::new(plan.seed);
    let servers = Servers::start(&sim, &plan).expect("servers");
    let mut machine = Machine::new(&sim, &plan);
    let kill = Crash { cut: None, ..crash_after(8_000) };
    assert!(machine.live(Some(&kill)).expect("a crash").is_none());
    drop(servers);
    sim.trouble_disk(Trouble {
        path_part: "checkpoint-0002",
        count: u64::MAX,
        ..Trouble::next(DiskOperation::Append, DiskError::Os(5))
    });
    let alone = shard_plan(&plan, 1, Past { generation: 1, shard_count: 2 }, 2);
    let (_mail, inbox) = sim.mailbox::<Mail>(8);
    let (control, _notices) = sim.mailbox::<Notice>(8);
    let nobody: Vec<Option<SimOutbox<Mail>>> = vec![None];
    let before = sim.task_count();
    let running = shard::run(sim.world(0), ShardIndex(0), alone, inbox, nobody, control);
    let ended = sim.block_on(running).expect("no deadlock");
    assert!(matches!(ended, Err(ShardError::Journal(_))), "the disk refused");
    sim.run_until(sim.now() + Duration::from_secs(60)).expect("an end");
    assert_eq!(sim.task_count(), before, "tasks of the ended shard are left");
}

/// Pages come in while the files of a shard that was halted are being closed. They stay open for
/// the next start, as whatever is under way does; that the store takes them no more is no failure.
#[test]
fn a_shard_that_is_halted_amid_visits_does_not_say_that_its_store_has_failed() {
    for late_ms in (0..200).step_by(10) {
        let sim = Sim::new(late_ms);
        let _seen = serve(&sim, |asked| match asked.path.as_str() {
            "/robots.txt" => scripted::body("404 Not Found", ""),
            _ => page(&["/a", "/b", "/c"]),
        });
        let seeds: Vec<Candidate> = (0..250).map(seed).collect();
        let settings = Settings { delay_ms: 20, ..support::settings() };
        let plan = CrawlPlan { settings, ..judged::plan(1) };
        let alone =
            Plan { past: None, ..shard_plan(&plan, 1, Past { generation: 0, shard_count: 1 }, 1) };
        let (mail, inbox) = sim.mailbox::<Mail>(8);
        let (control, notices) = sim.mailbox::<Notice>(4_096);
        let nobody: Vec<Option<SimOutbox<Mail>>> = vec![None];
        let world = sim.world(0);
        sim.world(0).spawn(async move {
            let ended = shard::run(world, ShardIndex(0), alone, inbox, nobody, control).await;
            assert!(ended.is_ok(), "the disk is sound");
        });
        let told = |command| assert!(mail.try_send(Mail::Command(command)).is_ok());
        told(Command::Open);
        told(Command::Seeds(seeds));
        sim.run_until(sim.now() + Duration::from_millis(300 + late_ms)).expect("no spin");
        told(Command::Halt);
        sim.run_until(sim.now() + Duration::from_secs(60)).expect("an end");
        let notices: Vec<Notice> = std::iter::from_fn(|| notices.try_receive()).collect();
        assert!(!notices.is_empty(), "it was there");
        let failure = notices.iter().find_map(|notice| match notice {
            Notice::StoreFailed { error, .. } => Some(error),
            _ => None,
        });
        assert_eq!(failure, None, "halted after {} ms", 300 + late_ms);
    }
}

fn seed(number: u8) -> Candidate {
    let url = url(&format!("http://10.0.1.{number}/"));
    Candidate { url, depth: 0, class: Class::High, via: Via::Seed, trail: Trail::default() }
}

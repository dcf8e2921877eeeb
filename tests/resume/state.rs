//! The state files across crashes: checkpoints are read and not changed, a half-written one is not
//! used, a crawl with another number of cores finds everything, and a crawl that has ended does
//! nothing when it is resumed.

use super::judged::{crash_after, judgement, plan};
use nephila::crawl::config::Settings;
use nephila::io::DiskError;
use nephila::io::sim::{DiskFaults, DiskOperation, PowerCut, Sim, Trouble};
use nephila::lab::sim::crawl::{Servers, crawl, crawl_with};
use nephila::lab::sim::{Crash, CrawlPlan, Machine, Moment};
use nephila::lab::web::WebSpec;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

fn files_like(sim: &Sim, part: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = sim.files();
    files.retain(|path, _| path.starts_with("state") && path.to_string_lossy().contains(part));
    files
}

fn crash_at(step: u64) -> Crash {
    Crash { when: Moment::Step(step), ..crash_after(0) }
}

/// Runs the crawl through its crashes and then to its end, and judges all of its runs.
fn assert_exact(plan: &CrawlPlan) {
    let crawl = crawl(plan).expect("a crawl that ends");
    let judgement = judgement(plan, &crawl);
    assert!(judgement.is_pass(), "{:?}: {judgement}", plan.crashes);
    assert!(judgement.page_count > 60, "{}", judgement.page_count);
}

#[test]
fn two_resumes_from_one_checkpoint_leave_it_as_it_was() {
    let plan = plan(5);
    let sim = Sim::new(plan.seed);
    let servers = Servers::start(&sim, &plan).expect("servers");
    let mut machine = Machine::new(&sim, &plan);
    assert!(machine.live(Some(&crash_after(7_000))).expect("a crash").is_none());
    let checkpoints = files_like(&sim, ".ckpt");
    assert!(checkpoints.keys().any(|path| path.extension().is_some_and(|e| e == "ckpt")));
    // Each process is killed before its own first checkpoint is due.
    for _ in 0..2 {
        assert!(machine.live(Some(&crash_after(1_500))).expect("a crash").is_none());
        for (path, bytes) in &checkpoints {
            assert!(files_like(&sim, ".ckpt").get(path) == Some(bytes), "{}", path.display());
        }
    }
    let done = machine.live(None).expect("an end").expect("done");
    let crawl = servers.conclude(&sim, machine.conclude(done));
    let judgement = judgement(&plan, &crawl);
    assert!(judgement.is_pass(), "{judgement}");
}

#[test]
fn recoveries_struck_at_every_step_come_to_the_same_end() {
    let pages = |plan: &CrawlPlan| {
        let crawl = crawl(plan).expect("a crawl that ends");
        let judgement = judgement(plan, &crawl);
        assert!(judgement.is_pass(), "{:?}: {judgement}", plan.crashes);
        judgement.page_count
    };
    let undisturbed = pages(&plan(6));
    for step in (1..240).step_by(5) {
        let recovery = [crash_at(step), crash_at(step + 1), crash_at(step)];
        let crashes = [&[crash_after(6_000)][..], &recovery].concat();
        assert_eq!(pages(&CrawlPlan { crashes, ..plan(6) }), undisturbed, "step {step}");
    }
}

#[test]
fn a_kill_in_mid_checkpoint_uses_the_one_before() {
    let mut half_written_count = 0;
    for step in (600..3_000).step_by(17) {
        let plan = plan(7);
        let sim = Sim::new(plan.seed);
        let servers = Servers::start(&sim, &plan).expect("servers");
        let mut machine = Machine::new(&sim, &plan);
        let kill = Crash { cut: None, ..crash_at(step) };
        if machine.live(Some(&kill)).expect("a crash").is_some() {
            break;
        }
        let half_written = files_like(&sim, ".ckpt.open");
        let has_whole = files_like(&sim, ".ckpt").len() > half_written.len();
        if half_written.is_empty() || !has_whole {
            continue;
        }
        half_written_count += 1;
        let done = machine.live(None).expect("an end").expect("done");
        let crawl = servers.conclude(&sim, machine.conclude(done));
        let judgement = judgement(&plan, &crawl);
        assert!(judgement.is_pass(), "step {step}: {judgement}");
    }
    assert!(half_written_count > 0, "no kill fell into a checkpoint");
}

#[test]
fn another_core_count_finds_everything() {
    let with = |after_ms, shard_count| Crash { shard_count, ..crash_after(after_ms) };
    let rows: [&[Crash]; 4] = [
        &[with(5_000, 1)],
        &[with(5_000, 4)],
        &[with(4_000, 3), with(4_000, 1), with(4_000, 4)],
        // The crash comes while the state moves from one number of shards to the other, and back.
        &[with(4_000, 3), Crash { shard_count: 2, ..crash_at(60) }, with(4_000, 2)],
    ];
    for crashes in rows {
        for seed in 0..5 {
            assert_exact(&CrawlPlan { crashes: crashes.to_vec(), ..plan(seed) });
        }
    }
}

#[test]
fn a_crawl_that_is_over_fetches_nothing_when_it_is_resumed() {
    for seed in 0..4 {
        let plan = plan(seed);
        let sim = Sim::new(plan.seed);
        let servers = Servers::start(&sim, &plan).expect("servers");
        let mut machine = Machine::new(&sim, &plan);
        machine.live(None).expect("an end").expect("done");
        let request_count = servers.entries().len();
        assert!(request_count > 60);
        sim.run_until(sim.now() + Duration::from_secs(5)).expect("servers alone");
        let done = machine.live(None).expect("an end").expect("done");
        assert_eq!(servers.entries().len(), request_count, "seed {seed}");
        let crawl = servers.conclude(&sim, machine.conclude(done));
        let judgement = judgement(&plan, &crawl);
        assert!(judgement.is_pass(), "seed {seed}: {judgement}");
    }
}

#[test]
fn a_crash_while_the_shards_drain_costs_nothing() {
    let undisturbed = crawl(&plan(8)).expect("a crawl that ends");
    let last = undisturbed.step_count;
    for before_end in (1..200).step_by(9) {
        assert_exact(&CrawlPlan { crashes: vec![crash_at(last - before_end)], ..plan(8) });
    }
}

/// The journal of shard 1 fails, so links to its hosts are not durable, while shard 0, which found
/// them, has a good disk. Then the power is cut, and everything that was not synced is lost.
#[test]
fn a_page_is_not_at_its_end_before_its_links_are_durable_with_another_shard() {
    let all_lost = PowerCut { kept: 0, prefix: 0, patchwork: 0, ..PowerCut::default() };
    let mut refetch_count = 0;
    for skip_count in 2..32 {
        let plan = plan(9);
        // The web has few links, and hosts that are found late, so a link that is lost is not found
        // again.
        let spec = WebSpec {
            host_count: 16,
            page_count: 120,
            link_count: 2,
            fresh_link_count: 2,
            ..plan.spec.clone()
        };
        let settings = Settings { delay_ms: 200, sync_ms: 100, ..plan.settings.clone() };
        // The rest of the disk faults may strike the next start. An operator would try again, so
        // the test does too.
        let disk_faults = DiskFaults { spike_per_mille: 1, ..DiskFaults::default() };
        let crash =
            Crash { cut: Some(all_lost), disk_faults, ..crash_after(1_200 + 100 * skip_count) };
        let plan = CrawlPlan { spec, settings, disk_faults, crashes: vec![crash], ..plan };
        let crawl = crawl_with(&plan, |sim| {
            let (operation, path_part) = (DiskOperation::Sync, "shard-01/journal");
            let error = DiskError::Os(5);
            sim.trouble_disk(Trouble { operation, path_part, skip_count, count: 3, error });
        });
        let crawl = crawl.expect("a crawl that ends");
        let judgement = judgement(&plan, &crawl);
        assert!(judgement.breaches.is_empty(), "{skip_count} syncs: {judgement}");
        refetch_count += judgement.refetch_count;
    }
    assert!(refetch_count > 30, "{refetch_count} pages were open");
}

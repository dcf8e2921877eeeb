//! A state file that is damaged, emptied or gone: `nephila repair` says so, and after `--apply` the
//! crawl goes on. What it says to be sound, a restart takes.

use super::judged::{crash_after, judgement, plan};
use nephila::cli::repair::repair;
use nephila::crawl::config::Settings;
use nephila::engine::Manifest;
use nephila::io::Disk;
use nephila::io::sim::{PowerCut, Sim};
use nephila::lab::sim::crawl::Servers;
use nephila::lab::sim::{Breach, Crash, CrawlPlan, Machine};
use nephila::lab::web::WebSpec;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    Flip,
    Empty,
    Remove,
}

/// The files of the simulated disk as a crawl's directory.
fn directory(sim: &Sim, plan: &CrawlPlan) -> TempDir {
    let place = tempfile::tempdir().expect("a directory");
    for (name, bytes) in sim.files() {
        let path = place.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("a file");
    }
    let fresh = Manifest::new(&plan.settings, plan.shard_count, Default::default());
    let manifest = Manifest { hash_secret: plan.hash_secret, ..fresh };
    manifest.save(place.path()).expect("a manifest");
    place
}

/// Puts the state of a directory onto the simulated disk, in place of what is there.
fn take_back(sim: &Sim, place: &Path) {
    let world = sim.world(0);
    for path in sim.files().into_keys().filter(|path| path.starts_with("state")) {
        sim.block_on(world.remove(&path)).expect("no deadlock").expect("a good disk");
    }
    for shard in fs::read_dir(place.join("state")).expect("a folder") {
        let shard = shard.expect("an entry").path();
        for file in fs::read_dir(&shard).into_iter().flatten() {
            let file = file.expect("an entry").path();
            let name = file.strip_prefix(place).expect("inside");
            sim.put_file(name, fs::read(&file).expect("a file"));
        }
    }
}

fn harm(sim: &Sim, path: &Path, harm: Harm) -> bool {
    let world = sim.world(0);
    match harm {
        Harm::Flip => return sim.flip_bit(path).is_some(),
        Harm::Empty => sim.put_file(path, Vec::new()),
        Harm::Remove => {
            sim.block_on(world.remove(path)).expect("no deadlock").expect("a file");
        }
    }
    true
}

/// A crawl with so little room that runs and segments are written soon.
fn cramped_plan(seed: u64) -> CrawlPlan {
    let plan = plan(seed);
    let (seen_batch, seen_memory_mb, frontier_memory_mb) = (16, 8, 0);
    let settings =
        Settings { seen_batch, seen_memory_mb, frontier_memory_mb, ..plan.settings.clone() };
    let spec = WebSpec { page_count: 200, ..plan.spec.clone() };
    CrawlPlan { settings, spec, ..plan }
}

/// A crash that damages no file by itself.
fn crash(seed: u64) -> Crash {
    let kept = PowerCut { lost: 0, prefix: 0, patchwork: 0, ..PowerCut::default() };
    Crash { cut: Some(kept), ..crash_after(5_000 + seed * 397) }
}

/// Harms a file whose name has `part`, for each of some seeds. How many crawls had to be repaired.
fn repaired_count(part: &str, how: Harm) -> u32 {
    let mut repaired_count = 0;
    for seed in 0..8 {
        let plan = cramped_plan(seed);
        let sim = Sim::new(plan.seed);
        let servers = Servers::start(&sim, &plan).expect("servers");
        let mut machine = Machine::new(&sim, &plan);
        assert!(machine.live(Some(&crash(seed))).expect("a crash").is_none());
        let is_meant =
            |path: &PathBuf| path.starts_with("state") && path.to_string_lossy().contains(part);
        let paths: Vec<PathBuf> = sim.files().into_keys().filter(is_meant).collect();
        assert!(!paths.is_empty(), "no file like {part}");
        let path = &paths[seed as usize % paths.len()];
        if !harm(&sim, path, how) {
            continue;
        }
        let place = directory(&sim, &plan);
        let look = repair(place.path(), false).expect("a look");
        assert!(!place.path().join("damaged").exists(), "a look changes nothing");
        if !look.is_sound {
            let applied = repair(place.path(), true).expect("a repair");
            assert!(applied.is_sound && applied.text.contains("lost: "), "{}", applied.text);
            assert!(place.path().join("REPAIRS.log").exists());
            let again = repair(place.path(), false).expect("a look");
            assert!(again.is_sound, "seed {seed} {}: {}", path.display(), again.text);
            take_back(&sim, place.path());
            repaired_count += 1;
        }
        let told = look.text;
        let done = machine.live(None);
        let done = done.unwrap_or_else(|error| panic!("seed {seed} {path:?}: {error}\n{told}"));
        let crawl = servers.conclude(&sim, machine.conclude(done.expect("done")));
        let judgement = judgement(&plan, &crawl);
        // What is lost is learnt again, or is missed. Nothing else may be wrong.
        let is_cost = |breach: &Breach| {
            use Breach::{FetchedTwice, Lost, Missed, NotStored};
            // Not stored: in flight at the crash, and its URL was in a chunk that is lost.
            matches!(breach, FetchedTwice | Missed | Lost | NotStored)
        };
        let is_right = judgement.breaches.keys().all(is_cost);
        assert!(is_right, "seed {seed} {}: {judgement}\n{told}", path.display());
    }
    println!("{part} {how:?}: {repaired_count} repaired");
    repaired_count
}

#[test]
fn a_crawl_goes_on_without_a_journal() {
    assert!(repaired_count("journal-", Harm::Empty) > 1);
    assert!(repaired_count("journal-", Harm::Flip) > 0);
    assert!(repaired_count("journal-", Harm::Remove) > 0);
}

#[test]
fn a_crawl_goes_on_without_a_run_of_urls_seen() {
    assert!(repaired_count(".run", Harm::Flip) > 0);
    assert!(repaired_count(".run", Harm::Remove) > 0);
}

#[test]
fn a_crawl_goes_on_without_a_segment_of_its_queues() {
    assert!(repaired_count("queue-", Harm::Flip) > 0);
    assert!(repaired_count("queue-", Harm::Empty) > 0);
}

#[test]
fn a_crawl_goes_on_from_the_checkpoint_before_and_needs_no_repair_for_it() {
    repaired_count(".ckpt", Harm::Flip);
    repaired_count(".ckpt", Harm::Empty);
}

#[test]
fn a_damaged_checkpoint_costs_nothing_only_where_something_older_is_sound() {
    let (mut free_count, mut paid_count) = (0, 0);
    for seed in 0..8 {
        let plan = cramped_plan(seed);
        let sim = Sim::new(plan.seed);
        let _servers = Servers::start(&sim, &plan).expect("servers");
        let mut machine = Machine::new(&sim, &plan);
        assert!(machine.live(Some(&crash(seed))).expect("a crash").is_none());
        let is_meant = |path: &PathBuf| path.extension().is_some_and(|of| of == "ckpt");
        for path in sim.files().into_keys().filter(is_meant) {
            harm(&sim, &path, Harm::Flip);
            let place = directory(&sim, &plan);
            let look = repair(place.path(), false).expect("a look").text;
            for shard in look.split("state/shard-").skip(1) {
                let is_damaged = shard.lines().any(|line| line.starts_with("damaged "));
                let is_free = shard.contains("lost: nothing");
                assert!(is_damaged != is_free, "{look}");
                free_count += u32::from(is_free);
                paid_count += u32::from(is_damaged);
            }
        }
    }
    assert!(free_count > 0 && paid_count > 0, "{free_count} free, {paid_count} not");
}

//! A bit is flipped in a state file of each kind. Either the damage is found and reported, or the
//! part that has it is cut off like a torn tail. Damaged data is never used.

use super::judged::{crash_after, judgement, plan};
use nephila::crawl::config::Settings;
use nephila::io::sim::{PowerCut, Sim};
use nephila::lab::sim::crawl::{CrawlError, Servers};
use nephila::lab::sim::{Breach, Crash, CrawlPlan, Machine};
use nephila::lab::web::WebSpec;
use std::path::PathBuf;

/// How the crawls with a flipped bit ended.
#[derive(Debug, Default)]
struct Fates {
    refused_count: u32,
    went_on_count: u32,
}

/// Flips a bit in one file whose name has `part`, for each of many seeds.
fn flip(part: &str) -> Fates {
    let mut fates = Fates::default();
    for seed in 0..25 {
        let plan = plan(seed);
        // There is so little room that runs and segments are written soon.
        let (seen_batch, seen_memory_mb, frontier_memory_mb) = (16, 8, 0);
        let settings =
            Settings { seen_batch, seen_memory_mb, frontier_memory_mb, ..plan.settings.clone() };
        let spec = WebSpec { page_count: 200, ..plan.spec.clone() };
        let plan = CrawlPlan { settings, spec, ..plan };
        let sim = Sim::new(plan.seed);
        let servers = Servers::start(&sim, &plan).expect("servers");
        let mut machine = Machine::new(&sim, &plan);
        // All writes reach the disk, so only the flipped bit does damage.
        let kept = PowerCut { lost: 0, prefix: 0, patchwork: 0, ..PowerCut::default() };
        let crash = Crash { cut: Some(kept), ..crash_after(5_000 + seed * 97) };
        assert!(machine.live(Some(&crash)).expect("a crash").is_none());
        let is_meant =
            |path: &PathBuf| path.starts_with("state") && path.to_string_lossy().contains(part);
        let paths: Vec<PathBuf> = sim.files().into_keys().filter(is_meant).collect();
        assert!(!paths.is_empty(), "no file like {part}");
        let path = &paths[seed as usize % paths.len()];
        if sim.flip_bit(path).is_none() {
            continue;
        }
        match machine.live(None) {
            Ok(done) => {
                fates.went_on_count += 1;
                let crawl = servers.conclude(&sim, machine.conclude(done.expect("done")));
                let judgement = judgement(&plan, &crawl);
                // What a cut tail recorded is found again. Nothing may be missing.
                let is_cost =
                    |breach: &Breach| matches!(breach, Breach::FetchedTwice | Breach::Missed);
                let is_grave = |breach: &Breach| !is_cost(breach);
                let path = path.display();
                assert!(
                    !judgement.breaches.keys().any(is_grave),
                    "seed {seed} {path}: {judgement}"
                );
            }
            Err(error @ (CrawlError::Shard(_) | CrawlError::Store(_))) => {
                fates.refused_count += 1;
                let name = path.file_name().expect("a name").to_string_lossy();
                let text = error.to_string();
                assert!(text.contains(&*name), "seed {seed}: {name} is damaged, not: {text}");
            }
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    println!("{part}: {fates:?}");
    fates
}

#[test]
fn a_flipped_bit_in_a_journal_is_found() {
    let fates = flip("journal-");
    assert!(fates.refused_count > 0, "{fates:?}");
}

#[test]
fn a_flipped_bit_in_a_checkpoint_is_found_and_the_one_before_is_used() {
    let fates = flip(".ckpt");
    assert!(fates.went_on_count > 0, "{fates:?}");
}

#[test]
fn a_flipped_bit_in_a_run_of_urls_seen_is_found() {
    let fates = flip(".run");
    assert!(fates.refused_count > 0, "{fates:?}");
}

/// A segment is read while the crawl runs, not at its start. Damage does no harm in a chunk that is
/// no longer needed.
#[test]
fn a_flipped_bit_in_a_segment_of_queue_tails_is_found() {
    let fates = flip("queue-");
    assert!(fates.refused_count > 0, "{fates:?}");
}

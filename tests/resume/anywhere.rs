//! A thousand seeds with crashes at any point: in fetches, in commits, in checkpoints and in
//! recoveries.

use nephila::crawl::metrics::{Count, merged};
use nephila::lab::sim::{Run, ScenePlan, run};
use std::ops::Range;

/// What many runs have gone through. A thousand seeds that never meet a situation prove nothing
/// about it.
#[derive(Debug, Default)]
pub struct Met {
    pub crash_count: usize,
    power_cut_count: usize,
    /// The crashes of a process that had not restored its state yet.
    pub starting_count: usize,
    failing_disk_count: usize,
    refetch_count: u64,
    page_count: u64,
    /// The hosts that left RAM and those that came back, counted in the last runs.
    cooled_count: u64,
    returned_count: u64,
}

impl Met {
    fn add(&mut self, run: &Run) {
        let Ok((crawl, judgement)) = &run.judged else { return };
        let count = |is: fn(&nephila::lab::sim::Downfall) -> bool| {
            crawl.downfalls.iter().filter(|downfall| is(downfall)).count()
        };
        self.crash_count += crawl.downfalls.len();
        self.power_cut_count += count(|downfall| downfall.is_power_cut);
        self.starting_count += count(|downfall| downfall.was_starting);
        self.failing_disk_count += count(|downfall| downfall.unwritten_ms() > 0);
        self.refetch_count += judgement.refetch_count;
        self.page_count += judgement.page_count;
        let (metrics, _) = merged(&crawl.reports);
        self.cooled_count += metrics.count(Count::HostsCooled);
        self.returned_count += metrics.count(Count::HostsReturned);
    }
}

/// Runs all seeds. The test fails with the first failures and the commands that replay them.
pub fn crash(plan: &ScenePlan, seeds: Range<u64>) -> Met {
    let (mut met, mut failed, mut failed_count) = (Met::default(), String::new(), 0);
    for seed in seeds.clone() {
        let run = run(plan, seed).expect("a sound plan");
        met.add(&run);
        if !run.is_pass() {
            failed_count += 1;
            if failed_count <= 3 {
                failed += &run.text();
            }
        }
    }
    assert!(failed_count == 0, "{failed_count} of {} seeds failed:\n{failed}", seeds.count());
    println!("{met:?}");
    met
}

pub fn plan(profile: &str, host_count: u32, page_count: u64, crash_count: u32) -> ScenePlan {
    ScenePlan {
        profile: profile.to_owned(),
        host_count: Some(host_count),
        page_count: Some(page_count),
        crash_count,
        ..ScenePlan::default()
    }
}

#[test]
fn one_crash_anywhere_costs_no_page() {
    let met = crash(&plan("plain", 5, 60, 1), 1_000..1_300);
    assert!(met.crash_count > 150 && met.power_cut_count > 100, "{met:?}");
    assert!(met.refetch_count > 50 && met.page_count > 15_000, "{met:?}");
}

#[test]
fn three_crashes_anywhere_cost_no_page() {
    let met = crash(&plan("default", 8, 80, 3), 2_000..2_250);
    assert!(met.crash_count > 500 && met.starting_count > 50, "{met:?}");
    assert!(met.failing_disk_count > 100, "{met:?}");
}

#[test]
fn a_crash_in_the_recovery_from_a_crash_again_and_again_costs_no_page() {
    let met = crash(&plan("default", 4, 40, 10), 3_000..3_200);
    assert!(met.crash_count > 1_500 && met.starting_count > 300, "{met:?}");
}

#[test]
fn rough_webs_with_crowded_addresses_are_crawled_politely_across_crashes() {
    crash(&plan("rough", 10, 100, 3), 4_000..4_200);
}

#[test]
fn storms_are_crawled_politely_across_crashes() {
    let met = crash(&plan("storm", 8, 60, 3), 5_000..5_100);
    assert!(met.cooled_count > 200 && met.returned_count > 20, "{met:?}");
}

#[test]
fn one_seed_is_one_history_crashes_or_not() {
    let history = |seed| {
        let run = run(&plan("default", 5, 50, 4), seed).expect("a sound plan");
        let (crawl, _) = run.judged.unwrap_or_else(|error| panic!("{error}"));
        (crawl.digest, crawl.downfalls, crawl.log_text, crawl.files)
    };
    assert!(history(7) == history(7));
    assert!(history(7).0 != history(8).0);
}

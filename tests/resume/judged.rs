//! The judge of crashes fails a crawler without memory, a page that is fetched again too late, and
//! a file that was cut. A judge that cannot fail a crawl proves nothing.

use super::support::settings;
use nephila::base::Time;
use nephila::crawl::config::Settings;
use nephila::io::sim::{PowerCut, Sim};
use nephila::lab::audit::Kind;
use nephila::lab::sim::crawl::{Servers, crawl};
use nephila::lab::sim::{Breach, Crash, Crawl, CrawlPlan, Judgement, Machine, Moment};
use nephila::lab::web::{Web, WebSpec};
use std::time::Duration;

pub fn plan(seed: u64) -> CrawlPlan {
    let profile = WebSpec::profile("default").expect("a profile");
    let small = WebSpec { page_bytes_mean: 6_000, gzip_fraction: 0.05, ..profile };
    let spec = WebSpec { host_count: 6, page_count: 90, ..small };
    let settings = Settings { delay_ms: 500, checkpoint_seconds: 2, ..settings() };
    CrawlPlan { settings, ..CrawlPlan::new(seed, spec, 2).expect("a sound spec") }
}

/// A power cut after this time and half a second without power. Everything else stays as before.
pub fn crash_after(ms: u64) -> Crash {
    Crash {
        when: Moment::After(Duration::from_millis(ms)),
        lone: None,
        cut: Some(PowerCut::default()),
        downtime: Duration::from_millis(500),
        wall_shift_seconds: 0,
        shard_count: 2,
        disk_faults: Default::default(),
    }
}

pub fn judgement(plan: &CrawlPlan, crawl: &Crawl) -> Judgement {
    let web = Web::new(plan.spec.clone()).expect("a sound spec");
    Judgement::of(&web, plan, crawl).expect("a readable log")
}

/// Removes all state files, so that the crawler finds what one without a journal would find.
pub fn wipe_state(sim: &Sim, keep: impl Fn(&str) -> bool) {
    use nephila::io::Disk;
    let world = sim.world(0);
    for path in sim.files().into_keys().filter(|path| path.starts_with("state")) {
        if !keep(&path.to_string_lossy()) {
            sim.block_on(world.remove(&path)).expect("no deadlock").expect("a good disk");
        }
    }
}

#[test]
fn a_crawler_that_forgets_all_is_found() {
    let plan = plan(3);
    let sim = Sim::new(plan.seed);
    let servers = Servers::start(&sim, &plan).expect("servers");
    let mut machine = Machine::new(&sim, &plan);
    assert!(machine.live(Some(&crash_after(12_000))).expect("a crash").is_none());
    wipe_state(&sim, |_| false);
    let done = machine.live(None).expect("an end").expect("done");
    let crawl = servers.conclude(&sim, machine.conclude(done));
    let judgement = judgement(&plan, &crawl);
    assert!(judgement.breaches.contains_key(&Breach::FetchedTwice), "{judgement}");
    assert!(judgement.verdict.count(Kind::FetchedTwice) > 10, "{judgement}");
}

#[test]
fn evidence_against_a_resumed_crawl_is_found() {
    let plan = CrawlPlan { crashes: vec![crash_after(9_000), crash_after(4_000)], ..plan(4) };
    let mut evidence = crawl(&plan).expect("a crawl that ends");
    let found = |crawl: &Crawl| {
        let judgement = judgement(&plan, crawl);
        judgement.breaches.keys().copied().collect::<Vec<_>>()
    };
    assert_eq!(found(&evidence), []);
    assert_eq!(evidence.downfalls.len(), 2);

    // A page from the beginning is fetched once more at the end.
    let page = evidence.log.iter().find(|entry| entry.status == 200 && entry.path.len() > 12);
    let mut again = page.expect("a page").clone();
    let late_ns = evidence.ended.0 - again.at.0;
    [again.at, again.sent, again.end] =
        [again.at, again.sent, again.end].map(|time| Time(time.0 + late_ns));
    evidence.log.push(again);
    assert!(found(&evidence).contains(&Breach::FetchedTwice));
    evidence.log.pop();
    assert_eq!(found(&evidence), []);

    let is_warc = |path: &&std::path::PathBuf| path.to_string_lossy().ends_with(".warc.gz");
    let path = evidence.files.keys().find(is_warc).expect("a file").clone();
    let whole = evidence.files[&path].clone();
    evidence.files.get_mut(&path).expect("it").truncate(whole.len() - 9);
    assert!(found(&evidence).contains(&Breach::Torn));
    let open = path.with_extension("gz.open");
    evidence.files.insert(path, whole.clone());
    assert_eq!(found(&evidence), []);
    evidence.files.insert(open, whole);
    assert_eq!(found(&evidence), [Breach::Torn]);
}

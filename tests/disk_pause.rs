//! A crawl whose disk fails: it pauses, loses nothing, counts nothing that is not on disk, and
//! continues by itself. It is judged by the servers' log and the WARC files.

mod support;

use nephila::crawl::config::Settings;
use nephila::crawl::metrics::{Count, merged};
use nephila::io::DiskError;
use nephila::io::sim::{DiskFaults, DiskOperation, START, Sim, Trouble};
use nephila::lab::sim::crawl::{Crawl, CrawlError, CrawlPlan, crawl_with};
use nephila::lab::web::truth::Expect;
use nephila::lab::web::{Web, WebSpec};
use nephila::proto::warc::{StoredRecord, records};
use std::collections::BTreeMap;
use std::time::Duration;

fn plan(seed: u64, shard_count: u16) -> CrawlPlan {
    let spec = WebSpec::profile("plain").expect("a profile");
    let spec = WebSpec { host_count: 20, page_count: 400, ..spec };
    let settings = Settings { sync_ms: 500, ..support::settings() };
    CrawlPlan { settings, ..CrawlPlan::new(seed, spec, shard_count).expect("a sound spec") }
}

fn crawl(plan: &CrawlPlan, prepare: impl FnOnce(&Sim)) -> Crawl {
    crawl_with(plan, prepare).expect("a crawl that ends")
}

/// Returns how often each URL is stored as a response or a revisit. Every file must be whole and
/// closed.
fn stored(crawl: &Crawl) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for (path, bytes) in &crawl.files {
        let name = path.to_str().unwrap();
        assert!(!name.ends_with(".open"), "{name} is left open");
        if !name.ends_with(".warc.gz") {
            continue;
        }
        for record in records(bytes) {
            let record: StoredRecord = record.unwrap();
            record.verify().unwrap();
            if matches!(record.kind(), "response" | "revisit") {
                let url = record.header("WARC-Target-URI").unwrap().to_owned();
                *counts.entry(url).or_default() += 1;
            }
        }
    }
    counts
}

/// Asserts that every page of the web was requested once and is on disk once, and that as many
/// pages are counted.
fn assert_exact(plan: &CrawlPlan, crawl: &Crawl) {
    let web = Web::new(plan.spec.clone()).expect("a sound spec");
    let stored = stored(crawl);
    let mut asked: BTreeMap<String, u32> = BTreeMap::new();
    for entry in &crawl.log {
        let host = entry.host.split(':').next().unwrap_or_default();
        let port =
            if plan.spec.port == 80 { String::new() } else { format!(":{}", plan.spec.port) };
        *asked.entry(format!("http://{host}{port}{}", entry.path)).or_default() += 1;
    }
    let mut page_count = 0;
    for entry in web.truth().expect("a truth") {
        let url = web.url(entry.place);
        assert_eq!(entry.expect, Expect::Fetched, "a plain web");
        assert_eq!(asked.get(&url), Some(&1), "{url} asked for");
        assert_eq!(stored.get(&url), Some(&1), "{url} stored");
        page_count += 1;
    }
    let (metrics, _) = merged(&crawl.reports);
    assert_eq!(metrics.count(Count::Pages), page_count, "counted as stored");
}

/// Returns the number of requests that began between two moments, in seconds after the start.
fn requests_between(crawl: &Crawl, from: u64, to: u64) -> usize {
    let moment = |seconds| START + Duration::from_secs(seconds);
    crawl.log.iter().filter(|entry| entry.at >= moment(from) && entry.at < moment(to)).count()
}

#[test]
fn a_full_disk_pauses_the_crawl_and_room_lets_it_go_on_exactly() {
    for (seed, shard_count) in [(1, 1), (2, 3)] {
        let plan = plan(seed, shard_count);
        let crawl = crawl(&plan, |sim| {
            sim.fill_disk_until(300_000, START + Duration::from_secs(600));
        });
        assert_exact(&plan, &crawl);
        assert!(requests_between(&crawl, 0, 100) > 20, "the crawl had begun");
        assert_eq!(requests_between(&crawl, 100, 600), 0, "paused");
        assert!(requests_between(&crawl, 600, 660) > 20, "the crawl continued");
        let (metrics, _) = merged(&crawl.reports);
        assert!(metrics.count(Count::DiskPauses) >= 1);
    }
}

#[test]
fn errors_and_failed_syncs_here_and_there_cost_no_page() {
    for seed in 0..10 {
        let plan = plan(seed, 2);
        let crawl = crawl(&plan, |sim| {
            // This test is not about the start of the shards, which fails with a clear message.
            let skip_count = 3;
            for (operation, path_part) in [
                (DiskOperation::Append, "warc/"),
                (DiskOperation::Append, "requests/"),
                (DiskOperation::Sync, "warc/"),
                (DiskOperation::Create, "warc/"),
                (DiskOperation::Rename, "warc/"),
            ] {
                let error = DiskError::Os(5);
                let skip_count = if path_part == "warc/" { seed % 2 } else { skip_count };
                sim.trouble_disk(Trouble { operation, path_part, skip_count, count: 2, error });
            }
        });
        assert_exact(&plan, &crawl);
    }
}

#[test]
fn a_slow_disk_is_no_failure() {
    let plan = plan(5, 2);
    let crawl = crawl(&plan, |sim| {
        let spikes = DiskFaults { spike_per_mille: 300, spike_ms_max: 3_000, ..Default::default() };
        sim.set_disk_faults(spikes);
    });
    assert_exact(&plan, &crawl);
    assert_eq!(merged(&crawl.reports).0.count(Count::DiskPauses), 0);
}

#[test]
fn a_disk_that_stays_full_is_never_taken_for_one_that_works() {
    let plan = CrawlPlan { stop_after: Some(Duration::from_secs(300)), ..plan(6, 1) };
    let ended = crawl_with(&plan, |sim| sim.set_disk_capacity(Some(200_000)));
    assert!(matches!(ended, Err(CrawlError::Endless)), "it waits until it is halted");
}

//! Queues on disk: whole crawls that keep hardly any URL in RAM, judged by the servers' log.

mod support;

use nephila::crawl::config::Settings;
use nephila::crawl::metrics::{Count, merged};
use nephila::crawl::store::StoreError;
use nephila::io::sim::{DiskOperation, START, Sim, SimWorld, Trouble};
use nephila::io::{Clock, Disk, DiskError, File, Spawn};
use nephila::lab::sim::crawl::{Crawl, CrawlError, CrawlPlan, crawl_with};
use nephila::lab::web::truth::Expect;
use nephila::lab::web::{Web, WebSpec};
use std::path::Path;
use std::time::Duration;

fn plan(seed: u64, shard_count: u16) -> CrawlPlan {
    let spec = WebSpec::profile("plain").expect("a profile");
    let spec = WebSpec { host_count: 12, page_count: 1_500, ..spec };
    let settings = Settings { frontier_memory_mb: 0, ..support::settings() };
    CrawlPlan { settings, ..CrawlPlan::new(seed, spec, shard_count).expect("a sound spec") }
}

fn crawl(plan: &CrawlPlan, prepare: impl FnOnce(&Sim)) -> Crawl {
    crawl_with(plan, prepare).expect("a crawl that ends")
}

/// Asserts that every page of a web without failures was requested once, and nothing else.
fn assert_each_once(spec: &WebSpec, crawl: &Crawl) {
    let web = Web::new(spec.clone()).expect("a sound spec");
    let mut counts = support::page_counts(spec, crawl);
    let mut fetched_count = 0;
    for entry in web.truth().expect("a truth") {
        let url = web.url(entry.place);
        let count = counts.remove(&url).unwrap_or(0);
        assert_eq!(entry.expect, Expect::Fetched, "a plain web");
        assert_eq!(count, 1, "{url}");
        fetched_count += 1;
    }
    assert!(counts.is_empty(), "unknown URLs were asked for: {counts:?}");
    assert!(fetched_count > 1_000, "a web of {fetched_count} pages proves nothing");
}

fn segment_count(crawl: &Crawl) -> usize {
    let is_segment = |path: &&std::path::PathBuf| path.extension().is_some_and(|e| e == "seg");
    crawl.files.keys().filter(is_segment).count()
}

#[test]
fn a_crawl_whose_queues_are_on_disk_is_exact() {
    for (seed, shard_count) in [(1, 1), (2, 3)] {
        let plan = plan(seed, shard_count);
        let crawl = crawl(&plan, |_| {});
        assert_each_once(&plan.spec, &crawl);
        let (metrics, gauges) = merged(&crawl.reports);
        assert!(metrics.count(Count::QueueBatches) > 20, "{}", metrics.count(Count::QueueBatches));
        assert!(metrics.count(Count::QueueRefills) > 200, "{}", metrics.count(Count::QueueRefills));
        assert_eq!(metrics.count(Count::QueueFailures), 0);
        assert_eq!((gauges.queue_disk_urls, gauges.queue_live_bytes), (0, 0));
        assert_eq!(
            segment_count(&crawl) as u64,
            gauges.queue_segments,
            "read segments are removed"
        );
    }
}

#[test]
fn a_disk_that_fails_now_and_then_costs_no_url() {
    let plan = plan(3, 2);
    let crawl = crawl(&plan, |sim| {
        use DiskOperation::{Append, Create, Open, Read, Remove, Sync, Truncate};
        for operation in [Append, Create, Open, Read, Remove, Sync, Truncate] {
            for round in 0..8 {
                let (path_part, skip_count) = ("queue", 3 + round * 10);
                let error = DiskError::Os(5);
                sim.trouble_disk(Trouble { operation, path_part, skip_count, count: 2, error });
            }
        }
    });
    assert_each_once(&plan.spec, &crawl);
    let (metrics, gauges) = merged(&crawl.reports);
    assert!(metrics.count(Count::QueueFailures) > 20, "{}", metrics.count(Count::QueueFailures));
    assert_eq!(gauges.queue_disk_urls, 0);
}

#[test]
fn visits_wait_for_a_queue_that_cannot_be_read_until_it_can() {
    let plan = plan(4, 1);
    let crawl = crawl(&plan, |sim| {
        sim.trouble_disk(Trouble {
            operation: DiskOperation::Read,
            path_part: "queue",
            skip_count: 20,
            count: 50,
            error: DiskError::Os(5),
        });
    });
    assert_each_once(&plan.spec, &crawl);
    let (metrics, _) = merged(&crawl.reports);
    assert!(metrics.count(Count::QueueWaits) > 0);
    assert!(metrics.count(Count::QueueFailures) > 3);
}

/// Flips a bit in the middle of each segment of the first shard.
async fn spoil(world: &SimWorld) {
    let directory = Path::new("state/shard-00");
    for name in world.list(directory).await.expect("a list") {
        if !name.starts_with("queue") {
            continue;
        }
        let Ok(file) = world.open(&directory.join(&name)).await else { continue };
        let mut bytes = file.read_at(0, file.size() as usize).await.expect("its bytes");
        for at in (100..bytes.len()).step_by(100) {
            bytes[at] ^= 16;
        }
        file.truncate(0).await.expect("empty");
        file.append(bytes).await.expect("full again");
    }
}

#[test]
fn a_damaged_segment_ends_the_crawl_with_its_name() {
    let plan = plan(5, 1);
    let ended = crawl_with(&plan, |sim| {
        let world = sim.world(77);
        sim.world(77).spawn(async move {
            world.sleep_until(START + Duration::from_secs(30)).await;
            spoil(&world).await;
        });
    });
    let Err(CrawlError::Store(StoreError::Damaged { name, .. })) = ended else {
        panic!("{:?}", ended.map(|crawl| crawl.log.len()));
    };
    assert!(name.starts_with("queue-") && name.ends_with(".seg"), "{name}");
}

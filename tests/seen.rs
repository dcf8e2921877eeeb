//! URL seen on disk: whole crawls with merges, compactions and growth, judged by the servers' log.

mod support;

use nephila::crawl::config::Settings;
use nephila::crawl::metrics::{Count, merged};
use nephila::lab::web::truth::Expect;
use nephila::lab::web::{Web, WebSpec};
use std::path::Path;
use support::{Crawl, crawl, settings};

/// There is room for so few URLs in RAM that nearly every link is decided by a merge.
fn small(seen_batch: usize) -> Settings {
    Settings { seen_batch, seen_memory_mb: 8, ..settings() }
}

fn spec(host_count: u32, page_count: u64) -> WebSpec {
    let spec = WebSpec::profile("default").expect("a profile");
    WebSpec { host_count, page_count, ..spec }
}

/// Asserts that every page of a web without failures was requested once, and nothing else.
fn assert_each_once(spec: &WebSpec, crawl: &Crawl) {
    let web = Web::new(spec.clone()).expect("a sound spec");
    let mut counts = support::page_counts(spec, crawl);
    let mut fetched_count = 0;
    for entry in web.truth().expect("a truth") {
        let url = web.url(entry.place);
        let count = counts.remove(&url).unwrap_or(0);
        let right = match entry.expect {
            // A busy page is requested again.
            Expect::Fetched => (1..=4).contains(&count),
            Expect::Redirected | Expect::ClientError => count == 1,
            Expect::ServerError => count == 4,
            Expect::Denied | Expect::RobotsUnreachable => count == 0,
        };
        assert!(right, "{url}: {:?}, asked for {count} times", entry.expect);
        fetched_count += usize::from(entry.expect == Expect::Fetched);
    }
    assert!(counts.is_empty(), "unknown URLs were asked for: {counts:?}");
    assert!(fetched_count > 100, "a web of {fetched_count} pages proves nothing");
}

#[test]
fn a_crawl_whose_links_are_settled_by_merges_is_exact() {
    for (seed, seen_batch, shard_count) in [(1, 16, 1), (2, 64, 3), (3, 200, 2)] {
        let spec = spec(30, 1_500);
        let crawl = crawl(seed, spec.clone(), shard_count, small(seen_batch));
        assert_each_once(&spec, &crawl);
        let (metrics, gauges) = merged(&crawl.reports);
        assert!(metrics.count(Count::SieveMerges) > 5, "{}", metrics.count(Count::SieveMerges));
        assert!(metrics.count(Count::UrlsDeferred) > 500);
        assert_eq!(gauges.seen_deferred, 0, "nothing is left waiting");
        assert_eq!(metrics.count(Count::SieveFailures), 0);
        // A replaced run is removed when no checkpoint names it. A run may have been replaced after
        // the last checkpoint.
        let ends_in = |path: &Path, ending| path.extension().is_some_and(|e| e == ending);
        let is_named = |run: &Path| {
            let name = run.file_name().expect("a file").as_encoded_bytes();
            crawl.files.iter().any(|(path, bytes)| {
                let is_beside = path.parent() == run.parent() && ends_in(path, "ckpt");
                is_beside && bytes.windows(name.len()).any(|part| part == name)
            })
        };
        let runs = crawl.files.keys().filter(|path| ends_in(path, "run"));
        let (named, unnamed): (Vec<_>, Vec<_>) = runs.partition(|run| is_named(run));
        assert!(unnamed.len() as u64 <= gauges.seen_runs, "replaced runs are removed: {unnamed:?}");
        assert!(named.len() <= 24, "checkpoints name few runs: {named:?}");
        assert!(gauges.seen_runs > 0);
    }
}

#[test]
fn every_url_offered_is_counted_as_new_or_known_whenever_it_was_settled() {
    let spec = spec(20, 800);
    let late = crawl(5, spec.clone(), 1, small(32));
    let early = crawl(5, spec, 1, settings());
    let (late, early) = (merged(&late.reports).0, merged(&early.reports).0);
    assert!(late.count(Count::UrlsDeferred) > 500, "merges settle");
    assert_eq!(early.count(Count::UrlsDeferred), 0, "all URLs fit into RAM");
    for count in [Count::UrlsNew, Count::UrlsKnown, Count::Pages] {
        assert_eq!(late.count(count), early.count(count), "{}", count.name());
    }
}

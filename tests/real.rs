//! Crawls over real sockets, real rings and a real disk, judged by the web's log.

use nephila::config::Settings;
use nephila::engine::{self, EndReason};
use nephila::metrics::Count;
use nephila::url::Url;
use nephila::web::truth::Expect;
use nephila::web::{Stand, StandPlan, Web, WebSpec, log::Entry};
use std::collections::BTreeMap;

fn settings(stand: &Stand, delay_ms: u64) -> Settings {
    Settings {
        allow_private: true,
        contact: "http://crawler.test/".into(),
        dns: vec![stand.dns],
        delay_ms,
        retry_base_ms: delay_ms,
        ..Settings::default()
    }
}

#[test]
fn a_real_crawl_on_all_cores_fetches_the_reachable_set_politely() {
    let place = tempfile::tempdir().expect("a directory");
    let (log, out) = (place.path().join("web.log"), place.path().join("crawl"));
    let profile = WebSpec::profile("default").expect("a profile");
    let mut spec = WebSpec { host_count: 100, page_count: 1_000, ..profile };
    let plan = StandPlan { log: Some(log.clone()), ..StandPlan::default() };
    let stand = Stand::start(spec.clone(), plan).expect("a web");
    spec.port = stand.port;
    let seed = Url::parse(&stand.seed_url).expect("a URL");
    let settings = settings(&stand, 100);
    let summary = engine::crawl(settings, vec![seed], &out, None, &mut |_| {}).expect("a crawl");
    stand.stop().expect("a whole log");
    assert_eq!(summary.reason, EndReason::Done);
    assert!(!summary.warc_files.is_empty());

    let text = std::fs::read_to_string(&log).expect("the log");
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    for line in text.lines() {
        let entry = Entry::parse(line).expect("a log line");
        if entry.path != "/robots.txt" {
            *counts.entry(format!("http://{}{}", entry.host, entry.path)).or_default() += 1;
        }
        for name in [entry.host.to_string(), entry.local.ip().to_string()] {
            if let Some(before) = last.insert(name, entry.at.0) {
                assert!(entry.at.0 - before >= 100_000_000, "too soon: {line}");
            }
        }
    }
    let web = Web::new(spec).expect("a sound spec");
    let mut pages = 0;
    for entry in web.truth().expect("a truth") {
        let count = counts.remove(&web.url(entry.place)).unwrap_or(0);
        let expected = match entry.expect {
            Expect::Fetched => 1..=4,
            Expect::Redirected | Expect::ClientError => 1..=1,
            Expect::ServerError => 4..=4,
            Expect::Denied | Expect::RobotsUnreachable => 0..=0,
        };
        assert!(expected.contains(&count), "{} asked {count} times", web.url(entry.place));
        pages += u64::from(entry.expect == Expect::Fetched);
    }
    assert!(counts.is_empty(), "never linked, yet asked for: {counts:?}");
    assert_eq!(summary.metrics.count(Count::Pages), pages);
}

#[test]
fn a_page_limit_is_met_exactly_on_all_cores() {
    let place = tempfile::tempdir().expect("a directory");
    let log = place.path().join("web.log");
    let profile = WebSpec::profile("plain").expect("a profile");
    let spec = WebSpec { host_count: 50, page_count: 1_000, ..profile };
    let plan = StandPlan { log: Some(log.clone()), ..StandPlan::default() };
    let stand = Stand::start(spec, plan).expect("a web");
    let seed = Url::parse(&stand.seed_url).expect("a URL");
    let settings = Settings { max_pages: 77, ..settings(&stand, 20) };
    let out = place.path().join("crawl");
    let summary = engine::crawl(settings, vec![seed], &out, None, &mut |_| {}).expect("a crawl");
    stand.stop().expect("a whole log");
    assert_eq!(summary.reason, EndReason::PageLimit);
    let text = std::fs::read_to_string(&log).expect("the log");
    let pages = text.lines().filter(|line| !line.contains("/robots.txt")).count();
    assert_eq!(pages, 77, "by the web's log");
}

//! Whole crawls in simulation, judged by the servers' log and the files on disk.

mod support;

use nephila::crawl::config::Settings;
use nephila::crawl::metrics::{Count, merged};
use nephila::lab::web::truth::Expect;
use nephila::lab::web::{Web, WebSpec};
use nephila::proto::url::registrable_domain;
use std::collections::{BTreeMap, BTreeSet};
use support::{Crawl, crawl, page_counts, settings};

fn spec(profile: &str, host_count: u32, page_count: u64) -> WebSpec {
    let spec = WebSpec::profile(profile).expect("a profile");
    WebSpec { host_count, page_count, ..spec }
}

fn assert_exact(spec: &WebSpec, crawl: &Crawl) {
    let web = Web::new(spec.clone()).expect("a sound spec");
    let mut counts = page_counts(spec, crawl);
    let mut missing = Vec::new();
    for entry in web.truth().expect("a truth") {
        let url = web.url(entry.place);
        let count = counts.remove(&url).unwrap_or(0);
        let right = match entry.expect {
            Expect::Fetched => (1..=4).contains(&count),
            Expect::Redirected | Expect::ClientError => count == 1,
            Expect::ServerError => count == 4,
            Expect::Denied | Expect::RobotsUnreachable => count == 0,
        };
        if !right {
            missing.push((url, entry.expect, count));
        }
    }
    let shown = missing.iter().take(10).collect::<Vec<_>>();
    assert!(missing.is_empty(), "{} URLs wrong, e.g. {shown:?}", missing.len());
    let strange = counts.iter().take(10).collect::<Vec<_>>();
    assert!(counts.is_empty(), "{} unknown URLs asked for, e.g. {strange:?}", counts.len());
}

/// Asserts that two requests to one host or to one address are never closer than the delay.
fn assert_polite(crawl: &Crawl, delay_ms: u64) {
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    let mut entries: Vec<_> = crawl.log.iter().collect();
    entries.sort_by_key(|entry| entry.at);
    for entry in entries {
        for name in [format!("host {}", entry.host), format!("address {}", entry.local.ip())] {
            if let Some(before) = last.insert(name.clone(), entry.at.0) {
                let gap_ns = entry.at.0 - before;
                assert!(gap_ns >= delay_ms * 1_000_000, "{name}: {gap_ns} ns before {entry:?}");
            }
        }
    }
}

#[test]
fn a_plain_web_is_fetched_exactly_and_politely_by_one_shard() {
    let spec = spec("plain", 20, 400);
    let crawl = crawl(1, spec.clone(), 1, settings());
    assert_exact(&spec, &crawl);
    assert_polite(&crawl, 1_000);
}

#[test]
fn a_mild_web_is_fetched_exactly_and_politely_by_three_shards() {
    let spec = spec("default", 40, 1_000);
    let crawl = crawl(2, spec.clone(), 3, settings());
    assert_exact(&spec, &crawl);
    assert_polite(&crawl, 1_000);
    let (metrics, _) = merged(&crawl.reports);
    assert!(metrics.count(Count::Revisits) > 0, "duplicates are found across shards");
}

#[test]
fn hosts_that_share_an_address_share_its_pace() {
    let spec = WebSpec { hosts_per_address: 5, ..spec("plain", 20, 200) };
    let crawl = crawl(3, spec.clone(), 2, settings());
    assert_exact(&spec, &crawl);
    assert_polite(&crawl, 1_000);
    let addresses: BTreeSet<_> = crawl.log.iter().map(|entry| entry.local.ip()).collect();
    assert_eq!(addresses.len(), 4);
}

#[test]
fn hosts_of_one_domain_share_a_pace_where_it_is_asked_for() {
    let spec = WebSpec { hosts_per_site: 5, hosts_per_address: 2, ..spec("plain", 20, 100) };
    let settings = Settings { domain_delay_ms: 3_000, ..settings() };
    let crawl = crawl(4, spec.clone(), 3, settings);
    assert_exact(&spec, &crawl);
    assert_polite(&crawl, 1_000);
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    let mut entries: Vec<_> = crawl.log.iter().collect();
    entries.sort_by_key(|entry| entry.at);
    for entry in entries {
        let name = entry.host.split(':').next().unwrap_or_default();
        let before = last.insert(registrable_domain(name), entry.at.0);
        assert!(before.is_none_or(|before| entry.at.0 - before >= 3_000_000_000), "{entry:?}");
    }
    assert!(last.len() < 20 && last.len() > 1, "{} domains", last.len());
}

#[test]
fn one_seed_is_one_history() {
    let spec = spec("default", 10, 200);
    let digest = |seed| crawl(seed, spec.clone(), 2, settings()).digest;
    assert_eq!(digest(7), digest(7));
    assert_ne!(digest(7), digest(8));
}

#[test]
fn seeds_begin_one_by_one_where_the_start_is_spread() {
    let spec = spec("bench", 200, 400);
    let web = Web::new(spec.clone()).expect("a sound spec");
    let roots = (0..200).map(|host| support::url(&web.url(web.graph().root(host)))).collect();
    let settings = Settings { start_spread_ms: 20_000, ..settings() };
    let crawl = support::crawl_from(3, spec, 2, settings, roots);
    let mut first: BTreeMap<&str, u64> = BTreeMap::new();
    for entry in &crawl.log {
        let at = entry.at.since(crawl.began).as_millis() as u64;
        let known = first.entry(&entry.host).or_insert(at);
        *known = at.min(*known);
    }
    let mut by_fifth = [0; 6];
    first.values().for_each(|at| by_fifth[(*at / 4_000).min(5) as usize] += 1);
    let [even @ .., late] = by_fifth;
    assert!(even.iter().all(|count| (20..=60).contains(count)) && late < 10, "{by_fifth:?}");
}

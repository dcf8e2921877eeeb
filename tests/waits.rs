//! What a shard reports that it waits for, compared with what the servers do, in simulated crawls
//! that are stopped while they wait.

#[path = "support/scripted.rs"]
mod scripted;
mod support;

use nephila::crawl::config::Settings;
use nephila::crawl::metrics::{Gauges, merged};
use nephila::io::sim::Sim;
use nephila::lab::sim::crawl::{self, CrawlPlan};
use nephila::lab::web::WebSpec;
use scripted::{Act, Asked, body, page, serve};
use std::time::Duration;
use support::{settings, url};

/// Returns what the shards report after this time.
fn after(
    span: Duration,
    settings: Settings,
    seeds: &[&str],
    script: impl Fn(&Asked) -> Act + 'static,
) -> Gauges {
    let sim = Sim::new(11);
    serve(&sim, script);
    let plan = CrawlPlan::new(1, WebSpec::default(), 2).expect("a sound spec");
    let seeds = seeds.iter().map(|text| url(text)).collect();
    let plan = CrawlPlan { settings, seeds, stop_after: Some(span), ..plan };
    let crawl = crawl::crawl_in(&sim, &plan).expect("a crawl that ends");
    merged(&crawl.reports).1
}

#[test]
fn a_host_waits_for_its_delay_and_says_until_when() {
    let settings = Settings { delay_ms: 60_000, ..settings() };
    let gauges = after(Duration::from_secs(200), settings, &["http://10.0.0.1/"], |asked| {
        let is_robots = asked.path == "/robots.txt";
        if is_robots { body("404 None", "") } else { page(&["/a", "/b", "/c", "/d", "/e"]) }
    });
    assert_eq!((gauges.hosts_waiting, gauges.waits.hosts_in_line), (1, 0));
    let ahead_ns = gauges.waits.next_turn.0 - gauges.at_ns;
    assert!((1..60_000_000_000).contains(&ahead_ns), "{ahead_ns}");
}

#[test]
fn hosts_that_share_an_address_wait_in_its_line() {
    let spec = WebSpec {
        host_count: 20,
        page_count: 200,
        hosts_per_address: 20,
        hosts_per_site: 4,
        ..WebSpec::default()
    };
    let port = if spec.port == 80 { String::new() } else { format!(":{}", spec.port) };
    let seed = |host: u32| url(&format!("http://h{host:06}.site{}.test{port}/", host / 4));
    let plan = CrawlPlan::new(1, spec, 2).expect("a sound spec");
    let settings = Settings { delay_ms: 60_000, ..settings() };
    let stop_after = Some(Duration::from_secs(200));
    let plan = CrawlPlan { settings, seeds: (0..20).map(seed).collect(), stop_after, ..plan };
    let (_, gauges) = merged(&crawl::crawl(&plan).expect("a crawl that ends").reports);
    let in_line = gauges.waits.hosts_in_line;
    assert!((15..20).contains(&in_line), "{in_line} of 20 hosts at one address");
}

#[test]
fn an_open_breaker_is_told_with_the_time_of_the_next_request() {
    let settings = Settings {
        delay_ms: 100,
        breaker_failure_count: 2,
        breaker_open_ms: 600_000,
        retry_count_max: 10,
        ..settings()
    };
    // No URL of the host is answered, so the host fails and not one URL.
    let seeds = ["http://10.0.0.1/a", "http://10.0.0.1/b", "http://10.0.0.1/c"];
    let script = |asked: &Asked| match asked.path.as_str() {
        "/robots.txt" => body("404 None", ""),
        _ => Act::Hang,
    };
    let gauges = after(Duration::from_secs(60), settings, &seeds, script);
    let waits = gauges.waits;
    assert_eq!((waits.origins_at_breaker, waits.origins_backing_off), (1, 0), "{waits:?}");
    let ahead_s = (waits.next_probe.0 - gauges.at_ns) / 1_000_000_000;
    assert!((500..760).contains(&ahead_s), "{ahead_s} s: ten minutes and a quarter at most");
}

#[test]
fn a_robots_txt_that_does_not_answer_is_told_as_that() {
    let settings = Settings { delay_ms: 100, retry_base_ms: 30_000, ..settings() };
    let script = |_: &Asked| body("500 Oops", "");
    let gauges = after(Duration::from_secs(50), settings, &["http://10.0.0.1/"], script);
    assert_eq!(gauges.waits.origins_without_robots, 1, "{:?}", gauges.waits);
    assert_eq!(gauges.urls_queued, 1);
}

#[test]
fn a_url_that_waits_for_another_try_is_counted_with_its_time() {
    let settings = Settings { delay_ms: 1_000, retry_base_ms: 120_000, ..settings() };
    let gauges =
        after(Duration::from_secs(60), settings, &["http://10.0.0.1/"], |asked| {
            match asked.path.as_str() {
                "/robots.txt" => body("404 None", ""),
                "/" => page(&["/good", "/bad"]),
                "/bad" => body("503 Later", ""),
                _ => page(&[]),
            }
        });
    let waits = gauges.waits;
    let is_retried = waits.urls_retrying == 1 && waits.next_retry.0 > gauges.at_ns;
    assert!(is_retried || waits.origins_backing_off == 1, "{waits:?}");
}

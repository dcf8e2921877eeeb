//! Restarts during a wait that a server asked for or caused: the wait continues after the restart.
//! Each test has its own scripted server, and judges by what the server saw.

use super::judged::{crash_after, judgement};
use super::scripted::{Act, Asked, body, page, serve};
use super::support::settings;
use nephila::base::Time;
use nephila::crawl::config::Settings;
use nephila::io::sim::Sim;
use nephila::lab::sim::crawl::{self, crawl_in};
use nephila::lab::sim::{Crash, CrawlPlan};
use nephila::lab::web::WebSpec;
use nephila::proto::url::Url;
use std::time::Duration;

/// Crawls from `seeds` through `crashes`. Returns each request's time in seconds since the first
/// request, and its path.
fn crawl(
    seeds: &[&str],
    settings: Settings,
    crashes: Vec<Crash>,
    script: impl Fn(&Asked) -> Act + 'static,
) -> Vec<(f64, String)> {
    let sim = Sim::new(11);
    let seen = serve(&sim, script);
    let plan = CrawlPlan::new(11, WebSpec::default(), 2).expect("a sound spec");
    let seeds = seeds.iter().map(|text| Url::parse(text).expect("a URL")).collect();
    crawl_in(&sim, &CrawlPlan { settings, seeds, crashes, ..plan }).expect("a crawl that ends");
    let seen = seen.borrow();
    let began: Time = seen.first().expect("one at least").at;
    let line = |asked: &Asked| (asked.at.since(began).as_secs_f64(), asked.path.clone());
    seen.iter().map(line).collect()
}

fn crash(after_ms: u64, down_seconds: u64) -> Crash {
    Crash { downtime: Duration::from_secs(down_seconds), ..crash_after(after_ms) }
}

fn times<'a>(seen: &'a [(f64, String)], path: &'a str) -> impl Iterator<Item = f64> + 'a {
    seen.iter().filter(move |(_, asked)| asked == path).map(|(second, _)| *second)
}

#[test]
fn a_retry_after_is_kept_across_two_restarts() {
    for crashes in [vec![], vec![crash(20_000, 1)], vec![crash(5_000, 30), crash(3_000, 0)]] {
        let is_told = std::cell::Cell::new(false);
        let seen = crawl(&["http://10.0.0.1/a"], settings(), crashes.clone(), move |asked| {
            match asked.path.as_str() {
                "/robots.txt" => body("404 Not Found", ""),
                "/a" if !is_told.replace(true) => body("503 Busy\r\nRetry-After: 300", ""),
                "/a" => page(&["/b"]),
                _ => page(&[]),
            }
        });
        let asked: Vec<f64> = times(&seen, "/a").collect();
        assert_eq!(asked.len(), 2, "{crashes:?}: {seen:?}");
        assert!((300.0..700.0).contains(&(asked[1] - asked[0])), "{crashes:?}: {seen:?}");
        let waiting = seen.iter().filter(|(second, _)| (*second - asked[0]) > 0.1);
        assert!(waiting.clone().all(|(second, _)| second - asked[0] >= 300.0), "{seen:?}");
    }
}

#[test]
fn a_crawl_delay_is_kept_across_a_restart_and_robots_txt_is_not_asked_for_again() {
    let crashes = vec![crash(5_000, 0), crash(25_000, 1), crash(4_000, 2)];
    let seen =
        crawl(&["http://10.0.0.1/a"], settings(), crashes, |asked| match asked.path.as_str() {
            "/robots.txt" => body("200 OK", "User-agent: *\nCrawl-delay: 20\nDisallow: /no"),
            "/a" => page(&["/b", "/no", "/c"]),
            _ => page(&[]),
        });
    assert_eq!(times(&seen, "/robots.txt").count(), 1, "{seen:?}");
    assert_eq!(times(&seen, "/no").count(), 0, "{seen:?}");
    for path in ["/a", "/b", "/c"] {
        assert_eq!(times(&seen, path).count(), 1, "{path}: {seen:?}");
    }
    assert!(seen.windows(2).all(|pair| pair[1].0 - pair[0].0 >= 20.0), "{seen:?}");
}

/// Five failures in a row open the breaker for five minutes.
#[test]
fn an_open_breaker_stays_open_across_restarts() {
    let breaker = Settings { breaker_open_ms: 600_000, ..settings() };
    let script = |asked: &Asked| match asked.path.as_str() {
        "/robots.txt" => body("404 Not Found", ""),
        "/" => page(&["/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8"]),
        _ => Act::Hang,
    };
    let undisturbed = crawl(&["http://10.0.0.1/"], breaker.clone(), vec![], script);
    let pause = |seen: &[(f64, String)]| {
        let longest =
            seen.windows(2).max_by(|a, b| (a[1].0 - a[0].0).total_cmp(&(b[1].0 - b[0].0)));
        longest.map(|pair| (pair[0].0, pair[1].0)).expect("requests")
    };
    let (first, _) = undisturbed
        .windows(2)
        .map(|pair| (pair[0].0, pair[1].0 - pair[0].0))
        .find(|(_, wait)| *wait >= 599.0)
        .expect("the breaker opens");
    let strike_ms = (first * 1_000.0) as u64 + 60_000;
    let crashes = vec![crash(strike_ms, 5), crash(10_000, 60)];
    let struck = crawl(&["http://10.0.0.1/"], breaker, crashes, script);
    let (from, to) = pause(&struck);
    assert!(to - from >= 599.0, "{from} to {to}: {struck:?}");
    let inside = |second: f64| second > first + 1.0 && second < first + 599.0;
    assert!(!struck.iter().any(|(second, _)| inside(*second)), "{struck:?}");
}

#[test]
fn a_url_that_waits_for_its_next_try_keeps_its_tries() {
    let script = |asked: &Asked| match asked.path.as_str() {
        "/robots.txt" => body("404 Not Found", ""),
        "/a" => page(&["/bad", "/b"]),
        "/bad" => body("500 Oops", ""),
        _ => page(&[]),
    };
    let crashes = vec![crash(4_000, 1), crash(10_000, 3)];
    let seen = crawl(&["http://10.0.0.1/a"], settings(), crashes, script);
    assert_eq!(times(&seen, "/bad").count(), 4, "the first try and three more: {seen:?}");
}

/// Requests made just before a kill are in no journal, however often it is synced.
#[test]
fn a_crawler_that_is_killed_every_other_second_keeps_every_gap() {
    for seed in 0..12 {
        let rough = WebSpec::profile("rough").expect("a profile");
        let spec = WebSpec {
            host_count: 12,
            page_count: 60,
            page_bytes_mean: 6_000,
            gzip_fraction: 0.0,
            latency_ms_median: 5.0,
            ..rough
        };
        let settings = Settings { delay_ms: 2_000, ..settings() };
        let kill = |index: u64| Crash {
            cut: None,
            downtime: Duration::from_millis(3),
            ..crash_after(2_100 + (seed * 977 + index * 389) % 2_500)
        };
        let crashes: Vec<Crash> = (0..12).map(kill).collect();
        let plan = CrawlPlan::new(seed, spec, 2).expect("a sound spec");
        let plan = CrawlPlan { settings, crashes, ..plan };
        let crawl = crawl::crawl(&plan).expect("a crawl that ends");
        let judgement = judgement(&plan, &crawl);
        assert!(judgement.is_pass(), "seed {seed}: {judgement}");
        assert!(crawl.downfalls.len() > 8, "{}", crawl.downfalls.len());
    }
}

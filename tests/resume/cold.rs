//! Hosts that leave RAM and come back, across crashes: no page is lost or requested too early, and
//! page counts are kept for any number of cores.
//!
//! The server is scripted. It has a row of hubs with one page each, which come late. Each hub links
//! to the next hub and to one more page of every leaf, so a leaf has nothing to do between two
//! hubs. In some crawls the disk is slow, so that hosts are busy while a checkpoint is taken.

use super::judged::crash_after;
use super::scripted::{Act, Asked, body, page, serve};
use super::support::settings;
use nephila::base::Time;
use nephila::crawl::config::Settings;
use nephila::crawl::metrics::{Count, merged};
use nephila::io::sim::{DiskFaults, NetModel, Sim};
use nephila::lab::sim::crawl::{Crawl, crawl_in};
use nephila::lab::sim::{Crash, CrawlPlan};
use nephila::lab::web::WebSpec;
use nephila::proto::url::Url;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

const ROUND_COUNT: u32 = 20;
const LEAF_COUNT: u8 = 6;
const DELAY: Duration = Duration::from_millis(500);
/// How much may be forgotten when the power is cut, because it was not durable: one sync of the
/// journal, one sync of the page's own files, and the way of a page before them.
const FORGOTTEN: Duration = Duration::from_secs(2);

fn script(asked: &Asked) -> Act {
    let round = asked.path.strip_prefix("/hub").and_then(|round| round.parse::<u32>().ok());
    let Some(round) = round else {
        let is_robots = asked.path == "/robots.txt";
        return if is_robots { body("404 Not Found", "") } else { page(&[]) };
    };
    let mut links = vec![format!("http://10.0.0.{0}/hub{0}", round + 1)];
    links.extend((1..=LEAF_COUNT).map(|leaf| format!("http://10.0.1.{leaf}/p{round}")));
    links.truncate(if round < ROUND_COUNT { links.len() } else { 0 });
    let Act::Say(text, _) = page(&links.iter().map(String::as_str).collect::<Vec<_>>()) else {
        unreachable!("a page is said")
    };
    Act::Say(text, Duration::from_secs(3))
}

/// The result of one crawl: its reports, and what each leaf was asked for and when.
struct Told {
    crawl: Crawl,
    leaves: BTreeMap<IpAddr, Vec<(Time, String)>>,
}

fn crawl(seed: u64, settings: Settings) -> Told {
    let disk_faults = disk_faults(seed);
    let crash = |index: u64| {
        let shard_count = 1 + ((seed + index) % 3) as u16;
        Crash { shard_count, disk_faults, ..crash_after(8_000 + 2_700 * index + 370 * seed) }
    };
    let settings = Settings {
        delay_ms: DELAY.as_millis() as u64,
        slow_host_factor: 0,
        checkpoint_seconds: 1 + seed % 3,
        sync_ms: 200,
        ..settings
    };
    let sim = Sim::new(seed);
    let seen = serve(&sim, script);
    let plan = CrawlPlan::new(seed, WebSpec::default(), 2).expect("a sound spec");
    let seeds = vec![Url::parse("http://10.0.0.0/hub0").expect("a URL")];
    let crashes = (0..4).map(crash).collect();
    let plan = CrawlPlan { settings, seeds, crashes, disk_faults, ..plan };
    let crawl = crawl_in(&sim, &plan).expect("a crawl that ends");
    let mut leaves: BTreeMap<IpAddr, Vec<(Time, String)>> = BTreeMap::new();
    let hub = |asked: &Asked| asked.path.starts_with("/hub");
    let hub_count = seen.borrow().iter().filter(|asked| hub(asked)).count() as u32;
    assert!(hub_count > ROUND_COUNT, "all hubs but {hub_count} were lost");
    let is_leaf = |asked: &&Asked| asked.to >= IpAddr::from([10, 0, 1, 0]);
    for asked in seen.borrow().iter().filter(is_leaf) {
        leaves.entry(asked.to).or_default().push((asked.at, asked.path.clone()));
    }
    Told { crawl, leaves }
}

fn disk_faults(seed: u64) -> DiskFaults {
    let spike_per_mille = if seed % 4 < 2 { 0 } else { 300 };
    DiskFaults { spike_per_mille, spike_ms_max: 1_000, ..DiskFaults::default() }
}

/// In some crawls hosts leave as soon as they may; in others there is room for three.
fn cold_settings(seed: u64) -> Settings {
    let (host_cold_seconds, host_memory_count) =
        if seed.is_multiple_of(2) { (0, 100) } else { (3_600, 3) };
    Settings { host_cold_seconds, host_memory_count, ..settings() }
}

#[test]
fn hosts_that_leave_and_come_back_lose_no_page_and_are_asked_politely() {
    let (mut cooled_count, mut returned_count) = (0, 0);
    for seed in 0..12 {
        let Told { crawl, leaves } = crawl(seed, cold_settings(seed));
        assert_eq!(leaves.len(), usize::from(LEAF_COUNT));
        for (leaf, asked) in leaves {
            for pair in asked.windows(2) {
                assert!(pair[1].0.since(pair[0].0) >= DELAY, "seed {seed}, {leaf}: {pair:?}");
            }
            for round in 0..ROUND_COUNT {
                let path = format!("/p{round}");
                let times: Vec<Time> =
                    asked.iter().filter(|(_, of)| *of == path).map(|(at, _)| *at).collect();
                assert!(!times.is_empty(), "seed {seed}: {leaf}{path} is lost");
                for before in &times[..times.len() - 1] {
                    assert!(is_forgotten(&crawl, *before), "seed {seed}: {leaf}{path} again");
                }
            }
        }
        let (metrics, _) = merged(&crawl.reports);
        cooled_count += metrics.count(Count::HostsCooled);
        returned_count += metrics.count(Count::HostsReturned);
    }
    println!("{cooled_count} left, {returned_count} came back");
    assert!(cooled_count > 300 && returned_count > 200, "{cooled_count}, {returned_count}");
}

#[test]
fn a_cold_host_keeps_its_page_count_across_crashes_and_core_counts() {
    const PAGE_CAP: u64 = 12;
    for seed in 0..12 {
        let Told { crawl, leaves } =
            crawl(seed, Settings { host_page_cap: PAGE_CAP, ..cold_settings(seed) });
        for (leaf, asked) in leaves {
            let lasting = asked
                .iter()
                .filter(|(at, path)| path != "/robots.txt" && !is_forgotten(&crawl, *at));
            let pages: BTreeSet<&str> = lasting.map(|(_, path)| path.as_str()).collect();
            assert!(pages.len() as u64 <= PAGE_CAP, "seed {seed}, {leaf}: {pages:?}");
            let all: BTreeSet<&str> = asked.iter().map(|(_, path)| path.as_str()).collect();
            assert!(all.len() as u64 > PAGE_CAP, "seed {seed}, {leaf}: fewer, {asked:?}");
        }
        let (metrics, _) = merged(&crawl.reports);
        let dropped_count = metrics.count(Count::UrlsDropped);
        assert!(dropped_count > u64::from(LEAF_COUNT), "the cap was met: {dropped_count}");
    }
}

fn is_forgotten(crawl: &Crawl, at: Time) -> bool {
    crawl.downfalls.iter().any(|downfall| {
        let forgotten = FORGOTTEN + Duration::from_millis(downfall.unwritten_ms());
        // The server may see a request that was on its way when its sender was killed.
        let on_its_way = Duration::from_micros(NetModel::default().latency_us_max);
        at < downfall.at + on_its_way && at + forgotten >= downfall.at
    })
}

//! The same rows on simulated public addresses, where private addresses can be told from public
//! ones, and a day takes seconds.

use super::evidence::{Logged, request_lines};
use super::support::{self, Crawl, crawl_from, settings, url};
use super::{ROWS, breach};
use nephila::crawl::config::Settings;
use nephila::lab::sim::crawl::{self, CrawlPlan};
use nephila::lab::web::hostile::{ERRORS_SOME, Hostile};
use nephila::lab::web::{Web, WebSpec};
use std::collections::BTreeSet;
use std::time::Duration;

/// All addresses begin with a public octet.
fn spec() -> WebSpec {
    let profile = WebSpec::profile("hostile").expect("a profile");
    WebSpec { network: [93, 16], port: 80, ..profile }
}

fn public_only() -> Settings {
    Settings { allow_private: false, host_page_cap: 200, ..settings() }
}

fn crawl(seeds: impl FnOnce(&Web) -> Vec<String>, settings: Settings) -> (Crawl, Vec<Logged>) {
    let web = Web::new(spec()).expect("a sound spec");
    let seeds = seeds(&web).iter().map(|seed| url(seed)).collect();
    let mut crawl = crawl_from(7, spec(), 2, settings, seeds);
    crawl.log.sort_by_key(|entry| entry.at);
    let is_log = |path: &std::path::Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        path.starts_with("requests") && name.starts_with("shard-")
    };
    let logs = crawl.files.iter().filter(|(path, _)| is_log(path));
    let logged = logs.flat_map(|(_, bytes)| request_lines(bytes)).collect();
    (crawl, logged)
}

fn row_url(web: &Web, name: &str) -> String {
    let row = ROWS.iter().find(|row| row.name == name).expect("a row");
    web.hostile().expect("hostile hosts").url(row, "/")
}

#[test]
fn every_plain_row_ends_as_the_table_demands_in_simulation_too() {
    let index = |web: &Web| vec![web.hostile().expect("hostile hosts").index_url()];
    let (crawl, logged) = crawl(index, public_only());
    let mut breaches = Vec::new();
    for row in ROWS.iter().filter(|row| !row.is_secret()) {
        let page = format!("http://{}.hostile.test/", row.name);
        for (target, ends) in [("", row.ends), ("robots.txt", row.robots_ends)] {
            let url = format!("{page}{target}");
            let lines = logged.iter().filter(|line| line.url == url);
            let outcomes: Vec<&str> = lines.map(|line| line.outcome.as_str()).collect();
            breaches.extend(breach(row, target, ends, &outcomes));
        }
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
    let metadata = "http://169.254.169.254/latest/meta-data/";
    let refused: Vec<_> = logged.iter().filter(|line| line.url == metadata).collect();
    assert_eq!(refused.len(), 1, "the redirect is followed up to the address");
    assert_eq!(refused[0].outcome, "address_refused");
    let private = crawl.log.iter().find(|entry| !entry.local.ip().to_string().starts_with("93."));
    assert!(private.is_none(), "{private:?}");
}

#[test]
fn every_sound_url_of_a_server_that_answers_500_for_others_is_fetched() {
    let (crawl, logged) = crawl(|web| vec![row_url(web, "errors-some")], public_only());
    let (broken_count, sound_count) = ERRORS_SOME;
    for number in 0..sound_count {
        let path = format!("/sound/{number}");
        let asked: Vec<_> = crawl.log.iter().filter(|entry| entry.path == path).collect();
        assert!(matches!(asked[..], [entry] if entry.status == 200), "{path}: {asked:?}");
    }
    let tries = usize::from(public_only().retry_count_max) + 1;
    for number in 0..broken_count {
        let end = format!("/broken/{number}");
        let asked = logged.iter().filter(|line| line.url.ends_with(&end)).count();
        assert_eq!(asked, tries, "{end}");
    }
}

#[test]
fn no_url_of_a_server_that_drops_kept_connections_is_asked_for_more_often_than_it_may() {
    let seeds = |web: &Web| {
        let url = row_url(web, "closes-kept");
        vec![format!("{url}next"), url]
    };
    let (crawl, _) = crawl(seeds, public_only());
    let asked = crawl.log.iter().filter(|entry| entry.path == "/").count();
    assert_eq!(asked, usize::from(public_only().retry_count_max) + 1);
}

#[test]
fn a_name_that_moves_to_a_private_address_is_followed_no_further() {
    let (crawl, logged) = crawl(|web| vec![row_url(web, "dns-rebound")], public_only());
    let asked = crawl.log.iter().filter(|entry| entry.path.starts_with("/p")).count();
    assert!(asked > 10, "fetched while the name was public: {asked}");
    assert!(crawl.log.iter().all(|entry| entry.local.ip().to_string().starts_with("93.")));
    let last = logged.last().expect("requests");
    assert_eq!(
        last.outcome, "address_refused",
        "the address is checked again when the DNS answer has expired"
    );
}

#[test]
fn a_64_of_addresses_is_one_server_and_so_are_the_spellings_of_one() {
    for url in [Hostile::farm_url, Hostile::wide_farm_url] {
        let web = Web::new(spec()).expect("a sound spec");
        let plan = CrawlPlan {
            settings: public_only(),
            seeds: vec![support::url(&url(web.hostile().expect("hostile hosts")))],
            stop_after: Some(Duration::from_secs(40)),
            ..CrawlPlan::new(7, spec(), 2).expect("a sound spec")
        };
        let mut crawl = crawl::crawl(&plan).expect("a crawl that ends");
        crawl.log.sort_by_key(|entry| entry.at);
        let hosts: BTreeSet<&str> = crawl.log.iter().map(|entry| entry.host.as_str()).collect();
        assert!(hosts.len() > 20, "names of the farm take turns: {hosts:?}");
        let gaps = crawl.log.windows(2).map(|pair| pair[1].at.since(pair[0].at).as_millis());
        assert!(gaps.min() >= Some(1_000), "all names have one pace");
    }
}

#[test]
fn rules_that_were_tightened_are_honoured_within_a_day() {
    let half_hour_ms = 1_800_000;
    let settings = Settings { delay_ms: half_hour_ms, ..public_only() };
    let (crawl, _) = crawl(|web| vec![row_url(web, "robots-tightened")], settings);
    let first_at = crawl.log.first().expect("robots.txt").at;
    let day_ns = 24 * 3_600 * 1_000_000_000;
    let late = crawl.log.iter().filter(|entry| entry.path.starts_with("/late/"));
    let last_late = late.map(|entry| entry.at.0 - first_at.0).max().expect("allowed at first");
    assert!(last_late < day_ns, "{last_late}");
    let last = crawl.log.last().expect("requests").at.0 - first_at.0;
    assert!(last > day_ns, "the crawl went on for longer than a day");
}

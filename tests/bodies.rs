//! Long bodies, and many at the same time, in simulated crawls by the real shard.

#[path = "support/scripted.rs"]
mod scripted;
mod support;

use nephila::crawl::config::Settings;
use nephila::crawl::flow::Outcome;
use nephila::crawl::metrics::{Count, merged};
use nephila::io::Clock;
use nephila::io::sim::Sim;
use nephila::proto::warc::StoredRecord;
use scripted::{Act, Asked, page, say, serve};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::rc::Rc;
use support::{Crawl, crawl_in, settings, url};

const MB: usize = 1024 * 1024;

/// Returns the only response record of a URL.
fn stored(crawl: &Crawl, wanted: &str) -> StoredRecord {
    let is_warc = |path: &PathBuf| path.to_string_lossy().ends_with(".warc.gz");
    let files = crawl.files.iter().filter(|(path, _)| is_warc(path));
    let mut found: Vec<_> = files
        .flat_map(|(_, bytes)| nephila::proto::warc::records(bytes).collect::<Vec<_>>())
        .map(|record| record.expect("a whole record"))
        .filter(|record| record.kind() == "response")
        .filter(|record| record.header("WARC-Target-URI") == Some(wanted))
        .collect();
    assert_eq!(found.len(), 1, "{wanted}");
    found.remove(0)
}

#[test]
fn a_body_over_the_default_cap_is_whole_where_the_setting_allows_it() {
    let sim = Sim::new(1);
    // This is also over what the decoder lets through by default.
    let filler = "<p>some forty million bytes of text".repeat(40 * MB / 35);
    let long = format!("{filler}<a href=/last>last</a>");
    let body_bytes = long.len();
    let seen = serve(&sim, move |asked| match asked.path.as_str() {
        "/" => {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n";
            say(format!("{head}Content-Length: {}\r\n\r\n{long}", long.len()))
        }
        _ => page(&[]),
    });
    let settings = Settings { body_bytes_max: 64 * MB, ..settings() };
    let crawl = crawl_in(&sim, 1, settings, vec![url("http://10.0.0.1/")]);
    let (metrics, _) = merged(&crawl.reports);
    assert_eq!(metrics.count(Count::Pages), 2);
    let paths: Vec<_> = seen.borrow().iter().map(|asked| asked.path.clone()).collect();
    assert_eq!(paths, ["/robots.txt", "/", "/last"], "the link at its end is followed");
    let record = stored(&crawl, "http://10.0.0.1/");
    assert_eq!(record.header("WARC-Truncated"), None);
    assert_eq!(record.payload().len(), body_bytes);
    record.verify().expect("its digest");
}

const STALLING_COUNT: u8 = 30;
const HEALTHY_COUNT: u8 = 20;
const PAGES_A_HOST: usize = 10;
const BODY_TIMEOUT_MS: u64 = 300_000;

fn stalling(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 1, 0, number + 1)
}

fn healthy(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 2, 0, number + 1)
}

/// Hosts that send 4 MB of 5 MB and then stall, beside hosts with pages of 30 KB.
fn answer(asked: &Asked, stalled: &Rc<Vec<u8>>) -> Act {
    let IpAddr::V4(to) = asked.to else { panic!("an IPv4 address") };
    match (to.octets(), asked.path.as_str()) {
        (_, "/robots.txt") => scripted::body("404 None", ""),
        ([10, 1, ..], _) => Act::Stall(stalled.to_vec()),
        (_, path) => {
            let number: usize = path.trim_start_matches('/').parse().unwrap_or(0);
            let next = format!("<a href=/{}>next</a>", number + 1);
            let next = if number + 1 < PAGES_A_HOST { next } else { String::new() };
            let filler = format!("<p>page {number} of {to} ").repeat(1_500);
            scripted::body("200 OK\r\nContent-Type: text/html", &(filler + &next))
        }
    }
}

#[test]
fn thousands_of_megabytes_that_stall_stay_in_their_budget_and_others_are_fetched() {
    let sim = Sim::new(3);
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5000000\r\n\r\n";
    let stalled = Rc::new([head.as_bytes(), &vec![b'x'; 4 * MB]].concat());
    let seen = serve(&sim, move |asked| answer(asked, &stalled));
    let world = sim.world(9);
    let began = world.now();
    let seeds = (0..STALLING_COUNT).map(stalling).chain((0..HEALTHY_COUNT).map(healthy));
    let seeds = seeds.map(|ip| url(&format!("http://{ip}/"))).collect();
    let settings = Settings { body_memory_mb: 64, body_timeout_ms: BODY_TIMEOUT_MS, ..settings() };
    let crawl = crawl_in(&sim, 1, settings, seeds);

    let (metrics, gauges) = merged(&crawl.reports);
    let peak_mb = gauges.body_bytes_peak as usize / MB;
    assert!((48..=64).contains(&peak_mb), "{peak_mb} MB were held");
    assert_eq!(gauges.body_bytes, 0, "all memory for bodies is returned");
    let cut_count = metrics.outcome_count(Outcome::CutMemory);
    assert_eq!(cut_count, metrics.count(Count::BodiesCut));
    assert_eq!(metrics.outcome_count(Outcome::ShedMemory), metrics.count(Count::BodiesShed));
    assert!(cut_count > 10, "{cut_count} were cut");
    assert!(metrics.count(Count::BodyStalls) > 0);
    // Every page that stalls has a record or a reason why not.
    let ended = cut_count + metrics.outcome_count(Outcome::CutTime);
    let lost = metrics.count(Count::DeadLetters);
    assert_eq!(ended + lost, u64::from(STALLING_COUNT));

    let is_healthy = |asked: &&Asked| matches!(asked.to, IpAddr::V4(ip) if ip.octets()[1] == 2);
    let seen = seen.borrow();
    let pages = seen.iter().filter(is_healthy).filter(|asked| asked.path != "/robots.txt");
    let last = pages.clone().map(|asked| asked.at).max().expect("pages");
    assert_eq!(pages.count(), usize::from(HEALTHY_COUNT) * PAGES_A_HOST, "each once");
    let took_ms = last.since(began).as_millis() as u64;
    assert!(took_ms < BODY_TIMEOUT_MS / 3, "healthy hosts took {took_ms} ms");
    let record = stored(&crawl, &format!("http://{}/9", healthy(0)));
    assert_eq!(record.header("WARC-Truncated"), None);
}

//! The real engine against hostile servers, over real sockets. Every row of the table must end as
//! the table says, judged by the servers' log and the files on disk.

#[path = "hostile/evidence.rs"]
mod evidence;
#[path = "hostile/farm.rs"]
mod farm;
#[path = "hostile/private.rs"]
mod private;
#[path = "hostile/simulated.rs"]
mod simulated;
mod support;

use evidence::{
    BODY_BYTES_MAX, DELAY_MS, HOST_PAGE_CAP, LONGEST_DELAY_MS, RETRY_COUNT_MAX, evidence,
};
use nephila::crawl::config::Settings;
use nephila::crawl::flow::Outcome;
use nephila::crawl::metrics::Count;
use nephila::engine::EndReason;
use nephila::engine::report::summary;
use nephila::lab::web::hostile::{ROWS, Row};
use std::collections::BTreeMap;

fn real_rows() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(|row| !row.is_simulated)
}

// --- The table ----------------------------------------------------------------------------------

/// Returns what is wrong with how the requests for a target ended, if anything is.
fn breach(row: &Row, target: &str, ends: &[Outcome], outcomes: &[&str]) -> Option<String> {
    let names = |ends: &[Outcome]| -> Vec<&str> { ends.iter().map(|end| end.name()).collect() };
    let allowed = names(ends);
    let is_sound = if ends.is_empty() {
        // The target was never requested. If it was given up together with its robots.txt, it has
        // one line that says why.
        let mut reasons = names(row.robots_ends);
        reasons.extend([Outcome::RobotsUnreachable.name(), Outcome::RobotsDenied.name()]);
        outcomes.len() <= 1 && outcomes.iter().all(|outcome| reasons.contains(outcome))
    } else {
        outcomes.iter().all(|outcome| allowed.contains(outcome))
            && outcomes.last() == allowed.last()
    };
    (!is_sound).then(|| format!("{}{target}: {outcomes:?}, not {allowed:?}", row.name))
}

#[test]
fn every_row_ends_as_the_table_demands() {
    let evidence = evidence();
    let mut breaches = Vec::new();
    for row in real_rows() {
        for (target, ends) in [("/", row.ends), ("/robots.txt", row.robots_ends)] {
            breaches.extend(breach(row, target, ends, &evidence.outcomes(row.name, target)));
        }
        let is_asked = !row.ends.is_empty() && row.ends != [Outcome::DnsFailed];
        if evidence.asked_for(row.name, "/").is_empty() == is_asked {
            breaches.push(format!("{}/ asked for: {}", row.name, !is_asked));
        }
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

#[test]
fn every_request_ends_by_its_deadlines() {
    // This is the time for connect, TLS, head and body together, doubled for a machine that is
    // busy.
    for line in &evidence().logged {
        assert!(line.total_ms < 16_000, "{line:?}");
    }
    let seconds = evidence().summary.seconds;
    assert_eq!(evidence().summary.reason, EndReason::Done, "after {seconds} s");
}

#[test]
fn memory_stays_bounded_beside_thirty_gigabytes_of_bombs() {
    let peak_bytes = evidence().summary.resident_bytes_peak;
    assert!(peak_bytes < 1 << 30, "{peak_bytes}");
}

#[test]
fn failures_are_tried_again_within_the_budget() {
    let budget = usize::from(RETRY_COUNT_MAX) + 1;
    for row in real_rows() {
        let count = evidence().asked_for(row.name, "/").len();
        let retries = matches!(row.ends, [only] if only.row().retry);
        if retries && row.ends != [Outcome::DnsFailed] {
            assert_eq!(count, budget, "{}", row.name);
        } else {
            assert!(count <= budget, "{}: {count}", row.name);
        }
    }
    assert_eq!(evidence().asked_for("cut-length", "/").len(), budget);
}

#[test]
fn hostile_hosts_are_asked_no_sooner_than_honest_ones() {
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    for entry in &evidence().asked {
        if let Some(before) = last.insert(entry.local.ip().to_string(), entry.at.0) {
            let gap_ns = entry.at.0 - before;
            assert!(gap_ns >= DELAY_MS * 1_000_000, "{gap_ns} ns before {entry:?}");
        }
    }
}

#[test]
fn the_ordinary_hosts_beside_them_are_fetched_whole() {
    let evidence = evidence();
    for url in &evidence.ordinary {
        let count = evidence.logged.iter().filter(|line| line.url == *url).count();
        assert_eq!(count, 1, "{url}");
    }
    assert!(evidence.summary.metrics.count(Count::Pages) >= evidence.ordinary.len() as u64);
}

// --- What is on disk ----------------------------------------------------------------------------

#[test]
fn cut_bodies_are_kept_and_marked_with_why() {
    for (row, why) in [
        ("slow-body", "time"),
        ("stalled-body", "time"),
        ("endless-body", "length"),
        ("endless-chunks", "length"),
        ("attribute-huge", "length"),
        ("cut-length", "disconnect"),
        ("cut-chunked", "disconnect"),
        ("reset-mid-body", "disconnect"),
    ] {
        let record = evidence().only(row, "/");
        assert_eq!(record.header("WARC-Truncated"), Some(why), "{row}");
        record.verify().expect("a digest of what was kept");
        let payload = record.payload();
        assert!(!payload.is_empty(), "{row}");
        if why == "length" {
            assert_eq!(payload.len(), BODY_BYTES_MAX, "{row}");
        }
    }
    let whole = evidence().only("honest", "/");
    assert_eq!(whole.header("WARC-Truncated"), None);
}

#[test]
fn responses_without_sound_framing_are_not_stored_as_pages() {
    for row in real_rows().filter(|row| row.ends == [Outcome::Malformed]) {
        for record in evidence().stored(row.name, "/") {
            let what = (row.name, record.header("WARC-Truncated"));
            assert_eq!(what.1, Some("unspecified"), "{what:?}");
        }
    }
    for row in ["length-two", "length-negative", "length-signed", "length-hex", "length-over"] {
        assert!(evidence().stored(row, "/").is_empty(), "{row}");
    }
}

#[test]
fn bombs_and_broken_codings_are_kept_as_they_came_and_marked() {
    for (row, mark) in [
        ("bomb-gzip", "bomb"),
        ("bomb-br", "bomb"),
        ("bomb-zstd", "bomb"),
        ("codings-ten", "too_many_codings"),
        ("zstd-window", "window_too_large"),
        ("gzip-corrupt", "corrupt"),
        ("gzip-cut", "cut"),
    ] {
        let record = evidence().only(row, "/");
        record.verify().expect("a digest of the raw bytes");
        let head = String::from_utf8_lossy(record.http().0).to_lowercase();
        assert!(head.contains("content-encoding: "), "{row}: the coding is stored as it came");
        let line = evidence().index_line(row, "/");
        assert!(line.contains(&format!("\"undecoded\": \"{mark}\"")), "{row}: {line}");
    }
    assert!(!evidence().index_line("honest", "/").contains("undecoded"));
    assert_eq!(evidence().summary.metrics.count(Count::BodiesUndecoded), 7);
}

#[test]
fn a_folded_header_is_one_space() {
    let record = evidence().only("folded", "/");
    let line = evidence().index_line("folded", "/");
    assert_eq!(record.payload(), b"folded");
    assert!(line.contains("\"text/html\""), "{line}");
}

// --- Connections --------------------------------------------------------------------------------

#[test]
fn no_forged_response_reaches_another_url_or_the_disk() {
    for row in real_rows().filter(|row| row.has_next) {
        let record = evidence().only(row.name, "/next");
        let payload = String::from_utf8_lossy(&record.payload()).into_owned();
        assert!(payload.contains("genuine"), "{}: {payload}", row.name);
    }
    let forged = |record: &&nephila::proto::warc::StoredRecord| {
        memchr::memmem::find(record.block(), b"counterfeit").is_some()
    };
    let found: Vec<_> = evidence().records.iter().filter(forged).collect();
    assert!(found.is_empty(), "{:?}", found[0].header("WARC-Target-URI"));
}

#[test]
fn a_connection_is_not_used_again_after_a_doubt() {
    let peers = |row: &str| {
        let peer = |target| evidence().asked_for(row, target).last().expect("a request").peer;
        (peer("/"), peer("/next"))
    };
    for row in real_rows().filter(|row| row.has_next) {
        let (doubtful, after) = peers(row.name);
        assert_ne!(doubtful, after, "{}", row.name);
    }
    let (first, second) = peers("honest");
    assert_eq!(first, second, "a connection of an honest server is kept open");
}

#[test]
fn a_reset_on_a_reused_connection_is_tried_again_once_on_a_new_one() {
    let asked = evidence().asked_for("reset-reused", "/");
    let statuses: Vec<u16> = asked.iter().map(|entry| entry.status).collect();
    assert_eq!(statuses, [0, 200]);
    assert_ne!(asked[0].peer, asked[1].peer);
}

// --- Redirects, request lines, credentials ------------------------------------------------------

#[test]
fn redirect_loops_are_found_and_chains_end_after_five_hops() {
    assert_eq!(evidence().outcomes("redirect-pair", "/b"), ["redirect_loop"]);
    let chain: Vec<_> = evidence()
        .asked_of("redirect-endless")
        .into_iter()
        .filter(|entry| entry.path != "/robots.txt")
        .map(|entry| entry.path.as_str())
        .collect();
    assert_eq!(chain, ["/", "/r1", "/r2", "/r3", "/r4", "/r5"]);
    assert_eq!(evidence().outcomes("redirect-endless", "/r5"), ["redirect_limit"]);
}

#[test]
fn a_redirect_to_another_host_obeys_the_robots_txt_there() {
    let landing = evidence().asked_of("landing");
    assert_eq!(landing[0].path, "/robots.txt", "robots.txt is requested first");
    assert!(landing.iter().any(|entry| entry.path == "/from-abroad"));
    assert!(landing.iter().all(|entry| !entry.path.starts_with("/denied/")));
    assert_eq!(evidence().outcomes("landing", "/denied/by-redirect"), ["robots_denied"]);
}

#[test]
fn line_breaks_in_links_and_redirects_make_no_second_request() {
    for row in ["crlf-location", "crlf-bare", "crlf-href"] {
        for entry in evidence().asked_of(row) {
            assert!(!entry.path.starts_with("/injected"), "{entry:?}");
        }
    }
    // The servers answer 400 to what is not a request, and 418 to a header field that was smuggled
    // in.
    for entry in &evidence().asked {
        assert!(!matches!(entry.status, 400 | 405 | 418 | 421 | 431), "{entry:?}");
    }
    assert!(!evidence().asked_for("crlf-href", "/").is_empty());
    let followed = evidence().asked_of("crlf-location").len();
    assert!(followed >= 4, "robots.txt and two redirects: {followed}");
}

#[test]
fn no_credential_leaves_with_a_request() {
    let landing = evidence().asked_of("landing");
    for target in ["/with-user", "/redirected-with-user"] {
        assert!(landing.iter().any(|entry| entry.path == target), "{target} is followed");
    }
    for entry in &evidence().asked {
        assert!(!entry.host.contains('@') && !entry.path.contains("secret"), "{entry:?}");
        assert_ne!(entry.status, 418, "{entry:?}");
    }
    let sent = evidence().records.iter().filter(|record| record.kind() == "request");
    for record in sent {
        assert!(memchr::memmem::find(record.block(), b"secret").is_none());
    }
}

// --- robots.txt and Retry-After -----------------------------------------------------------------

#[test]
fn no_page_is_asked_for_while_robots_txt_does_not_answer() {
    for row in ["robots-500", "robots-silent", "robots-reset", "robots-moved-6"] {
        let asked = evidence().asked_of(row);
        let is_robots = |path: &str| path == "/robots.txt" || path.starts_with("/moved");
        assert!(!asked.is_empty() && asked.iter().all(|entry| is_robots(&entry.path)), "{row}");
    }
}

#[test]
fn rules_hold_however_large_or_dirty_or_far_their_file() {
    for row in ["robots-huge", "robots-line", "robots-binary", "robots-moved-5", "robots-429"] {
        assert!(evidence().asked_for(row, "/private/x").is_empty(), "{row}");
        assert_eq!(evidence().asked_for(row, "/open").len(), 1, "{row}");
    }
    for row in ["robots-404", "robots-410"] {
        assert_eq!(evidence().asked_for(row, "/private/x").len(), 1, "{row}");
    }
}

#[test]
fn a_throttled_robots_txt_defers_the_pages() {
    let asked = evidence().asked_of("robots-429");
    assert_eq!((asked[0].path.as_str(), asked[0].status), ("/robots.txt", 429));
    assert_eq!((asked[1].path.as_str(), asked[1].status), ("/robots.txt", 200));
}

#[test]
fn tightened_rules_hold_from_when_they_are_read() {
    let asked = evidence().asked_of("robots-tightened");
    let robots: Vec<_> = asked.iter().filter(|entry| entry.path == "/robots.txt").collect();
    assert!(robots.len() > 1, "robots.txt is read again when it has expired");
    let late = |from: u64, to: u64| {
        let is_late = |entry: &&&nephila::lab::web::log::Entry| entry.path.starts_with("/late/");
        asked.iter().filter(is_late).filter(|e| (from..to).contains(&e.at.0)).count()
    };
    assert!(late(0, robots[1].at.0) > 0, "allowed at first");
    assert_eq!(late(robots[1].at.0, u64::MAX), 0, "denied from then on");
    let pages_after = asked.iter().filter(|e| e.at > robots[1].at && e.path.starts_with("/p"));
    assert!(pages_after.count() > 0, "other pages are still fetched");
}

#[test]
fn retry_after_is_honoured_up_to_its_clamp() {
    let gap_ms = |row: &str| {
        let asked = evidence().asked_for(row, "/");
        assert_eq!((asked.len(), asked[0].status, asked[1].status), (2, 503, 200), "{row}");
        (asked[1].at.0 - asked[0].at.0) / 1_000_000
    };
    for row in ["retry-huge", "retry-date"] {
        assert!(gap_ms(row) >= LONGEST_DELAY_MS, "{row}");
    }
    assert!(gap_ms("retry-negative") >= DELAY_MS);
}

// --- Traps --------------------------------------------------------------------------------------

#[test]
fn traps_get_no_more_than_a_hosts_budget() {
    for row in ["calendar", "sessions", "links-million", "links-20000", "links-head"] {
        let asked = evidence().asked_of(row);
        let pages = asked.iter().filter(|entry| entry.path != "/robots.txt").count() as u64;
        assert!(pages > 1 && pages <= HOST_PAGE_CAP, "{row}: {pages}");
    }
    assert!(evidence().summary.metrics.count(Count::LinksOverCap) >= 999_000);
}

#[test]
fn links_that_are_left_out_are_told_in_the_summary_and_for_each_page_in_index_and_record() {
    let count = 20_000 - Settings::default().page_link_count_max;
    let record = evidence().only("links-20000", "/");
    assert_eq!(record.header("Nephila-Links-Left-Out"), Some(&*count.to_string()));
    let line = evidence().index.iter().find(|line| line.contains("links-20000.hostile.test:"));
    let marked = |line: &String| line.contains(&format!("\"links_left_out\": \"{count}\""));
    assert!(evidence().index.iter().any(marked), "{line:?}");
    let text = summary::table(&evidence().summary);
    assert!(text.contains("page_link_count_max"), "{text}");
}

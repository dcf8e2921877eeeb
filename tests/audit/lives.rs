//! Directories of crawls that were killed, written by hand: the logs of several shards, what the
//! logs lack, and how the referee judges them.

use nephila::lab::audit::crawl_dir::CrawlDir;
use nephila::lab::audit::{Kind, Terms, Verdict, judge};
use std::fmt::Write;
use std::fs;
use tempfile::TempDir;

const MS: u64 = 1_000_000;
/// The time of the wall clock when the monotonic clock was at zero.
const UNIX_NS: u64 = 784_111_777_000_000_000;

/// A shard's request log. Times are milliseconds.
#[derive(Default)]
struct Log(String);

impl Log {
    fn start(mut self, at: u64, how: &str) -> Log {
        let _ = writeln!(self.0, "# start {} {} date{how}", at * MS, UNIX_NS + at * MS);
        self
    }

    fn end(mut self, at: u64) -> Log {
        let _ = writeln!(self.0, "# end {} {} date", at * MS, UNIX_NS + at * MS);
        self
    }

    /// A request whose answer took 10 ms.
    fn asked(mut self, at: u64, host: &str, path: &str, end: &str) -> Log {
        let octet = host.bytes().fold(1u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte));
        let _ = writeln!(
            self.0,
            "{} 1994-11-06T08:49:37Z {host} 127.16.0.{octet}:80 GET http://{host}{path} {end} 9 10",
            at * MS
        );
        self
    }

    fn robots(self, at: u64, host: &str) -> Log {
        self.asked(at, host, "/robots.txt", "404 client_error")
    }

    fn page(self, at: u64, host: &str, path: &str) -> Log {
        self.asked(at, host, path, "200 fetched")
    }
}

fn directory(logs: &[Log], settings: &str) -> TempDir {
    let place = tempfile::tempdir().expect("a directory");
    for folder in ["requests", "warc"] {
        fs::create_dir(place.path().join(folder)).expect("a folder");
    }
    for (index, log) in logs.iter().enumerate() {
        let path = place.path().join(format!("requests/shard-{index:02}.log"));
        fs::write(path, &log.0).expect("a log");
    }
    let settings = format!(
        "delay_ms = 1000\ncrawl_delay_ms_max = 60000\nretry_count_max = 3\nsync_ms = 1000\n\
         journal_sync_ms = 100\n{settings}"
    );
    let manifest = serde_json::json!({"product": "nephila", "settings": settings});
    fs::write(place.path().join("MANIFEST.json"), manifest.to_string()).expect("a manifest");
    place
}

fn verdict(logs: &[Log]) -> Verdict {
    let place = directory(logs, "");
    let crawl = CrawlDir::open(place.path()).expect("a crawl's directory");
    let terms = Terms { stops: crawl.stops().expect("readable logs"), ..crawl.terms.clone() };
    judge(&crawl, &terms, None).expect("readable logs")
}

/// The crawl is killed at 20 s and started again at 20.5 s. Shard 1 owns the host `b`, and requests
/// its last page again. Shard 0 runs for long, and its log has lost the second start.
fn two_shards(again_of: u64) -> [Log; 2] {
    let first = Log::default().start(0, "").robots(100, "a").page(60_000, "a", "/1");
    let second = Log::default()
        .start(0, "")
        .robots(100, "b")
        .page(again_of, "b", "/1")
        .start(20_500, " resumed")
        .page(22_000, "b", "/1");
    [first, second]
}

#[test]
fn a_stop_of_one_shard_is_not_put_off_to_the_end_of_another_s_log() {
    let lawful = verdict(&two_shards(19_000));
    assert!(lawful.pass, "{lawful}");
    assert_eq!(lawful.repeat_counts, [1]);
    let old = verdict(&two_shards(9_000).map(|log| log.page(19_500, "c", "/robots.txt")));
    assert_eq!(old.count(Kind::FetchedTwice), 1, "the first fetch is older than the window: {old}");
}

#[test]
fn a_start_that_each_shard_s_log_has_is_one_stop_and_a_start_between_requests_is_another() {
    let log = |host: &str, back: u64| {
        Log::default()
            .start(0, "")
            .robots(1_000, host)
            .page(5_000, host, "/1")
            .start(back, " resumed")
            .page(8_000, host, "/1")
            .start(back + 4_000, " resumed")
            .page(11_000 + back % 100, host, "/2")
    };
    let found = verdict(&[log("a", 6_000), log("b", 6_050), log("c", 6_090)]);
    assert!(found.pass, "{found}");
    assert_eq!(found.repeat_counts, [3, 0], "{found}");
    assert_eq!(found.unlogged_ms, [990, 1_990]);
}

#[test]
fn what_a_killed_process_took_with_it_is_told_and_a_clean_end_takes_nothing() {
    let life = |log: Log| log.start(0, "").robots(100, "a").page(2_000, "a", "/1");
    let killed = verdict(&[life(Log::default()).start(9_000, " resumed").page(9_900, "a", "/1")]);
    assert_eq!(killed.unlogged_ms, [6_990]);
    let text = killed.to_string();
    assert!(text.contains("log lost with a killed process"), "{text}");
    assert!(text.contains("6990 ms before a start, unjudged"), "{text}");
    let after = |log: Log| log.start(9_000, " resumed").page(9_900, "a", "/2");
    let ended = verdict(&[after(life(Log::default()).end(2_500))]);
    assert!(ended.pass && ended.unlogged_ms.is_empty(), "{ended}");
    assert!(!ended.to_string().contains("log lost"), "{ended}");
    // No line is lost, so a page without a robots.txt before it is a violation.
    let strange = verdict(&[after(life(Log::default()).end(2_500)).page(12_000, "z", "/")]);
    assert_eq!(strange.count(Kind::BeforeRobots), 1, "{strange}");
}

#[test]
fn requests_that_a_server_left_without_an_answer_are_tries_and_those_never_sent_are_not() {
    let dropped = |end: &str, count: u64| {
        let log = Log::default().start(0, "").robots(0, "a");
        verdict(&[(1..=count).fold(log, |log, n| log.asked(n * 2_000, "a", "/x", end))])
    };
    for end in ["- reset", "- incomplete", "- first_byte_timed_out", "500 server_error"] {
        assert!(dropped(end, 4).pass, "{end}: the first request and three retries are allowed");
        assert_eq!(dropped(end, 5).count(Kind::AskedTooOften), 1, "{end}");
        assert_eq!(dropped(end, 7).count(Kind::AskedTooOften), 3, "{end}");
    }
    assert!(dropped("- shed", 7).pass, "we had no socket for it");
}

#[test]
fn a_directory_says_by_which_ipv6_prefix_it_paced() {
    let prefix = |settings: &str| {
        let place = directory(&[Log::default().start(0, "")], settings);
        CrawlDir::open(place.path()).expect("a crawl's directory").terms.ipv6_pace_prefix
    };
    assert_eq!(prefix("ipv6_pace_prefix = 56\n"), 56);
    assert_eq!(prefix(""), 128, "from before there was the setting");
}

#[test]
fn a_manifest_that_was_changed_is_no_evidence() {
    let place = directory(&[Log::default().start(0, "")], "");
    let settings = nephila::crawl::config::Settings { delay_ms: 60, ..Default::default() };
    let manifest = nephila::engine::Manifest::new(&settings, 1, Default::default());
    manifest.save(place.path()).expect("a manifest");
    let open = || CrawlDir::open(place.path()).map(|crawl| crawl.terms.delay_ms);
    assert_eq!(open().expect("as it was written"), 60);
    let path = place.path().join("MANIFEST.json");
    let text = fs::read_to_string(&path).expect("a manifest");
    fs::write(&path, text.replace("\"delay_ms_least\": 60", "\"delay_ms_least\": 20")).expect("it");
    let error = open().expect_err("a shorter delay than was promised").to_string();
    assert!(error.contains("checksum"), "{error}");
}

//! What a crawl reports about itself over several runs, compared with what its server saw and what
//! its files hold: totals, URLs to come, and a log without warnings.

#![allow(clippy::disallowed_methods)] // waits for processes, in real time

#[path = "inspect/server.rs"]
#[allow(dead_code)] // each test file uses its part
mod server;

use serde_json::Value;
use server::{Server, answer, page};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const LINKED_COUNT: usize = 250;
/// The number of pages: the first page and those that it links to.
const PAGE_COUNT: usize = 1 + LINKED_COUNT;

/// A site whose first page links to all others, so that all URLs to come are known at once.
fn wide_site() -> Server {
    Server::start(|_, path, _| match path {
        "/robots.txt" => answer("404 None", ""),
        "/" => {
            let links: Vec<String> = (0..LINKED_COUNT).map(|n| format!("/page-{n}")).collect();
            page(&links.iter().map(String::as_str).collect::<Vec<_>>())
        }
        path => answer("200 OK", &format!("this is {path}")),
    })
}

/// One run of the crawl, with its output in files.
struct Run {
    child: Child,
    place: PathBuf,
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Run {
    fn start(place: &Path, name: &str, arguments: &[&str]) -> Run {
        let place = place.join(name);
        let file = |ending| File::create(place.with_extension(ending)).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_nephila"));
        let out = place.with_file_name("crawl");
        command.args(["crawl", "--out", out.to_str().expect("a path"), "--json"]);
        command.args(["--allow-private", "--contact", "http://crawler.test/", "--delay-ms", "5"]);
        command.args(["--set", "sync_ms=20", "--set", "journal_sync_ms=10"]);
        command.args(["--set", "checkpoint_seconds=1", "--set", "slow_host_factor=0"]);
        // Every system allows this number of open files.
        command.args(["--set", "fetch_slots=16", "--set", "keep_alive_count_max=16"]);
        command.args(arguments).env_remove("NEPHILA_LOG").stdin(Stdio::null());
        command.stdout(file("json")).stderr(file("err"));
        Run { child: command.spawn().expect("a process"), place }
    }

    /// Waits until this many pages were requested from the server.
    fn wait_for(&self, server: &Server, count: usize, asked: &mut Vec<String>) {
        let begun = Instant::now();
        while asked.len() < count {
            assert!(begun.elapsed() < PATIENCE, "{} pages asked for: {}", asked.len(), self.said());
            std::thread::sleep(Duration::from_millis(5));
            asked.extend(server.asked());
        }
    }

    fn kill(mut self) {
        self.child.kill().expect("a process");
        self.child.wait().expect("its end");
    }

    fn terminate(self) -> (Value, String) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
        self.end()
    }

    /// Waits for the end of the run. Returns its summary and its log.
    fn end(mut self) -> (Value, String) {
        let begun = Instant::now();
        while self.child.try_wait().expect("a process").is_none() {
            assert!(begun.elapsed() < PATIENCE, "the run did not end: {}", self.said());
            std::thread::sleep(Duration::from_millis(5));
        }
        let json = fs::read(self.place.with_extension("json")).expect("a summary");
        let said = self.said();
        (serde_json::from_slice(&json).unwrap_or_else(|_| panic!("no summary: {said}")), said)
    }

    fn said(&self) -> String {
        fs::read_to_string(self.place.with_extension("err")).expect("text")
    }
}

/// Returns the pages that the indexes of all runs name, each once, and the number of WARC files.
fn stored(place: &Path) -> (BTreeSet<String>, usize) {
    let (mut pages, mut file_count) = (BTreeSet::new(), 0);
    for entry in fs::read_dir(place.join("crawl/warc")).expect("a folder") {
        let path = entry.expect("an entry").path();
        file_count += usize::from(path.to_string_lossy().ends_with(".warc.gz"));
        if path.extension().is_none_or(|ending| ending != "cdxj") {
            continue;
        }
        for line in fs::read_to_string(path).expect("an index").lines() {
            let json = line.splitn(3, ' ').nth(2).expect("three parts");
            let json: Value = serde_json::from_str(json).expect("JSON");
            if json["status"] == "200" {
                pages.insert(json["url"].as_str().expect("a URL").to_owned());
            }
        }
    }
    (pages, file_count)
}

/// Returns the remarks of all request logs that tell of starts and ends, by their first word.
fn lives(place: &Path) -> Vec<Vec<String>> {
    let logs = fs::read_dir(place.join("crawl/requests")).expect("a folder");
    let logs = logs.map(|entry| entry.expect("an entry").path());
    let is_of_shard = |path: &PathBuf| path.to_string_lossy().contains("/shard-");
    logs.filter(is_of_shard)
        .map(|path| {
            let text = fs::read_to_string(path).expect("a log");
            let remarks = text.lines().filter_map(|line| line.strip_prefix("# "));
            remarks.map(|remark| remark.split(' ').next().expect("a word").to_owned()).collect()
        })
        .collect()
}

/// Returns the number before `words`.
#[track_caller]
fn number_before(said: &str, words: &str) -> usize {
    let at = said.find(words).unwrap_or_else(|| panic!("{words:?} is not in {said}"));
    let number = said[..at].rsplit(' ').find(|word| !word.is_empty()).expect("a word");
    number.replace(',', "").parse().unwrap_or_else(|_| panic!("{number:?} before {words:?}"))
}

/// Leaves out connections without a request, which a run that is killed may leave. They have no
/// path.
fn distinct(asked: &[String]) -> usize {
    asked.iter().filter(|asked| asked.contains('/')).collect::<BTreeSet<_>>().len()
}

#[test]
fn totals_over_a_stop_and_another_core_count_are_exact() {
    let (server, place) = (wide_site(), tempfile::tempdir().expect("a directory"));
    let place = place.path();
    let seed = server.url("127.0.0.1", "/");
    let mut asked = Vec::new();
    let run = Run::start(place, "one", &[&seed]);
    run.wait_for(&server, 40, &mut asked);
    let (one, _) = run.terminate();
    asked.extend(server.asked());
    let run = Run::start(place, "two", &["--resume", "--cores", "0"]);
    run.wait_for(&server, 100, &mut asked);
    let (two, said) = run.terminate();
    asked.extend(server.asked());
    assert_eq!(number_before(&said, " pages from 1 run so far"), pages(&one));
    let (three, said) = Run::start(place, "three", &["--resume", "--cores", "0"]).end();
    asked.extend(server.asked());

    let runs = [&one, &two, &three];
    let (stored, file_count) = stored(place);
    assert_eq!(stored.len(), PAGE_COUNT);
    assert_eq!(asked.len(), PAGE_COUNT, "after a clean stop no page is requested twice");
    assert_eq!(three["total"]["pages"], PAGE_COUNT);
    assert_eq!(
        runs.map(pages).iter().sum::<usize>(),
        PAGE_COUNT,
        "the sum of what the runs report"
    );
    assert_eq!(
        (&three["total"]["runs"], &three["total"]["runs_cut_short"]),
        (&3.into(), &0.into())
    );
    assert_eq!(three["total"]["counts"]["warc_files"], file_count);
    for name in ["requests", "bytes_received", "warc_records", "urls_new", "urls_ended", "pages"] {
        let of_runs = runs.map(|run| run["counts"][name].as_u64().expect("a count"));
        assert_eq!(three["total"]["counts"][name], of_runs.iter().sum::<u64>(), "{name}");
    }
    assert!(said.contains("since the crawl began, in 3 runs of"), "{said}");
    assert!(!said.contains("cut short"), "{said}");
    for log in lives(place) {
        let pairs = log.chunks(2).all(|life| life == ["start", "end"]);
        assert!(pairs && !log.is_empty(), "each run that ended by itself says so: {log:?}");
    }
}

fn pages(run: &Value) -> usize {
    run["pages"].as_u64().expect("a count") as usize
}

#[test]
fn after_a_kill_pages_and_urls_to_come_are_exact_and_nothing_is_said_in_alarm() {
    let (server, place) = (wide_site(), tempfile::tempdir().expect("a directory"));
    let place = place.path();
    let seed = server.url("127.0.0.1", "/");
    let mut asked = Vec::new();
    let run = Run::start(place, "one", &[&seed]);
    run.wait_for(&server, 90, &mut asked);
    run.kill();
    asked.extend(server.asked());
    let run = Run::start(place, "two", &["--resume"]);
    run.wait_for(&server, asked.len() + 40, &mut asked);
    run.kill();
    asked.extend(server.asked());
    let (three, said) = Run::start(place, "three", &["--resume"]).end();
    let last: Vec<String> = server.asked();
    asked.extend(last.iter().cloned());

    assert_eq!(distinct(&asked), PAGE_COUNT);
    assert_eq!(number_before(&said, " URLs of 1 host to come"), distinct(&last));
    let had = number_before(&said, " pages from 2 runs so far");
    assert_eq!(had + pages(&three), PAGE_COUNT);
    assert_eq!(three["total"]["pages"], PAGE_COUNT);
    assert_eq!(stored(place).0.len(), PAGE_COUNT, "the indexes of all runs name every page");
    assert_eq!(
        (&three["total"]["runs"], &three["total"]["runs_cut_short"]),
        (&3.into(), &2.into())
    );
    assert!(said.contains("since the crawl began, in 3 runs of at least "), "{said}");
    assert!(
        said.contains("2 runs were cut short: pages, ended and dead letters are exact"),
        "{said}"
    );
    for alarm in ["WARN", "ERROR"] {
        assert!(!said.contains(alarm), "a kill and a restart must not cause a warning: {said}");
    }
}

#[test]
fn a_crawl_that_waits_says_for_what() {
    let server = Server::start(|_, path, _| match path {
        "/robots.txt" => answer("200 OK", "User-agent: *\nCrawl-delay: 3000\n"),
        _ => page(&["/next"]),
    });
    let place = tempfile::tempdir().expect("a directory");
    let seed = server.url("127.0.0.1", "/");
    let (_, said) = Run::start(place.path(), "one", &[&seed, "--max-seconds", "12"]).end();
    let waiting = "waiting: 1 host for its delay (next in 50 min)";
    assert!(said.contains(waiting), "{said}");
}

//! The answers of `nephila inspect` and `nephila explain` about real crawls, compared with what
//! their server saw.

#![allow(clippy::disallowed_methods)] // waits for a process, in real time

#[path = "inspect/explain.rs"]
mod explain;
#[path = "inspect/reinject.rs"]
mod reinject;
#[path = "inspect/server.rs"]
mod server;

use nephila::cli::inspect::{DeadFilter, InspectError, Manner, Question, ask};
use nephila::crawl::config::Settings;
use nephila::crawl::flow::Outcome;
use nephila::engine::{self, Summary};
use nephila::proto::url::Url;
use serde_json::Value;
use server::{Server, answer, page};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const HOST: &str = "127.0.0.1";

fn settings() -> Settings {
    Settings {
        allow_private: true,
        dns: vec!["127.0.0.1:9".parse().expect("an address")],
        delay_ms: 10,
        retry_base_ms: 10,
        sync_ms: 20,
        journal_sync_ms: 10,
        ..Settings::default()
    }
}

fn urls(texts: &[String]) -> Vec<Url> {
    texts.iter().map(|text| Url::parse(text).expect("a URL")).collect()
}

fn crawl(settings: Settings, seeds: &[String], out: &Path) {
    engine::crawl(settings, urls(seeds), out, None, &mut |_| {}).expect("a crawl");
}

fn resume(settings: Settings, out: &Path) -> Summary {
    engine::resume(settings, Vec::new(), out, None, &mut |_| {}).expect("a crawl")
}

fn manner(is_json: bool, line_count_max: usize) -> Manner {
    Manner { is_json, line_count_max }
}

/// Returns the answer as JSON. The question must not change anything in the directory.
fn look(out: &Path, question: &Question) -> Value {
    let before = files(out);
    let text = ask(out, question, manner(true, 100)).expect("an answer");
    assert!(files(out) == before, "{question:?} has changed the directory");
    serde_json::from_str(&text).expect("JSON")
}

/// Returns every file of a directory with its bytes.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), std::fs::read(&path).expect("a file"));
        }
    }
    found
}

fn nephila(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nephila"));
    command.args(arguments).env_remove("NEPHILA_LOG").output().expect("a process")
}

fn texts(list: &Value, field: &str) -> Vec<String> {
    let list = list.as_array().expect("a list");
    list.iter().map(|of| of[field].as_str().expect("a text").to_owned()).collect()
}

/// A site of twelve pages, all linked from the first; one of them is missing, one is broken.
fn site() -> Server {
    Server::start(|_, path, _| match path {
        "/robots.txt" => answer("200 OK", "User-agent: *\nDisallow: /private/\n"),
        "/" => page(&["/a", "/b", "/c", "/missing", "/d", "/e", "/private/x", "/f", "/g", "/h"]),
        "/missing" => answer("404 Not Found", "no"),
        "/broken" => answer("500 Oops", "no"),
        _ => page(&[]),
    })
}

/// The number of links on the first page: so many that most of them are on disk, because RAM has no
/// room for them.
const LINKED_COUNT: usize = 60;

fn linked_path(number: usize) -> String {
    format!("/page-{number:03}/{}", "x".repeat(number * 7 % 90))
}

fn wide_site() -> Server {
    Server::start(|_, path, _| match path {
        "/robots.txt" => answer("200 OK", "User-agent: *\nDisallow: /page-007/\n"),
        "/" => {
            let links: Vec<String> = (0..LINKED_COUNT).map(linked_path).collect();
            page(&links.iter().map(String::as_str).collect::<Vec<_>>())
        }
        _ => page(&[]),
    })
}

#[test]
fn links_that_were_left_out_are_told_with_their_pages() {
    let (server, place) = (wide_site(), tempfile::tempdir().expect("a directory"));
    let out = place.path().join("crawl");
    let seed = server.url(HOST, "/");
    crawl(Settings { page_link_count_max: 5, ..settings() }, std::slice::from_ref(&seed), &out);
    assert_eq!(server.asked().len(), 1 + 5);
    let told = &look(&out, &Question::Overview)["links_left_out"];
    assert_eq!((&told["links"], &told["pages"]), (&(LINKED_COUNT - 5).into(), &1.into()));
    assert_eq!(told["most"][0]["url"], *seed);
    assert_eq!(told["most"][0]["links"], told["links"]);
    let history = look(&out, &Question::Url(seed));
    assert_eq!(history["records"][0]["links_left_out"], told["links"]);
    let text = ask(&out, &Question::Overview, manner(false, 10)).expect("an answer");
    assert!(text.contains("links left out (page_link_count_max): 55, of 1 page"), "{text}");
}

/// Returns the number of bytes of queues that are on disk.
fn spilled_bytes(out: &Path) -> usize {
    let is_segment = |path: &Path| path.extension().is_some_and(|ending| ending == "seg");
    files(out).iter().filter(|(path, _)| is_segment(path)).map(|(_, bytes)| bytes.len()).sum()
}

#[test]
fn a_hosts_urls_are_listed_in_the_order_in_which_a_resumed_crawl_asks_for_them() {
    for frontier_memory_mb in [256, 0] {
        let (server, place) = (wide_site(), tempfile::tempdir().expect("a directory"));
        let out = place.path().join("crawl");
        let unlimited = Settings { frontier_memory_mb, ..settings() };
        let limited = Settings { max_pages: 3, ..unlimited.clone() };
        crawl(limited, &[server.url(HOST, "/")], &out);
        assert_eq!(server.asked().len(), 3);
        assert_eq!(spilled_bytes(&out) > 1_000, frontier_memory_mb == 0);
        let listed = look(&out, &Question::Host(HOST.into()));
        let paths: Vec<String> = (2..LINKED_COUNT).map(linked_path).collect();
        let expected: Vec<String> = paths.iter().map(|path| server.url(HOST, path)).collect();
        assert_eq!(texts(&listed["urls"], "url"), expected);
        for url in listed["urls"].as_array().expect("a list") {
            assert_eq!((&url["state"], &url["class"]), (&"queued".into(), &"normal".into()));
            assert_eq!((&url["via"], &url["depth"]), (&"link".into(), &1.into()));
            assert_eq!(url["tries"], 0);
        }
        assert_eq!(look(&out, &Question::Overview)["urls"]["queued"], paths.len());
        let last = look(&out, &Question::Url(expected[expected.len() - 1].clone()));
        assert_eq!((&last["state"], &last["to_come"]["depth"]), (&"to_come".into(), &1.into()));
        // The host is named by a URL, and the list is cut.
        let cut = ask(&out, &Question::Host(server.url(HOST, "/nowhere")), manner(true, 3));
        let cut: Value = serde_json::from_str(&cut.expect("an answer")).expect("JSON");
        assert_eq!(texts(&cut["urls"], "url"), &expected[..3]);
        assert_eq!(cut["more"], paths.len() - 3);
        resume(unlimited, &out);
        let allowed = paths.iter().filter(|path| !path.starts_with("/page-007/"));
        let expected: Vec<String> = allowed.map(|path| format!("{HOST}{path}")).collect();
        assert_eq!(server.asked(), expected);
    }
}

#[test]
fn the_overview_accounts_for_every_url() {
    let (server, place) = (site(), tempfile::tempdir().expect("a directory"));
    let out = place.path().join("crawl");
    let limited = Settings { max_pages: 6, ..settings() };
    crawl(limited, &[server.url(HOST, "/")], &out);
    let told = look(&out, &Question::Overview);
    // The seed and its ten links are known; six pages and the missing one have ended.
    let urls = &told["urls"];
    assert_eq!((&urls["known"], &urls["ended"]), (&11.into(), &7.into()));
    assert_eq!(
        (&urls["queued"], &urls["waiting"], &urls["open"]),
        (&4.into(), &0.into(), &0.into())
    );
    assert_eq!(urls["queued_by_class"]["normal"], 4);
    // There were seven requests for pages and one for robots.txt.
    assert_eq!(
        (&told["requests"]["fetched"], &told["requests"]["client_error"]),
        (&7.into(), &1.into())
    );
    assert_eq!(told["dead_letters"]["by_reason"]["client_error"], 1);
    let hosts = &told["hosts"];
    assert_eq!((&hosts["known"], &hosts["with_urls"]), (&1.into(), &1.into()));
    assert_eq!(hosts["most_queued"][0]["host"], HOST);
    assert_eq!(hosts["most_queued"][0]["urls"], 4);
    assert_eq!(told["running"], false);
    assert!(told["checkpoint"]["in_s"].as_f64().expect("a time") < 0.0);
    resume(settings(), &out);
    let told = look(&out, &Question::Overview);
    assert_eq!((&told["urls"]["known"], &told["urls"]["ended"]), (&11.into(), &11.into()));
    assert_eq!(told["requests"]["robots_denied"], 1);
    let text = ask(&out, &Question::Overview, manner(false, 10)).expect("an answer");
    for line in ["no crawl runs here", "  known                 11", "  ended                 11"] {
        assert!(text.contains(line), "{line:?} is not in {text}");
    }
}

#[test]
fn a_url_tells_how_it_was_found_what_was_asked_and_where_its_record_is() {
    let (server, place) = (site(), tempfile::tempdir().expect("a directory"));
    let out = place.path().join("crawl");
    let seeds = [server.url(HOST, "/"), server.url(HOST, "/broken")];
    crawl(Settings { retry_count_max: 2, ..settings() }, &seeds, &out);
    let broken = look(&out, &Question::Url(server.url(HOST, "/broken")));
    assert_eq!((&broken["state"], &broken["request_count"]), (&"dead".into(), &3.into()));
    assert_eq!((&broken["dead"]["via"], &broken["dead"]["tries"]), (&"seed".into(), &3.into()));
    assert_eq!(broken["dead"]["reason"], "server_error");
    for request in broken["requests"].as_array().expect("a list") {
        assert_eq!(
            (&request["status"], &request["outcome"]),
            (&500.into(), &"server_error".into())
        );
    }
    let fetched = look(&out, &Question::Url(server.url(HOST, "/a")));
    assert_eq!((&fetched["state"], &fetched["request_count"]), (&"ended".into(), &1.into()));
    assert_eq!(fetched["robots"]["allowed"], true);
    let record = &fetched["records"][0];
    let file = out.join("warc").join(record["file"].as_str().expect("a name"));
    let bytes = std::fs::read(file).expect("a WARC file");
    let (offset, length) = (record["offset"].as_u64().unwrap(), record["length"].as_u64().unwrap());
    let member = &bytes[offset as usize..(offset + length) as usize];
    let mut text = String::new();
    flate2::read::GzDecoder::new(member).read_to_string(&mut text).expect("a record");
    assert!(text.contains(&format!("WARC-Target-URI: {}", server.url(HOST, "/a"))), "{text}");
    let denied = look(&out, &Question::Url(server.url(HOST, "/private/x")));
    assert_eq!(denied["robots"]["rule"], "line 2: Disallow: /private/");
    assert_eq!(denied["robots"]["allowed"], false);
    let unknown = ask(&out, &Question::Url(server.url(HOST, "/never")), manner(false, 9));
    assert!(matches!(unknown, Err(InspectError::Unknown(_))), "{unknown:?}");
}

fn dead(out: &Path, reason: Option<Outcome>, host: Option<&str>) -> Vec<String> {
    let filter = DeadFilter { reason, host: host.map(str::to_owned) };
    texts(&look(out, &Question::Dead(filter))["dead"], "url")
}

#[test]
fn a_dead_letter_is_listed_once_with_its_last_reason() {
    let (server, place) = (site(), tempfile::tempdir().expect("a directory"));
    let out = place.path().join("crawl");
    let other = "127.0.0.2";
    let seeds = [server.url(HOST, "/broken"), server.url(other, "/missing")];
    crawl(Settings { retry_count_max: 0, ..settings() }, &seeds, &out);
    let mut all = dead(&out, None, None);
    all.sort();
    assert_eq!(all, seeds);
    assert_eq!(dead(&out, None, Some(other)), seeds[1..]);
    assert_eq!(dead(&out, Some(Outcome::ServerError), None), seeds[..1]);
    assert_eq!(dead(&out, Some(Outcome::DnsFailed), None), [] as [String; 0]);
    // The log is as a crash may leave it: one letter is there twice, the second time with another
    // reason, and the last line is incomplete.
    let log = (0..2).map(|shard| out.join(format!("requests/dead-{shard:02}.log")));
    let log = log
        .into_iter()
        .find(|log| std::fs::read_to_string(log).is_ok_and(|text| text.contains(&seeds[0])));
    let log = log.expect("a log with the letter");
    let text = std::fs::read_to_string(&log).expect("the log");
    let again = format!("{text}2099-01-01T00:00:00Z reset 1 0 seed {}\n2099-01-01T00:0", seeds[0]);
    std::fs::write(&log, again).expect("the log");
    assert_eq!(dead(&out, Some(Outcome::Reset), None), seeds[..1]);
    assert_eq!(dead(&out, Some(Outcome::ServerError), None), [] as [String; 0]);
    assert_eq!(dead(&out, None, Some(HOST)), seeds[..1]);
}

#[test]
fn nothing_that_steers_a_terminal_is_printed() {
    let (server, place) = (site(), tempfile::tempdir().expect("a directory"));
    let out = place.path().join("crawl");
    crawl(settings(), &[server.url(HOST, "/")], &out);
    let url = server.url(HOST, "/a");
    let indexes = std::fs::read_dir(out.join("warc")).expect("a folder");
    let indexes = indexes.map(|entry| entry.expect("an entry").path());
    let is_index = |path: &PathBuf| path.extension().is_some_and(|of| of == "cdxj");
    let marked = format!("\"{url}\"");
    let mut forged_count = 0;
    for path in indexes.filter(is_index) {
        let text = std::fs::read_to_string(&path).expect("an index");
        let Some(line) = text.lines().find(|line| line.contains(&marked)) else { continue };
        let forged = line.replace("\"filename\": \"", "\"filename\": \"\\u001b[2J\u{202e}");
        let forged = forged.replace("\"status\": \"", "\"status\": \"\u{9b}2J");
        std::fs::write(&path, format!("{text}{forged}\n")).expect("an index");
        forged_count += 1;
    }
    assert_eq!(forged_count, 1);
    for is_json in [true, false] {
        let text = ask(&out, &Question::Url(url.clone()), manner(is_json, 9)).expect("an answer");
        assert!(text.contains("u001b[2J") || text.contains("x1b[2J"), "{text}");
        let is_safe = |char: char| char == '\n' || !nephila::base::escape::is_unprintable(char);
        assert!(text.chars().all(is_safe), "{text:?}");
    }
    let path = out.to_str().expect("a path");
    let refused = nephila(&["explain", path, "\u{1b}[2J"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(!String::from_utf8_lossy(&refused.stderr).contains('\u{1b}'));
}

#[test]
fn a_directory_without_a_crawl_and_bad_flags_end_with_two_and_strangers_with_one() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().to_str().expect("a path");
    for arguments in [
        &["inspect", path][..],
        &["explain", path, "h.test"],
        &["inspect", path, "--reinject-dead"],
        &["inspect", path, "--reason", "bored"],
        &["inspect", path, "--reason", "reset"],
        &["inspect", path, "http://a.test/", "--dead"],
        &["inspect", path, "--reinject"],
    ] {
        let output = nephila(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
    assert_eq!(
        std::fs::read_dir(place.path()).expect("a directory").count(),
        0,
        "nothing was made"
    );
    let server = site();
    let out = place.path().join("crawl");
    crawl(settings(), &[server.url(HOST, "/")], &out);
    let out = out.to_str().expect("a path");
    for arguments in [
        &["explain", out, "stranger.test"][..],
        &["inspect", out, "--host", "stranger.test"],
        &["inspect", out, "http://stranger.test/"],
    ] {
        let output = nephila(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            errors.contains("knows nothing of") && errors.contains("stranger.test"),
            "{errors}"
        );
    }
}

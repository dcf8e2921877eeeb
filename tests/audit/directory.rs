//! A crawl judged by its own directory: request logs, WARC files and manifest.

use nephila::lab::audit::crawl_dir::CrawlDir;
use nephila::lab::audit::{AuditError, Kind, Verdict, judge};
use nephila::lab::sim::crawl::{self, CrawlPlan};
use nephila::lab::web::WebSpec;
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Returns the directory that a simulated crawl of a rough web leaves.
fn crawled() -> TempDir {
    let rough = WebSpec::profile("rough").expect("a profile");
    let spec = WebSpec { host_count: 12, page_count: 300, hosts_per_address: 2, ..rough };
    let plan = CrawlPlan::new(3, spec, 2).expect("a plan");
    let crawl = crawl::crawl(&plan).expect("a crawl that ends");
    let place = tempfile::tempdir().expect("a directory");
    for (name, bytes) in &crawl.files {
        let path = place.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("a file");
    }
    let settings = plan.settings.to_toml();
    let manifest = serde_json::json!({"product": "nephila", "settings": settings});
    fs::write(place.path().join("MANIFEST.json"), manifest.to_string()).expect("a manifest");
    place
}

fn verdict(place: &Path) -> Verdict {
    let crawl = CrawlDir::open(place).expect("a crawl's directory");
    judge(&crawl, &crawl.terms, None).expect("readable logs")
}

/// Rewrites the first request log.
fn edit(place: &Path, change: impl Fn(&str) -> String) {
    let path = place.join("requests/shard-00.log");
    let text = fs::read_to_string(&path).expect("a log");
    let changed = change(&text);
    assert_ne!(changed, text, "the change changes something");
    fs::write(path, changed).expect("a log");
}

fn files(place: &Path, ending: &str) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(place.join("warc")).expect("WARC files");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.to_string_lossy().ends_with(ending)).collect()
}

#[test]
fn a_crawl_passes_by_its_own_directory_with_or_without_an_index() {
    let place = crawled();
    let indexed = verdict(place.path());
    assert!(indexed.pass, "{indexed}");
    assert!(indexed.request_count > 250 && indexed.bodiless_robots_count == 0, "{indexed}");
    let indexes = files(place.path(), ".cdxj");
    assert!(!indexes.is_empty());
    indexes.iter().for_each(|path| fs::remove_file(path).expect("an index"));
    assert_eq!(verdict(place.path()), indexed, "the same when the files are read from end to end");
}

#[test]
fn rules_are_read_from_the_stored_robots_txt() {
    let place = crawled();
    // A page that the host's robots.txt forbids replaces one that it allows.
    edit(place.path(), |text| text.replace("/p/", "/private/"));
    let verdict = verdict(place.path());
    assert!(verdict.count(Kind::AgainstRules) > 0, "{verdict}");
}

#[test]
fn robots_txt_that_was_never_stored_is_said_to_be_unjudged() {
    let place = crawled();
    files(place.path(), "").iter().for_each(|path| fs::remove_file(path).expect("a file"));
    let verdict = verdict(place.path());
    assert!(verdict.bodiless_robots_count > 0, "{verdict}");
}

/// Shifts the times of the last line's segment as a restart does: the monotonic clock begins anew.
fn restarted(text: &str, apart_ns: u64) -> String {
    let last = text.lines().rfind(|line| line.contains(" 200 fetched ")).expect("a page");
    let start = text.lines().next().expect("a remark");
    let mut columns = start.split(' ').skip(2).map(|column| column.parse::<u64>());
    let began = columns.next().expect("a time").expect("a number");
    let unix = columns.next().expect("a time").expect("a number");
    let (at, rest) = last.split_once(' ').expect("columns");
    let at: u64 = at.parse().expect("a number");
    // The page is requested once more, by a process whose clock stands at 5 when it starts.
    let wall = unix + (at - began) + apart_ns;
    format!("{text}# start 5 {wall} again\n5 {}\n", rest.replace("/p/", "/q/"))
}

#[test]
fn gaps_across_a_restart_go_by_the_wall_clock() {
    let place = crawled();
    let far = |text: &str| restarted(text, 1_000_000_000_000);
    edit(place.path(), far);
    assert_eq!(verdict(place.path()).count(Kind::HostGap), 0);
    let place = crawled();
    edit(place.path(), |text| restarted(text, 600_000_000));
    let close = verdict(place.path());
    assert_eq!(close.count(Kind::HostGap), 1, "{close}");
}

#[test]
fn rules_that_an_earlier_life_learnt_need_not_stand_in_the_log_of_a_resumed_one() {
    let without_robots = |text: &str| -> String {
        let is_kept = |line: &&str| !line.contains("/robots.txt ");
        text.lines().filter(is_kept).map(|line| format!("{line}\n")).collect()
    };
    let place = crawled();
    let path = place.path().to_str().expect("a path");
    edit(place.path(), without_robots);
    let (code, text, _) = audit(&[path]);
    assert!(code == Some(1) && text.contains("robots"), "no life before it: {text}");
    edit(place.path(), |text| text.replacen('\n', " resumed\n", 1));
    let (code, text, _) = audit(&[path]);
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn a_torn_line_is_forgiven_and_a_foreign_one_is_not() {
    let place = crawled();
    edit(place.path(), |text| format!("{text}123 2026-01-"));
    assert!(verdict(place.path()).pass);
    edit(place.path(), |text| format!("{text}\n"));
    let crawl = CrawlDir::open(place.path()).expect("a directory");
    let refused = judge(&crawl, &crawl.terms, None);
    assert!(matches!(refused, Err(AuditError::BadLine { .. })), "{refused:?}");
}

fn audit(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_nephila"))
        .arg("audit")
        .args(arguments)
        .output()
        .expect("the program");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_command_says_pass_fail_or_that_it_cannot_tell() {
    let place = crawled();
    let path = place.path().to_str().expect("a path");
    let (code, text, _) = audit(&[path]);
    assert!(code == Some(0) && text.starts_with("PASS"), "{text}");
    let (code, text, _) = audit(&[path, "--delay-ms", "60000"]);
    assert!(code == Some(1) && text.starts_with("FAIL"), "{text}");
    let (code, text, _) = audit(&[path, "--delay-ms", "60000", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((code, &json["pass"]), (Some(1), &serde_json::Value::Bool(false)));
    assert!(json["violation_counts"]["host_gap"].as_u64() > Some(0), "{text}");
    let (code, _, error) = audit(&["/nowhere"]);
    assert!(code == Some(2) && error.contains("MANIFEST.json"), "{error}");
    assert_eq!(audit(&["--log", "/nowhere"]).0, Some(2));
    assert_eq!(audit(&[]).0, Some(2));
}

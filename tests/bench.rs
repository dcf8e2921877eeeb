//! The benchmark command on a small scale: a suite measures, is judged, and files its results.
//! Nothing here looks at speed.

use serde_json::Value;
use std::process::Command;

/// Two ports that other tests of this machine are unlikely to use at the same time.
fn port() -> u16 {
    20_000 + (std::process::id() % 5_000) as u16 * 2
}

fn bench(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_nephila"))
        .arg("bench")
        .args(arguments)
        .output()
        .expect("the program");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_suite_of_crawls_is_measured_judged_and_filed() {
    let place = tempfile::tempdir().expect("a folder");
    let (files, filed) = (place.path().join("files"), place.path().join("filed"));
    let (files, filed) = (files.to_str().expect("a path"), filed.to_str().expect("a path"));
    let port = port().to_string();
    let (code, text, error) = bench(&[
        "small",
        "--hosts",
        "40",
        "--runs",
        "2",
        "--warm",
        "2",
        "--seconds",
        "3",
        "--json",
        "--port",
        &port,
        "--dir",
        files,
        "--file",
        filed,
    ]);
    assert_eq!(code, Some(0), "{error}");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let runs = report["data"]["runs"].as_array().expect("runs");
    assert_eq!((runs.len(), report["data"]["limit"].as_array().expect("limits").len()), (2, 2));
    for run in runs {
        assert_eq!(run["referee"]["pass"], true, "{run}");
        assert!(run["counts"]["pages"].as_u64() > Some(40), "{}", run["counts"]);
        let stages = &run["per_page"]["stages_us"];
        for stage in ["ring", "digest", "parse", "links", "store"] {
            assert!(stages[stage].as_f64() > Some(0.0), "{stage}: {stages}");
        }
        assert!(run["per_page"]["syscalls"].as_f64() > Some(0.0));
        assert!(run["latency_us"]["total"]["count"].as_u64() > Some(40));
    }
    for ending in [".md", ".json", ".html", ".hlog"] {
        let names = std::fs::read_dir(filed).expect("a folder");
        let mut names = names.map(|entry| entry.expect("an entry").file_name());
        assert!(names.any(|name| name.to_string_lossy().ends_with(ending)), "{ending}");
    }
}

#[test]
fn parsers_are_compared_on_made_pages_where_there_is_no_folder() {
    let (code, text, error) = bench(&["parse", "--runs", "1", "--bodies", "/nowhere", "--json"]);
    assert_eq!(code, Some(0), "{error}");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let engines = report["data"]["engines"].as_array().expect("engines");
    assert!(engines.len() >= 3, "{engines:?}");
    assert!(engines.iter().all(|engine| engine["link_count"].as_u64() > Some(0)), "{engines:?}");
}

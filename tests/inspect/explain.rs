//! `nephila explain`: every clock that can hold a host.

use super::server::{Server, answer, page};
use super::{nephila, settings, urls};
use nephila::crawl::config::Settings;
use nephila::engine;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;

const SLOW: &str = "127.0.1.1";
const THROTTLING: &str = "127.0.1.2";
const SILENT: &str = "127.0.1.3";
const FAILING: &str = "127.0.1.4";
const DONE: &str = "127.0.1.5";
const PLAIN: &str = "127.0.1.6";

fn server() -> Server {
    Server::start(|host, path, _| match (host, path) {
        (SLOW, "/robots.txt") => {
            let rules = "User-agent: *\nDisallow: /private/\n# slowly\nCrawl-delay: 60\n";
            answer("200 OK", rules)
        }
        (SILENT, "/robots.txt") => answer("503 Gone fishing", ""),
        (_, "/robots.txt") => answer("404 None", ""),
        (THROTTLING, _) => answer("429 Slow down\r\nRetry-After: 900", ""),
        (FAILING, _) => answer("500 Oops", ""),
        _ => page(&[]),
    })
}

/// One connection at a port for HTTPS, where no TLS is spoken.
fn plain_server() -> (std::thread::JoinHandle<()>, String) {
    let listener = TcpListener::bind((PLAIN, 0)).expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("a client");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    (thread, format!("https://{PLAIN}:{port}/"))
}

fn explained(out: &Path, host: &str) -> (Value, String) {
    let before = super::files(out);
    let path = out.to_str().expect("a path");
    let output = nephila(&["explain", path, host, "--json"]);
    assert!(output.status.success(), "{output:?}");
    let text = nephila(&["explain", path, host]);
    assert!(super::files(out) == before, "the directory has changed");
    let value = serde_json::from_slice(&output.stdout).expect("JSON");
    (value, String::from_utf8(text.stdout).expect("text"))
}

#[track_caller]
fn assert_in(value: &Value, seconds: std::ops::Range<f64>) {
    let in_s = value["in_s"].as_f64().unwrap_or_else(|| panic!("no moment: {value}"));
    assert!(seconds.contains(&in_s), "in {in_s} s, not in {seconds:?}");
}

#[test]
fn every_host_says_what_it_waits_for() {
    let (server, place) = (server(), tempfile::tempdir().expect("a directory"));
    let out = place.path().join("crawl");
    let mut seeds: Vec<String> =
        [THROTTLING, SILENT, FAILING, DONE].map(|host| server.url(host, "/")).into();
    let (plain_thread, plain_url) = plain_server();
    seeds.push(plain_url);
    seeds.extend(["/private/x", "/y"].map(|path| server.url(SLOW, path)));
    let short = Settings {
        max_seconds: 2,
        delay_ms: 200,
        breaker_failure_count: 1,
        breaker_open_ms: 500_000,
        retry_base_ms: 300_000,
        ..settings()
    };
    engine::crawl(short, urls(&seeds), &out, None, &mut |_| {}).expect("a crawl");

    let (slow, text) = explained(&out, SLOW);
    assert_eq!(
        (&slow["state"], &slow["delay"]["because"]),
        (&"delay".into(), &"crawl_delay".into())
    );
    assert_eq!(
        (&slow["delay"]["ms"], &slow["delay"]["crawl_delay"]["line"]),
        (&60_000.into(), &4.into())
    );
    assert_in(&slow["next_eligible"], 20.0..60.0);
    assert_eq!(slow["queued"]["high"], 2);
    assert_eq!(slow["next_url"]["url"], server.url(SLOW, "/private/x").as_str());
    assert_eq!(slow["next_url"]["denied_by"], "line 2: Disallow: /private/");
    let robots = &slow["origins"][0]["robots"];
    assert_eq!((&robots["state"], &robots["rules"]), (&"known".into(), &1.into()));
    let origin = server.url(SLOW, "");
    for part in [
        format!(
            "{SLOW}: waits for its delay of 60.0 s (Crawl-delay, line 4 of {origin}/robots.txt)"
        ),
        format!("forbidden by {origin}/robots.txt, line 2: Disallow: /private/"),
        "  next eligible         2".to_owned(),
        "  queued                2 (urgent 0, high 2, normal 0, low 0)".to_owned(),
        "no crawl runs here".to_owned(),
    ] {
        assert!(text.contains(&part), "{part:?} is not in {text}");
    }

    let (throttling, text) = explained(&out, &server.url(THROTTLING, "/any"));
    assert_eq!(throttling["state"], "retry_after");
    assert_in(&throttling["next_eligible"], 850.0..901.0);
    assert!(text.contains("waits for what it asked for (Retry-After)"), "{text}");

    let (silent, text) = explained(&out, SILENT);
    let robots = &silent["origins"][0]["robots"];
    assert_eq!(robots["state"], "unreachable");
    assert_in(&robots["since"], -30.0..0.0);
    assert_in(&robots["retry"], 250.0..400.0);
    assert_in(&silent["origins"][0]["breaker"]["since"], -30.0..0.0);
    let holds: Vec<_> = silent["holds"].as_array().expect("a list").iter().collect();
    assert!(holds.iter().any(|hold| hold["kind"] == "robots_unreachable"), "{silent}");
    assert!(text.contains("unreachable since"), "{text}");

    let (failing, text) = explained(&out, FAILING);
    let breaker = &failing["origins"][0]["breaker"];
    assert_eq!((&breaker["open"], &breaker["cause"]), (&true.into(), &"server_error".into()));
    assert_eq!((&breaker["failures"], &breaker["given_up"]), (&1.into(), &false.into()));
    assert_in(&breaker["since"], -30.0..0.0);
    assert_in(&breaker["until"], 470.0..626.0);
    assert_eq!(failing["waiting"], 1);
    assert!(text.contains("waits for the next try of a URL that failed"), "{text}");
    assert!(text.contains("open since 2") && text.contains("1 failure in a row"), "{text}");

    plain_thread.join().expect("one client");
    let (plain, text) = explained(&out, PLAIN);
    let breaker = &plain["origins"][0]["breaker"];
    assert_eq!((&breaker["open"], &breaker["cause"]), (&true.into(), &"tls_protocol".into()));
    assert_eq!(plain["last_outcome"], "tls_protocol");
    assert!(text.contains("tls_protocol") && text.contains("speaks no TLS"), "{text}");

    let (done, text) = explained(&out, DONE);
    assert_eq!((&done["state"], &done["next_eligible"]), (&"idle".into(), &Value::Null));
    assert!(text.contains("no URL of it is left to fetch"), "{text}");
    assert!(text.contains("  delay                 200 ms (delay_ms)"), "{text}");
}

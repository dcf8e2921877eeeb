//! Where links are followed, as an operator sees it: which requests other people's servers get by
//! default, what the first line of a run says, and what a resumed crawl keeps.

#![allow(clippy::disallowed_types)] // the server's thread is told its port

#[path = "inspect/server.rs"]
#[allow(dead_code)] // each test file uses its part
mod server;

use nephila::crawl::config::Stay;
use nephila::engine::Manifest;
use nephila::lab::web::log::Entry;
use nephila::lab::web::{Stand, StandPlan, WebSpec};
use server::{Server, answer, page};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs a crawl in its own process, until it ends.
fn crawl(out: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nephila"));
    command.args(["crawl", "--out", out.to_str().expect("a path"), "--allow-private"]);
    command.args(["--contact", "http://crawler.test/", "--delay-ms", "10", "--max-seconds", "60"]);
    command.args(["--set", "retry_base_ms=10", "--set", "sync_ms=50"]).args(arguments);
    command.env_remove("NEPHILA_LOG").stdin(Stdio::null()).output().expect("a process")
}

#[track_caller]
fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

/// The first line of a run, without its time.
#[track_caller]
fn first_line(output: &Output) -> String {
    let said = said(output);
    said.lines().next().expect("a line").to_owned()
}

/// Two hosts whose pages link to each other.
fn two_hosts() -> Server {
    let port = std::sync::Arc::new(std::sync::OnceLock::new());
    let of_server = port.clone();
    let server = Server::start(move |_, path, _| {
        let port = of_server.get().copied().unwrap_or(0);
        let (one, two) =
            (format!("http://127.0.0.1:{port}/one"), format!("http://127.0.0.2:{port}/two"));
        match path {
            "/robots.txt" => answer("404 None", ""),
            "/" => page(&["/own", &one, &two]),
            "/away" => format!(
                "HTTP/1.1 301 Moved\r\nLocation: {two}\r\nContent-Length: 0\r\n\
                 Connection: close\r\n\r\n"
            ),
            _ => page(&[]),
        }
    });
    port.set(server.port).expect("set once");
    server
}

fn asked(server: &Server) -> BTreeSet<String> {
    server.asked().into_iter().collect()
}

fn set(texts: &[&str]) -> BTreeSet<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn a_crawl_of_one_site_stays_on_its_registrable_domain_unless_told_otherwise() {
    let profile = WebSpec::profile("default").expect("a profile");
    let spec = WebSpec { host_count: 40, page_count: 400, ..profile };
    for (arguments, is_kept) in [(&[][..], true), (&["--stay", "web"][..], false)] {
        let place = tempfile::tempdir().expect("a directory");
        let log = place.path().join("web.log");
        let plan = StandPlan { log: Some(log.clone()), ..StandPlan::default() };
        let stand = Stand::start(spec.clone(), plan).expect("a web");
        let dns = stand.dns.to_string();
        let all = [&[stand.seed_url.as_str(), "--dns", &dns], arguments].concat();
        let output = crawl(&place.path().join("crawl"), &all);
        stand.stop().expect("a whole log");
        assert!(output.status.success(), "{}", said(&output));
        let text = std::fs::read_to_string(&log).expect("the log");
        let entries = text.lines().filter(|line| !line.starts_with('#'));
        let hosts: BTreeSet<String> =
            entries.filter_map(Entry::parse).map(|entry| entry.host).collect();
        let is_own = |host: &String| host.contains(".site0.test");
        let first = first_line(&output);
        if is_kept {
            assert!(hosts.iter().all(is_own) && hosts.len() > 1, "{hosts:?}");
            assert!(first.contains("crawl of 1 seed: links are followed on the domain site0.test"));
            assert!(first.contains("--stay web follows them everywhere"), "{first}");
        } else {
            assert!(hosts.len() > 20, "{hosts:?}");
            assert!(first.contains("crawl of 1 seed: links are followed everywhere"), "{first}");
        }
    }
}

#[test]
fn an_address_as_seed_stands_for_itself_and_every_seed_adds_its_own() {
    let server = two_hosts();
    let place = tempfile::tempdir().expect("a directory");
    let seed = server.url("127.0.0.1", "/");
    let output = crawl(&place.path().join("one"), &[&seed]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(asked(&server), set(&["127.0.0.1/", "127.0.0.1/own", "127.0.0.1/one"]));
    assert!(first_line(&output).contains("on the domain 127.0.0.1 (stay"));

    // With a file of seeds, the domains of all of them are followed.
    let file = place.path().join("seeds");
    std::fs::write(&file, format!("{seed}\n{}\n", server.url("127.0.0.2", "/"))).expect("a file");
    let output = crawl(&place.path().join("two"), &["--seeds", file.to_str().expect("a path")]);
    assert!(asked(&server).is_superset(&set(&["127.0.0.1/one", "127.0.0.2/two"])));
    assert!(first_line(&output).contains("on 2 domains 127.0.0.1, 127.0.0.2 (stay"));
}

#[test]
fn a_seed_that_redirects_out_of_the_crawl_is_told_and_not_followed() {
    let server = two_hosts();
    let place = tempfile::tempdir().expect("a directory");
    let seed = server.url("127.0.0.1", "/away");
    let output = crawl(&place.path().join("crawl"), &[&seed]);
    assert_eq!(asked(&server), set(&["127.0.0.1/away"]));
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in [format!("redirected            {seed}"), "crawl with --stay web".to_owned()] {
        assert!(said.contains(&part), "{part:?} is not in {said}");
    }
}

#[test]
fn a_resumed_crawl_goes_as_far_as_it_did_whatever_the_default_is_by_now() {
    let server = two_hosts();
    let place = tempfile::tempdir().expect("a directory");
    let out = place.path().join("crawl");
    let file = place.path().join("nephila.toml");
    std::fs::write(&file, "delay_ms = 20\n").expect("a file");
    let config = ["--config", file.to_str().expect("a path")];
    let seed = server.url("127.0.0.1", "/");
    let web = [&config[..], &[&seed, "--stay", "web", "--max-pages", "1"]].concat();
    assert!(crawl(&out, &web).status.success());
    asked(&server);
    // The file does not have `stay`, like that of a crawl that was begun when `web` was the
    // default.
    let output = crawl(&out, &[&config[..], &["--resume"]].concat());
    assert!(output.status.success(), "{}", said(&output));
    assert!(first_line(&output).contains("crawl resumed: links are followed everywhere"));
    assert!(asked(&server).contains("127.0.0.2/two"));
    assert_eq!(Manifest::load(&out).expect("a manifest").settings.stay, Stay::Web);
    // Another value is refused, because the state would then mean something else.
    let output = crawl(&out, &["--resume", "--stay", "domain"]);
    assert!(said(&output).contains("`stay = \"web\"`"), "{}", said(&output));
}

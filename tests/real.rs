//! Crawls over real sockets, real rings and a real disk, judged by the web's log.

use nephila::config::{Settings, Stay};
use nephila::engine::{self, EndReason};
use nephila::metrics::Count;
use nephila::url::Url;
use nephila::web::truth::Expect;
use nephila::web::{Stand, StandPlan, Web, WebSpec, log::Entry};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

fn settings(stand: &Stand, delay_ms: u64) -> Settings {
    Settings {
        allow_private: true,
        contact: "http://crawler.test/".into(),
        stay: Stay::Web,
        dns: vec![stand.dns],
        delay_ms,
        retry_base_ms: delay_ms,
        ..Settings::default()
    }
}

#[test]
fn a_real_crawl_on_all_cores_fetches_the_reachable_set_politely() {
    let place = tempfile::tempdir().expect("a directory");
    let (log, out) = (place.path().join("web.log"), place.path().join("crawl"));
    let profile = WebSpec::profile("default").expect("a profile");
    let mut spec = WebSpec { host_count: 100, page_count: 1_000, ..profile };
    let plan = StandPlan { log: Some(log.clone()), ..StandPlan::default() };
    let stand = Stand::start(spec.clone(), plan).expect("a web");
    spec.port = stand.port;
    let seed = Url::parse(&stand.seed_url).expect("a URL");
    let settings = settings(&stand, 100);
    let summary = engine::crawl(settings, vec![seed], &out, None, &mut |_| {}).expect("a crawl");
    stand.stop().expect("a whole log");
    assert_eq!(summary.reason, EndReason::Done);
    assert!(!summary.warc_files.is_empty());

    let text = std::fs::read_to_string(&log).expect("the log");
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut log: Vec<_> = lines.map(|line| Entry::parse(line).expect("a log line")).collect();
    log.sort_by_key(|entry| entry.at);
    for entry in log {
        if entry.path != "/robots.txt" && !entry.path.starts_with("/sitemap") {
            *counts.entry(format!("http://{}{}", entry.host, entry.path)).or_default() += 1;
        }
        for name in [entry.host.to_string(), entry.local.ip().to_string()] {
            if let Some(before) = last.insert(name, entry.at.0) {
                assert!(entry.at.0 - before >= 100_000_000, "too soon: {entry:?}");
            }
        }
    }
    let web = Web::new(spec).expect("a sound spec");
    let mut pages = 0;
    for entry in web.truth().expect("a truth") {
        let count = counts.remove(&web.url(entry.place)).unwrap_or(0);
        let expected = match entry.expect {
            Expect::Fetched => 1..=4,
            Expect::Redirected | Expect::ClientError => 1..=1,
            Expect::ServerError => 4..=4,
            Expect::Denied | Expect::RobotsUnreachable => 0..=0,
        };
        assert!(expected.contains(&count), "{} asked {count} times", web.url(entry.place));
        pages += u64::from(entry.expect == Expect::Fetched);
    }
    assert!(counts.is_empty(), "never linked, yet asked for: {counts:?}");
    assert_eq!(summary.metrics.count(Count::Pages), pages);
}

#[test]
fn a_page_limit_is_met_exactly_on_all_cores() {
    let place = tempfile::tempdir().expect("a directory");
    let log = place.path().join("web.log");
    let profile = WebSpec::profile("plain").expect("a profile");
    let spec = WebSpec { host_count: 50, page_count: 1_000, sitemap_fraction: 1.0, ..profile };
    let plan = StandPlan { log: Some(log.clone()), ..StandPlan::default() };
    let stand = Stand::start(spec, plan).expect("a web");
    let seed = Url::parse(&stand.seed_url).expect("a URL");
    let settings = Settings { max_pages: 77, ..settings(&stand, 20) };
    let out = place.path().join("crawl");
    let summary = engine::crawl(settings, vec![seed], &out, None, &mut |_| {}).expect("a crawl");
    stand.stop().expect("a whole log");
    assert_eq!(summary.reason, EndReason::PageLimit);
    let text = std::fs::read_to_string(&log).expect("the log");
    let is_page =
        |entry: &Entry| entry.path != "/robots.txt" && !entry.path.starts_with("/sitemap");
    let pages = text.lines().filter_map(Entry::parse).filter(is_page).count();
    assert_eq!(pages, 77, "by the web's log");
    assert!(text.contains("/sitemap.xml"), "and sitemaps beside them");
}

/// A server by hand, whose robots.txt is somewhere else. Says which paths were asked for, in order.
fn crawl_with_moved_robots(location: impl Fn(u16) -> String) -> Vec<String> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let location = location(port);
    let (tell, told) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                request.push(byte[0]);
            }
            let text = String::from_utf8_lossy(&request);
            let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
            let (head, body) = match path.as_str() {
                "/robots.txt" => (format!("301 Moved\r\nLocation: {location}"), ""),
                "/rules.txt" => ("200 OK".into(), "User-agent: *\nDisallow: /private/\n"),
                "/stop" => return,
                _ => (
                    "200 OK\r\nContent-Type: text/html".into(),
                    "<a href=/a>a</a> <a href=/private/b>b</a>",
                ),
            };
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
            stream.write_all(answer.as_bytes()).expect("a client that reads");
            tell.send(path).expect("a test that listens");
        }
    });
    let place = tempfile::tempdir().expect("a directory");
    let settings = Settings {
        allow_private: true,
        dns: vec!["127.0.0.1:9".parse().expect("an address")],
        delay_ms: 20,
        retry_base_ms: 20,
        ..Settings::default()
    };
    let seed = Url::parse(&format!("http://127.0.0.1:{port}/")).expect("a URL");
    let out = place.path().join("crawl");
    let summary = engine::crawl(settings, vec![seed], &out, None, &mut |_| {}).expect("a crawl");
    assert_eq!(summary.reason, EndReason::Done);
    let mut stop = TcpStream::connect(("127.0.0.1", port)).expect("the server");
    stop.write_all(b"GET /stop HTTP/1.1\r\n\r\n").expect("the server");
    server.join().expect("a server that ends");
    told.iter().collect()
}

#[test]
fn a_robots_txt_that_moved_on_its_host_is_found_and_obeyed() {
    let asked = crawl_with_moved_robots(|_| "/rules.txt".into());
    assert_eq!(asked, ["/robots.txt", "/rules.txt", "/", "/a"]);
}

#[test]
fn a_robots_txt_that_moved_to_another_host_is_found_and_obeyed() {
    let asked = crawl_with_moved_robots(|port| format!("http://localhost:{port}/rules.txt"));
    assert_eq!(asked, ["/robots.txt", "/rules.txt", "/", "/a"]);
}

#[test]
fn a_robots_txt_that_redirects_to_itself_lets_nothing_be_fetched() {
    let asked = crawl_with_moved_robots(|_| "/robots.txt".into());
    assert!(asked.iter().all(|path| path == "/robots.txt"), "{asked:?}");
    assert_eq!(asked.len(), 4, "each try is one request, for it leads nowhere");
}

//! The synthetic web is a function of its spec. Its truth is what its pages say, according to a
//! reader that does not know how they were made.

use nephila::base::{Time, oneshot};
use nephila::io::ring::{Care, RingWorld, Wake};
use nephila::io::{Listener, Net, Spawn, Stream};
use nephila::lab::web::truth::Expect;
use nephila::lab::web::{MemorySink, Request, RequestLog, Server, Web, WebSpec};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use url::Url;

/// A time in the period of a web's busy URLs at which they are not busy, for the seeds used here.
const QUIET: u64 = 1_000_000;

struct Response {
    status: u16,
    location: Option<String>,
    body: String,
}

fn web(profile: &str, host_count: u32, page_count: u64, seed: u64) -> Web {
    let spec = WebSpec::profile(profile).unwrap();
    Web::new(WebSpec { host_count, page_count, seed, ..spec }).unwrap()
}

fn raw(web: &Web, url: &Url, now: Time) -> Vec<u8> {
    let host = url.host_str().unwrap();
    let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let request = Request { method: "GET", host, target, ..Request::default() };
    let address =
        web.host_index(host).map_or(IpAddr::from([127, 0, 0, 1]), |host| web.address(host).into());
    let reply = web.respond(&request, address, now);
    let mut out = Vec::new();
    web.write_response(&reply, &mut out);
    out
}

/// Repeats a request, after the wait in Retry-After, until the answer does not ask for another
/// wait.
fn fetch(web: &Web, url: &Url) -> Response {
    let mut seconds = QUIET;
    loop {
        let bytes = raw(web, url, Time::from_ms(seconds * 1_000));
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let field = |name: &str| {
            let mut lines = head.lines();
            lines.find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
        };
        if let Some(wait) = field("Retry-After:") {
            seconds += wait.parse::<u64>().unwrap();
            continue;
        }
        let mut body = bytes[end + 4..].to_vec();
        if field("Transfer-Encoding:").is_some() {
            body = unchunk(&body);
        }
        return Response {
            status: head[9..12].parse().unwrap(),
            location: field("Location:"),
            body: String::from_utf8(body).unwrap(),
        };
    }
}

fn unchunk(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let line = rest.iter().position(|&byte| byte == b'\r').unwrap();
        let size = std::str::from_utf8(&rest[..line]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        body.extend_from_slice(&rest[line + 2..line + 2 + size]);
        rest = &rest[line + 4 + size..];
        if size == 0 {
            return body;
        }
    }
}

/// Finds the hrefs of a page in the crudest way: comments and scripts are removed, and then every
/// `href=` counts.
fn hrefs(html: &str) -> Vec<String> {
    let mut text = html.to_owned();
    for (open, close) in [("<!--", "-->"), ("<script", "</script>"), ("<style", "</style>")] {
        while let Some(start) = text.find(open) {
            let end = start + text[start..].find(close).unwrap() + close.len();
            text.replace_range(start..end, "");
        }
    }
    let lower = text.to_ascii_lowercase();
    let mut links = Vec::new();
    for (at, _) in lower.match_indices("href=") {
        let value = &text[at + 5..];
        let quote = value.chars().next().unwrap();
        assert!(quote == '"' || quote == '\'');
        let value = &value[1..];
        links.push(value[..value.find(quote).unwrap()].replace("&amp;", "&"));
    }
    links
}

/// Removes the fragment and tracking parameters, which is all that these links differ by once they
/// are parsed.
fn normal(mut url: Url) -> String {
    url.set_fragment(None);
    if let Some(query) = url.query().map(str::to_owned) {
        let tracking = |pair: &&str| pair.starts_with("utm_") || pair.starts_with("gclid=");
        let kept: Vec<&str> = query.split('&').filter(|pair| !tracking(pair)).collect();
        url.set_query((!kept.is_empty()).then(|| kept.join("&")).as_deref());
    }
    url.into()
}

enum Robots {
    Rules(String),
    Failing,
}

fn robots(web: &Web, url: &Url) -> Robots {
    let response = fetch(web, &url.join("/robots.txt").unwrap());
    match response.status {
        200 => Robots::Rules(response.body),
        404 => Robots::Rules(String::new()),
        _ => Robots::Failing,
    }
}

/// A crawl without a scheduler: every URL once, with robots.txt, redirects and errors obeyed.
fn crawl(web: &Web) -> BTreeMap<String, Expect> {
    let mut outcomes = BTreeMap::new();
    let mut rules: HashMap<String, Robots> = HashMap::new();
    let mut queue = VecDeque::from([web.seed_url()]);
    let mut seen = BTreeSet::from([web.seed_url()]);
    while let Some(text) = queue.pop_front() {
        let url = Url::parse(&text).unwrap();
        let host = url.host_str().unwrap().to_owned();
        let body = rules.entry(host).or_insert_with(|| robots(web, &url));
        let mut found = Vec::new();
        let expect = match body {
            Robots::Failing => Expect::RobotsUnreachable,
            Robots::Rules(body)
                if !robotstxt::DefaultMatcher::default()
                    .one_agent_allowed_by_robots(body, "nephila", &text) =>
            {
                Expect::Denied
            }
            Robots::Rules(_) => {
                let response = fetch(web, &url);
                match response.status {
                    200 => {
                        found = hrefs(&response.body);
                        Expect::Fetched
                    }
                    300..400 => {
                        found.extend(response.location);
                        Expect::Redirected
                    }
                    400..500 => Expect::ClientError,
                    _ => Expect::ServerError,
                }
            }
        };
        outcomes.insert(text, expect);
        for link in found {
            let link = normal(url.join(&link).unwrap());
            if seen.insert(link.clone()) {
                queue.push_back(link);
            }
        }
    }
    outcomes
}

#[test]
fn a_naive_crawl_of_the_pages_finds_exactly_the_truth() {
    let webs = [
        ("rough", 40, 4_000, 1),
        ("default", 10, 1_500, 2),
        ("plain", 5, 500, 3),
        ("rough", 200, 1_000, 4),
        ("rough", 1, 800, 5),
        ("small", 1, 200, 6),
    ];
    for (profile, hosts, pages, seed) in webs {
        let web = web(profile, hosts, pages, seed);
        let truth: BTreeMap<String, Expect> =
            web.truth().unwrap().iter().map(|entry| (web.url(entry.place), entry.expect)).collect();
        let crawled = crawl(&web);
        for (url, expect) in &truth {
            assert_eq!(crawled.get(url), Some(expect), "{profile} {seed}: {url}");
        }
        assert_eq!(crawled.len(), truth.len(), "{profile} {seed}: the crawl found more");
    }
}

#[test]
fn duplicates_of_the_truth_have_equal_bodies() {
    let web = web("rough", 20, 3_000, 7);
    let body = |place| fetch(&web, &Url::parse(&web.url(place)).unwrap()).body;
    let (mut exact, mut near) = (0, 0);
    for entry in web.truth().unwrap() {
        if let Some(original) = entry.duplicate_of {
            assert!(body(entry.place) == body(original));
            exact += 1;
        }
        if let Some(original) = entry.near_duplicate_of {
            assert!(body(entry.place) != body(original));
            near += 1;
        }
    }
    assert!(exact > 50 && near > 50, "{exact} exact, {near} near");
}

/// Returns the text that a reader sees, in the crudest way: everything between tags.
fn visible_text(html: &str) -> String {
    let body = &html[html.find("<nav>").unwrap()..];
    body.split('<').map(|piece| piece.split_once('>').map_or("", |(_, text)| text)).collect()
}

#[test]
fn near_duplicates_of_the_truth_are_near_and_other_pages_are_not() {
    let web = web("rough", 20, 3_000, 7);
    let simhash = |place| {
        let mut hasher = nephila::proto::simhash::SimHasher::new();
        hasher.push_text(
            visible_text(&fetch(&web, &Url::parse(&web.url(place)).unwrap()).body).as_bytes(),
        );
        hasher.finish().unwrap()
    };
    let (mut near, mut all, mut strangers) = (0, 0, 0);
    let mut before = 0;
    for entry in web.truth().unwrap() {
        let Some(original) = entry.near_duplicate_of else { continue };
        let (this, that) = (simhash(entry.place), simhash(original));
        all += 1;
        near += usize::from(nephila::proto::simhash::distance(this, that) <= 3);
        strangers += usize::from(nephila::proto::simhash::distance(this, before) <= 3);
        before = that;
    }
    println!("{near} of {all} variants within 3 bits, {strangers} strangers");
    assert!(near * 10 >= all * 9, "{near} of {all}");
    assert_eq!(strangers, 0);
}

#[test]
fn one_spec_gives_one_web_and_another_seed_another() {
    let webs = [1, 1, 2].map(|seed| web("rough", 10, 500, seed));
    let mut differing = 0;
    for host in 0..10 {
        for page in 0..webs[0].graph().page_count(host) {
            let place = webs[0].graph().place(host, page).unwrap();
            let url = Url::parse(&webs[0].url(place)).unwrap();
            let [first, again, other] = webs.each_ref().map(|web| raw(web, &url, Time::ZERO));
            assert!(first == again, "{url}");
            differing += usize::from(first != other);
        }
    }
    assert!(differing > 400, "{differing}");
}

#[test]
fn links_parse_and_repeat_as_asked() {
    let web = web("bench", 2_000, 1_000_000, 1);
    let mut distinct = BTreeSet::new();
    let mut total = 0;
    for page in 0..200 {
        let place = web.graph().place(page % 50, page * 7 % web.graph().page_count(0)).unwrap();
        let url = Url::parse(&web.url(place)).unwrap();
        let links = hrefs(&fetch(&web, &url).body);
        total += links.len();
        for link in links {
            let link = url.join(&link).unwrap();
            let text = normal(link);
            nephila::proto::url::Url::parse(&text).unwrap();
            distinct.insert(text);
        }
    }
    assert!((9_000..=13_000).contains(&total), "{total} links on 200 pages");
    let fresh = distinct.len() / 200;
    assert!((4..=16).contains(&fresh), "{fresh} new links a page");
}

#[test]
fn page_sizes_have_the_median_and_mean_asked_for() {
    let spec = WebSpec::profile("plain").unwrap();
    let spec = WebSpec { host_count: 10, page_count: 4_000, ..spec };
    let web = Web::new(spec.with_page_bytes_median(20_000, 0.6)).unwrap();
    let mut sizes: Vec<usize> = Vec::new();
    for host in 0..10 {
        for page in 0..web.graph().page_count(host) {
            let place = web.graph().place(host, page).unwrap();
            let mut body = Vec::new();
            web.push_page(place, &mut body, &mut Vec::new());
            sizes.push(body.len());
        }
    }
    sizes.sort_unstable();
    let median = sizes[sizes.len() / 2];
    let mean = sizes.iter().sum::<usize>() / sizes.len();
    assert!((19_000..21_000).contains(&median), "median {median}");
    assert!((22_500..25_500).contains(&mean), "mean {mean}");
}

#[test]
#[allow(clippy::disallowed_methods)] // Printed, never asserted.
fn pages_are_written_fast() {
    let web = web("bench", 20_000, 10_000_000, 1);
    for gzip in [false, true] {
        let mut out = Vec::new();
        let (mut bytes, count) = (0, 5_000);
        let start = std::time::Instant::now();
        for page in 0..count {
            let place = web.graph().place(page, page % 500).unwrap();
            let reply = web.page_reply(place, gzip);
            out.clear();
            web.write_response(&reply, &mut out);
            bytes += out.len();
        }
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "gzip {gzip}: {:.0} pages/s, {} bytes each, {:.1} us each",
            f64::from(count) / seconds,
            bytes / count as usize,
            seconds * 1e6 / f64::from(count)
        );
        assert!(bytes > count as usize * 10_000);
    }
}

/// Fetches pages of one host over one connection, and compares each with the bytes that the web's
/// brain makes.
async fn fetch_over_ring(
    world: RingWorld,
    web: Rc<Web>,
    host: u32,
    port: u16,
    count: u32,
) -> usize {
    let to = SocketAddr::from((web.address(host), port));
    let mut stream = world.connect(to, Time::NEVER).await.unwrap();
    let (mut request, mut expected, mut bytes) = (Vec::new(), Vec::new(), 0);
    for page in 0..count {
        let place = web.graph().place(host, page % web.graph().page_count(host)).unwrap();
        let url = web.url(place);
        let path = &url[url.find(".test").unwrap() + 5..];
        request.clear();
        let name = web.host_name(host);
        request.extend(format!("GET {path} HTTP/1.1\r\nHost: {name}\r\n\r\n").into_bytes());
        request = stream.send(request, Time::NEVER).await.unwrap();
        expected.clear();
        web.write_response(&web.page_reply(place, false), &mut expected);
        let mut rest = &expected[..];
        while !rest.is_empty() {
            let chunk = stream.receive(Time::NEVER).await.unwrap().unwrap();
            assert!(rest.starts_with(&chunk), "{url}");
            rest = &rest[chunk.len()..];
        }
        bytes += expected.len();
    }
    bytes
}

#[test]
#[allow(clippy::disallowed_methods)] // Printed, never asserted.
fn real_sockets_carry_the_brains_bytes() {
    const HOSTS: u32 = 32;
    const FETCHES: u32 = 200;
    let wake = Wake::new().unwrap();
    let main = move || async move {
        let world = RingWorld::new(wake, None).unwrap();
        let web = Rc::new(web("plain", HOSTS, 1_000, 1));
        let log = MemorySink::default();
        let server = Server::new(world.clone(), web.clone(), RequestLog::new(log.clone()));
        let listener = world.listen(SocketAddr::from(([0, 0, 0, 0], 0))).unwrap();
        let (port, serving) = (listener.local().port(), server.clone());
        world.spawn(async move {
            serving.serve(listener).await;
        });
        let start = std::time::Instant::now();
        let clients: Vec<_> = (0..HOSTS)
            .map(|host| {
                let (sender, receiver) = oneshot::channel();
                let task = fetch_over_ring(world.clone(), web.clone(), host, port, FETCHES);
                world.spawn(async move { sender.send(task.await) });
                receiver
            })
            .collect();
        let mut bytes = 0;
        for client in clients {
            bytes += client.await.expect("the client got all its pages");
        }
        let seconds = start.elapsed().as_secs_f64();
        let pages = HOSTS * FETCHES;
        println!(
            "{:.0} pages/s of {} bytes, server, client and comparison on one core",
            f64::from(pages) / seconds,
            bytes / pages as usize
        );
        server.flush_log().unwrap();
        assert_eq!(log.entries().len(), pages as usize);
        assert!(log.entries().iter().all(|entry| entry.status == 200));
        world.stop();
    };
    RingWorld::start(None, "web", Care::Wake, main).unwrap().join().unwrap().unwrap();
}

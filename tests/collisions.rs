//! Names that were made to have the hash of another name, if hashes had no key. They hide nothing
//! from a crawl. The crawls are simulated, and what the server saw is the judge. The names are in
//! `data/collisions.txt`.

#[path = "support/scripted.rs"]
mod scripted;
mod support;

use nephila::base::HashKey;
use nephila::io::sim::Sim;
use nephila::lab::sim::crawl::crawl;
use nephila::lab::sim::{Crawl, CrawlPlan};
use nephila::lab::web::WebSpec;
use nephila::proto::url::Url;
use scripted::{body, page, serve};
use support::{crawl_in, settings, url};

const ATTACKER: &str = "http://10.0.0.1/";

/// Returns the victim's name and the name that was made to collide with it.
fn made_to_collide(what: &str) -> [&'static str; 2] {
    let lines = include_str!("data/collisions.txt").lines();
    let words = lines.map(|line| line.split(' ').collect::<Vec<_>>());
    let mut found = words.filter(|words| words[0] == what).map(|words| [words[1], words[2]]);
    found.next().expect("a pair of this kind")
}

/// Returns what is requested from the victim's host, in order, in a crawl whose first page has
/// `links`, on one core and on three. The host's own first page has links as well.
fn asked_of_victim(links: &[&str]) -> Vec<Vec<String>> {
    let [victim, _] = made_to_collide("local-host");
    let crawled = |shard_count| {
        let sim = Sim::new(5);
        let links: Vec<String> = links.iter().map(|link| (*link).to_owned()).collect();
        let field = format!("Host: {victim}\r\n").to_lowercase();
        let is_victim = move |head: &str| head.to_lowercase().contains(&field);
        let asks_victim = is_victim.clone();
        let seen = serve(&sim, move |asked| match asked.path.as_str() {
            "/robots.txt" => body("404 Not Found", ""),
            "/" if asks_victim(&asked.head) => page(&["/a", "/important", "/b"]),
            "/" if asked.to.to_string() == "10.0.0.1" => {
                page(&links.iter().map(String::as_str).collect::<Vec<_>>())
            }
            _ => page(&[]),
        });
        crawl_in(&sim, shard_count, settings(), vec![url(ATTACKER)]);
        let seen = seen.borrow();
        let of_victim = seen.iter().filter(|asked| is_victim(&asked.head));
        of_victim.map(|asked| asked.path.clone()).filter(|path| path != "/robots.txt").collect()
    };
    [1, 3].map(crawled).into()
}

#[test]
fn a_link_to_a_host_made_to_collide_hides_no_host() {
    let [victim, made] = made_to_collide("local-host").map(|host| format!("http://{host}/"));
    for mut asked in asked_of_victim(&[&made, &victim]) {
        asked.sort();
        assert_eq!(asked, ["/", "/a", "/b", "/important"]);
    }
}

#[test]
fn two_crawls_of_one_web_have_other_fingerprints_on_disk() {
    let spec = WebSpec::profile("default").expect("a profile");
    let spec = WebSpec { host_count: 6, page_count: 60, ..spec };
    let crawled = |hash_secret| {
        let plan = CrawlPlan::new(3, spec.clone(), 2).expect("a sound spec");
        let plan = CrawlPlan { hash_secret, settings: settings(), ..plan };
        (plan.seeds[0].clone(), crawl(&plan).expect("a crawl that ends"))
    };
    let (seed_url, one) = crawled(1);
    let (_, other) = crawled(2);
    let served = |crawl: &Crawl| {
        let mut urls: Vec<String> =
            crawl.log.iter().map(|entry| format!("{} {}", entry.host, entry.path)).collect();
        urls.sort();
        urls
    };
    assert_eq!(served(&one), served(&other), "what is fetched does not depend on the secret");
    assert!(has_fingerprint(&one, &seed_url, 1) && has_fingerprint(&other, &seed_url, 2));
    assert!(!has_fingerprint(&one, &seed_url, 2) && !has_fingerprint(&other, &seed_url, 1));
}

/// Reports whether the fingerprint that a URL has under this secret is in a file of the state.
fn has_fingerprint(crawl: &Crawl, url: &Url, secret: u128) -> bool {
    let fingerprint = url.fingerprint(&HashKey::new(secret)).0.to_le_bytes();
    let mut state = crawl.files.iter().filter(|(path, _)| path.starts_with("state"));
    state.any(|(_, bytes)| memchr::memmem::find(bytes, &fingerprint).is_some())
}

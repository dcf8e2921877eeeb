//! Helpers for tests that run whole crawls in the simulator with `lab::sim::crawl`.
#![allow(dead_code)] // each test file uses its part

use nephila::crawl::config::{Settings, Stay};
use nephila::io::sim::Sim;
pub use nephila::lab::sim::crawl::Crawl;
use nephila::lab::sim::crawl::{self, CrawlPlan};
use nephila::lab::web::{Web, WebSpec};
use nephila::proto::url::Url;
use std::collections::BTreeMap;

pub fn settings() -> Settings {
    Settings {
        allow_private: true,
        contact: "http://crawler.test/".into(),
        stay: Stay::Web,
        ..Default::default()
    }
}

pub fn url(text: &str) -> Url {
    Url::parse(text).expect("a URL")
}

/// Returns the web's own seed URL, the root of host 0.
pub fn web_seed(web: &Web) -> Url {
    url(&web.seed_url())
}

/// Crawls the web of `spec` from its seed URL with `shard_count` shards.
pub fn crawl(seed: u64, spec: WebSpec, shard_count: u16, settings: Settings) -> Crawl {
    let plan = CrawlPlan::new(seed, spec, shard_count).expect("a sound spec");
    crawl::crawl(&CrawlPlan { settings, ..plan }).expect("a crawl that ends")
}

pub fn crawl_from(
    seed: u64,
    spec: WebSpec,
    shard_count: u16,
    settings: Settings,
    seeds: Vec<Url>,
) -> Crawl {
    let plan = CrawlPlan::new(seed, spec, shard_count).expect("a sound spec");
    crawl::crawl(&CrawlPlan { settings, seeds, ..plan }).expect("a crawl that ends")
}

/// Crawls the servers that answer in `sim`. The caller checks their log.
pub fn crawl_in(sim: &Sim, shard_count: u16, settings: Settings, seeds: Vec<Url>) -> Crawl {
    let plan = CrawlPlan::new(1, WebSpec::default(), shard_count).expect("a sound spec");
    crawl::crawl_in(sim, &CrawlPlan { settings, seeds, ..plan }).expect("a crawl that ends")
}

/// Returns how often each page was requested, by its URL.
pub fn page_counts(spec: &WebSpec, crawl: &Crawl) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    let is_page = |path: &str| path != "/robots.txt" && !path.starts_with("/sitemap");
    for entry in crawl.log.iter().filter(|entry| is_page(&entry.path)) {
        let port = if spec.port == 80 { String::new() } else { format!(":{}", spec.port) };
        let host = entry.host.split(':').next().unwrap_or_default();
        *counts.entry(format!("http://{host}{port}{}", entry.path)).or_default() += 1;
    }
    counts
}

//! Whole crawls in the simulator for tests: short hands for `tools::sim::crawl`.
#![allow(dead_code)] // each test file uses its part

use nephila::config::Settings;
use nephila::io::sim::Sim;
pub use nephila::tools::sim::crawl::Crawl;
use nephila::tools::sim::crawl::{self, CrawlPlan};
use nephila::url::Url;
use nephila::web::{Web, WebSpec};

pub fn settings() -> Settings {
    Settings { allow_private: true, contact: "http://crawler.test/".into(), ..Default::default() }
}

pub fn url(text: &str) -> Url {
    Url::parse(text).expect("a URL")
}

/// The web's own seed URL: host 0's root.
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

/// Crawls whatever answers in `sim`. The servers' log is left to the caller.
pub fn crawl_in(sim: &Sim, shard_count: u16, settings: Settings, seeds: Vec<Url>) -> Crawl {
    let plan = CrawlPlan::new(1, WebSpec::default(), shard_count).expect("a sound spec");
    crawl::crawl_in(sim, &CrawlPlan { settings, seeds, ..plan }).expect("a crawl that ends")
}

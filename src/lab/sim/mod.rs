//! `nephila sim`: whole crawls of stormy webs on virtual time, judged from outside.
//!
//! A seed determines a [`Scene`]: a web with weather, a network with faults, settings and shards.
//! The [`crawl`] runs it in the simulator with the code that crawls the real web. The [`judge`]
//! reads what the servers logged and what is on disk, and reports which rules were broken. It does
//! not use the crawler's own counters, except for how many URLs a stopped run left in its queues.
//!
//! Invariant: a seed and a set of flags determine the history. A failing seed prints the command
//! that replays it. All of it runs on one thread, and nothing here reads a real clock.

mod archive;
pub mod crash;
pub mod crawl;
pub mod judge;
mod knowledge;
mod life;
mod memory;
pub mod report;
pub mod scene;

pub use crash::{Crash, Downfall, Machine, Moment};
pub use crawl::{Crawl, CrawlError, CrawlPlan};
pub use judge::{Breach, Judgement};
pub use report::{Run, RunError};
pub use scene::{Scene, SceneError, ScenePlan};

/// Draws the scene of `seed`, crawls it and judges the crawl.
pub fn run(plan: &ScenePlan, seed: u64) -> Result<Run, SceneError> {
    let scene = Scene::draw(plan, seed)?;
    let crawled = crawl::crawl(&scene.crawl);
    Ok(Run::new(plan, scene, crawled))
}

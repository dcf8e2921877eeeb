//! `nephila sim`: whole crawls of stormy webs on virtual time, judged from outside.
//!
//! A seed draws a [`Scene`]: a web with weather, a network with faults, settings and shards. The
//! [`crawl`] runs it in the simulator with the code that crawls the real web. The [`judge`] reads
//! what the servers logged and what is on disk, and says what was broken; the crawler's own
//! counters have no say in it, but for how many URLs were left in the queues of a run that was
//! stopped.
//!
//! Invariant: one seed and one set of flags, one history. A failing seed prints the command that
//! replays it. One thread; nothing here reads a clock.

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

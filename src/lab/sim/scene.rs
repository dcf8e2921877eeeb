//! A scene: the web, the network, the settings and the shards that a seed determines.
//!
//! Flags fix the values they name; everything else is drawn, so that two hundred seeds are two
//! hundred different worlds: short and long delays, many and few hosts at an address, segments of a
//! packet or of a few bytes, lines that lose little or much.

use crate::crawl::config::Settings;
use crate::io::sim::{Faults, NetModel};
use crate::lab::sim::crash::{Crash, Odds, draw_disk_faults};
use crate::lab::sim::crawl::{CrawlError, CrawlPlan};
use crate::lab::web::chance::{Dice, mix};
use crate::lab::web::{SpecError, Web, WebSpec};
use crate::proto::url::Url;
use crate::shard::Sabotage;
use std::fmt;
use std::time::Duration;

/// What the command line asks for. A value that is `None` is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenePlan {
    pub profile: String,
    pub hours: u64,
    pub host_count: Option<u32>,
    pub page_count: Option<u64>,
    pub shard_count: Option<u16>,
    /// A rule that the crawler is told to break; the run must fail.
    pub sabotage: Option<Sabotage>,
    /// A page limit is drawn, and many hosts share an address.
    pub is_limited: bool,
    /// A large part of each host's URLs, on healthy hosts too, answers 500 for ever.
    pub is_broken: bool,
    /// How many times the crawler is killed, or its machine loses power, and starts again.
    pub crash_count: u32,
    /// The history will be compared with that of another version of the code.
    pub is_steady: bool,
    /// Each crash kills one shard alone, and the rest of the process must end by itself.
    pub is_lone: bool,
}

impl Default for ScenePlan {
    fn default() -> ScenePlan {
        ScenePlan {
            profile: "storm".to_owned(),
            hours: 6,
            host_count: None,
            page_count: None,
            shard_count: None,
            sabotage: None,
            is_limited: false,
            is_broken: false,
            crash_count: 0,
            is_steady: false,
            is_lone: false,
        }
    }
}

pub struct Scene {
    pub crawl: CrawlPlan,
    pub web: Web,
    pub healthy_count: u32,
}

#[derive(Debug)]
pub enum SceneError {
    Spec(SpecError),
    Crawl(CrawlError),
}

impl fmt::Display for SceneError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SceneError::Spec(error) => write!(out, "{error}"),
            SceneError::Crawl(error) => write!(out, "{error}"),
        }
    }
}

impl std::error::Error for SceneError {}

/// Salt of everything that is drawn here, so that the web of the same seed draws other numbers.
const SCENE: u64 = 80;
/// Salt of the crashes, so that the same scene can be run without them.
const CRASHES: u64 = 81;
const MEMORY: u64 = 82;
const COLD: u64 = 83;
const LIMIT: u64 = 84;
const CROWD: u64 = 85;
const BROKEN: u64 = 86;
/// One host in this many is a seed of the crawl, in addition to the web's own seed.
const SEED_SHARE: u32 = 4;

impl Scene {
    pub fn draw(plan: &ScenePlan, seed: u64) -> Result<Scene, SceneError> {
        let mut dice = Dice::new(mix(seed, SCENE));
        let spec = spec(plan, seed, &mut dice)?;
        let web = Web::new(spec.clone()).map_err(SceneError::Spec)?;
        let shard_count = 2 + dice.below(3) as u16;
        let shard_count = plan.shard_count.unwrap_or(shard_count);
        let mut crawl = CrawlPlan::new(seed, spec, shard_count).map_err(SceneError::Crawl)?;
        crawl.settings = settings(&mut dice, crawl.settings);
        crawl.settings.frontier_memory_mb = memory_mb(seed);
        put_cold(seed, &mut crawl.settings);
        if plan.is_limited {
            let page_count = u32::try_from(crawl.spec.page_count).unwrap_or(u32::MAX);
            let limit = 1 + Dice::new(mix(seed, LIMIT)).below(page_count);
            crawl.settings.max_pages = u64::from(limit);
        }
        crawl.stop_after = Some(Duration::from_secs(plan.hours * 3_600));
        crawl.net = net(&mut dice);
        crawl.line_faults = line_faults(&mut dice);
        crawl.dns_faults = dns_faults(&mut dice);
        // This comes last, because how many numbers are drawn depends on how many hosts there are.
        let roots = (1..web.spec().host_count).filter(|_| dice.below(SEED_SHARE) == 0);
        let roots: Vec<String> = roots.map(|host| web.url(web.graph().root(host))).collect();
        crawl.seeds.extend(roots.iter().filter_map(|root| Url::parse(root).ok()));
        crawl.sabotage = plan.sabotage;
        if plan.crash_count > 0 {
            put_crashes(plan, seed, &mut crawl);
        }
        if plan.is_steady {
            crawl.steady();
        }
        let healthy_count = (0..web.spec().host_count).filter(|h| web.is_healthy(*h)).count();
        Ok(Scene { crawl, web, healthy_count: healthy_count as u32 })
    }
}

fn spec(plan: &ScenePlan, seed: u64, dice: &mut Dice) -> Result<WebSpec, SceneError> {
    let profile = WebSpec::profile(&plan.profile).map_err(SceneError::Spec)?;
    let host_count = 8 + dice.below(113);
    let host_count = plan.host_count.unwrap_or(host_count);
    let pages_each = 4 + dice.below(21);
    let page_count = plan.page_count.unwrap_or(u64::from(host_count) * u64::from(pages_each));
    let hosts_per_address = 1 + dice.below(4);
    let weather_fraction = f64::from(4 + dice.below(5)) / 10.0;
    let weather_spell_seconds = 600 + dice.below(1_201);
    let is_stormy = profile.weather_fraction > 0.0;
    let turned_queries = profile.varied_links;
    let mut spec = WebSpec { host_count, page_count, seed, turned_queries, ..profile };
    if plan.crash_count > 0 {
        // Crashes test files and not bytes, and packing pages took half of a run's time.
        spec.gzip_fraction = spec.gzip_fraction.min(0.05);
        spec.page_bytes_mean = spec.page_bytes_mean.min(6_000);
        // With fewer links, fewer of them lead to a URL that was lost.
        let link_count = [2, 6, 30][(mix(seed, CRASHES) % 3) as usize];
        spec.link_count = spec.link_count.min(link_count);
        spec.fresh_link_count = spec.fresh_link_count.min(link_count);
    }
    if plan.is_broken {
        let error_fraction = f64::from(2 + Dice::new(mix(seed, BROKEN)).below(5)) / 10.0;
        let errors_are_500 = true;
        // Each leaf needs a page that links to it, so there is little room for other kinds of
        // leaves.
        let (redirect_fraction, duplicate_fraction, near_duplicate_fraction) = (0.02, 0.0, 0.0);
        spec = WebSpec { error_fraction, errors_are_500, denied_page_fraction: 0.02, ..spec };
        spec = WebSpec { redirect_fraction, duplicate_fraction, near_duplicate_fraction, ..spec };
    }
    // From two hosts at each address to all hosts at one address.
    let crowd = 2 + Dice::new(mix(seed, CROWD)).below(host_count);
    let hosts_per_address = if plan.is_limited { crowd } else { hosts_per_address };
    spec.hosts_per_address = if plan.is_limited { crowd } else { spec.hosts_per_address };
    Ok(match is_stormy {
        true => WebSpec { hosts_per_address, weather_fraction, weather_spell_seconds, ..spec },
        false => spec,
    })
}

/// Returns the queues' memory: every other scene has its queues on disk. It is not drawn with the
/// rest, so that the rest stays as it was.
fn memory_mb(seed: u64) -> u64 {
    [0, Settings::default().frontier_memory_mb][Dice::new(mix(seed, MEMORY)).below(2) as usize]
}

/// Lets hosts leave RAM in three scenes of four, as soon as they may or a little later. It is not
/// drawn with the rest, for the same reason.
fn put_cold(seed: u64, settings: &mut Settings) {
    let mut dice = Dice::new(mix(seed, COLD));
    settings.host_cold_seconds = [0, 0, 2, 3_600][dice.below(4) as usize];
    if dice.below(4) == 0 {
        settings.host_memory_count = dice.below(4) as usize;
    }
}

/// Draws settings. Rules are valid for less than a day, so that a run sees them change.
fn settings(dice: &mut Dice, settings: Settings) -> Settings {
    Settings {
        delay_ms: [500, 1_000, 1_000, 2_000][dice.below(4) as usize],
        robots_ttl_seconds: 600 + u64::from(dice.below(6_601)),
        keep_alive_ms: [0, 5_000, 60_000][dice.below(3) as usize],
        // Few slots show problems of order that a thousand free slots hide.
        fetch_slots: [4, 64, 8_192][dice.below(3) as usize],
        ..settings
    }
}

/// Draws crashes and faulty disks, and settings that make them effective: short delays, so that a
/// restart finds many of them in force; rare and frequent syncs; batches that go to disk soon.
fn put_crashes(plan: &ScenePlan, seed: u64, crawl: &mut CrawlPlan) {
    let mut dice = Dice::new(mix(seed, CRASHES));
    let mut of = |choices: [u64; 4]| choices[dice.below(4) as usize];
    let settings = Settings {
        delay_ms: of([100, 200, 500, 500]),
        sync_ms: of([20, 200, 1_000, 1_000]),
        journal_sync_ms: of([10, 100, 100, 300]),
        seen_batch: of([16, 64, 512, 1 << 19]) as usize,
        // Little enough memory that merges have work to do.
        seen_memory_mb: 8,
        // Mostly none, so that even small webs have tails of queues on disk.
        frontier_memory_mb: of([0, 0, 0, 256]),
        checkpoint_seconds: of([1, 2, 5, 300]),
        warc_file_bytes: of([1 << 20, 1 << 20, 1 << 30, 1 << 30]),
        fetch_slots: of([2, 8, 64, 8_192]) as usize,
        ..crawl.settings.clone()
    };
    crawl.settings = settings;
    crawl.disk_faults = draw_disk_faults(&mut dice);
    // Each step of a page is a poll, some seventy for a page.
    let steps = crawl.spec.page_count * 140 / (u64::from(plan.crash_count) + 1);
    let has_weather = crawl.spec.weather_fraction > 0.0;
    let spike_ms = if has_weather { crawl.line_faults.spike_ms_max } else { 0 };
    let odds = Odds {
        step_count: u32::try_from(steps).unwrap_or(u32::MAX),
        shard_count_max: plan.shard_count.unwrap_or(4),
        quiet_ms: crawl.net.latency_us_max.div_ceil(1_000) + spike_ms,
        // Servers with weather name dates by the same wall clock, so it must not shift.
        has_wall_shifts: !has_weather,
    };
    let mut shard_count = crawl.shard_count;
    for _ in 0..plan.crash_count {
        let mut crash = Crash::draw(&mut dice, &odds);
        // Two lives in three have the same shard count as the life before.
        if dice.below(3) > 0 || plan.shard_count.is_some() {
            crash.shard_count = shard_count;
        }
        if plan.is_lone {
            crash = Crash { lone: Some(dice.below(64) as u16), cut: None, ..crash };
        }
        shard_count = crash.shard_count;
        crawl.crashes.push(crash);
    }
}

fn net(dice: &mut Dice) -> NetModel {
    NetModel {
        latency_us_min: 100,
        latency_us_max: [2_000, 40_000, 300_000][dice.below(3) as usize],
        segment_bytes_max: [256, 1_460, 16_384][dice.below(3) as usize],
        // These faults are the crawler's own, not the hosts': healthy hosts have them too and must
        // lose nothing.
        faults: Faults { exhausted_per_mille: u64::from(dice.below(11)), ..Faults::default() },
        ..NetModel::default()
    }
}

/// Draws a rate of up to `max`; it is zero for one seed in four.
fn rate(dice: &mut Dice, max: u32) -> u64 {
    if dice.below(4) == 0 { 0 } else { u64::from(dice.below(max + 1)) }
}

fn line_faults(dice: &mut Dice) -> Faults {
    Faults {
        exhausted_per_mille: rate(dice, 10),
        refused_per_mille: rate(dice, 80),
        unanswered_per_mille: rate(dice, 40),
        syn_loss_per_mille: rate(dice, 200),
        spike_per_mille: rate(dice, 40),
        // This is far below the timeout for a first byte: see `io::sim::Faults`.
        spike_ms_max: 4_000,
        reset_per_mille: rate(dice, 120),
        vanish_per_mille: rate(dice, 60),
        close_per_mille: rate(dice, 80),
        stall_per_mille: rate(dice, 60),
        strike_bytes_max: 30_000,
        stall_ms_max: 90_000,
        trickle_per_mille: rate(dice, 60),
        trickle_bytes_per_second: 40 + u64::from(dice.below(2_000)),
        ..Faults::default()
    }
}

/// Draws faults of the name server, mild enough that a healthy host's name is found within the
/// tries of its URL. A question is lost one time in twenty, and no answer is later than its
/// timeout: six lost questions in a row are one case in sixty million.
fn dns_faults(dice: &mut Dice) -> Faults {
    Faults {
        spike_per_mille: rate(dice, 40),
        spike_ms_max: 400,
        datagram_loss_per_mille: rate(dice, 25),
        datagram_double_per_mille: rate(dice, 100),
        datagram_late_per_mille: rate(dice, 100),
        datagram_late_ms_max: 800,
        reset_per_mille: rate(dice, 10),
        close_per_mille: rate(dice, 10),
        strike_bytes_max: 200,
        ..Faults::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_draw_worlds_of_many_kinds_and_flags_fix_what_they_name() {
        let draw = |plan: &ScenePlan, seed| Scene::draw(plan, seed).expect("a scene");
        let plan = ScenePlan::default();
        let scenes: Vec<Scene> = (1..40).map(|seed| draw(&plan, seed)).collect();
        let count = |of: fn(&Scene) -> u64| {
            let values: std::collections::BTreeSet<u64> = scenes.iter().map(of).collect();
            values.len()
        };
        assert!(count(|scene| scene.crawl.spec.host_count.into()) > 20);
        assert_eq!(count(|scene| scene.crawl.shard_count.into()), 3);
        assert!(count(|scene| scene.crawl.line_faults.reset_per_mille) > 15);
        assert!(scenes.iter().all(|scene| scene.healthy_count > 0));
        let again = draw(&plan, 7);
        assert_eq!(again.crawl.line_faults, scenes[6].crawl.line_faults);
        assert_eq!(again.crawl.seeds, scenes[6].crawl.seeds);
        let fixed = ScenePlan { host_count: Some(9), page_count: Some(99), ..plan.clone() };
        let fixed = draw(&ScenePlan { shard_count: Some(1), ..fixed }, 7);
        let spec = &fixed.crawl.spec;
        assert_eq!((spec.host_count, spec.page_count, fixed.crawl.shard_count), (9, 99, 1));
        assert_eq!(fixed.crawl.line_faults, again.crawl.line_faults, "the rest is drawn as before");
        let calm = draw(&ScenePlan { profile: "default".into(), ..plan }, 7);
        assert_eq!(calm.healthy_count, calm.crawl.spec.host_count);
        assert!(
            Scene::draw(&ScenePlan { profile: "x".into(), ..ScenePlan::default() }, 1).is_err()
        );
    }
}

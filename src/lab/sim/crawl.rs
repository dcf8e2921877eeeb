//! One whole crawl in the simulator: shards, synthetic web and name server on virtual time, over as
//! many lives of the process as the plan's crashes make.
//!
//! A [`CrawlPlan`] comes in; what the servers saw, the files on disk and the shards' last reports
//! go out. The servers are in a world of acknowledged sends, so that their log records what the
//! crawler received, without what was lost on the way. They are another machine, so a crash of the
//! shards does not touch them.

use crate::base::Time;
use crate::crawl::config::{Settings, Stay};
use crate::crawl::flow::{Outcome, ShardIndex};
use crate::crawl::metrics::Report;
use crate::crawl::store::StoreError;
use crate::io::sim::{DiskFaults, Faults, NetModel, Sim, SimError, SimWorld, Unknown};
use crate::io::{Net, NetError, Spawn};
use crate::lab::sim::crash::{Crash, Downfall, Machine};
use crate::lab::web::log::Entry;
use crate::lab::web::weather::Sky;
use crate::lab::web::{MemorySink, RequestLog, Server, SpecError, Web, WebSpec};
use crate::proto::url::Url;
use crate::shard::{Sabotage, ShardError};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// Where the simulated name server answers.
pub const DNS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 53)), 53);
/// The servers' world. The shards' worlds are numbered from zero.
pub(super) const WEB_WORLD: u16 = u16::MAX - 1;

/// Everything that decides how a crawl goes.
#[derive(Clone)]
pub struct CrawlPlan {
    pub seed: u64,
    /// The secret that a manifest would keep: the same in every life.
    pub hash_secret: u128,
    pub spec: WebSpec,
    pub shard_count: u16,
    pub settings: Settings,
    pub seeds: Vec<Url>,
    /// When to drain a crawl that has not ended by itself.
    pub stop_after: Option<Duration>,
    pub net: NetModel,
    /// Faults on the lines of hosts with weather.
    pub line_faults: Faults,
    /// Faults between all machines and the name server.
    pub dns_faults: Faults,
    /// A rule that the crawler breaks, to test that the judge notices.
    pub sabotage: Option<Sabotage>,
    /// The disk faults of the first life; each crash has those of the next life.
    pub disk_faults: DiskFaults,
    /// The crashes in their order. Those that would come after the crawl's end never strike.
    pub crashes: Vec<Crash>,
    /// Whether the simulation is a steady one: see [`Sim::steady`].
    pub is_steady: bool,
}

impl CrawlPlan {
    /// Plans a crawl of `spec` from its own seed URL, on a network without faults.
    pub fn new(seed: u64, spec: WebSpec, shard_count: u16) -> Result<CrawlPlan, CrawlError> {
        let seed_url = Web::new(spec.clone()).map_err(CrawlError::Spec)?.seed_url();
        Ok(CrawlPlan {
            seed,
            hash_secret: seed.into(),
            spec,
            shard_count,
            settings: Settings {
                allow_private: true,
                contact: "http://crawler.test/".into(),
                stay: Stay::Web,
                ..Settings::default()
            },
            seeds: Url::parse(&seed_url).into_iter().collect(),
            stop_after: None,
            net: NetModel::default(),
            line_faults: Faults::default(),
            dns_faults: Faults::default(),
            sabotage: None,
            disk_faults: DiskFaults::default(),
            crashes: Vec::new(),
            is_steady: false,
        })
    }

    /// Removes what a change of the code could shift although it keeps the behaviour: disks do not
    /// fail, and crashes are timed by the clock instead of a number of polls.
    pub(super) fn steady(&mut self) {
        self.is_steady = true;
        self.disk_faults = DiskFaults::default();
        for crash in &mut self.crashes {
            crash.when = crash.when.by_the_clock();
            crash.disk_faults = DiskFaults::default();
        }
    }
}

pub struct Crawl {
    /// What the servers saw, in the order in which requests ended.
    pub log: Vec<Entry>,
    /// The same log as the servers wrote it.
    pub log_text: String,
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    pub reports: Vec<Report>,
    pub failed_seeds: Vec<(Url, Outcome)>,
    /// The crawl was ended by `stop_after` or by the page limit, and did not end by itself.
    pub is_stopped: bool,
    /// The ends of all lives except the last one.
    pub downfalls: Vec<Downfall>,
    /// By how many nanoseconds the wall clock was ahead of the monotonic one when the servers
    /// began.
    pub wall_ahead_ns: u64,
    pub digest: u64,
    pub began: Time,
    pub ended: Time,
    pub step_count: u64,
}

/// Why a crawl did not come to an end that could be judged.
#[derive(Debug)]
pub enum CrawlError {
    Spec(SpecError),
    Sim(SimError),
    Shard(ShardError),
    /// A shard died while the others were still running.
    Lost(ShardIndex),
    Store(StoreError),
    /// The web could not listen.
    Web(NetError),
    /// The shards went on although they were told to drain.
    Endless,
}

impl fmt::Display for CrawlError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CrawlError::Spec(error) => write!(out, "{error}"),
            CrawlError::Sim(error) => write!(out, "{error}"),
            CrawlError::Shard(error) => write!(out, "a shard did not start: {error}"),
            CrawlError::Lost(shard) => write!(out, "shard {} died", shard.0),
            CrawlError::Store(error) => write!(out, "the store failed: {error}"),
            CrawlError::Web(error) => write!(out, "the web did not start: {error}"),
            CrawlError::Endless => write!(out, "the shards did not end when told to"),
        }
    }
}

impl std::error::Error for CrawlError {}

/// Runs the plan to its end.
pub fn crawl(plan: &CrawlPlan) -> Result<Crawl, CrawlError> {
    crawl_with(plan, |_| {})
}

/// Runs the plan like [`crawl`], after `prepare` has changed the simulation.
pub fn crawl_with(plan: &CrawlPlan, prepare: impl FnOnce(&Sim)) -> Result<Crawl, CrawlError> {
    let sim = if plan.is_steady { Sim::steady(plan.seed) } else { Sim::new(plan.seed) };
    sim.set_net(plan.net);
    prepare(&sim);
    let servers = Servers::start(&sim, plan)?;
    let crawl = crawl_in(&sim, plan)?;
    Ok(servers.conclude(&sim, crawl))
}

/// Runs a crawl against whatever answers in `sim`. Only the plan's seeds, settings, shards and
/// crashes matter. The log is left to the owner of the servers.
pub fn crawl_in(sim: &Sim, plan: &CrawlPlan) -> Result<Crawl, CrawlError> {
    Machine::new(sim, plan).run()
}

/// The synthetic web in a simulation, and its log.
pub struct Servers {
    server: Server<SimWorld>,
    sink: MemorySink,
}

impl Servers {
    pub fn start(sim: &Sim, plan: &CrawlPlan) -> Result<Servers, CrawlError> {
        let (server, sink) = start_web(sim, plan)?;
        Ok(Servers { server, sink })
    }

    /// Returns what was asked for so far, except requests that are still being answered.
    pub fn entries(&self) -> Vec<Entry> {
        self.server.flush_log().expect("writing the log to memory does not fail");
        self.sink.entries()
    }

    /// Ends the servers, and adds their log to the crawl.
    pub fn conclude(&self, sim: &Sim, crawl: Crawl) -> Crawl {
        // The drafts of requests whose answer is cut off by this become lines of the log.
        sim.kill(WEB_WORLD);
        Crawl { log: self.entries(), log_text: self.sink.text(), ..crawl }
    }
}

fn start_web(sim: &Sim, plan: &CrawlPlan) -> Result<(Server<SimWorld>, MemorySink), CrawlError> {
    let web = Rc::new(Web::new(plan.spec.clone()).map_err(CrawlError::Spec)?);
    sim.set_faults(DNS.ip(), plan.dns_faults);
    for host in (0..plan.spec.host_count).filter(|host| web.has_weather(*host)) {
        for address in [web.address(host), web.second_address(host)] {
            sim.set_faults(address.into(), plan.line_faults);
        }
    }
    let sky = web.clone();
    sim.set_gate(Box::new(move |address, now| match sky.sky(address, now) {
        Sky::Up => None,
        Sky::Refusing => Some(Unknown::Refuse),
        Sky::Silent => Some(Unknown::Silence),
    }));
    let world = sim.world(WEB_WORLD).acknowledged();
    let sink = MemorySink::default();
    let server = Server::new(world.clone(), web, RequestLog::new(sink.clone()));
    let anywhere = SocketAddr::from(([0, 0, 0, 0], plan.spec.port));
    let http = world.listen(anywhere).map_err(CrawlError::Web)?;
    if plan.spec.hostile {
        let anywhere = SocketAddr::from(([0u16; 8], plan.spec.port));
        let http = world.listen(anywhere).map_err(CrawlError::Web)?;
        let server = server.clone();
        world.spawn(async move {
            server.serve(http).await;
        });
    }
    let dns = world.datagram(DNS, None).map_err(CrawlError::Web)?;
    let dns_tcp = world.listen(DNS).map_err(CrawlError::Web)?;
    let (first, second, third) = (server.clone(), server.clone(), server.clone());
    world.spawn(async move {
        first.serve(http).await;
    });
    world.spawn(async move {
        second.serve_dns(dns).await;
    });
    world.spawn(async move {
        third.serve_dns_tcp(dns_tcp).await;
    });
    Ok((server, sink))
}

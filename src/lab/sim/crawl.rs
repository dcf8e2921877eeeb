//! One whole crawl in the simulator: shards, synthetic web and name server, on virtual time,
//! through as many lives of its process as the plan's crashes leave it.
//!
//! In: a [`CrawlPlan`]. Out: what the servers saw, the files on disk, and the shards' last reports.
//! The servers are in a world of acknowledged sends, so that their log says what the crawler got
//! and not what was lost on the way. They are another machine: a crash of the shards leaves them.

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
/// The servers' world; shards count from zero.
pub(super) const WEB_WORLD: u16 = u16::MAX - 1;

/// Everything that decides how a crawl goes.
#[derive(Clone)]
pub struct CrawlPlan {
    pub seed: u64,
    /// What its manifest would keep, the same in every life.
    pub hash_secret: u128,
    pub spec: WebSpec,
    pub shard_count: u16,
    pub settings: Settings,
    pub seeds: Vec<Url>,
    /// A crawl that is not over by then is drained.
    pub stop_after: Option<Duration>,
    pub net: NetModel,
    /// On the lines of hosts with weather.
    pub line_faults: Faults,
    /// Between everyone and the name server.
    pub dns_faults: Faults,
    /// A rule to break, so that the judge is seen to notice.
    pub sabotage: Option<Sabotage>,
    /// Of the first life's disk; a crash says what the next life's is like.
    pub disk_faults: DiskFaults,
    /// In their order. Those that would strike after the crawl's end do not.
    pub crashes: Vec<Crash>,
    /// See [`Sim::steady`].
    pub is_steady: bool,
}

impl CrawlPlan {
    /// A crawl of `spec` from its own seed URL, on a network without faults.
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

    /// Takes away what a change of the code that keeps its behaviour would shift: disks do not
    /// fail, and crashes come by the clock instead of after so many polls.
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
    /// The same as the servers wrote it.
    pub log_text: String,
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    pub reports: Vec<Report>,
    pub failed_seeds: Vec<(Url, Outcome)>,
    /// Ended by `stop_after` or by the page limit, and not by itself.
    pub is_stopped: bool,
    /// The ends of all lives but the last.
    pub downfalls: Vec<Downfall>,
    /// What the wall clock was ahead of the other when the servers began, in nanoseconds.
    pub wall_ahead_ns: u64,
    pub digest: u64,
    pub began: Time,
    pub ended: Time,
    pub step_count: u64,
}

/// Why a crawl came to no end that could be judged.
#[derive(Debug)]
pub enum CrawlError {
    Spec(SpecError),
    Sim(SimError),
    Shard(ShardError),
    /// A shard died while the others lived on.
    Lost(ShardIndex),
    Store(StoreError),
    /// The web could not listen.
    Web(NetError),
    /// Told to drain, the shards went on.
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

/// As [`crawl`], in a world that `prepare` has spoiled.
pub fn crawl_with(plan: &CrawlPlan, prepare: impl FnOnce(&Sim)) -> Result<Crawl, CrawlError> {
    let sim = if plan.is_steady { Sim::steady(plan.seed) } else { Sim::new(plan.seed) };
    sim.set_net(plan.net);
    prepare(&sim);
    let servers = Servers::start(&sim, plan)?;
    let crawl = crawl_in(&sim, plan)?;
    Ok(servers.conclude(&sim, crawl))
}

/// Crawls whatever answers in `sim`; of the plan, seeds, settings, shards and crashes count. The
/// log is left to whoever keeps the servers.
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

    /// What was asked for so far, but for requests that are still being answered.
    pub fn entries(&self) -> Vec<Entry> {
        self.server.flush_log().expect("memory takes every line");
        self.sink.entries()
    }

    /// Ends the servers, and adds their log to the crawl.
    pub fn conclude(&self, sim: &Sim, crawl: Crawl) -> Crawl {
        // Their drafts become lines: requests whose answer the end has cut.
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

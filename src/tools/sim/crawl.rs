//! One whole crawl in the simulator: shards, synthetic web and name server, on virtual time, and
//! the control thread's part played by [`steer`].
//!
//! In: a [`CrawlPlan`]. Out: what the servers saw, the files on disk, and the shards' last reports.
//! The servers are in a world of acknowledged sends, so that their log says what the crawler got
//! and not what was lost on the way.

use crate::base::Time;
use crate::config::Settings;
use crate::flow::{Candidate, Class, Command, Mail, Outcome, ShardIndex, Trail, Via};
use crate::io::sim::{Faults, NetModel, Sim, SimError, SimOutbox, SimWorld, Unknown};
use crate::io::{Clock, Inbox, Net, NetError, Outbox, Spawn};
use crate::limits::{NOTICE_COUNT_MAX, SIM_DRAIN_MS_MAX, SIM_MAILBOX_BATCH_COUNT};
use crate::metrics::Report;
use crate::shard::{self, Notice, Placement, Plan, Rounds, Sabotage, ShardError, Verdict};
use crate::store::StoreError;
use crate::url::Url;
use crate::web::log::Entry;
use crate::web::weather::Sky;
use crate::web::{MemorySink, RequestLog, Server, SpecError, Web, WebSpec};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// Where the simulated name server answers.
pub const DNS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 53)), 53);
/// The servers' world; shards count from zero.
const WEB_WORLD: u16 = u16::MAX - 1;

/// Everything that decides how a crawl goes.
#[derive(Clone)]
pub struct CrawlPlan {
    pub seed: u64,
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
}

impl CrawlPlan {
    /// A crawl of `spec` from its own seed URL, on a network without faults.
    pub fn new(seed: u64, spec: WebSpec, shard_count: u16) -> Result<CrawlPlan, CrawlError> {
        let seed_url = Web::new(spec.clone()).map_err(CrawlError::Spec)?.seed_url();
        Ok(CrawlPlan {
            seed,
            spec,
            shard_count,
            settings: Settings {
                allow_private: true,
                contact: "http://crawler.test/".into(),
                ..Settings::default()
            },
            seeds: Url::parse(&seed_url).into_iter().collect(),
            stop_after: None,
            net: NetModel::default(),
            line_faults: Faults::default(),
            dns_faults: Faults::default(),
            sabotage: None,
        })
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
    /// Ended by `stop_after` and not by itself.
    pub is_stopped: bool,
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
    let sim = Sim::new(plan.seed);
    sim.set_net(plan.net);
    prepare(&sim);
    let (server, sink) = start_web(&sim, plan)?;
    let crawl = crawl_in(&sim, plan)?;
    // Its drafts become lines: requests whose answer the end has cut.
    sim.kill(WEB_WORLD);
    server.flush_log().expect("memory takes every line");
    Ok(Crawl { log: sink.entries(), log_text: sink.text(), ..crawl })
}

/// Crawls whatever answers in `sim`; of the plan, seeds, settings and shards count. The log is left
/// to whoever keeps the servers.
pub fn crawl_in(sim: &Sim, plan: &CrawlPlan) -> Result<Crawl, CrawlError> {
    let began = sim.now();
    let mut shards = start_shards(sim, plan);
    shards.sow(&plan.seeds);
    let stop_at = plan.stop_after.map_or(Time::NEVER, |span| began + span);
    let control = shards.control.take().expect("taken once");
    let clock = sim.world(WEB_WORLD);
    let steered = sim.block_on(steer(control, &shards.outboxes, &clock, stop_at));
    let (failed_seeds, is_stopped) = steered.map_err(CrawlError::Sim)??;
    let reports = shards.ended(sim)?;
    Ok(Crawl {
        log: Vec::new(),
        log_text: String::new(),
        files: sim.files(),
        reports,
        failed_seeds,
        is_stopped,
        digest: sim.digest(),
        began,
        ended: sim.now(),
        step_count: sim.step_count(),
    })
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

/// The shards under way.
struct Shards<I> {
    outboxes: Vec<SimOutbox<Mail>>,
    placement: Placement,
    control: Option<I>,
    ends: Rc<RefCell<Vec<Result<Report, ShardError>>>>,
}

fn start_shards(sim: &Sim, plan: &CrawlPlan) -> Shards<impl Inbox<Notice> + use<>> {
    let placement = Placement::new(plan.shard_count);
    let shard_plan = Plan {
        upstreams: vec![DNS],
        placement,
        homes: Default::default(),
        extra_ca: None,
        has_budget: plan.settings.max_pages > 0,
        settings: plan.settings.clone(),
        sabotage: plan.sabotage,
    };
    let (to_control, control) = sim.mailbox::<Notice>(NOTICE_COUNT_MAX);
    let (outboxes, inboxes): (Vec<_>, Vec<_>) =
        (0..plan.shard_count).map(|_| sim.mailbox::<Mail>(SIM_MAILBOX_BATCH_COUNT)).unzip();
    let ends: Rc<RefCell<Vec<_>>> = Rc::default();
    for (index, inbox) in (0..plan.shard_count).zip(inboxes) {
        let world = sim.world(index);
        let peers: Vec<Option<SimOutbox<Mail>>> = (0..plan.shard_count)
            .zip(&outboxes)
            .map(|(peer, outbox)| (peer != index).then(|| outbox.clone()))
            .collect();
        let (shard_plan, control) = (shard_plan.clone(), to_control.clone());
        let (task_world, ends) = (world.clone(), ends.clone());
        world.spawn(async move {
            let shard = ShardIndex(index);
            let end = shard::run(task_world, shard, shard_plan, inbox, peers, control).await;
            ends.borrow_mut().push(end);
        });
    }
    Shards { outboxes, placement, control: Some(control), ends }
}

impl<I> Shards<I> {
    /// One message a shard, with all of its seeds.
    fn sow(&self, seeds: &[Url]) {
        let mut sown = vec![Vec::new(); self.outboxes.len()];
        for url in seeds {
            let owner = self.placement.of_host(url.host_key());
            let (class, via, trail) = (Class::High, Via::Seed, Trail::default());
            let candidate = Candidate { url: url.clone(), depth: 0, class, via, trail };
            sown[usize::from(owner.0)].push(candidate);
        }
        for (outbox, candidates) in self.outboxes.iter().zip(sown) {
            let mail = Mail::Command(Command::Seeds(candidates));
            assert!(outbox.try_send(mail).is_ok(), "an empty mailbox has room");
        }
    }

    /// The last reports, once every shard has ended.
    fn ended(&self, sim: &Sim) -> Result<Vec<Report>, CrawlError> {
        let patience_end = sim.now() + Duration::from_millis(SIM_DRAIN_MS_MAX);
        while self.ends.borrow().len() < self.outboxes.len() {
            if sim.now() >= patience_end {
                return Err(CrawlError::Endless);
            }
            let until = sim.now() + Duration::from_millis(100);
            sim.run_until(until).map_err(CrawlError::Sim)?;
        }
        let ends = std::mem::take(&mut *self.ends.borrow_mut());
        ends.into_iter().map(|end| end.map_err(CrawlError::Shard)).collect()
    }
}

type Steered = Result<(Vec<(Url, Outcome)>, bool), CrawlError>;

/// What the control thread does: asks until all is quiet or the time is up, lets them drain, and
/// halts them. The seeds that failed, and whether time was up.
async fn steer(
    control: impl Inbox<Notice>,
    outboxes: &[SimOutbox<Mail>],
    clock: &impl Clock,
    stop_at: Time,
) -> Steered {
    let mut rounds = Rounds::new(outboxes.len());
    let mut failed_seeds = Vec::new();
    let mut drained = vec![false; outboxes.len()];
    // Whether time was up, and when patience is.
    let mut ending: Option<(bool, Time)> = None;
    let tell_all = |command: Command| {
        for outbox in outboxes {
            // A full mailbox is told again with the next report.
            let _ = outbox.try_send(Mail::Command(command.clone()));
        }
    };
    let end = |is_stopped| {
        tell_all(Command::Drain);
        Some((is_stopped, clock.now() + Duration::from_millis(SIM_DRAIN_MS_MAX)))
    };
    loop {
        match control.receive().await {
            Notice::Pulse(pulse) => {
                if rounds.answer(pulse) == Verdict::Quiet && ending.is_none() {
                    ending = end(false);
                }
            }
            // Reports come once a second: often enough to ask.
            Notice::Report(report) if report.shard == ShardIndex(0) => match ending {
                None if clock.now() >= stop_at => ending = end(true),
                None => tell_all(Command::Probe { round: rounds.begin() }),
                Some((_, patience_end)) if clock.now() >= patience_end => {
                    return Err(CrawlError::Endless);
                }
                Some(_) => tell_all(Command::Drain),
            },
            Notice::Drained(shard) => drained[usize::from(shard.0)] = true,
            Notice::SeedFailed { url, outcome } => failed_seeds.push((url, outcome)),
            Notice::StoreFailed { error, .. } => return Err(CrawlError::Store(error)),
            // The shard waits for the disk by itself.
            Notice::DiskFailed { .. } | Notice::DiskWorks(_) => {}
            Notice::Report(_) | Notice::BudgetWanted(_) | Notice::BudgetReturned(_) => {}
        }
        if let Some((is_stopped, _)) = ending
            && drained.iter().all(|drained| *drained)
        {
            for outbox in outboxes {
                while outbox.try_send(Mail::Command(Command::Halt)).is_err() {
                    clock.sleep_until(clock.now() + Duration::from_millis(1)).await;
                }
            }
            return Ok((failed_seeds, is_stopped));
        }
    }
}

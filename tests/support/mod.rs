//! A whole crawl in the simulator: shards, synthetic web and name server, on virtual time.
#![allow(dead_code)] // each test file uses its part

use nephila::base::Time;
use nephila::config::Settings;
use nephila::flow::{Candidate, Class, Command, Mail, ShardIndex, Trail, Via};
use nephila::io::sim::{Sim, SimOutbox};
use nephila::io::{Inbox, Net, Outbox, Spawn};
use nephila::limits;
use nephila::metrics::Report;
use nephila::shard::{self, Notice, Placement, Plan, Rounds, Verdict};
use nephila::url::Url;
use nephila::web::{MemorySink, RequestLog, Server, Web, WebSpec, log::Entry};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;

pub struct Crawl {
    /// What the servers saw.
    pub log: Vec<Entry>,
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    pub reports: Vec<Report>,
    pub failed_seeds: Vec<(Url, nephila::flow::Outcome)>,
    pub digest: u64,
    pub ended: Time,
}

const DNS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 53)), 53);

pub fn settings() -> Settings {
    Settings { allow_private: true, contact: "http://crawler.test/".into(), ..Default::default() }
}

pub fn url(text: &str) -> Url {
    Url::parse(text).expect("a URL")
}

/// The web's own seed URL: host 0's root.
pub fn web_seed(web: &Web) -> Url {
    url(&web.url(web.graph().root(0)))
}

/// Crawls the web of `spec` from its seed URL with `shard_count` shards.
pub fn crawl(seed: u64, spec: WebSpec, shard_count: u16, settings: Settings) -> Crawl {
    let web = Web::new(spec.clone()).expect("a sound spec");
    let start = web_seed(&web);
    crawl_from(seed, spec, shard_count, settings, vec![start])
}

pub fn crawl_from(
    seed: u64,
    spec: WebSpec,
    shard_count: u16,
    settings: Settings,
    seeds: Vec<Url>,
) -> Crawl {
    let sim = Sim::new(seed);
    let sink = MemorySink::default();
    start_web(&sim, spec, sink.clone());
    let placement = Placement::new(shard_count);
    let plan = Plan {
        upstreams: vec![DNS],
        placement,
        homes: Default::default(),
        extra_ca: None,
        has_budget: settings.max_pages > 0,
        settings,
    };
    let (to_control, control) = sim.mailbox::<Notice>(limits::NOTICE_COUNT_MAX);
    let (outboxes, inboxes): (Vec<_>, Vec<_>) =
        (0..shard_count).map(|_| sim.mailbox::<Mail>(64)).unzip();
    let reports: Rc<RefCell<Vec<Report>>> = Rc::default();
    for (index, inbox) in inboxes.into_iter().enumerate() {
        let world = sim.world(index as u16);
        let peers: Vec<Option<SimOutbox<Mail>>> = outboxes
            .iter()
            .enumerate()
            .map(|(peer, outbox)| (peer != index).then(|| outbox.clone()))
            .collect();
        let (plan, control) = (plan.clone(), to_control.clone());
        let (task_world, reports) = (world.clone(), reports.clone());
        world.spawn(async move {
            let shard = ShardIndex(index as u16);
            let end = shard::run(task_world, shard, plan, inbox, peers, control).await;
            reports.borrow_mut().push(end.expect("a shard that starts"));
        });
    }
    for url in seeds {
        let owner = placement.of_host(url.host_key());
        let (class, via, trail) = (Class::High, Via::Seed, Trail::default());
        let candidate = Candidate { url, depth: 0, class, via, trail };
        let sown = Mail::Command(Command::Seeds(vec![candidate]));
        outboxes[owner.0 as usize].try_send(sown).expect("room");
    }
    let failed_seeds = sim.block_on(control_until_quiet(control, &outboxes)).expect("a quiet end");
    while reports.borrow().len() < shard_count as usize {
        let until = sim.now() + std::time::Duration::from_millis(10);
        sim.run_until(until).expect("shards that end");
    }
    let reports = std::mem::take(&mut *reports.borrow_mut());
    Crawl {
        log: sink.entries(),
        files: sim.files(),
        reports,
        failed_seeds,
        digest: sim.digest(),
        ended: sim.now(),
    }
}

fn start_web(sim: &Sim, spec: WebSpec, sink: MemorySink) {
    let world = sim.world(1_000);
    let port = spec.port;
    let web = Rc::new(Web::new(spec).expect("a sound spec"));
    let server = Server::new(world.clone(), web, RequestLog::new(sink));
    let http = world.listen(SocketAddr::from(([0, 0, 0, 0], port))).expect("a free port");
    let dns = world.datagram(DNS, None).expect("a free port");
    let dns_tcp = world.listen(DNS).expect("a free port");
    let (first, second, third) = (server.clone(), server.clone(), server.clone());
    world.spawn(async move {
        let _ = first.serve(http).await;
    });
    world.spawn(async move {
        let _ = second.serve_dns(dns).await;
    });
    world.spawn(async move {
        let _ = third.serve_dns_tcp(dns_tcp).await;
    });
    world.spawn(async move {
        let _ = server.keep_log().await;
    });
}

/// What the control thread does, on virtual time: asks until all is quiet, then lets them drain.
async fn control_until_quiet(
    control: impl Inbox<Notice>,
    outboxes: &[SimOutbox<Mail>],
) -> Vec<(Url, nephila::flow::Outcome)> {
    let mut rounds = Rounds::new(outboxes.len());
    let mut failed_seeds = Vec::new();
    let tell_all = |command: Command| {
        for outbox in outboxes {
            // A full mailbox is asked again with the next report.
            let _ = outbox.try_send(Mail::Command(command.clone()));
        }
    };
    loop {
        match control.receive().await {
            Notice::Pulse(pulse) => {
                if rounds.answer(pulse) == Verdict::Quiet {
                    tell_all(Command::Drain);
                    return failed_seeds;
                }
            }
            // Reports come once a second: often enough to ask.
            Notice::Report(report) if report.shard == ShardIndex(0) => {
                tell_all(Command::Probe { round: rounds.begin() });
            }
            Notice::SeedFailed { url, outcome } => failed_seeds.push((url, outcome)),
            Notice::StoreFailed { error, .. } => panic!("the store failed: {error}"),
            Notice::Report(_) | Notice::BudgetWanted(_) | Notice::BudgetReturned(_) => {}
        }
    }
}

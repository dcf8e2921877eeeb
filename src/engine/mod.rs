//! The whole process: a data directory, a shard per core, and the control thread that steers the
//! shards.
//!
//! Settings and seeds flow in, a [`Summary`] flows out. [`crawl`] checks everything that can be
//! checked before the first socket opens, starts one pinned thread per core, and stays on the
//! calling thread as the control thread until the crawl is over.
#![allow(clippy::disallowed_types)] // threads meet here

mod directory;
mod manifest;
pub mod report;
mod steer;

pub use directory::{DataDirectory, DirectoryError};
pub use manifest::Manifest;
pub use steer::EndReason;

use crate::base::HashKey;
use crate::base::limits;
use crate::crawl::config::{ConfigError, Settings, Stay};
use crate::crawl::flow::{Candidate, Class, Command, Mail, Outcome, ShardIndex, Trail, Via};
use crate::crawl::metrics::{Gauges, Metrics, Report, Totals, merged};
use crate::crawl::resolve::upstream;
use crate::engine::report::counted;
use crate::io::Outbox;
use crate::io::ring::{
    Care, RingError, RingOutbox, RingWorld, ThreadOutbox, Unbound, Wake, mailbox,
};
use crate::proto::url::{Url, registrable_domain};
use crate::shard::{self, Notice, Past, Placement, Plan, ShardError};
use crate::sys::affinity;
use crate::sys::memory;
use crate::sys::process::{self, Signals};
use crossbeam::channel::Sender;
use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use steer::{Gathered, Steering};

/// The result of a crawl.
pub struct Summary {
    pub reason: EndReason,
    pub seconds: f64,
    pub metrics: Metrics,
    pub gauges: Gauges,
    /// The last report of each core.
    pub reports: Vec<Report>,
    /// Seeds that brought no page, each with the reason.
    pub failed_seeds: Vec<(Url, Outcome)>,
    pub warc_files: Vec<PathBuf>,
    /// The totals of the runs before this one; without any run if there was none.
    pub earlier: Totals,
    pub resident_bytes_peak: u64,
}

/// Why a crawl could not start, or did not end well.
#[derive(Debug)]
pub enum EngineError {
    Config(ConfigError),
    Directory(DirectoryError),
    Ring(RingError),
    Shard(ShardIndex, ShardError),
    /// No resolver is configured, and the system names none.
    NoResolver,
    ExtraCa(String),
    /// The seeds name more domains or hosts than links can be kept to.
    TooManyHomes(usize),
    /// The thread of a core has panicked.
    ShardDied(ShardIndex),
    /// The crawl has failed, and this shard did not end when it was told to.
    ShardStuck(ShardIndex),
}

impl fmt::Display for EngineError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EngineError::Config(error) => write!(out, "{error}"),
            EngineError::Directory(error) => write!(out, "{error}"),
            EngineError::Ring(error) => write!(out, "{error}"),
            EngineError::Shard(shard, error) => write!(out, "shard {}: {error}", shard.0),
            EngineError::NoResolver => out.write_str(
                "no DNS resolver: /etc/resolv.conf names none; add --dns IP:PORT or `dns` to the \
                 configuration",
            ),
            EngineError::ExtraCa(text) => write!(out, "extra_ca: {text}"),
            EngineError::TooManyHomes(count) => write!(
                out,
                "the seeds name {count} domains or hosts, and links can be kept to {} at most: add \
                 `--stay web` to follow links everywhere",
                limits::HOME_COUNT_MAX
            ),
            EngineError::ShardDied(shard) => {
                write!(out, "the thread of shard {} panicked", shard.0)
            }
            EngineError::ShardStuck(shard) => write!(
                out,
                "the crawl was given up, and shard {} did not end within {} s; the files on disk \
                 are sound, and the crawl can be resumed",
                shard.0,
                (limits::LOST_SHARD_DRAIN_MS + limits::LOST_SHARD_HALT_MS) / 1_000
            ),
        }
    }
}

impl std::error::Error for EngineError {}

/// Crawls from `seeds` into `directory` until nothing is left, a limit is reached or a signal
/// comes. `watch` gets the latest report of every core several times a second.
pub fn crawl(
    settings: Settings,
    seeds: Vec<Url>,
    directory: &Path,
    signals: Option<&Signals>,
    watch: &mut dyn FnMut(&[Report]),
) -> Result<Summary, EngineError> {
    let (cores, running) = checked(&settings)?;
    let homes = homes(&settings, &seeds);
    let manifest = Manifest::new(&settings, cores.len() as u16, homes);
    check_homes(&manifest)?;
    let shortage = running.shortage;
    let plan = plan(&manifest, running, None)?;
    let directory = DataDirectory::create(directory, &manifest).map_err(EngineError::Directory)?;
    let advice = match settings.stay {
        Stay::Web => "",
        Stay::Domain | Stay::Host => "; --stay web follows them everywhere",
    };
    tracing::info!("crawl of {}: {}{advice}", seeds_text(&seeds), manifest.scope_text());
    tell_shortage(shortage.as_ref(), &plan.settings);
    run(plan, manifest, &cores, seeds, &directory, signals, watch)
}

/// Goes on with the crawl in `directory`. Those of `seeds` that it does not know yet are added.
pub fn resume(
    settings: Settings,
    seeds: Vec<Url>,
    directory: &Path,
    signals: Option<&Signals>,
    watch: &mut dyn FnMut(&[Report]),
) -> Result<Summary, EngineError> {
    let (cores, running) = checked(&settings)?;
    let (directory, mut manifest) =
        DataDirectory::open(directory).map_err(EngineError::Directory)?;
    let past = manifest.past;
    let changes = manifest.adopt(&settings).map_err(EngineError::Directory)?;
    if manifest.has_homes() {
        manifest.homes.extend(homes(&settings, &seeds));
    }
    check_homes(&manifest)?;
    let given = match seeds.len() {
        0 => String::new(),
        _ => format!(" with {} more", seeds_text(&seeds)),
    };
    tracing::info!("crawl resumed{given}: {}", manifest.scope_text());
    for change in changes {
        tracing::info!("this setting has changed since the last run: {change}");
    }
    tell_shortage(running.shortage.as_ref(), &running.settings);
    manifest.save(directory.path()).map_err(EngineError::Directory)?;
    if usize::from(past.shard_count) != cores.len() {
        manifest.past = Past { generation: past.generation + 1, shard_count: cores.len() as u16 };
    }
    let plan = plan(&manifest, running, Some(past))?;
    run(plan, manifest, &cores, seeds, &directory, signals, watch)
}

/// The system allows fewer open files than the settings need.
#[derive(Clone, Copy)]
struct Shortage {
    allowed: u64,
    wanted: u64,
}

/// The settings that this process runs with. They are those of the manifest, except that the
/// connections are reduced where the limit of open files demands it. That limit belongs to the
/// process, so the manifest keeps what the operator has set.
struct Running {
    settings: Settings,
    shortage: Option<Shortage>,
}

/// Returns the cores to run on, and the settings for them.
fn checked(settings: &Settings) -> Result<(Vec<usize>, Running), EngineError> {
    settings.check().map_err(EngineError::Config)?;
    let cores = settings.cores_among(&affinity::allowed_cores()).map_err(EngineError::Config)?;
    let running = within_open_files(settings, cores.len());
    Ok((cores, running))
}

fn tell_shortage(shortage: Option<&Shortage>, settings: &Settings) {
    if let Some(Shortage { allowed, wanted }) = shortage {
        tracing::warn!(
            "the system allows {allowed} open files and the settings need {wanted}: this run has \
             at most {} at once on each core and keeps at most {} open; raise the limit with \
             `ulimit -n`",
            counted(settings.fetch_slots as u64, "request", "requests"),
            counted(settings.keep_alive_count_max as u64, "idle connection", "idle connections"),
        );
    }
}

/// Runs a crawl to its end. `manifest` is the one that holds once all shards have their state.
fn run(
    plan: Plan,
    manifest: Manifest,
    cores: &[usize],
    seeds: Vec<Url>,
    directory: &DataDirectory,
    signals: Option<&Signals>,
    watch: &mut dyn FnMut(&[Report]),
) -> Result<Summary, EngineError> {
    memory::make_ready((plan.settings.ready_memory_mb << 20) * cores.len());
    // The control thread and the file workers keep off the fetching cores, if there are other
    // cores.
    let mut others = affinity::allowed_cores();
    others.retain(|core| !cores.contains(core));
    let _kept = match affinity::keep_to(&others) {
        Ok(kept) => Some(kept),
        Err(_) if others.is_empty() => None,
        Err(number) => {
            tracing::info!(
                "the control thread shares the shards' cores: it could not be moved (system error \
                 {number})"
            );
            None
        }
    };
    let begun_ns = process::monotonic_ns();
    let (notices, inbox) = crossbeam::channel::bounded(limits::NOTICE_COUNT_MAX);
    let mut fleet = Fleet::start(cores, &others, &plan, directory.path(), &notices)?;
    drop(notices);
    let mut steering = Steering::new(&plan.settings, cores.len(), inbox, directory.path());
    let reason = match steering.gather(&fleet, signals) {
        Gathered::Ready => {
            // If slots are dealt in a new way, it holds from here on.
            if plan.past.is_some_and(|past| past != manifest.past) {
                manifest.save(directory.path()).map_err(EngineError::Directory)?;
            }
            steering.tell_recovery();
            steering.open(&fleet, fleet.shares(&plan, seeds));
            steering.run(&fleet, signals, watch)
        }
        Gathered::Interrupted => steering.stop(&fleet, signals, EndReason::Interrupted),
        Gathered::Failed => steering.stop(&fleet, signals, EndReason::ShardEnded),
    };
    let reports = fleet.join(&mut steering)?;
    let reason = steering.reason(reason);
    watch(&reports);
    let (metrics, gauges) = merged(&reports);
    Ok(Summary {
        reason,
        seconds: (process::monotonic_ns() - begun_ns) as f64 / 1e9,
        metrics,
        gauges,
        reports,
        earlier: steering.earlier(),
        failed_seeds: steering.failed_seeds,
        warc_files: directory.warc_files().map_err(EngineError::Directory)?,
        resident_bytes_peak: process::resident_bytes().1,
    })
}

/// Makes the connections fit the limit of open files. Raises the limit if the system allows that,
/// else reduces the connections of this process.
fn within_open_files(settings: &Settings, core_count: usize) -> Running {
    let files_per_core = limits::QUEUE_OPEN_FILE_COUNT_MAX;
    let per_core = settings.fetch_slots + settings.keep_alive_count_max + files_per_core;
    let wanted = (per_core * core_count + limits::OTHER_FILE_COUNT) as u64;
    let allowed = process::raise_open_files(wanted).unwrap_or(limits::OTHER_FILE_COUNT as u64 * 2);
    let mut settings = settings.clone();
    let shortage = (allowed < wanted).then_some(Shortage { allowed, wanted });
    if shortage.is_some() {
        let share = (allowed as usize).saturating_sub(limits::OTHER_FILE_COUNT) / core_count;
        let share = share.saturating_sub(files_per_core);
        settings.fetch_slots = settings.fetch_slots.min((share / 2).max(1));
        let rest = share.saturating_sub(settings.fetch_slots);
        settings.keep_alive_count_max = settings.keep_alive_count_max.min(rest);
    }
    Running { settings, shortage }
}

/// Returns where links may lead to, given the seeds; empty if links may lead anywhere.
fn homes(settings: &Settings, seeds: &[Url]) -> BTreeSet<Box<str>> {
    match settings.stay {
        Stay::Web => BTreeSet::new(),
        Stay::Domain => seeds.iter().map(|url| registrable_domain(url.host()).into()).collect(),
        Stay::Host => seeds.iter().map(|url| url.host().into()).collect(),
    }
}

fn check_homes(manifest: &Manifest) -> Result<(), EngineError> {
    let count = manifest.homes.len();
    if count > limits::HOME_COUNT_MAX { Err(EngineError::TooManyHomes(count)) } else { Ok(()) }
}

fn seeds_text(seeds: &[Url]) -> String {
    counted(seeds.len() as u64, "seed", "seeds")
}

fn plan(manifest: &Manifest, running: Running, past: Option<Past>) -> Result<Plan, EngineError> {
    let Running { settings, .. } = running;
    let extra_ca = match &settings.extra_ca {
        None => None,
        Some(path) => Some(
            std::fs::read(path)
                .map_err(|error| EngineError::ExtraCa(format!("{}: {error}", path.display())))?,
        ),
    };
    Ok(Plan {
        hash_key: HashKey::new(manifest.hash_secret),
        upstreams: upstreams(&settings)?,
        placement: Placement::new(manifest.past.shard_count),
        homes: manifest.homes.iter().cloned().collect(),
        extra_ca,
        has_budget: settings.max_pages > 0,
        sabotage: None,
        past,
        generation: manifest.past.generation,
        settings,
    })
}

fn upstreams(settings: &Settings) -> Result<Vec<SocketAddr>, EngineError> {
    if !settings.dns.is_empty() {
        return Ok(settings.dns.clone());
    }
    let found = upstream::from_resolv_conf(&std::fs::read("/etc/resolv.conf").unwrap_or_default());
    if found.is_empty() { Err(EngineError::NoResolver) } else { Ok(found) }
}

/// The threads of the shards, and their mailboxes.
struct Fleet {
    outboxes: Vec<RingOutbox<Mail>>,
    threads: Vec<JoinHandle<Result<Result<Report, EngineError>, RingError>>>,
}

impl Fleet {
    fn start(
        cores: &[usize],
        others: &[usize],
        plan: &Plan,
        directory: &Path,
        notices: &Sender<Notice>,
    ) -> Result<Fleet, EngineError> {
        let mut ends: Vec<(Arc<Wake>, RingOutbox<Mail>, Unbound<Mail>)> = Vec::new();
        for _ in cores {
            let wake = Wake::new().map_err(EngineError::Ring)?;
            let (outbox, inbox) = mailbox(limits::MAILBOX_BATCH_COUNT, &wake);
            ends.push((wake, outbox, inbox));
        }
        let outboxes: Vec<RingOutbox<Mail>> =
            ends.iter().map(|(_, outbox, _)| outbox.clone()).collect();
        let mut threads = Vec::new();
        for (index, ((wake, _, inbox), core)) in ends.into_iter().zip(cores).enumerate() {
            let peers = outboxes
                .iter()
                .enumerate()
                .map(|(peer, outbox)| (peer != index).then(|| outbox.clone()))
                .collect();
            let (plan, directory) = (plan.clone(), directory.to_owned());
            let others = others.to_owned();
            let control = ThreadOutbox(notices.clone());
            let shard = ShardIndex(index as u16);
            let main = move || async move {
                let world = RingWorld::new(wake, Some(&directory)).map_err(EngineError::Ring)?;
                if !others.is_empty() {
                    world.keep_workers_to(&others);
                }
                let inbox = inbox.bind(&world);
                let end = shard::run(world.clone(), shard, plan, inbox, peers, control).await;
                world.close_streams().await;
                world.stop();
                end.map_err(|error| EngineError::Shard(shard, error))
            };
            let name = format!("shard-{index:02}");
            let thread = RingWorld::start(Some(*core), &name, Care::Vital, main)
                .map_err(EngineError::Ring)?;
            threads.push(thread);
        }
        Ok(Fleet { outboxes, threads })
    }

    /// Returns for each shard the seeds whose hosts it owns.
    fn shares(&self, plan: &Plan, seeds: Vec<Url>) -> Vec<Vec<Candidate>> {
        let mut shares: Vec<Vec<Candidate>> = vec![Vec::new(); self.outboxes.len()];
        for url in seeds {
            let owner = plan.placement.of_host(url.host_key(&plan.hash_key));
            let (class, via, trail) = (Class::High, Via::Seed, Trail::default());
            shares[owner.0 as usize].push(Candidate { url, depth: 0, class, via, trail });
        }
        shares
    }

    /// Sends a command. Returns it as the error if the mailbox is full.
    fn send(&self, shard: ShardIndex, command: Command) -> Result<(), Command> {
        match self.outboxes[shard.0 as usize].try_send(Mail::Command(command)) {
            Err(Mail::Command(command)) => Err(command),
            Ok(()) | Err(Mail::Batch { .. }) => Ok(()),
        }
    }

    /// Sends a command. Returns false if the mailbox is full.
    fn command(&self, shard: ShardIndex, command: Command) -> bool {
        self.send(shard, command).is_ok()
    }

    fn shard_count(&self) -> usize {
        self.outboxes.len()
    }

    fn has_ended(&self, shard: ShardIndex) -> bool {
        self.threads[shard.0 as usize].is_finished()
    }

    /// Reports whether any shard has ended, so that the crawl is over.
    fn is_over(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    fn all_over(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits for every shard to end, and still receives their notices. Once a shard has failed, the
    /// wait for the others is bounded. Fails with the first reason, which is the one to show the
    /// operator.
    fn join(&mut self, steering: &mut Steering) -> Result<Vec<Report>, EngineError> {
        while !self.all_over() && !steering.is_past_waiting() {
            steering.listen(std::time::Duration::from_millis(10));
        }
        steering.listen(std::time::Duration::ZERO);
        let (mut reports, mut failed, mut stuck) = (Vec::new(), None, None);
        for (index, thread) in self.threads.drain(..).enumerate() {
            let shard = ShardIndex(index as u16);
            if !thread.is_finished() {
                stuck.get_or_insert(EngineError::ShardStuck(shard));
                continue;
            }
            match thread.join() {
                Err(_) => _ = failed.get_or_insert(EngineError::ShardDied(shard)),
                Ok(Err(error)) => _ = failed.get_or_insert(EngineError::Ring(error)),
                Ok(Ok(Err(error))) => _ = failed.get_or_insert(error),
                Ok(Ok(Ok(report))) => reports.push(report),
            }
        }
        failed.or(stuck).map_or(Ok(reports), Err)
    }
}

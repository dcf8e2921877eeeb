//! One core's crawler: wires the stages, and closes the loop from links back to the frontier.
//!
//! In: mail (links and questions of other shards, commands of the control thread). Out: mail, WARC
//! records, notices to the control thread. A host belongs to exactly one shard, so its queue, its
//! robots rules, its address and its pace are touched by one core alone.
//!
//! A URL's way through the shard:
//! 1. offered to the frontier ([`Shard::offer`]) by a seed, a link, a redirect or a peer;
//! 2. its host's time comes and [`Shard::schedule`] starts a visit ([`visit`]);
//! 3. the visit resolves the host, checks robots, waits for the address's turn ([`manners`]) and
//!    makes one request; what came of it sets the host's pace and its origin's health;
//! 4. the answer is parsed while it arrives, judged, stored, its links routed (`visit::page`);
//! 5. the host goes back to the frontier with the time of its next turn.

mod archive;
mod bodies;
mod budget;
mod checkpoint;
mod cooling;
pub mod discovery;
mod ends;
mod error;
mod image;
mod inspection;
mod kit;
mod lifecycle;
mod mail;
mod manners;
mod mesh;
mod meter;
mod notice;
mod out;
mod placement;
mod probe;
mod recovery;
mod sabotage;
mod sameness;
mod seeds;
mod sieving;
mod slots;
mod tails;
mod termination;
pub mod view;
mod visit;
mod waits;

pub use budget::BudgetDesk;
pub use error::ShardError;
pub use inspection::{Inspection, News};
pub use notice::Notice;
pub use placement::Placement;
pub use recovery::{Buried, Finding, Recovery, Salvage};
pub use sabotage::Sabotage;
pub use termination::{Pulse, Rounds, Verdict};

use crate::base::limits;
use crate::base::race::race;
use crate::base::{HashKey, Time};
use crate::crawl::config::Settings;
use crate::crawl::fetch::{Client, Timeouts, TlsPolicy};
use crate::crawl::flow::{Candidate, Mail, Queued, ShardIndex, TurnPlace};
use crate::crawl::frontier::seen::DiskSieve;
use crate::crawl::frontier::{Frontier, HostId, Offered};
use crate::crawl::metrics::{Count, Gauges, Metrics, Report, Span, Stage};
use crate::crawl::resolve::{DnsSettings, Resolver};
use crate::crawl::store::{DeadLetter, Life, RequestLog, StoreSettings, WarcStore};
use crate::io::{Inbox, Outbox, World};
use crate::proto::http::DecoderPool;
use crate::proto::url::HostKey;
use archive::Archive;
use cooling::Cooling;
use discovery::link_desk::LinkDesk;
use discovery::{Discovery, Territory};
use hashbrown::HashSet;
use kit::Kit;
use manners::{Manners, Pace};
use mesh::Mesh;
use recovery::State;
use sameness::Sameness;
use slots::Slots;
use std::cell::{Cell, Ref, RefCell, RefMut};
use std::collections::HashMap;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

/// What the shards of a crawl have in common, each with its own copy.
#[derive(Clone)]
pub struct Plan {
    pub settings: Settings,
    /// The crawl's, under which hosts, URLs, domains and addresses are hashed.
    pub hash_key: HashKey,
    pub placement: Placement,
    /// Upstream resolvers, from the settings or the system.
    pub upstreams: Vec<std::net::SocketAddr>,
    /// Hosts, or registrable domains, that links may lead to; empty if `stay` is the whole web.
    pub homes: HashSet<Box<str>>,
    pub extra_ca: Option<Vec<u8>>,
    /// Whether pages are limited, and budget must be asked for.
    pub has_budget: bool,
    /// A rule to break, so that the judge is seen to notice.
    pub sabotage: Option<Sabotage>,
    /// What this crawl goes on from; `None` if it begins.
    pub past: Option<Past>,
    /// The way slots are dealt to shards, by number: another count of shards is another generation.
    pub generation: u32,
}

/// How an earlier process had dealt the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    pub generation: u32,
    pub shard_count: u16,
}

/// Owned by one core.
struct Shard<W: World> {
    kit: Rc<Kit<W>>,
    discovery: RefCell<Discovery<W::File>>,
    sieving: sieving::Sieving,
    tailing: tails::Tailing<W::File>,
    cooling: Cooling,
    manners: RefCell<Manners>,
    /// Hosts whose turn at an address or a domain has come.
    granted: RefCell<VecDeque<(HostId, TurnPlace)>>,
    resolver: Resolver<W>,
    /// Hosts that wait for the answer to an errand elsewhere, by origin.
    parked: RefCell<HashMap<Box<str>, (HostId, Queued)>>,
    client: Client<W>,
    decoders: RefCell<DecoderPool>,
    sameness: Sameness,
    archive: Rc<Archive<W>>,
    /// What was found, until the control thread knows it.
    recovery: RefCell<Option<Recovery>>,
    /// The state was dealt anew, and is in no checkpoint yet.
    is_dealt: bool,
    sowing: seeds::Sowing,
    mesh: RefCell<Mesh>,
    slots: Slots,
    /// Hosts that have asked for a turn at an address or a domain, and wait for it.
    in_line_count: Cell<u64>,
}

/// Runs shard `index` until it is told to stop. Resolves when everything is on disk.
pub async fn run<W, O, C>(
    world: W,
    index: ShardIndex,
    plan: Plan,
    inbox: impl Inbox<Mail>,
    outboxes: Vec<Option<O>>,
    control: C,
) -> Result<Report, ShardError>
where
    W: World,
    O: Outbox<Mail>,
    C: Outbox<Notice>,
{
    let kit = Kit::new(world, index, plan, control);
    let shard = Rc::new(Shard::open(kit, outboxes).await?);
    let spawn = |stage: Stage, task: Pin<Box<dyn Future<Output = ()>>>| {
        let kit = shard.kit.clone();
        shard.kit.beside(async move { kit.spend_on(stage, task).await });
    };
    spawn(Stage::Mail, Box::pin(shard.clone().take_mail(inbox)));
    spawn(Stage::Mail, Box::pin(shard.clone().keep_sowing()));
    spawn(Stage::Schedule, Box::pin(shard.clone().keep_house()));
    spawn(Stage::Disk, Box::pin(shard.clone().keep_sieve()));
    spawn(Stage::Disk, Box::pin(shard.clone().keep_tails()));
    spawn(Stage::Ends, Box::pin(shard.clone().keep_ends()));
    spawn(Stage::Mail, Box::pin(shard.clone().keep_owed()));
    spawn(Stage::Disk, Box::pin(shard.clone().keep_checkpoints()));
    spawn(Stage::Schedule, Box::pin(shard.clone().keep_bodies()));
    let report = shard.live().await;
    // Who still waits for something would keep the shard, all its tables with it, for good.
    shard.kit.life.finish();
    shard.kit.world.yield_now().await;
    tracing::debug!("left of the shard: {} holders", Rc::strong_count(&shard));
    report
}

impl<W: World> Shard<W> {
    async fn open(
        kit: Rc<Kit<W>>,
        outboxes: Vec<Option<impl Outbox<Mail>>>,
    ) -> Result<Shard<W>, ShardError> {
        let (world, index, plan) = (&kit.world, kit.index, &kit.plan);
        let settings = &plan.settings;
        let agent = settings.user_agent();
        let state = recovery::open(world, index, plan).await?;
        let State { frontier, health, robots, sitemaps, journal, books, .. } = state;
        let State { dead, recovery, is_dealt, totals, .. } = state;
        let store_settings = StoreSettings {
            deflate_level: settings.warc_deflate_level,
            block_digest: settings.warc_block_digest,
            roll_bytes: settings.warc_file_bytes,
            sync_ms: settings.sync_ms,
            user_agent: agent.clone(),
            contact: settings.contact.clone(),
            ..StoreSettings::default()
        };
        let store =
            WarcStore::open(world, index.0, store_settings).await.map_err(ShardError::Store)?;
        let life = if plan.past.is_some() { Life::Resumed } else { Life::First };
        let request_log = RequestLog::open(world, index.0, life).await;
        let request_log = request_log.map_err(ShardError::Store)?;
        let dead_letters = RequestLog::open_dead(world, index.0, life).await;
        let dead_letters = dead_letters.map_err(ShardError::Store)?;
        let tls = TlsPolicy::new(plan.extra_ca.as_deref(), settings.insecure_tls)
            .map_err(ShardError::Tls)?;
        let dns = DnsSettings {
            upstreams: plan.upstreams.clone(),
            timeout_ms: settings.dns_timeout_ms,
            tries: settings.dns_tries,
            allow_private: settings.allow_private,
        };
        // What is kept in this process alone has a key that no other process had.
        let own_secret = [world.random_u64(), world.random_u64()].map(u128::from);
        let own_key = HashKey::new(own_secret[0] << 64 | own_secret[1]);
        for (queued, outcome, at) in dead {
            let Queued { url, depth, via, .. } = &queued;
            let (tries, depth, via) = (queued.tries_made(), *depth, *via);
            dead_letters.write(&DeadLetter { at, outcome, tries, depth, via, url }).await;
        }
        let (territory, links) =
            (Territory::new(index, plan), LinkDesk::new(settings.link_memory_mb, own_key));
        let discovery = Discovery::new(territory, frontier, links, sitemaps);
        let opened = archive::Opened { store, request_log, dead_letters, journal, books, totals };
        let archive = Archive::new(&kit, opened);
        Ok(Shard {
            discovery: RefCell::new(discovery),
            sieving: sieving::Sieving::new(index),
            tailing: tails::Tailing::new(index),
            cooling: Cooling::default(),
            manners: RefCell::new(Manners::new(&kit, health, robots)),
            granted: RefCell::default(),
            resolver: Resolver::new(world.clone(), dns),
            parked: RefCell::default(),
            client: Client::new(world.clone(), &agent, Timeouts::of(settings), tls)
                .accepting(&settings.accept_encoding),
            decoders: RefCell::new(DecoderPool::for_bodies(settings.body_bytes_max)),
            sameness: Sameness::new(index, plan.placement),
            archive,
            recovery: RefCell::new(recovery),
            is_dealt,
            sowing: seeds::Sowing::default(),
            mesh: RefCell::new(Mesh::new(index, outboxes)),
            slots: Slots::new(plan.has_budget),
            in_line_count: Cell::new(0),
            kit: kit.clone(),
        })
    }

    /// From the state in hand to the last file closed.
    async fn live(self: &Rc<Self>) -> Result<Report, ShardError> {
        self.begin().await?;
        let is_drained = self.kit.spend_on(Stage::Schedule, self.schedule()).await;
        if is_drained {
            self.slots.assert_returned();
            self.manners.borrow().assert_returned();
            if let Err(error) = self.end_journal().await {
                self.kit.notice(Notice::StoreFailed { shard: self.kit.index, error });
            }
        }
        self.kit.life.end();
        self.end_sieving().await;
        self.end_tailing().await;
        if let Err(error) = self.archive.close_files().await {
            self.kit.notice(Notice::StoreFailed { shard: self.kit.index, error });
        }
        let report = self.report();
        self.client.close_all();
        Ok(report)
    }

    /// The state is in hand: says so, once it can be had again.
    async fn begin(&self) -> Result<(), ShardError> {
        if self.is_dealt {
            self.first_checkpoint().await.map_err(ShardError::Journal)?;
        }
        let recovery = self.recovery.take().map(Box::new);
        let ready = Notice::Ready { shard: self.kit.index, recovery };
        // The control thread waits for this, and has nothing else to read.
        assert!(self.kit.notice(ready), "an empty inbox has room");
        Ok(())
    }

    /// Starts visits as hosts' times come, until the shard is told to stop. True if all was done.
    async fn schedule(self: &Rc<Self>) -> bool {
        let mut drained = false;
        loop {
            let now = self.kit.world.now();
            self.begin_turns(now);
            self.frontier_mut().advance(now);
            while self.may_start() {
                let granted = self.granted.borrow_mut().pop_front();
                let next = match granted {
                    Some((host, place)) => Some((host, Some(place))),
                    None => self.frontier_mut().pop_ready().map(|host| (host, None)),
                };
                let Some((host, turn)) = next else { break };
                self.start(host, turn, now);
            }
            let returned = |count| self.kit.notice(Notice::BudgetReturned(count));
            self.slots.return_budget(returned);
            self.prod_sieve();
            self.prod_tails();
            let clear = self.mesh.borrow_mut().flush();
            if self.kit.life.is_halted() {
                return drained;
            }
            self.archive.prod_checkpoints();
            let is_idle = self.slots.is_idle() && self.sowing.is_done();
            let is_done = self.kit.life.is_draining() && clear && is_idle;
            let is_untold = is_done && !drained && self.archive.close_files_once();
            if is_untold {
                drained = self.kit.notice(Notice::Drained(self.kit.index));
            }
            let due = self.frontier().next_due();
            let turn_due = self.manners.borrow().next_turn_due();
            let mut until = due.into_iter().chain(turn_due).min();
            if !clear || (is_untold && !drained) {
                self.kit.probe.add(Count::MailboxesFull, u64::from(!clear));
                let soon = now + Duration::from_millis(limits::MESH_RETRY_MS);
                until = Some(until.map_or(soon, |until| until.min(soon)));
            }
            match until {
                Some(until) => {
                    race(self.kit.wake.wait(), self.kit.world.sleep_until(until)).await;
                }
                None => self.kit.wake.wait().await,
            }
        }
    }

    fn may_start(&self) -> bool {
        if !self.kit.life.is_open()
            || self.slots.active_count().get() >= self.kit.plan.settings.fetch_slots
        {
            return false;
        }
        if self.archive.failure().is_some() || !self.client.budget().has_room() {
            return false;
        }
        if !self.slots.has_budget() {
            let has_work = self.frontier().ready_count() > 0 || !self.granted.borrow().is_empty();
            if has_work {
                let wanted = Notice::BudgetWanted(self.kit.index);
                self.slots.want_budget(|| self.kit.notice(wanted));
            }
            return false;
        }
        let is_disk_behind = self.is_sieve_backed_up() | self.is_tail_backed_up();
        !self.archive.is_backed_up() && !is_disk_behind && !self.mesh.borrow().is_backed_up()
    }

    fn start(self: &Rc<Self>, host: HostId, turn: Option<TurnPlace>, now: Time) {
        if turn.is_none() {
            let mut frontier = self.frontier_mut();
            let planned = std::mem::take(&mut frontier.host_data(host).planned);
            if planned != Time::ZERO {
                self.kit.probe.record(Span::Lateness, now.since(planned));
            }
        } else {
            self.in_line_count.set(self.in_line_count.get() - 1);
        }
        let (slot, page) = self.slots.begin();
        // A visit is some kilobytes: on the heap once, and not moved on its way to the executor.
        let visiting = self.clone();
        let mut visit = Box::pin(async move { visiting.visit(host, turn, page).await });
        let shard = self.clone();
        self.kit.world.spawn(async move {
            poll_fn(|context| shard.kit.spend(Stage::Visit, || visit.as_mut().poll(context))).await;
            shard.slots.end(slot);
            shard.kit.wake.poke();
        });
    }

    /// Calls the hosts whose turns have come.
    fn begin_turns(&self, now: Time) {
        loop {
            let next = self.manners.borrow_mut().next_turn(now, &mut self.out());
            let Some((host, place)) = next else { return };
            self.turn_granted(place, host);
        }
    }

    fn turn_granted(&self, place: TurnPlace, host: HostKey) {
        let id = self.frontier().host_by_key(host);
        match id {
            Some(id) => self.granted.borrow_mut().push_back((id, place)),
            None => {
                let mut manners = self.manners.borrow_mut();
                let _ = manners.return_turn(place, host, None, &mut self.out());
            }
        }
        self.kit.wake.poke();
    }

    /// Takes a candidate of an own host in, or sends it to the shard that owns its host.
    fn route(&self, candidate: Candidate) {
        let now = self.kit.world.now();
        let offered = self.discovery.borrow_mut().offer(candidate, now, &mut self.out());
        if let Some(offered) = offered {
            self.offered(offered);
        }
    }

    fn frontier(&self) -> Ref<'_, Frontier<DiskSieve<W::File>, Pace>> {
        Ref::map(self.discovery.borrow(), Discovery::frontier)
    }

    fn frontier_mut(&self) -> RefMut<'_, Frontier<DiskSieve<W::File>, Pace>> {
        RefMut::map(self.discovery.borrow_mut(), Discovery::frontier_mut)
    }

    /// Counts what became of a candidate, at once or after a merge.
    fn offered(&self, offered: Offered) {
        let count = match offered {
            Offered::Queued => Count::UrlsNew,
            Offered::Known => Count::UrlsKnown,
            Offered::Later => Count::UrlsDeferred,
            Offered::Dropped(reason) if reason.is_trap() => Count::UrlsTrapped,
            Offered::Dropped(_) => Count::UrlsDropped,
        };
        self.kit.probe.add(count, 1);
        if count == Count::UrlsNew {
            self.kit.wake.poke();
        }
    }

    fn is_idle(&self) -> bool {
        self.slots.is_idle()
            && self.sowing.is_done()
            && self.granted.borrow().is_empty()
            && self.frontier().is_drained()
            && self.mesh.borrow().is_clear()
            && self.archive.is_settled()
    }

    /// Once a second: closes idle connections, lets hosts go and reports.
    async fn keep_house(self: Rc<Self>) {
        let second = Duration::from_secs(1);
        let mut next = self.kit.world.now() + second;
        while !self.kit.life.is_ended() {
            self.kit.world.sleep_until(next).await;
            next += second;
            self.client.close_idle();
            self.archive.begin_flush();
            self.archive.mind();
            self.cool_hosts().await;
            self.kit.notice(Notice::Report(Box::new(self.report())));
        }
    }

    fn report(&self) -> Report {
        let frontier = self.frontier();
        let effort = self.kit.world.effort();
        let gauges = self.tail_gauges(Gauges {
            syscalls: effort.syscall_count,
            pieces_received: effort.piece_count,
            buffers_starved: effort.starved_count,
            turn_gap_ns_max: effort.turn_gap_ns_max,
            nudges: effort.nudge_count,
            hosts: (frontier.host_count() + frontier.cold_count()) as u64,
            hosts_cold: frontier.cold_count() as u64,
            hosts_ready: frontier.ready_count() as u64,
            hosts_waiting: frontier.waiting_count() as u64,
            urls_queued: frontier.live_url_count(),
            waits: self.waits(&frontier),
            fetches_active: self.slots.active_count().get() as u64,
            streams_open: (self.client.idle_count() + self.slots.active_count().get()) as u64,
            cpu_ns: self.kit.world.cpu_ns(),
            at_ns: self.kit.world.now().0,
            ..self.body_gauges(self.sieve_gauges(&frontier))
        });
        Report { shard: self.kit.index, metrics: self.full_metrics(), gauges }
    }

    /// What this run has counted so far, all of it.
    fn full_metrics(&self) -> Metrics {
        self.archive.settle();
        self.count_returned();
        let mut metrics = self.kit.probe.snapshot();
        self.kit.meter.book(&self.kit.world, &mut metrics);
        self.count_bodies(&mut metrics);
        for (count, sum) in [
            (Count::ConnectionsCrowded, self.client.crowded_count()),
            (Count::DnsQueries, self.resolver.query_count()),
            (Count::DnsCached, self.resolver.cached_count()),
            (Count::WarcFiles, self.archive.warc_file_count()),
        ] {
            metrics.add(count, sum);
        }
        metrics
    }
}

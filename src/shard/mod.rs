//! One core's crawler: it owns the services and what joins them, and closes the loop from links
//! back to the frontier.
//!
//! In: mail (links and questions of other shards, commands of the control thread). Out: mail, WARC
//! records, notices to the control thread. A host belongs to exactly one shard, so its queue, its
//! robots rules, its address and its pace are touched by one core alone.
//!
//! The way of a URL through the shard:
//! 1. A seed, a link, a redirect or a peer offers it to the frontier ([`discovery`]).
//! 2. Its host's time comes, and the loop (`schedule`) starts a visit (`visit`).
//! 3. The visit resolves the host, checks robots rules, waits for the address's turn ([`manners`])
//!    and makes one request. The result sets the host's pace and its origin's health.
//! 4. The answer is parsed while it arrives, judged and stored, and its links are routed
//!    (`visit::page`).
//! 5. The host goes back to the frontier with the time of its next turn.

mod archive;
mod bodies;
mod budget;
mod checkpoint;
mod cooling;
pub mod discovery;
mod ends;
mod error;
mod housekeeping;
mod image;
mod inspection;
mod jobs;
mod kit;
mod lifecycle;
mod mail;
mod manners;
mod mesh;
mod meter;
mod net;
mod notice;
mod offers;
mod out;
mod placement;
mod plan;
mod probe;
mod recovery;
mod sabotage;
mod sameness;
mod schedule;
mod seeds;
mod slots;
mod termination;
pub mod view;
mod visit;
mod waits;

pub use budget::BudgetDesk;
pub use error::ShardError;
pub use inspection::{Inspection, News};
pub use notice::Notice;
pub use placement::Placement;
pub use plan::{Past, Plan};
pub use recovery::{Buried, Finding, Recovery, Salvage};
pub use sabotage::Sabotage;
pub use termination::{Pulse, Rounds, Verdict};

use crate::base::HashKey;
use crate::crawl::flow::{Mail, Queued, ShardIndex};
use crate::crawl::frontier::HostId;
use crate::crawl::metrics::{Report, Stage};
use crate::crawl::store::{DeadLetter, Life, RequestLog, StoreSettings, WarcStore};
use crate::io::{Inbox, Outbox, World};
use archive::Archive;
use cooling::Cooling;
use discovery::link_desk::LinkDesk;
use discovery::{Discovery, Territory};
use kit::Kit;
use manners::Manners;
use mesh::Mesh;
use net::Net;
use recovery::State;
use sameness::Sameness;
use schedule::Called;
use slots::Slots;
use std::cell::RefCell;
use std::collections::HashMap;
use std::pin::Pin;
use std::rc::Rc;

/// One core's crawler. It owns the services and what joins them. Touched by one core.
struct Shard<W: World> {
    kit: Rc<Kit<W>>,
    discovery: RefCell<Discovery<W::File>>,
    seen_lane: jobs::SeenLane,
    spill_lane: jobs::SpillLane<W::File>,
    cooling: Cooling,
    manners: RefCell<Manners>,
    called: Called,
    /// Hosts that wait for the answer to an errand elsewhere, by origin.
    parked: RefCell<HashMap<Box<str>, (HostId, Queued)>>,
    net: Net<W>,
    sameness: Sameness,
    archive: Rc<Archive<W>>,
    sowing: seeds::Sowing,
    mesh: RefCell<Mesh>,
    slots: Slots,
}

/// How the shard's state was opened: what the control thread is told, and whether a checkpoint is
/// due.
struct Opening {
    recovery: Option<Recovery>,
    /// Whether slots were dealt anew, so that the state is in no checkpoint yet.
    is_dealt: bool,
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
    let (shard, opening) = Shard::open(kit, outboxes).await?;
    let shard = Rc::new(shard);
    let spawn = |stage: Stage, task: Pin<Box<dyn Future<Output = ()>>>| {
        let kit = shard.kit.clone();
        shard.kit.beside(async move { kit.spend_on(stage, task).await });
    };
    spawn(Stage::Mail, Box::pin(shard.clone().take_mail(inbox)));
    spawn(Stage::Mail, Box::pin(shard.clone().keep_sowing()));
    spawn(Stage::Schedule, Box::pin(shard.clone().keep_house()));
    spawn(Stage::Disk, Box::pin(shard.clone().keep_seen_lane()));
    spawn(Stage::Disk, Box::pin(shard.clone().keep_spill_lane()));
    spawn(Stage::Ends, Box::pin(shard.clone().keep_ends()));
    spawn(Stage::Mail, Box::pin(shard.clone().keep_owed()));
    spawn(Stage::Disk, Box::pin(shard.clone().keep_checkpoints()));
    spawn(Stage::Schedule, Box::pin(shard.clone().keep_bodies()));
    let report = shard.live(opening).await;
    // A task that still waited for something would keep the shard and all its tables in memory for
    // ever.
    shard.kit.life.finish();
    shard.kit.world.yield_now().await;
    tracing::debug!("the shard has ended; {} references to it remain", Rc::strong_count(&shard));
    report
}

impl<W: World> Shard<W> {
    async fn open(
        kit: Rc<Kit<W>>,
        outboxes: Vec<Option<impl Outbox<Mail>>>,
    ) -> Result<(Shard<W>, Opening), ShardError> {
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
        let net = Net::open(&kit).map_err(ShardError::Tls)?;
        // What only this process keeps is hashed with a key that no other process had.
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
        let opening = Opening { recovery, is_dealt };
        let shard = Shard {
            discovery: RefCell::new(discovery),
            seen_lane: jobs::SeenLane::new(index),
            spill_lane: jobs::SpillLane::new(index),
            cooling: Cooling::default(),
            manners: RefCell::new(Manners::new(&kit, health, robots)),
            called: Called::default(),
            parked: RefCell::default(),
            net,
            sameness: Sameness::new(index, plan.placement),
            archive,
            sowing: seeds::Sowing::default(),
            mesh: RefCell::new(Mesh::new(index, outboxes)),
            slots: Slots::new(plan.has_budget),
            kit: kit.clone(),
        };
        Ok((shard, opening))
    }

    /// Runs the shard from its opened state until its last file is closed.
    async fn live(self: &Rc<Self>, opening: Opening) -> Result<Report, ShardError> {
        self.begin(opening).await?;
        let is_drained = self.kit.spend_on(Stage::Schedule, self.schedule()).await;
        if is_drained {
            self.slots.assert_returned();
            self.manners.borrow().assert_returned();
            if let Err(error) = self.end_journal().await {
                self.kit.notice(Notice::StoreFailed { shard: self.kit.index, error });
            }
        }
        self.kit.life.end();
        self.close_seen_lane().await;
        self.close_spill_lane().await;
        if let Err(error) = self.archive.close_files().await {
            self.kit.notice(Notice::StoreFailed { shard: self.kit.index, error });
        }
        let report = self.report();
        self.net.client.close_all();
        Ok(report)
    }

    /// Reports Ready, after the first checkpoint if slots were dealt anew, so that the state can be
    /// restored.
    async fn begin(&self, opening: Opening) -> Result<(), ShardError> {
        if opening.is_dealt {
            self.first_checkpoint().await.map_err(ShardError::Journal)?;
        }
        let recovery = opening.recovery.map(Box::new);
        let ready = Notice::Ready { shard: self.kit.index, recovery };
        // The control thread waits for this, and has nothing else to read.
        assert!(self.kit.notice(ready), "an empty inbox has room");
        Ok(())
    }
}

//! What a shard begins with: nothing, or what an earlier process left of the crawl.
//!
//! The newest checkpoint that is sound, and over it the journal: each entry for the hosts that had
//! not seen it. A checkpoint that is damaged is told of, and the one before it is taken, with the
//! longer journal that was kept for it. Nothing that was read is changed: a restart that is cut
//! short can be had again.
//!
//! With another number of shards the slots are dealt anew: each shard reads the files of all shards
//! that were, and takes the hosts of its own slots. It writes a checkpoint of what it has, of the
//! next generation, before it says that it is ready; only when all are ready does the manifest name
//! that generation. Until then the old one's files stay as they are.

mod applied;
mod repair;
mod source;

pub(in crate::shard) use applied::Applied;
pub use repair::{Buried, Finding, Salvage};
pub(in crate::shard) use source::{ChunksWanted, Opened, Source};

use super::archive::{CheckpointBooks, Kept};
use super::health::Health;
use super::image::{Clocks, Lore};
use super::pace::Pace;
use super::sitemap::Ledger;
use super::{Past, Plan, ShardError};
use crate::base::counts::counted;
use crate::base::limits::{self, LOOK_SEEN_COUNT};
use crate::base::{HashKey, WallTime};
use crate::crawl::config::Settings;
use crate::crawl::flow::{Outcome, Queued, ShardIndex, state_dir};
use crate::crawl::frontier::seen::{DiskSieve, SeenImage, SeenLimits, deal_run};
use crate::crawl::frontier::spill::{self, Files, SegmentImage};
use crate::crawl::frontier::{Caps, Frontier, HostId, Origin, packed_chunks};
use crate::crawl::journal::{
    Entry, FileName, Journal, JournalSettings, Replayed, newest_first, remove_generation, replay,
};
use crate::crawl::metrics::Totals;
use crate::crawl::resolve::RobotsCache;
use crate::crawl::store::{Salvaged, StoreError, salvage};
use crate::io::{Clock, Disk, World, make_dir};
use crate::proto::url::HostKey;
use source::{newest_sound, refuse};
use std::time::Duration;

/// What was found, for the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    pub host_count: u64,
    /// To come: queued, in flight when the last run ended, or waiting for another try.
    pub url_count: u64,
    /// Copies in the queues of URLs that have ended, or wait for another try: passed over.
    pub stale_count: u64,
    /// What the runs before this one amounted to.
    pub totals: Totals,
    pub seen_count: u64,
    /// Entries of the journal behind the checkpoint.
    pub entry_count: u64,
    /// Bytes cut from the ends of journals: written when the power went.
    pub cut_bytes: u64,
    /// WARC files that were left open, and are closed now.
    pub salvaged_count: u64,
    /// Checkpoints that could not be used, and why.
    pub refused: Vec<String>,
    pub took: Duration,
}

/// All that a shard keeps over a restart.
pub(super) struct State<W: World> {
    pub frontier: Frontier<DiskSieve<W::File>, Pace>,
    pub health: Health,
    pub robots: RobotsCache,
    pub sitemaps: Ledger,
    pub journal: Option<Journal<W>>,
    pub books: CheckpointBooks,
    /// Told to the journal, and perhaps not to the list of dead letters.
    pub dead: Vec<(Queued, Outcome, WallTime)>,
    pub recovery: Option<Recovery>,
    /// Of earlier runs; this one is counted among the runs.
    pub totals: Totals,
    /// It is in no checkpoint of this generation yet.
    pub is_dealt: bool,
}

/// Opens the state of shard `index`.
pub(super) async fn open<W: World>(
    world: &W,
    index: ShardIndex,
    plan: &Plan,
) -> Result<State<W>, ShardError> {
    let begun = world.now();
    let salvaged_count = salvage_files(world, index, plan).await?;
    let mut restored = match plan.past {
        None => Restored::empty(world, index, plan).await?,
        Some(past) if past.generation == plan.generation => restore(world, index, plan).await?,
        Some(past) => deal(world, index, plan, past).await?,
    };
    restored.totals.cut_short_count += restored.cut_short_count_max;
    let settings = &plan.settings;
    let first_checkpoint = begun + Duration::from_secs(settings.checkpoint_seconds);
    let books = CheckpointBooks::new(
        restored.kept.take(),
        restored.next_checkpoint,
        restored.replayed.size_bytes,
        first_checkpoint,
    );
    let journal_settings = JournalSettings {
        sync_ms: settings.journal_sync_ms,
        generation: plan.generation,
        sequence: restored.replayed.next_sequence.max(1),
        first_lsn: restored.replayed.last_lsn + 1,
    };
    let journal = match settings.journal {
        true => {
            let directory = state_dir(index);
            let again = restored.replayed.unproven.as_ref();
            let journal = Journal::create(world, &directory, journal_settings, again).await;
            let journal = journal.map_err(ShardError::Journal)?;
            journal.append(|out| Entry::RunBegan.push(out));
            Some(journal)
        }
        false => None,
    };
    let recovery = plan.past.is_some().then(|| Recovery {
        host_count: (restored.frontier.host_count() + restored.frontier.cold_count()) as u64,
        url_count: restored.frontier.live_url_count(),
        stale_count: restored.frontier.pending_url_count() - restored.frontier.live_url_count(),
        totals: restored.totals.clone(),
        seen_count: restored.frontier.sieve().figures().url_count as u64,
        entry_count: restored.replayed.entry_count,
        cut_bytes: restored.replayed.torn.iter().map(|tail| tail.bytes).sum(),
        salvaged_count,
        refused: std::mem::take(&mut restored.refused),
        took: world.now().since(begun),
    });
    let Restored { frontier, health, robots, sitemaps, dead, is_dealt, mut totals, .. } = restored;
    totals.run_count += 1;
    Ok(State {
        frontier,
        health,
        robots,
        sitemaps,
        journal,
        books,
        dead,
        recovery,
        totals,
        is_dealt,
    })
}

/// Closes the WARC files that were left open: our own, and those of shards that are no more.
async fn salvage_files<W: World>(
    world: &W,
    index: ShardIndex,
    plan: &Plan,
) -> Result<u64, ShardError> {
    let shard_count = plan.placement.shard_count();
    let is_ours = |shard| shard == index.0 || (index.0 == 0 && shard >= shard_count);
    let salvaged = salvage(world, is_ours).await.map_err(ShardError::Store)?;
    for file in &salvaged {
        let Salvaged { records, cut_bytes, .. } = file;
        let Some(name) = &file.name else {
            tracing::info!("an empty WARC file of the last run was removed");
            continue;
        };
        tracing::info!(
            "a WARC file that the last run left open is closed: {name}, {}, {} of an unfinished \
             record cut",
            counted(*records, "record", "records"),
            counted(*cut_bytes, "byte", "bytes")
        );
    }
    Ok(salvaged.len() as u64)
}

/// What files gave. Read for a look as well ([`super::inspection`]), in a world without a network.
pub(super) struct Restored<W: Disk> {
    pub frontier: Frontier<DiskSieve<W::File>, Pace>,
    pub health: Health,
    pub robots: RobotsCache,
    sitemaps: Ledger,
    /// By host: the last entry of the journal that its image has seen.
    lsns: Vec<u64>,
    dead: Vec<(Queued, Outcome, WallTime)>,
    /// Of all runs so far, as far as this shard keeps them.
    totals: Totals,
    /// The last entry of the journal of the source being read whose end is in `totals`.
    totals_lsn: u64,
    /// Runs of the source being read.
    run_count: u64,
    /// Runs of the source being read that were killed: those that began behind its totals, and the
    /// one that wrote these, unless it did so at its end.
    cut_short_count: u64,
    /// The most of any source.
    cut_short_count_max: u64,
    kept: Option<Kept>,
    next_checkpoint: u64,
    replayed: Replayed,
    refused: Vec<String>,
    is_dealt: bool,
}

/// The state of the same shard, from the newest checkpoint that can be used.
async fn restore<W: World>(
    world: &W,
    index: ShardIndex,
    plan: &Plan,
) -> Result<Restored<W>, ShardError> {
    let Plan { ref settings, ref hash_key, placement, generation, .. } = *plan;
    let chunks = ChunksWanted::Kept;
    let source = Source { settings, hash_key, placement, index, of: index, generation, chunks };
    let mut refused = Vec::new();
    let names = newest_first(world, &source.directory(), plan.generation).await;
    let names = names.map_err(ShardError::Journal)?;
    let next_checkpoint = names.first().map_or(1, |name| name.sequence + 1);
    source.check_checkpoints(&names)?;
    // Behind the last there is the journal from its beginning, if it was never cut.
    for name in names.iter().copied().map(Some).chain([None]) {
        match restore_from(world, source, name).await {
            Ok(restored) => return Ok(Restored { next_checkpoint, refused, ..restored }),
            Err(error) => refuse(name, error, &mut refused)?,
        }
    }
    unreachable!("the last attempt returns")
}

async fn restore_from<W: World>(
    world: &W,
    source: Source<'_>,
    name: Option<FileName>,
) -> Result<Restored<W>, ShardError> {
    let settings = source.settings;
    let terms = (settings, source.hash_key);
    let clocks = Clocks::of(world, settings.crawl_delay_ms_max);
    let read = match name {
        None => None,
        Some(name) => Some(Opened::open(world, source, name).await?),
    };
    let (seen, segments) = match &read {
        Some(read) => (read.seen.clone(), read.segments.clone()),
        None => Default::default(),
    };
    let mut restored =
        Restored::with_files(world, source.index, terms, &seen, segments.clone()).await?;
    restored.kept = read.as_ref().zip(name).map(|(read, name)| Kept {
        name,
        cut_sequence: read.cut.1,
        run_names: seen.runs.iter().map(|run| run.name.clone()).collect(),
        segment_names: segments.iter().map(SegmentImage::name).collect(),
    });
    restored.replayed = restored.take(world, source, read, clocks).await?;
    restored.rest(settings, clocks);
    Ok(restored)
}

/// The state of this shard's slots, from the files of all shards of the generation before.
async fn deal<W: World>(
    world: &W,
    index: ShardIndex,
    plan: &Plan,
    past: Past,
) -> Result<Restored<W>, ShardError> {
    let clocks = Clocks::of(world, plan.settings.crawl_delay_ms_max);
    let own = state_dir(index);
    let made = make_dir(world, &own).await;
    made.map_err(|error| ShardError::Store(StoreError::Disk { doing: "make state", error }))?;
    remove_generation(world, &own, plan.generation).await.map_err(ShardError::Journal)?;
    let mut refused = Vec::new();
    let mut opened = Vec::new();
    let mut seen = SeenImage::default();
    for of in (0..past.shard_count).map(ShardIndex) {
        let Plan { ref settings, ref hash_key, placement, .. } = *plan;
        let (generation, chunks) = (past.generation, ChunksWanted::Read);
        let source = Source { settings, hash_key, placement, index, of, generation, chunks };
        let read = newest_sound(world, source, &mut refused).await?;
        for run in read.iter().flat_map(|read| &read.seen.runs) {
            let slots = plan.placement.slots_of(index);
            let dealt = deal_run(world, &source.directory(), run, &own, slots).await;
            seen.runs.extend(dealt.map_err(ShardError::Seen)?);
        }
        opened.push((source, read));
    }
    let mut restored =
        Restored::with_files(world, index, (&plan.settings, &plan.hash_key), &seen, Vec::new())
            .await?;
    let mut replayed = Replayed::default();
    for (source, read) in opened {
        let of_source = restored.take(world, source, read, clocks).await?;
        replayed.entry_count += of_source.entry_count;
        replayed.torn.extend(of_source.torn);
    }
    restored.rest(&plan.settings, clocks);
    Ok(Restored { refused, replayed, is_dealt: true, ..restored })
}

impl<W: Disk + Clock> Restored<W> {
    /// For a look: knows no URL as seen, and what was handed out stays so.
    pub fn for_a_look(settings: &Settings, hash_key: &HashKey) -> Restored<W> {
        let sieve = DiskSieve::new(SeenLimits::sized(LOOK_SEEN_COUNT));
        let mut restored = Restored::with_sieve(sieve, (settings, hash_key));
        restored.frontier.keep_open();
        restored
    }

    async fn empty(world: &W, index: ShardIndex, plan: &Plan) -> Result<Restored<W>, ShardError> {
        let terms = (&plan.settings, &plan.hash_key);
        Restored::with_files(world, index, terms, &SeenImage::default(), Vec::new()).await
    }

    /// Without a host, on the runs and segments of a checkpoint.
    async fn with_files(
        world: &W,
        index: ShardIndex,
        terms: (&Settings, &HashKey),
        seen: &SeenImage,
        segments: Vec<SegmentImage>,
    ) -> Result<Restored<W>, ShardError> {
        let (settings, _) = terms;
        let seen_limits =
            SeenLimits::sized(settings.seen_batch).remembering(settings.seen_memory_mb);
        let directory = state_dir(index);
        let sieve = DiskSieve::open(world, &directory, seen, seen_limits).await;
        let tails = spill::open(world, &directory, segments).await.map_err(ShardError::Tails)?;
        let mut restored = Restored::with_sieve(sieve.map_err(ShardError::Seen)?, terms);
        restored.frontier.adopt_segments(&tails);
        Ok(restored)
    }

    fn with_sieve(
        sieve: DiskSieve<W::File>,
        (settings, hash_key): (&Settings, &HashKey),
    ) -> Restored<W> {
        let ttl = Duration::from_secs(settings.robots_ttl_seconds);
        let relax = Duration::from_secs(settings.robots_relax_seconds);
        Restored {
            frontier: Frontier::with_sieve(sieve, caps(settings), hash_key.clone()),
            health: Health::default(),
            robots: RobotsCache::new("nephila", ttl, relax),
            sitemaps: Ledger::default(),
            lsns: Vec::new(),
            dead: Vec::new(),
            totals: Totals::default(),
            totals_lsn: 0,
            run_count: 0,
            cut_short_count: 0,
            cut_short_count_max: 0,
            kept: None,
            next_checkpoint: 1,
            replayed: Replayed::default(),
            refused: Vec::new(),
            is_dealt: false,
        }
    }

    /// Takes in the hosts of a checkpoint, if there is one, and the journal behind it.
    async fn take(
        &mut self,
        world: &W,
        source: Source<'_>,
        read: Option<Opened<W::File>>,
        clocks: Clocks,
    ) -> Result<Replayed, ShardError> {
        let cut = read.as_ref().map_or((0, 0), |read| read.cut);
        (self.totals_lsn, self.run_count, self.cut_short_count) = (0, 0, 0);
        if let Some(read) = read {
            self.take_hosts(world, source, read, clocks).await?;
        }
        let mut applied = Applied { restored: self, source, clocks };
        let apply = |lsn, entry| applied.apply(lsn, entry);
        let replayed = replay(world, &source.directory(), source.generation, cut, apply).await;
        let replayed = replayed.map_err(ShardError::Journal)?;
        if source.keeps_totals() {
            self.cut_short_count_max = self.cut_short_count_max.max(self.cut_short_count);
        }
        Ok(replayed)
    }

    pub async fn take_hosts(
        &mut self,
        world: &W,
        source: Source<'_>,
        read: Opened<W::File>,
        clocks: Clocks,
    ) -> Result<(), ShardError> {
        let Opened { mut reader, mut next, .. } = read;
        let failed = ShardError::Journal;
        let files = Files::new(source.directory());
        let mut read_count = 0;
        while let Some(entry) = next {
            match entry {
                Entry::Host { lsn, image } => {
                    let packed = packed_chunks(&image);
                    let (name, chunks) =
                        packed.ok_or_else(|| failed(reader.damaged("a host makes no sense")))?;
                    let key = HostKey::of(source.hash_key, name);
                    if source.is_ours(key) {
                        let middle = source.middle(world, &files, key, chunks).await?;
                        let unpacked = self.lore().unpack_host(&image, &middle, clocks);
                        let host = unpacked.map_err(|what| failed(reader.damaged(what)))?;
                        self.saw(host, lsn);
                    }
                    read_count += 1;
                }
                Entry::Cold { image } if read_count == 0 => {
                    let unpacked = self.lore().unpack_cold(&image, |key| source.is_ours(key));
                    unpacked.map_err(|what| failed(reader.damaged(what)))?;
                    world.yield_now().await;
                }
                Entry::Totals { lsn, is_last, image } => {
                    let totals = Totals::unpack(&image);
                    let totals =
                        totals.ok_or_else(|| failed(reader.damaged("its totals make no sense")))?;
                    if source.keeps_totals() {
                        self.totals.merge(&totals);
                    }
                    (self.totals_lsn, self.cut_short_count) = (lsn, u64::from(!is_last));
                    self.run_count = totals.run_count;
                }
                Entry::Finished { host_count, .. } if host_count == read_count => {}
                Entry::Finished { .. } => {
                    return Err(failed(reader.damaged("it has not all of its hosts")));
                }
                _ => return Err(failed(reader.damaged("an entry is in the wrong place"))),
            }
            next = reader.next().await.map_err(failed)?;
            if read_count % 64 == 0 {
                world.yield_now().await;
            }
        }
        Ok(())
    }

    fn lore(&mut self) -> Lore<'_, W::File> {
        Lore {
            frontier: &mut self.frontier,
            health: &mut self.health,
            robots: &mut self.robots,
            sitemaps: &mut self.sitemaps,
        }
    }

    /// A URL has ended behind the totals of the checkpoint.
    fn count_ended(&mut self, lsn: u64, source: Source<'_>, outcome: Outcome, is_page: bool) {
        if lsn > self.totals_lsn && source.keeps_totals() {
            self.totals.ended(outcome, is_page);
        }
    }

    /// A dead letter was put back behind the totals of the checkpoint.
    fn count_revived(&mut self, lsn: u64, source: Source<'_>) {
        if lsn > self.totals_lsn && source.keeps_totals() {
            self.totals.revived();
        }
    }

    /// A run began behind the totals of the checkpoint, and has left none of its own.
    fn count_run(&mut self, lsn: u64, source: Source<'_>) {
        if lsn > self.totals_lsn && source.keeps_totals() {
            self.cut_short_count += 1;
            self.run_count += 1;
            self.totals.run_count = self.totals.run_count.max(self.run_count);
        }
    }

    fn saw(&mut self, host: HostId, lsn: u64) {
        let index = host.0 as usize;
        if self.lsns.len() <= index {
            self.lsns.resize(index + 1, 0);
        }
        self.lsns[index] = lsn;
    }

    /// Whether the host's image is from after this entry.
    fn has_seen(&self, host: HostId, lsn: u64) -> bool {
        self.lsns.get(host.0 as usize).is_some_and(|seen| *seen >= lsn)
    }

    /// When each host was asked last is not known: every one is left alone for its delay.
    fn rest(&mut self, settings: &Settings, clocks: Clocks) {
        self.frontier.end_adoption();
        for host in self.frontier.host_ids() {
            let asked = |(_, text): (Origin, String)| self.robots.crawl_delay_ms(&text);
            let crawl_delay_ms = self.frontier.host_origins(host).filter_map(asked).max();
            let delay = self.frontier.host_data(host).delay(crawl_delay_ms, settings);
            self.frontier.postpone(host, clocks.now() + delay);
        }
    }
}

fn caps(settings: &Settings) -> Caps {
    Caps {
        host_page_count_max: u32::try_from(settings.host_page_cap)
            .unwrap_or(u32::MAX)
            .min(limits::HOST_PAGE_COUNT_MAX),
        skeleton_page_count_max: settings.skeleton_page_cap,
        resident_bytes_max: settings.frontier_memory_mb << 20,
        ..Caps::default()
    }
}

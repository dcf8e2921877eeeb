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

use super::checkpoints::{Checkpoints, Kept};
use super::health::Health;
use super::image::{Clocks, Lore};
use super::pace::Pace;
use super::sitemap::Ledger;
use super::{Past, Placement, Plan, ShardError};
use crate::base::WallTime;
use crate::config::Settings;
use crate::flow::{Class, Outcome, Queued, ShardIndex};
use crate::frontier::seen::{DiskSieve, RunImage, SeenError, SeenImage, SeenLimits, deal_run};
use crate::frontier::tails::{self, ChunkRef, Files, SegmentImage, TailError};
use crate::frontier::{Caps, Frontier, HostId, Middle, Origin, packed_chunks};
use crate::io::{Clock, Disk, File, World};
use crate::journal::{
    CheckpointReader, Entry, FileName, Journal, JournalError, JournalSettings, Replayed, RunName,
    directory_of, make_dir, newest_first, remove_generation, replay,
};
use crate::limits::{self, LOOK_SEEN_COUNT};
use crate::resolve::RobotsCache;
use crate::store::{Salvaged, salvage};
use crate::url::{HostKey, Url};
use std::path::PathBuf;
use std::time::Duration;

/// What was found, for the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    pub host_count: u64,
    /// Queued, those in flight and those that wait included.
    pub url_count: u64,
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
    pub checkpoints: Checkpoints,
    /// Told to the journal, and perhaps not to the list of dead letters.
    pub dead: Vec<(Queued, Outcome, WallTime)>,
    pub recovery: Option<Recovery>,
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
        None => Restored::empty(world, index, &plan.settings).await?,
        Some(past) if past.generation == plan.generation => restore(world, index, plan).await?,
        Some(past) => deal(world, index, plan, past).await?,
    };
    let settings = &plan.settings;
    let first_checkpoint = begun + Duration::from_secs(settings.checkpoint_seconds);
    let checkpoints = Checkpoints::new(
        restored.kept.take(),
        restored.next_checkpoint,
        restored.journal_bytes,
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
            let directory = directory_of(index.0);
            let again = restored.replayed.unproven.as_ref();
            let journal = Journal::create(world, &directory, journal_settings, again).await;
            Some(journal.map_err(ShardError::Journal)?)
        }
        false => None,
    };
    let recovery = plan.past.is_some().then(|| Recovery {
        host_count: restored.frontier.host_count() as u64,
        url_count: restored.frontier.pending_url_count(),
        seen_count: restored.frontier.sieve().figures().url_count as u64,
        entry_count: restored.replayed.entry_count,
        cut_bytes: restored.replayed.torn.iter().map(|tail| tail.bytes).sum(),
        salvaged_count,
        refused: std::mem::take(&mut restored.refused),
        took: world.now().since(begun),
    });
    let Restored { frontier, health, robots, sitemaps, dead, is_dealt, .. } = restored;
    Ok(State { frontier, health, robots, sitemaps, journal, checkpoints, dead, recovery, is_dealt })
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
        let name = file.name.as_deref().unwrap_or("an empty one");
        let Salvaged { records, cut_bytes, .. } = file;
        tracing::info!(name, records, cut_bytes, "WARC file closed that was left open");
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
    kept: Option<Kept>,
    next_checkpoint: u64,
    journal_bytes: u64,
    replayed: Replayed,
    refused: Vec<String>,
    is_dealt: bool,
}

/// Where a shard's state comes from.
#[derive(Clone, Copy)]
pub(super) struct Source<'p> {
    pub settings: &'p Settings,
    pub placement: Placement,
    /// Who reads it, and whose it was.
    pub index: ShardIndex,
    pub of: ShardIndex,
    pub generation: u32,
    pub chunks: ChunksWanted,
}

/// What is done with those parts of hosts' queues that are on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunksWanted {
    /// They stay there, in files that are the reader's own.
    Kept,
    /// They are read, of all hosts.
    Read,
    /// They are read of this host; what others have is not asked about.
    ReadOf(HostKey),
}

impl Source<'_> {
    /// A generation after the first begins with a checkpoint: without one, its files are lost.
    fn check_checkpoints(&self, names: &[FileName]) -> Result<(), ShardError> {
        if self.generation > 1 && names.is_empty() {
            let name = self.directory().display().to_string();
            let what = "its checkpoints are missing";
            return Err(ShardError::Journal(JournalError::Damaged { name, what, at: 0 }));
        }
        Ok(())
    }

    pub fn directory(&self) -> PathBuf {
        directory_of(self.of.0)
    }

    /// The middle of a host's queues: chunks stay where they are, unless they lie in the files of a
    /// generation that is to go.
    async fn middle<W: Disk + Clock>(
        &self,
        world: &W,
        files: &Files<W::File>,
        key: HostKey,
        chunks: [Vec<ChunkRef>; 4],
    ) -> Result<Middle, ShardError> {
        let mut records: [Vec<u8>; 4] = Default::default();
        match self.chunks {
            ChunksWanted::Kept => return Ok(Middle::Chunks),
            ChunksWanted::ReadOf(of) if of != key => return Ok(Middle::Records(records)),
            ChunksWanted::Read | ChunksWanted::ReadOf(_) => {}
        }
        for (class, chunks) in Class::ALL.into_iter().zip(chunks) {
            for chunk in chunks {
                let read = tails::read_chunk(world, files, (class, chunk), key).await;
                records[class.index()].extend(read.map_err(ShardError::Tails)?);
            }
        }
        Ok(Middle::Records(records))
    }

    /// Whether a host of the source is the reader's now.
    fn is_ours(&self, host: HostKey) -> bool {
        self.placement.of_host(host) == self.index
    }
}

/// The state of the same shard, from the newest checkpoint that can be used.
async fn restore<W: World>(
    world: &W,
    index: ShardIndex,
    plan: &Plan,
) -> Result<Restored<W>, ShardError> {
    let Plan { ref settings, placement, generation, .. } = *plan;
    let chunks = ChunksWanted::Kept;
    let source = Source { settings, placement, index, of: index, generation, chunks };
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

/// Notes why a checkpoint cannot be used, if there may be another that can.
fn refuse(
    name: Option<FileName>,
    error: ShardError,
    refused: &mut Vec<String>,
) -> Result<(), ShardError> {
    if error.is_damage() && name.is_some() {
        tracing::error!("{error}; the checkpoint before it is used");
        refused.push(error.to_string());
        return Ok(());
    }
    // Without a checkpoint the first journal is missing as a matter of course: what was found first
    // is the reason.
    Err(refused.first().cloned().map_or(error, ShardError::Refused))
}

async fn restore_from<W: World>(
    world: &W,
    source: Source<'_>,
    name: Option<FileName>,
) -> Result<Restored<W>, ShardError> {
    let settings = source.settings;
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
        Restored::with_files(world, source.index, settings, &seen, segments.clone()).await?;
    restored.kept = read.as_ref().zip(name).map(|(read, name)| Kept {
        name,
        cut_sequence: read.cut.1,
        run_names: seen.runs.iter().map(|run| run.name.clone()).collect(),
        segment_names: segments.iter().map(SegmentImage::name).collect(),
    });
    restored.replayed = restored.take(world, source, read, clocks).await?;
    restored.journal_bytes = restored.replayed.size_bytes;
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
    let own = directory_of(index.0);
    make_dir(world, &own).await.map_err(ShardError::Journal)?;
    remove_generation(world, &own, plan.generation).await.map_err(ShardError::Journal)?;
    let mut refused = Vec::new();
    let mut opened = Vec::new();
    let mut seen = SeenImage::default();
    for of in (0..past.shard_count).map(ShardIndex) {
        let Plan { ref settings, placement, .. } = *plan;
        let (generation, chunks) = (past.generation, ChunksWanted::Read);
        let source = Source { settings, placement, index, of, generation, chunks };
        let read = newest_sound(world, source, &mut refused).await?;
        for run in read.iter().flat_map(|read| &read.seen.runs) {
            let slots = plan.placement.slots_of(index);
            let dealt = deal_run(world, &source.directory(), run, &own, slots).await;
            seen.runs.extend(dealt.map_err(ShardError::Seen)?);
        }
        opened.push((source, read));
    }
    let mut restored =
        Restored::with_files(world, index, &plan.settings, &seen, Vec::new()).await?;
    let mut replayed = Replayed::default();
    for (source, read) in opened {
        let of_source = restored.take(world, source, read, clocks).await?;
        replayed.entry_count += of_source.entry_count;
        replayed.torn.extend(of_source.torn);
    }
    restored.rest(&plan.settings, clocks);
    Ok(Restored { refused, replayed, is_dealt: true, ..restored })
}

/// The newest checkpoint of a source that is sound from end to end.
async fn newest_sound<W: World>(
    world: &W,
    source: Source<'_>,
    refused: &mut Vec<String>,
) -> Result<Option<Opened<W::File>>, ShardError> {
    let names = newest_first(world, &source.directory(), source.generation).await;
    let names = names.map_err(ShardError::Journal)?;
    source.check_checkpoints(&names)?;
    for name in names {
        let checked = async {
            CheckpointReader::open(world, &source.directory(), name).await?.read_out().await
        };
        match checked.await.map_err(ShardError::Journal) {
            Ok(()) => return Ok(Some(Opened::open(world, source, name).await?)),
            Err(error) => refuse(Some(name), error, refused)?,
        }
    }
    Ok(None)
}

/// A checkpoint, read up to its first host.
pub(super) struct Opened<F> {
    reader: CheckpointReader<F>,
    /// The last entry of the journal before it, and the file behind it.
    pub cut: (u64, u64),
    pub seen: SeenImage,
    segments: Vec<SegmentImage>,
    next: Option<Entry>,
}

impl<F: File> Opened<F> {
    pub async fn open<W: Disk<File = F>>(
        world: &W,
        source: Source<'_>,
        name: FileName,
    ) -> Result<Opened<F>, ShardError> {
        let failed = ShardError::Journal;
        let directory = source.directory();
        let mut reader = CheckpointReader::open(world, &directory, name).await.map_err(failed)?;
        let begun = reader.next().await.map_err(failed)?;
        let Some(Entry::Begun { cut_lsn, cut_sequence, .. }) = begun else {
            return Err(failed(reader.damaged("it has no beginning")));
        };
        let mut seen = SeenImage::default();
        let mut next = reader.next().await.map_err(failed)?;
        while let Some(Entry::Run(run)) = next {
            let RunName { name, count, first, last } = run;
            seen.runs.push(RunImage { name, count, first, last });
            next = reader.next().await.map_err(failed)?;
        }
        let mut segments = Vec::new();
        while let Some(Entry::Segment { image }) = next {
            let segment = SegmentImage::unpack(&image);
            segments.push(segment.ok_or_else(|| failed(reader.damaged("a segment has no sense")))?);
            next = reader.next().await.map_err(failed)?;
        }
        Ok(Opened { reader, cut: (cut_lsn, cut_sequence), seen, segments, next })
    }
}

impl<W: Disk + Clock> Restored<W> {
    /// For a look: knows no URL as seen, and what was handed out stays so.
    pub fn for_a_look(settings: &Settings) -> Restored<W> {
        let sieve = DiskSieve::new(SeenLimits::sized(LOOK_SEEN_COUNT));
        let mut restored = Restored::with_sieve(sieve, settings);
        restored.frontier.keep_open();
        restored
    }

    async fn empty(
        world: &W,
        index: ShardIndex,
        settings: &Settings,
    ) -> Result<Restored<W>, ShardError> {
        Restored::with_files(world, index, settings, &SeenImage::default(), Vec::new()).await
    }

    /// Without a host, on the runs and segments of a checkpoint.
    async fn with_files(
        world: &W,
        index: ShardIndex,
        settings: &Settings,
        seen: &SeenImage,
        segments: Vec<SegmentImage>,
    ) -> Result<Restored<W>, ShardError> {
        let seen_limits = SeenLimits::sized(settings.seen_batch);
        let directory = directory_of(index.0);
        let sieve = DiskSieve::open(world, &directory, seen, seen_limits).await;
        let tails = tails::open(world, &directory, segments).await.map_err(ShardError::Tails)?;
        let mut restored = Restored::with_sieve(sieve.map_err(ShardError::Seen)?, settings);
        restored.frontier.adopt_segments(&tails);
        Ok(restored)
    }

    fn with_sieve(sieve: DiskSieve<W::File>, settings: &Settings) -> Restored<W> {
        let ttl = Duration::from_secs(settings.robots_ttl_seconds);
        let relax = Duration::from_secs(settings.robots_relax_seconds);
        Restored {
            frontier: Frontier::with_sieve(sieve, caps(settings)),
            health: Health::default(),
            robots: RobotsCache::new("nephila", ttl, relax),
            sitemaps: Ledger::default(),
            lsns: Vec::new(),
            dead: Vec::new(),
            kept: None,
            next_checkpoint: 1,
            journal_bytes: 0,
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
        if let Some(read) = read {
            self.take_hosts(world, source, read, clocks).await?;
        }
        let mut applied = Applied { restored: self, source, clocks };
        let apply = |lsn, entry| applied.apply(lsn, entry);
        let replayed = replay(world, &source.directory(), source.generation, cut, apply).await;
        replayed.map_err(ShardError::Journal)
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
                    let key = HostKey::of(name);
                    if source.is_ours(key) {
                        let middle = source.middle(world, &files, key, chunks).await?;
                        let unpacked = self.lore().unpack_host(&image, &middle, clocks);
                        let host = unpacked.map_err(|what| failed(reader.damaged(what)))?;
                        self.saw(host, lsn);
                    }
                    read_count += 1;
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

/// Entries of the journal, applied to what a checkpoint gave.
pub(super) struct Applied<'r, W: Disk> {
    pub restored: &'r mut Restored<W>,
    pub source: Source<'r>,
    pub clocks: Clocks,
}

impl<W: Disk + Clock> Applied<'_, W> {
    pub fn apply(&mut self, lsn: u64, entry: Entry) -> Result<(), &'static str> {
        match entry {
            Entry::Admitted(queued) => self.admit(lsn, &queued),
            Entry::Ended { host, fingerprint, .. } => {
                if let Some(host) = self.unaware(lsn, host) {
                    self.restored.frontier.end_again(host, fingerprint);
                }
            }
            Entry::Dead { queued, outcome, at } => {
                if let Some(host) = self.unaware(lsn, queued.url.host_key()) {
                    self.restored.frontier.end_again(host, queued.url.fingerprint());
                }
                if self.source.is_ours(queued.url.host_key()) {
                    self.restored.dead.push((queued, outcome, at));
                }
            }
            Entry::Retried { queued, at } => {
                if let Some(host) = self.unaware(lsn, queued.url.host_key()) {
                    let at = self.clocks.time_of(at);
                    self.restored.frontier.retry_again(host, queued, at);
                }
            }
            Entry::Waiting { host, until } => {
                if let Some(host) = self.unaware(lsn, host) {
                    let until = self.clocks.time_of(until);
                    self.restored.frontier.postpone(host, until);
                }
            }
            Entry::Robots { origin, image } => self.learn(lsn, &origin, |this, _, _| {
                let clocks = this.clocks;
                let robots = &mut this.restored.robots;
                robots.unpack(&origin, &image, |wall| clocks.past_time_of(wall))
            })?,
            Entry::Health { origin, image } => self.learn(lsn, &origin, |this, host, of| {
                let clocks = this.clocks;
                this.restored.health.unpack(host, of, &image, |wall| clocks.time_of(wall))
            })?,
            Entry::Revived(queued) => self.revive(lsn, &queued),
            Entry::Begun { .. }
            | Entry::Run(_)
            | Entry::Segment { .. }
            | Entry::Host { .. }
            | Entry::Finished { .. } => return Err("an entry of a checkpoint"),
        }
        Ok(())
    }

    fn admit(&mut self, lsn: u64, queued: &Queued) {
        if !self.source.is_ours(queued.url.host_key()) {
            return;
        }
        let frontier = &mut self.restored.frontier;
        let host = frontier.host_by_key(queued.url.host_key());
        if host.is_some_and(|host| self.restored.has_seen(host, lsn)) {
            use crate::frontier::Sieve as _;
            self.restored.frontier.sieve_mut().admit(queued.url.fingerprint());
        } else {
            self.restored.frontier.readmit(queued);
        }
    }

    fn revive(&mut self, lsn: u64, queued: &Queued) {
        let host = self.restored.frontier.host_by_key(queued.url.host_key());
        let has_seen = host.is_some_and(|host| self.restored.has_seen(host, lsn));
        if self.source.is_ours(queued.url.host_key()) && !has_seen {
            self.restored.frontier.revive(queued);
        }
    }

    /// The host, if it is there and its image does not have this entry.
    fn unaware(&self, lsn: u64, host: HostKey) -> Option<HostId> {
        let host = self.restored.frontier.host_by_key(host)?;
        (!self.restored.has_seen(host, lsn)).then_some(host)
    }

    fn learn(
        &mut self,
        lsn: u64,
        origin: &str,
        take: impl FnOnce(&mut Self, HostId, Origin) -> Option<()>,
    ) -> Result<(), &'static str> {
        let url = Url::parse(origin).map_err(|_| "an origin makes no sense")?;
        match self.unaware(lsn, url.host_key()) {
            Some(host) => take(self, host, Origin::of(&url)).ok_or("what is known makes no sense"),
            None => Ok(()),
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

impl ShardError {
    /// A file is not what was written.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            ShardError::Journal(error) => error.is_damage(),
            ShardError::Seen(error) => matches!(error, SeenError::Damaged { .. }),
            ShardError::Tails(error) => matches!(error, TailError::Damaged { .. }),
            ShardError::Refused(_) => true,
            ShardError::Store(_) | ShardError::Tls(_) => false,
        }
    }
}

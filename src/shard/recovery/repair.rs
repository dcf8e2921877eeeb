//! The repair of a shard's state with damaged files: it finds what can still be read and what is
//! lost, and makes a new state from the rest, with which a restart can continue.
//!
//! [`Salvage::examine`] reads what a restart would read, from the newest checkpoint on. Where a
//! restart would refuse, it continues after the damage and counts what is missing.
//! [`Salvage::write`] writes what is left as one new checkpoint and an empty journal, under
//! sequences that no file has, and returns the names of the files that are no longer needed. It
//! removes and changes no file. The caller must hold the crawl's lock. The world needs no network.

use super::source::{ChunksWanted, Source};
use super::{Applied, Restored};
use crate::base::counts::counted;
use crate::base::limits::LOOK_SEEN_COUNT;
use crate::base::pack::Pack;
use crate::base::{HashKey, WallTime};
use crate::crawl::config::Settings;
use crate::crawl::flow::{Class, Outcome, Queued};
use crate::crawl::flow::{ShardIndex, state_dir};
use crate::crawl::frontier::seen::{
    DiskSieve, RunImage, SeenError, SeenLimits, check_run, write_run,
};
use crate::crawl::frontier::spill::{self, ChunkRef, Files, SegmentImage, TailError};
use crate::crawl::frontier::{Middle, packed_chunks};
use crate::crawl::journal::{
    CheckpointReader, CheckpointWriter, Entry, FileKind, FileName, JournalError, SoundReader,
    add_file, journal_files, newest_first,
};
use crate::crawl::metrics::Totals;
use crate::io::{Clock, Disk, DiskError};
use crate::proto::url::{HostKey, Url};
use crate::shard::image::{Clocks, Lore};
use crate::shard::{Past, Placement, ShardError};
use std::path::PathBuf;

/// What is wrong with a file, and what is lost by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub name: String,
    pub what: String,
    pub lost: String,
    /// A restart refuses the state because of this finding.
    pub is_fatal: bool,
}

/// A URL that was given up. The journal has it, and it may be missing in the list of dead letters.
pub type Buried = (Queued, Outcome, WallTime);

/// What could be read of a shard's state, and what is wrong with its files.
pub struct Salvage<W: Disk> {
    index: ShardIndex,
    generation: u32,
    restored: Restored<W>,
    clocks: Clocks,
    hash_key: HashKey,
    pub findings: Vec<Finding>,
    /// The runs of URL seen that are sound.
    runs: Vec<RunImage>,
    /// URL seen may lack URLs that were taken. [`Salvage::write`] then needs those that were
    /// requested.
    pub misses_seen: bool,
    last_lsn: u64,
    checkpoints: Vec<FileName>,
    journals: Vec<FileName>,
    /// The segments, and damaged files that are neither a checkpoint nor a journal.
    others: Vec<String>,
}

impl<W: Disk + Clock> Salvage<W> {
    /// Reads the state of shard `index`, from the newest checkpoint whose runs, segments and
    /// journals are sound too. If there is none, it starts from the newest checkpoint that is sound
    /// by itself, and if there is none of those, from the sound parts of the newest one.
    pub async fn examine(
        world: &W,
        index: ShardIndex,
        past: Past,
        (settings, hash_key): (&Settings, &HashKey),
    ) -> Result<Salvage<W>, ShardError> {
        let placement = Placement::new(past.shard_count);
        let (generation, chunks) = (past.generation, ChunksWanted::Read);
        let source = Source { settings, hash_key, placement, index, of: index, generation, chunks };
        let directory = source.directory();
        let failed = ShardError::Journal;
        let names = newest_first(world, &directory, generation).await.map_err(failed)?;
        let mut notes = Vec::new();
        let mut sound = Vec::new();
        for name in &names {
            let whole =
                async { CheckpointReader::open(world, &directory, *name).await?.read_out().await };
            match whole.await {
                Ok(()) => sound.push(*name),
                Err(error @ JournalError::Damaged { .. }) => notes.push(Finding {
                    name: name.text(),
                    what: error.to_string(),
                    // What is lost is known once something older was found sound, or was not.
                    lost: String::new(),
                    is_fatal: false,
                }),
                Err(error) => return Err(failed(error)),
            }
        }
        let mut bases = sound.into_iter().map(Some).collect::<Vec<_>>();
        if bases.is_empty() && !names.is_empty() {
            bases.push(names.first().copied());
        }
        // The last attempt, `None`, is the journal from its beginning, if it was never cut.
        if generation == 1 || names.is_empty() {
            bases.push(None);
        }
        let mut bases = bases.into_iter();
        let first = bases.next().expect("there is at least one base to try");
        let mut salvage = Salvage::read(world, source, first).await?;
        for base in bases {
            if !salvage.is_needed() {
                break;
            }
            let other = Salvage::read(world, source, base).await?;
            if !other.is_needed() {
                notes.extend(salvage.findings.into_iter().map(|finding| Finding {
                    lost: "nothing: older files are sound and do not need it".into(),
                    ..finding
                }));
                salvage = Salvage { others: [salvage.others, other.others].concat(), ..other };
            }
        }
        let lost = match salvage.is_needed() {
            true => "what the lines below name, because what is older is damaged too",
            false => "nothing: what is older is sound and is used instead",
        };
        for note in notes.iter_mut().filter(|note| note.lost.is_empty()) {
            lost.clone_into(&mut note.lost);
        }
        salvage.findings.splice(0..0, notes);
        salvage.checkpoints = names;
        Ok(salvage)
    }

    /// Reports whether a repair is needed: a restart would refuse the state as it is.
    pub fn is_needed(&self) -> bool {
        self.findings.iter().any(|finding| finding.is_fatal)
    }

    pub fn host_count(&self) -> u64 {
        (self.restored.frontier.host_count() + self.restored.frontier.cold_count()) as u64
    }

    pub fn url_count(&self) -> u64 {
        self.restored.frontier.live_url_count()
    }

    /// Returns the URLs that the journal says were given up.
    pub fn buried(&self) -> &[Buried] {
        &self.restored.dead
    }

    async fn read(
        world: &W,
        source: Source<'_>,
        base: Option<FileName>,
    ) -> Result<Salvage<W>, ShardError> {
        let Source { settings, hash_key, index, generation, .. } = source;
        let sieve = DiskSieve::new(SeenLimits::sized(LOOK_SEEN_COUNT));
        let mut salvage = Salvage {
            index,
            generation,
            restored: Restored::with_sieve(sieve, (settings, hash_key)),
            clocks: Clocks::of(world, settings.crawl_delay_ms_max),
            hash_key: hash_key.clone(),
            findings: Vec::new(),
            runs: Vec::new(),
            misses_seen: false,
            last_lsn: 0,
            checkpoints: Vec::new(),
            journals: Vec::new(),
            others: Vec::new(),
        };
        let cut = match base {
            Some(name) => salvage.read_checkpoint(world, source, name).await?,
            None => Some((0, 0)),
        };
        if base.is_none() && generation > 1 {
            let lost = "the queues and all that is known of hosts, except what the journal has";
            let directory = source.directory().display().to_string();
            salvage.lose(&directory, "it has no checkpoint", lost);
            salvage.misses_seen = true;
        }
        salvage.read_journals(world, source, cut).await?;
        Ok(salvage)
    }

    fn lose(&mut self, name: &str, what: impl Into<String>, lost: impl Into<String>) {
        let (name, what, lost) = (name.to_owned(), what.into(), lost.into());
        self.findings.push(Finding { name, what, lost, is_fatal: true });
    }

    /// Takes over what is sound of a checkpoint. Returns where its journal begins, if that part of
    /// the checkpoint is sound.
    async fn read_checkpoint(
        &mut self,
        world: &W,
        source: Source<'_>,
        name: FileName,
    ) -> Result<Option<(u64, u64)>, ShardError> {
        let (failed, directory) = (ShardError::Journal, source.directory());
        let mut reader = SoundReader::open(world, &directory, name).await.map_err(failed)?;
        let files = Files::new(source.directory());
        let mut missed = Missed::default();
        let (mut cut, mut told, mut read_count) = (None, None, 0u64);
        while let Some((_, entries)) = reader.next().await.map_err(failed)? {
            for entry in entries {
                match entry {
                    Entry::Begun { cut_lsn, cut_sequence, .. } => {
                        cut = Some((cut_lsn, cut_sequence))
                    }
                    Entry::Run { image } => self.read_run(world, source, &image).await?,
                    Entry::Segment { image } => self.read_segment(world, source, &image).await?,
                    Entry::Cold { image } => {
                        let ours = |key| source.is_ours(key);
                        if self.lore().unpack_cold(&image, ours).is_err() {
                            missed.cold_count += 1;
                        }
                    }
                    Entry::Host { lsn, image } => {
                        self.last_lsn = self.last_lsn.max(lsn);
                        self.read_host(world, source, &files, (lsn, &image), &mut missed).await?;
                        read_count += 1;
                    }
                    Entry::Totals { lsn, is_last, image } => {
                        self.read_totals(source, (lsn, is_last), &image);
                    }
                    Entry::Finished { host_count, .. } => told = Some(host_count),
                    _ => {}
                }
            }
        }
        self.tell_missed(&missed);
        if reader.first_lsn.is_none() || !reader.holes.is_empty() || told != Some(read_count) {
            let lost = match told {
                Some(count) => {
                    let hosts = counted(count, "host", "hosts");
                    format!("{} of {hosts}, with their queues", count - read_count)
                }
                None => {
                    format!("all hosts except the {read_count} that are sound, with their queues")
                }
            };
            self.lose(
                &name.text(),
                "parts of it are damaged, and no other checkpoint is sound",
                lost,
            );
            self.misses_seen = true;
        }
        if let Some((cut_lsn, _)) = cut {
            self.last_lsn = cut_lsn;
        }
        Ok(cut)
    }

    /// Takes over the crawl's totals. If they are damaged, the totals count only from the journal
    /// on; nothing else depends on them.
    fn read_totals(&mut self, source: Source<'_>, (lsn, is_last): (u64, bool), image: &[u8]) {
        let Some(totals) = Totals::unpack(image) else { return };
        if source.keeps_totals() {
            self.restored.totals.merge(&totals);
        }
        self.restored.totals_lsn = lsn;
        self.restored.cut_short_count = u64::from(!is_last);
        self.restored.run_count = totals.run_count;
    }

    async fn read_run(
        &mut self,
        world: &W,
        source: Source<'_>,
        image: &[u8],
    ) -> Result<(), ShardError> {
        let Some(run) = RunImage::unpack(image) else {
            self.lose("a run of URL seen", "its name cannot be read", "which URLs are known");
            self.misses_seen = true;
            return Ok(());
        };
        match check_run(world, &source.directory(), &run).await {
            Ok(()) => self.runs.push(run),
            Err(error) => {
                let is_gone = matches!(&error, SeenError::Disk { error: DiskError::NotFound, .. });
                if !is_gone && !matches!(error, SeenError::Damaged { .. }) {
                    return Err(ShardError::Seen(error));
                }
                let lost = format!(
                    "the fingerprints of {}. The logs and the queues name those that were \
                     requested or are queued; others may be found and fetched anew",
                    counted(run.count, "known URL", "known URLs")
                );
                self.lose(&run.name, error.to_string(), lost);
                self.others.push(run.name);
                self.misses_seen = true;
            }
        }
        Ok(())
    }

    async fn read_segment(
        &mut self,
        world: &W,
        source: Source<'_>,
        image: &[u8],
    ) -> Result<(), ShardError> {
        let Some(segment) = SegmentImage::unpack(image) else { return Ok(()) };
        self.others.push(segment.name());
        match spill::check_segment(world, &source.directory(), &segment).await {
            Ok(()) => Ok(()),
            Err(error) if is_lost(&error) => {
                self.lose(
                    &segment.name(),
                    error.to_string(),
                    "the URLs in those of its chunks that are in use; they are counted separately",
                );
                Ok(())
            }
            Err(error) => Err(ShardError::Tails(error)),
        }
    }

    async fn read_host(
        &mut self,
        world: &W,
        source: Source<'_>,
        files: &Files<W::File>,
        (lsn, image): (u64, &[u8]),
        missed: &mut Missed,
    ) -> Result<(), ShardError> {
        let Some((name, chunks)) = packed_chunks(image) else {
            missed.host_count += 1;
            return Ok(());
        };
        let key = HostKey::of(source.hash_key, name);
        if !source.is_ours(key) {
            return Ok(());
        }
        let middle = sound_middle(world, files, key, chunks, missed).await?;
        let clocks = self.clocks;
        match self.lore().unpack_host(image, &middle, clocks) {
            Ok(host) => self.restored.saw(host, lsn),
            Err(_) => missed.host_count += 1,
        }
        Ok(())
    }

    fn tell_missed(&mut self, missed: &Missed) {
        for (name, (chunk_count, url_count)) in &missed.chunks {
            let lost = counted(*url_count, "queued URL", "queued URLs");
            let what = counted(*chunk_count, "chunk is", "chunks are");
            self.lose(name, format!("{what} damaged"), lost);
        }
        if missed.host_count + missed.cold_count > 0 {
            let hosts = counted(missed.host_count, "host", "hosts");
            let lost = format!("{hosts} with their queues");
            self.lose("a checkpoint", "hosts in it cannot be read", lost);
        }
    }

    /// Applies what is sound of the journals after the checkpoint.
    async fn read_journals(
        &mut self,
        world: &W,
        source: Source<'_>,
        cut: Option<(u64, u64)>,
    ) -> Result<(), ShardError> {
        let directory = source.directory();
        let names = journal_files(world, &directory, source.generation).await;
        self.journals = names.map_err(ShardError::Journal)?;
        let first = cut.map_or(0, |(_, sequence)| sequence);
        if cut.is_none() {
            self.last_lsn = 0;
        }
        let names: Vec<FileName> =
            self.journals.iter().copied().filter(|name| name.sequence >= first).collect();
        if first > 0 && names.first().is_none_or(|name| name.sequence != first) {
            let kind = FileKind::Journal;
            let name = FileName { kind, generation: source.generation, sequence: first };
            self.lose(&name.text(), "it is missing", LOST_JOURNAL);
        }
        for name in names {
            self.read_journal(world, source, name).await?;
        }
        Ok(())
    }

    async fn read_journal(
        &mut self,
        world: &W,
        source: Source<'_>,
        name: FileName,
    ) -> Result<(), ShardError> {
        let failed = ShardError::Journal;
        let (directory, text) = (source.directory(), name.text());
        let mut reader = SoundReader::open(world, &directory, name).await.map_err(failed)?;
        if reader.first_lsn.is_none() {
            self.lose(&text, "its head is damaged, or it was emptied", LOST_JOURNAL);
        }
        self.tell_gap(&text, reader.first_lsn.unwrap_or(0));
        while let Some((first_lsn, entries)) = reader.next().await.map_err(failed)? {
            self.tell_gap(&text, first_lsn);
            let clocks = self.clocks;
            for (lsn, entry) in (first_lsn..).zip(entries) {
                if lsn <= self.last_lsn {
                    continue;
                }
                self.last_lsn = lsn;
                let mut applied = Applied { restored: &mut self.restored, source, clocks };
                if let Err(what) = applied.apply(lsn, entry) {
                    self.lose(&text, what, "one entry");
                }
            }
        }
        for hole in reader.holes.iter().filter(|hole| hole.is_before_frame) {
            let bytes = counted(hole.size_bytes, "byte", "bytes");
            let what = format!("damaged: {bytes} from byte {} on", hole.at);
            self.lose(&text, what, LOST_JOURNAL);
        }
        Ok(())
    }

    /// Notes a gap, if the entries between the last one and `next_lsn` are in no file.
    fn tell_gap(&mut self, name: &str, next_lsn: u64) {
        if next_lsn <= self.last_lsn + 1 {
            return;
        }
        let (from, to) = (self.last_lsn + 1, next_lsn - 1);
        let entries = counted(to - from + 1, "entry", "entries");
        let lost = format!("{entries}. {LOST_JOURNAL}");
        self.lose(name, format!("entries {from} to {to} before it are in no file"), lost);
        self.last_lsn = to;
    }

    fn lore(&mut self) -> Lore<'_, W::File> {
        self.restored.lore()
    }

    /// Writes what is left as the newest checkpoint, and an empty journal after it. `asked` has the
    /// shard's URLs that the logs name. Returns the names of the files that are no longer needed.
    pub async fn write(mut self, world: &W, asked: &[Url]) -> Result<Vec<PathBuf>, ShardError> {
        let directory = state_dir(self.index);
        let failed = ShardError::Journal;
        let mut known: Vec<u128> = self.restored.frontier.sieve().fresh().map(|of| of.0).collect();
        if self.misses_seen {
            known.extend(asked.iter().map(|url| url.fingerprint(&self.hash_key).0));
            known.extend(self.pending().map(|queued| queued.url.fingerprint(&self.hash_key).0));
        }
        known.sort_unstable();
        known.dedup();
        if !known.is_empty() {
            let run = write_run(world, &directory, &known).await.map_err(ShardError::Seen)?;
            self.runs.push(run);
        }
        let sequence =
            |names: &[FileName]| names.iter().map(|of| of.sequence).max().unwrap_or(0) + 1;
        let generation = self.generation;
        let (kind, of) = (FileKind::Journal, sequence(&self.journals));
        let journal = FileName { kind, generation, sequence: of };
        let first_lsn = self.last_lsn + 1;
        add_file(world, &directory, journal, first_lsn, &[], None).await.map_err(failed)?;
        let (kind, of) = (FileKind::Checkpoint, sequence(&self.checkpoints));
        let checkpoint = FileName { kind, generation, sequence: of };
        self.write_checkpoint(world, checkpoint, journal.sequence).await.map_err(failed)?;
        let state_files = self.checkpoints.iter().chain(&self.journals).map(|name| name.text());
        // The new run may have the name of a run that was missing.
        let is_new = |name: &&String| self.runs.iter().any(|run| run.name == **name);
        let others = self.others.iter().filter(|name| !is_new(name)).cloned();
        let names = state_files.chain(others);
        Ok(names.map(|name| directory.join(name)).collect())
    }

    /// Returns the URLs to come, including those handed out and those that wait for another try.
    fn pending(&self) -> impl Iterator<Item = Queued> {
        let frontier = &self.restored.frontier;
        frontier.host_ids().flat_map(move |host| {
            let open = frontier.open_of(host).map(|open| open.queued.clone());
            open.chain(frontier.queued_in(host)).collect::<Vec<_>>()
        })
    }

    async fn write_checkpoint(
        &mut self,
        world: &W,
        name: FileName,
        cut_sequence: u64,
    ) -> Result<(), JournalError> {
        let directory = state_dir(self.index);
        let (cut_lsn, clocks) = (self.last_lsn, self.clocks);
        let mut writer = CheckpointWriter::create(world, &directory, name).await?;
        let (shard, at) = (self.index.0, world.wall());
        writer.push(&Entry::Begun { shard, cut_lsn, cut_sequence, at });
        for run in &self.runs {
            let mut image = Vec::new();
            run.pack(&mut Pack(&mut image));
            writer.push(&Entry::Run { image });
        }
        let mut part = 0;
        loop {
            let image = self.lore().pack_cold(&mut part);
            if image.is_empty() {
                break;
            }
            if writer.push(&Entry::Cold { image }) {
                writer.flush().await?;
            }
        }
        let hosts: Vec<_> = self.restored.frontier.host_ids().collect();
        let host_count = hosts.len() as u64;
        for host in hosts {
            let image = self.lore().pack_host(host, clocks);
            if writer.push(&Entry::Host { lsn: cut_lsn, image }) {
                writer.flush().await?;
            }
        }
        let mut totals = self.restored.totals.clone();
        totals.cut_short_count += self.restored.cut_short_count;
        let mut image = Vec::new();
        totals.pack(&mut Pack(&mut image));
        // The run that left the state was counted above as cut short, so `is_last` is true: the
        // next run does not count it again.
        writer.push(&Entry::Totals { lsn: cut_lsn, is_last: true, image });
        writer.push(&Entry::Finished { host_count, lsn: cut_lsn });
        writer.finish(world, &directory).await?;
        Ok(())
    }
}

const LOST_JOURNAL: &str = "pages whose end is recorded in it are fetched again, which finds \
                            their links again; links from pages of other cores and waits \
                            recorded in it are forgotten";

/// What could not be read of a checkpoint's hosts.
#[derive(Default)]
struct Missed {
    host_count: u64,
    cold_count: u64,
    /// For each segment, the number of damaged chunks and of the URLs in them.
    chunks: std::collections::BTreeMap<String, (u64, u64)>,
}

/// Reads the sound chunks of a host's queues. The others are counted in `missed`.
async fn sound_middle<W: Disk + Clock>(
    world: &W,
    files: &Files<W::File>,
    key: HostKey,
    chunks: [Vec<ChunkRef>; 4],
    missed: &mut Missed,
) -> Result<Middle, ShardError> {
    let mut records: [Vec<u8>; 4] = Default::default();
    for (class, chunks) in Class::ALL.into_iter().zip(chunks) {
        for chunk in chunks {
            match spill::read_chunk(world, files, (class, chunk), key).await {
                Ok(read) => records[class.index()].extend(read),
                Err(error) if is_lost(&error) => {
                    let (TailError::Disk { name, .. } | TailError::Damaged { name, .. }) = error;
                    let (chunk_count, url_count) = missed.chunks.entry(name).or_default();
                    *chunk_count += 1;
                    *url_count += u64::from(chunk.count);
                }
                Err(error) => return Err(ShardError::Tails(error)),
            }
        }
    }
    Ok(Middle::Records(records))
}

/// Reports whether the segment is damaged or missing. Other errors of the disk may be temporary.
fn is_lost(error: &TailError) -> bool {
    matches!(error, TailError::Damaged { .. } | TailError::Disk { error: DiskError::NotFound, .. })
}

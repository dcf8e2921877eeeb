//! The work of the sieve that takes the disk: made by [`super::DiskSieve::next_job`], run by a task
//! of the shard, and given back to [`super::DiskSieve::finish`].
//!
//! A job owns what it reads (runs never change) and touches nothing of the sieve, so offers go on
//! beside it. It works in steps of under a millisecond and keeps to a rate, unless the shard waits.

use super::SeenError;
use super::batch::{Batch, Needle};
use super::filter::slice_range;
use super::fresh::{Blank, Fresh};
use super::order::sorted;
use super::reader::{Extent, HAUL_BLOCK_COUNT, Haul, Reader, extents};
use super::run::Run;
use super::writer::RunWriter;
use crate::base::Time;
use crate::frontier::bloom::Bloom;
use crate::io::{Clock, Disk, DiskError, File};
use crate::limits::{SEEN_BYTES_PER_SECOND, SEEN_GAP_BLOCK_COUNT, SEEN_STEP_COUNT};
use crate::url::Fingerprint;
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

pub struct Job<F>(pub(super) Work<F>);

pub(super) enum Work<F> {
    /// Writes the frozen fingerprints as a run, and makes the table for those after the next.
    Flush { fresh: Rc<Fresh>, serial: u64, room: usize },
    /// Finds which deferred fingerprints are in the runs.
    Merge { batch: Rc<Batch>, runs: Vec<Rc<Run<F>>> },
    /// Makes one run of several.
    Compact { runs: Vec<Rc<Run<F>>>, serial: u64 },
    /// Builds a larger slice of the filter: from the runs, and from those in no run yet.
    Grow { slice: usize, room: usize, fresh: Vec<u128>, runs: Vec<Rc<Run<F>>> },
    /// Removes files that nothing refers to any more.
    Remove { names: Vec<String> },
}

/// What became of a job, for [`super::DiskSieve::finish`].
pub struct Finished<F> {
    pub(super) outcome: Outcome<F>,
    pub(super) bytes: u64,
}

pub(super) enum Outcome<F> {
    Flushed(Result<(Run<F>, Fresh), SeenError>),
    Merged(Result<Found, SeenError>),
    Compacted(Result<Run<F>, SeenError>),
    Grown(Result<Bloom, SeenError>),
    Removed(Vec<String>, Result<(), SeenError>),
}

/// One bit a candidate of the batch, in the order in which they came: it is in a run.
pub(super) struct Found(Vec<u64>);

impl Found {
    fn none(count: usize) -> Found {
        Found(vec![0; count.div_ceil(64)])
    }

    fn mark(&mut self, index: u32) {
        self.0[index as usize / 64] |= 1 << (index % 64);
    }

    pub(super) fn has(&self, index: usize) -> bool {
        self.0[index / 64] >> (index % 64) & 1 == 1
    }
}

impl<F: File> Job<F> {
    /// Runs to its end. `is_awaited` may change meanwhile: the shard has nothing else to do, or may
    /// start nothing before this is done.
    pub async fn run<W>(self, world: &W, directory: &Path, is_awaited: &Cell<bool>) -> Finished<F>
    where
        W: Disk<File = F> + Clock,
    {
        let mut toil = Toil { world, directory, is_awaited, begun: world.now(), bytes: 0 };
        let outcome = match self.0 {
            Work::Flush { fresh, serial, room } => {
                Outcome::Flushed(toil.flush(&fresh, serial, room).await)
            }
            Work::Merge { batch, runs } => Outcome::Merged(toil.merge(&batch, runs).await),
            Work::Compact { runs, serial } => Outcome::Compacted(toil.compact(runs, serial).await),
            Work::Grow { slice, room, fresh, runs } => {
                let mut bloom = Bloom::with_room_for(room);
                fresh.into_iter().for_each(|known| bloom.insert(Fingerprint(known)));
                Outcome::Grown(toil.fill(bloom, slice_range(slice), &runs).await)
            }
            Work::Remove { names } => {
                let removed = toil.remove(&names).await;
                Outcome::Removed(names, removed)
            }
        };
        Finished { outcome, bytes: toil.bytes }
    }
}

/// A job under way.
pub(super) struct Toil<'w, W> {
    pub(super) world: &'w W,
    pub(super) directory: &'w Path,
    pub(super) is_awaited: &'w Cell<bool>,
    pub(super) begun: Time,
    pub(super) bytes: u64,
}

impl<W: Disk + Clock> Toil<'_, W> {
    /// Lets others run, and rests if it was faster than it may.
    pub(super) async fn step(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.world.yield_now().await;
        let due_ns = u128::from(self.bytes) * 1_000_000_000 / u128::from(SEEN_BYTES_PER_SECOND);
        let due = self.begun + Duration::from_nanos(u64::try_from(due_ns).unwrap_or(u64::MAX));
        if !self.is_awaited.get() && due > self.world.now() {
            self.world.sleep_until(due).await;
        }
    }

    async fn flush(
        &mut self,
        fresh: &Fresh,
        serial: u64,
        room: usize,
    ) -> Result<(Run<W::File>, Fresh), SeenError> {
        let mut unsorted = Vec::with_capacity(fresh.len());
        for known in fresh.iter() {
            unsorted.push(*known);
            if unsorted.len() % SEEN_STEP_COUNT == 0 {
                self.world.yield_now().await;
            }
        }
        let all = sorted(&unsorted, self.world).await;
        drop(unsorted);
        let mut writer = RunWriter::create(self.world, self.directory, serial).await?;
        for known in all {
            if writer.push(known) {
                let bytes = writer.flush().await?;
                self.step(bytes).await;
            }
        }
        let run = writer.finish(self.world, self.directory).await?;
        let mut next = Blank::for_room(room);
        while !next.step() {
            self.world.yield_now().await;
        }
        Ok((run, next.into_fresh()))
    }

    /// The largest run first: it settles most, and what is settled is not looked for again.
    async fn merge(
        &mut self,
        batch: &Batch,
        mut runs: Vec<Rc<Run<W::File>>>,
    ) -> Result<Found, SeenError> {
        let mut found = Found::none(batch.count());
        let mut needles: Rc<[Needle]> = sorted(batch.needles(), self.world).await.into();
        runs.sort_by_key(|run| std::cmp::Reverse(run.count));
        for run in runs {
            let wanted = Wanted::new(run.clone(), needles.clone());
            let mut reader = Reader::new(run, wanted);
            let mut next = 0;
            while let Some(haul) = reader.next().await? {
                next = mark_found(reader.run(), &haul, &needles, next, &mut found)?;
                self.step(haul.size_bytes()).await;
            }
            drop(reader);
            let is_open = |needle: &&Needle| !found.has(needle.index as usize);
            needles = needles.iter().filter(is_open).copied().collect();
        }
        Ok(found)
    }

    async fn compact(
        &mut self,
        runs: Vec<Rc<Run<W::File>>>,
        serial: u64,
    ) -> Result<Run<W::File>, SeenError> {
        let mut writer = RunWriter::create(self.world, self.directory, serial).await?;
        let mut cursors = Vec::new();
        for run in runs {
            let all = extents(0, run.block_count());
            let mut cursor = Cursor { reader: Reader::new(run, all), known: Vec::new(), at: 0 };
            cursor.refill(self).await?;
            cursors.push(cursor);
        }
        loop {
            cursors.retain(|cursor| cursor.at < cursor.known.len());
            let Some(least) = (0..cursors.len()).min_by_key(|index| cursors[*index].head()) else {
                return writer.finish(self.world, self.directory).await;
            };
            if writer.push(cursors[least].head()) {
                let bytes = writer.flush().await?;
                self.step(bytes).await;
            }
            cursors[least].at += 1;
            if cursors[least].at == cursors[least].known.len() {
                cursors[least].refill(self).await?;
            }
        }
    }

    /// Inserts what the runs hold of a range.
    pub(super) async fn fill(
        &mut self,
        mut bloom: Bloom,
        (first, last): (u128, u128),
        runs: &[Rc<Run<W::File>>],
    ) -> Result<Bloom, SeenError> {
        for run in runs.iter().filter(|run| run.index[0] <= last && run.last >= first) {
            let blocks = extents(run.block_of(first), run.block_of(last) + 1);
            let mut reader = Reader::new(run.clone(), blocks);
            while let Some(haul) = reader.next().await? {
                for (number, block) in haul.blocks() {
                    let known = run.block(number, block)?.iter().map(|of| u128::from_le_bytes(*of));
                    let in_range = known.filter(|known| (first..=last).contains(known));
                    in_range.for_each(|known| bloom.insert(Fingerprint(known)));
                }
                self.step(haul.size_bytes()).await;
            }
        }
        Ok(bloom)
    }

    async fn remove(&mut self, names: &[String]) -> Result<(), SeenError> {
        for name in names {
            match self.world.remove(&self.directory.join(name)).await {
                // Gone by an earlier try.
                Ok(()) | Err(DiskError::NotFound) => {}
                Err(error) => return Err(SeenError::disk("remove", name, error)),
            }
        }
        Ok(())
    }
}

/// The blocks of a run that could hold a needle, as they come; those that lie close in one read.
struct Wanted<F> {
    run: Rc<Run<F>>,
    needles: Rc<[Needle]>,
    next: usize,
    /// Those before it were passed.
    block: usize,
}

impl<F> Iterator for Wanted<F> {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        let first = self.next_block()?;
        self.pass(first);
        while let Some(block) = self.next_block()
            && block < first + HAUL_BLOCK_COUNT
            && block - self.block <= SEEN_GAP_BLOCK_COUNT
        {
            self.pass(block);
        }
        Some(Extent { first, count: self.block - first })
    }
}

impl<F> Wanted<F> {
    fn new(run: Rc<Run<F>>, needles: Rc<[Needle]>) -> Wanted<F> {
        // Before the run's first there is nothing to read.
        let next = needles.partition_point(|needle| needle.fingerprint() < run.index[0]);
        Wanted { run, needles, next, block: 0 }
    }

    /// The block that could hold the next needle.
    fn next_block(&self) -> Option<usize> {
        let needle = self.needles.get(self.next)?.fingerprint();
        if needle > self.run.last {
            return None;
        }
        // Most lie near: in strides that double, then in halves.
        let (mut low, mut stride) = (self.block, 1);
        while self.run.index.get(low + stride).is_some_and(|first| *first <= needle) {
            low += stride;
            stride *= 2;
        }
        let end = self.run.index.len().min(low + stride);
        Some(low + self.run.index[low + 1..end].partition_point(|first| *first <= needle))
    }

    /// Goes past a block and the needles that it could hold.
    fn pass(&mut self, block: usize) {
        self.block = block + 1;
        self.next += count_in(&self.run, block, &self.needles[self.next..]);
    }
}

/// How many of the needles, which are not before the block, are not behind it either.
fn count_in<F>(run: &Run<F>, block: usize, needles: &[Needle]) -> usize {
    run.index.get(block + 1).map_or(needles.len(), |behind| {
        needles.iter().take_while(|needle| needle.fingerprint() < *behind).count()
    })
}

/// Marks the needles that the haul holds; says which needle comes behind it. Blocks that were read
/// because they lie between others are not looked at.
fn mark_found<F>(
    run: &Run<F>,
    haul: &Haul,
    needles: &[Needle],
    mut next: usize,
    found: &mut Found,
) -> Result<usize, SeenError> {
    for (number, block) in haul.blocks() {
        // Before the run there may be needles; between blocks there are none.
        while needles.get(next).is_some_and(|needle| needle.fingerprint() < run.index[number]) {
            next += 1;
        }
        let count = count_in(run, number, &needles[next..]);
        if count == 0 {
            continue;
        }
        let mut known = run.block(number, block)?;
        for needle in &needles[next..next + count] {
            let fingerprint = needle.fingerprint();
            let before = known.partition_point(|of| u128::from_le_bytes(*of) < fingerprint);
            known = &known[before..];
            if known.first().is_some_and(|of| u128::from_le_bytes(*of) == fingerprint) {
                found.mark(needle.index);
            }
        }
        next += count;
    }
    Ok(next)
}

/// One of the runs that are made one.
struct Cursor<F, E: Iterator<Item = Extent>> {
    reader: Reader<F, E>,
    /// Of the last haul.
    known: Vec<u128>,
    at: usize,
}

impl<F: File, E: Iterator<Item = Extent>> Cursor<F, E> {
    fn head(&self) -> u128 {
        self.known[self.at]
    }

    /// Reads the next haul; there is none at the end of the run.
    async fn refill<W: Disk + Clock>(&mut self, toil: &mut Toil<'_, W>) -> Result<(), SeenError> {
        self.known.clear();
        self.at = 0;
        let Some(haul) = self.reader.next().await? else { return Ok(()) };
        for (number, block) in haul.blocks() {
            let known = self.reader.run().block(number, block)?;
            self.known.extend(known.iter().map(|of| u128::from_le_bytes(*of)));
        }
        toil.step(haul.size_bytes()).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Candidate, Class, Trail, Via};
    use crate::io::Random;
    use crate::io::sim::{Sim, SimWorld};
    use crate::limits::SEEN_BLOCK_BYTES;
    use crate::url::{HostKey, Url};

    fn batch_of(known: impl Iterator<Item = u128>) -> Batch {
        let url = Url::parse("http://a.test/").expect("a URL");
        let (depth, class, via) = (1, Class::Normal, Via::Link);
        let candidate = Candidate { url, depth, class, via, trail: Trail::default() };
        let mut batch = Batch::default();
        known.for_each(|of| batch.push(Fingerprint(of), &candidate.lent(), Time::ZERO));
        batch
    }

    /// The run of `all`, the toil of a merge of `wanted` with it, and what it found.
    async fn merged(world: &SimWorld, all: &[u128], wanted: &[u128]) -> (u64, Vec<bool>) {
        let directory = Path::new("state");
        world.create_dir(directory).await.expect("a directory");
        let mut writer = RunWriter::create(world, directory, 1).await.expect("a run");
        for known in all {
            if writer.push(*known) {
                writer.flush().await.expect("room");
            }
        }
        let run = Rc::new(writer.finish(world, directory).await.expect("a run"));
        let batch = batch_of(wanted.iter().copied());
        let (begun, is_awaited) = (world.now(), Cell::new(true));
        let mut toil = Toil { world, directory, is_awaited: &is_awaited, begun, bytes: 0 };
        let found = toil.merge(&batch, vec![run]).await.expect("a sound run");
        (toil.bytes, (0..wanted.len()).map(|index| found.has(index)).collect())
    }

    fn in_sim<T>(seed: u64, body: impl AsyncFnOnce(SimWorld) -> T) -> T {
        let sim = Sim::new(seed);
        sim.block_on(body(sim.world(0))).expect("a simulation that ends")
    }

    #[test]
    fn a_merge_finds_what_is_there_however_far_apart_it_lies() {
        for seed in 0..30 {
            in_sim(seed, async |world| {
                // Many blocks and few, needles in nearly all of them and in nearly none.
                let count = 1 << (4 + seed % 4 * 4);
                let mut all: Vec<u128> = (0..count).map(|_| random(&world)).collect();
                all.sort_unstable();
                let wanted: Vec<u128> = (0..1 << (seed % 5 * 3))
                    .map(|_| match world.random_u64() % 3 {
                        0 => random(&world),
                        _ => all[(world.random_u64() % count) as usize],
                    })
                    .chain([0, u128::MAX, all[0], all[all.len() - 1]])
                    .collect();
                let (bytes, found) = merged(&world, &all, &wanted).await;
                let naive: Vec<bool> =
                    wanted.iter().map(|of| all.binary_search(of).is_ok()).collect();
                assert_eq!(found, naive, "seed {seed}");
                let each = (2 * SEEN_GAP_BLOCK_COUNT + 1) * SEEN_BLOCK_BYTES;
                assert!(bytes <= (wanted.len() * each) as u64, "seed {seed}: {bytes} bytes");
            });
        }
    }

    #[test]
    fn the_links_of_a_page_are_looked_for_in_few_blocks_of_a_large_run() {
        in_sim(1, async |world| {
            let mut all: Vec<u128> = (0..100_000u64)
                .map(|number| {
                    let host = HostKey(xxhash_rust::xxh3::xxh3_64(&(number % 1_000).to_le_bytes()));
                    Fingerprint::new(host, random(&world)).0
                })
                .collect();
            all.sort_unstable();
            // Hosts have a hundred URLs each: fifty of one.
            let wanted: Vec<u128> = all[54_321 / 100 * 100..][..50].to_vec();
            let (bytes, found) = merged(&world, &all, &wanted).await;
            assert!(found.iter().all(|is_found| *is_found));
            assert!(bytes <= 2 * SEEN_BLOCK_BYTES as u64, "{bytes} bytes");
        });
    }

    fn random(world: &SimWorld) -> u128 {
        u128::from(world.random_u64()) << 64 | u128::from(world.random_u64())
    }
}

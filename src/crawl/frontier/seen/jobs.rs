//! Jobs: the work of the sieve that needs the disk. [`super::DiskSieve::next_job`] makes them, a
//! task of the shard runs them, and [`super::DiskSieve::finish`] takes in their outcomes.
//!
//! A job owns what it reads (runs never change) and touches nothing of the sieve, so offers go on
//! beside it. It works in steps of under a millisecond and keeps to a rate, unless the shard waits
//! for it.

use super::SeenError;
use super::batch::Batch;
use super::filter::slice_range;
use super::fresh::{Blank, Fresh};
use super::merge::Found;
use super::order::sorted;
use super::reader::{Reader, extents};
use super::run::Run;
use super::writer::RunWriter;
use crate::base::Time;
use crate::base::limits::{SEEN_BYTES_PER_SECOND, SEEN_STEP_COUNT};
use crate::crawl::frontier::bloom::Bloom;
use crate::io::{Clock, Disk, DiskError, File};
use crate::proto::url::Fingerprint;
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

pub struct Job<F>(pub(super) Work<F>);

pub(super) enum Work<F> {
    /// Writes the frozen fingerprints as a run, and makes the spare table that the next flush
    /// takes.
    Flush { fresh: Rc<Fresh>, serial: u64, room: usize },
    /// Finds which deferred fingerprints are in the runs.
    Merge { batch: Rc<Batch>, runs: Vec<Rc<Run<F>>> },
    /// Makes one run of several.
    Compact { runs: Vec<Rc<Run<F>>>, serial: u64 },
    /// Builds a larger slice of the filter, from the runs and from the fingerprints in no run yet.
    Grow { slice: usize, room: usize, fresh: Vec<u128>, runs: Vec<Rc<Run<F>>> },
    /// Removes files that nothing refers to any more.
    Remove { names: Vec<String> },
}

/// The outcome of a job, for [`super::DiskSieve::finish`].
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

impl<F: File> Job<F> {
    /// Runs the job to its end. `is_awaited` says that the shard has nothing else to do, or may
    /// start nothing before this is done; it may change meanwhile.
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

/// A job that is under way.
pub(super) struct Toil<'w, W> {
    pub(super) world: &'w W,
    pub(super) directory: &'w Path,
    pub(super) is_awaited: &'w Cell<bool>,
    pub(super) begun: Time,
    pub(super) bytes: u64,
}

impl<W: Disk + Clock> Toil<'_, W> {
    /// Lets other tasks run, and sleeps if the job was faster than its rate allows.
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

    /// Inserts what the runs hold of a range of fingerprints.
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
                // An earlier try may have removed it.
                Ok(()) | Err(DiskError::NotFound) => {}
                Err(error) => return Err(SeenError::disk("remove", name, error)),
            }
        }
        Ok(())
    }
}

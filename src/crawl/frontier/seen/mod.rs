//! URL-seen with its exact set on disk: a filter in RAM, and runs of sorted fingerprints for the
//! proof.
//!
//! This module owns the fingerprints of every URL that the core ever took, 14 bits each in RAM and
//! 16 bytes on disk. Fingerprints flow in, and candidates that the filter could not call new.
//! Answers flow out, and later the candidates that a merge proved new.
//!
//! Invariant: no URL is lost or taken twice. For this, no flush begins while a merge is under way
//! or unjudged, so that whatever was admitted since the merge began is in `fresh` when it is
//! judged. Compactions and filter growth run beside both; they change no set.
//!
//! Only its own core touches it. [`DiskSieve`] does no I/O and has no clock: its work on the disk
//! is [`Job`]s that the shard runs beside its fetches.
//!
//! A fingerprint's way:
//!
//! 1. [`Sieve::probe`]: a fingerprint in the cache of recent ones is known. One that is not in the
//!    Bloom filter is new, and that is final. Any other is answered later. While there is no run,
//!    `fresh` and `frozen`, the sets of fingerprints in no run yet, are all there is, and answer at
//!    once.
//! 2. [`Sieve::admit`]: the fingerprint joins `fresh` and the filter. A full `fresh` is frozen,
//!    sorted and written as a run (flush), while a new one fills.
//! 3. [`Sieve::defer`]: the candidate joins the batch, and its fingerprint the recent ones. A batch
//!    that is large or old, or that an idle shard waits for, is sorted and looked up in the runs,
//!    in one sequential pass (merge).
//! 4. [`DiskSieve::judge`]: candidates found in a run are known. The others are looked up in
//!    `fresh` and, if they are not there either, admitted and handed out by [`Sieve::settle`], in
//!    the order in which they came.

mod batch;
mod compact;
mod deal;
mod error;
mod filter;
mod fresh;
mod jobs;
mod limits;
mod merge;
mod open;
mod order;
mod reader;
mod run;
#[cfg(test)]
mod tests;
mod writer;

pub use deal::{check_run, deal_run, write_run};
pub use error::SeenError;
pub use jobs::{Finished, Job};
pub use limits::{SeenFigures, SeenImage, SeenLimits};
pub use run::RunImage;

use super::leftovers::Leftovers;
use super::sieve::{Seen, Sieve, SieveFigures};
use crate::base::Time;
use crate::base::limits::SEEN_RUN_COUNT_MAX;
use crate::base::recent::Recent;
use crate::crawl::flow::Candidate;
use crate::proto::url::Fingerprint;
use batch::Batch;
use filter::Filter;
use fresh::Fresh;
use jobs::{Outcome, Work};
use merge::Found;
use run::Run;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

pub struct DiskSieve<F> {
    limits: SeenLimits,
    recent: Recent,
    filter: Filter,
    fresh: Fresh,
    frozen: Option<Rc<Fresh>>,
    /// The table to be filled next, made while the last one was written.
    spare: Option<Fresh>,
    runs: Vec<Rc<Run<F>>>,
    next_serial: u64,
    gathering: Batch,
    merging: Merging,
    settled: VecDeque<Candidate>,
    /// Batches that left `gathering`, and batches that were judged to their end.
    begun_batch_count: u64,
    judged_batch_count: u64,
    /// What is fresh is to go to disk, however little it is.
    is_flush_wanted: bool,
    /// Runs that a compaction replaced, or that were never finished.
    leftovers: Leftovers,
    /// The flush or merge that is under way.
    first_lane: Option<Lane>,
    /// The compaction, growth or removal that is under way.
    second_lane: Option<Lane>,
    figures: SieveFigures,
    seen: SeenFigures,
}

/// The batch that left `gathering`.
enum Merging {
    None,
    /// Its merge is due (again, if the disk refused) or under way.
    Due(Rc<Batch>),
    Judging {
        batch: Rc<Batch>,
        found: Found,
        next: usize,
    },
}

/// A job that is under way, with what [`DiskSieve::finish`] needs to know of it.
enum Lane {
    Flush { serial: u64 },
    Merge,
    Compact { serial: u64, replaced: Vec<u64> },
    Grow,
    Remove,
}

/// What [`DiskSieve::judge`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    pub known_count: usize,
    pub new_count: usize,
    /// There is more to judge.
    pub is_more: bool,
}

impl<F> DiskSieve<F> {
    /// Makes an empty sieve, for a crawl that begins.
    pub fn new(limits: SeenLimits) -> DiskSieve<F> {
        DiskSieve {
            limits,
            recent: Recent::growing(limits.recent_count, limits.recent_count_max),
            filter: Filter::new(|_| limits.slice_url_count),
            fresh: Fresh::growing_to(room_of(&limits)),
            frozen: None,
            spare: None,
            runs: Vec::new(),
            next_serial: 1,
            gathering: Batch::default(),
            merging: Merging::None,
            settled: VecDeque::new(),
            begun_batch_count: 0,
            judged_batch_count: 0,
            is_flush_wanted: false,
            leftovers: Leftovers::default(),
            first_lane: None,
            second_lane: None,
            figures: SieveFigures::default(),
            seen: SeenFigures::default(),
        }
    }

    /// Returns the next job for the disk, if any is due. At most two are under way: a flush or a
    /// merge, and a compaction, growth or removal. `is_idle` says that the shard has nothing else
    /// to do, so that a merge of any size is due.
    pub fn next_job(&mut self, now: Time, is_idle: bool) -> Option<Job<F>> {
        if self.first_lane.is_none()
            && let Some(work) = self.flush_due().or_else(|| self.merge_due(now, is_idle))
        {
            return Some(Job(work));
        }
        if self.second_lane.is_some() {
            return None;
        }
        let work = self.removal_due().or_else(|| self.growth_due());
        work.or_else(|| self.compaction_due()).map(Job)
    }

    fn flush_due(&mut self) -> Option<Work<F>> {
        if !matches!(self.merging, Merging::None | Merging::Due(_)) {
            return None;
        }
        if self.frozen.is_none() {
            let is_due = self.fresh.len() >= self.limits.fresh_count || self.is_flush_wanted;
            if !is_due || self.runs.len() >= SEEN_RUN_COUNT_MAX {
                return None;
            }
            self.is_flush_wanted = false;
            let empty = self.spare.take();
            let empty = empty.unwrap_or_else(|| Fresh::with_room_for(room_of(&self.limits)));
            self.frozen = Some(Rc::new(std::mem::replace(&mut self.fresh, empty)));
        }
        let fresh = self.frozen.clone()?;
        let serial = self.take_serial();
        self.first_lane = Some(Lane::Flush { serial });
        Some(Work::Flush { fresh, serial, room: room_of(&self.limits) })
    }

    fn merge_due(&mut self, now: Time, is_idle: bool) -> Option<Work<F>> {
        if matches!(self.merging, Merging::None) {
            let SeenLimits { batch_count, batch_bytes, .. } = self.limits;
            let is_due = is_idle
                || self.gathering.count() >= batch_count
                || self.gathering.size_bytes() >= batch_bytes
                || self.merge_at().is_some_and(|at| at <= now);
            if !is_due || self.gathering.count() == 0 {
                return None;
            }
            self.begun_batch_count += 1;
            self.merging = Merging::Due(Rc::new(std::mem::take(&mut self.gathering)));
        }
        let Merging::Due(batch) = &self.merging else { return None };
        let batch = batch.clone();
        self.first_lane = Some(Lane::Merge);
        Some(Work::Merge { batch, runs: self.runs.clone() })
    }

    fn removal_due(&mut self) -> Option<Work<F>> {
        if !self.leftovers.has_retired() {
            return None;
        }
        self.second_lane = Some(Lane::Remove);
        Some(Work::Remove { names: self.leftovers.take_retired() })
    }

    fn growth_due(&mut self) -> Option<Work<F>> {
        let (slice, room) = self.filter.begin_growth()?;
        self.second_lane = Some(Lane::Grow);
        let frozen = self.frozen.iter().flat_map(|frozen| frozen.of_slice(slice));
        let fresh = self.fresh.of_slice(slice).chain(frozen).collect();
        Some(Work::Grow { slice, room, fresh, runs: self.runs.clone() })
    }

    /// Compacts runs of about one size: from 4^n times a flush up to 4^(n+1) times.
    fn compaction_due(&mut self) -> Option<Work<F>> {
        let tier = |run: &Run<F>| (run.count / self.limits.fresh_count as u64).max(1).ilog2() / 2;
        let mut run_counts = [0; u64::BITS as usize / 2];
        self.runs.iter().for_each(|run| run_counts[tier(run) as usize] += 1);
        let full = run_counts.iter().position(|count| *count >= self.limits.tier_run_count)?;
        let of_tier = self.runs.iter().filter(|run| tier(run) as usize == full);
        let runs: Vec<Rc<Run<F>>> = of_tier.cloned().collect();
        let serial = self.take_serial();
        let replaced = runs.iter().map(|run| run.serial).collect();
        self.second_lane = Some(Lane::Compact { serial, replaced });
        Some(Work::Compact { runs, serial })
    }

    /// Takes in a job's outcome. After an error of the disk the work is due again; the caller waits
    /// before it asks for the job.
    pub fn finish(&mut self, finished: Finished<F>) -> Result<(), SeenError> {
        self.seen.job_bytes += finished.bytes;
        match finished.outcome {
            Outcome::Flushed(flushed) => self.end_flush(flushed),
            Outcome::Merged(merged) => {
                assert!(matches!(self.first_lane.take(), Some(Lane::Merge)), "jobs end once");
                let found = merged?;
                self.seen.merge_count += 1;
                if let Merging::Due(batch) = std::mem::replace(&mut self.merging, Merging::None) {
                    self.merging = Merging::Judging { batch, found, next: 0 };
                }
                Ok(())
            }
            Outcome::Compacted(compacted) => self.end_compaction(compacted),
            Outcome::Grown(grown) => {
                assert!(matches!(self.second_lane.take(), Some(Lane::Grow)), "jobs end once");
                match grown {
                    Ok(larger) => self.filter.end_growth(larger),
                    Err(error) => {
                        self.filter.abandon_growth();
                        return Err(error);
                    }
                }
                self.seen.growth_count += 1;
                Ok(())
            }
            Outcome::Removed(names, removed) => {
                assert!(matches!(self.second_lane.take(), Some(Lane::Remove)), "jobs end once");
                if removed.is_err() {
                    self.leftovers.condemn(names);
                }
                removed
            }
        }
    }

    fn end_flush(&mut self, flushed: Result<(Run<F>, Fresh), SeenError>) -> Result<(), SeenError> {
        let Some(Lane::Flush { serial }) = self.first_lane.take() else {
            panic!("jobs end once");
        };
        match flushed {
            Ok((run, spare)) => {
                self.runs.push(Rc::new(run));
                self.frozen = None;
                self.spare = Some(spare);
                self.seen.flush_count += 1;
                Ok(())
            }
            Err(error) => {
                // Part of the run may be on disk, under a name that is not used again.
                self.leftovers.condemn([run::name_of(serial)]);
                Err(error)
            }
        }
    }

    fn end_compaction(&mut self, compacted: Result<Run<F>, SeenError>) -> Result<(), SeenError> {
        let Some(Lane::Compact { serial, replaced }) = self.second_lane.take() else {
            panic!("jobs end once");
        };
        match compacted {
            Ok(run) => {
                self.runs.retain(|run| !replaced.contains(&run.serial));
                self.runs.push(Rc::new(run));
                self.leftovers.supersede(replaced.into_iter().map(run::name_of));
                self.seen.compaction_count += 1;
                Ok(())
            }
            Err(error) => {
                self.leftovers.condemn([run::name_of(serial)]);
                Err(error)
            }
        }
    }

    /// Judges up to `count` candidates of a merge that is done. New ones are handed out by
    /// `settle`.
    pub fn judge(&mut self, count: usize) -> Judged {
        let mut judged = Judged::default();
        let Merging::Judging { batch, found, next } = &mut self.merging else { return judged };
        let (batch, end) = (batch.clone(), (*next + count).min(batch.count()));
        let mut unfound = Vec::new();
        for index in *next..end {
            if let Some(needle) = batch.needles().get(index + JUDGED_AHEAD_COUNT) {
                self.recent.prefetch(needle.fingerprint());
            }
            let fingerprint = Fingerprint(batch.needles()[index].fingerprint());
            if found.has(index) {
                self.recent.insert(fingerprint.0);
            } else {
                self.fresh.prefetch(fingerprint);
                unfound.push((index, fingerprint));
            }
        }
        judged.known_count = end - *next - unfound.len();
        judged.is_more = end < batch.count();
        *next = end;
        for (index, fingerprint) in unfound {
            if self.fresh.contains(fingerprint) {
                judged.known_count += 1;
                continue;
            }
            judged.new_count += 1;
            self.figures.bloom_wrong_count += 1;
            self.admit(fingerprint);
            self.settled.push_back(batch.candidate(index));
        }
        if !judged.is_more {
            self.merging = Merging::None;
            self.judged_batch_count += 1;
        }
        judged
    }

    /// Returns when a merge becomes due, if nothing else makes it due before.
    pub fn merge_at(&self) -> Option<Time> {
        Some(self.gathering.since? + Duration::from_millis(self.limits.lag_ms))
    }

    /// Reports whether so much waits for the disk that no new fetches may start.
    pub fn is_backed_up(&self) -> bool {
        let batch = self.merging_batch();
        let bytes = self.gathering.size_bytes() + batch.map_or(0, |batch| batch.size_bytes());
        self.fresh.len() >= self.limits.fresh_count_max
            || self.deferred_count() >= self.limits.deferred_count_max
            || bytes >= self.limits.deferred_bytes_max
    }

    /// Requests that everything admitted so far goes to runs, for a checkpoint.
    /// [`DiskSieve::is_flushed`] says when it has.
    pub fn want_flush(&mut self) {
        self.is_flush_wanted = !self.fresh.is_empty();
    }

    /// Reports whether everything admitted before the last [`DiskSieve::want_flush`] is in runs.
    pub fn is_flushed(&self) -> bool {
        !self.is_flush_wanted && self.frozen.is_none()
    }

    /// Returns the mark that [`DiskSieve::judged_mark`] reaches when all candidates deferred so far
    /// are judged.
    pub fn deferred_mark(&self) -> u64 {
        self.begun_batch_count + u64::from(self.gathering.count() > 0)
    }

    pub fn judged_mark(&self) -> u64 {
        self.judged_batch_count
    }

    /// Returns the exact set on disk, as a checkpoint names it. The fresh fingerprints are not in
    /// it.
    pub fn runs(&self) -> SeenImage {
        SeenImage { runs: self.runs.iter().map(|run| run.image()).collect() }
    }

    /// Returns the fingerprints that are in no run yet; with [`DiskSieve::runs`] they are all.
    pub fn fresh(&self) -> impl Iterator<Item = Fingerprint> {
        let frozen = self.frozen.iter().flat_map(|frozen| frozen.iter());
        self.fresh.iter().chain(frozen).map(|known| Fingerprint(*known))
    }

    /// Returns the candidates that no merge has judged yet, in the order in which they came, for a
    /// checkpoint.
    pub fn deferred(&self) -> impl Iterator<Item = Candidate> {
        let judged_count = match &self.merging {
            Merging::Judging { next, .. } => *next,
            Merging::None | Merging::Due(_) => 0,
        };
        let merging = self.merging_batch().into_iter();
        merging
            .flat_map(move |batch| batch.candidates().skip(judged_count))
            .chain(self.gathering.candidates())
    }

    /// Returns the runs that only a checkpoint may still name.
    pub fn leftovers(&mut self) -> &mut Leftovers {
        &mut self.leftovers
    }

    pub fn figures(&self) -> SieveFigures {
        SieveFigures {
            url_count: self.filter.url_count(),
            bloom_bit_count: self.filter.bit_count(),
            ..self.figures
        }
    }

    pub fn seen_figures(&self, now: Time) -> SeenFigures {
        let since = self.merging_batch().map_or(self.gathering.since, |batch| batch.since);
        SeenFigures {
            run_count: self.runs.len(),
            fresh_count: self.fresh.len() + self.frozen.as_ref().map_or(0, |frozen| frozen.len()),
            lag: since.map_or(Duration::ZERO, |since| now.since(since)),
            ..self.seen
        }
    }

    fn merging_batch(&self) -> Option<&Rc<Batch>> {
        match &self.merging {
            Merging::None => None,
            Merging::Due(batch) | Merging::Judging { batch, .. } => Some(batch),
        }
    }

    fn take_serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial - 1
    }
}

impl<F> Sieve for DiskSieve<F> {
    fn probe(&mut self, fingerprint: Fingerprint) -> Seen {
        self.figures.probe_count += 1;
        if self.recent.touch(fingerprint.0) {
            self.figures.recent_hit_count += 1;
            return Seen::Known;
        }
        if !self.filter.may_contain(fingerprint) {
            self.figures.bloom_no_count += 1;
            return Seen::New;
        }
        if !self.runs.is_empty() {
            // Most fresh fingerprints are recent as well. To look the others up here would touch
            // two cache lines that nothing else needs, and would spare few candidates the disk.
            // What a merge does not find is looked up in `fresh` then.
            return Seen::Later;
        }
        let in_frozen = |frozen: &Rc<Fresh>| frozen.contains(fingerprint);
        if self.fresh.contains(fingerprint) || self.frozen.as_ref().is_some_and(in_frozen) {
            self.recent.insert(fingerprint.0);
            return Seen::Known;
        }
        self.figures.bloom_wrong_count += 1;
        Seen::New
    }

    /// Prefetches in the cache of recent fingerprints alone: for what that answers, the filter is
    /// not asked.
    fn prefetch(&self, fingerprint: Fingerprint) {
        self.recent.prefetch(fingerprint.0);
    }

    fn knows_early(&mut self, fingerprint: Fingerprint) -> bool {
        if self.recent.touch(fingerprint.0) {
            self.figures.probe_count += 1;
            self.figures.recent_hit_count += 1;
            return true;
        }
        self.filter.prefetch(fingerprint);
        if self.runs.is_empty() {
            self.fresh.prefetch(fingerprint);
        }
        false
    }

    fn prefetch_admit(&self, fingerprint: Fingerprint) {
        self.fresh.prefetch(fingerprint);
    }

    fn admit(&mut self, fingerprint: Fingerprint) {
        // The cache grows by a set for each new fingerprint. Half as many would do if fingerprints
        // were spread evenly, but one that is turned out early has to be looked up on the disk.
        self.recent.grow();
        self.recent.insert(fingerprint.0);
        // A fingerprint that the filter does not have is not among the frozen ones either. The
        // filter is asked first, because its cache line is at hand and theirs is not.
        let in_frozen = |frozen: &Rc<Fresh>| frozen.contains(fingerprint);
        if self.filter.may_contain(fingerprint) && self.frozen.as_ref().is_some_and(in_frozen) {
            return;
        }
        if self.fresh.insert(fingerprint) {
            self.filter.insert(fingerprint);
        }
    }

    /// Keeps the candidate for a merge. From now on its fingerprint counts as recent: if it is new,
    /// the merge says so of this candidate, and others of its URL need not wait beside it.
    fn defer(&mut self, fingerprint: Fingerprint, candidate: &Candidate<&str>, now: Time) {
        self.recent.insert(fingerprint.0);
        self.gathering.push(fingerprint, candidate, now);
    }

    fn settle(&mut self) -> Option<Candidate> {
        self.settled.pop_front()
    }

    fn deferred_count(&self) -> usize {
        let merging = match &self.merging {
            Merging::None => 0,
            Merging::Due(batch) => batch.count(),
            Merging::Judging { batch, next, .. } => batch.count() - next,
        };
        self.gathering.count() + merging + self.settled.len()
    }

    /// Returns false: the disk is the only bound.
    fn is_full(&self) -> bool {
        false
    }
}

/// How many candidates ahead of the one that is judged a cache line is prefetched.
const JUDGED_AHEAD_COUNT: usize = 16;

/// Returns the room of a table of fresh fingerprints. It includes what is admitted while a flush is
/// due, so that the table never grows in between.
fn room_of(limits: &SeenLimits) -> usize {
    limits.fresh_count + limits.fresh_count / 2
}

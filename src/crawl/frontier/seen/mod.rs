//! URL seen with its exact set on disk: a filter in RAM, runs of sorted fingerprints for the proof.
//!
//! Owns the fingerprints of every URL that the core ever took, 14 bits each in RAM and 16 bytes on
//! disk. In: fingerprints, and candidates that the filter could not call new. Out: answers, and
//! later the candidates that a merge proved new. Touched by its own core alone. [`DiskSieve`] does
//! no I/O and has no clock: the disk's part are [`Job`]s that the shard runs beside its fetches.
//!
//! A fingerprint's way:
//!
//! 1. [`Sieve::probe`]: in the cache of recent ones: known. Not in the Bloom filter: new, and that
//!    is final. Else: later. While there is no run, `fresh` and `frozen`, the sets of those in none
//!    yet, are all there is, and answer at once.
//! 2. [`Sieve::admit`]: it joins `fresh` and the filter. A full `fresh` is frozen, sorted and
//!    written as a run (flush), while a new one fills.
//! 3. [`Sieve::defer`]: it joins the batch, and the recent ones. A batch that is large or old, or
//!    that an idle shard waits for, is sorted and looked up in the runs, in one sequential pass
//!    (merge).
//! 4. [`DiskSieve::judge`]: candidates found in a run are known. The others are looked up in
//!    `fresh` and, if they are not there either, admitted and handed out by [`Sieve::settle`], in
//!    the order in which they came.
//!
//! Why nothing is lost or taken twice: no flush begins while a merge is under way or unjudged, so
//! that whatever was admitted since the merge began is in `fresh` when it is judged. Compactions
//! and filter growth run beside both; they change no set.

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
    /// The next to be filled, made while the last was written.
    spare: Option<Fresh>,
    runs: Vec<Rc<Run<F>>>,
    next_serial: u64,
    gathering: Batch,
    merging: Merging,
    settled: VecDeque<Candidate>,
    /// Batches that left `gathering`, and those of them that were judged to their end.
    begun_batch_count: u64,
    judged_batch_count: u64,
    /// What is fresh shall go to disk, however little it is.
    is_flush_wanted: bool,
    /// Runs that a compaction replaced, or that were never finished.
    leftovers: Leftovers,
    /// A flush or a merge is under way, and a compaction, growth or removal.
    first_lane: Option<Lane>,
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

/// A job under way, as far as its end needs to know.
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
    /// An empty one, for a crawl that begins.
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

    /// The next thing that the disk shall do, if any is due. At most two are under way: a flush or
    /// a merge, and a compaction, growth or removal. `is_idle`: the shard has nothing else to do,
    /// so that a merge of any size is due.
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

    /// Runs of about one size: from 4^n times a flush up to 4^(n+1) times.
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

    /// Takes a job's outcome in. After an error of the disk the work is due again; the caller waits
    /// before it asks.
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
                // A part of it may be on disk, under a name that is not used again.
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

    /// Judges up to `count` candidates of a merge that is done. New ones are for `settle`.
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

    /// When a merge becomes due, if nothing else makes it due before.
    pub fn merge_at(&self) -> Option<Time> {
        Some(self.gathering.since? + Duration::from_millis(self.limits.lag_ms))
    }

    /// So much waits for the disk that no new fetches shall start.
    pub fn is_backed_up(&self) -> bool {
        let batch = self.merging_batch();
        let bytes = self.gathering.size_bytes() + batch.map_or(0, |batch| batch.size_bytes());
        self.fresh.len() >= self.limits.fresh_count_max
            || self.deferred_count() >= self.limits.deferred_count_max
            || bytes >= self.limits.deferred_bytes_max
    }

    /// All that was admitted so far shall be in runs: for a checkpoint, once
    /// [`DiskSieve::is_flushed`] says so.
    pub fn want_flush(&mut self) {
        self.is_flush_wanted = !self.fresh.is_empty();
    }

    /// Whatever was admitted before the last [`DiskSieve::want_flush`] is in runs.
    pub fn is_flushed(&self) -> bool {
        !self.is_flush_wanted && self.frozen.is_none()
    }

    /// All candidates deferred so far are judged when [`DiskSieve::judged_mark`] has come here.
    pub fn deferred_mark(&self) -> u64 {
        self.begun_batch_count + u64::from(self.gathering.count() > 0)
    }

    pub fn judged_mark(&self) -> u64 {
        self.judged_batch_count
    }

    /// The exact set on disk, as a checkpoint names it. The fresh fingerprints are not in it.
    pub fn runs(&self) -> SeenImage {
        SeenImage { runs: self.runs.iter().map(|run| run.image()).collect() }
    }

    /// Fingerprints that are in no run yet; with [`DiskSieve::runs`] they are all.
    pub fn fresh(&self) -> impl Iterator<Item = Fingerprint> {
        let frozen = self.frozen.iter().flat_map(|frozen| frozen.iter());
        self.fresh.iter().chain(frozen).map(|known| Fingerprint(*known))
    }

    /// Candidates that no merge has judged yet, for a checkpoint: in the order in which they came.
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

    /// Runs that only a checkpoint may still name.
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
            // Most of what is fresh is recent as well: to ask it here as well, two cache lines that
            // nothing else needs, would spare few the disk. A merge that finds nothing asks it.
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

    /// The recent ones alone: for what they answer the filter is not asked.
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
        // By a set for each: half of them would do if they lay evenly, and what is turned out early
        // is asked of the disk.
        self.recent.grow();
        self.recent.insert(fingerprint.0);
        // What the filter does not have is not among the frozen: its line is at hand, theirs not.
        let in_frozen = |frozen: &Rc<Fresh>| frozen.contains(fingerprint);
        if self.filter.may_contain(fingerprint) && self.frozen.as_ref().is_some_and(in_frozen) {
            return;
        }
        if self.fresh.insert(fingerprint) {
            self.filter.insert(fingerprint);
        }
    }

    /// From now on it counts as recent: if it is new the merge says so of this candidate, and
    /// others of its URL have no need to wait beside it.
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

    /// The disk is the bound.
    fn is_full(&self) -> bool {
        false
    }
}

/// How far ahead of a candidate that is judged another's cache line is asked for.
const JUDGED_AHEAD_COUNT: usize = 16;

/// Of a table of fresh ones: also for what is admitted while a flush is due, so that it never grows
/// in between.
fn room_of(limits: &SeenLimits) -> usize {
    limits.fresh_count + limits.fresh_count / 2
}

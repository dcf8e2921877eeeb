//! The totals of a crawl over all of its runs, kept with each checkpoint.
//!
//! There are two kinds of figures. Pages and ended URLs are counted with the journal's entries, so
//! they are exact even after a kill: a URL whose end was not durable is not counted, and is fetched
//! and counted again. All other counts are as of the last checkpoint: what a killed run had counted
//! since then is missing, and [`Totals::cut_short_count`] says how many such runs there were. The
//! time of the runs is such a figure too.
//!
//! A dead letter that an operator puts back ends once more. The journal tells of that as well, so
//! each URL is counted once, by its last end.

use super::{Count, Metrics};
use crate::base::pack::{Pack, Unpack};
use crate::crawl::flow::Outcome;

/// The name of [`Totals::revived_count`] among the packed counts.
const REVIVED: &str = "urls_revived";

/// The totals of one shard, or the sums of several shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Pages whose URL has ended.
    pub page_count: u64,
    /// Ends of URLs, by outcome. A URL that was put back may have several.
    pub ended_counts: [u64; Outcome::COUNT],
    /// Dead letters that were put back: each of them is a failure among the ends that counts no
    /// more.
    pub revived_count: u64,
    /// Indexed by [`Count::index`].
    pub counts: [u64; Count::COUNT],
    /// Requests, by outcome.
    pub outcome_counts: [u64; Outcome::COUNT],
    /// How long the runs lasted, all together.
    pub span_ms: u64,
    pub run_count: u64,
    /// Runs without a last checkpoint: they were killed, or the machine or its disk failed.
    pub cut_short_count: u64,
}

impl Default for Totals {
    fn default() -> Totals {
        Totals {
            page_count: 0,
            ended_counts: [0; Outcome::COUNT],
            revived_count: 0,
            counts: [0; Count::COUNT],
            outcome_counts: [0; Outcome::COUNT],
            span_ms: 0,
            run_count: 0,
            cut_short_count: 0,
        }
    }
}

impl Totals {
    pub fn count(&self, count: Count) -> u64 {
        self.counts[count.index()]
    }

    /// Counts a URL that has ended.
    pub fn ended(&mut self, outcome: Outcome, is_page: bool) {
        self.ended_counts[outcome as usize] += 1;
        self.page_count += u64::from(is_page);
    }

    /// Counts a dead letter that was put back.
    pub fn revived(&mut self) {
        self.revived_count += 1;
    }

    /// Returns the number of URLs that have ended and were not put back since.
    pub fn ended_count(&self) -> u64 {
        self.ended_counts.iter().sum::<u64>().saturating_sub(self.revived_count)
    }

    /// Returns the number of URLs that were given up and not put back since.
    pub fn dead_count(&self) -> u64 {
        let is_dead = |outcome: &&Outcome| super::is_failure(**outcome);
        let dead = Outcome::ALL.iter().filter(is_dead);
        let dead_count: u64 = dead.map(|outcome| self.ended_counts[*outcome as usize]).sum();
        // A repair may have lost an end, but not the entry that the URL was put back.
        dead_count.saturating_sub(self.revived_count)
    }

    /// Returns these totals plus what a run after them has counted. The pages and dead letters of
    /// that run have ended, unless it was cut short.
    pub fn with_run(&self, metrics: &Metrics) -> Totals {
        let mut all = self.clone();
        // These figures are taken from the journal's entries, because after a kill the counts are
        // behind them.
        let ended = [
            (Count::Pages, self.page_count),
            (Count::UrlsEnded, self.ended_count()),
            (Count::DeadLetters, self.dead_count()),
        ];
        for (count, ended_count) in ended {
            all.counts[count.index()] = ended_count;
        }
        all.add_run(metrics);
        all
    }

    /// Adds the counts of one run.
    pub fn add_run(&mut self, metrics: &Metrics) {
        for count in Count::ALL {
            self.counts[count.index()] += metrics.count(*count);
        }
        for outcome in Outcome::ALL {
            self.outcome_counts[outcome as usize] += metrics.outcome_count(outcome);
        }
    }

    /// Adds the totals of another shard. The shards of a crawl run at the same time, so the time
    /// and the number of runs are maxima.
    pub fn merge(&mut self, other: &Totals) {
        let add = |mine: &mut [u64], theirs: &[u64]| {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
        };
        self.page_count += other.page_count;
        self.revived_count += other.revived_count;
        add(&mut self.ended_counts, &other.ended_counts);
        add(&mut self.counts, &other.counts);
        add(&mut self.outcome_counts, &other.outcome_counts);
        self.span_ms = self.span_ms.max(other.span_ms);
        self.run_count = self.run_count.max(other.run_count);
        self.cut_short_count = self.cut_short_count.max(other.cut_short_count);
    }

    /// Writes the totals. Figures carry their names, so that another version finds those that it
    /// knows.
    pub fn pack(&self, pack: &mut Pack<'_>) {
        let Totals { page_count, span_ms, run_count, cut_short_count, .. } = self;
        for number in [page_count, span_ms, run_count, cut_short_count] {
            pack.u64(*number);
        }
        let mut push = |names: &mut dyn Iterator<Item = (&'static str, u64)>| {
            let named: Vec<(&str, u64)> = names.filter(|(_, count)| *count > 0).collect();
            pack.u32(named.len() as u32);
            for (name, count) in named {
                pack.text(name);
                pack.u64(count);
            }
        };
        let of_outcomes = |counts: &[u64; Outcome::COUNT]| {
            let counts = *counts;
            Outcome::ALL.into_iter().map(move |outcome| (outcome.name(), counts[outcome as usize]))
        };
        push(&mut of_outcomes(&self.ended_counts));
        let counts = Count::ALL.iter().map(|count| (count.name(), self.count(*count)));
        push(&mut counts.chain([(REVIVED, self.revived_count)]));
        push(&mut of_outcomes(&self.outcome_counts));
    }

    /// Reads what [`Totals::pack`] wrote. Returns `None` if the bytes are something else.
    pub fn unpack(image: &[u8]) -> Option<Totals> {
        let mut image = Unpack(image);
        let mut totals = Totals {
            page_count: image.u64()?,
            span_ms: image.u64()?,
            run_count: image.u64()?,
            cut_short_count: image.u64()?,
            ..Totals::default()
        };
        let outcome = |name: &str| Outcome::by_name(name).map(|outcome| outcome as usize);
        let count = |name: &str| {
            let place = Count::ALL.iter().position(|count| count.name() == name);
            place.or_else(|| (name == REVIVED).then_some(Count::COUNT))
        };
        let mut counts = [0; Count::COUNT + 1];
        read_named(&mut image, &mut totals.ended_counts, outcome)?;
        read_named(&mut image, &mut counts, count)?;
        totals.counts.copy_from_slice(&counts[..Count::COUNT]);
        totals.revived_count = counts[Count::COUNT];
        read_named(&mut image, &mut totals.outcome_counts, outcome)?;
        image.is_empty().then_some(totals)
    }
}

fn read_named(
    image: &mut Unpack<'_>,
    into: &mut [u64],
    place: impl Fn(&str) -> Option<usize>,
) -> Option<()> {
    for _ in 0..image.u32()? {
        let (name, count) = (image.text()?, image.u64()?);
        if let Some(place) = place(name) {
            into[place] = count;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals() -> Totals {
        let mut totals =
            Totals { span_ms: 9, run_count: 2, cut_short_count: 1, ..Totals::default() };
        totals.ended(Outcome::Fetched, true);
        totals.ended(Outcome::Fetched, false);
        totals.ended(Outcome::ServerError, false);
        totals.ended(Outcome::Reset, false);
        totals.revived();
        let mut metrics = Metrics::new();
        metrics.add(Count::WarcRecords, 7);
        metrics.outcome(Outcome::Reset);
        totals.add_run(&metrics);
        totals
    }

    #[test]
    fn totals_read_back_and_what_is_cut_or_longer_is_refused() {
        let mut image = Vec::new();
        totals().pack(&mut Pack(&mut image));
        assert_eq!(Totals::unpack(&image), Some(totals()));
        for cut in 0..image.len() {
            assert_eq!(Totals::unpack(&image[..cut]), None, "cut at {cut}");
        }
        image.push(0);
        assert_eq!(Totals::unpack(&image), None);
    }

    #[test]
    fn a_dead_letter_that_was_put_back_counts_once_by_its_last_end() {
        let figures = |totals: &Totals| {
            let all = totals.with_run(&Metrics::new());
            [Count::Pages, Count::UrlsEnded, Count::DeadLetters].map(|count| all.count(count))
        };
        let mut totals = Totals::default();
        totals.ended(Outcome::ServerError, false);
        totals.revived();
        assert_eq!(figures(&totals), [0, 0, 0]);
        totals.ended(Outcome::ServerError, false);
        assert_eq!(figures(&totals), [0, 1, 1]);
        totals.revived();
        totals.ended(Outcome::Fetched, true);
        assert_eq!(figures(&totals), [1, 1, 0]);
    }

    #[test]
    fn shards_add_up_and_run_together() {
        let mut both = totals();
        both.merge(&totals());
        assert_eq!((both.page_count, both.dead_count()), (2, 2));
        assert_eq!(both.count(Count::WarcRecords), 14);
        assert_eq!((both.span_ms, both.run_count, both.cut_short_count), (9, 2, 1));
    }
}

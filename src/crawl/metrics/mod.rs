//! What a core counts and times while it crawls.
//!
//! A shard owns one [`Metrics`] and writes it without atomics. Once a second the shard sends a copy
//! in a [`Report`] to the control thread, which merges the copies of all cores. Counters and
//! histograms are sums since the start of the crawl, so a lost or late report makes figures older,
//! but loses no count.

mod kinds;
mod totals;
mod waits;

pub use kinds::{Count, Hold, Span, Stage};
pub use totals::Totals;
pub use waits::{Waits, earlier};

use crate::base::limits::{SPAN_SIGNIFICANT_DIGITS, SPAN_US_MAX};
use crate::crawl::flow::{Outcome, ShardIndex};
use hdrhistogram::Histogram;
use std::time::Duration;

/// The counters and histograms of one core, or the sums of several cores.
#[derive(Clone, Debug)]
pub struct Metrics {
    outcomes: [u64; Outcome::COUNT],
    counts: [u64; Count::COUNT],
    stages_ns: [u64; Stage::COUNT],
    /// Indexed by [`Span::index`]. Each takes about 24 KiB, the price of two significant digits
    /// from 1 us to ten minutes.
    spans: Vec<Histogram<u64>>,
}

/// The percentiles that reports show, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Percentiles {
    pub count: u64,
    pub p50_us: u64,
    pub p90_us: u64,
    pub p99_us: u64,
    pub p999_us: u64,
    pub max_us: u64,
}

/// The state of a core at the moment of its report. Unlike counts, these figures go up and down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Known hosts, with at least one URL seen.
    pub hosts: u64,
    /// Known hosts that are no longer in RAM, except for their page counts.
    pub hosts_cold: u64,
    /// Hosts from which a URL could be fetched now.
    pub hosts_ready: u64,
    /// Hosts with URLs whose next eligible time has not come yet.
    pub hosts_waiting: u64,
    /// URLs still to be fetched, including those that wait for another try. Copies of URLs that
    /// have ended, which a restart leaves in the queues, are not counted.
    pub urls_queued: u64,
    /// URLs in the queues on disk, including copies of URLs that have ended.
    pub queue_disk_urls: u64,
    /// Bytes that those URLs take on disk.
    pub queue_live_bytes: u64,
    /// Bytes of the files that hold them.
    pub queue_disk_bytes: u64,
    /// The number of those files.
    pub queue_segments: u64,
    /// URLs ever taken.
    pub seen_urls: u64,
    /// Bits of the Bloom filter over all URLs ever taken.
    pub seen_filter_bits: u64,
    /// Runs on disk that hold the fingerprints of URLs.
    pub seen_runs: u64,
    /// New URLs that the Bloom filter recognised as new.
    pub seen_filter_right: u64,
    /// New URLs that the Bloom filter could not recognise as new.
    pub seen_filter_wrong: u64,
    /// Candidates that wait for a merge.
    pub seen_deferred: u64,
    /// How long the oldest of those candidates has waited.
    pub seen_lag_ms: u64,
    pub fetches_active: u64,
    pub streams_open: u64,
    /// What hosts and URLs wait for, and what keeps the core from starting visits.
    pub waits: Waits,
    /// Resident memory of the whole process. The control thread adds it to each report.
    pub resident_bytes: u64,
    /// System calls of the ring.
    pub syscalls: u64,
    /// Pieces of data received into the ring's buffers.
    pub pieces_received: u64,
    /// Times that the ring had no free buffer.
    pub buffers_starved: u64,
    /// The longest time in which the core polled no task.
    pub turn_gap_ns_max: u64,
    /// Times that the core was woken from outside because it stood still.
    pub nudges: u64,
    /// Memory that bodies hold until they are stored.
    pub body_bytes: u64,
    /// The most memory that bodies have held.
    pub body_bytes_peak: u64,
    /// CPU time of the core's thread. Two reports give the load.
    pub cpu_ns: u64,
    /// When that CPU time was read.
    pub at_ns: u64,
}

/// What a shard sends to the control thread once a second.
#[derive(Clone, Debug)]
pub struct Report {
    pub shard: ShardIndex,
    pub metrics: Metrics,
    pub gauges: Gauges,
}

impl Metrics {
    pub fn new() -> Metrics {
        Metrics {
            outcomes: [0; Outcome::COUNT],
            counts: [0; Count::COUNT],
            stages_ns: [0; Stage::COUNT],
            spans: Span::ALL.iter().map(|_| empty_histogram()).collect(),
        }
    }

    pub fn add(&mut self, count: Count, by: u64) {
        self.counts[count.index()] += by;
    }

    pub fn count(&self, count: Count) -> u64 {
        self.counts[count.index()]
    }

    /// Sets the time that a stage has taken so far.
    pub fn set_stage_ns(&mut self, stage: Stage, spent_ns: u64) {
        self.stages_ns[stage.index()] = spent_ns;
    }

    pub fn stage_ns(&self, stage: Stage) -> u64 {
        self.stages_ns[stage.index()]
    }

    /// Counts one more request that ended with this outcome.
    pub fn outcome(&mut self, outcome: Outcome) {
        self.outcomes[outcome as usize] += 1;
    }

    pub fn outcome_count(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome as usize]
    }

    /// Returns the number of requests that failed, as [`is_failure`] defines it.
    pub fn failure_count(&self) -> u64 {
        Outcome::ALL.iter().filter(|o| is_failure(**o)).map(|o| self.outcome_count(*o)).sum()
    }

    /// Records how long something took. A time longer than [`SPAN_US_MAX`] counts as
    /// [`SPAN_US_MAX`]; one shorter than a microsecond counts as one.
    pub fn record(&mut self, span: Span, took: Duration) {
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.spans[span.index()].saturating_record(took_us.max(1));
    }

    pub fn histogram(&self, span: Span) -> &Histogram<u64> {
        &self.spans[span.index()]
    }

    pub fn percentiles(&self, span: Span) -> Percentiles {
        Percentiles::of(self.histogram(span))
    }

    /// Adds what another core counted and timed.
    pub fn merge(&mut self, other: &Metrics) {
        let add = |mine: &mut [u64], theirs: &[u64]| {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
        };
        add(&mut self.outcomes, &other.outcomes);
        add(&mut self.counts, &other.counts);
        add(&mut self.stages_ns, &other.stages_ns);
        for (mine, theirs) in self.spans.iter_mut().zip(&other.spans) {
            mine.add(theirs).expect("all histograms have the same range");
        }
    }
}

impl Metrics {
    /// Returns what was added since `earlier`, an earlier copy of the same metrics.
    pub fn since(&self, earlier: &Metrics) -> Metrics {
        let mut since = self.clone();
        let take = |mine: &mut [u64], theirs: &[u64]| {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine -= theirs);
        };
        take(&mut since.outcomes, &earlier.outcomes);
        take(&mut since.counts, &earlier.counts);
        take(&mut since.stages_ns, &earlier.stages_ns);
        for (mine, theirs) in since.spans.iter_mut().zip(&earlier.spans) {
            mine.subtract(theirs).expect("an earlier copy counts no more than a later one");
        }
        since
    }
}

impl Percentiles {
    pub fn of(histogram: &Histogram<u64>) -> Percentiles {
        let at = |quantile| histogram.value_at_quantile(quantile).min(histogram.max());
        Percentiles {
            count: histogram.len(),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: histogram.max(),
        }
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

impl Gauges {
    /// Returns the number of bits of the Bloom filter for each URL in it.
    pub fn seen_bits_per_url(&self) -> f64 {
        self.seen_filter_bits as f64 / self.seen_urls.max(1) as f64
    }

    /// Returns the share of new URLs that the Bloom filter could not recognise as new.
    pub fn seen_wrong_rate(&self) -> f64 {
        let new = self.seen_filter_right + self.seen_filter_wrong;
        self.seen_filter_wrong as f64 / new.max(1) as f64
    }

    /// Returns what was spent since `earlier`: CPU time, wall time and the ring's counts. Figures
    /// that go up and down keep their present values.
    pub fn since(&self, earlier: &Gauges) -> Gauges {
        Gauges {
            cpu_ns: self.cpu_ns - earlier.cpu_ns,
            at_ns: self.at_ns - earlier.at_ns,
            syscalls: self.syscalls - earlier.syscalls,
            pieces_received: self.pieces_received - earlier.pieces_received,
            buffers_starved: self.buffers_starved - earlier.buffers_starved,
            nudges: self.nudges - earlier.nudges,
            ..*self
        }
    }

    /// Adds another core's gauges. The memory of the process and the longest lag and gap are
    /// maxima, all others are sums.
    pub fn merge(&mut self, other: &Gauges) {
        self.hosts += other.hosts;
        self.hosts_cold += other.hosts_cold;
        self.hosts_ready += other.hosts_ready;
        self.hosts_waiting += other.hosts_waiting;
        self.urls_queued += other.urls_queued;
        self.queue_disk_urls += other.queue_disk_urls;
        self.queue_live_bytes += other.queue_live_bytes;
        self.queue_disk_bytes += other.queue_disk_bytes;
        self.queue_segments += other.queue_segments;
        self.seen_urls += other.seen_urls;
        self.seen_filter_bits += other.seen_filter_bits;
        self.seen_runs += other.seen_runs;
        self.seen_filter_right += other.seen_filter_right;
        self.seen_filter_wrong += other.seen_filter_wrong;
        self.seen_deferred += other.seen_deferred;
        self.seen_lag_ms = self.seen_lag_ms.max(other.seen_lag_ms);
        self.fetches_active += other.fetches_active;
        self.body_bytes += other.body_bytes;
        self.body_bytes_peak += other.body_bytes_peak;
        self.streams_open += other.streams_open;
        self.waits.merge(&other.waits);
        self.syscalls += other.syscalls;
        self.pieces_received += other.pieces_received;
        self.buffers_starved += other.buffers_starved;
        self.turn_gap_ns_max = self.turn_gap_ns_max.max(other.turn_gap_ns_max);
        self.nudges += other.nudges;
        self.cpu_ns += other.cpu_ns;
        self.at_ns = self.at_ns.max(other.at_ns);
        self.resident_bytes = self.resident_bytes.max(other.resident_bytes);
    }
}

/// Merges the last report of each core into the figures of the whole crawl.
pub fn merged(reports: &[Report]) -> (Metrics, Gauges) {
    let (mut metrics, mut gauges) = (Metrics::new(), Gauges::default());
    for report in reports {
        metrics.merge(&report.metrics);
        gauges.merge(&report.gauges);
    }
    (metrics, gauges)
}

/// Reports whether an outcome is a failure. It is none if the request ended well, if it was
/// forbidden to us, or if the crawl ended first.
pub fn is_failure(outcome: Outcome) -> bool {
    use Outcome::*;
    !outcome.is_page() && !matches!(outcome, NotModified | Redirected | RobotsDenied | Cancelled)
}

/// Returns an empty histogram with the range that all spans share.
pub fn empty_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, SPAN_US_MAX, SPAN_SIGNIFICANT_DIGITS)
        .expect("the bounds are constants that the library accepts")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_core(pages: u64, spans_us: &[u64]) -> Metrics {
        let mut metrics = Metrics::new();
        metrics.add(Count::Pages, pages);
        for span_us in spans_us {
            metrics.record(Span::Total, Duration::from_micros(*span_us));
        }
        metrics
    }

    #[test]
    fn merging_adds_counts_outcomes_and_times() {
        let mut one = of_core(3, &[100, 200]);
        one.outcome(Outcome::Fetched);
        let mut two = of_core(4, &[300]);
        two.outcome(Outcome::Fetched);
        two.outcome(Outcome::Reset);
        one.merge(&two);
        assert_eq!(one.count(Count::Pages), 7);
        assert_eq!(one.outcome_count(Outcome::Fetched), 2);
        assert_eq!(one.outcome_count(Outcome::Reset), 1);
        assert_eq!(one.failure_count(), 1);
        let total = one.percentiles(Span::Total);
        assert_eq!((total.count, total.p50_us), (3, 200));
        assert_eq!(one.percentiles(Span::Dns), Percentiles::default());
    }

    #[test]
    fn percentiles_keep_two_digits() {
        let spans_us: Vec<u64> = (1..=10_000).collect();
        let total = of_core(0, &spans_us).percentiles(Span::Total);
        for (got, exact) in [
            (total.p50_us, 5_000),
            (total.p90_us, 9_000),
            (total.p99_us, 9_900),
            (total.p999_us, 9_990),
            (total.max_us, 10_000),
        ] {
            assert!(got.abs_diff(exact) <= exact / 100, "{got} is not near {exact}");
        }
        assert!(total.p999_us <= total.max_us);
    }

    #[test]
    fn times_beyond_the_range_count_as_its_ends() {
        let mut metrics = Metrics::new();
        metrics.record(Span::Dns, Duration::ZERO);
        metrics.record(Span::Dns, Duration::MAX);
        let dns = metrics.percentiles(Span::Dns);
        assert_eq!(dns.count, 2);
        assert_eq!(dns.p50_us, 1);
        assert!(dns.max_us.abs_diff(SPAN_US_MAX) <= SPAN_US_MAX / 100);
    }

    #[test]
    fn gauges_add_up_but_memory_is_the_process_s() {
        let gauges = |resident_bytes| Gauges { hosts: 5, resident_bytes, ..Gauges::default() };
        let reports: Vec<Report> = [7, 9]
            .into_iter()
            .map(|resident_bytes| Report {
                shard: ShardIndex(0),
                metrics: of_core(1, &[]),
                gauges: gauges(resident_bytes),
            })
            .collect();
        let (metrics, gauges) = merged(&reports);
        assert_eq!(metrics.count(Count::Pages), 2);
        assert_eq!((gauges.hosts, gauges.resident_bytes), (10, 9));
    }
}

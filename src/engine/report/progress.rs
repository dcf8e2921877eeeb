//! The progress line: one line rewritten in place on a terminal, a plain line every five seconds
//! elsewhere.

use super::figures::{bytes_text, duration_text, rate_text};
use super::waits::waits_text;
use crate::base::Time;
use crate::base::counts::{count_text, counted};
use crate::base::limits::WAITS_SHOWN_RATE_MAX;
use crate::crawl::flow::ShardIndex;
use crate::crawl::metrics::{Count, Gauges, Metrics, Report, merged};
use std::collections::VecDeque;
use std::fmt::Write;
use std::time::Duration;

/// The time over which the rate is computed: long enough for a steady figure, short enough to show
/// a stall.
const RATE_WINDOW: Duration = Duration::from_secs(5);
const PLAIN_INTERVAL: Duration = Duration::from_secs(5);
const RATE_SAMPLE_COUNT_MAX: usize = 64;
/// With more cores than this, the line shows the range and the mean of their loads.
const CORES_SHOWN_MAX: usize = 8;

/// Turns line wrap off, so that a line longer than the terminal cannot scroll it.
const LINE_START: &str = "\r\x1b[?7l";
const LINE_END: &str = "\x1b[K\x1b[?7h";

/// The progress of one crawl, shown on stderr.
pub struct Progress {
    is_terminal: bool,
    started: Time,
    printed: Option<Time>,
    /// Pairs of a time and the number of pages at that time.
    samples: VecDeque<(Time, u64)>,
    loads: Vec<Load>,
}

/// How busy a core was between its last two reports.
struct Load {
    shard: ShardIndex,
    cpu_ns: u64,
    at_ns: u64,
    percent: u64,
}

impl Progress {
    /// Removes the line from a terminal before other text is printed.
    pub const CLEAR: &str = "\r\x1b[K";

    pub fn new(is_terminal: bool, started: Time) -> Progress {
        let (printed, samples, loads) = (None, VecDeque::new(), Vec::new());
        Progress { is_terminal, started, printed, samples, loads }
    }

    /// Returns the bytes to print, if it is time: always on a terminal, else every five seconds.
    pub fn update(&mut self, now: Time, reports: &[Report]) -> Option<String> {
        let (metrics, gauges) = merged(reports);
        let rate = self.rate(now, metrics.count(Count::Pages));
        reports.iter().for_each(|report| self.take_load(report));
        let interval = if self.is_terminal { Duration::ZERO } else { PLAIN_INTERVAL };
        if now.since(self.printed.unwrap_or(self.started)) < interval {
            return None;
        }
        self.printed = Some(now);
        let elapsed = now.since(self.started);
        let line = line(elapsed, rate, &metrics, &gauges, &load_text(&self.loads));
        Some(match self.is_terminal {
            true => format!("{LINE_START}{line}{LINE_END}"),
            false => line + "\n",
        })
    }

    /// Computes the load of a core. Reports come at their own pace; one that is seen again changes
    /// nothing.
    fn take_load(&mut self, report: &Report) {
        let (shard, cpu_ns, at_ns) = (report.shard, report.gauges.cpu_ns, report.gauges.at_ns);
        match self.loads.binary_search_by_key(&shard, |load| load.shard) {
            Err(place) => self.loads.insert(place, Load { shard, cpu_ns, at_ns, percent: 0 }),
            Ok(place) => {
                let last = &mut self.loads[place];
                if at_ns > last.at_ns {
                    let percent = cpu_ns.saturating_sub(last.cpu_ns) * 100 / (at_ns - last.at_ns);
                    *last = Load { shard, cpu_ns, at_ns, percent: percent.min(100) };
                }
            }
        }
    }

    /// Returns the pages per second over the window, or zero if the time has not advanced.
    fn rate(&mut self, now: Time, pages: u64) -> f64 {
        if self.samples.is_empty() {
            self.samples.push_back((self.started, 0));
        }
        while self.samples.len() > 1
            && (now.since(self.samples[1].0) >= RATE_WINDOW
                || self.samples.len() >= RATE_SAMPLE_COUNT_MAX)
        {
            self.samples.pop_front();
        }
        let (then, pages_then) = self.samples[0];
        self.samples.push_back((now, pages));
        let seconds = now.since(then).as_secs_f64();
        if seconds > 0.0 { pages.saturating_sub(pages_then) as f64 / seconds } else { 0.0 }
    }
}

fn line(elapsed: Duration, rate: f64, metrics: &Metrics, gauges: &Gauges, load: &str) -> String {
    // A host has one request under way at a time, so each host is counted once: as a fetch or in
    // the frontier.
    let hosts_active = gauges.hosts_ready + gauges.hosts_waiting + gauges.fetches_active;
    let mut line = format!(
        "{}  {}  {}/s  hosts {}  queue {}  errors {}  load {load}",
        duration_text(elapsed),
        counted(metrics.count(Count::Pages), "page", "pages"),
        rate_text(rate),
        count_text(hosts_active),
        count_text(gauges.urls_queued),
        count_text(metrics.failure_count()),
    );
    if gauges.resident_bytes > 0 {
        let _ = write!(line, "  {}", bytes_text(gauges.resident_bytes));
    }
    if rate < WAITS_SHOWN_RATE_MAX as f64 {
        let waits = waits_text(gauges);
        if !waits.is_empty() {
            let _ = write!(line, "  waiting: {waits}");
        }
    }
    line
}

/// Writes the loads of the cores: `97 100%` for two cores, `12-100% mean 85%` for many.
fn load_text(loads: &[Load]) -> String {
    let percents = || loads.iter().map(|load| load.percent);
    let (Some(least), Some(most)) = (percents().min(), percents().max()) else {
        return "-".to_owned();
    };
    if loads.len() <= CORES_SHOWN_MAX {
        let shown: Vec<String> = percents().map(|percent| percent.to_string()).collect();
        return shown.join(" ") + "%";
    }
    let mean = percents().sum::<u64>() / loads.len() as u64;
    format!("{least}-{most}% mean {mean}%")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crawl::flow::Outcome;

    /// Returns the report of a core that was busy for `cpu_ms` of the first `at_ms`.
    fn report(shard: u16, pages: u64, cpu_ms: u64, at_ms: u64) -> Report {
        let mut metrics = Metrics::new();
        metrics.add(Count::Pages, pages);
        metrics.outcome(Outcome::Reset);
        let gauges = Gauges {
            hosts_ready: 1,
            hosts_waiting: 10,
            fetches_active: 100,
            urls_queued: 5_000,
            cpu_ns: cpu_ms * 1_000_000,
            at_ns: at_ms * 1_000_000,
            resident_bytes: 2_000_000,
            ..Gauges::default()
        };
        Report { shard: ShardIndex(shard), metrics, gauges }
    }

    fn at(seconds: u64) -> Time {
        Time::from_ms(seconds * 1_000)
    }

    #[test]
    fn the_plain_line_tells_all_and_comes_every_five_seconds() {
        let mut progress = Progress::new(false, at(100));
        let reports = [report(1, 0, 0, 4_000), report(0, 0, 500, 4_000)];
        assert_eq!(progress.update(at(104), &reports), None);
        let reports = [report(1, 700, 1_000, 5_000), report(0, 300, 1_470, 5_000)];
        assert_eq!(
            progress.update(at(105), &reports).unwrap(),
            "00:05  1,000 pages  200/s  hosts 222  queue 10,000  errors 2  load 97 100%  2.0 MB\n"
        );
        assert_eq!(progress.update(at(109), &reports), None);
        assert!(progress.update(at(110), &reports).is_some());
    }

    #[test]
    fn a_crawl_that_fetches_little_says_what_it_waits_for_and_a_busy_one_does_not() {
        let mut progress = Progress::new(false, at(100));
        let text = progress.update(at(105), &[report(0, 3, 0, 5_000)]).unwrap();
        let expected = "2.0 MB  waiting: 100 requests under way, 10 hosts for their delay\n";
        assert!(text.ends_with(expected), "{text:?}");
        let text = progress.update(at(110), &[report(0, 900, 0, 10_000)]).unwrap();
        assert!(!text.contains("waiting"), "{text:?}");
    }

    #[test]
    fn the_terminal_line_is_rewritten_in_place() {
        let mut progress = Progress::new(true, at(0));
        let text = progress.update(at(1), &[report(0, 5, 0, 0)]).unwrap();
        assert!(text.starts_with('\r') && !text.contains('\n'), "{text:?}");
        assert!(text.contains("5 pages"), "{text:?}");
        assert!(progress.update(at(1), &[report(0, 5, 0, 0)]).is_some());
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let mut progress = Progress::new(true, at(0));
        let mut rate = 0.0;
        for second in 1..=20 {
            let pages = if second <= 10 { second * 100 } else { 1_000 + (second - 10) * 10 };
            rate = progress.rate(at(second), pages);
        }
        assert!((rate - 10.0).abs() < 0.01, "{rate}");
        assert_eq!(Progress::new(true, at(5)).rate(at(5), 100), 0.0);
    }

    #[test]
    fn a_report_seen_again_keeps_the_load() {
        let mut progress = Progress::new(true, at(0));
        for (cpu_ms, at_ms) in [(0, 0), (300, 1_000), (300, 1_000)] {
            progress.take_load(&report(0, 0, cpu_ms, at_ms));
        }
        assert_eq!(load_text(&progress.loads), "30%");
    }

    #[test]
    fn many_cores_are_told_as_a_range() {
        let mut progress = Progress::new(true, at(0));
        for shard in 0..20 {
            progress.take_load(&report(shard, 0, 0, 0));
            progress.take_load(&report(shard, 0, 500 + u64::from(shard) * 10, 1_000));
        }
        assert_eq!(load_text(&progress.loads), "50-69% mean 59%");
        assert_eq!(load_text(&[]), "-");
    }
}

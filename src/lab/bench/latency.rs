//! The suite `latency`: hosts come due at a share of what the core can do, whether or not earlier
//! pages are done. It measures how late each request begins.
//!
//! The operator's options come in; laps and their table go out. The table shows the whole window,
//! and those of its seconds in which the machine's host took nothing from the core, because a core
//! that is taken away starts no requests.

use super::BenchError;
use super::course::{Course, Lap};
use super::report::{Table, strings};
use super::suites::{Options, Suite, bench_course, lap};
use crate::crawl::config::Settings;
use crate::crawl::metrics::{self, Percentiles, Span, empty_histogram};
use crate::engine::report::latency_text;
use crate::sys::process::Signals;
use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// Over how many delays the first requests of the hosts of `latency` are spread.
const START_SPREAD_COUNT: u64 = 8;

/// Runs the laps of the suite. The planned load is a share of what the machine can do; the next
/// request does not wait for an answer to the one before, so that lateness shows. What the machine
/// can do is measured again in each round, because a shared machine is slower in one minute than in
/// another.
pub fn run(
    options: &Options,
    signals: Option<&Signals>,
    watch: &mut dyn FnMut(&[metrics::Report]),
    say: &mut dyn FnMut(&str),
) -> Result<Vec<Lap>, BenchError> {
    let mut laps = Vec::new();
    for _ in 0..options.run_count {
        let capacity = match options.capacity {
            Some(capacity) => capacity,
            None => {
                let bench = bench_course(Suite::Latency, options)?;
                let course = Course { label: "capacity".to_owned(), ..bench };
                lap(&course, options, signals, watch, say)?.pages_per_second()
            }
        };
        for percent in [50, 80, 95] {
            let course = open_loop(options, capacity, percent)?;
            laps.push(lap(&course, options, signals, watch, say)?);
        }
    }
    Ok(laps)
}

/// Plans a crawl whose hosts come due at `percent` of `capacity` pages a second.
fn open_loop(options: &Options, capacity: f64, percent: u32) -> Result<Course, BenchError> {
    let bench = bench_course(Suite::Latency, options)?;
    let delay_seconds = bench.settings.delay_ms as f64 / 1e3;
    let host_count = ((capacity * f64::from(percent) / 100.0 * delay_seconds) as u32).max(1);
    // The first visits are spread evenly and slowly. A first visit costs more than later ones, and
    // hosts that had to wait for theirs would stay due at the same moments for the whole run.
    let start_spread_ms = START_SPREAD_COUNT * bench.settings.delay_ms;
    let settings = Settings { start_spread_ms, ..bench.settings };
    Ok(Course {
        label: format!("{percent} % of {capacity:.0}/s"),
        host_count,
        page_count: u64::from(host_count) * 500,
        warm_seconds: bench.warm_seconds + start_spread_ms.div_ceil(1_000),
        settings,
        ..bench
    })
}

/// The end of the report's description.
pub const ABOUT_QUIET: &str = " A second is quiet if in it and in the second before it the host \
    took 10 ms or less: what is late in a quiet second is late for another reason.";

pub fn table(laps: &[Lap]) -> Table {
    let columns = [
        "run",
        "stolen ms",
        "at once",
        "p50",
        "p99",
        "p99.9",
        "max",
        "quiet s",
        "their p99.9",
        "their max",
    ];
    let row = |lap: &Lap| {
        let Percentiles { p50_us, p99_us, p999_us, max_us, .. } =
            lap.metrics.percentiles(Span::Lateness);
        let (quiet_count, quiet_us) = quiet(lap);
        let mut row = vec![lap.label.clone()];
        row.extend([lap.worth.stolen_ms, lap.worth.stolen_ms_max].map(|ms| ms.to_string()));
        row.extend([p50_us, p99_us, p999_us, max_us].map(latency_text));
        row.push(format!("{quiet_count} of {}", lap.seconds_of_window.len()));
        row.extend(match quiet_us.is_empty() {
            true => ["-".to_owned(), "-".to_owned()],
            false => [Percentiles::of(&quiet_us).p999_us, quiet_us.max()].map(latency_text),
        });
        row
    };
    let rows = laps.iter().map(row).collect();
    Table { title: "Lateness".to_owned(), columns: strings(&columns), rows }
}

/// Returns for each second of the window its number, the stolen time, whether it was quiet, how
/// many requests began, and how late they were in microseconds.
pub fn json(lap: &Lap) -> Value {
    let seconds = lap.seconds_of_window.iter().enumerate();
    let figures = seconds.map(|(index, second)| {
        let Percentiles { count, p999_us, max_us, .. } = Percentiles::of(&second.lateness_us);
        json!({"second": index, "stolen_ms": second.stolen_ms, "is_quiet": second.is_quiet,
               "count": count, "p99_9": p999_us, "max": max_us})
    });
    figures.collect()
}

/// Returns how many seconds were quiet, and the lateness in them.
fn quiet(lap: &Lap) -> (usize, Histogram<u64>) {
    let mut sum_us = empty_histogram();
    let quiet = || lap.seconds_of_window.iter().filter(|second| second.is_quiet);
    for second in quiet() {
        sum_us.add(&second.lateness_us).expect("all histograms have the same range");
    }
    (quiet().count(), sum_us)
}

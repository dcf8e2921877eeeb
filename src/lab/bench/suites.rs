//! The suites of whole crawls: which courses each one runs, and how its report is made.

use super::BenchError;
use super::course::{self, Course, Grounds, Lap, SHOWN_SPANS};
use super::latency;
use super::limit::{self, Ceiling};
use super::plot::{Bars, Lines, Scale};
use super::report::{Machine, Plot, Report, Table, Timed, strings};
use crate::base::WallTime;
use crate::base::limits::{
    BENCH_DELAY_MS, BENCH_HOST_COUNT, BENCH_LATENCY_DELAY_MS, OTHER_FILE_COUNT,
    QUEUE_OPEN_FILE_COUNT_MAX,
};
use crate::crawl::config::{Settings, Stay};
use crate::crawl::metrics::{self, Count, Percentiles, Span, Stage};
use crate::engine::report::latency_text;
use crate::sys::process::{self, Signals};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// Hosts of `cold`, with a page each: some ten seconds of work.
const COLD_HOST_COUNT: u32 = 40_000;
/// Host counts of `scale`.
const SCALE_HOST_COUNTS: [u32; 4] = [1_000, 10_000, 100_000, 1_000_000];
const SCALE_HOST_COUNT_MAX: u32 = SCALE_HOST_COUNTS[3];
/// Pages of the web of `scale`, for each host and in all: more than a crawl gets to in its time.
const SCALE_PAGES_PER_HOST: u64 = 4_000;
const SCALE_PAGE_COUNT_MIN: u64 = 40_000_000;
/// Pages of each host of `scale` that are known from the start. With many hosts, only their first
/// pages are measured, and those would bring 14 new links where later pages bring 8.
const SCALE_SEEDS_PER_HOST: u32 = 7;
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    Limit,
    Small,
    Real,
    Tls,
    Cold,
    Latency,
    Scale,
}

impl Suite {
    pub fn name(self) -> &'static str {
        match self {
            Suite::Limit => "limit",
            Suite::Small => "small",
            Suite::Real => "real",
            Suite::Tls => "tls",
            Suite::Cold => "cold",
            Suite::Latency => "latency",
            Suite::Scale => "scale",
        }
    }
}

/// What the operator can choose.
#[derive(Clone, Debug)]
pub struct Options {
    pub run_count: u32,
    pub window_seconds: u64,
    pub warm_seconds: u64,
    pub fetch_slots: usize,
    pub host_count: Option<u32>,
    /// Pages per second of which the load of `latency` is a share. If it is not given, it is
    /// measured first.
    pub capacity: Option<f64>,
    pub cores: Vec<usize>,
    pub bodies: Option<PathBuf>,
    /// Settings that differ from their defaults, as `key=value`.
    pub changes: Vec<String>,
    pub grounds: Grounds,
    pub command: String,
}

/// Runs a suite; `say` is called with a line for each run when it ends.
pub fn run(
    suite: Suite,
    options: &Options,
    signals: Option<&Signals>,
    watch: &mut dyn FnMut(&[metrics::Report]),
    say: &mut dyn FnMut(&str),
) -> Result<Report, BenchError> {
    let at = WallTime(process::realtime_ns());
    let machine = Machine::here();
    let (ceilings, laps) = match suite {
        Suite::Limit => (limits(options, say)?, Vec::new()),
        Suite::Latency => (Vec::new(), latency::run(options, signals, watch, say)?),
        _ => {
            // The ceiling is measured in the same run, so that a noisy machine is noisy for both.
            let ceilings = if suite == Suite::Small { limits(options, say)? } else { Vec::new() };
            let mut laps = Vec::new();
            for _ in 0..options.run_count {
                for course in courses(suite, options)? {
                    laps.push(lap(&course, options, signals, watch, say)?);
                }
            }
            (ceilings, laps)
        }
    };
    Ok(report(suite, options, at, machine, &ceilings, &laps))
}

fn limits(options: &Options, say: &mut dyn FnMut(&str)) -> Result<Vec<Ceiling>, BenchError> {
    let course = Course { label: "limit".to_owned(), ..bench_course(Suite::Limit, options)? };
    let mut ceilings = Vec::new();
    for _ in 0..options.run_count {
        let ceiling = limit::run(&course, &options.grounds, options.cores.first().copied())?;
        say(&format!(
            "limit: {:.0} pages/s, {:.1} us a page\n",
            ceiling.pages_per_second(),
            ceiling.cpu_us_per_page()
        ));
        ceilings.push(ceiling);
    }
    Ok(ceilings)
}

pub(super) fn lap(
    course: &Course,
    options: &Options,
    signals: Option<&Signals>,
    watch: &mut dyn FnMut(&[metrics::Report]),
    say: &mut dyn FnMut(&str),
) -> Result<Lap, BenchError> {
    let lap = course::run(course, &options.grounds, signals, watch)?;
    say(&format!(
        "{}: {:.0} pages/s over {:.0} s; CPU a page {}; {} violations\n",
        lap.label,
        lap.pages_per_second(),
        lap.seconds,
        lap.costs.text(),
        lap.verdict.violation_count(),
    ));
    Ok(lap)
}

fn courses(suite: Suite, options: &Options) -> Result<Vec<Course>, BenchError> {
    let bench = bench_course(suite, options)?;
    Ok(match suite {
        Suite::Limit | Suite::Latency => Vec::new(),
        Suite::Small => vec![Course { label: "small".to_owned(), ..bench }],
        Suite::Real => {
            let bodies = options.bodies.clone();
            let label = if bodies.is_some() { "corpus" } else { "generated, gzip" };
            let profile = if bodies.is_some() { "bench" } else { "bench-gzip" };
            vec![Course { label: label.to_owned(), profile, bodies, ..bench }]
        }
        Suite::Tls => {
            let label = "TLS 1.3, 30 % new connections".to_owned();
            vec![Course { label, profile: "bench-tls", tls: true, ..bench }]
        }
        Suite::Cold => {
            // The crawl runs to its end, without a warm-up: every robots.txt is asked for before
            // the first page is due.
            let host_count = options.host_count.unwrap_or(COLD_HOST_COUNT);
            let label = format!("{host_count} hosts, a page each");
            let (page_count, warm_seconds) = (u64::from(host_count), 0);
            vec![Course { label, host_count, page_count, warm_seconds, ..bench }]
        }
        Suite::Scale => scale(options, &bench),
    })
}

/// Plans the courses of `scale`: more cores at the same web, then more hosts at the same load,
/// where each host has a longer delay. Everything else is equal. Connections are closed after each
/// page, because with few hosts kept connections would make pages cheaper. Hosts begin one by one,
/// because otherwise the load would come in bursts. No host runs out of new pages. All crawls are
/// measured at the same age, which is what the largest host count needs, because the cost of a page
/// grows with the number of known URLs. If a host count is given, only that one is run.
fn scale(options: &Options, bench: &Course) -> Vec<Course> {
    let mut courses = Vec::new();
    let core_counts = if options.host_count.is_some() { 0 } else { options.cores.len() };
    for count in 1..=core_counts {
        let cores = options.cores[..count].to_vec();
        let settings = Settings { cores, ..bench.settings.clone() };
        courses.push(Course { label: format!("{count} cores"), settings, ..bench.clone() });
    }
    let rate = options.capacity.unwrap_or(1_000.0);
    let delay_ms = |host_count: u32| (f64::from(host_count) / rate * 1e3) as u64;
    let host_counts = options.host_count.map_or(SCALE_HOST_COUNTS.to_vec(), |count| vec![count]);
    for host_count in host_counts {
        let (longest_ms, delay_ms) = (delay_ms(SCALE_HOST_COUNT_MAX), delay_ms(host_count));
        let (keep_alive_count_max, start_spread_ms) = (0, delay_ms);
        let settings =
            Settings { delay_ms, keep_alive_count_max, start_spread_ms, ..bench.settings.clone() };
        courses.push(Course {
            label: format!("{host_count} hosts at {rate:.0}/s"),
            host_count,
            page_count: (u64::from(host_count) * SCALE_PAGES_PER_HOST).max(SCALE_PAGE_COUNT_MIN),
            // In the first round each host is asked for its robots.txt. The round begins with the
            // first seed and is over one delay after the last one; with a million hosts, that takes
            // a while.
            warm_seconds: options.warm_seconds + (longest_ms.max(delay_ms) * 5 / 4).div_ceil(1_000),
            seeds_per_host: SCALE_SEEDS_PER_HOST,
            settings,
            ..bench.clone()
        });
    }
    courses
}

/// Plans a course with pages of 25 KB (log-normal) and 60 links of which about 6 are new. Every
/// host is known from the start and has the suite's delay between two requests, unless the operator
/// sets another.
pub(super) fn bench_course(suite: Suite, options: &Options) -> Result<Course, BenchError> {
    let host_count =
        options.host_count.unwrap_or_else(|| host_count_that_fits(options.fetch_slots));
    let mut settings = Settings {
        contact: "http://crawler.test/".to_owned(),
        stay: Stay::Web,
        fetch_slots: options.fetch_slots,
        cores: options.cores.iter().take(1).copied().collect(),
        delay_ms: match suite {
            Suite::Latency => BENCH_LATENCY_DELAY_MS,
            _ => BENCH_DELAY_MS,
        },
        ..Settings::default()
    };
    for change in &options.changes {
        settings.set_text(change).map_err(BenchError::Setting)?;
    }
    Ok(Course {
        label: String::new(),
        profile: "bench",
        host_count,
        page_count: u64::from(host_count) * 500,
        tls: false,
        bodies: None,
        settings,
        seeds_per_host: 1,
        warm_seconds: options.warm_seconds,
        window_seconds: options.window_seconds,
    })
}

/// Returns how many hosts can each have a kept connection within the limit of open files of both
/// processes.
fn host_count_that_fits(fetch_slots: usize) -> u32 {
    let taken = fetch_slots + OTHER_FILE_COUNT + QUEUE_OPEN_FILE_COUNT_MAX;
    let wanted = u64::from(BENCH_HOST_COUNT) + taken as u64;
    let allowed = process::raise_open_files(wanted).unwrap_or(1_024);
    let room = u32::try_from(allowed.saturating_sub(taken as u64)).unwrap_or(u32::MAX);
    // A tenth is left for connections that are being closed while others are opened.
    BENCH_HOST_COUNT.min(room - room / 10).max(1)
}

fn report(
    suite: Suite,
    options: &Options,
    at: WallTime,
    machine: Machine,
    ceilings: &[Ceiling],
    laps: &[Lap],
) -> Report {
    let mut tables = Vec::new();
    if !laps.is_empty() {
        tables.push(speed(laps));
        tables.extend((suite == Suite::Latency).then(|| latency::table(laps)));
        tables.extend(laps.iter().any(|lap| handshakes(lap).0 > 0).then(|| tls(laps)));
        tables.extend([costs(laps), times(laps)]);
    }
    if !ceilings.is_empty() {
        tables.push(ceiling_table(ceilings));
    }
    let timed = laps.iter().enumerate().flat_map(|(index, lap)| {
        SHOWN_SPANS.into_iter().filter_map(move |span| {
            let us = lap.metrics.histogram(span).clone();
            let tag = format!("{}-{}", index + 1, span.name());
            (!us.is_empty()).then_some(Timed { tag, seconds: lap.seconds, us })
        })
    });
    let failures = laps.iter().filter(|lap| !lap.verdict.pass).map(|lap| {
        format!("{}: the referee found {} violations", lap.label, lap.verdict.violation_count())
    });
    Report {
        suite: suite.name(),
        about: about(suite, options, laps),
        command: options.command.clone(),
        tables,
        plots: plots(ceilings, laps),
        timed: timed.collect(),
        data: json!({
            "limit": ceilings.iter().map(ceiling_json).collect::<Vec<_>>(),
            "runs": laps.iter().map(lap_json).collect::<Vec<_>>(),
        }),
        failures: failures.collect(),
        at,
        machine,
    }
}

fn about(suite: Suite, options: &Options, laps: &[Lap]) -> String {
    let what = match suite {
        Suite::Limit => "fetching alone, nothing parsed: the ceiling",
        Suite::Small => "25 KB pages (log-normal), keep-alive, 60 links of which 6 are new",
        Suite::Real => "bodies of real pages, gzip-coded",
        Suite::Tls => "25 KB pages over TLS 1.3, 30 % of requests on new connections",
        Suite::Cold => "every page on a new host: DNS, robots.txt and connect each time",
        Suite::Latency => "open loop at a share of capacity, times from the planned start",
        Suite::Scale => "more cores, and more hosts at the same load",
    };
    // The loads of `scale` differ by their delay, so it has no single one.
    let delay = match laps.first() {
        Some(lap) if suite != Suite::Scale => format!(", a delay of {} ms", lap.delay_ms),
        _ => String::new(),
    };
    format!(
        "{what}{delay}. Full pipeline (except limit): politeness, robots.txt, DNS, digest, \
         links, URL seen, SimHash, WARC, journal. {} s of warm-up, then {} s measured, {} runs. \
         The web has a core of its own. How fast the machine was: a load from memory, a hash of \
         16 KB, and the time that its host took away (stolen: in all, and the most within 100 ms), \
         all on the crawl's core in the window.{}",
        options.warm_seconds,
        options.window_seconds,
        options.run_count,
        if suite == Suite::Latency { latency::ABOUT_QUIET } else { "" },
    )
}

fn speed(laps: &[Lap]) -> Table {
    let mut rows: Vec<Vec<String>> = laps
        .iter()
        .map(|lap| {
            vec![
                lap.label.clone(),
                format!("{:.0}", lap.pages_per_second()),
                format!("{:.0} %", 100.0 * lap.core_share()),
                format!("{:.1}", lap.costs.cpu_us),
                format!("{:.1}", lap.process_us_per_page()),
                format!("{:.0}", 1e6 / lap.process_us_per_page().max(0.001)),
                format!("{:.1}", lap.payload_mb_per_second()),
                format!("{:.1}", lap.decoded_mb_per_second()),
                format!("{:.1} %", 100.0 * lap.costs.keep_alive_rate),
                format!("{:.0}", lap.resident_bytes_max as f64 / 1e6),
                format!("{:.0}", lap.worth.load_ns),
                format!("{:.0}", lap.worth.hash_ns),
                lap.worth.stolen_ms.to_string(),
                lap.worth.stolen_ms_max.to_string(),
                if lap.verdict.pass { "pass".to_owned() } else { "FAIL".to_owned() },
            ]
        })
        .collect();
    let is_one_course = laps.iter().all(|lap| lap.label == laps[0].label);
    if laps.len() > 2 && is_one_course {
        let median_of = |figure: &dyn Fn(&Lap) -> f64| median(laps.iter().map(figure));
        let mut row = strings(&["median", "", "", "", "", "", "", "", "", "", "", "", "", "", ""]);
        row[1] = format!("{:.0}", median_of(&Lap::pages_per_second));
        row[2] = format!("{:.0} %", 100.0 * median_of(&Lap::core_share));
        row[3] = format!("{:.1}", median_of(&|lap: &Lap| lap.costs.cpu_us));
        row[4] = format!("{:.1}", median_of(&Lap::process_us_per_page));
        row[5] = format!("{:.0}", 1e6 / median_of(&Lap::process_us_per_page).max(0.001));
        rows.push(row);
    }
    let columns = [
        "run",
        "pages/s",
        "of core",
        "core us/page",
        "process us/page",
        "pages/CPU s",
        "body MB/s",
        "decoded MB/s",
        "kept",
        "peak MB",
        "load ns",
        "hash ns",
        "stolen ms",
        "at once",
        "referee",
    ];
    Table { title: "Speed".to_owned(), columns: strings(&columns), rows }
}

/// Returns how many handshakes there were in all, and how many of them resumed an earlier session.
fn handshakes(lap: &Lap) -> (u64, u64) {
    let resumed_count = lap.metrics.count(Count::TlsResumed);
    (lap.metrics.count(Count::TlsFull) + resumed_count, resumed_count)
}

fn tls(laps: &[Lap]) -> Table {
    let row = |lap: &Lap| {
        let (count, resumed_count) = handshakes(lap);
        vec![
            lap.label.clone(),
            format!("{:.0}", count as f64 / lap.seconds),
            format!("{:.1} %", 100.0 * resumed_count as f64 / count.max(1) as f64),
        ]
    };
    let columns = strings(&["run", "handshakes/s", "resumed"]);
    Table { title: "TLS".to_owned(), columns, rows: laps.iter().map(row).collect() }
}

pub(super) fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    match figures.len() {
        0 => 0.0,
        count if count % 2 == 1 => figures[count / 2],
        count => (figures[count / 2 - 1] + figures[count / 2]) / 2.0,
    }
}

fn costs(laps: &[Lap]) -> Table {
    let mut columns = strings(&["run"]);
    columns.extend(Stage::ALL.iter().map(|stage| stage.name().to_owned()));
    columns.extend(strings(&[
        "rest",
        "all",
        "links found",
        "new",
        "syscalls",
        "KB copied",
        "buffers",
    ]));
    let row = |lap: &Lap| {
        let mut row = vec![lap.label.clone()];
        row.extend(lap.costs.stages_us.iter().map(|(_, us)| format!("{us:.1}")));
        row.push(format!("{:.1}", lap.costs.rest_us));
        row.push(format!("{:.1}", lap.costs.cpu_us));
        row.push(format!("{:.0}", lap.per_page(Count::LinksFound)));
        row.push(format!("{:.1}", lap.per_page(Count::UrlsNew)));
        row.push(format!("{:.2}", lap.costs.syscalls));
        row.push(format!("{:.1}", lap.costs.bytes_copied / 1e3));
        row.push(format!("{:.2} %", 100.0 * lap.costs.buffer_rate));
        row
    };
    let title = "A page's cost: CPU microseconds of the core by stage, and what else".to_owned();
    Table { title, columns, rows: laps.iter().map(row).collect() }
}

fn times(laps: &[Lap]) -> Table {
    let columns = strings(&["span", "count", "p50", "p90", "p99", "p99.9", "p99.99", "max"]);
    let mut rows = Vec::new();
    for lap in laps {
        for span in SHOWN_SPANS {
            let Percentiles { count, p50_us, p90_us, p99_us, p999_us, max_us } =
                lap.metrics.percentiles(span);
            if count == 0 {
                continue;
            }
            let last = lap.metrics.histogram(span).value_at_quantile(0.9999).min(max_us);
            let mut row = vec![format!("{} {}", lap.label, span.name()), count.to_string()];
            row.extend([p50_us, p90_us, p99_us, p999_us, last, max_us].map(latency_text));
            rows.push(row);
        }
    }
    Table { title: "Times".to_owned(), columns, rows }
}

fn ceiling_table(ceilings: &[Ceiling]) -> Table {
    let columns = ["run", "pages/s", "core us/page", "MB/s", "syscalls/page", "failed"];
    let row = |(index, ceiling): (usize, &Ceiling)| {
        vec![
            format!("limit {}", index + 1),
            format!("{:.0}", ceiling.pages_per_second()),
            format!("{:.1}", ceiling.cpu_us_per_page()),
            format!("{:.1}", ceiling.byte_count as f64 / 1e6 / ceiling.seconds),
            format!("{:.2}", ceiling.syscall_count as f64 / ceiling.page_count.max(1) as f64),
            ceiling.failed_count.to_string(),
        ]
    };
    let title = "The ceiling: fetch only".to_owned();
    Table {
        title,
        columns: strings(&columns),
        rows: ceilings.iter().enumerate().map(row).collect(),
    }
}

fn plots(ceilings: &[Ceiling], laps: &[Lap]) -> Vec<Plot> {
    let named = |index: usize, lap: &Lap| format!("{} {}", index + 1, lap.label);
    let over_time = |figure: &dyn Fn(&course::Tick) -> f64| -> Vec<(String, Vec<(f64, f64)>)> {
        let line =
            |ticks: &[course::Tick]| ticks.iter().map(|tick| (tick.second, figure(tick))).collect();
        let limits = ceilings.iter().enumerate();
        let limits = limits.map(|(index, of)| (format!("limit {}", index + 1), line(&of.ticks)));
        let laps = laps.iter().enumerate();
        laps.map(|(index, lap)| (named(index, lap), line(&lap.ticks))).chain(limits).collect()
    };
    let seconds = ("seconds", Scale::Linear);
    let lines = |title: &str, y, series| {
        let (title, x_marks) = (title.to_owned(), Vec::new());
        Plot::Lines(Lines { title, x: seconds, y, x_marks, series })
    };
    let mut plots = vec![
        lines("Throughput", ("pages/s", Scale::Linear), over_time(&|tick| tick.pages_per_second)),
        lines("Load of a core", ("share", Scale::Linear), over_time(&|tick| tick.busy)),
    ];
    if laps.is_empty() {
        return plots;
    }
    let mut parts: Vec<String> = Stage::ALL.iter().map(|stage| stage.name().to_owned()).collect();
    parts.push("rest".to_owned());
    let bar = |(index, lap): (usize, &Lap)| {
        let stages = lap.costs.stages_us.iter().map(|(_, us)| *us);
        ((index + 1).to_string(), stages.chain([lap.costs.rest_us.max(0.0)]).collect())
    };
    let title = "CPU microseconds a page by stage".to_owned();
    let bars = laps.iter().enumerate().map(bar).collect();
    plots.push(Plot::Bars(Bars { title, unit: "us", parts, bars }));
    for span in [Span::Lateness, Span::Total, Span::FirstByte] {
        let series = laps.iter().enumerate();
        let series = series.map(|(index, lap)| (named(index, lap), percentile_line(lap, span)));
        plots.push(Plot::Lines(Lines {
            title: format!("{} by percentile", span.name()),
            x: ("percentile", Scale::Log),
            y: ("us", Scale::Log),
            x_marks: percentile_marks(),
            series: series.collect(),
        }));
    }
    plots
}

/// Returns the percentiles over 1 / (1 - quantile), so that each nine is as wide as the one before.
fn percentile_line(lap: &Lap, span: Span) -> Vec<(f64, f64)> {
    let histogram = lap.metrics.histogram(span);
    let steps = (0..=80).map(|step| 10f64.powf(f64::from(step) / 20.0));
    let known = steps.filter(|odds| *odds <= histogram.len().max(1) as f64);
    known.map(|odds| (odds, histogram.value_at_quantile(1.0 - 1.0 / odds) as f64)).collect()
}

fn percentile_marks() -> Vec<(f64, String)> {
    let marks = [(1.0, "0"), (10.0, "90"), (100.0, "99"), (1e3, "99.9"), (1e4, "99.99")];
    marks.map(|(odds, text)| (odds, text.to_owned())).to_vec()
}

fn ceiling_json(ceiling: &Ceiling) -> Value {
    json!({
        "pages_per_second": ceiling.pages_per_second(),
        "cpu_us_per_page": ceiling.cpu_us_per_page(),
        "bytes": ceiling.byte_count,
        "failed": ceiling.failed_count,
        "seconds": ceiling.seconds,
    })
}

fn lap_json(lap: &Lap) -> Value {
    let times: Map<String, Value> = SHOWN_SPANS
        .into_iter()
        .map(|span| {
            let Percentiles { count, p50_us, p90_us, p99_us, p999_us, max_us } =
                lap.metrics.percentiles(span);
            let p9999_us = lap.metrics.histogram(span).value_at_quantile(0.9999).min(max_us);
            let figures = json!({"count": count, "p50": p50_us, "p90": p90_us, "p99": p99_us,
                                 "p99_9": p999_us, "p99_99": p9999_us, "max": max_us});
            (span.name().to_owned(), figures)
        })
        .collect();
    let counts: Map<String, Value> = Count::ALL
        .iter()
        .map(|count| (count.name().to_owned(), lap.metrics.count(*count).into()))
        .collect();
    let ticks = lap.ticks.iter();
    let ticks: Vec<Value> =
        ticks.map(|tick| json!([tick.second, tick.pages_per_second, tick.busy])).collect();
    json!({
        "label": lap.label,
        "seconds": lap.seconds,
        "delay_ms": lap.delay_ms,
        "cores": lap.core_count,
        "core_share": lap.core_share(),
        "pages_per_second": lap.pages_per_second(),
        "process_us_per_page": lap.process_us_per_page(),
        "payload_mb_per_second": lap.payload_mb_per_second(),
        "decoded_mb_per_second": lap.decoded_mb_per_second(),
        "per_page": lap.costs.json(),
        "latency_us": times,
        "counts": counts,
        "ticks": ticks,
        "lateness_by_second": latency::json(lap),
        "resident_bytes_max": lap.resident_bytes_max,
        "machine": lap.worth.json(),
        "referee": lap.verdict,
    })
}

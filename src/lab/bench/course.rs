//! One crawl of a synthetic web, measured while it runs steadily.
//!
//! A [`Course`] comes in. A [`Lap`] goes out: what the crawler did in a window of time that begins
//! after its warm-up, and the referee's verdict on the whole crawl, by the web's own log. The web
//! is a process of its own on a core of its own, so that its time, memory and open files are not
//! counted as the crawler's. Nothing is sampled: the figures are the counters and histograms at the
//! window's end, minus those at its beginning.

use super::BenchError;
use super::yardstick::{Record, Worth, Yardstick};
use crate::base::Time;
use crate::crawl::config::Settings;
use crate::crawl::metrics::{Count, Gauges, Metrics, Report, Span, merged};
use crate::engine::report::cost::PageCosts;
use crate::engine::{self, Summary};
use crate::lab::audit::{self, Verdict, crawl_dir::CrawlDir, web_log::WebLogs};
use crate::lab::web::{Web, WebSpec};
use crate::proto::url::Url;
use crate::sys::process::{self, Signals};
use hdrhistogram::Histogram;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How much stolen time a quiet second may have, in ms: the unit of the kernel's own count.
const QUIET_STOLEN_MS_MAX: u64 = 10;

/// What is crawled, how, and for how long.
#[derive(Clone, Debug)]
pub struct Course {
    /// The name that distinguishes it from the other courses of its suite.
    pub label: String,
    /// A profile of `nephila web`; the next fields differ from it.
    pub profile: &'static str,
    pub host_count: u32,
    pub page_count: u64,
    pub tls: bool,
    /// If set, pages have the bodies of the files in this folder.
    pub bodies: Option<PathBuf>,
    pub settings: Settings,
    /// How many URLs of each host the crawl begins with.
    pub seeds_per_host: u32,
    pub warm_seconds: u64,
    pub window_seconds: u64,
}

/// The cores, ports and folders of this machine that a course uses.
#[derive(Clone, Debug)]
pub struct Grounds {
    pub web_core: Option<usize>,
    pub port: u16,
    pub directory: PathBuf,
    pub seed: u64,
}

/// One second of a crawl.
#[derive(Clone, Copy, Debug)]
pub struct Tick {
    pub second: f64,
    pub pages_per_second: f64,
    /// The share of its cores' time that the crawl used.
    pub busy: f64,
}

/// One second of the window, as the crawl's reports divide it.
pub struct Second {
    from: Time,
    to: Time,
    pub lateness_us: Histogram<u64>,
    /// Time that the machine's host took from the crawl's core.
    pub stolen_ms: u64,
    /// In this second and the one before, no more was stolen than the smallest amount that the
    /// kernel counts. So what was late in this second was late for another reason.
    pub is_quiet: bool,
}

/// The figures of a window of a crawl.
pub struct Lap {
    pub label: String,
    pub seconds: f64,
    pub metrics: Metrics,
    pub costs: PageCosts,
    /// CPU time of the whole process in the window, with the kernel's file workers.
    pub process_cpu_ns: u64,
    pub ticks: Vec<Tick>,
    pub seconds_of_window: Vec<Second>,
    pub verdict: Verdict,
    pub resident_bytes_max: u64,
    pub core_count: usize,
    pub delay_ms: u64,
    pub worth: Worth,
}

impl Lap {
    pub fn page_count(&self) -> u64 {
        self.metrics.count(Count::Pages)
    }

    pub fn per_page(&self, count: Count) -> f64 {
        self.metrics.count(count) as f64 / self.page_count().max(1) as f64
    }

    pub fn pages_per_second(&self) -> f64 {
        self.page_count() as f64 / self.seconds
    }

    /// Returns the share of its cores' time that the crawl used. If it is far below one, the pages
    /// per second show what the hosts' delays allow, and not what a core can do.
    pub fn core_share(&self) -> f64 {
        self.costs.cpu_us * self.page_count() as f64 / 1e6 / self.seconds / self.core_count as f64
    }

    pub fn process_us_per_page(&self) -> f64 {
        self.process_cpu_ns as f64 / 1e3 / self.page_count().max(1) as f64
    }

    /// Returns the bodies as received, in megabytes per second.
    pub fn payload_mb_per_second(&self) -> f64 {
        self.metrics.count(Count::BytesPayload) as f64 / 1e6 / self.seconds
    }

    /// Returns the bodies with their content coding removed, in megabytes per second.
    pub fn decoded_mb_per_second(&self) -> f64 {
        self.metrics.count(Count::BytesDecoded) as f64 / 1e6 / self.seconds
    }
}

/// Runs the web, the crawl and the referee. `watch` is called with the reports as they come.
pub fn run(
    course: &Course,
    grounds: &Grounds,
    signals: Option<&Signals>,
    watch: &mut dyn FnMut(&[Report]),
) -> Result<Lap, BenchError> {
    let failed = |what: &'static str| move |error: std::io::Error| BenchError::System(what, error);
    let out = grounds.directory.join("crawl");
    let log = grounds.directory.join("web.log");
    let mut web = WebProcess::start(course, grounds, &log)?;
    let seeds = seeds(course, grounds, web.port)?;
    let mut window = Window::new(course);
    let yardstick = Yardstick::start(course.settings.cores.first().copied())?;
    let settings = Settings {
        dns: vec![web.dns],
        allow_private: true,
        max_seconds: course.warm_seconds + course.window_seconds + 2,
        // The URLs of a benchmark differ only in their numbers, which the cap would take for a
        // trap.
        skeleton_page_cap: 0,
        extra_ca: course.tls.then(|| grounds.directory.join("ca.pem")),
        ..course.settings.clone()
    };
    let summary = engine::crawl(settings, seeds, &out, signals, &mut |reports| {
        window.look(reports);
        watch(reports);
    });
    let record = yardstick.take()?;
    web.stop()?;
    let summary = summary.map_err(BenchError::Engine)?;
    let terms = CrawlDir::open(&out).map_err(BenchError::Audit)?.terms;
    let verdict = audit::judge(&WebLogs::files(vec![log.clone()]), &terms, None);
    let verdict = verdict.map_err(BenchError::Audit)?;
    std::fs::remove_dir_all(&out).map_err(failed("remove the crawl's files"))?;
    std::fs::remove_file(&log).map_err(failed("remove the web's log"))?;
    window.lap(course, &summary, verdict, &record)
}

/// Returns the first URLs of every host, in an order in which no host comes twice in a row.
fn seeds(course: &Course, grounds: &Grounds, port: u16) -> Result<Vec<Url>, BenchError> {
    let profile = WebSpec::profile(course.profile).map_err(BenchError::Spec)?;
    let (host_count, page_count) = (course.host_count, course.page_count);
    let (seed, tls) = (grounds.seed, course.tls);
    let spec = WebSpec { host_count, page_count, seed, tls, port, ..profile };
    let web = Web::new(spec).map_err(BenchError::Spec)?;
    let mut urls = Vec::new();
    for page in 0..course.seeds_per_host {
        let places = (0..host_count).filter_map(|host| web.graph().place(host, page));
        for place in places {
            urls.push(Url::parse(&web.url(place)).map_err(BenchError::Seed)?);
        }
    }
    Ok(urls)
}

/// The state of the window while the crawl runs.
struct Window {
    warm_ns: u64,
    window_ns: u64,
    begun_ns: u64,
    first: Option<Sample>,
    last: Option<Sample>,
    ticks: Vec<Tick>,
    seconds: Vec<Second>,
    seen: Option<(u64, u64, u64)>,
}

struct Sample {
    metrics: Metrics,
    gauges: Gauges,
    process_cpu_ns: u64,
}

impl Window {
    fn new(course: &Course) -> Window {
        Window {
            warm_ns: course.warm_seconds * 1_000_000_000,
            window_ns: course.window_seconds * 1_000_000_000,
            begun_ns: process::monotonic_ns(),
            first: None,
            last: None,
            ticks: Vec::new(),
            seconds: Vec::new(),
            seen: None,
        }
    }

    /// Looks at the last report of each core, if every core has sent one and any is newer than the
    /// last look.
    fn look(&mut self, reports: &[Report]) {
        let before = self.seen.unwrap_or((self.begun_ns, 0, 0));
        let at_ns = reports.iter().map(|report| report.gauges.at_ns).max();
        if at_ns.is_none_or(|at_ns| at_ns <= before.0) {
            return;
        }
        let (metrics, gauges) = merged(reports);
        let now = (gauges.at_ns, metrics.count(Count::Pages), gauges.cpu_ns);
        self.seen = Some(now);
        let seconds = (now.0 - before.0) as f64 / 1e9;
        self.ticks.push(Tick {
            second: (now.0 - self.begun_ns) as f64 / 1e9,
            pages_per_second: now.1.saturating_sub(before.1) as f64 / seconds,
            busy: now.2.saturating_sub(before.2) as f64 / 1e9 / seconds / reports.len() as f64,
        });
        let age_ns = now.0 - self.begun_ns;
        if age_ns < self.warm_ns || age_ns > self.warm_ns + self.window_ns + 500_000_000 {
            return;
        }
        let sample = Sample { metrics, gauges, process_cpu_ns: process::process_cpu_ns() };
        let Some(first) = &self.first else {
            self.first = Some(sample);
            return;
        };
        self.seconds.push(Second::between(self.last.as_ref().unwrap_or(first), &sample));
        self.last = Some(sample);
    }

    fn begin(&self) -> Time {
        Time(self.begun_ns + self.warm_ns)
    }

    fn end(&self) -> Time {
        self.begin() + Duration::from_nanos(self.window_ns)
    }

    fn lap(
        self,
        course: &Course,
        summary: &Summary,
        verdict: Verdict,
        record: &Record,
    ) -> Result<Lap, BenchError> {
        let worth = record.worth(self.begin(), self.end());
        let (Some(first), Some(last)) = (self.first, self.last) else {
            return Err(BenchError::Short(summary.reason.clone()));
        };
        let metrics = last.metrics.since(&first.metrics);
        let gauges = last.gauges.since(&first.gauges);
        Ok(Lap {
            label: course.label.clone(),
            seconds: gauges.at_ns as f64 / 1e9,
            costs: PageCosts::of(&metrics, &gauges),
            metrics,
            process_cpu_ns: last.process_cpu_ns - first.process_cpu_ns,
            ticks: self.ticks,
            seconds_of_window: stolen_from(self.seconds, record),
            verdict,
            resident_bytes_max: summary.resident_bytes_peak,
            core_count: summary.reports.len(),
            delay_ms: course.settings.delay_ms,
            worth,
        })
    }
}

impl Second {
    fn between(before: &Sample, now: &Sample) -> Second {
        let mut lateness_us = now.metrics.histogram(Span::Lateness).clone();
        let earlier_us = before.metrics.histogram(Span::Lateness);
        lateness_us.subtract(earlier_us).expect("an earlier copy has no more than a later one");
        let (from, to) = (Time(before.gauges.at_ns), Time(now.gauges.at_ns));
        Second { from, to, lateness_us, stolen_ms: 0, is_quiet: false }
    }
}

/// Adds to each second the time that was stolen in it.
fn stolen_from(mut seconds: Vec<Second>, record: &Record) -> Vec<Second> {
    for second in &mut seconds {
        let stolen_ms = |from| record.stolen_ms(from, second.to).sum::<u64>();
        let before = Time(second.from.0.saturating_sub(1_000_000_000));
        second.is_quiet = stolen_ms(before) <= QUIET_STOLEN_MS_MAX;
        second.stolen_ms = stolen_ms(second.from);
    }
    seconds
}

/// A child process that runs `nephila web`.
pub(super) struct WebProcess {
    child: Child,
    pub port: u16,
    pub dns: std::net::SocketAddr,
}

impl WebProcess {
    pub fn start(course: &Course, grounds: &Grounds, log: &Path) -> Result<Self, BenchError> {
        let failed = |error| BenchError::System("start the web", error);
        let dns = std::net::SocketAddr::from(([127, 0, 0, 1], grounds.port + 1));
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(program);
        command.args(["web", "--profile", course.profile]);
        command.args(["--hosts", &course.host_count.to_string()]);
        command.args(["--pages", &course.page_count.to_string()]);
        command.args(["--seed", &grounds.seed.to_string()]);
        command.args(["--listen", &format!("0.0.0.0:{}", grounds.port)]);
        command.args(["--dns", &dns.to_string()]).arg("--log").arg(log);
        if let Some(core) = grounds.web_core {
            command.args(["--core", &core.to_string()]);
        }
        if let Some(bodies) = &course.bodies {
            command.arg("--bodies").arg(bodies);
        }
        if course.tls {
            command.arg("--tls").arg("--ca-out").arg(grounds.directory.join("ca.pem"));
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let mut line = String::new();
        let stdout = child.stdout.take().expect("the child's stdout is piped");
        BufReader::new(stdout).read_line(&mut line).map_err(failed)?;
        let mut web = WebProcess { child, port: grounds.port, dns };
        match line.trim().is_empty() {
            false => Ok(web),
            true => Err(web.died()),
        }
    }

    /// Stops the web and waits until it has written its log.
    pub fn stop(&mut self) -> Result<(), BenchError> {
        process::interrupt(self.child.id());
        let status =
            self.child.wait().map_err(|error| BenchError::System("wait for the web", error));
        match status?.success() {
            true => Ok(()),
            false => Err(self.died()),
        }
    }

    fn died(&mut self) -> BenchError {
        let mut text = String::new();
        if let Some(stderr) = &mut self.child.stderr {
            // If this fails, only a part of an error message is missing.
            let _ = stderr.take(4_096).read_to_string(&mut text);
        }
        BenchError::Web(text.trim().to_owned())
    }
}

impl Drop for WebProcess {
    fn drop(&mut self) {
        // The child has ended already, unless something else went wrong.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The spans that a report shows, in this order.
pub const SHOWN_SPANS: [Span; 9] = [
    Span::Lateness,
    Span::Dns,
    Span::Connect,
    Span::Tls,
    Span::FirstByte,
    Span::Body,
    Span::Parse,
    Span::Store,
    Span::Total,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crawl::metrics::Metrics;

    #[test]
    fn a_second_is_quiet_if_nothing_was_stolen_in_it_nor_just_before() {
        let at = |second: u64| Time(second * 1_000_000_000);
        let sample = |second: u64| {
            let mut metrics = Metrics::new();
            (0..second)
                .for_each(|late| metrics.record(Span::Lateness, Duration::from_millis(late)));
            let gauges = Gauges { at_ns: at(second).0, ..Gauges::default() };
            Sample { metrics, gauges, process_cpu_ns: 0 }
        };
        let seconds = (10..16).map(|from| Second::between(&sample(from), &sample(from + 1)));
        // The looks are in the middle of each second; 50 ms were stolen in the thirteenth, 10 in
        // the last.
        let stolen = [0, 0, 0, 50, 50, 50, 60];
        let half = Duration::from_millis(500);
        let looks: Vec<_> = (9..16).zip(stolen).map(|(from, ms)| (at(from) + half, ms)).collect();
        let seconds = stolen_from(seconds.collect(), &Record::of_stolen_ms(&looks));
        let stolen: Vec<_> = seconds.iter().map(|second| second.stolen_ms).collect();
        assert_eq!(stolen, [0, 0, 50, 0, 0, 10]);
        let quiet: Vec<_> = seconds.iter().map(|second| second.is_quiet).collect();
        assert_eq!(quiet, [true, true, false, false, true, true]);
        let late: Vec<_> = seconds.iter().map(|second| second.lateness_us.max() / 1_000).collect();
        assert_eq!(late, [10, 11, 12, 13, 14, 15], "each second has its own");
    }
}

//! The command line: flags to settings, settings to the engine, what came of it to an exit code.
//!
//! Exit codes: 0 done, 1 failed, 2 bad usage or configuration, 3 done but for origins that were
//! given up. Results go to stdout, everything for people to stderr.

mod flags;

use clap::Parser;
use flags::{
    AuditFlags, BenchFlags, Commands, CrawlFlags, DemoFlags, ExplainFlags, Flags, InspectFlags,
    RepairFlags, SimFlags, TryFlags, WebFlags,
};
use nephila::audit::{self, Stop, Terms, crawl_dir::CrawlDir, web_log::WebLogs};
use nephila::base::{Time, WallTime};
use nephila::bench::report::Report;
use nephila::bench::suites::{self, Suite};
use nephila::bench::{frontier, hosts, pages, parse, parts, seen};
use nephila::config::Settings;
use nephila::control::{Progress, json_line, summary};
use nephila::engine::{self, EngineError, Summary};
use nephila::limits::{SECOND_SIGNAL_MS, SEED_PROBLEM_COUNT_MAX, WEB_OPEN_FILE_COUNT};
use nephila::metrics;
use nephila::seed::{Seeds, is_public};
use nephila::sys::process::{self, Signals};
use nephila::sys::{memory, processor};
use nephila::tools::demo::Demo;
use nephila::tools::inspect::{self, InspectError};
use nephila::tools::parsers;
use nephila::tools::sim;
use nephila::url::{Normaliser, Url};
use nephila::web::Stand;
use std::fmt::Display;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How often a command that waits looks for a signal.
const SIGNAL_WAIT_MS: u32 = 200;

/// Why a command did not succeed: what to say, and whose turn it is.
enum Failure {
    Failed(String),
    Usage(String),
    /// Done, but not all that was to be done.
    Incomplete(String),
}

fn main() -> ExitCode {
    if let Some(feature) = processor::missing_feature() {
        say(&format!(
            "nephila: built for x86-64-v3, and this processor has no {feature}: build it without \
             the rustflags of .cargo/config.toml\n"
        ));
        return ExitCode::FAILURE;
    }
    run()
}

/// Apart from `main`: nothing of it may run on a processor that is too old.
#[inline(never)]
fn run() -> ExitCode {
    memory::keep_freed();
    memory::sweep_seldom();
    let flags = Flags::parse();
    let is_quiet = matches!(&flags.command, Commands::Crawl(flags) if flags.quiet);
    start_log(is_quiet);
    let done = match flags.command {
        Commands::Crawl(flags) => crawl(&flags),
        Commands::Web(flags) => web(&flags),
        Commands::Demo(flags) => demo(flags),
        Commands::Audit(flags) => audit(&flags),
        Commands::Repair(flags) => repair(&flags),
        Commands::Inspect(flags) => inspect(&flags),
        Commands::Explain(flags) => explain(&flags),
        Commands::Try(flags) => try_parser(&flags),
        Commands::Sim(flags) => simulate(&flags),
        Commands::Bench(flags) => bench(&flags),
        Commands::Settings => print_out(&flags::settings_text()),
    };
    let (code, message) = match done {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Failed(message)) => (1, message),
        Err(Failure::Usage(message)) => (2, message),
        Err(Failure::Incomplete(message)) => (3, message),
    };
    say(&format!("nephila: {message}\n"));
    ExitCode::from(code)
}

fn crawl(flags: &CrawlFlags) -> Result<(), Failure> {
    let settings = flags.settings().map_err(usage)?;
    let seeds = seeds(flags, &settings)?;
    if settings.contact.is_empty()
        && let Some(url) = seeds.iter().find(|url| is_public(url))
    {
        return Err(Failure::Usage(format!(
            "{url} is a public host, and its webmaster must be able to reach you: add \
             `--contact URL` (or an e-mail address), or `contact = \"URL\"` in the configuration"
        )));
    }
    let signals = signals()?;
    let mut watch = watching(flags.quiet);
    let begin = if flags.resume { engine::resume } else { engine::crawl };
    let ended = begin(settings, seeds, &flags.out, Some(&signals), &mut watch);
    let summary = ended.map_err(|error| match error {
        EngineError::Config(error) => usage(error),
        error @ EngineError::TooManyHomes(_) => usage(error),
        error => failed(error),
    })?;
    conclude(&summary, flags.json)
}

fn seeds(flags: &CrawlFlags, settings: &Settings) -> Result<Vec<Url>, Failure> {
    let mut seeds = Seeds::new(Normaliser::new(&settings.extra_parameters));
    seeds.add_arguments(&flags.urls);
    for path in &flags.seeds {
        let name = path.display().to_string();
        let unreadable = |error: io::Error| Failure::Usage(format!("{name}: {error}"));
        if path == Path::new("-") {
            seeds.add_lines("stdin", io::stdin().lock()).map_err(unreadable)?;
        } else {
            let file = std::fs::File::open(path).map_err(unreadable)?;
            seeds.add_lines(&name, BufReader::new(file)).map_err(unreadable)?;
        }
    }
    for problem in seeds.problems() {
        let what = if problem.is_notice() { "notice" } else { "bad seed" };
        say(&format!("nephila: {what}: {problem}\n"));
    }
    if seeds.problem_count() > SEED_PROBLEM_COUNT_MAX {
        let more = seeds.problem_count() - SEED_PROBLEM_COUNT_MAX;
        say(&format!("nephila: and {more} more\n"));
    }
    if seeds.urls().is_empty() && !flags.resume {
        let what = "no seed to start from: name URLs, or files of them with --seeds";
        return Err(Failure::Usage(what.to_owned()));
    }
    Ok(seeds.into_urls())
}

fn web(flags: &WebFlags) -> Result<(), Failure> {
    let (spec, plan) = flags.stand().map_err(Failure::Usage)?;
    let signals = signals()?;
    // As many as the system gives.
    let _ = process::raise_open_files(WEB_OPEN_FILE_COUNT);
    if spec.hostile {
        say(&nephila::web::hostile::table());
    }
    let stand = Stand::start(spec, plan).map_err(failed)?;
    print_out(&format!("{}\n", stand.seed_url))?;
    while !signals.wait_ms(SIGNAL_WAIT_MS) {}
    let request_count = stand.stop().map_err(failed)?;
    say(&format!("{request_count} requests answered\n"));
    Ok(())
}

fn demo(flags: DemoFlags) -> Result<(), Failure> {
    let stamp = WallTime(process::realtime_ns()).compact();
    let out = flags.out.unwrap_or_else(|| PathBuf::from(format!("demo-crawl-{stamp}")));
    let signals = signals()?;
    let demo = Demo::start(&out).map_err(failed)?;
    say(&format!("{}\n", demo.about()));
    let (summary, verdict) = demo.crawl(Some(&signals), &mut watching(false)).map_err(failed)?;
    conclude(&summary, flags.json)?;
    say(&format!("\nthe referee, by the log of the web's servers: {verdict}"));
    kept_promises(&verdict)
}

fn kept_promises(verdict: &audit::Verdict) -> Result<(), Failure> {
    match verdict.violation_count() {
        0 => Ok(()),
        count => Err(Failure::Failed(format!("{count} broken promises"))),
    }
}

fn audit(flags: &AuditFlags) -> Result<(), Failure> {
    let dir = flags.dir.as_deref().map(CrawlDir::open).transpose().map_err(usage)?;
    let mut terms = dir.as_ref().map_or_else(Terms::default, |dir| dir.terms.clone());
    terms.delay_ms = flags.delay_ms.unwrap_or(terms.delay_ms);
    let tries = flags.retries.map(|retries| retries.saturating_add(1));
    terms.try_count_max = tries.or(terms.try_count_max);
    terms.ipv6_pace_prefix = flags.ipv6_pace_prefix.unwrap_or(terms.ipv6_pace_prefix);
    terms.stops = stops(flags, dir.as_ref())?;
    let truth = flags.truth.as_deref().map(audit::truth::read).transpose().map_err(usage)?;
    let verdict = match dir {
        Some(dir) if flags.log.is_empty() => audit::judge(&dir, &terms, truth),
        _ => audit::judge(&WebLogs::files(flags.log.clone()), &terms, truth),
    };
    let verdict = verdict.map_err(usage)?;
    if flags.json {
        print_out(&json_line(&verdict).map_err(failed)?)?;
    } else {
        print_out(&verdict.to_string())?;
    }
    kept_promises(&verdict)
}

fn repair(flags: &RepairFlags) -> Result<(), Failure> {
    let repair = nephila::tools::repair::repair(&flags.dir, flags.apply).map_err(usage)?;
    print_out(&repair.text)?;
    match repair.is_sound {
        true => Ok(()),
        false => Err(Failure::Failed("the crawl cannot go on as it is".into())),
    }
}

fn stops(flags: &AuditFlags, dir: Option<&CrawlDir>) -> Result<Vec<Stop>, Failure> {
    if let Some(dir) = dir.filter(|_| flags.stop.is_empty()) {
        return dir.stops().map_err(usage);
    }
    let Settings { sync_ms, journal_sync_ms, .. } = Settings::default();
    let synced_ms = dir.map_or([sync_ms, journal_sync_ms], |dir| dir.synced_ms);
    let stop = |[at, back]: &[u64; 2]| Stop::new(Time(*at), Time(*back), synced_ms);
    let mut stops: Vec<Stop> = flags.stop.iter().map(stop).collect();
    stops.sort_unstable_by_key(|stop| stop.back);
    Ok(stops)
}

fn inspect(flags: &InspectFlags) -> Result<(), Failure> {
    let question = flags.question().map_err(usage)?;
    print_out(&inspect::ask(&flags.dir, &question, flags.manner()).map_err(unanswered)?)
}

fn explain(flags: &ExplainFlags) -> Result<(), Failure> {
    print_out(&inspect::explain(&flags.dir, &flags.host, flags.json).map_err(unanswered)?)
}

fn unanswered(error: InspectError) -> Failure {
    match error {
        InspectError::NoCrawl { .. } | InspectError::BadName(_) => usage(error),
        error => failed(error),
    }
}

/// From here on signals do not end the process but are read, so all threads must start later.
fn signals() -> Result<Signals, Failure> {
    let hangup = || {
        tracing::info!(
            "SIGHUP is ignored: there is no controlling terminal that could have gone, and \
             settings cannot be read again yet; SIGTERM ends the process"
        );
    };
    Signals::block(Duration::from_millis(SECOND_SIGNAL_MS), hangup)
        .map_err(|number| Failure::Failed(format!("signals: system error {number}")))
}

fn try_parser(flags: &TryFlags) -> Result<(), Failure> {
    let parser = flags.parser();
    match parsers::run(parser, BufReader::new(io::stdin().lock()), io::stdout().lock()) {
        // Whoever read our answers has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done.map_err(failed),
    }
}

/// A line a seed on stdout, progress on stderr, and a failure if any seed failed.
fn simulate(flags: &SimFlags) -> Result<(), Failure> {
    let plan = flags.plan();
    let mut failed_seeds = Vec::new();
    for seed in flags.seed..flags.seed.saturating_add(flags.seeds) {
        let begun_ns = process::monotonic_ns();
        let run = sim::run(&plan, seed).map_err(usage)?;
        let took_ms = (process::monotonic_ns() - begun_ns) / 1_000_000;
        print_out(&if flags.json { format!("{}\n", run.json()) } else { run.text() })?;
        if let Some(dir) = &flags.out {
            run.write(&dir.join(format!("seed-{seed}"))).map_err(failed)?;
        }
        if !run.is_pass() {
            failed_seeds.push(seed.to_string());
        }
        let done = seed - flags.seed + 1;
        say(&format!(
            "{done}/{} seeds, {took_ms} ms, {} failed\n",
            flags.seeds,
            failed_seeds.len()
        ));
    }
    if failed_seeds.is_empty() {
        return Ok(());
    }
    Err(Failure::Failed(format!("seeds that failed: {}", failed_seeds.join(" "))))
}

fn bench(flags: &BenchFlags) -> Result<(), Failure> {
    let stamp = format!("nephila-bench-{}", std::process::id());
    let dir = flags.dir.clone().unwrap_or_else(|| std::env::temp_dir().join(stamp));
    std::fs::create_dir_all(&dir).map_err(failed)?;
    let report = match flags.suite.of_crawls() {
        Some(suite) => bench_crawls(suite, flags, &dir),
        None => bench_part(flags, &dir),
    };
    if flags.dir.is_none() {
        std::fs::remove_dir_all(&dir).map_err(failed)?;
    }
    let report = report?;
    if let Some(folder) = &flags.file {
        for path in report.file(folder).map_err(failed)? {
            say(&format!("filed: {}\n", path.display()));
        }
    }
    let shown = if flags.json { json_line(&report.json()).map_err(failed)? } else { report.text() };
    print_out(&shown)?;
    report.failures.first().map_or(Ok(()), |failure| Err(Failure::Failed(failure.clone())))
}

/// A part of the crawler, alone. As a crawl does, it makes memory ready first if it shall.
fn bench_part(flags: &BenchFlags, dir: &Path) -> Result<Report, Failure> {
    memory::make_ready(flags.ready_memory_mb().map_err(usage)? << 20);
    match flags.suite {
        flags::Suite::Seen => bench_seen(flags, dir),
        flags::Suite::Frontier => bench_frontier(flags, dir),
        flags::Suite::Hosts => bench_hosts(flags),
        _ => bench_parse(flags),
    }
}

fn bench_crawls(suite: Suite, flags: &BenchFlags, dir: &Path) -> Result<Report, Failure> {
    let options = flags.options(dir, command()).map_err(usage)?;
    let signals = signals()?;
    let mut watch = watching(false);
    let mut told = |text: &str| {
        if process::is_terminal(&io::stderr()) {
            say(Progress::CLEAR);
        }
        say(text);
    };
    suites::run(suite, &options, Some(&signals), &mut watch, &mut told).map_err(failed)
}

/// As it can be typed again.
fn command() -> String {
    std::env::args().skip(1).fold("nephila".to_owned(), |all, word| all + " " + &word)
}

fn bench_seen(flags: &BenchFlags, dir: &Path) -> Result<Report, Failure> {
    let plan = seen::Plan {
        url_count: flags.urls,
        is_uniform: matches!(flags.draw, flags::Draw::Uniform),
        core: flags.cores().map_err(usage)?.1.first().copied(),
    };
    let marks = seen::run(plan, dir, |mark| say(&mark.text())).map_err(failed)?;
    Ok(parts::seen_report(&marks, &command()))
}

fn bench_frontier(flags: &BenchFlags, dir: &Path) -> Result<Report, Failure> {
    let host_count = flags.hosts.unwrap_or(1_000_000);
    let plan = frontier::Plan {
        url_count: flags.urls,
        // The first URLs bring the hosts.
        host_count: host_count.min(u32::try_from(flags.urls).unwrap_or(u32::MAX)),
        memory_mb: flags.memory,
        core: flags.cores().map_err(usage)?.1.first().copied(),
    };
    let links = match flags.course {
        flags::Course::Pages => Some(pages::Links::Texts),
        flags::Course::Urls => Some(pages::Links::Urls),
        flags::Course::Queues => None,
    };
    if let Some(links) = links {
        let marks = pages::run(plan, links, dir, |mark| say(&mark.text())).map_err(failed)?;
        return Ok(parts::pages_report(plan, links, &marks, &command()));
    }
    let marks = frontier::run(plan, dir, |mark| say(&mark.text())).map_err(failed)?;
    Ok(parts::frontier_report(plan, &marks, &command()))
}

fn bench_parse(flags: &BenchFlags) -> Result<Report, Failure> {
    let folder = flags.bodies();
    let plan = parse::Plan { folder, round_count: flags.runs as usize };
    let found = parse::run(&plan).map_err(failed)?;
    Ok(parts::parse_report(&found, &command()))
}

fn bench_hosts(flags: &BenchFlags) -> Result<Report, Failure> {
    let plan = hosts::Plan { host_count: flags.urls, is_warm: flags.stay };
    let marks = hosts::run(plan, |mark| say(&mark.text())).map_err(failed)?;
    Ok(parts::hosts_report(&marks, &command()))
}

/// Prints progress as reports come in.
fn watching(quiet: bool) -> impl FnMut(&[metrics::Report]) {
    let now = || Time(process::monotonic_ns());
    let mut progress = Progress::new(process::is_terminal(&io::stderr()), now());
    move |reports| {
        if !quiet && let Some(text) = progress.update(now(), reports) {
            say(&text);
        }
    }
}

/// Table on stderr, object on stdout, and what the exit code shall be.
fn conclude(summary: &Summary, json: bool) -> Result<(), Failure> {
    if process::is_terminal(&io::stderr()) {
        say(Progress::CLEAR);
    }
    say(&summary::table(summary));
    if json {
        print_out(&json_line(&summary::json(summary)).map_err(failed)?)?;
    }
    match summary::failure(summary) {
        Some(message) => Err(Failure::Failed(message)),
        None => summary::given_up(summary).map_or(Ok(()), |text| Err(Failure::Incomplete(text))),
    }
}

fn usage(error: impl Display) -> Failure {
    Failure::Usage(error.to_string())
}

fn failed(error: impl Display) -> Failure {
    Failure::Failed(error.to_string())
}

/// To stdout, and at once: whoever waits for the line may be a program.
fn print_out(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done.map_err(failed),
    }
}

/// To stderr. A closed stderr is no reason to stop a crawl.
fn say(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// What is normal is told as well, unless the operator wants no progress; `NEPHILA_LOG` decides
/// otherwise.
fn start_log(is_quiet: bool) {
    let usual = if is_quiet { "warn" } else { "warn,nephila=info" };
    let filter = tracing_subscriber::EnvFilter::try_from_env("NEPHILA_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(usual));
    let is_terminal = process::is_terminal(&io::stderr());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || LogWriter { is_terminal })
        .with_ansi(is_terminal)
        // What cannot be written would be said to stderr, which panics if that cannot be written:
        // a terminal that has gone must not end the crawl so.
        .log_internal_errors(false)
        .init();
}

/// Log lines on stderr. On a terminal each takes the progress line's place, and the progress line
/// comes back below it with the next report.
struct LogWriter {
    is_terminal: bool,
}

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut stderr = io::stderr().lock();
        if self.is_terminal {
            stderr.write_all(Progress::CLEAR.as_bytes())?;
        }
        stderr.write_all(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}

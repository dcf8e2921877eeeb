//! `nephila bench`: runs the suite that the operator named, and prints or files its report.

use super::crawl::{signals, watching};
use super::flags::{BenchFlags, Course, Draw};
use super::{Failure, failed, flags, print_out, say, usage};
use crate::engine::report::{Progress, json_line};
use crate::lab::bench::report::Report;
use crate::lab::bench::suites::{self, Suite};
use crate::lab::bench::{frontier, hosts, pages, parse, parts, seen};
use crate::sys::memory;
use crate::sys::process;
use std::io;
use std::path::Path;

pub fn bench(flags: &BenchFlags) -> Result<(), Failure> {
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
            say(&format!("report written: {}\n", path.display()));
        }
    }
    let shown = if flags.json { json_line(&report.json()).map_err(failed)? } else { report.text() };
    print_out(&shown)?;
    report.failures.first().map_or(Ok(()), |failure| Err(Failure::Failed(failure.clone())))
}

/// Measures one part of the crawler alone. Like a crawl, it first makes memory ready if the setting
/// `ready_memory_mb` says so.
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

fn bench_seen(flags: &BenchFlags, dir: &Path) -> Result<Report, Failure> {
    let plan = seen::Plan {
        url_count: flags.urls,
        is_uniform: matches!(flags.draw, Draw::Uniform),
        core: flags.cores().map_err(usage)?.1.first().copied(),
    };
    let marks = seen::run(plan, dir, |mark| say(&mark.text())).map_err(failed)?;
    Ok(parts::seen_report(&marks, &command()))
}

fn bench_frontier(flags: &BenchFlags, dir: &Path) -> Result<Report, Failure> {
    let host_count = flags.hosts.unwrap_or(1_000_000);
    let plan = frontier::Plan {
        url_count: flags.urls,
        // Each host comes with one of the first URLs, so there cannot be more hosts than URLs.
        host_count: host_count.min(u32::try_from(flags.urls).unwrap_or(u32::MAX)),
        memory_mb: flags.memory,
        core: flags.cores().map_err(usage)?.1.first().copied(),
    };
    let links = match flags.course {
        Course::Pages => Some(pages::Links::Texts),
        Course::Urls => Some(pages::Links::Urls),
        Course::Queues => None,
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

/// Returns the command line of this run, for the report.
fn command() -> String {
    std::env::args().skip(1).fold("nephila".to_owned(), |all, word| all + " " + &word)
}

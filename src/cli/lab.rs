//! The commands of the laboratory: `web`, `demo`, `audit` and `sim`.

use super::crawl::{conclude, signals, watching};
use super::demo::Demo;
use super::flags::{AuditFlags, DemoFlags, SimFlags, WebFlags};
use super::{Failure, failed, print_out, say, usage};
use crate::base::limits::WEB_OPEN_FILE_COUNT;
use crate::base::{Time, WallTime};
use crate::crawl::config::Settings;
use crate::engine::report::{counted, json_line};
use crate::lab::audit::{self, Stop, Terms, crawl_dir::CrawlDir, web_log::WebLogs};
use crate::lab::sim;
use crate::lab::web::Stand;
use crate::sys::process;
use std::path::PathBuf;

/// How often a command that waits looks for a signal.
const SIGNAL_WAIT_MS: u32 = 200;

pub fn web(flags: &WebFlags) -> Result<(), Failure> {
    let (spec, plan) = flags.stand().map_err(Failure::Usage)?;
    let signals = signals()?;
    // As many as the system gives.
    let _ = process::raise_open_files(WEB_OPEN_FILE_COUNT);
    if spec.hostile {
        say(&crate::lab::web::hostile::table());
    }
    let stand = Stand::start(spec, plan).map_err(failed)?;
    print_out(&format!("{}\n", stand.seed_url))?;
    while !signals.wait_ms(SIGNAL_WAIT_MS) {}
    let request_count = stand.stop().map_err(failed)?;
    say(&format!("{} answered\n", counted(request_count, "request", "requests")));
    Ok(())
}

pub fn demo(flags: DemoFlags) -> Result<(), Failure> {
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

pub fn audit(flags: &AuditFlags) -> Result<(), Failure> {
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

fn kept_promises(verdict: &audit::Verdict) -> Result<(), Failure> {
    match verdict.violation_count() {
        0 => Ok(()),
        count => Err(Failure::Failed(format!("{count} broken promises"))),
    }
}

/// A line a seed on stdout, progress on stderr, and a failure if any seed failed.
pub fn simulate(flags: &SimFlags) -> Result<(), Failure> {
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

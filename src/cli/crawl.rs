//! `nephila crawl`: passes flags and seeds to the engine, and turns the result into a table and an
//! exit code.

use super::flags::CrawlFlags;
use super::{Failure, failed, print_out, say, usage};
use crate::base::Time;
use crate::base::limits::{SECOND_SIGNAL_MS, SEED_PROBLEM_COUNT_MAX};
use crate::crawl::config::Settings;
use crate::crawl::metrics;
use crate::crawl::seed::{Seeds, is_public};
use crate::engine::report::{Progress, json_line, summary};
use crate::engine::{self, EngineError, Summary};
use crate::proto::url::{Normaliser, Url};
use crate::sys::process::{self, Signals};
use std::io::{self, BufReader};
use std::path::Path;
use std::time::Duration;

pub fn crawl(flags: &CrawlFlags) -> Result<(), Failure> {
    let settings = flags.settings().map_err(usage)?;
    let seeds = seeds(flags, &settings)?;
    if settings.contact.is_empty()
        && let Some(url) = seeds.iter().find(|url| is_public(url))
    {
        return Err(Failure::Usage(format!(
            "{url} is on a public host, and its webmaster must be able to reach you: add \
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
        let what = "there is no seed to start from: give URLs, or files of URLs with --seeds";
        return Err(Failure::Usage(what.to_owned()));
    }
    Ok(seeds.into_urls())
}

/// Blocks the signals that would end the process, so that the crawl can read them instead. All
/// threads must start after this call, because they inherit the blocked signals.
pub fn signals() -> Result<Signals, Failure> {
    let hangup = || {
        tracing::info!(
            "SIGHUP is ignored: the process has no controlling terminal that could be closed, and \
             nephila cannot reload settings yet; send SIGTERM to end the process"
        );
    };
    Signals::block(Duration::from_millis(SECOND_SIGNAL_MS), hangup)
        .map_err(|number| Failure::Failed(format!("cannot block signals: system error {number}")))
}

/// Returns a function that prints progress whenever it is given reports, unless `quiet`.
pub fn watching(quiet: bool) -> impl FnMut(&[metrics::Report]) {
    let now = || Time(process::monotonic_ns());
    let mut progress = Progress::new(process::is_terminal(&io::stderr()), now());
    move |reports| {
        if !quiet && let Some(text) = progress.update(now(), reports) {
            say(&text);
        }
    }
}

/// Prints the summary as a table on stderr and, if `json`, as an object on stdout. The result
/// decides the exit code.
pub fn conclude(summary: &Summary, json: bool) -> Result<(), Failure> {
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

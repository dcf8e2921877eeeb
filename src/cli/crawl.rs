//! `nephila crawl`: flags and seeds to the engine, what came of it to a table and an exit code.

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

/// From here on signals do not end the process but are read, so all threads must start later.
pub fn signals() -> Result<Signals, Failure> {
    let hangup = || {
        tracing::info!(
            "SIGHUP is ignored: there is no controlling terminal that could have gone, and \
             settings cannot be read again yet; SIGTERM ends the process"
        );
    };
    Signals::block(Duration::from_millis(SECOND_SIGNAL_MS), hangup)
        .map_err(|number| Failure::Failed(format!("signals: system error {number}")))
}

/// Prints progress as reports come in.
pub fn watching(quiet: bool) -> impl FnMut(&[metrics::Report]) {
    let now = || Time(process::monotonic_ns());
    let mut progress = Progress::new(process::is_terminal(&io::stderr()), now());
    move |reports| {
        if !quiet && let Some(text) = progress.update(now(), reports) {
            say(&text);
        }
    }
}

/// Table on stderr, object on stdout, and what the exit code shall be.
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

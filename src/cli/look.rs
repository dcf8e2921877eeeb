//! The commands that look into a crawl's directory, and `try`.

use super::flags::{ExplainFlags, InspectFlags, RepairFlags, TryFlags};
use super::inspect::InspectError;
use super::{Failure, failed, inspect, parsers, print_out, usage};
use std::io::{self, BufReader};

pub fn inspect(flags: &InspectFlags) -> Result<(), Failure> {
    let question = flags.question().map_err(usage)?;
    print_out(&inspect::ask(&flags.dir, &question, flags.manner()).map_err(unanswered)?)
}

pub fn explain(flags: &ExplainFlags) -> Result<(), Failure> {
    print_out(&inspect::explain(&flags.dir, &flags.host, flags.json).map_err(unanswered)?)
}

fn unanswered(error: InspectError) -> Failure {
    match error {
        InspectError::NoCrawl { .. } | InspectError::BadName(_) => usage(error),
        error => failed(error),
    }
}

pub fn repair(flags: &RepairFlags) -> Result<(), Failure> {
    let repair = super::repair::repair(&flags.dir, flags.apply).map_err(usage)?;
    print_out(&repair.text)?;
    match repair.is_sound {
        true => Ok(()),
        false => Err(Failure::Failed("the crawl cannot go on as it is".into())),
    }
}

pub fn try_parser(flags: &TryFlags) -> Result<(), Failure> {
    let parser = flags.parser();
    match parsers::run(parser, BufReader::new(io::stdin().lock()), io::stdout().lock()) {
        // The reader closed the pipe, so it needs no more answers.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done.map_err(failed),
    }
}

//! The command line. It turns flags into settings, passes the settings to the engine, and turns the
//! result into an exit code.
//!
//! The exit codes are 0 (done), 1 (failed), 2 (bad usage or configuration) and 3 (done, but some
//! origins were given up). Results go to stdout, and everything meant for people goes to stderr.

#[cfg(feature = "lab")]
mod bench;
mod crawl;
#[cfg(feature = "lab")]
pub mod demo;
mod flags;
pub mod inspect;
#[cfg(feature = "lab")]
mod lab;
mod log;
mod look;
pub mod parsers;
pub mod repair;

use crate::sys::{memory, processor};
use clap::Parser;
use flags::{Commands, Flags};
use log::start_log;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// Why a command did not succeed: the message for the operator, and which exit code it gets.
enum Failure {
    Failed(String),
    Usage(String),
    /// The command ended, but a part of its work was given up.
    Incomplete(String),
}

/// Runs the command that the process was started with. It is not inlined into `main`, because
/// `main` checks the processor first, and no code of this function may run on one that is too old.
#[inline(never)]
pub fn run() -> ExitCode {
    memory::keep_freed();
    memory::sweep_seldom();
    let flags = Flags::parse();
    let is_quiet = matches!(&flags.command, Commands::Crawl(flags) if flags.quiet);
    start_log(is_quiet);
    if flags.command.is_for_speed() && processor::is_more_than_built_for() {
        tracing::warn!(
            "this build does without AVX2 and BMI, which this processor has: reading a page takes \
             longer than it could; build with RUSTFLAGS=\"-C target-cpu=x86-64-v3\", or in \
             nephila's own directory, where .cargo/config.toml says so"
        );
    }
    let done = match flags.command {
        Commands::Crawl(flags) => crawl::crawl(&flags),
        #[cfg(feature = "lab")]
        Commands::Web(flags) => lab::web(&flags),
        #[cfg(feature = "lab")]
        Commands::Demo(flags) => lab::demo(flags),
        #[cfg(feature = "lab")]
        Commands::Audit(flags) => lab::audit(&flags),
        Commands::Repair(flags) => look::repair(&flags),
        Commands::Inspect(flags) => look::inspect(&flags),
        Commands::Explain(flags) => look::explain(&flags),
        Commands::Try(flags) => look::try_parser(&flags),
        #[cfg(feature = "lab")]
        Commands::Sim(flags) => lab::simulate(&flags),
        #[cfg(feature = "lab")]
        Commands::Bench(flags) => bench::bench(&flags),
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

fn usage(error: impl Display) -> Failure {
    Failure::Usage(error.to_string())
}

fn failed(error: impl Display) -> Failure {
    Failure::Failed(error.to_string())
}

/// Writes to stdout and flushes, because a program may be waiting for the line.
fn print_out(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done.map_err(failed),
    }
}

/// Writes to stderr. An error is ignored: a closed stderr is no reason to stop a crawl.
fn say(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

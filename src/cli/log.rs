//! The log: its filter, and how its lines share stderr with the progress line.

use crate::engine::report::Progress;
use crate::sys::process;
use std::io::{self, Write};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Starts logging to stderr. By default the log has warnings and nephila's own info lines; with
/// `--quiet` it has warnings only. `NEPHILA_LOG` overrides both.
pub fn start_log(is_quiet: bool) {
    let usual = if is_quiet { "warn" } else { "warn,nephila=info" };
    let wanted = std::env::var("NEPHILA_LOG").ok().and_then(|text| text.parse::<Targets>().ok());
    let filter = wanted.or_else(|| usual.parse().ok()).unwrap_or_default();
    let is_terminal = process::is_terminal(&io::stderr());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(move || LogWriter { is_terminal })
        .with_ansi(is_terminal)
        // The subscriber would report a failed write on stderr, and it panics if that fails too. A
        // terminal that was closed must not end the crawl that way.
        .log_internal_errors(false);
    tracing_subscriber::registry().with(filter).with(lines).init();
}

/// Writes log lines to stderr. On a terminal each log line replaces the progress line, and the
/// next report prints the progress line again below it.
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

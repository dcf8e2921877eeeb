//! Log lines on stderr.

use crate::engine::report::Progress;
use crate::sys::process;
use std::io::{self, Write};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// What is normal is told as well, unless the operator wants no progress; `NEPHILA_LOG` decides
/// otherwise.
pub fn start_log(is_quiet: bool) {
    let usual = if is_quiet { "warn" } else { "warn,nephila=info" };
    let wanted = std::env::var("NEPHILA_LOG").ok().and_then(|text| text.parse::<Targets>().ok());
    let filter = wanted.or_else(|| usual.parse().ok()).unwrap_or_default();
    let is_terminal = process::is_terminal(&io::stderr());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(move || LogWriter { is_terminal })
        .with_ansi(is_terminal)
        // What cannot be written would be said to stderr, which panics if that cannot be written:
        // a terminal that has gone must not end the crawl so.
        .log_internal_errors(false);
    tracing_subscriber::registry().with(filter).with(lines).init();
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

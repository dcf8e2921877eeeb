//! Log lines on stderr.

use crate::engine::report::Progress;
use crate::sys::process;
use std::io::{self, Write};

/// What is normal is told as well, unless the operator wants no progress; `NEPHILA_LOG` decides
/// otherwise.
pub fn start_log(is_quiet: bool) {
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

//! The reasons why a benchmark has no result.

use crate::crawl::config::ConfigError;
use crate::crawl::fetch::TlsError;
use crate::crawl::frontier::Offered;
use crate::crawl::frontier::seen::SeenError;
use crate::crawl::frontier::spill::TailError;
use crate::engine::{EndReason, EngineError};
use crate::io::ring::RingError;
use crate::lab::audit::AuditError;
use crate::lab::web::SpecError;
use crate::proto::url::UrlError;
use std::fmt;
use std::path::PathBuf;

#[derive(Debug)]
pub enum BenchError {
    Spec(SpecError),
    Setting(ConfigError),
    Seed(UrlError),
    Engine(EngineError),
    Audit(AuditError),
    Ring(RingError),
    Tls(TlsError),
    Seen(SeenError),
    Tails(TailError),
    /// The web ended too early; the text is its last message.
    Web(String),
    /// The crawl ended before the window did.
    Short(EndReason),
    /// What could not be done, and the system's reason.
    System(&'static str, std::io::Error),
    Read(PathBuf, std::io::Error),
    NoPages(PathBuf),
    Histogram(String),
    /// A URL was not queued.
    Refused(Offered),
    Wrong {
        expected: String,
        found: String,
    },
    Lost(u64),
    TakenTwice(u64),
    /// A host came back with this number of pages instead of one.
    Forgotten(u32),
    /// A thread ended unexpectedly.
    Died,
}

impl fmt::Display for BenchError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Spec(error) => write!(out, "{error}"),
            BenchError::Setting(error) => write!(out, "{error}"),
            BenchError::Seed(error) => write!(out, "{error}"),
            BenchError::Engine(error) => write!(out, "{error}"),
            BenchError::Audit(error) => write!(out, "{error}"),
            BenchError::Ring(error) => write!(out, "{error}"),
            BenchError::Tls(error) => write!(out, "{error}"),
            BenchError::Seen(error) => write!(out, "{error}"),
            BenchError::Tails(error) => write!(out, "{error}"),
            BenchError::Web(text) => write!(out, "the web ended too early: {text}"),
            BenchError::Short(reason) => {
                write!(out, "the crawl ended before the measurement did: {}", reason.name())
            }
            BenchError::System(what, error) => write!(out, "cannot {what}: {error}"),
            BenchError::Read(path, error) => write!(out, "{}: {error}", path.display()),
            BenchError::NoPages(path) => {
                write!(out, "{}: there are no pages in it", path.display())
            }
            BenchError::Histogram(text) => write!(out, "cannot write the histogram log: {text}"),
            BenchError::Refused(offered) => write!(out, "a URL was not queued: {offered:?}"),
            BenchError::Wrong { expected, found } => {
                write!(out, "the URL {found} came where {expected} was due")
            }
            BenchError::Lost(count) => write!(out, "{count} URLs were lost"),
            BenchError::TakenTwice(count) => write!(out, "{count} URLs were taken twice"),
            BenchError::Forgotten(count) => {
                write!(out, "a host came back with {count} pages, not 1")
            }
            BenchError::Died => out.write_str("a thread of the benchmark ended unexpectedly"),
        }
    }
}

impl std::error::Error for BenchError {}

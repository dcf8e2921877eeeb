//! What the referee is told of one request, and what the crawler had promised.

use super::stop::Stop;
use crate::base::Time;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

/// How the answer to a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// The client says that it came to no request, though it had the turn.
    Unasked,
    /// The connection ended before the answer began.
    Unsent,
    /// It ended in the answer: the client may have part of it.
    Cut,
    /// The server let it go, but the network may have lost it: the client may or may not have it.
    /// No log says so; who simulates a network knows.
    Unsure,
    Whole,
}

/// One request. Times are nanoseconds on one time line for all hits.
#[derive(Clone, Copy, Debug)]
pub struct Hit<'a> {
    /// Where its line is found again.
    pub place: u64,
    /// When its first byte was seen.
    pub start: Time,
    /// The earliest moment at which the client may have begun to see the answer.
    pub sent: Time,
    pub end: Time,
    /// The wall clock, less the time line's: `None` if unknown.
    pub wall_ahead_ns: Option<i128>,
    pub fate: Fate,
    pub address: IpAddr,
    pub is_https: bool,
    /// Host and port as in a URL; the port may be left out.
    pub authority: &'a str,
    /// Path and query.
    pub path: &'a str,
    /// Zero if there was none.
    pub status: u16,
    pub retry_after: Option<&'a [u8]>,
    pub location: Option<&'a [u8]>,
    /// Of a robots.txt, wherever it lies: what was served, without any coding.
    pub body: Option<&'a [u8]>,
}

/// Where hits come from. They are asked for more than once, in any order, always the same.
pub trait Hits {
    fn each(&self, visit: &mut dyn FnMut(&Hit<'_>)) -> Result<(), AuditError>;

    /// The log's line of a hit, not yet made fit for a terminal.
    fn line(&self, place: u64) -> String;
}

/// What the crawler had to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Least time between the starts of two requests to one host, and to one address.
    pub delay_ms: u64,
    /// IPv6 addresses that begin with the same so many bits count as one address.
    pub ipv6_pace_prefix: u8,
    /// A longer Crawl-delay counts as this.
    pub crawl_delay_ms_max: u64,
    /// A longer Retry-After counts as this.
    pub retry_after_ms_max: u64,
    /// How robots.txt calls the crawler.
    pub product_token: String,
    /// Requests for one URL, retries included; `None` where nothing is promised.
    pub try_count_max: Option<u32>,
    /// In the order of their times.
    pub stops: Vec<Stop>,
    /// URLs asked for again because of one stop; `None` where nothing is promised.
    pub repeat_count_max: Option<u64>,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            delay_ms: 1_000,
            ipv6_pace_prefix: 64,
            crawl_delay_ms_max: 3_600_000,
            retry_after_ms_max: 3_600_000,
            product_token: "nephila".to_owned(),
            try_count_max: None,
            stops: Vec::new(),
            repeat_count_max: None,
        }
    }
}

#[derive(Debug)]
pub enum AuditError {
    /// A file that should be there cannot be read.
    Unreadable { path: PathBuf, error: std::io::Error },
    /// A line that is none of ours, and not the torn last one.
    BadLine { path: PathBuf, number: u64, text: String },
    /// The directory's manifest is not one, or lacks something.
    Manifest { path: PathBuf, why: String },
    /// More hosts, addresses or origins than numbers for them.
    TooMany,
}

impl fmt::Display for AuditError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AuditError::Unreadable { path, error } => {
                write!(out, "cannot read {}: {error}", path.display())
            }
            AuditError::BadLine { path, number, text } => {
                write!(out, "{}:{number}: not a line of this log: {text}", path.display())
            }
            AuditError::Manifest { path, why } => write!(out, "{}: {why}", path.display()),
            AuditError::TooMany => out.write_str("more hosts or addresses than can be told apart"),
        }
    }
}

impl std::error::Error for AuditError {}

impl Fate {
    /// The client has all of the answer.
    pub fn is_whole(self) -> bool {
        self == Fate::Whole
    }
}

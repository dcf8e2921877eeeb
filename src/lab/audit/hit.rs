//! The input of the referee: what it is told of one request ([`Hit`]), and what the crawler had to
//! keep ([`Terms`]).

use super::stop::Stop;
use crate::base::Time;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

/// How the answer to a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// The client says that it sent no request, although it had the turn.
    Unasked,
    /// The connection ended before the answer began.
    Unsent,
    /// The connection ended during the answer: the client may have part of it.
    Cut,
    /// The server sent all of it, but the network may have lost it: the client may or may not have
    /// it. No log says so; only a simulated network can know it.
    Unsure,
    Whole,
}

/// One request. The times of all hits are nanoseconds on one time line.
#[derive(Clone, Copy, Debug)]
pub struct Hit<'a> {
    /// Where [`Hits::line`] finds its line again.
    pub place: u64,
    /// When the first byte of the request was seen.
    pub start: Time,
    /// The earliest moment at which the client may have begun to see the answer.
    pub sent: Time,
    pub end: Time,
    /// How far the wall clock was ahead of the time line; `None` if unknown.
    pub wall_ahead_ns: Option<i128>,
    pub fate: Fate,
    pub address: IpAddr,
    pub is_https: bool,
    /// Host and port as in a URL. The port may be left out.
    pub authority: &'a str,
    /// Path and query.
    pub path: &'a str,
    /// The status of the answer; zero if there was none.
    pub status: u16,
    pub retry_after: Option<&'a [u8]>,
    pub location: Option<&'a [u8]>,
    /// The body of a robots.txt (at any path) as it was served, without any coding.
    pub body: Option<&'a [u8]>,
}

/// A source of hits. It is read more than once, and must give the same hits each time, in any
/// order.
pub trait Hits {
    fn each(&self, visit: &mut dyn FnMut(&Hit<'_>)) -> Result<(), AuditError>;

    /// Returns a hit's line in the log. Control characters in it are not escaped yet.
    fn line(&self, place: u64) -> String;
}

/// The rules that the crawler had to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Least time between the starts of two requests to one host, and to one address.
    pub delay_ms: u64,
    /// IPv6 addresses that have this number of first bits in common count as one address.
    pub ipv6_pace_prefix: u8,
    /// A longer Crawl-delay counts as this one.
    pub crawl_delay_ms_max: u64,
    /// A longer Retry-After counts as this one.
    pub retry_after_ms_max: u64,
    /// The crawler's name in robots.txt.
    pub product_token: String,
    /// How many requests one URL may get, retries included; `None` if there is no limit.
    pub try_count_max: Option<u32>,
    /// The crawler's stops, in the order of their times.
    pub stops: Vec<Stop>,
    /// How many URLs may be asked for again because of one stop; `None` if there is no limit.
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
    /// A line that does not have the log's format, and is not the torn last one.
    BadLine { path: PathBuf, number: u64, text: String },
    /// The directory's manifest is damaged, or lacks something.
    Manifest { path: PathBuf, why: String },
    /// There are more hosts, addresses or origins than the referee has numbers for.
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
            AuditError::TooMany => out.write_str("more than 2^32 hosts, addresses or origins"),
        }
    }
}

impl std::error::Error for AuditError {}

impl Fate {
    /// Reports whether the client has all of the answer.
    pub fn is_whole(self) -> bool {
        self == Fate::Whole
    }
}

//! Logs written by hand, with one request per line, and the referee's verdict on them.

use nephila::lab::audit::web_log::WebLogs;
use nephila::lab::audit::{Kind, Terms, Verdict, judge};
use std::fmt::Write;

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000 * MS;
pub const HOUR: u64 = 3_600 * SECOND;
pub const DAY: u64 = 24 * HOUR;
/// The time of the wall clock when the monotonic clock was at zero.
pub const UNIX_SECONDS: u64 = 784_111_777;

/// One request. Its answer begins a millisecond after its start and ends a millisecond later.
#[derive(Clone, Debug)]
pub struct Asked {
    pub start: u64,
    pub sent: u64,
    pub end: u64,
    pub fate: &'static str,
    pub address: u8,
    /// Replaces `address`, if it is given.
    pub spelled: Option<&'static str>,
    pub scheme: &'static str,
    pub host: String,
    pub path: String,
    pub status: u16,
    pub told: String,
}

pub fn page(start: u64, host: &str, path: &str) -> Asked {
    // Each host has its own address, unless a test sets another.
    let address = host.bytes().fold(1u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte));
    Asked {
        start,
        sent: start + MS,
        end: start + 2 * MS,
        fate: "whole",
        address,
        spelled: None,
        scheme: "http",
        host: host.to_owned(),
        path: path.to_owned(),
        status: 200,
        told: String::new(),
    }
}

/// Returns a robots.txt that is served with this body.
pub fn robots(start: u64, host: &str, body: &str) -> Asked {
    page(start, host, "/robots.txt").telling("body", body)
}

/// Returns a robots.txt that is answered with this status.
pub fn robots_status(start: u64, host: &str, status: u16) -> Asked {
    Asked { status, ..page(start, host, "/robots.txt") }
}

pub fn moved(start: u64, host: &str, path: &str, location: &str) -> Asked {
    Asked { status: 301, ..page(start, host, path) }.telling("location", location)
}

impl Asked {
    pub fn telling(mut self, name: &str, value: &str) -> Asked {
        let _ = write!(self.told, " {name}=");
        for byte in value.bytes() {
            let _ = match byte {
                b'\\' | 0..=b' ' | 127.. => write!(self.told, "\\x{byte:02x}"),
                _ => write!(self.told, "{}", char::from(byte)),
            };
        }
        self
    }
}

/// Returns the log of a web that saw all these requests.
pub fn log(asked: &[Asked]) -> String {
    let mut text = format!("# clock 0 {}\n", UNIX_SECONDS * SECOND);
    for asked in asked {
        let Asked { start, sent, end, fate, scheme, host, path, status, told, .. } = asked;
        let local = match asked.spelled {
            Some(address) => format!("[{address}]:80"),
            None => format!("127.16.0.{}:80", asked.address),
        };
        let _ = writeln!(
            text,
            "{start} {sent} {end} {fate} 127.0.0.1:9 {local} {scheme} {host} {path} \
             {status}{told}"
        );
    }
    text
}

pub fn verdict_of(asked: &[Asked], terms: &Terms) -> Verdict {
    judge(&WebLogs::text(log(asked)), terms, None).expect("a readable log")
}

/// Returns the kinds of violation found, each with its count.
pub fn found(asked: &[Asked]) -> Vec<(Kind, u64)> {
    let verdict = verdict_of(asked, &Terms::default());
    assert_eq!(verdict.pass, verdict.violation_counts.is_empty());
    verdict.violation_counts.into_iter().collect()
}

pub const LAWFUL: [(Kind, u64); 0] = [];

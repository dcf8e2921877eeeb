//! Reads `requests/*.log` line by line: the requests, and the URLs that were given up.
//!
//! Parts of a line come from other people's servers, and the crawl may be writing to the file at
//! the same time. A line that cannot be read is counted and skipped.

use super::InspectError;
use super::disk::PlainDisk;
use super::place::Place;
use crate::base::WallTime;
use crate::base::limits::INSPECT_LINE_BYTES_MAX;
use crate::crawl::flow::{Outcome, Via};
use crate::io::{Disk as _, DiskError};
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;

const REQUESTS_DIR: &str = "requests";

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'l> {
    pub at: WallTime,
    pub host: &'l str,
    pub address: &'l str,
    pub url: &'l str,
    pub status: Option<u16>,
    pub outcome: Outcome,
    pub body_bytes: u64,
    pub total_ms: u64,
}

/// A URL that was given up.
#[derive(Clone, Copy, Debug)]
pub struct Letter<'l> {
    pub at: WallTime,
    pub outcome: Outcome,
    pub tries: u8,
    pub depth: u16,
    pub via: Via,
    pub url: &'l str,
}

/// Passes every request of all shards to `visit`, one shard after the other and in the order of the
/// log. Returns the number of lines that could not be read.
pub fn each_request(
    place: &Place,
    mut visit: impl FnMut(&Request<'_>),
) -> Result<u64, InspectError> {
    let mut odd_count = 0;
    for name in log_names(place, "shard-")? {
        // How far the wall clock was ahead of the monotonic clock at the last start of the crawl.
        let mut lead_ns: i128 = 0;
        each_line(place, REQUESTS_DIR, &name, |line| {
            if let Some(start) = line.strip_prefix("# start ") {
                lead_ns = read_lead(start).unwrap_or(lead_ns);
            } else if !line.starts_with('#') {
                match read_request(line, lead_ns) {
                    Some(request) => visit(&request),
                    None => odd_count += 1,
                }
            }
        })?;
    }
    Ok(odd_count)
}

/// Passes every dead letter of all shards to `visit`, one shard after the other and in the order of
/// the log. Returns the number of lines that could not be read.
pub fn each_letter(place: &Place, mut visit: impl FnMut(&Letter<'_>)) -> Result<u64, InspectError> {
    let mut odd_count = 0;
    for name in log_names(place, "dead-")? {
        each_line(place, REQUESTS_DIR, &name, |line| {
            if !line.starts_with('#') {
                match read_letter(line) {
                    Some(letter) => visit(&letter),
                    None => odd_count += 1,
                }
            }
        })?;
    }
    Ok(odd_count)
}

/// Returns the names in a folder of the crawl, sorted, or none if the folder does not exist.
pub fn names_in(place: &Place, folder: &str) -> Result<Vec<String>, InspectError> {
    match PlainDisk::run(place.disk.list(Path::new(folder))) {
        Err(DiskError::NotFound) => Ok(Vec::new()),
        names => names.map_err(|error| InspectError::Io {
            doing: "list",
            path: place.path.join(folder),
            error: std::io::Error::other(error.to_string()),
        }),
    }
}

/// Passes every complete line of a file to `visit`, if it is UTF-8 and not too long.
pub fn each_line(
    place: &Place,
    folder: &str,
    name: &str,
    mut visit: impl FnMut(&str),
) -> Result<(), InspectError> {
    let path = Path::new(folder).join(name);
    let failed = |error| InspectError::Io { doing: "read", path: place.path.join(&path), error };
    let mut reader = BufReader::with_capacity(1 << 18, place.disk.reader(&path).map_err(failed)?);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut piece = reader.by_ref().take(INSPECT_LINE_BYTES_MAX as u64);
        if piece.read_until(b'\n', &mut line).map_err(failed)? == 0 {
            return Ok(());
        }
        // A piece without a line end is still being written, or is a part of a line that is too
        // long.
        if let Some(text) = line.strip_suffix(b"\n")
            && let Ok(text) = std::str::from_utf8(text)
        {
            visit(text);
        }
    }
}

fn log_names(place: &Place, prefix: &str) -> Result<Vec<String>, InspectError> {
    let mut names = names_in(place, REQUESTS_DIR)?;
    names.retain(|name| name.starts_with(prefix) && name.ends_with(".log"));
    Ok(names)
}

fn read_lead(start: &str) -> Option<i128> {
    let mut columns = start.split(' ');
    let (monotonic_ns, unix_ns): (i128, i128) =
        (columns.next()?.parse().ok()?, columns.next()?.parse().ok()?);
    Some(unix_ns - monotonic_ns)
}

fn read_request(line: &str, lead_ns: i128) -> Option<Request<'_>> {
    let mut columns = line.split(' ');
    let mut column = || columns.next();
    let started_ns: i128 = column()?.parse().ok()?;
    let _date = column()?;
    let (host, address, _method, url) = (column()?, column()?, column()?, column()?);
    let status = match column()? {
        "-" => None,
        status => Some(status.parse().ok()?),
    };
    let outcome = Outcome::by_name(column()?)?;
    let (body_bytes, total_ms) = (column()?.parse().ok()?, column()?.parse().ok()?);
    let at = WallTime(u64::try_from(started_ns + lead_ns).ok()?);
    let is_whole = column().is_none();
    is_whole.then_some(Request { at, host, address, url, status, outcome, body_bytes, total_ms })
}

fn read_letter(line: &str) -> Option<Letter<'_>> {
    let mut columns = line.split(' ');
    let mut column = || columns.next();
    let letter = Letter {
        at: WallTime::parse(column()?)?,
        outcome: Outcome::by_name(column()?)?,
        tries: column()?.parse().ok()?,
        depth: column()?.parse().ok()?,
        via: Via::by_name(column()?)?,
        url: column()?,
    };
    let is_whole = column().is_none();
    is_whole.then_some(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_with_its_moment_and_half_a_line_is_none() {
        let line = "5000 2026-01-31T23:59:59Z h.test 127.0.0.1:80 GET http://h.test/ 503 \
                    server_error 12 34";
        let lead_ns = read_lead("3000 1700000000000003000 2023-11-14T22:13:20Z").expect("a start");
        let request = read_request(line, lead_ns).expect("a request");
        assert_eq!(request.at, WallTime(1_700_000_000_000_005_000));
        assert_eq!((request.status, request.outcome), (Some(503), Outcome::ServerError));
        assert_eq!((request.body_bytes, request.total_ms), (12, 34));
        let cuts = (0..line.len() - 1).filter(|cut| read_request(&line[..*cut], 0).is_some());
        assert_eq!(cuts.collect::<Vec<_>>(), [] as [usize; 0]);
        assert!(read_request(&format!("{line} x"), 0).is_none());
    }

    #[test]
    fn a_dead_letter_is_read_and_an_unknown_reason_is_none() {
        let line = "2026-01-31T23:59:59Z dns_failed 3 2 link http://h.test/x";
        let letter = read_letter(line).expect("a letter");
        assert_eq!((letter.outcome, letter.tries), (Outcome::DnsFailed, 3));
        assert_eq!((letter.depth, letter.via, letter.url), (2, Via::Link, "http://h.test/x"));
        assert!(read_letter(&line.replace("dns_failed", "bored")).is_none());
    }
}

//! Reads the log of a synthetic web's servers as hits. It is the strongest witness, because the
//! crawler does not write it.
//!
//! Log lines come in, [`Hit`]s go out. This module has its own reader for the format, which
//! `web::log` describes, and shares no code with its writer.

use super::hit::{AuditError, Fate, Hit, Hits};
use super::lines::{Line, Log, Segment, TimeLine, line_at};
use std::borrow::Cow;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The logs of one web: one for each core that served it.
#[derive(Debug)]
pub struct WebLogs(Vec<Log>);

impl WebLogs {
    pub fn files(paths: Vec<PathBuf>) -> WebLogs {
        WebLogs(paths.into_iter().map(Log::File).collect())
    }

    /// Takes a log that is in memory, as in a simulation.
    pub fn text(text: impl Into<Vec<u8>>) -> WebLogs {
        WebLogs(vec![Log::Memory(text.into())])
    }
}

impl Hits for WebLogs {
    fn each(&self, visit: &mut dyn FnMut(&Hit<'_>)) -> Result<(), AuditError> {
        let mut time_line = TimeLine::default();
        for (index, log) in self.0.iter().enumerate() {
            let mut segment = Segment::default();
            log.each(index, &mut |line| match line.text.strip_prefix("# clock ") {
                Some(clock) => match read_clock(clock) {
                    Some((monotonic_ns, unix_ns)) => {
                        segment = time_line.segment(monotonic_ns, unix_ns);
                        true
                    }
                    None => false,
                },
                None if line.text.starts_with('#') => true,
                None => read(line, segment, visit).is_some(),
            })?;
        }
        Ok(())
    }

    fn line(&self, place: u64) -> String {
        line_at(&self.0, place)
    }
}

fn read_clock(text: &str) -> Option<(u64, u64)> {
    let (monotonic_ns, unix_ns) = text.split_once(' ')?;
    Some((monotonic_ns.parse().ok()?, unix_ns.parse().ok()?))
}

/// Reads a line and passes its hit to `visit`; returns `None` if the line is no hit.
fn read(line: Line<'_>, segment: Segment, visit: &mut dyn FnMut(&Hit<'_>)) -> Option<()> {
    let mut columns = line.text.split(' ');
    let mut column = || columns.next();
    let [start, sent, end] = [column()?, column()?, column()?].map(|text| text.parse().ok());
    let fate = match column()? {
        "whole" => Fate::Whole,
        "cut" => Fate::Cut,
        "unsent" => Fate::Unsent,
        _ => return None,
    };
    let _peer = column()?;
    let local: SocketAddr = column()?.parse().ok()?;
    let is_https = match column()? {
        "http" => false,
        "https" => true,
        _ => return None,
    };
    let (authority, path) = (text(column()?)?, text(column()?)?);
    let status = column()?.parse().ok()?;
    let [mut retry_after, mut location, mut body] = [None, None, None];
    for told in columns {
        let (name, value) = told.split_once('=')?;
        let place = match name {
            "retry-after" => &mut retry_after,
            "location" => &mut location,
            "body" => &mut body,
            _ => return None,
        };
        *place = Some(unescaped(value)?);
    }
    visit(&Hit {
        place: line.place,
        start: segment.time(start?),
        sent: segment.time(sent?),
        end: segment.time(end?),
        wall_ahead_ns: segment.wall_ahead_ns(),
        fate,
        address: local.ip(),
        is_https,
        authority: &authority,
        path: &path,
        status,
        retry_after: retry_after.as_deref(),
        location: location.as_deref(),
        body: body.as_deref(),
    });
    Some(())
}

fn text(field: &str) -> Option<Cow<'_, str>> {
    match unescaped(field)? {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
        Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
    }
}

/// Replaces each `\xHH` by its byte; a lone `\x` stands for an empty field.
fn unescaped(field: &str) -> Option<Cow<'_, [u8]>> {
    if memchr::memchr(b'\\', field.as_bytes()).is_none() {
        return Some(Cow::Borrowed(field.as_bytes()));
    }
    if field == "\\x" {
        return Some(Cow::Borrowed(b""));
    }
    let mut bytes = Vec::with_capacity(field.len());
    let mut pieces = field.split("\\x");
    bytes.extend_from_slice(pieces.next()?.as_bytes());
    for piece in pieces {
        bytes.push(u8::from_str_radix(piece.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    Some(Cow::Owned(bytes))
}

//! The request log: one line for each request. Crawls are judged by it, and the crawler does not
//! write it.
//!
//! Each core has a log of its own. A line has these columns, separated by single spaces:
//!
//! ```text
//! start sent end fate peer local scheme host path status [retry-after=V] [location=V] [body=V]
//! ```
//!
//! Times are monotonic nanoseconds. `start` is when the request's first byte came. `sent` is when
//! the answer's first byte went out, so no client can have seen the answer earlier. `end` is when
//! all of the answer was handed over: then the fate is `whole`. The fate is `cut` if the connection
//! ended during the answer, and `unsent` if it ended before it. `status` is the status of the
//! answer, sent or only planned. Then follow the parts of the answer that oblige the client, as
//! they were sent: Retry-After, Location, and for a robots.txt (at any path) the body without
//! framing, cut at [`WEB_LOG_BODY_BYTES_MAX`].
//!
//! In text columns, spaces, backslashes and all bytes outside printable ASCII are written as
//! `\xHH`; an empty text is `\x`. Lines are in the order in which requests ended. A line that
//! begins with `#` is a remark: `# clock MONOTONIC_NS UNIX_NS` says what time it was when the
//! server began.
//!
//! A line is drafted when its request is read and finished when its [`Draft`] is dropped, so that a
//! request whose answer never ends is in the log as well. Lines gather in a buffer and go to a
//! [`LogSink`] when the buffer is full, at intervals and at the end, so no request waits for a
//! file.

use crate::base::Time;
use crate::base::limits::{
    WEB_LOG_BODY_BYTES_MAX, WEB_LOG_BUFFER_BYTES, WEB_LOG_DRAFT_BYTES_KEPT,
    WEB_REQUEST_HEADER_COUNT_MAX, WEB_SPARE_BUFFER_COUNT_MAX,
};
use crate::io::Clock;
use std::cell::RefCell;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::rc::Rc;

/// The destination of complete lines.
pub trait LogSink {
    fn write(&mut self, lines: &[u8]) -> io::Result<()>;
}

/// One core's log. Dropping it flushes the lines; [`RequestLog::flush`] does so too, and returns
/// errors.
pub struct RequestLog {
    buffer: Vec<u8>,
    sink: Box<dyn LogSink>,
    /// Buffers of drafts that have ended, kept for the next drafts.
    spares: Vec<Vec<u8>>,
    /// The first error of the sink. Lines that the sink refuses are counted as lost.
    failure: Option<io::Error>,
    line_count: u64,
    lost_count: u64,
}

/// What a client asked for, the two addresses, and the planned status of the answer.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub at: Time,
    pub peer: SocketAddr,
    pub local: SocketAddr,
    pub is_https: bool,
    /// The Host field as the client sent it, with its port if it sent one.
    pub host: &'a str,
    pub path: &'a str,
    pub status: u16,
}

/// The line of a request that is being answered. Dropping it writes the line, as unsent or cut
/// unless [`Draft::deliver`] was called.
pub struct Draft<'l, C: Clock> {
    log: &'l RefCell<RequestLog>,
    clock: &'l C,
    at: Time,
    /// When the first byte of the answer went out.
    sent: Option<Time>,
    is_whole: bool,
    /// The line's columns from the peer on.
    line: Vec<u8>,
}

/// How the answer to a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    Unsent,
    Cut,
    Whole,
}

/// One line of the log, read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When the first byte of the request came.
    pub at: Time,
    /// When the first byte of the answer went out; equal to `end` if none did.
    pub sent: Time,
    /// When the answer had been handed over, or could not be handed over any more.
    pub end: Time,
    pub fate: Fate,
    pub peer: SocketAddr,
    pub local: SocketAddr,
    pub is_https: bool,
    pub host: String,
    pub path: String,
    pub status: u16,
    pub retry_after: Option<String>,
    pub location: Option<String>,
    /// The body of a robots.txt.
    pub body: Option<Vec<u8>>,
}

impl RequestLog {
    pub fn new(sink: impl LogSink + 'static) -> RequestLog {
        RequestLog {
            buffer: Vec::with_capacity(WEB_LOG_BUFFER_BYTES),
            sink: Box::new(sink),
            spares: Vec::new(),
            failure: None,
            line_count: 0,
            lost_count: 0,
        }
    }

    /// Makes a log that discards its lines, for a web by which nothing is judged.
    pub fn none() -> RequestLog {
        struct Nowhere;
        impl LogSink for Nowhere {
            fn write(&mut self, _: &[u8]) -> io::Result<()> {
                Ok(())
            }
        }
        RequestLog::new(Nowhere)
    }

    /// Writes a remark that says what time it is, so that a date in an answer can be compared with
    /// the lines' times.
    pub fn remark_clock(&mut self, clock: &impl Clock) {
        // Writing to a Vec does not fail.
        let _ = writeln!(self.buffer, "# clock {} {}", clock.now().0, clock.wall().0);
    }

    /// Hands all lines to the sink. Returns the first error that the sink ever had, once.
    pub fn flush(&mut self) -> io::Result<()> {
        self.pass_on();
        self.failure.take().map_or(Ok(()), Err)
    }

    pub fn line_count(&self) -> u64 {
        self.line_count
    }

    /// Returns how many lines the sink did not take. If there are any, the log is incomplete and
    /// proves nothing.
    pub fn lost_count(&self) -> u64 {
        self.lost_count
    }

    fn push(&mut self, times: [Time; 3], fate: Fate, line: &[u8]) {
        let [at, sent, end] = times;
        let _ = write!(self.buffer, "{} {} {} {} ", at.0, sent.0, end.0, fate.name());
        self.buffer.extend_from_slice(line);
        self.buffer.push(b'\n');
        self.line_count += 1;
        if self.buffer.len() + 1_024 > WEB_LOG_BUFFER_BYTES {
            self.pass_on();
        }
    }

    fn pass_on(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        if let Err(error) = self.sink.write(&self.buffer) {
            let lines = self.buffer.split_inclusive(|&byte| byte == b'\n');
            self.lost_count += lines.filter(|line| !line.starts_with(b"#")).count() as u64;
            self.failure.get_or_insert(error);
        }
        self.buffer.clear();
    }

    fn give_back(&mut self, mut line: Vec<u8>) {
        let is_small = line.capacity() <= WEB_LOG_DRAFT_BYTES_KEPT;
        if is_small && self.spares.len() < WEB_SPARE_BUFFER_COUNT_MAX {
            line.clear();
            self.spares.push(line);
        }
    }
}

impl Drop for RequestLog {
    fn drop(&mut self) {
        self.pass_on();
    }
}

impl<'l, C: Clock> Draft<'l, C> {
    pub fn new(log: &'l RefCell<RequestLog>, clock: &'l C, asked: &Asked<'_>) -> Draft<'l, C> {
        let mut line = log.borrow_mut().spares.pop().unwrap_or_default();
        let scheme = if asked.is_https { "https" } else { "http" };
        let _ = write!(line, "{} {} {scheme} ", asked.peer, asked.local);
        push_escaped(asked.host.as_bytes(), &mut line);
        line.push(b' ');
        push_escaped(asked.path.as_bytes(), &mut line);
        let _ = write!(line, " {}", asked.status);
        Draft { log, clock, at: asked.at, sent: None, is_whole: false, line }
    }

    /// Notes that the first byte of the answer is about to go out.
    pub fn begin(&mut self) {
        self.sent = Some(self.clock.now());
    }

    /// Writes into the line what obliges the client in an answer: fields of its head and, if it
    /// `has_rules`, the body that follows, which must be without transfer or content coding. From
    /// an answer without a readable head nothing is written.
    pub fn tell(&mut self, answer: &[u8], has_rules: bool) {
        let mut headers = [httparse::EMPTY_HEADER; WEB_REQUEST_HEADER_COUNT_MAX];
        let mut head = httparse::Response::new(&mut headers);
        let Ok(httparse::Status::Complete(head_bytes)) = head.parse(answer) else { return };
        for (name, key) in [("retry-after", " retry-after="), ("location", " location=")] {
            let field = head.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
            if let Some(field) = field {
                self.line.extend_from_slice(key.as_bytes());
                push_escaped(field.value, &mut self.line);
            }
        }
        if has_rules {
            self.line.extend_from_slice(b" body=");
            let body = &answer[head_bytes..];
            push_escaped(&body[..body.len().min(WEB_LOG_BODY_BYTES_MAX)], &mut self.line);
        }
    }

    /// Notes that the whole answer has been handed over, and finishes the line.
    pub fn deliver(mut self) {
        self.is_whole = true;
    }
}

impl<C: Clock> Drop for Draft<'_, C> {
    fn drop(&mut self) {
        let end = self.clock.now();
        let fate = match self.sent {
            None => Fate::Unsent,
            Some(_) if self.is_whole => Fate::Whole,
            Some(_) => Fate::Cut,
        };
        let mut log = self.log.borrow_mut();
        log.push([self.at, self.sent.unwrap_or(end), end], fate, &self.line);
        log.give_back(std::mem::take(&mut self.line));
    }
}

impl Fate {
    pub fn name(self) -> &'static str {
        match self {
            Fate::Unsent => "unsent",
            Fate::Cut => "cut",
            Fate::Whole => "whole",
        }
    }

    fn named(name: &str) -> Option<Fate> {
        [Fate::Unsent, Fate::Cut, Fate::Whole].into_iter().find(|fate| fate.name() == name)
    }
}

impl Entry {
    /// Reads a line back; returns `None` if it is not a request's line.
    pub fn parse(line: &str) -> Option<Entry> {
        let mut columns = line.split(' ');
        let mut column = || columns.next();
        let mut entry = Entry {
            at: Time(column()?.parse().ok()?),
            sent: Time(column()?.parse().ok()?),
            end: Time(column()?.parse().ok()?),
            fate: Fate::named(column()?)?,
            peer: column()?.parse().ok()?,
            local: column()?.parse().ok()?,
            is_https: match column()? {
                "http" => false,
                "https" => true,
                _ => return None,
            },
            host: text(column()?)?,
            path: text(column()?)?,
            status: column()?.parse().ok()?,
            retry_after: None,
            location: None,
            body: None,
        };
        for told in columns {
            match told.split_once('=')? {
                ("retry-after", value) => entry.retry_after = Some(text(value)?),
                ("location", value) => entry.location = Some(text(value)?),
                ("body", value) => entry.body = Some(unescaped(value)?),
                _ => return None,
            }
        }
        Some(entry)
    }
}

/// A file to which complete lines are appended.
pub struct FileSink(pub std::fs::File);

impl LogSink for FileSink {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.0.write_all(lines)
    }
}

/// Lines in memory, for simulation. Clones share the same memory.
#[derive(Clone, Default)]
pub struct MemorySink(Rc<RefCell<Vec<u8>>>);

impl MemorySink {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.borrow()).into_owned()
    }

    /// Returns all lines that were flushed so far.
    pub fn entries(&self) -> Vec<Entry> {
        self.text().lines().filter_map(Entry::parse).collect()
    }
}

impl LogSink for MemorySink {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.0.borrow_mut().extend_from_slice(lines);
        Ok(())
    }
}

/// Appends an escaped field. The result is never empty: an empty field becomes `\x`.
fn push_escaped(field: &[u8], out: &mut Vec<u8>) {
    if field.is_empty() {
        out.extend_from_slice(b"\\x");
    }
    for &byte in field {
        match byte {
            b'\\' | 0..=b' ' | 127.. => {
                let _ = write!(out, "\\x{byte:02x}");
            }
            _ => out.push(byte),
        }
    }
}

fn text(field: &str) -> Option<String> {
    String::from_utf8(unescaped(field)?).ok()
}

fn unescaped(field: &str) -> Option<Vec<u8>> {
    if field == "\\x" {
        return Some(Vec::new());
    }
    let mut bytes = Vec::with_capacity(field.len());
    let mut pieces = field.split("\\x");
    bytes.extend_from_slice(pieces.next()?.as_bytes());
    for piece in pieces {
        bytes.push(u8::from_str_radix(piece.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(piece.get(2..)?.as_bytes());
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;

//! The request log: one line a request, by which a crawl is judged. The crawler has no hand in it.
//!
//! `monotonic-ns peer local host path status`, separated by single spaces. The time is that of the
//! first byte of the request. Host and path are as the client sent them, with spaces, backslashes
//! and all bytes outside printable ASCII as `\xHH`; an empty one is `\x`.
//!
//! Lines gather in a buffer and go to a [`LogSink`] when it is full, at intervals and at the end:
//! no request waits for a file.

use crate::base::Time;
use crate::limits::WEB_LOG_BUFFER_BYTES;
use std::cell::RefCell;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::rc::Rc;

/// Where whole lines go.
pub trait LogSink {
    fn write(&mut self, lines: &[u8]) -> io::Result<()>;
}

/// One core's log. Drop flushes; so does [`RequestLog::flush`], which also tells of errors.
pub struct RequestLog {
    buffer: Vec<u8>,
    sink: Box<dyn LogSink>,
    /// The first error of the sink; after it, lines are counted as lost.
    failure: Option<io::Error>,
    line_count: u64,
    lost_count: u64,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub at: Time,
    pub peer: SocketAddr,
    pub local: SocketAddr,
    pub host: String,
    pub path: String,
    pub status: u16,
}

impl RequestLog {
    pub fn new(sink: impl LogSink + 'static) -> RequestLog {
        RequestLog {
            buffer: Vec::with_capacity(WEB_LOG_BUFFER_BYTES),
            sink: Box::new(sink),
            failure: None,
            line_count: 0,
            lost_count: 0,
        }
    }

    /// For a web that nobody judges.
    pub fn none() -> RequestLog {
        struct Nowhere;
        impl LogSink for Nowhere {
            fn write(&mut self, _: &[u8]) -> io::Result<()> {
                Ok(())
            }
        }
        RequestLog::new(Nowhere)
    }

    pub fn push(
        &mut self,
        at: Time,
        peer: SocketAddr,
        local: SocketAddr,
        host: &str,
        path: &str,
        status: u16,
    ) {
        // Writing to a Vec does not fail.
        let _ = write!(self.buffer, "{} {peer} {local} ", at.0);
        push_escaped(host, &mut self.buffer);
        self.buffer.push(b' ');
        push_escaped(path, &mut self.buffer);
        let _ = writeln!(self.buffer, " {status}");
        self.line_count += 1;
        if self.buffer.len() + 1_024 > WEB_LOG_BUFFER_BYTES {
            self.pass_on();
        }
    }

    /// Hands all lines to the sink; the first error it ever had, once.
    pub fn flush(&mut self) -> io::Result<()> {
        self.pass_on();
        self.failure.take().map_or(Ok(()), Err)
    }

    pub fn line_count(&self) -> u64 {
        self.line_count
    }

    /// Lines that the sink did not take: the log is not whole, and proves nothing.
    pub fn lost_count(&self) -> u64 {
        self.lost_count
    }

    fn pass_on(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        if let Err(error) = self.sink.write(&self.buffer) {
            self.lost_count += memchr::memchr_iter(b'\n', &self.buffer).count() as u64;
            self.failure.get_or_insert(error);
        }
        self.buffer.clear();
    }
}

impl Drop for RequestLog {
    fn drop(&mut self) {
        self.pass_on();
    }
}

impl Entry {
    /// Reads a line back; `None` if it is not one.
    pub fn parse(line: &str) -> Option<Entry> {
        let mut columns = line.split(' ');
        let entry = Entry {
            at: Time(columns.next()?.parse().ok()?),
            peer: columns.next()?.parse().ok()?,
            local: columns.next()?.parse().ok()?,
            host: unescaped(columns.next()?)?,
            path: unescaped(columns.next()?)?,
            status: columns.next()?.parse().ok()?,
        };
        columns.next().is_none().then_some(entry)
    }
}

/// A file that whole lines are appended to.
pub struct FileSink(pub std::fs::File);

impl LogSink for FileSink {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.0.write_all(lines)
    }
}

/// Lines in memory, for simulation: clones are the same memory.
#[derive(Clone, Default)]
pub struct MemorySink(Rc<RefCell<Vec<u8>>>);

impl MemorySink {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.borrow()).into_owned()
    }

    /// All lines that were flushed so far.
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

/// Never empty: an empty field is `\x`.
fn push_escaped(field: &str, out: &mut Vec<u8>) {
    if field.is_empty() {
        out.extend_from_slice(b"\\x");
    }
    for &byte in field.as_bytes() {
        match byte {
            b'\\' | 0..=b' ' | 127.. => {
                let _ = write!(out, "\\x{byte:02x}");
            }
            _ => out.push(byte),
        }
    }
}

fn unescaped(field: &str) -> Option<String> {
    if field == "\\x" {
        return Some(String::new());
    }
    let mut bytes = Vec::with_capacity(field.len());
    let mut pieces = field.split("\\x");
    bytes.extend_from_slice(pieces.next()?.as_bytes());
    for piece in pieces {
        bytes.push(u8::from_str_radix(piece.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(piece.get(2..)?.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([127, 16, 0, last], 80))
    }

    #[test]
    fn lines_read_back_as_they_were_written() {
        let sink = MemorySink::default();
        let mut log = RequestLog::new(sink.clone());
        let hosts = ["h000001.site0.test", "", "a b", "caf\u{e9}\n\\x20"];
        for host in hosts {
            log.push(Time(7), address(1), address(2), host, "/p/1?q= x", 200);
        }
        assert!(sink.entries().is_empty(), "nothing was flushed yet");
        log.flush().unwrap();
        let entries = sink.entries();
        assert_eq!(entries.len(), hosts.len());
        for (entry, host) in entries.iter().zip(hosts) {
            assert_eq!((entry.host.as_str(), entry.path.as_str()), (host, "/p/1?q= x"));
            assert_eq!((entry.at, entry.peer, entry.local), (Time(7), address(1), address(2)));
        }
        assert!(sink.text().starts_with("7 127.16.0.1:80 127.16.0.2:80 h000001.site0.test /p/1"));
    }

    #[test]
    fn a_full_buffer_and_the_end_both_flush() {
        let sink = MemorySink::default();
        let mut log = RequestLog::new(sink.clone());
        let path = "/".repeat(4_000);
        for _ in 0..100 {
            log.push(Time(7), address(1), address(2), "h", &path, 200);
        }
        assert!(!sink.entries().is_empty());
        drop(log);
        assert_eq!(sink.entries().len(), 100);
    }

    #[test]
    fn a_failing_sink_is_told_once_and_counted() {
        struct Failing;
        impl LogSink for Failing {
            fn write(&mut self, _: &[u8]) -> io::Result<()> {
                Err(io::Error::other("disk full"))
            }
        }
        let mut log = RequestLog::new(Failing);
        log.push(Time(7), address(1), address(2), "h", "/", 200);
        assert!(log.flush().is_err());
        assert!(log.flush().is_ok());
        assert_eq!((log.line_count(), log.lost_count()), (1, 1));
    }

    #[test]
    fn foreign_lines_are_refused() {
        for line in ["", "x", "1 2 3 4 5 6", "7 127.0.0.1:1 127.0.0.1:2 h /\\xzz 200"] {
            assert_eq!(Entry::parse(line), None, "{line}");
        }
    }
}

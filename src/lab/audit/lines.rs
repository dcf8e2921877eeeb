//! The lines of logs, from files or from memory, and the one time line that several logs share.

use super::hit::AuditError;
use crate::base::escape_cut;
use crate::base::limits::{AUDIT_CLOCK_SLEW_NS_MAX, AUDIT_LINE_BYTES_MAX, AUDIT_LINE_CHARS_SHOWN};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// A place has the log's index above these bits and the line's offset in the log below.
const OFFSET_BITS: u32 = 48;

/// One log.
#[derive(Debug)]
pub(super) enum Log {
    File(PathBuf),
    Memory(Vec<u8>),
}

/// One line of a log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    pub place: u64,
    pub text: &'a str,
}

impl Log {
    pub fn path(&self) -> &Path {
        match self {
            Log::File(path) => path,
            Log::Memory(_) => Path::new("log"),
        }
    }

    /// Passes every complete line to `visit`, which says whether it could read it. A last line
    /// without a line break is what a crash leaves behind, and does not count as a line.
    pub fn each(
        &self,
        index: usize,
        visit: &mut dyn FnMut(Line<'_>) -> bool,
    ) -> Result<(), AuditError> {
        let mut reader = self.open().map_err(|error| self.unreadable(error))?;
        let mut bytes = Vec::new();
        let mut place = (index as u64) << OFFSET_BITS;
        let mut number = 0;
        loop {
            bytes.clear();
            let mut limited = reader.by_ref().take(AUDIT_LINE_BYTES_MAX);
            let length = limited.read_until(b'\n', &mut bytes);
            let length = length.map_err(|error| self.unreadable(error))? as u64;
            if bytes.last() != Some(&b'\n') && length < AUDIT_LINE_BYTES_MAX {
                return Ok(());
            }
            bytes.pop();
            number += 1;
            let text = std::str::from_utf8(&bytes).ok();
            if !text.is_some_and(|text| visit(Line { place, text })) {
                let text = escape_cut(&bytes, AUDIT_LINE_CHARS_SHOWN).to_string();
                return Err(AuditError::BadLine { path: self.path().into(), number, text });
            }
            place += length;
        }
    }

    fn open(&self) -> io::Result<Box<dyn BufRead + '_>> {
        Ok(match self {
            Log::File(path) => Box::new(BufReader::with_capacity(1 << 18, File::open(path)?)),
            Log::Memory(bytes) => Box::new(&bytes[..]),
        })
    }

    fn line_at(&self, offset: u64) -> io::Result<String> {
        let mut bytes = Vec::new();
        let shown = 4 * AUDIT_LINE_CHARS_SHOWN as u64;
        match self {
            Log::File(path) => {
                let mut file = File::open(path)?;
                file.seek(SeekFrom::Start(offset))?;
                BufReader::new(file).take(shown).read_until(b'\n', &mut bytes)?;
            }
            Log::Memory(text) => {
                let rest = text.get(offset as usize..).unwrap_or_default();
                rest.take(shown).read_until(b'\n', &mut bytes)?;
            }
        }
        Ok(String::from_utf8_lossy(bytes.trim_ascii_end()).into_owned())
    }

    fn unreadable(&self, error: io::Error) -> AuditError {
        AuditError::Unreadable { path: self.path().into(), error }
    }
}

/// Returns the beginning of the line at a place. It is as the log has it, so the caller must escape
/// it before showing it. If the file cannot be read any more, the error is returned as text.
pub(super) fn line_at(logs: &[Log], place: u64) -> String {
    let Some(log) = logs.get((place >> OFFSET_BITS) as usize) else { return String::new() };
    let found = log.line_at(place & ((1 << OFFSET_BITS) - 1));
    found.unwrap_or_else(|error| format!("(cannot read {} again: {error})", log.path().display()))
}

/// Puts the monotonic times of all segments of all logs on one time line: Unix time, as it was when
/// the first segment of the same clock began. Segments whose clocks agree within a second share the
/// monotonic clock and are compared by it, to the nanosecond. Other segments (the machine was
/// rebooted between them, or the wall clock was set) are compared by wall time.
#[derive(Debug, Default)]
pub(super) struct TimeLine {
    known_ahead_ns: Vec<u64>,
}

/// How the monotonic times of a segment become times on the time line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Segment {
    shift_ns: u64,
    is_dated: bool,
}

impl TimeLine {
    /// Adds a segment that began at `monotonic_ns`, when the wall clock was at `unix_ns`.
    pub fn segment(&mut self, monotonic_ns: u64, unix_ns: u64) -> Segment {
        let ahead_ns = unix_ns.saturating_sub(monotonic_ns);
        let agrees = |known: &&u64| known.abs_diff(ahead_ns) <= AUDIT_CLOCK_SLEW_NS_MAX;
        let shift_ns = self.known_ahead_ns.iter().find(agrees).copied();
        if shift_ns.is_none() {
            self.known_ahead_ns.push(ahead_ns);
        }
        Segment { shift_ns: shift_ns.unwrap_or(ahead_ns), is_dated: true }
    }
}

impl Segment {
    pub fn time(self, monotonic_ns: u64) -> crate::base::Time {
        crate::base::Time(monotonic_ns.saturating_add(self.shift_ns))
    }

    /// Returns how far the wall clock is ahead of the time line, or `None` if that is unknown.
    pub fn wall_ahead_ns(self) -> Option<i128> {
        self.is_dated.then_some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_agree_share_one_line_and_others_go_by_the_wall() {
        let mut line = TimeLine::default();
        let first = line.segment(500, 10_000_000_500);
        let same_boot = line.segment(900, 10_000_300_900);
        assert_eq!(same_boot.time(901).0 - first.time(501).0, 400, "to the nanosecond");
        let rebooted = line.segment(7, 99_000_000_000);
        assert_eq!(rebooted.time(8).0, 99_000_000_001);
        assert_eq!(Segment::default().time(5).0, 5);
        assert_eq!(Segment::default().wall_ahead_ns(), None);
    }

    #[test]
    fn a_torn_last_line_is_none_and_lines_are_found_again() {
        let log = Log::Memory(b"one\ntwo\nthr".to_vec());
        let mut found = Vec::new();
        log.each(0, &mut |line| {
            found.push((line.place, line.text.to_owned()));
            true
        })
        .unwrap();
        assert_eq!(found, [(0, "one".to_owned()), (4, "two".to_owned())]);
        assert_eq!(line_at(&[log], 4), "two");
    }

    #[test]
    fn a_line_that_nobody_can_read_is_told_with_its_number() {
        let log = Log::Memory(b"one\n\x1b[2J\n".to_vec());
        let error = log.each(0, &mut |line| line.text == "one").unwrap_err().to_string();
        assert!(error.contains(":2: ") && error.contains("\\x1b[2J"), "{error}");
    }
}

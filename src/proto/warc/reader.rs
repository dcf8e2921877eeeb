//! Reads records back: for tests, tools, and the cut after a crash.
//!
//! Bytes go in, in pieces of any size; a record comes out when its member is whole. The reader
//! shares no code with the writer's side except the digest: flate2 checks the deflate data, CRC and
//! lengths, and a decoder of its own removes transfer coding, so that a mistake in `http` shows
//! here as a digest that does not match. It holds one record in memory, at most
//! [`WARC_RECORD_BYTES_MAX`].

use super::digest::{PayloadDigest, parse_labelled};
use crate::base::WallTime;
use crate::base::limits::WARC_RECORD_BYTES_MAX;
use flate2::{Decompress, FlushDecompress, Status};
use std::fmt;
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The bytes end inside a member: the tail is torn.
    Torn,
    /// This is not a gzip member, or its data, CRC or length is damaged.
    BadMember,
    TooLarge,
    /// The member unpacks, but not to a WARC record.
    BadHeader,
    /// Content-Length does not reach to the record's end.
    BadLength,
    BlockDigest,
    PayloadDigest,
}

impl fmt::Display for ReadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            ReadError::Torn => "file ends inside a record",
            ReadError::BadMember => "damaged gzip member",
            ReadError::TooLarge => "record larger than the limit",
            ReadError::BadHeader => "not a WARC record",
            ReadError::BadLength => "block length does not match Content-Length",
            ReadError::BlockDigest => "block digest does not match",
            ReadError::PayloadDigest => "payload digest does not match",
        })
    }
}

impl std::error::Error for ReadError {}

/// A record that was read back, and where its member lies in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    pub offset: u64,
    pub length: u64,
    bytes: Vec<u8>,
    header: Range<usize>,
    block: Range<usize>,
}

impl StoredRecord {
    /// Returns the first field of this name; case does not count.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.bytes[self.header.clone()].split(|byte| *byte == b'\n');
        let value = lines.find_map(|line| field_named(line, name))?;
        std::str::from_utf8(value).ok()
    }

    pub fn kind(&self) -> &str {
        self.header("WARC-Type").unwrap_or("")
    }

    pub fn block(&self) -> &[u8] {
        &self.bytes[self.block.clone()]
    }

    /// Returns head and body of an HTTP block; the body is empty if the head never ends.
    pub fn http(&self) -> (&[u8], &[u8]) {
        split_head(self.block())
    }

    /// Returns the payload of an HTTP block: its body without transfer coding. Of a cut body, it is
    /// what came.
    pub fn payload(&self) -> Vec<u8> {
        let (head, body) = self.http();
        let chunked = head.split(|byte| *byte == b'\n').any(|line| {
            field_named(line, "Transfer-Encoding")
                .is_some_and(|value| value.to_ascii_lowercase().ends_with(b"chunked"))
        });
        if chunked { dechunked(body) } else { body.to_vec() }
    }

    /// Returns the WARC-Date, to the second.
    pub fn date(&self) -> Option<WallTime> {
        parse_date(self.header("WARC-Date")?)
    }

    pub fn http_status(&self) -> Option<u16> {
        let line = self.http().0.split(|byte| *byte == b'\n').next()?;
        let status = line.split(|byte| *byte == b' ').nth(1)?.trim_ascii();
        std::str::from_utf8(status).ok()?.parse().ok()
    }

    /// Returns the Content-Type without parameters; empty if there is none.
    pub fn http_media_type(&self) -> &str {
        let mut lines = self.http().0.split(|byte| *byte == b'\n');
        let value = lines.find_map(|line| field_named(line, "Content-Type")).unwrap_or_default();
        let media_type = value.split(|byte| *byte == b';').next().unwrap_or_default();
        std::str::from_utf8(media_type.trim_ascii()).unwrap_or_default()
    }

    /// Checks the digests that the record has. A revisit's payload is elsewhere, so only its block
    /// is checked.
    pub fn verify(&self) -> Result<(), ReadError> {
        let differs = |name, bytes: &[u8]| {
            self.header(name)
                .is_some_and(|label| parse_labelled(label) != Some(PayloadDigest::of(bytes)))
        };
        if differs("WARC-Block-Digest", self.block()) {
            return Err(ReadError::BlockDigest);
        }
        if self.kind() == "response" && differs("WARC-Payload-Digest", &self.payload()) {
            return Err(ReadError::PayloadDigest);
        }
        Ok(())
    }

    fn parse(bytes: Vec<u8>, offset: u64, length: u64) -> Result<StoredRecord, ReadError> {
        const VERSION: &[u8] = b"WARC/1.1\r\n";
        const END: &[u8] = b"\r\n\r\n";
        if !bytes.starts_with(VERSION) {
            return Err(ReadError::BadHeader);
        }
        let gap = memchr::memmem::find(&bytes, END).ok_or(ReadError::BadHeader)?;
        let header = VERSION.len().min(gap)..gap;
        let start = gap + END.len();
        let mut record = StoredRecord { offset, length, bytes, header, block: start..start };
        if record.kind().is_empty() {
            return Err(ReadError::BadHeader);
        }
        let len: usize = record
            .header("Content-Length")
            .and_then(|text| text.parse().ok())
            .ok_or(ReadError::BadHeader)?;
        let end = start.checked_add(len).ok_or(ReadError::BadLength)?;
        if record.bytes.get(end..) != Some(END) {
            return Err(ReadError::BadLength);
        }
        record.block = start..end;
        Ok(record)
    }
}

/// Reads a file's records from its bytes, in pieces of any size.
pub struct Reader {
    record_bytes_max: usize,
    inflate: Decompress,
    bytes: Vec<u8>,
    /// The compressed bytes of the current member so far.
    member_len: u64,
    whole_through: u64,
}

impl Reader {
    pub fn new() -> Reader {
        Reader::with_limit(WARC_RECORD_BYTES_MAX)
    }

    fn with_limit(record_bytes_max: usize) -> Reader {
        let (inflate, bytes) = (Decompress::new_gzip(15), Vec::new());
        Reader { record_bytes_max, inflate, bytes, member_len: 0, whole_through: 0 }
    }

    /// Takes bytes from `piece`, at most up to the end of the current record. Returns how many
    /// bytes it took, and the record if it is whole. To be called until all of the piece is taken.
    /// After an error the reader is useless, except for [`Reader::whole_through`].
    pub fn feed(&mut self, piece: &[u8]) -> Result<(usize, Option<StoredRecord>), ReadError> {
        const STEP_BYTES: usize = 32 * 1024;
        let mut taken = 0;
        while taken < piece.len() {
            self.bytes.reserve(STEP_BYTES);
            let (before, len) = (self.inflate.total_in(), self.bytes.len());
            let status = self
                .inflate
                .decompress_vec(&piece[taken..], &mut self.bytes, FlushDecompress::None)
                .map_err(|_| ReadError::BadMember)?;
            let step = (self.inflate.total_in() - before) as usize;
            taken += step;
            self.member_len += step as u64;
            if self.bytes.len() > self.record_bytes_max {
                return Err(ReadError::TooLarge);
            }
            if status == Status::StreamEnd {
                return Ok((taken, Some(self.finish_member()?)));
            }
            if step == 0 && self.bytes.len() == len {
                return Err(ReadError::BadMember);
            }
        }
        Ok((taken, None))
    }

    /// Returns the end of the last whole record, where a torn file is cut.
    pub fn whole_through(&self) -> u64 {
        self.whole_through
    }

    /// Ends the file. An error if it does not end where a record does.
    pub fn finish(&self) -> Result<(), ReadError> {
        if self.member_len == 0 { Ok(()) } else { Err(ReadError::Torn) }
    }

    fn finish_member(&mut self) -> Result<StoredRecord, ReadError> {
        let bytes = std::mem::take(&mut self.bytes);
        let record = StoredRecord::parse(bytes, self.whole_through, self.member_len)?;
        self.whole_through += self.member_len;
        self.member_len = 0;
        self.inflate = Decompress::new_gzip(15);
        Ok(record)
    }
}

impl Default for Reader {
    fn default() -> Self {
        Reader::new()
    }
}

/// Returns the records of a file that is complete. Ends after the first error.
pub fn records(file: &[u8]) -> impl Iterator<Item = Result<StoredRecord, ReadError>> + '_ {
    let mut reader = Reader::new();
    let mut rest = file;
    let mut failed = false;
    std::iter::from_fn(move || {
        if failed || rest.is_empty() {
            return None;
        }
        let result = match reader.feed(rest) {
            Ok((taken, Some(record))) => {
                rest = &rest[taken..];
                Ok(record)
            }
            Ok((_, None)) => Err(ReadError::Torn),
            Err(error) => Err(error),
        };
        failed = result.is_err();
        Some(result)
    })
}

/// Reads `2026-01-31T23:59:59Z`, with or without a fraction of a second, from 1970 to 9999.
fn parse_date(text: &str) -> Option<WallTime> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut parts = [0u64; 6];
    let texts = date.splitn(3, '-').chain(time.split('.').next()?.splitn(3, ':'));
    for (part, text) in parts.iter_mut().zip(texts) {
        *part = text.parse().ok()?;
    }
    let [year, month, day, hour, minute, second] = parts;
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // The days since 0000-03-01, by years that begin in March (the inverse of `WallTime::civil`).
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    let seconds = (days - 719_468) * 86_400 + hour.min(23) * 3_600 + minute.min(59) * 60;
    Some(WallTime((seconds + second.min(60)) * 1_000_000_000))
}

/// Returns the trimmed value, if `line` is a field of this name.
fn field_named<'a>(line: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let (before, after) = line.split_at_checked(name.len())?;
    let value = after.strip_prefix(b":")?;
    before.eq_ignore_ascii_case(name.as_bytes()).then(|| value.trim_ascii())
}

/// Splits behind the first empty line, whether lines end with CRLF or with LF alone.
fn split_head(block: &[u8]) -> (&[u8], &[u8]) {
    let mut line_start = 0;
    for end in memchr::memchr_iter(b'\n', block) {
        if block[line_start..end].trim_ascii_end().is_empty() && line_start > 0 {
            return block.split_at(end + 1);
        }
        line_start = end + 1;
    }
    (block, &[])
}

/// Returns chunk data in order, up to the last chunk, the first broken chunk or the end of the
/// bytes.
fn dechunked(mut body: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(body.len());
    while let Some(end) = memchr::memchr(b'\n', body) {
        let line = body[..end].split(|byte| *byte == b';').next().unwrap_or_default();
        let size = std::str::from_utf8(line.trim_ascii()).ok();
        let Some(size) = size.and_then(|text| usize::from_str_radix(text, 16).ok()) else {
            break;
        };
        body = &body[end + 1..];
        let (data, rest) = body.split_at(size.min(body.len()));
        payload.extend_from_slice(data);
        if size == 0 || data.len() < size {
            break;
        }
        body = rest.strip_prefix(b"\r\n").or(rest.strip_prefix(b"\n")).unwrap_or(&[]);
    }
    payload
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_joined_and_a_cut_one_gives_what_came() {
        let whole = b"5\r\nhello\r\n6;x=\"y\"\r\n world\r\n0\r\nTrailer: t\r\n\r\n";
        assert_eq!(dechunked(whole), b"hello world");
        assert_eq!(dechunked(b"5\r\nhello\r\n6\r\n wo"), b"hello wo");
        assert_eq!(dechunked(b"5\r\nhello\r\n6"), b"hello");
        assert_eq!(dechunked(b"A\n0123456789\n0\n\n"), b"0123456789");
        assert_eq!(dechunked(b"zz\r\nhello\r\n"), b"");
        assert_eq!(dechunked(b"ffffffffffffffffff\r\nhello"), b"");
        assert_eq!(dechunked(b""), b"");
    }

    #[test]
    fn lenient_heads_with_bare_line_feeds_are_split_too() {
        assert_eq!(split_head(b"HTTP/1.1 200 OK\r\na: b\r\n\r\nxy").1, b"xy");
        assert_eq!(split_head(b"HTTP/1.1 200 OK\na: b\n\n\nxy").1, b"\nxy");
        assert_eq!(split_head(b"HTTP/1.1 200 OK\r\na: b").1, b"");
    }

    #[test]
    fn dates_are_read_as_they_are_printed() {
        for seconds in [0, 951_782_399, 951_782_400, 1_767_225_599, 4_102_444_800] {
            let at = WallTime(seconds * 1_000_000_000);
            assert_eq!(parse_date(&at.to_string()), Some(at));
        }
        let fraction = parse_date("2025-12-31T23:59:59.123Z");
        assert_eq!(fraction, Some(WallTime(1_767_225_599_000_000_000)));
        for bad in ["", "2025-12-31", "2025-13-01T00:00:00Z", "20a5-12-01T00:00:00Z"] {
            assert_eq!(parse_date(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_no_record_is_refused_by_name() {
        let parse = |text: &str| StoredRecord::parse(text.into(), 0, 0).map(|_| ());
        assert_eq!(parse("WARC/1.0\r\nWARC-Type: x\r\n\r\n"), Err(ReadError::BadHeader));
        assert_eq!(parse("WARC/1.1\r\n\r\n\r\n\r\n"), Err(ReadError::BadHeader));
        assert_eq!(parse("WARC/1.1\r\nWARC-Type: x\r\n\r\n\r\n\r\n"), Err(ReadError::BadHeader));
        let with = |length: &str| {
            parse(&format!(
                "WARC/1.1\r\nWARC-Type: x\r\nContent-Length: {length}\r\n\r\nab\r\n\r\n"
            ))
        };
        assert_eq!(with("2"), Ok(()));
        assert_eq!(with("3"), Err(ReadError::BadLength));
        assert_eq!(with("1"), Err(ReadError::BadLength));
        assert_eq!(with("18446744073709551615"), Err(ReadError::BadLength));
        assert_eq!(with("-1"), Err(ReadError::BadHeader));
    }

    #[test]
    fn a_member_that_unpacks_beyond_the_limit_is_refused() {
        let mut member = Vec::new();
        const LIMIT: usize = 4 * 1024 * 1024;
        let zeros = vec![0; LIMIT + 1];
        let mut context = super::super::gzip::deflate_context(1);
        super::super::gzip::append_deflated(&mut member, &mut context, &[&zeros]);
        assert!(member.len() < LIMIT / 100);
        assert_eq!(Reader::with_limit(LIMIT).feed(&member), Err(ReadError::TooLarge));
        // Under the limit it fails later, because it is no record.
        assert_eq!(Reader::with_limit(LIMIT + 1).feed(&member), Err(ReadError::BadHeader));
    }
}

//! The stored answers that oblige a crawler: every robots.txt, and answers of 429 and 503.
//!
//! They are found through the CDXJ file beside each WARC file, so that only those records are read.
//! A WARC file without a CDXJ file, as a crash leaves it, is read from end to end. The reader is
//! the referee's own: it knows gzip members and header lines, and uses none of the writer's code.

use super::hit::AuditError;
use super::lines::Log;
use super::origin;
use crate::base::limits::{AUDIT_RECORD_BYTES_MAX, WEB_LOG_BODY_BYTES_MAX};
use flate2::bufread::GzDecoder;
use hashbrown::{HashMap, HashSet};
use serde::Deserialize;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Stored answers by URL and second. Answers of one second are in the order in which they were
/// stored.
#[derive(Debug, Default)]
pub(super) struct Archive {
    answers: HashMap<(u64, u64), Vec<Stored>>,
    wanted: HashSet<u64>,
}

#[derive(Debug)]
pub(super) struct Stored {
    /// The file and the offset in it, by which answers are ordered.
    order: (PathBuf, u64),
    pub retry_after: Option<Vec<u8>>,
    pub location: Option<Vec<u8>>,
    /// The body with its content coding removed; `None` if the coding cannot be removed.
    pub body: Option<Rc<[u8]>>,
}

#[derive(Deserialize)]
struct IndexLine {
    url: String,
    offset: String,
    length: String,
}

/// Returns the key of a URL and the second of its request, given as `20260131235959`.
pub(super) fn key(url: &str, date: &str) -> (u64, u64) {
    let digits = date.bytes().filter(u8::is_ascii_digit).take(14);
    let second = digits.fold(0, |sum: u64, digit| sum * 10 + u64::from(digit - b'0'));
    (origin::digest(url.as_bytes()), second)
}

impl Archive {
    /// Reads the WARC files of a crawl. It reads them again while redirects of a robots.txt name
    /// new URLs.
    pub fn open(folder: &Path) -> Result<Archive, AuditError> {
        let mut archive = Archive::default();
        loop {
            let wanted_count = archive.wanted.len();
            archive.answers.clear();
            for path in warc_files(folder)? {
                archive.read_file(&path)?;
            }
            if archive.wanted.len() == wanted_count {
                break;
            }
        }
        for answers in archive.answers.values_mut() {
            answers.sort_by(|a, b| a.order.cmp(&b.order));
        }
        Ok(archive)
    }

    pub fn answers(&self, key: (u64, u64)) -> &[Stored] {
        self.answers.get(&key).map_or(&[], |answers| answers)
    }

    fn read_file(&mut self, path: &Path) -> Result<(), AuditError> {
        let unreadable = |error| AuditError::Unreadable { path: path.into(), error };
        let name = path.to_string_lossy();
        let stem = name.strip_suffix(".open").unwrap_or(&name);
        let index =
            PathBuf::from(stem.strip_suffix(".warc.gz").unwrap_or(stem).to_owned() + ".cdxj");
        let mut file = BufReader::new(File::open(path).map_err(unreadable)?);
        if !index.exists() {
            return self.scan(path, &mut file).map_err(unreadable);
        }
        let mut failure = None;
        Log::File(index).each(0, &mut |line| {
            let Some((head, json)) = line.text.split_once('{') else { return false };
            let is_likely = has_binding_word(json);
            if failure.is_some() || (!is_likely && self.wanted.is_empty()) {
                return true;
            }
            let Some((url, offset, length)) = IndexLine::read(json) else { return false };
            if !is_likely && !self.wanted.contains(&origin::digest(url.as_bytes())) {
                return true;
            }
            let date = head.split(' ').nth(1).unwrap_or_default();
            match record_at(&mut file, offset, length) {
                Ok(record) => self.take(&url, date, &record, (path.into(), offset)),
                Err(error) => failure = Some(error),
            }
            true
        })?;
        failure.map_or(Ok(()), |error| Err(unreadable(error)))
    }

    /// Reads one record after the other. A record that a crash has torn ends the file.
    fn scan(&mut self, path: &Path, file: &mut BufReader<File>) -> io::Result<()> {
        loop {
            let offset = file.stream_position()?;
            if file.fill_buf()?.is_empty() {
                return Ok(());
            }
            let Ok(record) = unpacked(file) else { return Ok(()) };
            let header = &record[..find(&record, b"\r\n\r\n").unwrap_or(0)];
            let text = |name| field(header, name).and_then(|value| std::str::from_utf8(value).ok());
            let is_response = text("WARC-Type") == Some("response");
            if let Some(url) = text("WARC-Target-URI").filter(|_| is_response)
                && let Some(date) = text("WARC-Date")
            {
                let (url, date) = (url.to_owned(), date.to_owned());
                self.take(&url, &date, &record, (path.into(), offset));
            }
        }
    }

    fn take(&mut self, url: &str, date: &str, record: &[u8], order: (PathBuf, u64)) {
        let Some(gap) = find(record, b"\r\n\r\n") else { return };
        let block = &record[gap + 4..];
        let Some(head_end) = find(block, b"\r\n\r\n") else { return };
        let (head, body) = (&block[..head_end], &block[head_end + 4..]);
        let key = key(url, date);
        let has_rules = url.ends_with("/robots.txt") || self.wanted.contains(&key.0);
        let copy = |name| field(head, name).map(<[u8]>::to_vec);
        let location = copy("Location").filter(|_| has_rules);
        if let Some(target) = location.as_ref().and_then(|to| origin::join(url, to)) {
            self.wanted.insert(origin::digest(target.as_bytes()));
        }
        // The record ends with two line breaks that are not the body's.
        let body = body.strip_suffix(b"\r\n\r\n").unwrap_or(body);
        let coding = field(head, "Content-Encoding").unwrap_or_default();
        let body = if has_rules { decoded(body, coding).map(Rc::from) } else { None };
        let stored = Stored { order, retry_after: copy("Retry-After"), location, body };
        self.answers.entry(key).or_default().push(stored);
    }
}

impl IndexLine {
    /// Reads the URL, the offset and the length of a record.
    fn read(json: &str) -> Option<(String, u64, u64)> {
        let line: IndexLine = serde_json::from_str(&format!("{{{json}")).ok()?;
        Some((line.url, line.offset.parse().ok()?, line.length.parse().ok()?))
    }
}

/// Looks at an index line cheaply: most lines are of pages, and need not be parsed.
fn has_binding_word(json: &str) -> bool {
    let words = ["/robots.txt\"", "\"status\": \"429\"", "\"status\": \"503\""];
    words.iter().any(|word| json.contains(word))
}

fn warc_files(folder: &Path) -> Result<Vec<PathBuf>, AuditError> {
    let unreadable = |error| AuditError::Unreadable { path: folder.into(), error };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.to_string_lossy();
        if name.ends_with(".warc.gz") || name.ends_with(".warc.gz.open") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn record_at(file: &mut BufReader<File>, offset: u64, length: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(offset))?;
    unpacked(&mut file.take(length))
}

/// Unpacks one gzip member. Only its first bytes are kept; the rest is read and dropped.
fn unpacked(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut member = GzDecoder::new(reader);
    let mut bytes = Vec::new();
    (&mut member).take(AUDIT_RECORD_BYTES_MAX).read_to_end(&mut bytes)?;
    io::copy(&mut member, &mut io::sink())?;
    Ok(bytes)
}

/// Decodes a body, but no more of it than anyone must read; returns `None` for an unknown coding.
fn decoded(body: &[u8], coding: &[u8]) -> Option<Vec<u8>> {
    let mut reader: Box<dyn Read + '_> = match coding.to_ascii_lowercase().as_slice() {
        b"" | b"identity" => Box::new(body),
        b"gzip" | b"x-gzip" => Box::new(flate2::read::GzDecoder::new(body)),
        b"deflate" => Box::new(flate2::read::ZlibDecoder::new(body)),
        b"br" => Box::new(brotli_decompressor::Decompressor::new(body, 4_096)),
        _ => return None,
    };
    let mut bytes = Vec::new();
    // A body that is cut within its coding is read as far as it goes.
    let _ = (&mut reader).take(WEB_LOG_BODY_BYTES_MAX as u64).read_to_end(&mut bytes);
    Some(bytes)
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, what)
}

/// Returns the trimmed value of the first field with this name.
fn field<'a>(head: &'a [u8], name: &str) -> Option<&'a [u8]> {
    head.split(|byte| *byte == b'\n').find_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        let (found, value) = (&line[..colon], &line[colon + 1..]);
        found.eq_ignore_ascii_case(name.as_bytes()).then(|| value.trim_ascii())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_meet_whatever_the_form_of_the_date() {
        let url = "http://h/robots.txt";
        assert_eq!(key(url, "2026-01-31T23:59:59Z"), key(url, "20260131235959"));
        assert_eq!(key(url, "2026-01-31T23:59:59.123Z").1, 20_260_131_235_959);
    }

    #[test]
    fn codings_are_removed_and_unknown_ones_admitted() {
        use std::io::Write;
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(b"User-agent: *").unwrap();
        let packed = packed.finish().unwrap();
        assert_eq!(decoded(&packed, b"GZIP").as_deref(), Some(&b"User-agent: *"[..]));
        assert_eq!(decoded(b"x", b"").as_deref(), Some(&b"x"[..]));
        assert_eq!(decoded(b"x", b"rot13"), None);
    }
}

//! Response heads: finds where a head ends, then parses it in one go.
//!
//! Pieces of bytes flow into [`HeadReader`], a [`ResponseHead`] flows out. The reader first looks
//! for the blank line (one `memchr` pass) and then runs `httparse` once, on the whole head. To
//! parse a growing buffer again with each piece would take quadratic time on a server that sends a
//! few bytes at a time, and the verdict would depend on how the head was cut. A head that lies
//! whole in the first piece is parsed there; only split heads are collected.
//!
//! [`ResponseHead`] keeps the head's bytes as received, for the WARC record, and where the fields
//! are in them.

use super::HttpError;
use crate::base::limits::{
    HEAD_BYTES_MAX, HEADER_COUNT_MAX, HEADER_COUNT_USUAL, LEADING_BLANK_BYTES_MAX,
};
use memchr::{memchr, memchr2};
use std::mem::MaybeUninit;

const STATUS_LINE_START: &[u8] = b"HTTP/1.";
/// `HTTP/1.1 200`: everything before the reason has a fixed width.
const REASON_OFFSET: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Http10,
    Http11,
}

/// A final response's status line and header fields.
///
/// Invariant: every span lies inside `bytes`. The spans of folded values lie behind `raw_len`,
/// where the unfolded values are appended.
#[derive(Clone, Debug)]
pub struct ResponseHead {
    bytes: Vec<u8>,
    raw_len: usize,
    reason: Span,
    fields: Vec<Field>,
    status: u16,
    version: Version,
    has_spaced_names: bool,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    len: u32,
}

#[derive(Clone, Copy, Debug)]
struct Field {
    name: Span,
    value: Span,
}

impl ResponseHead {
    /// Returns the status, 100 to 999. RFC 9110 15: treat an unknown one as the x00 of its class,
    /// and one from 600 on as a server error.
    pub fn status(&self) -> u16 {
        self.status
    }

    pub fn version(&self) -> Version {
        self.version
    }

    pub fn reason(&self) -> &[u8] {
        self.reason.of(&self.bytes)
    }

    /// Returns the head as received, including its blank line.
    pub fn raw(&self) -> &[u8] {
        &self.bytes[..self.raw_len]
    }

    /// Returns the value of the first field of that name, without the blanks around it. Names
    /// ignore case.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.all(name).next()
    }

    /// Returns the value of every field of that name, in order: the lines of one list (RFC 9110
    /// 5.3).
    pub fn all<'s, 'n>(&'s self, name: &'n str) -> impl Iterator<Item = &'s [u8]> + use<'s, 'n> {
        let wanted = name.as_bytes();
        self.headers()
            .filter(move |(name, _)| name.eq_ignore_ascii_case(wanted))
            .map(|(_, value)| value)
    }

    /// Returns names and values in the order received.
    pub fn headers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|field| (field.name.of(&self.bytes), field.value.of(&self.bytes)))
    }

    /// Reports whether a name had a blank before its colon, which was removed.
    pub(super) fn has_spaced_names(&self) -> bool {
        self.has_spaced_names
    }

    /// Parses `raw`, which is one whole head, from its `H` to its blank line.
    fn parse(raw: &[u8]) -> Result<ResponseHead, HttpError> {
        let mut fields = [const { MaybeUninit::uninit() }; HEADER_COUNT_USUAL];
        match ResponseHead::parse_into(raw, &mut fields) {
            // This is rare, so the large array is allocated only here: other heads need less stack.
            Err(HttpError::TooManyHeaders) => {
                let mut fields = vec![MaybeUninit::uninit(); HEADER_COUNT_MAX];
                ResponseHead::parse_into(raw, &mut fields)
            }
            parsed => parsed,
        }
    }

    fn parse_into<'r>(
        raw: &'r [u8],
        fields: &mut [MaybeUninit<httparse::Header<'r>>],
    ) -> Result<ResponseHead, HttpError> {
        let mut response = httparse::Response::new(&mut []);
        let mut config = httparse::ParserConfig::default();
        config.allow_obsolete_multiline_headers_in_responses(true);
        // RFC 9112 5.1 has proxies remove this blank. A client may do so where it does not move the
        // end of a message: see `refuse_spaced_framing`.
        config.allow_spaces_after_header_name_in_responses(true);
        let parsed = config.parse_response_with_uninit_headers(&mut response, raw, fields)?;
        let (Some(status), Some(minor)) = (response.code, response.version) else {
            return Err(HttpError::NotHttp);
        };
        if parsed != httparse::Status::Complete(raw.len()) {
            return Err(HttpError::LineEnd);
        }
        if status < 100 {
            return Err(HttpError::Status);
        }
        let mut bytes = Vec::with_capacity(raw.len());
        bytes.extend_from_slice(raw);
        let mut spans = Vec::with_capacity(response.headers.len());
        let mut has_spaced_names = false;
        for header in response.headers.iter() {
            let name = Span::within(raw, header.name.as_bytes());
            if raw.get(name.end()) != Some(&b':') {
                refuse_spaced_framing(header.name)?;
                has_spaced_names = true;
            }
            let value = match memchr2(b'\r', b'\n', header.value) {
                None => Span::within(raw, header.value),
                Some(_) => unfold(header.value, &mut bytes),
            };
            spans.push(Field { name, value });
        }
        Ok(ResponseHead {
            bytes,
            raw_len: raw.len(),
            reason: reason_span(raw),
            fields: spans,
            status,
            version: if minor == 0 { Version::Http10 } else { Version::Http11 },
            has_spaced_names,
        })
    }
}

/// Refuses a framing field with a blank behind its name: another reader may not recognise the
/// field, and see the message end elsewhere.
fn refuse_spaced_framing(name: &str) -> Result<(), HttpError> {
    let framing = ["content-length", "transfer-encoding"];
    match framing.iter().any(|field| name.eq_ignore_ascii_case(field)) {
        true => Err(HttpError::HeaderName),
        false => Ok(()),
    }
}

impl Span {
    fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..][..self.len as usize]
    }

    fn end(self) -> usize {
        self.start as usize + self.len as usize
    }

    /// Returns where `part`, a slice of `whole`, lies in it.
    fn within(whole: &[u8], part: &[u8]) -> Span {
        let start = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
        debug_assert!(start + part.len() <= whole.len(), "part is no slice of whole");
        Span { start: start as u32, len: part.len() as u32 }
    }
}

/// Returns the span of the reason phrase. httparse gives no reason where it has bytes above ASCII;
/// we keep those bytes as they came.
fn reason_span(raw: &[u8]) -> Span {
    let line_end = memchr(b'\n', raw).unwrap_or(raw.len());
    let rest = raw.get(REASON_OFFSET..line_end).unwrap_or_default();
    Span::within(raw, rest.strip_suffix(b"\r").unwrap_or(rest).trim_ascii())
}

/// Appends `value` with each fold (RFC 9112 5.2: OWS CRLF RWS) replaced by one space.
fn unfold(value: &[u8], bytes: &mut Vec<u8>) -> Span {
    let start = bytes.len();
    for line in value.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii) {
        if !line.is_empty() && bytes.len() > start {
            bytes.push(b' ');
        }
        bytes.extend_from_slice(line);
    }
    Span { start: start as u32, len: (bytes.len() - start) as u32 }
}

/// Collects one head from pieces.
#[derive(Debug, Default)]
pub(super) struct HeadReader {
    /// The head so far, if it did not come whole in one piece.
    collected: Vec<u8>,
    line: Line,
    blank_bytes: usize,
    blank_cr: bool,
    lenient: bool,
}

/// The state of the line in which the last piece ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Line {
    #[default]
    Empty,
    OnlyCr,
    Text {
        ends_in_cr: bool,
    },
}

impl Line {
    fn then(self, more: &[u8]) -> Line {
        match (self, more) {
            (line, []) => line,
            (Line::Empty, [b'\r']) => Line::OnlyCr,
            (_, [.., last]) => Line::Text { ends_in_cr: *last == b'\r' },
        }
    }
}

impl HeadReader {
    /// Returns how many bytes of `piece` belong to the head, and the head if they complete it.
    pub(super) fn feed(
        &mut self,
        piece: &[u8],
    ) -> Result<(usize, Option<ResponseHead>), HttpError> {
        let blank_bytes = if self.collected.is_empty() { self.skip_blank(piece)? } else { 0 };
        let text = &piece[blank_bytes..];
        let room = HEAD_BYTES_MAX - self.collected.len();
        let end = self.find_end(&text[..text.len().min(room)]);
        let used = end.unwrap_or(text.len().min(room));
        if let (Some(end), true) = (end, self.collected.is_empty()) {
            check_start(&text[..end])?;
            let head = ResponseHead::parse(&text[..end])?;
            self.lenient |= head.has_spaced_names();
            return Ok((blank_bytes + end, Some(head)));
        }
        self.collected.extend_from_slice(&text[..used]);
        check_start(&self.collected)?;
        if end.is_some() {
            let head = ResponseHead::parse(&self.collected)?;
            self.lenient |= head.has_spaced_names();
            self.collected.clear();
            return Ok((blank_bytes + used, Some(head)));
        }
        if self.collected.len() == HEAD_BYTES_MAX {
            return Err(HttpError::HeadTooLarge);
        }
        Ok((blank_bytes + used, None))
    }

    /// Returns the bytes of memory held for a head that came in pieces.
    pub(super) fn held_bytes(&self) -> usize {
        self.collected.capacity()
    }

    /// Reports whether any byte of a response has arrived, even if only a blank line.
    pub(super) fn has_begun(&self) -> bool {
        !self.collected.is_empty() || self.blank_bytes > 0
    }

    /// Reports whether the head had bare LF line ends, blanks before a colon, or blank lines before
    /// it.
    pub(super) fn was_lenient(&self) -> bool {
        self.lenient || self.blank_bytes > 0
    }

    /// Skips blank lines before the status line, and returns their length in `piece`. RFC 9112 2.2
    /// has servers skip them; we do so as a client.
    fn skip_blank(&mut self, piece: &[u8]) -> Result<usize, HttpError> {
        for (index, &byte) in piece.iter().enumerate() {
            match byte {
                b'\n' => self.blank_cr = false,
                b'\r' if !self.blank_cr => self.blank_cr = true,
                _ if self.blank_cr => return Err(HttpError::LineEnd),
                _ => return Ok(index),
            }
            self.blank_bytes += 1;
            if self.blank_bytes > LEADING_BLANK_BYTES_MAX {
                return Err(HttpError::NotHttp);
            }
        }
        Ok(piece.len())
    }

    /// Returns the length of `text` up to and including the blank line that ends the head.
    fn find_end(&mut self, text: &[u8]) -> Option<usize> {
        let mut start = 0;
        while let Some(len) = memchr(b'\n', &text[start..]) {
            let line = self.line.then(&text[start..start + len]);
            self.line = Line::Empty;
            start += len + 1;
            self.lenient |= matches!(line, Line::Empty | Line::Text { ends_in_cr: false });
            if matches!(line, Line::Empty | Line::OnlyCr) {
                return Some(start);
            }
        }
        self.line = self.line.then(&text[start..]);
        None
    }
}

/// Fails at the first wrong byte, so that we do not wait for a server that speaks another protocol.
fn check_start(head: &[u8]) -> Result<(), HttpError> {
    let len = head.len().min(STATUS_LINE_START.len());
    if head[..len] != STATUS_LINE_START[..len] {
        return Err(HttpError::NotHttp);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(head: &[u8]) -> Result<ResponseHead, HttpError> {
        let (used, parsed) = HeadReader::default().feed(head)?;
        assert_eq!(used, head.len());
        parsed.ok_or(HttpError::HeadCut)
    }

    #[test]
    fn fields_are_found_by_name_in_any_case_and_in_order() {
        let raw = b"HTTP/1.1 200 OK then\r\nA: 1\r\nb:\t 2 \t\r\na: 3\r\nEmpty:\r\n\r\n";
        let head = parse(raw).unwrap();
        assert_eq!((head.status(), head.version()), (200, Version::Http11));
        assert_eq!(head.reason(), b"OK then");
        assert_eq!(head.header("B"), Some(&b"2"[..]));
        assert_eq!(head.header("empty"), Some(&b""[..]));
        assert_eq!(head.header("c"), None);
        assert_eq!(head.all("A").collect::<Vec<_>>(), [b"1", b"3"]);
        assert_eq!(head.headers().count(), 4);
        assert_eq!(head.raw(), raw);
    }

    #[test]
    fn rfc_folded_values_become_one_line_and_the_raw_head_stays() {
        let raw = b"HTTP/1.1 200 OK\r\nA: one \r\n\t two\r\n   \r\n three\r\nB: \r\n x\r\n\r\n";
        let head = parse(raw).unwrap();
        assert_eq!(head.header("a"), Some(&b"one two three"[..]));
        assert_eq!(head.header("b"), Some(&b"x"[..]));
        assert_eq!(head.raw(), raw);
    }

    #[test]
    fn reason_may_be_missing_empty_or_beyond_ascii() {
        assert_eq!(parse(b"HTTP/1.0 404\r\n\r\n").unwrap().reason(), b"");
        assert_eq!(parse(b"HTTP/1.0 404 \r\n\r\n").unwrap().reason(), b"");
        assert_eq!(parse(b"HTTP/1.0 500 \xf6h\r\n\r\n").unwrap().reason(), b"\xf6h");
    }

    #[test]
    fn broken_heads_are_refused_by_cause() {
        let cases: &[(&[u8], HttpError)] = &[
            (b"SSH-2.0-x\r\n\r\n", HttpError::NotHttp),
            (b"<html>\r\n\r\n", HttpError::NotHttp),
            (b"HTTP/2.0 200 OK\r\n\r\n", HttpError::NotHttp),
            (b"HTTP/1.7 200 OK\r\n\r\n", HttpError::Version),
            (b"HTTP/1.1 1000 OK\r\n\r\n", HttpError::Status),
            (b"HTTP/1.1 099 OK\r\n\r\n", HttpError::Status),
            (b"HTTP/1.1 2x0 OK\r\n\r\n", HttpError::Status),
            (b"HTTP/1.1 -20 OK\r\n\r\n", HttpError::Status),
            (b"HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\n", HttpError::HeaderName),
            (b"HTTP/1.1 200 OK\r\ncontent-length\t: 1\r\n\r\n", HttpError::HeaderName),
            (b"HTTP/1.1 200 OK\r\nTransfer-encoding  : x\r\n\r\n", HttpError::HeaderName),
            (b"HTTP/1.1 200 OK\r\nA B: 1\r\n\r\n", HttpError::HeaderName),
            (b"HTTP/1.1 200 OK\r\nA\x0b: 1\r\n\r\n", HttpError::HeaderName),
            (b"HTTP/1.1 200 OK\r\n : 1\r\n\r\n", HttpError::HeaderName),
            (b"HTTP/1.1 200 OK\r\nA \r\n\r\n", HttpError::HeaderName),
            (b"HTTP/1.1 200 OK\r\n: 1\r\n\r\n", HttpError::HeaderName),
            (b"HTTP/1.1 200 OK\r\n A: 1\r\n\r\n", HttpError::HeaderName),
            (b"HTTP/1.1 200 OK\r\nA: 1\rB: 2\r\n\r\n", HttpError::HeaderValue),
            (b"HTTP/1.1 200 OK\r\nA: \0\r\n\r\n", HttpError::HeaderValue),
        ];
        for (head, error) in cases {
            let found = parse(head).err();
            assert_eq!(found, Some(*error), "{}", String::from_utf8_lossy(head));
        }
    }

    #[test]
    fn another_protocol_is_refused_at_its_first_wrong_byte() {
        assert_eq!(HeadReader::default().feed(b"S").err(), Some(HttpError::NotHttp));
        let mut reader = HeadReader::default();
        assert!(reader.feed(b"HTTP/").is_ok());
        assert_eq!(reader.feed(b"3").err(), Some(HttpError::NotHttp));
    }

    #[test]
    fn head_bytes_are_bounded_to_the_byte() {
        let fill = |value_len: usize| {
            let mut head = b"HTTP/1.1 200 OK\r\nA: ".to_vec();
            head.resize(head.len() + value_len, b'x');
            head.extend_from_slice(b"\r\n\r\n");
            head
        };
        let overhead = fill(0).len();
        assert!(parse(&fill(HEAD_BYTES_MAX - overhead)).is_ok());
        let large = fill(HEAD_BYTES_MAX - overhead + 1);
        assert_eq!(HeadReader::default().feed(&large).err(), Some(HttpError::HeadTooLarge));
    }

    #[test]
    fn header_count_is_bounded() {
        let head =
            |count: usize| ["HTTP/1.1 200 OK\r\n", &"A: 1\r\n".repeat(count), "\r\n"].concat();
        assert!(parse(head(HEADER_COUNT_MAX).as_bytes()).is_ok());
        let many = head(HEADER_COUNT_MAX + 1);
        assert_eq!(parse(many.as_bytes()).err(), Some(HttpError::TooManyHeaders));
    }

    #[test]
    fn lenient_a_blank_before_a_colon_costs_neither_the_answer_nor_its_name() {
        let raw = b"HTTP/1.1 200 OK\r\nX-Sp : a\r\nY-Tab \t: b\r\nContent-Length: 1\r\n\r\n";
        for step in [raw.len(), 1, 7] {
            let (mut reader, mut found) = (HeadReader::default(), None);
            for piece in raw.chunks(step) {
                found = reader.feed(piece).unwrap().1.or(found);
            }
            let head = found.expect("the pieces are one whole head");
            assert_eq!(head.header("x-sp"), Some(&b"a"[..]));
            assert_eq!(head.header("y-tab"), Some(&b"b"[..]));
            assert_eq!(head.raw(), raw, "the raw head keeps its blanks");
            assert!(reader.was_lenient(), "a lenient head must not leave its connection reusable");
        }
    }

    #[test]
    fn a_head_of_150_fields_is_read_whole() {
        let lines: String = (0..150).map(|number| format!("X-{number}: {number}\r\n")).collect();
        let head = parse(format!("HTTP/1.1 200 OK\r\n{lines}\r\n").as_bytes()).unwrap();
        assert_eq!(head.headers().count(), 150);
        assert_eq!(head.header("X-149"), Some(&b"149"[..]));
    }

    #[test]
    fn lenient_bare_lf_and_leading_blank_lines_are_read_and_noted() {
        for (head, lenient) in [
            (&b"HTTP/1.1 200 OK\r\nA: 1\r\n\r\n"[..], false),
            (b"HTTP/1.1 200 OK\nA: 1\n\n", true),
            (b"HTTP/1.1 200 OK\r\nA: 1\r\n\n", true),
            (b"\r\nHTTP/1.1 200 OK\r\nA: 1\r\n\r\n", true),
        ] {
            let mut reader = HeadReader::default();
            let parsed = reader.feed(head).unwrap().1.unwrap();
            assert_eq!(parsed.header("a"), Some(&b"1"[..]));
            assert!(parsed.raw().starts_with(b"HTTP"));
            assert_eq!(reader.was_lenient(), lenient);
        }
    }
}

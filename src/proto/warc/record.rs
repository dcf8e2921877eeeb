//! Records to be written: the fields of each kind, and the writer that turns one into a gzip
//! member.
//!
//! A response's block is written as the caller gives it: `fetch` has removed the transfer coding,
//! and changed the head's framing fields accordingly. The payload digest is over the body without
//! transfer coding, so equal payloads are found however they were chunked. A revisit's block is
//! only the head.

use super::digest::{self, Sha1};
use super::gzip;
use crate::base::{WallTime, text};
use crate::proto::url::Url;
use flate2::Compress;
use std::fmt;
use std::net::IpAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordKind {
    Warcinfo,
    Request,
    Response,
    Revisit,
    Metadata,
}

impl RecordKind {
    pub fn name(self) -> &'static str {
        match self {
            RecordKind::Warcinfo => "warcinfo",
            RecordKind::Request => "request",
            RecordKind::Response => "response",
            RecordKind::Revisit => "revisit",
            RecordKind::Metadata => "metadata",
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            RecordKind::Warcinfo | RecordKind::Metadata => "application/warc-fields",
            RecordKind::Request => "application/http; msgtype=request",
            RecordKind::Response | RecordKind::Revisit => "application/http; msgtype=response",
        }
    }
}

/// Why a block ends before the response did (WARC 1.1, WARC-Truncated).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Truncated {
    Length,
    Time,
    Disconnect,
    /// The framing was broken, so what came behind the block could not be distinguished from it.
    Unspecified,
}

impl Truncated {
    pub fn name(self) -> &'static str {
        match self {
            Truncated::Length => "length",
            Truncated::Time => "time",
            Truncated::Disconnect => "disconnect",
            Truncated::Unspecified => "unspecified",
        }
    }
}

/// A field of our own: how many links of the page were not followed. An index that was lost in a
/// crash is rebuilt from it.
pub const LINKS_LEFT_OUT: &str = "Nephila-Links-Left-Out";

/// A record's identifier, printed as `<urn:uuid:...>`: a version 4 UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordId(u128);

impl RecordId {
    /// Makes an identifier from random bits. RFC 9562 5.4: 122 random bits, and six that mark
    /// version and variant.
    pub fn from_random(high: u64, low: u64) -> RecordId {
        let bits = u128::from(high) << 64 | u128::from(low);
        let version = bits & !(0xf << 76) | 0x4 << 76;
        RecordId(version & !(0x3 << 62) | 0x2 << 62)
    }
}

impl RecordId {
    fn push(self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"<urn:uuid:");
        text::push_hex(out, self.0 >> 96, 8);
        for (shift, digits) in [(80, 4), (64, 4), (48, 4), (0, 12)] {
            out.push(b'-');
            text::push_hex(out, self.0 >> shift, digits);
        }
        out.push(b'>');
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        self.push(&mut text);
        out.write_str(&String::from_utf8_lossy(&text))
    }
}

/// The first copy of a payload, which a revisit names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefersTo<'a> {
    pub url: &'a str,
    pub at: WallTime,
}

/// One record before it is written. The constructors set what each kind needs; the other public
/// fields are set if their values are known.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    pub kind: RecordKind,
    pub id: RecordId,
    pub at: WallTime,
    pub target: Option<&'a Url>,
    pub address: Option<IpAddr>,
    pub concurrent_to: Option<RecordId>,
    pub refers_to: Option<RefersTo<'a>>,
    pub payload_digest: Option<Sha1>,
    pub truncated: Option<Truncated>,
    /// The number of links of the page beyond those that were followed.
    pub links_left_out: u32,
    /// The name of the file that a warcinfo begins.
    pub filename: Option<&'a str>,
    /// The block, in pieces.
    pub block: &'a [&'a [u8]],
    /// The body has a content coding already, so the record is never deflated.
    pub content_coded: bool,
}

impl<'a> Record<'a> {
    /// Makes a file's first record, which describes the crawl in `name: value` lines.
    pub fn warcinfo(id: RecordId, at: WallTime, fields: &'a [&'a [u8]]) -> Record<'a> {
        Record::new(RecordKind::Warcinfo, id, at, None, fields)
    }

    pub fn request(
        id: RecordId,
        at: WallTime,
        target: &'a Url,
        block: &'a [&'a [u8]],
    ) -> Record<'a> {
        Record::new(RecordKind::Request, id, at, Some(target), block)
    }

    /// Makes a response. `block` is its head and body; `payload` is the digest of the body without
    /// its transfer coding.
    pub fn response(
        id: RecordId,
        at: WallTime,
        target: &'a Url,
        payload: Sha1,
        block: &'a [&'a [u8]],
    ) -> Record<'a> {
        let record = Record::new(RecordKind::Response, id, at, Some(target), block);
        Record { payload_digest: Some(payload), ..record }
    }

    /// Makes a response whose payload is stored elsewhere: `block` is its head alone.
    pub fn revisit(
        id: RecordId,
        at: WallTime,
        target: &'a Url,
        payload: Sha1,
        refers_to: RefersTo<'a>,
        block: &'a [&'a [u8]],
    ) -> Record<'a> {
        let record = Record::new(RecordKind::Revisit, id, at, Some(target), block);
        Record { payload_digest: Some(payload), refers_to: Some(refers_to), ..record }
    }

    /// Makes a record of what was found out about the response `about`, in `name: value` lines.
    pub fn metadata(
        id: RecordId,
        at: WallTime,
        target: &'a Url,
        about: RecordId,
        fields: &'a [&'a [u8]],
    ) -> Record<'a> {
        let record = Record::new(RecordKind::Metadata, id, at, Some(target), fields);
        Record { concurrent_to: Some(about), ..record }
    }

    fn new(
        kind: RecordKind,
        id: RecordId,
        at: WallTime,
        target: Option<&'a Url>,
        block: &'a [&'a [u8]],
    ) -> Record<'a> {
        Record {
            kind,
            id,
            at,
            target,
            address: None,
            concurrent_to: None,
            refers_to: None,
            payload_digest: None,
            truncated: None,
            links_left_out: 0,
            filename: None,
            block,
            content_coded: false,
        }
    }
}

/// Appends records to buffers. It is reused from record to record for its deflate context and its
/// header buffer.
pub struct RecordWriter {
    /// `None` at level 0, where members are stored.
    compress: Option<Compress>,
    response_block_digest: bool,
    header: Vec<u8>,
    warcinfo: Option<RecordId>,
}

impl RecordWriter {
    /// Makes a writer. `deflate_level` 0 stores, 1 to 9 deflate. A block digest over a whole
    /// response is a second SHA-1 pass over the body (15 us for a 25 KB page) and adds little to
    /// the payload digest and the member's CRC, so it is off by default; the small blocks always
    /// have one.
    pub fn new(deflate_level: u8, response_block_digest: bool) -> RecordWriter {
        assert!(deflate_level <= 9, "deflate levels are 0 to 9");
        let compress = (deflate_level > 0).then(|| gzip::deflate_context(deflate_level));
        RecordWriter { compress, response_block_digest, header: Vec::new(), warcinfo: None }
    }

    /// Appends `record` as one gzip member and returns the member's length. All later records of
    /// this writer name the last warcinfo.
    ///
    /// Panics if a target or file name has a line break: both come from us, and a [`Url`] has none.
    pub fn append(&mut self, out: &mut Vec<u8>, record: &Record<'_>) -> u64 {
        if record.kind == RecordKind::Warcinfo {
            self.warcinfo = None;
        }
        self.write_header(record);
        if record.kind == RecordKind::Warcinfo {
            self.warcinfo = Some(record.id);
        }
        let start = out.len();
        let mut pieces = Pieces::new();
        pieces.push(&self.header);
        record.block.iter().for_each(|piece| pieces.push(piece));
        pieces.push(b"\r\n\r\n");
        match &mut self.compress {
            Some(compress) if !record.content_coded => {
                gzip::append_deflated(out, compress, pieces.as_slice());
            }
            _ => gzip::append_stored(out, pieces.as_slice()),
        }
        (out.len() - start) as u64
    }

    fn write_header(&mut self, record: &Record<'_>) {
        let header = &mut self.header;
        header.clear();
        header.extend_from_slice(b"WARC/1.1\r\n");
        field(header, "WARC-Type", record.kind.name());
        id_field(header, "WARC-Record-ID", record.id);
        date_field(header, "WARC-Date", record.at);
        if let Some(target) = record.target {
            field(header, "WARC-Target-URI", target.as_str());
        }
        if let Some(filename) = record.filename {
            field(header, "WARC-Filename", filename);
        }
        if let Some(address) = record.address {
            pushed_field(header, "WARC-IP-Address", |out| text::push_address(out, address));
        }
        if let Some(other) = record.concurrent_to {
            id_field(header, "WARC-Concurrent-To", other);
        }
        if let Some(warcinfo) = self.warcinfo {
            id_field(header, "WARC-Warcinfo-ID", warcinfo);
        }
        if let Some(original) = record.refers_to {
            field(header, "WARC-Profile", REVISIT_PROFILE);
            field(header, "WARC-Refers-To-Target-URI", original.url);
            date_field(header, "WARC-Refers-To-Date", original.at);
        }
        if let Some(truncated) = record.truncated {
            field(header, "WARC-Truncated", truncated.name());
        }
        if record.links_left_out > 0 {
            pushed_field(header, LINKS_LEFT_OUT, |out| {
                text::push_number(out, record.links_left_out.into());
            });
        }
        if let Some(payload) = &record.payload_digest {
            digest_field(header, "WARC-Payload-Digest", payload);
        }
        if record.kind != RecordKind::Response || self.response_block_digest {
            digest_field(header, "WARC-Block-Digest", &block_digest(record.block));
        }
        field(header, "Content-Type", record.kind.content_type());
        let block_len: usize = record.block.iter().map(|piece| piece.len()).sum();
        header.extend_from_slice(b"Content-Length: ");
        text::push_number(header, block_len as u64);
        header.extend_from_slice(b"\r\n\r\n");
    }
}

const REVISIT_PROFILE: &str = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest";

/// A record's pieces between its header and its end. Blocks of up to six pieces need no allocation.
struct Pieces<'a> {
    few: [&'a [u8]; 8],
    count: usize,
    many: Vec<&'a [u8]>,
}

impl<'a> Pieces<'a> {
    fn new() -> Pieces<'a> {
        Pieces { few: [&[]; 8], count: 0, many: Vec::new() }
    }

    fn push(&mut self, piece: &'a [u8]) {
        if self.many.is_empty() && self.count < self.few.len() {
            self.few[self.count] = piece;
            self.count += 1;
            return;
        }
        if self.many.is_empty() {
            self.many.extend_from_slice(&self.few);
        }
        self.many.push(piece);
    }

    fn as_slice(&self) -> &[&'a [u8]] {
        if self.many.is_empty() { &self.few[..self.count] } else { &self.many }
    }
}

fn block_digest(block: &[&[u8]]) -> Sha1 {
    let mut digest = digest::PayloadDigest::new();
    block.iter().for_each(|piece| digest.update(piece));
    digest.finish()
}

fn field(header: &mut Vec<u8>, name: &str, value: &str) {
    assert!(memchr::memchr2(b'\r', b'\n', value.as_bytes()).is_none(), "line break in {name}");
    pushed_field(header, name, |header| header.extend_from_slice(value.as_bytes()));
}

fn id_field(header: &mut Vec<u8>, name: &str, id: RecordId) {
    pushed_field(header, name, |header| id.push(header));
}

fn date_field(header: &mut Vec<u8>, name: &str, at: WallTime) {
    pushed_field(header, name, |header| text::push_date(header, at));
}

fn digest_field(header: &mut Vec<u8>, name: &str, value: &Sha1) {
    pushed_field(header, name, |header| digest::push_labelled(header, value));
}

/// Appends a field whose value cannot have a line break.
fn pushed_field(header: &mut Vec<u8>, name: &str, push: impl FnOnce(&mut Vec<u8>)) {
    header.extend_from_slice(name.as_bytes());
    header.extend_from_slice(b": ");
    push(header);
    header.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::warc::{PayloadDigest, records};

    const AT: WallTime = WallTime(1_767_225_599_000_000_000);

    fn id(n: u64) -> RecordId {
        RecordId::from_random(n, n)
    }

    #[test]
    fn rfc_9562_record_ids_carry_version_and_variant() {
        let all = RecordId::from_random(u64::MAX, u64::MAX).to_string();
        assert_eq!(all, "<urn:uuid:ffffffff-ffff-4fff-bfff-ffffffffffff>");
        let none = RecordId::from_random(0, 0).to_string();
        assert_eq!(none, "<urn:uuid:00000000-0000-4000-8000-000000000000>");
        let some = RecordId::from_random(0x0123456789abcdef, 0x1122334455667788).to_string();
        assert_eq!(some, "<urn:uuid:01234567-89ab-4def-9122-334455667788>");
    }

    #[test]
    fn a_revisit_names_its_profile_and_its_original() {
        let url = Url::parse("http://a.example/two").unwrap();
        let original = RefersTo { url: "http://a.example/one", at: WallTime(0) };
        let head: &[&[u8]] = &[b"HTTP/1.1 200 OK\r\n\r\n"];
        let mut out = Vec::new();
        let payload = PayloadDigest::of(b"abc");
        let record = Record::revisit(id(1), AT, &url, payload, original, head);
        RecordWriter::new(0, false).append(&mut out, &record);
        let stored = records(&out).next().unwrap().unwrap();
        let header = |name| stored.header(name).unwrap();
        assert_eq!(header("WARC-Type"), "revisit");
        assert_eq!(header("WARC-Profile"), REVISIT_PROFILE);
        assert_eq!(header("WARC-Refers-To-Target-URI"), "http://a.example/one");
        assert_eq!(header("WARC-Refers-To-Date"), "1970-01-01T00:00:00Z");
        assert_eq!(header("WARC-Date"), "2025-12-31T23:59:59Z");
        assert_eq!(header("Content-Length"), "19");
        assert_eq!(header("WARC-Payload-Digest"), "sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5");
    }

    #[test]
    fn records_name_the_warcinfo_of_their_own_file() {
        let url = Url::parse("http://a.example/").unwrap();
        let mut writer = RecordWriter::new(0, false);
        let mut out = Vec::new();
        for file in [1, 2] {
            writer.append(&mut out, &Record::warcinfo(id(file), AT, &[]));
            writer.append(&mut out, &Record::request(id(9), AT, &url, &[]));
        }
        let named: Vec<_> = records(&out)
            .map(|record| record.unwrap().header("WARC-Warcinfo-ID").map(str::to_owned))
            .collect();
        assert_eq!(named, [None, Some(id(1).to_string()), None, Some(id(2).to_string())]);
    }

    #[test]
    fn coded_bodies_are_stored_even_where_records_are_deflated() {
        let url = Url::parse("http://a.example/").unwrap();
        let body = b"would deflate very well ".repeat(100);
        let block: &[&[u8]] = &[b"HTTP/1.1 200 OK\r\n\r\n", &body];
        let record = Record::response(id(1), AT, &url, PayloadDigest::of(&body), block);
        let mut writer = RecordWriter::new(6, false);
        let plain = writer.append(&mut Vec::new(), &record);
        let coded = writer.append(&mut Vec::new(), &Record { content_coded: true, ..record });
        assert!(plain < 700 && coded > body.len() as u64);
    }

    #[test]
    fn blocks_of_many_pieces_are_whole() {
        let fields: Vec<Vec<u8>> = (0..40).map(|n| format!("f{n}: v\r\n").into_bytes()).collect();
        let pieces: Vec<&[u8]> = fields.iter().map(Vec::as_slice).collect();
        for count in [0, 5, 6, 7, 40] {
            let mut out = Vec::new();
            let record = Record::warcinfo(id(1), AT, &pieces[..count]);
            RecordWriter::new(0, false).append(&mut out, &record);
            let stored = records(&out).next().unwrap().unwrap();
            assert_eq!(stored.block(), pieces[..count].concat());
            stored.verify().unwrap();
        }
    }

    #[test]
    #[should_panic(expected = "line break in WARC-Refers-To-Target-URI")]
    fn a_line_break_never_reaches_a_header() {
        let url = Url::parse("http://a.example/").unwrap();
        let original = RefersTo { url: "http://a.example/\r\nWARC-Type: x", at: AT };
        let record = Record::revisit(id(1), AT, &url, [0; 20], original, &[]);
        RecordWriter::new(0, false).append(&mut Vec::new(), &record);
    }
}

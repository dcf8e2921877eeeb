//! What was received is read back from the archive bit by bit, by our reader and by others.

#[path = "support/corpus.rs"]
mod corpus;

use flate2::read::MultiGzDecoder;
use nephila::base::WallTime;
use nephila::proto::url::Url;
use nephila::proto::warc::{
    PayloadDigest, ReadError, Reader, Record, RecordId, RecordKind, RecordWriter, RefersTo,
    StoredRecord, Truncated, records, surt,
};
use std::io::{Read, Write};
use std::process::{Command, Stdio};

const AT: WallTime = WallTime(1_767_225_599_000_000_000);

const TRAILERS: &str = "X-Trailer: t\r\n";

/// An xorshift generator, which gives the same numbers in every run.
struct Seeded(u64);

impl Seeded {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn id(&mut self) -> RecordId {
        RecordId::from_random(self.next(), self.next())
    }
}

/// A response before it is written: head, body as received, and the payload inside the body.
struct Response {
    url: Url,
    head: Vec<u8>,
    body: Vec<u8>,
    payload: Vec<u8>,
    truncated: Option<Truncated>,
    coded: bool,
}

/// Returns the responses. Every second one is chunked and ends with `trailers`; if that is `None`,
/// none is chunked.
fn responses(trailers: Option<&str>) -> Vec<Response> {
    let mut seeded = Seeded(0x9e37_79b9_7f4a_7c15);
    let mut all = Vec::new();
    let lens = [0, 1, 2_000, 65_000, 65_535, 65_536, 200_000, 300, 40_000, 7, 25_000, 131_070];
    for (n, len) in lens.into_iter().enumerate() {
        let words: Vec<u8> = (0..len).map(|_| b"web of words, "[seeded.below(14)]).collect();
        let url = Url::parse(&format!("http://www.h{n}.example/p/{len}?b={n}&a")).unwrap();
        let mut head = format!("HTTP/1.1 200 OK\r\nServer: s{n}\r\nContent-Type: text/html\r\n");
        let truncated = match n {
            6 | 7 => Some(Truncated::Length),
            8 => Some(Truncated::Time),
            9 => Some(Truncated::Disconnect),
            _ => None,
        };
        let (mut body, mut payload) = (words.clone(), words);
        if let Some(trailers) = trailers.filter(|_| n % 2 == 1) {
            head.push_str("Transfer-Encoding: chunked\r\n\r\n");
            body = chunks(&payload, trailers, &mut seeded);
            if truncated.is_some() {
                // The body is cut inside the data of the first chunk.
                let start = body.iter().position(|byte| *byte == b'\n').unwrap() + 1;
                let kept = (body.len() - start).min(3);
                body.truncate(start + kept);
                payload.truncate(kept);
            }
        } else {
            head.push_str(&format!("Content-Length: {len}\r\n\r\n"));
        }
        let coded = n % 5 == 4;
        all.push(Response { url, head: head.into(), body, payload, truncated, coded });
    }
    all
}

fn chunks(payload: &[u8], trailers: &str, seeded: &mut Seeded) -> Vec<u8> {
    let mut body = Vec::new();
    let mut rest = payload;
    while !rest.is_empty() {
        let len = (1 + seeded.below(9_000)).min(rest.len());
        let extension = if seeded.below(3) == 0 { ";name=\"v\"" } else { "" };
        write!(body, "{len:x}{extension}\r\n").unwrap();
        body.extend_from_slice(&rest[..len]);
        body.extend_from_slice(b"\r\n");
        rest = &rest[len..];
    }
    write!(body, "0\r\n{trailers}\r\n").unwrap();
    body
}

/// Writes a file with all kinds of records.
fn archive(level: u8, block_digest: bool, responses: &[Response]) -> Vec<u8> {
    let mut seeded = Seeded(77);
    let mut writer = RecordWriter::new(level, block_digest);
    let mut out = Vec::new();
    let fields: &[&[u8]] = &[b"software: nephila\r\n", b"format: WARC File Format 1.1\r\n"];
    let info = Record::warcinfo(seeded.id(), AT, fields);
    writer.append(&mut out, &Record { filename: Some("a.warc.gz"), ..info });
    for response in responses {
        let id = seeded.id();
        let digest = PayloadDigest::of(&response.payload);
        let block: &[&[u8]] = &[&response.head, &response.body];
        let record = Record {
            address: Some([192, 0, 2, 1].into()),
            truncated: response.truncated,
            content_coded: response.coded,
            ..Record::response(id, AT, &response.url, digest, block)
        };
        let before = out.len();
        assert_eq!(writer.append(&mut out, &record), (out.len() - before) as u64);
        let request: &[&[u8]] = &[b"GET / HTTP/1.1\r\n", b"Host: x\r\n\r\n"];
        let request = Record::request(seeded.id(), AT, &response.url, request);
        writer.append(&mut out, &Record { concurrent_to: Some(id), ..request });
        let original = RefersTo { url: response.url.as_str(), at: AT };
        let head: &[&[u8]] = &[&response.head];
        let revisit = Record::revisit(seeded.id(), AT, &response.url, digest, original, head);
        writer.append(&mut out, &revisit);
        let fields: &[&[u8]] = &[b"fetchTimeMs: 7\r\n"];
        writer.append(&mut out, &Record::metadata(seeded.id(), AT, &response.url, id, fields));
    }
    out
}

fn read_in_pieces(file: &[u8], mut piece_len: impl FnMut() -> usize) -> Vec<StoredRecord> {
    let mut reader = Reader::new();
    let mut all = Vec::new();
    let mut rest = file;
    while !rest.is_empty() {
        let (mut piece, later) = rest.split_at(piece_len().min(rest.len()));
        rest = later;
        while !piece.is_empty() {
            let (taken, record) = reader.feed(piece).unwrap();
            piece = &piece[taken..];
            all.extend(record);
        }
    }
    reader.finish().unwrap();
    assert_eq!(reader.whole_through(), file.len() as u64);
    all
}

#[test]
fn every_kind_of_record_is_read_back_as_written() {
    let responses = responses(Some(TRAILERS));
    for (level, block_digest) in [(0, false), (0, true), (1, false), (6, true), (9, false)] {
        let file = archive(level, block_digest, &responses);
        let all: Vec<_> = records(&file).map(Result::unwrap).collect();
        assert_eq!(all.len(), 1 + 4 * responses.len());
        all.iter().for_each(|record| record.verify().unwrap());
        assert_eq!(all[0].kind(), RecordKind::Warcinfo.name());
        for (four, response) in all[1..].chunks(4).zip(&responses) {
            let kinds: Vec<_> = four.iter().map(StoredRecord::kind).collect();
            assert_eq!(kinds, ["response", "request", "revisit", "metadata"]);
            assert_eq!(four[0].http(), (&response.head[..], &response.body[..]));
            assert!(four[0].payload() == response.payload);
            assert_eq!(four[0].header("WARC-Block-Digest").is_some(), block_digest);
            let truncated = response.truncated.map(Truncated::name);
            assert_eq!(four[0].header("WARC-Truncated"), truncated);
            assert_eq!(four[0].header("WARC-IP-Address"), Some("192.0.2.1"));
            assert_eq!(four[0].header("WARC-Target-URI"), Some(response.url.as_str()));
            assert_eq!(four[0].http_status(), Some(200));
            assert_eq!(four[0].http_media_type(), "text/html");
            assert_eq!(four[1].header("WARC-Concurrent-To"), four[0].header("WARC-Record-ID"));
            assert_eq!(four[2].block(), response.head);
        }
    }
}

#[test]
fn offsets_and_lengths_tile_the_file() {
    let file = archive(6, false, &responses(Some(TRAILERS)));
    let mut end = 0;
    for record in records(&file).map(Result::unwrap) {
        assert_eq!(record.offset, end);
        end += record.length;
        let member = &file[record.offset as usize..end as usize];
        let alone: Vec<_> = records(member).map(Result::unwrap).collect();
        assert_eq!(alone[0].block(), record.block());
    }
    assert_eq!(end, file.len() as u64);
}

#[test]
fn the_reader_gives_the_same_records_for_any_pieces() {
    let mut responses = responses(Some(TRAILERS));
    responses.retain(|response| response.body.len() < 70_000);
    for level in [0, 6] {
        let file = archive(level, false, &responses);
        let whole: Vec<_> = records(&file).map(Result::unwrap).collect();
        assert!(read_in_pieces(&file, || 1) == whole);
        for seed in 1..20 {
            let mut seeded = Seeded(seed);
            assert!(read_in_pieces(&file, || 1 + seeded.below(1 << (seed % 17))) == whole);
        }
    }
}

#[test]
fn a_torn_file_is_whole_up_to_its_last_whole_record() {
    let file = archive(0, false, &responses(Some(TRAILERS))[..3]);
    let ends: Vec<u64> =
        records(&file).map(Result::unwrap).map(|record| record.offset + record.length).collect();
    for cut in 0..file.len() {
        let mut reader = Reader::new();
        let mut rest = &file[..cut];
        while !rest.is_empty() {
            let (taken, _) = reader.feed(rest).unwrap();
            rest = &rest[taken..];
        }
        let whole = ends.iter().rev().find(|end| **end <= cut as u64).copied().unwrap_or(0);
        assert_eq!(reader.whole_through(), whole);
        let torn = if whole == cut as u64 { Ok(()) } else { Err(ReadError::Torn) };
        assert_eq!(reader.finish(), torn, "cut at {cut}");
    }
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    let file = archive(0, false, &responses(Some(TRAILERS))[1..2]);
    let good: Vec<_> = records(&file).map(Result::unwrap).collect();
    for at in 0..file.len() {
        let mut bad = file.clone();
        bad[at] ^= 1 << (at % 8);
        let read: Result<Vec<_>, _> = records(&bad).collect();
        // gzip's time, hint and system bytes have no meaning and no checksum. A header flag that is
        // set wrongly shifts the data, so what follows reveals it.
        if let Ok(read) = read {
            assert!(read == good, "bit flipped at {at} went unseen");
        }
    }
}

#[test]
fn a_wrong_digest_is_found() {
    let url = Url::parse("http://a.example/").unwrap();
    let block: &[&[u8]] = &[b"HTTP/1.1 200 OK\r\n\r\n", b"body"];
    let id = RecordId::from_random(1, 2);
    let mut out = Vec::new();
    let record = Record::response(id, AT, &url, PayloadDigest::of(b"other"), block);
    RecordWriter::new(0, true).append(&mut out, &record);
    let stored = records(&out).next().unwrap().unwrap();
    assert_eq!(stored.verify(), Err(ReadError::PayloadDigest));
}

#[test]
fn an_independent_decoder_reads_our_members() {
    for level in [0, 6] {
        let file = archive(level, false, &responses(Some(TRAILERS)));
        let mut text = Vec::new();
        MultiGzDecoder::new(&file[..]).read_to_end(&mut text).unwrap();
        let count = memchr::memmem::find_iter(&text, b"WARC/1.1\r\nWARC-Type: ").count();
        assert_eq!(count, records(&file).count());
        let blocks: usize = records(&file).map(|record| record.unwrap().block().len()).sum();
        assert!(text.len() > blocks);
    }
}

/// A Python that can import `module`, or `None`.
fn python_with(module: &str) -> Option<String> {
    let python = std::env::var("NEPHILA_PYTHON").unwrap_or("python3".into());
    let import = Command::new(&python).args(["-c", &format!("import {module}")]).output();
    let is_there = import.is_ok_and(|output| output.status.success());
    corpus::note(&format!("a Python that has {module} (NEPHILA_PYTHON), at all"), is_there);
    is_there.then_some(python)
}

fn run_python(python: &str, script: &str, argument: &str, input: &[u8]) -> String {
    let mut child = Command::new(python)
        .args(["-c", script, argument])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let feeder = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn warcio_reads_and_checks_our_files() {
    let Some(python) = python_with("warcio") else { return };
    let dir = tempfile::tempdir().unwrap();
    for level in [0, 6] {
        // warcio computes digests of bodies with their transfer coding, against WARC 1.1, so its
        // own check can only pass if there is none.
        let plain = dir.path().join(format!("plain-{level}.warc.gz"));
        std::fs::write(&plain, archive(level, true, &responses(None))).unwrap();
        let check = Command::new(&python)
            .args(["-c", "from warcio.cli import main; main()", "check", "-v"])
            .arg(&plain)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&check.stdout).into_owned();
        assert!(check.status.success(), "{said}");
        assert!(said.contains("digest pass") && !said.contains("failed"), "{said}");

        // warcio does not know trailers either.
        let responses = responses(Some(""));
        let chunked = dir.path().join(format!("chunked-{level}.warc.gz"));
        std::fs::write(&chunked, archive(level, false, &responses)).unwrap();
        let listed = run_python(&python, LIST_PAYLOADS, chunked.to_str().unwrap(), b"");
        let expected: String = responses
            .iter()
            .filter(|response| response.truncated.is_none())
            .map(|response| {
                let mut line = format!("{} {} ", response.url, response.payload.len()).into_bytes();
                line.extend(nephila::proto::warc::digest::base32(&PayloadDigest::of(
                    &response.payload,
                )));
                String::from_utf8(line).unwrap() + "\n"
            })
            .collect();
        assert_eq!(listed, expected);
    }
}

const LIST_PAYLOADS: &str = "
import sys, hashlib, base64
from warcio.archiveiterator import ArchiveIterator
for record in ArchiveIterator(open(sys.argv[1], 'rb')):
    headers = record.rec_headers
    if record.rec_type == 'response' and not headers.get_header('WARC-Truncated'):
        payload = record.content_stream().read()
        digest = base64.b32encode(hashlib.sha1(payload).digest()).decode()
        assert headers.get_header('WARC-Payload-Digest') == 'sha1:' + digest
        print(headers.get_header('WARC-Target-URI'), len(payload), digest)
";

#[test]
fn keys_of_real_urls_are_those_of_the_surt_package() {
    let Some(python) = python_with("surt") else { return };
    let list = std::fs::read(corpus::find("urls/real-urls.txt").path).expect("a file reads");
    let list = String::from_utf8_lossy(&list);
    let urls: Vec<Url> = list.lines().filter_map(|line| Url::parse(line).ok()).collect();
    let input: String = urls.iter().map(|url| format!("{url}\n")).collect();
    let script = "import sys\nfrom surt import surt\nfor l in sys.stdin: print(surt(l.rstrip()))";
    let theirs = run_python(&python, script, "", input.as_bytes());
    assert_eq!(theirs.lines().count(), urls.len());
    for (url, theirs) in urls.iter().zip(theirs.lines()) {
        let mut ours = Vec::new();
        surt::push_key(&mut ours, url);
        assert_eq!(String::from_utf8_lossy(&ours), theirs, "{url}");
    }
}

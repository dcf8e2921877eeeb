//! HTTP: responses cut anywhere, bodies compared with the archive's own dechunker, codings compared
//! with their reference decoders, and the small field values.

use crate::dice::Dice;
use crate::engine::{Target, corpus, scale, texts};
use nephila::base::WallTime;
use nephila::base::limits::{DECODE_SCRATCH_BYTES, HEAD_BYTES_MAX, HEADER_COUNT_MAX};
use nephila::proto::http::{
    ContentType, DecodeError, DecoderPool, Event, HttpError, Method, ResponseReader, RetryAfter,
    header_links, parse_date,
};
use nephila::proto::url::Url;
use nephila::proto::warc::{PayloadDigest, Record, RecordId, RecordWriter, records};
use std::io::{Read, Write};

#[rustfmt::skip]
const WORDS: &[&[u8]] = &[
    b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 200 OK\r\n", b"HTTP/1.1 204 x\r\n", b"HTTP/1.1 304\r\n",
    b"HTTP/1.1 100 x\r\n\r\n", b"HTTP/1.1 ", b"Content-Length: 5\r\n", b"Content-Length: ", b"-5",
    b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n", b"chunked", b", ",
    b"Connection: close\r\n", b"Connection: keep-alive\r\n", b"A: b\r\n", b" fold\r\n",
    b"A : b\r\n", b"\r\n", b"\r\n\r\n", b"\n", b"\n\n", b"\r", b"5\r\nhello\r\n",
    b"5;e=\"x\"\r\nhello\r\n", b"0\r\n\r\n", b"0\r\nT: t\r\n\r\n", b"ffffffffffffffff\r\n",
    b"10000000000000000\r\n", b"0x5", b"hello", b" ", b":", b";", b"\t", b"\0", b"\xff",
];

fn responses() -> Vec<Vec<u8>> {
    let mut seeds = texts(&[
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 404 Not Found\r\nConnection: keep-alive\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nA: 1\r\n 2\r\nContent-Length: 2, 2\r\n\r\nok",
    ]);
    for file in corpus("http-responses", usize::MAX) {
        let text = String::from_utf8_lossy(&file).into_owned();
        let blocks = text.split("```http\n").skip(1).filter_map(|rest| rest.split("```").next());
        seeds.extend(blocks.map(|block| block.replace('\n', "\r\n").into_bytes()));
    }
    seeds
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Reading {
    head: Option<Vec<u8>>,
    body: Vec<u8>,
    fed: Result<(), HttpError>,
    closed: Result<(), HttpError>,
    is_reusable: bool,
}

fn read(pieces: &[&[u8]], method: Method) -> Reading {
    let mut reader = ResponseReader::new(method);
    let mut body = Vec::new();
    let fed = pieces.iter().try_for_each(|piece| feed(&mut reader, piece, &mut body));
    let is_reusable = reader.is_reusable();
    let closed = reader.eof();
    assert_eq!(reader.body_bytes(), body.len() as u64);
    if let Some(head) = reader.head() {
        assert!(head.raw().len() <= HEAD_BYTES_MAX && head.headers().count() <= HEADER_COUNT_MAX);
        let has_line_end = |text: &[u8]| text.iter().any(|byte| matches!(byte, b'\r' | b'\n'));
        assert!(!head.headers().any(|(name, value)| has_line_end(name) || has_line_end(value)));
    }
    let head = reader.head().map(|head| head.raw().to_vec());
    Reading { head, body, fed, closed, is_reusable }
}

fn feed(reader: &mut ResponseReader, piece: &[u8], body: &mut Vec<u8>) -> Result<(), HttpError> {
    let mut rest = piece;
    loop {
        let (used, event) = reader.feed(rest)?;
        rest = &rest[used..];
        match event {
            Event::NeedMore => {
                assert!(rest.is_empty(), "NeedMore uses all input");
                return Ok(());
            }
            Event::Head => {}
            Event::Body(piece) => body.extend_from_slice(piece),
            Event::End => return Ok(()),
        }
    }
}

#[test]
fn any_response_reads_the_same_in_any_cut() {
    let target = Target {
        name: "http::any_response_reads_the_same_in_any_cut",
        words: WORDS,
        seeds: responses(),
        input_bytes_max: 6_000,
        input_count: 8_000,
    };
    target.run(|input| {
        let mut dice = Dice::of(input);
        let method = if dice.one_in(10) { Method::Head } else { Method::Get };
        let whole = read(&[input], method);
        assert_eq!(read(&dice.cut(input), method), whole);
        assert!(whole.fed.is_ok() || whole.closed == whole.fed);
        assert!(!whole.is_reusable || whole.closed.is_ok());
        if whole.is_reusable {
            let longer = [input, b"H"].concat();
            assert!(
                !read(&[&longer], method).is_reusable,
                "a connection with a byte after the response cannot be reused"
            );
        }
        let has_status =
            |status: &[u8]| whole.head.as_ref().is_some_and(|head| &head[9..12] == status);
        let may_have_body = method == Method::Get && !has_status(b"204") && !has_status(b"304");
        if may_have_body {
            check_by_archive(input, &whole);
        }
        (whole.fed, whole.closed, whole.is_reusable, scale(whole.body.len()), whole.head.is_some())
    });
}

/// The archive removes the chunked coding with its own code.
fn check_by_archive(input: &[u8], reading: &Reading) {
    let Some(head) = reading.head.as_ref().filter(|_| reading.closed.is_ok()) else { return };
    let start = memchr::memmem::find(input, head).expect("the head is in what was read");
    let url = Url::parse("http://h.example/").expect("a URL");
    let digest = PayloadDigest::of(&reading.body);
    let (id, block) = (RecordId::from_random(1, 2), [&input[start..]]);
    let record = Record::response(id, WallTime(0), &url, digest, &block);
    let mut file = Vec::new();
    RecordWriter::new(0, false).append(&mut file, &record);
    let stored = records(&file).next().expect("a record").expect("a whole record");
    assert_eq!(stored.block(), &input[start..]);
    let (stored_head, rest) = stored.http();
    let is_chunked = rest != reading.body && stored.payload() != rest;
    if is_chunked && stored_head.len() == head.len() {
        assert_eq!(stored.payload(), reading.body);
    }
}

// --- Content codings ----------------------------------------------------------------------------

const CODINGS: [&str; 4] = ["gzip", "deflate", "br", "zstd"];

fn encode(coding: &str, plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match coding {
        "gzip" => {
            let mut encoder = flate2::write::GzEncoder::new(&mut out, Default::default());
            encoder.write_all(plain).expect("a Vec takes all");
            encoder.finish().expect("a Vec takes all");
        }
        "deflate" => {
            let mut encoder = flate2::write::ZlibEncoder::new(&mut out, Default::default());
            encoder.write_all(plain).expect("a Vec takes all");
            encoder.finish().expect("a Vec takes all");
        }
        "br" => {
            let mut encoder = brotli::CompressorWriter::new(&mut out, 4_096, 2, 18);
            encoder.write_all(plain).expect("a Vec takes all");
            drop(encoder);
        }
        _ => out = zstd::stream::encode_all(plain, 1).expect("a Vec takes all"),
    }
    out
}

fn decode(
    pool: &mut DecoderPool,
    coding: &str,
    pieces: &[&[u8]],
) -> (Vec<u8>, Result<(), DecodeError>) {
    let mut decoder = pool.decoder([coding.as_bytes()]).expect("a known coding");
    let mut out = Vec::new();
    let mut sink = |piece: &[u8]| {
        assert!(piece.len() <= DECODE_SCRATCH_BYTES);
        out.extend_from_slice(piece);
    };
    let pushed = pieces.iter().try_for_each(|piece| decoder.push(piece, &mut sink));
    let verdict = pushed.and_then(|()| decoder.finish());
    assert_eq!(decoder.decoded_bytes(), out.len());
    pool.give_back(decoder);
    (out, verdict)
}

#[test]
fn any_coded_body_decodes_the_same_in_any_cut() {
    let plain: [&[u8]; 3] = [b"", b"a web of words, a web of words", &[0; 3_000]];
    let seeds = CODINGS.iter().enumerate().flat_map(|(index, coding)| {
        plain.map(|plain| [&[index as u8], &encode(coding, plain)[..]].concat())
    });
    let target = Target {
        name: "http::any_coded_body_decodes_the_same_in_any_cut",
        words: &[
            b"\x1f\x8b\x08",
            b"\x1f\x8b\x08\x1f",
            b"\x78\x9c",
            b"\x28\xb5\x2f\xfd",
            b"\x50\x2a\x4d\x18",
        ],
        seeds: seeds.collect(),
        input_bytes_max: 4_000,
        input_count: 4_000,
    };
    let pool = std::cell::RefCell::new(DecoderPool::new());
    target.run(|input| {
        let pool = &mut *pool.borrow_mut();
        let Some((first, coded)) = input.split_first() else { return Default::default() };
        let coding = CODINGS[usize::from(*first) % CODINGS.len()];
        let mut dice = Dice::of(input);
        let whole = decode(pool, coding, &[coded]);
        let cut = decode(pool, coding, &dice.cut(coded));
        // The output of a piece that fails may or may not come out; brotli keeps it back.
        assert_eq!(cut.1, whole.1);
        let is_same = match whole.1 {
            Ok(()) => cut.0 == whole.0,
            Err(_) => cut.0.starts_with(&whole.0) || whole.0.starts_with(&cut.0),
        };
        assert!(is_same, "{coding}: {} and {} bytes", cut.0.len(), whole.0.len());
        if coding == "gzip" && whole.1.is_ok() && !coded.is_empty() {
            let mut theirs = Vec::new();
            let read = flate2::read::MultiGzDecoder::new(coded).read_to_end(&mut theirs);
            assert!(read.is_err() || theirs == whole.0);
        }
        // Encoding and decoding gives the same bytes.
        let there = encode(coding, coded);
        assert_eq!(decode(pool, coding, &dice.cut(&there)), (coded.to_vec(), Ok(())));
        Some((coding, whole.1.err(), scale(whole.0.len())))
    });
}

// --- Field values -------------------------------------------------------------------------------

#[test]
fn any_field_value_is_read_within_itself() {
    let target = Target {
        name: "http::any_field_value_is_read_within_itself",
        words: &[
            b"text/html",
            b";",
            b"charset",
            b"=",
            b"\"",
            b"\\",
            b"utf-8",
            b" ",
            b",",
            b"Sun",
            b"Mon,",
            b"06",
            b"Nov",
            b"feb",
            b"29",
            b"1994",
            b"2024",
            b"94",
            b"08:49:37",
            b":",
            b"GMT",
            b"-",
            b"31",
            b"120",
            b"18446744073709551616",
        ],
        seeds: texts(&[
            "text/html; charset=\"utf-8\"",
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "120",
        ]),
        input_bytes_max: 300,
        input_count: 20_000,
    };
    target.run(|input| {
        let parsed = ContentType::parse(input);
        let is_inside = |part: &[u8]| memchr::memmem::find(input, part).is_some();
        assert!(is_inside(parsed.mime) && parsed.charset.is_none_or(is_inside));
        assert!(!parsed.mime.contains(&b';') && parsed.charset.is_none_or(|c| !c.is_empty()));
        let date = parse_date(input);
        if let Some(seconds) = date.filter(|seconds| *seconds < u64::MAX / 1_000_000_000) {
            assert_eq!(parse_date(imf_fixdate(seconds).as_bytes()), Some(seconds));
        }
        let retry = RetryAfter::parse(input);
        let now = WallTime(u64::MAX);
        let wait = retry.map(|retry| retry.seconds_from(now));
        assert!(date.is_none_or(|at| wait == Some(at.saturating_sub(now.unix_seconds()))));
        (date.is_some(), retry.is_some(), parsed.charset.is_some(), scale(parsed.mime.len()))
    });
}

fn imf_fixdate(seconds: u64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (year, month, day, hour, minute, second) = WallTime(seconds * 1_000_000_000).civil();
    let month = MONTHS[month as usize - 1];
    format!("Mon, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} GMT")
}

#[test]
fn any_link_header_gives_links_that_stand_in_it() {
    #[rustfmt::skip]
    const WORDS: &[&[u8]] = &[
        b"<", b">", b"; rel=next", b";rel=\"", b"\"", b"\\\"", b"\\", b",", b", <", b";", b"=",
        b"rel", b"REL = ", b"anchor=\"#\"", b"title*=UTF-8''x", b"next prev", b" ", b"\t", b"\xff",
        b"</a,b;c?d=e>", b"<http://h.test/>", b"\0",
    ];
    let target = Target {
        name: "http::any_link_header_gives_links_that_stand_in_it",
        words: WORDS,
        seeds: texts(&["</2>; rel=\"next\", </0>; rel=\"prev\"", "<x>; a=\"b, <c>\"; rel=next"]),
        input_bytes_max: 4_000,
        input_count: 20_000,
    };
    target.run(|input| {
        let links: Vec<_> = header_links(input).collect();
        let mut rest = input;
        for link in &links {
            assert!(link.target.len() + 2 <= input.len() && link.rel.len() <= input.len());
            assert!(!link.target.contains(&b'>'));
            // The links are in order, and none is found twice.
            let at = memchr::memmem::find(rest, link.target).expect("it stands there");
            rest = &rest[at + link.target.len()..];
        }
        // If the value is cut after a link, it has that link and all before it.
        let ends = input.iter().enumerate().filter(|(_, byte)| **byte == b',');
        for (end, _) in ends.take(20) {
            let cut: Vec<_> = header_links(&input[..end]).collect();
            let sure_count = cut.len().saturating_sub(1);
            assert!(links.len() >= sure_count && cut[..sure_count] == links[..sure_count]);
        }
        (scale(links.len()), links.iter().any(|link| link.has_anchor))
    });
}

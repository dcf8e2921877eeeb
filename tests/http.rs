//! Public HTTP response cases get the verdict, status and body that a strict reader gives them,
//! except for a few that are listed. No bytes, however they are cut, make the reader panic or
//! contradict itself.

#[path = "support/corpus.rs"]
mod corpus;

use nephila::proto::http::{DecoderPool, Event, HttpError, Method, ResponseReader};
use proptest::prelude::*;
use std::io::Write;
use std::path::PathBuf;

/// Everything that a reader reports of one connection's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reading {
    head: Option<Vec<u8>>,
    status: Option<u16>,
    body: Vec<u8>,
    /// The verdict on the bytes fed, before any close.
    fed: Result<(), HttpError>,
    /// The verdict after a close behind these bytes.
    closed: Result<(), HttpError>,
    is_reusable: bool,
}

fn read<'w>(pieces: impl Iterator<Item = &'w [u8]>, method: Method) -> Reading {
    let mut reader = ResponseReader::new(method);
    let (mut body, mut fed) = (Vec::new(), Ok(()));
    for piece in pieces {
        fed = fed.and_then(|()| feed(&mut reader, piece, &mut body));
    }
    let is_reusable = reader.is_reusable();
    let closed = reader.eof();
    let head = reader.head().map(|head| head.raw().to_vec());
    Reading { head, status: reader.head().map(|h| h.status()), body, fed, closed, is_reusable }
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
            Event::Head => assert!(reader.head().is_some()),
            Event::Body(piece) => {
                assert!(!piece.is_empty());
                body.extend_from_slice(piece);
            }
            Event::End => {
                assert!(reader.is_complete());
                return Ok(());
            }
        }
    }
}

/// Returns pieces of 1 to `len_max` bytes, by seed.
fn random_pieces(wire: &[u8], seed: u64, len_max: usize) -> Vec<&[u8]> {
    let (mut pieces, mut rest, mut state) = (Vec::new(), wire, seed);
    while !rest.is_empty() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let len = (1 + (state >> 33) as usize % len_max).min(rest.len());
        let (piece, after) = rest.split_at(len);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// Reads the bytes whole, byte by byte and in random pieces. All results must be equal.
fn read_in_every_way(wire: &[u8], method: Method) -> Reading {
    let whole = read(std::iter::once(wire), method);
    assert_eq!(whole, read(wire.chunks(1), method), "byte by byte");
    for seed in 0..8 {
        let pieces = random_pieces(wire, seed, 1 + wire.len() / 3);
        assert_eq!(whole, read(pieces.into_iter(), method), "in random pieces, seed {seed}");
    }
    whole
}

struct Case {
    /// `file: heading`.
    name: String,
    wire: Vec<u8>,
    method: Method,
    /// The case's log is that of a lenient parser.
    is_lenient: bool,
    expected: Expected,
}

#[derive(Debug, PartialEq, Eq)]
struct Expected {
    is_accepted: bool,
    /// The status of the final response, if its head is accepted.
    status: Option<u16>,
    body: Vec<u8>,
    /// Something follows the response, right or wrong.
    has_more: bool,
}

/// The cases in which we differ from the suite's strict parser: our verdict, and the clause that
/// supports it.
const DIFFERENCES: &[(&str, Result<u16, HttpError>, &str)] = &[
    // Here we are more lenient. None of these connections is reused.
    ("invalid.md: Only LFs present and no body", Ok(200), "RFC 9112 2.2: LF may end a line"),
    ("invalid.md: Only LFs present", Ok(200), "RFC 9112 2.2: LF may end a line"),
    ("sample.md: No carriage ret", Ok(200), "RFC 9112 2.2: LF may end a line"),
    (
        "transfer-encoding.md: Trailing space on chunked body",
        Ok(200),
        "RFC 9112 7.1.1: blanks are there before an extension; old servers pad sizes with them",
    ),
    (
        "transfer-encoding.md: No extension after semicolon",
        Ok(200),
        "RFC 9112 7.1.1: extensions are ignored, and a CRLF ends them whatever they hold",
    ),
    (
        "transfer-encoding.md: Unbalanced chunk extensions quoting",
        Ok(200),
        "RFC 9112 7.1.1: extensions are ignored, and a CRLF ends them whatever they hold",
    ),
    // Here we are stricter.
    ("sample.md: RTSP response", Err(HttpError::NotHttp), "RFC 9112 2.3: HTTP only"),
    ("sample.md: ICE response", Err(HttpError::NotHttp), "RFC 9112 2.3: HTTP only"),
    ("sample.md: HTTP version 0.9", Err(HttpError::NotHttp), "RFC 9112 2.3: HTTP/1.x only"),
    (
        "lenient-version.md: Invalid HTTP version (lenient)",
        Err(HttpError::NotHttp),
        "RFC 9112 2.3: HTTP/1.x only",
    ),
    (
        "invalid.md: Bare CR after response line (lenient)",
        Err(HttpError::Status),
        "RFC 9112 2.2: a bare CR is invalid",
    ),
    (
        "connection.md: HTTP 101 response with Upgrade and Content-Length header",
        Err(HttpError::Upgraded),
        "RFC 9110 7.8: only to what the request offered, and ours offer nothing",
    ),
    (
        "connection.md: HTTP 101 response with Upgrade and Transfer-Encoding header",
        Err(HttpError::Upgraded),
        "RFC 9110 7.8: only to what the request offered, and ours offer nothing",
    ),
];

/// The number of cases whose log is that of a lenient parser. The log of the others is strict.
const LENIENT_CASE_COUNT: usize = 8;
const CASE_COUNT: usize = 85;

/// How the verdicts compare, over all cases. No case is left out.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    agreed: usize,
    stricter: usize,
    more_lenient: usize,
}

#[test]
fn the_public_suite_is_read_as_its_log_says() {
    let found = corpus::find("http-responses");
    let cases = load_cases(found.path);
    if !found.is_whole {
        assert_eq!(cases.len(), 5, "cases of our own");
        for case in &cases {
            check_agreement(case, &read_in_every_way(&case.wire, case.method));
        }
        return;
    }
    assert_eq!(cases.len(), CASE_COUNT, "cases in the suite");
    let lenient_count = cases.iter().filter(|case| case.is_lenient).count();
    assert_eq!(lenient_count, LENIENT_CASE_COUNT, "cases for lenient parsers");
    let mut differing: Vec<&str> = Vec::new();
    let mut tally = Tally::default();
    for case in &cases {
        let mut reading = read_in_every_way(&case.wire, case.method);
        if reading.fed.is_ok() && reading.head.is_none() {
            // Our verdict on a head comes at its blank line, and some cases stop before it.
            let whole_head = [&case.wire, &b"\r\n\r\n"[..]].concat();
            reading = read_in_every_way(&whole_head, case.method);
        }
        if let Some((name, ours, clause)) = DIFFERENCES.iter().find(|row| row.0 == case.name) {
            let status = reading.status.unwrap_or_default();
            assert_eq!(reading.fed.map(|()| status), *ours, "{name} ({clause})");
            let is_listed_in_vain = reading.fed.is_ok() == case.expected.is_accepted;
            assert!(!is_listed_in_vain, "{name} is listed, but there is no difference any more");
            // A connection is never reused after a response that only we accept.
            assert!(!reading.is_reusable, "{name}");
            match reading.fed {
                Ok(()) => tally.more_lenient += 1,
                Err(_) => tally.stricter += 1,
            }
            differing.push(name);
            continue;
        }
        check_agreement(case, &reading);
        tally.agreed += 1;
    }
    assert_eq!(differing.len(), DIFFERENCES.len(), "a listed case is gone: {differing:?}");
    println!(
        "{CASE_COUNT} cases, {lenient_count} of a lenient parser; none out of scope; {tally:?}"
    );
    assert_eq!(tally, Tally { agreed: 72, stricter: 7, more_lenient: 6 });
}

fn check_agreement(case: &Case, reading: &Reading) {
    let is_accepted = reading.fed.is_ok();
    assert_eq!(is_accepted, case.expected.is_accepted, "{}: {reading:?}", case.name);
    assert_eq!(reading.body, case.expected.body, "{}", case.name);
    if is_accepted {
        assert_eq!(reading.status, case.expected.status, "{}", case.name);
    }
    let is_spoilt = case.expected.has_more && reading.is_reusable;
    assert!(!is_spoilt, "{}: reusable although bytes follow the response", case.name);
}

/// Reads every section of every file as a case. A section that cannot be read is a failure.
fn load_cases(folder: PathBuf) -> Vec<Case> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut cases: Vec<Case> = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let file_name = file.file_name().unwrap().to_string_lossy().into_owned();
        let loaded_before = cases.len();
        for section in text.split("\n##").skip(1) {
            let heading = section.lines().next().unwrap_or_default().trim_start_matches('#').trim();
            let name = format!("{file_name}: {heading}");
            assert!(cases.iter().all(|case| case.name != name), "{name}: twice");
            let mode = field(section, "\"type\":").unwrap_or_else(|| panic!("{name}: no type"));
            assert!(mode.starts_with("response"), "{name}: {mode}");
            let http = block(section, "http").unwrap_or_else(|| panic!("{name}: no input"));
            let log = block(section, "log").unwrap_or_else(|| panic!("{name}: no log"));
            let wire = unescape(http);
            let is_head = section.contains("\"skipBody\": true");
            cases.push(Case {
                name,
                expected: expect(log, &wire),
                method: if is_head { Method::Head } else { Method::Get },
                is_lenient: mode.contains("lenient"),
                wire,
            });
        }
        let input_count = text.matches("```http").count();
        assert_eq!(cases.len() - loaded_before, input_count, "{file_name}: inputs and cases");
        assert!(input_count > 0, "{file_name}: no case at all");
    }
    cases
}

/// Returns the string after `key` in a section's remark.
fn field<'t>(section: &'t str, key: &str) -> Option<&'t str> {
    let (_, after) = section.split_once("<!-- meta=")?.1.split_once(key)?;
    after.split('"').nth(1)
}

fn block<'t>(section: &'t str, language: &str) -> Option<&'t str> {
    let (_, after) = section.split_once(&format!("```{language}\n"))?;
    after.split_once("```").map(|(block, _)| block)
}

/// The suite's notation: lines end in CRLF, a backslash joins lines, `\r \n \t \f` are escapes.
fn unescape(block: &str) -> Vec<u8> {
    let text = block.strip_suffix('\n').unwrap_or(block);
    let text = text.replace("\\\n", "").replace('\n', "\r\n");
    let pairs = [("\\r", "\r"), ("\\n", "\n"), ("\\t", "\t"), ("\\f", "\x0c")];
    pairs.iter().fold(text, |text, (from, to)| text.replace(from, to)).into_bytes()
}

/// Returns what the log says of the first response that is not interim.
fn expect(log: &str, wire: &[u8]) -> Expected {
    let mut expected =
        Expected { is_accepted: true, status: None, body: Vec::new(), has_more: false };
    let mut is_over = false;
    for line in log.lines() {
        let number = |key: &str| -> Option<usize> {
            let digits = line.split_once(key)?.1.split(|c: char| !c.is_ascii_digit()).next()?;
            digits.parse().ok()
        };
        if is_over {
            expected.has_more |= line.contains("message begin") || line.contains("error");
        } else if line.contains("error code=22 ") {
            // This is a pause for another protocol, and not a refusal.
            is_over = true;
        } else if line.contains("error code=") {
            expected.is_accepted = false;
            break;
        } else if line.contains("headers complete") {
            expected.status = number("status=").map(|status| status as u16);
        } else if line.contains("span[body]") {
            let (at, len) = (number("off=").unwrap(), number("len=").unwrap());
            expected.body.extend_from_slice(&wire[at..at + len]);
        } else if line.contains("message complete") {
            is_over = expected.status.is_some_and(|status| status >= 200);
        }
    }
    expected
}

#[test]
fn corpus_pages_come_through_chunks_and_codings_unchanged() {
    let found = corpus::find("pages");
    let mut pool = DecoderPool::new();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(found.path).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 4, "{files:?}");
    for (index, file) in files.iter().step_by(if found.is_whole { 10 } else { 1 }).enumerate() {
        let page = std::fs::read(file).unwrap();
        let (encoding, coded) = encode(index, &page);
        let mut wire = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\n").into_bytes();
        wire.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
        for chunk in random_pieces(&coded, index as u64, 20_000) {
            wire.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            wire.extend_from_slice(chunk);
            wire.extend_from_slice(b"\r\n");
        }
        wire.extend_from_slice(b"0\r\n\r\n");
        let (mut reader, mut body) = (ResponseReader::new(Method::Get), Vec::new());
        for piece in random_pieces(&wire, index as u64 + 1, 16 * 1024) {
            feed(&mut reader, piece, &mut body).unwrap();
        }
        assert!(reader.is_reusable());
        let encodings = reader.head().unwrap().all("content-encoding");
        let mut decoder = pool.decoder(encodings).unwrap();
        let mut decoded = Vec::new();
        for piece in random_pieces(&body, index as u64 + 2, 16 * 1024) {
            decoder.push(piece, &mut |out| decoded.extend_from_slice(out)).unwrap();
        }
        assert_eq!(decoder.finish(), Ok(()));
        assert!(decoded == page, "{} as {encoding}", file.display());
        pool.give_back(decoder);
    }
}

fn encode(index: usize, page: &[u8]) -> (&'static str, Vec<u8>) {
    match index % 4 {
        0 => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Default::default());
            encoder.write_all(page).unwrap();
            ("gzip", encoder.finish().unwrap())
        }
        1 => ("zstd", zstd::stream::encode_all(page, 3).unwrap()),
        2 => {
            let mut out = Vec::new();
            brotli::CompressorWriter::new(&mut out, 4096, 5, 22).write_all(page).unwrap();
            ("br", out)
        }
        _ => ("identity", page.to_vec()),
    }
}

/// Pieces of responses, valid and invalid, from which connections are made.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    const FRAGMENTS: &[&str] = &[
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.0 200 OK\r\n",
        "HTTP/1.1 204 x\r\n",
        "HTTP/1.1 100 x\r\n\r\n",
        "HTTP/1.1 304\n",
        "HTTP/1.1 ",
        "Content-Length: 5\r\n",
        "Content-Length: 6\r\n",
        "Content-Length: ",
        "Transfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Connection: close\r\n",
        "Connection: keep-alive\r\n",
        "A: b\r\n",
        " fold\r\n",
        "A : b\r\n",
        "\r\n",
        "\r\n\r\n",
        "\n",
        "\r",
        "5\r\nhello\r\n",
        "5;ext=\"\r\nhello\r\n",
        "0\r\n",
        "0\r\n\r\n",
        "ffffffffffffffff\r\n",
        "hello",
        " ",
        ":",
        ";",
    ];
    // An index after the end of the table stands for noise.
    (0..FRAGMENTS.len() + 3, prop::collection::vec(any::<u8>(), 0..10)).prop_map(
        |(index, noise)| FRAGMENTS.get(index).map_or(noise, |text| text.as_bytes().to_vec()),
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(2000)
    })]

    #[test]
    fn any_mix_of_fragments_reads_the_same_in_any_cut(
        start in prop::bool::weighted(0.8),
        fragments in prop::collection::vec(fragment(), 0..14),
        is_head_request in prop::bool::weighted(0.1),
    ) {
        let mut wire = if start { b"HTTP/1.1 200 OK\r\n".to_vec() } else { Vec::new() };
        wire.extend(fragments.concat());
        let method = if is_head_request { Method::Head } else { Method::Get };
        let reading = read_in_every_way(&wire, method);
        prop_assert!(reading.fed.is_ok() || reading.closed == reading.fed);
        prop_assert!(!reading.is_reusable || reading.closed.is_ok());
        // A reusable connection has no byte that does not belong to the response.
        if reading.is_reusable {
            let mut longer = wire.clone();
            longer.push(b'H');
            prop_assert!(!read_in_every_way(&longer, method).is_reusable);
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(wire in prop::collection::vec(any::<u8>(), 0..400)) {
        read_in_every_way(&wire, Method::Get);
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let with_head = [head, &wire[..]].concat();
        read_in_every_way(&with_head, Method::Get);
    }
}

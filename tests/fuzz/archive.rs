//! Files that the crawl writes and reads back: WARC files, index lines, fingerprints.

use crate::dice::Dice;
use crate::engine::{Target, corpus, scale, texts};
use nephila::base::WallTime;
use nephila::base::limits::WARC_RECORD_BYTES_MAX;
use nephila::proto::simhash::SimHasher;
use nephila::proto::url::Url;
use nephila::proto::warc::{
    CdxjLine, PayloadDigest, ReadError, Reader, Record, RecordId, RecordWriter, StoredRecord,
    digest,
};

const AT: WallTime = WallTime(1_767_225_599_000_000_000);

fn url() -> Url {
    Url::parse("http://www.h.example/a?b=c").expect("a URL")
}

/// A file of a few records, deflated or stored.
fn file(level: u8) -> Vec<u8> {
    let mut writer = RecordWriter::new(level, true);
    let mut out = Vec::new();
    let url = url();
    let head: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (index, body) in [&b"2\r\nhi\r\n0\r\n\r\n"[..], b"", b"2\r\nhi"].into_iter().enumerate() {
        let id = RecordId::from_random(index as u64, 7);
        let block = [head, body];
        let digest = PayloadDigest::of(if body.is_empty() { b"" } else { b"hi" });
        writer.append(&mut out, &Record::response(id, AT, &url, digest, &block));
        writer.append(&mut out, &Record::request(id, AT, &url, &[b"GET / HTTP/1.1\r\n\r\n"]));
    }
    out
}

/// Returns the records up to the first error, the error, and the end of the last whole record.
fn read(pieces: &[&[u8]]) -> (Vec<StoredRecord>, Result<(), ReadError>, u64) {
    let mut reader = Reader::new();
    let mut found = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            match reader.feed(rest) {
                Ok((taken, record)) => {
                    rest = &rest[taken..];
                    found.extend(record);
                }
                Err(error) => return (found, Err(error), reader.whole_through()),
            }
        }
    }
    let end = reader.finish();
    (found, end, reader.whole_through())
}

#[test]
fn any_archive_reads_the_same_in_any_pieces() {
    let target = Target {
        name: "archive::any_archive_reads_the_same_in_any_pieces",
        words: &[
            b"\x1f\x8b\x08\0\0\0\0\0\0\xff",
            b"WARC/1.1\r\n",
            b"WARC-Type: response\r\n",
            b"Content-Length: 5\r\n",
            b"Content-Length: ",
            b"18446744073709551615",
            b"\r\n\r\n",
            b"\r\n",
            b"WARC-Date: 2026-01-31T23:59:59Z\r\n",
            b"Transfer-Encoding: chunked\r\n",
        ],
        seeds: vec![file(0), file(6)],
        input_bytes_max: 8_000,
        input_count: 4_000,
    };
    target.run(|input| {
        let whole = read(&[input]);
        assert_eq!(read(&Dice::of(input).cut(input)), whole);
        let (found, end, whole_through) = whole;
        let mut offset = 0;
        for record in &found {
            assert_eq!(record.offset, offset, "each record begins at the end of the one before");
            offset += record.length;
            assert!(record.block().len() <= WARC_RECORD_BYTES_MAX);
            let (head, body) = record.http();
            assert_eq!([head, body].concat(), record.block());
            assert!(
                record.payload().len() <= body.len(),
                "removing the chunked coding adds no bytes"
            );
            let _ = (record.verify(), record.date(), record.http_status());
            let _ = (record.http_media_type(), record.kind());
        }
        assert_eq!(whole_through, offset);
        assert!(whole_through <= input.len() as u64);
        assert!(end.is_err() || whole_through == input.len() as u64);
        (
            found.len(),
            end.err().map(|error| error as u8),
            found.iter().filter(|record| record.verify().is_err()).count(),
        )
    });
}

#[test]
fn any_block_is_read_back_bit_by_bit() {
    let target = Target {
        name: "archive::any_block_is_read_back_bit_by_bit",
        words: &[b"WARC/1.1\r\n", b"\r\n\r\n", b"Content-Length: 1\r\n", b"HTTP/1.1 200 OK\r\n"],
        seeds: texts(&["HTTP/1.1 200 OK\r\nContent-Type: text/html; x\r\n\r\nbody"]),
        input_bytes_max: 140_000,
        input_count: 1_500,
    };
    target.run(|input| {
        let mut dice = Dice::of(input);
        // Some blocks are around the 65,535 bytes of a stored deflate block.
        let input = match dice.below(20) {
            0 if !input.is_empty() => input.repeat(66_000 / input.len() + 1),
            _ => input.to_vec(),
        };
        let (url, pieces) = (url(), dice.cut(&input));
        let digest = PayloadDigest::of(&input);
        let record = Record {
            content_coded: dice.one_in(2),
            ..Record::response(RecordId::from_random(1, 2), AT, &url, digest, &pieces)
        };
        let mut file = Vec::new();
        let length = RecordWriter::new(dice.below(3) as u8, true).append(&mut file, &record);
        assert_eq!(length, file.len() as u64);
        let (found, end, _) = read(&dice.cut(&file));
        assert_eq!((found.len(), end), (1, Ok(())));
        assert!(found[0].block() == input, "{} bytes", input.len());
        assert_eq!((found[0].date(), found[0].kind()), (Some(AT), "response"));
        assert_eq!(found[0].header("WARC-Target-URI"), Some(url.as_str()));
        let block_digest = found[0].header("WARC-Block-Digest").and_then(digest::parse_labelled);
        assert_eq!(block_digest, Some(digest));
        (scale(input.len()), scale(found[0].http().0.len()))
    });
}

#[test]
fn any_index_line_is_one_line_that_reads_back() {
    let target = Target {
        name: "archive::any_index_line_is_one_line_that_reads_back",
        words: &[
            b"http://",
            b"h.example/",
            b"\"",
            b"\\",
            b"\n",
            b"\0",
            b"}",
            b" ",
            b"\xC3\xA9",
            b"text/html",
        ],
        seeds: texts(&["http://h.example/a?b", "text/\"html\\"]),
        input_bytes_max: 500,
        input_count: 10_000,
    };
    target.run(|input| {
        let text = String::from_utf8_lossy(input);
        let base = url();
        let url = base.join(&text).unwrap_or(base);
        let mut dice = Dice::of(input);
        let line = CdxjLine {
            url: &url,
            at: AT,
            mime: &text,
            status: 200,
            digest: PayloadDigest::of(input),
            revisit: dice.one_in(4),
            offset: dice.next(),
            length: dice.next(),
            filename: "a.warc.gz",
            simhash: dice.one_in(2).then(|| dice.next()),
            near: None,
            undecoded: None,
            links_left_out: u32::from(dice.one_in(4)),
        };
        let mut out = Vec::new();
        line.push(&mut out);
        let out = String::from_utf8(out).expect("UTF-8 stays so");
        assert_eq!(out.matches('\n').count(), 1);
        let mut columns = out.trim_end().splitn(3, ' ');
        let (key, at) = (columns.next().expect("a key"), columns.next().expect("a time"));
        assert!(!key.is_empty() && at == "20251231235959");
        let json: serde_json::Value =
            serde_json::from_str(columns.next().expect("an object")).expect("JSON");
        let mime = if text.is_empty() { "unk" } else { &text };
        assert_eq!(json["mime"], if line.revisit { "warc/revisit" } else { mime });
        assert_eq!(
            (&json["url"], &json["offset"]),
            (&url.as_str().into(), &line.offset.to_string().into())
        );
        assert_eq!(json.get("simhash").is_some(), line.simhash.is_some());
        (line.revisit, scale(url.as_str().len()), scale(input.len()))
    });
}

#[test]
fn any_text_hashes_the_same_in_any_pieces() {
    let target = Target {
        name: "archive::any_text_hashes_the_same_in_any_pieces",
        words: &[
            b"word ",
            b" ",
            b"\n",
            b"a",
            b"\xC3\xA9",
            b"\xE2\x80\x94",
            b"-",
            b"'",
            b"\0",
            b"1 2 3 ",
        ],
        seeds: corpus("pages", 3_000).into_iter().step_by(4).collect(),
        input_bytes_max: 8_000,
        input_count: 3_000,
    };
    let hasher = std::cell::RefCell::new(SimHasher::new());
    target.run(|input| {
        let hasher = &mut *hasher.borrow_mut();
        let mut hash = |pieces: &[&[u8]]| {
            pieces.iter().for_each(|piece| hasher.push_text(piece));
            hasher.finish()
        };
        let whole = hash(&[input]);
        assert_eq!(hash(&Dice::of(input).cut(input)), whole);
        // Spaces at the ends are not words.
        assert_eq!(hash(&[b"  \n", input, b"\t "]), whole);
        (whole.is_some(), scale(input.len()))
    });
}

//! The cost of HTTP per page: its head, its framing and its content coding.
//!
//! `cargo bench --bench http`

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nephila::proto::http::{DecoderPool, Event, Method, ResponseReader, Validators, write_get};
use nephila::proto::url::Url;
use std::hint::black_box;
use std::io::Write;

const HEAD: &str = "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nServer: Apache\r\n\
    Last-Modified: Sat, 05 Nov 1994 12:00:00 GMT\r\nETag: \"34aa387-d-1568eb00\"\r\n\
    Accept-Ranges: bytes\r\nCache-Control: max-age=3600, public\r\nVary: Accept-Encoding\r\n\
    Strict-Transport-Security: max-age=31536000\r\nX-Content-Type-Options: nosniff\r\n\
    Set-Cookie: session=0123456789abcdef0123456789abcdef; path=/; HttpOnly; Secure\r\n\
    Content-Type: text/html; charset=UTF-8\r\n";
const PAGE_BYTES: usize = 25 * 1024;
/// The size of the pieces into which the ring's receive buffers cut a response.
const PIECE_BYTES: usize = 16 * 1024;

/// Returns text that compresses about as well as HTML.
fn page() -> Vec<u8> {
    let words = ["<p>", "</p>", "<a href=\"/path/", "\">", "</a>", "the ", "crawl ", "of ", "web "];
    let (mut page, mut state) = (Vec::new(), 7u64);
    while page.len() < PAGE_BYTES {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        page.extend_from_slice(words[(state >> 33) as usize % words.len()].as_bytes());
        page.push(b'a' + ((state >> 50) % 26) as u8);
    }
    page.truncate(PAGE_BYTES);
    page
}

fn read(wire: &[u8]) -> u64 {
    let mut reader = ResponseReader::new(Method::Get);
    for piece in wire.chunks(PIECE_BYTES) {
        let mut rest = piece;
        while let Ok((used, event)) = reader.feed(rest) {
            rest = &rest[used..];
            match event {
                Event::NeedMore | Event::End => break,
                Event::Head => {}
                Event::Body(body) => {
                    black_box(body);
                }
            }
        }
    }
    assert!(reader.is_reusable());
    reader.body_bytes()
}

fn chunked(body: &[u8], chunk_bytes: usize) -> Vec<u8> {
    let mut wire = format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
    for chunk in body.chunks(chunk_bytes) {
        wire.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        wire.extend_from_slice(chunk);
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(b"0\r\n\r\n");
    wire
}

fn responses(criterion: &mut Criterion) {
    let page = page();
    let mut group = criterion.benchmark_group("http/response");
    let head = format!("{HEAD}Content-Length: 0\r\n\r\n");
    group.throughput(Throughput::Bytes(head.len() as u64));
    group.bench_function("head", |bencher| bencher.iter(|| read(black_box(head.as_bytes()))));
    let mut wire = format!("{HEAD}Content-Length: {PAGE_BYTES}\r\n\r\n").into_bytes();
    wire.extend_from_slice(&page);
    group.throughput(Throughput::Bytes(wire.len() as u64));
    group.bench_function("page_of_known_length", |bencher| bencher.iter(|| read(black_box(&wire))));
    for chunk_bytes in [8192, 1024, 64] {
        let wire = chunked(&page, chunk_bytes);
        group.throughput(Throughput::Bytes(wire.len() as u64));
        let name = format!("page_in_chunks_of_{chunk_bytes}");
        group.bench_function(name, |bencher| bencher.iter(|| read(black_box(&wire))));
    }
    group.finish();
}

fn requests(criterion: &mut Criterion) {
    let url = Url::parse("https://www.example.org/a/path/of/some/length?with=query").unwrap();
    let mut out = Vec::new();
    criterion.bench_function("http/request", |bencher| {
        bencher.iter(|| {
            out.clear();
            write_get(&mut out, black_box(&url), "nephila/0.1", Validators::default(), &[])
                .unwrap();
            out.len()
        });
    });
}

fn decoders(criterion: &mut Criterion) {
    let page = page();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&page).unwrap();
    let mut br = Vec::new();
    brotli::CompressorWriter::new(&mut br, 4096, 5, 22).write_all(&page).unwrap();
    let mut group = criterion.benchmark_group("http/decode");
    group.throughput(Throughput::Bytes(page.len() as u64));
    for (encoding, wire) in [
        ("identity", page.clone()),
        ("gzip", gzip.finish().unwrap()),
        ("br", br),
        ("zstd", zstd::stream::encode_all(&page[..], 3).unwrap()),
    ] {
        for is_pooled in [true, false] {
            let mut pool = DecoderPool::new();
            let name = format!("{encoding}_{}", if is_pooled { "pooled" } else { "fresh" });
            group.bench_function(name, |bencher| {
                bencher.iter(|| {
                    let mut decoder = pool.decoder([encoding.as_bytes()]).unwrap();
                    let mut decoded_bytes = 0;
                    decoder.push(&wire, &mut |out| decoded_bytes += out.len()).unwrap();
                    assert_eq!(decoded_bytes, PAGE_BYTES);
                    if is_pooled {
                        pool.give_back(decoder);
                    }
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, requests, responses, decoders);
criterion_main!(benches);

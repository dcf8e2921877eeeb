//! The cost of storing one page on one core: record, digests and index line. The budget for a page
//! of 25 KB is 10 us without the digests (14 us).

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nephila::base::WallTime;
use nephila::base::limits::WRITE_BUFFER_BYTES;
use nephila::proto::url::Url;
use nephila::proto::warc::{CdxjLine, PayloadDigest, Record, RecordId, RecordWriter};
use nephila::sys::memory::append_past_cache;
use std::hint::black_box;
use std::time::Duration;

const AT: WallTime = WallTime(1_767_225_599_000_000_000);
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 25000\r\n\r\n";

/// Returns text that deflates about as well as markup.
fn page() -> Vec<u8> {
    let mut seed = 1u64;
    let mut body = Vec::new();
    while body.len() < 25_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        body.extend_from_slice(format!("<li><a href=\"/p/{}\">", seed >> 40).as_bytes());
    }
    body.truncate(25_000);
    body
}

fn store_one_page(criterion: &mut Criterion) {
    let url = Url::parse("http://www.example.com/a/page?with=query&and=more").unwrap();
    let body = page();
    let digest = PayloadDigest::of(&body);
    let id = RecordId::from_random(7, 9);
    let mut group = criterion.benchmark_group("warc");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    group.throughput(Throughput::Bytes(body.len() as u64));
    group.bench_function("copy_alone", |bencher| {
        let mut out = Vec::with_capacity(1 << 20);
        bencher.iter(|| {
            out.clear();
            out.extend_from_slice(black_box(&body));
        });
    });
    // The bench does as the store does: it writes into a buffer that no cache holds, from a page
    // that one does.
    let mut buffer = Vec::with_capacity(WRITE_BUFFER_BYTES + body.len());
    let mut copy = |name: &str, append: fn(&mut Vec<u8>, &[u8])| {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                if buffer.len() >= WRITE_BUFFER_BYTES {
                    buffer.clear();
                }
                append(&mut buffer, black_box(&body));
            });
        });
    };
    copy("copy_into_a_write_buffer", Vec::extend_from_slice);
    copy("copy_into_a_write_buffer_past_the_caches", append_past_cache);
    for (name, level, block_digest) in [
        ("response_stored", 0, false),
        ("response_stored_block_digest", 0, true),
        ("response_deflate_1", 1, false),
        ("response_deflate_6", 6, false),
    ] {
        group.bench_function(name, |bencher| {
            let mut writer = RecordWriter::new(level, block_digest);
            let mut out = Vec::with_capacity(1 << 20);
            bencher.iter(|| {
                out.clear();
                let block: &[&[u8]] = &[HEAD, black_box(&body)];
                let record = Record::response(id, AT, &url, digest, block);
                let address = Some([192, 0, 2, 1].into());
                writer.append(&mut out, &Record { address, ..record })
            });
        });
    }
    group.bench_function("payload_digest", |bencher| {
        bencher.iter(|| PayloadDigest::of(black_box(&body)));
    });
    group.bench_function("request", |bencher| {
        let mut writer = RecordWriter::new(0, false);
        let mut out = Vec::with_capacity(1 << 20);
        bencher.iter(|| {
            out.clear();
            let block: &[&[u8]] = &[b"GET / HTTP/1.1\r\nHost: www.example.com\r\n\r\n"];
            writer.append(&mut out, &Record::request(id, AT, &url, black_box(block)))
        });
    });
    group.bench_function("cdxj_line", |bencher| {
        let mut out = Vec::with_capacity(1 << 20);
        let line = CdxjLine {
            url: &url,
            at: AT,
            mime: "text/html",
            status: 200,
            digest,
            revisit: false,
            offset: 123_456,
            length: 25_500,
            filename: "nephila-20251231235959-003-000000.warc.gz",
            simhash: Some(1),
            near: None,
            undecoded: None,
            links_left_out: 0,
        };
        bencher.iter(|| {
            out.clear();
            black_box(&line).push(&mut out);
        });
    });
    group.finish();
}

criterion_group!(benches, store_one_page);
criterion_main!(benches);

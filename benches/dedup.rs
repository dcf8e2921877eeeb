//! The cost of deciding whether a page is known: its digest (one payload, and two side by side),
//! the table of digests, and the tables of SimHashes. The budget of the digest is 14 us for 25 KB.

mod support;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use nephila::crawl::dedup::{Digests, NearTable};
use nephila::crawl::flow::Original;
use nephila::proto::warc::PayloadDigest;
use std::hint::black_box;
use support::short;

const PAGE_BYTES: usize = 25_000;
const KNOWN_COUNT: u64 = 500_000;

fn mixed(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

fn sha1_of(number: u64) -> [u8; 20] {
    let mut digest = [0; 20];
    for (index, part) in digest.chunks_mut(8).enumerate() {
        part.copy_from_slice(&mixed(3 * number + index as u64).to_le_bytes()[..part.len()]);
    }
    digest
}

fn original(number: u64) -> Original {
    let url = format!("http://www.host{}.example/articles/{number}.html", number % 20_000);
    Original { url: url.into(), at_seconds: 1_767_225_599 }
}

fn digest(criterion: &mut Criterion) {
    let pages: Vec<Vec<u8>> = (0..8u8).map(|page| vec![page; PAGE_BYTES]).collect();
    let mut group = criterion.benchmark_group("digest");
    group.throughput(Throughput::Bytes((pages.len() * PAGE_BYTES) as u64));
    group.bench_function("eight pages, one by one", |bench| {
        bench.iter(|| pages.iter().map(|page| PayloadDigest::of(black_box(page))[0]).max());
    });
    let payloads: Vec<&[u8]> = pages.iter().map(Vec::as_slice).collect();
    group.bench_function("eight pages, side by side", |bench| {
        bench.iter(|| PayloadDigest::of_all(black_box(&payloads)));
    });
    group.finish();
}

fn known(criterion: &mut Criterion) {
    let mut digests = Digests::default();
    let mut next = 0;
    let mut group = criterion.benchmark_group("known payload");
    while next < KNOWN_COUNT {
        assert!(digests.ask(&sha1_of(next), original(next)).is_none());
        next += 1;
    }
    group.bench_function("new", |bench| {
        bench.iter_batched(
            || {
                next += 1;
                (sha1_of(next), original(next))
            },
            |(digest, original)| digests.ask(&digest, original),
            BatchSize::NumIterations(1_000),
        );
    });
    let mut page = 0;
    group.bench_function("known", |bench| {
        bench.iter_batched(
            || {
                page = (page + 7_919) % KNOWN_COUNT;
                (sha1_of(page), original(page))
            },
            |(digest, original)| assert!(digests.ask(&digest, original).is_some()),
            BatchSize::NumIterations(1_000),
        );
    });
    group.finish();
}

fn near(criterion: &mut Criterion) {
    let mut table = NearTable::default();
    (0..KNOWN_COUNT).for_each(|page| {
        table.ask(mixed(page), page, 0b1111);
    });
    let mut next = KNOWN_COUNT;
    criterion.bench_function("near page/among half a million", |bench| {
        bench.iter(|| {
            next += 1;
            table.ask(black_box(mixed(next)), next, 0b1111)
        });
    });
}

criterion_group! { name = benches; config = short(); targets = digest, known, near }
criterion_main!(benches);

//! The cost of the frontier per page: one host is popped and released, and 60 links are offered, 6
//! of them new.
//!
//! The budget on one core is 10 us per page, which is about 50 ns for a known link and 300 ns for a
//! new one.

mod support;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use nephila::base::{HashKey, Time};
use nephila::crawl::flow::{Candidate, Class, Via};
use nephila::crawl::frontier::{Caps, Frontier, MemorySieve, Sieve};
use nephila::proto::url::{Fingerprint, Url};
use std::hint::black_box;
use support::short;

const HOST_COUNT: u64 = 20_000;
const LINK_COUNT: u64 = 60;
const NEW_LINK_COUNT: u64 = 6;

/// Returns the `number`th URL of a web with different hosts and realistic paths.
fn candidate(number: u64) -> Candidate {
    let host = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let text = format!(
        "http://www.host{}.example/articles/2026/some-title-{number}.html",
        host % HOST_COUNT
    );
    let class = Class::ALL[(number % 4) as usize];
    let url = Url::parse(&text).expect("well-formed");
    Candidate { url, depth: 3, class, via: Via::Link, trail: Box::default() }
}

fn filled(url_count: u64) -> Frontier<MemorySieve, [u64; 4]> {
    let mut frontier = Frontier::new(Caps::default(), HashKey::new(1));
    (0..url_count).for_each(|number| {
        frontier.offer(candidate(number), Time::ZERO);
    });
    frontier
}

fn offers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("offer");
    let mut frontier = filled(1_000_000);
    let mut next = 0;
    group.bench_function("known, recent", |bench| {
        bench.iter_batched(
            || candidate(999_000 + next_of(&mut next) % 1_000),
            |found| frontier.offer(found, Time::ZERO),
            BatchSize::NumIterations(1_000),
        );
    });
    group.bench_function("known, long ago", |bench| {
        bench.iter_batched(
            || candidate(next_of(&mut next).wrapping_mul(7_919) % 900_000),
            |found| frontier.offer(found, Time::ZERO),
            BatchSize::NumIterations(1_000),
        );
    });
    let mut new = 1_000_000;
    group.bench_function("new", |bench| {
        bench.iter_batched(
            || candidate(next_of(&mut new)),
            |found| frontier.offer(found, Time::ZERO),
            BatchSize::NumIterations(1_000),
        );
    });
    let caps = Caps { skeleton_page_count_max: u64::MAX, ..Caps::default() };
    let mut large: Frontier = Frontier::new(caps, HashKey::new(1));
    let mut next = 0;
    group.bench_function("new, on a large host", |bench| {
        bench.iter_batched(
            || {
                let number = next_of(&mut next);
                let of_number = candidate(number);
                let target = of_number.url.path_and_query();
                let url = Url::parse(&format!("http://large.example{target}"));
                Candidate { url: url.expect("well-formed"), ..of_number }
            },
            |found| large.offer(found, Time::ZERO),
            BatchSize::NumIterations(1_000),
        );
    });
    group.finish();
}

fn page(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("page");
    group.throughput(Throughput::Elements(1));
    let mut frontier = filled(500_000);
    let (mut now, mut new, mut page) = (0, 500_000, 0);
    group.bench_function("pop, 54 known and 6 new links, release", |bench| {
        bench.iter_batched(
            || {
                page += 1;
                let known = (0..LINK_COUNT - NEW_LINK_COUNT).map(|link| candidate(page * 7 + link));
                let known: Vec<_> = known.collect();
                let new = (0..NEW_LINK_COUNT).map(|_| candidate(next_of(&mut new)));
                known.into_iter().chain(new).collect::<Vec<_>>()
            },
            |links| {
                now += 10_000;
                frontier.advance(Time(now));
                let host = frontier.pop_ready().expect("20,000 hosts a second apart suffice");
                black_box(frontier.next_url(host));
                for link in links {
                    frontier.offer(link, Time(now));
                }
                frontier.release(host, Time(now + 100_000_000));
            },
            BatchSize::NumIterations(100),
        );
    });
    group.finish();
}

fn sieve(criterion: &mut Criterion) {
    let mut sieve = MemorySieve::with_room_for(4_000_000);
    let fingerprint = |number: u64| {
        let mixed = u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        Fingerprint(mixed ^ mixed.rotate_left(67))
    };
    (0..2_000_000).for_each(|number| sieve.admit(fingerprint(number)));
    let mut next = 0;
    criterion.bench_function("sieve/probe new", |bench| {
        bench.iter(|| sieve.probe(fingerprint(1 << 40 | next_of(&mut next))));
    });
}

fn next_of(number: &mut u64) -> u64 {
    *number += 1;
    *number - 1
}

criterion_group! { name = benches; config = short(); targets = offers, page, sieve }
criterion_main!(benches);

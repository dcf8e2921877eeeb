//! The cost of a page's links on one core, from their texts to the queues: memo, join, normal form,
//! URL seen in RAM. A page has 60 links, and the budget is 10 us. Another bench encodes an admitted
//! URL for the journal.

mod support;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use nephila::base::{HashKey, Time};
use nephila::crawl::flow::{Candidate, Class, Queued, Trail, Via};
use nephila::crawl::frontier::{Caps, Frontier, MemorySieve};
use nephila::crawl::journal::push_admitted;
use nephila::proto::url::{HostKey, Normaliser, Url, UrlId};
use nephila::shard::discovery::link_desk::{LinkDesk, Ways};
use std::cell::{Cell, RefCell, RefMut};
use std::hint::black_box;
use support::short;

const LINK_COUNT: u64 = 60;
const NEW_LINK_COUNT: u64 = 6;
/// The number of pages. Their links are more than the memo holds, so the memo has forgotten a
/// page's links when the page comes again.
const PAGE_COUNT: u64 = 100_000;
const MEMORY_MB: usize = 32;
const _: () = assert!(PAGE_COUNT * LINK_COUNT > (MEMORY_MB << 20) as u64 / 8);

/// A core that owns all hosts.
struct Core {
    frontier: RefCell<Frontier<MemorySieve>>,
    normaliser: Normaliser,
    hash_key: HashKey,
    admitted_count: Cell<u64>,
}

impl Ways for Core {
    type Sieve = MemorySieve;
    type Data = ();

    fn frontier(&self) -> RefMut<'_, Frontier<MemorySieve>> {
        self.frontier.borrow_mut()
    }

    fn hash_key(&self) -> &HashKey {
        &self.hash_key
    }

    fn normaliser(&self) -> &Normaliser {
        &self.normaliser
    }

    fn is_home(&self, _: &str) -> bool {
        true
    }

    fn is_own(&self, _: HostKey) -> bool {
        true
    }

    fn send(&self, _: UrlId, _: &Candidate<&str>) {}

    fn admitted(&self, _: &Queued<&str>) {
        self.admitted_count.set(self.admitted_count.get() + 1);
    }
}

fn core() -> Core {
    let sieve = MemorySieve::with_room_for(8_000_000);
    let caps = Caps { skeleton_page_count_max: u64::MAX, ..Caps::default() };
    Core {
        frontier: RefCell::new(Frontier::with_sieve(sieve, caps, HashKey::new(1))),
        normaliser: Normaliser::new(&[]),
        hash_key: HashKey::new(1),
        admitted_count: Cell::new(0),
    }
}

fn base(page: u64) -> Url {
    Url::parse(&format!("http://www.host{page}.example/articles/{page}.html")).expect("a base")
}

/// Returns links of which a third are absolute and the others are paths of the page's own host.
fn hrefs(numbers: impl Iterator<Item = u64>) -> Vec<String> {
    let href = |number: u64| match number % 3 {
        0 => format!("http://www.other{}.example/articles/2026/{number}.html", number % 5_000),
        1 => format!("/articles/2026/some-title-{number}.html"),
        _ => format!("../tags/{number}?page=2&utm_source=feed"),
    };
    numbers.map(href).collect()
}

fn pages(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("links");
    group.throughput(Throughput::Elements(LINK_COUNT));
    let (core, mut desk) = (core(), LinkDesk::new(MEMORY_MB, HashKey::new(2)));
    let (home, links) = (base(0), hrefs(0..LINK_COUNT));
    group.bench_function("all remembered", |bench| {
        bench.iter(|| {
            let hrefs = links.iter().map(String::as_str);
            desk.route(&core, black_box(&home), hrefs, 2, Time::ZERO)
        });
    });
    let known: Vec<(Url, Vec<String>)> = (0..PAGE_COUNT)
        .map(|page| (base(page), hrefs(page * LINK_COUNT..(page + 1) * LINK_COUNT)))
        .collect();
    let route = |desk: &mut LinkDesk, (base, hrefs): &(Url, Vec<String>)| {
        desk.route(&core, base, hrefs.iter().map(String::as_str), 2, Time::ZERO)
    };
    for page in &known {
        route(&mut desk, page);
    }
    let mut next = 0;
    group.bench_function("all known, as they come round", |bench| {
        bench.iter(|| {
            next = (next + 7_919) % known.len();
            route(&mut desk, &known[next])
        });
    });
    let mut number = 1 << 32;
    group.bench_function("54 known and 6 new", |bench| {
        bench.iter_batched(
            || {
                next = (next + 7_919) % known.len();
                let (base, old) = &known[next];
                let mut hrefs = old[NEW_LINK_COUNT as usize..].to_vec();
                number += NEW_LINK_COUNT;
                hrefs.extend(self::hrefs(number - NEW_LINK_COUNT..number));
                (base.clone(), hrefs)
            },
            |page| route(&mut desk, &page),
            BatchSize::NumIterations(100),
        );
    });
    group.finish();
    assert!(core.admitted_count.get() > PAGE_COUNT, "some links were new");
}

fn journal(criterion: &mut Criterion) {
    let url =
        Url::parse("http://www.host7.example/articles/2026/some-title-7.html").expect("a URL");
    let (class, via, trail) = (Class::Normal, Via::Link, Trail::default());
    let queued = Queued { url, depth: 3, class, via, tries: 0, trail };
    let mut out = Vec::with_capacity(1 << 20);
    criterion.bench_function("journal/admitted", |bench| {
        bench.iter(|| {
            if out.len() > 1 << 19 {
                out.clear();
            }
            push_admitted(&mut out, black_box(&queued));
        });
    });
}

criterion_group! { name = benches; config = short(); targets = pages, journal }
criterion_main!(benches);

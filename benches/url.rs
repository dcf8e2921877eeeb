//! The cost of a link before URL seen: parse, join and normalise, with the reference parser for
//! comparison. One iteration is [`BATCH`] URLs of the corpus, so that branch predictors cannot
//! learn them. Without the corpus the same number of made-up URLs is used.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nephila::base::HashKey;
use nephila::proto::url::{Normaliser, Url, registrable_domain};
use std::hint::black_box;

const BATCH: usize = 4_096;

fn texts() -> Vec<String> {
    let root = std::env::var("NEPHILA_CORPUS").unwrap_or_else(|_| "../shared/corpus".into());
    let made_up = |index| format!("https://host{index}.example/a/{index}/page.html?b=2&a={index}");
    match std::fs::read_to_string(format!("{root}/urls/real-urls.txt")) {
        Ok(text) => text.lines().step_by(11).take(BATCH).map(str::to_owned).collect(),
        Err(_) => (0..BATCH).map(made_up).collect(),
    }
}

fn url(criterion: &mut Criterion) {
    let texts = texts();
    let urls: Vec<Url> = texts.iter().filter_map(|text| Url::parse(text).ok()).collect();
    let paths: Vec<&str> = urls.iter().map(|url| url.path_and_query()).collect();
    let relatives: Vec<&str> = paths.iter().map(|path| &path[1..]).collect();
    let base = Url::parse("https://www.example.org/section/page.html").expect("a base");
    let base_of_reference = url::Url::parse(base.as_str()).expect("a base");
    let (normaliser, key) = (Normaliser::new(&[]), HashKey::new(1));

    let mut group = criterion.benchmark_group("url");
    group.throughput(Throughput::Elements(urls.len() as u64));
    group.bench_function("parse", |bench| {
        bench.iter(|| texts.iter().for_each(|text| _ = black_box(Url::parse(text))));
    });
    group.bench_function("parse_by_reference", |bench| {
        bench.iter(|| texts.iter().for_each(|text| _ = black_box(url::Url::parse(text))));
    });
    for (name, references) in [("join_path", &paths), ("join_relative", &relatives)] {
        group.bench_function(name, |bench| {
            bench.iter(|| references.iter().for_each(|text| _ = black_box(base.join(text))));
        });
    }
    group.bench_function("join_path_by_reference", |bench| {
        bench.iter(|| paths.iter().for_each(|text| _ = black_box(base_of_reference.join(text))));
    });
    group.bench_function("normalise", |bench| {
        // The URLs are normalised in place: allocating a second vector, or freeing the first, would
        // take most of the time.
        bench.iter_batched_ref(
            || urls.iter().cloned().map(Some).collect::<Vec<_>>(),
            |urls| {
                for url in urls.iter_mut() {
                    *url = url.take().map(|url| normaliser.normalise(url));
                }
            },
            criterion::BatchSize::LargeInput,
        );
    });
    group.bench_function("fingerprint_and_host_key", |bench| {
        bench.iter(|| {
            urls.iter().for_each(|url| _ = black_box((url.fingerprint(&key), url.host_key(&key))))
        });
    });
    group.bench_function("registrable_domain", |bench| {
        bench.iter(|| urls.iter().for_each(|url| _ = black_box(registrable_domain(url.host()))));
    });
    group.finish();
}

criterion_group!(benches, url);
criterion_main!(benches);

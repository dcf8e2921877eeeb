//! The cost of robots.txt: reading a file, and judging a path by it. Real files are used if there
//! is a corpus, and otherwise a made-up file that resembles them.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nephila::proto::robotstxt::Robots;
use std::hint::black_box;

fn files() -> Vec<Vec<u8>> {
    let root = std::env::var("NEPHILA_CORPUS").unwrap_or_else(|_| "../shared/corpus".into());
    match std::fs::read_dir(format!("{root}/robots")) {
        Ok(entries) => entries.filter_map(|entry| std::fs::read(entry.ok()?.path()).ok()).collect(),
        Err(_) => {
            let mut file = String::from("User-agent: *\nCrawl-delay: 1\n");
            for index in 0..80 {
                file.push_str(&format!("Disallow: /section-{index}/*/print$\nAllow: /s{index}\n"));
            }
            vec![file.into_bytes()]
        }
    }
}

fn robots(criterion: &mut Criterion) {
    let files = files();
    let bytes: usize = files.iter().map(Vec::len).sum();
    let mut group = criterion.benchmark_group("robots");
    group.throughput(Throughput::Bytes(bytes as u64));
    group.bench_function("parse every file", |bencher| {
        bencher.iter(|| {
            for file in &files {
                black_box(Robots::parse(black_box(file), "nephila"));
            }
        });
    });
    let all: Vec<_> = files.iter().map(|file| Robots::parse(file, "nephila")).collect();
    let rule_count: usize = all.iter().map(|robots| robots.rules().count()).sum();
    let heap_bytes: usize = all.iter().map(Robots::heap_bytes).sum();
    eprintln!("{} files, {rule_count} rules for us, {heap_bytes} bytes on the heap", all.len());
    group.throughput(Throughput::Elements(all.len() as u64));
    group.bench_function("check a path by every file", |bencher| {
        bencher.iter(|| {
            for robots in &all {
                black_box(robots.check(black_box("/news/2026/01/31/spiders-web-index.html?id=7")));
            }
        });
    });
    let stars = format!("User-agent: *\nDisallow: /{}b$\n", "*a".repeat(8_000));
    let stars = Robots::parse(stars.as_bytes(), "nephila");
    let path = format!("/{}", "a".repeat(4_000));
    group.throughput(Throughput::Elements(1));
    group.bench_function("check a long path by 8,000 stars", |bencher| {
        bencher.iter(|| black_box(stars.check(black_box(&path))));
    });
    group.finish();
}

criterion_group!(benches, robots);
criterion_main!(benches);

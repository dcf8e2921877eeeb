//! Link extraction over the corpus pages, in bytes per second, with the readers of `nephila bench
//! parse` and with lol_html behind our page rules (`--extractor lol`).
//!
//! `cargo bench --bench html -- --test` runs each once.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nephila::lab::bench::parse::{READERS, Read};
use nephila::proto::html::LolReader;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::Duration;

/// The size of the pieces that the ring delivers.
const CHUNK_BYTES: usize = nephila::base::limits::RING_BUFFER_BYTES;

fn pages() -> Vec<Vec<u8>> {
    let root = std::env::var_os("NEPHILA_CORPUS")
        .map_or_else(|| PathBuf::from("../shared/corpus"), PathBuf::from);
    let Ok(folder) = std::fs::read_dir(root.join("pages")) else {
        println!("skipped: no corpus");
        return Vec::new();
    };
    folder.filter_map(|entry| std::fs::read(entry.ok()?.path()).ok()).collect()
}

/// The reader of `--extractor lol`: lol_html behind the same page rules.
fn lol_page(page: &[u8]) -> usize {
    let mut text_byte_count = 0;
    let mut count = |piece: &[u8]| text_byte_count += piece.len();
    let mut reader = LolReader::new(Some("utf-8"));
    page.chunks(CHUNK_BYTES).for_each(|chunk| reader.push(chunk, &mut count));
    reader.finish(&mut count).link_count() + text_byte_count
}

fn compare(criterion: &mut Criterion) {
    let pages = pages();
    let byte_count: usize = pages.iter().map(Vec::len).sum();
    let mut group = criterion.benchmark_group("html");
    group.throughput(Throughput::Bytes(byte_count as u64));
    group.sample_size(10).measurement_time(Duration::from_secs(2));
    group.warm_up_time(Duration::from_millis(500));
    let extractor: (&str, Read) = ("extractor lol, links, text", lol_page);
    for (name, read) in READERS.into_iter().chain([extractor]) {
        group.bench_function(name, |bencher| {
            bencher.iter(|| pages.iter().for_each(|page| _ = black_box(read(page))));
        });
    }
    group.finish();
}

criterion_group!(benches, compare);
criterion_main!(benches);

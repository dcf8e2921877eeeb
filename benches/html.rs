//! Link extraction over the corpus pages: our reader, lol_html and html5gum, in bytes a second.
//!
//! `links`: every a, area, link, iframe and frame with its target. `text`: the visible text as
//! well. `page`: all of the crawler's parse step, the text's SimHash too.
//! `cargo bench --bench html -- --test` runs each once.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use lol_html::{HtmlRewriter, Settings, element};
use nephila::html::{LolReader, NoText, PageReader};
use nephila::simhash::SimHasher;
use std::cell::Cell;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::Duration;

/// As the ring hands them out.
const CHUNK_BYTES: usize = nephila::limits::RING_BUFFER_BYTES;

type Read = fn(&[u8]) -> usize;

fn pages() -> Vec<Vec<u8>> {
    let root = std::env::var_os("NEPHILA_CORPUS")
        .map_or_else(|| PathBuf::from("../shared/corpus"), PathBuf::from);
    let Ok(folder) = std::fs::read_dir(root.join("pages")) else {
        println!("skipped: no corpus");
        return Vec::new();
    };
    folder.filter_map(|entry| std::fs::read(entry.ok()?.path()).ok()).collect()
}

fn ours_links(page: &[u8]) -> usize {
    let mut reader = PageReader::new(Some("utf-8"));
    page.chunks(CHUNK_BYTES).for_each(|chunk| reader.push(chunk, &mut NoText));
    reader.finish(&mut NoText).link_count()
}

fn ours_text(page: &[u8]) -> usize {
    let mut text_byte_count = 0;
    let mut count = |piece: &[u8]| text_byte_count += piece.len();
    let mut reader = PageReader::new(Some("utf-8"));
    page.chunks(CHUNK_BYTES).for_each(|chunk| reader.push(chunk, &mut count));
    reader.finish(&mut count).link_count() + text_byte_count
}

fn ours_page(page: &[u8]) -> usize {
    let mut hasher = SimHasher::new();
    let mut take = |piece: &[u8]| hasher.push_text(piece);
    let mut reader = PageReader::new(Some("utf-8"));
    page.chunks(CHUNK_BYTES).for_each(|chunk| reader.push(chunk, &mut take));
    let page = reader.finish(&mut take);
    page.link_count() ^ hasher.finish().unwrap_or(0) as usize
}

/// lol_html as its users would: selectors, and nothing but the targets taken.
fn lol_links(page: &[u8]) -> usize {
    let byte_count = Cell::new(0);
    let take = |value: Option<String>| {
        byte_count.set(byte_count.get() + value.map_or(0, |value| value.len()));
    };
    let settings = Settings::new()
        .append_element_content_handler(element!("a[href], area[href], link[href]", |element| {
            take(element.get_attribute("href"));
            Ok(())
        }))
        .append_element_content_handler(element!("iframe[src], frame[src]", |element| {
            take(element.get_attribute("src"));
            Ok(())
        }))
        .with_strict(false);
    let mut rewriter = HtmlRewriter::new(settings, |_: &[u8]| {});
    for chunk in page.chunks(CHUNK_BYTES) {
        if rewriter.write(chunk).is_err() {
            return 0;
        }
    }
    let _ = rewriter.end();
    byte_count.get()
}

/// `--extractor lol`: lol_html behind the same page rules.
fn lol_page(page: &[u8]) -> usize {
    let mut text_byte_count = 0;
    let mut count = |piece: &[u8]| text_byte_count += piece.len();
    let mut reader = LolReader::new(Some("utf-8"));
    page.chunks(CHUNK_BYTES).for_each(|chunk| reader.push(chunk, &mut count));
    reader.finish(&mut count).link_count() + text_byte_count
}

fn gum_links(page: &[u8]) -> usize {
    let mut byte_count = 0;
    for Ok(token) in html5gum::Tokenizer::new(page) {
        if let html5gum::Token::StartTag(tag) = token
            && matches!(&*tag.name.0, b"a" | b"area" | b"link" | b"iframe" | b"frame")
        {
            let value =
                tag.attributes.iter().find(|(name, _)| matches!(&*name.0, b"href" | b"src"));
            byte_count += value.map_or(0, |(_, value)| value.len());
        }
    }
    byte_count
}

fn compare(criterion: &mut Criterion) {
    let pages = pages();
    let byte_count: usize = pages.iter().map(Vec::len).sum();
    let mut group = criterion.benchmark_group("html");
    group.throughput(Throughput::Bytes(byte_count as u64));
    group.sample_size(10).measurement_time(Duration::from_secs(2));
    group.warm_up_time(Duration::from_millis(500));
    let readers: [(&str, Read); 6] = [
        ("links/nephila", ours_links),
        ("links/lol_html", lol_links),
        ("links/html5gum", gum_links),
        ("text/nephila", ours_text),
        ("text/extractor_lol", lol_page),
        ("page/nephila", ours_page),
    ];
    for (name, read) in readers {
        group.bench_function(name, |bencher| {
            bencher.iter(|| pages.iter().for_each(|page| _ = black_box(read(page))));
        });
    }
    group.finish();
}

criterion_group!(benches, compare);
criterion_main!(benches);

//! The cost of the SimHash of the visible text of one page: 15 KB, about 2,500 words, in pieces as
//! a tokenizer gives them.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nephila::proto::simhash::SimHasher;
use std::hint::black_box;

const TEXT_BYTES: usize = 15_000;

/// Returns articles if there is a corpus, and otherwise made-up words that are as long as those of
/// an article.
fn text() -> String {
    let root = std::env::var("NEPHILA_CORPUS").unwrap_or_else(|_| "../shared/corpus".into());
    let path = format!("{root}/near-duplicates/articles_1000.train");
    let mut text = std::fs::read_to_string(path).unwrap_or_else(|_| {
        let lengths = [3, 5, 2, 9, 4, 7, 1, 3, 6, 12, 4, 2, 8, 5, 3, 17];
        let mut text = String::new();
        for index in 0..4_000usize {
            let letter = char::from(b'a' + (index * 7 % 26) as u8);
            text.extend(std::iter::repeat_n(letter, lengths[index * 11 % lengths.len()]));
            text.push(' ');
        }
        text
    });
    let end = (TEXT_BYTES..).find(|end| text.is_char_boundary(*end)).unwrap_or(TEXT_BYTES);
    text.truncate(end);
    text
}

fn simhash(criterion: &mut Criterion) {
    let ascii = text();
    let word_count = ascii.split_whitespace().count();
    let accented = ascii.replace('e', "\u{e9}");
    let mut hasher = SimHasher::new();
    let mut group = criterion.benchmark_group("simhash");
    for (name, text, piece_bytes) in [
        (format!("{word_count} words whole"), &ascii, usize::MAX),
        (format!("{word_count} words in pieces of 60"), &ascii, 60),
        (format!("{word_count} words with accents"), &accented, usize::MAX),
    ] {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                for piece in black_box(text).as_bytes().chunks(piece_bytes) {
                    hasher.push_text(piece);
                }
                hasher.finish()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, simhash);
criterion_main!(benches);

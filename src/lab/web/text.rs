//! The words of the synthetic web: a vocabulary of pseudo-words, and a pool of ready paragraphs
//! from which pages are put together. So building a page is only formatting its links and copying.
//!
//! Every paragraph is kept twice: as HTML, and as raw deflate blocks that end on a byte and refer
//! to nothing before them, so that a gzip body can be put together as well (compressing a 25 KB
//! page at request time took 150 us and more; copying the blocks takes a few).

use crate::lab::web::chance::{Dice, mix};
use flate2::{Compress, Compression, FlushCompress};

const WORD_COUNT: u32 = 4_096;
const PARAGRAPH_COUNT: u32 = 2_048;
const PARAGRAPH_WORDS_MIN: u32 = 50;
const PARAGRAPH_WORDS_SPREAD: u32 = 40;
const FILLER_BYTES: usize = 4_096;

pub struct Text {
    words: Vec<Box<str>>,
    paragraphs: Vec<Paragraph>,
    filler: String,
    paragraph_bytes_mean: usize,
}

/// One `<p>` of plain words, some in `<em>` or `<span>`, without links or anything that needs
/// escaping.
pub struct Paragraph {
    pub html: Box<[u8]>,
    pub deflated: Box<[u8]>,
}

impl Text {
    pub fn new(seed: u64) -> Text {
        let mut dice = Dice::new(mix(seed, 0x7465_7874));
        let words: Vec<Box<str>> = (0..WORD_COUNT).map(|_| word(&mut dice)).collect();
        let paragraphs: Vec<Paragraph> =
            (0..PARAGRAPH_COUNT).map(|_| paragraph(&words, &mut dice)).collect();
        let mut filler = String::with_capacity(FILLER_BYTES + 16);
        while filler.len() < FILLER_BYTES {
            filler.push_str(pick(&words, dice.roll()));
            filler.push(' ');
        }
        let total: usize = paragraphs.iter().map(|p| p.html.len()).sum();
        Text { words, filler, paragraph_bytes_mean: total / paragraphs.len(), paragraphs }
    }

    /// Returns a word of lower-case letters, never empty. Frequent words come up often.
    pub fn word(&self, hash: u64) -> &str {
        pick(&self.words, hash)
    }

    /// Returns the paragraph that a hash selects, and its index.
    pub fn choose(&self, hash: u64) -> (u32, &Paragraph) {
        let index = crate::lab::web::chance::scale(hash, PARAGRAPH_COUNT);
        (index, &self.paragraphs[index as usize])
    }

    pub fn paragraph(&self, index: u32) -> &Paragraph {
        &self.paragraphs[index as usize]
    }

    pub fn paragraph_bytes_mean(&self) -> usize {
        self.paragraph_bytes_mean
    }

    /// Appends exactly `count` bytes of words and spaces.
    pub fn push_filler(&self, mut count: usize, out: &mut Vec<u8>) {
        while count > 0 {
            let piece = &self.filler.as_bytes()[..count.min(self.filler.len())];
            out.extend_from_slice(piece);
            count -= piece.len();
        }
    }
}

/// Selects a word. The draw is squared so that low indices are frequent, as in a natural text.
fn pick(words: &[Box<str>], hash: u64) -> &str {
    let draw = hash >> 32;
    let skewed = (draw * draw) >> 32;
    &words[((skewed * words.len() as u64) >> 32) as usize]
}

fn word(dice: &mut Dice) -> Box<str> {
    const ONSETS: [&str; 16] =
        ["b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "st", "tr", "sh"];
    const VOWELS: [&str; 8] = ["a", "e", "i", "o", "u", "ai", "ou", "ea"];
    const CODAS: [&str; 8] = ["", "", "", "n", "r", "s", "l", "nt"];
    let mut word = String::new();
    for _ in 0..1 + dice.below(3) {
        word.push_str(ONSETS[dice.below(16) as usize]);
        word.push_str(VOWELS[dice.below(8) as usize]);
        word.push_str(CODAS[dice.below(8) as usize]);
    }
    word.into_boxed_str()
}

fn paragraph(words: &[Box<str>], dice: &mut Dice) -> Paragraph {
    let mut html = String::from(if dice.below(4) == 0 { "<p class=\"lead\">" } else { "<p>" });
    let count = PARAGRAPH_WORDS_MIN + dice.below(PARAGRAPH_WORDS_SPREAD);
    for index in 0..count {
        let word = pick(words, dice.roll());
        match dice.below(24) {
            0 => html.push_str(&format!("<em>{word}</em>")),
            1 => html.push_str(&format!("<span class=\"t\">{word}</span>")),
            _ => html.push_str(word),
        }
        let last = index + 1 == count;
        html.push_str(match dice.below(12) {
            _ if last => ".",
            0 => ". ",
            1 => ", ",
            _ => " ",
        });
    }
    html.push_str("</p>\n");
    let deflated = deflate(html.as_bytes());
    Paragraph { html: html.into_bytes().into_boxed_slice(), deflated }
}

fn deflate(bytes: &[u8]) -> Box<[u8]> {
    let mut compress = Compress::new(Compression::new(6), false);
    let mut out = Vec::with_capacity(bytes.len() + 64);
    let status = compress.compress_vec(bytes, &mut out, FlushCompress::Sync);
    assert!(
        status.is_ok()
            && compress.total_in() == bytes.len() as u64
            && out.ends_with(&[0, 0, 255, 255]),
        "the buffer holds any paragraph and its sync marker"
    );
    out.into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn deflated_paragraphs_unpack_one_behind_the_other() {
        let text = Text::new(5);
        let (first, second) = (text.paragraph(3), text.paragraph(700));
        let mut stream = [&first.deflated[..], &second.deflated[..]].concat();
        stream.extend_from_slice(&[1, 0, 0, 255, 255]);
        let mut plain = Vec::new();
        flate2::read::DeflateDecoder::new(&stream[..]).read_to_end(&mut plain).unwrap();
        assert_eq!(plain, [&first.html[..], &second.html[..]].concat());
    }

    #[test]
    fn filler_has_the_length_asked_for() {
        let text = Text::new(5);
        for count in [0, 1, 4_095, 4_096, 10_000] {
            let mut out = Vec::new();
            text.push_filler(count, &mut out);
            assert_eq!(out.len(), count);
            assert!(out.iter().all(|byte| byte.is_ascii_lowercase() || *byte == b' '));
        }
    }
}

//! The page reader: the bytes of a body go in, a [`Page`] and its visible text come out.
//!
//! Bytes flow through [`charset`](super::charset) and the [tokenizer](super::tokenizer) into a
//! [`Collector`], which keeps what a crawler needs from the tags and hands visible text on as it
//! comes. Memory is bounded by `limits`, whatever the page: links by number (or, without a limit,
//! by the page's size) and by length, title and anchor texts by length, and there is no stack of
//! open elements. A reader belongs to one page and stays on one core.

use super::charset::Decoder;
use super::collector::{Collector, CollectorSink};
use super::crowd::LinkTerms;
use super::page::Page;
use super::tokenizer::Tokenizer;

/// Takes the visible text of a page, which is all but scripts, styles, templates, title and
/// `noscript`. Pieces are UTF-8 except where the page is not, may end anywhere, and have a space
/// where a block begins or ends. Of the white space behind a tag at most one blank is handed on,
/// except to a sink that [takes blanks](TextSink::TAKES_BLANKS). Any `FnMut(&[u8])` is a sink.
pub trait TextSink {
    /// When false, the reader does not even look for text.
    const WANTED: bool = true;
    /// When true, white space is handed on unchanged, and every break is handed on. For a sink that
    /// looks for words, it costs more to find the blanks that matter than to take them all.
    const TAKES_BLANKS: bool = false;
    fn text(&mut self, piece: &[u8]);
    /// Hands on a space if `is_break`.
    #[inline]
    fn part(&mut self, is_break: bool) {
        if is_break {
            self.text(b" ");
        }
    }
    /// Hands on a space if `is_break`, then `chunk[start..stop]`, which may be empty.
    #[inline]
    fn run(&mut self, is_break: bool, chunk: &[u8], start: usize, stop: usize) {
        if is_break {
            self.text(b" ");
        }
        if start < stop {
            self.text(&chunk[start..stop]);
        }
    }
}

/// A sink for callers that want links only.
pub struct NoText;

impl TextSink for NoText {
    const WANTED: bool = false;
    fn text(&mut self, _piece: &[u8]) {}
}

impl<F: FnMut(&[u8])> TextSink for F {
    fn text(&mut self, piece: &[u8]) {
        self(piece);
    }
}

/// Reads one page on one core; see the module.
#[derive(Default)]
pub struct PageReader {
    decoder: Decoder,
    tokenizer: Tokenizer,
    collector: Collector,
}

impl PageReader {
    /// Returns the bytes of memory that its findings take so far.
    pub fn held_bytes(&self) -> usize {
        self.collector.held_bytes()
    }

    /// Makes a reader. `header_charset` is the charset parameter of the Content-Type header, if
    /// any.
    pub fn new(header_charset: Option<&str>) -> PageReader {
        PageReader { decoder: Decoder::new(header_charset), ..PageReader::default() }
    }

    /// Sets which links of the page are kept. To be called before the first byte.
    pub fn with_links(mut self, terms: LinkTerms) -> PageReader {
        self.collector.set_links(terms);
        self
    }

    /// Makes a new reader in a box, in its place: moving its two kilobytes would take longer than
    /// making it.
    pub fn boxed<With: Default>(
        header_charset: Option<&str>,
        terms: LinkTerms,
    ) -> Box<(PageReader, With)> {
        let mut boxed: Box<(PageReader, With)> = Box::default();
        boxed.0.collector.set_links(terms);
        boxed.0.decoder = Decoder::new(header_charset);
        boxed
    }

    /// Takes the next bytes of the body, with any content coding already removed.
    pub fn push<T: TextSink>(&mut self, bytes: &[u8], text: &mut T) {
        let PageReader { decoder, tokenizer, collector } = self;
        decoder.push(bytes, &mut |piece| {
            tokenizer.push(piece, &mut CollectorSink { collector, text });
            collector.declared_charset()
        });
    }

    /// Ends the page, because the body is over or was cut here.
    pub fn finish<T: TextSink>(mut self, text: &mut T) -> Page {
        self.end(text)
    }

    /// Does what [`finish`](PageReader::finish) does without consuming the reader, which must not
    /// be used afterwards.
    pub fn end<T: TextSink>(&mut self, text: &mut T) -> Page {
        let PageReader { decoder, tokenizer, collector } = self;
        decoder.finish(&mut |piece| {
            tokenizer.push(piece, &mut CollectorSink { collector, text });
            collector.declared_charset()
        });
        tokenizer.finish(&mut CollectorSink { collector, text });
        collector.finish(decoder.charset())
    }
}

//! The page reader: bytes of a body in, a [`Page`] and its visible text out.
//!
//! Bytes flow through [`charset`](super::charset) and the [tokenizer](super::tokenizer) into a
//! [`Collector`], which keeps what a crawler wants of the tags and hands visible text on as it
//! comes. Memory is bounded by `limits`, whatever the page: links by number (or, without a limit,
//! by the page's size) and length, title and anchor texts by length, and no stack of open elements.

use super::charset::Decoder;
use super::collector::{Collector, CollectorSink};
use super::crowd::LinkTerms;
use super::page::Page;
use super::tokenizer::Tokenizer;

/// Takes the visible text of a page: not scripts, styles, templates, title or `noscript`. Pieces
/// are UTF-8 except where the page is not, end anywhere, and have a space where a block begins or
/// ends; of the white space that follows a tag at most one is handed on, but to one that
/// [takes blanks](TextSink::TAKES_BLANKS). Any `FnMut(&[u8])` is one.
pub trait TextSink {
    /// When false, text is not even looked for.
    const WANTED: bool = true;
    /// White space is handed on as it stands, and a break wherever there is one: to tell which of
    /// them matter costs more than they do, for one that looks for words.
    const TAKES_BLANKS: bool = false;
    fn text(&mut self, piece: &[u8]);
    /// A space, if there `is_break`.
    #[inline]
    fn part(&mut self, is_break: bool) {
        if is_break {
            self.text(b" ");
        }
    }
    /// A space, if there `is_break`, and `chunk[start..stop]`, which may be empty.
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

/// For callers that want links only.
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

/// See the module. One page's, on one core.
#[derive(Default)]
pub struct PageReader {
    decoder: Decoder,
    tokenizer: Tokenizer,
    collector: Collector,
}

impl PageReader {
    /// Memory for what it has found so far.
    pub fn held_bytes(&self) -> usize {
        self.collector.held_bytes()
    }

    /// `header_charset`: the charset parameter of the Content-Type header, if any.
    pub fn new(header_charset: Option<&str>) -> PageReader {
        PageReader { decoder: Decoder::new(header_charset), ..PageReader::default() }
    }

    /// Which links of the page are kept; before its first byte.
    pub fn with_links(mut self, terms: LinkTerms) -> PageReader {
        self.collector.set_links(terms);
        self
    }

    /// A new reader in a box, made in its place: a move of its two kilobytes would take longer than
    /// to make it.
    pub fn boxed<With: Default>(
        header_charset: Option<&str>,
        terms: LinkTerms,
    ) -> Box<(PageReader, With)> {
        let mut boxed: Box<(PageReader, With)> = Box::default();
        boxed.0.collector.set_links(terms);
        boxed.0.decoder = Decoder::new(header_charset);
        boxed
    }

    /// Takes the next bytes of the body, content coding removed.
    pub fn push<T: TextSink>(&mut self, bytes: &[u8], text: &mut T) {
        let PageReader { decoder, tokenizer, collector } = self;
        decoder.push(bytes, &mut |piece| {
            tokenizer.push(piece, &mut CollectorSink { collector, text });
            collector.declared_charset()
        });
    }

    /// The body is over, or cut here.
    pub fn finish<T: TextSink>(mut self, text: &mut T) -> Page {
        self.end(text)
    }

    /// [`finish`](PageReader::finish) where the reader stands. It is of no use after that.
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

//! Gives the same [`Page`] with lol_html as the tokenizer: a second opinion in tests, and the
//! extractor of `--extractor lol`.
//!
//! lol_html finds tags, attributes and text; the rules for charset and page are those of
//! [`PageReader`]. Two things differ by design of lol_html: it reads `noscript` as raw text (links
//! inside are not found), and a reference in text is lost where lol_html cuts the text inside it.
//! It is slower, and allocates for every tag.
//!
//! [`PageReader`]: super::PageReader

use super::charset::Decoder;
use super::collector::{Collector, CollectorSink};
use super::crowd::LinkTerms;
use super::name::TagName;
use super::page::Page;
use super::reader::TextSink;
use super::reference::{self, Place};
use super::tokenizer::{Tag, TokenSink, Value};
use crate::base::limits::{ATTRIBUTE_BYTES_MAX, LOL_MEMORY_BYTES_MAX};
use lol_html::html_content::{Element, EndTag, TextChunk, TextType};
use lol_html::{HandlerResult, HtmlRewriter, MemorySettings, Settings, doc_text, element};
use std::cell::RefCell;
use std::rc::Rc;

type Rewriter = HtmlRewriter<'static, fn(&[u8])>;

/// Reads one page on one core; its input and output are those of [`PageReader`](super::PageReader).
pub struct LolReader {
    decoder: Decoder,
    /// `None` once the rewriter has failed on a token larger than its memory. What was found before
    /// stays.
    rewriter: Option<Rewriter>,
    shared: Rc<RefCell<Shared>>,
}

impl LolReader {
    pub fn new(header_charset: Option<&str>) -> LolReader {
        let shared = Rc::new(RefCell::new(Shared::default()));
        let (on_element, on_text) = (shared.clone(), shared.clone());
        let memory = MemorySettings::new().with_max_allowed_memory_usage(LOL_MEMORY_BYTES_MAX);
        let settings = Settings::new()
            .append_element_content_handler(element!("*", move |element| {
                take_element(element, &on_element)
            }))
            .append_document_content_handler(doc_text!(move |chunk| {
                on_text.borrow_mut().take_text(chunk);
                Ok(())
            }))
            .with_memory_settings(memory)
            // In strict mode lol_html would stop where the parse is ambiguous; the crawler takes
            // its best guess.
            .with_strict(false);
        let output: fn(&[u8]) = |_| {};
        let rewriter = Some(HtmlRewriter::new(settings, output));
        LolReader { decoder: Decoder::new(header_charset), rewriter, shared }
    }

    /// Sets which links of the page are kept. To be called before the first byte.
    pub fn with_links(self, terms: LinkTerms) -> LolReader {
        self.shared.borrow_mut().collector.set_links(terms);
        self
    }

    pub fn push<T: TextSink>(&mut self, bytes: &[u8], text: &mut T) {
        let LolReader { decoder, rewriter, shared } = self;
        decoder.push(bytes, &mut |piece| {
            write(rewriter, piece);
            shared.borrow().collector.declared_charset()
        });
        shared.borrow_mut().hand_on(text);
    }

    pub fn finish<T: TextSink>(mut self, text: &mut T) -> Page {
        let LolReader { decoder, rewriter, shared } = &mut self;
        decoder.finish(&mut |piece| {
            write(rewriter, piece);
            shared.borrow().collector.declared_charset()
        });
        if let Some(rewriter) = rewriter.take() {
            // A page that ends inside a token is not reported as a failure: that token is no token.
            let _ = rewriter.end();
        }
        let mut shared = self.shared.take();
        shared.hand_on(text);
        shared.collector.finish(self.decoder.charset())
    }
}

fn write(rewriter: &mut Option<Rewriter>, piece: &[u8]) {
    if let Some(running) = rewriter
        && running.write(piece).is_err()
    {
        *rewriter = None;
    }
}

/// What the handlers share: the collector, and the visible text not yet handed on.
#[derive(Default)]
struct Shared {
    collector: Collector,
    text: Kept,
    scratch: Vec<u8>,
}

#[derive(Default)]
struct Kept(Vec<u8>);

impl TextSink for Kept {
    fn text(&mut self, piece: &[u8]) {
        self.0.extend_from_slice(piece);
    }
}

impl Shared {
    fn sink(&mut self) -> CollectorSink<'_, Kept> {
        CollectorSink { collector: &mut self.collector, text: &mut self.text }
    }

    fn hand_on<T: TextSink>(&mut self, text: &mut T) {
        if T::WANTED && !self.text.0.is_empty() {
            text.text(&self.text.0);
        }
        self.text.0.clear();
    }

    fn take_text(&mut self, chunk: &TextChunk<'_>) {
        let raw = chunk.as_str().as_bytes();
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        match chunk.text_type() {
            TextType::Data | TextType::RCData => {
                reference::decode(raw, Place::Text, &mut scratch);
            }
            _ => scratch.extend_from_slice(raw),
        }
        let mut sink = self.sink();
        if !scratch.is_empty() && sink.wants_text() {
            sink.text(&scratch);
        }
        self.scratch = scratch;
    }
}

fn take_element(element: &mut Element<'_, '_>, shared: &Rc<RefCell<Shared>>) -> HandlerResult {
    let foreign = element.namespace_uri() != "http://www.w3.org/1999/xhtml";
    let raw = element.tag_name();
    let name = TagName::of(raw.as_bytes());
    {
        let mut shared = shared.borrow_mut();
        let mut sink = shared.sink();
        if sink.start_tag(Tag { name, raw: raw.as_bytes(), traits: name.traits(), foreign }) {
            for attribute in element.attributes() {
                let value = attribute.value();
                let raw = value.as_bytes();
                let cut = raw.len() > ATTRIBUTE_BYTES_MAX;
                let raw = &raw[..raw.len().min(ATTRIBUTE_BYTES_MAX)];
                sink.attribute(attribute.name().as_bytes(), Value { raw, cut });
            }
        }
        sink.start_tag_end(element.is_self_closing());
    }
    if let Some(handlers) = element.end_tag_handlers() {
        let shared = shared.clone();
        handlers.push(Box::new(move |end: &mut EndTag<'_>| {
            let raw = end.name();
            let name = TagName::of(raw.as_bytes());
            let (raw, traits) = (raw.as_bytes(), name.traits());
            shared.borrow_mut().sink().end_tag(Tag { name, raw, traits, foreign });
            Ok(())
        }));
    }
    Ok(())
}

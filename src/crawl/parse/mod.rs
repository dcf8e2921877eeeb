//! The parse stage: from a body, as it arrives, to what the crawler needs to know of it.
//!
//! A response head flows in, then body pieces with the transfer coding removed. A [`Parsed`] flows
//! out. The content type chooses a [`Handler`]; a new content type is a new variant with its three
//! match arms. Content codings are decoded on the way. A body that cannot be decoded is stored all
//! the same, and marked. A parser is owned by one core and never waits.

mod listed;

pub use listed::{ListReader, Listed};

use crate::base::limits::{HTML_READER_BYTES, LOL_MEMORY_BYTES_MAX};
use crate::crawl::config::{Extractor, Settings};
use crate::proto::html::{LinkTerms, LolReader, Page, PageReader, TextSink};
use crate::proto::http::{ContentType, DecodeError, Decoder, DecoderPool, ResponseHead};
use crate::proto::simhash::SimHasher;

/// What was found in a body.
#[derive(Debug, Default)]
pub struct Parsed {
    /// The links, the title and the rest of an HTML page.
    pub page: Option<Page>,
    /// What a sitemap lists, if the body was requested as a sitemap and is one.
    pub listed: Option<Listed>,
    /// The SimHash of the visible text, if there was enough text.
    pub simhash: Option<u64>,
    /// Set if the body could not be decoded to its end. The raw bytes are kept, and so is what was
    /// found before.
    pub failed: Option<DecodeError>,
    /// Length of the body that was read, with the content coding removed.
    pub decoded_bytes: u64,
}

/// Reads one body, piece by piece.
pub struct Parser {
    decoder: Option<Decoder>,
    handler: Handler,
    failed: Option<DecodeError>,
    decoded_bytes: u64,
}

/// How pages are read.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    pub extractor: Extractor,
    pub links: LinkTerms,
}

impl Manner {
    pub fn of(settings: &Settings) -> Manner {
        let links = LinkTerms::new(settings.page_link_count_max, settings.follow_nofollow);
        Manner { extractor: settings.extractor, links }
    }
}

/// The variants are boxed, because a parser waits in a fetch task and most tasks wait for bodies
/// that are not HTML.
enum Handler {
    Html(Box<(PageReader, SimHasher)>),
    Lol(Box<(LolReader, SimHasher)>),
    Text(Box<SimHasher>),
    Sitemap(Box<ListReader>),
    /// The body is stored and not read.
    Opaque,
}

/// Feeds visible text into a fingerprint.
impl TextSink for SimHasher {
    const TAKES_BLANKS: bool = true;

    #[inline]
    fn text(&mut self, piece: &[u8]) {
        self.push_text(piece);
    }

    #[inline(always)]
    fn part(&mut self, is_break: bool) {
        self.push_break(is_break);
    }

    #[inline(always)]
    fn run(&mut self, is_break: bool, chunk: &[u8], start: usize, stop: usize) {
        self.push_short(is_break, chunk, start, stop);
    }
}

/// A [`TextSink`] for a hasher that is only borrowed.
pub struct Hashed<'a>(pub &'a mut SimHasher);

impl TextSink for Hashed<'_> {
    const TAKES_BLANKS: bool = true;

    #[inline]
    fn text(&mut self, piece: &[u8]) {
        self.0.text(piece);
    }

    #[inline(always)]
    fn part(&mut self, is_break: bool) {
        self.0.part(is_break);
    }

    #[inline(always)]
    fn run(&mut self, is_break: bool, chunk: &[u8], start: usize, stop: usize) {
        self.0.run(is_break, chunk, start, stop);
    }
}

impl Handler {
    fn take(&mut self, bytes: &[u8]) {
        match self {
            Handler::Html(html) => {
                let (reader, hasher) = &mut **html;
                reader.push(bytes, hasher);
            }
            Handler::Lol(lol) => {
                let (reader, hasher) = &mut **lol;
                reader.push(bytes, hasher);
            }
            Handler::Text(hasher) => hasher.push_text(bytes),
            Handler::Sitemap(list) => list.push(bytes),
            Handler::Opaque => {}
        }
    }
}

impl Parser {
    pub fn new(head: &ResponseHead, decoders: &mut DecoderPool, manner: Manner) -> Parser {
        let content_type = ContentType::parse(head.header("content-type").unwrap_or(b""));
        let charset = content_type.charset.and_then(|label| std::str::from_utf8(label).ok());
        let handler = if content_type.is_html() || content_type.is("application/xhtml+xml") {
            let links = manner.links;
            match manner.extractor {
                Extractor::Own => Handler::Html(PageReader::boxed(charset, links)),
                Extractor::Lol => {
                    let reader = LolReader::new(charset).with_links(links);
                    Handler::Lol(Box::new((reader, SimHasher::new())))
                }
            }
        } else if content_type.is("text/plain") {
            Handler::Text(Box::default())
        } else {
            Handler::Opaque
        };
        let decoder = match handler {
            // Nobody looks inside, so decoding is not worth its cost.
            Handler::Opaque => Ok(None),
            _ => decoders.decoder(head.all("content-encoding")).map(Some),
        };
        Parser::with(handler, decoder)
    }

    /// Creates a parser for a body that was requested as a sitemap. A site without a sitemap often
    /// answers with an HTML page, which is read like any other page.
    pub fn sitemap(head: &ResponseHead, decoders: &mut DecoderPool, manner: Manner) -> Parser {
        let content_type = ContentType::parse(head.header("content-type").unwrap_or(b""));
        if content_type.is_html() || content_type.is("application/xhtml+xml") {
            return Parser::new(head, decoders, manner);
        }
        let charset = content_type.charset.and_then(|label| std::str::from_utf8(label).ok());
        let handler = Handler::Sitemap(Box::new(ListReader::new(charset)));
        Parser::with(handler, decoders.decoder(head.all("content-encoding")).map(Some))
    }

    fn with(handler: Handler, decoder: Result<Option<Decoder>, DecodeError>) -> Parser {
        let failed = decoder.as_ref().err().copied();
        Parser { decoder: decoder.unwrap_or(None), handler, failed, decoded_bytes: 0 }
    }

    /// Returns about how much memory the parser holds for this body: for decoding it, and for what
    /// was found in it.
    pub fn held_bytes(&self) -> usize {
        let found_bytes = match &self.handler {
            Handler::Html(html) => HTML_READER_BYTES + html.0.held_bytes(),
            Handler::Lol(_) => LOL_MEMORY_BYTES_MAX,
            Handler::Text(_) => HTML_READER_BYTES,
            Handler::Sitemap(list) => list.held_bytes(),
            Handler::Opaque => 0,
        };
        found_bytes + self.decoder.as_ref().map_or(0, Decoder::held_bytes)
    }

    /// Reads the next piece of the body.
    pub fn push(&mut self, piece: &[u8]) {
        let Some(decoder) = &mut self.decoder else { return };
        if self.failed.is_some() {
            return;
        }
        let (handler, decoded_bytes) = (&mut self.handler, &mut self.decoded_bytes);
        let mut take = |bytes: &[u8]| {
            *decoded_bytes += bytes.len() as u64;
            handler.take(bytes);
        };
        self.failed = decoder.push(piece, &mut take).err();
    }

    /// Ends the body, which is complete or was cut.
    pub fn finish(self, decoders: &mut DecoderPool) -> Parsed {
        let Parser { decoder, handler, mut failed, decoded_bytes } = self;
        if let Some(mut decoder) = decoder {
            failed = failed.or_else(|| decoder.finish().err());
            decoders.give_back(decoder);
        }
        let mut listed = None;
        let (page, simhash) = match handler {
            Handler::Html(mut html) => {
                // Both stay in their box, because together they are seven kilobytes.
                let (reader, hasher) = &mut *html;
                let page = reader.end(hasher);
                (Some(page), hasher.finish())
            }
            Handler::Lol(mut lol) => {
                // The hasher stays in its box, because it is five kilobytes.
                let (reader, hasher) = (lol.0, &mut lol.1);
                let page = reader.finish(hasher);
                (Some(page), hasher.finish())
            }
            Handler::Text(mut hasher) => (None, hasher.finish()),
            Handler::Sitemap(list) => {
                let (found, unpacking) = list.finish();
                listed = found;
                failed = failed.or(unpacking);
                (None, None)
            }
            Handler::Opaque => (None, None),
        };
        Parsed { page, listed, simhash, failed, decoded_bytes }
    }
}

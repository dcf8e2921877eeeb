//! The sitemap reader: the bytes of a body go in, entries come out. See the parent module.

use super::charset::Decoder;
use super::document::{Collecting, Document};
use super::text::{Line, Lines};
use super::xml::Tokenizer;
use super::{Entry, Summary, Take};

/// Reads one file, on one core.
pub struct SitemapReader {
    decoder: Decoder,
    body: Body,
    document: Document,
}

enum Body {
    /// Nothing but white space has come so far.
    Blank,
    Xml(Tokenizer),
    Lines(Lines),
}

impl SitemapReader {
    /// Makes a reader. `header_charset` is the charset parameter of the Content-Type header, if
    /// any.
    pub fn new(header_charset: Option<&str>) -> SitemapReader {
        SitemapReader {
            decoder: Decoder::new(header_charset),
            body: Body::Blank,
            document: Document::default(),
        }
    }

    /// Takes the next bytes of the body, with all codings already removed.
    pub fn push(&mut self, bytes: &[u8], take: &mut impl Take) {
        let SitemapReader { decoder, body, document } = self;
        decoder.push(bytes, &mut |piece| body.push(piece, document, take));
    }

    /// Ends the file, because the body is over or was cut here.
    pub fn finish(mut self, take: &mut impl Take) -> Summary {
        let SitemapReader { decoder, body, document } = &mut self;
        decoder.finish(&mut |piece| body.push(piece, document, take));
        if let Body::Lines(lines) = body {
            lines.finish(&mut |line| give_line(line, document, take));
        }
        self.document.summary()
    }
}

impl Body {
    fn push(&mut self, piece: &[u8], document: &mut Document, take: &mut impl Take) {
        let piece = match self {
            Body::Blank => piece.trim_ascii_start(),
            Body::Xml(_) | Body::Lines(_) => piece,
        };
        if let (Body::Blank, Some(first)) = (&*self, piece.first()) {
            let is_xml = *first == b'<';
            *self =
                if is_xml { Body::Xml(Tokenizer::new()) } else { Body::Lines(Lines::default()) };
        }
        match self {
            Body::Blank => {}
            Body::Xml(tokenizer) => tokenizer.push(piece, &mut Collecting { document, take }),
            Body::Lines(lines) => {
                lines.push(piece, &mut |line| give_line(line, document, take));
            }
        }
    }
}

fn give_line(line: Line<'_>, document: &mut Document, take: &mut impl Take) {
    match line {
        Line::Refused => document.refuse(),
        Line::Url(url) => {
            let loc = String::from_utf8_lossy(url);
            document.give(Entry { loc: &loc, lastmod: "", priority_permille: None }, take);
        }
    }
}

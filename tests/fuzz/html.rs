//! The HTML reader: chunks are compared with the whole, and the tokenizer with html5gum's, which
//! follows the standard state by state.

use crate::dice::Dice;
use crate::engine::{Target, corpus, scale, texts};
use html5gum::Token as Theirs;
use nephila::base::limits::{
    ANCHOR_TEXT_BYTES_MAX, ATTRIBUTE_BYTES_MAX, LANGUAGE_BYTES_MAX, NAME_BYTES_MAX,
    PAGE_LINK_COUNT_MAX, TITLE_BYTES_MAX,
};
use nephila::proto::html::{
    Content, NoText, Page, PageReader, RobotsMeta, Tag, TokenSink, Tokenizer, Value, charset_label,
    refresh_url,
};

#[rustfmt::skip]
const WORDS: &[&[u8]] = &[
    b"<", b">", b"</", b"/>", b"<a ", b"<a href=", b"href='", b"</a>", b"<p ", b"<p a=b c='d' e>",
    b"<!--", b"-->", b"--!>", b"<!-", b"<!doctype html>", b"<![CDATA[", b"]]>", b"]", b"<?", b"<!",
    b"<script>", b"</script>", b"<script", b"</script", b"<style>", b"</style>", b"<title>",
    b"</title>", b"<textarea>", b"</textarea", b"<svg>", b"</svg>", b"<math>", b"<mi>",
    b"<foreignObject>", b"<svg><title>", b"<annotation-xml encoding='text/html'>", b"<font color>",
    b"<template>", b"</template>", b"<noscript>", b"</noscript>", b"<plaintext>", b"<iframe src=",
    b"<base href=", b"<html lang=", b"<link rel=canonical href=", b"<xmp>", b"<area href=",
    b"<meta charset=", b"<meta http-equiv=refresh content='0;url=", b"koi8-r>", b"iso-2022-kr>",
    b"iso-2022-jp>", b"shift_jis>", b"utf-16>", b"<meta name=robots content='", b"nofollow",
    b"<meta http-equiv=content-type content='text/html; charset=", b"'>", b"\"", b"'", b"=", b" ",
    b"&", b"&#", b"&#x", b"&amp;", b"&amp", b"&notit;", b"&copy=", b"&#00065;", b"&#x110000;",
    b"&NotEqualTilde;", b"&CounterClockwiseContourIntegral;", b"&CounterClockwiseContourIntegra",
    b";", b"\xEF\xBB\xBF", b"\xFE\xFF", b"\xFF\xFE", b"\x1B$B", b"\x1B(B", b"\xE2\x82\xAC",
    b"\r\n", b"\0",
];

/// Everything that the reader finds in a page, and its text.
#[derive(Debug, PartialEq, Eq)]
struct Reading {
    links: Vec<String>,
    about: String,
    text: Vec<u8>,
}

fn reading(page: &Page, text: Vec<u8>) -> Reading {
    let about = (page.title(), page.base(), page.canonical(), page.language(), page.robots);
    Reading {
        links: page.links().map(|link| format!("{link:?}")).collect(),
        about: format!("{about:?} {} {}", page.charset, page.link_over_count + page.link_cut_count),
        text,
    }
}

fn read(pieces: &[&[u8]], charset: Option<&str>) -> (Page, Reading) {
    let mut text = Vec::new();
    let mut keep = |piece: &[u8]| text.extend_from_slice(piece);
    let mut reader = PageReader::new(charset);
    pieces.iter().for_each(|piece| reader.push(piece, &mut keep));
    let page = reader.finish(&mut keep);
    let reading = reading(&page, text);
    (page, reading)
}

/// An invalid byte in UTF-8 becomes three bytes.
const REPLACED_BYTES: usize = 3;

fn check_bounds(page: &Page, text_bytes: usize, input_bytes: usize) {
    assert!(page.link_count() <= 2 * PAGE_LINK_COUNT_MAX);
    for link in page.links() {
        // A character reference is at least a third as long as its text.
        assert!(link.href.len() <= REPLACED_BYTES * ATTRIBUTE_BYTES_MAX);
        assert!(link.text.len() <= REPLACED_BYTES * ANCHOR_TEXT_BYTES_MAX);
    }
    assert!(page.title().is_none_or(|title| title.len() <= REPLACED_BYTES * TITLE_BYTES_MAX));
    let language_bytes = page.language().map_or(0, str::len);
    assert!(language_bytes <= REPLACED_BYTES * LANGUAGE_BYTES_MAX);
    // A byte of a legacy charset becomes at most three bytes, and a block element adds one space.
    assert!(text_bytes <= REPLACED_BYTES * (input_bytes + 1), "{text_bytes} of {input_bytes}");
}

#[test]
fn any_page_reads_the_same_in_any_chunks() {
    let target = Target {
        name: "html::any_page_reads_the_same_in_any_chunks",
        words: WORDS,
        seeds: corpus("pages", 3_000),
        input_bytes_max: 12_000,
        input_count: 3_000,
    };
    target.run(|input| {
        let mut dice = Dice::of(input);
        let charset = *dice.pick(&[None, None, None, Some("utf-8"), Some("gbk"), Some("utf-16")]);
        let (page, whole) = read(&[input], charset);
        check_bounds(&page, whole.text.len(), input.len());
        assert_eq!(read(&dice.cut(input), charset).1, whole);
        let mut reader = PageReader::new(charset);
        dice.cut(input).iter().for_each(|piece| reader.push(piece, &mut NoText));
        let without_text = reading(&reader.finish(&mut NoText), Vec::new());
        assert_eq!((&without_text.links, &without_text.about), (&whole.links, &whole.about));
        let flags = [page.title().is_some(), page.base().is_some(), page.robots.nofollow];
        (flags, page.charset, scale(page.link_count()), scale(whole.text.len()))
    });
}

// --- Tokens -------------------------------------------------------------------------------------

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Start { name: Vec<u8>, attributes: Vec<(Vec<u8>, Vec<u8>)>, self_closing: bool },
    End(Vec<u8>),
    Text(Vec<u8>),
}

#[derive(Default)]
struct Recorder {
    tokens: Vec<Token>,
    name: Vec<u8>,
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Treats a name as the standard does: lower case, with NUL replaced.
fn name_of(raw: &[u8]) -> Vec<u8> {
    let mut name = Vec::new();
    for byte in raw.to_ascii_lowercase() {
        match byte {
            0 => name.extend_from_slice("\u{fffd}".as_bytes()),
            byte => name.push(byte),
        }
    }
    name
}

fn push_text(tokens: &mut Vec<Token>, piece: &[u8]) {
    match tokens.last_mut() {
        Some(Token::Text(text)) => text.extend_from_slice(piece),
        _ => tokens.push(Token::Text(piece.to_vec())),
    }
}

impl TokenSink for Recorder {
    fn wants_text(&self) -> bool {
        true
    }

    fn text(&mut self, piece: &[u8]) {
        push_text(&mut self.tokens, piece);
    }

    fn start_tag(&mut self, tag: Tag<'_>) -> bool {
        self.name = name_of(tag.raw);
        self.attributes.clear();
        true
    }

    fn attribute(&mut self, name: &[u8], value: Value<'_>) {
        let name = name_of(name);
        let mut decoded = Vec::new();
        value.decode_into(&mut decoded);
        if self.attributes.iter().all(|(known, _)| *known != name) {
            self.attributes.push((name, decoded));
        }
    }

    fn start_tag_end(&mut self, self_closing: bool) {
        let mut attributes = std::mem::take(&mut self.attributes);
        attributes.sort();
        let name = std::mem::take(&mut self.name);
        self.tokens.push(Token::Start { name, attributes, self_closing });
    }

    fn end_tag(&mut self, tag: Tag<'_>) {
        self.tokens.push(Token::End(name_of(tag.raw)));
    }
}

fn tokens_of(pieces: &[&[u8]]) -> Vec<Token> {
    let mut recorder = Recorder::default();
    let mut tokenizer = Tokenizer::bare(Content::Data, b"");
    pieces.iter().for_each(|piece| tokenizer.push(piece, &mut recorder));
    tokenizer.finish(&mut recorder);
    recorder.tokens
}

/// Returns html5gum's tokens without comments and doctypes, which our tokenizer skips.
fn tokens_of_html5gum(input: &[u8]) -> Vec<Token> {
    let mut tokens = Vec::new();
    for token in html5gum::Tokenizer::new(input) {
        let Ok(token) = token;
        match token {
            Theirs::StartTag(tag) => {
                let attributes =
                    tag.attributes.iter().map(|(name, value)| (name.to_vec(), value.to_vec()));
                let attributes = attributes.collect();
                let name = tag.name.to_vec();
                tokens.push(Token::Start { name, attributes, self_closing: tag.self_closing });
            }
            Theirs::EndTag(tag) => tokens.push(Token::End(tag.name.to_vec())),
            Theirs::String(text) => push_text(&mut tokens, &text),
            Theirs::Comment(_) | Theirs::Doctype(_) | Theirs::Error(_) => {}
        }
    }
    tokens
}

/// Names are cut at the bound, and attributes with such names are dropped.
fn has_long_name(token: &Token) -> bool {
    match token {
        Token::Start { name, attributes, .. } => {
            let names = attributes.iter().map(|(name, _)| name).chain([name]);
            names.into_iter().any(|name| name.len() > NAME_BYTES_MAX)
        }
        Token::End(name) => name.len() > NAME_BYTES_MAX,
        Token::Text(_) => false,
    }
}

#[test]
fn any_tokens_are_those_of_html5gum() {
    let target = Target {
        name: "html::any_tokens_are_those_of_html5gum",
        words: WORDS,
        seeds: corpus("pages", 2_000),
        input_bytes_max: 4_000,
        input_count: 6_000,
    };
    target.run(|input| {
        // Line ends differ by design: our tokenizer keeps a carriage return in text.
        let input: Vec<u8> = input.iter().copied().filter(|byte| *byte != b'\r').collect();
        let ours = tokens_of(&[&input]);
        let theirs = tokens_of_html5gum(&input);
        assert!(ours == theirs || theirs.iter().any(has_long_name), "{ours:?} {theirs:?}");
        assert_eq!(ours, tokens_of(&Dice::of(&input).cut(&input)));
        let of =
            |wanted: fn(&Token) -> bool| scale(ours.iter().filter(|token| wanted(token)).count());
        let attribute_count = of(|token| match token {
            Token::Start { attributes, .. } => attributes.len() > 1,
            _ => false,
        });
        (of(|token| matches!(token, Token::Text(_))), attribute_count, scale(ours.len()))
    });
}

// --- The small languages ------------------------------------------------------------------------

#[test]
fn any_meta_content_is_read_within_itself() {
    let target = Target {
        name: "html::any_meta_content_is_read_within_itself",
        words: &[
            b"noindex",
            b"nofollow",
            b"none",
            b",",
            b":",
            b"nephila",
            b"robots",
            b"otherbot",
            b"*",
            b"unavailable_after",
            b"max-snippet",
            b"25 Jun 2030 15:00:00 GMT",
            b"0;url=",
            b"url",
            b"=",
            b";",
            b"'",
            b"\"",
            b" ",
            b".5",
            b"charset",
            b"charset=",
            b"text/html;",
        ],
        seeds: texts(&["noindex, nephila: nofollow", "5; url='/a'", "text/html; charset=utf-8"]),
        input_bytes_max: 600,
        input_count: 20_000,
    };
    target.run(|input| {
        let mut all = RobotsMeta::default();
        all.add_header(input);
        // A second header never removes what the first has set.
        let mut more = all;
        more.add_header(b"index, follow, otherbot: none");
        assert_eq!(more, all);
        // A directive for another agent only is ignored, whatever it is. The exceptions name their
        // agent themselves.
        let mut others = RobotsMeta::default();
        others.add_header(&[b"otherbot: ", input].concat());
        assert!(!input.contains(&b':') || all.noindex || !others.noindex);
        assert!(input.contains(&b':') || others == RobotsMeta::default());
        let is_inside = |part: &[u8]| memchr::memmem::find(input, part).is_some();
        let url = refresh_url(input);
        let label = charset_label(input);
        assert!(url.is_none_or(is_inside) && label.is_none_or(is_inside));
        (all.noindex, all.nofollow, url.map(|url| scale(url.len())), label.is_some())
    });
}

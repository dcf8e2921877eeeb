//! html5lib's tokenizer suite. Our tokenizer skips comments and doctypes, so they are taken out of
//! the expected tokens; everything around them must still be right.

use crate::{Cut, corpus_files};
use nephila::proto::html::{Content, Tag, TokenSink, Tokenizer, Value};
use serde_json::Value as Json;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Start { name: String, attributes: BTreeMap<String, String>, self_closing: bool },
    End(String),
    Text(String),
}

#[derive(Default)]
struct Recorder {
    tokens: Vec<Token>,
    text: Vec<u8>,
    name: String,
    attributes: BTreeMap<String, String>,
}

impl Recorder {
    fn flush(&mut self) {
        if !self.text.is_empty() {
            let text = String::from_utf8(std::mem::take(&mut self.text)).expect("UTF-8 stays so");
            self.tokens.push(Token::Text(text));
        }
    }
}

/// Treats a name as the standard does: lower case, with NUL replaced.
fn name_text(raw: &[u8]) -> String {
    String::from_utf8_lossy(raw).to_ascii_lowercase().replace('\0', "\u{fffd}")
}

impl TokenSink for Recorder {
    fn wants_text(&self) -> bool {
        true
    }

    fn text(&mut self, piece: &[u8]) {
        self.text.extend_from_slice(piece);
    }

    fn start_tag(&mut self, tag: Tag<'_>) -> bool {
        self.name = name_text(tag.raw);
        self.attributes.clear();
        true
    }

    fn attribute(&mut self, name: &[u8], value: Value<'_>) {
        let mut decoded = Vec::new();
        value.decode_into(&mut decoded);
        let decoded = String::from_utf8(decoded).expect("UTF-8 stays so");
        self.attributes.entry(name_text(name)).or_insert(decoded);
    }

    fn start_tag_end(&mut self, self_closing: bool) {
        self.flush();
        let name = self.name.clone();
        let attributes = self.attributes.clone();
        self.tokens.push(Token::Start { name, attributes, self_closing });
    }

    fn end_tag(&mut self, tag: Tag<'_>) {
        self.flush();
        self.tokens.push(Token::End(name_text(tag.raw)));
    }
}

fn tokenize(input: &str, content: Content, last_start_tag: &str, cut: Cut) -> Vec<Token> {
    let mut recorder = Recorder::default();
    let mut tokenizer = Tokenizer::bare(content, last_start_tag.as_bytes());
    cut.each(input.as_bytes(), |chunk| tokenizer.push(chunk, &mut recorder));
    tokenizer.finish(&mut recorder);
    recorder.flush();
    recorder.tokens
}

/// Our tokenizer keeps carriage returns and NULs in text, and the suite replaces them, so this
/// function replaces them too.
fn normalise(tokens: Vec<Token>, input: &str, content: Content) -> Vec<Token> {
    // `&#13;` stays unchanged.
    let replace_cr = input.contains('\r');
    let replace_nul = !matches!(content, Content::Data | Content::CData);
    let normalised = tokens.into_iter().map(|token| match token {
        Token::Text(text) => {
            let lines = || text.replace("\r\n", "\n").replace('\r', "\n");
            let text = if replace_cr { lines() } else { text };
            Token::Text(if replace_nul { text.replace('\0', "\u{fffd}") } else { text })
        }
        other => other,
    });
    normalised.collect()
}

/// Returns the expected tokens. Neighbouring texts are joined, because our tokens have no comments
/// between them.
fn expected(output: &Json, unescape: impl Fn(&str) -> Option<String>) -> Option<Vec<Token>> {
    let mut tokens: Vec<Token> = Vec::new();
    for token in output.as_array()? {
        let text = |index: usize| unescape(token.get(index)?.as_str()?);
        match token.get(0)?.as_str()? {
            "Character" => match tokens.last_mut() {
                Some(Token::Text(before)) => before.push_str(&text(1)?),
                _ => tokens.push(Token::Text(text(1)?)),
            },
            "StartTag" => {
                let attributes = token.get(2)?.as_object()?.iter();
                let attributes = attributes
                    .map(|(name, value)| Some((unescape(name)?, unescape(value.as_str()?)?)))
                    .collect::<Option<_>>()?;
                let self_closing = token.get(3).and_then(Json::as_bool).unwrap_or(false);
                tokens.push(Token::Start { name: text(1)?, attributes, self_closing });
            }
            "EndTag" => tokens.push(Token::End(text(1)?)),
            "Comment" | "DOCTYPE" => {}
            other => panic!("unknown token {other}"),
        }
    }
    Some(tokens)
}

/// Undoes the suite's second layer of escapes. The result is `None` for a lone surrogate, which
/// UTF-8 cannot encode.
fn unescape(text: &str) -> Option<String> {
    let mut units = Vec::new();
    let mut rest = text;
    while let Some(index) = rest.find("\\u") {
        units.extend(rest[..index].encode_utf16());
        units.push(u16::from_str_radix(rest.get(index + 2..index + 6)?, 16).ok()?);
        rest = &rest[index + 6..];
    }
    units.extend(rest.encode_utf16());
    String::from_utf16(&units).ok()
}

fn content_of(state: &str) -> Content {
    match state {
        "Data state" => Content::Data,
        "RCDATA state" => Content::RcData,
        "RAWTEXT state" => Content::RawText,
        "Script data state" => Content::Script,
        "PLAINTEXT state" => Content::PlainText,
        "CDATA section state" => Content::CData,
        other => panic!("unknown state {other}"),
    }
}

/// The numbers of cases that ran and that did not, so that the test fails if more are skipped.
#[derive(Debug, PartialEq, Eq)]
struct Counts {
    /// A case counts once for each of its initial states.
    run_count: usize,
    /// The cases that were compared without their comments and doctypes.
    without_markup_count: usize,
    /// The cases out of scope because they have lone surrogates, which UTF-8 cannot encode.
    surrogate_count: usize,
    /// The cases out of scope because they test coercion to XML.
    coercion_count: usize,
}

const COUNTS: Counts =
    Counts { run_count: 7_028, without_markup_count: 1_160, surrogate_count: 4, coercion_count: 4 };

/// The numbers of our own few cases.
const OWN_COUNTS: Counts =
    Counts { run_count: 13, without_markup_count: 1, surrogate_count: 0, coercion_count: 0 };

#[test]
fn rfc_the_html5lib_tokenizer_suite_passes_in_any_chunks() {
    let mut run_count = 0;
    let mut surrogate_count = 0;
    let mut coercion_count = 0;
    let mut without_markup_count = 0;
    let (files, is_whole) = corpus_files("html5lib/tokenizer");
    for (file, bytes) in files {
        let suite: Json = serde_json::from_slice(&bytes).expect("the suite is JSON");
        let Some(cases) = suite.get("tests").and_then(Json::as_array) else {
            let coercions = suite.get("xmlViolationTests").and_then(Json::as_array);
            coercion_count += coercions.unwrap_or_else(|| panic!("{file}: unknown format")).len();
            continue;
        };
        for case in cases {
            let text = |key: &str| case.get(key).and_then(Json::as_str).unwrap_or("");
            let double = case.get("doubleEscaped").and_then(Json::as_bool).unwrap_or(false);
            let undo = |text: &str| if double { unescape(text) } else { Some(text.to_owned()) };
            let (Some(input), Some(want)) = (undo(text("input")), expected(&case["output"], undo))
            else {
                surrogate_count += 1;
                continue;
            };
            let output = case["output"].to_string();
            if output.contains("\"Comment\"") || output.contains("\"DOCTYPE\"") {
                without_markup_count += 1;
            }
            let states = match case.get("initialStates").and_then(Json::as_array) {
                Some(states) => states.iter().filter_map(Json::as_str).collect(),
                None => vec!["Data state"],
            };
            for content in states.into_iter().map(content_of) {
                for cut in Cut::ALL {
                    let tokens = tokenize(&input, content, text("lastStartTag"), cut);
                    let found = normalise(tokens, &input, content);
                    let description = text("description");
                    assert_eq!(found, want, "{file}: {description}: {input:?} {content:?} {cut:?}");
                }
                run_count += 1;
            }
        }
    }
    let counts = Counts { run_count, without_markup_count, surrogate_count, coercion_count };
    assert_eq!(counts, if is_whole { COUNTS } else { OWN_COUNTS });
    println!(
        "{run_count} cases, in {} cuts each; of them {without_markup_count} compared without their \
         comments and doctypes. Out of scope: {surrogate_count} with lone surrogates, \
         {coercion_count} of coercion to XML, which no crawler does",
        Cut::ALL.len()
    );
}

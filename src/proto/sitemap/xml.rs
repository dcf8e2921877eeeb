//! XML as far as sitemaps need it: tags, attributes, text and CDATA, from a stream of bytes.
//!
//! UTF-8 flows in, in pieces cut anywhere. Calls of a [`Tokens`] flow out, the same however the
//! input was cut, except that a text may come in several pieces. A name or value that is longer
//! than its bound is handed on empty. Comments, processing instructions and declarations (a DOCTYPE
//! with everything in its brackets) are skipped. Input that is not well-formed is read as well as
//! possible; no input is an error. Invariant: `name` and `value` hold at most their bounds.

use crate::base::limits::{SITEMAP_NAME_BYTES_MAX, URL_BYTES_MAX};

pub trait Tokens {
    /// Takes `<name`; its attributes follow, then [`Tokens::opened`].
    fn start(&mut self, name: &[u8]);
    /// Takes an attribute. The value is as written, references included; empty if it is too long.
    fn attribute(&mut self, name: &[u8], value: &[u8]);
    /// Takes the end of a start tag: `>`, or `/>` if `is_empty`.
    fn opened(&mut self, is_empty: bool);
    fn end(&mut self, name: &[u8]);
    /// Takes character data; references are as written, but CDATA has none.
    fn text(&mut self, piece: &[u8], is_cdata: bool);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Text,
    /// Behind `<`.
    Open,
    /// Behind `<!`, while it may become a comment or CDATA; the bytes behind it are in `name`.
    Bang,
    /// In a comment; the number is how many dashes were just read.
    Comment(u8),
    /// In CDATA; the number is how many closing brackets were just read and are held back.
    Cdata(u8),
    /// In `<!DOCTYPE` and the like: how many brackets are open, and the quote we are in, or zero.
    /// The bytes behind the last `<` are in `name`.
    Declaration {
        depth: u8,
        quote: u8,
    },
    /// In a comment inside a declaration, where quotes and brackets mean nothing.
    DeclarationComment {
        depth: u8,
        dashes: u8,
    },
    /// In `<?...`; true behind a question mark.
    Instruction(bool),
    StartName,
    EndName,
    /// Between attributes; true behind a slash.
    Inside(bool),
    AttributeName,
    /// Behind a name, before `=`.
    AfterName,
    /// Behind `=`.
    BeforeValue,
    /// In a value: the quote, or zero if it is unquoted, which XML forbids and people write.
    Value(u8),
}

pub struct Tokenizer {
    state: State,
    name: Bounded<SITEMAP_NAME_BYTES_MAX>,
    value: Bounded<VALUE_BYTES_MAX>,
}

/// A URL with every byte written as a reference is longer than this; nobody writes one.
const VALUE_BYTES_MAX: usize = 2 * URL_BYTES_MAX;

impl Tokenizer {
    pub fn new() -> Tokenizer {
        Tokenizer { state: State::Text, name: Bounded::default(), value: Bounded::default() }
    }

    pub fn push(&mut self, mut bytes: &[u8], tokens: &mut impl Tokens) {
        while let Some((&byte, rest)) = bytes.split_first() {
            // The states in which most bytes are read search through them with memchr.
            let (sought, next) = match self.state {
                State::Text => (b'<', State::Open),
                State::Cdata(0) => (b']', State::Cdata(1)),
                State::Comment(0) => (b'-', State::Comment(1)),
                State::Instruction(false) => (b'?', State::Instruction(true)),
                _ => {
                    self.step(byte, tokens);
                    bytes = rest;
                    continue;
                }
            };
            let found = memchr::memchr(sought, bytes);
            let passed = &bytes[..found.unwrap_or(bytes.len())];
            let is_cdata = self.state == State::Cdata(0);
            if !passed.is_empty() && (is_cdata || self.state == State::Text) {
                tokens.text(passed, is_cdata);
            }
            let Some(at) = found else { return };
            self.state = next;
            bytes = &bytes[at + 1..];
        }
    }

    fn step(&mut self, byte: u8, tokens: &mut impl Tokens) {
        self.state = match self.state {
            State::Open => self.open(byte),
            State::Bang => self.bang(byte),
            State::Comment(dashes) => match byte {
                b'-' => State::Comment((dashes + 1).min(2)),
                b'>' if dashes >= 2 => State::Text,
                _ => State::Comment(0),
            },
            State::Cdata(brackets) => cdata(brackets, byte, tokens),
            State::Declaration { depth, quote } => self.declaration(depth, quote, byte),
            State::DeclarationComment { depth, dashes } => match byte {
                b'-' => State::DeclarationComment { depth, dashes: (dashes + 1).min(2) },
                b'>' if dashes >= 2 => State::Declaration { depth, quote: 0 },
                _ => State::DeclarationComment { depth, dashes: 0 },
            },
            State::Instruction(_) => match byte {
                b'>' => State::Text,
                byte => State::Instruction(byte == b'?'),
            },
            State::StartName => match byte {
                b'>' | b'/' | b' ' | b'\t' | b'\n' | b'\r' => {
                    tokens.start(self.name.bytes());
                    self.inside(byte, false, tokens)
                }
                byte => self.keep_name(byte, State::StartName),
            },
            State::EndName => match byte {
                b'>' => {
                    tokens.end(self.name.bytes().trim_ascii_end());
                    State::Text
                }
                byte => self.keep_name(byte, State::EndName),
            },
            State::Inside(is_behind_slash) => self.inside(byte, is_behind_slash, tokens),
            State::AttributeName => match byte {
                b'=' => State::BeforeValue,
                b'>' | b'/' => self.inside(byte, false, tokens),
                byte if byte.is_ascii_whitespace() => State::AfterName,
                byte => self.keep_name(byte, State::AttributeName),
            },
            State::AfterName => match byte {
                b'=' => State::BeforeValue,
                byte if byte.is_ascii_whitespace() => State::AfterName,
                byte => self.inside(byte, false, tokens),
            },
            State::BeforeValue => self.before_value(byte, tokens),
            State::Value(quote) => self.value(quote, byte, tokens),
            State::Text => unreachable!("push reads text without a step"),
        };
    }

    fn open(&mut self, byte: u8) -> State {
        self.name.clear();
        match byte {
            b'!' => State::Bang,
            b'?' => State::Instruction(false),
            b'/' => State::EndName,
            // `<` before a space or a digit is no tag: someone forgot to escape it.
            byte if byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80 => {
                self.keep_name(byte, State::StartName)
            }
            _ => State::Text,
        }
    }

    fn bang(&mut self, byte: u8) -> State {
        self.name.push(byte);
        match self.name.bytes() {
            b"--" => State::Comment(0),
            b"[CDATA[" => State::Cdata(0),
            start if b"--".starts_with(start) || b"[CDATA[".starts_with(start) => State::Bang,
            _ => self.declaration(0, 0, byte),
        }
    }

    /// Reads on to the `>` that is in no quotes, brackets or comments. The depth is counted up to
    /// 255, deeper than any DTD; beyond that the declaration ends too early, and its rest is read
    /// as text.
    fn declaration(&mut self, depth: u8, quote: u8, byte: u8) -> State {
        self.name.push(byte);
        if quote != 0 {
            return State::Declaration { depth, quote: if byte == quote { 0 } else { quote } };
        }
        match byte {
            b'"' | b'\'' => State::Declaration { depth, quote: byte },
            b'<' => {
                self.name.clear();
                State::Declaration { depth: depth.saturating_add(1), quote }
            }
            b'-' if self.name.bytes() == b"!--" => {
                State::DeclarationComment { depth: depth.saturating_sub(1), dashes: 0 }
            }
            b'[' => State::Declaration { depth: depth.saturating_add(1), quote },
            b']' => State::Declaration { depth: depth.saturating_sub(1), quote },
            b'>' if depth == 0 => State::Text,
            b'>' => State::Declaration { depth: depth - 1, quote },
            _ => State::Declaration { depth, quote },
        }
    }

    /// Reads a byte between attributes.
    fn inside(&mut self, byte: u8, is_behind_slash: bool, tokens: &mut impl Tokens) -> State {
        match byte {
            b'>' => {
                tokens.opened(is_behind_slash);
                State::Text
            }
            b'/' => State::Inside(true),
            byte if byte.is_ascii_whitespace() => State::Inside(false),
            byte => {
                self.name.clear();
                self.keep_name(byte, State::AttributeName)
            }
        }
    }

    fn before_value(&mut self, byte: u8, tokens: &mut impl Tokens) -> State {
        self.value.clear();
        match byte {
            b'"' | b'\'' => State::Value(byte),
            b'>' => self.inside(byte, false, tokens),
            byte if byte.is_ascii_whitespace() => State::BeforeValue,
            byte => {
                self.value.push(byte);
                State::Value(0)
            }
        }
    }

    fn value(&mut self, quote: u8, byte: u8, tokens: &mut impl Tokens) -> State {
        let is_bare_end = quote == 0 && (byte.is_ascii_whitespace() || byte == b'>');
        if byte == quote || is_bare_end {
            tokens.attribute(self.name.bytes(), self.value.bytes());
            return if byte == b'>' {
                self.inside(byte, false, tokens)
            } else {
                State::Inside(false)
            };
        }
        self.value.push(byte);
        State::Value(quote)
    }

    fn keep_name(&mut self, byte: u8, state: State) -> State {
        self.name.push(byte);
        state
    }
}

/// Reads a byte of CDATA, which `]]>` ends; closing brackets that turn out to be text are handed on
/// late.
fn cdata(brackets: u8, byte: u8, tokens: &mut impl Tokens) -> State {
    match byte {
        b'>' if brackets >= 2 => State::Text,
        b']' if brackets >= 2 => {
            tokens.text(b"]", true);
            State::Cdata(2)
        }
        b']' => State::Cdata(brackets + 1),
        byte => {
            tokens.text(&b"]]"[..usize::from(brackets)], true);
            tokens.text(&[byte], true);
            State::Cdata(0)
        }
    }
}

/// Bytes up to a bound; if more come, it gives none.
#[derive(Default)]
struct Bounded<const MAX: usize> {
    bytes: Vec<u8>,
    is_over: bool,
}

impl<const MAX: usize> Bounded<MAX> {
    fn push(&mut self, byte: u8) {
        if self.bytes.len() < MAX {
            self.bytes.push(byte);
        } else {
            self.is_over = true;
        }
    }

    fn bytes(&self) -> &[u8] {
        if self.is_over { &[] } else { &self.bytes }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.is_over = false;
    }
}

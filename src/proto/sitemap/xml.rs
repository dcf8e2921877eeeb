//! XML as far as sitemaps need it: tags, attributes, text and CDATA, from a stream of bytes.
//!
//! In: UTF-8 in pieces cut anywhere. Out: calls of a [`Tokens`], the same however the input was
//! cut, but that a text may come in several pieces. A name or value that is longer than its bound
//! is handed on empty. Comments, processing instructions and declarations (a DOCTYPE with all that
//! its brackets hold) are passed over. What is not well-formed is read on as best it can be; no
//! input is an error. Invariant: `name` and `value` hold at most their bounds.

use crate::base::limits::{SITEMAP_NAME_BYTES_MAX, URL_BYTES_MAX};

pub trait Tokens {
    /// `<name`; its attributes follow, then [`Tokens::opened`].
    fn start(&mut self, name: &[u8]);
    /// The value as written, references included; empty if it is too long.
    fn attribute(&mut self, name: &[u8], value: &[u8]);
    /// `>`, or `/>` where `is_empty`.
    fn opened(&mut self, is_empty: bool);
    fn end(&mut self, name: &[u8]);
    /// Character data; references are as written, but not in CDATA.
    fn text(&mut self, piece: &[u8], is_cdata: bool);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Text,
    /// Behind `<`.
    Open,
    /// Behind `<!`, while it may become a comment or CDATA; what follows is in `name`.
    Bang,
    /// Inside, with so many dashes just read.
    Comment(u8),
    /// Inside, with so many closing brackets just read, held back.
    Cdata(u8),
    /// `<!DOCTYPE` and the like: brackets open, and the quote we are in, or zero. What follows the
    /// last `<` is in `name`.
    Declaration {
        depth: u8,
        quote: u8,
    },
    /// A comment in there, which may hold quotes and brackets.
    DeclarationComment {
        depth: u8,
        dashes: u8,
    },
    /// `<?`; true behind a question mark.
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
    /// In quotes, or unquoted (zero), which XML forbids and people write.
    Value(u8),
}

pub struct Tokenizer {
    state: State,
    name: Bounded<SITEMAP_NAME_BYTES_MAX>,
    value: Bounded<VALUE_BYTES_MAX>,
}

/// A URL with every byte of it written as a reference is longer; nobody writes that.
const VALUE_BYTES_MAX: usize = 2 * URL_BYTES_MAX;

impl Tokenizer {
    pub fn new() -> Tokenizer {
        Tokenizer { state: State::Text, name: Bounded::default(), value: Bounded::default() }
    }

    pub fn push(&mut self, mut bytes: &[u8], tokens: &mut impl Tokens) {
        while let Some((&byte, rest)) = bytes.split_first() {
            // The states that most bytes are in go through them with memchr.
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
            State::Text => unreachable!("text is passed over in bulk"),
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

    /// Goes on to the `>` that is in no quotes, brackets or comments. Deeper nesting than any DTD
    /// has is not counted: then the declaration ends too early, and its rest is read as text.
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

    /// Between attributes.
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

/// `]]>` ends CDATA; brackets that turn out to be text are handed on then.
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

/// Bytes up to a bound; beyond it, none.
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

//! Reads elements whose content is not markup: text up to their own end tag, and the escapes of
//! scripts.
//!
//! From a `<` on, bytes are held back (`mark` in this chunk, `held` from earlier ones) until they
//! turn out to be the end tag, or text. No name that could matter has more than sixteen letters,
//! which also bounds what is held back.

use super::tag::is_space;
use super::{Content, Escape, State, TokenSink, Tokenizer, emit};
use crate::proto::html::name::TagName;
use memchr::{memchr, memchr2};

impl Tokenizer {
    pub(super) fn script_text<S: TokenSink>(
        &mut self,
        chunk: &[u8],
        start: usize,
        sink: &mut S,
    ) -> usize {
        let mut at = start;
        let less = loop {
            let Some(byte) = chunk.get(at) else { break None };
            if self.escape == Escape::None {
                break memchr(b'<', &chunk[at..]).map(|index| at + index);
            }
            if *byte == b'>' && self.run == 2 {
                self.escape = Escape::None;
                self.run = 0;
                continue;
            }
            let Some(index) = memchr2(b'-', b'<', &chunk[at..]) else {
                self.run = 0;
                break None;
            };
            if index > 0 {
                self.run = 0;
            }
            at += index;
            if chunk[at] == b'<' {
                break Some(at);
            }
            self.run = (self.run + 1).min(2);
            at += 1;
        };
        let Some(less) = less else {
            emit(sink, &chunk[start..]);
            return chunk.len();
        };
        emit(sink, &chunk[start..less]);
        self.run = 0;
        self.mark = less;
        self.held.clear();
        self.state = State::RawLess;
        less + 1
    }

    pub(super) fn raw<S: TokenSink>(&mut self, chunk: &[u8], at: usize, sink: &mut S) -> usize {
        let byte = chunk[at];
        let script = self.content == Content::Script;
        match self.state {
            State::RawLess => {
                self.state = match byte {
                    b'/' if self.escape == Escape::Double => State::ScriptNested,
                    b'/' => State::RawEndName,
                    b'!' if script && self.escape == Escape::None => State::ScriptBang,
                    _ if self.escape == Escape::Single && byte.is_ascii_alphabetic() => {
                        State::ScriptNested
                    }
                    _ => return self.raw_is_text(chunk, at, sink),
                };
                at + 1
            }
            State::RawEndName => self.raw_end_name(chunk, at, sink),
            State::ScriptBang if byte == b'-' => {
                self.state = State::ScriptBangDash;
                at + 1
            }
            State::ScriptBangDash if byte == b'-' => {
                self.escape = Escape::Single;
                self.run = 2;
                self.raw_is_text(chunk, at + 1, sink)
            }
            State::ScriptNested => self.script_nested(chunk, at, sink),
            _ => self.raw_is_text(chunk, at, sink),
        }
    }

    fn raw_end_name<S: TokenSink>(&mut self, chunk: &[u8], at: usize, sink: &mut S) -> usize {
        let end = end_of_letters(chunk, at);
        let letter_count = self.held.len() + end - self.mark - "</".len();
        if letter_count > TagName::BYTES_MAX {
            return self.raw_is_text(chunk, end, sink);
        }
        let Some(byte) = chunk.get(end) else {
            return end;
        };
        let mut name = [0; TagName::BYTES_MAX];
        let name = self.held_letters("</".len(), &chunk[..end], &mut name);
        if TagName::of(name) == self.raw_tag
            && letter_count > 0
            && (is_space(*byte) || matches!(byte, b'/' | b'>'))
        {
            self.begin_raw_end_tag(name);
            return end;
        }
        self.raw_is_text(chunk, end, sink)
    }

    /// Reads the name behind `<` in an escaped script, or behind `</` in a doubly escaped one. The
    /// name `script` switches between the two; any other name changes nothing.
    fn script_nested<S: TokenSink>(&mut self, chunk: &[u8], at: usize, sink: &mut S) -> usize {
        let end = end_of_letters(chunk, at);
        let skip = if self.escape == Escape::Double { "</".len() } else { "<".len() };
        if self.held.len() + end - self.mark - skip > TagName::BYTES_MAX {
            return self.raw_is_text(chunk, end, sink);
        }
        let Some(byte) = chunk.get(end) else {
            return end;
        };
        if !is_space(*byte) && !matches!(byte, b'/' | b'>') {
            return self.raw_is_text(chunk, end, sink);
        }
        let mut name = [0; TagName::BYTES_MAX];
        let name = self.held_letters(skip, &chunk[..end], &mut name);
        if TagName::of(name) == TagName::SCRIPT {
            self.escape = match self.escape {
                Escape::Double => Escape::Single,
                _ => Escape::Double,
            };
        }
        self.raw_is_text(chunk, end + 1, sink)
    }

    /// Returns the bytes held back, up to the end of `chunk`, without the first `skip`.
    fn held_letters<'a>(
        &self,
        skip: usize,
        chunk: &[u8],
        out: &'a mut [u8; TagName::BYTES_MAX],
    ) -> &'a [u8] {
        let held = self.held.iter().chain(&chunk[self.mark..]).skip(skip);
        let count = out.iter_mut().zip(held).map(|(to, from)| *to = *from).count();
        &out[..count]
    }

    /// Hands on as text what was held back up to `at`.
    fn raw_is_text<S: TokenSink>(&mut self, chunk: &[u8], at: usize, sink: &mut S) -> usize {
        emit(sink, &self.held);
        self.held.clear();
        emit(sink, &chunk[self.mark..at]);
        self.state = State::Text;
        at
    }
}

fn end_of_letters(chunk: &[u8], at: usize) -> usize {
    let letters = chunk[at..].iter().take_while(|byte| byte.is_ascii_alphabetic());
    at + letters.count()
}

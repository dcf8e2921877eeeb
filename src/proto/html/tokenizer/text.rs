//! Reads what is between tags: text, references, and what an opening `<` turns out to be.

use super::{Content, Run, State, TokenSink, Tokenizer, WholeLink, emit};
use crate::proto::html::reference::{self, Place, Reference};
use crate::sys::block::{self, TextMarks};
use crate::sys::scan;
use memchr::memchr;

impl Tokenizer {
    #[inline]
    pub(super) fn text<S: TokenSink>(&mut self, chunk: &[u8], at: usize, sink: &mut S) -> usize {
        match self.content {
            Content::Data => self.markup_and_text(chunk, at, sink),
            Content::RcData => match self.text_with_references(chunk, at, sink) {
                Some(less) => self.raw_less(less),
                None => chunk.len(),
            },
            Content::RawText => {
                let less = scan::find_byte(chunk, at, b'<');
                emit(sink, &chunk[at..less]);
                if less < chunk.len() { self.raw_less(less) } else { less }
            }
            Content::Script => self.script_text(chunk, at, sink),
            Content::PlainText => {
                emit(sink, &chunk[at..]);
                chunk.len()
            }
            Content::CData => self.cdata_text(chunk, at, sink),
        }
    }

    /// Reads text and tags in turn, as long as each tag lies in this chunk and markup follows it.
    fn markup_and_text<S: TokenSink>(
        &mut self,
        chunk: &[u8],
        mut at: usize,
        sink: &mut S,
    ) -> usize {
        self.is_plain = self.is_plain();
        while at < chunk.len() {
            let less = if sink.wants_text() {
                match self.text_with_references(chunk, at, sink) {
                    Some(less) => less,
                    None => break,
                }
            } else {
                scan::find_byte(chunk, at, b'<')
            };
            if self.is_plain
                && let Some(window) = scan::window(chunk, less + 1)
            {
                if window.first_chunk().is_some_and(WholeLink::begins) {
                    if let Some(next) = whole_link(chunk, less + 1, sink) {
                        at = next;
                        continue;
                    }
                } else if let Some(next) = self.plain_tag(chunk, less + 1, window, sink) {
                    at = next;
                    continue;
                }
            }
            if less >= chunk.len() {
                break;
            }
            let Some(next) = self.quick_tag(chunk, less + 1, sink) else {
                self.state = State::TagOpen;
                return less + 1;
            };
            at = next;
            if self.content != Content::Data || self.state != State::Text {
                return at;
            }
            self.is_plain = self.is_plain();
        }
        chunk.len()
    }

    /// Hands text on up to the next `<`, and returns where that is; `None` if the chunk ends
    /// before.
    #[inline(always)]
    fn text_with_references<S: TokenSink>(
        &mut self,
        chunk: &[u8],
        mut at: usize,
        sink: &mut S,
    ) -> Option<usize> {
        let stop = loop {
            let Some(block) = block::block(chunk, at) else {
                return self.text_to_chunk_end(chunk, at, sink);
            };
            let TextMarks { stops, spaces } = block::text_marks(block);
            // Each index is the block's end if the block has no such byte.
            let stop = at + stops.trailing_zeros() as usize;
            let start = at + (!spaces).trailing_zeros() as usize;
            sink.run(Run { chunk, at, start: start.min(stop), stop });
            if stops != 0 {
                break stop;
            }
            at = stop;
        };
        match chunk.get(stop)? {
            b'<' => Some(stop),
            _ => self.text_from_ampersand(chunk, stop, sink),
        }
    }

    /// Does what [`Self::text_with_references`] does, for the last bytes of a chunk.
    #[inline(never)]
    fn text_to_chunk_end<S: TokenSink>(
        &mut self,
        chunk: &[u8],
        at: usize,
        sink: &mut S,
    ) -> Option<usize> {
        let start = scan::find_nonspace(chunk, at);
        let stop = scan::find_either(chunk, start, b'<', b'&');
        sink.run(Run { chunk, at, start, stop });
        match chunk.get(stop)? {
            b'<' => Some(stop),
            _ => self.text_from_ampersand(chunk, stop, sink),
        }
    }

    /// Does what [`Self::text_with_references`] does, from an ampersand on.
    fn text_from_ampersand<S: TokenSink>(
        &mut self,
        chunk: &[u8],
        mut at: usize,
        sink: &mut S,
    ) -> Option<usize> {
        let mut start = at;
        loop {
            match chunk.get(at) {
                None | Some(b'<') => break,
                Some(_) => {}
            }
            match reference::read(&chunk[at + 1..], Place::Text, false) {
                Reference::Incomplete => {
                    emit(sink, &chunk[start..at]);
                    reference::hold(&chunk[at..], &mut self.held);
                    self.state = State::Reference;
                    return None;
                }
                Reference::None => at += 1,
                Reference::Found { byte_count, first, second } => {
                    emit(sink, &chunk[start..at]);
                    emit_chars(sink, first, second);
                    at += 1 + byte_count;
                    start = at;
                }
            }
            at = scan::find_either(chunk, at, b'<', b'&');
        }
        emit(sink, &chunk[start..at]);
        (at < chunk.len()).then_some(at)
    }

    /// Begins at a `<` that is markup only if an end tag follows.
    fn raw_less(&mut self, at: usize) -> usize {
        self.mark = at;
        self.held.clear();
        self.state = State::RawLess;
        at + 1
    }

    pub(super) fn tag_open<S: TokenSink>(
        &mut self,
        chunk: &[u8],
        at: usize,
        sink: &mut S,
    ) -> usize {
        match chunk[at] {
            byte if byte.is_ascii_alphabetic() => self.begin_tag(chunk, at, false, sink),
            b'/' => {
                self.state = State::EndTagOpen;
                match chunk.get(at + 1) {
                    Some(_) => self.end_tag_open(chunk, at + 1, sink),
                    None => at + 1,
                }
            }
            b'!' => {
                self.begin_markup();
                at + 1
            }
            b'?' => {
                self.state = State::BogusComment;
                at + 1
            }
            _ => {
                emit(sink, b"<");
                self.state = State::Text;
                at
            }
        }
    }

    pub(super) fn end_tag_open<S: TokenSink>(
        &mut self,
        chunk: &[u8],
        at: usize,
        sink: &mut S,
    ) -> usize {
        match chunk[at] {
            byte if byte.is_ascii_alphabetic() => self.begin_tag(chunk, at, true, sink),
            b'>' => {
                self.state = State::Text;
                at + 1
            }
            _ => {
                self.state = State::BogusComment;
                at
            }
        }
    }

    /// Reads on in a reference that began in an earlier chunk. It grows by one byte at a time until
    /// it is decided, so only the deciding byte can be one that the text reader must see.
    pub(super) fn reference<S: TokenSink>(
        &mut self,
        chunk: &[u8],
        at: usize,
        sink: &mut S,
    ) -> usize {
        self.held.push(chunk[at]);
        match reference::read(&self.held[1..], Place::Text, false) {
            Reference::Incomplete => {
                // Only a numeric reference can grow so long.
                if self.held.len() > reference::HELD_BYTES_MAX {
                    let grown = std::mem::take(&mut self.held);
                    reference::hold(&grown, &mut self.held);
                }
                return at + 1;
            }
            Reference::None => self.state = State::Text,
            Reference::Found { byte_count, first, second } => {
                self.state = State::Text;
                emit_chars(sink, first, second);
                self.held.drain(..=byte_count);
            }
        }
        let Some((_, decided)) = self.held.split_last() else {
            return at + 1;
        };
        emit(sink, decided);
        at
    }

    pub(super) fn finish_reference<S: TokenSink>(&mut self, sink: &mut S) {
        let rest = match reference::read(&self.held[1..], Place::Text, true) {
            Reference::Found { byte_count, first, second } => {
                emit_chars(sink, first, second);
                &self.held[1 + byte_count..]
            }
            Reference::None | Reference::Incomplete => &self.held[..],
        };
        emit(sink, rest);
    }

    fn cdata_text<S: TokenSink>(&mut self, chunk: &[u8], at: usize, sink: &mut S) -> usize {
        match memchr(b']', &chunk[at..]) {
            Some(index) => {
                emit(sink, &chunk[at..at + index]);
                self.run = 1;
                self.state = State::CDataBracket;
                at + index + 1
            }
            None => {
                emit(sink, &chunk[at..]);
                chunk.len()
            }
        }
    }

    pub(super) fn cdata_bracket<S: TokenSink>(
        &mut self,
        chunk: &[u8],
        at: usize,
        sink: &mut S,
    ) -> usize {
        match chunk[at] {
            b']' if self.run == 1 => self.run = 2,
            b']' => emit(sink, b"]"),
            b'>' if self.run == 2 => {
                self.content = Content::Data;
                self.state = State::Text;
            }
            _ => {
                emit(sink, &b"]]"[..usize::from(self.run)]);
                self.state = State::Text;
                return at;
            }
        }
        at + 1
    }
}

/// Hands on a link that [`begins`](WholeLink::begins) at `at`; returns where it ends, or `None` if
/// it was not handed on. This is a function of its own because the loop that calls it is short of
/// registers.
#[inline(never)]
fn whole_link<S: TokenSink>(chunk: &[u8], at: usize, sink: &mut S) -> Option<usize> {
    let (link, end) = WholeLink::read(chunk, at)?;
    sink.whole_link(link);
    Some(end)
}

fn emit_chars<S: TokenSink>(sink: &mut S, first: char, second: Option<char>) {
    emit(sink, first.encode_utf8(&mut [0; 4]).as_bytes());
    if let Some(second) = second {
        emit(sink, second.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

//! Inside tags: names, attributes, and the two ways to leave.

use super::{Content, State, Tag, TokenSink, Tokenizer, Value};
use crate::html::name::TagName;
use crate::limits::{ATTRIBUTE_BYTES_MAX, NAME_BYTES_MAX};
use memchr::memchr;

const SPACE: u8 = 1;
/// Ends a tag's name; an attribute's name; an unquoted value.
const TAG_NAME_END: u8 = 2;
const NAME_END: u8 = 4;
const UNQUOTED_END: u8 = 8;

const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let spaces = [b'\t', b'\n', b'\x0c', b'\r', b' '];
    let mut index = 0;
    while index < spaces.len() {
        classes[spaces[index] as usize] = SPACE | TAG_NAME_END | NAME_END | UNQUOTED_END;
        index += 1;
    }
    classes[b'/' as usize] = TAG_NAME_END | NAME_END;
    classes[b'>' as usize] = TAG_NAME_END | NAME_END | UNQUOTED_END;
    classes[b'=' as usize] = NAME_END;
    classes
};

#[inline]
pub fn is_space(byte: u8) -> bool {
    CLASSES[byte as usize] & SPACE != 0
}

/// The first byte from `at` whose class meets `class`, or the chunk's end.
#[inline]
fn find(chunk: &[u8], at: usize, class: u8) -> usize {
    let found = chunk[at..].iter().position(|byte| CLASSES[*byte as usize] & class != 0);
    found.map_or(chunk.len(), |index| at + index)
}

#[inline]
fn skip_space(chunk: &[u8], at: usize) -> usize {
    chunk[at..].iter().position(|byte| !is_space(*byte)).map_or(chunk.len(), |index| at + index)
}

impl Tokenizer {
    /// At the first letter of a tag's name.
    #[inline]
    pub(super) fn begin_tag<S: TokenSink>(
        &mut self,
        chunk: &[u8],
        at: usize,
        is_end_tag: bool,
        sink: &mut S,
    ) -> usize {
        self.tag_piece.begin(at, NAME_BYTES_MAX);
        self.is_end_tag = is_end_tag;
        self.state = State::TagName;
        self.in_tag(chunk, at, sink)
    }

    /// In a raw text element, after the name of its end tag.
    pub(super) fn begin_raw_end_tag(&mut self, name: &[u8]) {
        self.tag_piece.begin(0, NAME_BYTES_MAX);
        self.tag_piece.keep(name, name.len());
        self.is_end_tag = true;
        self.tag = self.raw_tag;
        self.sink_wants_attributes = false;
        self.tree_wants_attributes = false;
        self.content = Content::Data;
        self.state = State::BeforeAttribute;
    }

    #[inline]
    pub(super) fn in_tag<S: TokenSink>(
        &mut self,
        chunk: &[u8],
        mut at: usize,
        sink: &mut S,
    ) -> usize {
        while at < chunk.len() {
            at = match self.state {
                State::TagName => {
                    let end = find(chunk, at, TAG_NAME_END);
                    if end < chunk.len() {
                        self.end_tag_name(chunk, end, sink);
                        // Most tags have no attributes.
                        if chunk[end] == b'>' {
                            return self.end_tag(chunk, end, false, sink);
                        }
                    }
                    end
                }
                State::BeforeAttribute => self.before_attribute(chunk, at, sink),
                State::AttributeName => {
                    let end = find(chunk, at, NAME_END);
                    if end < chunk.len() {
                        self.name_piece.end(end);
                        self.state = State::AfterAttributeName;
                    }
                    end
                }
                State::AfterAttributeName => self.after_attribute_name(chunk, at, sink),
                State::BeforeValue => self.before_value(chunk, at, sink),
                State::ValueDouble => self.quoted_value(chunk, at, b'"', sink),
                State::ValueSingle => self.quoted_value(chunk, at, b'\'', sink),
                State::ValueUnquoted => {
                    let end = find(chunk, at, UNQUOTED_END);
                    if end < chunk.len() {
                        self.value_piece.end(end);
                        self.attribute(chunk, sink);
                        self.state = State::BeforeAttribute;
                    }
                    end
                }
                // A missing space between attributes is an error and nothing more.
                State::AfterValue => {
                    self.state = State::BeforeAttribute;
                    at
                }
                State::SelfClosing => {
                    if chunk[at] == b'>' {
                        return self.end_tag(chunk, at, true, sink);
                    }
                    self.state = State::BeforeAttribute;
                    at
                }
                _ => return at,
            };
        }
        at
    }

    #[inline]
    fn end_tag_name<S: TokenSink>(&mut self, chunk: &[u8], end: usize, sink: &mut S) {
        self.tag_piece.end(end);
        let (raw, cut) = self.tag_piece.read(chunk);
        let name = if cut { TagName::OTHER } else { TagName::of(raw) };
        self.tag = name;
        self.state = State::BeforeAttribute;
        self.tree_wants_attributes = false;
        self.sink_wants_attributes = false;
        if !self.is_end_tag {
            let mut foreign = false;
            if let Some(tree) = &mut self.tree {
                foreign = tree.is_foreign(name);
                self.tree_wants_attributes = tree.wants_attributes(name);
            }
            self.sink_wants_attributes = sink.start_tag(Tag { name, raw, foreign });
        }
    }

    #[inline]
    fn before_attribute<S: TokenSink>(&mut self, chunk: &[u8], at: usize, sink: &mut S) -> usize {
        let at = match self.wants_attributes() {
            true => skip_space(chunk, at),
            false => match skip_attributes(chunk, at) {
                Skipped::TagEnd { at, self_closing } => {
                    return self.end_tag(chunk, at, self_closing, sink);
                }
                Skipped::ChunkEnd { at } => at,
            },
        };
        match chunk.get(at) {
            None => at,
            Some(b'>') => self.end_tag(chunk, at, false, sink),
            Some(b'/') => {
                self.state = State::SelfClosing;
                at + 1
            }
            // Also for `=`: here it is the first byte of a name.
            Some(_) => {
                self.name_piece.begin(at, NAME_BYTES_MAX);
                self.state = State::AttributeName;
                at + 1
            }
        }
    }

    #[inline]
    fn after_attribute_name<S: TokenSink>(
        &mut self,
        chunk: &[u8],
        at: usize,
        sink: &mut S,
    ) -> usize {
        let at = skip_space(chunk, at);
        match chunk.get(at) {
            None => at,
            Some(b'=') => {
                self.state = State::BeforeValue;
                at + 1
            }
            Some(_) => {
                self.value_piece.begin(at, ATTRIBUTE_BYTES_MAX);
                self.attribute(chunk, sink);
                self.state = State::BeforeAttribute;
                at
            }
        }
    }

    #[inline]
    fn before_value<S: TokenSink>(&mut self, chunk: &[u8], at: usize, sink: &mut S) -> usize {
        let at = skip_space(chunk, at);
        let (state, start) = match chunk.get(at) {
            None => return at,
            Some(b'"') => (State::ValueDouble, at + 1),
            Some(b'\'') => (State::ValueSingle, at + 1),
            Some(b'>') => {
                self.value_piece.begin(at, ATTRIBUTE_BYTES_MAX);
                self.attribute(chunk, sink);
                return self.end_tag(chunk, at, false, sink);
            }
            Some(_) => (State::ValueUnquoted, at),
        };
        self.value_piece.begin(start, ATTRIBUTE_BYTES_MAX);
        self.state = state;
        start
    }

    #[inline]
    fn quoted_value<S: TokenSink>(
        &mut self,
        chunk: &[u8],
        at: usize,
        quote: u8,
        sink: &mut S,
    ) -> usize {
        let Some(index) = memchr(quote, &chunk[at..]) else {
            return chunk.len();
        };
        self.value_piece.end(at + index);
        self.attribute(chunk, sink);
        self.state = State::AfterValue;
        at + index + 1
    }

    #[inline]
    fn attribute<S: TokenSink>(&mut self, chunk: &[u8], sink: &mut S) {
        if !self.wants_attributes() {
            return;
        }
        let (name, name_cut) = self.name_piece.read(chunk);
        let (raw, cut) = self.value_piece.read(chunk);
        if name_cut {
            return;
        }
        if let Some(tree) = &mut self.tree
            && self.tree_wants_attributes
        {
            tree.attribute(self.tag, name, raw);
        }
        if self.sink_wants_attributes {
            sink.attribute(name, Value { raw, cut });
        }
    }

    /// At the `>` of a tag.
    #[inline]
    fn end_tag<S: TokenSink>(
        &mut self,
        chunk: &[u8],
        at: usize,
        self_closing: bool,
        sink: &mut S,
    ) -> usize {
        self.state = State::Text;
        if self.is_end_tag {
            let foreign = self.tree.as_ref().is_some_and(|tree| tree.is_foreign(self.tag));
            let (raw, _) = self.tag_piece.read(chunk);
            sink.end_tag(Tag { name: self.tag, raw, foreign });
            if let Some(tree) = &mut self.tree {
                tree.end_tag(self.tag);
            }
        } else {
            sink.start_tag_end(self_closing);
            if let Some(tree) = &mut self.tree {
                let content = tree.start_tag(self.tag, self_closing);
                self.open_content(content);
            }
        }
        at + 1
    }

    #[inline]
    fn open_content(&mut self, content: Content) {
        self.content = content;
        if content != Content::Data {
            self.raw_tag = self.tag;
            self.escape = super::Escape::None;
            self.run = 0;
        }
    }
}

/// How far the fast way through unwanted attributes led.
enum Skipped {
    /// To the tag's `>`.
    TagEnd { at: usize, self_closing: bool },
    /// To the attribute that this chunk cuts, or to the chunk's end: the states take it from there.
    ChunkEnd { at: usize },
}

/// The fast way through attributes that nobody wants, from `at`, between attributes. Takes the same
/// way as the states do, which the chunking tests check.
///
/// What was passed is never passed again: a tag of many attributes that does not end in this chunk
/// would cost the square of the chunk.
#[inline]
fn skip_attributes(chunk: &[u8], mut at: usize) -> Skipped {
    loop {
        at = skip_space(chunk, at);
        match skip_attribute(chunk, at) {
            Some(Passed::Attribute { end }) => at = end,
            Some(Passed::TagEnd { at, self_closing }) => {
                return Skipped::TagEnd { at, self_closing };
            }
            None => return Skipped::ChunkEnd { at },
        }
    }
}

enum Passed {
    Attribute { end: usize },
    TagEnd { at: usize, self_closing: bool },
}

/// One step of [`skip_attributes`]. `None`: the chunk ends before the step does.
#[inline]
fn skip_attribute(chunk: &[u8], at: usize) -> Option<Passed> {
    match *chunk.get(at)? {
        b'>' => return Some(Passed::TagEnd { at, self_closing: false }),
        b'/' => {
            return Some(match *chunk.get(at + 1)? {
                b'>' => Passed::TagEnd { at: at + 1, self_closing: true },
                _ => Passed::Attribute { end: at + 1 },
            });
        }
        _ => {}
    }
    let equals = skip_space(chunk, find(chunk, at + 1, NAME_END));
    if *chunk.get(equals)? != b'=' {
        return Some(Passed::Attribute { end: equals });
    }
    let value = skip_space(chunk, equals + 1);
    let end = match *chunk.get(value)? {
        quote @ (b'"' | b'\'') => value + 2 + memchr(quote, &chunk[value + 1..])?,
        // `>` here ends the tag, which the next step sees.
        b'>' => value,
        // A value may go on in the next chunk, where it looks like a name.
        _ => Some(find(chunk, value, UNQUOTED_END)).filter(|end| *end < chunk.len())?,
    };
    Some(Passed::Attribute { end })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the fast way leaves off: the tag's end, or what the chunk cuts.
    fn stop(chunk: &str) -> (usize, bool) {
        match skip_attributes(chunk.as_bytes(), 0) {
            Skipped::TagEnd { at, .. } => (at, true),
            Skipped::ChunkEnd { at } => (at, false),
        }
    }

    #[test]
    fn attributes_that_were_passed_are_not_passed_again() {
        for (chunk, at) in [
            ("", 0),
            ("  ", 2),
            ("a=1 b='2' c", 10),
            ("a=1 b='2' c=3", 10),
            ("a=1 b='2' c = ", 10),
            ("a=1 b='2' c='> ", 10),
            ("a=1 b='2'c=\"", 9),
            ("a b c d", 6),
            ("a/b /", 4),
        ] {
            assert_eq!(stop(chunk), (at, false), "{chunk}");
        }
        assert_eq!(stop("a=1 b='>' c=> d"), (12, true));
        assert_eq!(stop("a=1/> d"), (4, true));
        assert_eq!(stop("a /> d"), (3, true));
    }
}

//! Reads the inside of tags: names, attributes, and the two ways in which a tag ends.

use super::quick::Passed;
use super::{Content, State, Tag, TokenSink, Tokenizer, Value};
use crate::base::limits::{ATTRIBUTE_BYTES_MAX, NAME_BYTES_MAX};
use crate::proto::html::name::TagName;
use crate::sys::scan;

const SPACE: u8 = 1;
/// Ends a tag's name.
const TAG_NAME_END: u8 = 2;
/// Ends an attribute's name.
const NAME_END: u8 = 4;
/// Ends an unquoted value.
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

/// Returns the first index from `at` whose byte has a class in `class`, or the chunk's end.
#[inline]
fn find(chunk: &[u8], at: usize, class: u8) -> usize {
    let found = chunk[at..].iter().position(|byte| CLASSES[*byte as usize] & class != 0);
    found.map_or(chunk.len(), |index| at + index)
}

/// Skips white space. The first two bytes are checked directly, because most tags have single
/// blanks.
#[inline(always)]
pub(super) fn skip_space(chunk: &[u8], at: usize) -> usize {
    let is_blank = |at: usize| chunk.get(at).is_some_and(|byte| is_space(*byte));
    match (is_blank(at), is_blank(at + 1)) {
        (false, _) => at,
        (true, false) => at + 1,
        _ => scan::find_nonspace(chunk, at),
    }
}

#[inline(always)]
pub(super) fn ends_tag_name(byte: u8) -> bool {
    CLASSES[byte as usize] & TAG_NAME_END != 0
}

#[inline(always)]
pub(super) fn find_name_end(chunk: &[u8], mut at: usize) -> usize {
    loop {
        at = scan::find_name_end(chunk, at);
        match chunk.get(at) {
            // This is a control character that is not white space.
            Some(byte) if CLASSES[*byte as usize] & NAME_END == 0 => at += 1,
            _ => return at,
        }
    }
}

#[inline(always)]
pub(super) fn find_unquoted_end(chunk: &[u8], at: usize) -> usize {
    find(chunk, at, UNQUOTED_END)
}

impl Tokenizer {
    /// Begins a tag, at the first letter of its name.
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

    /// Begins the end tag of a raw text element, after its name.
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
                // A missing space between attributes is a parse error and has no other effect.
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

    fn end_tag_name<S: TokenSink>(&mut self, chunk: &[u8], end: usize, sink: &mut S) {
        self.tag_piece.end(end);
        let mut piece = std::mem::take(&mut self.tag_piece);
        let (raw, cut) = piece.read(chunk);
        let name = if cut { TagName::OTHER } else { TagName::of(raw) };
        self.tag = name;
        self.tree_wants_attributes = false;
        self.sink_wants_attributes = false;
        if !self.is_end_tag {
            self.begin_start_tag(name, raw, sink);
        }
        self.tag_piece = piece;
        self.state = State::BeforeAttribute;
    }

    /// Begins a start tag, once its name has ended.
    #[inline(always)]
    pub(super) fn begin_start_tag<S: TokenSink>(
        &mut self,
        name: TagName,
        raw: &[u8],
        sink: &mut S,
    ) {
        self.tag = name;
        let traits = name.traits();
        let mut foreign = false;
        self.tree_wants_attributes = false;
        if let Some(tree) = &mut self.tree {
            foreign = tree.is_foreign(name, traits);
            self.tree_wants_attributes = tree.wants_attributes(name);
        }
        self.sink_wants_attributes = sink.start_tag(Tag { name, raw, traits, foreign });
    }

    fn before_attribute<S: TokenSink>(&mut self, chunk: &[u8], at: usize, sink: &mut S) -> usize {
        let at = match self.pass_attributes(chunk, at, sink) {
            Passed::TagEnd { at, self_closing } => {
                return self.end_tag(chunk, at, self_closing, sink);
            }
            Passed::ChunkEnd { at } => at,
        };
        match chunk.get(at) {
            None => at,
            Some(b'>') => self.end_tag(chunk, at, false, sink),
            Some(b'/') => {
                self.state = State::SelfClosing;
                at + 1
            }
            // This holds for `=` too: here it is the first byte of a name.
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
        let end = scan::find_byte(chunk, at, quote);
        if end == chunk.len() {
            return end;
        }
        self.value_piece.end(end);
        self.attribute(chunk, sink);
        self.state = State::AfterValue;
        end + 1
    }

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

    /// Ends a tag at its `>`.
    fn end_tag<S: TokenSink>(
        &mut self,
        chunk: &[u8],
        at: usize,
        self_closing: bool,
        sink: &mut S,
    ) -> usize {
        self.state = State::Text;
        if self.is_end_tag {
            let (name, traits) = (self.tag, self.tag.traits());
            let foreign = self.tree.as_ref().is_some_and(|tree| tree.is_foreign(name, traits));
            let (raw, _) = self.tag_piece.read(chunk);
            sink.end_tag(Tag { name, raw, traits, foreign });
            if let Some(tree) = &mut self.tree {
                tree.end_tag(self.tag);
            }
        } else {
            self.start_tag_over(self_closing, sink);
        }
        at + 1
    }

    /// Takes a start tag that is complete.
    #[inline(always)]
    pub(super) fn start_tag_over<S: TokenSink>(&mut self, self_closing: bool, sink: &mut S) {
        sink.start_tag_end(self_closing);
        if let Some(tree) = &mut self.tree {
            let content = tree.start_tag(self.tag, self_closing);
            self.open_content(content);
        }
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

//! The tokenizer of the HTML standard (WHATWG HTML 13.2.5) over UTF-8 bytes that arrive in chunks.
//!
//! The tokenizer owns the state between chunks. Tags, attributes and text flow out to a
//! [`TokenSink`], borrowed from the chunk itself wherever a token lies in one chunk. What crosses
//! the end of a chunk is copied, up to a bound: a tag's name, an attribute's name and value, a
//! character reference, the `</title` of a possible end tag. Comments and doctypes are skipped.
//! Nothing is allocated per token. A tokenizer belongs to one page, on one core.
//!
//! Invariant: the tokens do not depend on where the chunks are cut. A sink can see two differences
//! from the letter of the standard: a carriage return in text stays one, and so does a NUL.
//!
//! The states are the standard's, merged where they differ only in the parse errors they report.
//! `text` reads what stands between tags, `raw` the elements whose content is not markup, `tag` the
//! inside of tags, `markup` what begins with `<!`. Speed comes from four things:
//!
//! 1. Tags that lie in one chunk are read without a state (`quick`); the states take what is cut at
//!    the end of a chunk.
//! 2. Most tags are of plain elements, which one look-up recognises ([`super::plain`]).
//! 3. Searches look at sixteen bytes at a time ([`crate::sys::scan`]), or 64
//!    ([`crate::sys::block`]).
//! 4. Attributes that the sink does not want are skipped without a record ([`TokenSink::start_tag`]
//!    says which are wanted).

mod link;
mod markup;
mod piece;
mod quick;
mod raw;
mod tag;
mod text;

pub use link::WholeLink;
pub(super) use tag::is_space;

use super::name::{TagName, Traits};
use super::reference::{self, Place};
use super::tree::Tree;
use piece::Piece;

/// How the bytes after a start tag are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Text, references and tags.
    Data,
    /// Text and references up to the element's end tag.
    RcData,
    /// Text up to the element's end tag.
    RawText,
    /// Like raw text, but `<!--` and a nested `<script` hide an end tag.
    Script,
    /// Text up to the end of the page.
    PlainText,
    /// Text up to `]]>`.
    CData,
}

/// A tag's name, as a number and as written.
#[derive(Clone, Copy, Debug)]
pub struct Tag<'a> {
    pub name: TagName,
    /// The name as on the page, in any case; cut at [`crate::base::limits::NAME_BYTES_MAX`].
    pub raw: &'a [u8],
    pub traits: Traits,
    /// The tag stands in SVG or MathML, or opens it.
    pub foreign: bool,
}

/// An attribute's value as written on the page, references included.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a> {
    pub raw: &'a [u8],
    /// The value is longer than [`crate::base::limits::ATTRIBUTE_BYTES_MAX`]; `raw` is its
    /// beginning.
    pub cut: bool,
}

impl Value<'_> {
    /// Replaces the content of `out` by the value's meaning.
    pub fn decode_into(&self, out: &mut Vec<u8>) {
        out.clear();
        reference::decode(self.raw, Place::Attribute, out);
    }
}

/// Text from one chunk: `at..start` is white space, `start..stop` is the rest; both may be empty.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    pub chunk: &'a [u8],
    pub at: usize,
    pub start: usize,
    pub stop: usize,
}

/// Takes the tokens. A start tag comes in parts: [`start_tag`](TokenSink::start_tag), its
/// attributes if wanted, and [`start_tag_end`](TokenSink::start_tag_end). If a page ends inside a
/// tag, the last part does not come, and then there was no tag.
pub trait TokenSink {
    /// Reports whether text is wanted at this point. The answer may change only with a tag.
    fn wants_text(&self) -> bool;
    /// Takes a piece of text with its references replaced. Pieces may end anywhere, also inside a
    /// character.
    fn text(&mut self, piece: &[u8]);
    /// Takes a piece of text that is white space. All white space between a tag and the next byte
    /// of other text comes this way; elsewhere it may come either way.
    fn blank(&mut self, piece: &[u8]) {
        self.text(piece);
    }
    /// Takes both of the above in one call, for sinks that can do it with fewer branches.
    #[inline]
    fn run(&mut self, run: Run<'_>) {
        let Run { chunk, at, start, stop } = run;
        if at < start && self.wants_text() {
            self.blank(&chunk[at..start]);
        }
        emit(self, &chunk[start..stop]);
    }
    /// Takes a tag that has no content model and no wanted attributes, with no foreign content
    /// around it.
    #[inline]
    fn plain_tag(&mut self, tag: Tag<'_>, is_end_tag: bool, self_closing: bool) {
        if is_end_tag {
            self.end_tag(tag);
        } else {
            self.start_tag(tag);
            self.start_tag_end(self_closing);
        }
    }
    /// Takes a link that comes in one piece, with nothing foreign around it.
    #[inline]
    fn whole_link(&mut self, link: WholeLink<'_>) {
        link.by_parts(self);
    }
    /// Takes the name of a start tag. Returns whether its attributes are wanted.
    fn start_tag(&mut self, tag: Tag<'_>) -> bool;
    /// Takes an attribute. They come in page order, duplicates included; the first of a name
    /// counts.
    fn attribute(&mut self, name: &[u8], value: Value<'_>);
    fn start_tag_end(&mut self, self_closing: bool);
    fn end_tag(&mut self, tag: Tag<'_>);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Between tags; text is read as `Tokenizer::content` says.
    Text,
    /// In a character reference that began in an earlier chunk; its bytes are in `held`.
    Reference,
    /// After `<`, and after `</`.
    TagOpen,
    EndTagOpen,
    /// In a raw text element, after `<`, and in the name after `</`.
    RawLess,
    RawEndName,
    /// In a script, after `<!`, after `<!-`, and in the name after an escaped `<` or `</`.
    ScriptBang,
    ScriptBangDash,
    ScriptNested,
    /// After `]` or `]]` in a CDATA section.
    CDataBracket,
    TagName,
    BeforeAttribute,
    AttributeName,
    AfterAttributeName,
    BeforeValue,
    ValueDouble,
    ValueSingle,
    ValueUnquoted,
    AfterValue,
    SelfClosing,
    /// After `<!`: distinguishes `--`, `doctype` and `[CDATA[`.
    Markup,
    BogusComment,
    CommentStart,
    CommentStartDash,
    Comment,
    CommentDash,
    CommentEnd,
    CommentBang,
}

/// What `<!--` and `<script` have done inside a script (13.2.5.15 to 13.2.5.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escape {
    None,
    Single,
    Double,
}

/// Tokenizes one page on one core; see the module.
pub struct Tokenizer {
    state: State,
    content: Content,
    /// `None` in tests of the bare tokenizer: then no start tag changes the content model.
    tree: Option<Tree>,

    /// The last answer of [`Tokenizer::is_plain`].
    is_plain: bool,
    tag: TagName,
    is_end_tag: bool,
    /// Whether the tree looks at the attributes of the open tag.
    tree_wants_attributes: bool,
    /// Whether the sink looks at the attributes of the open tag.
    sink_wants_attributes: bool,
    tag_piece: Piece,
    name_piece: Piece,
    value_piece: Piece,

    /// The element whose end tag ends the raw text.
    raw_tag: TagName,
    escape: Escape,
    /// The number of dashes (0 to 2) just before this point in an escaped script, or of brackets in
    /// CDATA.
    run: u8,
    /// Which keyword of `Markup` is being read, and how many of its bytes have come.
    keyword: markup::Keyword,
    /// Where a token of the `Raw` and `Script` states begins in this chunk.
    mark: usize,
    /// The bytes from before this chunk of a token in state `Reference`, `Raw…` or `Script…`.
    held: Vec<u8>,
}

impl Default for Tokenizer {
    #[inline]
    fn default() -> Tokenizer {
        Tokenizer::new()
    }
}

impl Tokenizer {
    #[inline]
    pub fn new() -> Tokenizer {
        Tokenizer { tree: Some(Tree::default()), ..Tokenizer::bare(Content::Data, b"") }
    }

    /// Makes a tokenizer without a tree that starts in the content of the element `last_start_tag`.
    #[inline]
    pub fn bare(content: Content, last_start_tag: &[u8]) -> Tokenizer {
        Tokenizer {
            state: State::Text,
            content,
            tree: None,
            is_plain: false,
            tag: TagName::OTHER,
            is_end_tag: false,
            tree_wants_attributes: false,
            sink_wants_attributes: false,
            tag_piece: Piece::default(),
            name_piece: Piece::default(),
            value_piece: Piece::default(),
            raw_tag: TagName::of(last_start_tag),
            escape: Escape::None,
            run: 0,
            keyword: markup::Keyword::default(),
            mark: 0,
            held: Vec::new(),
        }
    }

    /// Takes the next bytes of the page, all of them.
    pub fn push<S: TokenSink>(&mut self, chunk: &[u8], sink: &mut S) {
        let mut at = 0;
        while at < chunk.len() {
            use State::*;
            at = match self.state {
                Text => self.text(chunk, at, sink),
                Reference => self.reference(chunk, at, sink),
                TagOpen => self.tag_open(chunk, at, sink),
                EndTagOpen => self.end_tag_open(chunk, at, sink),
                RawLess | RawEndName | ScriptBang | ScriptBangDash | ScriptNested => {
                    self.raw(chunk, at, sink)
                }
                CDataBracket => self.cdata_bracket(chunk, at, sink),
                TagName | BeforeAttribute | AttributeName | AfterAttributeName | BeforeValue
                | ValueDouble | ValueSingle | ValueUnquoted | AfterValue | SelfClosing => {
                    self.in_tag(chunk, at, sink)
                }
                Markup | BogusComment | CommentStart | CommentStartDash | Comment | CommentDash
                | CommentEnd | CommentBang => self.markup(chunk, at),
            };
        }
        self.keep_open_token(chunk);
    }

    /// Ends the page: bytes that were held back as the beginning of a token turn out to be text.
    pub fn finish<S: TokenSink>(&mut self, sink: &mut S) {
        match self.state {
            State::Reference => self.finish_reference(sink),
            State::TagOpen => emit(sink, b"<"),
            State::EndTagOpen => emit(sink, b"</"),
            State::RawLess
            | State::RawEndName
            | State::ScriptBang
            | State::ScriptBangDash
            | State::ScriptNested => emit(sink, &self.held),
            State::CDataBracket => emit(sink, &b"]]"[..usize::from(self.run)]),
            _ => {}
        }
        self.held.clear();
        self.state = State::Text;
    }

    /// Copies the part of an open token that lies in the chunk, whose buffer goes back to its
    /// owner.
    fn keep_open_token(&mut self, chunk: &[u8]) {
        use State::*;
        match self.state {
            RawLess | RawEndName | ScriptBang | ScriptBangDash | ScriptNested => {
                self.held.extend_from_slice(&chunk[self.mark..]);
                self.mark = 0;
            }
            TagName => self.tag_piece.keep(chunk, chunk.len()),
            AttributeName | ValueDouble | ValueSingle | ValueUnquoted | AfterAttributeName
            | BeforeValue | BeforeAttribute | AfterValue | SelfClosing => {
                self.tag_piece.keep_ended(chunk);
                if self.wants_attributes() {
                    self.keep_open_attribute(chunk);
                }
            }
            _ => {}
        }
    }

    fn keep_open_attribute(&mut self, chunk: &[u8]) {
        use State::*;
        match self.state {
            AttributeName => self.name_piece.keep(chunk, chunk.len()),
            AfterAttributeName | BeforeValue => self.name_piece.keep_ended(chunk),
            ValueDouble | ValueSingle | ValueUnquoted => {
                self.name_piece.keep_ended(chunk);
                self.value_piece.keep(chunk, chunk.len());
            }
            _ => {}
        }
    }

    /// Returns the bytes of memory that the open token takes.
    #[cfg(test)]
    pub fn held_bytes(&self) -> usize {
        let pieces = [&self.tag_piece, &self.name_piece, &self.value_piece];
        self.held.capacity() + pieces.iter().map(|piece| piece.held_bytes()).sum::<usize>()
    }

    #[inline]
    fn wants_attributes(&self) -> bool {
        self.sink_wants_attributes || self.tree_wants_attributes
    }
}

#[inline]
fn emit<S: TokenSink + ?Sized>(sink: &mut S, piece: &[u8]) {
    if !piece.is_empty() && sink.wants_text() {
        sink.text(piece);
    }
}

//! What the tokenizer must know of the tree: which content model a start tag opens, and whether a
//! tag stands in foreign content (SVG, MathML), where `<title>` or `<style/>` are ordinary elements
//! and `<![CDATA[` begins text.
//!
//! The standard keeps a whole stack of open elements for this. We keep only its foreign part, as
//! WHATWG HTML 13.2.6.5 changes it: `svg` and `math` roots, the integration points inside them, and
//! the HTML tags that break out. Two cases are not followed: start tags that the tree builder
//! ignores inside `select` and `frameset`, and a drawing without `</svg>` that is closed by the end
//! tag of an unknown outer element. `noscript` is parsed as ordinary content, as a browser does
//! with scripting off.

use super::name::{TagName, Traits};
use super::tokenizer::Content;
use crate::base::limits::FOREIGN_DEPTH_MAX;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Space {
    Html,
    Svg,
    MathMl,
}

#[derive(Clone, Copy)]
struct Entry {
    /// The name space of the elements inside this one.
    space: Space,
    name: TagName,
}

/// The foreign part of the stack of open elements; empty most of the time on most pages.
#[derive(Default)]
pub struct Tree {
    stack: Vec<Entry>,
    /// Whether an attribute of the open start tag decides what the tag does, see
    /// [`Tree::attribute`].
    decided: bool,
}

impl Tree {
    fn space(&self) -> Space {
        self.stack.last().map_or(Space::Html, |entry| entry.space)
    }

    /// Reports whether there is nothing foreign around this point.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        self.stack.is_empty()
    }

    /// Reports whether the text at this point may hold a CDATA section.
    pub fn in_foreign(&self) -> bool {
        self.space() != Space::Html
    }

    /// Reports whether a start or end tag of this name, standing here, belongs to an SVG or MathML
    /// element.
    #[inline(always)]
    pub fn is_foreign(&self, name: TagName, traits: Traits) -> bool {
        if self.stack.is_empty() {
            return traits.has(Traits::FOREIGN);
        }
        self.is_foreign_inside(name)
    }

    #[cold]
    fn is_foreign_inside(&self, name: TagName) -> bool {
        self.in_foreign() && !breaks_out(name)
    }

    /// Reports whether the attributes of this start tag decide what it does to the stack.
    #[inline(always)]
    pub fn wants_attributes(&mut self, name: TagName) -> bool {
        self.decided = false;
        !self.stack.is_empty()
            && self.in_foreign()
            && matches!(name, TagName::FONT | TagName::ANNOTATION_XML)
    }

    pub fn attribute(&mut self, tag: TagName, name: &[u8], value: &[u8]) {
        let is = |wanted: &[u8]| name.eq_ignore_ascii_case(wanted);
        self.decided |= match tag {
            TagName::FONT => is(b"color") || is(b"face") || is(b"size"),
            _ => {
                is(b"encoding")
                    && (value.eq_ignore_ascii_case(b"text/html")
                        || value.eq_ignore_ascii_case(b"application/xhtml+xml"))
            }
        };
    }

    /// Takes a finished start tag; returns how its content is read.
    #[inline(always)]
    pub fn start_tag(&mut self, name: TagName, self_closing: bool) -> Content {
        let traits = name.traits();
        if self.stack.is_empty() && !traits.has(Traits::FOREIGN) {
            return if traits.has(Traits::RAW) { content_of(name) } else { Content::Data };
        }
        self.start_tag_near_foreign(name, self_closing)
    }

    #[cold]
    fn start_tag_near_foreign(&mut self, name: TagName, self_closing: bool) -> Content {
        let space = self.space();
        let inside = match space {
            Space::Html => match name {
                TagName::SVG => Space::Svg,
                TagName::MATH => Space::MathMl,
                _ => return content_of(name),
            },
            _ if breaks_out(name) || (name == TagName::FONT && self.decided) => {
                self.leave_foreign();
                return content_of(name);
            }
            _ if self.is_integration_point(name) => Space::Html,
            // Nested roots are kept so that each end tag closes its own root.
            _ if matches!(name, TagName::SVG | TagName::MATH) => space,
            _ => return Content::Data,
        };
        // Beyond the bound further nesting is not tracked, which only a hostile page reaches.
        if !self_closing && self.stack.len() < FOREIGN_DEPTH_MAX {
            self.stack.push(Entry { space: inside, name });
        }
        Content::Data
    }

    #[inline]
    pub fn end_tag(&mut self, name: TagName) {
        if !self.stack.is_empty() {
            self.end_tag_near_foreign(name);
        }
    }

    #[cold]
    fn end_tag_near_foreign(&mut self, name: TagName) {
        let Some(top) = self.stack.last() else { return };
        if top.space == Space::Html {
            // Inside an integration point only the point's own end tag leads out.
            if top.name == name {
                self.stack.pop();
            }
            return;
        }
        let reach = self.stack.iter().rposition(|entry| entry.space == Space::Html);
        let floor = reach.map_or(0, |index| index + 1);
        match self.stack[floor..].iter().rposition(|entry| entry.name == name) {
            Some(index) => self.stack.truncate(floor + index),
            // A `</div>` in an unclosed drawing: no `div` can be open inside the drawing, so the
            // tag closes one outside.
            None if breaks_out(name) => self.stack.truncate(floor),
            None => {}
        }
    }

    fn leave_foreign(&mut self) {
        while self.stack.last().is_some_and(|entry| entry.space != Space::Html) {
            self.stack.pop();
        }
    }

    fn is_integration_point(&self, name: TagName) -> bool {
        match self.space() {
            Space::Svg => {
                matches!(name, TagName::FOREIGN_OBJECT | TagName::DESC | TagName::TITLE)
            }
            Space::MathMl => match name {
                TagName::MI | TagName::MO | TagName::MN | TagName::MS | TagName::MTEXT => true,
                TagName::ANNOTATION_XML => self.decided,
                _ => false,
            },
            Space::Html => false,
        }
    }
}

/// Returns the content model that an HTML start tag opens.
fn content_of(name: TagName) -> Content {
    match name {
        TagName::SCRIPT => Content::Script,
        TagName::STYLE | TagName::XMP | TagName::IFRAME | TagName::NOEMBED | TagName::NOFRAMES => {
            Content::RawText
        }
        TagName::TITLE | TagName::TEXTAREA => Content::RcData,
        TagName::PLAINTEXT => Content::PlainText,
        _ => Content::Data,
    }
}

/// Reports whether a tag cannot stand in foreign content and so ends it (13.2.6.5).
fn breaks_out(name: TagName) -> bool {
    use TagName as T;
    matches!(
        name,
        T::B | T::BIG
            | T::BLOCKQUOTE
            | T::BODY
            | T::BR
            | T::CENTER
            | T::CODE
            | T::DD
            | T::DIV
            | T::DL
            | T::DT
            | T::EM
            | T::EMBED
            | T::H1
            | T::H2
            | T::H3
            | T::H4
            | T::H5
            | T::H6
            | T::HEAD
            | T::HR
            | T::I
            | T::IMG
            | T::LI
            | T::LISTING
            | T::MENU
            | T::META
            | T::NOBR
            | T::OL
            | T::P
            | T::PRE
            | T::RUBY
            | T::S
            | T::SMALL
            | T::SPAN
            | T::STRONG
            | T::STRIKE
            | T::SUB
            | T::SUP
            | T::TABLE
            | T::TT
            | T::U
            | T::UL
            | T::VAR
    )
}

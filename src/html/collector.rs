//! From tags to a [`Page`]: keeps what a crawler wants of each element.

use super::attributes::{Attributes, Slot};
use super::meta::{RobotsMeta, charset_label, content_language, refresh_url};
use super::name::{TagName, Traits};
use super::page::{LinkKind, Page, Rel, Span};
use super::prescan::declared;
use super::reader::TextSink;
use super::tokenizer::{Tag, TokenSink, Value, is_space};
use crate::limits::{ANCHOR_TEXT_BYTES_MAX, LANGUAGE_BYTES_MAX, TITLE_BYTES_MAX};
use encoding_rs::Encoding;

/// Everything of a page so far.
#[derive(Default)]
pub struct Collector {
    page: Page,
    /// The start tag that is open, and those of its attributes that matter.
    element: TagName,
    traits: Traits,
    is_foreign: bool,
    attributes: Attributes,

    declared: Option<&'static Encoding>,
    has_html_lang: bool,
    /// The link whose text is being collected.
    anchor: Option<usize>,
    anchor_text: Collapsed<ANCHOR_TEXT_BYTES_MAX>,
    title_open: bool,
    title: Collapsed<TITLE_BYTES_MAX>,
    /// The element, if any, whose text nobody sees.
    hidden: Option<TagName>,
    template_depth: u32,
    in_noscript: bool,
    /// Text has flowed since the last break was handed on.
    text_flowed: bool,
    /// Nothing but white space has come since the last tag.
    is_blank: bool,
}

/// A [`Collector`] at work: the tokenizer's sink.
pub struct CollectorSink<'a, T> {
    pub collector: &'a mut Collector,
    pub text: &'a mut T,
}

impl<T: TextSink> TokenSink for CollectorSink<'_, T> {
    #[inline]
    fn wants_text(&self) -> bool {
        let collector = &*self.collector;
        collector.title_open || collector.anchor.is_some() || (T::WANTED && collector.is_visible())
    }

    #[inline]
    fn text(&mut self, piece: &[u8]) {
        let collector = &mut *self.collector;
        collector.is_blank = false;
        if collector.title_open {
            collector.title.push(piece);
        } else if collector.is_visible() {
            if collector.anchor.is_some() {
                collector.anchor_text.push(piece);
            }
            if T::WANTED {
                collector.text_flowed = true;
                self.text.text(piece);
            }
        }
    }

    /// Indentation, most of it: as much as a break.
    #[inline]
    fn blank(&mut self, piece: &[u8]) {
        if !self.collector.is_blank {
            return self.text(piece);
        }
        if self.collector.title_open {
            self.collector.title.push(b" ");
        } else if self.collector.is_visible() {
            self.part_words();
        }
    }

    #[inline]
    fn start_tag(&mut self, tag: Tag<'_>) -> bool {
        self.collector.start_tag(tag)
    }

    #[inline]
    fn attribute(&mut self, name: &[u8], value: Value<'_>) {
        let collector = &mut *self.collector;
        collector.attributes.take(collector.element, name, value);
    }

    #[inline]
    fn start_tag_end(&mut self, self_closing: bool) {
        self.word_break(self.collector.traits);
        self.collector.start_tag_end(self_closing);
    }

    #[inline]
    fn end_tag(&mut self, tag: Tag<'_>) {
        self.word_break(tag.traits);
        if tag.traits.has(Traits::ENDS) {
            self.collector.end_tag(tag.name);
        }
    }
}

impl<T: TextSink> CollectorSink<'_, T> {
    /// Words do not run on from one block into the next.
    #[inline]
    fn word_break(&mut self, traits: Traits) {
        self.collector.is_blank = true;
        if !traits.has(Traits::INLINE) {
            self.part_words();
        }
    }

    #[inline]
    fn part_words(&mut self) {
        let collector = &mut *self.collector;
        if collector.anchor.is_some() {
            collector.anchor_text.push(b" ");
        }
        if T::WANTED && collector.text_flowed {
            collector.text_flowed = false;
            self.text.text(b" ");
        }
    }
}

impl Collector {
    /// What the page has said of its charset in a `meta`.
    pub fn declared_charset(&self) -> Option<&'static Encoding> {
        self.declared
    }

    pub fn finish(mut self, charset: &'static str) -> Page {
        self.close_anchor();
        self.close_title();
        self.page.charset = charset;
        self.page.settle();
        self.page
    }

    #[inline]
    fn is_visible(&self) -> bool {
        self.hidden.is_none() && self.template_depth == 0 && !self.in_noscript
    }

    #[inline]
    fn start_tag(&mut self, tag: Tag<'_>) -> bool {
        self.element = tag.name;
        self.traits = tag.traits;
        self.is_foreign = tag.foreign;
        self.attributes.clear();
        // Of foreign elements only SVG's `a` is a link.
        self.traits.has(Traits::ATTRIBUTES) && (!tag.foreign || tag.name == TagName::A)
    }

    #[inline]
    fn start_tag_end(&mut self, self_closing: bool) {
        // In HTML nothing can start inside an element that hides its text: it was foreign, and is
        // over.
        if !self.is_foreign {
            self.hidden = None;
        }
        if self.traits.has(Traits::STARTS) {
            self.open_element(self_closing);
        }
    }

    fn open_element(&mut self, self_closing: bool) {
        match self.element {
            TagName::A => self.open_anchor(),
            TagName::SCRIPT
            | TagName::STYLE
            | TagName::TITLE
            | TagName::IFRAME
            | TagName::NOEMBED
            | TagName::NOFRAMES => self.hide(self_closing),
            _ if self.is_foreign => {}
            TagName::AREA => self.link(LinkKind::Area),
            TagName::LINK => self.link_element(),
            TagName::FRAME => self.link(LinkKind::Frame),
            TagName::META => self.meta(),
            TagName::BASE => self.base(),
            TagName::HTML => self.html(),
            TagName::TEMPLATE => self.template_depth += 1,
            TagName::NOSCRIPT => self.in_noscript = true,
            _ => {}
        }
    }

    fn end_tag(&mut self, name: TagName) {
        match name {
            TagName::A => self.close_anchor(),
            TagName::TITLE if self.title_open => self.close_title(),
            TagName::TEMPLATE => self.template_depth = self.template_depth.saturating_sub(1),
            TagName::NOSCRIPT => self.in_noscript = false,
            _ => {}
        }
        if self.hidden == Some(name) {
            self.hidden = None;
        }
    }

    fn hide(&mut self, self_closing: bool) {
        if self.is_foreign {
            if !self_closing {
                self.hidden = Some(self.element);
            }
            return;
        }
        self.hidden = Some(self.element);
        match self.element {
            TagName::IFRAME => self.link(LinkKind::Iframe),
            TagName::TITLE => self.title_open = self.page.title.is_none(),
            _ => {}
        }
    }

    fn close_title(&mut self) {
        if self.title_open {
            self.title_open = false;
            self.page.title = Some(self.page.store(self.title.trimmed()));
        }
    }

    fn open_anchor(&mut self) {
        self.close_anchor();
        let before = self.page.links.len();
        self.link(LinkKind::Anchor);
        if self.page.links.len() > before {
            self.anchor = Some(before);
        }
    }

    fn close_anchor(&mut self) {
        if let Some(index) = self.anchor.take() {
            self.page.links[index].text = self.page.store(self.anchor_text.trimmed());
            self.anchor_text.clear();
        }
    }

    fn link(&mut self, kind: LinkKind) {
        if let Some(href) = self.attributes.value(Slot::Target) {
            let rel = self.attributes.value(Slot::Rel).map_or(Rel::default(), Rel::parse);
            self.page.add_link(kind, rel, href, self.attributes.is_cut(Slot::Target));
        }
    }

    fn link_element(&mut self) {
        self.link(LinkKind::Link);
        let rel = self.attributes.value(Slot::Rel).map_or(Rel::default(), Rel::parse);
        if self.page.canonical.is_none() && rel.has(Rel::CANONICAL) {
            self.page.canonical = self.store_target();
        }
    }

    fn base(&mut self) {
        if self.page.base.is_none() {
            self.page.base = self.store_target();
        }
    }

    fn store_target(&mut self) -> Option<Span> {
        let target = self.attributes.value(Slot::Target)?;
        (!self.attributes.is_cut(Slot::Target)).then(|| self.page.store(target))
    }

    /// The language of the root element counts, also over a meta's.
    fn html(&mut self) {
        if let Some(language) = self.attributes.value(Slot::Lang)
            && !self.has_html_lang
            && (1..=LANGUAGE_BYTES_MAX).contains(&language.len())
        {
            self.has_html_lang = true;
            self.page.language = Some(self.page.store(language));
        }
    }

    fn meta(&mut self) {
        let attributes = &self.attributes;
        if let Some(encoding) = attributes.value(Slot::Charset).and_then(declared) {
            self.declared.get_or_insert(encoding);
        }
        let Some(content) = attributes.value(Slot::Content) else {
            return;
        };
        if attributes.value(Slot::Name).is_some_and(RobotsMeta::is_addressed) {
            self.page.robots.add(content);
        } else if attributes.is(Slot::HttpEquiv, b"refresh") {
            if let Some(url) = refresh_url(content) {
                let cut = attributes.is_cut(Slot::Content);
                self.page.add_link(LinkKind::Refresh, Rel::default(), url.trim_ascii(), cut);
            }
        } else if attributes.is(Slot::HttpEquiv, b"content-type") {
            if let Some(encoding) = charset_label(content).and_then(declared) {
                self.declared.get_or_insert(encoding);
            }
        } else if attributes.is(Slot::HttpEquiv, b"content-language")
            && self.page.language.is_none()
            && let Some(language) = content_language(content)
            && language.len() <= LANGUAGE_BYTES_MAX
        {
            self.page.language = Some(self.page.store(language));
        }
    }
}

/// Text with its white space collapsed, up to `MAX` bytes.
struct Collapsed<const MAX: usize> {
    bytes: [u8; MAX],
    len: usize,
}

impl<const MAX: usize> Default for Collapsed<MAX> {
    fn default() -> Self {
        Collapsed { bytes: [0; MAX], len: 0 }
    }
}

impl<const MAX: usize> Collapsed<MAX> {
    /// Without a branch for a byte: where words end cannot be foreseen.
    fn push(&mut self, mut piece: &[u8]) {
        const { assert!(MAX.is_power_of_two()) }
        let mut len = self.len;
        // As if a blank stood before the first byte: there is none at the beginning.
        let mut after_blank = len == 0 || self.bytes[len - 1] == b' ';
        while !piece.is_empty() && len < MAX {
            let (now, later) = piece.split_at(piece.len().min(MAX - len));
            for byte in now {
                let is_blank = is_space(*byte);
                self.bytes[len % MAX] = if is_blank { b' ' } else { *byte };
                len += usize::from(!(is_blank & after_blank));
                after_blank = is_blank;
            }
            piece = later;
        }
        self.len = len;
    }

    /// Without a space at the end, nor a character that the bound has cut.
    fn trimmed(&self) -> &[u8] {
        let bytes = &self.bytes[..self.len];
        if bytes.last().is_none_or(u8::is_ascii) {
            return bytes.trim_ascii_end();
        }
        let whole = match std::str::from_utf8(bytes) {
            Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
            _ => bytes,
        };
        whole.trim_ascii_end()
    }

    fn clear(&mut self) {
        self.len = 0;
    }
}

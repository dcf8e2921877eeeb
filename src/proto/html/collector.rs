//! Turns tags into a [`Page`]: keeps what a crawler needs from each element.
//!
//! A [`Collector`] owns the page so far and the state around the current tag. Tokens flow in
//! through a [`CollectorSink`]; visible text flows on to a [`TextSink`], the page comes out at the
//! end. One collector belongs to one page, on one core.

use super::attributes::{Attributes, Slot};
use super::collapsed::{Collapsed, is_collapsed};
use super::crowd::LinkTerms;
use super::meta::{RobotsMeta, charset_label, content_language, refresh_url};
use super::name::{TagName, Traits};
use super::page::{LinkEntry, LinkKind, Page, Rel, Span};
use super::prescan::declared;
use super::reader::TextSink;
use super::tokenizer::{Run, Tag, TokenSink, Value, WholeLink, is_space};
use crate::base::limits::{ANCHOR_TEXT_BYTES_MAX, LANGUAGE_BYTES_MAX, TITLE_BYTES_MAX};
use crate::sys::block;
use encoding_rs::Encoding;

/// The page so far, and the state in which the next token is read.
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
    /// What follows from the six fields above.
    place: Place,
    /// Text has flowed since the last break was handed on.
    text_flowed: bool,
    /// Nothing but white space has come since the last tag.
    is_blank: bool,
}

/// Who wants the text at this point.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Visible,
    /// Visible, and part of a link.
    Anchor,
    Title,
    Hidden,
}

/// A [`Collector`] with the sink of its text: the tokenizer's sink.
pub struct CollectorSink<'a, T> {
    pub collector: &'a mut Collector,
    pub text: &'a mut T,
}

impl<T: TextSink> TokenSink for CollectorSink<'_, T> {
    #[inline]
    fn wants_text(&self) -> bool {
        match self.collector.place {
            Place::Title | Place::Anchor => true,
            Place::Visible => T::WANTED,
            Place::Hidden => false,
        }
    }

    #[inline]
    fn text(&mut self, piece: &[u8]) {
        let collector = &mut *self.collector;
        collector.is_blank = false;
        match collector.place {
            Place::Title => return collector.title.push(piece),
            Place::Hidden => return,
            Place::Anchor => collector.anchor_text.push(piece),
            Place::Visible => {}
        }
        if T::WANTED {
            collector.text_flowed = true;
            self.text.text(piece);
        }
    }

    /// Takes white space. Behind a tag it is mostly indentation, and counts as one break.
    #[inline]
    fn blank(&mut self, piece: &[u8]) {
        if !self.collector.is_blank {
            return self.text(piece);
        }
        match self.collector.place {
            Place::Title => self.collector.title.push_blank(),
            Place::Hidden => {}
            Place::Anchor | Place::Visible => self.part_words(true),
        }
    }

    /// Does what [`Self::blank`] and [`Self::text`] do, without a branch in the most frequent case.
    #[inline(always)]
    fn run(&mut self, run: Run<'_>) {
        let collector = &mut *self.collector;
        let Run { chunk, at, start, stop } = run;
        if T::TAKES_BLANKS || !T::WANTED {
            return self.whole_run(chunk, at, stop);
        }
        if collector.is_blank && matches!(collector.place, Place::Visible | Place::Anchor) {
            if collector.place == Place::Anchor {
                collector.anchor_text.push_run(chunk, at, stop);
            }
            let is_break = collector.text_flowed & (at < start);
            collector.text_flowed = (collector.text_flowed & !is_break) | (start < stop);
            collector.is_blank = start == stop;
            return self.text.run(is_break, chunk, start, stop);
        }
        if !self.wants_text() {
            return;
        }
        if at < start {
            self.blank(&chunk[at..start]);
        }
        if start < stop {
            self.text(&chunk[start..stop]);
        }
    }

    #[inline(always)]
    fn plain_tag(&mut self, tag: Tag<'_>, is_end_tag: bool, _self_closing: bool) {
        let is_break = !tag.traits.has(Traits::INLINE);
        // This is one branch, rarely taken, and a call. As conditions written out here, the first
        // would ask which kind of tag comes, and that cannot be predicted.
        if self.collector.place != Place::Visible {
            self.collector.plain_tag_elsewhere(is_break, is_end_tag);
        }
        self.part_text(is_break);
    }

    #[inline(always)]
    fn whole_link(&mut self, link: WholeLink<'_>) {
        let is_seen = matches!(self.collector.place, Place::Visible | Place::Anchor);
        if (T::WANTED && !T::TAKES_BLANKS) || !is_seen {
            return link.by_parts(self);
        }
        self.collector.whole_link(link);
        if T::WANTED {
            self.text.run(false, link.chunk, link.text, link.text + link.text_len);
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
    /// Does what [`TokenSink::run`] does, for a sink that does not need white space separately.
    #[inline(always)]
    fn whole_run(&mut self, chunk: &[u8], at: usize, stop: usize) {
        // Most text belongs neither to a link nor to a title; asked first, this is well predicted.
        let is_visible = self.collector.place == Place::Visible
            || self.collector.keep_run(chunk, at, stop) == Place::Anchor;
        if T::WANTED && is_visible {
            self.text.run(false, chunk, at, stop);
        }
    }

    /// Separates words, which do not run on from one block into the next.
    #[inline(always)]
    fn word_break(&mut self, traits: Traits) {
        let is_break = !traits.has(Traits::INLINE);
        self.collector.part_anchor(is_break);
        self.part_text(is_break);
    }

    #[inline(always)]
    fn part_words(&mut self, is_break: bool) {
        self.collector.part_anchor(is_break);
        self.part_flow(is_break);
    }

    /// Notes a tag, and hands on a break if `is_break`.
    #[inline(always)]
    fn part_text(&mut self, is_break: bool) {
        if !T::TAKES_BLANKS {
            self.collector.is_blank = true;
        }
        self.part_flow(is_break);
    }

    #[inline(always)]
    fn part_flow(&mut self, is_break: bool) {
        let collector = &mut *self.collector;
        if T::TAKES_BLANKS {
            self.text.part(is_break);
        } else if T::WANTED {
            let is_break = is_break & collector.text_flowed;
            collector.text_flowed &= !is_break;
            self.text.part(is_break);
        }
    }
}

impl Collector {
    pub(super) fn held_bytes(&self) -> usize {
        self.page.held_bytes()
    }

    /// Sets which links are kept. To be called before the first tag.
    pub fn set_links(&mut self, terms: LinkTerms) {
        self.page.terms = terms;
    }

    /// Returns the charset that a `meta` of the page has declared, if any.
    pub fn declared_charset(&self) -> Option<&'static Encoding> {
        self.declared
    }

    /// Returns the page; no token may come afterwards.
    pub fn finish(&mut self, charset: &'static str) -> Page {
        self.close_anchor();
        self.close_title();
        let mut page = std::mem::take(&mut self.page);
        page.charset = charset;
        page.settle();
        page
    }

    /// Keeps the text of a link or a title; returns where the text belongs.
    #[inline(never)]
    fn keep_run(&mut self, chunk: &[u8], at: usize, stop: usize) -> Place {
        match self.place {
            Place::Anchor => self.anchor_text.push_run(chunk, at, stop),
            Place::Title => self.title.push(&chunk[at..stop]),
            Place::Visible | Place::Hidden => {}
        }
        self.place
    }

    /// Handles a plain tag in every place but [`Place::Visible`], where such a tag has no effect on
    /// the collector.
    #[inline(never)]
    fn plain_tag_elsewhere(&mut self, is_break: bool, is_end_tag: bool) {
        self.part_anchor(is_break);
        // In HTML nothing can start inside an element that hides its text.
        if self.hidden.is_some() && !is_end_tag {
            self.hidden = None;
            self.settle_place();
        }
    }

    #[inline(always)]
    fn part_anchor(&mut self, is_break: bool) {
        if self.anchor.is_some() && is_break {
            self.anchor_text.push_blank();
        }
    }

    #[inline]
    fn settle_place(&mut self) {
        let is_visible = self.hidden.is_none() && self.template_depth == 0 && !self.in_noscript;
        self.place = match (self.title_open, is_visible, self.anchor) {
            (true, _, _) => Place::Title,
            (_, false, _) => Place::Hidden,
            (_, _, Some(_)) => Place::Anchor,
            (_, _, None) => Place::Visible,
        };
    }

    #[inline]
    fn start_tag(&mut self, tag: Tag<'_>) -> bool {
        self.element = tag.name;
        self.traits = tag.traits;
        self.is_foreign = tag.foreign;
        self.attributes.clear();
        // Of all foreign elements only SVG's `a` is a link.
        self.traits.has(Traits::ATTRIBUTES) && (!tag.foreign || tag.name == TagName::A)
    }

    #[inline]
    fn start_tag_end(&mut self, self_closing: bool) {
        // In HTML nothing can start inside an element that hides its text, so the hidden element
        // was foreign and has ended.
        if !self.is_foreign {
            self.hidden = None;
        }
        if self.traits.has(Traits::STARTS) {
            self.open_element(self_closing);
        }
        self.settle_place();
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
        self.settle_place();
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

    /// Takes a link that comes in one piece, where text is visible.
    #[inline(always)]
    fn whole_link(&mut self, link: WholeLink<'_>) {
        self.close_anchor();
        self.place = Place::Visible;
        if self.page.is_crowded() {
            return self.crowded_link(link);
        }
        self.page.make_room();
        let href = self.store_href(link);
        let text = self.store_text(link);
        let (kind, rel) = (LinkKind::Anchor, Rel::default());
        self.page.links.push(LinkEntry { href, text, kind, rel });
    }

    /// Does what [`Collector::whole_link`] does, for a page that has many links.
    #[cold]
    fn crowded_link(&mut self, link: WholeLink<'_>) {
        let WholeLink { chunk, href, href_len, .. } = link;
        let before = self.page.links.len();
        let href = self.attributes.target(&chunk[href..href + href_len]);
        self.page.add_link(LinkKind::Anchor, Rel::default(), href, false);
        if self.page.links.len() > before {
            self.page.links[before].text = self.store_text(link);
        }
    }

    #[inline(always)]
    fn store_href(&mut self, link: WholeLink<'_>) -> Span {
        let WholeLink { chunk, href, href_len: len, .. } = link;
        if let Some(block) = block::block(chunk, href)
            && block::reference_marks(block) & block::first(len) == 0
            && let Some(last) = block.get(len.wrapping_sub(1))
            && !is_space(block[0])
            && !is_space(*last)
        {
            return self.page.store_short(block, len);
        }
        let href = self.attributes.target(&chunk[href..href + len]);
        self.page.store(href)
    }

    #[inline(always)]
    fn store_text(&mut self, link: WholeLink<'_>) -> Span {
        let WholeLink { chunk, text, text_len: len, .. } = link;
        if let Some(block) = block::block(chunk, text)
            && is_collapsed(block, len)
            && block.get(len.wrapping_sub(1)).is_some_and(|last| last.is_ascii() && *last != b' ')
        {
            return self.page.store_short(block, len);
        }
        self.anchor_text.push(&chunk[text..text + len]);
        let span = self.page.store(self.anchor_text.trimmed());
        self.anchor_text.clear();
        span
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

    /// Keeps the language of the root element, which also wins over a meta's.
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

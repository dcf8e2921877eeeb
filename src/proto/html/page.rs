//! What a page says: its links and what it says about itself. The strings of one page share one
//! buffer.

use super::crowd::{Admission, Crowd, LinkTerms};
use super::meta::RobotsMeta;
use crate::proto::url::Url;
use crate::sys::block::BLOCK_BYTES;

/// The element, or other construct, that a link was made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum LinkKind {
    Anchor,
    Area,
    /// `<link href>`; [`Rel`] says whether it leads to a page.
    Link,
    Iframe,
    Frame,
    /// `<meta http-equiv=refresh>`.
    Refresh,
}

/// The `rel` keywords that matter to a crawler, as a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rel(u16);

macro_rules! rels {
    ($($constant:ident $bit:literal $text:literal)*) => {
        impl Rel {
            $(pub const $constant: Rel = Rel(1 << $bit);)*

            fn keyword(word: &[u8]) -> Rel {
                $(if word.eq_ignore_ascii_case($text) { return Rel::$constant; })*
                Rel(0)
            }
        }
    };
}

rels! {
    NOFOLLOW 0 b"nofollow"
    UGC 1 b"ugc"
    SPONSORED 2 b"sponsored"
    CANONICAL 3 b"canonical"
    ALTERNATE 4 b"alternate"
    NEXT 5 b"next"
    PREV 6 b"prev"
    STYLESHEET 7 b"stylesheet"
}

impl Rel {
    pub fn parse(value: &[u8]) -> Rel {
        let words = value.split(u8::is_ascii_whitespace);
        words.fold(Rel(0), |all, word| Rel(all.0 | Rel::keyword(word).0))
    }

    pub fn has(self, any: Rel) -> bool {
        self.0 & any.0 != 0
    }
}

/// A link as written on the page, with references replaced and both ends trimmed; not yet resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link<'a> {
    pub href: &'a str,
    /// What a reader sees of the link, white space collapsed. Only anchors have such a text.
    pub text: &'a str,
    pub kind: LinkKind,
    pub rel: Rel,
}

impl Link<'_> {
    pub fn nofollow(&self) -> bool {
        self.rel.has(Rel::NOFOLLOW)
    }

    /// Reports whether a page may be behind the link; stylesheets, icons, preloads and the like
    /// lead to none.
    pub fn leads_to_page(&self) -> bool {
        leads_to_page(self.kind, self.rel)
    }
}

pub(super) fn leads_to_page(kind: LinkKind, rel: Rel) -> bool {
    const PAGES: Rel = Rel(Rel::CANONICAL.0 | Rel::ALTERNATE.0 | Rel::NEXT.0 | Rel::PREV.0);
    kind != LinkKind::Link || (rel.has(PAGES) && !rel.has(Rel::STYLESHEET))
}

/// A range of [`Page::text`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// Returns the bytes of the span.
    pub(super) fn of(self, stored: &[u8]) -> &[u8] {
        &stored[self.start as usize..self.end as usize]
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LinkEntry {
    pub href: Span,
    pub text: Span,
    pub kind: LinkKind,
    pub rel: Rel,
}

/// The number of links for which room is reserved with a page's first link.
const FIRST_LINK_COUNT: usize = 64;
/// The bytes of text that are reserved for each of these links.
const FIRST_LINK_BYTES: usize = 64;

/// The result of reading one page.
#[derive(Clone, Debug, Default)]
pub struct Page {
    pub robots: RobotsMeta,
    /// The WHATWG name of the charset in which the page was read.
    pub charset: &'static str,
    /// The number of links that lead to pages but are beyond what [`LinkTerms`] allows; each
    /// occurrence counts.
    pub link_over_count: u32,
    /// The number of links that were too long to be kept.
    pub link_cut_count: u32,
    pub(super) terms: LinkTerms,
    /// Made once the page has so many links that each further one is judged.
    crowd: Option<Box<Crowd>>,
    pub(super) text: String,
    /// The bytes stored so far, not yet checked as UTF-8; empty once [`settled`](Page::settle).
    stored: Vec<u8>,
    pub(super) links: Vec<LinkEntry>,
    pub(super) title: Option<Span>,
    pub(super) base: Option<Span>,
    pub(super) canonical: Option<Span>,
    pub(super) language: Option<Span>,
}

impl Page {
    /// Returns the bytes of memory that the page takes on the heap.
    pub fn held_bytes(&self) -> usize {
        let links_bytes = self.links.capacity() * size_of::<LinkEntry>();
        self.text.capacity() + self.stored.capacity() + links_bytes
    }

    /// Returns the first title, white space collapsed.
    pub fn title(&self) -> Option<&str> {
        self.title.map(|span| self.str(span))
    }

    /// Returns the `href` of the first `base` that has one, unresolved.
    pub fn base(&self) -> Option<&str> {
        self.base.map(|span| self.str(span))
    }

    /// Returns the `href` of the first `<link rel=canonical>`, unresolved.
    pub fn canonical(&self) -> Option<&str> {
        self.canonical.map(|span| self.str(span))
    }

    /// Returns the language from `<html lang>`, or else from a Content-Language meta.
    pub fn language(&self) -> Option<&str> {
        self.language.map(|span| self.str(span))
    }

    pub fn link_count(&self) -> usize {
        self.links.len()
    }

    /// Returns the links in page order.
    pub fn links(&self) -> impl ExactSizeIterator<Item = Link<'_>> {
        self.links.iter().map(|entry| Link {
            href: self.str(entry.href),
            text: self.str(entry.text),
            kind: entry.kind,
            rel: entry.rel,
        })
    }

    /// Returns the URL that relative links of the page at `page_url` are resolved against. The base
    /// holds for the whole page, also for links that stand before it; a base that is no http(s) URL
    /// is ignored.
    pub fn base_url(&self, page_url: &Url) -> Url {
        match self.base().map(|base| page_url.join(base)) {
            Some(Ok(base)) => base,
            Some(Err(_)) | None => page_url.clone(),
        }
    }

    fn str(&self, span: Span) -> &str {
        &self.text[span.start as usize..span.end as usize]
    }

    /// Adds a link if it is to be kept, and counts it otherwise. `cut` says that `href` is
    /// incomplete, because it was too long.
    pub(super) fn add_link(&mut self, kind: LinkKind, rel: Rel, href: &[u8], cut: bool) {
        if cut {
            self.link_cut_count = self.link_cut_count.saturating_add(1);
        } else if !self.is_crowded() || self.admits(kind, rel, href) {
            self.make_room();
            let href = self.store(href);
            self.links.push(LinkEntry { href, text: Span::default(), kind, rel });
        }
    }

    /// Reports whether the page has so many links that the next one must be judged.
    #[inline(always)]
    pub(super) fn is_crowded(&self) -> bool {
        self.links.len() >= self.terms.count_max()
    }

    #[cold]
    fn admits(&mut self, kind: LinkKind, rel: Rel, href: &[u8]) -> bool {
        let Page { crowd, terms, links, stored, link_over_count, .. } = self;
        let crowd = crowd.get_or_insert_with(|| Box::new(Crowd::of(*terms, links, stored)));
        let admission = crowd.admit(links, stored, (kind, rel, href));
        if admission == Admission::LeftOut {
            *link_over_count = link_over_count.saturating_add(1);
        }
        admission == Admission::Kept
    }

    /// Reserves room before the first link is added.
    #[inline(always)]
    pub(super) fn make_room(&mut self) {
        if self.links.is_empty() {
            // This is enough for most pages: growing in steps took longer than everything else
            // here.
            self.links.reserve(FIRST_LINK_COUNT);
            self.stored.reserve(FIRST_LINK_COUNT * FIRST_LINK_BYTES);
        }
    }

    /// Stores bytes that should be UTF-8; they can be read once the page is settled.
    #[inline]
    pub(super) fn store(&mut self, bytes: &[u8]) -> Span {
        let start = self.stored.len() as u32;
        self.stored.extend_from_slice(bytes);
        Span { start, end: self.stored.len() as u32 }
    }

    /// Stores the first `len` bytes of a block, as [`store`](Page::store) does. The whole block is
    /// copied and what is behind `len` is dropped, because a copy of variable length is a call that
    /// takes as long as all the rest.
    #[inline(always)]
    pub(super) fn store_short(&mut self, block: &[u8; BLOCK_BYTES], len: usize) -> Span {
        let start = self.stored.len();
        self.stored.extend_from_slice(block);
        self.stored.truncate(start + len);
        Span { start: start as u32, end: self.stored.len() as u32 }
    }

    /// Checks and keeps all that was stored; nothing can be stored afterwards. One check of
    /// everything is many times as fast as one per string. If it fails, each span is gone through
    /// and its malformed parts are replaced.
    pub(super) fn settle(&mut self) {
        self.crowd = None;
        let stored = std::mem::take(&mut self.stored);
        match String::from_utf8(stored) {
            // A string may end within a character whose other bytes begin the next string.
            Ok(text) if self.spans().all(|span| text.is_char_boundary(span.end as usize)) => {
                self.text = text;
            }
            Ok(text) => self.replace_malformed(text.as_bytes()),
            Err(error) => self.replace_malformed(error.as_bytes()),
        }
    }

    #[cold]
    fn replace_malformed(&mut self, stored: &[u8]) {
        let mut text = String::with_capacity(stored.len());
        for span in self.spans_mut() {
            let start = text.len() as u32;
            for chunk in stored[span.start as usize..span.end as usize].utf8_chunks() {
                text.push_str(chunk.valid());
                if !chunk.invalid().is_empty() {
                    text.push(char::REPLACEMENT_CHARACTER);
                }
            }
            *span = Span { start, end: text.len() as u32 };
        }
        self.text = text;
    }

    fn spans(&self) -> impl Iterator<Item = Span> {
        let own = [self.title, self.base, self.canonical, self.language].into_iter().flatten();
        own.chain(self.links.iter().flat_map(|link| [link.href, link.text]))
    }

    fn spans_mut(&mut self) -> impl Iterator<Item = &mut Span> {
        let Page { title, base, canonical, language, links, .. } = self;
        let own = [title, base, canonical, language].into_iter().flatten();
        own.chain(links.iter_mut().flat_map(|link| [&mut link.href, &mut link.text]))
    }
}

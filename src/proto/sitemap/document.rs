//! Turns the tokens of a sitemap into its entries.
//!
//! A [`Document`] owns the entry that is being read, and the counts. Tokens flow in, entries flow
//! out, each when its element ends. The first element decides the [`Form`]; a file whose first
//! element belongs to no form gives no entry. Elements are followed by name and prefix, not by
//! depth, so a missing end tag spoils one entry and not the file.

use super::xml::Tokens;
use super::{Entry, Form, Summary, Take};
use crate::base::limits::{SITEMAP_FIELD_BYTES_MAX, SITEMAP_URL_COUNT_MAX, URL_BYTES_MAX};
use std::borrow::Cow;

/// What the next text belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Field {
    #[default]
    None,
    Loc,
    /// The text stands directly in `<sitemap>`, where some generators put the address.
    Bare,
    Lastmod,
    Priority,
}

#[derive(Default)]
pub struct Document {
    summary: Summary,
    has_root: bool,
    /// The root's prefix with its colon; empty for RSS.
    prefix: Vec<u8>,
    /// The parser is inside an element that makes an entry.
    is_inside: bool,
    field: Field,
    /// Text as written; ampersands in CDATA are escaped when they are stored.
    loc: Vec<u8>,
    bare: Vec<u8>,
    lastmod: Vec<u8>,
    priority: Vec<u8>,
    link: Link,
}

/// An Atom `<link>` while its attributes are read.
#[derive(Default)]
struct Link {
    is_open: bool,
    is_page: bool,
    href: Vec<u8>,
}

/// A [`Document`] with the function that takes its entries.
pub struct Collecting<'a, T> {
    pub document: &'a mut Document,
    pub take: &'a mut T,
}

impl Document {
    pub fn summary(&self) -> Summary {
        self.summary
    }

    /// Counts an entry and hands it on, if the limit allows.
    pub fn give(&mut self, entry: Entry<'_>, take: &mut impl Take) {
        self.summary.form = self.summary.form.or(Some(Form::Lines));
        if self.summary.entry_count as usize >= SITEMAP_URL_COUNT_MAX {
            self.summary.over_count = self.summary.over_count.saturating_add(1);
        } else {
            self.summary.entry_count += 1;
            take(entry);
        }
    }

    pub fn refuse(&mut self) {
        self.summary.refused_count = self.summary.refused_count.saturating_add(1);
    }

    /// Returns the local part of a name, if it has the root's prefix.
    fn own<'n>(&self, name: &'n [u8]) -> Option<&'n [u8]> {
        name.strip_prefix(self.prefix.as_slice()).filter(|local| !local.contains(&b':'))
    }

    fn root(&mut self, name: &[u8]) {
        self.has_root = true;
        let colon = memchr::memchr(b':', name).map_or(0, |colon| colon + 1);
        let (prefix, local) = name.split_at(colon);
        self.summary.form = match local.to_ascii_lowercase().as_slice() {
            b"urlset" => Some(Form::Urlset),
            b"sitemapindex" => Some(Form::Index),
            b"rss" | b"rdf" => Some(Form::Rss),
            b"feed" => Some(Form::Atom),
            _ => None,
        };
        if self.summary.form != Some(Form::Rss) {
            self.prefix = prefix.to_vec();
        }
    }

    /// Reports whether this element makes an entry.
    fn is_item(&self, local: &[u8]) -> bool {
        let name: &[u8] = match self.summary.form {
            Some(Form::Urlset) => b"url",
            Some(Form::Index) => b"sitemap",
            Some(Form::Rss) => b"item",
            Some(Form::Atom) => b"entry",
            Some(Form::Lines) | None => return false,
        };
        local.eq_ignore_ascii_case(name)
    }

    fn field_of(&self, local: &[u8]) -> Field {
        let is = |name: &[u8]| local.eq_ignore_ascii_case(name);
        match self.summary.form {
            Some(Form::Urlset | Form::Index) if is(b"loc") => Field::Loc,
            Some(Form::Urlset | Form::Index) if is(b"lastmod") => Field::Lastmod,
            Some(Form::Urlset) if is(b"priority") => Field::Priority,
            Some(Form::Rss) if is(b"link") => Field::Loc,
            _ => Field::None,
        }
    }

    fn begin_entry(&mut self) {
        self.is_inside = true;
        self.field = self.outer_field();
        for text in [&mut self.loc, &mut self.bare, &mut self.lastmod, &mut self.priority] {
            text.clear();
        }
    }

    /// Returns where text goes that is in no element of the entry.
    fn outer_field(&self) -> Field {
        if self.is_inside && self.summary.form == Some(Form::Index) {
            Field::Bare
        } else {
            Field::None
        }
    }

    fn end_entry(&mut self, take: &mut impl Take) {
        self.is_inside = false;
        self.field = Field::None;
        if self.summary.form == Some(Form::Atom) {
            return;
        }
        let has_loc = !self.loc.trim_ascii().is_empty();
        let loc = std::mem::take(if has_loc { &mut self.loc } else { &mut self.bare });
        self.give_loc(&loc, take);
        // The buffer is put back so that its memory is reused.
        self.loc = loc;
    }

    fn give_loc(&mut self, written: &[u8], take: &mut impl Take) {
        let loc = (written.len() <= LOC_BYTES_MAX).then(|| unescape(written)).flatten();
        let loc = loc.as_deref().map_or(Cow::Borrowed(""), String::from_utf8_lossy);
        let loc = loc.trim();
        if loc.is_empty() || loc.len() > URL_BYTES_MAX {
            return self.refuse();
        }
        let lastmod = std::mem::take(&mut self.lastmod);
        let priority_permille = permille(&self.priority);
        let is_whole = lastmod.len() < SITEMAP_FIELD_BYTES_MAX;
        let text = std::str::from_utf8(&lastmod).ok().filter(|_| is_whole).unwrap_or("").trim();
        self.give(Entry { loc, lastmod: text, priority_permille }, take);
        self.lastmod = lastmod;
    }
}

/// An address as written may be longer than a URL, because its references are. One byte more than
/// this is kept, so that a longer address can be recognised.
const LOC_BYTES_MAX: usize = 2 * URL_BYTES_MAX;

impl<T: Take> Tokens for Collecting<'_, T> {
    fn start(&mut self, name: &[u8]) {
        let document = &mut *self.document;
        if !document.has_root {
            return document.root(name);
        }
        let Some(local) = document.own(name) else { return };
        if document.is_item(local) {
            document.begin_entry();
        } else if document.is_inside {
            match document.field_of(local) {
                Field::None => {}
                // This is a second address in one entry; the first one is the page's.
                Field::Loc if !document.loc.is_empty() => document.field = Field::None,
                field => document.field = field,
            }
            let is_link = document.summary.form == Some(Form::Atom);
            if is_link && local.eq_ignore_ascii_case(b"link") {
                document.link.is_open = true;
                document.link.is_page = true;
                document.link.href.clear();
            }
        }
    }

    fn attribute(&mut self, name: &[u8], value: &[u8]) {
        let link = &mut self.document.link;
        if !link.is_open {
            return;
        }
        match name {
            b"href" => link.href = value.to_vec(),
            // RFC 4287 4.2.7.2: a link without rel is an alternate. Other relations are no pages.
            b"rel" => link.is_page = value.trim_ascii().eq_ignore_ascii_case(b"alternate"),
            _ => {}
        }
    }

    fn opened(&mut self, is_empty: bool) {
        let document = &mut *self.document;
        if document.link.is_open {
            document.link.is_open = false;
            if document.link.is_page {
                let href = std::mem::take(&mut document.link.href);
                document.give_loc(&href, self.take);
            }
        }
        if is_empty {
            document.field = document.outer_field();
        }
    }

    fn end(&mut self, name: &[u8]) {
        let document = &mut *self.document;
        let Some(local) = document.own(name) else { return };
        if !document.is_inside {
            return;
        }
        if document.is_item(local) {
            document.end_entry(self.take);
        } else if document.field_of(local) != Field::None {
            document.field = document.outer_field();
        }
    }

    fn text(&mut self, piece: &[u8], is_cdata: bool) {
        let document = &mut *self.document;
        let (field, max) = match document.field {
            Field::None => return,
            Field::Loc => (&mut document.loc, LOC_BYTES_MAX + 1),
            Field::Bare => (&mut document.bare, LOC_BYTES_MAX + 1),
            Field::Lastmod => (&mut document.lastmod, SITEMAP_FIELD_BYTES_MAX),
            Field::Priority => (&mut document.priority, SITEMAP_FIELD_BYTES_MAX),
        };
        for &byte in piece {
            let written: &[u8] = if is_cdata && byte == b'&' { b"&amp;" } else { &[byte] };
            // Indented addresses are common; the indentation is not part of the address.
            let is_leading = field.is_empty() && byte.is_ascii_whitespace();
            if !is_leading && field.len() + written.len() <= max {
                field.extend_from_slice(written);
            } else if !is_leading {
                field.resize(max, b'.');
            }
        }
    }
}

/// Replaces references; `None` if there is an entity that we do not know.
fn unescape(written: &[u8]) -> Option<Cow<'_, [u8]>> {
    let Some(first) = memchr::memchr(b'&', written) else { return Some(written.into()) };
    let mut out = written[..first].to_vec();
    let mut rest = &written[first..];
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        let name = if byte == b'&' { reference(behind) } else { None };
        let Some(name) = name else {
            out.push(byte);
            continue;
        };
        let mut utf8 = [0; 4];
        out.extend_from_slice(character(name)?.encode_utf8(&mut utf8).as_bytes());
        rest = &behind[name.len() + 1..];
    }
    Some(out.into())
}

/// Returns the name between an ampersand and its semicolon, if there is one.
fn reference(behind: &[u8]) -> Option<&[u8]> {
    const BYTES_MAX: usize = 64;
    let window = &behind[..behind.len().min(BYTES_MAX)];
    let name = &window[..memchr::memchr(b';', window)?];
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"#._-".contains(byte);
    (!name.is_empty() && name.iter().all(is_name)).then_some(name)
}

fn character(name: &[u8]) -> Option<char> {
    let number = |digits: &[u8], radix| {
        let digits = std::str::from_utf8(digits).ok()?;
        u32::from_str_radix(digits, radix).ok().and_then(char::from_u32)
    };
    match name {
        b"amp" => Some('&'),
        b"lt" => Some('<'),
        b"gt" => Some('>'),
        b"quot" => Some('"'),
        b"apos" => Some('\''),
        [b'#', b'x' | b'X', digits @ ..] => number(digits, 16),
        [b'#', digits @ ..] => number(digits, 10),
        _ => None,
    }
}

fn permille(text: &[u8]) -> Option<u16> {
    let value: f32 = std::str::from_utf8(text).ok()?.trim().parse().ok()?;
    (0.0..=1.0).contains(&value).then_some((value * 1_000.0).round() as u16)
}

//! Sitemaps: the lists of pages that sites keep for crawlers, read from a stream of bytes.
//!
//! ```text
//! body bytes -> charset (UTF-8 from here) -> xml tokens -> document -> entries, as they come
//!                                        \-> lines -------------------^
//! ```
//!
//! [`SitemapReader`] does all of this. It owns the entry being read. It takes the body in chunks
//! cut anywhere, gives the same entries however they were cut, and holds one entry at a time, so
//! its memory is bounded by `limits` whatever the file holds. It reads the forms of sitemaps.org:
//! `urlset`, `sitemapindex`, RSS and Atom feeds, and plain lists of lines. [`Scope`] decides
//! whether a sitemap may list a URL. Nothing here does I/O; a reader belongs to the core that
//! fetches the file.
//!
//! How the contents are read:
//!
//! - Namespaces are not resolved. An element counts if its prefix is the root's (`sit:loc` under
//!   `sit:urlset`), so `image:loc` and `video:player_loc` are never taken for pages. Wrong
//!   namespace addresses, which are common, do no harm.
//! - Only the five entities of XML and character numbers are replaced (XML 1.0 4.1 and 4.6). A
//!   DOCTYPE is skipped with all its declarations: nothing is expanded and nothing is fetched. An
//!   entry that uses another entity is refused and counted; the rest of the file is read. An
//!   ampersand that begins no reference stands for itself, because that is what sites mean by it.
//! - `xhtml:link` alternates are not taken: the protocol requires an entry of its own for each.

mod charset;
mod document;
mod reader;
mod scope;
mod text;
mod xml;

#[cfg(test)]
mod tests;

pub use reader::SitemapReader;
pub use scope::Scope;

/// What kind of list a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    Urlset,
    /// Lists sitemaps, not pages.
    Index,
    Rss,
    Atom,
    /// One URL per line.
    Lines,
}

impl Form {
    pub fn name(self) -> &'static str {
        match self {
            Form::Urlset => "urlset",
            Form::Index => "index",
            Form::Rss => "rss",
            Form::Atom => "atom",
            Form::Lines => "lines",
        }
    }
}

/// One listed address, with what the list says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The address as written, with references replaced and both ends trimmed; not yet parsed.
    /// Never empty.
    pub loc: &'a str,
    /// The date as written (W3C date and time); empty if there is none.
    pub lastmod: &'a str,
    /// The priority in thousandths; `None` if there is none, or if it is not a number from 0 to 1.
    pub priority_permille: Option<u16>,
}

/// The counts of a file's entries, by what was done with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// `None` if the file is not a sitemap of any form.
    pub form: Option<Form>,
    /// Entries that were handed to the caller.
    pub entry_count: u32,
    /// Entries beyond [`crate::base::limits::SITEMAP_URL_COUNT_MAX`], which were dropped.
    pub over_count: u32,
    /// Entries without an address, with one that is too long, or with an entity that is not
    /// expanded.
    pub refused_count: u32,
}

/// A function that takes the entries, in the order of the file.
pub trait Take: FnMut(Entry<'_>) {}

impl<F: FnMut(Entry<'_>)> Take for F {}

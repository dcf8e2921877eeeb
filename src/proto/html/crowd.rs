//! Decides which links of a page are kept when it has more than a crawler takes from one page.
//!
//! Up to the bound a page's links are kept as they come, whatever they are, and none is judged.
//! From there on each link is judged: one that leads to no page is not kept, one that stands on the
//! page already is not kept again, and of the others as many are kept as bring the page to
//! [`LinkTerms::count_max`] distinct links that lead to pages. The rest is counted.
//!
//! So a page under the bound costs nothing, and one over it keeps at most twice as many links as
//! the bound. Two links are the same if their texts are equal up to a fragment: no base is known
//! yet.

use super::page::{LinkEntry, LinkKind, Rel, leads_to_page};
use crate::base::limits::PAGE_LINK_COUNT_MAX;
use hashbrown::HashTable;
use std::hash::{BuildHasher, RandomState};

/// How many links of a page are taken, and which ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkTerms {
    /// The bound on distinct links that lead to pages; [`usize::MAX`] means that there is no limit.
    count_max: usize,
    takes_nofollow: bool,
}

impl LinkTerms {
    /// Makes the terms. With `count_max` 0 there is no limit, and the page's own size is the bound.
    /// With `takes_nofollow`, links with `rel=nofollow` are followed, and count.
    pub fn new(count_max: usize, takes_nofollow: bool) -> LinkTerms {
        let count_max = if count_max == 0 { usize::MAX } else { count_max };
        LinkTerms { count_max, takes_nofollow }
    }

    /// Makes terms under which every link is kept.
    pub fn all() -> LinkTerms {
        LinkTerms::new(0, true)
    }

    #[inline(always)]
    pub(super) fn count_max(&self) -> usize {
        self.count_max
    }

    /// Reports whether a link can be followed, and so counts.
    fn covers(&self, kind: LinkKind, rel: Rel, href: &[u8]) -> bool {
        leads_to_page(kind, rel)
            && (self.takes_nofollow || !rel.has(Rel::NOFOLLOW))
            && !names_other_scheme(href)
    }
}

impl Default for LinkTerms {
    fn default() -> LinkTerms {
        LinkTerms::new(PAGE_LINK_COUNT_MAX, false)
    }
}

/// What happens to a link beyond the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Kept,
    /// The link leads to no page, or stands on the page already.
    Needless,
    LeftOut,
}

/// The links of a page that count, from the moment it has as many links as the bound.
#[derive(Clone)]
pub(super) struct Crowd {
    terms: LinkTerms,
    /// Holds numbers of the page's links; two links are compared by their texts.
    table: HashTable<u32>,
    /// The hash is keyed, so that no page can choose links that collide.
    hashes: RandomState,
}

impl std::fmt::Debug for Crowd {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Crowd({})", self.table.len())
    }
}

impl Crowd {
    /// Makes the crowd of a page that has reached the bound. `stored` holds the texts of `links`.
    pub(super) fn of(terms: LinkTerms, links: &[LinkEntry], stored: &[u8]) -> Crowd {
        let hashes = RandomState::new();
        let mut crowd = Crowd { terms, table: HashTable::new(), hashes };
        for (number, link) in links.iter().enumerate() {
            let href = link.href.of(stored);
            if terms.covers(link.kind, link.rel, href) {
                let href = without_fragment(href);
                let hash = crowd.hashes.hash_one(href);
                if !crowd.has(links, stored, hash, href) {
                    crowd.insert(links, stored, hash, number as u32);
                }
            }
        }
        crowd
    }

    /// Judges a link; if it is kept, the caller adds it behind `links`.
    pub(super) fn admit(
        &mut self,
        links: &[LinkEntry],
        stored: &[u8],
        (kind, rel, href): (LinkKind, Rel, &[u8]),
    ) -> Admission {
        if !self.terms.covers(kind, rel, href) {
            return Admission::Needless;
        }
        let href = without_fragment(href);
        let hash = self.hashes.hash_one(href);
        if self.has(links, stored, hash, href) {
            return Admission::Needless;
        }
        if self.table.len() >= self.terms.count_max {
            return Admission::LeftOut;
        }
        self.insert(links, stored, hash, links.len() as u32);
        Admission::Kept
    }

    fn has(&self, links: &[LinkEntry], stored: &[u8], hash: u64, href: &[u8]) -> bool {
        self.table.find(hash, |number| text_of(links, stored, *number) == href).is_some()
    }

    fn insert(&mut self, links: &[LinkEntry], stored: &[u8], hash: u64, number: u32) {
        let Crowd { table, hashes, .. } = self;
        table.insert_unique(hash, number, |of| hashes.hash_one(text_of(links, stored, *of)));
    }
}

fn text_of<'s>(links: &[LinkEntry], stored: &'s [u8], number: u32) -> &'s [u8] {
    without_fragment(links[number as usize].href.of(stored))
}

fn without_fragment(href: &[u8]) -> &[u8] {
    &href[..memchr::memchr(b'#', href).unwrap_or(href.len())]
}

/// Reports whether `href` names another scheme: `mailto:`, `javascript:`, `data:` and the like.
fn names_other_scheme(href: &[u8]) -> bool {
    let named = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    let end = href.iter().position(|byte| !named(byte)).unwrap_or(href.len());
    let scheme = &href[..end];
    href.get(end) == Some(&b':')
        && scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && !scheme.eq_ignore_ascii_case(b"http")
        && !scheme.eq_ignore_ascii_case(b"https")
}

#[cfg(test)]
mod tests {
    use crate::proto::html::{LinkTerms, LolReader, NoText, Page, PageReader};
    use std::fmt::Write;

    fn read(html: &str, terms: LinkTerms) -> Page {
        let mut reader = PageReader::new(Some("utf-8")).with_links(terms);
        html.as_bytes().chunks(1_000).for_each(|chunk| reader.push(chunk, &mut NoText));
        let page = reader.finish(&mut NoText);
        let mut lol = LolReader::new(Some("utf-8")).with_links(terms);
        lol.push(html.as_bytes(), &mut NoText);
        let lol = lol.finish(&mut NoText);
        assert!(page.links().eq(lol.links()), "both readers must keep the same links");
        assert_eq!(page.link_over_count, lol.link_over_count);
        page
    }

    /// Makes links `/0`, `/1` ... and between them links that lead to no page or to an earlier one.
    fn crowded(count: usize) -> String {
        let mut html = String::from("<base href=/>");
        for number in 0..count {
            let _ = write!(
                html,
                "<link rel=stylesheet href=/s{number}.css><a href=data:,{number}>d</a>\
                 <a href='mailto:a{number}@b'>m</a><a rel=nofollow href=/n{number}>n</a>\
                 <a href=/{number}>the page</a><a href='/{number}#part'>a part</a>\
                 <a href=/0>first</a>"
            );
        }
        html
    }

    fn pages_of(page: &Page) -> Vec<&str> {
        let numbered = |href: &&str| href[1..].parse::<u32>().is_ok();
        let mut hrefs: Vec<&str> = page.links().map(|link| link.href).filter(numbered).collect();
        let mut seen = std::collections::BTreeSet::new();
        hrefs.retain(|href| seen.insert(*href));
        hrefs
    }

    #[test]
    fn only_distinct_links_that_lead_to_pages_count_and_what_is_left_out_is_counted() {
        for (count, kept, left_out) in [(5, 5, 0), (99, 99, 0), (100, 100, 0), (130, 100, 60)] {
            let page = read(&crowded(count), LinkTerms::new(100, false));
            let expected: Vec<String> = (0..kept).map(|number| format!("/{number}")).collect();
            assert_eq!(pages_of(&page), expected, "{count}");
            // Each link beyond the bound stands on the page twice.
            assert_eq!(page.link_over_count, left_out, "{count}");
            assert!(page.link_count() <= 200);
        }
    }

    #[test]
    fn nofollow_links_count_where_they_are_followed_and_zero_is_no_limit() {
        let page = read(&crowded(130), LinkTerms::new(100, true));
        // Two links of each number count, so fifty numbers are enough; beyond them each number has
        // three links that count.
        assert_eq!(page.link_over_count, 3 * 80);
        let page = read(&crowded(5_000), LinkTerms::new(0, false));
        assert_eq!((page.link_count(), page.link_over_count), (7 * 5_000, 0));
        assert_eq!(pages_of(&page).len(), 5_000);
    }

    #[test]
    fn a_link_that_is_kept_late_keeps_its_text() {
        let html = format!("{}<a href=/late>a <b>late</b> one</a><a href=/over>x</a>", crowded(99));
        let page = read(&html, LinkTerms::new(100, false));
        let last = page.links().last().expect("links");
        assert_eq!((last.href, last.text), ("/late", "a late one"));
        assert_eq!(page.link_over_count, 1);
    }
}

//! Sitemaps of the synthetic hosts.
//!
//! An honest sitemap lists its host's content pages, which links reach as well, and its orphans,
//! which nothing else leads to. With `hostile_sitemaps`, `/sitemap.xml` is an index of the tricks
//! that a reader must survive, with the honest list among them; the orphans are in a file on the
//! next host, which robots.txt names as well. A reader of all these files learns of the same pages
//! as from an honest sitemap.

use crate::lab::web::Web;
use crate::lab::web::graph::Kind;
use crate::lab::web::names::push_number;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

const SITEMAP_PAGE_COUNT_MAX: u32 = 1_000;
/// More URLs than the protocol allows in a sitemap, but fewer bytes than the crawler's limit for a
/// body.
const FLOOD_COUNT: u32 = 60_000;
/// How many bytes the gzip bomb unpacks to.
const BOMB_BYTES: usize = 64 << 20;
const HEAD: &[u8] = b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

/// A sitemap of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SitemapPart {
    /// `/sitemap.xml`: the list of pages, or on a hostile web the index.
    Root,
    /// The list of pages, below the index.
    Pages,
    /// A "billion laughs" nest of entities, and an external entity.
    Entities,
    /// A small gzip file that unpacks to much XML.
    Bomb,
    /// An index that names only the next such index.
    Endless(u32),
    /// Too many URLs, all on another site.
    Flood,
    /// The orphans of another host, which names this file in its robots.txt, and one URL of a host
    /// that does not.
    Lent { of: u32 },
}

impl SitemapPart {
    /// Returns the sitemap at a path. Except for `/sitemap.xml`, only a hostile web has any.
    pub fn of(target: &str, is_hostile: bool) -> Option<SitemapPart> {
        let part = match target {
            "/sitemap.xml" => return Some(SitemapPart::Root),
            "/sitemap-pages.xml" => SitemapPart::Pages,
            "/sitemap-entities.xml" => SitemapPart::Entities,
            "/sitemap-bomb.xml.gz" => SitemapPart::Bomb,
            "/sitemap-flood.xml" => SitemapPart::Flood,
            other => {
                let name = other.strip_prefix("/sitemap-")?.strip_suffix(".xml")?;
                match name.split_once('-')? {
                    ("endless", number) => SitemapPart::Endless(number.parse().ok()?),
                    ("lent", number) => SitemapPart::Lent { of: number.parse().ok()? },
                    _ => return None,
                }
            }
        };
        is_hostile.then_some(part)
    }

    pub fn is_lent(self) -> bool {
        matches!(self, SitemapPart::Lent { .. })
    }

    pub fn content_type(self) -> &'static [u8] {
        match self {
            SitemapPart::Bomb => b"application/gzip",
            _ => b"application/xml",
        }
    }
}

impl Web {
    /// Returns the host that serves the sitemap of another host's orphans.
    pub(super) fn sitemap_lender(&self, host: u32) -> u32 {
        (host + 1) % self.spec().host_count
    }

    pub(super) fn push_sitemap(&self, host: u32, part: SitemapPart, out: &mut Vec<u8>) {
        match part {
            SitemapPart::Root if self.spec().hostile_sitemaps => {
                let names = ["", "-entities", "-bomb", "-endless-0", "-flood", "-pages"];
                self.push_index(host, &names.map(str::to_owned), out);
            }
            SitemapPart::Root => self.push_pages(host, &[Kind::Content, Kind::Orphan], out),
            SitemapPart::Pages => self.push_pages(host, &[Kind::Content], out),
            SitemapPart::Lent { of } => {
                self.push_pages(of.min(self.spec().host_count - 1), &[Kind::Orphan], out);
                out.extend_from_slice(b"<urlset><url><loc>http://victim.test/</loc></url>");
            }
            SitemapPart::Entities => self.push_entities(host, out),
            SitemapPart::Bomb => self.push_bomb(host, out),
            SitemapPart::Endless(number) => {
                let next = format!("-endless-{}", number.saturating_add(1));
                self.push_index(host, &[next], out);
            }
            SitemapPart::Flood => self.push_flood(out),
        }
    }

    fn push_pages(&self, host: u32, kinds: &[Kind], out: &mut Vec<u8>) {
        self.push_root(b"urlset", out);
        let pages = (0..self.graph().page_count(host)).filter_map(|page| {
            let place = self.graph().place(host, page)?;
            let has_room = place.kind == Kind::Orphan || page < SITEMAP_PAGE_COUNT_MAX;
            (kinds.contains(&place.kind) && has_room).then_some(place)
        });
        let mut path = Vec::new();
        for place in pages {
            out.extend_from_slice(b"<url><loc>");
            self.push_origin(host, out);
            path.clear();
            self.push_path(place, &mut path);
            super::page::push_escaped(&path, out);
            out.extend_from_slice(b"</loc></url>\n");
        }
        out.extend_from_slice(b"</urlset>\n");
    }

    fn push_index(&self, host: u32, names: &[String], out: &mut Vec<u8>) {
        self.push_root(b"sitemapindex", out);
        for name in names {
            out.extend_from_slice(b"<sitemap><loc>");
            self.push_origin(host, out);
            out.extend_from_slice(b"/sitemap");
            out.extend_from_slice(name.as_bytes());
            let ending: &[u8] = if name == "-bomb" { b".xml.gz" } else { b".xml" };
            out.extend_from_slice(ending);
            out.extend_from_slice(b"</loc></sitemap>\n");
        }
        out.extend_from_slice(b"</sitemapindex>\n");
    }

    /// Appends a sitemap of entities. When expanded, the second URL is ten gigabytes long; the
    /// first leads to a file on the reader's machine.
    fn push_entities(&self, host: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(HEAD);
        out.extend_from_slice(
            b"<!DOCTYPE urlset [\n<!ENTITY file SYSTEM \"file:///etc/passwd\">\n",
        );
        out.extend_from_slice(b"<!ENTITY lol0 \"lololololo\">\n");
        for level in 1..10 {
            let body = format!("&lol{};", level - 1).repeat(10);
            out.extend_from_slice(format!("<!ENTITY lol{level} \"{body}\">\n").as_bytes());
        }
        out.extend_from_slice(b"]>\n<urlset>\n");
        for name in ["file", "lol9"] {
            out.extend_from_slice(b"<url><loc>");
            self.push_origin(host, out);
            out.extend_from_slice(format!("/&{name};</loc></url>\n").as_bytes());
        }
        out.extend_from_slice(b"</urlset>\n");
    }

    fn push_bomb(&self, host: u32, out: &mut Vec<u8>) {
        let mut plain = Vec::new();
        self.push_root(b"urlset", &mut plain);
        plain.resize(BOMB_BYTES, b' ');
        plain.extend_from_slice(b"<url><loc>");
        self.push_origin(host, &mut plain);
        plain.extend_from_slice(b"/behind-the-bomb</loc></url></urlset>\n");
        let mut packer = GzEncoder::new(out, Compression::best());
        // Writing to a Vec does not fail.
        let _ = packer.write_all(&plain).and_then(|()| packer.try_finish());
    }

    fn push_flood(&self, out: &mut Vec<u8>) {
        self.push_root(b"urlset", out);
        for number in 0..FLOOD_COUNT {
            out.extend_from_slice(b"<url><loc>http://victim.test/");
            push_number(number, out);
            out.extend_from_slice(b"</loc></url>\n");
        }
        out.extend_from_slice(b"</urlset>\n");
    }

    fn push_root(&self, root: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(HEAD);
        out.push(b'<');
        out.extend_from_slice(root);
        out.extend_from_slice(b" xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::web::WebSpec;

    #[test]
    fn orphans_are_listed_and_nothing_links_to_them() {
        let plain = WebSpec::profile("plain").expect("a profile");
        let spec = WebSpec {
            host_count: 8,
            page_count: 800,
            sitemap_fraction: 1.0,
            orphan_fraction: 0.1,
            ..plain
        };
        let web = Web::new(spec).expect("a sound spec");
        let host = (0..8).find(|host| web.graph().has_sitemap(*host)).expect("one of eight");
        let mut list = Vec::new();
        web.push_sitemap(host, SitemapPart::Root, &mut list);
        let list = String::from_utf8(list).expect("text");
        let places = (0..web.graph().page_count(host)).filter_map(|p| web.graph().place(host, p));
        let orphans: Vec<_> = places.filter(|place| place.kind == Kind::Orphan).collect();
        assert!((5..=15).contains(&orphans.len()), "{}", orphans.len());
        for orphan in &orphans {
            assert!(list.contains(&format!("{}</loc>", web.url(*orphan))));
        }
        for page in 0..web.graph().page_count(host) {
            let place = web.graph().place(host, page).expect("a page");
            let mut links = Vec::new();
            web.graph().links(place, 25_000, &mut links);
            assert!(links.iter().all(|link| link.kind != Kind::Orphan));
        }
        let known = web.truth().expect("a truth");
        let known = |place| known.iter().any(|entry| entry.place == place);
        assert!(orphans.into_iter().all(known), "a crawl should learn of them");
    }

    #[test]
    fn tricks_are_served_by_hostile_webs_alone() {
        for target in ["/sitemap-bomb.xml.gz", "/sitemap-endless-7.xml", "/sitemap-flood.xml"] {
            assert!(SitemapPart::of(target, true).is_some(), "{target}");
            assert_eq!(SitemapPart::of(target, false), None, "{target}");
        }
        assert_eq!(SitemapPart::of("/sitemap.xml", false), Some(SitemapPart::Root));
        assert_eq!(SitemapPart::of("/sitemap-endless-x.xml", true), None);
    }
}

//! A page that only a sitemap names is found, and no sitemap can do harm. First files that sites
//! really serve are read, and then whole crawls in simulation are judged by the servers' log.

#[path = "support/corpus.rs"]
mod corpus;
mod support;

use nephila::crawl::config::Settings;
use nephila::crawl::metrics::{Count, merged};
use nephila::crawl::parse::{ListReader, Listed};
use nephila::lab::web::truth::Expect;
use nephila::lab::web::{Kind, Web, WebSpec};
use nephila::proto::sitemap::Form;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use support::{Crawl, crawl, settings};

// --- Files of the corpus ------------------------------------------------------------------------

/// A file, its form, the number of its entries, and the first and the last of them.
type Case = (&'static str, Form, usize, &'static str, &'static str);

#[rustfmt::skip]
const CASES: &[Case] = &[
    ("atom.xml", Form::Atom, 2, "http://example.org/2003/12/13/atom03",
        "http://example.org/2003/12/13/atom03.html"),
    ("do-not-visit.txt", Form::Lines, 1, "http://www.example.com/do-not-visit-here",
        "http://www.example.com/do-not-visit-here"),
    ("hebdenbridgetimes-articles-sitemap.xml", Form::Urlset, 74,
        "http://www.hebdenbridgetimes.co.uk/news/local/\
         video-tour-de-yorkshire-in-calderdale-1-7242580",
        "http://www.hebdenbridgetimes.co.uk/news/local/\
         now-you-see-it-now-you-don-t-it-s-off-the-wall-1-7229940"),
    ("pagemaps-sitemap.xml", Form::Urlset, 2, "http://www.example.com/foo",
        "http://www.example.com/bar"),
    ("shinpaideshou-news-sitemap.xml", Form::Urlset, 3,
        "https://shinpaideshou.wordpress.com/2017/04/25/\
         job-opening-reischauer-policy-research-fellow/",
        "https://shinpaideshou.wordpress.com/2017/04/24/\
         job-opening-lecturer-in-japanese-studies-university-of-leeds/"),
    ("sitemap-images.xml", Form::Urlset, 1,
        "http://www.example.com/images/some_image_landing_page.html",
        "http://www.example.com/images/some_image_landing_page.html"),
    ("sitemap-links.xml", Form::Urlset, 3, "http://www.example.com/english/",
        "http://www.example.com/schweiz-deutsch/"),
    ("sitemap-mobile.xml", Form::Urlset, 3, "http://www.example.com/mobile-friendly-1/",
        "http://www.example.com/no-mobile/"),
    ("sitemap-news.xml", Form::Urlset, 2, "http://www.example.org/business/article55.html",
        "http://www.example.org/empty_news_name.html"),
    ("sitemap-videos-tvshow.xml", Form::Urlset, 1, "https://example.org/my-tv-show/23/13/",
        "https://example.org/my-tv-show/23/13/"),
    ("sitemap-videos.xml", Form::Urlset, 3,
        "http://www.example.com/videos/some_video_landing_page.html",
        "http://www.example.com/videos/some_video_landing_page-3.html"),
    ("sitemap-with-bom.txt", Form::Lines, 2, "http://www.domain.com/page1.html",
        "http://www.domain.com/page2.html"),
    ("sitemap.badns.xml", Form::Urlset, 2, "http://www.example.com/1", "http://www.example.com/2"),
    ("sitemap.index.xml", Form::Index, 15,
        "https://example.com/sitemap.jss?portalCode=10260&lang=en",
        "https://example.com/sitemap.jss?portalCode=10570&lang=en"),
    ("sitemap.ns.xml", Form::Urlset, 2, "http://www.example.com/1", "http://www.example.com/2"),
    ("sitemap.txt", Form::Lines, 2, "http://www.domain.com/page1.html",
        "http://www.domain.com/page2.html"),
    ("sitemap.txt.gz", Form::Lines, 5, "http://www.example.com/",
        "http://www.example.com/catalog?item=83&desc=vacation_usa"),
    ("xmlSitemap.gz", Form::Urlset, 5, "http://www.example.com/",
        "http://www.example.com/catalog?item=83&desc=vacation_usa"),
];

/// The cases of our own files.
const OWN_CASES: &[Case] = &[
    (
        "own-index.xml",
        Form::Index,
        2,
        "http://www.example.com/a.xml",
        "http://www.example.com/b.xml.gz",
    ),
    ("own-lines.txt", Form::Lines, 2, "http://www.example.com/", "http://www.example.com/two"),
    (
        "own-urlset.xml",
        Form::Urlset,
        3,
        "http://www.example.com/1?a=1&b=2",
        "http://www.example.com/3",
    ),
];

/// Returns sitemaps by name, and what they must list.
fn corpus() -> (BTreeMap<String, Vec<u8>>, &'static [Case]) {
    let found = corpus::find("sitemaps");
    let read = |path: PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        (name, std::fs::read(path).expect("a file reads"))
    };
    let entries = std::fs::read_dir(&found.path).expect("the folder opens");
    let files = entries.map(|entry| read(entry.expect("the folder reads").path())).collect();
    (files, if found.is_whole { CASES } else { OWN_CASES })
}

fn read(bytes: &[u8], piece_bytes: usize) -> Option<Listed> {
    let mut reader = ListReader::new(None);
    bytes.chunks(piece_bytes).for_each(|piece| reader.push(piece));
    reader.finish().0
}

#[test]
fn every_file_of_the_corpus_lists_what_its_site_meant() {
    let (files, cases) = corpus();
    for (name, form, count, first, last) in cases {
        let bytes = files.get(*name).unwrap_or_else(|| panic!("no {name}"));
        let listed = read(bytes, bytes.len()).unwrap_or_else(|| panic!("{name} is a sitemap"));
        let locs: Vec<&str> = listed.locs().collect();
        assert_eq!((listed.summary.form, locs.len()), (Some(*form), *count), "{name}");
        assert_eq!((locs[0], locs[locs.len() - 1]), (*first, *last), "{name}");
        assert_eq!(listed.summary.refused_count, 0, "{name}");
    }
    let named: BTreeSet<&str> = cases.iter().map(|(name, ..)| *name).collect();
    assert!(files.keys().all(|name| named.contains(name.as_str())), "a file without a case");
}

#[test]
fn the_corpus_reads_the_same_however_it_is_cut() {
    for (name, bytes) in corpus().0 {
        let whole = read(&bytes, bytes.len());
        for piece_bytes in [1, 2, 3, 7, 64, 1_000] {
            assert_eq!(read(&bytes, piece_bytes), whole, "{name} by {piece_bytes}");
        }
    }
}

/// Bytes of the corpus files are changed, doubled and left out in 20,000 ways.
#[test]
fn no_damage_to_a_real_file_panics_or_depends_on_the_cut() {
    let mut rng = 0x9e37_79b9_7f4a_7c15u64;
    let mut roll = |below: usize| {
        rng ^= rng << 13;
        rng ^= rng >> 7;
        rng ^= rng << 17;
        (rng % below.max(1) as u64) as usize
    };
    let telling = b"<>&;!?-[]\"'/= \0\xff\x1f\x8b";
    let files: Vec<Vec<u8>> =
        corpus().0.into_values().filter(|bytes| bytes.len() < 5_000).collect();
    for round in 0..20_000 {
        let file = &files[round % files.len()];
        let mut bytes = file.clone();
        for _ in 0..1 + roll(8) {
            let at = roll(bytes.len());
            match roll(4) {
                0 => bytes[at] = telling[roll(telling.len())],
                1 => bytes.insert(at, telling[roll(telling.len())]),
                2 => bytes.truncate(at.max(2)),
                _ => {
                    let end = (at + roll(100)).min(bytes.len());
                    let part = bytes[at..end].to_vec();
                    bytes.splice(at..at, part);
                }
            }
        }
        let piece_bytes = 1 + roll(bytes.len());
        assert_eq!(read(&bytes, piece_bytes), read(&bytes, bytes.len()), "round {round}");
    }
}

// --- Crawls -------------------------------------------------------------------------------------

fn spec(host_count: u32, page_count: u64) -> WebSpec {
    let plain = WebSpec::profile("plain").expect("a profile");
    let sitemap_fraction = 1.0;
    WebSpec { host_count, page_count, sitemap_fraction, orphan_fraction: 0.1, ..plain }
}

/// Returns how often each URL was requested without robots.txt and sitemaps, and how often these
/// were, by their paths.
fn requests(crawl: &Crawl) -> (BTreeMap<String, u32>, BTreeMap<String, u32>) {
    let (mut pages, mut sitemaps) = (BTreeMap::new(), BTreeMap::new());
    for entry in crawl.log.iter().filter(|entry| entry.path != "/robots.txt") {
        if entry.path.starts_with("/sitemap") {
            *sitemaps.entry(format!("{}{}", entry.host, entry.path)).or_default() += 1;
        } else {
            *pages.entry(format!("http://{}{}", entry.host, entry.path)).or_default() += 1;
        }
    }
    (pages, sitemaps)
}

/// Asserts that every page of the truth was requested once, including orphans, and nothing else.
fn assert_exact_with_orphans(spec: &WebSpec, crawl: &Crawl) -> usize {
    let web = Web::new(spec.clone()).expect("a sound spec");
    let (mut pages, _) = requests(crawl);
    let mut orphan_count = 0;
    for entry in web.truth().expect("a truth") {
        assert_eq!(entry.expect, Expect::Fetched);
        let url = web.url(entry.place);
        assert_eq!(pages.remove(&url), Some(1), "{url}");
        orphan_count += usize::from(entry.place.kind == Kind::Orphan);
    }
    assert!(pages.is_empty(), "pages were requested without being listed: {pages:?}");
    orphan_count
}

#[test]
fn pages_that_only_a_sitemap_names_are_fetched_once_each() {
    let spec = spec(12, 400);
    let crawl = crawl(1, spec.clone(), 2, settings());
    let orphan_count = assert_exact_with_orphans(&spec, &crawl);
    assert!(orphan_count >= 10, "{orphan_count}");
    let (_, sitemaps) = requests(&crawl);
    assert!(sitemaps.values().all(|count| *count == 1), "each sitemap once: {sitemaps:?}");
    let (metrics, _) = merged(&crawl.reports);
    assert_eq!(metrics.count(Count::Sitemaps), sitemaps.len() as u64);
    let pages = Web::new(spec).expect("a sound spec").truth().expect("a truth").len();
    assert_eq!(metrics.count(Count::Pages), pages as u64, "a sitemap does not count as a page");
}

#[test]
fn sitemaps_are_not_asked_for_when_the_setting_is_off() {
    let crawl = crawl(2, spec(6, 120), 1, Settings { sitemaps: false, ..settings() });
    let (pages, sitemaps) = requests(&crawl);
    assert!(sitemaps.is_empty() && !pages.keys().any(|url| url.contains("/orphan/")));
}

#[test]
fn tricks_in_sitemaps_end_bounded_and_the_honest_list_among_them_is_read() {
    let spec = WebSpec { hostile_sitemaps: true, ..spec(6, 150) };
    let crawl = crawl(3, spec.clone(), 2, settings());
    assert!(assert_exact_with_orphans(&spec, &crawl) >= 4);
    let web = Web::new(spec).expect("a sound spec");
    let hosts = (0..6).filter(|host| web.graph().has_sitemap(*host)).count() as u64;
    let (_, sitemaps) = requests(&crawl);
    // The index that lists itself is requested once, and the endless one three levels deep.
    assert!(sitemaps.values().all(|count| *count == 1), "{sitemaps:?}");
    let endless = sitemaps.keys().filter(|path| path.contains("-endless-")).count() as u64;
    assert_eq!(endless, 3 * hosts);
    // Orphans are listed on the next host, which the robots.txt of their own host names.
    assert_eq!(sitemaps.len() as u64, (1 + 4 + 3 + 1) * hosts);
    let (metrics, _) = merged(&crawl.reports);
    // Each host has these refused entries: two entities, as many foreign URLs as a sitemap may
    // list, and one on the lent host.
    assert_eq!(metrics.count(Count::SitemapUrlsRefused), (2 + 50_000 + 1) * hosts);
    // These are the rest of the flood, and the index that is one level too deep.
    assert_eq!(metrics.count(Count::SitemapUrlsOverCap), (10_000 + 1) * hosts);
    assert!(crawl.log.iter().all(|entry| !entry.path.contains("behind-the-bomb")));
}

//! `nephila bench parse`: how fast links are read from pages, by our reader, lol_html and html5gum.
//!
//! A folder of pages comes in, or pages of the synthetic web if there is none. A [`Report`] goes
//! out: megabytes per second of each engine in each round, how many links it found, and the pages
//! on which our links and lol_html's differ. The engines take turns within a round, each reading
//! the whole set of pages, so that a machine that slows down slows all of them. Time is the
//! thread's CPU time. There is one thread, and no I/O while the time is taken.
//!
//! The engines read the links of `a`, `area` and `link` with an `href`, and of `iframe` and `frame`
//! with a `src`. lol_html is timed as its users would call it, by selectors. For the comparison it
//! runs under our own page rules ([`LolReader`]), so that differences come from the two tokenizers.
//! It takes `noscript` for raw text (and so does html5gum), where our reader does what a browser
//! without scripts does: such links are marked in [`Mismatch`].

use super::BenchError;
use crate::base::limits::RING_BUFFER_BYTES;
use crate::crawl::parse::Hashed;
use crate::lab::web::{Web, WebSpec};
use crate::proto::html::{LinkKind, LinkTerms, LolReader, NoText, Page, PageReader};
use crate::proto::simhash::SimHasher;
use crate::sys::process::thread_cpu_ns;
use lol_html::{HtmlRewriter, Settings, element};
use serde::Serialize;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::{Path, PathBuf};

/// How many pages are made if there is no folder, and their mean size.
const MADE_PAGE_COUNT: u32 = 400;
const MADE_PAGE_BYTES: u32 = 25_000;

#[derive(Clone, Debug)]
pub struct Plan {
    /// The folder of pages, a file each. If it does not exist, pages are made.
    pub folder: PathBuf,
    pub round_count: usize,
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The folder, or a description of the made pages.
    pub source: String,
    pub page_count: usize,
    pub byte_count: usize,
    pub engines: Vec<Engine>,
    /// The pages with different links, in the order of their names.
    pub mismatches: Vec<Mismatch>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Engine {
    pub name: &'static str,
    /// Speed in each round; a megabyte is a million bytes.
    pub megabytes_per_second: Vec<f64>,
    pub link_count: usize,
}

/// A page in which our reader and lol_html do not find the same links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    pub page: String,
    /// How many links only our reader has; the next field has how many only lol_html has.
    pub only_ours_count: usize,
    pub only_lol_count: usize,
    /// Whether all differences are gone when both take `noscript` elements for ordinary ones.
    pub is_noscript: bool,
}

impl Engine {
    pub fn median(&self) -> f64 {
        let mut sorted = self.megabytes_per_second.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
    }
}

impl Report {
    pub fn text(&self) -> String {
        let mut text = format!(
            "{} pages, {:.1} MB, {}\n",
            self.page_count,
            self.byte_count as f64 / 1e6,
            self.source
        );
        for engine in &self.engines {
            let rounds = engine.megabytes_per_second.iter().map(|speed| format!(" {speed:.0}"));
            text += &format!(
                "{:<28}{:>7.0} MB/s {:>8} links  rounds:{}\n",
                engine.name,
                engine.median(),
                engine.link_count,
                rounds.collect::<String>(),
            );
        }
        text += &format!("{} pages differ between nephila and lol_html\n", self.mismatches.len());
        for mismatch in &self.mismatches {
            text += &format!(
                "  {}: {} only ours, {} only lol_html's{}\n",
                mismatch.page,
                mismatch.only_ours_count,
                mismatch.only_lol_count,
                if mismatch.is_noscript { ", all in noscript" } else { "" },
            );
        }
        text
    }
}

/// A page's name and its bytes.
type Pages = Vec<(String, Vec<u8>)>;

pub fn run(plan: &Plan) -> Result<Report, BenchError> {
    let (source, pages) = if plan.folder.is_dir() {
        (plan.folder.display().to_string(), read_folder(&plan.folder)?)
    } else {
        ("pages of the synthetic web".to_owned(), made_pages()?)
    };
    if pages.is_empty() {
        return Err(BenchError::NoPages(plan.folder.clone()));
    }
    let byte_count: usize = pages.iter().map(|(_, page)| page.len()).sum();
    let mut engines: Vec<Engine> = READERS
        .iter()
        .map(|(name, _)| Engine { name, megabytes_per_second: Vec::new(), link_count: 0 })
        .collect();
    for _ in 0..plan.round_count {
        for (engine, (_, read)) in engines.iter_mut().zip(READERS) {
            let begun = thread_cpu_ns();
            engine.link_count = pages.iter().map(|(_, page)| read(black_box(page))).sum();
            let ns = (thread_cpu_ns() - begun).max(1);
            engine.megabytes_per_second.push(byte_count as f64 * 1e3 / ns as f64);
        }
    }
    let mismatches = pages.iter().filter_map(|(name, page)| compare(name, page)).collect();
    Ok(Report { source, page_count: pages.len(), byte_count, engines, mismatches })
}

fn read_folder(folder: &Path) -> Result<Pages, BenchError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| BenchError::Read(path, error)
    };
    let mut pages = Pages::new();
    for entry in std::fs::read_dir(folder).map_err(failed(folder))? {
        let path = entry.map_err(failed(folder))?.path();
        if path.is_file() {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            pages.push((name, std::fs::read(&path).map_err(failed(&path))?));
        }
    }
    pages.sort();
    Ok(pages)
}

fn made_pages() -> Result<Pages, BenchError> {
    let spec = WebSpec { page_bytes_mean: MADE_PAGE_BYTES, ..WebSpec::default() };
    let web = Web::new(spec).map_err(BenchError::Spec)?;
    let places = (0..).map(|host| web.graph().root(host)).take(MADE_PAGE_COUNT as usize);
    let host_count = web.spec().host_count as usize;
    let made = places.take(host_count).map(|place| {
        let mut page = Vec::new();
        web.push_page(place, &mut page, &mut Vec::new());
        (format!("host {}", place.host), page)
    });
    Ok(made.collect())
}

pub type Read = fn(&[u8]) -> usize;

/// The engines that are compared: each reads a page and returns how many links it has.
pub const READERS: [(&str, Read); 5] = [
    ("nephila, links", ours),
    ("lol_html, links", lol),
    ("html5gum, links", gum),
    ("nephila, links, text", ours_with_text),
    ("nephila, text, SimHash", ours_with_simhash),
];

fn ours(page: &[u8]) -> usize {
    let mut reader = PageReader::new(Some("utf-8")).with_links(LinkTerms::all());
    page.chunks(RING_BUFFER_BYTES).for_each(|chunk| reader.push(chunk, &mut NoText));
    counted(&reader.finish(&mut NoText))
}

fn ours_with_text(page: &[u8]) -> usize {
    let mut byte_count = 0;
    let mut count = |piece: &[u8]| byte_count += piece.len();
    let mut reader = PageReader::new(Some("utf-8")).with_links(LinkTerms::all());
    page.chunks(RING_BUFFER_BYTES).for_each(|chunk| reader.push(chunk, &mut count));
    let page = reader.finish(&mut count);
    black_box(byte_count);
    counted(&page)
}

fn ours_with_simhash(page: &[u8]) -> usize {
    let mut hasher = SimHasher::new();
    let mut take = Hashed(&mut hasher);
    let mut reader = PageReader::new(Some("utf-8")).with_links(LinkTerms::all());
    page.chunks(RING_BUFFER_BYTES).for_each(|chunk| reader.push(chunk, &mut take));
    let page = reader.finish(&mut take);
    black_box(hasher.finish());
    counted(&page)
}

fn counted(page: &Page) -> usize {
    page.links().filter(|link| link.kind != LinkKind::Refresh).count()
}

fn lol(page: &[u8]) -> usize {
    let count = Cell::new(0);
    let take = |value: Option<String>| {
        count.set(count.get() + usize::from(black_box(value).is_some()));
    };
    let settings = Settings::new()
        .append_element_content_handler(element!("a[href], area[href], link[href]", |element| {
            take(element.get_attribute("href"));
            Ok(())
        }))
        .append_element_content_handler(element!("iframe[src], frame[src]", |element| {
            take(element.get_attribute("src"));
            Ok(())
        }))
        .with_strict(false);
    let mut rewriter = HtmlRewriter::new(settings, |_: &[u8]| {});
    // If lol_html gives a page up, the links it has found until then count.
    let is_read = page.chunks(RING_BUFFER_BYTES).all(|chunk| rewriter.write(chunk).is_ok());
    if is_read && rewriter.end().is_err() {
        return 0;
    }
    count.get()
}

fn gum(page: &[u8]) -> usize {
    let mut emitter = html5gum::DefaultEmitter::default();
    emitter.naively_switch_states(true);
    let mut count = 0;
    for Ok(token) in html5gum::Tokenizer::new_with_emitter(page, emitter) {
        if let html5gum::Token::StartTag(tag) = token {
            let wanted: &[u8] = match &*tag.name.0 {
                b"a" | b"area" | b"link" => b"href",
                b"iframe" | b"frame" => b"src",
                _ => continue,
            };
            let value = tag.attributes.iter().find(|(name, _)| *name.0 == *wanted);
            count += usize::from(black_box(value).is_some());
        }
    }
    count
}

/// Returns the page's mismatch, if it has one.
fn compare(name: &str, page: &[u8]) -> Option<Mismatch> {
    let (only_ours_count, only_lol_count) = differences(page);
    (only_ours_count + only_lol_count > 0).then(|| {
        // The changed name has the same length, and neither reader knows an element of that name.
        let plain = replace(&replace(page, b"<noscript"), b"</noscript");
        let is_noscript = differences(&plain) == (0, 0);
        Mismatch { page: name.to_owned(), only_ours_count, only_lol_count, is_noscript }
    })
}

/// Returns `page` with the last letter of each `tag` changed.
fn replace(page: &[u8], tag: &[u8]) -> Vec<u8> {
    let mut out = page.to_ascii_lowercase();
    let places: Vec<usize> = memchr::memmem::find_iter(&out, tag).collect();
    out.copy_from_slice(page);
    places.into_iter().for_each(|at| out[at + tag.len() - 1] = b'x');
    out
}

fn differences(page: &[u8]) -> (usize, usize) {
    let mut ours = PageReader::new(None).with_links(LinkTerms::all());
    ours.push(page, &mut NoText);
    let ours = ours.finish(&mut NoText);
    let mut lol = LolReader::new(None).with_links(LinkTerms::all());
    lol.push(page, &mut NoText);
    let lol = lol.finish(&mut NoText);
    (missing(&ours, &lol), missing(&lol, &ours))
}

/// Counts the links that `left` has and `right` has not, with multiplicity.
fn missing(left: &Page, right: &Page) -> usize {
    let mut counts = BTreeMap::<(LinkKind, &str), usize>::new();
    right.links().for_each(|link| *counts.entry((link.kind, link.href)).or_default() += 1);
    let mut missing_count = 0;
    for link in left.links() {
        match counts.get_mut(&(link.kind, link.href)) {
            Some(count) if *count > 0 => *count -= 1,
            _ => missing_count += 1,
        }
    }
    missing_count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(pages: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, page) in pages {
            std::fs::write(folder.path().join(name), page).expect("a page");
        }
        folder
    }

    #[test]
    fn engines_count_the_same_links_and_differences_are_named() {
        let plain = "<a href=/1>x</a><link href=2><iframe src=3></iframe><a name=no>";
        let folder = folder(&[
            ("a.html", plain),
            ("b.html", "<noscript><a href=/4></noscript><script>'<a href=/5>'</script>"),
            ("c.html", "<a href=/6>"),
        ]);
        let report = run(&Plan { folder: folder.path().to_owned(), round_count: 2 }).expect("runs");
        assert_eq!((report.page_count, report.byte_count > 100), (3, true));
        let counts: Vec<_> = report.engines.iter().map(|engine| engine.link_count).collect();
        // The two other engines do not look into noscript.
        assert_eq!(counts, [5, 4, 4, 5, 5]);
        assert!(report.engines.iter().all(|engine| engine.megabytes_per_second.len() == 2));
        assert!(report.engines.iter().all(|engine| engine.median() > 0.0));
        let wanted = Mismatch {
            page: "b.html".into(),
            only_ours_count: 1,
            only_lol_count: 0,
            is_noscript: true,
        };
        assert_eq!(report.mismatches, [wanted]);
        assert!(report.text().contains("b.html: 1 only ours, 0 only lol_html's, all in noscript"));
        assert!(serde_json::to_string(&report).is_ok_and(|json| json.contains("\"b.html\"")));
    }

    #[test]
    fn pages_are_made_where_there_is_no_folder() {
        let plan = Plan { folder: "no/such/folder".into(), round_count: 1 };
        let report = run(&plan).expect("runs");
        assert!(report.page_count > 0 && report.byte_count > report.page_count * 1_000);
        assert!(report.engines[0].link_count > report.page_count);
        assert_eq!(report.engines[0].link_count, report.engines[2].link_count);
        assert_eq!(report.mismatches, []);
    }

    #[test]
    fn an_empty_folder_is_an_error_and_not_a_figure() {
        let folder = folder(&[]);
        let plan = Plan { folder: folder.path().to_owned(), round_count: 1 };
        assert!(matches!(run(&plan), Err(BenchError::NoPages(_))));
    }
}

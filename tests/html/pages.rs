//! Real pages: our reader, lol_html's and html5ever's must find the same links.

use crate::referee::{self, Found};
use crate::{Cut, corpus_files};
use nephila::proto::html::{LinkTerms, LolReader, Page, PageReader};
use std::collections::BTreeMap;

fn found(page: &Page) -> Vec<Found> {
    let links = page.links().map(|link| Found {
        kind: link.kind,
        href: link.href.to_owned(),
        nofollow: link.nofollow(),
    });
    links.collect()
}

fn read(bytes: &[u8], cut: Cut) -> (Page, Vec<u8>) {
    let mut text = Vec::new();
    let mut keep = |piece: &[u8]| text.extend_from_slice(piece);
    let mut reader = PageReader::new(None).with_links(LinkTerms::all());
    cut.each(bytes, |chunk| reader.push(chunk, &mut keep));
    let page = reader.finish(&mut keep);
    (page, text)
}

fn read_lol(bytes: &[u8]) -> Page {
    let mut ignore = |_: &[u8]| {};
    let mut reader = LolReader::new(None).with_links(LinkTerms::all());
    reader.push(bytes, &mut ignore);
    reader.finish(&mut ignore)
}

/// Returns the items that `left` has and `right` lacks, counting repeated ones.
fn missing(left: &[Found], right: &[Found]) -> Vec<Found> {
    let mut counts: BTreeMap<&Found, usize> = BTreeMap::new();
    right.iter().for_each(|link| *counts.entry(link).or_default() += 1);
    let mut rest = Vec::new();
    for link in left {
        match counts.get_mut(link) {
            Some(count) if *count > 0 => *count -= 1,
            _ => rest.push(link.clone()),
        }
    }
    rest
}

#[test]
fn links_of_real_pages_agree_with_html5ever_and_where_lol_html_differs_html5ever_is_on_our_side() {
    let (mut page_count, mut link_count, mut agreed_count) = (0, 0, 0);
    let (mut lol_missing_count, mut lol_extra_count, mut title_count) = (0, 0, 0);
    for (file, bytes) in corpus_files("pages").0 {
        let (page, _) = read(&bytes, Cut::Whole);
        let ours = found(&page);
        let lol = read_lol(&bytes);
        let theirs = found(&lol);
        let encoding = encoding_rs::Encoding::for_label(page.charset.as_bytes())
            .expect("a charset has its own name as label");
        let (decoded, _, _) = encoding.decode(&bytes);
        let referees = referee::links(&decoded);
        assert_eq!(
            referees.len(),
            ours.len() + page.link_cut_count as usize,
            "{file}: kept and dropped links differ; only ours {:#?}, only the referee's {:#?}",
            missing(&ours, &referees),
            missing(&referees, &ours),
        );
        assert_eq!(ours, referees, "{file}: ours, and html5ever's");

        let (lost, extra) = (missing(&ours, &theirs), missing(&theirs, &ours));
        agreed_count += usize::from(lost.is_empty() && extra.is_empty());
        lol_missing_count += lost.len();
        lol_extra_count += extra.len();
        title_count += usize::from(page.title() == lol.title());
        page_count += 1;
        link_count += ours.len();
    }
    assert!(page_count >= 4 && link_count > 60, "{page_count} pages, {link_count} links");
    println!(
        "{page_count} pages, {link_count} links, the same as html5ever's; lol_html tells the \
         same on {agreed_count} pages, misses {lol_missing_count} links \
         and has {lol_extra_count} more; \
         {title_count} titles are the same"
    );
}

#[test]
fn a_page_reads_the_same_however_its_chunks_are_cut() {
    for (file, bytes) in corpus_files("pages").0 {
        let (whole, whole_text) = read(&bytes, Cut::Whole);
        for cut in &Cut::ALL[1..] {
            let (page, text) = read(&bytes, *cut);
            assert_eq!(found(&page), found(&whole), "{file} {cut:?}");
            assert!(page.links().eq(whole.links()), "{file} {cut:?}");
            assert_eq!(page.title(), whole.title(), "{file} {cut:?}");
            assert_eq!(page.charset, whole.charset, "{file} {cut:?}");
            assert_eq!(
                (page.base(), page.canonical(), page.language(), page.robots),
                (whole.base(), whole.canonical(), whole.language(), whole.robots),
                "{file} {cut:?}"
            );
            assert!(text == whole_text, "{file} {cut:?}: the visible text");
        }
    }
}

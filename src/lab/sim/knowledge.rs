//! What a crawl could know, by the servers' log: which URLs were asked for and how they were
//! answered, which URLs the received pages link to, and which URLs the crawler may have read in
//! parts of pages.
//!
//! It is made from the log and the web's graph alone. The log comes from servers with acknowledged
//! sends, so a whole answer is one that the crawler has read to its end.

use crate::lab::sim::memory::Asked;
use crate::lab::web::graph::{Kind, Place};
use crate::lab::web::log::{Entry, Fate};
use crate::lab::web::{Rules, Web};
use crate::proto::url::Url;
use hashbrown::{HashMap, HashSet};

/// How often one URL was asked for, and how it was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub request_count: u32,
    /// Answers of 200 that were read to the end.
    pub page_count: u32,
    /// Answers of 3xx that were read to the end.
    pub redirect_count: u32,
    /// Answers of 429 or 503.
    pub put_off_count: u32,
}

impl Tally {
    pub fn add(&mut self, asked: &Asked) {
        self.request_count += 1;
        self.page_count += u32::from(asked.is_page());
        let is_redirect = (300..400).contains(&asked.status) && asked.is_whole;
        self.redirect_count += u32::from(is_redirect);
        self.put_off_count += u32::from(matches!(asked.status, 429 | 503));
    }
}

pub(super) struct Knowledge {
    /// The requests for each URL, in the order of their times.
    pub asked: HashMap<Place, Vec<Asked>>,
    /// Seeds, links of whole pages and targets of whole redirects.
    pub learnt: HashSet<Place>,
    /// Those of them that a seed, or an answer of a healthy host, told of.
    pub told_by_healthy: HashSet<Place>,
    /// Links of pages that were cut, and pages in sitemaps: the crawler may have read them or not.
    pub perhaps: HashSet<Place>,
    /// Requests for anything but a page, a robots.txt, a redirect to one, or a sitemap.
    pub strange: Vec<Entry>,
    /// Requests at an address that DNS no longer gave for the name.
    pub misdirected: Vec<Entry>,
}

impl Knowledge {
    pub fn new(web: &Web, seeds: &[Url], log: &[Entry]) -> Knowledge {
        let mut knowledge = Knowledge {
            asked: HashMap::new(),
            learnt: HashSet::new(),
            told_by_healthy: HashSet::new(),
            perhaps: HashSet::new(),
            strange: Vec::new(),
            misdirected: Vec::new(),
        };
        for place in seeds.iter().filter_map(|seed| place_of(web, seed.as_str())) {
            knowledge.learnt.insert(place);
            knowledge.told_by_healthy.insert(place);
        }
        let mut told = Vec::new();
        for entry in log {
            knowledge.take(web, entry, &mut told);
        }
        knowledge.asked.values_mut().for_each(|asked| asked.sort_by_key(|asked| asked.at));
        knowledge
    }

    fn take(&mut self, web: &Web, entry: &Entry, told: &mut Vec<Place>) {
        if entry.status == 421 {
            return self.misdirected.push(entry.clone());
        }
        let name = entry.host.split(':').next().unwrap_or_default();
        let Some(host) = web.host_index(name) else { return self.strange.push(entry.clone()) };
        let Some(place) = web.locate(host, &entry.path) else {
            match entry.path.as_str() {
                "/robots.txt" => {}
                "/sitemap.xml" if entry.status == 200 => self.read_sitemap(web, host),
                "/sitemap.xml" => {}
                path if path.starts_with("/robots-of/") => {}
                _ => self.strange.push(entry.clone()),
            }
            return;
        };
        let is_whole = entry.fate == Fate::Whole;
        let &Entry { at, end, status, .. } = entry;
        self.asked.entry(place).or_default().push(Asked { at, end, status, is_whole });
        told.clear();
        match entry.status {
            200 => {
                web.graph().links(place, web.page_bytes(place), told);
            }
            300..400 if place.kind == Kind::Redirect => {
                told.push(web.graph().redirect_target(place));
            }
            _ => {}
        }
        if !is_whole {
            self.perhaps.extend(told.iter());
            return;
        }
        self.learnt.extend(told.iter());
        if web.is_healthy(host) {
            self.told_by_healthy.extend(told.iter());
        }
    }

    /// Notes the content pages that a sitemap names. No crawler has to read it, so nothing is
    /// learnt for sure.
    fn read_sitemap(&mut self, web: &Web, host: u32) {
        let pages = 0..web.graph().page_count(host);
        let places = pages.map_while(|page| web.graph().place(host, page));
        self.perhaps.extend(places.take_while(|place| place.kind == Kind::Content));
    }

    /// Reports whether the crawler could know a place, and so may ask for it.
    pub fn may_know(&self, place: &Place) -> bool {
        self.learnt.contains(place) || self.perhaps.contains(place)
    }

    pub fn asked(&self, place: &Place) -> &[Asked] {
        self.asked.get(place).map_or(&[], |asked| asked)
    }

    /// Counts all requests for a place, forgotten or not.
    pub fn tally(&self, place: &Place) -> Tally {
        let mut tally = Tally::default();
        self.asked(place).iter().for_each(|asked| tally.add(asked));
        tally
    }
}

/// Reports whether the usual rules of a host deny a URL of it.
pub(super) fn is_denied(web: &Web, place: &Place) -> bool {
    match web.graph().rules(place.host) {
        Rules::Closed => true,
        Rules::Private => place.kind == Kind::Denied,
        _ => false,
    }
}

/// Returns the place that a URL of this web means.
pub(super) fn place_of(web: &Web, url: &str) -> Option<Place> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))?;
    let (authority, path) = rest.split_at(rest.find('/')?);
    let host = web.host_index(authority.split(':').next()?)?;
    web.locate(host, path)
}

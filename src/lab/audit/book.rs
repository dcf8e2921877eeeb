//! The book of robots.txt: every one that was served, and what it meant, for which origin and when.
//!
//! An origin's robots.txt is asked for at `/robots.txt`. A redirect is followed through the hits of
//! the URL it leads to, on whatever authority, over at most five hops (RFC 9309 2.3.1.2).

use super::hit::{AuditError, Fate, Hit, Hits, Terms};
use super::origin;
use super::rules::Rules;
use super::stop::{Stop, is_forgotten};
use crate::base::limits::{
    AUDIT_FETCH_MS_MAX, AUDIT_RELAX_MS, AUDIT_ROBOTS_HOP_COUNT_MAX, AUDIT_RULES_AGE_MS_MAX,
};
use hashbrown::{HashMap, HashSet};
use std::rc::Rc;

const ROBOTS_PATH: &str = "/robots.txt";
const MS: u64 = 1_000_000;

#[derive(Debug, Default)]
pub(super) struct Book {
    product_token: String,
    stops: Vec<Stop>,
    /// Fetches by the URL that was asked for, in the order of their times.
    fetches: HashMap<u64, Vec<Fetch>>,
    /// Parsed rules by the digest of their text, because many hosts have the same.
    rules: HashMap<u128, Rc<Rules>>,
    /// The URLs that a robots.txt was redirected to.
    targets: HashMap<u64, Target>,
    /// How many 2xx answers have no body in any log, so that nobody knows what they forbid.
    pub bodiless_count: u64,
    /// How many hits there are of all kinds, so that the second pass need not guess its memory.
    pub hit_count: usize,
}

#[derive(Debug)]
struct Fetch {
    start: u64,
    sent: u64,
    end: u64,
    fate: Fate,
    status: u16,
    /// The URL that a redirect leads to.
    target: Option<u64>,
    rules: Option<Rc<Rules>>,
}

#[derive(Debug, Default)]
struct Target {
    is_robots_path: bool,
    redirected_at: Vec<u64>,
}

/// What the robots.txt of an origin says about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    Allowed,
    /// No robots.txt of the origin was known yet.
    Unknown,
    Denied,
    Unreachable,
    /// The rules in force were older than a day.
    Stale,
}

/// What one fetch of a robots.txt meant, and from when on it was known.
struct Meaning<'a> {
    known_at: u64,
    /// False if the client may not have got the answer, or may have forgotten it.
    is_sure: bool,
    what: What<'a>,
}

#[derive(Clone, Copy)]
enum What<'a> {
    Rules(&'a Rules),
    /// 4xx: there are no rules (RFC 9309 2.3.1.3). Rules that no log has count as this too.
    Open,
    /// 5xx, 429, no answer, or redirects that lead to no robots.txt.
    Unreachable,
}

impl Book {
    pub fn collect(hits: &impl Hits, terms: &Terms) -> Result<Book, AuditError> {
        let mut wanted: HashSet<u64> = HashSet::new();
        let mut hop_count = 0;
        loop {
            let (product_token, stops) = (terms.product_token.clone(), terms.stops.clone());
            let mut book = Book { product_token, stops, ..Book::default() };
            hits.each(&mut |hit| book.take(hit, &wanted))?;
            for fetches in book.fetches.values_mut() {
                fetches.sort_by_key(|fetch| fetch.sent);
            }
            let elsewhere = book.targets.iter().filter(|(_, target)| !target.is_robots_path);
            let known_count = wanted.len();
            wanted.extend(elsewhere.map(|(key, _)| *key));
            if wanted.len() == known_count || hop_count == AUDIT_ROBOTS_HOP_COUNT_MAX {
                return Ok(book);
            }
            hop_count += 1;
        }
    }

    pub fn is_robots_path(path: &str) -> bool {
        path == ROBOTS_PATH
    }

    /// Returns the key of an origin's robots.txt.
    pub fn key(origin: &str) -> u64 {
        origin::url_key(origin, ROBOTS_PATH, &mut String::new())
    }

    /// Reports whether a request follows a redirect of a robots.txt, within the day that the answer
    /// would be valid. Such a request is part of asking for robots.txt and needs no permission
    /// itself.
    pub fn is_errand(&self, url: u64, start: u64) -> bool {
        self.targets.get(&url).is_some_and(|target| {
            let is_recent = |at: &u64| *at <= start && start - at <= AUDIT_RULES_AGE_MS_MAX * MS;
            target.redirected_at.iter().any(is_recent)
        })
    }

    /// Returns what the robots.txt of an origin, named by its [`Book::key`], says about a request
    /// at `start`. Where the client may not have got the latest answer, the answers before it count
    /// as well.
    pub fn leave(&self, key: u64, start: u64, url: &str) -> Leave {
        let mut leave = Leave::Unknown;
        for (index, meaning) in self.meanings(key, start) {
            let is_stale =
                start - meaning.known_at > (AUDIT_RULES_AGE_MS_MAX + AUDIT_FETCH_MS_MAX) * MS;
            let found = match meaning.what {
                What::Unreachable if self.is_relaxed(key, index, start) => Leave::Allowed,
                What::Unreachable => Leave::Unreachable,
                _ if is_stale => Leave::Stale,
                What::Rules(rules) if !rules.allow(&self.product_token, url) => Leave::Denied,
                What::Rules(_) | What::Open => Leave::Allowed,
            };
            if found == Leave::Allowed {
                return found;
            }
            if leave == Leave::Unknown {
                leave = found;
            }
            if meaning.is_sure {
                break;
            }
        }
        leave
    }

    /// Returns the Crawl-delay that the origin had asked for by `start`: the smallest of those that
    /// the client may take for the valid one.
    pub fn crawl_delay_ms(&self, key: u64, start: u64) -> u64 {
        let mut least_ms = None;
        for (_, meaning) in self.meanings(key, start) {
            let is_fresh = start - meaning.known_at <= AUDIT_RULES_AGE_MS_MAX * MS;
            let delay_ms = match meaning.what {
                What::Rules(rules) if is_fresh => rules.crawl_delay_ms,
                _ => 0,
            };
            least_ms = Some(least_ms.map_or(delay_ms, |least: u64| least.min(delay_ms)));
            if meaning.is_sure {
                return least_ms.unwrap_or(0);
            }
        }
        // Even the first answer may not have arrived, so no delay is known to bind.
        0
    }

    fn take(&mut self, hit: &Hit<'_>, wanted: &HashSet<u64>) {
        self.hit_count += 1;
        let is_robots_path = Book::is_robots_path(hit.path);
        if !is_robots_path && wanted.is_empty() {
            return;
        }
        let mut scratch = String::new();
        let origin = origin::origin(hit.is_https, hit.authority);
        let key = origin::url_key(&origin, hit.path, &mut scratch);
        if !is_robots_path && !wanted.contains(&key) {
            return;
        }
        let mut target = None;
        if (300..400).contains(&hit.status)
            && let Some(to) = hit.location.and_then(|location| origin::join(&scratch, location))
            && let Some((origin, path)) = origin::split_url(&to)
        {
            let to = origin::url_key(&origin, path, &mut scratch);
            let known = self.targets.entry(to).or_default();
            known.is_robots_path = Book::is_robots_path(path);
            known.redirected_at.push(hit.sent.0);
            target = Some(to);
        }
        let rules = hit.body.map(|body| {
            let read = || Rc::new(Rules::read(body, &self.product_token));
            self.rules.entry(origin::long_digest(body)).or_insert_with(read).clone()
        });
        let is_served = hit.fate != Fate::Unsent && (200..300).contains(&hit.status);
        self.bodiless_count += u64::from(is_served && rules.is_none());
        let [start, sent, end] = [hit.start, hit.sent, hit.end].map(|time| time.0);
        let fetch = Fetch { start, sent, end, fate: hit.fate, status: hit.status, target, rules };
        self.fetches.entry(key).or_default().push(fetch);
    }

    /// Returns the meanings of the fetches that were known by `start`, the latest first.
    fn meanings(&self, key: u64, start: u64) -> impl Iterator<Item = (usize, Meaning<'_>)> {
        let fetches = self.fetches.get(&key).map_or(&[][..], |fetches| &fetches[..]);
        let begun_count = fetches.partition_point(|fetch| fetch.sent <= start);
        let meanings = (0..begun_count).rev().map(move |index| {
            let meaning = self.meaning(fetches, index, start, 0)?;
            (meaning.known_at <= start).then_some((index, meaning))
        });
        meanings.flatten()
    }

    /// Returns what a fetch meant, or `None` while its redirect has no answer yet.
    fn meaning<'a>(
        &'a self,
        fetches: &'a [Fetch],
        index: usize,
        start: u64,
        hop_count: usize,
    ) -> Option<Meaning<'a>> {
        let fetch = &fetches[index];
        let is_kept = !is_forgotten(&self.stops, [fetch.start, fetch.end], start);
        let is_sure = is_kept && fetch.fate.is_whole();
        let unreachable =
            Meaning { known_at: fetch.sent, is_sure: is_kept, what: What::Unreachable };
        let what = match (fetch.status, &fetch.rules) {
            _ if fetch.fate == Fate::Unsent => return Some(unreachable),
            (200..300, Some(rules)) => What::Rules(rules),
            (200..300, None) => What::Open,
            // Not modified: the rules that were served before are valid again.
            (304, _) => fetches[..index]
                .iter()
                .rev()
                .find_map(|before| before.rules.as_deref())
                .map_or(What::Unreachable, What::Rules),
            (300..400, _) if hop_count < AUDIT_ROBOTS_HOP_COUNT_MAX => {
                let Some(target) = fetch.target else { return Some(unreachable) };
                let there = self.fetches.get(&target)?;
                let answer = answer_to(there, fetch, start)?;
                let meaning = self.meaning(there, answer, start, hop_count + 1)?;
                let known_at = meaning.known_at.max(fetch.sent);
                return Some(Meaning { known_at, is_sure: meaning.is_sure && is_sure, ..meaning });
            }
            (429, _) => return Some(unreachable),
            (400..500, _) => What::Open,
            _ => return Some(unreachable),
        };
        Some(Meaning { known_at: fetch.sent, is_sure, what })
    }

    /// RFC 9309 2.3.1.4: reports whether the robots.txt has been unreachable for 30 days. After
    /// that a crawler may assume that there is none.
    fn is_relaxed(&self, key: u64, index: usize, start: u64) -> bool {
        let Some(fetches) = self.fetches.get(&key) else { return false };
        let is_unreachable = |index: &usize| {
            let meaning = self.meaning(fetches, *index, start, 0);
            meaning.is_some_and(|meaning| matches!(meaning.what, What::Unreachable))
        };
        let first = (0..=index).rev().take_while(is_unreachable).last().unwrap_or(index);
        start - fetches[first].sent >= AUDIT_RELAX_MS * MS
    }
}

/// Selects the fetch at a redirect's target that answers the redirect: the first that ended after
/// the redirect was served; or, if the crawler had fetched the target already, the last one before,
/// unless it is more than a day older.
fn answer_to(there: &[Fetch], redirect: &Fetch, start: u64) -> Option<usize> {
    let begun_count = there.partition_point(|fetch| fetch.sent <= start);
    let after = there[..begun_count].iter().position(|fetch| fetch.end >= redirect.sent);
    after.or_else(|| {
        let last = begun_count.checked_sub(1)?;
        (redirect.sent - there[last].sent <= AUDIT_RULES_AGE_MS_MAX * MS).then_some(last)
    })
}

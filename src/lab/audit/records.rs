//! The second pass over the hits: every hit is checked against robots.txt and becomes a record of
//! fixed size.

use super::book::{Book, Leave};
use super::date::{RetryAfter, retry_after};
use super::hit::{AuditError, Fate, Hit, Hits, Terms};
use super::machine::Machine;
use super::origin;
use super::stop::is_unwitnessed;
use super::verdict::{Findings, Kind};
use std::collections::HashMap;

/// One request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub start: u64,
    pub end: u64,
    pub place: u64,
    pub url: u64,
    pub host: u32,
    pub origin: u32,
    pub address: u32,
    /// The Crawl-delay in force, limited to the configured maximum.
    pub crawl_delay_ms: u32,
    pub status: u16,
    pub is_whole: bool,
    /// Whether a request left the client, or may have.
    pub is_asked: bool,
    /// Whether it asks for a robots.txt, or for the target of a robots.txt's redirect.
    pub is_robots: bool,
    /// Whether it asks for a sitemap. The truth does not list sitemaps.
    pub is_sitemap: bool,
}

const _: () = assert!(size_of::<Record>() <= 64, "the doc of the audit module promises 64 bytes");

#[derive(Debug, Default)]
pub(super) struct Records {
    pub all: Vec<Record>,
    pub hosts: Vec<Box<str>>,
    /// Addresses, and networks that count as one address.
    pub addresses: Vec<Machine>,
    /// Until when a Retry-After forbids requests, by the place of its answer.
    pub retry_until: HashMap<u64, u64>,
    /// Dates in Retry-After that could not be judged, because the wall clock is unknown.
    pub undated_count: u64,
    /// Pages that could not be judged, because a stop took the lines that may have shown the
    /// request for their robots.txt.
    pub unwitnessed_count: u64,
    origins: Vec<Origin>,
    origin_ids: HashMap<Box<str>, u32>,
    /// The same by scheme and authority as they are in the log, so that no hit is normalised twice.
    authority_ids: [HashMap<Box<str>, u32>; 2],
    host_ids: HashMap<Box<str>, u32>,
    address_ids: HashMap<Machine, u32>,
}

#[derive(Debug)]
struct Origin {
    text: Box<str>,
    host: u32,
    robots_key: u64,
}

impl Records {
    pub fn collect(
        hits: &impl Hits,
        terms: &Terms,
        book: &Book,
        findings: &mut Findings,
    ) -> Result<Records, AuditError> {
        let mut records = Records::default();
        records.all.reserve_exact(book.hit_count);
        let mut scratch = String::new();
        let mut is_full = false;
        hits.each(&mut |hit| {
            let added = records.add(hit, terms, book, findings, &mut scratch);
            is_full |= added.is_none();
        })?;
        if is_full { Err(AuditError::TooMany) } else { Ok(records) }
    }

    fn add(
        &mut self,
        hit: &Hit<'_>,
        terms: &Terms,
        book: &Book,
        findings: &mut Findings,
        scratch: &mut String,
    ) -> Option<()> {
        let origin = self.origin(hit)?;
        let Origin { text, host, robots_key } = &self.origins[origin as usize];
        let (host, robots_key) = (*host, *robots_key);
        let url = origin::url_key(text, hit.path, scratch);
        let start = hit.start.0;
        let is_robots = Book::is_robots_path(hit.path) || book.is_errand(url, start);
        if !is_robots {
            let kind = match book.leave(robots_key, start, scratch) {
                Leave::Allowed => None,
                Leave::Unknown if is_unwitnessed(&terms.stops, start) => {
                    self.unwitnessed_count += 1;
                    None
                }
                Leave::Unknown => Some(Kind::BeforeRobots),
                Leave::Denied => Some(Kind::AgainstRules),
                Leave::Unreachable => Some(Kind::RobotsUnreachable),
                Leave::Stale => Some(Kind::StaleRules),
            };
            if let Some(kind) = kind {
                let places = [None, Some(hit.place)];
                findings.add(kind, Some(host), None, places, || scratch.clone());
            }
        }
        let crawl_delay_ms = book.crawl_delay_ms(robots_key, start).min(terms.crawl_delay_ms_max);
        self.note_retry_after(hit, terms);
        let address = self.address(Machine::at(hit.address, terms.ipv6_pace_prefix))?;
        self.all.push(Record {
            start,
            end: hit.end.0,
            place: hit.place,
            url,
            host,
            origin,
            address,
            crawl_delay_ms: u32::try_from(crawl_delay_ms).unwrap_or(u32::MAX),
            status: hit.status,
            is_whole: hit.fate.is_whole(),
            is_asked: hit.fate != Fate::Unasked,
            is_robots,
            is_sitemap: hit.path.starts_with("/sitemap"),
        });
        Some(())
    }

    /// Notes a Retry-After. RFC 6585 4 and RFC 9110 15.6.4: 429 and 503 say when to come back.
    fn note_retry_after(&mut self, hit: &Hit<'_>, terms: &Terms) {
        if !matches!(hit.status, 429 | 503) || !hit.fate.is_whole() {
            return;
        }
        let Some(asked) = hit.retry_after.and_then(retry_after) else { return };
        let longest_ns = terms.retry_after_ms_max.saturating_mul(1_000_000);
        let wait_ns = match asked {
            RetryAfter::Seconds(seconds) => seconds.saturating_mul(1_000_000_000),
            RetryAfter::At(seconds) => {
                let Some(ahead_ns) = hit.wall_ahead_ns else {
                    self.undated_count += 1;
                    return;
                };
                let wait_ns =
                    i128::from(seconds) * 1_000_000_000 - ahead_ns - i128::from(hit.sent.0);
                u64::try_from(wait_ns.max(0)).unwrap_or(u64::MAX)
            }
        };
        let until = hit.sent.0.saturating_add(wait_ns.min(longest_ns));
        self.retry_until.insert(hit.place, until);
    }

    fn origin(&mut self, hit: &Hit<'_>) -> Option<u32> {
        let scheme = usize::from(hit.is_https);
        if let Some(id) = self.authority_ids[scheme].get(hit.authority) {
            return Some(*id);
        }
        let text: Box<str> = origin::origin(hit.is_https, hit.authority).into();
        let next = u32::try_from(self.origins.len()).ok()?;
        let id = *self.origin_ids.entry(text.clone()).or_insert(next);
        if id == next {
            let host = self.host(origin::host(hit.authority).into())?;
            let robots_key = Book::key(&text);
            self.origins.push(Origin { text, host, robots_key });
        }
        self.authority_ids[scheme].insert(hit.authority.into(), id);
        Some(id)
    }

    fn host(&mut self, name: Box<str>) -> Option<u32> {
        let next = u32::try_from(self.hosts.len()).ok()?;
        let id = *self.host_ids.entry(name.clone()).or_insert(next);
        if id == next {
            self.hosts.push(name);
        }
        Some(id)
    }

    fn address(&mut self, address: Machine) -> Option<u32> {
        let next = u32::try_from(self.addresses.len()).ok()?;
        let id = *self.address_ids.entry(address).or_insert(next);
        if id == next {
            self.addresses.push(address);
        }
        Some(id)
    }
}

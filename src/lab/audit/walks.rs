//! The walks over all records: host by host, address by address, URL by URL, each in the order of
//! time. A walk sorts the records in its own order and holds the state of one group only.

use super::hit::Terms;
use super::records::{Record, Records};
use super::stop::{Stop, excuse, is_forgotten};
use super::truth::{Expect, Expectation};
use super::verdict::{Findings, Kind, Peak, ms};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const MS: u64 = 1_000_000;

/// Judges gaps, concurrency, Crawl-delay and Retry-After of each host.
pub(super) fn by_host(records: &mut Records, terms: &Terms, findings: &mut Findings) {
    records.all.sort_unstable_by_key(|record| (record.host, record.start, record.place));
    let records = &*records;
    for group in records.all.chunk_by(|a, b| a.host == b.host) {
        let pace = pace(
            group,
            |kind, [before, after], note| {
                let kind = if kind == Breach::Gap { Kind::HostGap } else { Kind::HostOverlap };
                let places = [Some(before.place), Some(after.place)];
                findings.add(kind, Some(after.host), None, places, note);
            },
            terms,
        );
        keep_least(&mut findings.host_gap, pace.gap, group[0].host);
        keep_greatest(&mut findings.host_concurrency, pace.concurrency, group[0].host);
        crawl_delays(group, findings);
        retry_afters(group, records, terms, findings);
    }
}

/// Judges gaps and concurrency of each address.
pub(super) fn by_address(records: &mut Records, terms: &Terms, findings: &mut Findings) {
    records.all.sort_unstable_by_key(|record| (record.address, record.start, record.place));
    for group in records.all.chunk_by(|a, b| a.address == b.address) {
        let pace = pace(
            group,
            |kind, [before, after], note| {
                let kind =
                    if kind == Breach::Gap { Kind::AddressGap } else { Kind::AddressOverlap };
                let places = [Some(before.place), Some(after.place)];
                findings.add(kind, Some(after.host), Some(after.address), places, note);
            },
            terms,
        );
        keep_least(&mut findings.address_gap, pace.gap, group[0].address);
        keep_greatest(&mut findings.address_concurrency, pace.concurrency, group[0].address);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Breach {
    Gap,
    Overlap,
}

/// The smallest gap and the greatest concurrency of one host or address, each with the places of
/// its requests.
#[derive(Default)]
struct Pace {
    gap: Option<(u64, [u64; 2])>,
    concurrency: Option<(u64, [u64; 2])>,
}

/// Calls `tell` for each pair of requests that are too close or overlap, and returns the extremes.
///
/// If an answer did not arrive whole, nobody knows when it had ended for its client: only the start
/// of such a request counts.
fn pace(
    group: &[Record],
    mut tell: impl FnMut(Breach, [&Record; 2], &dyn Fn() -> String),
    terms: &Terms,
) -> Pace {
    let mut pace = Pace::default();
    let mut open_ends: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
    let mut last_to_end = &group[0];
    let mut before: Option<&Record> = None;
    for record in group {
        while open_ends.peek().is_some_and(|Reverse(end)| *end <= record.start) {
            open_ends.pop();
        }
        if !open_ends.is_empty() {
            let span =
                || format!("begun {} before the other's end", ms(last_to_end.end - record.start));
            tell(Breach::Overlap, [last_to_end, record], &span);
        }
        let at_once = open_ends.len() as u64 + 1;
        if pace.concurrency.is_none_or(|(most, _)| at_once > most) {
            pace.concurrency = Some((at_once, [last_to_end.place, record.place]));
        }
        if record.is_whole {
            open_ends.push(Reverse(record.end));
            if !last_to_end.is_whole || record.end >= last_to_end.end {
                last_to_end = record;
            }
        }
        let Some(before) = before.replace(record) else { continue };
        let gap = record.start - before.start;
        if pace.gap.is_none_or(|(least, _)| gap < least) {
            pace.gap = Some((gap, [before.place, record.place]));
        }
        if gap < terms.delay_ms * MS {
            tell(Breach::Gap, [before, record], &|| short(gap, terms.delay_ms));
        }
    }
    pace
}

/// Judges Crawl-delays. A Crawl-delay is set by an origin, and counts between requests to that
/// origin.
///
/// If a robots.txt is asked for right after a robots.txt, the first one did not arrive, or was a
/// redirect and so brought no rules. Such a request must keep only the configured delay.
fn crawl_delays(group: &[Record], findings: &mut Findings) {
    // A linear search is enough, because a host has few origins.
    let mut last: Vec<Record> = Vec::new();
    for record in group {
        let Some(before) = last.iter_mut().find(|before| before.origin == record.origin) else {
            last.push(*record);
            continue;
        };
        let gap = record.start - before.start;
        let is_robots_again = record.is_robots && before.is_robots;
        if !is_robots_again && gap < u64::from(record.crawl_delay_ms) * MS {
            let places = [Some(before.place), Some(record.place)];
            let note = || short(gap, record.crawl_delay_ms.into());
            findings.add(Kind::CrawlDelay, Some(record.host), None, places, note);
        }
        *before = *record;
    }
}

fn retry_afters(group: &[Record], records: &Records, terms: &Terms, findings: &mut Findings) {
    // The Retry-Afters that still bind: one, unless a stop allows one to be forgotten.
    let mut asked: Vec<(u64, Record)> = Vec::new();
    for record in group {
        asked.retain(|(until, _)| record.start < *until);
        let binding = asked
            .iter()
            .filter(|(_, by)| !is_forgotten(&terms.stops, [by.start, by.end], record.start))
            .max_by_key(|(until, _)| *until);
        if let Some((until, by)) = binding {
            let places = [Some(by.place), Some(record.place)];
            let note = || format!("{} too early", ms(until - record.start));
            findings.add(Kind::InsideRetryAfter, Some(record.host), None, places, note);
        }
        if let Some(until) = records.retry_until.get(&record.place) {
            asked.push((*until, *record));
        }
    }
}

/// Judges whether URLs were asked for too often, and compares the truth with what was fetched.
pub(super) fn by_url(
    records: &mut Records,
    terms: &Terms,
    truth: Option<Vec<Expectation>>,
    findings: &mut Findings,
) {
    records.all.sort_unstable_by_key(|record| (record.url, record.start, record.place));
    for group in records.all.chunk_by(|a, b| a.url == b.url) {
        repeats(group, terms, findings);
    }
    let Some(truth) = truth else { return };
    let mut scratch = String::new();
    let mut keyed: Vec<(u64, Expectation)> =
        truth.into_iter().map(|expected| (expected.key(&mut scratch), expected)).collect();
    keyed.sort_unstable_by_key(|(key, _)| *key);
    let mut groups = records.all.chunk_by(|a, b| a.url == b.url).peekable();
    for (key, expected) in &keyed {
        while let Some(group) = groups.next_if(|group| group[0].url < *key) {
            unknown(group, findings);
        }
        let group = groups.next_if(|group| group[0].url == *key).unwrap_or_default();
        compare(group, expected, findings);
    }
    groups.for_each(|group| unknown(group, findings));
}

/// Reports whether an answer is final: it arrived whole, and asking again would not change it.
fn is_final(record: &Record) -> bool {
    record.is_whole
        && match record.status {
            200..400 => true,
            // RFC 9110 15.5.9, RFC 8470 5.2, RFC 6585 4: a later request may succeed.
            408 | 425 | 429 => false,
            status => (400..500).contains(&status),
        }
}

fn repeats(group: &[Record], terms: &Terms, findings: &mut Findings) {
    // The requests so far that the crawler must remember.
    let mut kept: Vec<&Record> = Vec::new();
    let mut settled: Option<&Record> = None;
    let mut last_start = 0;
    for record in group.iter().filter(|record| record.is_asked && !record.is_robots) {
        let is_parted = |stop: &Stop| last_start < stop.back.0 && stop.back.0 <= record.start;
        if terms.stops.iter().any(is_parted) {
            let mut excused_by = None;
            kept.retain(|before| {
                let excuse = excuse(&terms.stops, [before.start, before.end], record.start);
                excused_by = excused_by.max(excuse);
                excuse.is_none()
            });
            settled = kept.iter().rev().copied().find(|before| is_final(before));
            if let Some(stop) = excused_by {
                findings.repeat(stop, record.place, terms);
            }
        }
        let host = Some(record.host);
        if let Some(before) = settled {
            let both = (200..300).contains(&before.status) && (200..300).contains(&record.status);
            let kind = if both { Kind::FetchedTwice } else { Kind::AskedAgain };
            let places = [Some(before.place), Some(record.place)];
            findings.add(kind, host, None, places, String::new);
        }
        if terms.try_count_max.is_some_and(|most| kept.len() >= most as usize) {
            let note = || format!("asked for more than {} times", kept.len());
            findings.add(Kind::AskedTooOften, host, None, [None, Some(record.place)], note);
        }
        settled = if is_final(record) { Some(record) } else { settled };
        kept.push(record);
        last_start = record.start;
    }
}

fn compare(group: &[Record], expected: &Expectation, findings: &mut Findings) {
    let mut requests = group.iter().filter(|record| !record.is_robots);
    match expected.expect {
        Expect::Fetched => {
            if !requests.any(|record| record.is_whole && (200..300).contains(&record.status)) {
                findings.add(Kind::Missed, None, None, [None; 2], || expected.url.to_string());
            }
        }
        Expect::Redirected | Expect::ClientError | Expect::ServerError => {
            if requests.next().is_none() {
                findings.add(Kind::Missed, None, None, [None; 2], || expected.url.to_string());
            }
        }
        Expect::Denied | Expect::RobotsUnreachable => {
            if let Some(record) = requests.next() {
                let places = [None, Some(record.place)];
                let note = || expected.url.to_string();
                findings.add(Kind::DeniedAsked, Some(record.host), None, places, note);
            }
        }
    }
}

fn unknown(group: &[Record], findings: &mut Findings) {
    if let Some(record) = group.iter().find(|record| !record.is_robots && !record.is_sitemap) {
        let places = [None, Some(record.place)];
        findings.add(Kind::UnknownAsked, Some(record.host), None, places, String::new);
    }
}

fn short(gap_ns: u64, delay_ms: u64) -> String {
    format!("{} apart instead of {delay_ms} ms", ms(gap_ns))
}

fn keep_least(known: &mut Option<Peak>, found: Option<(u64, [u64; 2])>, of: u32) {
    let Some((value, places)) = found else { return };
    if known.is_none_or(|known| value < known.value) {
        *known = Some(Peak { value, of, places });
    }
}

fn keep_greatest(known: &mut Option<Peak>, found: Option<(u64, [u64; 2])>, of: u32) {
    let Some((value, places)) = found else { return };
    if known.is_none_or(|known| value > known.value) {
        *known = Some(Peak { value, of, places });
    }
}

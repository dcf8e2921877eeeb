//! The verdict: all violations, counted by kind, with a few examples of each.

use super::book::Book;
use super::hit::{Hits, Terms};
use super::records::Records;
use super::stop::Stop;
use crate::base::escape_cut;
use crate::base::limits::{
    AUDIT_EXAMPLE_COUNT_MAX, AUDIT_LINE_CHARS_SHOWN, AUDIT_NAME_CHARS_SHOWN,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// A rule that a request broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Two requests to one host closer than the configured delay.
    HostGap,
    /// Two requests to one address closer than the configured delay.
    AddressGap,
    /// Two requests to one origin closer than the Crawl-delay it had served.
    CrawlDelay,
    /// Two requests to one host under way at once.
    HostOverlap,
    /// Two requests to one address under way at once.
    AddressOverlap,
    /// A page asked for before the origin's robots.txt was known.
    BeforeRobots,
    AgainstRules,
    /// A page asked for while robots.txt was unreachable (RFC 9309 2.3.1.4).
    RobotsUnreachable,
    /// A page asked for on rules older than 24 hours (RFC 9309 2.4).
    StaleRules,
    /// A request to a host before its Retry-After had passed.
    InsideRetryAfter,
    /// A URL fetched although it had been fetched before.
    FetchedTwice,
    /// A URL asked for again after a redirect or an error that is final.
    AskedAgain,
    /// A URL asked for more often than retries allow.
    AskedTooOften,
    /// A URL asked for again after a stop, where more URLs were than can have been under way.
    RepeatedTooMany,
    /// A reachable URL that was never fetched.
    Missed,
    /// A URL asked for although robots.txt denies it.
    DeniedAsked,
    /// A URL asked for although nothing links to it.
    UnknownAsked,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    pub kind: Kind,
    pub host: Option<String>,
    pub address: Option<String>,
    /// By how much the rule was broken, or what was asked for.
    pub note: String,
    /// The line of the request, and before it that of the request that it came too close to.
    pub lines: Vec<String>,
}

/// The smallest gap, or the greatest concurrency, and the host or address that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Extreme {
    pub value: u64,
    pub of: String,
    pub lines: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    pub pass: bool,
    pub request_count: u64,
    pub host_count: usize,
    pub address_count: usize,
    pub host_gap_ns_min: Option<Extreme>,
    pub address_gap_ns_min: Option<Extreme>,
    pub host_concurrency_max: Option<Extreme>,
    pub address_concurrency_max: Option<Extreme>,
    pub violation_counts: BTreeMap<Kind, u64>,
    /// At most [`AUDIT_EXAMPLE_COUNT_MAX`] of each kind.
    pub examples: Vec<Violation>,
    /// 2xx answers for robots.txt whose rules no log has. They are not judged.
    pub bodiless_robots_count: u64,
    /// Dates in Retry-After where the wall clock is unknown. They are not judged.
    pub undated_retry_count: u64,
    /// Pages whose robots.txt may have been asked for in lines that a stop took. They are not
    /// judged.
    pub unwitnessed_page_count: u64,
    /// For each stop, how many repeated requests for URLs it excuses.
    pub repeat_counts: Vec<u64>,
    /// For each stop that took the last lines of a log with it, how many milliseconds before the
    /// next start the log ends. What was asked for in that time is in no log and is not judged.
    pub unlogged_ms: Vec<u64>,
}

impl Verdict {
    pub fn count(&self, kind: Kind) -> u64 {
        self.violation_counts.get(&kind).copied().unwrap_or(0)
    }

    pub fn violation_count(&self) -> u64 {
        self.violation_counts.values().sum()
    }
}

/// What the walks find, by number and place. Names and lines are looked up at the end.
#[derive(Debug, Default)]
pub(super) struct Findings {
    counts: BTreeMap<Kind, u64>,
    examples: BTreeMap<Kind, Vec<Example>>,
    pub host_gap: Option<Peak>,
    pub address_gap: Option<Peak>,
    pub host_concurrency: Option<Peak>,
    pub address_concurrency: Option<Peak>,
    repeat_counts: Vec<u64>,
}

#[derive(Debug)]
struct Example {
    host: Option<u32>,
    address: Option<u32>,
    places: [Option<u64>; 2],
    note: String,
}

/// An extreme value, the host or address that it belongs to, and the places of the lines that show
/// it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peak {
    pub value: u64,
    pub of: u32,
    pub places: [u64; 2],
}

impl Findings {
    /// Adds a violation. `places` are those of the earlier of two requests, and of the one that
    /// broke the rule.
    pub fn add(
        &mut self,
        kind: Kind,
        host: Option<u32>,
        address: Option<u32>,
        places: [Option<u64>; 2],
        note: impl FnOnce() -> String,
    ) {
        *self.counts.entry(kind).or_default() += 1;
        let examples = self.examples.entry(kind).or_default();
        if examples.len() < AUDIT_EXAMPLE_COUNT_MAX {
            examples.push(Example { host, address, places, note: note() });
        }
    }

    /// Counts a request that `stop` excuses, and adds a violation if the stop has excused too many.
    pub fn repeat(&mut self, stop: usize, place: u64, terms: &Terms) {
        self.repeat_counts.resize(terms.stops.len(), 0);
        self.repeat_counts[stop] += 1;
        let count = self.repeat_counts[stop];
        if terms.repeat_count_max.is_some_and(|most| count > most) {
            let note = || format!("{count} after stop {}", stop + 1);
            self.add(Kind::RepeatedTooMany, None, None, [None, Some(place)], note);
        }
    }

    pub fn conclude(
        self,
        hits: &impl Hits,
        terms: &Terms,
        records: &Records,
        book: &Book,
    ) -> Verdict {
        let host = |id: u32| records.hosts[id as usize].to_string();
        let address = |id: u32| records.addresses[id as usize].to_string();
        let extreme = |peak: Option<Peak>, name: &dyn Fn(u32) -> String| {
            peak.map(|peak| Extreme {
                value: peak.value,
                of: name(peak.of),
                lines: peak.places.map(|place| hits.line(place)).to_vec(),
            })
        };
        let violation = |kind: Kind, example: Example| Violation {
            kind,
            host: example.host.map(host),
            address: example.address.map(address),
            note: example.note,
            lines: example.places.into_iter().flatten().map(|place| hits.line(place)).collect(),
        };
        Verdict {
            pass: self.counts.is_empty(),
            request_count: records.all.len() as u64,
            host_count: records.hosts.len(),
            address_count: records.addresses.len(),
            host_gap_ns_min: extreme(self.host_gap, &host),
            address_gap_ns_min: extreme(self.address_gap, &address),
            host_concurrency_max: extreme(self.host_concurrency, &host),
            address_concurrency_max: extreme(self.address_concurrency, &address),
            violation_counts: self.counts,
            examples: self
                .examples
                .into_iter()
                .flat_map(|(kind, examples)| examples.into_iter().map(move |e| (kind, e)))
                .map(|(kind, example)| violation(kind, example))
                .collect(),
            bodiless_robots_count: book.bodiless_count,
            undated_retry_count: records.undated_count,
            unwitnessed_page_count: records.unwitnessed_count,
            repeat_counts: self.repeat_counts,
            unlogged_ms: unlogged_ms(&terms.stops),
        }
    }
}

fn unlogged_ms(stops: &[Stop]) -> Vec<u64> {
    let cut = stops.iter().filter(|stop| stop.is_log_cut);
    cut.map(|stop| stop.back.since(stop.at).as_millis() as u64).collect()
}

impl Kind {
    /// Returns the description that operators read.
    pub fn about(self) -> &'static str {
        match self {
            Kind::HostGap => "requests to a host closer than the delay",
            Kind::AddressGap => "requests to an address closer than the delay",
            Kind::CrawlDelay => "requests closer than the Crawl-delay served",
            Kind::HostOverlap => "requests to a host while another was under way",
            Kind::AddressOverlap => "requests to an address while another was under way",
            Kind::BeforeRobots => "pages asked for before robots.txt was known",
            Kind::AgainstRules => "pages asked for against robots.txt",
            Kind::RobotsUnreachable => "pages asked for while robots.txt was unreachable",
            Kind::StaleRules => "pages asked for on rules older than 24 hours",
            Kind::InsideRetryAfter => "requests before a Retry-After had passed",
            Kind::FetchedTwice => "URLs fetched again after a success",
            Kind::AskedAgain => "URLs asked for again after a final answer",
            Kind::AskedTooOften => "URLs asked for more often than retries allow",
            Kind::RepeatedTooMany => "URLs asked for again after a stop, more than allowed",
            Kind::Missed => "reachable URLs never fetched",
            Kind::DeniedAsked => "denied URLs asked for",
            Kind::UnknownAsked => "URLs asked for that nobody links to",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |out: &mut fmt::Formatter<'_>, name: &str, value: &dyn fmt::Display| {
            writeln!(out, "  {name:<36}{value}")
        };
        match self.violation_count() {
            0 => writeln!(out, "PASS: no violation")?,
            1 => writeln!(out, "FAIL: 1 violation")?,
            count => writeln!(out, "FAIL: {count} violations")?,
        }
        row(out, "requests", &self.request_count)?;
        row(out, "hosts", &self.host_count)?;
        row(out, "addresses", &self.address_count)?;
        let gaps = [
            ("smallest gap per host", &self.host_gap_ns_min),
            ("smallest gap per address", &self.address_gap_ns_min),
        ];
        for (name, gap) in gaps {
            match gap {
                Some(gap) => {
                    let of = escape_cut(&gap.of, AUDIT_NAME_CHARS_SHOWN);
                    row(out, name, &format_args!("{} at {of}", ms(gap.value)))?;
                }
                None => row(out, name, &"none: never two requests")?,
            }
        }
        let peaks = [
            ("most at once per host", &self.host_concurrency_max),
            ("most at once per address", &self.address_concurrency_max),
        ];
        for (name, peak) in peaks {
            if let Some(peak) = peak {
                let of = escape_cut(&peak.of, AUDIT_NAME_CHARS_SHOWN);
                row(out, name, &format_args!("{} at {of}", peak.value))?;
            }
        }
        if !self.repeat_counts.is_empty() {
            let counts: Vec<String> = self.repeat_counts.iter().map(u64::to_string).collect();
            let at_least = if self.unlogged_ms.is_empty() { "" } else { "at least " };
            let counts = format_args!("{at_least}{}", counts.join(" "));
            row(out, "asked for again after each stop", &counts)?;
        }
        if !self.unlogged_ms.is_empty() {
            let spans: Vec<String> = self.unlogged_ms.iter().map(u64::to_string).collect();
            let about = format_args!("{} ms before a start, unjudged", spans.join(" "));
            row(out, "log lost with a killed process", &about)?;
        }
        if self.bodiless_robots_count > 0 {
            row(out, "robots.txt without a body, unjudged", &self.bodiless_robots_count)?;
        }
        if self.undated_retry_count > 0 {
            row(out, "dates without a clock, unjudged", &self.undated_retry_count)?;
        }
        if self.unwitnessed_page_count > 0 {
            row(out, "pages after a cut log, unjudged", &self.unwitnessed_page_count)?;
        }
        for (kind, count) in &self.violation_counts {
            writeln!(out, "\n{count} {}", kind.about())?;
            for example in self.examples.iter().filter(|example| example.kind == *kind) {
                write_example(out, example)?;
            }
        }
        Ok(())
    }
}

fn write_example(out: &mut fmt::Formatter<'_>, example: &Violation) -> fmt::Result {
    let who = example.host.iter().chain(&example.address);
    let who: Vec<String> =
        who.map(|name| escape_cut(name, AUDIT_NAME_CHARS_SHOWN).to_string()).collect();
    writeln!(out, "  {}: {}", who.join(" at "), escape_cut(&example.note, AUDIT_LINE_CHARS_SHOWN))?;
    for line in &example.lines {
        writeln!(out, "    {}", escape_cut(line, AUDIT_LINE_CHARS_SHOWN))?;
    }
    Ok(())
}

/// Formats nanoseconds as milliseconds, exactly: a gap of 1 ns less than the delay must show.
pub(super) fn ms(ns: u64) -> String {
    format!("{}.{:06} ms", ns / 1_000_000, ns % 1_000_000)
}

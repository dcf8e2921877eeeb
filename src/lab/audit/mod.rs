//! The referee: was a crawl polite, lawful and whole? Told from what servers saw, by code that
//! shares nothing with the crawler's: it uses `base`, `limits` and public crates alone, so that one
//! mistake cannot hide another (`tests/tidy.rs` holds it to that).
//!
//! [`Hits`] flow in (the log of a synthetic web, or the directory of a crawl), and the [`Terms`]
//! that the crawler had to keep; a [`Verdict`] flows out. What is judged, per host and per address:
//!
//! 1. gaps between the starts of requests, robots.txt and retries included, against the delay in
//!    force: the configured one, and for an origin the Crawl-delay last served to the crawler;
//!    (an IPv4 address counts as one however it is spelled, a /64 of IPv6 addresses as one);
//! 2. requests under way at once, which may be one;
//! 3. robots.txt (RFC 9309): no page before it is known, none against its rules, none while it is
//!    unreachable, none on rules of more than a day; redirects are followed through the hits;
//! 4. no request inside a Retry-After;
//! 5. no URL asked for again after a final answer, and, where a [`truth`] is given, all of it
//!    fetched and nothing else.
//!
//! A crawler that was killed and came back ([`Stop`]) is held to all of it across its lives. What
//! had ended just before a stop may be forgotten, and be asked for again.
//!
//! Cost: two passes over the hits (one more for each hop of a robots.txt that moved to another
//! path), then three sorts of records of 64 bytes: O(n log n) time, 640 MB for ten million
//! requests. Nothing else grows with them but names, robots.txt files and the truth.
//!
//! Invariant: no tolerance. Where a server's clock could read later than a client's knowledge, the
//! earlier moment is taken (`sent`, not `end`), so that a lawful crawl passes by construction.
//! One thread, any thread: no shard touches this.

mod archive;
mod book;
pub mod crawl_dir;
mod date;
mod hit;
mod lines;
mod machine;
mod origin;
mod records;
mod rules;
mod stop;
pub mod truth;
mod verdict;
mod walks;
pub mod web_log;

pub use hit::{AuditError, Fate, Hit, Hits, Terms};
pub use stop::Stop;
pub use verdict::{Extreme, Kind, Verdict, Violation};

use book::Book;
use records::Records;
use truth::Expectation;
use verdict::Findings;

/// Judges all hits. With `truth`, also whether what was fetched is what should have been.
pub fn judge(
    hits: &impl Hits,
    terms: &Terms,
    truth: Option<Vec<Expectation>>,
) -> Result<Verdict, AuditError> {
    let book = Book::collect(hits, terms)?;
    let mut findings = Findings::default();
    let mut records = Records::collect(hits, terms, &book, &mut findings)?;
    walks::by_host(&mut records, terms, &mut findings);
    walks::by_address(&mut records, terms, &mut findings);
    walks::by_url(&mut records, terms, truth, &mut findings);
    Ok(findings.conclude(hits, terms, &records, &book))
}

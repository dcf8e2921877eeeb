//! The referee: it judges whether a crawl was polite, kept the rules and was complete.
//!
//! It judges from what servers saw, by code that shares nothing with the crawler's: it uses `base`,
//! its limits and public crates alone, so that one mistake cannot hide another (`tests/tidy.rs`
//! checks this).
//!
//! [`Hits`] come in (the log of a synthetic web, or the directory of a crawl), and the [`Terms`]
//! that the crawler had to keep; a [`Verdict`] goes out. These are judged, per host and per
//! address:
//!
//! 1. Gaps between the starts of requests, robots.txt and retries included. They must not be
//!    shorter than the delay in force: the configured one, and for an origin the Crawl-delay last
//!    served to the crawler. (An IPv4 address counts as one however it is spelled, and so does a
//!    /64 of IPv6 addresses.)
//! 2. Requests under way at the same time: at most one.
//! 3. robots.txt (RFC 9309): no page is asked for before robots.txt is known, none against its
//!    rules, none while it is unreachable, none on rules that are older than a day. Redirects are
//!    followed through the hits.
//! 4. No request is made before a Retry-After has passed.
//! 5. No URL is asked for again after a final answer. Where a [`truth`] is given, all of it must be
//!    fetched, and nothing else.
//!
//! A crawler that was killed and started again ([`Stop`]) must keep all of this over all its lives.
//! It may forget what had ended just before a stop, and ask for that again.
//!
//! Cost: two passes over the hits (one more for each hop of a robots.txt that moved to another
//! path), then three sorts of records of 64 bytes: O(n log n) time, 640 MB for ten million
//! requests. Besides the records, only names, robots.txt files and the truth take memory.
//!
//! Invariant: there is no tolerance. Where a server's clock could show a later time than that at
//! which a client knew something, the earlier moment is taken (`sent`, not `end`), so that a lawful
//! crawl passes by construction. The referee runs on one thread, which may be any; no shard uses
//! it.

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

/// Judges all hits. With `truth`, it also judges whether exactly what should be fetched was
/// fetched.
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

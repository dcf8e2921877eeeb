//! The laboratory: what proves and measures the crawler.
//!
//! [`web`] is a deterministic web to crawl, [`sim`] crawls one on virtual time, [`audit`] is the
//! referee that judges a crawl from outside, and [`mod@bench`] measures.

pub mod audit;
pub mod bench;
pub mod sim;
pub mod web;

//! The stages of a URL's way, and what they share.
//!
//! A stage imports no other stage. What stages hand to each other is in [`flow`], what they count in
//! [`metrics`], what an operator sets in [`config`]; the shard joins them.

pub mod config;
pub mod flow;
pub mod metrics;

pub mod dedup;
pub mod fetch;
pub mod frontier;
pub mod journal;
pub mod parse;
pub mod resolve;
pub mod seed;
pub mod store;

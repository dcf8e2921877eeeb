//! The stages of a URL's way, and what the stages share.
//!
//! A stage imports no other stage. [`flow`] holds the values that stages hand to each other,
//! [`metrics`] holds what they count and time, and [`config`] holds what an operator sets. The
//! shard joins the stages.

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

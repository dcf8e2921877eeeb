//! nephila: a web crawler engine for one bare-metal Linux box.
//!
//! Modules in layer order; a module imports only from lower layers (`tests/tidy.rs` checks).

// Layer 0: bounds, time, the operating system, and the seam to the world.
pub mod base;
pub mod io;
pub mod limits;
pub mod sys;

// Layer 1: protocols. Bytes in, values out.
pub mod dnswire;
pub mod html;
pub mod http;
pub mod robotstxt;
pub mod simhash;
pub mod sitemap;
pub mod url;
pub mod warc;

// Layer 2: what stages hand to each other, what they count, what an operator sets.
pub mod config;
pub mod flow;
pub mod metrics;

// Layer 3: the stages of a URL's way. None imports another.
pub mod dedup;
pub mod fetch;
pub mod frontier;
pub mod journal;
pub mod parse;
pub mod resolve;
pub mod seed;
pub mod store;

// Layer 4: one core's crawler.
pub mod shard;

// Layer 5: the program and its tools.
pub mod audit;
pub mod bench;
pub mod control;
pub mod engine;
pub mod tools;
pub mod web;

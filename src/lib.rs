//! nephila: a web crawler engine for one bare-metal Linux box.
//!
//! Each module below is a room of the house, in this order; a room imports only from rooms before
//! it (`tests/tidy.rs` checks it).

pub mod sys;

pub mod base;

pub mod io;

pub mod proto;

pub mod crawl;

pub mod shard;

pub mod engine;

#[cfg(feature = "lab")]
pub mod lab;

pub mod cli;

//! The dedup stage: which payloads are stored already, and which pages are nearly the same.
//!
//! This module owns two tables, of which each shard has its part: [`Digests`], divided by the first
//! bits of the digest, and [`NearTable`], divided by SimHash block values. Questions about a
//! payload or a page flow in, by message from other shards and as direct calls from the own shard;
//! answers flow out. Both tables are bounded. What they forget is stored twice or not recognised as
//! near; no page is lost. The core of a shard is the only one that touches its part.

mod digests;
mod near;

pub use digests::Digests;
pub use near::{NearTable, block_owner, masks};

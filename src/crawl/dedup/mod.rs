//! The dedup stage: which payloads are stored already, and which pages are nearly the same.
//!
//! Two tables, each shard owning its part: [`Digests`] by the digest's first bits, [`NearTable`] by
//! SimHash block values. Plain data, asked by message from other shards and directly by the own
//! one. Both are bounded; what they forget is stored twice or not noticed as near, never lost.

mod digests;
mod near;

pub use digests::Digests;
pub use near::{NearTable, block_owner, masks};

//! Measurements of single parts, each a suite of `nephila bench`: real files, real memory, one
//! core. They use the crate's modules as the shard does; nothing imports them.

pub mod frontier;
pub mod seen;

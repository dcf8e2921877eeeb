//! Small things that all modules use: time as a value, hand-overs between tasks of one core,
//! numbers as files store them and as people read them, the bounds of the crawler, and text from
//! strangers made safe to print.
//!
//! Nothing here does I/O or reads a clock. Each value belongs to the core that made it.

pub mod counts;
pub mod escape;
pub mod hash_key;
pub mod limits;
pub mod notify;
pub mod oneshot;
pub mod pack;
pub mod race;
pub mod recent;
pub mod text;
pub mod time;
pub mod waiters;
pub mod watermark;

pub use escape::{escape, escape_cut};
pub use hash_key::HashKey;
pub use time::{Time, WallTime};

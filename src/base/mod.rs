//! What every layer may use: time as a value, hand-overs between tasks of one core,
//! and text from strangers made fit to print.
//!
//! Nothing here does I/O or reads a clock. Values of this module belong to the core that made them.

pub mod escape;
pub mod notify;
pub mod oneshot;
pub mod race;
pub mod time;

pub use escape::{escape, escape_cut};
pub use time::{Time, WallTime};

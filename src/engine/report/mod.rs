//! What the operator sees: the progress line, the summary and the `--json` object.
//!
//! Reports of all shards flow in, text flows out. Every result depends only on the arguments, so it
//! is tested without threads or terminals. The thread that receives reports and signals belongs to
//! the engine. Text from the web passes through [`crate::base::escape`] before it is printed.

pub mod cost;
mod figures;
mod json;
mod progress;
pub mod summary;
mod waits;

pub use crate::base::counts::{count_text, counted};
pub use figures::{bytes_text, duration_text, latency_text, rate_text, span_text};
pub use json::json_line;
pub use progress::Progress;

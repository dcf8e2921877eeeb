//! What the operator sees: the progress line, the summary and the `--json` object.
//!
//! Reports of all shards flow in, text flows out. Everything here is a function of its arguments,
//! so it is tested without threads or terminals; the thread that receives reports and signals is
//! the engine's. Text from the web passes through [`escape`](crate::base::escape()) before it is
//! printed.

pub mod cost;
mod figures;
mod json;
mod progress;
pub mod summary;
mod waits;

pub use figures::{bytes_text, count_text, duration_text, latency_text, rate_text, span_text};
pub use json::json_line;
pub use progress::Progress;

//! Fuzz targets, one per parser of bytes that strangers write. Each asserts more than that nothing
//! panics: pieces read as the whole does, the fast way as a naive twin, what is written reads back,
//! and what comes out is bounded by `limits`.
//!
//! In `cargo test` each target runs a fixed number of inputs from a fixed seed. By hand, for as
//! long as one likes:
//!
//! ```text
//! NEPHILA_FUZZ_SECONDS=600 NEPHILA_FUZZ_SEED=7 cargo test --release --test fuzz -- html
//! ```
//!
//! An input that fails is made small, kept under `target/fuzz/` and printed with the command that
//! runs it again.

#[path = "fuzz/archive.rs"]
mod archive;
#[path = "fuzz/charset.rs"]
mod charset;
#[path = "support/corpus.rs"]
mod corpus;
#[path = "fuzz/dice.rs"]
mod dice;
#[path = "fuzz/dns.rs"]
mod dns;
#[path = "fuzz/engine.rs"]
mod engine;
#[path = "fuzz/html.rs"]
mod html;
#[path = "fuzz/http.rs"]
mod http;
#[path = "fuzz/mutate.rs"]
mod mutate;
#[path = "fuzz/operator.rs"]
mod operator;
#[path = "fuzz/robots.rs"]
mod robots;
#[path = "fuzz/url.rs"]
mod url;

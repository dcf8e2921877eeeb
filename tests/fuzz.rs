//! Fuzz targets, one for each parser of bytes that come from strangers. Each target asserts more
//! than the absence of panics: input in pieces gives the same result as the whole, the fast way
//! gives the same as a naive one, what is written can be read back, and the output is bounded by
//! `limits`.
//!
//! In `cargo test` each target runs a fixed number of inputs from a fixed seed. To run a target by
//! hand for any time:
//!
//! ```text
//! NEPHILA_FUZZ_SECONDS=600 NEPHILA_FUZZ_SEED=7 cargo test --release --test fuzz -- html
//! ```
//!
//! An input that fails is made smaller, kept under `target/fuzz/`, and printed with the command
//! that runs it again.

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

//! The synthetic web: a whole web from a seed, behind real sockets (`nephila web`) and in
//! simulation.
//!
//! The brain ([`Web`]) does no I/O: requests and questions in, bytes and addresses out. What a URL
//! is ([`graph`]), what it is called ([`names`]), and what it says ([`page`], [`text`]) is computed
//! from the seed when asked for, so the web may have ten million pages and no memory for any.
//! [`truth`] walks the same graph and says what a perfect crawl of it would fetch. [`weather`] is
//! how hosts change their ways over time.
//!
//! The [`server`] puts the brain behind the seam's streams and datagrams, with [`tls`] where asked,
//! and keeps the [`log`] by which a crawl is judged: who asked for what, when, at which address.
//!
//! [`hostile`] hosts stand beside the ordinary ones where the spec asks for them.
//!
//! Invariant: one spec, one web. Equal specs give equal bytes on every core and in both worlds.
//! A core has its own `Web`; nothing is shared.

pub mod bodies;
mod brain;
pub mod chance;
mod connection;
pub mod dns;
pub mod graph;
pub mod hostile;
pub mod log;
mod names;
pub mod page;
mod play;
mod reply;
mod robots;
pub mod server;
pub mod sitemap;
pub mod spec;
pub mod stand;
#[cfg(test)]
mod tests;
pub mod text;
pub mod tls;
pub mod truth;
pub mod weather;

pub use bodies::Bodies;
pub use brain::{Answer, Reply, Request, Web};
pub use graph::{Kind, Place, Rules};
pub use hostile::Hostile;
pub use log::{Fate, FileSink, LogSink, MemorySink, RequestLog};
pub use server::Server;
pub use spec::{PROFILES, SpecError, Split, WebSpec};
pub use stand::{Stand, StandError, StandPlan};

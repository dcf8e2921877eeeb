//! The synthetic web: a whole web made from a seed, behind real sockets (`nephila web`) and in
//! simulation.
//!
//! The brain ([`Web`]) does no I/O: requests and questions come in, bytes and addresses go out.
//! What a URL is ([`graph`]), its name ([`names`]) and its text ([`page`], [`text`]) are computed
//! from the seed when asked for, so the web may have ten million pages and needs no memory for any
//! of them. [`truth`] walks the same graph and lists what a perfect crawl would fetch. [`weather`]
//! says how hosts change their behaviour over time.
//!
//! The [`server`] puts the brain behind the seam's streams and datagrams, with [`tls`] where asked,
//! and keeps the [`log`] by which a crawl is judged: who asked for what, when, at which address.
//!
//! [`hostile`] hosts are served beside the ordinary ones if the spec asks for them.
//!
//! Invariant: a spec determines the web. Equal specs give equal bytes on every core, over real
//! sockets and in simulation. Each core has its own `Web`; nothing is shared.

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

//! Tools beside the crawl, each a subcommand: the parsers at the command line, and the demo. They
//! use the crate's modules as anyone could; nothing imports them.

pub mod demo;
pub mod parsers;

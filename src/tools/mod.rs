//! Tools beside the crawl, each a subcommand: the parsers at the command line, the demo, and crawls
//! in simulation. They use the crate's modules as anyone could; nothing imports them.

pub mod demo;
pub mod parsers;
pub mod sim;

//! Tools beside the crawl, each a subcommand: the parsers at the command line, the demo, crawls in
//! simulation, and looks into a crawl's directory. They use the crate's modules as anyone could;
//! nothing imports them.

pub mod demo;
pub mod inspect;
pub mod parsers;
pub mod repair;
pub mod sim;

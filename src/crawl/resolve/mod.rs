//! The resolve stage: from a host to an address that may be contacted, and to the rules of its
//! robots.txt. Owned by one core; nothing is shared.

mod address;
mod cache;
mod dns;
mod robots;
pub mod upstream;

pub use address::{is_public, pace_place};
pub use dns::{Address, DnsSettings, Resolver};
pub use robots::{RobotsCache, RobotsKnown, RobotsState, RobotsTurn, RobotsVersion};

//! What a shard is told at its start.

use super::{Placement, Sabotage};
use crate::base::HashKey;
use crate::crawl::config::Settings;
use hashbrown::HashSet;

/// What the shards of a crawl have in common, each with its own copy.
#[derive(Clone)]
pub struct Plan {
    pub settings: Settings,
    /// The crawl's, under which hosts, URLs, domains and addresses are hashed.
    pub hash_key: HashKey,
    pub placement: Placement,
    /// Upstream resolvers, from the settings or the system.
    pub upstreams: Vec<std::net::SocketAddr>,
    /// Hosts, or registrable domains, that links may lead to; empty if `stay` is the whole web.
    pub homes: HashSet<Box<str>>,
    pub extra_ca: Option<Vec<u8>>,
    /// Whether pages are limited, and budget must be asked for.
    pub has_budget: bool,
    /// A rule to break, so that the judge is seen to notice.
    pub sabotage: Option<Sabotage>,
    /// What this crawl goes on from; `None` if it begins.
    pub past: Option<Past>,
    /// The way slots are dealt to shards, by number: another count of shards is another generation.
    pub generation: u32,
}

/// How an earlier process had dealt the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    pub generation: u32,
    pub shard_count: u16,
}

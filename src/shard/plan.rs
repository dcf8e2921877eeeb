//! What a shard is told when it starts.

use super::{Placement, Sabotage};
use crate::base::HashKey;
use crate::crawl::config::Settings;
use hashbrown::HashSet;

/// The part of the plan that all shards of a crawl have in common. Each shard has its own copy.
#[derive(Clone)]
pub struct Plan {
    pub settings: Settings,
    /// The crawl's key, with which hosts, URLs, domains and addresses are hashed.
    pub hash_key: HashKey,
    pub placement: Placement,
    /// Upstream resolvers, from the settings or the system.
    pub upstreams: Vec<std::net::SocketAddr>,
    /// Hosts, or registrable domains, that links may lead to; empty if `stay` is the whole web.
    pub homes: HashSet<Box<str>>,
    pub extra_ca: Option<Vec<u8>>,
    /// Whether the number of pages is limited, so that the shard must ask for page budget.
    pub has_budget: bool,
    /// A rule to break on purpose, to check that the judge notices.
    pub sabotage: Option<Sabotage>,
    /// The earlier process that this crawl continues; `None` if the crawl begins.
    pub past: Option<Past>,
    /// The number of the way in which slots are dealt to shards. Another count of shards is another
    /// generation.
    pub generation: u32,
}

/// How an earlier process had dealt the slots to shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    pub generation: u32,
    pub shard_count: u16,
}

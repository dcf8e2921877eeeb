//! The hosts that links may lead to, and the shard that owns a host.

use crate::base::HashKey;
use crate::crawl::config::Stay;
use crate::crawl::flow::ShardIndex;
use crate::proto::url::{HostKey, Normaliser, registrable_domain};
use crate::shard::Plan;
use crate::shard::placement::Placement;
use hashbrown::HashSet;

pub(in crate::shard) struct Territory {
    pub hash_key: HashKey,
    pub normaliser: Normaliser,
    index: ShardIndex,
    placement: Placement,
    stay: Stay,
    homes: HashSet<Box<str>>,
}

impl Territory {
    pub fn new(index: ShardIndex, plan: &Plan) -> Territory {
        Territory {
            hash_key: plan.hash_key.clone(),
            normaliser: Normaliser::new(&plan.settings.extra_parameters),
            index,
            placement: plan.placement,
            stay: plan.settings.stay,
            homes: plan.homes.clone(),
        }
    }

    /// Reports whether links may lead to this host.
    pub fn is_home(&self, host: &str) -> bool {
        match self.stay {
            Stay::Web => true,
            Stay::Domain => self.homes.contains(registrable_domain(host)),
            Stay::Host => self.homes.contains(host),
        }
    }

    /// Reports whether this shard owns the host.
    pub fn is_own(&self, host: HostKey) -> bool {
        self.owner(host) == self.index
    }

    pub fn owner(&self, host: HostKey) -> ShardIndex {
        self.placement.of_host(host)
    }
}

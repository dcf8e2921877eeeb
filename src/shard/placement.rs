//! Which shard owns what: slots (and with them hosts), addresses, registrable domains, digests and
//! SimHash blocks.
//!
//! The placement is the same on every shard. Slots are dealt in equal runs, so that another number
//! of cores moves whole runs of slots, and nothing is rehashed.

use crate::base::HashKey;
use crate::base::limits::SLOT_COUNT;
use crate::crawl::flow::{ShardIndex, TurnPlace};
use crate::proto::url::{HostKey, Slot};
use std::net::IpAddr;

/// Maps keys to the shards that own them.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    shard_count: u16,
}

impl Placement {
    pub fn new(shard_count: u16) -> Placement {
        assert!(shard_count > 0 && (shard_count as usize) <= crate::base::limits::SHARD_COUNT_MAX);
        Placement { shard_count }
    }

    pub fn shard_count(self) -> u16 {
        self.shard_count
    }

    pub fn of_slot(self, slot: Slot) -> ShardIndex {
        ShardIndex((slot.0 as usize * self.shard_count as usize / SLOT_COUNT) as u16)
    }

    /// Returns the first and the last slot of a shard.
    pub fn slots_of(self, shard: ShardIndex) -> (Slot, Slot) {
        let is_ours = |slot: &u16| self.of_slot(Slot(*slot)) == shard;
        let slots = || 0..SLOT_COUNT as u16;
        let (first, last) = (slots().find(is_ours), slots().rfind(is_ours));
        (Slot(first.expect("every shard has slots")), Slot(last.expect("every shard has slots")))
    }

    pub fn of_host(self, host: HostKey) -> ShardIndex {
        self.of_slot(host.slot())
    }

    pub fn of_turn(self, key: &HashKey, place: TurnPlace) -> ShardIndex {
        let hash = match place {
            TurnPlace::Address(IpAddr::V4(v4)) => key.hash(&v4.octets()) as u64,
            TurnPlace::Address(IpAddr::V6(v6)) => key.hash(&v6.octets()) as u64,
            // A domain is given as its hash under the key.
            TurnPlace::Domain(hash) => hash,
        };
        self.of_number(hash)
    }

    pub fn of_digest(self, digest: &[u8; 20]) -> ShardIndex {
        let mut head = [0; 8];
        head.copy_from_slice(&digest[..8]);
        self.of_number(u64::from_be_bytes(head))
    }

    fn of_number(self, number: u64) -> ShardIndex {
        ShardIndex(((u128::from(number) * u128::from(self.shard_count)) >> 64) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shard_owns_its_share_of_slots() {
        for shard_count in [1, 2, 3, 7, 64] {
            let placement = Placement::new(shard_count);
            let mut slots = vec![0; shard_count as usize];
            for slot in 0..SLOT_COUNT as u16 {
                slots[placement.of_slot(Slot(slot)).0 as usize] += 1;
            }
            let fair = SLOT_COUNT / shard_count as usize;
            assert!(slots.iter().all(|count| (fair..=fair + 1).contains(count)), "{slots:?}");
        }
    }
}

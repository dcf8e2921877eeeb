//! URL eviction: when the queues are full, the newest URL of the lowest class gives way to a better
//! one, or the newest chunk of such URLs where these are on disk.
//!
//! This module owns, per class, a list of hosts that have (or had) URLs of it. Hosts flow in as
//! their URLs are queued. The host that gives up a URL next flows out, each in its turn. Invariant:
//! every host with a URL of a class is listed in that class once; a bit in the host says so. A host
//! whose queue has drained since stays listed until its turn comes, so that a push or a pop costs
//! nothing here. Only its own core touches it.

use super::host::HostId;
use super::sieve::Sieve;
use super::{DropReason, Frontier, HostState};
use crate::crawl::flow::Class;
use std::collections::VecDeque;

#[derive(Default)]
pub struct EvictionLists {
    hosts: [VecDeque<HostId>; 4],
}

impl EvictionLists {
    /// Lists a host that has a URL of `class`; `listed` is the host's own bit per class.
    pub fn list(&mut self, listed: &mut u8, host: HostId, class: Class) {
        let bit = 1 << class.index();
        if *listed & bit == 0 {
            *listed |= bit;
            self.hosts[class.index()].push_back(host);
        }
    }

    fn next(&mut self, class: Class) -> Option<HostId> {
        self.hosts[class.index()].pop_front()
    }
}

impl<S: Sieve, X: Default> Frontier<S, X> {
    /// Evicts URLs of classes below `class` until a record of `size_bytes` fits.
    pub(super) fn make_room(&mut self, class: Class, size_bytes: usize) -> Result<(), DropReason> {
        while self.pending_url_count() >= self.caps.queued_count_max
            || self.queued_bytes + size_bytes as u64 > self.caps.queued_bytes_max
        {
            let lowest =
                Class::ALL.into_iter().rfind(|c| self.queued_count_by_class[c.index()] > 0);
            let lower = lowest.filter(|lowest| *lowest > class).ok_or(DropReason::QueueFull)?;
            self.evict_one(lower);
        }
        Ok(())
    }

    /// Drops the newest URL of `class`, or the newest chunk of them, from the host whose turn it
    /// is. URLs of `class` must be queued.
    fn evict_one(&mut self, class: Class) {
        while let Some(host) = self.eviction.next(class) {
            let from = &mut self.hosts[host];
            from.eviction_listed &= !(1 << class.index());
            let dropped = self.tails.drop_newest(host, from, class);
            let Some((count, size_bytes)) = dropped else { continue };
            if from.has(class) {
                self.eviction.list(&mut from.eviction_listed, host, class);
            }
            let is_left_empty = from.queued_count == 0 && from.state != HostState::Busy;
            self.removed(class, u64::from(count), size_bytes);
            if is_left_empty {
                self.unschedule(host);
            }
            self.figures.dropped_count[DropReason::Evicted as usize] += u64::from(count);
            return;
        }
        unreachable!("a class with queued URLs has a host listed");
    }
}

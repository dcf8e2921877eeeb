//! Retries: URLs that wait for another try, each until its own time, while their hosts go on.
//!
//! This module owns them until they are due. A URL, its host and a time flow in. The URLs whose
//! time has come flow out, the earliest first, and those of one time in the order in which they
//! came. Invariant: at most [`RETRY_WAITING_COUNT_MAX`] URLs wait; beyond that none is taken, and
//! the caller lets the whole host wait instead. Only its own core touches it.

use super::Queued;
use super::host::HostId;
use crate::base::Time;
use crate::base::limits::RETRY_WAITING_COUNT_MAX;
use hashbrown::HashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

#[derive(Default)]
pub struct Retries {
    due: BinaryHeap<Reverse<(Time, u64)>>,
    waiting: BTreeMap<u64, (HostId, Queued)>,
    /// How many URLs of each host wait, for the hosts that have any.
    counts: HashMap<HostId, u32>,
    taken_count: u64,
}

impl Retries {
    /// Adds a URL, or gives it back if there is no room.
    pub fn push(&mut self, host: HostId, queued: Queued, at: Time) -> Result<(), Queued> {
        if self.waiting.len() >= RETRY_WAITING_COUNT_MAX {
            return Err(queued);
        }
        self.taken_count += 1;
        self.due.push(Reverse((at, self.taken_count)));
        self.waiting.insert(self.taken_count, (host, queued));
        *self.counts.entry(host).or_default() += 1;
        Ok(())
    }

    pub fn pop_due(&mut self, now: Time) -> Option<(HostId, Queued)> {
        let Reverse((at, serial)) = *self.due.peek()?;
        if at > now {
            return None;
        }
        self.due.pop();
        let (host, queued) = self.waiting.remove(&serial)?;
        let count = self.counts.get_mut(&host).expect("every waiting URL is counted");
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&host);
        }
        Some((host, queued))
    }

    pub fn next_due(&self) -> Option<Time> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    /// Reports whether a URL of the host waits, be it a stale copy.
    pub fn has(&self, host: HostId) -> bool {
        self.counts.contains_key(&host)
    }

    pub fn count(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the waiting URLs, with the times they wait for, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (Time, HostId, &Queued)> {
        let waiting = |serial| self.waiting.get(serial);
        self.due.iter().filter_map(move |Reverse((at, serial))| {
            waiting(serial).map(|(host, queued)| (*at, *host, queued))
        })
    }
}

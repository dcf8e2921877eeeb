//! Connections kept between requests, by origin: a scheme, host and port.
//!
//! Politeness lets one request at a time go to a host, so one connection an origin is enough. When
//! the pool is full the longest idle one is closed.

use super::channel::Channel;
use crate::base::Time;
use crate::io::Stream;
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::net::IpAddr;
use xxhash_rust::xxh3::xxh3_64;

pub(super) struct Pool<S: Stream> {
    idle: HashMap<u64, Idle<S>>,
    /// In the order they became idle; entries whose connection was taken since are skipped.
    order: VecDeque<(u64, u64)>,
    serial: u64,
    count_max: usize,
}

struct Idle<S: Stream> {
    channel: Channel<S>,
    address: IpAddr,
    since: Time,
    serial: u64,
}

impl<S: Stream> Pool<S> {
    pub(super) fn new(count_max: usize) -> Pool<S> {
        Pool { idle: HashMap::new(), order: VecDeque::new(), serial: 0, count_max }
    }

    pub(super) fn len(&self) -> usize {
        self.idle.len()
    }

    /// The connection kept for `origin`, if it leads to `address`. Whether it still lives is the
    /// caller's to ask: under TLS that may take a read.
    pub(super) fn take(&mut self, origin: &str, address: IpAddr) -> Option<Channel<S>> {
        let kept = self.idle.remove(&key(origin))?;
        (kept.address == address).then_some(kept.channel)
    }

    pub(super) fn put(&mut self, origin: &str, address: IpAddr, channel: Channel<S>, now: Time) {
        if self.count_max == 0 {
            return;
        }
        self.serial += 1;
        let (key, serial) = (key(origin), self.serial);
        self.idle.insert(key, Idle { channel, address, since: now, serial });
        self.order.push_back((key, serial));
        while self.idle.len() > self.count_max {
            self.drop_oldest();
        }
        // Taken connections leave their order entry behind; sweep when they are the majority.
        if self.order.len() > 2 * self.idle.len() + 1_024 {
            let idle = &self.idle;
            self.order
                .retain(|(key, serial)| idle.get(key).is_some_and(|kept| kept.serial == *serial));
        }
    }

    /// Closes what has been idle since before `since`.
    pub(super) fn expire(&mut self, since: Time) {
        while let Some((key, serial)) = self.order.front().copied() {
            match self.idle.get(&key) {
                Some(kept) if kept.serial == serial && kept.since >= since => return,
                Some(kept) if kept.serial == serial => {
                    self.idle.remove(&key);
                }
                _ => {}
            }
            self.order.pop_front();
        }
    }

    fn drop_oldest(&mut self) {
        while let Some((key, serial)) = self.order.pop_front() {
            if self.idle.get(&key).is_some_and(|kept| kept.serial == serial) {
                self.idle.remove(&key);
                return;
            }
        }
    }
}

/// In a known order, and not in that of a hash table: so a simulated crash has one history.
impl<S: Stream> Drop for Pool<S> {
    fn drop(&mut self) {
        while !self.idle.is_empty() {
            self.drop_oldest();
        }
    }
}

fn key(origin: &str) -> u64 {
    xxh3_64(origin.as_bytes())
}

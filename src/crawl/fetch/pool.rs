//! Connections kept between requests, by origin: a scheme, host and port.
//!
//! Politeness allows one request at a time to a host, so one connection for each origin is enough.
//! Origins are compared in full, never by a hash, because a connection was verified for one name
//! only.
//!
//! Hosts get their requests in turns, a delay apart. So in a full pool the connection that has been
//! idle longest is the next to be used, and the one that comes back now is the last. Usual pools
//! close the former for the latter. With one host more than there is room, such a pool keeps no
//! connection until it is used again (20,000 hosts with room for 18,700: not one request found its
//! connection). So this pool closes the connection that comes back, unless the longest idle one has
//! been idle [`KEEP_ALIVE_PATIENCE`] times as long as connections that are used again usually are.
//! Such a connection is hardly needed any more, and makes room.

use super::channel::Channel;
use crate::base::Time;
use crate::base::limits::KEEP_ALIVE_PATIENCE;
use crate::io::Stream;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

pub(super) struct Pool<S: Stream> {
    /// By origin. The table is the standard library's, because names come from strangers and its
    /// hash has a random key.
    idle: HashMap<Rc<str>, Idle<S>>,
    /// Origins in the order in which their connections became idle. Entries whose connection was
    /// taken since are skipped.
    order: VecDeque<(Rc<str>, u64)>,
    serial: u64,
    count_max: usize,
    /// How long connections that were used again have been idle lately.
    idle_usual: Option<Duration>,
    crowded_count: u64,
}

struct Idle<S: Stream> {
    channel: Channel<S>,
    address: IpAddr,
    since: Time,
    serial: u64,
}

impl<S: Stream> Pool<S> {
    pub(super) fn new(count_max: usize) -> Pool<S> {
        let (idle, order, serial) = (HashMap::new(), VecDeque::new(), 0);
        Pool { idle, order, serial, count_max, idle_usual: None, crowded_count: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.idle.len()
    }

    /// Returns the number of connections that were closed because the pool was full.
    pub(super) fn crowded_count(&self) -> u64 {
        self.crowded_count
    }

    /// Takes the connection kept for `origin`, if it leads to `address`. The caller has to check
    /// whether it is still alive, because under TLS that may take a read.
    pub(super) fn take(&mut self, origin: &str, address: IpAddr, now: Time) -> Option<Channel<S>> {
        let kept = self.idle.remove(origin)?;
        let idle = now.since(kept.since);
        self.idle_usual = Some(self.idle_usual.map_or(idle, |usual| (15 * usual + idle) / 16));
        (kept.address == address).then_some(kept.channel)
    }

    /// Closes the connection kept for `origin`.
    pub(super) fn remove(&mut self, origin: &str) {
        self.idle.remove(origin);
    }

    pub(super) fn put(&mut self, origin: &str, address: IpAddr, channel: Channel<S>, now: Time) {
        if self.count_max == 0 {
            return;
        }
        self.serial += 1;
        let (origin, serial): (Rc<str>, u64) = (origin.into(), self.serial);
        if self.idle.len() >= self.count_max && !self.idle.contains_key(&origin) {
            self.crowded_count += 1;
            if !self.drop_forsaken(now) {
                return;
            }
        }
        self.idle.insert(origin.clone(), Idle { channel, address, since: now, serial });
        self.order.push_back((origin, serial));
        // A connection that is taken leaves its entry in `order` behind. Remove these when they are
        // the majority.
        if self.order.len() > 2 * self.idle.len() + 1_024 {
            let idle = &self.idle;
            self.order
                .retain(|(origin, serial)| idle.get(origin).is_some_and(|of| of.serial == *serial));
        }
    }

    /// Closes connections that have been idle since before `since`.
    pub(super) fn expire(&mut self, since: Time) {
        while let Some((origin, serial)) = self.order.front() {
            match self.idle.get(origin) {
                Some(kept) if kept.serial == *serial && kept.since >= since => return,
                Some(kept) if kept.serial == *serial => {
                    self.idle.remove(origin);
                }
                _ => {}
            }
            self.order.pop_front();
        }
    }

    /// Closes the longest idle connection if it is hardly needed any more. Returns whether it did.
    fn drop_forsaken(&mut self, now: Time) -> bool {
        let Some(usual) = self.idle_usual else { return false };
        let before = now - usual * KEEP_ALIVE_PATIENCE;
        while let Some((origin, serial)) = self.order.front() {
            match self.idle.get(origin) {
                Some(kept) if kept.serial == *serial && kept.since > before => return false,
                Some(kept) if kept.serial == *serial => {
                    self.drop_oldest();
                    return true;
                }
                _ => {}
            }
            self.order.pop_front();
        }
        false
    }

    fn drop_oldest(&mut self) {
        while let Some((origin, serial)) = self.order.pop_front() {
            if self.idle.get(&origin).is_some_and(|kept| kept.serial == serial) {
                self.idle.remove(&origin);
                return;
            }
        }
    }
}

/// Closes connections in a known order and not in that of a hash table, so that a simulated crash
/// is reproducible.
impl<S: Stream> Drop for Pool<S> {
    fn drop(&mut self) {
        while !self.idle.is_empty() {
            self.drop_oldest();
        }
    }
}

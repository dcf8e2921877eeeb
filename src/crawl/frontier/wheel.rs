//! The ready wheel: hosts by the time at which they may next be asked.
//!
//! This module owns a hierarchical timing wheel of 1 ms ticks. Hosts flow in with any time, future
//! or past. Due hosts flow out in order of tick, first in first out within one tick. Invariants: a
//! host is in the wheel at most once; it comes out no earlier than its time and within a tick of
//! it. Only its own core touches it.
//!
//! 1. There are eight levels of 64 slots, six bits of the tick each: 48 bits, more than [`Time`]
//!    can hold, so there is no overflow list and no far future that is treated specially.
//! 2. A tick lives at the level of its highest digit that differs from the wheel's own `elapsed`
//!    tick. As `elapsed` enters a slot of a level above zero, the slot's hosts move down at once.
//!    So a host's place follows from its tick and `elapsed`, and cancelling needs no search.
//! 3. The lowest occupied level holds the earliest tick, at its lowest occupied slot (a bit scan):
//!    a jump over any span costs only the hosts that come out or move down.

use super::host::HostId;
use super::links::{Links, NONE};
use crate::base::Time;
use crate::base::limits::WHEEL_LOOK_COUNT_MAX;

const LEVEL_COUNT: usize = 8;
const SLOT_BITS: usize = 6;
const SLOT_COUNT: usize = 1 << SLOT_BITS;
const TICK_NS: u64 = 1_000_000;

const _: () = assert!(u64::MAX / TICK_NS < 1 << (LEVEL_COUNT * SLOT_BITS));

pub struct Wheel {
    heads: Box<[[u32; SLOT_COUNT]; LEVEL_COUNT]>,
    /// Bit `slot` of `occupied[level]` is set while that list is not empty.
    occupied: [u64; LEVEL_COUNT],
    /// The note is the host's tick.
    links: Links<u64>,
    /// No host in the wheel has an earlier tick.
    elapsed: u64,
    count: usize,
}

/// A list of the wheel, and the first tick that may be in it.
struct Place {
    level: usize,
    slot: usize,
    start: u64,
}

impl Wheel {
    pub const BYTES_PER_HOST: usize = Links::<u64>::LINK_BYTES;

    pub fn new() -> Wheel {
        Wheel {
            heads: Box::new([[NONE; SLOT_COUNT]; LEVEL_COUNT]),
            occupied: [0; LEVEL_COUNT],
            links: Links::new(),
            elapsed: 0,
            count: 0,
        }
    }

    /// Adds a host that is not in the wheel. It is due at the first tick at or after `due`.
    pub fn insert(&mut self, host: HostId, due: Time) {
        assert!(!self.links.contains(host.0), "a host waits for one time");
        self.link(host.0, due.0.div_ceil(TICK_NS).max(self.elapsed));
        self.count += 1;
    }

    /// Removes a host; returns false if it is not in the wheel.
    pub fn cancel(&mut self, host: HostId) -> bool {
        let Some(tick) = self.links.note(host.0) else { return false };
        let Place { level, slot, .. } = self.place(tick);
        self.links.remove(&mut self.heads[level][slot], host.0);
        self.mark_if_empty(level, slot);
        self.count -= 1;
        true
    }

    /// Returns the next host that is due at `now`, if any. Call it until it returns `None`.
    pub fn pop_due(&mut self, now: Time) -> Option<HostId> {
        let now_tick = now.0 / TICK_NS;
        while let Some(Place { level, slot, start }) = self.first_place() {
            if start > now_tick {
                break;
            }
            self.elapsed = start;
            if level > 0 {
                self.move_down(level, slot);
                continue;
            }
            let due = self.links.pop_front(&mut self.heads[level][slot]);
            self.mark_if_empty(level, slot);
            self.count -= 1;
            return due.map(HostId);
        }
        // No list starts at or before `now_tick`, so no host's tick is passed by.
        self.elapsed = self.elapsed.max(now_tick);
        None
    }

    /// Returns the next two of the hosts that are due together, if there are any.
    pub fn upcoming(&self) -> Option<[HostId; 2]> {
        let Place { slot, level: 0, .. } = self.first_place()? else { return None };
        let first = self.heads[0][slot];
        let second = self.links.behind(first);
        self.links.prefetch(second);
        Some([HostId(first), HostId(second)])
    }

    /// Returns a time before which no host is due. It may be earlier than the first host's own time
    /// if that host is far off.
    pub fn next_due(&self) -> Option<Time> {
        self.first_place().map(|place| Time::from_ms(place.start))
    }

    /// Returns the earliest time among the hosts of the next list, of which the first
    /// [`WHEEL_LOOK_COUNT_MAX`] are looked at. Unlike [`Wheel::next_due`] it is the time of a host,
    /// and not that at which the list begins.
    pub fn first_due(&self) -> Option<Time> {
        let Place { level, slot, .. } = self.first_place()?;
        let first = self.heads[level][slot];
        let behind = |id: &u32| Some(self.links.behind(*id)).filter(|id| *id != first);
        let ids = std::iter::successors(Some(first), behind).take(WHEEL_LOOK_COUNT_MAX);
        ids.filter_map(|id| self.links.note(id)).min().map(Time::from_ms)
    }

    pub fn has(&self, host: HostId) -> bool {
        self.links.contains(host.0)
    }

    pub fn count(&self) -> usize {
        self.count
    }

    fn link(&mut self, id: u32, tick: u64) {
        let Place { level, slot, .. } = self.place(tick);
        self.links.push_back(&mut self.heads[level][slot], id, tick);
        self.occupied[level] |= 1 << slot;
    }

    fn move_down(&mut self, level: usize, slot: usize) {
        self.occupied[level] &= !(1 << slot);
        let mut head = std::mem::replace(&mut self.heads[level][slot], NONE);
        while let Some(tick) = self.links.note(head) {
            let id = head;
            self.links.remove(&mut head, id);
            self.link(id, tick);
        }
    }

    fn mark_if_empty(&mut self, level: usize, slot: usize) {
        if self.heads[level][slot] == NONE {
            self.occupied[level] &= !(1 << slot);
        }
    }

    fn place(&self, tick: u64) -> Place {
        let differing = (tick ^ self.elapsed) | (SLOT_COUNT as u64 - 1);
        let level = differing.ilog2() as usize / SLOT_BITS;
        let slot = (tick >> (level * SLOT_BITS)) as usize % SLOT_COUNT;
        Place { level, slot, start: tick }
    }

    fn first_place(&self) -> Option<Place> {
        let level = self.occupied.iter().position(|slots| *slots != 0)?;
        let slot = self.occupied[level].trailing_zeros() as usize;
        let shift = level * SLOT_BITS;
        // `elapsed` with its digit at `level` replaced and all lower ones cleared.
        let above = self.elapsed >> (shift + SLOT_BITS) << (shift + SLOT_BITS);
        Some(Place { level, slot, start: above | (slot as u64) << shift })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    fn drain(wheel: &mut Wheel, now: Time) -> Vec<u32> {
        std::iter::from_fn(|| wheel.pop_due(now)).map(|host| host.0).collect()
    }

    #[test]
    fn a_host_is_never_due_early_and_at_most_a_tick_late() {
        let mut wheel = Wheel::new();
        wheel.insert(HostId(0), Time(5_000_001));
        assert!(drain(&mut wheel, Time(5_999_999)).is_empty());
        assert_eq!(wheel.next_due(), Some(Time(6_000_000)));
        assert_eq!(drain(&mut wheel, Time(6_000_000)), [0]);
    }

    #[test]
    fn hosts_of_one_tick_come_out_in_the_order_they_went_in() {
        let mut wheel = Wheel::new();
        (0..100).for_each(|id| wheel.insert(HostId(id), Time::from_ms(70_000)));
        assert_eq!(drain(&mut wheel, Time::from_ms(70_000)), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_host_that_waits_for_ever_never_comes_out() {
        let mut wheel = Wheel::new();
        wheel.insert(HostId(3), Time::NEVER);
        assert!(drain(&mut wheel, Time::NEVER).is_empty());
        assert!(wheel.cancel(HostId(3)));
        assert!(!wheel.cancel(HostId(3)));
        assert_eq!((wheel.count(), wheel.next_due()), (0, None));
    }

    #[test]
    fn a_host_in_the_past_is_due_at_once() {
        let mut wheel = Wheel::new();
        drain(&mut wheel, Time::from_ms(1_000));
        wheel.insert(HostId(0), Time::from_ms(1));
        assert_eq!(wheel.next_due(), Some(Time::from_ms(1_000)));
        assert_eq!(drain(&mut wheel, Time::from_ms(1_000)), [0]);
    }

    #[test]
    fn hosts_put_back_while_others_come_out_are_not_lost() {
        let mut wheel = Wheel::new();
        (0..64).for_each(|id| wheel.insert(HostId(id), Time::from_ms(4_096 + u64::from(id))));
        let now = Time::from_ms(5_000);
        let mut popped = 0;
        while let Some(host) = wheel.pop_due(now) {
            popped += 1;
            if popped <= 64 {
                wheel.insert(host, Time::from_ms(u64::from(host.0)));
            }
        }
        assert_eq!((popped, wheel.count()), (128, 0));
    }

    /// Spans of every magnitude, from nanoseconds to beyond a century.
    fn span() -> impl Strategy<Value = u64> {
        (0..62u32, any::<u64>()).prop_map(|(bits, random)| random & ((1 << bits) - 1))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn behaves_as_a_heap_of_ticks(
            steps in prop::collection::vec((0..8u8, span(), 0..40u32), 1..200),
        ) {
            let mut wheel = Wheel::new();
            let mut heap = BinaryHeap::new();
            let mut ticks = [None; 40];
            let mut now = Time(0);
            for (step, span, id) in steps {
                let host = HostId(id);
                match step {
                    0..=4 if ticks[id as usize].is_none() => {
                        let due = if step == 0 { now.0 / 2 } else { now.0.saturating_add(span) };
                        wheel.insert(host, Time(due));
                        let tick = due.div_ceil(TICK_NS).max(now.0 / TICK_NS);
                        heap.push(Reverse((tick, id)));
                        ticks[id as usize] = Some(tick);
                    }
                    5 => {
                        prop_assert_eq!(wheel.cancel(host), ticks[id as usize].is_some());
                        ticks[id as usize] = None;
                    }
                    _ => {
                        now = Time(now.0.saturating_add(span));
                        let mut last = 0;
                        while let Some(host) = wheel.pop_due(now) {
                            let tick = ticks[host.0 as usize].take();
                            prop_assert!(tick.is_some_and(|t| last <= t && t <= now.0 / TICK_NS));
                            last = tick.unwrap_or(0);
                        }
                    }
                }
                // Cancelled and popped hosts leave stale entries in the heap.
                while heap.peek().is_some_and(|Reverse((t, id))| ticks[*id as usize] != Some(*t)) {
                    heap.pop();
                }
                let next = heap.peek().map(|Reverse((tick, _))| *tick);
                if step >= 6 {
                    prop_assert!(next.is_none_or(|tick| tick > now.0 / TICK_NS), "left behind");
                }
                prop_assert_eq!(wheel.next_due().is_some(), next.is_some());
                prop_assert!(wheel.next_due() <= next.map(Time::from_ms) || next.is_none());
                let first = wheel.first_due();
                prop_assert!(first >= wheel.next_due() && first <= next.map(Time::from_ms));
                prop_assert_eq!(wheel.count(), ticks.iter().flatten().count());
            }
        }
    }
}

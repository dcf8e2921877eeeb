//! Cold hosts: the key and the page count of each host that was evicted from RAM.
//!
//! This module owns a table from key to count, twelve bytes a slot. Evicted hosts flow in
//! ([`super::host_eviction`]). The count flows out, when a URL brings the host back. Invariants: a
//! key is in the table once; a part always has a free slot, where a search ends. Only its own core
//! touches it.
//!
//! 1. The table has [`COLD_PART_COUNT`] parts, chosen by the low bits of the key, that grow one by
//!    one: one table of a hundred million hosts would stop the core for a second when it grows.
//! 2. A part uses open addressing and probes slots one after the other. It is at most seven eighths
//!    full, and grows by a quarter when it is: 13.7 to 17.2 bytes a host. A table that doubles
//!    would be half empty after it has grown.
//! 3. When a host leaves, the slots behind it close up (backward-shift deletion), so that no mark
//!    of it slows later searches.
//!
//! The name is not kept. If another host with the same key comes, it is taken for this one: it
//! inherits the count and nothing else, because a cold host has no URL.

use crate::base::limits::COLD_PART_COUNT;
use crate::proto::url::HostKey;

pub struct ColdHosts {
    parts: Box<[Part]>,
    count: usize,
}

#[derive(Clone, Default)]
struct Part {
    slots: Box<[Slot]>,
    count: usize,
}

/// The key is stored in halves, because a whole one would pad a slot to sixteen bytes. A page count
/// of zero means that the slot is free.
#[derive(Clone, Copy, Default)]
struct Slot {
    key_low: u32,
    key_high: u32,
    page_count: u32,
}

const _: () = assert!(size_of::<Slot>() == 12);

const PART_BITS: u32 = COLD_PART_COUNT.ilog2();
/// Slots that a part begins with.
const SLOT_COUNT_MIN: usize = 8;

impl ColdHosts {
    pub fn new() -> ColdHosts {
        ColdHosts { parts: vec![Part::default(); COLD_PART_COUNT].into(), count: 0 }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns how many pages a cold host has had; zero if the host is not cold.
    pub fn page_count(&self, key: HostKey) -> u32 {
        let part = &self.parts[part_of(key)];
        part.find(key).map_or(0, |index| part.slots[index].page_count)
    }

    /// Adds a host that is not in the table. A host without a page leaves nothing to remember.
    pub fn insert(&mut self, key: HostKey, page_count: u32) {
        if page_count == 0 {
            return;
        }
        let part = &mut self.parts[part_of(key)];
        debug_assert!(part.find(key).is_none(), "a host leaves once");
        part.insert(Slot::new(key, page_count));
        self.count += 1;
    }

    /// Removes a host and returns its page count; `None` if it is not in the table.
    pub fn take(&mut self, key: HostKey) -> Option<u32> {
        let part = &mut self.parts[part_of(key)];
        let index = part.find(key)?;
        let page_count = part.slots[index].page_count;
        part.remove(index);
        self.count -= 1;
        Some(page_count)
    }

    /// Returns the hosts of one of the [`COLD_PART_COUNT`] parts, in no order.
    pub fn in_part(&self, part: usize) -> impl Iterator<Item = (HostKey, u32)> {
        let taken = self.parts[part].slots.iter().filter(|slot| slot.page_count > 0);
        taken.map(|slot| (slot.key(), slot.page_count))
    }
}

impl Slot {
    fn new(key: HostKey, page_count: u32) -> Slot {
        Slot { key_low: key.0 as u32, key_high: (key.0 >> 32) as u32, page_count }
    }

    fn key(self) -> HostKey {
        HostKey(u64::from(self.key_high) << 32 | u64::from(self.key_low))
    }
}

impl Part {
    fn find(&self, key: HostKey) -> Option<usize> {
        if self.count == 0 {
            return None;
        }
        let mut index = self.home(key);
        while self.slots[index].page_count > 0 {
            if self.slots[index].key() == key {
                return Some(index);
            }
            index = self.behind(index);
        }
        None
    }

    fn insert(&mut self, slot: Slot) {
        if (self.count + 1) * 8 > self.slots.len() * 7 {
            let slot_count = (self.slots.len() * 5 / 4).max(SLOT_COUNT_MIN);
            let empty = vec![Slot::default(); slot_count].into();
            let before = std::mem::replace(&mut self.slots, empty);
            before.iter().filter(|slot| slot.page_count > 0).for_each(|slot| self.place(*slot));
        }
        self.place(slot);
        self.count += 1;
    }

    fn place(&mut self, slot: Slot) {
        let mut index = self.home(slot.key());
        while self.slots[index].page_count > 0 {
            index = self.behind(index);
        }
        self.slots[index] = slot;
    }

    /// Frees a slot, and moves up the slots behind it that had no room nearer to their home.
    fn remove(&mut self, mut hole: usize) {
        let slot_count = self.slots.len();
        let mut index = hole;
        loop {
            index = self.behind(index);
            if self.slots[index].page_count == 0 {
                break;
            }
            let behind = |from: usize| (index + slot_count - from) % slot_count;
            if behind(self.home(self.slots[index].key())) >= behind(hole) {
                self.slots[hole] = self.slots[index];
                hole = index;
            }
        }
        self.slots[hole] = Slot::default();
        self.count -= 1;
    }

    /// Returns where a search begins, chosen by the bits above those that chose the part. The top
    /// bits chose the core and are nearly the same for all its hosts.
    fn home(&self, key: HostKey) -> usize {
        let bits = u64::from((key.0 >> PART_BITS) as u32);
        ((bits * self.slots.len() as u64) >> 32) as usize
    }

    fn behind(&self, index: usize) -> usize {
        if index + 1 == self.slots.len() { 0 } else { index + 1 }
    }
}

fn part_of(key: HostKey) -> usize {
    key.0 as usize & (COLD_PART_COUNT - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Returns a key in one part, with few homes for all such keys, so that they stand in each
    /// other's way.
    fn crowded(number: u64) -> HostKey {
        HostKey((number % 5) << 41 | (number << 44) | 7)
    }

    proptest! {
        #[test]
        fn counts_as_an_ordinary_map_does(
            steps in prop::collection::vec((0..60u64, 0..4u32, any::<bool>()), 1..400),
        ) {
            let (mut cold, mut naive) = (ColdHosts::new(), BTreeMap::new());
            for (number, page_count, is_crowded) in steps {
                let key = if is_crowded { crowded(number) } else { HostKey(number << 50 | 7) };
                if naive.contains_key(&key.0) || page_count == 3 {
                    prop_assert_eq!(cold.take(key), naive.remove(&key.0));
                } else {
                    cold.insert(key, page_count);
                    if page_count > 0 {
                        naive.insert(key.0, page_count);
                    }
                }
                prop_assert_eq!(cold.count(), naive.len());
                for (key, page_count) in &naive {
                    prop_assert_eq!(cold.page_count(HostKey(*key)), *page_count);
                }
            }
            let all: BTreeMap<u64, u32> = (0..COLD_PART_COUNT)
                .flat_map(|part| cold.in_part(part))
                .map(|(key, page_count)| (key.0, page_count))
                .collect();
            prop_assert_eq!(all, naive);
        }
    }

    #[test]
    fn a_cold_host_costs_less_than_eighteen_bytes_however_many_there_are() {
        let mut cold = ColdHosts::new();
        for number in 0..1_000_000u64 {
            cold.insert(HostKey(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)), 1);
            if number > 500_000 && number.is_multiple_of(10_000) {
                let slot_count: usize = cold.parts.iter().map(|part| part.slots.len()).sum();
                let each = (slot_count * size_of::<Slot>()) as f64 / cold.count() as f64;
                assert!((13.0..18.0).contains(&each), "{each} bytes each at {number}");
            }
        }
    }
}

//! Cold hosts: what stays in RAM of a host that has left it, which is its key and its page count.
//!
//! Owns a table from key to count, twelve bytes a slot. In: hosts that leave ([`super::sweep`]).
//! Out: the count, when a URL brings the host back. One core. Invariants: a key is in it once; a
//! part always has a free slot, where a search ends.
//!
//! 1. [`COLD_PART_COUNT`] parts, by the low bits of the key, that grow one by one: a whole table of
//!    a hundred million would stand still for a second when it grows.
//! 2. Within a part open addressing, the slots probed one after the other, at most seven eighths
//!    full, and a quarter more of them when it is: 13.7 to 17.2 bytes a host. A table that doubles
//!    would be half empty when it has.
//! 3. Whoever leaves is closed up behind, so that no mark of it stays in the way of later searches.
//!
//! The name is not kept. Another host with the same key would be taken for this one come back: it
//! would inherit the count and nothing else, for a cold host has no URL.

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

/// The key in halves: whole, it would pad a slot to sixteen bytes. No pages: the slot is free.
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

    /// How many pages a cold host has had; zero if it is none.
    pub fn page_count(&self, key: HostKey) -> u32 {
        let part = &self.parts[part_of(key)];
        part.find(key).map_or(0, |index| part.slots[index].page_count)
    }

    /// Adds a host that is not in it. One without a page leaves nothing to remember.
    pub fn insert(&mut self, key: HostKey, page_count: u32) {
        if page_count == 0 {
            return;
        }
        let part = &mut self.parts[part_of(key)];
        debug_assert!(part.find(key).is_none(), "a host leaves once");
        part.insert(Slot::new(key, page_count));
        self.count += 1;
    }

    /// Takes a host out; `None` if it is not in it.
    pub fn take(&mut self, key: HostKey) -> Option<u32> {
        let part = &mut self.parts[part_of(key)];
        let index = part.find(key)?;
        let page_count = part.slots[index].page_count;
        part.remove(index);
        self.count -= 1;
        Some(page_count)
    }

    /// The hosts of one part, of which there are [`COLD_PART_COUNT`]. In no order.
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

    /// Frees a slot, and moves up those behind it that could not have theirs for it.
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

    /// Where a search begins: by the bits above those that chose the part. The top ones chose the
    /// core, and are nearly the same for all.
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

    /// All in one part, and few homes in it: they stand in each other's way.
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

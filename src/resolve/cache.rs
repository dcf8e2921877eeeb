//! What is known of hosts: addresses, or that there is none, each until it expires.
//!
//! Owned by the resolver of one core. Names are kept as 128-bit hashes: an entry costs about 100
//! bytes in all, whatever the length of its name. The caller hashes with a secret seed, so nobody
//! can make two names that collide. Bounded: when it is full the clock hand passes over entries
//! that were used since it last came by, and the first that was not goes.

use crate::base::Time;
use crate::flow::ResolveError;
use hashbrown::HashTable;
use std::net::IpAddr;
use std::rc::Rc;

/// The addresses of a host, never an empty list, or why there are none to use.
pub(super) type Known = Result<Rc<[IpAddr]>, ResolveError>;

pub(super) struct Cache {
    entries: Vec<Entry>,
    /// Places in `entries`, by the low half of the key.
    index: HashTable<u32>,
    hand: usize,
    count_max: usize,
    evicted_count: u64,
}

struct Entry {
    key: u128,
    known: Known,
    expires: Time,
    used: bool,
}

impl Cache {
    pub fn new(count_max: usize) -> Cache {
        assert!((1..=u32::MAX as usize).contains(&count_max), "places are u32");
        let index = HashTable::new();
        Cache { entries: Vec::new(), index, hand: 0, count_max, evicted_count: 0 }
    }

    /// What is known and has not expired, with the time when it will.
    pub fn find(&mut self, key: u128, now: Time) -> Option<(&Known, Time)> {
        let place = self.place(key)?;
        let entry = &mut self.entries[place];
        if entry.expires <= now {
            return None;
        }
        entry.used = true;
        Some((&entry.known, entry.expires))
    }

    pub fn insert(&mut self, key: u128, known: Known, expires: Time, now: Time) {
        // Not used yet: an entry that nobody asks for again goes at the hand's first visit.
        let entry = Entry { key, known, expires, used: false };
        if let Some(place) = self.place(key) {
            self.entries[place] = entry;
            return;
        }
        let place = if self.entries.len() < self.count_max {
            self.entries.push(entry);
            self.entries.len() - 1
        } else {
            let place = self.evict(now);
            self.entries[place] = entry;
            place
        };
        let entries = &self.entries;
        let hash_of = |place: &u32| entries[*place as usize].key as u64;
        self.index.insert_unique(key as u64, place as u32, hash_of);
    }

    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Entries that had not expired and went for want of room.
    pub fn evicted_count(&self) -> u64 {
        self.evicted_count
    }

    fn place(&self, key: u128) -> Option<usize> {
        let same = |place: &u32| self.entries[*place as usize].key == key;
        self.index.find(key as u64, same).map(|place| *place as usize)
    }

    /// Takes an entry out of the index and says where it was. Ends within two rounds of the hand:
    /// the first leaves no entry marked.
    fn evict(&mut self, now: Time) -> usize {
        loop {
            let place = self.hand;
            self.hand = (self.hand + 1) % self.entries.len();
            let entry = &mut self.entries[place];
            let alive = entry.expires > now;
            if alive && entry.used {
                entry.used = false;
                continue;
            }
            self.evicted_count += u64::from(alive);
            let found = self.index.find_entry(entry.key as u64, |at| *at as usize == place);
            if let Ok(slot) = found {
                slot.remove();
            }
            return place;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Known = Err(ResolveError::NoName);

    fn at(last: u8) -> Known {
        Ok([IpAddr::from([192, 0, 2, last])].into())
    }

    #[test]
    fn an_entry_holds_until_it_expires_and_the_newest_counts() {
        let mut cache = Cache::new(8);
        cache.insert(1, at(1), Time(100), Time(0));
        assert_eq!(cache.find(1, Time(99)), Some((&at(1), Time(100))));
        assert_eq!(cache.find(1, Time(100)), None);
        assert_eq!(cache.find(2, Time(0)), None);
        cache.insert(1, NONE, Time(200), Time(100));
        assert_eq!(cache.find(1, Time(150)), Some((&NONE, Time(200))));
        assert_eq!((cache.count(), cache.evicted_count()), (1, 0));
    }

    #[test]
    fn keys_that_share_the_half_that_is_hashed_are_apart() {
        let mut cache = Cache::new(8);
        cache.insert(7, at(1), Time(100), Time(0));
        cache.insert(7 + (1 << 64), at(2), Time(100), Time(0));
        assert_eq!(cache.find(7, Time(0)).unwrap().0, &at(1));
        assert_eq!(cache.find(7 + (1 << 64), Time(0)).unwrap().0, &at(2));
    }

    #[test]
    fn a_full_cache_drops_what_was_not_used() {
        let mut cache = Cache::new(4);
        (0..4).for_each(|key| cache.insert(key, at(key as u8), Time(100), Time(0)));
        for key in [0, 1, 3] {
            assert!(cache.find(key, Time(1)).is_some());
        }
        cache.insert(9, at(9), Time(100), Time(1));
        let kept: Vec<u128> = (0..10).filter(|key| cache.find(*key, Time(1)).is_some()).collect();
        assert_eq!(kept, [0, 1, 3, 9]);
        assert_eq!((cache.count(), cache.evicted_count()), (4, 1));
    }

    #[test]
    fn an_expired_entry_goes_before_a_living_one_and_is_not_counted() {
        let mut cache = Cache::new(3);
        cache.insert(0, at(0), Time(900), Time(0));
        cache.insert(1, at(1), Time(10), Time(0));
        cache.insert(2, at(2), Time(900), Time(0));
        assert!((0..3).all(|key| cache.find(key, Time(1)).is_some()));
        cache.insert(3, at(3), Time(900), Time(10));
        let kept: Vec<u128> = (0..4).filter(|key| cache.find(*key, Time(10)).is_some()).collect();
        assert_eq!((kept, cache.evicted_count()), (vec![0, 2, 3], 0));
    }

    #[test]
    fn through_many_evictions_the_index_stays_true() {
        let mut cache = Cache::new(64);
        for step in 0..10_000u128 {
            let key = step * 0x9E37_79B9_7F4A_7C15_F39C_0C85;
            cache.insert(key, at(step as u8), Time(1 << 40), Time(0));
            assert_eq!(cache.find(key, Time(0)).unwrap().0, &at(step as u8));
        }
        assert_eq!((cache.count(), cache.index.len()), (64, 64));
        assert_eq!(cache.evicted_count(), 10_000 - 64);
    }
}

//! What is known about hosts: their addresses, or that they have none, each until it expires.
//!
//! The resolver of one core owns the cache. Names are stored and compared in full: a host that got
//! another host's addresses would get its requests too. An entry costs about 150 bytes in all. The
//! caller hashes names with a secret key, so nobody can fill one place of the table. The cache is
//! bounded. When it is full, a clock hand passes over the entries that were used since its last
//! visit and evicts the first that was not.

use crate::base::Time;
use crate::crawl::flow::ResolveError;
use hashbrown::HashTable;
use std::net::IpAddr;
use std::rc::Rc;

/// The addresses of a host, never an empty list, or the reason why there are none to use.
pub(super) type Known = Result<Rc<[IpAddr]>, ResolveError>;

/// What is asked about a host. The two kinds are remembered separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Wanted {
    /// IPv4 addresses, or IPv6 addresses if there are none.
    Any,
    V6,
}

/// The key of an entry. The caller computes the hash, which is the same for equal names.
#[derive(Clone, Copy)]
pub(super) struct Name<'n> {
    pub host: &'n str,
    pub wanted: Wanted,
    pub hash: u64,
}

pub(super) struct Cache {
    entries: Vec<Entry>,
    /// Indexes into `entries`, found by the hash of the name.
    index: HashTable<u32>,
    hand: usize,
    count_max: usize,
    evicted_count: u64,
}

struct Entry {
    host: Box<str>,
    wanted: Wanted,
    hash: u64,
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

    /// Returns what is known and has not expired, with the time when it will expire.
    pub fn find(&mut self, name: Name<'_>, now: Time) -> Option<(&Known, Time)> {
        let place = self.place(name)?;
        let entry = &mut self.entries[place];
        if entry.expires <= now {
            return None;
        }
        entry.used = true;
        Some((&entry.known, entry.expires))
    }

    pub fn insert(&mut self, name: Name<'_>, known: Known, expires: Time, now: Time) {
        // The entry is not marked as used: if nobody asks for it again, it is evicted at the hand's
        // first visit.
        let Name { host, wanted, hash } = name;
        let entry = Entry { host: host.into(), wanted, hash, known, expires, used: false };
        if let Some(place) = self.place(name) {
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
        let hash_of = |place: &u32| entries[*place as usize].hash;
        self.index.insert_unique(hash, place as u32, hash_of);
    }

    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of entries that were evicted for lack of room before they expired.
    pub fn evicted_count(&self) -> u64 {
        self.evicted_count
    }

    fn place(&self, name: Name<'_>) -> Option<usize> {
        let is_same = |place: &u32| {
            let entry = &self.entries[*place as usize];
            *entry.host == *name.host && entry.wanted == name.wanted
        };
        self.index.find(name.hash, is_same).map(|place| *place as usize)
    }

    /// Evicts an entry, takes it out of the index and returns its place. Ends within two rounds of
    /// the hand, because the first round leaves no entry marked as used.
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
            let found = self.index.find_entry(entry.hash, |at| *at as usize == place);
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

    fn name(host: &str) -> Name<'_> {
        let spread = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Name { host, wanted: Wanted::Any, hash: host.bytes().fold(7, spread) }
    }

    fn at(last: u8) -> Known {
        Ok([IpAddr::from([192, 0, 2, last])].into())
    }

    #[test]
    fn an_entry_holds_until_it_expires_and_the_newest_counts() {
        let mut cache = Cache::new(8);
        cache.insert(name("1"), at(1), Time(100), Time(0));
        assert_eq!(cache.find(name("1"), Time(99)), Some((&at(1), Time(100))));
        assert_eq!(cache.find(name("1"), Time(100)), None);
        assert_eq!(cache.find(name("2"), Time(0)), None);
        cache.insert(name("1"), NONE, Time(200), Time(100));
        assert_eq!(cache.find(name("1"), Time(150)), Some((&NONE, Time(200))));
        assert_eq!((cache.count(), cache.evicted_count()), (1, 0));
    }

    #[test]
    fn names_that_share_their_hash_are_apart() {
        let (mut cache, hash) = (Cache::new(8), 7);
        let (host, other) = ("victim.test", "made-to-collide.test");
        let names = [(host, Wanted::Any), (other, Wanted::Any), (host, Wanted::V6)];
        let names = names.map(|(host, wanted)| Name { host, wanted, hash });
        for (last, name) in names.into_iter().enumerate() {
            assert_eq!(cache.find(name, Time(0)), None, "{last}");
            cache.insert(name, at(last as u8), Time(100), Time(0));
        }
        for (last, name) in names.into_iter().enumerate() {
            assert_eq!(cache.find(name, Time(0)).unwrap().0, &at(last as u8));
        }
    }

    #[test]
    fn a_full_cache_drops_what_was_not_used() {
        let mut cache = Cache::new(4);
        (0..4).for_each(|key| {
            cache.insert(name(&key.to_string()), at(key as u8), Time(100), Time(0))
        });
        for key in [0, 1, 3] {
            assert!(cache.find(name(&key.to_string()), Time(1)).is_some());
        }
        cache.insert(name("9"), at(9), Time(100), Time(1));
        let kept: Vec<u32> =
            (0..10).filter(|key| cache.find(name(&key.to_string()), Time(1)).is_some()).collect();
        assert_eq!(kept, [0, 1, 3, 9]);
        assert_eq!((cache.count(), cache.evicted_count()), (4, 1));
    }

    #[test]
    fn an_expired_entry_goes_before_a_living_one_and_is_not_counted() {
        let mut cache = Cache::new(3);
        cache.insert(name("0"), at(0), Time(900), Time(0));
        cache.insert(name("1"), at(1), Time(10), Time(0));
        cache.insert(name("2"), at(2), Time(900), Time(0));
        assert!((0..3).all(|key| cache.find(name(&key.to_string()), Time(1)).is_some()));
        cache.insert(name("3"), at(3), Time(900), Time(10));
        let kept: Vec<u32> =
            (0..4).filter(|key| cache.find(name(&key.to_string()), Time(10)).is_some()).collect();
        assert_eq!((kept, cache.evicted_count()), (vec![0, 2, 3], 0));
    }

    #[test]
    fn through_many_evictions_the_index_stays_true() {
        let mut cache = Cache::new(64);
        for key in 0..10_000u32 {
            cache.insert(name(&key.to_string()), at(key as u8), Time(1 << 40), Time(0));
            assert_eq!(cache.find(name(&key.to_string()), Time(0)).unwrap().0, &at(key as u8));
        }
        assert_eq!((cache.count(), cache.index.len()), (64, 64));
        assert_eq!(cache.evicted_count(), 10_000 - 64);
    }
}

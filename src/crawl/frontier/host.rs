//! Hosts: the back queues. Each host has its URLs and its next-eligible time.
//!
//! This module owns every host of this core that is in RAM, in a slab by [`HostId`], found by
//! [`HostKey`]. URLs flow in. The URLs of one host flow out, the best class first but with turns
//! for all classes. Invariants: `queued_count` is the sum of the four queues with their tails; an
//! empty queue holds no memory; two hosts never share a key. An evicted host frees its slot for
//! another ([`super::host_eviction`]). Only its own core touches it.
//!
//! An idle host costs, beside the shard's data: the record, its links in the wheel and the front
//! queues, its name, and its place in the index (see [`IDLE_BYTES`]).

use super::front::{ClassShares, Front};
use super::index::HostIndex;
use super::packed::{PackedQueue, Record};
use super::paged::Paged;
use super::wheel::Wheel;
use crate::base::Time;
use crate::base::limits::{HOST_IDLE_BYTES_MAX, HOST_ORIGIN_COUNT_MAX};
use crate::crawl::flow::Class;
use crate::proto::url::{HostKey, Scheme, Text, Url};
use crate::sys::memory;

/// A host of this core while it is in RAM, by its slot. Whoever keeps an id over a wait must have
/// something of that host under way (busy, open or queued); otherwise the slot may be another
/// host's by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostId(pub u32);

/// Where a host stands in its schedule:
///
/// ```text
/// Idle -> (URL) -> Waiting -> (time) -> Ready -> (popped) -> Busy -> (released) -> Waiting or Idle
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostState {
    /// No URL is queued.
    Idle,
    /// The host is in the wheel until its `eligible_at`.
    Waiting,
    /// The host is in the front queues.
    Ready,
    /// The host was popped and is not yet released.
    Busy,
}

/// Scheme and port of a host's requests. The host keeps the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    pub scheme: Scheme,
    pub port: u16,
}

impl Origin {
    pub fn of<T: Text>(url: &Url<T>) -> Origin {
        Origin { scheme: url.scheme(), port: url.port() }
    }

    /// `scheme://host[:port]`, as [`Url::origin`] writes it.
    pub fn text(self, host_name: &str) -> String {
        let scheme = self.scheme.as_str();
        if self.port == self.scheme.default_port() {
            [scheme, "://", host_name].concat()
        } else {
            format!("{scheme}://{host_name}:{}", self.port)
        }
    }
}

/// The head of the queue of each class, allocated while it holds something. What comes after a head
/// may be on disk ([`super::spill`]).
pub type Queues = [Option<Box<PackedQueue>>; 4];

pub struct Host<X> {
    key: HostKey,
    name: Box<str>,
    queues: Queues,
    /// Origins beyond the first; most hosts have none. The list is boxed twice, so that it costs a
    /// host eight bytes and not 24.
    #[allow(clippy::box_collection)]
    further_origins: Option<Box<Vec<Origin>>>,
    /// No request may be sent before this time.
    pub eligible_at: Time,
    pub queued_count: u32,
    /// URLs handed out and not put back for a retry.
    pub fetched_count: u32,
    first_origin: Origin,
    pub state: HostState,
    /// One bit per class: the host stands in that class's list of hosts to evict from.
    pub eviction_listed: u8,
    /// One bit per class: URLs behind the head are on disk. Four bits higher: the host stands in
    /// that class's list of hosts to spill from.
    tail_bits: u8,
    shares: ClassShares,
    pub data: X,
}

/// Bytes of a host name, with its allocation's rounding; the median of names on the web is under 20
/// bytes.
const NAME_BYTES: usize = 48;
/// Bytes that an idle host costs, without the shard's data.
pub const IDLE_BYTES: usize = size_of::<Host<()>>()
    + Wheel::BYTES_PER_HOST
    + Front::BYTES_PER_HOST
    + NAME_BYTES
    + HostIndex::BYTES_PER_HOST;

const _: () = {
    assert!(size_of::<Host<()>>() <= 96);
    assert!(IDLE_BYTES <= HOST_IDLE_BYTES_MAX);
};

impl<X: Default> Host<X> {
    fn new(key: HostKey, name: &str, first_origin: Origin) -> Host<X> {
        Host {
            key,
            name: name.into(),
            queues: Queues::default(),
            further_origins: None,
            eligible_at: Time::ZERO,
            queued_count: 0,
            fetched_count: 0,
            first_origin,
            state: HostState::Idle,
            eviction_listed: 0,
            tail_bits: 0,
            shares: ClassShares::default(),
            data: X::default(),
        }
    }

    /// Takes over the list entries of the host that had this slot before. The lists of hosts to
    /// evict or to spill from hold slots, whoever is in them, and find out when a slot's turn
    /// comes. To take a slot out when its host leaves would need a search.
    fn inherit_lists(&mut self, before: &Host<X>) {
        self.eviction_listed = before.eviction_listed;
        self.tail_bits = before.tail_bits & 0xF0;
    }
}

impl<X> Host<X> {
    pub fn key(&self) -> HostKey {
        self.key
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reports whether no host is in this slot: every host has a name.
    pub fn is_vacant(&self) -> bool {
        self.name.is_empty()
    }

    pub fn origin(&self, index: u8) -> Origin {
        match (index, &self.further_origins) {
            (0, _) | (_, None) => self.first_origin,
            (_, Some(further)) => further[index as usize - 1],
        }
    }

    pub fn origin_count(&self) -> usize {
        1 + self.further_origins.as_ref().map_or(0, |further| further.len())
    }

    /// Returns the index of an origin and adds it if it is new; `None` if the host has too many.
    pub fn intern_origin(&mut self, origin: Origin) -> Option<u8> {
        if origin == self.first_origin {
            return Some(0);
        }
        let further = self.further_origins.get_or_insert_default();
        if let Some(index) = further.iter().position(|known| *known == origin) {
            return Some(index as u8 + 1);
        }
        if further.len() + 1 >= HOST_ORIGIN_COUNT_MAX {
            return None;
        }
        further.push(origin);
        Some(further.len() as u8)
    }

    pub fn share_cursor(&self) -> u8 {
        self.shares.cursor()
    }

    pub fn set_share_cursor(&mut self, cursor: u8) {
        self.shares = ClassShares::at(cursor);
    }

    pub fn push_back(&mut self, class: Class, record: &Record<&str>) {
        self.queues[class.index()].get_or_insert_default().push_back(record);
        self.queued_count += 1;
    }

    pub fn push_front(&mut self, class: Class, record: &Record<&str>) {
        self.queues[class.index()].get_or_insert_default().push_front(record);
        self.queued_count += 1;
    }

    /// Returns the class whose turn it is.
    pub fn next_class(&self) -> Option<Class> {
        self.shares.peek(|class| self.has(class))
    }

    /// Removes and returns the first record of the class whose turn it is. Returns `None`, and the
    /// class keeps its turn, if the head of that class is empty.
    pub fn pop(&mut self) -> Option<(Class, Record)> {
        let (queues, tail_bits) = (&self.queues, self.tail_bits);
        let mut shares = self.shares;
        let class = shares
            .take(|class| queues[class.index()].is_some() || tail_bits >> class.index() & 1 == 1)?;
        let queue = &mut self.queues[class.index()];
        let record = queue.as_mut()?.pop_front()?;
        free_if_empty(queue);
        self.shares = shares;
        self.queued_count -= 1;
        Some((class, record))
    }

    /// Returns the origin of the URL that `pop` would choose, if that URL is not on disk.
    pub fn peek_origin(&self) -> Option<Origin> {
        let index = self.head(self.next_class()?)?.front_origin()?;
        Some(self.origin(index))
    }

    /// Drops the newest URL of a class's head and returns how many bytes it took.
    pub fn drop_newest(&mut self, class: Class) -> Option<usize> {
        let queue = &mut self.queues[class.index()];
        let size_bytes = queue.as_mut()?.drop_back()?;
        free_if_empty(queue);
        self.queued_count -= 1;
        Some(size_bytes)
    }

    pub fn take_head(&mut self, class: Class) -> Option<Box<PackedQueue>> {
        let head = self.queues[class.index()].take()?;
        self.queued_count -= head.count();
        Some(head)
    }

    pub fn head(&self, class: Class) -> Option<&PackedQueue> {
        self.queues[class.index()].as_deref()
    }

    /// Returns the RAM that the head of a class takes.
    pub fn head_memory_bytes(&self, class: Class) -> usize {
        self.head(class).map_or(0, PackedQueue::memory_bytes)
    }

    /// Lets `change` move records between the head of a class and its tail: `queued_count` stays.
    pub fn move_head(&mut self, class: Class, change: impl FnOnce(&mut PackedQueue)) {
        let queue = &mut self.queues[class.index()];
        change(queue.get_or_insert_default());
        free_if_empty(queue);
    }

    /// Reports whether there are URLs of a class, in RAM or on disk.
    pub fn has(&self, class: Class) -> bool {
        self.queues[class.index()].is_some() || self.is_tailed(class)
    }

    /// Reports whether more than `count` URLs of a class are in its head.
    pub fn has_more_than(&self, class: Class, count: u64) -> bool {
        self.head(class).is_some_and(|head| u64::from(head.count()) > count)
    }

    pub fn is_tailed(&self, class: Class) -> bool {
        self.tail_bits >> class.index() & 1 == 1
    }

    pub fn set_tailed(&mut self, class: Class, is_tailed: bool) {
        self.tail_bits &= !(1 << class.index());
        self.tail_bits |= u8::from(is_tailed) << class.index();
    }

    /// Reports whether the host stands in the class's list of hosts to spill from.
    pub fn is_spill_listed(&self, class: Class) -> bool {
        self.tail_bits >> (4 + class.index()) & 1 == 1
    }

    pub fn set_spill_listed(&mut self, class: Class, is_listed: bool) {
        self.tail_bits &= !(0x10 << class.index());
        self.tail_bits |= u8::from(is_listed) << (4 + class.index());
    }

    /// Prefetches the cache lines of the host's record, because a URL is to be queued soon.
    #[inline]
    pub fn prefetch(&self) {
        memory::prefetch(self);
        memory::prefetch(&self.eligible_at);
        memory::prefetch(&self.data);
    }

    /// Goes one step on from [`Host::prefetch`]: prefetches the name and the queues.
    #[inline]
    pub fn prefetch_queues(&self) {
        memory::prefetch(&*self.name);
        self.queues.iter().flatten().for_each(|queue| memory::prefetch(&**queue));
    }

    /// Goes one step on from [`Host::prefetch_queues`]: prefetches where the last record of each
    /// queue ends.
    #[inline]
    pub fn prefetch_records(&self) {
        self.queues.iter().flatten().for_each(|queue| queue.prefetch());
    }

    pub fn best_class(&self) -> Option<Class> {
        Class::ALL.into_iter().find(|class| self.has(*class))
    }
}

fn free_if_empty(queue: &mut Option<Box<PackedQueue>>) {
    if queue.as_ref().is_some_and(|queue| queue.count() == 0) {
        *queue = None;
    }
}

pub struct HostTable<X> {
    hosts: Paged<Host<X>>,
    /// Slots whose hosts have left.
    vacant: Vec<u32>,
    index: HostIndex,
}

/// Another host of this core has the same key. Keys are 64 bits, hashed under the crawl's secret,
/// so this happens by chance alone: in about one of 3,700 crawls with a hundred million hosts. If
/// the two were taken for one, URLs of one would be asked of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyTaken;

impl<X: Default> HostTable<X> {
    pub fn new() -> HostTable<X> {
        HostTable { hosts: Paged::new(), vacant: Vec::new(), index: HostIndex::new() }
    }

    pub fn by_key(&self, key: HostKey) -> Option<HostId> {
        self.index.find(key, |id| self.hosts[id].key == key).map(HostId)
    }

    /// Returns the host of that name and key, if it is in RAM.
    pub fn by_name(&self, key: HostKey, name: &str) -> Result<Option<HostId>, KeyTaken> {
        match self.by_key(key) {
            Some(host) if self[host].name() != name => Err(KeyTaken),
            found => Ok(found),
        }
    }

    /// Prefetches the place in the index where a search for `key` begins.
    pub fn prefetch(&self, key: HostKey) {
        self.index.prefetch(key);
    }

    /// Returns the host that a search will probably find, without reading its record.
    pub fn guess(&self, key: HostKey) -> Option<HostId> {
        self.index.guess(key).map(HostId)
    }

    /// Adds a host that [`HostTable::by_name`] did not find.
    pub fn add(&mut self, key: HostKey, name: &str, first_origin: Origin) -> HostId {
        let mut host = Host::new(key, name, first_origin);
        let id = match self.vacant.pop() {
            Some(id) => {
                host.inherit_lists(&self.hosts[id]);
                self.hosts[id] = host;
                id
            }
            None => {
                self.hosts.push(host);
                self.hosts.len() as u32 - 1
            }
        };
        let hosts = &self.hosts;
        self.index.insert(key, id, |id| hosts[id].key);
        HostId(id)
    }

    /// Frees the slot of a host that has no URL; returns its key and its page count.
    pub fn remove(&mut self, host: HostId) -> (HostKey, u32) {
        let leaving = &self.hosts[host.0];
        let (key, page_count) = (leaving.key, leaving.fetched_count);
        assert!(leaving.state == HostState::Idle && leaving.queued_count == 0, "no URL is queued");
        assert!(Class::ALL.into_iter().all(|class| !leaving.has(class)), "no tail is left");
        let hosts = &self.hosts;
        self.index.remove(key, host.0, |id| hosts[id].key);
        let mut vacancy = Host::new(HostKey(0), "", leaving.first_origin);
        vacancy.inherit_lists(leaving);
        self.hosts[host.0] = vacancy;
        self.vacant.push(host.0);
        (key, page_count)
    }

    pub fn count(&self) -> usize {
        self.hosts.len() - self.vacant.len()
    }

    /// Returns the number of slots: of hosts, and of hosts that left and were not replaced.
    pub fn slot_count(&self) -> usize {
        self.hosts.len()
    }
}

impl<X> std::ops::Index<HostId> for HostTable<X> {
    type Output = Host<X>;

    fn index(&self, host: HostId) -> &Host<X> {
        &self.hosts[host.0]
    }
}

impl<X> std::ops::IndexMut<HostId> for HostTable<X> {
    fn index_mut(&mut self, host: HostId) -> &mut Host<X> {
        &mut self.hosts[host.0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::hash_key::test_key;
    use crate::crawl::flow::Via;

    fn added(table: &mut HostTable<()>, text: &str) -> HostId {
        let url = url(text);
        add(table, url.host(), Origin::of(&url))
    }

    fn url(text: &str) -> Url {
        Url::parse(text).expect("a test's URL")
    }

    fn record(path: &str) -> Record<&str> {
        let trail = Box::default();
        Record { origin: 0, depth: 0, tries: 0, via: Via::Link, trail, path_and_query: path }
    }

    fn add<X: Default>(table: &mut HostTable<X>, name: &str, origin: Origin) -> HostId {
        table.add(HostKey::of(&test_key(), name), name, origin)
    }

    fn by_url<X: Default>(table: &HostTable<X>, url: &Url) -> Result<Option<HostId>, KeyTaken> {
        table.by_name(url.host_key(&test_key()), url.host())
    }

    #[test]
    fn a_host_is_found_by_key_and_by_name() {
        let mut table = HostTable::<()>::new();
        let ids: Vec<_> =
            (0..5_000).map(|n| added(&mut table, &format!("http://host{n}.test/"))).collect();
        for (n, id) in ids.iter().enumerate() {
            let url = url(&format!("https://host{n}.test:8443/x"));
            assert_eq!(by_url(&table, &url), Ok(Some(*id)));
            assert_eq!(table.by_key(url.host_key(&test_key())), Some(*id));
            assert_eq!(table[*id].name(), url.host());
        }
        assert_eq!(by_url(&table, &url("http://other.test/")), Ok(None));
    }

    #[test]
    fn another_host_with_the_same_key_is_refused() {
        let mut table = HostTable::<()>::new();
        let id = added(&mut table, "http://one.test/");
        table[id].name = "two.test".into();
        assert_eq!(by_url(&table, &url("http://one.test/")), Err(KeyTaken));
    }

    #[test]
    fn a_slot_goes_to_the_next_host_and_takes_nothing_along_but_its_place_in_lists() {
        let mut table = HostTable::<u32>::new();
        let one = url("https://one.test:8443/");
        let id = add(&mut table, one.host(), Origin::of(&one));
        let other = add(&mut table, "other.test", Origin::of(&one));
        let host = &mut table[id];
        host.intern_origin(Origin { scheme: Scheme::Http, port: 80 });
        host.push_back(Class::Low, &record("/"));
        host.pop();
        (host.fetched_count, host.eligible_at, host.data) = (7, Time::from_ms(9), 5);
        host.eviction_listed = 0b1000;
        host.set_spill_listed(Class::Low, true);
        assert_eq!(table.remove(id), (one.host_key(&test_key()), 7));
        assert_eq!((table.count(), table.slot_count()), (1, 2));
        assert_eq!((by_url(&table, &one), table.by_key(HostKey(0))), (Ok(None), None));
        assert!(table[id].is_vacant() && !table[other].is_vacant());
        let next = add(&mut table, "next.test", Origin { scheme: Scheme::Http, port: 81 });
        let host = &table[next];
        assert_eq!(
            (next, host.name(), host.key()),
            (id, "next.test", HostKey::of(&test_key(), "next.test"))
        );
        assert_eq!((host.fetched_count, host.eligible_at, host.data), (0, Time::ZERO, 0));
        assert_eq!((host.origin_count(), host.origin(0).port), (1, 81));
        assert_eq!(host.eviction_listed, 0b1000, "the slot stays in the list");
        assert!(host.is_spill_listed(Class::Low) && !host.is_tailed(Class::Low));
        assert_eq!(add(&mut table, "third.test", Origin::of(&one)), HostId(2));
    }

    #[test]
    #[should_panic(expected = "no URL is queued")]
    fn a_host_with_a_url_does_not_leave() {
        let mut table = HostTable::<()>::new();
        let id = added(&mut table, "http://h.test/");
        table[id].push_back(Class::Low, &record("/"));
        table.remove(id);
    }

    #[test]
    fn origins_are_few_and_write_themselves_as_the_url_does() {
        let mut table = HostTable::<()>::new();
        let id = added(&mut table, "http://h.test/");
        for port in 0..HOST_ORIGIN_COUNT_MAX as u16 - 1 {
            let url = url(&format!("https://h.test:{}/", 443 + port));
            let index = table[id].intern_origin(Origin::of(&url)).expect("room");
            assert_eq!(table[id].intern_origin(Origin::of(&url)), Some(index));
            assert_eq!(table[id].origin(index).text("h.test"), url.origin());
        }
        let beyond = Origin { scheme: Scheme::Https, port: 1 };
        assert_eq!(table[id].intern_origin(beyond), None);
        assert_eq!(table[id].origin(0), Origin { scheme: Scheme::Http, port: 80 });
    }

    #[test]
    fn within_a_host_every_class_has_its_turns() {
        let mut table = HostTable::<()>::new();
        let id = added(&mut table, "http://h.test/");
        let host = &mut table[id];
        for class in Class::ALL {
            (0..15).for_each(|_| host.push_back(class, &record("/")));
        }
        let mut shares = [0; 4];
        (0..15).for_each(|_| shares[host.pop().map_or(0, |(class, _)| class.index())] += 1);
        assert_eq!(shares, [8, 4, 2, 1]);
        while host.pop().is_some() {}
        assert!(host.queues.iter().all(Option::is_none), "empty queues hold no memory");
    }
}

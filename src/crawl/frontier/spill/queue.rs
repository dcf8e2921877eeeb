//! Queues with their tails: how the frontier pushes, pops and drops a host's URLs, wherever they
//! are.

use super::{Place, Refill, Tails};
use crate::base::limits::QUEUE_LOW_COUNT;
use crate::crawl::flow::Class;
use crate::crawl::frontier::host::{Host, HostId};
use crate::crawl::frontier::packed::{PackedQueue, Record};
use crate::sys::memory;

/// The result of [`Tails::pop`].
pub enum Popped {
    Record(Class, Record),
    OnDisk,
    Nothing,
}

impl Tails {
    /// Prefetches each `behind` of a host, because a record is to be pushed soon.
    #[inline]
    pub fn prefetch<X>(&self, id: HostId, host: &Host<X>) {
        self.behinds(id, host).for_each(memory::prefetch);
    }

    /// Goes one step on from [`Tails::prefetch`]: prefetches where the last record ends.
    #[inline]
    pub fn prefetch_records<X>(&self, id: HostId, host: &Host<X>) {
        self.behinds(id, host).for_each(PackedQueue::prefetch);
    }

    /// Returns what came since the last spill, for each class that has a tail.
    fn behinds<X>(&self, id: HostId, host: &Host<X>) -> impl Iterator<Item = &PackedQueue> {
        let tailed = Class::ALL.into_iter().filter(|class| host.is_tailed(*class));
        tailed.filter_map(move |class| self.behind(id, class))
    }

    pub fn push_back<X>(
        &mut self,
        id: HostId,
        host: &mut Host<X>,
        class: Class,
        record: &Record<&str>,
    ) {
        if host.is_tailed(class) {
            let behind = &mut self.tail(Place::new(id, class)).behind;
            let before = behind.memory_bytes();
            behind.push_back(record);
            let after = behind.memory_bytes();
            host.queued_count += 1;
            self.behind_changed(class, before, after);
        } else {
            let before = host.head_memory_bytes(class);
            host.push_back(class, record);
            self.head_changed(class, before, host);
        }
        self.list(id, host, class);
    }

    pub fn push_front<X>(
        &mut self,
        id: HostId,
        host: &mut Host<X>,
        class: Class,
        record: &Record<&str>,
    ) {
        let before = host.head_memory_bytes(class);
        host.push_front(class, record);
        self.head_changed(class, before, host);
        self.list(id, host, class);
    }

    /// Returns the host's next record. If it is on disk, requests it, before all that are requested
    /// in advance.
    pub fn pop<X>(&mut self, id: HostId, host: &mut Host<X>) -> Popped {
        let Some(class) = host.next_class() else { return Popped::Nothing };
        let before = host.head_memory_bytes(class);
        let Some((class, record)) = host.pop() else {
            let place = Place::new(id, class);
            if self.tail(place).refill != Refill::Reading {
                self.tail(place).refill = Refill::Wanted;
                self.wanted.push_front(place);
            }
            return Popped::OnDisk;
        };
        self.head_changed(class, before, host);
        self.look_ahead(id, host, class);
        Popped::Record(class, record)
    }

    /// Drops the newest record of a class or, if the newest are on disk, a chunk of them. Returns
    /// how many they were, and their bytes.
    pub fn drop_newest<X>(
        &mut self,
        id: HostId,
        host: &mut Host<X>,
        class: Class,
    ) -> Option<(u32, usize)> {
        if !host.is_tailed(class) {
            let before = host.head_memory_bytes(class);
            let size_bytes = host.drop_newest(class)?;
            self.head_changed(class, before, host);
            return Some((1, size_bytes));
        }
        let place = Place::new(id, class);
        let behind = &mut self.tail(place).behind;
        let before = behind.memory_bytes();
        if let Some(size_bytes) = behind.drop_back() {
            let after = behind.memory_bytes();
            self.behind_changed(class, before, after);
            host.queued_count -= 1;
            return Some((1, size_bytes));
        }
        let chunk = self.tail(place).chunks.pop_back()?;
        let count = u32::from(chunk.count);
        self.segments.release(chunk);
        self.figures.url_count -= u64::from(count);
        host.queued_count -= count;
        self.end_if_read(id, host, class);
        Some((count, chunk.size.into()))
    }

    /// Removes and returns the head of a class, and requests what comes behind it.
    pub fn take_head<X>(
        &mut self,
        id: HostId,
        host: &mut Host<X>,
        class: Class,
    ) -> Option<Box<PackedQueue>> {
        let before = host.head_memory_bytes(class);
        let head = host.take_head(class);
        self.head_changed(class, before, host);
        self.look_ahead(id, host, class);
        head
    }

    /// Returns the records of a class that came since the last spill.
    pub fn behind(&self, id: HostId, class: Class) -> Option<&PackedQueue> {
        self.tails.get(&Place::new(id, class)).map(|tail| &tail.behind)
    }

    /// Ends a tail whose last chunk was read or dropped: what lay behind the chunk joins the head.
    pub(super) fn end_if_read<X>(&mut self, id: HostId, host: &mut Host<X>, class: Class) {
        let place = Place::new(id, class);
        if !self.tail(place).chunks.is_empty() {
            return;
        }
        let ended = self.tails.remove(&place).unwrap_or_default();
        if ended.refill != Refill::None {
            self.unread.push(id);
        }
        let behind = ended.behind;
        host.set_tailed(class, false);
        self.behind_changed(class, behind.memory_bytes(), 0);
        let before = host.head_memory_bytes(class);
        host.move_head(class, |head| head.append_queue(behind));
        self.head_changed(class, before, host);
    }

    /// Requests the next chunk if the head runs low.
    fn look_ahead<X>(&mut self, id: HostId, host: &Host<X>, class: Class) {
        let count = host.head(class).map_or(0, PackedQueue::count);
        if count > QUEUE_LOW_COUNT || !host.is_tailed(class) {
            return;
        }
        let place = Place::new(id, class);
        let tail = self.tail(place);
        if tail.refill == Refill::None {
            tail.refill = Refill::Wanted;
            self.wanted.push_back(place);
        }
    }

    /// Accounts for the RAM that the head of a class takes beyond its share. The whole head took
    /// `before` until now.
    pub(super) fn head_changed<X>(&mut self, class: Class, before: usize, host: &Host<X>) {
        let beyond = |bytes: usize| bytes.saturating_sub(self.limits.head_bytes);
        let after = beyond(host.head_memory_bytes(class));
        self.behind_changed(class, beyond(before), after);
    }

    /// Accounts for the RAM that a queue takes beyond its head's share.
    pub(super) fn behind_changed(&mut self, class: Class, before: usize, after: usize) {
        let resident_bytes = &mut self.resident_bytes[class.index()];
        *resident_bytes = *resident_bytes + after as u64 - before as u64;
    }

    /// Lists a host that has something to give up and is not listed yet.
    pub(super) fn list<X>(&mut self, id: HostId, host: &mut Host<X>, class: Class) {
        if host.is_spill_listed(class) {
            return;
        }
        let has_behind = || self.behind(id, class).is_some_and(|behind| behind.count() > 0);
        let has_some = host.head_memory_bytes(class) > self.limits.head_bytes
            || (host.is_tailed(class) && has_behind());
        if has_some {
            host.set_spill_listed(class, true);
            self.spill_lists[class.index()].push_back(id);
        }
    }
}

//! Lists of hosts: doubly linked rings through one slab of links, so that a host leaves any list in
//! O(1) and a list costs four bytes.
//!
//! This module owns one link per host id and, in it, a note of the list's owner. The owner keeps
//! the heads. Host ids flow in and out. Invariants: a host is in at most one list of a [`Links`]; a
//! head is `NONE` or the first host of its list. Only its own core touches it.

use super::paged::Paged;
use crate::sys::memory;

/// The value that stands for no host: as the head of an empty list, or as the link of a host in no
/// list.
pub const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Link<N> {
    next: u32,
    previous: u32,
    note: N,
}

pub struct Links<N> {
    links: Paged<Link<N>>,
}

impl<N: Copy> Links<N> {
    pub const LINK_BYTES: usize = size_of::<Link<N>>();

    pub fn new() -> Links<N> {
        Links { links: Paged::new() }
    }

    /// Appends `id`, which is in no list, and remembers `note` with it.
    pub fn push_back(&mut self, head: &mut u32, id: u32, note: N) {
        while self.links.len() <= id as usize {
            self.links.push(Link { next: NONE, previous: NONE, note });
        }
        debug_assert!(!self.contains(id), "a host is in one list");
        if *head == NONE {
            *head = id;
            self.links[id] = Link { next: id, previous: id, note };
            return;
        }
        let last = self.links[*head].previous;
        self.links[id] = Link { next: *head, previous: last, note };
        self.links[last].next = id;
        self.links[*head].previous = id;
    }

    pub fn pop_front(&mut self, head: &mut u32) -> Option<u32> {
        let id = *head;
        if id == NONE {
            return None;
        }
        self.remove(head, id);
        Some(id)
    }

    /// Takes `id` out of the list that starts at `head`.
    pub fn remove(&mut self, head: &mut u32, id: u32) {
        let Link { next, previous, .. } = self.links[id];
        debug_assert!(next != NONE, "the host is in a list");
        if next == id {
            *head = NONE;
        } else {
            self.links[previous].next = next;
            self.links[next].previous = previous;
            if *head == id {
                *head = next;
            }
        }
        self.links[id].next = NONE;
    }

    /// Returns the host behind a host that is in a list; in a list of one, this is the host itself.
    #[inline]
    pub fn behind(&self, id: u32) -> u32 {
        self.links[id].next
    }

    /// Prefetches the link of a host that is to be read soon.
    #[inline]
    pub fn prefetch(&self, id: u32) {
        if (id as usize) < self.links.len() {
            memory::prefetch(&self.links[id]);
        }
    }

    #[inline]
    pub fn contains(&self, id: u32) -> bool {
        (id as usize) < self.links.len() && self.links[id].next != NONE
    }

    /// Returns the note of a host, if it is in a list.
    #[inline]
    pub fn note(&self, id: u32) -> Option<N> {
        self.contains(id).then(|| self.links[id].note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(links: &mut Links<u8>, head: &mut u32) -> Vec<u32> {
        std::iter::from_fn(|| links.pop_front(head)).collect()
    }

    #[test]
    fn a_list_is_first_in_first_out_and_any_member_can_leave() {
        for leaving in 0..5 {
            let (mut links, mut head) = (Links::new(), NONE);
            (0..5).for_each(|id| links.push_back(&mut head, id, 0u8));
            links.remove(&mut head, leaving);
            assert!(!links.contains(leaving));
            let expected: Vec<u32> = (0..5).filter(|id| *id != leaving).collect();
            assert_eq!(drain(&mut links, &mut head), expected);
            assert_eq!(head, NONE);
        }
    }

    #[test]
    fn lists_do_not_mix_and_notes_stay_with_their_host() {
        let mut links = Links::new();
        let (mut even, mut odd) = (NONE, NONE);
        for id in 0..10 {
            let head = if id % 2 == 0 { &mut even } else { &mut odd };
            links.push_back(head, id, id as u8 * 2);
        }
        assert_eq!((links.note(7), links.note(10)), (Some(14), None));
        assert_eq!(drain(&mut links, &mut odd), [1, 3, 5, 7, 9]);
        assert_eq!(drain(&mut links, &mut even), [0, 2, 4, 6, 8]);
    }
}

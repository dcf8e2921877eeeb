//! The front queues: ready hosts by the class of their best URL.
//!
//! This module owns four lists of hosts and the [`ClassShares`] among them, which decide whose turn
//! it is. Hosts whose time has come flow in; the next host to fetch from flows out. Invariants: a
//! host is in at most one list; a list that is not empty is chosen at least once in every
//! [`PATTERN`] of choices, so no class starves. Only its own core touches it.

use super::host::HostId;
use super::links::{Links, NONE};
use crate::crawl::flow::Class;

/// Shares of eight, four, two and one in fifteen, spread evenly. A fixed pattern with a cursor was
/// chosen and not a deficit per class: it costs one byte a host, absent classes are skipped so that
/// the present ones keep their ratio, and the longest wait for a turn can be read off it.
const PATTERN: [Class; 15] = {
    use Class::{High as H, Low as L, Normal as N, Urgent as U};
    [U, H, U, N, U, H, U, L, U, H, U, N, U, H, U]
};

/// The turns of four classes, of which some are present.
#[derive(Clone, Copy, Default)]
pub struct ClassShares {
    cursor: u8,
}

impl ClassShares {
    /// Returns the cursor, for a checkpoint. [`ClassShares::at`] accepts any number.
    pub fn cursor(self) -> u8 {
        self.cursor
    }

    pub fn at(cursor: u8) -> ClassShares {
        ClassShares { cursor: cursor % PATTERN.len() as u8 }
    }

    /// Returns the class that [`ClassShares::take`] would choose.
    pub fn peek(self, present: impl Fn(Class) -> bool) -> Option<Class> {
        self.search(present).map(|(class, _)| class)
    }

    pub fn take(&mut self, present: impl Fn(Class) -> bool) -> Option<Class> {
        let (class, next) = self.search(present)?;
        self.cursor = next;
        Some(class)
    }

    fn search(self, present: impl Fn(Class) -> bool) -> Option<(Class, u8)> {
        let start = self.cursor as usize;
        let mut places = (start..PATTERN.len()).chain(0..start);
        let place = places.find(|place| present(PATTERN[*place]))?;
        Some((PATTERN[place], ((place + 1) % PATTERN.len()) as u8))
    }
}

pub struct Front {
    heads: [u32; 4],
    /// The note of a host is the class whose list it is in.
    links: Links<Class>,
    shares: ClassShares,
    count: usize,
}

impl Front {
    pub const BYTES_PER_HOST: usize = Links::<Class>::LINK_BYTES;

    pub fn new() -> Front {
        Front { heads: [NONE; 4], links: Links::new(), shares: ClassShares::default(), count: 0 }
    }

    pub fn push(&mut self, host: HostId, class: Class) {
        assert!(!self.links.contains(host.0), "a host is ready once");
        self.links.push_back(&mut self.heads[class.index()], host.0, class);
        self.count += 1;
    }

    /// Removes a host; returns false if it is not ready.
    pub fn remove(&mut self, host: HostId) -> bool {
        let Some(class) = self.links.note(host.0) else { return false };
        self.links.remove(&mut self.heads[class.index()], host.0);
        self.count -= 1;
        true
    }

    /// Moves a ready host to the end of a better class's list. Does nothing if the host is in that
    /// list or in a better one.
    pub fn promote(&mut self, host: HostId, class: Class) {
        if self.links.note(host.0).is_some_and(|current| class < current) {
            self.remove(host);
            self.push(host, class);
        }
    }

    /// Reports whether a ready host is in the list of a class, or of a better one.
    pub fn is_as_good(&self, host: HostId, class: Class) -> bool {
        self.links.note(host.0).is_some_and(|current| current <= class)
    }

    pub fn pop(&mut self) -> Option<(HostId, Class)> {
        let heads = &self.heads;
        let class = self.shares.take(|class| heads[class.index()] != NONE)?;
        let id = self.links.pop_front(&mut self.heads[class.index()])?;
        self.count -= 1;
        Some((HostId(id), class))
    }

    /// Returns the next three hosts in the list of a class from which a host was popped just now.
    /// They are the next to be popped, as long as no better host comes. Prefetches the link of the
    /// third, one step ahead of its use.
    pub fn upcoming(&self, class: Class) -> Option<[HostId; 3]> {
        let first = self.heads[class.index()];
        if first == NONE {
            return None;
        }
        let second = self.links.behind(first);
        let third = self.links.behind(second);
        self.links.prefetch(third);
        Some([first, second, third].map(HostId))
    }

    /// Prefetches the link of a host that is to be pushed soon.
    pub fn prefetch(&self, host: HostId) {
        self.links.prefetch(host.0);
    }

    pub fn has(&self, host: HostId) -> bool {
        self.links.contains(host.0)
    }

    pub fn count(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(present: &[Class], choices: usize) -> [usize; 4] {
        let mut shares = ClassShares::default();
        let mut counts = [0; 4];
        for _ in 0..choices {
            let class = shares.take(|class| present.contains(&class));
            counts[class.expect("one is present").index()] += 1;
        }
        counts
    }

    #[test]
    fn classes_share_eight_four_two_one_whichever_are_present() {
        use Class::{High, Low, Normal, Urgent};
        assert_eq!(shares(&Class::ALL, 150), [80, 40, 20, 10]);
        assert_eq!(shares(&[High, Normal, Low], 70), [0, 40, 20, 10]);
        assert_eq!(shares(&[Urgent, Low], 90), [80, 0, 0, 10]);
        assert_eq!(shares(&[Low], 5), [0, 0, 0, 5]);
        assert_eq!(ClassShares::default().take(|_| false), None);
    }

    #[test]
    fn the_best_class_present_goes_first() {
        for (index, best) in Class::ALL.iter().enumerate() {
            let present = &Class::ALL[index..];
            assert_eq!(ClassShares::default().take(|class| present.contains(&class)), Some(*best));
        }
    }

    #[test]
    fn a_class_that_stays_waits_at_most_fifteen_choices_while_others_come_and_go() {
        let (mut shares, mut waited, mut random) = (ClassShares::default(), 0, 1u64);
        for _ in 0..100_000 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let others = random >> 60;
            let present = |class: Class| class == Class::Low || others >> class.index() & 1 == 1;
            assert_eq!(shares.peek(present), { shares }.take(present));
            let chosen = shares.take(present);
            waited = if chosen == Some(Class::Low) { 0 } else { waited + 1 };
            assert!(waited < PATTERN.len());
        }
    }

    #[test]
    fn hosts_of_a_class_are_served_in_order_and_promotion_moves_them() {
        let mut front = Front::new();
        (0..4).for_each(|id| front.push(HostId(id), Class::Low));
        front.promote(HostId(2), Class::High);
        front.promote(HostId(2), Class::Normal);
        assert!(front.remove(HostId(1)));
        assert!(!front.remove(HostId(1)));
        let order: Vec<_> = std::iter::from_fn(|| front.pop()).map(|(host, _)| host.0).collect();
        assert_eq!((order, front.count()), (vec![2, 0, 3], 0));
    }
}

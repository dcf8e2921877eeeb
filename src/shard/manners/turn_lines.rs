//! Turn lines: which host has the turn at an address or at a registrable domain. They keep
//! politeness across all cores.
//!
//! The shard that owns a place (by its hash) keeps its line: one host at a time has the turn, and
//! the next gets it no sooner than the delay after the last request was seen. Hosts wait in line
//! without a task and without a fetch slot, so many hosts on one address cost only their own queue.
//! A host asks once, so a line is at most as long as there are hosts at the place. Touched by one
//! core.
//!
//! A host that needs both turns takes the domain's first, and holds it while it waits for the
//! address's. No host that holds an address's turn waits for a domain's, so no two hosts wait for
//! each other.

use crate::base::Time;
use crate::base::limits::TURN_FADE_COUNT_MAX;
use crate::crawl::flow::{ShardIndex, TurnPlace};
use crate::proto::url::HostKey;
use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

/// A host that wants a turn, the shard that asks for it, and the delay after its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::shard) struct Wanted {
    pub host: HostKey,
    pub asker: ShardIndex,
    pub delay_ms: u32,
}

#[derive(Default)]
pub struct TurnLines {
    /// The lines by place. The standard library's table is used because its hash has a random key,
    /// and strangers choose the addresses.
    lines: HashMap<TurnPlace, Line>,
    /// When lines in which hosts wait become free. An entry may be stale; the line itself is
    /// authoritative.
    due: BinaryHeap<Reverse<(Time, TurnPlace)>>,
    /// Lines in which no host waited when their holder left. They are forgotten once they are free.
    /// There is one entry per line, roughly in the order of their times. A heap of all lines was a
    /// walk through half a megabyte for each page of 17,000 hosts.
    fading: VecDeque<(Time, TurnPlace)>,
    /// No turn begins before these times at any address, or at any domain, because the last
    /// requests before a restart are not known.
    address_floor: Time,
    domain_floor: Time,
}

/// The line at one place.
#[derive(Default)]
struct Line {
    holder: Option<Wanted>,
    free_at: Time,
    waiting: VecDeque<Wanted>,
    is_fading: bool,
}

impl TurnLines {
    /// Notes that no turn begins before these times. Called after a restart.
    pub fn rest_until(&mut self, address_floor: Time, domain_floor: Time) {
        (self.address_floor, self.domain_floor) = (address_floor, domain_floor);
    }

    /// Asks for a turn. Returns true if `wanted` has it now. Otherwise `wanted` waits in line, and
    /// [`TurnLines::advance`] will return it.
    pub fn ask(&mut self, place: TurnPlace, wanted: Wanted, now: Time) -> bool {
        let floor = match place {
            TurnPlace::Address(_) => self.address_floor,
            TurnPlace::Domain(_) => self.domain_floor,
        };
        let new = || Line { free_at: floor, ..Line::default() };
        let line = self.lines.entry(place).or_insert_with(new);
        if line.holder.is_none() && line.waiting.is_empty() && line.free_at <= now {
            line.holder = Some(wanted);
            return true;
        }
        line.waiting.push_back(wanted);
        if line.holder.is_none() {
            self.due.push(Reverse((line.free_at, place)));
        }
        false
    }

    /// Ends a turn. `used_at` is the latest time by which the server has seen the request, or
    /// `None` if no request was made.
    pub fn give_back(&mut self, place: TurnPlace, host: HostKey, used_at: Option<Time>) {
        let Some(line) = self.lines.get_mut(&place) else { return };
        let Some(holder) = line.holder.take_if(|holder| holder.host == host) else { return };
        if let Some(used_at) = used_at {
            let delay = Duration::from_millis(u64::from(holder.delay_ms));
            line.free_at = line.free_at.max(used_at + delay);
        }
        if !line.waiting.is_empty() {
            self.due.push(Reverse((line.free_at, place)));
        } else if !line.is_fading {
            line.is_fading = true;
            self.fading.push_back((line.free_at, place));
        }
    }

    /// Begins and returns the next turn that is due by `now`, if there is one.
    pub fn advance(&mut self, now: Time) -> Option<(TurnPlace, Wanted)> {
        self.forget_free(now);
        while let Some(Reverse((at, place))) = self.due.peek().copied() {
            if at > now {
                return None;
            }
            self.due.pop();
            let Some(line) = self.lines.get_mut(&place) else { continue };
            if line.holder.is_some() || line.free_at > now {
                continue;
            }
            if let Some(next) = line.waiting.pop_front() {
                line.holder = Some(next);
                return Some((place, next));
            }
        }
        None
    }

    /// Drops lines that are free and empty, a bounded number per call. If the first becomes free
    /// later than the second, it goes to the back, so that a long delay does not hold up the
    /// others.
    fn forget_free(&mut self, now: Time) {
        for _ in 0..TURN_FADE_COUNT_MAX {
            let Some((at, place)) = self.fading.front().copied() else { return };
            if at > now {
                if self.fading.get(1).is_none_or(|(next_at, _)| *next_at >= at) {
                    return;
                }
                self.fading.rotate_left(1);
                continue;
            }
            self.fading.pop_front();
            let Entry::Occupied(mut line) = self.lines.entry(place) else { continue };
            let Line { holder, free_at, waiting, is_fading } = line.get_mut();
            if holder.is_none() && waiting.is_empty() && *free_at <= now {
                line.remove();
            } else if holder.is_none() && waiting.is_empty() {
                self.fading.push_back((*free_at, place));
            } else {
                // The line is listed again when the next holder leaves it.
                *is_fading = false;
            }
        }
    }

    pub fn next_due(&self) -> Option<Time> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: TurnPlace =
        TurnPlace::Address(std::net::IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 9)));

    fn wanted(host: u64) -> Wanted {
        Wanted { host: HostKey(host), asker: ShardIndex(0), delay_ms: 1_000 }
    }

    #[test]
    fn hosts_on_one_address_take_turns_a_delay_apart() {
        let mut turns = TurnLines::default();
        let at = Time::from_ms;
        assert!(turns.ask(ADDRESS, wanted(1), at(0)));
        assert!(!turns.ask(ADDRESS, wanted(2), at(0)));
        assert!(!turns.ask(ADDRESS, wanted(3), at(0)));
        assert_eq!(turns.advance(at(9_000)), None, "the turn is not over");
        turns.give_back(ADDRESS, HostKey(1), Some(at(9_000)));
        assert_eq!(turns.next_due(), Some(at(10_000)));
        assert_eq!(turns.advance(at(9_999)), None);
        assert_eq!(turns.advance(at(10_000)), Some((ADDRESS, wanted(2))));
        turns.give_back(ADDRESS, HostKey(2), None);
        assert_eq!(turns.advance(at(10_000)), Some((ADDRESS, wanted(3))), "an unused turn is free");
    }

    #[test]
    fn a_latecomer_does_not_jump_the_line() {
        let mut turns = TurnLines::default();
        let at = Time::from_ms;
        assert!(turns.ask(ADDRESS, wanted(1), at(0)));
        turns.give_back(ADDRESS, HostKey(1), Some(at(0)));
        assert!(!turns.ask(ADDRESS, wanted(2), at(500)));
        assert!(!turns.ask(ADDRESS, wanted(3), at(1_500)), "the line is not empty");
        assert_eq!(turns.advance(at(1_500)), Some((ADDRESS, wanted(2))));
    }

    #[test]
    fn after_a_restart_nobody_speaks_before_the_floor() {
        let mut turns = TurnLines::default();
        let at = Time::from_ms;
        turns.rest_until(at(1_000), at(3_000));
        assert!(!turns.ask(ADDRESS, wanted(1), at(0)));
        assert!(!turns.ask(TurnPlace::Domain(5), wanted(1), at(0)));
        assert_eq!(turns.advance(at(999)), None);
        assert_eq!(turns.advance(at(1_000)), Some((ADDRESS, wanted(1))));
        assert_eq!(turns.advance(at(2_999)), None);
        assert_eq!(turns.advance(at(3_000)), Some((TurnPlace::Domain(5), wanted(1))));
    }

    #[test]
    fn a_stranger_cannot_give_a_turn_back_and_free_lines_are_forgotten() {
        let mut turns = TurnLines::default();
        let at = Time::from_ms;
        assert!(turns.ask(ADDRESS, wanted(1), at(0)));
        turns.give_back(ADDRESS, HostKey(7), Some(at(0)));
        assert!(!turns.ask(ADDRESS, wanted(2), at(5_000)), "host 1 still has the turn");
        turns.give_back(ADDRESS, HostKey(1), Some(at(0)));
        assert_eq!(turns.advance(at(5_000)), Some((ADDRESS, wanted(2))));
        turns.give_back(ADDRESS, HostKey(2), Some(at(5_000)));
        assert_eq!(turns.advance(at(6_000)), None);
        assert!(turns.lines.is_empty());
    }

    /// Turns are taken and given back in random order. No turn begins before the delay after the
    /// last is over, every host that waits is named once its turn has come, and idle lines are
    /// forgotten.
    #[test]
    fn lines_are_kept_as_long_as_they_matter() {
        let place = |number: u64| TurnPlace::Domain(number % 8);
        let mut turns = TurnLines::default();
        let (mut free_at, mut holders) = ([Time::ZERO; 8], [None; 8]);
        let (mut seed, mut granted_count) = (7u64, 0);
        let mut waiting = [0; 8];
        for step in 0..20_000u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (now, which) = (Time::from_ms(step * 20), (seed >> 40) as usize % 8);
            let delay_ms = if which == 3 { 60_000 } else { 1_000 };
            if let Some(host) = holders[which].take() {
                turns.give_back(place(which as u64), host, Some(now));
                free_at[which] = now + Duration::from_millis(delay_ms.into());
            } else if waiting[which] < 3 {
                let wanted = Wanted { delay_ms, ..wanted(step) };
                if turns.ask(place(which as u64), wanted, now) {
                    assert!(free_at[which] <= now && waiting[which] == 0);
                    holders[which] = Some(HostKey(step));
                } else {
                    waiting[which] += 1;
                }
            }
            while let Some((place, next)) = turns.advance(now) {
                let TurnPlace::Domain(which) = place else { panic!("an address") };
                let which = which as usize;
                assert!(free_at[which] <= now && holders[which].is_none());
                holders[which] = Some(next.host);
                waiting[which] -= 1;
                granted_count += 1;
            }
            for which in 0..8 {
                let is_named = holders[which].is_some() || free_at[which] > now;
                assert!(is_named || waiting[which] == 0, "a host waits at a free place");
            }
            assert!(turns.fading.len() <= turns.lines.len(), "one entry a line");
        }
        assert!(granted_count > 1_000, "{granted_count}");
        let ever_after = Time::from_ms(1_000_000_000);
        loop {
            for (which, holder) in holders.iter_mut().enumerate() {
                if let Some(host) = holder.take() {
                    turns.give_back(place(which as u64), host, None);
                }
            }
            while let Some((TurnPlace::Domain(which), next)) = turns.advance(ever_after) {
                holders[which as usize] = Some(next.host);
            }
            if holders.iter().all(Option::is_none) {
                break;
            }
        }
        (0..10).for_each(|_| assert_eq!(turns.advance(ever_after), None));
        assert!(turns.lines.is_empty() && turns.fading.is_empty());
    }
}

//! What a crawler that has crashed may remember of one URL.
//!
//! A request that ended just before a stop may be forgotten or not; nobody outside can tell, and
//! both are allowed. So all possible memories are followed: each is a set of requests that the
//! crawler may know of. A stop adds the memories in which requests are forgotten. A request rules
//! out the memories in which the crawler knew better than to ask. A request that no memory excuses
//! is a breach, and at least one memory must be right at the end.

use crate::base::Time;
use crate::lab::audit::Stop;
use crate::lab::sim::knowledge::Tally;
use std::collections::BTreeSet;

/// One request for a URL, and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub at: Time,
    pub end: Time,
    pub status: u16,
    pub is_whole: bool,
}

impl Asked {
    pub fn is_page(&self) -> bool {
        self.status == 200 && self.is_whole
    }

    /// Reports whether the answer is final: asking again would not change it.
    fn is_final(&self) -> bool {
        let is_passing = matches!(self.status, 408 | 425 | 429 | 500..);
        self.is_whole && !is_passing
    }
}

/// All memories of one URL that are possible at the end.
pub(super) struct Memory<'a> {
    /// The requests in the order of their times.
    asked: &'a [Asked],
    /// The possible memories: each has a bit for each request.
    masks: BTreeSet<u64>,
    /// Pages fetched although every possible memory had them already.
    pub repeats: Vec<Asked>,
}

impl<'a> Memory<'a> {
    /// Follows all memories. `stops` and requests have their times from one clock, and are in the
    /// order of their times.
    pub fn new(asked: &'a [Asked], stops: &[Stop]) -> Memory<'a> {
        // A URL is asked for a handful of times; requests beyond the 64 bits of a mask are ignored.
        let asked = &asked[..asked.len().min(u64::BITS as usize)];
        let mut memory = Memory { asked, masks: BTreeSet::from([0]), repeats: Vec::new() };
        let mut last_at = Time::ZERO;
        for (index, now) in asked.iter().enumerate() {
            let between = |stop: &&Stop| last_at < stop.back && stop.back <= now.at;
            stops.iter().filter(between).for_each(|stop| memory.forget(stop, index));
            memory.ask(index);
            last_at = now.at;
        }
        memory
    }

    /// Returns the tally of each possible memory.
    pub fn tallies(&self) -> impl Iterator<Item = Tally> + '_ {
        self.masks.iter().map(|mask| {
            let mut tally = Tally::default();
            self.known(*mask).for_each(|asked| tally.add(asked));
            tally
        })
    }

    fn known(&self, mask: u64) -> impl Iterator<Item = &'a Asked> + use<'a> {
        let is_known = move |index: &usize| mask >> index & 1 == 1;
        let asked = self.asked;
        (0..asked.len()).filter(is_known).map(move |index| &asked[index])
    }

    /// Adds the memories that a stop makes possible: each of the first `count` requests may be
    /// forgotten if it ended too shortly before the stop.
    fn forget(&mut self, stop: &Stop, count: usize) {
        let window_ns = stop.repeated_ms.saturating_mul(1_000_000);
        for index in 0..count {
            let end = self.asked[index].end;
            if end.0.saturating_add(window_ns) >= stop.at.0 {
                let without: Vec<u64> =
                    self.masks.iter().map(|mask| mask & !(1 << index)).collect();
                self.masks.extend(without);
            }
        }
    }

    fn ask(&mut self, index: usize) {
        let now = self.asked[index];
        let is_open = |mask: &u64| !self.known(*mask).any(Asked::is_final);
        let open: BTreeSet<u64> = self.masks.iter().copied().filter(is_open).collect();
        if now.is_page() && self.masks.iter().all(|mask| self.known(*mask).any(Asked::is_page)) {
            self.repeats.push(now);
        }
        let wondering = if open.is_empty() { std::mem::take(&mut self.masks) } else { open };
        self.masks = wondering.into_iter().map(|mask| mask | 1 << index).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn asked(second: u64, status: u16) -> Asked {
        let at = Time(second * SECOND);
        Asked { at, end: at, status, is_whole: true }
    }

    /// A stop at `second` with a window of five seconds; the crawler is back a second later.
    fn stop(second: u64) -> Stop {
        let [at, back] = [second, second + 1].map(|second| Time(second * SECOND));
        Stop { at, back, forgotten_ms: 0, repeated_ms: 5_000, is_log_cut: false }
    }

    fn pages(asked: &[Asked], stops: &[Stop]) -> (usize, Vec<u32>) {
        let memory = Memory::new(asked, stops);
        (memory.repeats.len(), memory.tallies().map(|tally| tally.page_count).collect())
    }

    #[test]
    fn without_a_stop_nothing_is_forgotten() {
        assert_eq!(pages(&[asked(1, 200)], &[]), (0, vec![1]));
        assert_eq!(pages(&[asked(1, 200), asked(2, 200)], &[]), (1, vec![2]));
        assert_eq!(pages(&[asked(1, 503), asked(2, 200)], &[]), (0, vec![1]));
    }

    #[test]
    fn what_ended_just_before_a_stop_may_be_asked_for_again_and_nothing_older() {
        let stops = [stop(10)];
        assert_eq!(pages(&[asked(7, 200), asked(20, 200)], &stops), (0, vec![1]));
        assert_eq!(pages(&[asked(4, 200), asked(20, 200)], &stops), (1, vec![2]));
        assert_eq!(pages(&[asked(12, 200), asked(20, 200)], &stops), (1, vec![2]), "after it");
    }

    #[test]
    fn a_second_stop_does_not_excuse_what_the_first_did_not() {
        let stops = [stop(10), stop(21)];
        assert_eq!(pages(&[asked(2, 200), asked(20, 200)], &stops).0, 1);
        assert_eq!(pages(&[asked(8, 200), asked(20, 200), asked(30, 200)], &stops), (0, vec![1]));
        assert_eq!(pages(&[asked(2, 200), asked(20, 200), asked(30, 200)], &stops).0, 2);
    }
}

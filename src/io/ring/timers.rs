//! Timers of one core: sleeps, and deadlines of waits on sockets.
//!
//! They lie in a heap of (time, alarm). Deadlines are lazy: the entry of a socket is pushed again
//! with a later time when it fires early, and only an earlier deadline adds another entry. So the
//! dozen waits of a page cost one or two heap operations in all.

use super::Core;
use crate::base::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alarm {
    /// A sleep's index and generation.
    Sleep(u32, u32),
    /// A socket's index and generation.
    Socket(u32, u32),
    /// The index and generation of a wait (datagrams).
    Wait(u32, u32),
}

#[derive(Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(Time, Alarm)>>,
    sleeps: Vec<SleepSlot>,
    free: Vec<u32>,
}

#[derive(Default)]
struct SleepSlot {
    generation: u32,
    waker: Option<Waker>,
    fired: bool,
}

impl Timers {
    pub(super) fn add(&mut self, at: Time, alarm: Alarm) {
        if at != Time::NEVER {
            self.heap.push(Reverse((at, alarm)));
        }
    }

    /// Returns when the next waiter must be woken. It removes the entries of dropped sleeps first:
    /// a core with a near timer sleeps longer to gather events, and must not do so for a timer that
    /// nobody waits for.
    pub(super) fn next(&mut self) -> Option<Time> {
        while let Some(Reverse((_, Alarm::Sleep(index, generation)))) = self.heap.peek()
            && self.sleeps[*index as usize].generation != *generation
        {
            self.heap.pop();
        }
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes one alarm that is due.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<Alarm> {
        let Reverse((at, alarm)) = *self.heap.peek()?;
        if at > now {
            return None;
        }
        self.heap.pop();
        Some(alarm)
    }

    pub(super) fn fire_sleep(&mut self, index: u32, generation: u32) -> Option<Waker> {
        let slot = self.sleeps.get_mut(index as usize)?;
        if slot.generation != generation {
            return None;
        }
        slot.fired = true;
        slot.waker.take()
    }
}

/// One sleep. The heap entry of a dropped sleep remains, and is ignored because of its generation.
pub(super) struct Sleep {
    core: Rc<Core>,
    at: Time,
    slot: Option<u32>,
}

impl Sleep {
    pub(super) fn new(core: Rc<Core>, at: Time) -> Sleep {
        Sleep { core, at, slot: None }
    }

    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut timers = self.core.timers.borrow_mut();
        if let Some(index) = self.slot {
            let slot = &mut timers.sleeps[index as usize];
            if slot.fired {
                return Poll::Ready(());
            }
            slot.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        if self.core.now() >= self.at {
            return Poll::Ready(());
        }
        let index = timers.free.pop().unwrap_or_else(|| {
            timers.sleeps.push(SleepSlot::default());
            (timers.sleeps.len() - 1) as u32
        });
        let slot = &mut timers.sleeps[index as usize];
        slot.waker = Some(context.waker().clone());
        slot.fired = false;
        let alarm = Alarm::Sleep(index, slot.generation);
        timers.add(self.at, alarm);
        self.slot = Some(index);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let Some(index) = self.slot else { return };
        let mut timers = self.core.timers.borrow_mut();
        let slot = &mut timers.sleeps[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.waker = None;
        timers.free.push(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_that_was_given_up_is_not_waited_for() {
        let mut timers = Timers::default();
        timers.sleeps.resize_with(2, SleepSlot::default);
        for (at, alarm) in
            [(5, Alarm::Sleep(0, 0)), (9, Alarm::Sleep(1, 0)), (20, Alarm::Socket(0, 7))]
        {
            timers.add(Time(at), alarm);
        }
        assert_eq!(timers.next(), Some(Time(5)));
        timers.sleeps[0].generation += 1;
        assert_eq!(timers.next(), Some(Time(9)));
        assert_eq!(timers.pop_due(Time(8)), None);
        assert_eq!(timers.pop_due(Time(9)), Some(Alarm::Sleep(1, 0)), "this sleep is awaited");
        timers.add(Time(12), Alarm::Sleep(0, 1));
        assert_eq!(timers.next(), Some(Time(12)), "a new sleep has taken the slot");
        timers.sleeps[0].generation += 1;
        assert_eq!(timers.next(), Some(Time(20)));
    }
}

//! Time, randomness and tasks, as the world of one core provides them.

use crate::base::{Time, WallTime};
use std::future::Future;

pub trait Clock {
    fn now(&self) -> Time;

    /// Returns the wall time, for WARC dates and file names; nothing is scheduled by it.
    fn wall(&self) -> WallTime;

    /// Returns the CPU time that this core's thread has used so far, in nanoseconds; simulated
    /// cores use none.
    fn cpu_ns(&self) -> u64;

    /// Returns what this core's system calls have cost so far; simulated cores pay nothing.
    fn effort(&self) -> Effort {
        Effort::default()
    }

    fn sleep_until(&self, at: Time) -> impl Future<Output = ()>;

    /// Lets other tasks of this core run. Long loops call it between pieces of work.
    fn yield_now(&self) -> impl Future<Output = ()>;
}

/// System calls and receive buffers of one core since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    pub syscall_count: u64,
    /// Time in system calls, sleep excluded, and time spent handing out their completions.
    pub syscall_ns: u64,
    pub dispatch_ns: u64,
    /// Turns whose call and hand-out took so long that everything else on the core was late.
    pub long_count: u64,
    /// Pieces received into the ring's buffers, and receives that found no free buffer.
    pub piece_count: u64,
    pub starved_count: u64,
    /// Longest time in which no task of the core was polled, not counting sleep that was asked for.
    pub turn_gap_ns_max: u64,
    /// Times that the core stood still and was woken from outside.
    pub nudge_count: u64,
}

pub trait Random {
    fn random_u64(&self) -> u64;
}

pub trait Spawn {
    /// Runs `task` on this core until the task ends or the world does.
    fn spawn(&self, task: impl Future<Output = ()> + 'static);
}

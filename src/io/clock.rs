//! Time, chance and tasks, as the world of one core gives them.

use crate::base::{Time, WallTime};
use std::future::Future;

pub trait Clock {
    fn now(&self) -> Time;

    /// For WARC dates and file names; nothing is scheduled by it.
    fn wall(&self) -> WallTime;

    /// CPU time this core's thread has used so far, in nanoseconds; simulated cores use none.
    fn cpu_ns(&self) -> u64;

    fn sleep_until(&self, at: Time) -> impl Future<Output = ()>;

    /// Lets other tasks of this core run. Long loops call it between pieces of work.
    fn yield_now(&self) -> impl Future<Output = ()>;
}

pub trait Random {
    fn random_u64(&self) -> u64;
}

pub trait Spawn {
    /// Runs `task` on this core until it ends or the world does.
    fn spawn(&self, task: impl Future<Output = ()> + 'static);
}

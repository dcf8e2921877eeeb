//! What one shard sees of a simulation: its clock, its random numbers, its tasks. The network is in
//! `network`, the files are in `disk`.

use super::executor::Alarm;
use super::tree::DirRef;
use super::{START, Shared, WALL_START_NS};
use crate::base::{Time, WallTime};
use crate::io::clock::{Clock, Random, Spawn};
use std::fmt;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// Implements every trait of `io` for one shard. Clones are the same world.
#[derive(Clone)]
pub struct SimWorld {
    pub(super) shared: Rc<Shared>,
    pub(super) shard: u16,
    /// The data directory.
    pub(super) directory: DirRef,
    /// True if a send ends only when the peer has read what was sent, not when it is on its way.
    pub(super) acknowledged: bool,
    chance: Rc<super::Chance>,
}

impl SimWorld {
    pub(super) fn new(shared: Rc<Shared>, shard: u16, directory: DirRef) -> SimWorld {
        let chance = shared.shard_chance(shard);
        SimWorld { shared, shard, directory, acknowledged: false, chance }
    }

    pub fn shard(&self) -> u16 {
        self.shard
    }

    /// Returns the same world with one difference that no real world could have: a send succeeds
    /// once the peer has read all of it, and fails as soon as the peer never will. It is for
    /// servers whose log must say what their clients received, whatever happened on the way.
    pub fn acknowledged(self) -> SimWorld {
        SimWorld { acknowledged: true, ..self }
    }

    /// Adds a line of the caller's own to the history and its digest.
    pub fn note(&self, detail: fmt::Arguments<'_>) {
        self.record("note", detail);
    }

    pub(super) fn record(&self, kind: &'static str, detail: fmt::Arguments<'_>) {
        self.shared.record(self.shard, kind, detail);
    }

    pub(super) fn alarm(&self) -> Alarm {
        Alarm::new(&self.shared.executor)
    }

    /// Draws a latency of the network, one way.
    pub(super) fn latency(&self) -> Duration {
        let model = self.shared.network.borrow().model;
        let chance = &self.shared.network_chance;
        self.shared.span(chance, model.latency_us_min, model.latency_us_max)
    }
}

impl Clock for SimWorld {
    fn now(&self) -> Time {
        self.shared.executor.now()
    }

    fn wall(&self) -> WallTime {
        let passed_ns = self.now().0.saturating_sub(START.0);
        let wall_ns = WALL_START_NS.saturating_add(passed_ns);
        WallTime(wall_ns.saturating_add_signed(self.shared.wall_shift_ns.get()))
    }

    fn cpu_ns(&self) -> u64 {
        0
    }

    async fn sleep_until(&self, at: Time) {
        let mut alarm = self.alarm();
        poll_fn(|context| {
            if self.now() >= at {
                return Poll::Ready(());
            }
            alarm.set(at, context.waker());
            Poll::Pending
        })
        .await;
    }

    async fn yield_now(&self) {
        let mut yielded = false;
        poll_fn(|context| {
            if yielded {
                return Poll::Ready(());
            }
            yielded = true;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

impl Random for SimWorld {
    fn random_u64(&self) -> u64 {
        self.chance.draw()
    }
}

impl Spawn for SimWorld {
    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.shared.executor.spawn(self.shard, Box::pin(task));
    }
}

//! The time that each stage costs this core. The core runs one thing at a time, so the time between
//! two readings of the clock was spent on what ran between them.
//!
//! Owns the sums. Pieces of work may be nested: the time of an inner piece is booked to its own
//! stage and not to the outer one. A piece of work takes two readings of the clock, some 50 ns. In
//! simulation time stands still meanwhile, so all sums are zero. Touched by one core.

use crate::base::limits;
use crate::crawl::metrics::{Count, Metrics, Stage};
use crate::io::Clock;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;

#[derive(Default)]
pub(super) struct Meter {
    spent_ns: [Cell<u64>; Stage::COUNT],
    /// The sum of all stages.
    booked_ns: Cell<u64>,
    /// The number of pieces of work that kept the core for [`limits::STEP_MS_MAX`] or more.
    long_count: Cell<u64>,
}

impl Meter {
    /// Does `work` and books its time to `stage`.
    pub(super) fn spend<T>(&self, clock: &impl Clock, stage: Stage, work: impl FnOnce() -> T) -> T {
        let (begun, booked_ns) = (clock.now(), self.booked_ns.get());
        let done = work();
        let took_ns = clock.now().since(begun).as_nanos() as u64;
        let inner_ns = self.booked_ns.get() - booked_ns;
        let own_ns = took_ns.saturating_sub(inner_ns);
        let spent = &self.spent_ns[stage.index()];
        spent.set(spent.get() + own_ns);
        if own_ns >= limits::STEP_MS_MAX * 1_000_000 {
            self.note_long_step(stage, own_ns);
        }
        self.booked_ns.set(booked_ns + took_ns.max(inner_ns));
        done
    }

    /// Like [`Meter::spend`], for work that waits at times. The time during which it waits is not
    /// booked.
    pub(super) async fn spend_on<T>(
        &self,
        clock: &impl Clock,
        stage: Stage,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = pin!(work);
        poll_fn(|context| self.spend(clock, stage, || work.as_mut().poll(context))).await
    }

    /// Counts and logs a piece of work that kept the core too long: everything else on this core
    /// was delayed by that time.
    #[cold]
    fn note_long_step(&self, stage: Stage, own_ns: u64) {
        self.long_count.set(self.long_count.get() + 1);
        tracing::debug!(stage = stage.name(), ms = own_ns / 1_000_000, "a long step");
    }

    /// Returns the sum booked so far. A caller measures a part of its work by the difference.
    pub(super) fn booked_ns(&self) -> u64 {
        self.booked_ns.get()
    }

    /// Writes the sums into `metrics`, with what the world itself has spent.
    pub(super) fn book(&self, clock: &impl Clock, metrics: &mut Metrics) {
        for stage in Stage::ALL {
            metrics.set_stage_ns(*stage, self.spent_ns[stage.index()].get());
        }
        let effort = clock.effort();
        metrics.set_stage_ns(Stage::Ring, effort.syscall_ns);
        metrics.set_stage_ns(Stage::Dispatch, effort.dispatch_ns);
        metrics.add(Count::LongSteps, self.long_count.get() + effort.long_count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::sim::Sim;

    #[test]
    fn in_simulation_work_takes_no_time_and_is_done_all_the_same() {
        let (meter, world) = (Meter::default(), Sim::new(1).world(0));
        let inner = || meter.spend(&world, Stage::Parse, || 7);
        assert_eq!(meter.spend(&world, Stage::Visit, inner), 7);
        assert_eq!(meter.booked_ns(), 0);
    }
}

//! What each stage costs this core, in time: the core runs one thing at a time, so the time between
//! two looks at the clock was spent on what ran between them.
//!
//! Owns the sums. Work may be nested: each stage is booked without what inner ones took. Two looks
//! at the clock a piece of work, some 50 ns. In simulation time stands still meanwhile: all zero.

use super::{Notice, Shard};
use crate::base::limits;
use crate::crawl::flow::Mail;
use crate::crawl::metrics::{Count, Metrics, Stage};
use crate::io::{Outbox, World};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;

#[derive(Default)]
pub(super) struct Costs {
    spent_ns: [Cell<u64>; Stage::COUNT],
    /// The sum of all.
    booked_ns: Cell<u64>,
    /// Pieces of work that kept the core for [`limits::STEP_MS_MAX`] or more.
    long_count: Cell<u64>,
}

impl<W: World, O: Outbox<Mail>, C: Outbox<Notice>> Shard<W, O, C> {
    /// Does `work`, and books its time.
    pub(super) fn spend<T>(&self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let (begun, booked_ns) = (self.world.now(), self.costs.booked_ns.get());
        let done = work();
        let took_ns = self.world.now().since(begun).as_nanos() as u64;
        let inner_ns = self.costs.booked_ns.get() - booked_ns;
        let own_ns = took_ns.saturating_sub(inner_ns);
        let spent = &self.costs.spent_ns[stage.index()];
        spent.set(spent.get() + own_ns);
        if own_ns >= limits::STEP_MS_MAX * 1_000_000 {
            self.note_long_step(stage, own_ns);
        }
        self.costs.booked_ns.set(booked_ns + took_ns.max(inner_ns));
        done
    }

    /// All else on this core was late by as much.
    #[cold]
    fn note_long_step(&self, stage: Stage, own_ns: u64) {
        self.costs.long_count.set(self.costs.long_count.get() + 1);
        tracing::debug!(stage = stage.name(), ms = own_ns / 1_000_000, "a long step");
    }

    /// As [`Shard::spend`], for work that waits now and then: waiting costs nothing.
    pub(super) async fn spend_on<T>(&self, stage: Stage, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| self.spend(stage, || work.as_mut().poll(context))).await
    }

    /// The sum of what was booked so far, for a part of it by difference.
    pub(super) fn booked_ns(&self) -> u64 {
        self.costs.booked_ns.get()
    }

    pub(super) fn book_costs(&self, metrics: &mut Metrics) {
        for stage in Stage::ALL {
            metrics.set_stage_ns(*stage, self.costs.spent_ns[stage.index()].get());
        }
        let effort = self.world.effort();
        metrics.set_stage_ns(Stage::Ring, effort.syscall_ns);
        metrics.set_stage_ns(Stage::Dispatch, effort.dispatch_ns);
        metrics.add(Count::LongSteps, self.costs.long_count.get() + effort.long_count);
    }
}

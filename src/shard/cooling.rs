//! Eviction of hosts from RAM while the crawl goes on: once a second, a few thousand hosts are
//! examined.
//!
//! The frontier knows which hosts have nothing left to do ([`crate::crawl::frontier::HostSweep`]).
//! This module asks whether the shard knows something about a host that a later visit must not
//! forget. What can be requested again may be forgotten: robots rules stay in their cache, which
//! has bounds of its own, but no checkpoint keeps them without their host. What politeness needs
//! may not be forgotten: a host stays while one of its origins fails, while one of its robots.txt
//! files does not answer, and while valid rules ask for a Crawl-delay. The host's response time is
//! measured again with its next answer, before the request after that.
//!
//! No host is evicted while a checkpoint is taken: cold hosts are written first, then the others,
//! and a host evicted in between would be in neither part. So each host written as cold has been
//! cold since before the cut, and no journal entry behind the cut is in its page count. Touched by
//! one core.

use super::Shard;
use crate::base::limits::{
    HOST_EVICTION_STEP_COUNT, HOST_EVICTION_STEPS_PER_SECOND, HOST_EVICTION_STEPS_PER_SECOND_MAX,
};
use crate::crawl::frontier::HostSweep;
use crate::crawl::metrics::Count;
use crate::io::World;
use std::cell::Cell;
use std::time::Duration;

#[derive(Default)]
pub(super) struct Cooling {
    /// Whether eviction is suspended because a checkpoint is being taken.
    is_held: Cell<bool>,
    /// The values of the frontier's figures that the counters already include.
    returned_count: Cell<u64>,
    uncooled_count: Cell<u64>,
}

impl<W: World> Shard<W> {
    /// Evicts cold hosts, step by step. Called once a second.
    pub(super) async fn cool_hosts(&self) {
        let (slot_count, is_crowded) = {
            let frontier = self.frontier();
            let is_crowded = frontier.host_count() > self.kit.plan.settings.host_memory_count;
            (frontier.slot_count(), is_crowded)
        };
        let steps = if is_crowded {
            HOST_EVICTION_STEPS_PER_SECOND_MAX
        } else {
            HOST_EVICTION_STEPS_PER_SECOND
        };
        for step in 0..steps.min(slot_count.div_ceil(HOST_EVICTION_STEP_COUNT)) {
            if step > 0 {
                self.kit.world.yield_now().await;
            }
            if self.cooling.is_held.get() || self.kit.life.is_draining() {
                return;
            }
            self.sweep();
        }
    }

    /// Suspends the eviction of hosts, or resumes it.
    pub(super) fn hold_cooling(&self, is_held: bool) {
        self.cooling.is_held.set(is_held);
    }

    /// Adds to the counters what only the frontier has counted.
    pub(super) fn count_returned(&self) {
        let figures = self.frontier().figures();
        let probe = &self.kit.probe;
        for (count, known, now) in [
            (Count::HostsReturned, &self.cooling.returned_count, figures.returned_count),
            (Count::HostsUncooled, &self.cooling.uncooled_count, figures.uncooled_count),
        ] {
            probe.add(count, now - known.replace(now));
        }
    }

    fn sweep(&self) {
        let (settings, now) = (&self.kit.plan.settings, self.kit.world.now());
        let sweep = HostSweep {
            slot_count: HOST_EVICTION_STEP_COUNT,
            now,
            idle: Duration::from_secs(settings.host_cold_seconds),
            host_count_max: settings.host_memory_count,
        };
        let mut manners = self.manners.borrow_mut();
        let left_count = self.frontier_mut().sweep(sweep, |frontier, host| {
            let pace = frontier.host_lore(host);
            assert!(!pace.is_parked && !pace.holds_domain, "an idle host waits for nothing");
            let mut origins = frontier.host_origins(host);
            let may_leave =
                origins.all(|(origin, text)| manners.may_forget(host, origin, &text, now));
            if may_leave {
                frontier.host_origins(host).for_each(|(_, text)| manners.forget(&text, now));
            }
            may_leave
        });
        self.kit.probe.add(Count::HostsCooled, left_count as u64);
    }
}

//! What a shard does while memory for bodies is short: it starts no fetch, has the transfer rates
//! of bodies measured so that slow ones are cut, and tells the operator.
//! [`crate::crawl::fetch::BodyBudget`] decides which bodies are cut. Touched by one core.

use super::Shard;
use crate::base::limits::BODY_SAMPLE_MS;
use crate::crawl::fetch::BodyTally;
use crate::crawl::metrics::{Count, Gauges, Metrics};
use crate::io::World;
use std::rc::Rc;
use std::time::Duration;

impl<W: World> Shard<W> {
    /// Sleeps until half of the memory is held, then measures rates until less than half is held.
    pub(super) async fn keep_bodies(self: Rc<Self>) {
        let budget = self.net.client.budget();
        loop {
            budget.half_full().await;
            let mut told: Option<BodyTally> = None;
            loop {
                let until = self.kit.world.now() + Duration::from_millis(BODY_SAMPLE_MS);
                self.kit.world.sleep_until(until).await;
                let is_half_full = budget.measure(self.kit.world.now());
                if !budget.has_room() && told.is_none() {
                    told = Some(self.tell_short());
                }
                // The memory given back may allow a fetch to start, so the loop is woken.
                self.kit.wake.poke();
                if !is_half_full {
                    break;
                }
            }
            if let Some(before) = told {
                self.tell_enough(&before);
            }
        }
    }

    fn tell_short(&self) -> BodyTally {
        let budget = self.net.client.budget();
        let tally = budget.tally();
        self.kit.probe.add(Count::BodyStalls, 1);
        tracing::warn!(
            shard = self.kit.index.0,
            "memory for bodies is short: {} of {} MB are held by {} bodies. No fetch starts until \
             some is free, and slow bodies are cut. See body_memory_mb and fetch_slots",
            tally.held_bytes >> 20,
            budget.bytes_max() >> 20,
            tally.body_count,
        );
        tally
    }

    fn tell_enough(&self, before: &BodyTally) {
        let tally = self.net.client.budget().tally();
        tracing::info!(
            shard = self.kit.index.0,
            "memory for bodies is sufficient again: {} bodies were cut, {} were dropped, to be \
             requested again",
            tally.cut_count - before.cut_count,
            tally.shed_count - before.shed_count,
        );
    }

    pub(super) fn body_gauges(&self, gauges: Gauges) -> Gauges {
        let BodyTally { held_bytes, held_bytes_peak, .. } = self.net.client.budget().tally();
        let (body_bytes, body_bytes_peak) = (held_bytes as u64, held_bytes_peak as u64);
        Gauges { body_bytes, body_bytes_peak, ..gauges }
    }

    pub(super) fn count_bodies(&self, metrics: &mut Metrics) {
        let BodyTally { cut_count, shed_count, .. } = self.net.client.budget().tally();
        metrics.add(Count::BodiesCut, cut_count);
        metrics.add(Count::BodiesShed, shed_count);
    }
}

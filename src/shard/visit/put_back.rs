//! How a visit gives its URL and its host back to discovery.

use crate::base::Time;
use crate::crawl::flow::Queued;
use crate::crawl::frontier::HostId;
use crate::crawl::journal;
use crate::crawl::metrics::Count;
use crate::io::World;
use crate::shard::Shard;

impl<W: World> Shard<W> {
    /// Puts the URL back: it may not be requested before `until`. If the host has no other origin,
    /// the whole host waits until then.
    pub(in crate::shard) fn wait_out(&self, host: HostId, queued: Queued, until: Time) {
        let mut frontier = self.frontier_mut();
        if frontier.host_has_several_origins(host) {
            frontier.retry_at(host, queued, until);
        } else {
            frontier.requeue(host, queued, until);
        }
        drop(frontier);
        self.release(host, Time::ZERO);
    }

    /// Puts back a URL whose request was never sent, because we had no descriptor, port or buffer;
    /// the try is not counted. Nothing is written to the journal: it has the URL with the same
    /// number of tries, and a restart would take a second entry for a second URL.
    pub(in crate::shard) fn retry_unsent(&self, host: HostId, queued: Queued, ended: Time) {
        let wait = self.retry_wait(host, &Queued { tries: 0, ..queued.clone() });
        self.kit.probe.add(Count::Retries, 1);
        self.frontier_mut().retry_at(host, queued, ended + wait);
    }

    /// Puts the URL back for its next try and writes this to the journal, so that it survives a
    /// restart. The URL has made one try more than the journal has recorded, which distinguishes
    /// this copy from the one before.
    pub(in crate::shard) fn retry(&self, host: HostId, queued: Queued, at: Time) {
        self.kit.probe.add(Count::Retries, 1);
        self.archive.entry(|out| {
            journal::push_retried(out, &queued, self.kit.clocks().wall_of(at));
        });
        self.frontier_mut().retry_at(host, queued, at);
    }

    /// Returns the host to the frontier; it may be visited again at `next`.
    pub(in crate::shard) fn release(&self, host: HostId, next: Time) {
        let (mut frontier, now) = (self.frontier_mut(), self.kit.world.now());
        if next <= now {
            // Moves the wheel on, so that the host is ready at once and not at the next tick.
            frontier.advance(now);
        }
        frontier.release(host, next);
        let planned = if frontier.host_queued_count(host) > 0 && next != Time::ZERO {
            frontier.host_eligible_at(host)
        } else {
            Time::ZERO
        };
        frontier.host_data(host).planned = planned;
    }
}

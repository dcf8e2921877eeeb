//! How a visit gives its URL and its host back to discovery.

use crate::base::Time;
use crate::crawl::flow::Queued;
use crate::crawl::frontier::HostId;
use crate::crawl::journal;
use crate::crawl::metrics::Count;
use crate::io::World;
use crate::shard::Shard;

impl<W: World> Shard<W> {
    /// The URL's origin is left alone until then. Where the host has no other, so is the host.
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

    /// We had no descriptor, port or buffer, so the try is not counted. The journal is not told: it
    /// has the URL with as many tries, and a restart would take a second entry for a second URL.
    pub(in crate::shard) fn retry_unsent(&self, host: HostId, queued: Queued, ended: Time) {
        let wait = self.retry_wait(host, &Queued { tries: 0, ..queued.clone() });
        self.kit.probe.add(Count::Retries, 1);
        self.frontier_mut().retry_at(host, queued, ended + wait);
    }

    /// The URL waits for its next try, over a restart too. It has made one more than the journal
    /// knows of, which tells this copy from the one before.
    pub(in crate::shard) fn retry(&self, host: HostId, queued: Queued, at: Time) {
        self.kit.probe.add(Count::Retries, 1);
        self.archive.entry(|out| {
            journal::push_retried(out, &queued, self.kit.clocks().wall_of(at));
        });
        self.frontier_mut().retry_at(host, queued, at);
    }

    /// Gives the host back to the frontier.
    pub(in crate::shard) fn release(&self, host: HostId, next: Time) {
        let (mut frontier, now) = (self.frontier_mut(), self.kit.world.now());
        if next <= now {
            // Ready at once, and not at the wheel's next tick.
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

//! What a shard does once a second beside its visits: it closes idle connections, evicts hosts from
//! RAM, checks the disk, and reports. Touched by one core.

use super::{Notice, Shard};
use crate::crawl::metrics::{Count, Gauges, Metrics, Report};
use crate::io::World;
use std::rc::Rc;
use std::time::Duration;

impl<W: World> Shard<W> {
    /// Runs the housekeeping once a second: closes idle connections, evicts hosts and reports.
    pub(super) async fn keep_house(self: Rc<Self>) {
        let second = Duration::from_secs(1);
        let mut next = self.kit.world.now() + second;
        while !self.kit.life.is_ended() {
            self.kit.world.sleep_until(next).await;
            next += second;
            self.net.client.close_idle();
            self.archive.begin_flush();
            self.archive.mind();
            self.cool_hosts().await;
            self.kit.notice(Notice::Report(Box::new(self.report())));
        }
    }

    pub(super) fn report(&self) -> Report {
        let frontier = self.frontier();
        let effort = self.kit.world.effort();
        let gauges = self.tail_gauges(Gauges {
            syscalls: effort.syscall_count,
            pieces_received: effort.piece_count,
            buffers_starved: effort.starved_count,
            turn_gap_ns_max: effort.turn_gap_ns_max,
            nudges: effort.nudge_count,
            hosts: (frontier.host_count() + frontier.cold_count()) as u64,
            hosts_cold: frontier.cold_count() as u64,
            hosts_ready: frontier.ready_count() as u64,
            hosts_waiting: frontier.waiting_count() as u64,
            urls_queued: frontier.live_url_count(),
            waits: self.waits(&frontier),
            fetches_active: self.slots.active_count().get() as u64,
            streams_open: (self.net.client.idle_count() + self.slots.active_count().get()) as u64,
            cpu_ns: self.kit.world.cpu_ns(),
            at_ns: self.kit.world.now().0,
            ..self.body_gauges(self.sieve_gauges(&frontier))
        });
        Report { shard: self.kit.index, metrics: self.full_metrics(), gauges }
    }

    /// Returns everything this run has counted so far.
    pub(super) fn full_metrics(&self) -> Metrics {
        self.archive.settle();
        self.count_returned();
        let mut metrics = self.kit.probe.snapshot();
        self.kit.meter.book(&self.kit.world, &mut metrics);
        self.count_bodies(&mut metrics);
        for (count, sum) in [
            (Count::ConnectionsCrowded, self.net.client.crowded_count()),
            (Count::DnsQueries, self.net.resolver.query_count()),
            (Count::DnsCached, self.net.resolver.cached_count()),
            (Count::WarcFiles, self.archive.warc_file_count()),
        ] {
            metrics.add(count, sum);
        }
        metrics
    }
}

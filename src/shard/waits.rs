//! What the shard waits for, as the operator sees it: gathered once a second from figures that are
//! at hand. Failing origins are examined one by one, up to a bound.

use super::Shard;
use super::manners::Pace;
use crate::base::Time;
use crate::base::limits::WAITS_LOOK_COUNT_MAX;
use crate::crawl::flow::Outcome;
use crate::crawl::frontier::Frontier;
use crate::crawl::frontier::seen::DiskSieve;
use crate::crawl::metrics::{Hold, Waits};
use crate::io::World;

impl<W: World> Shard<W> {
    pub(super) fn waits(&self, frontier: &Frontier<DiskSieve<W::File>, Pace>) -> Waits {
        let mut waits = Waits {
            hosts_in_line: self.called.in_line_count.get(),
            hosts_at_errands: self.parked.borrow().len() as u64,
            names_in_lookup: self.net.resolver.in_flight_count() as u64,
            urls_retrying: frontier.retry_count() as u64,
            next_turn: frontier.next_turn().unwrap_or(Time::ZERO),
            next_retry: frontier.next_retry().unwrap_or(Time::ZERO),
            ..Waits::default()
        };
        if let Some(turn) = self.manners.borrow().next_turn_due() {
            waits.next_turn = crate::crawl::metrics::earlier(waits.next_turn, turn);
        }
        let now = self.kit.world.now();
        for (host, ailing) in self.manners.borrow().health().all().take(WAITS_LOOK_COUNT_MAX) {
            if ailing.until <= now || !frontier.has_work(host) {
                continue;
            }
            waits.next_probe = crate::crawl::metrics::earlier(waits.next_probe, ailing.until);
            if ailing.cause == Outcome::RobotsUnreachable {
                waits.origins_without_robots += 1;
            } else if ailing.open_count > 0 {
                waits.origins_at_breaker += 1;
            } else {
                waits.origins_backing_off += 1;
            }
        }
        if let Some(hold) = self.held_by(frontier) {
            waits.hold(hold);
        }
        waits
    }

    /// Returns why no visit is started, by the same conditions as [`Shard::may_start`].
    fn held_by(&self, frontier: &Frontier<DiskSieve<W::File>, Pace>) -> Option<Hold> {
        if self.kit.life.is_draining() {
            Some(Hold::Ending)
        } else if self.archive.failure().is_some() {
            Some(Hold::DiskFails)
        } else if !self.net.client.budget().has_room() {
            Some(Hold::Memory)
        } else if self.slots.active_count().get() >= self.kit.plan.settings.fetch_slots {
            Some(Hold::Slots)
        } else if !self.slots.has_budget() {
            Some(Hold::Budget)
        } else if self.archive.is_backed_up()
            || frontier.sieve().is_backed_up()
            || frontier.is_tail_backed_up()
        {
            Some(Hold::DiskBehind)
        } else {
            self.mesh.borrow().is_backed_up().then_some(Hold::PeersBehind)
        }
    }
}

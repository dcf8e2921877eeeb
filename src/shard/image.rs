//! A host as a checkpoint keeps it: the frontier's part, and what the shard knows beside it.

use super::health::Health;
use super::pace::Pace;
use super::sitemap::Ledger;
use crate::base::pack::{Pack, Unpack};
use crate::base::{Time, WallTime};
use crate::frontier::seen::DiskSieve;
use crate::frontier::{Frontier, HostId, Middle, Origin, Unreadable};
use crate::io::Clock;
use crate::resolve::RobotsCache;
use std::time::Duration;

/// The two clocks at one moment: state files have wall time, for the other begins anew with the
/// machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    now: Time,
    wall: WallTime,
    /// No wait that was kept is longer: a wall clock that was set wrong must not stop a host.
    wait_max: Duration,
}

impl Clocks {
    pub(super) fn of(clock: &impl Clock, wait_max_ms: u64) -> Clocks {
        let wait_max = Duration::from_millis(wait_max_ms);
        Clocks { now: clock.now(), wall: clock.wall(), wait_max }
    }

    pub(super) fn now(self) -> Time {
        self.now
    }

    pub(super) fn wall_of(self, time: Time) -> WallTime {
        let offset_ns = i128::from(time.0) - i128::from(self.now.0);
        let wall_ns = i128::from(self.wall.0) + offset_ns;
        // Zero stands for no time at all.
        WallTime(u64::try_from(wall_ns.clamp(1, i128::from(u64::MAX))).unwrap_or(u64::MAX))
    }

    /// A moment to wait for; the past is now.
    pub(super) fn time_of(self, wall: WallTime) -> Time {
        let ahead = Duration::from_nanos(wall.0.saturating_sub(self.wall.0));
        self.now + ahead.min(self.wait_max)
    }

    /// A moment that may be past; `None` if it was before the clock began.
    pub(super) fn past_time_of(self, wall: WallTime) -> Option<Time> {
        match self.wall.0.checked_sub(wall.0) {
            Some(ago_ns) => self.now.0.checked_sub(ago_ns).map(Time),
            None => Some(self.time_of(wall)),
        }
    }
}

/// What the shard knows of its hosts.
pub(super) struct Lore<'s, F> {
    pub frontier: &'s mut Frontier<DiskSieve<F>, Pace>,
    pub health: &'s mut Health,
    pub robots: &'s mut RobotsCache,
    pub sitemaps: &'s mut Ledger,
}

impl<F> Lore<'_, F> {
    pub(super) fn pack_host(&mut self, host: HostId, clocks: Clocks) -> Vec<u8> {
        let wall_of = |time| clocks.wall_of(time);
        let mut image = Vec::new();
        let mut pack = Pack(&mut image);
        self.frontier.pack_host(host, &mut pack, wall_of);
        pack.u32(self.frontier.host_data(host).response_us());
        let (document_count, url_count) = self.sitemaps.taken(self.frontier.host_key(host));
        pack.u32(document_count);
        pack.u32(url_count);
        for (origin, text) in self.frontier.host_origins(host) {
            pack.nested(|pack| self.health.pack(host, origin, pack, wall_of));
            pack.nested(|pack| self.robots.pack(&text, pack, wall_of));
        }
        image
    }

    pub(super) fn unpack_host(
        &mut self,
        image: &[u8],
        middle: &Middle,
        clocks: Clocks,
    ) -> Result<HostId, Unreadable> {
        let mut image = Unpack(image);
        let host = self.frontier.unpack_host(&mut image, middle, |wall| clocks.time_of(wall))?;
        self.unpack_lore(host, &mut image, clocks)
            .ok_or("what is known of a host makes no sense")?;
        Ok(host)
    }

    fn unpack_lore(&mut self, host: HostId, image: &mut Unpack<'_>, clocks: Clocks) -> Option<()> {
        *self.frontier.host_data(host) = Pace::with_response_us(image.u32()?);
        let key = self.frontier.host_key(host);
        self.sitemaps.restore(key, image.u32()?, image.u32()?);
        let origins: Vec<(Origin, String)> = self.frontier.host_origins(host).collect();
        for (origin, text) in origins {
            let health = image.bytes()?;
            self.health.unpack(host, origin, health, |wall| clocks.time_of(wall))?;
            self.robots.unpack(&text, image.bytes()?, |wall| clocks.past_time_of(wall))?;
        }
        image.is_empty().then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_survive_a_reboot_and_a_wall_clock_set_wrong() {
        let before = Clocks {
            now: Time::from_ms(9_000_000),
            wall: WallTime(1_000_000_000_000_000),
            wait_max: Duration::from_secs(3_600),
        };
        let until = before.wall_of(before.now + Duration::from_secs(50));
        let after = Clocks {
            now: Time::from_ms(7_000),
            wall: WallTime(before.wall.0 + 20_000_000_000),
            ..before
        };
        assert_eq!(after.time_of(until), Time::from_ms(37_000));
        assert_eq!(after.past_time_of(before.wall), None, "before the machine was started");
        assert_eq!(after.time_of(before.wall), after.now);
        let yesterday = Clocks { wall: WallTime(1), ..after };
        assert_eq!(yesterday.time_of(until), yesterday.now + Duration::from_secs(3_600));
    }
}

//! The image of a host in a checkpoint: the frontier's part, and what the shard knows besides. For
//! a cold host this is its page count, and how many sitemaps and URLs of sitemaps it has had.

use super::discovery::SitemapCounts;
use super::manners::Health;
use super::manners::Pace;
use crate::base::limits::{COLD_IMAGE_COUNT, COLD_PART_COUNT};
use crate::base::pack::{Pack, Unpack};
use crate::base::{Time, WallTime};
use crate::crawl::frontier::seen::DiskSieve;
use crate::crawl::frontier::{Frontier, HostId, Middle, Origin, Unreadable};
use crate::crawl::resolve::RobotsCache;
use crate::io::Clock;
use crate::proto::url::HostKey;
use std::time::Duration;

/// Both clocks at the same moment. State files have times of the wall clock, because the monotonic
/// clock begins anew when the machine starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    now: Time,
    wall: WallTime,
    /// The longest wait that is taken over from a file. Without this bound a wall clock that was
    /// set wrong could stop a host.
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
        // Zero is reserved for "no time", so the result is at least 1.
        WallTime(u64::try_from(wall_ns.clamp(1, i128::from(u64::MAX))).unwrap_or(u64::MAX))
    }

    /// Converts a time to wait for. A time in the past becomes now.
    pub(super) fn time_of(self, wall: WallTime) -> Time {
        let ahead = Duration::from_nanos(wall.0.saturating_sub(self.wall.0));
        self.now + ahead.min(self.wait_max)
    }

    /// Converts a time that may be in the past. The result is `None` if it was before the monotonic
    /// clock began.
    pub(super) fn past_time_of(self, wall: WallTime) -> Option<Time> {
        match self.wall.0.checked_sub(wall.0) {
            Some(ago_ns) => self.now.0.checked_sub(ago_ns).map(Time),
            None => Some(self.time_of(wall)),
        }
    }
}

/// The bit of a cold host's page count which says that the counts of its sitemaps follow.
const HAS_SITEMAPS: u32 = 1 << 31;

/// All that a shard knows of its hosts.
pub(super) struct Lore<'s, F> {
    pub frontier: &'s mut Frontier<DiskSieve<F>, Pace>,
    pub health: &'s mut Health,
    pub robots: &'s mut RobotsCache,
    pub sitemaps: &'s mut SitemapCounts,
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

    /// Packs the cold hosts of whole parts of their table, from `part` on, until there are enough
    /// for an entry. The result is empty after the last part.
    pub(super) fn pack_cold(&self, part: &mut usize) -> Vec<u8> {
        let mut image = Vec::new();
        let mut pack = Pack(&mut image);
        let mut count = 0;
        while *part < COLD_PART_COUNT && count < COLD_IMAGE_COUNT {
            for (key, page_count) in self.frontier.cold_in_part(*part) {
                let (document_count, url_count) = self.sitemaps.taken(key);
                let has_sitemaps = document_count > 0 || url_count > 0;
                pack.u64(key.0);
                pack.u32(page_count.min(!HAS_SITEMAPS) | u32::from(has_sitemaps) << 31);
                if has_sitemaps {
                    pack.u32(document_count);
                    pack.u32(url_count);
                }
                count += 1;
            }
            *part += 1;
        }
        image
    }

    /// Takes over the hosts of an image made by [`Lore::pack_cold`], as far as `is_ours` accepts
    /// them.
    pub(super) fn unpack_cold(
        &mut self,
        image: &[u8],
        is_ours: impl Fn(HostKey) -> bool,
    ) -> Result<(), Unreadable> {
        let unreadable = "a cold host makes no sense";
        let mut image = Unpack(image);
        while !image.is_empty() {
            let (key, word) = image.u64().zip(image.u32()).ok_or(unreadable)?;
            let key = HostKey(key);
            let (document_count, url_count) = match word & HAS_SITEMAPS {
                0 => (0, 0),
                _ => image.u32().zip(image.u32()).ok_or(unreadable)?,
            };
            if !is_ours(key) {
                continue;
            }
            if !self.frontier.restore_cold(key, word & !HAS_SITEMAPS) {
                return Err("a cold host is there twice");
            }
            self.sitemaps.restore(key, document_count, url_count);
        }
        Ok(())
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
    use crate::base::hash_key::test_key;
    use crate::crawl::frontier::Caps;
    use crate::crawl::frontier::seen::SeenLimits;
    use crate::io::sim::SimFile;

    fn frontier() -> Frontier<DiskSieve<SimFile>, Pace> {
        Frontier::with_sieve(DiskSieve::new(SeenLimits::sized(16)), Caps::default(), test_key())
    }

    #[test]
    fn cold_hosts_are_dealt_by_their_keys_and_bring_what_their_sitemaps_were_allowed() {
        const COUNT: u64 = 10_000;
        let key = |number: u64| HostKey(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut before = (frontier(), SitemapCounts::default());
        for number in 1..=COUNT {
            before.0.restore_cold(key(number), number as u32);
            before.1.restore(key(number), number as u32 % 3, number as u32 % 2);
        }
        let (mut health, mut robots) =
            (Health::default(), RobotsCache::new("nephila", Duration::ZERO, Duration::ZERO));
        let mut lore = |of: &mut (Frontier<_, _>, SitemapCounts),
                        step: &mut dyn FnMut(&mut Lore<'_, _>)| {
            let (frontier, sitemaps) = (&mut of.0, &mut of.1);
            let (health, robots) = (&mut health, &mut robots);
            step(&mut Lore { frontier, health, robots, sitemaps });
        };
        let (mut images, mut part) = (Vec::new(), 0);
        lore(&mut before, &mut |lore| {
            let packed = std::iter::from_fn(|| Some(lore.pack_cold(&mut part)));
            images.extend(packed.take_while(|image| !image.is_empty()));
        });
        assert!((3..10).contains(&images.len()), "{} entries", images.len());
        let mut after =
            [(frontier(), SitemapCounts::default()), (frontier(), SitemapCounts::default())];
        for (index, after) in after.iter_mut().enumerate() {
            lore(after, &mut |lore| {
                for image in &images {
                    let unpacked = lore.unpack_cold(image, |key| key.0 >> 63 == index as u64);
                    assert_eq!(unpacked, Ok(()));
                }
                let again = lore.unpack_cold(&images[0], |key| key.0 >> 63 == index as u64);
                assert!(again.is_err(), "a host is taken over only once");
                for cut in 1..12 {
                    let image = &images[0][..cut];
                    assert!(lore.unpack_cold(image, |_| false).is_err(), "cut at {cut}");
                }
            });
        }
        for number in 1..=COUNT {
            let (ours, others) = match key(number).0 >> 63 {
                0 => (&after[0], &after[1]),
                _ => (&after[1], &after[0]),
            };
            assert_eq!(ours.0.cold_page_count(key(number)), number as u32);
            assert_eq!(ours.1.taken(key(number)), (number as u32 % 3, number as u32 % 2));
            assert_eq!(others.1.taken(key(number)), (0, 0));
        }
    }

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
        assert_eq!(after.past_time_of(before.wall), None, "the time is before the machine's start");
        assert_eq!(after.time_of(before.wall), after.now);
        let yesterday = Clocks { wall: WallTime(1), ..after };
        assert_eq!(yesterday.time_of(until), yesterday.now + Duration::from_secs(3_600));
    }
}

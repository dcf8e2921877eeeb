//! A host's pace: how long it is left alone between two requests.
//!
//! Owns what is remembered of each host beside the frontier's own record. The delay is the longest
//! of three: the configured one, the one that robots.txt asks for, and a multiple of the host's
//! usual response time, so that an overloaded server is asked less. Failures belong to the origin
//! (see `health`); waits that the server names (Retry-After) apply to the whole host. One core
//! touches a host.

use crate::base::Time;
use crate::crawl::config::Settings;
use crate::io::Clock;
use crate::proto::http::{ResponseHead, RetryAfter};
use std::time::Duration;

#[derive(Default)]
pub(in crate::shard) struct Pace {
    /// When the next turn was planned, to measure how late the schedule is; zero if the host was
    /// idle.
    pub planned: Time,
    /// The usual time from a request to the first byte of its answer.
    response_us: u32,
    /// Whether the host waits for the answer to an errand: it is busy, without a visit.
    pub is_parked: bool,
    /// Whether the host has the turn of its registrable domain, and waits for that of its address.
    pub holds_domain: bool,
}

const _: () = assert!(size_of::<Pace>() <= 16, "a host costs at most 200 bytes when it is idle");

/// A delay that was longer than `crawl_delay_ms_max` and was reduced to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::shard) struct Clamped {
    pub asked_ms: u64,
}

impl Pace {
    pub fn response_us(&self) -> u32 {
        self.response_us
    }

    /// Restores a pace as it was when a checkpoint was taken.
    pub fn with_response_us(response_us: u32) -> Pace {
        Pace { response_us, ..Pace::default() }
    }

    /// Adds a response time to the moving average with a weight of one eighth, as TCP does with its
    /// own.
    pub fn answered(&mut self, took: Duration) {
        let took_us = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        self.response_us = match self.response_us {
            0 => took_us,
            usual => usual - usual / 8 + took_us / 8,
        };
    }

    /// Returns the time between two requests, given the delay that the host's robots.txt asks for.
    pub fn delay(&self, crawl_delay_ms: Option<u64>, settings: &Settings) -> Duration {
        let asked_ms = crawl_delay_ms.unwrap_or(0).min(settings.crawl_delay_ms_max);
        let delay = Duration::from_millis(settings.delay_ms.max(asked_ms));
        delay.max(self.slowness(settings))
    }

    /// Returns how long the next request waits because the last ones took long.
    pub fn slowness(&self, settings: &Settings) -> Duration {
        if settings.delay_ms == 0 {
            return Duration::ZERO;
        }
        let us = u64::from(self.response_us).saturating_mul(settings.slow_host_factor);
        Duration::from_micros(us).min(Duration::from_millis(settings.slow_host_ms_max))
    }
}

/// Returns until when an answer asks us to stay away, and whether that time was clamped. Seconds
/// count from when the first byte of the answer came (`seen_by`), which is after it was sent. A
/// date is compared with the wall clock as it is now.
pub(in crate::shard) fn retry_after(
    head: &ResponseHead,
    seen_by: Time,
    clock: &impl Clock,
    settings: &Settings,
) -> Option<(Time, Option<Clamped>)> {
    let asked = RetryAfter::parse(head.header("retry-after")?)?;
    let from = match asked {
        RetryAfter::Seconds(_) => seen_by,
        RetryAfter::At(_) => clock.now(),
    };
    let asked_ms = asked.seconds_from(clock.wall()).saturating_mul(1_000);
    let longest_ms = settings.crawl_delay_ms_max;
    let clamped = (asked_ms > longest_ms).then_some(Clamped { asked_ms });
    Some((from + Duration::from_millis(asked_ms.min(longest_ms)), clamped))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn the_longest_of_all_delays_counts() {
        let settings = Settings::default();
        let mut pace = Pace::default();
        assert_eq!(pace.delay(None, &settings), ms(1_000));
        assert_eq!(pace.delay(Some(500), &settings), ms(1_000));
        assert_eq!(pace.delay(Some(7_500), &settings), ms(7_500));
        assert_eq!(pace.delay(Some(u64::MAX), &settings), ms(3_600_000));
        pace.answered(ms(600));
        assert_eq!(pace.delay(None, &settings), ms(3_000), "five times its response time");
        assert_eq!(pace.delay(Some(4_000), &settings), ms(4_000));
    }

    #[test]
    fn a_slow_host_is_asked_less_and_one_that_recovers_more_again() {
        let settings = Settings::default();
        let mut pace = Pace::default();
        pace.answered(ms(60_000));
        assert_eq!(pace.delay(None, &settings), ms(30_000), "slow_host_ms_max");
        (0..100).for_each(|_| pace.answered(ms(10)));
        assert_eq!(pace.delay(None, &settings), ms(1_000));
        let off = Settings { slow_host_factor: 0, ..Settings::default() };
        pace.answered(ms(60_000));
        assert_eq!(pace.delay(None, &off), ms(1_000));
        let own_server = Settings { delay_ms: 0, ..Settings::default() };
        assert_eq!(pace.delay(None, &own_server), ms(0));
    }
}

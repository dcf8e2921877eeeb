//! Origins that fail: back-off, and the circuit breaker.
//!
//! Owns the failures in a row of every origin (scheme, host and port) that has any; an origin that
//! is well has no entry. Kept by origin and not by host: links to thirty dead ports of a host,
//! which anyone can write, must not stop the one that works. In: what became of each request. Out:
//! how long the origin is left alone. No I/O and no clock of its own; touched by one core.
//!
//! ```text
//! well --fail--> backing off: unit, 2 units, 4 units ... jittered
//!      --fail x breaker_failure_count--> open: nothing is asked for breaker_open_ms
//!      --time--> half open: the next request, whichever it is, decides
//!      --success--> well              --fail--> open, twice as long
//!      --breaker_give_up_count opened in vain--> given up: its URLs become dead letters,
//!                                    until the time of its next try has come
//! ```
//!
//! Half open needs no state of its own: a host has one request at a time, so the first after the
//! wait is the one that decides.

use crate::base::pack::{Pack, Unpack};
use crate::base::{Time, WallTime};
use crate::config::Settings;
use crate::flow::Outcome;
use crate::frontier::{HostId, Origin};
use crate::limits::AILING_ORIGIN_COUNT_MAX;
use hashbrown::HashMap;
use std::time::Duration;

#[derive(Default)]
pub(super) struct Health {
    ailing: HashMap<(HostId, Origin), Ailing>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Ailing {
    pub failure_count: u8,
    /// Times the breaker opened since the last success.
    pub open_count: u8,
    pub given_up: bool,
    /// Of the last failure.
    pub cause: Outcome,
    pub until: Time,
}

/// What may be done with an origin's URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fitness {
    /// It may be asked.
    Fit,
    /// Not before then.
    Resting(Time),
    /// Given up for this reason; its URLs are not asked for.
    GivenUp(Outcome),
}

/// What a failure led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turning {
    BackedOff,
    Opened,
    GivenUp,
}

impl Health {
    pub fn fitness(&self, host: HostId, origin: Origin, now: Time) -> Fitness {
        match self.ailing.get(&(host, origin)) {
            Some(ailing) if ailing.until <= now => Fitness::Fit,
            Some(ailing) if ailing.given_up => Fitness::GivenUp(ailing.cause),
            Some(ailing) => Fitness::Resting(ailing.until),
            None => Fitness::Fit,
        }
    }

    /// A request ended well, or at least with an answer that makes sense. True if the breaker had
    /// been open.
    pub fn recovered(&mut self, host: HostId, origin: Origin) -> bool {
        self.ailing.remove(&(host, origin)).is_some_and(|ailing| ailing.open_count > 0)
    }

    /// A request failed at `at`. `unit` is the shortest wait; `is_news` is false for a URL that has
    /// failed before and got an answer again: it tells nothing new of its origin. `draw` is random.
    pub fn failed(
        &mut self,
        key: (HostId, Origin),
        failure: Failure,
        settings: &Settings,
        draw: u64,
    ) -> Turning {
        let Failure { at, cause, unit, is_news } = failure;
        if self.ailing.len() >= AILING_ORIGIN_COUNT_MAX && !self.ailing.contains_key(&key) {
            // So many fail at once that it is our own network. Each is asked at its host's pace.
            return Turning::BackedOff;
        }
        let ailing = self.ailing.entry(key).or_insert(Ailing {
            failure_count: 0,
            open_count: 0,
            given_up: false,
            cause,
            until: at,
        });
        ailing.cause = cause;
        ailing.failure_count = ailing.failure_count.saturating_add(u8::from(is_news)).max(1);
        let longest = Duration::from_millis(settings.crawl_delay_ms_max);
        if ailing.open_count == 0 && ailing.failure_count < settings.breaker_failure_count {
            let wait = doubled(unit, ailing.failure_count - 1).min(longest);
            ailing.until = at + jittered(wait, draw);
            return Turning::BackedOff;
        }
        ailing.given_up = ailing.open_count >= settings.breaker_give_up_count;
        let first = Duration::from_millis(settings.breaker_open_ms);
        let wait = doubled(first, ailing.open_count).min(longest.max(first));
        ailing.open_count = ailing.open_count.saturating_add(1);
        ailing.until = at + jittered(wait, draw);
        if ailing.given_up { Turning::GivenUp } else { Turning::Opened }
    }

    /// Packs how an origin fails; nothing if it does not.
    pub fn pack(
        &self,
        host: HostId,
        origin: Origin,
        pack: &mut Pack<'_>,
        wall_of: impl Fn(Time) -> WallTime,
    ) {
        let Some(ailing) = self.ailing.get(&(host, origin)) else { return };
        pack.u8(ailing.failure_count);
        pack.u8(ailing.open_count);
        pack.u8(u8::from(ailing.given_up));
        pack.u8(ailing.cause as u8);
        pack.u64(wall_of(ailing.until).0);
    }

    /// Takes in what [`Health::pack`] packed; `None` if it is something else.
    pub fn unpack(
        &mut self,
        host: HostId,
        origin: Origin,
        image: &[u8],
        time_of: impl Fn(WallTime) -> Time,
    ) -> Option<()> {
        if image.is_empty() {
            self.ailing.remove(&(host, origin));
            return Some(());
        }
        let mut image = Unpack(image);
        let ailing = Ailing {
            failure_count: image.u8()?,
            open_count: image.u8()?,
            given_up: image.u8()? != 0,
            cause: *Outcome::ALL.get(usize::from(image.u8()?))?,
            until: time_of(WallTime(image.u64()?)),
        };
        self.ailing.insert((host, origin), ailing);
        image.is_empty().then_some(())
    }

    /// How it fails, if it does.
    pub fn ailing(&self, host: HostId, origin: Origin) -> Option<Ailing> {
        self.ailing.get(&(host, origin)).copied()
    }

    /// Whether it fails, or has failed and not been asked since.
    pub fn is_ailing(&self, host: HostId, origin: Origin) -> bool {
        self.ailing.contains_key(&(host, origin))
    }

    /// Why it failed last, if it fails.
    pub fn cause(&self, host: HostId, origin: Origin) -> Option<Outcome> {
        self.ailing.get(&(host, origin)).map(|ailing| ailing.cause)
    }

    /// Whether the last failures were those of the connection, and an odd number of them: the other
    /// family of addresses gets its turn.
    pub fn wants_other_family(&self, host: HostId, origin: Origin) -> bool {
        use Outcome::{ConnectFailed, ConnectRefused, ConnectTimedOut};
        self.ailing.get(&(host, origin)).is_some_and(|ailing| {
            matches!(ailing.cause, ConnectFailed | ConnectRefused | ConnectTimedOut)
                && (ailing.failure_count + ailing.open_count) % 2 == 1
        })
    }
}

/// One failure, as [`Health::failed`] books it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failure {
    pub at: Time,
    pub cause: Outcome,
    pub unit: Duration,
    pub is_news: bool,
}

/// How long a URL waits before its next try, the `tries`-th: 1, 5 and 30 units, then 30 each.
pub(super) fn retry_wait(tries: u8, unit: Duration, settings: &Settings, draw: u64) -> Duration {
    let units = [1, 5, 30][usize::from(tries).min(2)];
    let wait = unit.saturating_mul(units);
    jittered(wait.min(Duration::from_millis(settings.crawl_delay_ms_max)), draw)
}

fn doubled(wait: Duration, times: u8) -> Duration {
    wait.saturating_mul(1 << u32::from(times).min(30))
}

/// Up to a quarter longer, never shorter: hosts that failed together do not come back together.
fn jittered(wait: Duration, draw: u64) -> Duration {
    let quarter_ns = wait.as_nanos() / 4;
    let extra_ns = (quarter_ns * u128::from(draw)) >> 64;
    wait + Duration::from_nanos(u64::try_from(extra_ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::Scheme;
    use proptest::prelude::*;

    const HOST: HostId = HostId(7);
    const ORIGIN: Origin = Origin { scheme: Scheme::Http, port: 80 };
    const KEY: (HostId, Origin) = (HOST, ORIGIN);

    fn seconds(count: u64) -> Time {
        Time::from_ms(count * 1_000)
    }

    fn failure(at: Time) -> Failure {
        let unit = Duration::from_secs(1);
        Failure { at, cause: Outcome::ConnectRefused, unit, is_news: true }
    }

    fn fail(health: &mut Health, at: Time) -> Turning {
        health.failed(KEY, failure(at), &Settings::default(), 0)
    }

    #[test]
    fn four_failures_back_off_in_doubling_steps_and_the_fifth_opens_the_breaker() {
        let mut health = Health::default();
        for wait in [1, 2, 4, 8] {
            assert_eq!(fail(&mut health, seconds(100)), Turning::BackedOff);
            let resting = Fitness::Resting(seconds(100 + wait));
            assert_eq!(health.fitness(HOST, ORIGIN, seconds(100)), resting);
            assert_eq!(health.fitness(HOST, ORIGIN, seconds(100 + wait)), Fitness::Fit);
        }
        assert_eq!(fail(&mut health, seconds(200)), Turning::Opened);
        let five_minutes = Fitness::Resting(seconds(500));
        assert_eq!(health.fitness(HOST, ORIGIN, seconds(499)), five_minutes);
        assert_eq!(health.fitness(HOST, ORIGIN, seconds(500)), Fitness::Fit, "half open");
    }

    #[test]
    fn half_open_one_success_closes_it_and_one_failure_opens_it_for_twice_as_long() {
        let mut health = Health::default();
        (0..5).for_each(|_| _ = fail(&mut health, seconds(0)));
        assert_eq!(fail(&mut health, seconds(300)), Turning::Opened);
        assert_eq!(health.fitness(HOST, ORIGIN, seconds(899)), Fitness::Resting(seconds(900)));
        assert!(health.recovered(HOST, ORIGIN));
        assert_eq!(health.fitness(HOST, ORIGIN, seconds(300)), Fitness::Fit);
        assert_eq!(fail(&mut health, seconds(1_000)), Turning::BackedOff, "counted from one again");
        assert!(!health.recovered(HOST, ORIGIN), "it was not open");
    }

    #[test]
    fn an_origin_that_stays_dead_is_given_up_and_tried_again_later() {
        let mut health = Health::default();
        (0..5).for_each(|_| _ = fail(&mut health, seconds(0)));
        assert_eq!(fail(&mut health, seconds(300)), Turning::Opened);
        assert_eq!(fail(&mut health, seconds(900)), Turning::Opened);
        assert_eq!(fail(&mut health, seconds(2_100)), Turning::GivenUp);
        let given_up = Fitness::GivenUp(Outcome::ConnectRefused);
        assert_eq!(health.fitness(HOST, ORIGIN, seconds(2_101)), given_up);
        assert_eq!(health.fitness(HOST, ORIGIN, seconds(2_100 + 2_400)), Fitness::Fit);
        assert_eq!(fail(&mut health, seconds(4_500)), Turning::GivenUp);
    }

    #[test]
    fn a_url_that_fails_again_says_nothing_new_of_its_origin() {
        let mut health = Health::default();
        for _ in 0..20 {
            let again = Failure { is_news: false, ..failure(seconds(0)) };
            let turning = health.failed(KEY, again, &Settings::default(), 0);
            assert_eq!(turning, Turning::BackedOff);
        }
    }

    #[test]
    fn a_dead_port_leaves_the_other_ports_of_its_host_alone() {
        let mut health = Health::default();
        (0..9).for_each(|_| _ = fail(&mut health, seconds(0)));
        let other = Origin { port: 81, ..ORIGIN };
        assert_eq!(health.fitness(HOST, other, seconds(0)), Fitness::Fit);
    }

    #[test]
    fn retries_wait_one_five_and_thirty_units() {
        let wait = |tries, unit_s| {
            let settings = Settings::default();
            retry_wait(tries, Duration::from_secs(unit_s), &settings, 0).as_secs()
        };
        assert_eq!([wait(0, 1), wait(1, 1), wait(2, 1), wait(3, 1)], [1, 5, 30, 30]);
        assert_eq!([wait(0, 10), wait(1, 10), wait(2, 10)], [10, 50, 300]);
        assert_eq!(wait(2, 86_400), 3_600, "no wait is longer than crawl_delay_ms_max");
    }

    #[test]
    fn a_breaker_comes_back_from_its_image() {
        let mut health = Health::default();
        (0..5).for_each(|_| _ = fail(&mut health, seconds(0)));
        let mut image = Vec::new();
        health.pack(HOST, ORIGIN, &mut Pack(&mut image), |time| WallTime(time.0 + 1));
        let mut again = Health::default();
        let time_of = |wall: WallTime| Time(wall.0 - 1);
        assert_eq!(again.unpack(HOST, ORIGIN, &image, time_of), Some(()));
        assert_eq!(again.fitness(HOST, ORIGIN, seconds(299)), Fitness::Resting(seconds(300)));
        assert_eq!(again.unpack(HOST, ORIGIN, &image[..11], time_of), None);
        assert_eq!(fail(&mut again, seconds(300)), Turning::Opened, "half open");
        assert_eq!(again.unpack(HOST, ORIGIN, &[], time_of), Some(()));
        assert_eq!(again.fitness(HOST, ORIGIN, seconds(0)), Fitness::Fit);
    }

    proptest! {
        #[test]
        fn jitter_adds_at_most_a_quarter_and_takes_nothing(ms in 0u64..10_000_000, draw: u64) {
            let wait = Duration::from_millis(ms);
            let longer = jittered(wait, draw);
            prop_assert!(longer >= wait && longer <= wait + wait / 4);
        }
    }
}

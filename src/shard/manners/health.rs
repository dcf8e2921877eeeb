//! The health of origins: back-off, and the circuit breaker.
//!
//! Owns the failures in a row of every origin (scheme, host and port) that has any; an origin that
//! is well has no entry. Failures are kept by origin and not by host: links to thirty dead ports of
//! a host, which anyone can write, must not stop the port that works. In: the result of each
//! request. Out: how long the origin is left alone. It does no I/O and has no clock of its own.
//! Touched by one core.
//!
//! ```text
//! well --fail--> backing off: unit, 2 units, 4 units ... jittered
//!      --fail x breaker_failure_count--> open: no requests for breaker_open_ms
//!      --time--> half open: one request decides
//!      --success--> well              --fail--> open, twice as long
//!      --breaker_give_up_count opened in vain, unanswered--> given up: its URLs become dead
//!                                    letters, until the time of its next try has come
//!      --breaker_give_up_count opened in vain, answered--> asked on, URL by URL
//! ```
//!
//! The half-open state needs no field of its own: a host has one request at a time, so the first
//! request after the wait is the one that decides.
//!
//! A failure of a URL is not always a failure of its origin ([`Sign`]). A URL that was requested
//! and fails again says nothing new, so only its first failure counts, unless the origin could not
//! be reached or the breaker is half open. While its origin fails, the URLs that have not failed go
//! first ([`Health::prefers_fresh`]). An origin that answers, even if only with errors, is up: it
//! is not given up before [`FAILED_URL_COUNT_MAX`] of its URLs failed in a row.

use crate::base::limits::{AILING_ORIGIN_COUNT_MAX, FAILED_URL_COUNT_MAX};
use crate::base::pack::{Pack, Unpack};
use crate::base::{Time, WallTime};
use crate::crawl::config::Settings;
use crate::crawl::flow::Outcome;
use crate::crawl::frontier::{HostId, Origin};
use hashbrown::HashMap;
use std::time::Duration;

#[derive(Default)]
pub(in crate::shard) struct Health {
    ailing: HashMap<(HostId, Origin), Ailing>,
}

/// What is remembered of an origin that fails.
#[derive(Clone, Copy, Debug)]
pub(in crate::shard) struct Ailing {
    /// Failures since the last success. A URL that had failed before counts only if the origin
    /// could not be reached, or while the breaker was open.
    pub failure_count: u16,
    /// How often the breaker opened since the last success.
    pub open_count: u8,
    pub given_up: bool,
    /// Whether the origin was given up at least once since the last success.
    was_given_up: bool,
    /// Whether the origin answered with an error at least once since the last success.
    has_answered: bool,
    /// The number of requests in a row without an answer, since the origin has been asked on.
    silent_count: u8,
    /// The cause of the last failure.
    pub cause: Outcome,
    pub until: Time,
    /// The number of URLs put behind others since the last request. A checkpoint does not keep it,
    /// because the URLs are in their queue.
    put_back_count: u32,
}

/// What a failure says about its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::shard) enum Sign {
    /// Nothing of the origin could be reached, or its robots.txt failed: any other URL would fail
    /// too.
    Unreached,
    /// The request was sent and not answered: the fault is the origin's or the URL's.
    Unanswered,
    /// The origin answered with an error, so it is up.
    Answered,
}

/// What may be done with a URL of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::shard) enum OriginFitness {
    /// The origin may be asked.
    Fit,
    /// The origin may not be asked before this time.
    Resting(Time),
    /// The origin was given up for this reason. Its URLs are not requested.
    GivenUp(Outcome),
}

/// What a failure led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::shard) enum Turning {
    BackedOff,
    Opened,
    /// The breaker opened in vain often enough, but the origin answers: its URLs are requested one
    /// by one.
    AskedOn,
    /// The origin is given up. `is_news` is true for the first time since the last success.
    GivenUp {
        is_news: bool,
    },
}

impl Health {
    pub fn fitness(&self, host: HostId, origin: Origin, now: Time) -> OriginFitness {
        match self.ailing.get(&(host, origin)) {
            Some(ailing) if ailing.until <= now => OriginFitness::Fit,
            Some(ailing) if ailing.given_up => OriginFitness::GivenUp(ailing.cause),
            Some(ailing) => OriginFitness::Resting(ailing.until),
            None => OriginFitness::Fit,
        }
    }

    /// Notes that a request succeeded, or at least had an answer that makes sense. Returns true if
    /// the breaker had been open.
    pub fn recovered(&mut self, host: HostId, origin: Origin) -> bool {
        self.ailing.remove(&(host, origin)).is_some_and(|ailing| ailing.open_count > 0)
    }

    /// Notes that a request failed, and returns what this led to. `draw` is random.
    pub fn failed(
        &mut self,
        key: (HostId, Origin),
        failure: Failure,
        settings: &Settings,
        draw: u64,
    ) -> Turning {
        let Failure { at, cause, sign, is_first, unit } = failure;
        if self.ailing.len() >= AILING_ORIGIN_COUNT_MAX && !self.ailing.contains_key(&key) {
            // So many origins fail at once that our own network must be the cause. Each is asked at
            // its host's pace.
            return Turning::BackedOff;
        }
        let ailing = self.ailing.entry(key).or_insert(Ailing {
            failure_count: 0,
            open_count: 0,
            given_up: false,
            was_given_up: false,
            has_answered: false,
            silent_count: 0,
            cause,
            until: at,
            put_back_count: 0,
        });
        ailing.cause = cause;
        ailing.has_answered |= sign == Sign::Answered;
        ailing.put_back_count = 0;
        let is_spent = ailing.open_count >= settings.breaker_give_up_count;
        // While the breaker is half open, a URL that failed before is requested only if there is no
        // other.
        let is_probe = ailing.open_count > 0 && !is_spent;
        let is_news = is_first || sign == Sign::Unreached || is_probe;
        ailing.failure_count = ailing.failure_count.saturating_add(u16::from(is_news)).max(1);
        let longest = Duration::from_millis(settings.crawl_delay_ms_max);
        let is_closed = ailing.open_count == 0
            && ailing.failure_count < u16::from(settings.breaker_failure_count);
        if is_closed {
            let wait = doubled(unit, u32::from(ailing.failure_count) - 1).min(longest);
            ailing.until = at + jittered(wait, draw);
            return Turning::BackedOff;
        }
        if is_spent && ailing.may_answer(sign, settings) {
            ailing.given_up = false;
            let wait = doubled(unit, u32::from(ailing.silent_count)).min(longest);
            ailing.until = at + jittered(wait, draw);
            return Turning::AskedOn;
        }
        let first = Duration::from_millis(settings.breaker_open_ms);
        let wait = doubled(first, u32::from(ailing.open_count)).min(longest.max(first));
        ailing.open_count = ailing.open_count.saturating_add(1);
        ailing.until = at + jittered(wait, draw);
        if !is_spent {
            return Turning::Opened;
        }
        (ailing.given_up, ailing.silent_count) = (true, 0);
        Turning::GivenUp { is_news: !std::mem::replace(&mut ailing.was_given_up, true) }
    }

    /// Reports whether a URL that has failed before goes behind the `queued_count` other URLs of
    /// its host. Each URL is put back at most once between two requests, so that an origin whose
    /// URLs have all failed is asked for them again.
    pub fn prefers_fresh(&mut self, host: HostId, origin: Origin, queued_count: u32) -> bool {
        let Some(ailing) = self.ailing.get_mut(&(host, origin)) else { return false };
        let prefers = ailing.put_back_count < queued_count;
        ailing.put_back_count += u32::from(prefers);
        prefers
    }

    /// Packs the failures of an origin, or nothing if it is well.
    pub fn pack(
        &self,
        host: HostId,
        origin: Origin,
        pack: &mut Pack<'_>,
        wall_of: impl Fn(Time) -> WallTime,
    ) {
        let Some(ailing) = self.ailing.get(&(host, origin)) else { return };
        pack.u16(ailing.failure_count);
        pack.u8(ailing.open_count);
        let flags = [ailing.given_up, ailing.was_given_up, ailing.has_answered];
        pack.u8(flags.iter().rev().fold(0, |bits, flag| bits << 1 | u8::from(*flag)));
        pack.u8(ailing.silent_count);
        pack.u8(ailing.cause as u8);
        pack.u64(wall_of(ailing.until).0);
    }

    /// Restores what [`Health::pack`] packed. Returns `None` if the image is something else.
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
        let (failure_count, open_count) = (image.u16()?, image.u8()?);
        let flags = image.u8().filter(|flags| *flags < 8)?;
        let ailing = Ailing {
            failure_count,
            open_count,
            given_up: flags & 1 != 0,
            was_given_up: flags & 2 != 0,
            has_answered: flags & 4 != 0,
            silent_count: image.u8()?,
            cause: *Outcome::ALL.get(usize::from(image.u8()?))?,
            until: time_of(WallTime(image.u64()?)),
            put_back_count: 0,
        };
        self.ailing.insert((host, origin), ailing);
        image.is_empty().then_some(())
    }

    /// Returns the failures of an origin, or `None` if it is well.
    pub fn ailing(&self, host: HostId, origin: Origin) -> Option<Ailing> {
        self.ailing.get(&(host, origin)).copied()
    }

    /// Returns all origins that fail, with their hosts, in no particular order.
    pub fn all(&self) -> impl Iterator<Item = (HostId, &Ailing)> {
        self.ailing.iter().map(|((host, _), ailing)| (*host, ailing))
    }

    /// Reports whether an origin fails, or has failed and not been asked since.
    pub fn is_ailing(&self, host: HostId, origin: Origin) -> bool {
        self.ailing.contains_key(&(host, origin))
    }

    /// Returns the cause of an origin's last failure, or `None` if it is well.
    pub fn cause(&self, host: HostId, origin: Origin) -> Option<Outcome> {
        self.ailing.get(&(host, origin)).map(|ailing| ailing.cause)
    }

    /// Reports whether connections use the other family of addresses: the last failure was one of
    /// the connection, and the failures plus the openings of the breaker make an odd number.
    pub fn wants_other_family(&self, host: HostId, origin: Origin) -> bool {
        use Outcome::{ConnectFailed, ConnectRefused, ConnectTimedOut};
        self.ailing.get(&(host, origin)).is_some_and(|ailing| {
            matches!(ailing.cause, ConnectFailed | ConnectRefused | ConnectTimedOut)
                && (ailing.failure_count + u16::from(ailing.open_count)) % 2 == 1
        })
    }
}

impl Ailing {
    /// Reports whether the URLs of an origin are still requested after its breaker opened in vain
    /// as often as it may.
    fn may_answer(&mut self, sign: Sign, settings: &Settings) -> bool {
        if sign == Sign::Answered {
            self.silent_count = 0;
            return self.failure_count < FAILED_URL_COUNT_MAX;
        }
        // If the origin has not answered since its first failure, there is no reason to go on. If
        // it has, it is asked as often as one that fails for the first time.
        self.silent_count = self.silent_count.saturating_add(1);
        self.has_answered
            && self.failure_count < FAILED_URL_COUNT_MAX
            && self.silent_count < settings.breaker_failure_count
    }
}

/// One failure, as [`Health::failed`] records it.
#[derive(Clone, Copy, Debug)]
pub(in crate::shard) struct Failure {
    pub at: Time,
    pub cause: Outcome,
    pub sign: Sign,
    /// Whether the URL has not failed before.
    pub is_first: bool,
    /// The shortest wait.
    pub unit: Duration,
}

/// Returns how long a URL waits for its next try: 1, 5 and 30 units, then 30 each. `tries` is the
/// number of tries before the one that has just failed.
pub(in crate::shard) fn retry_wait(
    tries: u8,
    unit: Duration,
    settings: &Settings,
    draw: u64,
) -> Duration {
    let units = [1, 5, 30][usize::from(tries).min(2)];
    let wait = unit.saturating_mul(units);
    jittered(wait.min(Duration::from_millis(settings.crawl_delay_ms_max)), draw)
}

fn doubled(wait: Duration, times: u32) -> Duration {
    wait.saturating_mul(1 << times.min(30))
}

/// Makes a wait up to a quarter longer, never shorter, so that hosts that failed together do not
/// come back together.
fn jittered(wait: Duration, draw: u64) -> Duration {
    let quarter_ns = wait.as_nanos() / 4;
    let extra_ns = (quarter_ns * u128::from(draw)) >> 64;
    wait + Duration::from_nanos(u64::try_from(extra_ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::url::Scheme;
    use proptest::prelude::*;

    const HOST: HostId = HostId(7);
    const ORIGIN: Origin = Origin { scheme: Scheme::Http, port: 80 };
    const KEY: (HostId, Origin) = (HOST, ORIGIN);

    fn seconds(count: u64) -> Time {
        Time::from_ms(count * 1_000)
    }

    fn failure(at: Time) -> Failure {
        let unit = Duration::from_secs(1);
        let (cause, sign) = (Outcome::ConnectRefused, Sign::Unreached);
        Failure { at, cause, sign, is_first: true, unit }
    }

    fn error(at: Time) -> Failure {
        Failure { cause: Outcome::ServerError, sign: Sign::Answered, ..failure(at) }
    }

    fn fail(health: &mut Health, at: Time) -> Turning {
        health.failed(KEY, failure(at), &Settings::default(), 0)
    }

    #[test]
    fn four_failures_back_off_in_doubling_steps_and_the_fifth_opens_the_breaker() {
        let mut health = Health::default();
        for wait in [1, 2, 4, 8] {
            assert_eq!(fail(&mut health, seconds(100)), Turning::BackedOff);
            let resting = OriginFitness::Resting(seconds(100 + wait));
            assert_eq!(health.fitness(HOST, ORIGIN, seconds(100)), resting);
            assert_eq!(health.fitness(HOST, ORIGIN, seconds(100 + wait)), OriginFitness::Fit);
        }
        assert_eq!(fail(&mut health, seconds(200)), Turning::Opened);
        let five_minutes = OriginFitness::Resting(seconds(500));
        assert_eq!(health.fitness(HOST, ORIGIN, seconds(499)), five_minutes);
        assert_eq!(health.fitness(HOST, ORIGIN, seconds(500)), OriginFitness::Fit, "half open");
    }

    #[test]
    fn half_open_one_success_closes_it_and_one_failure_opens_it_for_twice_as_long() {
        let mut health = Health::default();
        (0..5).for_each(|_| _ = fail(&mut health, seconds(0)));
        assert_eq!(fail(&mut health, seconds(300)), Turning::Opened);
        assert_eq!(
            health.fitness(HOST, ORIGIN, seconds(899)),
            OriginFitness::Resting(seconds(900))
        );
        assert!(health.recovered(HOST, ORIGIN));
        assert_eq!(health.fitness(HOST, ORIGIN, seconds(300)), OriginFitness::Fit);
        assert_eq!(fail(&mut health, seconds(1_000)), Turning::BackedOff, "counted from one again");
        assert!(!health.recovered(HOST, ORIGIN), "the breaker was not open");
    }

    #[test]
    fn an_origin_that_stays_dead_is_given_up_and_tried_again_later() {
        let mut health = Health::default();
        (0..5).for_each(|_| _ = fail(&mut health, seconds(0)));
        assert_eq!(fail(&mut health, seconds(300)), Turning::Opened);
        assert_eq!(fail(&mut health, seconds(900)), Turning::Opened);
        assert_eq!(fail(&mut health, seconds(2_100)), Turning::GivenUp { is_news: true });
        let given_up = OriginFitness::GivenUp(Outcome::ConnectRefused);
        assert_eq!(health.fitness(HOST, ORIGIN, seconds(2_101)), given_up);
        assert_eq!(health.fitness(HOST, ORIGIN, seconds(2_100 + 2_400)), OriginFitness::Fit);
        assert_eq!(fail(&mut health, seconds(4_500)), Turning::GivenUp { is_news: false });
    }

    #[test]
    fn an_origin_that_answers_with_errors_is_asked_on_at_a_pace_and_not_for_ever() {
        let mut health = Health::default();
        let mut fail = |at| health.failed(KEY, error(at), &Settings::default(), 0);
        (0..4).for_each(|_| assert_eq!(fail(seconds(0)), Turning::BackedOff));
        let opened = [0, 300, 900].map(|at| fail(seconds(at)));
        assert_eq!(opened, [Turning::Opened; 3]);
        let asked_on = (7..FAILED_URL_COUNT_MAX - 1).map(|_| fail(seconds(2_100)));
        assert!(asked_on.into_iter().all(|turning| turning == Turning::AskedOn));
        let resting = OriginFitness::Resting(seconds(2_101));
        assert_eq!(health.fitness(HOST, ORIGIN, seconds(2_100)), resting);
        let mut fail = |at| health.failed(KEY, error(at), &Settings::default(), 0);
        assert_eq!(fail(seconds(9_000)), Turning::GivenUp { is_news: true });
    }

    #[test]
    fn an_origin_that_had_answered_is_given_up_after_as_many_silences_as_open_the_breaker() {
        let mut health = Health::default();
        let settings = Settings::default();
        (0..9).for_each(|_| _ = health.failed(KEY, error(seconds(0)), &settings, 0));
        for wait in [2, 4, 8, 16] {
            assert_eq!(fail(&mut health, seconds(100)), Turning::AskedOn);
            let resting = OriginFitness::Resting(seconds(100 + wait));
            assert_eq!(health.fitness(HOST, ORIGIN, seconds(100)), resting);
        }
        assert_eq!(health.failed(KEY, error(seconds(200)), &settings, 0), Turning::AskedOn);
        (0..4).for_each(|_| assert_eq!(fail(&mut health, seconds(300)), Turning::AskedOn));
        assert_eq!(fail(&mut health, seconds(300)), Turning::GivenUp { is_news: true });
    }

    #[test]
    fn of_an_ailing_origin_fresh_urls_go_first_each_other_once_between_two_requests() {
        let mut health = Health::default();
        assert!(!health.prefers_fresh(HOST, ORIGIN, 9), "the origin is well");
        fail(&mut health, seconds(0));
        let preferred: Vec<bool> = (0..4).map(|_| health.prefers_fresh(HOST, ORIGIN, 3)).collect();
        assert_eq!(preferred, [true, true, true, false]);
        fail(&mut health, seconds(1));
        assert!(health.prefers_fresh(HOST, ORIGIN, 3));
        assert!(!health.prefers_fresh(HOST, ORIGIN, 0), "there is no other URL");
    }

    #[test]
    fn a_url_that_fails_again_says_nothing_new_of_its_origin() {
        let mut health = Health::default();
        for _ in 0..20 {
            for sign in [Sign::Answered, Sign::Unanswered] {
                let again = Failure { sign, is_first: false, ..failure(seconds(0)) };
                let turning = health.failed(KEY, again, &Settings::default(), 0);
                assert_eq!(turning, Turning::BackedOff);
            }
        }
    }

    #[test]
    fn a_dead_port_leaves_the_other_ports_of_its_host_alone() {
        let mut health = Health::default();
        (0..9).for_each(|_| _ = fail(&mut health, seconds(0)));
        let other = Origin { port: 81, ..ORIGIN };
        assert_eq!(health.fitness(HOST, other, seconds(0)), OriginFitness::Fit);
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
        assert_eq!(again.fitness(HOST, ORIGIN, seconds(299)), OriginFitness::Resting(seconds(300)));
        assert_eq!(again.unpack(HOST, ORIGIN, &image[..13], time_of), None);
        assert_eq!(fail(&mut again, seconds(300)), Turning::Opened, "half open");
        assert_eq!(again.unpack(HOST, ORIGIN, &[], time_of), Some(()));
        assert_eq!(again.fitness(HOST, ORIGIN, seconds(0)), OriginFitness::Fit);
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

//! Politeness: which URL may be requested when. It covers turns at addresses and domains, delays,
//! the health of origins, and robots.txt.
//!
//! Owns what politeness needs beside the frontier's own record of a host ([`Pace`], which the
//! caller lends): the lines at the addresses and domains of this shard, the origins that fail, the
//! rules of robots.txt, and the errands for robots.txt files that were redirected here. In: the
//! result of each request, and turns that other shards want or return. Out: times, turns, verdicts,
//! journal entries and letters. Invariants: a line has one holder, and no page is cleared while the
//! robots.txt of its origin is unknown. It does no I/O and has no clock of its own. Touched by one
//! core.

mod errands;
mod health;
mod held_turns;
mod pace;
mod turn_lines;

pub(super) use errands::{AddedErrand, Errand, Reading};
pub(super) use health::{Health, Sign};
pub(super) use held_turns::{HeldTurns, Turn};
pub(super) use pace::Pace;
pub(super) use turn_lines::Wanted;

use super::Sabotage;
use super::image::Clocks;
use super::kit::Kit;
use super::out::Out;
use super::placement::Placement;
use super::probe::Probe;
use crate::base::owed::Ledger;
use crate::base::pack::Pack;
use crate::base::{HashKey, Time};
use crate::crawl::config::Settings;
use crate::crawl::fetch::Answer;
use crate::crawl::flow::{Outcome, Penalty, RobotsAnswer, ShardIndex, Via};
use crate::crawl::frontier::{HostId, Origin, Queued};
use crate::crawl::journal::{self, Entry};
use crate::crawl::metrics::{Count, is_failure};
use crate::crawl::resolve::{RobotsCache, RobotsState, RobotsTurn, RobotsVersion};
use crate::io::{Clock, Random, World};
use crate::proto::url::Url;
use errands::Errands;
use health::{Failure, OriginFitness, Turning};
use pace::Clamped;
use std::rc::Rc;
use std::time::Duration;
use turn_lines::TurnLines;

pub(super) struct Manners {
    index: ShardIndex,
    placement: Placement,
    hash_key: HashKey,
    settings: Settings,
    sabotage: Option<Sabotage>,
    probe: Rc<Probe>,
    health: Health,
    lines: TurnLines,
    /// The turns that visits hold.
    turns: Ledger,
    robots: RobotsCache,
    errands: Errands,
}

/// What may be done with a URL before its host's address is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fitness {
    Fit,
    /// The URL may not be requested before this time.
    Wait(Time),
    /// The URL is requested after the other URLs of its host: it has failed before, and its origin
    /// is failing.
    Last,
    /// The URL ends here, without a request.
    End(Outcome),
}

/// What may be done with a URL whose host's address is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clearance {
    Ask,
    /// The rules of the URL's origin are not known: its robots.txt must be requested first.
    AskRobots,
    Wait(Time),
    End(Outcome),
}

/// A host that has just received a request, or may receive one: its id, the URL and the host's
/// pace.
pub(super) struct Asked<'a> {
    pub host: HostId,
    pub url: &'a Url,
    pub pace: &'a mut Pace,
}

/// What is known of a robots.txt at the end of its host's turn.
pub(super) struct Settled<'a> {
    pub answer: &'a RobotsAnswer,
    pub version: RobotsVersion,
    /// Why the robots.txt is unreachable, if it is.
    pub cause: Outcome,
    /// When the server had seen the request, and (`next`) when the host may be asked again.
    pub seen_by: Time,
    pub next: Time,
}

/// What an answer for a robots.txt led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RobotsEnd {
    /// The rules are known. The host may be asked again at this time.
    Known(Time),
    /// The origin may not be crawled for now: see [`Manners::robots_failed`].
    Failed,
}

impl Manners {
    pub(super) fn new<W: World>(kit: &Kit<W>, health: Health, robots: RobotsCache) -> Manners {
        let plan = &kit.plan;
        let mut lines = TurnLines::default();
        if plan.past.is_some() {
            // After a restart, the address that was asked last is not known.
            let after = |ms| kit.world.now() + Duration::from_millis(ms);
            let Settings { delay_ms, domain_delay_ms, .. } = plan.settings;
            lines.rest_until(after(delay_ms), after(domain_delay_ms));
        }
        Manners {
            index: kit.index,
            placement: plan.placement,
            hash_key: plan.hash_key.clone(),
            settings: plan.settings.clone(),
            sabotage: plan.sabotage,
            probe: kit.probe.clone(),
            health,
            lines,
            turns: Ledger::default(),
            robots,
            errands: Errands::default(),
        }
    }

    /// Returns what a checkpoint packs with each host.
    pub(super) fn lore(&mut self) -> (&mut Health, &mut RobotsCache) {
        (&mut self.health, &mut self.robots)
    }

    pub(super) fn health(&self) -> &Health {
        &self.health
    }

    // --- Whether a URL may be requested --------------------------------------------------------

    /// Judges a URL by its tries and by the health of its origin. `queued_count` is the number of
    /// URLs that are queued for its host.
    pub(super) fn fitness(
        &mut self,
        host: HostId,
        queued: &Queued,
        queued_count: impl FnOnce() -> u32,
        now: Time,
    ) -> Fitness {
        let is_errand = queued.via == Via::Robots;
        let origin = Origin::of(&queued.url);
        if queued.tries_made() > self.settings.retry_count_max {
            // The robots.txt of this URL's origin failed as often as a page may.
            return Fitness::End(out_of_tries(self.health.cause(host, origin)));
        }
        match self.health.fitness(host, origin, now) {
            OriginFitness::Fit => {}
            // The asking host is parked on this errand, so it fails now instead of waiting for the
            // breaker.
            OriginFitness::Resting(_) if is_errand => return Fitness::End(Outcome::OriginDown),
            OriginFitness::Resting(until) => return Fitness::Wait(until),
            OriginFitness::GivenUp(Outcome::RobotsUnreachable) => {
                return Fitness::End(Outcome::RobotsUnreachable);
            }
            OriginFitness::GivenUp(_) => return Fitness::End(Outcome::OriginDown),
        }
        let has_failed = queued.tries_made() > 0 && !is_errand;
        if has_failed && self.health.prefers_fresh(host, origin, queued_count()) {
            return Fitness::Last;
        }
        Fitness::Fit
    }

    /// Judges a URL by the robots rules of its origin. `fetched_count` is the number of pages
    /// fetched from its host.
    pub(super) fn clearance(
        &mut self,
        url: &Url,
        fetched_count: impl FnOnce() -> u32,
        now: Time,
    ) -> Clearance {
        match self.robots.state(url.origin(), now) {
            RobotsState::Ready(rules) => {
                let verdict = rules.check(url.path_and_query());
                let undecided = u64::from(verdict.is_undecided());
                self.probe.add(Count::RobotsUndecided, undecided);
                if verdict.allowed {
                    return Clearance::Ask;
                }
                self.robots.used(url.origin());
                Clearance::End(Outcome::RobotsDenied)
            }
            RobotsState::Unreachable { retry_at } => Clearance::Wait(retry_at),
            RobotsState::Unknown
                if self.is_sabotaged(Sabotage::RobotsLate) && fetched_count() <= 1 =>
            {
                Clearance::Ask
            }
            RobotsState::Unknown | RobotsState::Asking => Clearance::AskRobots,
        }
    }

    /// Reports whether the next connection uses the other family of addresses, because connections
    /// to the usual one fail.
    pub(super) fn wants_other_family(&self, host: HostId, url: &Url) -> bool {
        self.health.wants_other_family(host, Origin::of(url))
    }

    // --- After a request ----------------------------------------------------------------------

    /// Returns when the host may be asked again, by its delay and by the server's Retry-After. The
    /// time counts from the moment at which the server had surely seen the request.
    pub(super) fn next_request(
        &mut self,
        asked: Asked<'_>,
        answer: &Answer,
        outcome: Outcome,
        clock: &impl Clock,
        out: &mut impl Out,
    ) -> Time {
        let Asked { url, pace, .. } = asked;
        if let Some(took) = answer.first_byte_took {
            pace.answered(took);
        }
        let mut next = answer.seen_by + self.delay(url, pace);
        if outcome == Outcome::Throttled
            && let Some(head) = &answer.head
            && let Some((until, clamped)) =
                pace::retry_after(head, answer.seen_by, clock, &self.settings)
            && !self.is_sabotaged(Sabotage::RetryAfterIgnored)
        {
            if until > next {
                let host_key = url.host_key(&self.hash_key);
                let until = self.clocks(clock).wall_of(until);
                out.entry(|bytes| journal::push_waiting(bytes, host_key, until));
            }
            next = next.max(until);
            self.tell_clamped("Retry-After", url, clamped);
        }
        next
    }

    /// Records what a request says about the health of its origin. If its breaker has opened, the
    /// host's URLs are to be requested in another order, and a random number is returned that
    /// decides which.
    pub(super) fn book(
        &mut self,
        asked: Asked<'_>,
        tries: u8,
        answer: &Answer,
        outcome: Outcome,
        world: &(impl Clock + Random),
        out: &mut impl Out,
    ) -> Option<u64> {
        if outcome.row().penalty == Penalty::BackOff {
            if answer.was_stale {
                return None;
            }
            let sign = match answer.head {
                Some(_) => Sign::Answered,
                None if answer.was_sent => Sign::Unanswered,
                None => Sign::Unreached,
            };
            return self.fail(asked, outcome, answer.seen_by, (sign, tries == 0), world, out);
        }
        if answer.head.is_some() {
            self.recover(asked.host, asked.url, world, out);
        }
        None
    }

    /// Records a failure of an origin, which decides how long the origin is left alone. `is_first`
    /// means that the URL has not failed before. Returns the same as [`Manners::book`].
    pub(super) fn fail(
        &mut self,
        asked: Asked<'_>,
        cause: Outcome,
        at: Time,
        (sign, is_first): (Sign, bool),
        world: &(impl Clock + Random),
        out: &mut impl Out,
    ) -> Option<u64> {
        let Asked { host, url, pace } = asked;
        let unit = self.wait_unit(url, pace);
        let failure = Failure { at, cause, sign, is_first, unit };
        let (key, draw) = ((host, Origin::of(url)), world.random_u64());
        let turning = self.health.failed(key, failure, &self.settings, draw);
        self.note_health(host, url, world, out);
        match turning {
            Turning::BackedOff | Turning::AskedOn => {}
            Turning::Opened => {
                self.probe.add(Count::BreakersOpened, 1);
                return Some(world.random_u64());
            }
            Turning::GivenUp { is_news } => {
                self.probe.add(Count::OriginsGivenUp, u64::from(is_news));
                let (origin, cause) = (url.origin(), cause.name());
                // This is logged at debug level, because there may be a million such origins: the
                // summary counts them, and the dead letters list them.
                tracing::debug!(
                    "{origin} is given up, because it failed for so long ({cause}): its URLs \
                     become dead letters"
                );
            }
        }
        None
    }

    /// Records that an origin gave a good answer.
    pub(super) fn recover(
        &mut self,
        host: HostId,
        url: &Url,
        clock: &impl Clock,
        out: &mut impl Out,
    ) {
        if !self.health.is_ailing(host, Origin::of(url)) {
            return;
        }
        if self.health.recovered(host, Origin::of(url)) {
            self.probe.add(Count::BreakersClosed, 1);
        }
        self.note_health(host, url, clock, out);
    }

    /// Writes the health of the origin of `url` to the journal.
    fn note_health(&self, host: HostId, url: &Url, clock: &impl Clock, out: &mut impl Out) {
        out.entry(|bytes| {
            let (clocks, mut image) = (self.clocks(clock), Vec::new());
            let wall_of = |time| clocks.wall_of(time);
            self.health.pack(host, Origin::of(url), &mut Pack(&mut image), wall_of);
            Entry::Health { origin: url.origin().to_owned(), image }.push(bytes);
        });
    }

    /// Returns the delay between two requests to the host of `url`.
    pub(super) fn delay(&self, url: &Url, pace: &Pace) -> Duration {
        let asked_ms = self.robots.crawl_delay_ms(url.origin());
        let delay = pace.delay(asked_ms, &self.settings);
        if self.is_sabotaged(Sabotage::DelayShort) { delay * 9 / 10 } else { delay }
    }

    /// Returns how long a URL waits for its next try.
    pub(super) fn retry_wait(
        &self,
        queued: &Queued,
        pace: &Pace,
        chance: &impl Random,
    ) -> Duration {
        let unit = self.wait_unit(&queued.url, pace);
        health::retry_wait(queued.tries_made(), unit, &self.settings, chance.random_u64())
    }

    fn wait_unit(&self, url: &Url, pace: &Pace) -> Duration {
        self.delay(url, pace).max(Duration::from_millis(self.settings.retry_base_ms))
    }

    fn tell_clamped(&self, what: &str, url: &Url, clamped: Option<Clamped>) {
        let Some(Clamped { asked_ms }) = clamped else { return };
        self.probe.add(Count::DelaysClamped, 1);
        let (origin, taken_ms) = (url.origin(), self.settings.crawl_delay_ms_max);
        tracing::debug!(
            "{origin} asks for a {what} of {asked_ms} ms; crawl_delay_ms_max makes it {taken_ms} ms"
        );
    }

    // --- robots.txt ---------------------------------------------------------------------------

    /// Notes that the rules of an origin are used, so that they stay in their cache.
    pub(super) fn robots_used(&mut self, origin: &str) {
        self.robots.used(origin);
    }

    pub(super) fn robots_state(&self, origin: &str, now: Time) -> RobotsState {
        self.robots.state(origin, now)
    }

    /// Notes that the robots.txt of `origin` is being requested. Returns the known version of it,
    /// for a conditional request.
    pub(super) fn ask_robots(&mut self, origin: &str, hops: u8) -> Option<RobotsVersion> {
        let known = if hops == 0 { self.robots.version(origin).cloned() } else { None };
        self.robots.ask(origin);
        known
    }

    /// Notes that the robots.txt of `origin` is requested again later, as if it had not been
    /// requested yet.
    pub(super) fn ask_robots_later(&mut self, origin: &str) {
        self.robots.give_up(origin);
    }

    /// Applies the result of a request for a robots.txt.
    pub(super) fn settle_robots(
        &mut self,
        asked: Asked<'_>,
        settled: &Settled<'_>,
        clock: &impl Clock,
        out: &mut impl Out,
    ) -> RobotsEnd {
        let Settled { answer, version, seen_by, next, .. } = settled;
        let (now, origin) = (clock.now(), asked.url.origin());
        let is_overdue = self.robots.is_overdue(origin, now);
        if **answer == RobotsAnswer::Unreachable && !is_overdue {
            return RobotsEnd::Failed;
        }
        let turn = self.robots.answer(origin, answer, version.clone(), now, *next);
        self.note_robots(asked.url, clock, out);
        match turn {
            RobotsTurn::Known => {
                self.recover(asked.host, asked.url, clock, out);
                if **answer == RobotsAnswer::Unchanged {
                    self.probe.add(Count::RobotsUnchanged, 1);
                }
            }
            RobotsTurn::Relaxed => self.probe.add(Count::RobotsRelaxed, 1),
            RobotsTurn::Shut => return RobotsEnd::Failed,
        }
        let asked_ms = self.robots.crawl_delay_ms(origin);
        let clamped = asked_ms
            .filter(|asked_ms| *asked_ms > self.settings.crawl_delay_ms_max)
            .map(|asked_ms| Clamped { asked_ms });
        self.tell_clamped("Crawl-delay", asked.url, clamped);
        RobotsEnd::Known((*next).max(*seen_by + self.delay(asked.url, asked.pace)))
    }

    /// Records that a robots.txt cannot be fetched. Returns when the URL that needs it may be tried
    /// again, and the same as [`Manners::book`].
    pub(super) fn robots_failed(
        &mut self,
        asked: Asked<'_>,
        queued: &Queued,
        (cause, next): (Outcome, Time),
        world: &(impl Clock + Random),
        out: &mut impl Out,
    ) -> (Time, Option<u64>) {
        let Asked { host, url, pace } = asked;
        let now = world.now();
        let again = Asked { host, url, pace: &mut *pace };
        let rotation = self.fail(again, cause, now, (Sign::Unreached, true), world, out);
        let retry_at = next.max(now + self.retry_wait(queued, pace, world));
        let (unreachable, version) = (RobotsAnswer::Unreachable, RobotsVersion::default());
        self.robots.answer(url.origin(), &unreachable, version, now, retry_at);
        self.note_robots(url, world, out);
        (retry_at, rotation)
    }

    /// Writes what is known of the robots.txt of `url`'s origin to the journal.
    fn note_robots(&self, url: &Url, clock: &impl Clock, out: &mut impl Out) {
        out.entry(|bytes| {
            let (clocks, mut image) = (self.clocks(clock), Vec::new());
            let wall_of = |time| clocks.wall_of(time);
            self.robots.pack(url.origin(), &mut Pack(&mut image), wall_of);
            Entry::Robots { origin: url.origin().to_owned(), image }.push(bytes);
        });
    }

    // --- Eviction of hosts from RAM ----------------------------------------------------------

    /// Reports whether a host may be evicted from RAM as far as one of its origins is concerned:
    /// the origin does not fail, and its rules contain nothing that must not be forgotten.
    pub(super) fn may_forget(&self, host: HostId, origin: Origin, text: &str, now: Time) -> bool {
        !self.health.is_ailing(host, origin) && !self.robots.is_binding(text, now)
    }

    /// Drops rules that are too old to be used, of an origin whose host is evicted from RAM.
    pub(super) fn forget(&mut self, text: &str, now: Time) {
        self.robots.forget_old(text, now);
    }

    fn clocks(&self, clock: &impl Clock) -> Clocks {
        Clocks::of(clock, self.settings.crawl_delay_ms_max)
    }

    fn is_sabotaged(&self, sabotage: Sabotage) -> bool {
        self.sabotage == Some(sabotage)
    }
}

/// Returns the outcome of a URL that is out of tries without an answer of its own: the last failure
/// of its origin. A page that was cut is no failure of the URL that waited for its robots.txt
/// meanwhile: the log of dead letters would list that URL, and the journal would not.
fn out_of_tries(cause: Option<Outcome>) -> Outcome {
    cause.filter(|cause| is_failure(*cause)).unwrap_or(Outcome::RobotsUnreachable)
}

#[cfg(test)]
mod tests;

//! The rules of robots.txt by origin, as a state machine without I/O.
//!
//! The life of an origin:
//!
//! 1. Unknown.
//! 2. Asking: the shard fetches the robots.txt.
//! 3. Ready for at most 24 hours (RFC 9309 2.4), or unreachable until a retry.
//! 4. Asked for again, with the validators of the old answer.
//!
//! While a robots.txt is unreachable nothing of the origin may be fetched (RFC 9309 2.3.1.4),
//! whatever an older answer said. After 30 days without an answer it counts as absent, and is asked
//! for daily.

mod image;

use crate::base::Time;
use crate::base::limits::{ROBOTS_CACHE_COUNT_MAX, ROBOTS_VALIDATOR_BYTES_MAX};
use crate::crawl::flow::RobotsAnswer;
use crate::proto::robotstxt::Robots;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

/// What may be done with the origin now.
#[derive(Clone)]
pub enum RobotsState {
    Unknown,
    /// A robots.txt has been requested, and the answer is not there yet.
    Asking,
    Ready(Rc<Robots>),
    /// The robots.txt did not answer. The next try is due at `retry_at`.
    Unreachable {
        retry_at: Time,
    },
}

/// What an answer led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RobotsTurn {
    /// The origin may be crawled by the rules.
    Known,
    /// The origin may not be crawled.
    Shut,
    /// The robots.txt has been unreachable for so long that it counts as absent.
    Relaxed,
}

/// What [`RobotsCache::known`] returns.
pub struct RobotsKnown {
    /// When the last request was answered or failed.
    pub answered: Time,
    /// Since when there has been no answer, and when the next try is due.
    pub unreachable: Option<(Time, Time)>,
    /// The rules of the last request that was answered.
    pub rules: Option<Rc<Robots>>,
}

/// The validators of a robots.txt. They are sent when it is requested again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RobotsVersion {
    pub etag: Option<Box<[u8]>>,
    pub last_modified: Option<Box<[u8]>>,
}

/// What is known of the robots.txt of each origin.
pub struct RobotsCache {
    product_token: Box<str>,
    ttl: Duration,
    /// A robots.txt that has been unreachable for this long counts as absent.
    relax: Duration,
    /// By the full origin. The table is the standard library's, because its hash has a random key.
    entries: HashMap<Rc<str>, Entry>,
    /// Origins in the order in which they were answered, for eviction.
    order: VecDeque<(Rc<str>, Time)>,
    /// Most origins have no rules for us; all of them share this one.
    allow_all: Rc<Robots>,
    evicted_count: u64,
}

#[derive(Default)]
struct Entry {
    is_asking: bool,
    /// No page has been requested by these rules yet.
    is_unused: bool,
    /// The rules of the last request that was answered.
    rules: Option<Rc<Robots>>,
    version: Option<Box<RobotsVersion>>,
    /// When the last request was answered or failed.
    answered: Time,
    /// The answer came before the clock began, at an unknown time. It counts as old, and `answered`
    /// is zero.
    is_undated: bool,
    /// Since when there has been no answer, and when the next try is due.
    unreachable: Option<(Time, Time)>,
}

impl RobotsCache {
    pub fn new(product_token: &str, ttl: Duration, relax: Duration) -> RobotsCache {
        RobotsCache {
            product_token: product_token.into(),
            ttl,
            relax,
            entries: HashMap::new(),
            order: VecDeque::new(),
            allow_all: Rc::new(Robots::allow_all()),
            evicted_count: 0,
        }
    }

    /// Returns what may be done with `origin` (`scheme://host[:port]`) now.
    pub fn state(&self, origin: &str, now: Time) -> RobotsState {
        let Some(entry) = self.entries.get(origin) else { return RobotsState::Unknown };
        if entry.is_asking {
            return RobotsState::Asking;
        }
        // An answer is good for at least one page, however old it is. Without this, a host whose
        // delay is as long as the lifetime of rules would have old rules whenever a page's turn
        // came, and its robots.txt would be requested again and again.
        let is_recent = now.since(entry.answered) < self.ttl || entry.is_unused;
        let is_fresh = is_recent && !entry.is_undated;
        match (&entry.unreachable, &entry.rules) {
            (Some((since, _)), _) if self.is_relaxed(*since, entry.answered) && is_fresh => {
                RobotsState::Ready(self.allow_all.clone())
            }
            (Some((_, retry_at)), _) if now < *retry_at => {
                RobotsState::Unreachable { retry_at: *retry_at }
            }
            (None, Some(rules)) if is_fresh => RobotsState::Ready(rules.clone()),
            _ => RobotsState::Unknown,
        }
    }

    /// Notes that the robots.txt is being requested.
    pub fn ask(&mut self, origin: &str) {
        self.entry(origin).1.is_asking = true;
    }

    /// Notes that a page of the origin was requested, or denied, by its rules.
    pub fn used(&mut self, origin: &str) {
        if let Some(entry) = self.entries.get_mut(origin) {
            entry.is_unused = false;
        }
    }

    /// Returns the validators of the known rules, however old these are.
    pub fn version(&self, origin: &str) -> Option<&RobotsVersion> {
        let entry = self.entries.get(origin)?;
        entry.rules.as_ref().and(entry.version.as_deref())
    }

    /// Returns the Crawl-delay of the known rules, however old these are: it holds while they are
    /// requested again.
    pub fn crawl_delay_ms(&self, origin: &str) -> Option<u64> {
        self.entries.get(origin)?.rules.as_ref()?.crawl_delay_ms()
    }

    /// Returns all that is known of `origin`, for reports; `None` if nothing is known.
    pub fn known(&self, origin: &str) -> Option<RobotsKnown> {
        let entry = self.entries.get(origin)?;
        let Entry { answered, unreachable, ref rules, .. } = *entry;
        Some(RobotsKnown { answered, unreachable, rules: rules.clone() })
    }

    /// Reports whether what is known of `origin` must be kept, because it could not be learnt again
    /// without harm: its robots.txt is being requested, it does not answer, or rules that are still
    /// fresh ask for a Crawl-delay.
    pub fn is_binding(&self, origin: &str, now: Time) -> bool {
        self.entries.get(origin).is_some_and(|entry| {
            let has_delay = entry.rules.as_ref().is_some_and(|of| of.crawl_delay_ms().is_some());
            let is_good = now.since(entry.answered) < self.ttl;
            entry.is_asking || entry.unreachable.is_some() || (has_delay && is_good)
        })
    }

    /// Removes rules that are no longer fresh.
    pub fn forget_old(&mut self, origin: &str, now: Time) {
        if answered(self.entries.get(origin)).is_some_and(|since| now.since(since) >= self.ttl) {
            self.entries.remove(origin);
        }
    }

    /// Reports whether the robots.txt has been unreachable for so long that another failure makes
    /// it count as absent.
    pub fn is_overdue(&self, origin: &str, now: Time) -> bool {
        let entry = self.entries.get(origin);
        let since = entry.and_then(|entry| entry.unreachable).map(|(since, _)| since);
        since.is_some_and(|since| self.is_relaxed(since, now))
    }

    /// Notes that a request for the robots.txt was abandoned without an answer. The state is then
    /// as before the request.
    pub fn give_up(&mut self, origin: &str) {
        if let Some(entry) = self.entries.get_mut(origin) {
            entry.is_asking = false;
        }
    }

    /// Stores an answer. `retry_at` is when an unreachable robots.txt is requested again.
    pub fn answer(
        &mut self,
        origin: &str,
        answer: &RobotsAnswer,
        version: RobotsVersion,
        now: Time,
        retry_at: Time,
    ) -> RobotsTurn {
        let rules = match answer {
            RobotsAnswer::Rules(bytes) => Some(self.read(bytes)),
            RobotsAnswer::Absent => Some(self.allow_all.clone()),
            RobotsAnswer::Unchanged | RobotsAnswer::Unreachable => None,
        };
        let relax = self.relax;
        let (origin, entry) = self.entry(origin);
        entry.is_asking = false;
        entry.is_unused = true;
        entry.answered = now;
        entry.is_undated = false;
        let mut turn = RobotsTurn::Known;
        if let Some(rules) = rules {
            entry.version = version.kept();
            entry.rules = Some(rules);
            entry.unreachable = None;
        } else if *answer == RobotsAnswer::Unchanged && entry.version.is_some() {
            entry.unreachable = None;
        } else {
            // A 304 to a request that named no version is no answer either.
            let since = entry.unreachable.map_or(now, |(since, _)| since);
            entry.unreachable = Some((since, retry_at));
            turn = if now.since(since) >= relax { RobotsTurn::Relaxed } else { RobotsTurn::Shut };
        }
        self.order.push_back((origin, now));
        while self.entries.len() > ROBOTS_CACHE_COUNT_MAX && self.evict() {}
        if self.order.len() > 2 * self.entries.len() + 1_024 {
            let entries = &self.entries;
            self.order.retain(|(origin, since)| answered(entries.get(origin)) == Some(*since));
        }
        turn
    }

    pub fn count(&self) -> usize {
        self.entries.len()
    }

    pub fn evicted_count(&self) -> u64 {
        self.evicted_count
    }

    /// Returns the entry of an origin, and the origin as the table holds it.
    fn entry(&mut self, origin: &str) -> (Rc<str>, &mut Entry) {
        let known = self.entries.get_key_value(origin).map(|(origin, _)| origin.clone());
        let origin = known.unwrap_or_else(|| origin.into());
        (origin.clone(), self.entries.entry(origin).or_default())
    }

    fn is_relaxed(&self, since: Time, at: Time) -> bool {
        at.since(since) >= self.relax
    }

    fn read(&self, bytes: &[u8]) -> Rc<Robots> {
        let rules = Robots::parse(bytes, &self.product_token);
        let says_nothing = rules.rules().next().is_none()
            && rules.crawl_delay_ms().is_none()
            && rules.sitemaps().next().is_none();
        if says_nothing { self.allow_all.clone() } else { Rc::new(rules) }
    }

    /// Evicts the oldest answer. Returns false if there is none.
    fn evict(&mut self) -> bool {
        while let Some((origin, since)) = self.order.pop_front() {
            if answered(self.entries.get(&origin)) == Some(since) {
                self.entries.remove(&origin);
                self.evicted_count += 1;
                return true;
            }
        }
        false
    }
}

impl RobotsVersion {
    /// Returns the validators that are short enough to be kept for years, or `None` if there are
    /// none.
    fn kept(self) -> Option<Box<RobotsVersion>> {
        let short = |value: Option<Box<[u8]>>| {
            value.filter(|value| value.len() <= ROBOTS_VALIDATOR_BYTES_MAX)
        };
        let (etag, last_modified) = (short(self.etag), short(self.last_modified));
        (etag.is_some() || last_modified.is_some())
            .then(|| Box::new(RobotsVersion { etag, last_modified }))
    }
}

fn answered(entry: Option<&Entry>) -> Option<Time> {
    entry.filter(|entry| !entry.is_asking).map(|entry| entry.answered)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(super) const ORIGIN: &str = "http://h.test";
    const DAY: Duration = Duration::from_secs(86_400);

    pub(super) fn cache() -> RobotsCache {
        RobotsCache::new("nephila", DAY, 30 * DAY)
    }

    pub(super) fn answer(cache: &mut RobotsCache, answer: RobotsAnswer, now: Time) -> RobotsTurn {
        let retry_at = now + Duration::from_secs(60);
        cache.answer(ORIGIN, &answer, RobotsVersion::default(), now, retry_at)
    }

    pub(super) fn rules(text: &str) -> RobotsAnswer {
        RobotsAnswer::Rules(text.as_bytes().into())
    }

    fn allows(state: RobotsState, path: &str) -> bool {
        let RobotsState::Ready(rules) = state else { panic!("rules are ready") };
        rules.check(path).allowed
    }

    #[test]
    fn rules_hold_for_a_day_and_are_then_unknown() {
        let mut cache = cache();
        assert!(matches!(cache.state(ORIGIN, Time::ZERO), RobotsState::Unknown));
        cache.ask(ORIGIN);
        assert!(matches!(cache.state(ORIGIN, Time::ZERO), RobotsState::Asking));
        let found = rules("User-agent: *\nDisallow: /private/\n");
        assert_eq!(answer(&mut cache, found, Time::ZERO), RobotsTurn::Known);
        let late = cache.state(ORIGIN, Time::ZERO + DAY);
        assert!(matches!(late, RobotsState::Ready(_)), "good for one page, however late");
        cache.used(ORIGIN);
        let noon = Time::ZERO + DAY / 2;
        assert!(!allows(cache.state(ORIGIN, noon), "/private/x"));
        assert!(allows(cache.state(ORIGIN, noon), "/public"));
        assert!(matches!(cache.state(ORIGIN, Time::ZERO + DAY), RobotsState::Unknown));
    }

    #[test]
    fn rfc_an_unreachable_one_blocks_until_its_retry_whatever_it_said_before() {
        let mut cache = cache();
        answer(&mut cache, RobotsAnswer::Absent, Time::ZERO);
        let later = Time::ZERO + DAY;
        cache.ask(ORIGIN);
        assert_eq!(answer(&mut cache, RobotsAnswer::Unreachable, later), RobotsTurn::Shut);
        let retry_at = later + Duration::from_secs(60);
        let early = cache.state(ORIGIN, retry_at - Duration::from_millis(1));
        assert!(matches!(early, RobotsState::Unreachable { retry_at: at } if at == retry_at));
        assert!(matches!(cache.state(ORIGIN, retry_at), RobotsState::Unknown));
    }

    #[test]
    fn rfc_after_thirty_days_without_an_answer_it_counts_as_absent_and_is_asked_for_daily() {
        let mut cache = cache();
        answer(&mut cache, rules("User-agent: *\nDisallow: /\n"), Time::ZERO);
        let first = Time::ZERO + DAY;
        assert_eq!(answer(&mut cache, RobotsAnswer::Unreachable, first), RobotsTurn::Shut);
        let almost = first + 30 * DAY - Duration::from_millis(1);
        assert_eq!(answer(&mut cache, RobotsAnswer::Unreachable, almost), RobotsTurn::Shut);
        let then = first + 30 * DAY;
        cache.ask(ORIGIN);
        assert_eq!(answer(&mut cache, RobotsAnswer::Unreachable, then), RobotsTurn::Relaxed);
        assert!(allows(cache.state(ORIGIN, then + DAY / 2), "/anything"));
        cache.used(ORIGIN);
        assert!(matches!(cache.state(ORIGIN, then + DAY), RobotsState::Unknown), "asked again");
        cache.ask(ORIGIN);
        let again = answer(&mut cache, RobotsAnswer::Unreachable, then + DAY);
        assert_eq!(again, RobotsTurn::Relaxed, "still relaxed");
        cache.ask(ORIGIN);
        answer(&mut cache, rules("User-agent: *\nDisallow: /\n"), then + 2 * DAY);
        assert!(!allows(cache.state(ORIGIN, then + 2 * DAY), "/"), "an answer counts at once");
        assert_eq!(answer(&mut cache, RobotsAnswer::Unreachable, then + 3 * DAY), RobotsTurn::Shut);
    }

    #[test]
    fn an_unchanged_one_holds_for_another_day_and_its_version_is_kept() {
        let mut cache = cache();
        let version = RobotsVersion { etag: Some((*b"\"7\"").into()), last_modified: None };
        let closed = rules("User-agent: *\nDisallow: /\n");
        cache.answer(ORIGIN, &closed, version.clone(), Time::ZERO, Time::ZERO);
        assert_eq!(cache.version(ORIGIN), Some(&version));
        let later = Time::ZERO + DAY;
        cache.ask(ORIGIN);
        assert_eq!(answer(&mut cache, RobotsAnswer::Unchanged, later), RobotsTurn::Known);
        assert!(!allows(cache.state(ORIGIN, later + DAY / 2), "/"));
        assert_eq!(cache.version(ORIGIN), Some(&version));
        let long = RobotsVersion { etag: Some(vec![b'x'; 129].into()), last_modified: None };
        cache.answer(ORIGIN, &closed, long, later, later);
        assert_eq!(cache.version(ORIGIN), None, "too long to keep");
    }

    #[test]
    fn an_unchanged_one_that_was_never_known_is_no_answer() {
        let mut cache = cache();
        assert_eq!(answer(&mut cache, RobotsAnswer::Unchanged, Time::ZERO), RobotsTurn::Shut);
    }

    #[test]
    fn what_could_not_be_learnt_again_without_harm_is_binding_and_the_rest_is_forgotten_when_old() {
        let mut cache = cache();
        let is_binding = |cache: &RobotsCache, now| cache.is_binding(ORIGIN, now);
        assert!(!is_binding(&cache, Time::ZERO));
        cache.ask(ORIGIN);
        assert!(is_binding(&cache, Time::ZERO + 9 * DAY), "someone asks");
        answer(&mut cache, rules("User-agent: *\nDisallow: /x\n"), Time::ZERO);
        assert!(!is_binding(&cache, Time::ZERO), "rules can be asked for again");
        answer(&mut cache, rules("User-agent: *\nCrawl-delay: 9\n"), Time::ZERO);
        let evening = Time::ZERO + DAY - Duration::from_millis(1);
        cache.forget_old(ORIGIN, evening);
        assert!(is_binding(&cache, evening), "a Crawl-delay, while it is good");
        assert!(!is_binding(&cache, Time::ZERO + DAY));
        answer(&mut cache, RobotsAnswer::Unreachable, Time::ZERO + DAY);
        assert!(is_binding(&cache, Time::ZERO + 9 * DAY), "it does not answer");
        answer(&mut cache, rules("User-agent: *\nCrawl-delay: 9\n"), Time::ZERO + 9 * DAY);
        cache.forget_old(ORIGIN, Time::ZERO + 10 * DAY);
        assert_eq!((cache.count(), cache.crawl_delay_ms(ORIGIN)), (0, None));
    }

    #[test]
    fn origins_of_one_host_have_rules_of_their_own() {
        let mut cache = cache();
        answer(&mut cache, RobotsAnswer::Absent, Time::ZERO);
        assert!(matches!(cache.state(ORIGIN, Time::ZERO), RobotsState::Ready(_)));
        assert!(matches!(cache.state("https://h.test", Time::ZERO), RobotsState::Unknown));
        assert!(matches!(cache.state("http://h.test:81", Time::ZERO), RobotsState::Unknown));
    }
}

//! robots.txt rules by origin, as a state machine without I/O.
//!
//! An origin's life: 1. unknown, 2. asking (the shard fetches it), 3. ready for at most 24 hours
//! (RFC 9309 2.4) or unreachable until a retry, 4. unknown again. While it is unreachable nothing
//! of the origin may be fetched (RFC 9309 2.3.1.4).

use crate::base::Time;
use crate::flow::RobotsAnswer;
use crate::limits::ROBOTS_CACHE_COUNT_MAX;
use crate::robotstxt::Robots;
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_128;

#[derive(Clone)]
pub enum RobotsState {
    Unknown,
    /// Someone has gone to ask.
    Asking,
    Ready(Rc<Robots>),
    /// It did not answer; the next try is due then.
    Unreachable {
        retry_at: Time,
    },
}

pub struct RobotsCache {
    product_token: Box<str>,
    ttl: Duration,
    entries: HashMap<u128, Entry>,
    /// In the order they were answered, for eviction.
    order: VecDeque<(u128, Time)>,
    /// Most origins have no rules for us: they share one.
    allow_all: Rc<Robots>,
    evicted_count: u64,
}

enum Entry {
    Asking,
    Ready { rules: Rc<Robots>, since: Time },
    Unreachable { retry_at: Time, since: Time },
}

impl RobotsCache {
    pub fn new(product_token: &str, ttl: Duration) -> RobotsCache {
        RobotsCache {
            product_token: product_token.into(),
            ttl,
            entries: HashMap::new(),
            order: VecDeque::new(),
            allow_all: Rc::new(Robots::allow_all()),
            evicted_count: 0,
        }
    }

    /// What is known of `origin` (`scheme://host[:port]`).
    pub fn state(&self, origin: &str, now: Time) -> RobotsState {
        match self.entries.get(&key(origin)) {
            None => RobotsState::Unknown,
            Some(Entry::Asking) => RobotsState::Asking,
            Some(Entry::Ready { since, .. }) if now.since(*since) >= self.ttl => {
                RobotsState::Unknown
            }
            Some(Entry::Ready { rules, .. }) => RobotsState::Ready(rules.clone()),
            Some(Entry::Unreachable { retry_at, .. }) if now >= *retry_at => RobotsState::Unknown,
            Some(Entry::Unreachable { retry_at, .. }) => {
                RobotsState::Unreachable { retry_at: *retry_at }
            }
        }
    }

    /// Someone goes to ask for it.
    pub fn ask(&mut self, origin: &str) {
        self.entries.insert(key(origin), Entry::Asking);
    }

    /// Nobody asks any more, and there is no answer: as if it had never been asked for.
    pub fn give_up(&mut self, origin: &str) {
        self.entries.remove(&key(origin));
    }

    /// Takes the answer in. `retry_at` is when an unreachable one is asked for again.
    pub fn answer(&mut self, origin: &str, answer: &RobotsAnswer, now: Time, retry_at: Time) {
        let entry = match answer {
            RobotsAnswer::Rules(bytes) => {
                let rules = Robots::parse(bytes, &self.product_token);
                let rules = if rules.rules().next().is_none()
                    && rules.crawl_delay_ms().is_none()
                    && rules.sitemaps().next().is_none()
                {
                    self.allow_all.clone()
                } else {
                    Rc::new(rules)
                };
                Entry::Ready { rules, since: now }
            }
            RobotsAnswer::Absent => Entry::Ready { rules: self.allow_all.clone(), since: now },
            RobotsAnswer::Unreachable => Entry::Unreachable { retry_at, since: now },
        };
        let key = key(origin);
        self.entries.insert(key, entry);
        self.order.push_back((key, now));
        while self.entries.len() > ROBOTS_CACHE_COUNT_MAX && self.evict() {}
        if self.order.len() > 2 * self.entries.len() + 1_024 {
            let entries = &self.entries;
            self.order.retain(|(key, since)| answered(entries.get(key)) == Some(*since));
        }
    }

    pub fn count(&self) -> usize {
        self.entries.len()
    }

    pub fn evicted_count(&self) -> u64 {
        self.evicted_count
    }

    /// Forgets the oldest answer; false if there is none.
    fn evict(&mut self) -> bool {
        while let Some((key, since)) = self.order.pop_front() {
            if answered(self.entries.get(&key)) == Some(since) {
                self.entries.remove(&key);
                self.evicted_count += 1;
                return true;
            }
        }
        false
    }
}

fn answered(entry: Option<&Entry>) -> Option<Time> {
    match entry? {
        Entry::Asking => None,
        Entry::Ready { since, .. } | Entry::Unreachable { since, .. } => Some(*since),
    }
}

fn key(origin: &str) -> u128 {
    xxh3_128(origin.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: &str = "http://h.test";
    const DAY: Duration = Duration::from_secs(86_400);

    fn rules(text: &str) -> RobotsAnswer {
        RobotsAnswer::Rules(text.as_bytes().into())
    }

    #[test]
    fn rules_hold_for_a_day_and_are_then_unknown() {
        let mut cache = RobotsCache::new("nephila", DAY);
        assert!(matches!(cache.state(ORIGIN, Time::ZERO), RobotsState::Unknown));
        cache.ask(ORIGIN);
        assert!(matches!(cache.state(ORIGIN, Time::ZERO), RobotsState::Asking));
        let answer = rules("User-agent: *\nDisallow: /private/\n");
        cache.answer(ORIGIN, &answer, Time::ZERO, Time::ZERO);
        let RobotsState::Ready(found) = cache.state(ORIGIN, Time::ZERO + DAY / 2) else {
            panic!("rules are ready")
        };
        assert!(!found.check("/private/x").allowed);
        assert!(found.check("/public").allowed);
        assert!(matches!(cache.state(ORIGIN, Time::ZERO + DAY), RobotsState::Unknown));
    }

    #[test]
    fn rfc_an_unreachable_one_blocks_until_its_retry() {
        let mut cache = RobotsCache::new("nephila", DAY);
        cache.ask(ORIGIN);
        let retry_at = Time::from_ms(60_000);
        cache.answer(ORIGIN, &RobotsAnswer::Unreachable, Time::ZERO, retry_at);
        let early = cache.state(ORIGIN, Time::from_ms(59_999));
        assert!(matches!(early, RobotsState::Unreachable { retry_at: at } if at == retry_at));
        assert!(matches!(cache.state(ORIGIN, retry_at), RobotsState::Unknown));
    }

    #[test]
    fn origins_of_one_host_have_rules_of_their_own() {
        let mut cache = RobotsCache::new("nephila", DAY);
        cache.answer(ORIGIN, &RobotsAnswer::Absent, Time::ZERO, Time::ZERO);
        assert!(matches!(cache.state(ORIGIN, Time::ZERO), RobotsState::Ready(_)));
        assert!(matches!(cache.state("https://h.test", Time::ZERO), RobotsState::Unknown));
        assert!(matches!(cache.state("http://h.test:81", Time::ZERO), RobotsState::Unknown));
    }
}

//! Errands: robots.txt files that were redirected to another host, and the origins that wait for
//! them.
//!
//! A redirect of a robots.txt on its own host (to https, mostly) is remembered and followed in the
//! host's next turn. A redirect to another host becomes an errand that the owner of that host runs.
//! Until the answer comes back, the host that wanted it is parked. A parked host runs no errands,
//! so an errand that leads to one is answered at once: two hosts can never wait for each other.
//! Touched by one core.

use super::Manners;
use crate::base::limits;
use crate::crawl::fetch::Answer;
use crate::crawl::flow::{Outcome, RobotsAnswer, ShardIndex};
use crate::crawl::metrics::Count;
use crate::proto::url::Url;
use std::collections::HashMap;

/// The origin that wants a robots.txt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::shard) struct Errand {
    pub origin: Box<str>,
    pub asker: ShardIndex,
    /// The number of redirects followed so far.
    pub hops: u8,
}

/// The errands that wait and the redirects to follow. The standard library's tables are used
/// because their hash has a random key, and strangers choose the URLs.
#[derive(Default)]
pub(super) struct Errands {
    /// Errands that wait in host queues, by the URL to fetch.
    waiting: HashMap<Box<str>, Vec<Errand>>,
    /// Where an origin's robots.txt has moved to on its own host, and after how many redirects.
    /// Kept until the host's next turn.
    moved: HashMap<Box<str>, (Url, u8)>,
}

/// What the answer to a request for a robots.txt means.
#[derive(Debug, PartialEq)]
pub(in crate::shard) enum Reading {
    Answer(RobotsAnswer),
    /// The robots.txt has moved on its own host: it is requested again in the host's next turn.
    Moved,
    /// The robots.txt is on another host: an errand must go there.
    Elsewhere(Url, Errand),
}

/// What happened to an errand that was to be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::shard) enum AddedErrand {
    /// The errand is the first for its URL, which must be queued.
    First,
    /// The URL is already queued.
    Another,
    /// Too many errands wait: the asker must be told that the robots.txt is unreachable.
    Refused,
}

impl Manners {
    /// Returns where to request the robots.txt of `url`'s origin, and after how many redirects.
    pub(in crate::shard) fn robots_target(&mut self, url: &Url) -> Option<(Url, u8)> {
        let moved = self.errands.moved.remove(url.origin());
        moved.or_else(|| Some((url.join("/robots.txt").ok()?, 0)))
    }

    /// Notes that the robots.txt of `origin` is requested at `target` next. Returns false if too
    /// many have moved.
    pub(in crate::shard) fn move_robots(&mut self, origin: &str, target: Url, hops: u8) -> bool {
        let moved = &mut self.errands.moved;
        if moved.len() >= limits::ERRAND_COUNT_MAX && !moved.contains_key(origin) {
            self.probe.add(Count::ErrandsRefused, 1);
            return false;
        }
        moved.insert(origin.into(), (target, hops));
        true
    }

    /// Returns what an answer means for the errand's origin (RFC 9309 2.3.1). `is_at_home` means
    /// that the host that was asked is the origin's own, in its own turn.
    pub(in crate::shard) fn read_robots(
        &mut self,
        url: &Url,
        answer: &Answer,
        body: &[u8],
        errand: &Errand,
        is_at_home: bool,
    ) -> Reading {
        let unreachable = Reading::Answer(RobotsAnswer::Unreachable);
        let Some(head) = answer.head.as_ref() else { return unreachable };
        let is_usable = matches!(answer.outcome, Outcome::Fetched | Outcome::CutLength);
        match head.status() {
            200..300 if is_usable => Reading::Answer(RobotsAnswer::Rules(body.into())),
            // A request to another host named no version, so a 304 to it is no answer.
            304 if is_at_home && errand.hops == 0 => Reading::Answer(RobotsAnswer::Unchanged),
            300..400 if errand.hops < limits::REDIRECT_COUNT_MAX => {
                // A redirect without a Location would lead to itself, until the redirects are used
                // up.
                let location = head.header("location").filter(|location| !location.is_empty());
                let target = location.and_then(|location| url.join_bytes(location).ok());
                let Some(target) = target.filter(|target| target != url) else {
                    return unreachable;
                };
                let hops = errand.hops + 1;
                if !is_at_home || target.host() != url.host() {
                    return Reading::Elsewhere(target, Errand { hops, ..errand.clone() });
                }
                match self.move_robots(&errand.origin, target, hops) {
                    true => Reading::Moved,
                    false => unreachable,
                }
            }
            400..500 if head.status() != 429 => Reading::Answer(RobotsAnswer::Absent),
            _ => unreachable,
        }
    }

    /// Adds an errand for a URL of this shard. `is_parked` means that its host waits for an errand
    /// itself.
    pub(in crate::shard) fn add_errand(
        &mut self,
        target: &Url,
        errand: Errand,
        is_parked: bool,
    ) -> AddedErrand {
        let waiting = &mut self.errands.waiting;
        if is_parked || waiting.len() >= limits::ERRAND_COUNT_MAX {
            self.probe.add(Count::ErrandsRefused, 1);
            return AddedErrand::Refused;
        }
        let waiting = waiting.entry(target.as_str().into()).or_default();
        waiting.push(errand);
        if waiting.len() == 1 { AddedErrand::First } else { AddedErrand::Another }
    }

    /// Reports whether an origin waits for a queued errand. None waits for an errand that a restart
    /// brought back: the origin that wanted it asks again.
    pub(in crate::shard) fn has_errands(&self, url: &Url) -> bool {
        self.errands.waiting.contains_key(url.as_str())
    }

    /// Takes the errands that wait for a URL.
    pub(in crate::shard) fn take_errands(&mut self, url: &Url) -> Vec<Errand> {
        self.errands.waiting.remove(url.as_str()).unwrap_or_default()
    }
}

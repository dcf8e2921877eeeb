//! The dead letters, gathered from logs and journals: each URL once, and only those still dead.
//!
//! A crash may put a dead letter into the log twice, and a URL that was put back may have been
//! fetched since, so the latest entry of a URL counts. The state shows whether the URL is queued
//! again; the journal and the requests show whether it was put back or fetched since.

use super::disk::PlainDisk;
use super::logs::{self, Letter};
use super::place::Place;
use super::{DeadFilter, InspectError};
use crate::base::WallTime;
use crate::base::limits::INSPECT_DEAD_COUNT_MAX;
use crate::crawl::flow::{Class, Outcome, Queued, Trail, Via};
use crate::crawl::metrics::is_failure;
use crate::proto::url::Url;
use crate::shard::Inspection;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

/// A URL that was given up.
#[derive(Clone, Debug)]
pub struct DeadUrl {
    pub at: WallTime,
    pub outcome: Outcome,
    pub tries: u8,
    /// The URL as the journal has it. If only the log has it, fields that the log lacks have the
    /// values that [`DeadUrl::of_log`] chooses.
    pub queued: Queued,
}

/// The dead letters of a crawl, or some of them.
pub struct DeadLetters {
    /// The key is the form in which URLs are compared.
    by_url: HashMap<String, DeadUrl>,
    /// The number of dead letters beyond the limit, which were not examined.
    pub unseen_count: u64,
}

impl DeadLetters {
    /// Gathers the dead letters that `filter` selects. `shards` are all shards of the crawl.
    pub fn gather(
        place: &Place,
        shards: &[Inspection<PlainDisk>],
        filter: &DeadFilter,
    ) -> Result<DeadLetters, InspectError> {
        let host = match &filter.host {
            None => None,
            Some(name) => Some(place.host_url(name)?.host().to_owned()),
        };
        let mut letters = DeadLetters { by_url: HashMap::new(), unseen_count: 0 };
        let is_of_host = |url: &Url| host.as_ref().is_none_or(|host| url.host() == host);
        logs::each_letter(place, |letter| {
            if let Ok(url) = Url::parse(letter.url)
                && is_of_host(&url)
            {
                letters.add(DeadUrl::of_log(place, letter, url));
            }
        })?;
        for (queued, outcome, at) in shards.iter().flat_map(|shard| &shard.news.dead) {
            if is_of_host(&queued.url) {
                let (queued, tries) = (queued.clone(), queued.tries_made());
                letters.add(DeadUrl { at: *at, outcome: *outcome, tries, queued });
            }
        }
        letters.drop_living(place, shards)?;
        // This comes last, because only the latest entry of a URL counts, and its reason may differ
        // from an earlier one.
        letters.by_url.retain(|_, dead| filter.reason.is_none_or(|of| of == dead.outcome));
        Ok(letters)
    }

    pub fn count(&self) -> usize {
        self.by_url.len()
    }

    pub fn remove(&mut self, url: &Url) -> Option<DeadUrl> {
        self.by_url.remove(&*url.compared())
    }

    pub fn count_by_reason(&self) -> Vec<(Outcome, u64)> {
        let mut counts = [0; Outcome::COUNT];
        self.by_url.values().for_each(|dead| counts[dead.outcome as usize] += 1);
        let all = Outcome::ALL.into_iter().zip(counts);
        let mut found: Vec<(Outcome, u64)> = all.filter(|(_, count)| *count > 0).collect();
        found.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        found
    }

    /// Returns the dead letters, the latest first.
    pub fn into_sorted(self) -> Vec<DeadUrl> {
        let mut all: Vec<DeadUrl> = self.by_url.into_values().collect();
        all.sort_by(|one, two| {
            two.at.cmp(&one.at).then_with(|| one.queued.url.as_str().cmp(two.queued.url.as_str()))
        });
        all
    }

    fn add(&mut self, dead: DeadUrl) {
        let compared = dead.queued.url.compared().into_owned();
        let is_new = !self.by_url.contains_key(&compared);
        if is_new && self.by_url.len() >= INSPECT_DEAD_COUNT_MAX {
            self.unseen_count += 1;
            return;
        }
        match self.by_url.entry(compared) {
            // The journal is read after the log and has more fields. Its entry for the same end of
            // the URL has a slightly later time, so it replaces the entry of the log.
            Entry::Occupied(mut known) if known.get().at <= dead.at => {
                known.insert(dead);
            }
            Entry::Occupied(_) => {}
            Entry::Vacant(place) => _ = place.insert(dead),
        }
    }

    /// Drops the URLs that are back in a queue, were put back, or were fetched since without a
    /// failure.
    fn drop_living(
        &mut self,
        place: &Place,
        shards: &[Inspection<PlainDisk>],
    ) -> Result<(), InspectError> {
        let hosts: HashSet<String> =
            self.by_url.values().map(|dead| dead.queued.url.host().to_owned()).collect();
        for name in &hosts {
            let of_host = shards.iter().filter_map(|shard| Some((shard, shard.host_named(name)?)));
            for (shard, host) in of_host {
                for view in shard.urls_of(host) {
                    self.by_url.remove(&*view.queued.url.compared());
                }
            }
        }
        self.by_url
            .retain(|_, dead| !shards.iter().any(|shard| shard.news.is_revived(&dead.queued.url)));
        if self.by_url.is_empty() {
            return Ok(());
        }
        logs::each_request(place, |request| {
            if is_failure(request.outcome) || !hosts.contains(request.host) {
                return;
            }
            let Ok(url) = Url::parse(request.url) else { return };
            let dead = self.by_url.get(&*url.compared());
            if dead.is_some_and(|dead| dead.at.unix_seconds() <= request.at.unix_seconds()) {
                self.by_url.remove(&*url.compared());
            }
        })?;
        Ok(())
    }
}

impl DeadUrl {
    fn of_log(place: &Place, letter: &Letter<'_>, url: Url) -> DeadUrl {
        let &Letter { at, outcome, tries, depth, via, .. } = letter;
        // The log has neither class nor trail, so the URL gets those that a URL found in this way
        // begins with. A URL from a sitemap counts as listed by its own host.
        let class = if via == Via::Seed { Class::High } else { Class::Normal };
        let trail = match via {
            Via::Sitemap => Trail::from([url.host_key(&place.hash_key).0]),
            _ => Trail::default(),
        };
        DeadUrl { at, outcome, tries, queued: Queued { url, depth, class, via, tries, trail } }
    }
}

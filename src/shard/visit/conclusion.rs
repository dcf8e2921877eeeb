//! What happens to a URL after its request, or without one: another try, a dead letter, or its end.

use super::verdict::{NextStep, next_step};
use crate::base::Time;
use crate::base::limits::DNS_FAILURE_SECONDS;
use crate::crawl::fetch::Answer;
use crate::crawl::flow::{Outcome, Queued, Via};
use crate::crawl::frontier::HostId;
use crate::crawl::metrics::Count;
use crate::io::World;
use crate::proto::url::Url;
use crate::shard::archive::{End, Stored};
use crate::shard::{Notice, Shard};
use std::time::Duration;

impl<W: World> Shard<W> {
    /// Concludes a URL that had no request of its own.
    pub(in crate::shard) async fn conclude_unasked(
        &self,
        host: HostId,
        mut queued: Queued,
        outcome: Outcome,
    ) {
        let now = self.kit.world.now();
        if queued.via == Via::Robots {
            self.fail_errand(&queued.url);
            return self.release(host, Time::ZERO);
        }
        self.kit.probe.outcome(outcome);
        self.log(&queued.url, now, None, outcome, None).await;
        if outcome == Outcome::DnsFailed
            && queued.tries_made() <= self.kit.plan.settings.retry_count_max
        {
            self.origin_unreached(host, &queued.url, outcome, now);
        }
        match next_step(outcome, true, &queued, &self.kit.plan.settings) {
            NextStep::Again | NextStep::Retry => {
                let mut wait = self.retry_wait(host, &queued);
                if outcome == Outcome::DnsFailed {
                    // Before this time the resolver would repeat its answer from the cache, which
                    // would be no real try.
                    wait = wait.max(Duration::from_secs(DNS_FAILURE_SECONDS.into()));
                }
                queued.tries += 1;
                self.retry(host, queued, now + wait);
                return self.release(host, Time::ZERO);
            }
            NextStep::Bury => self.bury(&queued, outcome).await,
            NextStep::End => self.tell_if_seed(&queued, outcome),
        }
        self.end(host, queued, outcome, None);
        self.release(host, Time::ZERO);
    }

    /// Concludes a request for a page by its next step.
    pub(super) async fn conclude(
        &self,
        host: HostId,
        mut queued: Queued,
        answer: &Answer,
        (outcome, step): (Outcome, NextStep),
        record: Option<Stored>,
    ) {
        match step {
            NextStep::Again => self.retry_unsent(host, queued, answer.ended),
            NextStep::Retry => {
                // The kept connection was dead, so the server may never have seen the request: it
                // is repeated in the host's very next turn, over a new connection.
                let wait = match answer.was_stale {
                    true => Duration::ZERO,
                    false => self.retry_wait(host, &queued),
                };
                queued.tries += 1;
                self.retry(host, queued, answer.ended + wait);
            }
            NextStep::Bury => {
                // The request that failed last counts as well.
                queued.tries += 1;
                self.bury(&queued, outcome).await;
                self.end(host, queued, outcome, record);
            }
            NextStep::End => self.end(host, queued, outcome, record),
        }
    }

    /// Requests the URL once more, in its host's next turn, with its parameters in the order that
    /// the server wants. URL seen takes both for the same URL, so the new one cannot enter as a new
    /// URL.
    pub(in crate::shard) fn respell(&self, host: HostId, queued: Queued, target: Url, at: Time) {
        let trail = queued.trail.iter().copied().chain([self.trail_step(&queued.url)]).collect();
        let tries = queued.tries + 1;
        self.retry(host, Queued { url: target, trail, tries, ..queued }, at);
    }

    /// Gives a URL up for good: counts it, writes it to the dead letters, and tells the operator if
    /// it is a seed.
    pub(in crate::shard) async fn bury(&self, queued: &Queued, outcome: Outcome) {
        self.kit.probe.add(Count::DeadLetters, 1);
        self.tell_if_seed(queued, outcome);
        self.archive.bury(queued, outcome).await;
    }

    pub(in crate::shard) fn tell_if_seed(&self, queued: &Queued, outcome: Outcome) {
        // A seed that is redirected twice leaves the crawl under another name.
        let is_moved_seed = queued.via == Via::Redirect && queued.depth == 0;
        if queued.via == Via::Seed || is_moved_seed && outcome == Outcome::Redirected {
            self.kit.notice(Notice::SeedFailed { url: queued.url.clone(), outcome });
        }
    }

    /// Ends a URL. Its record and its links are on their way to the disk.
    pub(in crate::shard) fn end(
        &self,
        host: HostId,
        queued: Queued,
        outcome: Outcome,
        record: Option<Stored>,
    ) {
        let batch = self.frontier().sieve().deferred_mark();
        let end = End { host, queued, outcome, record };
        if let Some(End { host, queued, .. }) = self.archive.end(end, batch) {
            let fingerprint = queued.url.fingerprint(&self.kit.plan.hash_key);
            self.frontier_mut().complete(host, fingerprint);
        }
    }
}

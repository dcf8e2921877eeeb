//! One visit: a host's turn, from its next URL to the time of the turn after.
//!
//! A visit makes at most one request. It ends in one of two ways: the host goes back to the
//! frontier with its next-eligible time, or it stays busy, parked until its turn at the address or
//! the answer about its robots.txt has come.

mod errand;
mod head_links;
mod page;
mod request;
mod robots;
mod sitemaps;

use super::archive::{End, Stored};
use super::manners::{Clearance, Fitness, Turn};
use super::slots::PageBudget;
use super::{Notice, Shard};
use crate::base::Time;
use crate::base::limits::DNS_FAILURE_SECONDS;
use crate::crawl::fetch::Answer;
use crate::crawl::flow::{Outcome, ResolveError, TurnPlace, Via};
use crate::crawl::frontier::{HostId, Queued};
use crate::crawl::journal;
use crate::crawl::metrics::{Count, Span, is_failure};
use crate::io::World;
use crate::proto::url::Url;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

/// What a visit may do with its URL.
enum Prospect {
    /// Ask for it there.
    Ask(IpAddr),
    /// The rules of its origin are not known: ask for them first, there.
    AskRobots(IpAddr),
    /// Not before then.
    Wait(Time),
    /// After the other URLs of its host: it has failed before, and its origin fails.
    Last,
    /// It ends here, unasked.
    End(Outcome),
}

impl<W: World> Shard<W> {
    /// `granted` is the turn that the host has been given just now.
    pub(in crate::shard) async fn visit(
        self: &Rc<Self>,
        host: HostId,
        granted: Option<TurnPlace>,
        page: PageBudget,
    ) {
        let next = self.next_url(host).await;
        let hold = |name: &str| {
            let mut frontier = self.frontier_mut();
            self.manners.borrow().held(name, granted, frontier.host_data(host))
        };
        let Some(queued) = next else {
            // Its URLs were evicted while it waited, or cannot be read.
            let name = self.frontier().host_name(host).to_owned();
            self.give_back(host, hold(&name), None);
            self.slots.refund(page);
            return self.release(host, Time::ZERO);
        };
        let held = hold(queued.url.host());
        if queued.via == Via::Robots && !self.manners.borrow().has_errands(&queued.url) {
            self.give_back(host, held, None);
            self.slots.refund(page);
            let fingerprint = queued.url.fingerprint(&self.kit.plan.hash_key);
            self.frontier_mut().complete(host, fingerprint);
            return self.release(host, Time::ZERO);
        }
        let prospect = self.prospect(host, &queued).await;
        let address = match prospect {
            Prospect::Ask(address) | Prospect::AskRobots(address) => address,
            Prospect::Wait(until) => {
                self.give_back(host, held, None);
                self.slots.refund(page);
                return self.wait_out(host, queued, until);
            }
            Prospect::Last => {
                self.give_back(host, held, None);
                self.slots.refund(page);
                self.frontier_mut().requeue_last(host, queued);
                return self.release(host, Time::ZERO);
            }
            Prospect::End(outcome) => {
                self.give_back(host, held, None);
                self.slots.refund(page);
                return self.conclude_unasked(host, queued, outcome).await;
            }
        };
        let turn = {
            let mut frontier = self.frontier_mut();
            let (pace, now) = (frontier.host_data(host), self.kit.world.now());
            self.manners.borrow_mut().take_turns(held, pace, address, now, &mut self.out())
        };
        let Turn::Held(held) = turn else {
            self.kit.probe.add(Count::TurnsAwaited, 1);
            self.called.in_line_count.set(self.called.in_line_count.get() + 1);
            self.slots.refund(page);
            self.frontier_mut().requeue(host, queued, Time::ZERO);
            return;
        };
        match prospect {
            Prospect::AskRobots(_) => {
                self.slots.refund(page);
                self.visit_robots(host, queued, address, held).await;
            }
            _ if queued.via == Via::Robots => {
                self.slots.refund(page);
                self.visit_errand(host, queued, address, held).await;
            }
            _ => self.visit_page(host, queued, address, held, page).await,
        }
    }

    async fn prospect(&self, host: HostId, queued: &Queued) -> Prospect {
        let fitness = {
            let queued_count = || self.frontier().host_queued_count(host);
            let now = self.kit.world.now();
            self.manners.borrow_mut().fitness(host, queued, queued_count, now)
        };
        match fitness {
            Fitness::Fit => {}
            Fitness::Wait(until) => return Prospect::Wait(until),
            Fitness::Last => return Prospect::Last,
            Fitness::End(outcome) => return Prospect::End(outcome),
        }
        let address = match self.address_of(host, queued).await {
            Ok(address) => address,
            Err(outcome) => return Prospect::End(outcome),
        };
        if queued.via == Via::Robots {
            return Prospect::Ask(address);
        }
        let fetched_count = || self.frontier().host_fetched_count(host);
        let now = self.kit.world.now();
        let clearance = self.manners.borrow_mut().clearance(&queued.url, fetched_count, now);
        match clearance {
            Clearance::Ask => Prospect::Ask(address),
            Clearance::AskRobots => Prospect::AskRobots(address),
            Clearance::Wait(until) => Prospect::Wait(until),
            Clearance::End(outcome) => Prospect::End(outcome),
        }
    }

    async fn address_of(&self, host: HostId, queued: &Queued) -> Result<IpAddr, Outcome> {
        let begun = self.kit.world.now();
        let name = queued.url.host();
        let mut found = self.net.resolver.lookup(name).await;
        if self.manners.borrow().wants_other_family(host, &queued.url)
            && let Ok(other) = self.net.resolver.other_family(name).await
        {
            found = Ok(other);
        }
        self.kit.probe.record(Span::Dns, self.kit.world.now().since(begun));
        let address = found.map_err(|error| match error {
            ResolveError::NoName => Outcome::NoName,
            ResolveError::Failed => Outcome::DnsFailed,
            ResolveError::AddressRefused => Outcome::AddressRefused,
        })?;
        // Another try goes to another address, if the name has several.
        let ips = &address.ips;
        ips.get(queued.tries as usize % ips.len().max(1)).copied().ok_or(Outcome::NoName)
    }

    /// The URL's origin is left alone until then. Where the host has no other, so is the host.
    pub(in crate::shard) fn wait_out(&self, host: HostId, queued: Queued, until: Time) {
        let mut frontier = self.frontier_mut();
        if frontier.host_has_several_origins(host) {
            frontier.retry_at(host, queued, until);
        } else {
            frontier.requeue(host, queued, until);
        }
        drop(frontier);
        self.release(host, Time::ZERO);
    }

    /// A URL that ends without a request of its own.
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
        if outcome.row().retry && queued.tries_made() < self.kit.plan.settings.retry_count_max {
            let mut wait = self.retry_wait(host, &queued);
            if outcome == Outcome::DnsFailed {
                // Sooner, the resolver would give the same answer from memory: no try at all.
                wait = wait.max(Duration::from_secs(DNS_FAILURE_SECONDS.into()));
            }
            queued.tries += 1;
            self.retry(host, queued, now + wait);
            return self.release(host, Time::ZERO);
        }
        if is_failure(outcome) {
            self.bury(&queued, outcome).await;
        } else {
            self.tell_if_seed(&queued, outcome);
        }
        self.end(host, queued, outcome, None);
        self.release(host, Time::ZERO);
    }

    /// Whether this was the last request for a page: [`Self::conclude`] will not try it again.
    pub(in crate::shard) fn is_end(
        &self,
        queued: &Queued,
        answer: &Answer,
        outcome: Outcome,
    ) -> bool {
        let is_retried =
            outcome.row().retry && queued.tries_made() < self.kit.plan.settings.retry_count_max;
        let is_unsent = outcome == Outcome::Shed && !answer.was_sent;
        !(is_unsent || is_retried)
    }

    /// After a request for a page: try again later, or let it be.
    pub(in crate::shard) async fn conclude(
        &self,
        host: HostId,
        mut queued: Queued,
        answer: &Answer,
        outcome: Outcome,
        record: Option<Stored>,
    ) {
        if outcome == Outcome::Shed && !answer.was_sent {
            self.retry_unsent(host, queued, answer.ended);
        } else if !self.is_end(&queued, answer, outcome) {
            // On a kept connection that was dead, the server may never have seen it: in the host's
            // very next turn, over a new connection.
            let wait = match answer.was_stale {
                true => Duration::ZERO,
                false => self.retry_wait(host, &queued),
            };
            queued.tries += 1;
            self.retry(host, queued, answer.ended + wait);
        } else {
            if is_failure(outcome) {
                self.bury(&queued, outcome).await;
            }
            self.end(host, queued, outcome, record);
        }
    }

    /// The server wants the URL's parameters in another order: it is asked for once more, so, in
    /// its host's next turn. To URL seen it is the same URL, so it cannot come as a new one.
    pub(in crate::shard) fn respell(&self, host: HostId, queued: Queued, target: Url, at: Time) {
        let trail = queued.trail.iter().copied().chain([self.trail_step(&queued.url)]).collect();
        let tries = queued.tries + 1;
        self.retry(host, Queued { url: target, trail, tries, ..queued }, at);
    }

    /// We had no descriptor, port or buffer, so the try is not counted. The journal is not told: it
    /// has the URL with as many tries, and a restart would take a second entry for a second URL.
    pub(in crate::shard) fn retry_unsent(&self, host: HostId, queued: Queued, ended: Time) {
        let wait = self.retry_wait(host, &Queued { tries: 0, ..queued.clone() });
        self.kit.probe.add(Count::Retries, 1);
        self.frontier_mut().retry_at(host, queued, ended + wait);
    }

    /// The URL waits for its next try, over a restart too. It has made one more than the journal
    /// knows of, which tells this copy from the one before.
    pub(in crate::shard) fn retry(&self, host: HostId, queued: Queued, at: Time) {
        self.kit.probe.add(Count::Retries, 1);
        self.archive.entry(|out| {
            journal::push_retried(out, &queued, self.clocks().wall_of(at));
        });
        self.frontier_mut().retry_at(host, queued, at);
    }

    /// Given up for good: counted, written down, and told if the operator asked for it by name.
    pub(in crate::shard) async fn bury(&self, queued: &Queued, outcome: Outcome) {
        self.kit.probe.add(Count::DeadLetters, 1);
        self.tell_if_seed(queued, outcome);
        self.archive.bury(queued, outcome).await;
    }

    pub(in crate::shard) fn tell_if_seed(&self, queued: &Queued, outcome: Outcome) {
        // A seed that redirects twice leaves the crawl under another name.
        let is_moved_seed = queued.via == Via::Redirect && queued.depth == 0;
        if queued.via == Via::Seed || is_moved_seed && outcome == Outcome::Redirected {
            self.kit.notice(Notice::SeedFailed { url: queued.url.clone(), outcome });
        }
    }

    /// A URL has come to its end; its record and its links are on their way to the disk.
    fn end(&self, host: HostId, queued: Queued, outcome: Outcome, record: Option<Stored>) {
        let batch = self.frontier().sieve().deferred_mark();
        let end = End { host, queued, outcome, record };
        if let Some(End { host, queued, .. }) = self.archive.end(end, batch) {
            let fingerprint = queued.url.fingerprint(&self.kit.plan.hash_key);
            self.frontier_mut().complete(host, fingerprint);
        }
    }

    /// Gives the host back to the frontier.
    pub(in crate::shard) fn release(&self, host: HostId, next: Time) {
        let (mut frontier, now) = (self.frontier_mut(), self.kit.world.now());
        if next <= now {
            // Ready at once, and not at the wheel's next tick.
            frontier.advance(now);
        }
        frontier.release(host, next);
        let planned = if frontier.host_queued_count(host) > 0 && next != Time::ZERO {
            frontier.host_eligible_at(host)
        } else {
            Time::ZERO
        };
        frontier.host_data(host).planned = planned;
    }
}

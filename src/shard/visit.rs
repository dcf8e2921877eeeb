//! One visit: a host's turn, from its next URL to the time of the turn after.
//!
//! A visit makes at most one request. It ends in one of two ways: the host goes back to the
//! frontier with its next-eligible time, or it stays busy, parked until its turn at the address or
//! the answer about its robots.txt has come.

use super::archive::{End, Stored};
use super::health::{Fitness, Sign};
use super::turns::Hands;
use super::{Notice, Sabotage, Shard};
use crate::base::Time;
use crate::base::limits::DNS_FAILURE_SECONDS;
use crate::crawl::fetch::{Answer, Connection};
use crate::crawl::flow::{Outcome, ResolveError, TurnPlace, Via};
use crate::crawl::frontier::{HostId, Origin, Queued};
use crate::crawl::journal;
use crate::crawl::metrics::{Count, Span, is_failure};
use crate::crawl::resolve::RobotsState;
use crate::crawl::store::RequestLine;
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
    pub(super) async fn visit(self: &Rc<Self>, host: HostId, granted: Option<TurnPlace>) {
        let next = self.next_url(host).await;
        let Some(queued) = next else {
            // Its URLs were evicted while it waited, or cannot be read.
            let name = self.frontier.borrow().host_name(host).to_owned();
            self.let_go(host, self.hands(host, &name, granted));
            self.refund_budget();
            return self.release(host, Time::ZERO);
        };
        let mut hands = self.hands(host, queued.url.host(), granted);
        if queued.via == Via::Robots && !self.is_waited_for(&queued.url) {
            self.let_go(host, hands);
            self.refund_budget();
            let fingerprint = queued.url.fingerprint(&self.kit.plan.hash_key);
            self.frontier.borrow_mut().complete(host, fingerprint);
            return self.release(host, Time::ZERO);
        }
        let prospect = self.prospect(host, &queued).await;
        let address = match prospect {
            Prospect::Ask(address) | Prospect::AskRobots(address) => address,
            Prospect::Wait(until) => {
                self.let_go(host, hands);
                self.refund_budget();
                return self.wait_out(host, queued, until);
            }
            Prospect::Last => {
                self.let_go(host, hands);
                self.refund_budget();
                self.frontier.borrow_mut().requeue_last(host, queued);
                return self.release(host, Time::ZERO);
            }
            Prospect::End(outcome) => {
                self.let_go(host, hands);
                self.refund_budget();
                return self.conclude_unasked(host, queued, outcome).await;
            }
        };
        if !self.take_turns(host, &mut hands, address) {
            self.kit.probe.add(Count::TurnsAwaited, 1);
            self.in_line_count.set(self.in_line_count.get() + 1);
            self.refund_budget();
            self.frontier.borrow_mut().requeue(host, queued, Time::ZERO);
            return;
        }
        match prospect {
            Prospect::AskRobots(_) => self.visit_robots(host, queued, address, hands).await,
            _ if queued.via == Via::Robots => self.visit_errand(host, queued, address, hands).await,
            _ => self.visit_page(host, queued, address, hands).await,
        }
    }

    async fn prospect(&self, host: HostId, queued: &Queued) -> Prospect {
        let is_errand = queued.via == Via::Robots;
        let origin = Origin::of(&queued.url);
        if queued.tries_made() > self.kit.plan.settings.retry_count_max {
            // Its robots.txt failed as often as a page may.
            let cause = self.health.borrow().cause(host, origin);
            return Prospect::End(out_of_tries(cause));
        }
        let fitness = self.health.borrow().fitness(host, origin, self.kit.world.now());
        match fitness {
            Fitness::Fit => {}
            // Whoever sent the errand waits for it: a word now is better than rules tomorrow.
            Fitness::Resting(_) if is_errand => return Prospect::End(Outcome::OriginDown),
            Fitness::Resting(until) => return Prospect::Wait(until),
            Fitness::GivenUp(Outcome::RobotsUnreachable) => {
                return Prospect::End(Outcome::RobotsUnreachable);
            }
            Fitness::GivenUp(_) => return Prospect::End(Outcome::OriginDown),
        }
        if queued.tries_made() > 0 && !is_errand {
            let queued_count = self.frontier.borrow().host_queued_count(host);
            if self.health.borrow_mut().prefers_fresh(host, origin, queued_count) {
                return Prospect::Last;
            }
        }
        let address = match self.address_of(host, queued).await {
            Ok(address) => address,
            Err(outcome) => return Prospect::End(outcome),
        };
        if is_errand {
            return Prospect::Ask(address);
        }
        let state = self.robots.borrow().state(queued.url.origin(), self.kit.world.now());
        match state {
            RobotsState::Ready(rules) => {
                let verdict = rules.check(queued.url.path_and_query());
                let undecided = u64::from(verdict.is_undecided());
                self.kit.probe.add(Count::RobotsUndecided, undecided);
                if !verdict.allowed {
                    self.robots.borrow_mut().used(queued.url.origin());
                }
                if verdict.allowed {
                    Prospect::Ask(address)
                } else {
                    Prospect::End(Outcome::RobotsDenied)
                }
            }
            RobotsState::Unreachable { retry_at } => Prospect::Wait(retry_at),
            RobotsState::Unknown if self.kit.is_sabotaged(Sabotage::RobotsLate) => {
                let is_first = self.frontier.borrow().host_fetched_count(host) <= 1;
                if is_first { Prospect::Ask(address) } else { Prospect::AskRobots(address) }
            }
            RobotsState::Unknown | RobotsState::Asking => Prospect::AskRobots(address),
        }
    }

    async fn address_of(&self, host: HostId, queued: &Queued) -> Result<IpAddr, Outcome> {
        let begun = self.kit.world.now();
        let name = queued.url.host();
        let mut found = self.resolver.lookup(name).await;
        if self.health.borrow().wants_other_family(host, Origin::of(&queued.url))
            && let Ok(other) = self.resolver.other_family(name).await
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
    pub(super) fn wait_out(&self, host: HostId, queued: Queued, until: Time) {
        let mut frontier = self.frontier.borrow_mut();
        if frontier.host_has_several_origins(host) {
            frontier.retry_at(host, queued, until);
        } else {
            frontier.requeue(host, queued, until);
        }
        drop(frontier);
        self.release(host, Time::ZERO);
    }

    /// A URL that ends without a request of its own.
    pub(super) async fn conclude_unasked(
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
            self.ail(host, &queued.url, outcome, now, (Sign::Unreached, true));
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
    pub(super) fn is_end(&self, queued: &Queued, answer: &Answer, outcome: Outcome) -> bool {
        let is_retried =
            outcome.row().retry && queued.tries_made() < self.kit.plan.settings.retry_count_max;
        let is_unsent = outcome == Outcome::Shed && !answer.was_sent;
        !(is_unsent || is_retried)
    }

    /// After a request for a page: try again later, or let it be.
    pub(super) async fn conclude(
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
    pub(super) fn respell(&self, host: HostId, queued: Queued, target: Url, at: Time) {
        let trail = queued.trail.iter().copied().chain([self.trail_step(&queued.url)]).collect();
        let tries = queued.tries + 1;
        self.retry(host, Queued { url: target, trail, tries, ..queued }, at);
    }

    /// We had no descriptor, port or buffer, so the try is not counted. The journal is not told: it
    /// has the URL with as many tries, and a restart would take a second entry for a second URL.
    pub(super) fn retry_unsent(&self, host: HostId, queued: Queued, ended: Time) {
        let wait = self.retry_wait(host, &Queued { tries: 0, ..queued.clone() });
        self.kit.probe.add(Count::Retries, 1);
        self.frontier.borrow_mut().retry_at(host, queued, ended + wait);
    }

    /// The URL waits for its next try, over a restart too. It has made one more than the journal
    /// knows of, which tells this copy from the one before.
    pub(super) fn retry(&self, host: HostId, queued: Queued, at: Time) {
        self.kit.probe.add(Count::Retries, 1);
        self.archive.entry(|out| {
            journal::push_retried(out, &queued, self.clocks().wall_of(at));
        });
        self.frontier.borrow_mut().retry_at(host, queued, at);
    }

    /// Given up for good: counted, written down, and told if the operator asked for it by name.
    pub(super) async fn bury(&self, queued: &Queued, outcome: Outcome) {
        self.kit.probe.add(Count::DeadLetters, 1);
        self.tell_if_seed(queued, outcome);
        self.archive.bury(queued, outcome).await;
    }

    pub(super) fn tell_if_seed(&self, queued: &Queued, outcome: Outcome) {
        // A seed that redirects twice leaves the crawl under another name.
        let is_moved_seed = queued.via == Via::Redirect && queued.depth == 0;
        if queued.via == Via::Seed || is_moved_seed && outcome == Outcome::Redirected {
            self.kit.notice(Notice::SeedFailed { url: queued.url.clone(), outcome });
        }
    }

    /// Books a request: its turns are over, its times and outcome are counted and logged.
    pub(super) async fn finish_request(
        &self,
        host: HostId,
        url: &Url,
        answer: &Answer,
        outcome: Outcome,
        hands: Hands,
    ) {
        self.give_back(host, hands, Some(answer.seen_by));
        {
            let probe = &self.kit.probe;
            probe.add(Count::Requests, 1);
            probe.add(Count::BytesSent, answer.request.len() as u64);
            probe.add(Count::BytesReceived, answer.response.len() as u64);
            match answer.connection {
                Connection::None => {}
                Connection::Reused => probe.add(Count::ConnectionsReused, 1),
                Connection::Opened => probe.add(Count::ConnectionsOpened, 1),
                Connection::OpenedTls { resumed } => {
                    probe.add(Count::ConnectionsOpened, 1);
                    probe.add(if resumed { Count::TlsResumed } else { Count::TlsFull }, 1);
                }
            }
            for (span, took) in [
                (Span::Connect, answer.connect_took),
                (Span::Tls, answer.tls_took),
                (Span::FirstByte, answer.first_byte_took),
                (Span::Body, answer.body_took),
            ] {
                if let Some(took) = took {
                    probe.record(span, took);
                }
            }
        }
        self.log(url, answer.started, Some(answer), outcome, answer.status()).await;
    }

    async fn log(
        &self,
        url: &Url,
        started: Time,
        answer: Option<&Answer>,
        outcome: Outcome,
        status: Option<u16>,
    ) {
        let ended = answer.map_or(started, |answer| answer.ended);
        let line = RequestLine {
            started,
            at: answer.map_or_else(|| self.kit.world.wall(), |answer| answer.at),
            address: answer.map(|answer| answer.address),
            method: "GET",
            url,
            status,
            outcome,
            body_bytes: answer.map_or(0, |answer| answer.response.len() as u64),
            total_ms: ended.since(started).as_millis() as u64,
        };
        self.archive.request(&line).await;
    }

    /// A URL has come to its end; its record and its links are on their way to the disk.
    fn end(&self, host: HostId, queued: Queued, outcome: Outcome, record: Option<Stored>) {
        let batch = self.frontier.borrow().sieve().deferred_mark();
        let end = End { host, queued, outcome, record };
        if let Some(End { host, queued, .. }) = self.archive.end(end, batch) {
            let fingerprint = queued.url.fingerprint(&self.kit.plan.hash_key);
            self.frontier.borrow_mut().complete(host, fingerprint);
        }
    }

    /// Gives the host back to the frontier.
    pub(super) fn release(&self, host: HostId, next: Time) {
        let (mut frontier, now) = (self.frontier.borrow_mut(), self.kit.world.now());
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

/// How a URL ends that is out of tries without an answer of its own: as its origin failed last. A
/// page that was cut is no failure of the URL that waited for its robots.txt meanwhile: the log of
/// dead letters would have it, and the journal would not.
fn out_of_tries(cause: Option<Outcome>) -> Outcome {
    cause.filter(|cause| is_failure(*cause)).unwrap_or(Outcome::RobotsUnreachable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crawl::flow::Penalty;

    #[test]
    fn a_url_out_of_tries_is_a_dead_letter_everywhere_however_its_origin_failed() {
        let causes = Outcome::ALL.into_iter().filter(|of| of.row().penalty == Penalty::BackOff);
        assert!(causes.clone().any(|cause| cause == Outcome::CutTime));
        for cause in causes {
            assert!(is_failure(out_of_tries(Some(cause))), "{}", cause.name());
        }
        assert_eq!(out_of_tries(Some(Outcome::ConnectRefused)), Outcome::ConnectRefused);
        assert_eq!(out_of_tries(None), Outcome::RobotsUnreachable);
    }
}

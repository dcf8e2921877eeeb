//! One visit: a host's turn, from its next URL to the time of the turn after.
//!
//! A visit makes at most one request. It ends in one of two ways: the host goes back to the
//! frontier with its next-eligible time, or it stays busy, parked until its turn at the address or
//! the answer about its robots.txt has come.

use super::errand::{Errand, Reading};
use super::{Notice, Shard, Wanted};
use crate::base::Time;
use crate::fetch::{Answer, Connection};
use crate::flow::{Mail, Message, Outcome, Penalty, ResolveError, RobotsAnswer, Via};
use crate::frontier::{HostId, Queued};
use crate::http::RetryAfter;
use crate::io::{Outbox, World};
use crate::limits;
use crate::metrics::{Count, Span};
use crate::resolve::RobotsState;
use crate::robotstxt::Robots;
use crate::store::RequestLine;
use crate::url::{HostKey, Url};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

/// What robots.txt lets a visit do.
enum Leave {
    Fetch,
    Denied,
    /// The rules are not known: ask for them first.
    AskFirst,
    /// They did not answer; not before then.
    Wait(Time),
}

impl<W: World, O: Outbox<Mail>, C: Outbox<Notice>> Shard<W, O, C> {
    /// `turn` is an address whose turn the host has been given.
    pub(super) async fn visit(self: &Rc<Self>, host: HostId, turn: Option<IpAddr>) {
        let next = self.frontier.borrow_mut().next_url(host);
        let Some(queued) = next else {
            // Its URLs were evicted while it waited.
            let name = self.frontier.borrow().host_name(host).to_owned();
            self.give_up_turn(turn, HostKey::of(&name));
            self.refund_budget();
            return self.release(host, Time::ZERO);
        };
        let key = queued.url.host_key();
        let address = match self.address_of(&queued).await {
            Ok(address) => address,
            Err(outcome) => {
                self.give_up_turn(turn, key);
                self.refund_budget();
                return self.conclude_unasked(host, queued, outcome).await;
            }
        };
        let leave = if queued.via == Via::Robots { Leave::Fetch } else { self.leave(&queued.url) };
        match leave {
            Leave::Denied => {
                self.give_up_turn(turn, key);
                self.refund_budget();
                return self.conclude_unasked(host, queued, Outcome::RobotsDenied).await;
            }
            Leave::Wait(until) => {
                self.give_up_turn(turn, key);
                self.refund_budget();
                self.frontier.borrow_mut().requeue(host, queued, until);
                return self.release(host, until);
            }
            Leave::Fetch | Leave::AskFirst => {}
        }
        if !self.take_turn(turn, address, key) {
            self.metrics.borrow_mut().add(Count::TurnsAwaited, 1);
            self.refund_budget();
            return self.frontier.borrow_mut().requeue(host, queued, Time::ZERO);
        }
        match leave {
            Leave::AskFirst => self.visit_robots(host, queued, address).await,
            _ if queued.via == Via::Robots => {
                self.refund_budget();
                let answer = self.run_errand(&queued, address).await;
                self.finish_request(&queued.url, &answer, answer.outcome, Some(address)).await;
                let next = self.pace(host, &queued.url, 0, &answer, answer.outcome);
                self.client.recycle(answer.response);
                self.release(host, next);
            }
            _ => self.visit_page(host, queued, address).await,
        }
    }

    async fn address_of(&self, queued: &Queued) -> Result<IpAddr, Outcome> {
        let begun = self.world.now();
        let found = self.resolver.lookup(queued.url.host()).await;
        self.metrics.borrow_mut().record(Span::Dns, self.world.now().since(begun));
        let address = found.map_err(|error| match error {
            ResolveError::NoName => Outcome::NoName,
            ResolveError::Failed => Outcome::DnsFailed,
            ResolveError::AddressRefused => Outcome::AddressRefused,
        })?;
        // Another try goes to another address, if the name has several.
        let ips = &address.ips;
        ips.get(queued.tries as usize % ips.len().max(1)).copied().ok_or(Outcome::NoName)
    }

    fn leave(&self, url: &Url) -> Leave {
        let state = self.robots.borrow().state(url.origin(), self.world.now());
        match state {
            RobotsState::Ready(rules) if rules.check(url.path_and_query()).allowed => Leave::Fetch,
            RobotsState::Ready(_) => Leave::Denied,
            RobotsState::Unreachable { retry_at } => Leave::Wait(retry_at),
            RobotsState::Unknown | RobotsState::Asking => Leave::AskFirst,
        }
    }

    /// True if the host may speak to `address` now. False: it waits in line, still busy.
    fn take_turn(&self, turn: Option<IpAddr>, address: IpAddr, host: HostKey) -> bool {
        if turn == Some(address) {
            return true;
        }
        // The name has moved to another address since the turn was asked for.
        self.give_up_turn(turn, host);
        let delay_ms = u32::try_from(self.plan.settings.delay_ms).unwrap_or(u32::MAX);
        let owner = self.plan.placement.of_address(address);
        if owner == self.index {
            let wanted = Wanted { host, asker: self.index, delay_ms };
            return self.turns.borrow_mut().ask(address, wanted, self.world.now());
        }
        let asker = self.index;
        let message = Message::TurnWanted { address, host, asker, delay_ms };
        self.mesh.borrow_mut().post(owner, message);
        false
    }

    fn give_up_turn(&self, turn: Option<IpAddr>, host: HostKey) {
        if let Some(address) = turn {
            self.return_turn(address, host, None);
        }
    }

    async fn visit_robots(self: &Rc<Self>, host: HostId, queued: Queued, address: IpAddr) {
        self.refund_budget();
        let origin: Box<str> = queued.url.origin().into();
        let Some((target, hops)) = self.robots_target(&queued.url) else {
            self.give_up_turn(Some(address), queued.url.host_key());
            return self.conclude_unasked(host, queued, Outcome::Malformed).await;
        };
        self.robots.borrow_mut().ask(&origin);
        let (answer, body) = self.fetch_robots(&target, address).await;
        self.finish_request(&target, &answer, answer.outcome, Some(address)).await;
        let next = self.pace(host, &target, queued.tries, &answer, answer.outcome);
        self.frontier.borrow_mut().postpone(host, next);
        let errand = Errand { origin: origin.clone(), asker: self.index, hops };
        let why = if answer.head.is_some() { Outcome::RobotsUnreachable } else { answer.outcome };
        // Parked first: an errand on this very shard may be answered before `read_robots` returns.
        self.park(&origin, host, queued);
        let reading = self.read_robots(&target, &answer, &body, &errand, true);
        self.client.recycle(answer.response);
        if matches!(reading, Reading::Sent) {
            return;
        }
        let Some(queued) = self.unpark(&origin) else { return };
        match reading {
            Reading::Answer(found) => self.settle_robots(host, queued, &found, why, next),
            _ => {
                self.robots.borrow_mut().give_up(&origin);
                self.frontier.borrow_mut().requeue(host, queued, next);
                self.release(host, next);
            }
        }
    }

    /// The robots.txt of a host has answered, or failed to: its page goes back to the queue.
    pub(super) fn settle_robots(
        &self,
        host: HostId,
        mut queued: Queued,
        answer: &RobotsAnswer,
        why: Outcome,
        next: Time,
    ) {
        let now = self.world.now();
        if *answer != RobotsAnswer::Unreachable {
            self.robots.borrow_mut().answer(queued.url.origin(), answer, now, now);
            let next = next.max(now + self.crawl_delay(&queued.url));
            self.frontier.borrow_mut().requeue(host, queued, Time::ZERO);
            return self.release(host, next);
        }
        let retry_at = next.max(now + self.retry_wait(queued.tries));
        self.robots.borrow_mut().answer(queued.url.origin(), answer, now, retry_at);
        if queued.tries < self.plan.settings.retry_count_max {
            queued.tries += 1;
            self.metrics.borrow_mut().add(Count::Retries, 1);
            self.frontier.borrow_mut().requeue(host, queued, retry_at);
        } else {
            self.metrics.borrow_mut().outcome(why);
            self.bury(&queued, why);
        }
        self.release(host, retry_at);
    }

    /// A URL that ends without a request of its own.
    async fn conclude_unasked(&self, host: HostId, mut queued: Queued, outcome: Outcome) {
        let now = self.world.now();
        if queued.via == Via::Robots {
            self.fail_errand(&queued.url);
            return self.release(host, Time::ZERO);
        }
        self.metrics.borrow_mut().outcome(outcome);
        self.log(&queued.url, now, None, outcome, None).await;
        if outcome.row().retry && queued.tries < self.plan.settings.retry_count_max {
            let retry_at = now + self.retry_wait(queued.tries);
            queued.tries += 1;
            self.metrics.borrow_mut().add(Count::Retries, 1);
            self.frontier.borrow_mut().requeue(host, queued, retry_at);
            return self.release(host, retry_at);
        }
        if outcome != Outcome::RobotsDenied {
            self.bury(&queued, outcome);
        } else {
            self.tell_if_seed(&queued, outcome);
        }
        self.release(host, Time::ZERO);
    }

    /// After a request for a page: try again later, or let it be.
    pub(super) fn conclude(
        &self,
        host: HostId,
        mut queued: Queued,
        answer: &Answer,
        outcome: Outcome,
        next: Time,
    ) {
        let retry = outcome.row().retry && queued.tries < self.plan.settings.retry_count_max;
        if retry {
            let wait =
                if answer.was_stale { Duration::ZERO } else { self.retry_wait(queued.tries) };
            queued.tries += 1;
            self.metrics.borrow_mut().add(Count::Retries, 1);
            self.frontier.borrow_mut().requeue(host, queued, answer.ended + wait);
        } else if crate::metrics::is_failure(outcome) {
            self.bury(&queued, outcome);
        }
        self.release(host, next);
    }

    /// Given up for good: counted, and told if the operator asked for it by name.
    fn bury(&self, queued: &Queued, outcome: Outcome) {
        self.metrics.borrow_mut().add(Count::DeadLetters, 1);
        self.tell_if_seed(queued, outcome);
    }

    fn tell_if_seed(&self, queued: &Queued, outcome: Outcome) {
        if queued.via == Via::Seed {
            self.notice(Notice::SeedFailed { url: queued.url.clone(), outcome });
        }
    }

    /// Books a request: its turn is over, its times and outcome are counted and logged.
    pub(super) async fn finish_request(
        &self,
        url: &Url,
        answer: &Answer,
        outcome: Outcome,
        turn: Option<IpAddr>,
    ) {
        if let Some(address) = turn {
            self.return_turn(address, url.host_key(), Some(answer.seen_by));
        }
        {
            let mut metrics = self.metrics.borrow_mut();
            metrics.add(Count::Requests, 1);
            metrics.add(Count::BytesSent, answer.request.len() as u64);
            metrics.add(Count::BytesReceived, answer.response.len() as u64);
            match answer.connection {
                Connection::None => {}
                Connection::Reused => metrics.add(Count::ConnectionsReused, 1),
                Connection::Opened => metrics.add(Count::ConnectionsOpened, 1),
                Connection::OpenedTls { resumed } => {
                    metrics.add(Count::ConnectionsOpened, 1);
                    metrics.add(if resumed { Count::TlsResumed } else { Count::TlsFull }, 1);
                }
            }
            for (span, took) in [
                (Span::Connect, answer.connect_took),
                (Span::Tls, answer.tls_took),
                (Span::FirstByte, answer.first_byte_took),
                (Span::Body, answer.body_took),
            ] {
                if let Some(took) = took {
                    metrics.record(span, took);
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
            at: answer.map_or_else(|| self.world.wall(), |answer| answer.at),
            address: answer.map(|answer| answer.address),
            method: "GET",
            url,
            status,
            outcome,
            body_bytes: answer.map_or(0, |answer| answer.response.len() as u64),
            total_ms: ended.since(started).as_millis() as u64,
        };
        if let Err(error) = self.request_log.write(&line).await {
            self.store_failed(error);
        }
    }

    /// When the host may be asked again, after a request with this outcome.
    ///
    /// Failures of different URLs in a row make the host wait longer and longer, up to a bound;
    /// a URL that fails again waits by itself (`retry_wait`) and says nothing new of the host.
    pub(super) fn pace(
        &self,
        host: HostId,
        url: &Url,
        tries: u8,
        answer: &Answer,
        outcome: Outcome,
    ) -> Time {
        let mut frontier = self.frontier.borrow_mut();
        let pace = frontier.host_data(host);
        let mut wait = self.crawl_delay(url);
        if outcome.row().penalty == Penalty::BackOff && !answer.was_stale {
            if tries == 0 {
                pace.failure_count = (pace.failure_count + 1).min(limits::BACK_OFF_DOUBLINGS_MAX);
            }
            wait = wait.max(self.retry_wait(pace.failure_count.saturating_sub(1)));
        } else {
            pace.failure_count = 0;
        }
        let asked = answer.head.as_ref().and_then(|head| head.header("retry-after"));
        if outcome == Outcome::Throttled
            && let Some(retry_after) = asked.and_then(RetryAfter::parse)
        {
            let seconds = retry_after.seconds_from(self.world.wall());
            let longest = Duration::from_millis(self.plan.settings.crawl_delay_ms_max);
            wait = wait.max(Duration::from_secs(seconds).min(longest));
        }
        answer.seen_by + wait
    }

    /// The delay between two requests to the host of `url`: ours, or what its robots.txt asks for.
    fn crawl_delay(&self, url: &Url) -> Duration {
        let settings = &self.plan.settings;
        let state = self.robots.borrow().state(url.origin(), self.world.now());
        let asked_ms = match state {
            RobotsState::Ready(rules) => Robots::crawl_delay_ms(&rules).unwrap_or(0),
            _ => 0,
        };
        Duration::from_millis(settings.delay_ms.max(asked_ms.min(settings.crawl_delay_ms_max)))
    }

    /// Exponential, from the base, and no longer than any other wait.
    fn retry_wait(&self, tries: u8) -> Duration {
        let settings = &self.plan.settings;
        let wait_ms = settings.retry_base_ms.saturating_mul(1 << tries.min(20));
        Duration::from_millis(wait_ms.min(settings.crawl_delay_ms_max))
    }

    /// Gives the host back to the frontier.
    pub(super) fn release(&self, host: HostId, next: Time) {
        let mut frontier = self.frontier.borrow_mut();
        frontier.release(host, next);
        let planned = if frontier.host_queued_count(host) > 0 && next != Time::ZERO {
            frontier.host_eligible_at(host)
        } else {
            Time::ZERO
        };
        frontier.host_data(host).planned = planned;
    }
}

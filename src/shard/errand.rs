//! Fetching robots.txt, and running errands for origins whose robots.txt was redirected here.
//!
//! A robots.txt is asked for like a page: in its host's turn, at its address's turn. A redirect on
//! the same host (to https, mostly) is remembered, and followed in the host's next turn. A redirect
//! to another host becomes an errand that the owner of that host runs; the answer comes back by
//! message, and until then the host that wanted it is parked. A parked host runs no errands, so an
//! errand that leads to one is answered at once: two hosts can never wait for each other.

use super::page::by_status;
use super::robots::Settled;
use super::turns::Hands;
use super::{Notice, Shard};
use crate::fetch::{Answer, Sink};
use crate::flow::{Class, Mail, Message, Outcome, RobotsAnswer, ShardIndex, Via};
use crate::frontier::{HostId, Queued};
use crate::http::{DecodeError, Decoder, DecoderPool, ResponseHead, Validators};
use crate::io::{Outbox, World};
use crate::journal::Entry;
use crate::limits;
use crate::metrics::Count;
use crate::resolve::RobotsVersion;
use crate::url::Url;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

/// Who wants a robots.txt.
#[derive(Clone, Debug)]
pub(super) struct Errand {
    pub origin: Box<str>,
    pub asker: ShardIndex,
    /// Redirects followed so far.
    pub hops: u8,
}

/// In the standard library's tables: their hash has a random key, for strangers choose URLs.
#[derive(Default)]
pub(super) struct Errands {
    /// Waiting in host queues, by the URL to fetch.
    waiting: HashMap<Box<str>, Vec<Errand>>,
    /// Hosts that wait for the answer to an errand elsewhere, by origin.
    parked: HashMap<Box<str>, (HostId, Queued)>,
    /// Where an origin's robots.txt has moved to on its own host, and in how many hops, until the
    /// host's next turn.
    moved: HashMap<Box<str>, (Url, u8)>,
}

impl Errands {
    /// The robots.txt of `origin` is asked for there next. False if too many have moved.
    pub(super) fn move_to(&mut self, origin: &str, target: Url, hops: u8) -> bool {
        if self.moved.len() >= limits::ERRAND_COUNT_MAX && !self.moved.contains_key(origin) {
            return false;
        }
        self.moved.insert(origin.into(), (target, hops));
        true
    }

    /// Hosts that wait for the answer to an errand.
    pub(super) fn parked_count(&self) -> usize {
        self.parked.len()
    }
}

/// What came of reading the answer for a robots.txt.
pub(super) enum Reading {
    Answer(RobotsAnswer),
    /// It has moved on its own host: asked for again in the host's next turn.
    Moved,
    /// Another host has it: an errand is on its way.
    Sent,
}

impl<W: World, O: Outbox<Mail>, C: Outbox<Notice>> Shard<W, O, C> {
    /// Queues an errand at the host that it leads to, which is ours.
    pub(super) fn take_errand(&self, target: Url, errand: Errand) {
        let unreachable = RobotsAnswer::Unreachable;
        let is_new =
            self.frontier.borrow().host_by_key(target.host_key(&self.plan.hash_key)).is_none();
        let host = self.frontier.borrow_mut().host_for(&target);
        let Ok(host) = host else { return self.answer_errand(&errand, unreachable) };
        if let Some(journal) = self.journal.as_ref().filter(|_| is_new) {
            let origin = target.origin().to_owned();
            journal.append(|out| Entry::Met { origin }.push(out));
        }
        let is_parked = self.frontier.borrow_mut().host_data(host).is_parked;
        let mut errands = self.errands.borrow_mut();
        if is_parked || errands.waiting.len() >= limits::ERRAND_COUNT_MAX {
            drop(errands);
            self.metrics.borrow_mut().add(Count::ErrandsRefused, 1);
            return self.answer_errand(&errand, unreachable);
        }
        let waiting = errands.waiting.entry(target.as_str().into()).or_default();
        waiting.push(errand);
        let is_first = waiting.len() == 1;
        drop(errands);
        if !is_first {
            return;
        }
        let queued = Queued {
            url: target.clone(),
            depth: 0,
            class: Class::Urgent,
            via: Via::Robots,
            tries: 0,
            trail: Box::default(),
        };
        if !self.frontier.borrow_mut().requeue(host, queued, self.world.now()) {
            return self.fail_errand(&target);
        }
        self.wake.poke();
    }

    /// Runs the errands that wait for `queued`, a robots.txt that some origin was redirected to.
    pub(super) async fn visit_errand(
        self: &Rc<Self>,
        host: HostId,
        queued: Queued,
        address: IpAddr,
        hands: Hands,
    ) {
        self.refund_budget();
        let url = &queued.url;
        if queued.tries_made() > 0 {
            self.client.close_kept(url);
        }
        let (mut answer, body) = self.fetch_robots(url, address, None).await;
        let outcome = by_status(&answer);
        self.finish_request(host, url, &answer, answer.outcome, hands).await;
        let is_last = queued.tries_made() >= self.plan.settings.retry_count_max;
        if answer.says_nothing() && !is_last {
            return self.ask_errand_again(host, queued, answer);
        }
        let errands = self.errands.borrow_mut().waiting.remove(url.as_str());
        for errand in errands.unwrap_or_default() {
            let reading = self.read_robots(url, &answer, &body, &errand, false);
            if let Reading::Answer(found) = reading {
                self.answer_errand(&errand, found);
            }
        }
        let next = self.pace(host, url, &answer, outcome);
        self.book(host, url, 0, &answer, outcome);
        self.client.let_go(&mut answer);
        self.release(host, next);
    }

    /// The answer says nothing of the server: whoever waits for it waits a little longer.
    fn ask_errand_again(&self, host: HostId, mut queued: Queued, answer: Answer) {
        let next = self.pace(host, &queued.url, &answer, answer.outcome);
        let wait = if answer.was_stale { Duration::ZERO } else { self.retry_wait(host, &queued) };
        // Sent or not, each counts: a host is parked meanwhile.
        queued.tries += 1;
        self.metrics.borrow_mut().add(Count::Retries, 1);
        self.frontier.borrow_mut().retry_at(host, queued, next.max(answer.ended + wait));
        self.client.recycle(answer.response);
        self.release(host, next);
    }

    /// Whether a queued errand has somebody who waits for it. One that a restart brought back has
    /// not: who wanted it asks anew.
    pub(super) fn is_waited_for(&self, url: &Url) -> bool {
        self.errands.borrow().waiting.contains_key(url.as_str())
    }

    /// An errand that ends without a request: its host has no address, or is given up.
    pub(super) fn fail_errand(&self, url: &Url) {
        let errands = self.errands.borrow_mut().waiting.remove(url.as_str());
        for errand in errands.unwrap_or_default() {
            self.answer_errand(&errand, RobotsAnswer::Unreachable);
        }
    }

    fn answer_errand(&self, errand: &Errand, answer: RobotsAnswer) {
        if errand.asker == self.index {
            self.errand_answered(&errand.origin, &answer);
        } else {
            let message = Message::RobotsAnswered { origin: errand.origin.clone(), answer };
            self.mesh.borrow_mut().post(errand.asker, message);
        }
    }

    /// The answer to an errand of ours has come: the host that waits for it may go on.
    pub(super) fn errand_answered(&self, origin: &str, answer: &RobotsAnswer) {
        let parked = self.errands.borrow_mut().parked.remove(origin);
        let Some((host, queued)) = parked else { return };
        self.frontier.borrow_mut().host_data(host).is_parked = false;
        let now = self.world.now();
        let settled = Settled {
            answer,
            version: RobotsVersion::default(),
            cause: Outcome::RobotsUnreachable,
            seen_by: now,
            next: now,
        };
        self.settle_robots(host, queued, settled);
        self.wake.poke();
    }

    /// Keeps the host busy until the errand for its origin is answered.
    pub(super) fn park(&self, origin: &str, host: HostId, queued: Queued) {
        self.frontier.borrow_mut().host_data(host).is_parked = true;
        self.errands.borrow_mut().parked.insert(origin.into(), (host, queued));
    }

    /// Where to ask for the robots.txt of `url`'s origin, and after how many redirects.
    pub(super) fn robots_target(&self, url: &Url) -> Option<(Url, u8)> {
        let moved = self.errands.borrow_mut().moved.remove(url.origin());
        moved.or_else(|| Some((url.join("/robots.txt").ok()?, 0)))
    }

    /// Takes a parked URL back, unless its errand has been answered already.
    pub(super) fn unpark(&self, origin: &str) -> Option<Queued> {
        let (host, queued) = self.errands.borrow_mut().parked.remove(origin)?;
        self.frontier.borrow_mut().host_data(host).is_parked = false;
        Some(queued)
    }

    /// Fetches a robots.txt and stores it.
    pub(super) async fn fetch_robots(
        self: &Rc<Self>,
        url: &Url,
        address: IpAddr,
        known: Option<&RobotsVersion>,
    ) -> (Answer, Vec<u8>) {
        let mut sink = RobotsSink::default();
        let known = Validators {
            etag: known.and_then(|known| known.etag.as_deref()),
            last_modified: known.and_then(|known| known.last_modified.as_deref()),
        };
        let answer = self.client.fetch_if_changed(url, address, known, &mut sink).await;
        self.metrics.borrow_mut().add(Count::RobotsFetched, 1);
        self.store_plainly(url, &answer).await;
        (answer, sink.finish())
    }

    /// What the answer means for the errand's origin (RFC 9309 2.3.1). `at_home`: the host that
    /// was asked is the origin's own, in its own turn.
    pub(super) fn read_robots(
        &self,
        url: &Url,
        answer: &Answer,
        body: &[u8],
        errand: &Errand,
        at_home: bool,
    ) -> Reading {
        let unreachable = Reading::Answer(RobotsAnswer::Unreachable);
        let Some(head) = answer.head.as_ref() else { return unreachable };
        let usable = matches!(answer.outcome, Outcome::Fetched | Outcome::CutLength);
        match head.status() {
            200..300 if usable => Reading::Answer(RobotsAnswer::Rules(body.into())),
            // Elsewhere no version was named, and a 304 is no answer.
            304 if at_home && errand.hops == 0 => Reading::Answer(RobotsAnswer::Unchanged),
            300..400 if errand.hops < limits::REDIRECT_COUNT_MAX => {
                // Without a Location it would lead to itself, until the hops are used up.
                let location = head.header("location").filter(|location| !location.is_empty());
                let target = location.and_then(|location| url.join_bytes(location).ok());
                let Some(target) = target.filter(|target| target != url) else {
                    return unreachable;
                };
                let hops = errand.hops + 1;
                if at_home && target.host() == url.host() {
                    if self.errands.borrow_mut().move_to(&errand.origin, target, hops) {
                        return Reading::Moved;
                    }
                    self.metrics.borrow_mut().add(Count::ErrandsRefused, 1);
                    return unreachable;
                }
                self.send_errand(target, Errand { hops, ..errand.clone() });
                Reading::Sent
            }
            400..500 if head.status() != 429 => Reading::Answer(RobotsAnswer::Absent),
            _ => unreachable,
        }
    }

    fn send_errand(&self, target: Url, errand: Errand) {
        let owner = self.plan.placement.of_host(target.host_key(&self.plan.hash_key));
        if owner == self.index {
            return self.take_errand(target, errand);
        }
        let Errand { origin, asker, hops } = errand;
        let message = Message::RobotsWanted { target, origin, asker, hops };
        self.mesh.borrow_mut().post(owner, message);
    }
}

/// Keeps as much of a robots.txt as is read of it, content coding removed.
#[derive(Default)]
struct RobotsSink {
    decoder: Option<Decoder>,
    failed: Option<DecodeError>,
    body: Vec<u8>,
}

impl RobotsSink {
    fn finish(self) -> Vec<u8> {
        // What a broken coding had decoded to by then is still the best that is known.
        self.body
    }
}

impl Sink for RobotsSink {
    fn head(&mut self, head: &ResponseHead) -> bool {
        match DecoderPool::new().decoder(head.all("content-encoding")) {
            Ok(decoder) => self.decoder = Some(decoder),
            Err(error) => self.failed = Some(error),
        }
        true
    }

    fn held_bytes(&self) -> usize {
        self.body.capacity() + self.decoder.as_ref().map_or(0, Decoder::held_bytes)
    }

    fn body(&mut self, piece: &[u8]) {
        let Some(decoder) = &mut self.decoder else { return };
        if self.failed.is_some() || self.body.len() >= limits::ROBOTS_BYTES_MAX {
            return;
        }
        let body = &mut self.body;
        let mut keep = |bytes: &[u8]| {
            let room = limits::ROBOTS_BYTES_MAX - body.len();
            body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        };
        self.failed = decoder.push(piece, &mut keep).err();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_robots_txts_that_have_moved_no_more_are_kept_than_the_bound_says() {
        let mut errands = Errands::default();
        let target = Url::parse("http://host.test/rules").expect("a URL");
        let mut moves = |number: usize| {
            errands.move_to(&format!("http://host{number}.test"), target.clone(), 1)
        };
        assert!((0..limits::ERRAND_COUNT_MAX).all(&mut moves));
        assert!(!moves(limits::ERRAND_COUNT_MAX), "there is no room for it");
        assert!(moves(0), "one that has a place keeps it");
    }
}

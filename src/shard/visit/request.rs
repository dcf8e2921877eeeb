//! The end of every request of a visit, whatever was requested: its turns are given back, it is
//! counted and logged, and the time of the host's next request is decided.
//!
//! The rules are those of [`crate::shard::manners`]. The host's pace, which the rules need, is kept
//! by the frontier and passed to them here.

use crate::base::Time;
use crate::crawl::fetch::{Answer, Connection};
use crate::crawl::flow::Outcome;
use crate::crawl::frontier::{HostId, Queued};
use crate::crawl::metrics::{Count, Span};
use crate::crawl::store::RequestLine;
use crate::io::World;
use crate::proto::url::Url;
use crate::shard::Shard;
use crate::shard::manners::{Asked, HeldTurns, Sign};
use std::time::Duration;

impl<W: World> Shard<W> {
    /// Books a request: gives its turns back, and counts and logs its times and its outcome.
    pub(super) async fn finish_request(
        &self,
        host: HostId,
        url: &Url,
        answer: &Answer,
        outcome: Outcome,
        held: HeldTurns,
    ) {
        self.give_back(host, held, Some(answer.seen_by));
        self.count_request(answer);
        self.log(url, answer.started, Some(answer), outcome, answer.status()).await;
    }

    fn count_request(&self, answer: &Answer) {
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

    pub(super) async fn log(
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
            body_bytes: answer
                .map_or(0, |answer| answer.response.len().saturating_sub(answer.head_len) as u64),
            total_ms: ended.since(started).as_millis() as u64,
        };
        self.archive.request(&line).await;
    }

    /// Gives turns back. `used_at` is when the server had seen the request, or `None` if none was
    /// made.
    pub(super) fn give_back(&self, host: HostId, held: HeldTurns, used_at: Option<Time>) {
        let has_moved = {
            let mut frontier = self.frontier_mut();
            let pace = frontier.host_data(host);
            self.manners.borrow_mut().give_back(held, pace, used_at, &mut self.out())
        };
        if has_moved {
            self.kit.wake.poke();
        }
    }

    /// Returns when the host may be asked again.
    pub(super) fn next_request(
        &self,
        host: HostId,
        url: &Url,
        answer: &Answer,
        outcome: Outcome,
    ) -> Time {
        let mut frontier = self.frontier_mut();
        let asked = Asked { host, url, pace: frontier.host_data(host) };
        let (mut manners, world) = (self.manners.borrow_mut(), &self.kit.world);
        manners.next_request(asked, answer, outcome, world, &mut self.out())
    }

    /// Records what a request says about the health of its origin.
    pub(super) fn book(
        &self,
        host: HostId,
        url: &Url,
        tries: u8,
        answer: &Answer,
        outcome: Outcome,
    ) {
        let rotation = {
            let mut frontier = self.frontier_mut();
            let asked = Asked { host, url, pace: frontier.host_data(host) };
            let (mut manners, world) = (self.manners.borrow_mut(), &self.kit.world);
            manners.book(asked, tries, answer, outcome, world, &mut self.out())
        };
        self.rotate_queues(host, rotation);
    }

    /// Records that an origin could not be reached, although no request was made.
    pub(super) fn origin_unreached(&self, host: HostId, url: &Url, cause: Outcome, at: Time) {
        let rotation = {
            let mut frontier = self.frontier_mut();
            let asked = Asked { host, url, pace: frontier.host_data(host) };
            let (mut manners, world) = (self.manners.borrow_mut(), &self.kit.world);
            manners.fail(asked, cause, at, (Sign::Unreached, true), world, &mut self.out())
        };
        self.rotate_queues(host, rotation);
    }

    /// Rotates the host's queues, so that the next URL comes from elsewhere: URLs that fail often
    /// lie side by side.
    pub(super) fn rotate_queues(&self, host: HostId, rotation: Option<u64>) {
        if let Some(rotation) = rotation {
            self.frontier_mut().rotate_queues(host, rotation);
        }
    }

    /// Returns how long a URL waits for its next try.
    pub(super) fn retry_wait(&self, host: HostId, queued: &Queued) -> Duration {
        let mut frontier = self.frontier_mut();
        let pace = frontier.host_data(host);
        self.manners.borrow().retry_wait(queued, pace, &self.kit.world)
    }
}

//! What every request of a visit has in common, whatever it asked for: its turns are given back, it
//! is counted and logged, and it decides when the host may be asked again.
//!
//! The rules are those of [`crate::shard::manners`]; here they meet the pace of the host, which the
//! frontier keeps.

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
    /// Books a request: its turns are over, its times and outcome are counted and logged.
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

    /// Gives turns back; `used_at` is when the server had seen the request, `None` if none was
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

    /// Books what a request says of its origin.
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

    /// Books that an origin could not be reached, without a request to it.
    pub(super) fn origin_unreached(&self, host: HostId, url: &Url, cause: Outcome, at: Time) {
        let rotation = {
            let mut frontier = self.frontier_mut();
            let asked = Asked { host, url, pace: frontier.host_data(host) };
            let (mut manners, world) = (self.manners.borrow_mut(), &self.kit.world);
            manners.fail(asked, cause, at, (Sign::Unreached, true), world, &mut self.out())
        };
        self.rotate_queues(host, rotation);
    }

    /// URLs that fail often lie side by side: the next one to be asked for is another.
    pub(super) fn rotate_queues(&self, host: HostId, rotation: Option<u64>) {
        if let Some(rotation) = rotation {
            self.frontier_mut().rotate_queues(host, rotation);
        }
    }

    /// How long a URL waits for its next try.
    pub(super) fn retry_wait(&self, host: HostId, queued: &Queued) -> Duration {
        let mut frontier = self.frontier_mut();
        let pace = frontier.host_data(host);
        self.manners.borrow().retry_wait(queued, pace, &self.kit.world)
    }
}

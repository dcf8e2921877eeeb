//! A robots.txt: asked for in its host's turn, read, and taken in (RFC 9309).
//!
//! It is asked for like a page: in its host's turn, at its address's turn. The URL that needs the
//! rules waits meanwhile, and pays for failures with its tries. While the rules are unknown or
//! unreachable nothing else of the origin is asked for.

use super::page::by_status;
use crate::base::Time;
use crate::base::limits;
use crate::crawl::fetch::{Answer, Sink};
use crate::crawl::flow::Outcome;
use crate::crawl::frontier::{HostId, Queued};
use crate::crawl::metrics::Count;
use crate::crawl::resolve::RobotsVersion;
use crate::io::World;
use crate::proto::http::{DecodeError, Decoder, DecoderPool, ResponseHead, Validators};
use crate::proto::url::Url;
use crate::shard::Shard;
use crate::shard::manners::{Asked, Errand, HeldTurns, Reading, RobotsEnd, Settled};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

impl<W: World> Shard<W> {
    /// Asks for the robots.txt of `queued`'s origin.
    pub(super) async fn visit_robots(
        self: &Rc<Self>,
        host: HostId,
        queued: Queued,
        address: IpAddr,
        held: HeldTurns,
    ) {
        let origin: Box<str> = queued.url.origin().into();
        let target = self.manners.borrow_mut().robots_target(&queued.url);
        let Some((target, hops)) = target else {
            // The longest of URLs leave no room for the path.
            self.give_back(host, held, None);
            return self.conclude_unasked(host, queued, Outcome::Malformed).await;
        };
        if queued.tries_made() > 0 {
            self.net.client.close_kept(&target);
        }
        let known = self.manners.borrow_mut().ask_robots(&origin, hops);
        let (mut answer, body) = self.fetch_robots(&target, address, known.as_ref()).await;
        let outcome = by_status(&answer);
        self.finish_request(host, &target, &answer, answer.outcome, held).await;
        let next = self.next_request(host, &target, &answer, outcome);
        self.frontier_mut().postpone(host, next);
        if answer.says_nothing() {
            return self.ask_robots_again(host, queued, (target, hops), answer, next);
        }
        let errand = Errand { origin: origin.clone(), asker: self.kit.index, hops };
        let mut manners = self.manners.borrow_mut();
        let reading = manners.read_robots(&target, &answer, &body, &errand, true);
        drop(manners);
        match reading {
            Reading::Answer(found) => {
                let is_first = hops == 0;
                let settled = Settled {
                    answer: &found,
                    version: if is_first { version_of(&answer) } else { RobotsVersion::default() },
                    cause: if answer.head.is_some() { Outcome::RobotsUnreachable } else { outcome },
                    seen_by: answer.seen_by,
                    next,
                };
                self.settle_robots(host, queued, &settled);
            }
            Reading::Moved => {
                self.manners.borrow_mut().ask_robots_later(&origin);
                self.frontier_mut().requeue(host, queued, next);
                self.release(host, next);
            }
            Reading::Elsewhere(target, errand) => {
                // Parked first: an errand at this very shard may be answered at once.
                self.park(&origin, host, queued);
                self.send_errand(target, errand);
            }
        }
        self.net.client.let_go(&mut answer);
    }

    /// The robots.txt of a host has answered, or failed to: its page goes back to the queue.
    pub(super) fn settle_robots(&self, host: HostId, queued: Queued, settled: &Settled<'_>) {
        let end = {
            let mut frontier = self.frontier_mut();
            let asked = Asked { host, url: &queued.url, pace: frontier.host_data(host) };
            let (mut manners, world) = (self.manners.borrow_mut(), &self.kit.world);
            manners.settle_robots(asked, settled, world, &mut self.out())
        };
        match end {
            RobotsEnd::Failed => self.robots_failed(host, queued, settled.cause, settled.next),
            RobotsEnd::Known(next) => {
                self.route_sitemaps(&queued.url);
                self.frontier_mut().requeue(host, queued, Time::ZERO);
                self.release(host, next);
            }
        }
    }

    /// The connection was a dead one that had been kept, or we had none to give: the origin is not
    /// to blame, and the same is asked for again over a new connection.
    fn ask_robots_again(
        &self,
        host: HostId,
        mut queued: Queued,
        (target, hops): (Url, u8),
        answer: Answer,
        next: Time,
    ) {
        let origin = queued.url.origin();
        self.manners.borrow_mut().ask_robots_later(origin);
        if hops > 0 {
            // Where another one has taken the place of this redirect, the origin is asked from the
            // beginning, and that is counted.
            let _ = self.manners.borrow_mut().move_robots(origin, target, hops);
        }
        if answer.was_sent {
            let wait =
                if answer.was_stale { Duration::ZERO } else { self.retry_wait(host, &queued) };
            queued.tries += 1;
            self.retry(host, queued, next.max(answer.ended + wait));
        } else {
            self.retry_unsent(host, queued, next.max(answer.ended));
        }
        self.net.client.recycle(answer.response);
        self.release(host, next);
    }

    fn robots_failed(&self, host: HostId, mut queued: Queued, cause: Outcome, next: Time) {
        let (retry_at, rotation) = {
            let mut frontier = self.frontier_mut();
            let asked = Asked { host, url: &queued.url, pace: frontier.host_data(host) };
            let (mut manners, world) = (self.manners.borrow_mut(), &self.kit.world);
            manners.robots_failed(asked, &queued, (cause, next), world, &mut self.out())
        };
        self.rotate_queues(host, rotation);
        self.frontier_mut().postpone(host, next);
        // Beyond its last try it comes up once more, and ends there.
        queued.tries += 1;
        if queued.tries_made() <= self.kit.plan.settings.retry_count_max {
            self.kit.probe.add(Count::Retries, 1);
            return self.wait_out(host, queued, retry_at);
        }
        self.frontier_mut().requeue(host, queued, next);
        self.release(host, next);
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
        let answer = self.net.client.fetch_if_changed(url, address, known, &mut sink).await;
        self.kit.probe.add(Count::RobotsFetched, 1);
        self.store_plainly(url, &answer).await;
        (answer, sink.finish())
    }
}

fn version_of(answer: &Answer) -> RobotsVersion {
    let field = |name| {
        let value = answer.head.as_ref()?.header(name)?;
        Some(value.into())
    };
    RobotsVersion { etag: field("etag"), last_modified: field("last-modified") }
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

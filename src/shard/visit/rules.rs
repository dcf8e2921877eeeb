//! The robots.txt of an origin: it is fetched and stored, and its rules are applied or its failure
//! is recorded.

use crate::base::Time;
use crate::base::limits;
use crate::crawl::fetch::{Answer, Sink};
use crate::crawl::flow::{Outcome, Queued};
use crate::crawl::frontier::HostId;
use crate::crawl::metrics::Count;
use crate::crawl::resolve::RobotsVersion;
use crate::io::World;
use crate::proto::http::{DecodeError, Decoder, DecoderPool, ResponseHead, Validators};
use crate::proto::url::Url;
use crate::shard::Shard;
use crate::shard::manners::{Asked, RobotsEnd, Settled};
use std::net::IpAddr;
use std::rc::Rc;

impl<W: World> Shard<W> {
    /// Applies the answer to a request for a robots.txt, or records its failure. The page that
    /// waited for it goes back to the queue.
    pub(in crate::shard) fn settle_robots(
        &self,
        host: HostId,
        queued: Queued,
        settled: &Settled<'_>,
    ) {
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

    pub(in crate::shard) fn robots_failed(
        &self,
        host: HostId,
        mut queued: Queued,
        cause: Outcome,
        next: Time,
    ) {
        let (retry_at, rotation) = {
            let mut frontier = self.frontier_mut();
            let asked = Asked { host, url: &queued.url, pace: frontier.host_data(host) };
            let (mut manners, world) = (self.manners.borrow_mut(), &self.kit.world);
            manners.robots_failed(asked, &queued, (cause, next), world, &mut self.out())
        };
        self.rotate_queues(host, rotation);
        self.frontier_mut().postpone(host, next);
        // After its last try the URL is visited once more, and ends there.
        queued.tries += 1;
        if queued.tries_made() <= self.kit.plan.settings.retry_count_max {
            self.kit.probe.add(Count::Retries, 1);
            return self.wait_out(host, queued, retry_at);
        }
        self.frontier_mut().requeue(host, queued, next);
        self.release(host, next);
    }

    /// Fetches a robots.txt and stores it.
    pub(in crate::shard) async fn fetch_robots(
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

/// The sink of a robots.txt: keeps the part of the body that will be read, with the content coding
/// removed.
#[derive(Default)]
struct RobotsSink {
    decoder: Option<Decoder>,
    failed: Option<DecodeError>,
    body: Vec<u8>,
}

impl RobotsSink {
    fn finish(self) -> Vec<u8> {
        // If the coding broke, the part decoded before that is still the best that is known.
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

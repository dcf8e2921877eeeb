//! A visit for a robots.txt: it is requested, read and applied (RFC 9309).
//!
//! It is requested like a page: in its host's turn, at its address's turn. The URL that needs the
//! rules waits meanwhile, and a failure costs it a try. While the rules are unknown or unreachable,
//! nothing else of the origin is requested.

use super::verdict::by_status;
use crate::base::Time;
use crate::crawl::fetch::Answer;
use crate::crawl::flow::Outcome;
use crate::crawl::frontier::{HostId, Queued};
use crate::crawl::resolve::RobotsVersion;
use crate::io::World;
use crate::proto::url::Url;
use crate::shard::Shard;
use crate::shard::manners::{Errand, HeldTurns, Reading, Settled};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

impl<W: World> Shard<W> {
    /// Requests the robots.txt of `queued`'s origin.
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
            // A URL of nearly the maximum length leaves no room for the path of the robots.txt.
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
                // The host is parked first: an errand at this same shard may be answered at once.
                self.park(&origin, host, queued);
                self.send_errand(target, errand);
            }
        }
        self.net.client.let_go(&mut answer);
    }

    /// Requests the same robots.txt again over a new connection. Either the kept connection was
    /// dead, or we had no connection to give, so the origin is not to blame.
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
            // If another redirect has replaced this one, the origin is asked from the beginning,
            // and this is counted.
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
}

fn version_of(answer: &Answer) -> RobotsVersion {
    let field = |name| {
        let value = answer.head.as_ref()?.header(name)?;
        Some(value.into())
    };
    RobotsVersion { etag: field("etag"), last_modified: field("last-modified") }
}

//! A host's own robots.txt: asked for in its turn, read, and taken in (RFC 9309).
//!
//! The URL that needs the rules waits meanwhile, and pays for failures with its tries. While the
//! rules are unknown or unreachable nothing else of the origin is asked for.

use super::Shard;
use super::errand::{Errand, Reading};
use super::health::Sign;
use super::pace::Clamped;
use super::page::by_status;
use super::turns::Hands;
use crate::base::Time;
use crate::crawl::fetch::Answer;
use crate::crawl::flow::{Outcome, RobotsAnswer};
use crate::crawl::frontier::{HostId, Queued};
use crate::crawl::metrics::Count;
use crate::crawl::resolve::{RobotsTurn, RobotsVersion};
use crate::io::World;
use crate::proto::url::Url;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

/// What is known of a robots.txt when its host's turn is over.
pub(super) struct Settled<'a> {
    pub answer: &'a RobotsAnswer,
    pub version: RobotsVersion,
    /// Why it is unreachable, if it is.
    pub cause: Outcome,
    /// When the server had seen the request, and when the host may be asked again.
    pub seen_by: Time,
    pub next: Time,
}

impl<W: World> Shard<W> {
    /// Asks for the robots.txt of `queued`'s origin.
    pub(super) async fn visit_robots(
        self: &Rc<Self>,
        host: HostId,
        queued: Queued,
        address: IpAddr,
        hands: Hands,
    ) {
        self.refund_budget();
        let origin: Box<str> = queued.url.origin().into();
        let Some((target, hops)) = self.robots_target(&queued.url) else {
            // The longest of URLs leave no room for the path.
            self.let_go(host, hands);
            return self.conclude_unasked(host, queued, Outcome::Malformed).await;
        };
        if queued.tries_made() > 0 {
            self.client.close_kept(&target);
        }
        let known = if hops == 0 { self.robots.borrow().version(&origin).cloned() } else { None };
        self.robots.borrow_mut().ask(&origin);
        let (mut answer, body) = self.fetch_robots(&target, address, known.as_ref()).await;
        let outcome = by_status(&answer);
        self.finish_request(host, &target, &answer, answer.outcome, hands).await;
        let next = self.pace(host, &target, &answer, outcome);
        self.frontier.borrow_mut().postpone(host, next);
        if answer.says_nothing() {
            return self.ask_robots_again(host, queued, (target, hops), answer, next);
        }
        let errand = Errand { origin: origin.clone(), asker: self.kit.index, hops };
        let settled = |found| Settled {
            answer: found,
            version: if hops == 0 { version_of(&answer) } else { RobotsVersion::default() },
            cause: if answer.head.is_some() { Outcome::RobotsUnreachable } else { outcome },
            seen_by: answer.seen_by,
            next,
        };
        // Parked first: an errand on this very shard may be answered before `read_robots` returns.
        self.park(&origin, host, queued);
        let reading = self.read_robots(&target, &answer, &body, &errand, true);
        if !matches!(reading, Reading::Sent)
            && let Some(queued) = self.unpark(&origin)
        {
            match reading {
                Reading::Answer(found) => self.settle_robots(host, queued, settled(&found)),
                _ => {
                    self.robots.borrow_mut().give_up(&origin);
                    self.frontier.borrow_mut().requeue(host, queued, next);
                    self.release(host, next);
                }
            }
        }
        self.client.let_go(&mut answer);
    }

    /// The robots.txt of a host has answered, or failed to: its page goes back to the queue.
    pub(super) fn settle_robots(&self, host: HostId, queued: Queued, settled: Settled<'_>) {
        let Settled { answer, version, cause, seen_by, next } = settled;
        let now = self.kit.world.now();
        let origin = queued.url.origin();
        let is_overdue = self.robots.borrow().is_overdue(origin, now);
        if *answer == RobotsAnswer::Unreachable && !is_overdue {
            return self.robots_failed(host, queued, cause, next);
        }
        let turn = self.robots.borrow_mut().answer(origin, answer, version, now, next);
        self.note_robots(&queued.url);
        match turn {
            RobotsTurn::Known => {
                self.recover(host, &queued.url);
                if *answer == RobotsAnswer::Unchanged {
                    self.kit.probe.add(Count::RobotsUnchanged, 1);
                }
            }
            RobotsTurn::Relaxed => self.kit.probe.add(Count::RobotsRelaxed, 1),
            RobotsTurn::Shut => return self.robots_failed(host, queued, cause, next),
        }
        self.tell_if_clamped(&queued.url);
        self.route_sitemaps(&queued.url);
        let next = next.max(seen_by + self.delay(host, &queued.url));
        self.frontier.borrow_mut().requeue(host, queued, Time::ZERO);
        self.release(host, next);
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
        self.robots.borrow_mut().give_up(origin);
        // There is room: its place was taken out for this request.
        if hops > 0 && !self.errands.borrow_mut().move_to(origin, target, hops) {
            self.kit.probe.add(Count::ErrandsRefused, 1);
        }
        if answer.was_sent {
            let wait =
                if answer.was_stale { Duration::ZERO } else { self.retry_wait(host, &queued) };
            queued.tries += 1;
            self.retry(host, queued, next.max(answer.ended + wait));
        } else {
            self.retry_unsent(host, queued, next.max(answer.ended));
        }
        self.client.recycle(answer.response);
        self.release(host, next);
    }

    fn robots_failed(&self, host: HostId, mut queued: Queued, cause: Outcome, next: Time) {
        let now = self.kit.world.now();
        self.ail(host, &queued.url, cause, now, (Sign::Unreached, true));
        let retry_at = next.max(now + self.retry_wait(host, &queued));
        let unreachable = RobotsAnswer::Unreachable;
        let version = RobotsVersion::default();
        let origin = queued.url.origin();
        self.robots.borrow_mut().answer(origin, &unreachable, version, now, retry_at);
        self.note_robots(&queued.url);
        self.frontier.borrow_mut().postpone(host, next);
        // Beyond its last try it comes up once more, and ends there.
        queued.tries += 1;
        if queued.tries_made() <= self.kit.plan.settings.retry_count_max {
            self.kit.probe.add(Count::Retries, 1);
            return self.wait_out(host, queued, retry_at);
        }
        self.frontier.borrow_mut().requeue(host, queued, next);
        self.release(host, next);
    }

    fn tell_if_clamped(&self, url: &Url) {
        let asked_ms = self.robots.borrow().crawl_delay_ms(url.origin());
        let clamped = asked_ms
            .filter(|asked_ms| *asked_ms > self.kit.plan.settings.crawl_delay_ms_max)
            .map(|asked_ms| Clamped { asked_ms });
        self.tell_clamped("Crawl-delay", url, clamped);
    }
}

fn version_of(answer: &Answer) -> RobotsVersion {
    let field = |name| {
        let value = answer.head.as_ref()?.header(name)?;
        Some(value.into())
    };
    RobotsVersion { etag: field("etag"), last_modified: field("last-modified") }
}

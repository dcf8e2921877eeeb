//! Errands: a robots.txt redirected to a host of this shard is fetched for the origin that asked,
//! and the answer is sent back. Here they are queued, run and answered; their rules are in
//! [`crate::shard::manners`].

use crate::crawl::fetch::Answer;
use crate::crawl::flow::{Class, Message, Outcome, RobotsAnswer, Via};
use crate::crawl::frontier::{HostId, Queued};
use crate::crawl::journal::Entry;
use crate::crawl::metrics::Count;
use crate::crawl::resolve::RobotsVersion;
use crate::io::World;
use crate::proto::url::Url;
use crate::shard::Shard;
use crate::shard::manners::{AddedErrand, Errand, HeldTurns, Reading, Settled};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use super::verdict::by_status;

impl<W: World> Shard<W> {
    /// Queues an errand at the host of `target`, which belongs to this shard.
    pub(in crate::shard) fn take_errand(&self, target: Url, errand: Errand) {
        let is_new =
            self.frontier().host_by_key(target.host_key(&self.kit.plan.hash_key)).is_none();
        let host = self.frontier_mut().host_for(&target);
        let Ok(host) = host else {
            return self.answer_errand(&errand, RobotsAnswer::Unreachable);
        };
        if is_new {
            let origin = target.origin().to_owned();
            self.archive.entry(|out| Entry::Met { origin }.push(out));
        }
        let is_parked = self.frontier_mut().host_data(host).is_parked;
        let added = self.manners.borrow_mut().add_errand(&target, errand.clone(), is_parked);
        match added {
            AddedErrand::First => {}
            AddedErrand::Another => return,
            AddedErrand::Refused => {
                return self.answer_errand(&errand, RobotsAnswer::Unreachable);
            }
        }
        let queued = Queued {
            url: target.clone(),
            depth: 0,
            class: Class::Urgent,
            via: Via::Robots,
            tries: 0,
            trail: Box::default(),
        };
        if !self.frontier_mut().requeue(host, queued, self.kit.world.now()) {
            return self.fail_errand(&target);
        }
        self.kit.wake.poke();
    }

    /// Runs the errands that wait for `queued`, a robots.txt that some origin was redirected to.
    pub(super) async fn visit_errand(
        self: &Rc<Self>,
        host: HostId,
        queued: Queued,
        address: IpAddr,
        held: HeldTurns,
    ) {
        let url = &queued.url;
        if queued.tries_made() > 0 {
            self.net.client.close_kept(url);
        }
        let (mut answer, body) = self.fetch_robots(url, address, None).await;
        let outcome = by_status(&answer);
        self.finish_request(host, url, &answer, answer.outcome, held).await;
        let is_last = queued.tries_made() >= self.kit.plan.settings.retry_count_max;
        if answer.says_nothing() && !is_last {
            return self.ask_errand_again(host, queued, answer);
        }
        let errands = self.manners.borrow_mut().take_errands(url);
        for errand in errands {
            let mut manners = self.manners.borrow_mut();
            let reading = manners.read_robots(url, &answer, &body, &errand, false);
            drop(manners);
            match reading {
                Reading::Answer(found) => self.answer_errand(&errand, found),
                Reading::Elsewhere(target, errand) => self.send_errand(target, errand),
                Reading::Moved => unreachable!("only an origin's own host moves its robots.txt"),
            }
        }
        let next = self.next_request(host, url, &answer, outcome);
        self.book(host, url, 0, &answer, outcome);
        self.net.client.let_go(&mut answer);
        self.release(host, next);
    }

    /// Requests the robots.txt of an errand again, because the answer says nothing about the
    /// server. The hosts that wait for it wait a little longer.
    fn ask_errand_again(&self, host: HostId, mut queued: Queued, answer: Answer) {
        let next = self.next_request(host, &queued.url, &answer, answer.outcome);
        let wait = if answer.was_stale { Duration::ZERO } else { self.retry_wait(host, &queued) };
        // The try is counted whether the request was sent or not, because a host is parked
        // meanwhile.
        queued.tries += 1;
        self.kit.probe.add(Count::Retries, 1);
        self.frontier_mut().retry_at(host, queued, next.max(answer.ended + wait));
        self.net.client.recycle(answer.response);
        self.release(host, next);
    }

    /// Ends the errands for `url` without a request: its host has no address, or is given up.
    pub(in crate::shard) fn fail_errand(&self, url: &Url) {
        let errands = self.manners.borrow_mut().take_errands(url);
        for errand in errands {
            self.answer_errand(&errand, RobotsAnswer::Unreachable);
        }
    }

    fn answer_errand(&self, errand: &Errand, answer: RobotsAnswer) {
        if errand.asker == self.kit.index {
            self.errand_answered(&errand.origin, &answer);
        } else {
            let message = Message::RobotsAnswered { origin: errand.origin.clone(), answer };
            self.mesh.borrow_mut().post(errand.asker, message);
        }
    }

    /// Takes the answer to an errand of ours: the host that waits for it may go on.
    pub(in crate::shard) fn errand_answered(&self, origin: &str, answer: &RobotsAnswer) {
        let parked = self.parked.borrow_mut().remove(origin);
        let Some((host, queued)) = parked else { return };
        self.frontier_mut().host_data(host).is_parked = false;
        let now = self.kit.world.now();
        let settled = Settled {
            answer,
            version: RobotsVersion::default(),
            cause: Outcome::RobotsUnreachable,
            seen_by: now,
            next: now,
        };
        self.settle_robots(host, queued, &settled);
        self.kit.wake.poke();
    }

    /// Keeps the host busy until the errand for its origin is answered.
    pub(super) fn park(&self, origin: &str, host: HostId, queued: Queued) {
        self.frontier_mut().host_data(host).is_parked = true;
        let before = self.parked.borrow_mut().insert(origin.into(), (host, queued));
        assert!(before.is_none(), "a parked host waits for one errand of an origin");
    }

    pub(super) fn send_errand(&self, target: Url, errand: Errand) {
        let plan = &self.kit.plan;
        let owner = plan.placement.of_host(target.host_key(&plan.hash_key));
        if owner == self.kit.index {
            return self.take_errand(target, errand);
        }
        let Errand { origin, asker, hops } = errand;
        let message = Message::RobotsWanted { target, origin, asker, hops };
        self.mesh.borrow_mut().post(owner, message);
    }
}

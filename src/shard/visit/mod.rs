//! One visit: a host's turn, from its next URL to the time of its next turn.
//!
//! In: a host that is ready, the turn it was granted if it waited in line for one, and one page of
//! the page limit. Out: at most one request, and what follows from its answer. A visit ends in one
//! of two ways: the host goes back to the frontier with its next-eligible time, or it stays busy,
//! parked until its turn at the address or the answer about its robots.txt has come. The steps are
//! methods of the shard, one file each. Touched by one core.

mod conclusion;
mod errand;
mod head_links;
mod page;
mod put_back;
mod request;
mod robots;
mod rules;
mod sitemaps;
mod store;
mod verdict;

use super::Shard;
use super::manners::{Clearance, Fitness, Turn};
use super::slots::PageBudget;
use crate::base::Time;
use crate::crawl::flow::{Outcome, ResolveError, TurnPlace, Via};
use crate::crawl::frontier::{HostId, Queued};
use crate::crawl::metrics::{Count, Span};
use crate::io::World;
use std::net::IpAddr;
use std::rc::Rc;

/// What a visit does with its URL.
enum Prospect {
    /// Request the URL from this address.
    Ask(IpAddr),
    /// The robots rules of the URL's origin are not known: request its robots.txt first, from this
    /// address.
    AskRobots(IpAddr),
    /// Do not request the URL before this time.
    Wait(Time),
    /// Request the URL after the other URLs of its host: it has failed before, and its origin is
    /// failing.
    Last,
    /// The URL ends here with this outcome, without a request.
    End(Outcome),
}

impl<W: World> Shard<W> {
    /// Runs one visit to `host`. `granted` is the turn that the host has just been given, if it
    /// waited in line for one.
    pub(in crate::shard) async fn visit(
        self: &Rc<Self>,
        host: HostId,
        granted: Option<TurnPlace>,
        page: PageBudget,
    ) {
        let next = self.next_url(host).await;
        let hold = |name: &str| {
            let mut frontier = self.frontier_mut();
            self.manners.borrow().held(name, granted, frontier.host_data(host))
        };
        let Some(queued) = next else {
            // The host's URLs were evicted while it waited, or cannot be read.
            let name = self.frontier().host_name(host).to_owned();
            self.give_back(host, hold(&name), None);
            self.slots.refund(page);
            return self.release(host, Time::ZERO);
        };
        let held = hold(queued.url.host());
        if queued.via == Via::Robots && !self.manners.borrow().has_errands(&queued.url) {
            self.give_back(host, held, None);
            self.slots.refund(page);
            let fingerprint = queued.url.fingerprint(&self.kit.plan.hash_key);
            self.frontier_mut().complete(host, fingerprint);
            return self.release(host, Time::ZERO);
        }
        let prospect = self.prospect(host, &queued).await;
        let address = match prospect {
            Prospect::Ask(address) | Prospect::AskRobots(address) => address,
            Prospect::Wait(until) => {
                self.give_back(host, held, None);
                self.slots.refund(page);
                return self.wait_out(host, queued, until);
            }
            Prospect::Last => {
                self.give_back(host, held, None);
                self.slots.refund(page);
                self.frontier_mut().requeue_last(host, queued);
                return self.release(host, Time::ZERO);
            }
            Prospect::End(outcome) => {
                self.give_back(host, held, None);
                self.slots.refund(page);
                return self.conclude_unasked(host, queued, outcome).await;
            }
        };
        let turn = {
            let mut frontier = self.frontier_mut();
            let (pace, now) = (frontier.host_data(host), self.kit.world.now());
            self.manners.borrow_mut().take_turns(held, pace, address, now, &mut self.out())
        };
        let Turn::Held(held) = turn else {
            self.kit.probe.add(Count::TurnsAwaited, 1);
            self.called.in_line_count.set(self.called.in_line_count.get() + 1);
            self.slots.refund(page);
            self.frontier_mut().requeue(host, queued, Time::ZERO);
            return;
        };
        match prospect {
            Prospect::AskRobots(_) => {
                self.slots.refund(page);
                self.visit_robots(host, queued, address, held).await;
            }
            _ if queued.via == Via::Robots => {
                self.slots.refund(page);
                self.visit_errand(host, queued, address, held).await;
            }
            _ => self.visit_page(host, queued, address, held, page).await,
        }
    }

    async fn prospect(&self, host: HostId, queued: &Queued) -> Prospect {
        let fitness = {
            let queued_count = || self.frontier().host_queued_count(host);
            let now = self.kit.world.now();
            self.manners.borrow_mut().fitness(host, queued, queued_count, now)
        };
        match fitness {
            Fitness::Fit => {}
            Fitness::Wait(until) => return Prospect::Wait(until),
            Fitness::Last => return Prospect::Last,
            Fitness::End(outcome) => return Prospect::End(outcome),
        }
        let address = match self.address_of(host, queued).await {
            Ok(address) => address,
            Err(outcome) => return Prospect::End(outcome),
        };
        if queued.via == Via::Robots {
            return Prospect::Ask(address);
        }
        let fetched_count = || self.frontier().host_fetched_count(host);
        let now = self.kit.world.now();
        let clearance = self.manners.borrow_mut().clearance(&queued.url, fetched_count, now);
        match clearance {
            Clearance::Ask => Prospect::Ask(address),
            Clearance::AskRobots => Prospect::AskRobots(address),
            Clearance::Wait(until) => Prospect::Wait(until),
            Clearance::End(outcome) => Prospect::End(outcome),
        }
    }

    async fn address_of(&self, host: HostId, queued: &Queued) -> Result<IpAddr, Outcome> {
        let begun = self.kit.world.now();
        let name = queued.url.host();
        let mut found = self.net.resolver.lookup(name).await;
        if self.manners.borrow().wants_other_family(host, &queued.url)
            && let Ok(other) = self.net.resolver.other_family(name).await
        {
            found = Ok(other);
        }
        self.kit.probe.record(Span::Dns, self.kit.world.now().since(begun));
        let address = found.map_err(|error| match error {
            ResolveError::NoName => Outcome::NoName,
            ResolveError::Failed => Outcome::DnsFailed,
            ResolveError::AddressRefused => Outcome::AddressRefused,
        })?;
        // Each further try goes to the next address, if the name has several.
        let ips = &address.ips;
        ips.get(queued.tries as usize % ips.len().max(1)).copied().ok_or(Outcome::NoName)
    }
}

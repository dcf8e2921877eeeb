//! Seeds on their way into the frontier, a few at a time.
//!
//! In: any number of lists of seeds from the control thread. Out: offers to the frontier. Seeds
//! have a task of their own, because they wait for a journal that is behind, on a failing disk for
//! as long as it fails, and the task that takes the mail must be able to hear `Halt` meanwhile.
//! Touched by one core.

use super::Shard;
use crate::base::Time;
use crate::base::limits::SEED_STEP_COUNT;
use crate::base::notify::Notify;
use crate::crawl::flow::Candidate;
use crate::io::World;
use crate::proto::url::HostKey;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// The seeds that wait to be offered.
#[derive(Default)]
pub(super) struct Sowing {
    /// The lists still to be offered. Bounded by what the control thread sends: one list at each
    /// start.
    lists: RefCell<VecDeque<Vec<Candidate>>>,
    wake: Notify,
    is_active: Cell<bool>,
}

impl Sowing {
    /// Reports whether no seed waits to be offered.
    pub(super) fn is_done(&self) -> bool {
        !self.is_active.get() && self.lists.borrow().is_empty()
    }
}

impl<W: World> Shard<W> {
    pub(super) fn take_seeds(&self, candidates: Vec<Candidate>) {
        self.sowing.lists.borrow_mut().push_back(candidates);
        self.sowing.wake.poke();
    }

    pub(super) async fn keep_sowing(self: Rc<Self>) {
        while !self.kit.life.is_ended() {
            let next = self.sowing.lists.borrow_mut().pop_front();
            let Some(candidates) = next else {
                self.sowing.wake.wait().await;
                continue;
            };
            self.sowing.is_active.set(true);
            self.sow(candidates).await;
            self.sowing.is_active.set(false);
            self.kit.wake.poke();
        }
    }

    /// Offers seeds a few at a time, because a list of millions must neither stop the core nor
    /// outrun the journal.
    async fn sow(&self, candidates: Vec<Candidate>) {
        let mut candidates = candidates.into_iter().peekable();
        while candidates.peek().is_some() {
            // Each step spreads its hosts from its own time; from the first step's time, the hosts
            // of late steps would all be due at once.
            let now = self.kit.world.now();
            for candidate in candidates.by_ref().take(SEED_STEP_COUNT) {
                let host = candidate.url.host_key(&self.kit.plan.hash_key);
                self.route(candidate);
                self.spread_start(host, now);
            }
            self.kit.wake.poke();
            self.kit.world.yield_now().await;
            self.archive.catch_up().await;
        }
    }

    /// Gives a seed's host its first turn at a time within `start_spread_ms` that depends on its
    /// name.
    fn spread_start(&self, host: HostKey, now: Time) {
        let spread_ms = self.kit.plan.settings.start_spread_ms;
        if spread_ms == 0 {
            return;
        }
        let mut frontier = self.frontier_mut();
        if let Some(id) = frontier.host_by_key(host) {
            // The top bits are not used, because they say which core a host is on.
            let share = f64::from(host.0 as u32) / f64::from(u32::MAX);
            let wait = Duration::from_millis(spread_ms).mul_f64(share);
            frontier.postpone(id, now + wait);
        }
    }
}

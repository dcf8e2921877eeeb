//! The shard's loop: starts visits as their hosts' times come, and sends what waits for other
//! shards.
//!
//! In: hosts that are ready, turns that have been granted, and pokes from any task that changed
//! something. Out: visits. Touched by one core.

use super::{Notice, Shard};
use crate::base::Time;
use crate::base::limits;
use crate::base::race::race;
use crate::crawl::flow::TurnPlace;
use crate::crawl::frontier::HostId;
use crate::crawl::metrics::{Count, Span, Stage};
use crate::io::World;
use crate::proto::url::HostKey;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

/// The hosts whose turn at an address or a domain has come, and the number of those that wait for
/// one.
#[derive(Default)]
pub(super) struct Called {
    /// Hosts whose turn has come.
    pub hosts: RefCell<VecDeque<(HostId, TurnPlace)>>,
    /// The number of hosts that have asked for a turn and wait for it, or were called and are not
    /// yet visited.
    pub in_line_count: Cell<u64>,
}

impl<W: World> Shard<W> {
    /// Starts visits as hosts' times come, until the shard is told to stop. Returns true if all
    /// work was done.
    pub(super) async fn schedule(self: &Rc<Self>) -> bool {
        let mut drained = false;
        loop {
            let now = self.kit.world.now();
            self.begin_turns(now);
            self.frontier_mut().advance(now);
            while self.may_start() {
                let granted = self.called.hosts.borrow_mut().pop_front();
                let next = match granted {
                    Some((host, place)) => Some((host, Some(place))),
                    None => self.frontier_mut().pop_ready().map(|host| (host, None)),
                };
                let Some((host, turn)) = next else { break };
                self.start(host, turn, now);
            }
            let returned = |count| self.kit.notice(Notice::BudgetReturned(count));
            self.slots.return_budget(returned);
            self.prod_seen_lane();
            self.prod_spill_lane();
            let clear = self.mesh.borrow_mut().flush();
            if self.kit.life.is_halted() {
                return drained;
            }
            self.archive.prod_checkpoints();
            let is_idle = self.slots.is_idle() && self.sowing.is_done();
            let is_done = self.kit.life.is_draining() && clear && is_idle;
            let is_untold = is_done && !drained && self.archive.close_files_once();
            if is_untold {
                drained = self.kit.notice(Notice::Drained(self.kit.index));
            }
            let due = self.frontier().next_due();
            let turn_due = self.manners.borrow().next_turn_due();
            let mut until = due.into_iter().chain(turn_due).min();
            if !clear || (is_untold && !drained) {
                self.kit.probe.add(Count::MailboxesFull, u64::from(!clear));
                let soon = now + Duration::from_millis(limits::MESH_RETRY_MS);
                until = Some(until.map_or(soon, |until| until.min(soon)));
            }
            match until {
                Some(until) => {
                    race(self.kit.wake.wait(), self.kit.world.sleep_until(until)).await;
                }
                None => self.kit.wake.wait().await,
            }
        }
    }

    fn may_start(&self) -> bool {
        if !self.kit.life.is_open()
            || self.slots.active_count().get() >= self.kit.plan.settings.fetch_slots
        {
            return false;
        }
        if self.archive.failure().is_some() || !self.net.client.budget().has_room() {
            return false;
        }
        if !self.slots.has_budget() {
            let has_work =
                self.frontier().ready_count() > 0 || !self.called.hosts.borrow().is_empty();
            if has_work {
                let wanted = Notice::BudgetWanted(self.kit.index);
                self.slots.want_budget(|| self.kit.notice(wanted));
            }
            return false;
        }
        let is_disk_behind = self.is_sieve_backed_up() | self.is_tail_backed_up();
        !self.archive.is_backed_up() && !is_disk_behind && !self.mesh.borrow().is_backed_up()
    }

    fn start(self: &Rc<Self>, host: HostId, turn: Option<TurnPlace>, now: Time) {
        if turn.is_none() {
            let mut frontier = self.frontier_mut();
            let planned = std::mem::take(&mut frontier.host_data(host).planned);
            if planned != Time::ZERO {
                self.kit.probe.record(Span::Lateness, now.since(planned));
            }
        } else {
            self.called.in_line_count.set(self.called.in_line_count.get() - 1);
        }
        let (slot, page) = self.slots.begin();
        // The future of a visit takes some kilobytes, so it is placed on the heap once and not
        // moved on its way to the executor.
        let visiting = self.clone();
        let mut visit = Box::pin(async move { visiting.visit(host, turn, page).await });
        let shard = self.clone();
        self.kit.world.spawn(async move {
            poll_fn(|context| shard.kit.spend(Stage::Visit, || visit.as_mut().poll(context))).await;
            shard.slots.end(slot);
            shard.kit.wake.poke();
        });
    }

    /// Calls the hosts whose turns have come.
    fn begin_turns(&self, now: Time) {
        loop {
            let next = self.manners.borrow_mut().next_turn(now, &mut self.out());
            let Some((host, place)) = next else { return };
            self.turn_granted(place, host);
        }
    }

    pub(super) fn turn_granted(&self, place: TurnPlace, host: HostKey) {
        let id = self.frontier().host_by_key(host);
        match id {
            Some(id) => self.called.hosts.borrow_mut().push_back((id, place)),
            None => {
                let mut manners = self.manners.borrow_mut();
                let _ = manners.return_turn(place, host, None, &mut self.out());
            }
        }
        self.kit.wake.poke();
    }

    pub(super) fn is_idle(&self) -> bool {
        self.slots.is_idle()
            && self.sowing.is_done()
            && self.called.hosts.borrow().is_empty()
            && self.frontier().is_drained()
            && self.mesh.borrow().is_clear()
            && self.archive.is_settled()
    }
}

//! What every service and every step of a shard uses: its world, its plan, its counters, and the
//! way to the control thread. Touched by one core.

use super::image::Clocks;
use super::lifecycle::Lifecycle;
use super::meter::Meter;
use super::probe::Probe;
use super::{Notice, Plan};
use crate::base::notify::Notify;
use crate::base::race::race;
use crate::crawl::flow::ShardIndex;
use crate::crawl::metrics::{Count, Stage};
use crate::crawl::store::StoreError;
use crate::io::{Outbox, World};
use std::future::Future;
use std::rc::Rc;

pub(super) struct Kit<W> {
    pub world: W,
    pub index: ShardIndex,
    pub plan: Plan,
    pub probe: Rc<Probe>,
    pub meter: Meter,
    pub life: Lifecycle,
    /// Wakes the shard's loop when something has changed that may let it continue.
    pub wake: Notify,
    control: Box<dyn Outbox<Notice>>,
}

impl<W: World> Kit<W> {
    pub fn new(
        world: W,
        index: ShardIndex,
        plan: Plan,
        control: impl Outbox<Notice>,
    ) -> Rc<Kit<W>> {
        Rc::new(Kit {
            world,
            index,
            plan,
            probe: Rc::new(Probe::new()),
            meter: Meter::default(),
            life: Lifecycle::default(),
            wake: Notify::default(),
            control: Box::new(control),
        })
    }

    /// Does `work` and books its time to `stage`.
    pub fn spend<T>(&self, stage: Stage, work: impl FnOnce() -> T) -> T {
        self.meter.spend(&self.world, stage, work)
    }

    /// Like [`Kit::spend`], for work that waits now and then.
    pub async fn spend_on<T>(&self, stage: Stage, work: impl Future<Output = T>) -> T {
        self.meter.spend_on(&self.world, stage, work).await
    }

    /// Runs a task of the shard beside the others, until it ends or the shard does.
    pub fn beside(self: &Rc<Self>, task: impl Future<Output = ()> + 'static) {
        let kit = self.clone();
        self.world.spawn(async move {
            race(task, kit.life.over()).await;
        });
    }

    /// Sends a notice to the control thread. Returns false if its mailbox was full, which is rare,
    /// because it reads fast. The next report makes up for a lost report, and the next round for a
    /// lost pulse.
    pub fn notice(&self, notice: Notice) -> bool {
        let is_taken = self.control.try_send(notice).is_ok();
        if !is_taken {
            self.probe.add(Count::NoticesLost, 1);
        }
        is_taken
    }

    /// Returns both clocks, as they are now.
    pub fn clocks(&self) -> Clocks {
        Clocks::of(&self.world, self.plan.settings.crawl_delay_ms_max)
    }

    /// Drains the shard because a file can no longer be written, and waiting for the disk would not
    /// help. After the shard has ended, `StoreError::Closed` is no failure, because the shard
    /// closes its files itself then.
    pub fn store_failed(&self, error: StoreError) {
        if self.life.is_ended() && error == StoreError::Closed {
            return;
        }
        self.life.drain();
        self.notice(Notice::StoreFailed { shard: self.index, error });
    }
}

//! Tasks and the virtual clock of a simulation.
//!
//! One thread runs the tasks of all shards. A poll takes no virtual time; when no task is ready the
//! clock jumps to the next timer. The order is total: among ready tasks first the shard (drawn from
//! the seed) and then the time at which they became ready, among timers first the time and then the
//! order in which they were set. So one seed gives one history.
//!
//! No borrow of the executor's state is held while foreign code runs (a poll, or the drop of a
//! future), because that code may spawn tasks, wake tasks and set timers.

use super::SimError;
use super::chance::Chance;
use super::wake::{Bell, ReadyQueue, TaskKey};
use crate::base::Time;
use crate::base::limits::{SIM_INSTANT_STEP_COUNT_MAX, SIM_STEP_COUNT_MAX};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};

/// The lane of the future that `block_on` drives; shard N runs in lane N + 1.
const MAIN_LANE: usize = 0;
const MAIN_INDEX: usize = usize::MAX;

pub(super) struct Executor {
    now: Cell<Time>,
    ready: ReadyQueue,
    tasks: RefCell<Tasks>,
    timers: RefCell<BTreeMap<(Time, u64), Waker>>,
    /// The last serial number given to a task or a timer.
    serial: Cell<u64>,
    lane_chance: Chance,
    step_count: Cell<u64>,
    step_count_max: Cell<u64>,
    instant_step_count: Cell<u64>,
    /// Which task ran when, folded into one number.
    digest: Cell<u64>,
}

/// What one turn did.
pub(super) enum Turn {
    /// A task was polled, or the clock moved.
    Moved,
    /// The main future with this serial must be polled by the caller that drives it.
    Main(u64),
    /// No task is ready and no timer is due by the horizon.
    Idle,
}

impl Executor {
    pub fn new(seed_chance: Chance, ready: ReadyQueue, start: Time) -> Rc<Executor> {
        Rc::new(Executor {
            now: Cell::new(start),
            ready,
            tasks: RefCell::default(),
            timers: RefCell::default(),
            serial: Cell::new(0),
            lane_chance: seed_chance,
            step_count: Cell::new(0),
            step_count_max: Cell::new(SIM_STEP_COUNT_MAX),
            instant_step_count: Cell::new(0),
            digest: Cell::new(0),
        })
    }

    pub fn now(&self) -> Time {
        self.now.get()
    }

    pub fn digest(&self) -> u64 {
        self.digest.get()
    }

    pub fn step_count(&self) -> u64 {
        self.step_count.get()
    }

    pub fn set_step_count_max(&self, count: u64) {
        self.step_count_max.set(count);
    }

    pub fn task_count(&self) -> usize {
        let tasks = self.tasks.borrow();
        tasks.slots.len() - tasks.free.len()
    }

    pub fn spawn(&self, shard: u16, future: Pin<Box<dyn Future<Output = ()>>>) {
        let serial = self.next_serial();
        let mut tasks = self.tasks.borrow_mut();
        let index = tasks.free.pop().unwrap_or(tasks.slots.len());
        let bell = Bell::new(TaskKey { index, serial }, lane_of(shard), &self.ready);
        bell.waker().wake_by_ref();
        let slot = Slot::Waiting(Task { future, bell });
        if index == tasks.slots.len() {
            tasks.slots.push(slot);
        } else {
            tasks.slots[index] = slot;
        }
    }

    /// Drops every task of `shard`, or of all shards. A task that is running ends after its present
    /// poll.
    pub fn kill(&self, shard: Option<u16>) {
        let lane = shard.map(lane_of);
        let dead = self.tasks.borrow_mut().doom(lane);
        drop(dead);
    }

    /// Makes the bell of a new main future, rung already.
    pub fn main_bell(&self) -> Bell {
        let key = TaskKey { index: MAIN_INDEX, serial: self.next_serial() };
        let bell = Bell::new(key, MAIN_LANE, &self.ready);
        bell.waker().wake_by_ref();
        bell
    }

    /// Runs one ready task, or else moves the clock to the next timer up to `horizon`.
    pub fn turn(&self, horizon: Time) -> Result<Turn, SimError> {
        if let Some(key) = self.ready.pop(|count| self.lane_chance.index(count)) {
            self.count_step(key)?;
            if key.index == MAIN_INDEX {
                return Ok(Turn::Main(key.serial));
            }
            self.run(key);
            return Ok(Turn::Moved);
        }
        let due = self.timers.borrow().first_key_value().map(|(key, _)| key.0);
        match due {
            Some(at) if at <= horizon => {
                self.advance(at);
                Ok(Turn::Moved)
            }
            _ => Ok(Turn::Idle),
        }
    }

    /// Moves the clock to `to` and wakes what is due by then, in order. The clock never moves back.
    pub fn advance(&self, to: Time) {
        if to > self.now() {
            self.now.set(to);
            self.instant_step_count.set(0);
        }
        let mut timers = self.timers.borrow_mut();
        while let Some(entry) = timers.first_entry() {
            if entry.key().0 > self.now() {
                break;
            }
            entry.remove().wake();
        }
    }

    fn run(&self, key: TaskKey) {
        // A task that ended or was killed may have been woken before.
        let Some(mut task) = self.tasks.borrow_mut().take(key) else { return };
        task.bell.answer();
        let mut context = Context::from_waker(task.bell.waker());
        if task.future.as_mut().poll(&mut context).is_ready() {
            drop(task);
            self.tasks.borrow_mut().release(key);
        } else {
            let doomed = self.tasks.borrow_mut().put_back(key, task);
            if let Some(doomed) = doomed {
                doomed.bell.silence();
            }
        }
    }

    fn count_step(&self, key: TaskKey) -> Result<(), SimError> {
        self.step_count.set(self.step_count.get() + 1);
        self.instant_step_count.set(self.instant_step_count.get() + 1);
        self.digest
            .set((self.digest.get().rotate_left(5) ^ key.serial).wrapping_mul(DIGEST_FACTOR));
        if self.instant_step_count.get() > SIM_INSTANT_STEP_COUNT_MAX {
            return Err(SimError::Livelock { at: self.now() });
        }
        if self.step_count.get() > self.step_count_max.get() {
            return Err(SimError::StepLimit { at: self.now() });
        }
        Ok(())
    }

    fn next_serial(&self) -> u64 {
        let serial = self.serial.get() + 1;
        self.serial.set(serial);
        serial
    }
}

const DIGEST_FACTOR: u64 = 0x517C_C1B7_2722_0A95;

fn lane_of(shard: u16) -> usize {
    usize::from(shard) + 1
}

/// One timer of one waiting future; it is removed when the future is dropped.
pub(super) struct Alarm {
    executor: Rc<Executor>,
    key: Option<(Time, u64)>,
}

impl Alarm {
    pub fn new(executor: &Rc<Executor>) -> Alarm {
        Alarm { executor: executor.clone(), key: None }
    }

    /// Wakes `waker` at `at`, and cancels an earlier setting. [`Time::NEVER`] sets no timer.
    pub fn set(&mut self, at: Time, waker: &Waker) {
        let mut timers = self.executor.timers.borrow_mut();
        if let Some(key) = self.key {
            if key.0 == at
                && let Some(known) = timers.get_mut(&key)
            {
                known.clone_from(waker);
                return;
            }
            timers.remove(&key);
            self.key = None;
        }
        if at != Time::NEVER {
            let key = (at, self.executor.next_serial());
            timers.insert(key, waker.clone());
            self.key = Some(key);
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.executor.timers.borrow_mut().remove(&key);
        }
    }
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    bell: Bell,
}

enum Slot {
    Free,
    /// The task is being polled, outside of the slots.
    Running {
        lane: usize,
        doomed: bool,
    },
    Waiting(Task),
}

#[derive(Default)]
struct Tasks {
    slots: Vec<Slot>,
    free: Vec<usize>,
}

impl Tasks {
    fn take(&mut self, key: TaskKey) -> Option<Task> {
        let slot = self.slots.get_mut(key.index)?;
        match slot {
            Slot::Waiting(task) if task.bell.key() == key => {
                let lane = task.bell.lane();
                match std::mem::replace(slot, Slot::Running { lane, doomed: false }) {
                    Slot::Waiting(task) => Some(task),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Puts a task back after its poll. Returns it if it was killed while it ran, so that the
    /// caller drops it while no state is borrowed.
    fn put_back(&mut self, key: TaskKey, task: Task) -> Option<Task> {
        match self.slots[key.index] {
            Slot::Running { doomed: false, .. } => {
                self.slots[key.index] = Slot::Waiting(task);
                None
            }
            _ => {
                self.release(key);
                Some(task)
            }
        }
    }

    fn release(&mut self, key: TaskKey) {
        self.slots[key.index] = Slot::Free;
        self.free.push(key.index);
    }

    fn doom(&mut self, lane: Option<usize>) -> Vec<Task> {
        let mut dead = Vec::new();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            match slot {
                Slot::Running { lane: own, doomed } if lane.is_none_or(|lane| lane == *own) => {
                    *doomed = true;
                }
                Slot::Waiting(task) if lane.is_none_or(|lane| lane == task.bell.lane()) => {
                    self.free.push(index);
                    if let Slot::Waiting(task) = std::mem::replace(slot, Slot::Free) {
                        task.bell.silence();
                        dead.push(task);
                    }
                }
                _ => {}
            }
        }
        dead
    }
}

//! The ready queue, and the wakers that feed it.
//!
//! Tasks of one shard run in the order in which they became ready, as on one core. The caller
//! chooses which shard runs next (the executor draws it from the seed), because cores race each
//! other.
//!
//! This is the only place of the simulator with locks: `std::task::Waker` must be `Send + Sync`,
//! although here everything stays on one thread, so that the lock is never contended.

#![allow(clippy::disallowed_types, reason = "a Waker must be Send and Sync")]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// Names one task for ever: a slot's index is used again, a serial is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TaskKey {
    pub index: usize,
    pub serial: u64,
}

#[derive(Clone, Default)]
pub(super) struct ReadyQueue(Arc<Mutex<Lanes>>);

/// Wakes one task. A task is in the ready queue at most once.
pub(super) struct Bell {
    wake: Arc<TaskWake>,
    waker: Waker,
}

impl ReadyQueue {
    /// Makes one queue for the tasks of all shards: each task runs in the order in which it became
    /// ready, and nothing is drawn.
    pub fn single() -> ReadyQueue {
        let lanes = Lanes { is_single: true, ..Lanes::default() };
        ReadyQueue(Arc::new(Mutex::new(lanes)))
    }

    /// Takes the next task; `choose` gets the number of lanes that hold a task and picks one of
    /// them.
    pub fn pop(&self, choose: impl FnOnce(usize) -> usize) -> Option<TaskKey> {
        self.lanes().pop(choose)
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bell {
    pub fn new(key: TaskKey, lane: usize, ready: &ReadyQueue) -> Bell {
        let ready = ready.clone();
        let wake = Arc::new(TaskWake { key, lane, queued: AtomicBool::new(false), ready });
        Bell { waker: Waker::from(wake.clone()), wake }
    }

    pub fn key(&self) -> TaskKey {
        self.wake.key
    }

    pub fn lane(&self) -> usize {
        self.wake.lane
    }

    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Keeps a killed task from being queued by any later wake. What it held is dropped in an order
    /// that may come from a hash table, and these drops wake other killed tasks.
    pub fn silence(&self) {
        self.wake.queued.store(true, Ordering::Release);
    }

    /// Notes that the task has left the queue and is about to be polled: from here on a wake queues
    /// it again.
    pub fn answer(&self) {
        self.wake.queued.store(false, Ordering::Release);
    }
}

/// Tasks that wait for the same thing. All are woken when it may have come, and each checks for
/// itself.
#[derive(Default)]
pub(super) struct Waiters(Vec<Waker>);

impl Waiters {
    pub fn add(&mut self, waker: &Waker) {
        if !self.0.iter().any(|known| known.will_wake(waker)) {
            self.0.push(waker.clone());
        }
    }

    pub fn wake_all(&mut self) {
        for waker in self.0.drain(..) {
            waker.wake();
        }
    }
}

/// One queue for each shard, and the list of the queues that hold a task.
#[derive(Default)]
struct Lanes {
    queues: Vec<VecDeque<TaskKey>>,
    busy: Vec<usize>,
    /// True if all tasks stand in one queue, whatever their shard.
    is_single: bool,
}

impl Lanes {
    fn push(&mut self, lane: usize, key: TaskKey) {
        let lane = if self.is_single { 0 } else { lane };
        if self.queues.len() <= lane {
            self.queues.resize_with(lane + 1, VecDeque::new);
        }
        if self.queues[lane].is_empty() {
            self.busy.push(lane);
        }
        self.queues[lane].push_back(key);
    }

    fn pop(&mut self, choose: impl FnOnce(usize) -> usize) -> Option<TaskKey> {
        if self.busy.is_empty() {
            return None;
        }
        let place = choose(self.busy.len());
        let queue = &mut self.queues[self.busy[place]];
        let key = queue.pop_front();
        if queue.is_empty() {
            self.busy.swap_remove(place);
        }
        key
    }
}

struct TaskWake {
    key: TaskKey,
    lane: usize,
    queued: AtomicBool,
    ready: ReadyQueue,
}

impl Wake for TaskWake {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.ready.lanes().push(self.lane, self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bell(index: usize, lane: usize, ready: &ReadyQueue) -> Bell {
        Bell::new(TaskKey { index, serial: index as u64 }, lane, ready)
    }

    #[test]
    fn a_task_is_queued_once_until_it_is_polled() {
        let ready = ReadyQueue::default();
        let bell = bell(7, 0, &ready);
        bell.waker().wake_by_ref();
        bell.waker().wake_by_ref();
        assert_eq!(ready.pop(|_| 0), Some(bell.key()));
        assert_eq!(ready.pop(|_| 0), None);
        bell.waker().wake_by_ref();
        assert_eq!(ready.pop(|_| 0), None, "still marked as queued");
        bell.answer();
        bell.waker().wake_by_ref();
        assert_eq!(ready.pop(|_| 0), Some(bell.key()));
    }

    #[test]
    fn a_lane_keeps_its_order_and_the_caller_chooses_the_lane() {
        let ready = ReadyQueue::default();
        let bells = [bell(0, 1, &ready), bell(1, 1, &ready), bell(2, 4, &ready)];
        bells.iter().for_each(|bell| bell.waker().wake_by_ref());
        let order: Vec<_> = std::iter::from_fn(|| ready.pop(|count| count - 1))
            .map(|key: TaskKey| key.index)
            .collect();
        assert_eq!(order, [2, 0, 1]);
    }
}

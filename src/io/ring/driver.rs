//! The loop that turns one core's ring.
//!
//! In one turn, one system call submits what tasks queued and lets completions appear. A bounded
//! number of completions, and the due timers, wake tasks; then every ready task runs. If
//! completions are left, the next turn takes them and asks for no others. If none is left and no
//! task was ready, the next turn's call sleeps until a completion, a timer or another core's signal
//! (an eventfd that the ring polls).
//!
//! glommio hosts the tasks and nothing else; none of our I/O goes through it. The driver counts
//! polls to find out whether any task is ready: it yields, and if the count has not changed when it
//! runs again, every other task is waiting for a completion or a timer.
//!
//! glommio can lose a wake-up. When its preempt timer fires after it is armed and before the first
//! task runs (it is enough that the thread loses its core there for as long as the timer),
//! `run_task_queues` runs nothing, reports that, and the executor parks with tasks ready. No task
//! can prevent or end that: a glommio timer that has come due is a ready task itself, and ready
//! tasks do not keep glommio from parking. So the preempt timer is long, which makes the moment
//! rare, and [`super::watch`] wakes the executor from another thread.

use super::timers::Alarm;
use super::watch::{Care, Watched};
use super::{Core, RingError, socket};
use crate::base::Time;
use crate::base::limits;
use crate::io::Effort;
use crate::sys::process;
use crate::sys::uring::{Asked, Event, Key, Operation};
use glommio::{LocalExecutorBuilder, Placement};
use std::cell::Cell;
use std::future::Future;
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

thread_local! {
    /// How often any task but the driver was polled on this core.
    static POLL_COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Runs `task` and counts its polls. All tasks but the driver run through this.
pub(super) async fn counted<T>(task: impl Future<Output = T>) -> T {
    let mut task = pin!(task);
    std::future::poll_fn(|context| {
        POLL_COUNT.set(POLL_COUNT.get() + 1);
        task.as_mut().poll(context)
    })
    .await
}

/// One-shot operations that a task waits for: files, closes, datagram readiness.
#[derive(Default)]
pub(super) struct Waits {
    slots: Vec<WaitSlot>,
    free: Vec<u32>,
}

#[derive(Default)]
struct WaitSlot {
    generation: u32,
    waker: Option<Waker>,
    done: Option<(i32, Operation)>,
    /// The waiting future was dropped; the result is dropped when it comes.
    abandoned: bool,
    timed_out: bool,
}

/// What the tag of an event refers to.
#[derive(Clone, Copy)]
pub(super) enum Target {
    SocketSend(u32),
    SocketReceive(u32),
    SocketConnect(u32),
    SocketClose(u32),
    Listener(u32),
    Wait(u32),
    /// A signal from another thread.
    Wake,
    Nobody,
}

impl Target {
    pub(super) fn tag(self) -> u64 {
        let (kind, index) = match self {
            Target::Nobody => (0, 0),
            Target::SocketSend(index) => (1, index),
            Target::SocketReceive(index) => (2, index),
            Target::SocketConnect(index) => (3, index),
            Target::SocketClose(index) => (4, index),
            Target::Listener(index) => (5, index),
            Target::Wait(index) => (6, index),
            Target::Wake => (7, 0),
        };
        (kind as u64) << 32 | index as u64
    }

    fn of(tag: u64) -> Target {
        let index = tag as u32;
        match tag >> 32 {
            1 => Target::SocketSend(index),
            2 => Target::SocketReceive(index),
            3 => Target::SocketConnect(index),
            4 => Target::SocketClose(index),
            5 => Target::Listener(index),
            6 => Target::Wait(index),
            7 => Target::Wake,
            _ => Target::Nobody,
        }
    }
}

/// glommio's preempt timer (see the module).
pub(super) const PREEMPT: Duration = Duration::from_millis(limits::RING_PREEMPT_MS);

pub(super) fn run<T, M, F>(
    core: Option<usize>,
    name: &str,
    care: Care,
    preempt: Duration,
    main: M,
) -> Result<T, RingError>
where
    M: FnOnce() -> F,
    F: Future<Output = T>,
{
    let watched = Watched::new(name, care)?;
    let placement = core.map_or(Placement::Unbound, Placement::Fixed);
    let executor = LocalExecutorBuilder::new(placement)
        .name(name)
        .io_memory(64 * 1024)
        .ring_depth(128)
        .preempt_timer(preempt)
        .make()
        .map_err(|error| RingError::Executor(error.to_string()))?;
    Ok(executor.run(async move {
        watched.stand_by();
        let done = counted(main()).await;
        drop(watched);
        done
    }))
}

pub(super) fn start(core: &Rc<Core>) {
    core.watch_wake();
    glommio::spawn_local(drive(Rc::downgrade(core))).detach();
}

async fn drive(core: std::rc::Weak<Core>) {
    let (mut is_idle, mut has_more) = (false, false);
    let mut turned: Option<Turned> = None;
    loop {
        let Some(core) = core.upgrade() else { return };
        if core.stopped.get() {
            return;
        }
        core.heart.beat();
        let begun = core.now();
        let (syscall_ns, asked_ns) = core.enter(is_idle, has_more, begun);
        let entered = core.now();
        let gap_ns = turned.map_or(0, |turned| turned.gap_ns(begun));
        turned = Some(Turned { begun, slept_ns: asked_ns.min(entered.0 - begun.0) });
        has_more = core.take_events();
        core.fire_timers();
        core.wake_inboxes();
        core.feed_starved();
        let dispatched = core.now();
        let dispatch_ns = dispatched.0 - entered.0;
        let is_long = syscall_ns + dispatch_ns >= limits::STEP_MS_MAX * 1_000_000;
        core.spend(|effort| {
            effort.syscall_ns += syscall_ns;
            effort.dispatch_ns += dispatch_ns;
            effort.long_count += u64::from(is_long);
            effort.turn_gap_ns_max = effort.turn_gap_ns_max.max(gap_ns);
        });
        if is_long {
            tracing::debug!(syscall_ns, dispatch_ns, "a long step of the ring");
        }
        is_idle = run_tasks().await;
    }
}

/// One turn of the driver: when it began, and how much of it was sleep that was asked for.
#[derive(Clone, Copy)]
struct Turned {
    begun: Time,
    slept_ns: u64,
}

impl Turned {
    /// Returns the time from this turn's start to the next one's, without that sleep: for this long
    /// no task was polled.
    fn gap_ns(self, next: Time) -> u64 {
        (next.0 - self.begun.0).saturating_sub(self.slept_ns)
    }
}

/// Lets tasks run, and those that they wake; returns true if no task is ready any more. Each check
/// costs a tenth of the system call that it may save.
async fn run_tasks() -> bool {
    for _ in 0..limits::RING_YIELD_COUNT_MAX {
        let before = POLL_COUNT.get();
        glommio::executor().yield_now().await;
        if POLL_COUNT.get() == before {
            return true;
        }
    }
    false
}

impl Core {
    /// Hands out one turn's completions; returns true if there may be more. The number is bounded,
    /// because completions are work for tasks, and a timer that comes due meanwhile waits for all
    /// of it.
    fn take_events(self: &Rc<Self>) -> bool {
        for _ in 0..limits::RING_EVENT_COUNT_MAX {
            let event = self.uring.borrow_mut().next_event();
            let Some(event) = event else { return false };
            match Target::of(event.tag) {
                Target::Wait(index) => self.finish_wait(index, event),
                Target::Wake => {
                    // The signal came late, to a core that was awake already. It must be consumed,
                    // or the poll would fire for ever and the core would never sleep again.
                    self.wake.drain();
                    self.watch_wake();
                }
                Target::Nobody => {}
                target => socket::take_event(self, target, event),
            }
        }
        true
    }

    fn fire_timers(self: &Rc<Self>) {
        if self.timers.borrow_mut().next().is_none() {
            return;
        }
        let now = self.now();
        loop {
            let alarm = self.timers.borrow_mut().pop_due(now);
            let Some(alarm) = alarm else { return };
            let waker = match alarm {
                Alarm::Sleep(index, generation) => {
                    self.timers.borrow_mut().fire_sleep(index, generation)
                }
                Alarm::Socket(index, generation) => {
                    socket::deadline_passed(self, index, generation, now)
                }
                Alarm::Wait(index, generation) => self.time_out_wait(index, generation),
            };
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    fn wake_inboxes(&self) {
        if self.wake.take_pending() {
            let wakers = std::mem::take(&mut *self.inbox_wakers.borrow_mut());
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    /// Lets sockets that found no buffer receive again. Those that have waited longest go first,
    /// and no more of them than the kernel has buffers for.
    fn feed_starved(self: &Rc<Self>) {
        if self.starved.borrow().is_empty() {
            return;
        }
        let free_count = {
            let uring = self.uring.borrow();
            uring.pool().count() - uring.pool().lent_count()
        };
        for _ in 0..free_count.min(limits::RING_BUFFER_READY_COUNT) {
            let Some(index) = self.starved.borrow_mut().pop_front() else { break };
            socket::arm_again(self, index);
        }
    }

    /// Makes the turn's system call. With completions left it only submits, and only if there is
    /// something to submit. If no task is ready, it blocks this thread until something happens or
    /// the next timer is due. If a timer is going to end the sleep soon, the sleep is extended a
    /// little, so that what happens in that time is handled together.
    ///
    /// Returns the cost of the call and the longest sleep that was asked for, both in nanoseconds.
    /// After a sleep the cost is taken from the thread's CPU clock, which does not count the sleep.
    fn enter(&self, is_idle: bool, has_more: bool, begun: Time) -> (u64, u64) {
        if has_more {
            if self.uring.borrow_mut().has_queued() {
                self.turn(Asked::Nothing);
            }
            return (self.now().0 - begun.0, 0);
        }
        if !is_idle || !self.wake.may_sleep() {
            self.turn(Asked::Now);
            return (self.now().0 - begun.0, 0);
        }
        let begun_ns = process::thread_cpu_ns();
        let longest = begun + Duration::from_millis(limits::RING_SLEEP_MS_MAX);
        let until = self.timers.borrow_mut().next().map_or(longest, |next| next.min(longest));
        let (wait, gather) = (until.since(begun), Duration::from_micros(limits::RING_GATHER_US));
        // A timer is near in a crawl that is limited by delays: thousands of hosts come due each
        // second, and waking for each of them and for each step of each fetch costs more than the
        // steps do.
        let is_gathering = wait <= gather;
        let (wait, count) =
            if is_gathering { (gather, limits::RING_GATHER_COUNT) } else { (wait, 1) };
        self.turn(Asked::Wait(wait, count));
        self.wake.awake();
        (process::thread_cpu_ns() - begun_ns, wait.as_nanos() as u64)
    }

    pub(super) fn spend(&self, book: impl FnOnce(&mut Effort)) {
        let mut effort = self.effort.get();
        book(&mut effort);
        self.effort.set(effort);
    }

    fn turn(&self, asked: Asked) {
        let result = self.uring.borrow_mut().turn(asked);
        self.spend(|effort| effort.syscall_count += 1);
        if let Err(number) = result {
            // The ring is this process's only way to the network, so nothing works without it.
            panic!("io_uring_enter failed with system error {number}");
        }
    }

    /// Makes the ring report when another thread signals.
    fn watch_wake(&self) {
        let operation = Operation::PollIn { fd: self.wake.as_raw_fd() };
        self.uring.borrow_mut().push(operation, Target::Wake.tag());
    }

    /// Queues the operation that `make` makes and waits for its end; returns `None` if the deadline
    /// passes first.
    pub(super) async fn perform(
        self: &Rc<Self>,
        make: impl FnOnce() -> Operation,
        deadline: Time,
    ) -> Option<(i32, Operation)> {
        let index = self.waits.borrow_mut().open();
        let key = self.uring.borrow_mut().push(make(), Target::Wait(index).tag());
        let mut guard = WaitGuard { core: self, index, key, finished: false };
        if deadline != Time::NEVER {
            let generation = self.waits.borrow().slots[index as usize].generation;
            self.timers.borrow_mut().add(deadline, Alarm::Wait(index, generation));
        }
        let outcome = std::future::poll_fn(|context| {
            let mut waits = self.waits.borrow_mut();
            let slot = &mut waits.slots[index as usize];
            if let Some(done) = slot.done.take() {
                return Poll::Ready(Some(done));
            }
            if slot.timed_out {
                return Poll::Ready(None);
            }
            slot.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
        guard.finished = outcome.is_some();
        outcome
    }

    fn finish_wait(&self, index: u32, event: Event) {
        let Some(operation) = event.ended else { return };
        let waker = {
            let mut waits = self.waits.borrow_mut();
            let slot = &mut waits.slots[index as usize];
            if slot.abandoned {
                waits.close(index);
                None
            } else {
                slot.done = Some((event.result, operation));
                slot.waker.take()
            }
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn time_out_wait(&self, index: u32, generation: u32) -> Option<Waker> {
        let mut waits = self.waits.borrow_mut();
        let slot = waits.slots.get_mut(index as usize)?;
        if slot.generation != generation || slot.done.is_some() {
            return None;
        }
        slot.timed_out = true;
        slot.waker.take()
    }
}

/// Keeps the slot until the kernel is done with the operation, even if the future is dropped.
struct WaitGuard<'a> {
    core: &'a Rc<Core>,
    index: u32,
    key: Key,
    finished: bool,
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        let mut waits = self.core.waits.borrow_mut();
        let slot = &mut waits.slots[self.index as usize];
        if self.finished || slot.done.is_some() {
            waits.close(self.index);
            return;
        }
        slot.abandoned = true;
        slot.waker = None;
        drop(waits);
        let cancel = Operation::Cancel { key: self.key };
        self.core.uring.borrow_mut().push(cancel, Target::Nobody.tag());
    }
}

impl Waits {
    fn open(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(WaitSlot::default());
            (self.slots.len() - 1) as u32
        })
    }

    fn close(&mut self, index: u32) {
        let generation = self.slots[index as usize].generation.wrapping_add(1);
        self.slots[index as usize] = WaitSlot { generation, ..WaitSlot::default() };
        self.free.push(index);
    }
}

//! The watch: one thread that checks whether the driver of every world turns, and wakes those that
//! stand still.
//!
//! In: a [`Heart`] for each executor; its driver raises the heart's beat once a turn. Out: a nudge
//! to an executor whose driver has not turned for [`limits::RING_STILL_LOOK_COUNT`] checks, a line
//! in the log, and the end of the process ([`limits::STILL_EXIT_CODE`]) when a vital executor stays
//! still.
//!
//! Why it is needed: glommio's executor can sleep although tasks are ready (see [`super::driver`]).
//! Nothing on that thread can end such a sleep, because everything that could is a task. A nudge is
//! a foreign [`Waker`] of a task on that executor. It ends the sleep at whatever instruction the
//! sleeper stands, for these reasons:
//!
//! 1. `Waker::wake` on a foreign thread queues the waker, then writes the executor's eventfd if the
//!    executor has announced that it sleeps (`SleepNotifier::queue_waker`).
//! 2. Before it sleeps, the executor announces that, passes a barrier of all threads
//!    (`membarrier`), and sweeps the queue of foreign wakers once more. So either the sweep finds
//!    our waker, or we see the announcement and write the eventfd.
//! 3. An operation in the executor's latency ring reads the eventfd; without such an operation
//!    under way the executor does not sleep. The ring in which it sleeps polls the latency ring's
//!    descriptor, and a poll of a descriptor that is readable already completes at once. So the
//!    write ends the sleep.
//! 4. Once awake, the executor makes one round. It may fall asleep again only if its thread is held
//!    up once more, for longer than the preempt timer, between two particular instructions. So the
//!    watch nudges again and again until the beat has risen.
//!
//! The watch counts the checks that find a beat unchanged, not the time between them: a process
//! that was stopped as a whole (by a debugger, or with the machine) has not stood still.

use super::RingError;
use crate::base::limits;
use crate::sys::process;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Poll, Waker};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

/// What depends on an executor that stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// It may be busy without a turn for as long as it likes; it is only woken.
    Wake,
    /// A crawl needs it: the process ends instead of waiting for it for ever.
    Vital,
}

/// The state that one executor and the watch share.
pub(super) struct Heart {
    name: String,
    care: Care,
    /// Turns of the driver so far. Only the driver's own thread writes it.
    beat: AtomicU64,
    nudge_count: AtomicU64,
    /// The waker of a task on the executor that only stands by; `None` before that task begins and
    /// after the executor has ended.
    standby: Mutex<Option<Waker>>,
}

thread_local! {
    static OWN: RefCell<Option<Arc<Heart>>> = const { RefCell::new(None) };
}

impl Heart {
    fn new(name: &str, care: Care) -> Arc<Heart> {
        Arc::new(Heart {
            name: name.to_owned(),
            care,
            beat: AtomicU64::new(0),
            nudge_count: AtomicU64::new(0),
            standby: Mutex::new(None),
        })
    }

    /// Returns the heart of this thread's executor.
    pub(super) fn own() -> Arc<Heart> {
        OWN.with_borrow(Option::clone).expect("a world is made on a thread of RingWorld::start")
    }

    /// Counts a turn of the driver.
    pub(super) fn beat(&self) {
        // Only one thread writes, so a load and a store lose nothing and need no locked
        // instruction.
        self.beat.store(self.beat.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(super) fn nudge_count(&self) -> u64 {
        self.nudge_count.load(Ordering::Relaxed)
    }

    fn standby(&self) -> MutexGuard<'_, Option<Waker>> {
        self.standby.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the executor, wherever it sleeps by mistake.
    fn nudge(&self) {
        // The waker is cloned, so that the lock is not held while glommio is called.
        let waker = self.standby().clone();
        if let Some(waker) = waker {
            self.nudge_count.fetch_add(1, Ordering::Relaxed);
            waker.wake();
        }
    }

    /// Runs the task whose waker the watch uses. It does nothing, and ends with its executor.
    async fn stand_by(self: Arc<Self>) {
        std::future::poll_fn(|context| {
            *self.standby() = Some(context.waker().clone());
            Poll::<()>::Pending
        })
        .await
    }
}

/// Keeps an executor watched while it lives.
pub(super) struct Watched(Arc<Heart>);

impl Watched {
    /// Starts to watch this thread's executor; called before the executor runs.
    pub(super) fn new(name: &str, care: Care) -> Result<Watched, RingError> {
        let heart = Heart::new(name, care);
        watch()?.add(heart.clone());
        OWN.set(Some(heart.clone()));
        Ok(Watched(heart))
    }

    /// Starts the standby task on the executor; from here on the executor can be nudged.
    pub(super) fn stand_by(&self) {
        glommio::spawn_local(self.0.clone().stand_by()).detach();
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(Ok(watch)) = WATCH.get() {
            watch.hearts().retain(|sight| !Arc::ptr_eq(&sight.heart, &self.0));
        }
        OWN.set(None);
        // The waker is dropped on the thread of its own executor, because glommio frees a task
        // nowhere else.
        *self.0.standby() = None;
    }
}

static WATCH: OnceLock<Result<Watch, String>> = OnceLock::new();

struct Watch {
    hearts: Mutex<Vec<Sight>>,
    thread: Thread,
}

fn watch() -> Result<&'static Watch, RingError> {
    let made = WATCH.get_or_init(|| {
        let builder = thread::Builder::new().name("watch".to_owned());
        let spawned = builder.spawn(keep_watch).map_err(|error| error.to_string())?;
        Ok(Watch { hearts: Mutex::default(), thread: spawned.thread().clone() })
    });
    made.as_ref().map_err(|text| RingError::Executor(text.clone()))
}

impl Watch {
    fn hearts(&self) -> MutexGuard<'_, Vec<Sight>> {
        self.hearts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, heart: Arc<Heart>) {
        self.hearts().push(Sight { heart, seen: 0, still_count: 0 });
        self.thread.unpark();
    }
}

fn keep_watch() {
    // The thread that started this one holds the cell for a moment longer.
    let Ok(watch) = WATCH.wait() else { return };
    loop {
        if watch.hearts().is_empty() {
            thread::park();
        }
        thread::sleep(Duration::from_millis(limits::RING_WATCH_MS));
        // The acts are performed without the lock, because a thread that ends needs it.
        let acts: Vec<_> =
            watch.hearts().iter_mut().map(|sight| (sight.heart.clone(), sight.look())).collect();
        for (heart, act) in acts {
            act.perform(&heart);
        }
    }
}

/// What the watch saw of a heart at its last check.
struct Sight {
    heart: Arc<Heart>,
    seen: u64,
    /// Checks since the beat was last seen to rise.
    still_count: u64,
}

/// What a check leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Nothing,
    Nudge,
    /// The executor is nudged, and the operator is told.
    Tell,
    /// The executor turns again after the operator was told; the operator is told that too.
    Relief,
    Exit,
}

impl Sight {
    fn look(&mut self) -> Act {
        let beat = self.heart.beat.load(Ordering::Relaxed);
        let was_still = self.still_count;
        if beat != self.seen {
            (self.seen, self.still_count) = (beat, 0);
            return if was_still >= TELL_LOOK_COUNT { Act::Relief } else { Act::Nothing };
        }
        self.still_count += 1;
        match (self.still_count, self.heart.care) {
            (count, Care::Vital) if count >= EXIT_LOOK_COUNT => Act::Exit,
            (TELL_LOOK_COUNT, Care::Vital) => Act::Tell,
            (count, _) if is_nudge_due(count) => Act::Nudge,
            _ => Act::Nothing,
        }
    }
}

/// Reports whether a nudge is due: at every check at first, then rarely, because a thread that is
/// merely busy has to work off all of them in the end.
fn is_nudge_due(still_count: u64) -> bool {
    let over = still_count.saturating_sub(limits::RING_STILL_LOOK_COUNT);
    still_count >= limits::RING_STILL_LOOK_COUNT && (over < 10 || over.is_multiple_of(10))
}

const TELL_LOOK_COUNT: u64 = limits::RING_TELL_MS / limits::RING_WATCH_MS;
const EXIT_LOOK_COUNT: u64 = limits::RING_STILL_MS_MAX / limits::RING_WATCH_MS;

impl Act {
    fn perform(self, heart: &Heart) {
        match self {
            Act::Nothing => {}
            Act::Nudge => heart.nudge(),
            Act::Tell => {
                heart.nudge();
                self.tell(heart);
            }
            Act::Relief => _ = self.tell(heart),
            Act::Exit => {
                let told = self.tell(heart);
                for _ in 0..limits::STILL_EXIT_LOOK_COUNT {
                    if told.as_ref().is_none_or(JoinHandle::is_finished) {
                        break;
                    }
                    thread::sleep(Duration::from_millis(limits::RING_WATCH_MS));
                }
                process::exit_now(limits::STILL_EXIT_CODE);
            }
        }
    }

    /// Writes a line to the log from another thread: a core may stand still because nobody reads
    /// what the process writes.
    fn tell(self, heart: &Heart) -> Option<JoinHandle<()>> {
        let (name, nudge_count) = (heart.name.clone(), heart.nudge_count());
        let seconds = |ms| ms / 1_000;
        let (told_at, end_at) = (seconds(limits::RING_TELL_MS), seconds(limits::RING_STILL_MS_MAX));
        process::aside(move || match self {
            Act::Nothing | Act::Nudge => {}
            Act::Tell => tracing::warn!(
                "{name} has stood still for {told_at} s: its thread gets no core, waits for the \
                 disk or computes without end. It is woken repeatedly, and the process ends if \
                 this lasts {end_at} s; check the machine's load and its disk"
            ),
            Act::Relief => tracing::warn!("{name} has stood still and now runs again"),
            Act::Exit => tracing::error!(
                "{name} has stood still for {end_at} s although it was woken {nudge_count} times, \
                 so the process ends now. What is on disk is whole: continue with `nephila crawl \
                 --resume`"
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::ring::{RingWorld, Wake, driver};
    use crate::io::{Clock, Spawn};
    use crate::sys::hold;
    use std::time::Instant;

    fn sight(care: Care) -> Sight {
        Sight { heart: Heart::new("test", care), seen: 0, still_count: 0 }
    }

    #[test]
    fn a_driver_that_turns_between_looks_is_left_alone() {
        let mut sight = sight(Care::Vital);
        for _ in 0..1_000 {
            sight.heart.beat();
            assert_eq!(sight.look(), Act::Nothing);
            assert_eq!(sight.look(), Act::Nothing, "a sleep of one check is allowed");
        }
    }

    #[test]
    fn one_that_stands_still_is_woken_named_and_at_last_ends_the_process() {
        let mut sight = sight(Care::Vital);
        let acts: Vec<Act> = (0..EXIT_LOOK_COUNT).map(|_| sight.look()).collect();
        let first = |act| acts.iter().position(|found| *found == act).map(|at| at as u64 + 1);
        assert_eq!(first(Act::Nudge), Some(limits::RING_STILL_LOOK_COUNT));
        assert_eq!(first(Act::Tell), Some(TELL_LOOK_COUNT));
        assert_eq!(first(Act::Exit), Some(EXIT_LOOK_COUNT));
        let nudges = acts.iter().filter(|act| **act == Act::Nudge).count() as u64;
        assert!(nudges >= EXIT_LOOK_COUNT / 11, "too few nudges: {nudges}");
    }

    #[test]
    fn one_that_goes_on_after_it_was_named_is_named_once_more() {
        let mut sight = sight(Care::Vital);
        (0..TELL_LOOK_COUNT).for_each(|_| _ = sight.look());
        sight.heart.beat();
        assert_eq!(sight.look(), Act::Relief);
        assert_eq!(sight.look(), Act::Nothing);
    }

    #[test]
    fn one_that_may_be_busy_is_woken_and_no_more() {
        let mut sight = sight(Care::Wake);
        for _ in 0..2 * EXIT_LOOK_COUNT {
            assert!(matches!(sight.look(), Act::Nothing | Act::Nudge));
        }
    }

    /// The timer is long enough for glommio's reactor to have its turns, and short enough to wait
    /// for many.
    const PREEMPT: Duration = Duration::from_millis(5);
    const HOLD: Duration = Duration::from_millis(20);
    /// Calls after which the thread is held: more than a round of glommio's reactor makes.
    const CALL_COUNT: u32 = 12;

    /// The thread is held at the end of each of [`CALL_COUNT`] calls of glommio's reactor in turn.
    /// At the call that arms the preempt timer the executor falls asleep with tasks ready.
    #[test]
    fn a_core_that_falls_asleep_with_tasks_ready_is_woken() {
        let (tell, told) = std::sync::mpsc::channel();
        let main = move || async move {
            let world = RingWorld::new(Wake::new().unwrap(), None).unwrap();
            let ticking = world.clone();
            world.spawn(async move {
                loop {
                    ticking.yield_now().await;
                }
            });
            for count in 0..CALL_COUNT {
                hold::after_submits(count, HOLD);
                while hold::is_pending() {
                    world.sleep_until(world.now() + Duration::from_micros(100)).await;
                }
                // A round of glommio's reactor follows, so that the last hold takes effect.
                let until = world.now() + 4 * PREEMPT;
                while world.now() < until {
                    world.yield_now().await;
                }
                tell.send(world.effort()).unwrap();
            }
            world.stop();
        };
        let spawned = std::thread::spawn(move || {
            driver::run(None, "held", Care::Wake, PREEMPT, main).unwrap();
        });
        let begun = Instant::now();
        let timeouts = Duration::from_secs(20);
        let mut last = None;
        for count in 0..CALL_COUNT {
            let effort = told.recv_timeout(timeouts);
            last = Some(effort.unwrap_or_else(|_| {
                panic!(
                    "asleep since the hold of call {count}, {:?} after the start",
                    begun.elapsed()
                )
            }));
        }
        spawned.join().unwrap();
        let effort = last.unwrap();
        assert!(effort.nudge_count > 0, "no hold met the moment, so this test has shown nothing");
        assert!(effort.turn_gap_ns_max >= HOLD.as_nanos() as u64, "{}", effort.turn_gap_ns_max);
    }
}

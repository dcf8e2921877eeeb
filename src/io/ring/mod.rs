//! The production world: a glommio executor that hosts our own io_uring for sockets and files.
//!
//! glommio provides tasks and their scheduling; our ring ([`crate::sys::uring`]) does all transfers
//! and all sleeping. [`driver`] turns the ring: it submits, takes completions, fires timers and
//! sleeps. Everything but [`mailbox::Wake`] and [`watch`] belongs to one core.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // where threads meet

mod direct;
mod disk;
mod driver;
mod mailbox;
mod net;
mod socket;
mod timers;
mod watch;

pub use disk::RingFile;
pub use mailbox::{RingInbox, RingOutbox, ThreadOutbox, Unbound, Wake, mailbox};
pub use net::{RingDatagram, RingListener};
pub use socket::RingStream;
pub use watch::Care;

use super::{Clock, Effort, Random, Spawn};
use crate::base::limits;
use crate::base::{Time, WallTime};
use crate::sys::cmac::Cmac;
use crate::sys::file::Directory;
use crate::sys::pool::BufferPool;
use crate::sys::process;
use crate::sys::uring::Uring;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// The world of one core. Clones are the same world.
#[derive(Clone)]
pub struct RingWorld(Rc<Core>);

struct Core {
    uring: RefCell<Uring>,
    sockets: RefCell<socket::Table>,
    listeners: RefCell<net::Listeners>,
    waits: RefCell<driver::Waits>,
    timers: RefCell<timers::Timers>,
    wake: Arc<Wake>,
    heart: Arc<watch::Heart>,
    inbox_wakers: RefCell<Vec<Waker>>,
    /// Streams whose receive found no buffer; they are armed again as buffers come back.
    starved: RefCell<VecDeque<u32>>,
    random: Cmac,
    /// How many random numbers were drawn so far.
    random_count: Cell<u64>,
    directory: Option<Directory>,
    stopped: Cell<bool>,
    effort: Cell<Effort>,
}

/// Why the world could not be made. The text says what to change.
#[derive(Debug)]
pub enum RingError {
    /// The system refuses io_uring: because of a container, a sysctl or an old kernel.
    Refused(i32),
    NoMemory(i32),
    Directory(i32),
    Executor(String),
}

impl fmt::Display for RingError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RingError::Refused(number) => write!(
                out,
                "io_uring is not available (system error {number}): nephila needs Linux 6.1 or \
                 newer with kernel.io_uring_disabled=0, and in a container a seccomp profile that \
                 allows io_uring_setup, io_uring_enter and io_uring_register"
            ),
            RingError::NoMemory(number) => {
                write!(out, "no memory for receive buffers (system error {number})")
            }
            RingError::Directory(number) => {
                write!(out, "cannot open the data directory (system error {number})")
            }
            RingError::Executor(text) => write!(out, "cannot start an executor: {text}"),
        }
    }
}

impl std::error::Error for RingError {}

impl RingWorld {
    /// Makes the world of the executor that this runs on and starts its driver. Other threads
    /// signal through `wake`; `directory` is the directory of the files, if there are any.
    pub fn new(wake: Arc<Wake>, directory: Option<&Path>) -> Result<RingWorld, RingError> {
        let (count, ready_max) = (limits::RING_BUFFER_COUNT, limits::RING_BUFFER_READY_COUNT);
        let pool = BufferPool::new(count, ready_max, limits::RING_BUFFER_BYTES)
            .map_err(RingError::NoMemory)?;
        let uring =
            Uring::new(limits::RING_SUBMISSION_COUNT, limits::RING_COMPLETION_COUNT, Rc::new(pool))
                .map_err(RingError::Refused)?;
        let directory = directory.map(Directory::open).transpose().map_err(RingError::Directory)?;
        let secret = [process::entropy_u64(), process::entropy_u64()].map(u64::to_le_bytes);
        let world = RingWorld(Rc::new(Core {
            uring: RefCell::new(uring),
            sockets: RefCell::default(),
            listeners: RefCell::default(),
            waits: RefCell::default(),
            timers: RefCell::default(),
            wake,
            heart: watch::Heart::own(),
            inbox_wakers: RefCell::default(),
            starved: RefCell::default(),
            random: Cmac::new(std::array::from_fn(|at| secret[at / 8][at % 8])),
            random_count: Cell::new(0),
            directory,
            stopped: Cell::new(false),
            effort: Cell::default(),
        }));
        driver::start(&world.0);
        Ok(world)
    }

    /// Runs `main` to its end on a new thread pinned to `core`. If the thread stands still it is
    /// woken; `care` says what else happens then.
    pub fn start<T, M, F>(
        core: Option<usize>,
        name: &str,
        care: Care,
        main: M,
    ) -> Result<std::thread::JoinHandle<Result<T, RingError>>, RingError>
    where
        T: Send + 'static,
        M: FnOnce() -> F + Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let name = name.to_owned();
        std::thread::Builder::new()
            .name(name.clone())
            .spawn(move || driver::run(core, &name, care, driver::PREEMPT, main))
            .map_err(|error| RingError::Executor(error.to_string()))
    }

    /// Restricts the kernel's workers for this core's files to `cores`. If the kernel refuses, they
    /// run beside this core's tasks.
    pub fn keep_workers_to(&self, cores: &[usize]) {
        if let Err(number) = self.0.uring.borrow().keep_workers_to(cores) {
            tracing::info!(
                "could not move the kernel's file workers off this shard's core (system error \
                 {number}): they share it with the shard's tasks"
            );
        }
    }

    /// Ends the driver: no operation completes after this. The system closes the streams that are
    /// still open.
    pub fn stop(&self) {
        self.0.stopped.set(true);
    }

    /// Waits until the kernel has closed all dropped streams. The wait is bounded, because a task
    /// that never ends may hold a stream.
    pub async fn close_streams(&self) {
        let deadline = self.now() + Duration::from_millis(limits::RING_CLOSE_MS_MAX);
        while self.open_stream_count() > 0 && self.now() < deadline {
            self.sleep_until(self.now() + Duration::from_millis(1)).await;
        }
    }

    /// Returns the number of receive buffers in use, and of all receive buffers.
    pub fn buffer_use(&self) -> (usize, usize) {
        let uring = self.0.uring.borrow();
        (uring.pool().lent_count() as usize, uring.pool().count() as usize)
    }

    pub fn open_stream_count(&self) -> usize {
        self.0.sockets.borrow().len()
    }
}

impl Core {
    fn now(&self) -> Time {
        Time(process::monotonic_ns())
    }
}

impl Clock for RingWorld {
    fn now(&self) -> Time {
        self.0.now()
    }

    fn wall(&self) -> WallTime {
        WallTime(process::realtime_ns())
    }

    fn cpu_ns(&self) -> u64 {
        process::thread_cpu_ns()
    }

    fn effort(&self) -> Effort {
        Effort { nudge_count: self.0.heart.nudge_count(), ..self.0.effort.get() }
    }

    async fn sleep_until(&self, at: Time) {
        let mut sleep = timers::Sleep::new(self.0.clone(), at);
        std::future::poll_fn(|context| sleep.poll(context)).await;
    }

    async fn yield_now(&self) {
        let mut yielded = false;
        std::future::poll_fn(|context| {
            if std::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

impl Random for RingWorld {
    /// Draws the tag of a counter, under a key from the kernel. Strangers see some of the numbers,
    /// in record names and in questions to name servers, and some of the others become keys: a
    /// number says nothing about those drawn before and after it.
    fn random_u64(&self) -> u64 {
        let number = self.0.random_count.get();
        self.0.random_count.set(number + 1);
        self.0.random.tag(0, &number.to_le_bytes()) as u64
    }
}

impl Spawn for RingWorld {
    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        glommio::spawn_local(driver::counted(task)).detach();
    }
}

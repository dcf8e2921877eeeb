//! A seeded world for tests: several whole shards on one thread, without a socket or a sleep.
//!
//! A [`Sim`] owns the virtual clock, every task, one network, one disk and the history of what
//! happened. Each shard sees it through its [`SimWorld`], which stands behind the same traits as
//! the real world does. The invariant: one seed, one history. Nothing here reads a clock, an
//! address in memory or the order of a hash table, so a run that failed can be run again.
//!
//! ```text
//!   executor   tasks, ready lanes per shard, timers     wake       wakers
//!   network    listeners, who answers at an address     stream     one connection, both ends
//!   datagram   sockets with latency and loss            tree       names, and what is synced
//!   disk       the tree behind the seam, with latency   content    a file's bytes, and the same
//!   chance     seeded numbers                           history    events and their digest
//!   fault      rates of what goes wrong on the network  ailment    and on the disk
//!   mailbox    bounded queues between shards            crash      kills, power cuts, bad disks
//! ```
//!
//! Faults that exist: [`Sim::kill`], [`Sim::crash`] at any step, [`Sim::lose_unsynced`],
//! [`Sim::shift_wall`], silence or refusal at unknown addresses ([`NetModel`]) and at known ones
//! for a while ([`Sim::set_gate`]), `Stream::reset`, all of [`Faults`], for one address or for
//! every one, all of [`DiskFaults`], [`Trouble`] for one operation, [`Sim::set_disk_capacity`],
//! [`Sim::flip_bit`]. New ones belong where all traffic of a kind passes: connects in
//! `Network::route`, bytes in `End::post`, datagrams in `SimDatagram::post`, the disk in
//! `SimWorld::disk_failure`, power in `Tree::lose_unsynced`.
//!
//! A poll takes no virtual time. A task that spins on `yield_now` until some later moment never
//! sees it come, and ends the run with [`SimError::Livelock`].

mod ailment;
mod chance;
mod content;
mod crash;
mod datagram;
mod disk;
mod executor;
mod fault;
mod history;
mod mailbox;
mod network;
mod stream;
mod tree;
mod wake;
mod world;

pub use ailment::{DiskFaults, DiskOperation, Trouble};
pub use content::PowerCut;
pub use datagram::SimDatagram;
pub use disk::{DiskModel, SimFile};
pub use fault::Faults;
pub use history::Event;
pub use mailbox::{SimInbox, SimOutbox};
pub use network::{Gate, NetModel, SimListener, Unknown};
pub use stream::{SimChunk, SimStream};
pub use world::SimWorld;

use crate::base::Time;
use chance::Chance;
use executor::{Executor, Turn};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use wake::ReadyQueue;

/// The clock starts here and not at zero, as that of a machine that has been up for a while: code
/// that takes zero for "long ago" behaves as it will in production.
pub const START: Time = Time(1_000_000_000_000);

/// 2026-01-01T00:00:00Z, the wall time at [`START`], in nanoseconds since the Unix epoch.
const WALL_START_NS: u64 = 1_767_225_600 * 1_000_000_000;

/// One simulation. Dropping it drops all its tasks.
pub struct Sim {
    shared: Rc<Shared>,
    driven: Cell<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimError {
    /// The future waits for something that nobody will do: no task is ready, no timer is set.
    Deadlock { at: Time, task_count: usize },
    /// Tasks run and run, and the clock stands still.
    Livelock { at: Time },
    /// More polls than [`Sim::bound_steps`] allows.
    StepLimit { at: Time },
}

impl fmt::Display for SimError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimError::Deadlock { at, task_count } => {
                write!(out, "deadlock at {} ns: {task_count} tasks wait, no timer is set", at.0)
            }
            SimError::Livelock { at } => write!(out, "livelock: the clock stands at {} ns", at.0),
            SimError::StepLimit { at } => write!(out, "out of steps at {} ns", at.0),
        }
    }
}

impl std::error::Error for SimError {}

impl Sim {
    pub fn new(seed: u64) -> Sim {
        Sim::with_pace(seed, Pace::Drawn)
    }

    /// A simulation that compares two versions of the code: a version that polls a task once more,
    /// or opens one connection more, has the same history in all else. Tasks run in the order in
    /// which they became ready, every latency is the longest of its model, and each address has a
    /// stream of chance of its own for its faults.
    pub fn steady(seed: u64) -> Sim {
        Sim::with_pace(seed, Pace::Steady)
    }

    fn with_pace(seed: u64, pace: Pace) -> Sim {
        let ready = match pace {
            Pace::Drawn => ReadyQueue::default(),
            Pace::Steady => ReadyQueue::single(),
        };
        let shared = Rc::new(Shared {
            seed,
            pace,
            executor: Executor::new(Chance::new(seed, stream_id::LANES), ready, START),
            network: RefCell::default(),
            network_chance: Rc::new(Chance::new(seed, stream_id::NETWORK)),
            address_chances: RefCell::default(),
            tree: tree::Tree::default(),
            disk_model: Cell::default(),
            disk_chance: Chance::new(seed, stream_id::DISK),
            power_cut: Cell::default(),
            ailments: RefCell::default(),
            disk_fault_chance: Chance::new(seed, stream_id::DISK_FAULTS),
            shard_chances: RefCell::default(),
            history: RefCell::default(),
            wall_shift_ns: Cell::new(0),
        });
        Sim { shared, driven: Cell::new(false) }
    }

    /// The world of one shard, with the root of the simulated disk as its data directory. Asked for
    /// twice it is the same world, as after a restart.
    pub fn world(&self, shard: u16) -> SimWorld {
        self.world_in(shard, Path::new(""))
    }

    /// As [`Sim::world`], with a data directory of its own: a shard of another node.
    ///
    /// # Panics
    /// If `dir` is not a relative path without `..`.
    pub fn world_in(&self, shard: u16, dir: &Path) -> SimWorld {
        let tree = &self.shared.tree;
        let directory = tree.put_dir(&tree.root, dir).expect("a relative path");
        SimWorld::new(self.shared.clone(), shard, directory)
    }

    /// A mailbox between shards: many senders, one receiver, `capacity` messages.
    pub fn mailbox<M: 'static>(&self, capacity: usize) -> (SimOutbox<M>, SimInbox<M>) {
        mailbox::mailbox(capacity)
    }

    /// From now on the network behaves like this; what is on its way keeps its time of arrival.
    pub fn set_net(&self, model: NetModel) {
        model.check();
        self.shared.network.borrow_mut().model = model;
    }

    /// What goes wrong from now on between anyone and `address`, instead of the model's faults.
    pub fn set_faults(&self, address: IpAddr, faults: Faults) {
        faults.check();
        self.shared.network.borrow_mut().faults.insert(address, faults);
    }

    /// Asked at every connect whether anyone is at home there: machines that go down and come back.
    pub fn set_gate(&self, gate: Gate) {
        self.shared.network.borrow_mut().gate = Some(gate);
    }

    /// At most `count` polls in all, instead of [`crate::base::limits::SIM_STEP_COUNT_MAX`].
    pub fn bound_steps(&self, count: u64) {
        self.shared.executor.set_step_count_max(count);
    }

    /// Runs `future` to its end, and with it every task as far as that takes.
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, SimError> {
        let _drive = self.drive();
        let executor = &self.shared.executor;
        let bell = executor.main_bell();
        let mut future = pin!(future);
        loop {
            match executor.turn(Time::NEVER)? {
                Turn::Main(serial) if serial == bell.key().serial => {
                    bell.answer();
                    let mut context = Context::from_waker(bell.waker());
                    if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                        return Ok(output);
                    }
                }
                Turn::Main(_) | Turn::Moved => {}
                Turn::Idle => {
                    let task_count = executor.task_count();
                    return Err(SimError::Deadlock { at: executor.now(), task_count });
                }
            }
        }
    }

    /// Does all that happens up to and at `time`; then it is `time`.
    pub fn run_until(&self, time: Time) -> Result<(), SimError> {
        assert!(time != Time::NEVER, "that moment does not come");
        self.run(time)?;
        self.shared.executor.advance(time);
        Ok(())
    }

    /// Runs until no task is ready and no timer is set. Tasks may be left that wait for others.
    pub fn run_until_idle(&self) -> Result<(), SimError> {
        self.run(Time::NEVER)
    }

    pub fn now(&self) -> Time {
        self.shared.executor.now()
    }

    /// Tasks that have not ended.
    pub fn task_count(&self) -> usize {
        self.shared.executor.task_count()
    }

    /// Polls so far.
    pub fn step_count(&self) -> u64 {
        self.shared.executor.step_count()
    }

    /// Moves the wall clock, as an operator or a time daemon may. The monotonic clock stays.
    pub fn shift_wall(&self, seconds: i64) {
        let shift_ns = seconds.saturating_mul(1_000_000_000);
        let total = self.shared.wall_shift_ns.get().saturating_add(shift_ns);
        self.shared.wall_shift_ns.set(total);
    }

    /// Keeps the latest events from now on, for [`Sim::events`].
    pub fn keep_events(&self) {
        self.shared.history.borrow_mut().keep_events();
    }

    pub fn events(&self) -> Vec<Event> {
        self.shared.history.borrow().events()
    }

    /// One number for all that happened so far and the order of it.
    pub fn digest(&self) -> u64 {
        self.shared.history.borrow().digest() ^ self.shared.executor.digest()
    }

    fn run(&self, horizon: Time) -> Result<(), SimError> {
        let _drive = self.drive();
        while !matches!(self.shared.executor.turn(horizon)?, Turn::Idle) {}
        Ok(())
    }

    /// Only one loop at a time may take tasks from the queue: an inner one would eat the outer's.
    fn drive(&self) -> Drive<'_> {
        assert!(!self.driven.replace(true), "the simulation is already running");
        Drive(&self.driven)
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        // Tasks hold worlds, and worlds hold the tasks: only an explicit end breaks the ring.
        self.shared.executor.kill(None);
    }
}

struct Drive<'sim>(&'sim Cell<bool>);

impl Drop for Drive<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// The seeded streams of one simulation; shard N draws from `SHARDS + N`.
mod stream_id {
    pub const LANES: u64 = 1;
    pub const NETWORK: u64 = 2;
    pub const DISK: u64 = 3;
    pub const DISK_FAULTS: u64 = 4;
    pub const SHARDS: u64 = 1 << 32;
    pub const ADDRESSES: u64 = 1 << 63;
}

/// What decides the order of tasks and how long things take.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// The seed.
    Drawn,
    /// Nothing: see [`Sim::steady`].
    Steady,
}

/// What all worlds of a simulation have in common.
struct Shared {
    seed: u64,
    pace: Pace,
    executor: Rc<Executor>,
    network: RefCell<network::Network>,
    network_chance: Rc<Chance>,
    /// Streams of a steady simulation, one for each address that anyone sent to.
    address_chances: RefCell<BTreeMap<IpAddr, Rc<Chance>>>,
    tree: tree::Tree,
    disk_model: Cell<DiskModel>,
    disk_chance: Chance,
    power_cut: Cell<PowerCut>,
    ailments: RefCell<ailment::Ailments>,
    disk_fault_chance: Chance,
    shard_chances: RefCell<BTreeMap<u16, Rc<Chance>>>,
    history: RefCell<history::History>,
    wall_shift_ns: Cell<i64>,
}

impl Shared {
    fn record(&self, shard: u16, kind: &'static str, detail: fmt::Arguments<'_>) {
        self.history.borrow_mut().record(self.executor.now(), shard, kind, detail);
    }

    /// The stream from which the faults and segments on the way to `address` are drawn.
    fn line_chance(&self, address: IpAddr) -> Rc<Chance> {
        if self.pace == Pace::Drawn {
            return self.network_chance.clone();
        }
        let stream = match address {
            IpAddr::V4(address) => u64::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits() as u64,
        };
        let mut chances = self.address_chances.borrow_mut();
        let new = || Rc::new(Chance::new(self.seed, stream_id::ADDRESSES ^ stream));
        chances.entry(address).or_insert_with(new).clone()
    }

    /// How long something takes that takes from `us_min` to `us_max` microseconds.
    fn span(&self, chance: &Chance, us_min: u64, us_max: u64) -> Duration {
        Duration::from_micros(match self.pace {
            Pace::Drawn => chance.between(us_min, us_max),
            Pace::Steady => us_max,
        })
    }

    fn shard_chance(&self, shard: u16) -> Rc<Chance> {
        let mut chances = self.shard_chances.borrow_mut();
        let new = || Rc::new(Chance::new(self.seed, stream_id::SHARDS + u64::from(shard)));
        chances.entry(shard).or_insert_with(new).clone()
    }
}

//! The simulated network: its model, its listeners, and who answers at an address.
//!
//! All addresses are local to the simulation. A listener at an unspecified address (`0.0.0.0`,
//! `::`) answers for every address of its family that has no listener of its own. Latency is drawn
//! for each segment. Delivery is not an event: what is sent carries its time of arrival, and the
//! reader's timer waits for that time.

use super::chance::Chance;
use super::datagram::{SimDatagram, Socket};
use super::fault::{Fate, Faults, strikes};
use super::stream::{Link, LinkRef, SimStream};
use super::wake::Waiters;
use super::world::SimWorld;
use crate::base::Time;
use crate::base::limits::{
    RING_BUFFER_BYTES, SIM_BACKLOG_COUNT_MAX, SIM_CONNECT_MS_MAX, SIM_WINDOW_BYTES,
};
use crate::io::clock::Clock;
use crate::io::net::{Listener, Net, NetError, Stream};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// How the network treats what is sent through it.
#[derive(Clone, Copy, Debug)]
pub struct NetModel {
    /// Latency of one way; a connect takes two ways.
    pub latency_us_min: u64,
    pub latency_us_max: u64,
    /// What is sent arrives in pieces of one byte up to this many.
    pub segment_bytes_max: usize,
    /// Unread bytes at which a sender waits.
    pub window_bytes: usize,
    pub unknown: Unknown,
    /// What goes wrong at every address that has no faults of its own.
    pub faults: Faults,
}

/// What a connect gets from an address where nobody listens, or whose machine is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// A refusal, after one round trip.
    Refuse,
    /// No answer until the deadline.
    Silence,
}

impl Default for NetModel {
    fn default() -> NetModel {
        NetModel {
            latency_us_min: 200,
            latency_us_max: 20_000,
            segment_bytes_max: RING_BUFFER_BYTES,
            window_bytes: SIM_WINDOW_BYTES,
            unknown: Unknown::Refuse,
            faults: Faults::default(),
        }
    }
}

impl NetModel {
    pub(super) fn check(&self) {
        assert!(self.latency_us_min <= self.latency_us_max, "the range of latencies is empty");
        assert!(self.segment_bytes_max > 0 && self.window_bytes > 0, "no byte could be sent");
        self.faults.check();
    }
}

/// Returns how an address fails to answer at a time; `None` if it answers.
pub type Gate = Box<dyn Fn(IpAddr, Time) -> Option<Unknown>>;

#[derive(Default)]
pub(super) struct Network {
    pub model: NetModel,
    pub faults: BTreeMap<IpAddr, Faults>,
    pub gate: Option<Gate>,
    listeners: BTreeMap<SocketAddr, Rc<RefCell<Backlog>>>,
    pub sockets: BTreeMap<SocketAddr, Rc<RefCell<Socket>>>,
    /// Number of connections so far, which names them in the history.
    link_count: u64,
    port_count: u64,
}

/// The range from which Linux takes ports when none is asked for.
const PORT_MIN: u16 = 32_768;
const PORT_COUNT: u16 = 28_232;

impl Network {
    /// Returns `at`, with a zero port replaced by a free one. `taken` holds the addresses in use by
    /// the same protocol.
    pub fn bind<T>(
        at: SocketAddr,
        taken: &BTreeMap<SocketAddr, T>,
        port_count: &mut u64,
    ) -> Result<SocketAddr, NetError> {
        if at.port() != 0 {
            return if taken.contains_key(&at) { Err(NetError::AddressInUse) } else { Ok(at) };
        }
        for _ in 0..PORT_COUNT {
            let port = next_port(port_count);
            if taken.keys().all(|address| address.port() != port) {
                return Ok(SocketAddr::new(at.ip(), port));
            }
        }
        Err(NetError::Exhausted)
    }

    pub fn bind_socket(&mut self, at: SocketAddr) -> Result<SocketAddr, NetError> {
        Network::bind(at, &self.sockets, &mut self.port_count)
    }

    /// Returns what goes wrong between two addresses. The faults of either address apply (those
    /// of `to` first), whoever opened the connection.
    pub fn faults_between(&self, to: IpAddr, from: Option<IpAddr>) -> &Faults {
        let own = self.faults.get(&to).or_else(|| self.faults.get(&from?));
        own.unwrap_or(&self.model.faults)
    }

    /// Returns who answers at `to`, and how late the first packet gets there.
    fn route(&self, to: SocketAddr, now: Time, chance: &Chance) -> Route {
        let faults = self.faults_between(to.ip(), None);
        if strikes(chance, faults.exhausted_per_mille) {
            return Route::Exhausted;
        }
        let away = self.gate.as_ref().and_then(|gate| gate(to.ip(), now));
        if away == Some(Unknown::Refuse) || strikes(chance, faults.refused_per_mille) {
            return Route::Refusal;
        }
        if away == Some(Unknown::Silence) || strikes(chance, faults.unanswered_per_mille) {
            return Route::Silence;
        }
        let Some(late) = faults.syn_delay(chance) else { return Route::Silence };
        let wildcard = SocketAddr::new(unspecified(to.ip()), to.port());
        match self.listeners.get(&to).or_else(|| self.listeners.get(&wildcard)) {
            Some(backlog) if backlog.borrow().pending.len() < SIM_BACKLOG_COUNT_MAX => {
                Route::Listener { backlog: backlog.clone(), late, fate: faults.fate(chance) }
            }
            Some(_) => Route::Silence,
            None if self.model.unknown == Unknown::Silence => Route::Silence,
            None => Route::Refusal,
        }
    }
}

enum Route {
    Listener {
        backlog: Rc<RefCell<Backlog>>,
        late: Duration,
        fate: Fate,
    },
    /// Our machine has no socket for it.
    Exhausted,
    Refusal,
    Silence,
}

/// Connections on their way to a listener, by the time at which they reach it.
#[derive(Default)]
struct Backlog {
    pending: BTreeMap<(Time, u64), LinkRef>,
    acceptors: Waiters,
}

impl Net for SimWorld {
    type Stream = SimStream;
    type Listener = SimListener;
    type Datagram = SimDatagram;

    async fn connect(&self, to: SocketAddr, deadline: Time) -> Result<SimStream, NetError> {
        let (result, answer_at) = self.dial(to);
        if deadline < answer_at {
            self.sleep_until(deadline).await;
            self.record("connect timed out", format_args!("{to}"));
            return Err(NetError::TimedOut);
        }
        self.sleep_until(answer_at).await;
        if let Err(error) = &result {
            self.record("connect failed", format_args!("{to} {error}"));
        }
        result
    }

    fn listen(&self, at: SocketAddr) -> Result<SimListener, NetError> {
        let network = &mut *self.shared.network.borrow_mut();
        let local = Network::bind(at, &network.listeners, &mut network.port_count)?;
        let backlog = Rc::<RefCell<Backlog>>::default();
        network.listeners.insert(local, backlog.clone());
        self.record("listening", format_args!("{local}"));
        Ok(SimListener { world: self.clone(), local, backlog })
    }

    fn datagram(&self, at: SocketAddr, peer: Option<SocketAddr>) -> Result<SimDatagram, NetError> {
        SimDatagram::bind(self, at, peer)
    }
}

impl SimWorld {
    /// Sends the first packet of a connection; returns the result, and when it is known.
    fn dial(&self, to: SocketAddr) -> (Result<SimStream, NetError>, Time) {
        // Linux does the same: `::ffff:a.b.c.d` is the IPv4 address in another spelling.
        let to = SocketAddr::new(to.ip().to_canonical(), to.port());
        let there = self.now() + self.latency();
        let back = there + self.latency();
        let chance = self.shared.line_chance(to.ip());
        let route = self.shared.network.borrow().route(to, self.now(), &chance);
        match route {
            Route::Exhausted => (Err(NetError::Exhausted), self.now()),
            Route::Refusal => (Err(NetError::Refused), back),
            Route::Silence => {
                let timeouts = Duration::from_millis(SIM_CONNECT_MS_MAX);
                (Err(NetError::TimedOut), self.now() + timeouts)
            }
            Route::Listener { backlog, late, fate } => {
                let (there, back) = (there + late, back + late);
                let network = &mut *self.shared.network.borrow_mut();
                network.link_count += 1;
                let number = network.link_count;
                let local = SocketAddr::new(source_of(to.ip()), next_port(&mut network.port_count));
                let link = Link::new(number, local, to, fate, chance);
                self.record("connecting", format_args!("#{number} {local} -> {to}"));
                let mut backlog = backlog.borrow_mut();
                backlog.pending.insert((there, number), link.clone());
                backlog.acceptors.wake_all();
                (Ok(SimStream::dialling(self.clone(), link)), back)
            }
        }
    }
}

pub struct SimListener {
    world: SimWorld,
    local: SocketAddr,
    backlog: Rc<RefCell<Backlog>>,
}

impl Listener for SimListener {
    type Stream = SimStream;

    async fn accept(&self) -> Result<SimStream, NetError> {
        let mut alarm = self.world.alarm();
        poll_fn(|context| {
            let mut backlog = self.backlog.borrow_mut();
            let arrival = backlog.pending.first_key_value().map_or(Time::NEVER, |(key, _)| key.0);
            if arrival <= self.world.now()
                && let Some((_, link)) = backlog.pending.pop_first()
            {
                let stream = SimStream::accepted(self.world.clone(), link);
                self.world.record("accepted", format_args!("#{}", stream.number()));
                return Poll::Ready(Ok(stream));
            }
            backlog.acceptors.add(context.waker());
            alarm.set(arrival, context.waker());
            Poll::Pending
        })
        .await
    }

    fn local(&self) -> SocketAddr {
        self.local
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        self.world.shared.network.borrow_mut().listeners.remove(&self.local);
        let pending = std::mem::take(&mut self.backlog.borrow_mut().pending);
        for link in pending.into_values() {
            SimStream::accepted(self.world.clone(), link).reset();
        }
    }
}

/// Returns the address that a packet to `to` leaves from: the machine's own, as Linux would choose
/// it.
pub(super) fn source_of(to: IpAddr) -> IpAddr {
    match to {
        IpAddr::V4(to) if to.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V4(_) => Ipv4Addr::new(10, 0, 0, 1).into(),
        IpAddr::V6(to) if to.is_loopback() => Ipv6Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).into(),
    }
}

pub(super) fn unspecified(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn next_port(port_count: &mut u64) -> u16 {
    let port = PORT_MIN + (*port_count % u64::from(PORT_COUNT)) as u16;
    *port_count += 1;
    port
}

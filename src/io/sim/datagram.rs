//! Simulated datagram sockets, with latency, reordering, loss, and the filter of a connected
//! socket.

use super::chance::Chance;
use super::fault::{Carriage, strikes};
use super::network::{Network, Unknown, source_of, unspecified};
use super::wake::Waiters;
use super::world::SimWorld;
use crate::base::Time;
use crate::base::limits::{SIM_DATAGRAM_BYTES_MAX, SIM_DATAGRAM_COUNT_MAX};
use crate::io::clock::Clock;
use crate::io::net::{Datagram, NetError};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;
use xxhash_rust::xxh3::xxh3_64;

/// The most that a UDP datagram over IPv4 can carry, and the system's error for more.
const PAYLOAD_BYTES_MAX: usize = 65_507;
const EMSGSIZE: i32 = 90;

pub struct SimDatagram {
    world: SimWorld,
    local: SocketAddr,
    socket: Rc<RefCell<Socket>>,
}

/// The contents of a socket; the network finds it by its address.
#[derive(Default)]
pub(super) struct Socket {
    peer: Option<SocketAddr>,
    /// Arrivals by time, then by order of sending: a later datagram may overtake an earlier one.
    arriving: BTreeMap<(Time, u64), Arrival>,
    arrival_count: u64,
    readers: Waiters,
}

type Arrival = Result<(Vec<u8>, SocketAddr), NetError>;

impl Socket {
    /// Queues an arrival; returns false if there is no room.
    fn post(&mut self, at: Time, arrival: Arrival) -> bool {
        if self.arriving.len() >= SIM_DATAGRAM_COUNT_MAX {
            return false;
        }
        self.arrival_count += 1;
        self.arriving.insert((at, self.arrival_count), arrival);
        self.readers.wake_all();
        true
    }
}

impl SimDatagram {
    pub(super) fn bind(
        world: &SimWorld,
        at: SocketAddr,
        peer: Option<SocketAddr>,
    ) -> Result<SimDatagram, NetError> {
        let network = &mut *world.shared.network.borrow_mut();
        if let Some(peer) = peer {
            let rate = network.faults_between(peer.ip(), None).exhausted_per_mille;
            if strikes(&world.shared.line_chance(peer.ip()), rate) {
                world.record("no socket", format_args!("{peer}"));
                return Err(NetError::Exhausted);
            }
        }
        let local = network.bind_socket(at)?;
        let socket = Rc::new(RefCell::new(Socket { peer, ..Socket::default() }));
        network.sockets.insert(local, socket.clone());
        world.record("datagrams", format_args!("{local} {peer:?}"));
        Ok(SimDatagram { world: world.clone(), local, socket })
    }

    /// Sends a datagram; returns what happened to it, for the history.
    fn post(&self, network: &Network, bytes: &[u8], to: SocketAddr) -> &'static str {
        let from = match self.local.ip() {
            ip if ip.is_unspecified() => SocketAddr::new(source_of(to.ip()), self.local.port()),
            _ => self.local,
        };
        let chance = &self.world.shared.line_chance(to.ip());
        let (there, back) = self.round_trip(network, chance);
        let carriage = network.faults_between(to.ip(), Some(from.ip())).carriage(chance);
        let Carriage::Carried { late, doubled } = carriage else { return "lost" };
        let (there, back) = (there + late, back + late);
        let wildcard = SocketAddr::new(unspecified(to.ip()), to.port());
        let receiver = network.sockets.get(&to).or_else(|| network.sockets.get(&wildcard));
        let Some(receiver) = receiver else {
            // The refusal comes back as ICMP, which the system reports only to a connected socket.
            let mut own = self.socket.borrow_mut();
            if network.model.unknown == Unknown::Refuse && own.peer == Some(to) {
                own.post(back, Err(NetError::Refused));
                return "refused";
            }
            return "unheard";
        };
        let mut receiver = receiver.borrow_mut();
        if receiver.peer.is_some_and(|peer| peer != from) {
            return "filtered";
        }
        let cut = &bytes[..bytes.len().min(SIM_DATAGRAM_BYTES_MAX)];
        if doubled {
            receiver.post(back, Ok((cut.to_vec(), from)));
        }
        if receiver.post(there, Ok((cut.to_vec(), from))) { "sent" } else { "overflowed" }
    }

    fn round_trip(&self, network: &Network, chance: &Chance) -> (Time, Time) {
        let (min, max) = (network.model.latency_us_min, network.model.latency_us_max);
        let latency = || self.world.shared.span(chance, min, max);
        let there = self.world.now() + latency();
        (there, there + latency())
    }
}

impl Datagram for SimDatagram {
    fn send(&self, bytes: &[u8], to: SocketAddr) -> Result<(), NetError> {
        if bytes.len() > PAYLOAD_BYTES_MAX {
            return Err(NetError::Os(EMSGSIZE));
        }
        let fate = self.post(&self.world.shared.network.borrow(), bytes, to);
        let (local, len, digest) = (self.local, bytes.len(), xxh3_64(bytes));
        let detail = format_args!("{fate} {local} -> {to} {len} bytes {digest:x}");
        self.world.record("datagram", detail);
        Ok(())
    }

    async fn receive(&self, deadline: Time) -> Result<(Vec<u8>, SocketAddr), NetError> {
        let mut alarm = self.world.alarm();
        let result = poll_fn(|context| {
            let now = self.world.now();
            let mut socket = self.socket.borrow_mut();
            let next_at = socket.arriving.first_key_value().map_or(Time::NEVER, |(key, _)| key.0);
            if next_at <= now
                && let Some((_, arrival)) = socket.arriving.pop_first()
            {
                return Poll::Ready(arrival);
            }
            if deadline <= now {
                return Poll::Ready(Err(NetError::TimedOut));
            }
            socket.readers.add(context.waker());
            alarm.set(deadline.min(next_at), context.waker());
            Poll::Pending
        })
        .await;
        match &result {
            Ok((bytes, from)) => {
                let (local, len) = (self.local, bytes.len());
                self.world.record("datagram in", format_args!("{from} -> {local} {len} bytes"));
            }
            Err(error) => {
                self.world.record("datagram in", format_args!("{} {error}", self.local));
            }
        }
        result
    }

    fn local(&self) -> SocketAddr {
        self.local
    }
}

impl Drop for SimDatagram {
    fn drop(&mut self) {
        self.world.shared.network.borrow_mut().sockets.remove(&self.local);
    }
}

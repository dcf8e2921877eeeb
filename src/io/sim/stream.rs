//! One simulated connection: bytes in order, in segments of random size, with the three ways in
//! which TCP ends.
//!
//! A stream that is dropped closes: its peer reads what is on its way, and then the end. It resets
//! instead when it leaves bytes unread that had arrived (RFC 2525 2.17), or when `reset` is called.
//! What is sent to a stream that is gone is lost, and a reset comes back one round trip later. A
//! reset never takes away bytes that arrived before it, as on Linux.
//!
//! A connection may carry a [`Fate`] that strikes at one byte. A struck connection is severed: what
//! is sent on it afterwards is lost, and no end learns of a close.
//!
//! Invariant: `unread_bytes` is the sum of the queued segments (or of the lost ones, once the
//! reader is gone or the connection is severed) and never exceeds the window.

use super::chance::Chance;
use super::executor::Alarm;
use super::fault::{Fate, Strike, TO_DIALLER};
use super::wake::Waiters;
use super::world::SimWorld;
use crate::base::Time;
use crate::io::clock::Clock;
use crate::io::net::{NetError, Stream};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::ops::Deref;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

pub(super) type LinkRef = Rc<RefCell<Link>>;

pub struct SimStream {
    world: SimWorld,
    link: LinkRef,
    /// Our index in `Link::ends`: 0 dialled, 1 accepted.
    side: usize,
    /// True once the stream has closed or reset, so that dropping it does nothing more.
    gone: bool,
}

/// Received bytes.
pub struct SimChunk(Vec<u8>);

impl Deref for SimChunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl SimStream {
    pub(super) fn dialling(world: SimWorld, link: LinkRef) -> SimStream {
        SimStream { world, link, side: 0, gone: false }
    }

    pub(super) fn accepted(world: SimWorld, link: LinkRef) -> SimStream {
        SimStream { world, link, side: 1, gone: false }
    }

    /// Returns the connection's number in the history.
    pub(super) fn number(&self) -> u64 {
        self.link.borrow().number
    }

    fn poll_send(
        &mut self,
        bytes: &[u8],
        sent: &mut usize,
        deadline: Time,
        alarm: &mut Alarm,
        context: &Context<'_>,
    ) -> Poll<Result<(), NetError>> {
        let now = self.world.now();
        let link = &mut *self.link.borrow_mut();
        let [dialler, listener] = &mut link.ends;
        let (own, peer) =
            if self.side == TO_DIALLER { (dialler, listener) } else { (listener, dialler) };
        if own.reset_at <= now {
            return Poll::Ready(Err(NetError::Reset));
        }
        if peer.gone && !peer.severed && !bytes.is_empty() {
            let round_trip = self.world.latency() + self.world.latency();
            own.reset_at = own.reset_at.min((now + round_trip).max(own.last_arrival));
        }
        let window_bytes = self.world.shared.network.borrow().model.window_bytes;
        while *sent < bytes.len() && peer.unread_bytes < window_bytes {
            if let Some(strike) = peer.due_strike() {
                strike_between(&self.world, own, peer, strike);
                self.world.record("fault", format_args!("#{} {}", link.number, strike.name()));
            }
            let room_bytes = window_bytes - peer.unread_bytes;
            *sent += peer.post(&self.world, &bytes[*sent..], room_bytes);
        }
        let is_done = !self.world.acknowledged || peer.unread_bytes == 0;
        if *sent == bytes.len() && is_done {
            return Poll::Ready(Ok(()));
        }
        if self.world.acknowledged && (peer.gone || peer.severed) {
            return Poll::Ready(Err(NetError::Closed));
        }
        if deadline <= now {
            return Poll::Ready(Err(NetError::TimedOut));
        }
        own.writers.add(context.waker());
        alarm.set(deadline.min(own.reset_at), context.waker());
        Poll::Pending
    }

    fn poll_receive(
        &mut self,
        deadline: Time,
        alarm: &mut Alarm,
        context: &Context<'_>,
    ) -> Poll<Result<Option<SimChunk>, NetError>> {
        let now = self.world.now();
        let link = &mut *self.link.borrow_mut();
        let (own, peer) = link.sides(self.side);
        let next_at = own.next_at();
        if next_at <= now {
            let result = own.take();
            peer.writers.wake_all();
            return Poll::Ready(result);
        }
        if deadline <= now {
            return Poll::Ready(Err(NetError::TimedOut));
        }
        own.readers.add(context.waker());
        alarm.set(deadline.min(next_at), context.waker());
        Poll::Pending
    }

    fn leave(&mut self, abort: bool) {
        if std::mem::replace(&mut self.gone, true) {
            return;
        }
        let now = self.world.now();
        let link = &mut *self.link.borrow_mut();
        let number = link.number;
        let (own, peer) = link.sides(self.side);
        own.gone = true;
        let first_unread_at = own.segments.front().map(|segment| segment.at);
        own.segments.clear();
        if peer.gone || own.severed || own.reset_at <= now {
            return;
        }
        let told_at = (now + self.world.latency()).max(peer.last_arrival);
        let resets = abort || first_unread_at.is_some_and(|at| at <= now);
        if resets {
            peer.reset_at = peer.reset_at.min(told_at);
        } else {
            peer.closed_at = told_at;
            if let Some(at) = first_unread_at {
                peer.reset_at = peer.reset_at.min((at + self.world.latency()).max(told_at));
            }
        }
        peer.readers.wake_all();
        peer.writers.wake_all();
        self.world.record(if resets { "reset" } else { "closed" }, format_args!("#{number}"));
    }
}

impl Stream for SimStream {
    type Chunk = SimChunk;

    async fn send(&mut self, bytes: Vec<u8>, deadline: Time) -> Result<Vec<u8>, NetError> {
        let mut alarm = self.world.alarm();
        let mut sent = 0;
        let result =
            poll_fn(|context| self.poll_send(&bytes, &mut sent, deadline, &mut alarm, context))
                .await;
        let (number, digest) = (self.number(), xxh3_64(&bytes[..sent]));
        self.world.record("sent", format_args!("#{number} {sent} bytes {digest:x} {result:?}"));
        result.map(|()| bytes)
    }

    async fn receive(&mut self, deadline: Time) -> Result<Option<SimChunk>, NetError> {
        let mut alarm = self.world.alarm();
        let result = poll_fn(|context| self.poll_receive(deadline, &mut alarm, context)).await;
        let number = self.number();
        match &result {
            Ok(Some(chunk)) => {
                self.world.record("received", format_args!("#{number} {} bytes", chunk.len()));
            }
            Ok(None) => self.world.record("saw close", format_args!("#{number}")),
            Err(error) => {
                self.world.record("receive failed", format_args!("#{number} {error}"));
            }
        }
        result
    }

    fn reset(mut self) {
        self.leave(true);
    }

    fn is_quiet(&self) -> bool {
        self.link.borrow().ends[self.side].next_at() > self.world.now()
    }

    fn peer(&self) -> SocketAddr {
        self.link.borrow().ends[1 - self.side].address
    }

    fn local(&self) -> SocketAddr {
        self.link.borrow().ends[self.side].address
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        self.leave(false);
    }
}

/// Both ends of a connection.
pub(super) struct Link {
    number: u64,
    ends: [End; 2],
}

impl Link {
    pub fn new(
        number: u64,
        dialler: SocketAddr,
        dialled: SocketAddr,
        fate: Fate,
        line_chance: Rc<Chance>,
    ) -> LinkRef {
        let new = |address| End::new(address, fate, line_chance.clone());
        let mut ends = [new(dialler), new(dialled)];
        if let Some((side, at, strike)) = fate.strike {
            ends[side].strike = Some((at, strike));
        }
        // Only the side that answers is slow.
        ends[TO_DIALLER].bytes_per_second = fate.trickle_bytes_per_second;
        Rc::new(RefCell::new(Link { number, ends }))
    }

    /// Returns our own end and the peer's.
    fn sides(&mut self, side: usize) -> (&mut End, &mut End) {
        let [dialled, accepted] = &mut self.ends;
        if side == 0 { (dialled, accepted) } else { (accepted, dialled) }
    }
}

/// One end: the bytes that are on their way to it or wait there, and the tasks that wait for them.
struct End {
    address: SocketAddr,
    segments: VecDeque<Segment>,
    unread_bytes: usize,
    /// Time of the last arrival: nothing overtakes what was sent before it.
    last_arrival: Time,
    /// When the peer's close, or a reset, arrives here.
    closed_at: Time,
    reset_at: Time,
    /// The stream of this end was dropped.
    gone: bool,
    /// A fault has cut the connection: nothing that is sent from now on arrives here.
    severed: bool,
    /// Bytes sent here so far, and the fault that strikes at one of them.
    posted_bytes: u64,
    strike: Option<(u64, Strike)>,
    bytes_per_second: Option<u64>,
    fate: Fate,
    /// The random stream that decides the sizes of segments and what delays them.
    line_chance: Rc<Chance>,
    readers: Waiters,
    writers: Waiters,
}

struct Segment {
    at: Time,
    bytes: Vec<u8>,
}

impl End {
    fn new(address: SocketAddr, fate: Fate, line_chance: Rc<Chance>) -> End {
        End {
            address,
            segments: VecDeque::new(),
            unread_bytes: 0,
            last_arrival: Time::ZERO,
            closed_at: Time::NEVER,
            reset_at: Time::NEVER,
            gone: false,
            severed: false,
            posted_bytes: 0,
            strike: None,
            bytes_per_second: None,
            fate,
            line_chance,
            readers: Waiters::default(),
            writers: Waiters::default(),
        }
    }

    /// Sends the first part of `bytes` here, as one segment, and returns its size. If the reader is
    /// gone the segment is lost, but it still fills the sender's window: the sender gets a reset,
    /// not room.
    fn post(&mut self, world: &SimWorld, bytes: &[u8], room_bytes: usize) -> usize {
        let segment_bytes_max = world.shared.network.borrow().model.segment_bytes_max;
        let chance = &self.line_chance;
        // The largest size is halved up to three times, so that small segments are common and a
        // segment of one byte is not rare.
        let upper = (segment_bytes_max >> chance.index(4)).max(1);
        let len = chance.between(1, upper as u64) as usize;
        let len = len.min(bytes.len()).min(room_bytes);
        let len = self.bytes_per_second.map_or(len, |rate| len.min(trickle_bytes(rate)));
        // The segment ends before the byte of the strike.
        let len = self.strike.map_or(len, |(at, _)| {
            len.min(usize::try_from(at - self.posted_bytes).unwrap_or(usize::MAX))
        });
        self.unread_bytes += len;
        self.posted_bytes += len as u64;
        if self.gone || self.severed {
            return len;
        }
        let mut at = world.now() + world.latency() + self.fate.spike(chance);
        at = at.max(self.last_arrival);
        if let Some(rate) = self.bytes_per_second {
            at += Duration::from_nanos(len as u64 * 1_000_000_000 / rate);
        }
        self.last_arrival = at;
        self.segments.push_back(Segment { at, bytes: bytes[..len].to_vec() });
        self.readers.wake_all();
        len
    }

    /// Returns the strike if its byte is the next to be sent here, and forgets it.
    fn due_strike(&mut self) -> Option<Strike> {
        let (_, strike) = self.strike.filter(|(at, _)| *at <= self.posted_bytes)?;
        self.strike = None;
        Some(strike)
    }

    /// Returns when there is something to read: bytes, the close or a reset.
    fn next_at(&self) -> Time {
        match self.segments.front() {
            Some(segment) => segment.at,
            None => self.closed_at.min(self.reset_at),
        }
    }

    /// Takes what [`End::next_at`] announced, once that time has come.
    fn take(&mut self) -> Result<Option<SimChunk>, NetError> {
        match self.segments.pop_front() {
            Some(segment) => {
                self.unread_bytes -= segment.bytes.len();
                Ok(Some(SimChunk(segment.bytes)))
            }
            // A reset after a close was caused by what we sent later; the close remains the end.
            None if self.closed_at <= self.reset_at => Ok(None),
            None => Err(NetError::Reset),
        }
    }
}

/// Applies `strike` to a connection on which `from` was about to send to `to`.
fn strike_between(world: &SimWorld, from: &mut End, to: &mut End, strike: Strike) {
    let now = world.now();
    if let Strike::Stall(pause) = strike {
        to.last_arrival = to.last_arrival.max(now) + pause;
        return;
    }
    let to_at = (now + world.latency()).max(to.last_arrival);
    let from_at = (now + world.latency()).max(from.last_arrival);
    match strike {
        Strike::Reset => {
            to.reset_at = to.reset_at.min(to_at);
            from.reset_at = from.reset_at.min(from_at);
        }
        Strike::Close => {
            to.closed_at = to.closed_at.min(to_at);
            from.reset_at = from.reset_at.min(from_at);
        }
        Strike::Vanish | Strike::Stall(_) => {}
    }
    for end in [from, to] {
        end.severed = true;
        end.strike = None;
        end.readers.wake_all();
        end.writers.wake_all();
    }
}

/// Returns the size of a trickle's segments: what arrives in a quarter of a second.
fn trickle_bytes(bytes_per_second: u64) -> usize {
    usize::try_from(bytes_per_second / 4).unwrap_or(usize::MAX).max(1)
}

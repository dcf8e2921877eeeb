//! TCP streams on the ring: multishot receive into leased buffers, sends that own their bytes.
//!
//! The life of a socket:
//! 1. A descriptor is opened and gets a slot.
//! 2. A connect operation runs, or the descriptor was adopted from an accept.
//! 3. The receive is armed once and kept armed.
//! 4. Sends run one at a time.
//! 5. On drop the operations under way are cancelled and the close is queued.
//! 6. The slot is free again when the last operation has ended.

use super::driver::Target;
use super::net::{net_error, take_accept};
use super::timers::Alarm;
use super::{Core, RingWorld};
use crate::base::Time;
use crate::base::limits;
use crate::io::{NetError, Stream};
use crate::sys::pool::Lease;
use crate::sys::socket::{self, RawAddress};
use crate::sys::uring::{Event, Key, Operation};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::task::{Poll, Waker};

#[derive(Default)]
pub(super) struct Table {
    sockets: Vec<Option<Socket>>,
    free: Vec<u32>,
    generation: u32,
}

struct Socket {
    generation: u32,
    fd: Option<OwnedFd>,
    chunks: VecDeque<Lease>,
    /// The receive operation under way, if there is one.
    receive: Option<Key>,
    /// What ended the receiving side: `Ok` means that the peer closed in order.
    ended: Option<Result<(), NetError>>,
    /// The connect or send operation under way, and its result once it has come.
    sending: Option<Key>,
    sent: Option<(i32, Operation)>,
    waker: Option<Waker>,
    /// When the present wait gives up, and when the timer heap looks at this socket next.
    deadline: Time,
    alarm_at: Time,
    timed_out: bool,
    /// The program has dropped the stream; only the kernel's operations are awaited.
    dropped: bool,
    closing: bool,
}

pub struct RingStream {
    core: Rc<Core>,
    index: u32,
    peer: SocketAddr,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.sockets.len() - self.free.len()
    }

    fn insert(&mut self, fd: OwnedFd) -> u32 {
        self.generation = self.generation.wrapping_add(1);
        let socket = Socket {
            generation: self.generation,
            fd: Some(fd),
            chunks: VecDeque::new(),
            receive: None,
            ended: None,
            sending: None,
            sent: None,
            waker: None,
            deadline: Time::NEVER,
            alarm_at: Time::NEVER,
            timed_out: false,
            dropped: false,
            closing: false,
        };
        if let Some(index) = self.free.pop() {
            self.sockets[index as usize] = Some(socket);
            return index;
        }
        self.sockets.push(Some(socket));
        (self.sockets.len() - 1) as u32
    }

    fn at(&mut self, index: u32) -> &mut Socket {
        self.sockets[index as usize].as_mut().expect("a slot is kept until its last operation ends")
    }

    /// Frees the slot of a dropped socket once no operation is under way on it.
    fn settle(&mut self, index: u32) {
        let socket = self.at(index);
        if socket.dropped && !socket.closing && socket.receive.is_none() && socket.sending.is_none()
        {
            self.sockets[index as usize] = None;
            self.free.push(index);
        }
    }
}

impl RingStream {
    pub(super) async fn connect(
        world: &RingWorld,
        to: SocketAddr,
        deadline: Time,
    ) -> Result<RingStream, NetError> {
        let core = &world.0;
        let fd = socket::stream_socket(to).map_err(net_error)?;
        let raw = fd.as_raw_fd();
        let index = core.sockets.borrow_mut().insert(fd);
        let stream = RingStream { core: core.clone(), index, peer: to };
        let operation = Operation::Connect { fd: raw, to: Box::new(RawAddress::new(to)) };
        let (result, _) = stream.perform(operation, Target::SocketConnect(index), deadline).await?;
        if result < 0 {
            return Err(net_error(-result));
        }
        arm(core, index);
        Ok(stream)
    }

    pub(super) fn adopt(core: &Rc<Core>, fd: OwnedFd) -> Result<RingStream, NetError> {
        socket::set_nodelay(fd.as_raw_fd()).map_err(net_error)?;
        let peer = socket::peer_address(fd.as_raw_fd()).map_err(net_error)?;
        let index = core.sockets.borrow_mut().insert(fd);
        arm(core, index);
        Ok(RingStream { core: core.clone(), index, peer })
    }

    /// Queues a connect or send and waits for its end or the deadline.
    async fn perform(
        &self,
        operation: Operation,
        target: Target,
        deadline: Time,
    ) -> Result<(i32, Operation), NetError> {
        let key = self.core.uring.borrow_mut().push(operation, target.tag());
        self.core.sockets.borrow_mut().at(self.index).sending = Some(key);
        std::future::poll_fn(|context| {
            let mut table = self.core.sockets.borrow_mut();
            let socket = table.at(self.index);
            if let Some(done) = socket.sent.take() {
                return Poll::Ready(Ok(done));
            }
            if std::mem::take(&mut socket.timed_out) {
                return Poll::Ready(Err(NetError::TimedOut));
            }
            socket.waker = Some(context.waker().clone());
            wait_until(&self.core, socket, self.index, deadline);
            Poll::Pending
        })
        .await
    }
}

impl Stream for RingStream {
    type Chunk = Lease;

    async fn send(&mut self, bytes: Vec<u8>, deadline: Time) -> Result<Vec<u8>, NetError> {
        let (mut bytes, mut from) = (bytes, 0);
        while from < bytes.len() {
            let fd = {
                let mut table = self.core.sockets.borrow_mut();
                let socket = table.at(self.index);
                // The future of an earlier send was dropped, and its bytes may still be on their
                // way.
                if socket.sending.is_some() {
                    return Err(NetError::Closed);
                }
                socket.sent = None;
                socket.fd.as_ref().map_or(-1, |fd| fd.as_raw_fd())
            };
            let operation = Operation::Send { fd, bytes, from };
            let (result, operation) =
                self.perform(operation, Target::SocketSend(self.index), deadline).await?;
            if result < 0 {
                return Err(net_error(-result));
            }
            let Operation::Send { bytes: back, .. } = operation else {
                return Err(NetError::Os(libc::EIO));
            };
            bytes = back;
            from += result as usize;
        }
        Ok(bytes)
    }

    async fn receive(&mut self, deadline: Time) -> Result<Option<Lease>, NetError> {
        std::future::poll_fn(|context| {
            let mut table = self.core.sockets.borrow_mut();
            let socket = table.at(self.index);
            if let Some(lease) = socket.chunks.pop_front() {
                socket.timed_out = false;
                let paused = socket.receive.is_none() && socket.ended.is_none();
                if paused && socket.chunks.is_empty() {
                    drop(table);
                    arm(&self.core, self.index);
                }
                return Poll::Ready(Ok(Some(lease)));
            }
            if let Some(ended) = socket.ended {
                return Poll::Ready(ended.map(|()| None));
            }
            if std::mem::take(&mut socket.timed_out) {
                return Poll::Ready(Err(NetError::TimedOut));
            }
            socket.waker = Some(context.waker().clone());
            wait_until(&self.core, socket, self.index, deadline);
            Poll::Pending
        })
        .await
    }

    fn reset(self) {
        let mut table = self.core.sockets.borrow_mut();
        if let Some(fd) = &table.at(self.index).fd {
            // A socket that refuses the option closes in order instead, which loses no bytes.
            let _ = socket::set_no_linger(fd.as_raw_fd());
        }
    }

    fn is_quiet(&self) -> bool {
        let mut table = self.core.sockets.borrow_mut();
        let socket = table.at(self.index);
        socket.chunks.is_empty() && socket.ended.is_none() && socket.sending.is_none()
    }

    fn peer(&self) -> SocketAddr {
        self.peer
    }

    fn local(&self) -> SocketAddr {
        let mut table = self.core.sockets.borrow_mut();
        let fd = table.at(self.index).fd.as_ref().map_or(-1, |fd| fd.as_raw_fd());
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        socket::local_address(fd).unwrap_or(unknown)
    }
}

impl Drop for RingStream {
    fn drop(&mut self) {
        let mut table = self.core.sockets.borrow_mut();
        let mut uring = self.core.uring.borrow_mut();
        let socket = table.at(self.index);
        socket.dropped = true;
        socket.waker = None;
        socket.chunks.clear();
        for key in [socket.receive, socket.sending].into_iter().flatten() {
            uring.push(Operation::Cancel { key }, Target::Nobody.tag());
        }
        if let Some(fd) = socket.fd.take() {
            uring.push(Operation::close(fd), Target::SocketClose(self.index).tag());
            socket.closing = true;
        }
    }
}

fn wait_until(core: &Rc<Core>, socket: &mut Socket, index: u32, deadline: Time) {
    socket.deadline = deadline;
    if deadline < socket.alarm_at {
        socket.alarm_at = deadline;
        let alarm = Alarm::Socket(index, socket.generation);
        core.timers.borrow_mut().add(deadline, alarm);
    }
}

/// Handles an entry of the timer heap for this socket that came due: either the wait is over, or
/// its deadline has been moved to later.
pub(super) fn deadline_passed(
    core: &Rc<Core>,
    index: u32,
    generation: u32,
    now: Time,
) -> Option<Waker> {
    let mut table = core.sockets.borrow_mut();
    let socket = table.sockets.get_mut(index as usize)?.as_mut()?;
    if socket.generation != generation || socket.dropped {
        return None;
    }
    socket.alarm_at = Time::NEVER;
    socket.waker.as_ref()?;
    if socket.deadline > now {
        let deadline = socket.deadline;
        wait_until(core, socket, index, deadline);
        return None;
    }
    socket.timed_out = true;
    socket.waker.take()
}

fn arm(core: &Rc<Core>, index: u32) {
    let mut table = core.sockets.borrow_mut();
    let socket = table.at(index);
    let Some(fd) = socket.fd.as_ref() else { return };
    let operation = Operation::Receive { fd: fd.as_raw_fd() };
    let key = core.uring.borrow_mut().push(operation, Target::SocketReceive(index).tag());
    socket.receive = Some(key);
}

/// Arms the receive of a starved socket again, unless the socket has been dropped since.
pub(super) fn arm_again(core: &Rc<Core>, index: u32) {
    let wanted = {
        let table = core.sockets.borrow();
        let socket = table.sockets.get(index as usize).and_then(Option::as_ref);
        socket.is_some_and(|s| !s.dropped && s.receive.is_none() && s.ended.is_none())
    };
    if wanted {
        arm(core, index);
    }
}

pub(super) fn take_event(core: &Rc<Core>, target: Target, event: Event) {
    let waker = match target {
        Target::SocketReceive(index) => take_receive(core, index, event),
        Target::SocketSend(index) | Target::SocketConnect(index) => take_send(core, index, event),
        Target::SocketClose(index) => {
            let mut table = core.sockets.borrow_mut();
            table.at(index).closing = false;
            table.settle(index);
            None
        }
        Target::Listener(index) => take_accept(core, index, event),
        Target::Wait(_) | Target::Wake | Target::Nobody => None,
    };
    if let Some(waker) = waker {
        waker.wake();
    }
}

fn take_send(core: &Rc<Core>, index: u32, event: Event) -> Option<Waker> {
    let operation = event.ended?;
    let mut table = core.sockets.borrow_mut();
    let socket = table.at(index);
    socket.sending = None;
    if socket.dropped {
        table.settle(index);
        return None;
    }
    socket.sent = Some((event.result, operation));
    socket.waker.take()
}

fn take_receive(core: &Rc<Core>, index: u32, event: Event) -> Option<Waker> {
    let mut table = core.sockets.borrow_mut();
    let socket = table.at(index);
    let over = event.ended.is_some();
    if over {
        socket.receive = None;
    }
    if socket.dropped {
        table.settle(index);
        return None;
    }
    match (event.result, event.lease) {
        (1.., Some(lease)) => {
            socket.chunks.push_back(lease);
            core.spend(|effort| effort.piece_count += 1);
            let waker = socket.waker.take();
            if over {
                drop(table);
                rearm_or_pause(core, index);
            } else if socket.chunks.len() >= limits::STREAM_CHUNK_COUNT_MAX
                && let Some(key) = socket.receive
            {
                // The reader is slower than the peer: no more buffers are taken until the reader
                // has caught up.
                core.uring.borrow_mut().push(Operation::Cancel { key }, Target::Nobody.tag());
            }
            return waker;
        }
        (0, _) => socket.ended = Some(Ok(())),
        (result, _) if result == -libc::ENOBUFS => {
            core.starved.borrow_mut().push_back(index);
            core.spend(|effort| effort.starved_count += 1);
            return None;
        }
        // We paused the receive; it is armed again when the reader has caught up.
        (result, _) if result == -libc::ECANCELED => {
            if socket.chunks.is_empty() {
                drop(table);
                arm(core, index);
            }
            return None;
        }
        (result, _) => socket.ended = Some(Err(net_error(-result))),
    }
    socket.waker.take()
}

/// Arms a multishot receive again that the kernel ended while data flows, unless the reader is
/// behind.
fn rearm_or_pause(core: &Rc<Core>, index: u32) {
    let waiting = core.sockets.borrow_mut().at(index).chunks.len();
    if waiting < limits::STREAM_CHUNK_COUNT_MAX {
        arm(core, index);
    }
}

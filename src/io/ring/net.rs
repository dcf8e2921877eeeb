//! Connecting, listening and datagrams on the ring.

use super::driver::Target;
use super::socket::RingStream;
use super::{Core, RingWorld};
use crate::base::Time;
use crate::base::limits;
use crate::io::{Datagram, Listener, Net, NetError};
use crate::sys::socket;
use crate::sys::uring::{Event, Key, Operation};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::task::{Poll, Waker};

impl Net for RingWorld {
    type Stream = RingStream;
    type Listener = RingListener;
    type Datagram = RingDatagram;

    async fn connect(&self, to: SocketAddr, deadline: Time) -> Result<RingStream, NetError> {
        RingStream::connect(self, to, deadline).await
    }

    fn listen(&self, at: SocketAddr) -> Result<RingListener, NetError> {
        let fd = socket::listener(at, limits::LISTEN_BACKLOG).map_err(net_error)?;
        let local = socket::local_address(fd.as_raw_fd()).map_err(net_error)?;
        let state = ListenerState {
            fd,
            arrived: VecDeque::new(),
            accept: None,
            failed: None,
            waker: None,
            dropped: false,
        };
        let index = self.0.listeners.borrow_mut().insert(state);
        Ok(RingListener { core: self.0.clone(), index, local })
    }

    fn datagram(&self, at: SocketAddr, peer: Option<SocketAddr>) -> Result<RingDatagram, NetError> {
        let fd = socket::datagram(at, peer).map_err(net_error)?;
        let local = socket::local_address(fd.as_raw_fd()).map_err(net_error)?;
        let buffer = RefCell::new(vec![0; limits::DATAGRAM_BYTES_MAX].into_boxed_slice());
        Ok(RingDatagram { core: self.0.clone(), fd, local, connected: peer.is_some(), buffer })
    }
}

/// The listeners of one core. They are few and live long, so slots are never reused.
#[derive(Default)]
pub(super) struct Listeners(Vec<ListenerState>);

impl Listeners {
    fn insert(&mut self, state: ListenerState) -> u32 {
        self.0.push(state);
        (self.0.len() - 1) as u32
    }
}

struct ListenerState {
    fd: OwnedFd,
    arrived: VecDeque<OwnedFd>,
    accept: Option<Key>,
    failed: Option<NetError>,
    waker: Option<Waker>,
    dropped: bool,
}

pub struct RingListener {
    core: Rc<Core>,
    index: u32,
    local: SocketAddr,
}

impl Listener for RingListener {
    type Stream = RingStream;

    async fn accept(&self) -> Result<RingStream, NetError> {
        let fd = std::future::poll_fn(|context| {
            let mut listeners = self.core.listeners.borrow_mut();
            let state = &mut listeners.0[self.index as usize];
            if let Some(fd) = state.arrived.pop_front() {
                return Poll::Ready(Ok(fd));
            }
            if let Some(error) = state.failed.take() {
                return Poll::Ready(Err(error));
            }
            state.waker = Some(context.waker().clone());
            if state.accept.is_none() {
                let operation = Operation::Accept { fd: state.fd.as_raw_fd() };
                let tag = Target::Listener(self.index).tag();
                state.accept = Some(self.core.uring.borrow_mut().push(operation, tag));
            }
            Poll::Pending
        })
        .await?;
        RingStream::adopt(&self.core, fd)
    }

    fn local(&self) -> SocketAddr {
        self.local
    }
}

impl Drop for RingListener {
    fn drop(&mut self) {
        let mut listeners = self.core.listeners.borrow_mut();
        let state = &mut listeners.0[self.index as usize];
        state.dropped = true;
        state.arrived.clear();
        if let Some(key) = state.accept {
            self.core.uring.borrow_mut().push(Operation::Cancel { key }, Target::Nobody.tag());
        }
    }
}

pub(super) fn take_accept(core: &Rc<Core>, index: u32, event: Event) -> Option<Waker> {
    let mut listeners = core.listeners.borrow_mut();
    let state = &mut listeners.0[index as usize];
    if event.ended.is_some() {
        state.accept = None;
    }
    if event.result >= 0 {
        let fd = socket::adopt(event.result);
        if !state.dropped {
            state.arrived.push_back(fd);
        }
        // Accepting pauses here: connections that the program has not taken stay in the system's
        // queue.
        if state.arrived.len() >= limits::ACCEPT_QUEUE_COUNT_MAX
            && let Some(key) = state.accept
        {
            core.uring.borrow_mut().push(Operation::Cancel { key }, Target::Nobody.tag());
        }
    } else if event.result != -libc::ECANCELED {
        state.failed = Some(net_error(-event.result));
    }
    state.waker.take()
}

pub struct RingDatagram {
    core: Rc<Core>,
    fd: OwnedFd,
    local: SocketAddr,
    connected: bool,
    buffer: RefCell<Box<[u8]>>,
}

impl Datagram for RingDatagram {
    fn send(&self, bytes: &[u8], to: SocketAddr) -> Result<(), NetError> {
        let to = (!self.connected).then_some(to);
        socket::send_datagram(self.fd.as_raw_fd(), bytes, to).map_err(net_error)
    }

    async fn receive(&self, deadline: Time) -> Result<(Vec<u8>, SocketAddr), NetError> {
        loop {
            let received =
                socket::receive_datagram(self.fd.as_raw_fd(), &mut self.buffer.borrow_mut());
            match received {
                Ok((len, from)) => return Ok((self.buffer.borrow()[..len].to_vec(), from)),
                Err(libc::EAGAIN | libc::EINTR) => {}
                Err(number) => return Err(net_error(number)),
            }
            let poll = || Operation::PollIn { fd: self.fd.as_raw_fd() };
            match self.core.perform(poll, deadline).await {
                None => return Err(NetError::TimedOut),
                Some((result, _)) if result < 0 => return Err(net_error(-result)),
                Some(_) => {}
            }
        }
    }

    fn local(&self) -> SocketAddr {
        self.local
    }
}

pub(super) fn net_error(number: i32) -> NetError {
    match number {
        libc::ECONNREFUSED => NetError::Refused,
        libc::ECONNRESET | libc::ECONNABORTED => NetError::Reset,
        libc::EPIPE | libc::ENOTCONN => NetError::Closed,
        libc::ETIMEDOUT => NetError::TimedOut,
        libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN | libc::EHOSTDOWN => {
            NetError::Unreachable
        }
        libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM | libc::EADDRNOTAVAIL => {
            NetError::Exhausted
        }
        libc::EADDRINUSE => NetError::AddressInUse,
        libc::EACCES | libc::EPERM => NetError::PermissionDenied,
        other => NetError::Os(other),
    }
}

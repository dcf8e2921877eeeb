//! Sockets as the crawler sees them: streams that lend their receive buffers, and datagrams.
//!
//! A received [`Stream::Chunk`] is the world's own buffer (in production, the ring's): it is parsed
//! in place and given back by dropping it. A task that holds many chunks starves other connections,
//! so a task drops each chunk before it waits for the next.

use crate::base::Time;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::ops::Deref;

pub trait Net {
    type Stream: Stream;
    type Listener: Listener<Stream = Self::Stream>;
    type Datagram: Datagram;

    fn connect(
        &self,
        to: SocketAddr,
        deadline: Time,
    ) -> impl Future<Output = Result<Self::Stream, NetError>>;

    fn listen(&self, at: SocketAddr) -> Result<Self::Listener, NetError>;

    /// Makes a socket bound to `at`. With a `peer` the socket is connected: datagrams from other
    /// senders never reach it.
    fn datagram(
        &self,
        at: SocketAddr,
        peer: Option<SocketAddr>,
    ) -> Result<Self::Datagram, NetError>;
}

/// Both directions of a TCP connection. Dropping it closes the connection.
pub trait Stream: 'static {
    type Chunk: Deref<Target = [u8]> + 'static;

    /// Sends all of `bytes` and gives the buffer back. After an error or a dropped future an
    /// unknown part was sent, and the connection can only be closed.
    fn send(
        &mut self,
        bytes: Vec<u8>,
        deadline: Time,
    ) -> impl Future<Output = Result<Vec<u8>, NetError>>;

    /// Returns the next bytes in order, never empty, or `None` when the peer has closed its side.
    /// Dropping the future loses nothing.
    fn receive(
        &mut self,
        deadline: Time,
    ) -> impl Future<Output = Result<Option<Self::Chunk>, NetError>>;

    /// Closes at once with a reset, as a server does that crashes. What was not sent yet is lost.
    fn reset(self);

    /// Reports whether the peer has neither sent anything nor closed since the last receive. A
    /// pooled connection must be quiet before a request may be sent on it.
    fn is_quiet(&self) -> bool;

    fn peer(&self) -> SocketAddr;

    fn local(&self) -> SocketAddr;
}

pub trait Listener: 'static {
    type Stream: Stream;

    fn accept(&self) -> impl Future<Output = Result<Self::Stream, NetError>>;

    /// Returns the address it listens at, with the port that the system chose if zero was asked
    /// for.
    fn local(&self) -> SocketAddr;
}

pub trait Datagram: 'static {
    /// Sends at once or not at all: if the socket buffer is full, the datagram is lost, as it might
    /// be in the network.
    fn send(&self, bytes: &[u8], to: SocketAddr) -> Result<(), NetError>;

    /// Returns one datagram and its sender. A datagram longer than the receive buffer is cut.
    fn receive(
        &self,
        deadline: Time,
    ) -> impl Future<Output = Result<(Vec<u8>, SocketAddr), NetError>>;

    fn local(&self) -> SocketAddr;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NetError {
    /// The deadline passed first.
    TimedOut,
    Refused,
    Reset,
    /// The peer closed before all was sent.
    Closed,
    Unreachable,
    /// We have no descriptor, port or memory for the socket. The caller should shed load and try
    /// again.
    Exhausted,
    AddressInUse,
    PermissionDenied,
    /// Any other error, with the system's error number.
    Os(i32),
}

impl fmt::Display for NetError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NetError::TimedOut => out.write_str("timed out"),
            NetError::Refused => out.write_str("connection refused"),
            NetError::Reset => out.write_str("connection reset"),
            NetError::Closed => out.write_str("closed by peer"),
            NetError::Unreachable => out.write_str("unreachable"),
            NetError::Exhausted => out.write_str("out of sockets, ports or buffers"),
            NetError::AddressInUse => out.write_str("address in use"),
            NetError::PermissionDenied => out.write_str("permission denied"),
            NetError::Os(number) => write!(out, "system error {number}"),
        }
    }
}

impl std::error::Error for NetError {}

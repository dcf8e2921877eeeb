//! Socket calls that are not worth a ring operation, and socket addresses in the kernel's form.

use super::{check, last_error};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A socket address as the kernel reads it.
#[repr(C)]
pub struct RawAddress {
    storage: libc::sockaddr_storage,
    len: libc::socklen_t,
}

impl RawAddress {
    pub fn new(address: SocketAddr) -> RawAddress {
        // SAFETY: all-zero is a valid sockaddr_storage; it is large and aligned enough for the
        // specific forms written below.
        unsafe {
            let mut storage: libc::sockaddr_storage = std::mem::zeroed();
            let start = &raw mut storage;
            let len = match address {
                SocketAddr::V4(v4) => {
                    let form = libc::sockaddr_in {
                        sin_family: libc::AF_INET as libc::sa_family_t,
                        sin_port: v4.port().to_be(),
                        sin_addr: libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() },
                        sin_zero: [0; 8],
                    };
                    start.cast::<libc::sockaddr_in>().write(form);
                    std::mem::size_of::<libc::sockaddr_in>()
                }
                SocketAddr::V6(v6) => {
                    let form = libc::sockaddr_in6 {
                        sin6_family: libc::AF_INET6 as libc::sa_family_t,
                        sin6_port: v6.port().to_be(),
                        sin6_flowinfo: v6.flowinfo(),
                        sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                        sin6_scope_id: v6.scope_id(),
                    };
                    start.cast::<libc::sockaddr_in6>().write(form);
                    std::mem::size_of::<libc::sockaddr_in6>()
                }
            };
            RawAddress { storage, len: len as libc::socklen_t }
        }
    }

    fn empty() -> RawAddress {
        // SAFETY: all-zero is a valid sockaddr_storage.
        let storage = unsafe { std::mem::zeroed() };
        RawAddress { storage, len: std::mem::size_of::<libc::sockaddr_storage>() as u32 }
    }

    pub(super) fn as_ptr(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }

    pub(super) fn len(&self) -> libc::socklen_t {
        self.len
    }

    pub fn address(&self) -> Option<SocketAddr> {
        let start = &raw const self.storage;
        // SAFETY: the family says which form the storage holds.
        unsafe {
            match i32::from(self.storage.ss_family) {
                libc::AF_INET => {
                    let form = start.cast::<libc::sockaddr_in>().read();
                    let ip = Ipv4Addr::from(u32::from_be(form.sin_addr.s_addr));
                    Some(SocketAddr::new(IpAddr::V4(ip), u16::from_be(form.sin_port)))
                }
                libc::AF_INET6 => {
                    let form = start.cast::<libc::sockaddr_in6>().read();
                    let ip = Ipv6Addr::from(form.sin6_addr.s6_addr);
                    Some(SocketAddr::new(IpAddr::V6(ip), u16::from_be(form.sin6_port)))
                }
                _ => None,
            }
        }
    }
}

/// Makes a non-blocking TCP socket of the family of `address` that sends small segments at once.
pub fn stream_socket(address: SocketAddr) -> Result<OwnedFd, i32> {
    let fd = open(address, libc::SOCK_STREAM)?;
    set(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    Ok(fd)
}

/// Makes an accepted connection send small segments at once.
pub fn set_nodelay(fd: RawFd) -> Result<(), i32> {
    set(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)
}

/// Makes closing send a reset from now on, and drop what is still to be sent.
pub fn set_no_linger(fd: RawFd) -> Result<(), i32> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: the value is a linger of the stated size.
    check(unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of::<libc::linger>() as u32,
        )
    })
    .map(|_| ())
}

/// Makes a listening socket. An unspecified address is bound to the loopback device: a test web
/// that answers on every 127.x.y.z must not answer on a real interface.
pub fn listener(address: SocketAddr, backlog: i32) -> Result<OwnedFd, i32> {
    let fd = open(address, libc::SOCK_STREAM)?;
    set(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    if address.ip().is_unspecified() {
        bind_to_loopback(fd.as_raw_fd())?;
    }
    bind(fd.as_raw_fd(), address)?;
    // SAFETY: plain call on an open descriptor.
    check(unsafe { libc::listen(fd.as_raw_fd(), backlog) })?;
    Ok(fd)
}

pub fn datagram(address: SocketAddr, peer: Option<SocketAddr>) -> Result<OwnedFd, i32> {
    let fd = open(address, libc::SOCK_DGRAM)?;
    bind(fd.as_raw_fd(), address)?;
    if let Some(peer) = peer {
        let raw = RawAddress::new(peer);
        // SAFETY: the address outlives the call.
        check(unsafe { libc::connect(fd.as_raw_fd(), raw.as_ptr(), raw.len()) })?;
    }
    Ok(fd)
}

/// Sends one datagram to `to`, or to the connected peer if `to` is absent.
pub fn send_datagram(fd: RawFd, bytes: &[u8], to: Option<SocketAddr>) -> Result<(), i32> {
    let raw = to.map(RawAddress::new);
    let (pointer, len) =
        raw.as_ref().map_or((std::ptr::null(), 0), |raw| (raw.as_ptr(), raw.len()));
    // SAFETY: bytes and address outlive the call.
    let sent = unsafe {
        libc::sendto(fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT, pointer, len)
    };
    if sent < 0 { Err(last_error()) } else { Ok(()) }
}

/// Receives one waiting datagram into `buffer`; fails with `EAGAIN` if there is none.
pub fn receive_datagram(fd: RawFd, buffer: &mut [u8]) -> Result<(usize, SocketAddr), i32> {
    let mut from = RawAddress::empty();
    // SAFETY: buffer and address outlive the call and have the stated sizes.
    let received = unsafe {
        libc::recvfrom(
            fd,
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            libc::MSG_DONTWAIT,
            (&raw mut from.storage).cast(),
            &raw mut from.len,
        )
    };
    if received < 0 {
        return Err(last_error());
    }
    Ok((received as usize, from.address().ok_or(libc::EAFNOSUPPORT)?))
}

pub fn local_address(fd: RawFd) -> Result<SocketAddr, i32> {
    let mut raw = RawAddress::empty();
    // SAFETY: the storage has the stated size.
    check(unsafe { libc::getsockname(fd, (&raw mut raw.storage).cast(), &raw mut raw.len) })?;
    raw.address().ok_or(libc::EAFNOSUPPORT)
}

pub fn peer_address(fd: RawFd) -> Result<SocketAddr, i32> {
    let mut raw = RawAddress::empty();
    // SAFETY: the storage has the stated size.
    check(unsafe { libc::getpeername(fd, (&raw mut raw.storage).cast(), &raw mut raw.len) })?;
    raw.address().ok_or(libc::EAFNOSUPPORT)
}

/// Takes ownership of a descriptor that a completion brought.
pub fn adopt(fd: RawFd) -> OwnedFd {
    assert!(fd >= 0);
    // SAFETY: the caller got `fd` from an accept completion, which hands it out once.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn open(address: SocketAddr, kind: i32) -> Result<OwnedFd, i32> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: plain call; the descriptor is owned at once.
    let fd =
        check(unsafe { libc::socket(family, kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn bind(fd: RawFd, address: SocketAddr) -> Result<(), i32> {
    let raw = RawAddress::new(address);
    // SAFETY: the address outlives the call.
    check(unsafe { libc::bind(fd, raw.as_ptr(), raw.len()) }).map(|_| ())
}

fn set(fd: RawFd, level: i32, option: i32, value: i32) -> Result<(), i32> {
    // SAFETY: the value is an int of the stated size.
    check(unsafe {
        libc::setsockopt(fd, level, option, (&raw const value).cast(), size_of::<i32>() as u32)
    })
    .map(|_| ())
}

fn bind_to_loopback(fd: RawFd) -> Result<(), i32> {
    let name = b"lo\0";
    // SAFETY: the name has the stated length.
    check(unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            name.as_ptr().cast(),
            name.len() as u32,
        )
    })
    .map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_kernels_form() {
        for text in ["127.1.2.3:80", "[::1]:443", "[2001:db8::7]:1", "255.255.255.255:65535"] {
            let address: SocketAddr = text.parse().expect("an address");
            assert_eq!(RawAddress::new(address).address(), Some(address));
        }
    }
}

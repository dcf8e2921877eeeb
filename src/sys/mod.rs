//! The operating system, behind safe faces. All unsafe code of the crate lives here and in files
//! named `simd.rs`; nothing here knows of HTTP, crawling or futures.
//!
//! What is unsafe and why safe code would lose: the socket ring hands memory to the kernel and gets
//! it back by completion (measured in DESIGN.md: 65-73 K pages/s against 27-44 K over a safe
//! TcpStream). The rules that make it sound are at [`uring::Uring`] and [`pool::BufferPool`]. The
//! vector instructions of [`scan`] double the speed of reading a page (measured there); those of
//! [`block`] look at 64 bytes at a time, and took SimHash from 434 to 367 thousand instructions;
//! those of [`sha1`] hash two payloads in 1.13 times the time of one; those of [`cmac`] hash a link
//! with a key in fewer instructions than SipHash-1-3, 133 for 268.
#![allow(unsafe_code)]

pub mod affinity;
pub mod block;
pub mod cmac;
pub mod file;
#[cfg(test)]
pub mod hold;
pub mod memory;
pub mod pool;
pub mod process;
pub mod processor;
pub mod scan;
pub mod sha1;
pub mod signals;
pub mod socket;
pub mod uring;

use std::io;

/// The last system error as a positive number.
fn last_error() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// Turns a C result into the system's error number.
fn check(result: i32) -> Result<i32, i32> {
    if result < 0 { Err(last_error()) } else { Ok(result) }
}

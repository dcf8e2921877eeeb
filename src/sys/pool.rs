//! Receive buffers shared with the kernel: a provided-buffer ring and the memory behind it.
//!
//! The kernel takes a buffer for every receive. The bytes are read in place through a [`Lease`],
//! and dropping the lease gives the buffer back. A pool belongs to one core.
//!
//! The kernel takes buffers in the order in which it got them. If it held all buffers of the pool,
//! it would cycle through all of the memory, 32 MB, and no cache would hold a buffer when its turn
//! comes. So it holds only a few at a time, the ones that were used last.

use io_uring::types::BufRingEntry;
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, Ordering};

/// Invariants that the unsafe code rests on:
/// 1. A buffer id is with the kernel (published in the ring), in `resting`, or in one `Lease`.
/// 2. `memory` and `entries` are mapped for the pool's whole life, and the pool outlives every
///    lease (each holds an `Rc`). [`super::uring::Uring`] keeps the pool alive until its ring is
///    closed.
/// 3. Only this thread writes `entries`; the kernel reads them after the release store of the tail.
pub struct BufferPool {
    entries: NonNull<BufRingEntry>,
    memory: NonNull<u8>,
    count: u16,
    buffer_size: usize,
    tail: Cell<u16>,
    /// Buffers in leases.
    lent: Cell<u16>,
    /// Buffers that the kernel holds, and the most that it may hold.
    ready: Cell<u16>,
    ready_max: u16,
    /// Buffers that are neither with the kernel nor in a lease, the last used one at the end.
    resting: RefCell<Vec<u16>>,
}

/// Received bytes in the pool's memory.
pub struct Lease {
    pool: Rc<BufferPool>,
    id: u16,
    len: u32,
}

impl BufferPool {
    /// Maps the memory and publishes the first `ready_max` buffers. `count` is a power of two.
    pub fn new(count: u16, ready_max: u16, buffer_size: usize) -> Result<BufferPool, i32> {
        assert!((1..=count).contains(&ready_max));
        assert!(count.is_power_of_two() && buffer_size > 0 && buffer_size <= u32::MAX as usize);
        let entries = map(count as usize * std::mem::size_of::<BufRingEntry>())?;
        let memory = map(count as usize * buffer_size)?;
        let pool = BufferPool {
            entries: entries.cast(),
            memory,
            count,
            buffer_size,
            tail: Cell::new(0),
            lent: Cell::new(0),
            ready: Cell::new(0),
            ready_max,
            resting: RefCell::new((0..count).rev().collect()),
        };
        pool.top_up();
        Ok(pool)
    }

    pub(super) fn ring_address(&self) -> u64 {
        self.entries.as_ptr() as u64
    }

    pub fn count(&self) -> u16 {
        self.count
    }

    pub fn lent_count(&self) -> u16 {
        self.lent.get()
    }

    /// Turns the buffer that a completion named into a lease. The caller is [`super::uring`], once
    /// for each completion, which makes the lease exclusive.
    pub(super) fn lease(self: &Rc<Self>, id: u16, len: u32) -> Lease {
        assert!(id < self.count && len as usize <= self.buffer_size);
        self.lent.set(self.lent.get() + 1);
        self.ready.set(self.ready.get() - 1);
        Lease { pool: self.clone(), id, len }
    }

    /// Publishes buffers until the kernel holds as many as it may. Must be called before the kernel
    /// is asked to receive.
    pub(super) fn top_up(&self) {
        let mut resting = self.resting.borrow_mut();
        while self.ready.get() < self.ready_max
            && let Some(id) = resting.pop()
        {
            self.publish(id);
        }
    }

    fn give_back(&self, id: u16) {
        self.lent.set(self.lent.get() - 1);
        self.resting.borrow_mut().push(id);
    }

    fn publish(&self, id: u16) {
        self.ready.set(self.ready.get() + 1);
        let tail = self.tail.get();
        let index = (tail & (self.count - 1)) as usize;
        // SAFETY: index is below count; invariant 3. The kernel does not read the entry before the
        // store of the tail below.
        unsafe {
            let entry = self.entries.add(index).as_mut();
            entry.set_addr(self.memory.add(id as usize * self.buffer_size).as_ptr() as u64);
            entry.set_len(self.buffer_size as u32);
            entry.set_bid(id);
        }
        self.tail.set(tail.wrapping_add(1));
        // SAFETY: the tail lies in the first entry's reserved half-word, aligned for u16, mapped
        // (invariant 2), and is only ever accessed atomically once the kernel knows the ring.
        let shared =
            unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.entries.as_ptr()) as *mut u16) };
        shared.store(self.tail.get(), Ordering::Release);
    }
}

impl Drop for BufferPool {
    fn drop(&mut self) {
        let entries = self.count as usize * std::mem::size_of::<BufRingEntry>();
        // SAFETY: both mappings were made in `new` with these sizes and nothing refers to them any
        // more (invariant 2).
        unsafe {
            libc::munmap(self.entries.as_ptr().cast(), entries);
            libc::munmap(self.memory.as_ptr().cast(), self.count as usize * self.buffer_size);
        }
    }
}

impl Deref for Lease {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: invariant 1: the kernel does not write a leased buffer, and nobody else has it.
        unsafe {
            let start = self.pool.memory.add(self.id as usize * self.pool.buffer_size);
            std::slice::from_raw_parts(start.as_ptr(), self.len as usize)
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.give_back(self.id);
    }
}

fn map(size: usize) -> Result<NonNull<u8>, i32> {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_ANONYMOUS | libc::MAP_PRIVATE);
    // SAFETY: a fresh anonymous mapping; no existing memory is touched.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), size, protection, flags, -1, 0) };
    if address == libc::MAP_FAILED {
        return Err(super::last_error());
    }
    NonNull::new(address.cast()).ok_or(libc::ENOMEM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_count_and_come_back() {
        let pool = Rc::new(BufferPool::new(8, 8, 64).expect("memory"));
        assert_eq!(pool.lent_count(), 0);
        let lease = pool.lease(3, 10);
        assert_eq!((lease.len(), pool.lent_count()), (10, 1));
        drop(lease);
        assert_eq!(pool.lent_count(), 0);
    }

    #[test]
    fn the_kernel_gets_what_was_used_last() {
        let pool = Rc::new(BufferPool::new(8, 2, 64).expect("memory"));
        assert_eq!((pool.ready.get(), pool.tail.get()), (2, 2));
        // As the kernel would take them: 0 and 1, then those published after them.
        let leases = [pool.lease(0, 1), pool.lease(1, 1)];
        pool.top_up();
        assert_eq!((pool.ready.get(), pool.tail.get()), (2, 4));
        drop(leases);
        assert_eq!(*pool.resting.borrow(), [7, 6, 5, 4, 0, 1]);
        drop(pool.lease(2, 1));
        pool.top_up();
        assert_eq!(*pool.resting.borrow(), [7, 6, 5, 4, 0, 1]);
        assert_eq!((pool.ready.get(), pool.lent_count()), (2, 0));
    }
}

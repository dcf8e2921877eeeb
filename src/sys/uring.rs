//! One io_uring as a table of operations that own their memory.
//!
//! In: [`Operation`]s with a tag. Out: [`Event`]s, each with its tag, its result and, at the end of
//! the operation, the memory that the operation owned. A ring belongs to the core that made it
//! (SINGLE_ISSUER).

use super::affinity;
use super::pool::{BufferPool, Lease};
use super::socket::RawAddress;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use std::os::fd::{IntoRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::time::Duration;

/// What the kernel is asked to do. Memory inside does not move until the operation ends.
pub enum Operation {
    Connect {
        fd: RawFd,
        to: Box<RawAddress>,
    },
    /// Sends `bytes[from..]`.
    Send {
        fd: RawFd,
        bytes: Vec<u8>,
        from: usize,
    },
    /// Multishot receive into pool buffers.
    Receive {
        fd: RawFd,
    },
    /// Multishot accept; the result of every event is a new descriptor.
    Accept {
        fd: RawFd,
    },
    /// Waits once until the descriptor is readable.
    PollIn {
        fd: RawFd,
    },
    /// Writes `bytes[from..to]` at `offset`.
    Write {
        fd: RawFd,
        bytes: Vec<u8>,
        from: usize,
        to: usize,
        offset: u64,
    },
    /// Reads up to the capacity of `bytes`, which is empty.
    Read {
        fd: RawFd,
        bytes: Vec<u8>,
        offset: u64,
    },
    Sync {
        fd: RawFd,
    },
    /// Made by [`Operation::close`], which takes ownership of the descriptor.
    Close {
        fd: RawFd,
    },
    Cancel {
        key: Key,
    },
}

/// Names an operation under way, for [`Operation::Cancel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(u64);

pub struct Event {
    pub tag: u64,
    /// The result that the system call would return; a negative one is an error number.
    pub result: i32,
    /// Received bytes, for [`Operation::Receive`] with a positive result.
    pub lease: Option<Lease>,
    /// The operation with its memory, given back when it has ended; `None` while a multishot
    /// operation goes on.
    pub ended: Option<Operation>,
}

struct Entry {
    operation: Operation,
    tag: u64,
}

/// Invariants that the unsafe code rests on:
/// 1. An operation's memory lives in `table` (boxed or in a `Vec` that is not touched) from the
///    push until its last completion, so every pointer in a submitted entry stays valid.
/// 2. Dropping the ring cancels the operations under way and waits for them before `table` and
///    `pool` are dropped.
/// 3. A descriptor in an operation may be closed before the operation ends, because the kernel
///    holds its own reference.
pub struct Uring {
    ring: IoUring<squeue::Entry, cqueue::Entry>,
    table: Vec<Option<Entry>>,
    free: Vec<u32>,
    pool: Rc<BufferPool>,
    /// Entries that found the submission queue full; they are pushed first at the next turn.
    backlog: std::collections::VecDeque<squeue::Entry>,
}

const BUFFER_GROUP: u16 = 0;

/// Which completions a turn asks the kernel for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Some completions are left to take. Asking for more would fill the queue with completions
    /// that nobody gets to, each with a receive buffer that others need.
    Nothing,
    /// The completions that are there now.
    Now,
    /// The given number of completions, or those that are there after the given time.
    Wait(Duration, usize),
}

/// The flag `IORING_ENTER_GETEVENTS`.
const GETEVENTS: u32 = 1;

impl Uring {
    pub fn new(
        submission_count: u32,
        completion_count: u32,
        pool: Rc<BufferPool>,
    ) -> Result<Uring, i32> {
        let number = |error: std::io::Error| error.raw_os_error().unwrap_or(libc::EIO);
        let ring: IoUring<squeue::Entry, cqueue::Entry> = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_coop_taskrun()
            .setup_cqsize(completion_count)
            .build(submission_count)
            .map_err(number)?;
        // SAFETY: the pool's ring memory outlives the registration (invariant 2, field `pool`).
        unsafe {
            ring.submitter().register_buf_ring_with_flags(
                pool.ring_address(),
                pool.count(),
                BUFFER_GROUP,
                0,
            )
        }
        .map_err(number)?;
        Ok(Uring {
            ring,
            table: Vec::new(),
            free: Vec::new(),
            pool,
            backlog: std::collections::VecDeque::new(),
        })
    }

    /// Restricts the kernel's own workers, which do what would block this thread, to `cores`.
    pub fn keep_workers_to(&self, cores: &[usize]) -> Result<(), i32> {
        let kept = self.ring.submitter().register_iowq_aff(&affinity::set_of(cores));
        kept.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))
    }

    /// Queues an operation; it reaches the kernel at the next [`Uring::turn`].
    pub fn push(&mut self, operation: Operation, tag: u64) -> Key {
        let index = self.free.pop().unwrap_or_else(|| {
            self.table.push(None);
            (self.table.len() - 1) as u32
        });
        let entry = self.table[index as usize].insert(Entry { operation, tag });
        let submission = build(&mut entry.operation).user_data(index as u64);
        self.backlog.push_back(submission);
        Key(index as u64)
    }

    /// Makes one system call. It submits what is queued and, if completions are asked for, runs the
    /// kernel's deferred work so that they appear (with DEFER_TASKRUN they appear only when this
    /// thread asks).
    pub fn turn(&mut self, asked: Asked) -> Result<(), i32> {
        self.pool.top_up();
        loop {
            self.fill();
            let entered = match asked {
                Asked::Wait(wait, count) if self.backlog.is_empty() => {
                    let wait = types::Timespec::from(wait);
                    let arguments = types::SubmitArgs::new().timespec(&wait);
                    self.ring.submitter().submit_with_args(count, &arguments)
                }
                Asked::Nothing => self.enter(0),
                Asked::Now | Asked::Wait(..) => self.enter(GETEVENTS),
            };
            match entered.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO)) {
                Ok(_) if self.backlog.is_empty() => return Ok(()),
                Ok(_) => {}
                Err(libc::ETIME) => return Ok(()),
                Err(libc::EINTR) if matches!(asked, Asked::Wait(..)) => return Ok(()),
                Err(libc::EINTR) => {}
                // Completions must be taken before more is submitted: the caller does so next.
                Err(libc::EBUSY | libc::EAGAIN) => return Ok(()),
                Err(number) => return Err(number),
            }
        }
    }

    /// Reports whether there is anything to submit.
    pub fn has_queued(&mut self) -> bool {
        !self.backlog.is_empty() || !self.ring.submission().is_empty()
    }

    fn enter(&mut self, flags: u32) -> std::io::Result<usize> {
        let count = self.ring.submission().len() as u32;
        // SAFETY: no signal mask and no wait are passed; the entries obey invariant 1.
        unsafe { self.ring.submitter().enter::<libc::sigset_t>(count, 0, flags, None) }
    }

    /// Takes the next completion, if there is one.
    pub fn next_event(&mut self) -> Option<Event> {
        let completion = self.ring.completion().next()?;
        let index = completion.user_data() as usize;
        let (result, flags) = (completion.result(), completion.flags());
        let lease = cqueue::buffer_select(flags)
            .map(|id| self.pool.lease(id, result.max(0) as u32))
            .filter(|_| result > 0);
        let entry = self.table.get_mut(index)?;
        let tag = entry.as_ref()?.tag;
        let ended = if cqueue::more(flags) {
            None
        } else {
            self.free.push(index as u32);
            entry.take().map(|entry| entry.operation)
        };
        Some(Event { tag, result, lease, ended })
    }

    pub fn pool(&self) -> &Rc<BufferPool> {
        &self.pool
    }

    pub fn operation_count(&self) -> usize {
        self.table.len() - self.free.len()
    }

    fn fill(&mut self) {
        let mut queue = self.ring.submission();
        while let Some(entry) = self.backlog.front() {
            // SAFETY: invariant 1: the entry points into `table` or at nothing.
            if unsafe { queue.push(entry) }.is_err() {
                break;
            }
            self.backlog.pop_front();
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // The kernel must let go of the table's memory first: all operations are cancelled, and a
        // bounded number of turns waits for their ends.
        let keys: Vec<u64> = (0..self.table.len() as u64)
            .filter(|index| {
                let entry = &self.table[*index as usize];
                entry
                    .as_ref()
                    .is_some_and(|entry| !matches!(entry.operation, Operation::Close { .. }))
            })
            .collect();
        for key in keys {
            self.push(Operation::Cancel { key: Key(key) }, 0);
        }
        for _ in 0..10_000 {
            if self.operation_count() == 0 || self.turn(Asked::Now).is_err() {
                break;
            }
            while self.next_event().is_some() {}
        }
        if self.operation_count() > 0 {
            // Leaking the memory is better than freeing what the kernel may still write.
            std::mem::forget(std::mem::take(&mut self.table));
            std::mem::forget(self.pool.clone());
        }
    }
}

fn build(operation: &mut Operation) -> squeue::Entry {
    let fd = types::Fd;
    match operation {
        Operation::Connect { fd: at, to } => {
            opcode::Connect::new(fd(*at), to.as_ptr(), to.len()).build()
        }
        Operation::Send { fd: at, bytes, from } => {
            let rest = &bytes[*from..];
            opcode::Send::new(fd(*at), rest.as_ptr(), rest.len().min(MAX_TRANSFER) as u32)
                .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
                .build()
        }
        Operation::Receive { fd: at } => opcode::RecvMulti::new(fd(*at), BUFFER_GROUP).build(),
        Operation::Accept { fd: at } => {
            opcode::AcceptMulti::new(fd(*at)).flags(libc::SOCK_CLOEXEC).build()
        }
        Operation::PollIn { fd: at } => opcode::PollAdd::new(fd(*at), libc::POLLIN as u32).build(),
        Operation::Write { fd: at, bytes, from, to, offset } => {
            let rest = &bytes[*from..*to];
            opcode::Write::new(fd(*at), rest.as_ptr(), rest.len().min(MAX_TRANSFER) as u32)
                .offset(*offset)
                .build()
        }
        Operation::Read { fd: at, bytes, offset } => {
            let room = bytes.capacity().min(MAX_TRANSFER) as u32;
            opcode::Read::new(fd(*at), bytes.as_mut_ptr(), room).offset(*offset).build()
        }
        Operation::Sync { fd: at } => {
            opcode::Fsync::new(fd(*at)).flags(types::FsyncFlags::DATASYNC).build()
        }
        Operation::Close { fd: at } => opcode::Close::new(fd(*at)).build(),
        Operation::Cancel { key } => opcode::AsyncCancel::new(key.0).build(),
    }
}

/// Bytes that one operation moves at most; the caller goes on with the rest.
const MAX_TRANSFER: usize = 1 << 30;

impl Operation {
    /// Returns the bytes that a finished read brought. `result` is the result of its event.
    pub fn into_read_bytes(self, result: i32) -> Option<Vec<u8>> {
        let Operation::Read { mut bytes, .. } = self else { return None };
        let len = usize::try_from(result).ok()?;
        assert!(len <= bytes.capacity());
        // SAFETY: the kernel wrote the first `len` bytes of the capacity that `build` named.
        unsafe { bytes.set_len(len) };
        Some(bytes)
    }

    /// Makes the operation that closes `fd`. The kernel closes it even if the operation fails.
    pub fn close(fd: OwnedFd) -> Operation {
        Operation::Close { fd: fd.into_raw_fd() }
    }
}

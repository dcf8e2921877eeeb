//! The clocks, limits, memory use and wake-up descriptors of this process, and its end.

use super::check;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::thread::JoinHandle;

pub use super::signals::Signals;

/// Returns `CLOCK_MONOTONIC` in nanoseconds.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Returns the nanoseconds since the Unix epoch.
pub fn realtime_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

/// Returns the CPU time that this thread has used, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` outlives the call; the clocks used here always exist.
    let result = unsafe { libc::clock_gettime(clock, &raw mut now) };
    assert_eq!(result, 0, "every Linux has the clocks used here");
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns the CPU time of all threads of this process, the kernel's file workers included.
pub fn process_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Asks a process to end, as Ctrl-C does. A process that is gone is ignored.
pub fn interrupt(process_id: u32) {
    // SAFETY: plain call; whatever its result, it touches no memory of ours.
    unsafe { libc::kill(process_id as libc::pid_t, libc::SIGINT) };
}

/// Ends the process at once, as a kill does: nothing is flushed, no destructor runs, and nothing
/// that stands still can delay it.
pub fn exit_now(code: u8) -> ! {
    // SAFETY: plain call; it does not return.
    unsafe { libc::_exit(code.into()) }
}

/// Returns eight bytes from the kernel's random generator, good enough for secrets.
///
/// # Panics
/// Panics if the kernel returns fewer bytes, which it never does for so few (getrandom(2)).
pub fn entropy_u64() -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: the buffer has the stated length.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    assert_eq!(got, 8, "the kernel gives random bytes");
    u64::from_ne_bytes(bytes)
}

/// Raises the limit of open files to `wanted` if the system allows it, and returns the limit that
/// holds now.
pub fn raise_open_files(wanted: u64) -> Result<u64, i32> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` outlives each call.
    unsafe {
        check(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit))?;
        if limit.rlim_cur >= wanted {
            return Ok(limit.rlim_cur);
        }
        let more = libc::rlimit { rlim_cur: wanted, rlim_max: wanted.max(limit.rlim_max) };
        if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const more) == 0 {
            return Ok(wanted);
        }
        limit.rlim_cur = limit.rlim_max.min(wanted);
        check(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit))?;
    }
    Ok(limit.rlim_cur)
}

/// Returns the resident memory of this process, now and at its peak, in bytes.
pub fn resident_bytes() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    (field("VmRSS:").unwrap_or(0) * 1024, field("VmHWM:").unwrap_or(0) * 1024)
}

/// An eventfd: a write from any thread wakes the core that waits for it.
pub struct EventFd(OwnedFd);

impl EventFd {
    pub fn new() -> Result<EventFd, i32> {
        // SAFETY: plain call; the descriptor is owned at once.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
        // SAFETY: the descriptor is new and nobody else owns it.
        Ok(EventFd(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub fn signal(&self) {
        let one = 1u64;
        // SAFETY: an eventfd takes eight bytes. A full counter (EAGAIN) already wakes the core.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Consumes all signals so far.
    pub fn drain(&self) {
        let mut count = 0u64;
        // SAFETY: an eventfd returns eight bytes. EAGAIN means that there was no signal.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Runs `work` on a thread of its own, so that the caller does not wait for what may stand still,
/// such as a log whose reader does not read. Returns `None` if the system gives no thread.
pub fn aside(work: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    std::thread::Builder::new().name("aside".to_owned()).spawn(work).ok()
}

/// Reports whether the standard stream is a terminal.
pub fn is_terminal(stream: &impl AsRawFd) -> bool {
    // SAFETY: plain call on a descriptor that is open while borrowed.
    unsafe { libc::isatty(stream.as_raw_fd()) == 1 }
}

//! Signals that ask the process to end, read by a thread of their own.
//!
//! The first SIGINT or SIGTERM, and SIGHUP where the process began with a controlling terminal, ask
//! for an orderly end: whoever steers hears of it from [`Signals::wait_ms`]. A second SIGINT or
//! SIGTERM asks for a quick one, and ends the process itself if that takes longer than a grace; a
//! third ends it at once. No other thread is needed for that, and no lock: whatever stands still,
//! the process ends. It ends as a kill ends it, so all that is durable can be resumed.
//!
//! SIGHUP never hastens an end: a terminal that goes may send it more than once.
#![allow(clippy::disallowed_types)] // where threads meet

use super::process::{aside, exit_now, monotonic_ns};
use super::{check, last_error};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Exit codes of processes that a signal has ended begin here, as a shell counts them.
const EXIT_CODE_BASE: u8 = 128;

/// What was asked for, an eventfd that counts down by one a read.
pub struct Signals(Arc<OwnedFd>);

impl Signals {
    /// Blocks the signals for this thread and all it starts later: call it first in main. From the
    /// second on the process has `grace` to end by itself. `hangup` is called, on a thread of its
    /// own, for a SIGHUP that asks for no end.
    pub fn block(grace: Duration, hangup: fn()) -> Result<Signals, i32> {
        let mut signals = vec![libc::SIGINT, libc::SIGTERM];
        if !is_ignored(libc::SIGHUP)? {
            signals.push(libc::SIGHUP);
        }
        let set = set_of(&signals);
        // SAFETY: the set is initialised; the old one is not asked for.
        let blocked =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
        if blocked != 0 {
            return Err(last_error());
        }
        let flags = libc::EFD_NONBLOCK | libc::EFD_CLOEXEC | libc::EFD_SEMAPHORE;
        // SAFETY: plain call; the descriptor is owned at once.
        let asked = unsafe { OwnedFd::from_raw_fd(check(libc::eventfd(0, flags))?) };
        let asked = Arc::new(asked);
        // A terminal that has gone is no controlling terminal any more, so this is asked now.
        let has_terminal = File::open("/dev/tty").is_ok();
        let reader = Reader { set, asked: asked.clone(), grace, has_terminal, hangup };
        let builder = std::thread::Builder::new().name("signals".to_owned());
        let spawned = builder.spawn(move || reader.read());
        spawned.map_err(|error| error.raw_os_error().unwrap_or(libc::EAGAIN))?;
        Ok(Signals(asked))
    }

    /// Waits up to `timeout_ms` for a signal; true if one came.
    pub fn wait_ms(&self, timeout_ms: u32) -> bool {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let mut count = 0u64;
        // SAFETY: one descriptor, as said; eight bytes, as an eventfd gives.
        unsafe {
            libc::poll(&raw mut poll, 1, timeout_ms as i32) > 0
                && libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) == 8
        }
    }
}

/// Whether the process was told to ignore the signal when it was started, as `nohup` does.
fn is_ignored(signal: i32) -> Result<bool, i32> {
    // SAFETY: the old action is written whole before it is read; no new one is set.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        check(libc::sigaction(signal, std::ptr::null(), &raw mut action))?;
        Ok(action.sa_sigaction == libc::SIG_IGN)
    }
}

fn set_of(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: the set is initialised by sigemptyset before use; the signals exist.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        set
    }
}

struct Reader {
    set: libc::sigset_t,
    asked: Arc<OwnedFd>,
    grace: Duration,
    has_terminal: bool,
    hangup: fn(),
}

impl Reader {
    fn read(self) -> ! {
        let mut count = 0;
        // Once there were two, when the process ends, and by which signal.
        let mut end: Option<(u64, i32)> = None;
        loop {
            let Some(signal) = self.next(end.map(|(at_ns, _)| at_ns)) else {
                let (_, signal) = end.expect("only an end has a deadline");
                die(signal);
            };
            match signal {
                libc::SIGHUP if !self.has_terminal => _ = aside(self.hangup),
                libc::SIGHUP if count > 0 => {}
                _ => {
                    count += 1;
                    self.ask();
                    if count == 2 {
                        end = Some((monotonic_ns() + self.grace.as_nanos() as u64, signal));
                    } else if count > 2 {
                        die(signal);
                    }
                }
            }
        }
    }

    /// The next signal; `None` if it is `until_ns` first.
    fn next(&self, until_ns: Option<u64>) -> Option<i32> {
        loop {
            let left_ns = until_ns.map(|until_ns| until_ns.saturating_sub(monotonic_ns()));
            let span = left_ns.map(|ns| libc::timespec {
                tv_sec: (ns / 1_000_000_000) as i64,
                tv_nsec: (ns % 1_000_000_000) as i64,
            });
            let span_at = span.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
            // SAFETY: set and time outlive the call; no information is asked for.
            let signal =
                unsafe { libc::sigtimedwait(&raw const self.set, std::ptr::null_mut(), span_at) };
            if signal > 0 {
                return Some(signal);
            }
            if left_ns == Some(0) {
                return None;
            }
        }
    }

    fn ask(&self) {
        let one = 1u64;
        // SAFETY: eight bytes, as an eventfd wants. It never counts as far as it could.
        unsafe { libc::write(self.asked.as_raw_fd(), (&raw const one).cast(), 8) };
    }
}

/// Says so, unless that could block, and ends the process.
fn die(signal: i32) -> ! {
    let text = "nephila: told to end more than once: the process ends at once; what is on disk can \
                be resumed\n";
    let mut poll = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one descriptor, as said; the text is as long as said.
    unsafe {
        if libc::poll(&raw mut poll, 1, 0) > 0 && poll.revents & libc::POLLOUT != 0 {
            libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
        }
    }
    exit_now(EXIT_CODE_BASE + signal as u8)
}

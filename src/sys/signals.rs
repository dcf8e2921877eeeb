//! Reads the signals that ask the process to end, on a thread of their own.
//!
//! The first SIGINT or SIGTERM asks for an orderly end, and so does SIGHUP where the process began
//! with a controlling terminal; the control thread learns of it from [`Signals::wait_ms`]. A second
//! SIGINT or SIGTERM asks for a quick end, and this thread ends the process if that takes longer
//! than a grace period. A third one ends it at once. This needs no other thread and no lock, so the
//! process ends whatever stands still. It ends as a kill would end it, so whatever is durable can
//! be resumed.
//!
//! SIGHUP never hastens an end, because a terminal that closes may send it more than once.
#![allow(clippy::disallowed_types)] // where threads meet

use super::process::{aside, exit_now, monotonic_ns};
use super::{check, last_error};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Added to a signal's number to give the exit code, as shells do.
const EXIT_CODE_BASE: u8 = 128;

/// The requests to end: an eventfd whose count falls by one with each read.
pub struct Signals(Arc<OwnedFd>);

impl Signals {
    /// Blocks the signals for this thread and all threads that it starts later, so it must be
    /// called first in main. After a second signal the process has `grace` to end by itself.
    /// `hangup` is called, on a thread of its own, for a SIGHUP that does not ask for an end.
    pub fn block(grace: Duration, hangup: fn()) -> Result<Signals, i32> {
        let mut signals = vec![libc::SIGINT, libc::SIGTERM];
        if !is_ignored(libc::SIGHUP)? {
            signals.push(libc::SIGHUP);
        }
        let set = set_of(&signals);
        // SAFETY: the set is initialised; the old set is not asked for.
        let blocked =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
        if blocked != 0 {
            return Err(last_error());
        }
        let flags = libc::EFD_NONBLOCK | libc::EFD_CLOEXEC | libc::EFD_SEMAPHORE;
        // SAFETY: plain call; the descriptor is owned at once.
        let asked = unsafe { OwnedFd::from_raw_fd(check(libc::eventfd(0, flags))?) };
        let asked = Arc::new(asked);
        // A terminal that has closed is no longer the controlling terminal, so this is asked now.
        let has_terminal = File::open("/dev/tty").is_ok();
        let reader = Reader { set, asked: asked.clone(), grace, has_terminal, hangup };
        let builder = std::thread::Builder::new().name("signals".to_owned());
        let spawned = builder.spawn(move || reader.read());
        spawned.map_err(|error| error.raw_os_error().unwrap_or(libc::EAGAIN))?;
        Ok(Signals(asked))
    }

    /// Waits up to `timeout_ms` for a signal; returns true if one came.
    pub fn wait_ms(&self, timeout_ms: u32) -> bool {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let mut count = 0u64;
        // SAFETY: one descriptor is passed, as stated; an eventfd returns eight bytes.
        unsafe {
            libc::poll(&raw mut poll, 1, timeout_ms as i32) > 0
                && libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) == 8
        }
    }
}

/// Reports whether the process was started with the signal ignored, as `nohup` does.
fn is_ignored(signal: i32) -> Result<bool, i32> {
    // SAFETY: the old action is written completely before it is read; no new one is set.
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
        // After the second signal: when the process ends, and by which signal.
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

    /// Returns the next signal, or `None` if `until_ns` comes first.
    fn next(&self, until_ns: Option<u64>) -> Option<i32> {
        loop {
            let left_ns = until_ns.map(|until_ns| until_ns.saturating_sub(monotonic_ns()));
            let span = left_ns.map(|ns| libc::timespec {
                tv_sec: (ns / 1_000_000_000) as i64,
                tv_nsec: (ns % 1_000_000_000) as i64,
            });
            let span_at = span.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
            // SAFETY: the set and the time outlive the call; no signal information is asked for.
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
        // SAFETY: an eventfd takes eight bytes. Its count never reaches its maximum.
        unsafe { libc::write(self.asked.as_raw_fd(), (&raw const one).cast(), 8) };
    }
}

/// Writes a line to standard error, unless that could block, and ends the process.
fn die(signal: i32) -> ! {
    let text = "nephila: told to end more than once, so the process ends now; a crawl can be \
                resumed from what is on disk\n";
    let mut poll = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one descriptor is passed, as stated; the text has the stated length.
    unsafe {
        if libc::poll(&raw mut poll, 1, 0) > 0 && poll.revents & libc::POLLOUT != 0 {
            libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
        }
    }
    exit_now(EXIT_CODE_BASE + signal as u8)
}

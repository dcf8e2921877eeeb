//! Makes a thread lose its core inside a chosen system call. Only tests use it.
//!
//! The library's test binary defines its own `syscall`, which the `io-uring` crate and the standard
//! library then call instead of the C library's. It does the same as the C library's; but on a
//! thread that asked for it with [`after_submits`], one `io_uring_enter` returns later than it
//! would.
#![allow(clippy::disallowed_methods)] // this module exists to make a thread sleep

use std::cell::Cell;
use std::ffi::{c_int, c_long, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

/// The flag `IORING_ENTER_GETEVENTS`, among the flags of the fourth argument.
const GETEVENTS: u32 = 1;

thread_local! {
    static HOLD: Cell<Option<(u32, Duration)>> = const { Cell::new(None) };
}

/// Holds this thread for `span` at the end of a later `io_uring_enter`, after `count` others have
/// passed. Only calls that submit and ask for no completions count. glommio's reactor arms its
/// timers with such a call, while our driver makes none as long as it takes each turn's completions
/// in that turn.
pub fn after_submits(count: u32, span: Duration) {
    HOLD.set(Some((count, span)));
}

/// Reports whether the last hold is still to come.
pub fn is_pending() -> bool {
    HOLD.get().is_some()
}

type Syscall = unsafe extern "C" fn(c_long, ...) -> c_long;

/// Returns the C library's own `syscall`.
fn real() -> Syscall {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let mut found = REAL.load(Ordering::Relaxed);
    if found.is_null() {
        // SAFETY: plain call with a text that ends in a zero.
        found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"syscall".as_ptr()) };
        assert!(!found.is_null(), "the C library has `syscall`");
        REAL.store(found, Ordering::Relaxed);
    }
    // SAFETY: the C library declares the function with this type.
    unsafe { std::mem::transmute::<*mut c_void, Syscall>(found) }
}

/// # Safety
/// The same rules hold as for the C library's function of this name. Callers pass up to six
/// integers or pointers; an argument that a caller leaves out is read from a register that the
/// kernel does not look at either.
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    // SAFETY: the caller's promise is passed on.
    let result = unsafe { real()(number, a, b, c, d, e, f) };
    let asks = d & c_long::from(GETEVENTS) != 0;
    if number == libc::SYS_io_uring_enter && !asks {
        // SAFETY: `errno` of this thread is always valid and belongs to this thread.
        let place = unsafe { libc::__errno_location() };
        // SAFETY: see above.
        let error: c_int = unsafe { *place };
        hold();
        // SAFETY: see above.
        unsafe { *place = error };
    }
    result
}

fn hold() {
    match HOLD.get() {
        None => {}
        Some((0, span)) => {
            HOLD.set(None);
            std::thread::sleep(span);
        }
        Some((count, span)) => HOLD.set(Some((count - 1, span))),
    }
}

//! How the allocator treats memory that was freed.

use mimalloc as _;

/// Position of `mi_option_purge_delay` in mimalloc's list of options; the same in its versions 2
/// and 3.
const PURGE_DELAY: libc::c_int = 15;

unsafe extern "C" {
    fn mi_option_set(option: libc::c_int, value: libc::c_long);
}

/// Keeps freed memory for the next allocation, for good. By default mimalloc gives it back to the
/// system a second later: a crawl's tables and buffers come and go, so what it gave back it faults
/// in again, page by page, and huge pages are taken apart (1,800 faults a second in `bench small`;
/// 3 without, and 475 of 520 MB in huge pages instead of 274 of 451). What a crawl needs at most it
/// needs again.
pub fn keep_freed() {
    // SAFETY: sets a number that the allocator reads; may be called at any time.
    unsafe { mi_option_set(PURGE_DELAY, -1) }
}

//! Hints about memory: what will be read soon, what will not be read again, what should lie in
//! large pages, and that freed memory will be needed again. They change only the time that things
//! take.

use mimalloc as _;
use std::ffi::c_void;

/// Prefetches the cache line at which `place` begins: a caller that knows many addresses before it
/// reads the first one need not wait for each in turn.
#[inline(always)]
pub fn prefetch<T: ?Sized>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = std::ptr::from_ref(place).cast::<i8>();
        // SAFETY: a prefetch reads nothing and cannot fault; SSE is part of x86-64.
        unsafe { _mm_prefetch(address, _MM_HINT_T0) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Appends `bytes` past the caches, for what nobody on this core reads again. Through the caches,
/// every line of a write buffer is fetched from memory first and drives out a line that is needed.
/// To append 26 KB to buffers of 16 MB takes 0.9 to 1.1 us this way, and 2.2 to 2.3 us through the
/// caches.
pub fn append_past_cache(out: &mut Vec<u8>, bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_loadu_si128, _mm_sfence, _mm_stream_si128};
        const LANE_BYTES: usize = 16;
        out.reserve(bytes.len());
        // Lanes of 16 bytes must be aligned, so the bytes before the first lane are appended
        // normally.
        let gap = out.spare_capacity_mut().as_ptr().align_offset(LANE_BYTES).min(bytes.len());
        let (before, rest) = bytes.split_at(gap);
        out.extend_from_slice(before);
        let (lanes, after) = rest.as_chunks::<LANE_BYTES>();
        let len = out.len();
        let room = out.spare_capacity_mut();
        assert!(room.len() >= rest.len(), "reserved above");
        let mut to = room.as_mut_ptr().cast();
        debug_assert_eq!(to as usize % LANE_BYTES * usize::from(!lanes.is_empty()), 0);
        for lane in lanes {
            // SAFETY: SSE2 is part of x86-64. All of `lanes` fit in the room, which is exclusively
            // ours and starts aligned (`gap`), and stays aligned from lane to lane.
            unsafe {
                _mm_stream_si128(to, _mm_loadu_si128(lane.as_ptr().cast()));
                to = to.add(1);
            }
        }
        // SAFETY: this many bytes of the room were written just now; the fence makes them visible
        // to whoever reads the vector next, on any core.
        unsafe {
            _mm_sfence();
            out.set_len(len + lanes.len() * LANE_BYTES);
        }
        out.extend_from_slice(after);
    }
    #[cfg(not(target_arch = "x86_64"))]
    out.extend_from_slice(bytes);
}

/// Asks for huge pages under a table that is read at random, where the system gives them on
/// request: a table of 32 MB takes 16 huge pages, which the processor's translation cache holds,
/// instead of 8,192 small ones.
pub fn want_huge_pages<T>(table: &[T]) {
    let range = table.as_ptr_range();
    let start = (range.start as usize).next_multiple_of(HUGE_PAGE_BYTES);
    let end = range.end as usize / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    if start < end {
        let first = range.start.cast::<u8>().wrapping_add(start - range.start as usize);
        // SAFETY: these are whole pages of an allocation that is ours. The advice changes no byte
        // of them, and the code that frees them need not know of it. A refusal is no error, because
        // this is a hint.
        unsafe { libc::madvise(first as *mut c_void, end - start, libc::MADV_HUGEPAGE) };
    }
}

const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Position of `mi_option_purge_delay` in mimalloc's list of options, in its versions 2 and 3.
const PURGE_DELAY: libc::c_int = 15;
/// Position of `mi_option_generic_collect`, in version 3.
const GENERIC_COLLECT: libc::c_int = 34;
/// Largest value of that option.
const GENERIC_COLLECT_MAX: libc::c_long = 1_000_000;

unsafe extern "C" {
    fn mi_option_set(option: libc::c_int, value: libc::c_long);
    #[cfg(test)]
    fn mi_option_get(option: libc::c_int) -> libc::c_long;
}

/// Makes the allocator keep freed memory for the next allocation, for good. By default mimalloc
/// gives it back to the system a second later. A crawl's tables and buffers come and go, so
/// returned memory is faulted in again, page by page, and huge pages are taken apart (1,800 faults
/// a second in `bench small` by default, 3 with memory kept, and then 475 of 520 MB in huge pages
/// instead of 274 of 451). What a crawl needs at its peak it will need again.
pub fn keep_freed() {
    // SAFETY: sets a number that the allocator reads; it may be called at any time.
    unsafe { mi_option_set(PURGE_DELAY, -1) }
}

/// Makes the allocator search all of its pages for free ones a hundred times less often than by
/// default. With a million queues of hosts it has tens of thousands of pages, and a look at each of
/// them takes a core for milliseconds. It finds free blocks of one size without that search.
pub fn sweep_seldom() {
    // SAFETY: sets a number that the allocator reads; it may be called at any time.
    unsafe { mi_option_set(GENERIC_COLLECT, GENERIC_COLLECT_MAX) }
}

/// Makes the system give `bytes` of memory, and the allocator keep it ([`keep_freed`]), so that
/// later allocations find it ready. Otherwise a huge page that must be found and cleared first
/// keeps a core for 0.2 ms, and for 5 ms in a virtual machine whose host has to find it too.
pub fn make_ready(bytes: usize) {
    let piece = |_| vec![1u8; READY_PIECE_BYTES];
    let touched: Vec<Vec<u8>> = (0..bytes / READY_PIECE_BYTES).map(piece).collect();
    drop(std::hint::black_box(touched));
}

/// Bytes that are allocated at a time. Small pieces lie close together: once freed, they form one
/// stretch for pieces of any size. With pieces of 16 MB the allocator left an untouched gap beside
/// each of them, and a quarter to a half of what was allocated later lay in those gaps.
const READY_PIECE_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// Another version of the allocator may number its options differently.
    #[test]
    fn the_allocators_options_have_the_numbers_and_the_defaults_that_we_know() {
        // SAFETY: reads numbers only.
        let [purge_delay, collect] =
            [PURGE_DELAY, GENERIC_COLLECT].map(|option| unsafe { mi_option_get(option) });
        assert!([1_000, -1].contains(&purge_delay), "{purge_delay}");
        assert!([10_000, GENERIC_COLLECT_MAX].contains(&collect), "{collect}");
    }

    #[test]
    fn what_goes_past_the_cache_is_what_was_appended() {
        let bytes: Vec<u8> = (0..1_000u32).map(|n| (n * 7) as u8).collect();
        for start in 0..40 {
            for len in (0..70).chain([500, 900]) {
                let piece = &bytes[start..start + len];
                for before in [0, 1, 15, 16, 33] {
                    let (mut past, mut through) = (vec![9; before], vec![9; before]);
                    append_past_cache(&mut past, piece);
                    append_past_cache(&mut past, &piece[..len / 3]);
                    through.extend_from_slice(piece);
                    through.extend_from_slice(&piece[..len / 3]);
                    assert_eq!(past, through, "{start} {len} {before}");
                }
            }
        }
    }

    #[test]
    fn hints_leave_memory_as_it_was() {
        let table: Vec<u64> = (0..1 << 20).collect();
        want_huge_pages(&table);
        want_huge_pages(&table[..10]);
        want_huge_pages::<u64>(&[]);
        prefetch(&table[table.len() - 1]);
        prefetch(&table[..0]);
        assert!(table.iter().enumerate().all(|(index, number)| *number == index as u64));
    }
}

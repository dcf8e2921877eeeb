//! Hints about memory: what will be read soon, what will not be read again, what should lie in
//! large pages, and that freed memory will be needed again. They change nothing but time.

use mimalloc as _;
use std::ffi::c_void;

/// Asks for the cache line at which `place` begins: whoever knows many addresses before it reads
/// the first need not wait for each in turn.
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

/// Appends `bytes` past the caches, for what nobody on this core reads again: through them, every
/// line of a write buffer is fetched from memory first and drives out one that is needed. 26 KB
/// into buffers of 16 MB take 0.9 to 1.1 us so, and 2.2 to 2.3 through the caches.
pub fn append_past_cache(out: &mut Vec<u8>, bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_loadu_si128, _mm_sfence, _mm_stream_si128};
        const LANE_BYTES: usize = 16;
        out.reserve(bytes.len());
        // Lanes of 16 bytes must lie aligned: what is before the first goes the usual way.
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
            // SAFETY: SSE2 is part of x86-64. `lanes` are as many as fit in the room, which is
            // ours alone and starts aligned (`gap`), and stays so from lane to lane.
            unsafe {
                _mm_stream_si128(to, _mm_loadu_si128(lane.as_ptr().cast()));
                to = to.add(1);
            }
        }
        // SAFETY: as many bytes of the room were written just now; the fence has them seen by
        // whoever reads the vector next, on any core.
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
/// request: a table of 32 MB takes 16 of them, which the processor remembers, and not 8,192.
pub fn want_huge_pages<T>(table: &[T]) {
    let range = table.as_ptr_range();
    let start = (range.start as usize).next_multiple_of(HUGE_PAGE_BYTES);
    let end = range.end as usize / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    if start < end {
        let first = range.start.cast::<u8>().wrapping_add(start - range.start as usize);
        // SAFETY: whole pages of an allocation that is ours; the advice changes no byte of them,
        // and whoever frees them needs not know of it. A refusal is no error: it is a hint.
        unsafe { libc::madvise(first as *mut c_void, end - start, libc::MADV_HUGEPAGE) };
    }
}

const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Position of `mi_option_purge_delay` in mimalloc's list of options; the same in its versions 2
/// and 3.
const PURGE_DELAY: libc::c_int = 15;
/// Of `mi_option_generic_collect`, in version 3.
const GENERIC_COLLECT: libc::c_int = 34;
/// The most that it may be.
const GENERIC_COLLECT_MAX: libc::c_long = 1_000_000;

unsafe extern "C" {
    fn mi_option_set(option: libc::c_int, value: libc::c_long);
    #[cfg(test)]
    fn mi_option_get(option: libc::c_int) -> libc::c_long;
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

/// Has the allocator go through all of its pages in search of free ones a hundred times less often
/// than it would: with a million queues of hosts it has tens of thousands, and to look at each
/// takes a core for milliseconds. It finds what it needs of one size without that.
pub fn sweep_seldom() {
    // SAFETY: sets a number that the allocator reads; may be called at any time.
    unsafe { mi_option_set(GENERIC_COLLECT, GENERIC_COLLECT_MAX) }
}

/// Has the system give so much memory, and the allocator keep it ([`keep_freed`]): what is
/// allocated later is there. A huge page that must be found and cleared first keeps a core for 0.2
/// ms, and for 5 in a virtual machine whose host has to find it too.
pub fn make_ready(bytes: usize) {
    let piece = |_| vec![1u8; READY_PIECE_BYTES];
    let touched: Vec<Vec<u8>> = (0..bytes / READY_PIECE_BYTES).map(piece).collect();
    drop(std::hint::black_box(touched));
}

/// Allocated at a time. Small pieces lie close: freed, they are one stretch for pieces of any size.
/// Of 16 MB each, the allocator left a gap beside every one that nobody had touched, and a quarter
/// to a half of what was allocated later lay in those.
const READY_PIECE_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// Another version of the allocator may number its options anew.
    #[test]
    fn the_allocators_options_have_the_numbers_and_the_defaults_that_we_know() {
        // SAFETY: reads numbers.
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

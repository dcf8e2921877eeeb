//! The bounds of a frontier, what becomes of URLs at the bounds, and how many there were.
//!
//! These are plain values: [`Caps`] go in with the frontier, [`Offered`] and [`Figures`] come out.

use super::Queued;
use crate::base::limits::{
    COLD_HOST_COUNT_MAX, HOST_COUNT_MAX, HOST_PAGE_COUNT_MAX, QUEUE_RESIDENT_MB,
    QUEUED_URL_BYTES_MAX, QUEUED_URL_COUNT_MAX, SKELETON_PAGE_COUNT,
};

/// What became of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    Queued,
    Known,
    /// The sieve keeps it; [`settle`](super::Frontier::settle) queues it if it is new.
    Later,
    Dropped(DropReason),
}

/// The next URL of a busy host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    Url(Queued),
    /// The next URL is on disk and has been requested: ask again when the host is refilled.
    OnDisk,
    Nothing,
}

impl Next {
    pub fn url(self) -> Option<Queued> {
        match self {
            Next::Url(queued) => Some(queued),
            Next::OnDisk | Next::Nothing => None,
        }
    }
}

/// Why a URL was not queued, or no longer is. Every drop is counted. A URL that is dropped when it
/// is offered is not remembered as seen: it is queued if it is found again when there is room. The
/// exception is a URL that a merge has proved new: it stays known
/// ([`settle`](super::Frontier::settle)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DropReason {
    /// The host has as many pages as it may have.
    HostPagesFull,
    /// The queues are full of URLs of this class or better.
    QueueFull,
    /// The URL was queued, and gave way to a URL of a better class. It stays known.
    Evicted,
    HostsFull,
    /// The host has too many origins (ports).
    OriginsFull,
    /// Another host has the same key.
    HostKeyTaken,
    SeenFull,
    /// The path has more segments than any honest site uses.
    PathTooDeep,
    /// The path repeats one segment too often, as relative links that lead ever deeper do.
    SegmentRepeated,
    /// The host has as many URLs of this shape as it may have.
    SkeletonFull,
}

impl DropReason {
    pub const COUNT: usize = DropReason::SkeletonFull as usize + 1;

    /// Reports whether the URL was refused for its shape, and not for want of room.
    pub fn is_trap(self) -> bool {
        use DropReason::*;
        matches!(self, PathTooDeep | SegmentRepeated | SkeletonFull)
    }
}

/// Bounds of one core's frontier. None may exceed its bound in `limits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Hosts in RAM.
    pub host_count_max: usize,
    /// Cold hosts, which have left RAM.
    pub cold_count_max: usize,
    pub host_page_count_max: u32,
    /// URLs of one host and shape (see [`crate::proto::url::Skeleton`]); zero means no limit.
    pub skeleton_page_count_max: u64,
    pub queued_count_max: u64,
    /// Bytes of queued records, those on disk included.
    pub queued_bytes_max: u64,
    /// RAM for records beyond the head of each queue; what exceeds it goes to disk.
    pub resident_bytes_max: u64,
}

impl Default for Caps {
    fn default() -> Caps {
        Caps {
            host_count_max: HOST_COUNT_MAX,
            cold_count_max: COLD_HOST_COUNT_MAX,
            host_page_count_max: HOST_PAGE_COUNT_MAX,
            skeleton_page_count_max: SKELETON_PAGE_COUNT,
            queued_count_max: QUEUED_URL_COUNT_MAX,
            queued_bytes_max: QUEUED_URL_BYTES_MAX,
            resident_bytes_max: QUEUE_RESIDENT_MB << 20,
        }
    }
}

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub known_count: u64,
    pub later_count: u64,
    /// URLs queued for the first time: retries are not counted.
    pub queued_count: u64,
    /// Stale copies from before a restart that came up and were passed over.
    pub stale_count: u64,
    /// Hosts that left RAM, and hosts that came back.
    pub left_count: u64,
    pub returned_count: u64,
    /// Times that a cold host could not leave RAM, because too many had.
    pub uncooled_count: u64,
    pub dropped_count: [u64; DropReason::COUNT],
}

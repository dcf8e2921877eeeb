//! What bounds a frontier, what becomes of URLs at the bounds, and how many there were.
//!
//! Plain values: [`Caps`] go in with the frontier, [`Offered`] and [`Figures`] come out.

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
    /// The sieve keeps it; [`Frontier::settle`](super::Frontier::settle) queues it if it is new.
    Later,
    Dropped(DropReason),
}

/// What a busy host has to ask for next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    Url(Queued),
    /// It is on its way from the disk: ask again when the host is refilled.
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

/// Why a URL was not queued, or no longer is. Always counted. A URL dropped when it was offered is
/// not remembered as seen: found again when there is room, it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DropReason {
    /// The host has as many pages as it may have.
    HostPagesFull,
    /// The queues are full of URLs of this class or better.
    QueueFull,
    /// It was queued, and gave way to a URL of a better class. It stays known.
    Evicted,
    HostsFull,
    /// The host has too many origins (ports).
    OriginsFull,
    /// Another host has the same key.
    HostKeyTaken,
    SeenFull,
    /// The path has more segments than any honest one.
    PathTooDeep,
    /// The path goes round in circles.
    SegmentRepeated,
    /// The host has as many URLs of this shape as it may have.
    SkeletonFull,
}

impl DropReason {
    pub const COUNT: usize = DropReason::SkeletonFull as usize + 1;

    /// Refused for what the URL looks like, not for want of room.
    pub fn is_trap(self) -> bool {
        use DropReason::*;
        matches!(self, PathTooDeep | SegmentRepeated | SkeletonFull)
    }
}

/// Bounds of one core's frontier; beyond `limits` is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// In RAM; and of those that have left it.
    pub host_count_max: usize,
    pub cold_count_max: usize,
    pub host_page_count_max: u32,
    /// Of one shape (see [`crate::proto::url::Skeleton`]); zero is no limit.
    pub skeleton_page_count_max: u64,
    pub queued_count_max: u64,
    /// Of records, on disk too.
    pub queued_bytes_max: u64,
    /// Of RAM for records, beyond the head of each queue; more go to disk.
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
    /// Queued for the first time: without retries.
    pub queued_count: u64,
    /// Copies from before a restart that were told apart.
    pub stale_count: u64,
    /// Hosts that left RAM, and those that came back.
    pub left_count: u64,
    pub returned_count: u64,
    /// Times that a cold host could not leave, because too many had.
    pub uncooled_count: u64,
    pub dropped_count: [u64; DropReason::COUNT],
}

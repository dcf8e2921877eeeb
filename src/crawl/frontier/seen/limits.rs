//! What the sieve is told, keeps and shows: when work is due, what a checkpoint has of it, figures.

use super::RunImage;
use crate::base::limits;
use std::time::Duration;

/// When work is due, and when the shard must wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenLimits {
    /// Of the recent ones, at first and at most.
    pub recent_count: usize,
    pub recent_count_max: usize,
    pub fresh_count: usize,
    pub fresh_count_max: usize,
    pub batch_count: usize,
    pub batch_bytes: usize,
    pub deferred_count_max: usize,
    pub deferred_bytes_max: usize,
    pub lag_ms: u64,
    pub slice_url_count: usize,
    pub tier_run_count: usize,
}

impl SeenLimits {
    /// For merges and runs of `fresh_count` URLs, the rest in proportion. Small ones let a crawl of
    /// some hundred pages meet every job.
    pub fn sized(fresh_count: usize) -> SeenLimits {
        let scaled = |whole: usize| {
            let scaled = whole as u128 * fresh_count as u128 / limits::SEEN_FRESH_COUNT as u128;
            usize::try_from(scaled).unwrap_or(usize::MAX).max(1)
        };
        // Merges that are larger than usual need no more of it.
        let recent_scaled = |whole: usize| scaled(whole).min(whole);
        SeenLimits {
            recent_count: recent_scaled(limits::RECENT_FINGERPRINT_COUNT),
            recent_count_max: recent_scaled((limits::RECENT_MB << 20) / size_of::<u64>()),
            fresh_count,
            fresh_count_max: scaled(limits::SEEN_FRESH_COUNT_MAX),
            batch_count: scaled(limits::SEEN_BATCH_COUNT),
            batch_bytes: scaled(limits::SEEN_BATCH_BYTES),
            deferred_count_max: scaled(limits::SEEN_DEFERRED_COUNT_MAX),
            deferred_bytes_max: scaled(limits::SEEN_DEFERRED_BYTES_MAX),
            lag_ms: limits::SEEN_LAG_MS,
            slice_url_count: scaled(limits::SEEN_SLICE_URL_COUNT).min(limits::SEEN_SLICE_URL_COUNT),
            tier_run_count: limits::SEEN_TIER_RUN_COUNT,
        }
    }

    /// With another size of the recent ones than [`limits::RECENT_MB`], in proportion.
    pub fn remembering(self, recent_mb: usize) -> SeenLimits {
        let recent_count_max = self.recent_count_max * recent_mb / limits::RECENT_MB;
        SeenLimits { recent_count_max, ..self }
    }
}

impl Default for SeenLimits {
    fn default() -> SeenLimits {
        SeenLimits::sized(limits::SEEN_FRESH_COUNT)
    }
}

/// What a checkpoint keeps: with it, [`DiskSieve::open`](super::DiskSieve::open) makes the sieve
/// anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenImage {
    pub runs: Vec<RunImage>,
}

/// What there is to see of it, beside `SieveFigures`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeenFigures {
    pub run_count: usize,
    pub fresh_count: usize,
    pub merge_count: u64,
    pub flush_count: u64,
    pub compaction_count: u64,
    pub growth_count: u64,
    /// Read and written by all jobs.
    pub job_bytes: u64,
    /// Age of the oldest deferred candidate.
    pub lag: Duration,
}

//! Stops: moments at which the crawler was killed or lost power, and what it may have forgotten.
//!
//! What a crawler knows is durable a while after it learnt it. An answer that ended within that
//! while before a stop may be news to the next process: its rules, its Retry-After, or that there
//! was one. An older one may not. The gaps between requests are owed whatever was forgotten.

use crate::base::Time;
use crate::base::limits::{AUDIT_COMMIT_MS_MAX, SEEN_LAG_MS};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// On the time line of the hits, as is `back`.
    pub at: Time,
    /// When the crawler was started again. A request seen before that was sent before the stop.
    pub back: Time,
    /// Rules and waits of answers that ended so long before may be forgotten.
    pub forgotten_ms: u64,
    /// URLs whose answers ended so long before may be asked for again.
    pub repeated_ms: u64,
    /// The log is the crawler's own, and lost its last lines with it.
    pub is_log_cut: bool,
}

const MS: u64 = 1_000_000;

impl Stop {
    /// With the windows of a crawler that syncs its store and its journal so often.
    pub fn new(at: Time, back: Time, synced_ms: [u64; 2]) -> Stop {
        let [sync_ms, journal_sync_ms] = synced_ms;
        Stop {
            at,
            back,
            forgotten_ms: journal_sync_ms + AUDIT_COMMIT_MS_MAX,
            repeated_ms: 2 * (sync_ms + journal_sync_ms + SEEN_LAG_MS),
            is_log_cut: false,
        }
    }

    /// The same, if for so much longer nothing could be written.
    pub fn widened(self, ms: u64) -> Stop {
        let (forgotten_ms, repeated_ms) = (self.forgotten_ms + ms, self.repeated_ms + ms);
        Stop { forgotten_ms, repeated_ms, ..self }
    }

    /// Lies between a request and a later one.
    fn parts(&self, begun: u64, later: u64) -> bool {
        begun < self.back.0 && self.back.0 <= later
    }

    fn is_within(&self, end: u64, window_ms: u64) -> bool {
        end.saturating_add(window_ms.saturating_mul(MS)) >= self.at.0
    }
}

/// True if the answer to a request of then may be forgotten by the sender of a later one.
pub(super) fn is_forgotten(stops: &[Stop], [begun, end]: [u64; 2], later: u64) -> bool {
    stops.iter().any(|stop| stop.parts(begun, later) && stop.is_within(end, stop.forgotten_ms))
}

/// True if what a request rests on may stand in lines that no log has.
pub(super) fn is_unwitnessed(stops: &[Stop], start: u64) -> bool {
    stops.iter().any(|stop| stop.is_log_cut && stop.back.0 <= start)
}

/// The stop that excuses a second request for the URL of the first, if one does: the last.
pub(super) fn excuse(stops: &[Stop], [begun, end]: [u64; 2], later: u64) -> Option<usize> {
    let excuses = |stop: &Stop| stop.parts(begun, later) && stop.is_within(end, stop.repeated_ms);
    stops.iter().rposition(excuses)
}

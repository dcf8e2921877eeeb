//! Stops: moments at which the crawler was killed or lost power, and what it may have forgotten.
//!
//! What a crawler learns becomes durable only after a while. If an answer ended within that while
//! before a stop, the next process may not know it: its rules, its Retry-After, or that there was
//! an answer at all. Older answers must be known. The gaps between requests must be kept, whatever
//! was forgotten.

use crate::base::Time;
use crate::base::limits::{AUDIT_COMMIT_MS_MAX, SEEN_LAG_MS};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// When the crawler stopped, on the time line of the hits; `back` is on it as well.
    pub at: Time,
    /// When the crawler was started again. A request seen before this time was sent before the
    /// stop.
    pub back: Time,
    /// Rules and Retry-Afters of answers that ended at most this long before the stop may be
    /// forgotten.
    pub forgotten_ms: u64,
    /// URLs whose answers ended at most this long before the stop may be asked for again.
    pub repeated_ms: u64,
    /// The log is the crawler's own, and its last lines were lost with the process.
    pub is_log_cut: bool,
}

const MS: u64 = 1_000_000;

impl Stop {
    /// Makes a stop with the windows of a crawler that syncs its store and its journal at these
    /// intervals.
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

    /// Returns the stop with its windows made longer by a time in which nothing could be written.
    pub fn widened(self, ms: u64) -> Stop {
        let (forgotten_ms, repeated_ms) = (self.forgotten_ms + ms, self.repeated_ms + ms);
        Stop { forgotten_ms, repeated_ms, ..self }
    }

    /// Reports whether the stop is between a request and a later one.
    fn parts(&self, begun: u64, later: u64) -> bool {
        begun < self.back.0 && self.back.0 <= later
    }

    fn is_within(&self, end: u64, window_ms: u64) -> bool {
        end.saturating_add(window_ms.saturating_mul(MS)) >= self.at.0
    }
}

/// Reports whether the sender of a later request may have forgotten the answer to an earlier one.
pub(super) fn is_forgotten(stops: &[Stop], [begun, end]: [u64; 2], later: u64) -> bool {
    stops.iter().any(|stop| stop.parts(begun, later) && stop.is_within(end, stop.forgotten_ms))
}

/// Reports whether the evidence for a request may have been in lines that no log has any more.
pub(super) fn is_unwitnessed(stops: &[Stop], start: u64) -> bool {
    stops.iter().any(|stop| stop.is_log_cut && stop.back.0 <= start)
}

/// Returns the last stop that excuses a second request for the URL of the first one, if any does.
pub(super) fn excuse(stops: &[Stop], [begun, end]: [u64; 2], later: u64) -> Option<usize> {
    let excuses = |stop: &Stop| stop.parts(begun, later) && stop.is_within(end, stop.repeated_ms);
    stops.iter().rposition(excuses)
}

//! What an [`super::Inspection`] shows of a shard's state: plain values, times by the wall clock.

use crate::base::WallTime;
use crate::crawl::flow::{Class, Outcome, Queued};
use crate::proto::url::Url;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointView {
    pub name: String,
    /// `None` if it cannot be read.
    pub taken_at: Option<WallTime>,
    /// The state that is shown begins with it.
    pub is_used: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlState {
    Queued,
    /// For another try, by itself.
    Waiting(WallTime),
    /// Handed out when the checkpoint was taken, and no end of it is durable.
    Open,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlView {
    pub queued: Queued,
    pub state: UrlState,
}

/// A host's URLs, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UrlCounts {
    /// By class.
    pub queued_counts: [u64; 4],
    pub waiting_count: u64,
    pub open_count: u64,
}

/// All that is known of a host.
#[derive(Clone, Debug)]
pub struct HostView {
    pub name: String,
    pub tally: UrlCounts,
    pub fetched_count: u32,
    /// No turn of it begins before that: the latest of all that has been said of it.
    pub rests_until: Option<WallTime>,
    /// What it asked for itself, since the checkpoint.
    pub stays_away_until: Option<WallTime>,
    pub delay: DelayView,
    pub origins: Vec<OriginView>,
    pub next: Option<NextView>,
}

/// The time between two requests to a host, and what it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayView {
    pub delay_ms: u64,
    pub configured_ms: u64,
    /// The longest Crawl-delay of its origins, as asked for; its line; whose robots.txt has it.
    pub crawl_delay: Option<(u64, u32, String)>,
    pub crawl_delay_ms_max: u64,
    /// Usual time from a request to the first byte of its answer.
    pub response_us: u32,
    pub slowness_ms: u64,
}

#[derive(Clone, Debug)]
pub struct OriginView {
    pub origin: String,
    pub breaker: Option<BreakerView>,
    pub robots: RobotsView,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerView {
    /// Else it backs off, or its next request decides.
    pub is_open: bool,
    pub failure_count: u16,
    /// Times it opened since the last success.
    pub open_count: u8,
    pub is_given_up: bool,
    pub cause: Outcome,
    pub until: WallTime,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RobotsView {
    /// To be asked for before the next page.
    Unknown,
    Known {
        since: WallTime,
        rule_count: usize,
        is_fresh: bool,
    },
    Unreachable {
        since: WallTime,
        retry_at: WallTime,
        counts_as_absent: bool,
    },
}

/// The URL that a host's next turn takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextView {
    pub url: Url,
    pub class: Class,
    /// The rule that forbids it.
    pub denied_by: Option<String>,
}

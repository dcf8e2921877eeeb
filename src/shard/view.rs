//! What an [`super::Inspection`] shows of a shard's state: plain values, with times of the wall
//! clock.

use crate::base::WallTime;
use crate::crawl::flow::{Class, Outcome, Queued};
use crate::proto::url::Url;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointView {
    pub name: String,
    /// When the checkpoint was taken, or `None` if it cannot be read.
    pub taken_at: Option<WallTime>,
    /// The state that is shown was read from this checkpoint.
    pub is_used: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlState {
    Queued,
    /// The URL waits until this time for another try, outside of its host's queue.
    Waiting(WallTime),
    /// The URL was handed out when the checkpoint was taken, and its end is not durable.
    Open,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlView {
    pub queued: Queued,
    pub state: UrlState,
}

/// The numbers of a host's URLs, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UrlCounts {
    /// The numbers of queued URLs, by class.
    pub queued_counts: [u64; 4],
    pub waiting_count: u64,
    pub open_count: u64,
}

/// Everything that is known of a host.
#[derive(Clone, Debug)]
pub struct HostView {
    pub name: String,
    pub tally: UrlCounts,
    pub fetched_count: u32,
    /// No turn of the host begins before this time, which is the latest end of all its waits.
    pub rests_until: Option<WallTime>,
    /// The time that the host itself asked for since the checkpoint.
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
    /// The longest Crawl-delay of the host's origins, in milliseconds as the site asks for it, its
    /// line, and the origin whose robots.txt has it.
    pub crawl_delay: Option<(u64, u32, String)>,
    pub crawl_delay_ms_max: u64,
    /// The usual time from a request to the first byte of its answer.
    pub response_us: u32,
    /// The delay that `slow_host_factor` makes of `response_us`.
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
    /// The breaker is open. If it is not, the origin is in back-off, or its next request decides.
    pub is_open: bool,
    /// The number of failures in a row.
    pub failure_count: u16,
    /// How often the breaker opened since the last success.
    pub open_count: u8,
    pub is_given_up: bool,
    pub cause: Outcome,
    pub until: WallTime,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RobotsView {
    /// The robots.txt is fetched before the next page.
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
    /// The rule that forbids the URL, if one does.
    pub denied_by: Option<String>,
}

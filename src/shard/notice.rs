//! What a shard tells the control thread.

use super::{Pulse, Recovery};
use crate::crawl::flow::{Outcome, ShardIndex};
use crate::crawl::metrics::Report;
use crate::crawl::store::StoreError;
use crate::proto::url::Url;

/// From a shard to the control thread.
#[derive(Debug)]
pub enum Notice {
    Pulse(Pulse),
    Report(Box<Report>),
    /// Out of page budget, with work left.
    BudgetWanted(ShardIndex),
    /// Page budget that was called in, and that the shard cannot spend at once.
    BudgetReturned(u64),
    /// A seed could not be fetched: the operator wants to know at once.
    SeedFailed {
        url: Url,
        outcome: Outcome,
    },
    /// The shard is ready for seeds; with what it found, if the crawl goes on from an earlier one.
    Ready {
        shard: ShardIndex,
        recovery: Option<Box<Recovery>>,
    },
    /// Told to drain, the shard has nothing under way any more. It answers its peers until the
    /// control thread, who has heard the same of all, halts it.
    Drained(ShardIndex),
    /// The shard has ended and its files are not all closed.
    StoreFailed {
        shard: ShardIndex,
        error: StoreError,
    },
    /// The disk fails: the shard starts nothing, and tries the disk again by itself.
    DiskFailed {
        shard: ShardIndex,
        error: StoreError,
    },
    /// The disk works again.
    DiskWorks(ShardIndex),
}

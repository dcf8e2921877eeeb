//! The notices that a shard sends to the control thread.

use super::{Pulse, Recovery};
use crate::crawl::flow::{Outcome, ShardIndex};
use crate::crawl::metrics::Report;
use crate::crawl::store::StoreError;
use crate::proto::url::Url;

/// A message from a shard to the control thread.
#[derive(Debug)]
pub enum Notice {
    Pulse(Pulse),
    Report(Box<Report>),
    /// The shard has used up its page budget and has work left.
    BudgetWanted(ShardIndex),
    /// Page budget that was called in, and that the shard cannot spend at once.
    BudgetReturned(u64),
    /// A seed could not be fetched. The operator is told at once.
    SeedFailed {
        url: Url,
        outcome: Outcome,
    },
    /// The shard is ready for seeds. `recovery` says what it found, if the crawl continues an
    /// earlier one.
    Ready {
        shard: ShardIndex,
        recovery: Option<Box<Recovery>>,
    },
    /// The shard was told to drain and has nothing under way any more. It answers its peers until
    /// the control thread has heard the same from all shards and halts it.
    Drained(ShardIndex),
    /// A file of the shard is damaged, or can no longer be written or closed. The shard ends, if it
    /// has not ended yet.
    StoreFailed {
        shard: ShardIndex,
        error: StoreError,
    },
    /// The disk fails: the shard starts nothing new, and retries the disk by itself.
    DiskFailed {
        shard: ShardIndex,
        error: StoreError,
    },
    /// The disk works again.
    DiskWorks(ShardIndex),
}

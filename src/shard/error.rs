//! The errors that prevent a shard from starting.

use crate::crawl::fetch::TlsError;
use crate::crawl::frontier::seen::SeenError;
use crate::crawl::frontier::spill::TailError;
use crate::crawl::journal::JournalError;
use crate::crawl::store::StoreError;
use std::fmt;

/// Why a shard could not start.
#[derive(Debug)]
pub enum ShardError {
    Store(StoreError),
    Seen(SeenError),
    Tails(TailError),
    Tls(TlsError),
    Journal(JournalError),
    /// No checkpoint can be used. The text says why the newest cannot.
    Refused(String),
}

impl fmt::Display for ShardError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShardError::Store(error) => write!(out, "store: {error}"),
            ShardError::Seen(error) => write!(out, "URL seen: {error}"),
            ShardError::Tails(error) => write!(out, "queues: {error}"),
            ShardError::Tls(error) => write!(out, "{error}"),
            ShardError::Journal(error) => write!(out, "{error}"),
            ShardError::Refused(why) => write!(out, "no checkpoint can be used: {why}"),
        }
    }
}

impl std::error::Error for ShardError {}

impl ShardError {
    /// Reports whether the error means that a file is not what was written.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            ShardError::Journal(error) => error.is_damage(),
            ShardError::Seen(error) => matches!(error, SeenError::Damaged { .. }),
            ShardError::Tails(error) => matches!(error, TailError::Damaged { .. }),
            ShardError::Refused(_) => true,
            ShardError::Store(_) | ShardError::Tls(_) => false,
        }
    }
}

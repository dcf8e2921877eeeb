//! The last stage: pages become WARC records on disk, and every request becomes a line in a log.
//!
//! Owns the shard's series of WARC files, the CDXJ index beside each file, and the request log. A
//! [`StoredPage`] flows in, as fetched and judged. A [`Position`] flows out, and later the promise
//! that the page survives a power cut ([`WarcStore::durable`]). There is one store per core;
//! nothing is shared.
//!
//! The life of a record:
//! 1. Gathered: the record is in the buffer that is being filled, and its position is known
//!    ([`WarcStore::write`] returns).
//! 2. Flushed: the writer task has appended its buffer to the open file.
//! 3. Synced: the record is durable. Only now is the page completed.
//! 4. Closed: the record's file was full, is synced, indexed and renamed from `.open` to its final
//!    name.
//!
//! Invariants: a page's records are in one file, the response first. A file whose name does not end
//! in `.open` is complete, has its index beside it and is never written again. What is not proven
//! durable is still in memory. After a failed write or sync it is written again, behind the last
//! byte that was synced, so a disk that recovers costs no record and no position.

#[cfg(test)]
mod fake;
mod gather;
mod request_log;
mod salvage;
mod series;
mod state;
#[cfg(test)]
mod tests;
mod warc_store;
mod writer_task;

pub use request_log::{DeadLetter, Life, LogLine, RequestLine, RequestLog};
pub use salvage::{Salvaged, salvage};
pub use warc_store::WarcStore;

use crate::base::WallTime;
use crate::crawl::flow::Original;
use crate::io::{Clock, Disk, DiskError, Random, Spawn};
use crate::proto::url::Url;
use crate::proto::warc::{Sha1, Truncated};
use std::fmt;
use std::net::SocketAddr;

/// The parts of a world that the store needs, which do not include the network.
pub trait StoreWorld: Clock + Random + Spawn + Disk + Clone + 'static {}

impl<W: Clock + Random + Spawn + Disk + Clone + 'static> StoreWorld for W {}

/// What an operator may set. The ranges are checked by `config`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// 0 stores records uncompressed in gzip members; 1 to 9 deflate them.
    pub deflate_level: u8,
    /// Whether whole response blocks get a digest too: a second SHA-1 pass, 15 us for a page of 25
    /// KB.
    pub block_digest: bool,
    /// A file of this length is closed, and the next one is begun.
    pub roll_bytes: u64,
    /// A sync is due once this many bytes have been written since the last one.
    pub sync_bytes: u64,
    /// A sync is due this long after a record was gathered, if none has come before.
    pub sync_ms: u64,
    /// For the warcinfo records: who crawls, and by which rules.
    pub user_agent: String,
    pub contact: String,
    pub robots_policy: String,
}

impl Default for StoreSettings {
    fn default() -> Self {
        StoreSettings {
            deflate_level: 0,
            block_digest: false,
            roll_bytes: 1 << 30,
            sync_bytes: 4 * crate::base::limits::WRITE_BUFFER_BYTES as u64,
            sync_ms: 1_000,
            user_agent: String::new(),
            contact: String::new(),
            robots_policy: "obey (RFC 9309)".into(),
        }
    }
}

/// A page as it goes to disk. All is borrowed, so nothing is copied before the write buffer.
#[derive(Clone, Copy, Debug)]
pub struct StoredPage<'a> {
    pub url: &'a Url,
    pub address: SocketAddr,
    /// When the request was sent.
    pub at: WallTime,
    pub request_head: &'a [u8],
    /// The final response from its status line on. The transfer coding is removed, unless
    /// `transfer_coded` says otherwise.
    pub response: &'a [u8],
    /// The length of the head in `response`, up to and including the empty line.
    pub head_len: usize,
    /// The digest of the payload: transfer coding removed, content coding kept.
    pub payload_digest: Sha1,
    pub transfer_coded: bool,
    pub content_coded: bool,
    pub truncated: Option<Truncated>,
    /// Where the payload is stored already, if it is. Then only the head is stored again.
    pub revisit_of: Option<&'a Original>,
    pub status: u16,
    /// The media type without parameters; empty if the server gave none.
    pub mime: &'a str,
    pub simhash: Option<u64>,
    pub near: Option<u64>,
    /// Why the content coding could not be decoded, as the index spells it.
    pub undecoded: Option<&'static str>,
    /// The number of links that were left out, if the page has more links than are followed.
    pub links_left_out: u32,
}

/// Where the response (or revisit) record of a page lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The number of the file in this shard's series.
    pub serial: u32,
    pub offset: u64,
    pub length: u64,
    /// The byte count of the series after this page's records. The page is durable once the store
    /// is synced up to it.
    pub mark: u64,
}

/// Why something could not be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The disk failed. The store stands still until [`WarcStore::recover`], and keeps what is not
    /// durable.
    Disk {
        doing: &'static str,
        error: DiskError,
    },
    /// A file of the crawl's state is not what was written. Nothing of it is used.
    Damaged {
        name: String,
        what: &'static str,
    },
    /// The response is longer than [`crate::base::limits::WARC_RECORD_BYTES_MAX`].
    TooLarge,
    Closed,
}

impl StoreError {
    fn disk(doing: &'static str) -> impl FnOnce(DiskError) -> StoreError {
        move |error| StoreError::Disk { doing, error }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Disk { doing, error } => write!(out, "{doing}: {error}"),
            StoreError::Damaged { name, what } => write!(out, "{name}: {what}"),
            StoreError::TooLarge => out.write_str("record larger than the limit"),
            StoreError::Closed => out.write_str("store is closed"),
        }
    }
}

impl std::error::Error for StoreError {}

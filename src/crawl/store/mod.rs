//! The last stage: pages become WARC records on disk, and every request becomes a line in a log.
//!
//! Owns the shard's WARC file series, the CDXJ index beside each file, and the request log. In: a
//! [`StoredPage`] as fetched and judged. Out: a [`Position`], and later the promise that it
//! survives a power cut ([`WarcStore::durable`]). One of each per core; nothing is shared.
//!
//! A record's life:
//! 1. gathered: in the filling buffer, its position known ([`WarcStore::write`] returns);
//! 2. flushed: appended to the open file by the writer task, buffer by buffer;
//! 3. synced: durable. Only now is the page completed;
//! 4. closed: its file was full, is synced, indexed and renamed from `.open` to its final name.
//!
//! Invariants: a page's records are in one file, the response first. A file without `.open` at its
//! end is whole, has its index beside it and is never written again. What is not proven durable is
//! still in memory: after a failed write or sync it is written again, behind the last byte that was
//! synced, so a disk that comes back costs no record and no position.

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

/// What the store needs of a world: no network.
pub trait StoreWorld: Clock + Random + Spawn + Disk + Clone + 'static {}

impl<W: Clock + Random + Spawn + Disk + Clone + 'static> StoreWorld for W {}

/// What an operator may set. Ranges are checked by `config`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// 0 stores records uncompressed in gzip members, 1 to 9 deflate them.
    pub deflate_level: u8,
    /// Also digest whole response blocks: a second SHA-1 pass, 15 us for a page of 25 KB.
    pub block_digest: bool,
    /// A file is closed once it is this long, and the next begun.
    pub roll_bytes: u64,
    /// A sync at least every so many bytes, ...
    pub sync_bytes: u64,
    /// ... and at least so long after a record was gathered.
    pub sync_ms: u64,
    /// For the warcinfo records: who crawls, and by what rules.
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

/// A page as it goes to disk. Borrowed: nothing is copied before the write buffer.
#[derive(Clone, Copy, Debug)]
pub struct StoredPage<'a> {
    pub url: &'a Url,
    pub address: SocketAddr,
    /// When the request was sent.
    pub at: WallTime,
    pub request_head: &'a [u8],
    /// The final response as received: from its status line on, transfer coding included.
    pub response: &'a [u8],
    /// Bytes of `response` up to and including the empty line.
    pub head_len: usize,
    /// Of the payload: transfer coding removed, content coding kept.
    pub payload_digest: Sha1,
    pub transfer_coded: bool,
    pub content_coded: bool,
    pub truncated: Option<Truncated>,
    /// The payload is stored already, there: only the head is stored again.
    pub revisit_of: Option<&'a Original>,
    pub status: u16,
    /// The media type without parameters; empty if the server gave none.
    pub mime: &'a str,
    pub simhash: Option<u64>,
    pub near: Option<u64>,
    /// Why the content coding could not be undone, as the index spells it.
    pub undecoded: Option<&'static str>,
    /// Of a page with more than are followed.
    pub links_left_out: u32,
}

/// Where a page's response (or revisit) record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Which file of this shard's series.
    pub serial: u32,
    pub offset: u64,
    pub length: u64,
    /// The series' byte count after this page's records: durable once the store is synced so far.
    pub mark: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The store stands still until [`WarcStore::recover`], and holds what is not durable.
    Disk {
        doing: &'static str,
        error: DiskError,
    },
    /// A file of the crawl's state is not what was written; nothing of it is used.
    Damaged {
        name: String,
        what: &'static str,
    },
    /// A response beyond [`crate::base::limits::WARC_RECORD_BYTES_MAX`].
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

//! WARC 1.1 (ISO 28500:2017): records as gzip members, their digests, a reader that checks them,
//! and CDXJ lines.
//!
//! This module owns the byte formats and nothing else. A response to be stored and what is known of
//! it go in; bytes appended to a buffer that the caller writes (`store`), or records read back from
//! such bytes, come out. Invariant: one record is one gzip member, so a file may be cut at any
//! record's end and both parts are still WARC files. It has no I/O, no clock and no randomness:
//! dates and identifiers come in as values. Each core has its own [`RecordWriter`].

pub mod cdxj;
pub mod digest;
mod gzip;
pub mod reader;
pub mod record;
pub mod surt;

pub use cdxj::CdxjLine;
pub use digest::{PayloadDigest, Sha1};
pub use reader::{ReadError, Reader, StoredRecord, records};
pub use record::{Record, RecordId, RecordKind, RecordWriter, RefersTo, Truncated};

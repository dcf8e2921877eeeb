//! The journal and the checkpoints, by which a crawl survives a power cut: a journal holds what has
//! changed, a checkpoint holds the whole state. Each shard writes its own, in `state/shard-NN/`.
//!
//! This module owns the format of both kinds of file and their life on disk; what the entries mean
//! is the shard's business. [`Entry`]s flow in. The promise that entries up to a number survive
//! flows out ([`Journal::durable`]), and after a restart so do the entries ([`CheckpointReader`],
//! [`replay`]). Invariant: what was promised is read back after any power cut. Only one core
//! touches it.
//!
//! - Entries are numbered from one on, without gaps, over all journal files of a generation. By
//!   this number (`lsn`, the log sequence number) a checkpoint says how much of the journal it has
//!   for a host.
//! - Entries gather in a buffer and are appended as one frame, which is synced before the next is
//!   begun (group commit). So at most the last frame of a file can be torn.
//! - A file on which the disk has failed is left alone: all entries that no sync has proven are
//!   written again to the next file, under the same numbers, and a reader takes each number once.
//! - A checkpoint is written under a temporary name, synced, read back and only then given its own
//!   name. The last two are kept, with the journals since the older one.
//!
//! A generation is a way of dealing slots to shards. Another core count begins a new one, and reads
//! the old one's files without changing them.

mod addition;
mod checkpoint;
mod entry;
mod file;
mod frame;
mod log;
mod replay;
mod sound;
#[cfg(test)]
mod tests;

pub use addition::add_file;
pub use checkpoint::{
    CheckpointReader, CheckpointWriter, newest_first, remove_before, remove_generation,
};
pub use entry::{Entry, push_admitted, push_dead, push_ended, push_retried, push_waiting};
pub use file::{FileKind, FileName};
pub use frame::Frame;
pub use log::{Journal, JournalSettings};
pub use replay::{Replayed, TornTail, journal_files, replay};
pub use sound::{Hole, SoundReader};

use crate::io::DiskError;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalError {
    /// The disk refused an operation, which can be tried again.
    Disk { doing: &'static str, name: String, error: DiskError },
    /// The content of a file is not what was written. Nothing of it is used.
    Damaged { name: String, what: &'static str, at: u64 },
    /// The file was written by a version whose format this one cannot read.
    Version { name: String, version: u32 },
}

impl JournalError {
    fn disk(doing: &'static str, name: &str) -> impl FnOnce(DiskError) -> JournalError {
        let name = name.to_owned();
        move |error| JournalError::Disk { doing, name, error }
    }

    fn damaged(name: &str, what: &'static str, at: u64) -> JournalError {
        JournalError::Damaged { name: name.to_owned(), what, at }
    }

    /// Reports whether a file that must be there is missing.
    pub fn is_missing(&self) -> bool {
        matches!(self, JournalError::Damaged { what, .. } if *what == replay::MISSING)
    }

    /// Reports whether the file is at fault (damaged, missing or of another version), and not the
    /// disk.
    pub fn is_damage(&self) -> bool {
        !matches!(self, JournalError::Disk { .. })
    }
}

impl fmt::Display for JournalError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalError::Disk { doing, name, error } => {
                write!(out, "cannot {doing} {name}: {error}")
            }
            JournalError::Damaged { name, what, at } => write!(out, "{name}: {what} at byte {at}"),
            JournalError::Version { name, version } => write!(
                out,
                "{name} has format {version}, and this nephila reads format {}; use the version \
                 that wrote it",
                file::VERSION
            ),
        }
    }
}

impl std::error::Error for JournalError {}

//! What makes a crawl survive a power cut: a journal of what changed, and checkpoints of all there
//! is. One of each per shard, in `state/shard-NN/`.
//!
//! Owns the two files' form and their life on disk; what the entries mean is the shard's business.
//! In: [`Entry`]s. Out: the promise that entries up to a number survive ([`Journal::durable`]), and
//! after a restart the entries again ([`CheckpointReader`], [`replay`]). Touched by one core.
//!
//! - Entries are numbered from one on, without gaps, over all journal files of a generation. That
//!   number (`lsn`) says what a checkpointed host has seen of the journal.
//! - Entries gather in a buffer and are appended as one frame, which is synced before the next is
//!   begun (group commit). So at most the last frame of a file can be torn.
//! - A file that the disk has failed is left alone: all that no sync has proven goes to the next
//!   file again, under the same numbers, and whoever reads takes each number once.
//! - A checkpoint is written aside, synced, read back and only then given its name. The last two
//!   are kept, with the journals since the older one.
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
    /// The disk refused; what was to be done can be tried again.
    Disk { doing: &'static str, name: String, error: DiskError },
    /// A file is not what was written. Nothing of it is used.
    Damaged { name: String, what: &'static str, at: u64 },
    /// Written by a version that this one cannot read.
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

    /// A file that must be there is not.
    pub fn is_missing(&self) -> bool {
        matches!(self, JournalError::Damaged { what, .. } if *what == replay::MISSING)
    }

    /// The file's contents are at fault, and not the disk's mood.
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

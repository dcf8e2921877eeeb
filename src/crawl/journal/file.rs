//! Names and heads of state files.
//!
//! | part | bytes |
//! |---|---|
//! | magic | 8 |
//! | version, generation | 4 each |
//! | sequence | 8 |
//! | for a journal the number of its first entry, otherwise zero | 8 |
//! | checksum (xxh3 of all before) | 8 |
//!
//! Checksums of our own files have no key: they guard against decay, and no stranger writes these
//! files.
//!
//! A state file gets its name when the part that it must have is durable: for a journal its head,
//! for a checkpoint all of it. So a crash never leaves a file without a sound head, or an empty
//! file: such a file is damage. A head says which entries the files before it must have, so that
//! one of those that was emptied or removed is noticed.

use super::JournalError;
use crate::base::pack::{Pack, Unpack};
use crate::io::Disk;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// Since version 2, how an origin fails is kept with what its failures say of it. Since version 3,
/// an end says whether it brought a page, a run records its beginning, and a checkpoint has the
/// totals. Since version 4, a head says which entries are before it.
pub(super) const VERSION: u32 = 4;
pub(super) const HEAD_BYTES: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    Journal,
    Checkpoint,
}

/// A state file by its name: `journal-GGGG-SSSSSS.log`, `checkpoint-GGGG-SSSSSS.ckpt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileName {
    pub kind: FileKind,
    pub generation: u32,
    pub sequence: u64,
}

impl FileKind {
    fn magic(self) -> [u8; 8] {
        match self {
            FileKind::Journal => *b"nephjrnl",
            FileKind::Checkpoint => *b"nephckpt",
        }
    }
}

impl FileName {
    pub fn text(self) -> String {
        let FileName { generation, sequence, .. } = self;
        match self.kind {
            FileKind::Journal => format!("journal-{generation:04}-{sequence:06}.log"),
            FileKind::Checkpoint => format!("checkpoint-{generation:04}-{sequence:06}.ckpt"),
        }
    }

    /// Returns the temporary name under which the file is written until it gets its own.
    pub(super) fn aside(self) -> String {
        format!("{}.open", self.text())
    }

    pub fn parse(text: &str) -> Option<FileName> {
        let (kind, rest) = match text.strip_prefix("journal-") {
            Some(rest) => (FileKind::Journal, rest.strip_suffix(".log")?),
            None => {
                (FileKind::Checkpoint, text.strip_prefix("checkpoint-")?.strip_suffix(".ckpt")?)
            }
        };
        let (generation, sequence) = rest.split_once('-')?;
        let name = FileName {
            kind,
            generation: generation.parse().ok()?,
            sequence: sequence.parse().ok()?,
        };
        // Each file has one name: numbers such as `+1` and `01` are not ours.
        (name.text() == text).then_some(name)
    }

    /// Returns the head of this file. Entries before `first_lsn` are in the files before this one.
    pub(super) fn head(self, first_lsn: u64) -> Vec<u8> {
        let mut head = Vec::with_capacity(HEAD_BYTES);
        let mut pack = Pack(&mut head);
        pack.0.extend_from_slice(&self.kind.magic());
        pack.u32(VERSION);
        pack.u32(self.generation);
        pack.u64(self.sequence);
        pack.u64(first_lsn);
        let checksum = xxh3_64(pack.0);
        pack.u64(checksum);
        head
    }

    /// Checks that `head` is this file's; returns the number of its first entry.
    pub(super) fn check_head(self, head: &[u8]) -> Result<u64, JournalError> {
        let damaged = |what| JournalError::damaged(&self.text(), what, 0);
        if let Some(version) = old_version(head) {
            return Err(JournalError::Version { name: self.text(), version });
        }
        let (signed, checksum) = head.split_at_checked(HEAD_BYTES - 8).ok_or_else(|| {
            let is_empty = head.is_empty();
            damaged(if is_empty { "the file was emptied" } else { "the head is cut short" })
        })?;
        if checksum != xxh3_64(signed).to_le_bytes() {
            return Err(damaged("the head is damaged"));
        }
        let mut rest = Unpack(signed.get(8..).unwrap_or_default());
        let version = rest.u32().unwrap_or(0);
        if version != VERSION {
            return Err(JournalError::Version { name: self.text(), version });
        }
        let mut rest = Unpack(signed.get(HEAD_BYTES - 16..).unwrap_or_default());
        let first_lsn = rest.u64().unwrap_or(0);
        if head[..HEAD_BYTES] != self.head(first_lsn) {
            return Err(damaged("the head is another file's"));
        }
        Ok(first_lsn)
    }
}

/// Returns the version of a sound head of the shorter form that versions 1 to 3 had.
fn old_version(head: &[u8]) -> Option<u32> {
    let (signed, checksum) = head.get(..32)?.split_at(24);
    let version = Unpack(signed.get(8..)?).u32()?;
    (checksum == xxh3_64(signed).to_le_bytes() && version < VERSION).then_some(version)
}

/// Returns the state files of `kind` and `generation` in `directory`, oldest first.
pub(super) async fn list(
    disk: &impl Disk,
    directory: &Path,
    kind: FileKind,
    generation: u32,
) -> Result<Vec<FileName>, JournalError> {
    let names = match disk.list(directory).await {
        Err(crate::io::DiskError::NotFound) => Vec::new(),
        names => names.map_err(JournalError::disk("list", &directory.display().to_string()))?,
    };
    let of_kind = |name: &FileName| name.kind == kind && name.generation == generation;
    let mut found: Vec<FileName> =
        names.iter().filter_map(|name| FileName::parse(name)).filter(of_kind).collect();
    found.sort_unstable();
    Ok(found)
}

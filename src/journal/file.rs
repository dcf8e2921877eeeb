//! Names and heads of state files.
//!
//! | part | bytes |
//! |---|---|
//! | magic | 8 |
//! | version, generation | 4 each |
//! | sequence | 8 |
//! | checksum (xxh3 of all before) | 8 |
//!
//! Checksums of our own files have no key: they are against decay, and no stranger writes them.

use super::JournalError;
use crate::base::pack::{Pack, Unpack};
use crate::io::Disk;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// 2: how an origin fails is kept with what its failures say of it.
/// 3: an end says whether it brought a page, a run its beginning, a checkpoint the totals.
pub(super) const VERSION: u32 = 3;
pub(super) const HEAD_BYTES: usize = 32;

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

    /// Under this name a checkpoint is written until it is proven.
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
        // One file, one name: `+1` and `01` are not ours.
        (name.text() == text).then_some(name)
    }

    pub(super) fn head(self) -> Vec<u8> {
        let mut head = Vec::with_capacity(HEAD_BYTES);
        let mut pack = Pack(&mut head);
        pack.0.extend_from_slice(&self.kind.magic());
        pack.u32(VERSION);
        pack.u32(self.generation);
        pack.u64(self.sequence);
        let checksum = xxh3_64(pack.0);
        pack.u64(checksum);
        head
    }

    /// Whether `head` is this file's.
    pub(super) fn check_head(self, head: &[u8]) -> Result<(), JournalError> {
        let damaged = |what| JournalError::damaged(&self.text(), what, 0);
        let (signed, checksum) =
            head.split_at_checked(HEAD_BYTES - 8).ok_or(damaged("cut short in its head"))?;
        if checksum != xxh3_64(signed).to_le_bytes() {
            return Err(damaged("the head is damaged"));
        }
        let mut rest = Unpack(signed.get(8..).unwrap_or_default());
        let version = rest.u32().unwrap_or(0);
        if version != VERSION {
            return Err(JournalError::Version { name: self.text(), version });
        }
        if head[..HEAD_BYTES] != self.head() {
            return Err(damaged("it is another file under this name"));
        }
        Ok(())
    }
}

/// The state files of `kind` and `generation` in `directory`, oldest first.
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

//! Replay: reads the journal after a restart.

use super::file::{self, FileKind, FileName};
use super::frame::{End, Frame, FrameReader};
use super::{Entry, JournalError};
use crate::io::{Disk, File};
use std::path::Path;

/// What [`JournalError::Damaged`] says of a journal file that is not there.
pub(super) const MISSING: &str = "the file is missing";
const LOST_BEFORE: &str = "earlier entries are missing";

/// The torn end of a file, which is not read: it was being written when the power went, and was
/// promised to nobody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    pub name: String,
    pub at: u64,
    pub bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// The number of the last entry that there is.
    pub last_lsn: u64,
    pub size_bytes: u64,
    /// No file has this sequence or a later one.
    pub next_sequence: u64,
    pub entry_count: u64,
    /// The last frame that there is. The process that wrote it may have ended before it was synced,
    /// or the sync may have failed: Linux then takes its pages for clean, and a sync by another
    /// process proves nothing. So it is to be written again.
    pub unproven: Option<Frame>,
    pub torn: Vec<TornTail>,
}

/// Returns the journals of a generation, oldest first.
pub async fn journal_files(
    disk: &impl Disk,
    directory: &Path,
    generation: u32,
) -> Result<Vec<FileName>, JournalError> {
    file::list(disk, directory, FileKind::Journal, generation).await
}

/// Hands every entry behind `cut_lsn` to `take`, with its number, from file `first_sequence` on.
/// What it has read is made durable, except for [`Replayed::unproven`].
pub async fn replay(
    disk: &impl Disk,
    directory: &Path,
    generation: u32,
    (cut_lsn, first_sequence): (u64, u64),
    mut take: impl FnMut(u64, Entry) -> Result<(), &'static str>,
) -> Result<Replayed, JournalError> {
    let mut replayed = Replayed { last_lsn: cut_lsn, ..Replayed::default() };
    let names = file::list(disk, directory, FileKind::Journal, generation).await?;
    replayed.next_sequence = names.last().map_or(first_sequence, |name| name.sequence + 1);
    let names: Vec<FileName> =
        names.into_iter().filter(|name| name.sequence >= first_sequence).collect();
    if first_sequence > 0 && names.first().is_none_or(|name| name.sequence != first_sequence) {
        let wanted = FileName { kind: FileKind::Journal, generation, sequence: first_sequence };
        return Err(JournalError::damaged(&wanted.text(), MISSING, 0));
    }
    if names.is_empty() {
        return Ok(replayed);
    }
    for name in names {
        replay_file(disk, directory, name, &mut replayed, &mut take).await?;
    }
    disk.sync_dir(directory).await.map_err(JournalError::disk("sync", "the journals"))?;
    Ok(replayed)
}

async fn replay_file(
    disk: &impl Disk,
    directory: &Path,
    name: FileName,
    replayed: &mut Replayed,
    take: &mut impl FnMut(u64, Entry) -> Result<(), &'static str>,
) -> Result<(), JournalError> {
    let text = name.text();
    let mut reader = FrameReader::open(disk, &directory.join(&text), name).await?;
    let torn = |at, size| TornTail { name: text.clone(), at, bytes: size - at };
    let size = reader.file().size();
    replayed.size_bytes += size;
    reader.file().sync().await.map_err(JournalError::disk("sync", &text))?;
    // An empty file is damage as well: a journal has its name only once its head is durable.
    let first_lsn = reader.check_head().await?;
    if first_lsn > replayed.last_lsn + 1 {
        return Err(JournalError::damaged(&text, LOST_BEFORE, 0));
    }
    loop {
        let at = reader.at;
        let damaged = |what| JournalError::damaged(&text, what, at);
        let frame = match reader.next().await? {
            Ok(frame) => frame,
            Err(End::Clean) => return Ok(()),
            Err(End::Torn) => {
                replayed.torn.push(torn(at, size));
                return Ok(());
            }
            Err(End::Damaged) => return Err(damaged("a frame is damaged")),
        };
        if frame.first_lsn > replayed.last_lsn + 1 {
            return Err(damaged(LOST_BEFORE));
        }
        for (lsn, entry) in (frame.first_lsn..).zip(frame.entries()) {
            let entry = entry.and_then(|(kind, body)| Entry::read(kind, body));
            let entry = entry.ok_or(damaged("an entry cannot be decoded"))?;
            // Entries with earlier numbers were written a second time, after the disk had failed
            // the first.
            if lsn > replayed.last_lsn {
                take(lsn, entry).map_err(damaged)?;
                replayed.last_lsn = lsn;
                replayed.entry_count += 1;
            }
        }
        replayed.unproven = Some(frame);
    }
}

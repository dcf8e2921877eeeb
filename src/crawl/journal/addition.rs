//! Adds a journal file in one go, for whoever holds the crawl's lock while no crawl runs.

use super::file::{FileKind, FileName};
use super::frame::{self, Frame};
use super::{Entry, JournalError};
use crate::base::limits::JOURNAL_FRAME_BYTES;
use crate::io::{Disk, DiskError, File};
use std::path::Path;

/// Adds file `name` with `entries`, numbered from `first_lsn` on: they come behind all that
/// [`super::replay`] has read and made durable. The file has its name only when all of it is
/// durable: after a power cut it is there or it is not. It begins with `again`, the last frame of
/// the journal before it, which is not proven durable ([`super::Replayed::unproven`]).
pub async fn add_file(
    disk: &impl Disk,
    directory: &Path,
    name: FileName,
    first_lsn: u64,
    entries: &[Entry],
    again: Option<&Frame>,
) -> Result<(), JournalError> {
    assert_eq!(name.kind, FileKind::Journal);
    assert!(first_lsn > 0, "entries are numbered from one on");
    let aside = name.aside();
    let path = directory.join(&aside);
    match disk.remove(&path).await {
        Ok(()) | Err(DiskError::NotFound) => {}
        Err(error) => return Err(JournalError::disk("remove", &aside)(error)),
    }
    let file = disk.create(&path).await.map_err(JournalError::disk("create", &aside))?;
    let head_lsn = again.map_or(first_lsn, |again| again.first_lsn);
    file.append(name.head(head_lsn)).await.map_err(JournalError::disk("write", &aside))?;
    if let Some(again) = again {
        let bytes = again.sealed(name.sequence);
        file.append(bytes).await.map_err(JournalError::disk("write", &aside))?;
    }
    let mut lsn = first_lsn;
    let mut rest = entries;
    while !rest.is_empty() {
        let mut buffer = Vec::new();
        frame::begin(&mut buffer);
        let mut count = 0;
        while let Some((entry, behind)) = rest.split_first()
            && buffer.len() < JOURNAL_FRAME_BYTES
        {
            entry.push(&mut buffer);
            count += 1;
            rest = behind;
        }
        frame::seal(&mut buffer, name.sequence, lsn, count);
        lsn += u64::from(count);
        file.append(buffer).await.map_err(JournalError::disk("write", &aside))?;
    }
    file.sync().await.map_err(JournalError::disk("sync", &aside))?;
    let named = disk.rename(&path, &directory.join(name.text())).await;
    named.map_err(JournalError::disk("rename", &aside))?;
    disk.sync_dir(directory).await.map_err(JournalError::disk("sync", &aside))
}

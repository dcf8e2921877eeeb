//! Checkpoints: writes them under a temporary name, reads them back and names them; reads them
//! after a restart; removes the older files that a new one makes useless.

use super::file::{self, FileKind, FileName};
use super::frame::{self, End, FrameReader};
use super::{Entry, JournalError};
use crate::base::limits::CHECKPOINT_FRAME_BYTES;
use crate::io::{Disk, DiskError, File};
use std::collections::VecDeque;
use std::path::Path;

pub struct CheckpointWriter<F> {
    name: FileName,
    file: F,
    buffer: Vec<u8>,
    entry_count: u32,
    written_count: u64,
    size_bytes: u64,
}

impl<F: File> CheckpointWriter<F> {
    pub async fn create<D: Disk<File = F>>(
        disk: &D,
        directory: &Path,
        name: FileName,
    ) -> Result<CheckpointWriter<F>, JournalError> {
        assert_eq!(name.kind, FileKind::Checkpoint);
        let text = name.aside();
        let path = directory.join(&text);
        match disk.remove(&path).await {
            Ok(()) | Err(DiskError::NotFound) => {}
            Err(error) => return Err(JournalError::disk("remove", &text)(error)),
        }
        let file = disk.create(&path).await.map_err(JournalError::disk("create", &text))?;
        file.append(name.head(0)).await.map_err(JournalError::disk("write", &text))?;
        let mut buffer = Vec::with_capacity(CHECKPOINT_FRAME_BYTES * 2);
        frame::begin(&mut buffer);
        let size_bytes = file.size();
        Ok(CheckpointWriter { name, file, buffer, entry_count: 0, written_count: 0, size_bytes })
    }

    /// Adds an entry. Returns true if it is time to [`CheckpointWriter::flush`].
    pub fn push(&mut self, entry: &Entry) -> bool {
        entry.push(&mut self.buffer);
        self.entry_count += 1;
        self.buffer.len() >= CHECKPOINT_FRAME_BYTES
    }

    /// Writes what was added; returns how many bytes it was.
    pub async fn flush(&mut self) -> Result<usize, JournalError> {
        frame::seal(&mut self.buffer, self.name.sequence, self.written_count, self.entry_count);
        let full = std::mem::take(&mut self.buffer);
        let size_bytes = full.len();
        let written = self.file.append(full).await;
        self.buffer = written.map_err(JournalError::disk("write", &self.name.aside()))?;
        self.written_count += u64::from(self.entry_count);
        self.entry_count = 0;
        self.size_bytes += size_bytes as u64;
        frame::begin(&mut self.buffer);
        Ok(size_bytes)
    }

    /// Makes the checkpoint durable, reads it back, and gives it its name. Its last entry must have
    /// been added. Returns its size in bytes.
    pub async fn finish<D: Disk<File = F>>(
        mut self,
        disk: &D,
        directory: &Path,
    ) -> Result<u64, JournalError> {
        self.flush().await?;
        let aside = self.name.aside();
        self.file.sync().await.map_err(JournalError::disk("sync", &aside))?;
        let path = directory.join(&aside);
        CheckpointReader::open_at(disk, &path, self.name).await?.read_out().await?;
        let named = disk.rename(&path, &directory.join(self.name.text())).await;
        named.map_err(JournalError::disk("rename", &aside))?;
        disk.sync_dir(directory).await.map_err(JournalError::disk("sync", &aside))?;
        Ok(self.size_bytes)
    }
}

/// A reader of a checkpoint, entry by entry. Whatever is wrong with the file is an error, and what
/// was read by then must not be used.
pub struct CheckpointReader<F> {
    frames: FrameReader<F>,
    entries: VecDeque<Entry>,
    entry_count: u64,
    has_end: bool,
}

impl<F: File> CheckpointReader<F> {
    pub async fn open<D: Disk<File = F>>(
        disk: &D,
        directory: &Path,
        name: FileName,
    ) -> Result<CheckpointReader<F>, JournalError> {
        CheckpointReader::open_at(disk, &directory.join(name.text()), name).await
    }

    async fn open_at<D: Disk<File = F>>(
        disk: &D,
        path: &Path,
        name: FileName,
    ) -> Result<CheckpointReader<F>, JournalError> {
        let frames = FrameReader::open(disk, path, name).await?;
        frames.check_head().await?;
        Ok(CheckpointReader { frames, entries: VecDeque::new(), entry_count: 0, has_end: false })
    }

    /// Returns the next entry; `None` behind the last.
    pub async fn next(&mut self) -> Result<Option<Entry>, JournalError> {
        while self.entries.is_empty() {
            let frame = match self.frames.next().await? {
                Ok(frame) => frame,
                Err(End::Clean) if self.has_end => return Ok(None),
                Err(End::Clean) => return Err(self.damaged("the last entry is missing")),
                Err(End::Torn | End::Damaged) => return Err(self.damaged("a frame is damaged")),
            };
            if frame.first_lsn != self.entry_count || self.has_end {
                return Err(self.damaged("a frame is in the wrong place"));
            }
            self.entry_count += u64::from(frame.entry_count);
            for entry in frame.entries() {
                let entry = entry.and_then(|(kind, body)| Entry::read(kind, body));
                let entry = entry.ok_or_else(|| self.damaged("an entry cannot be decoded"))?;
                self.has_end = matches!(entry, Entry::Finished { .. });
                self.entries.push_back(entry);
            }
        }
        Ok(self.entries.pop_front())
    }

    /// Reads on to the end, so that all of the checkpoint is checked.
    pub async fn read_out(mut self) -> Result<(), JournalError> {
        while self.next().await?.is_some() {}
        Ok(())
    }

    /// Returns an error that names this file as damaged.
    pub fn damaged(&self, what: &'static str) -> JournalError {
        JournalError::damaged(&self.frames.name.text(), what, self.frames.at)
    }
}

/// Returns the checkpoints of a generation that have their own name, newest first.
pub async fn newest_first(
    disk: &impl Disk,
    directory: &Path,
    generation: u32,
) -> Result<Vec<FileName>, JournalError> {
    let mut names = file::list(disk, directory, FileKind::Checkpoint, generation).await?;
    names.reverse();
    Ok(names)
}

/// Removes what the checkpoints from `oldest` on do not need: older ones, unfinished ones, journals
/// before `first_journal`, and whatever belongs to an earlier generation.
pub async fn remove_before(
    disk: &impl Disk,
    directory: &Path,
    oldest: FileName,
    first_journal: u64,
) -> Result<(), JournalError> {
    remove_if(disk, directory, |name, is_aside| {
        if name.generation != oldest.generation {
            name.generation < oldest.generation
        } else if name.kind == FileKind::Journal {
            name.sequence < first_journal
        } else {
            name.sequence < oldest.sequence || is_aside
        }
    })
    .await
}

async fn remove_if(
    disk: &impl Disk,
    directory: &Path,
    is_useless: impl Fn(FileName, bool) -> bool,
) -> Result<(), JournalError> {
    let listed = match disk.list(directory).await {
        Err(DiskError::NotFound) => return Ok(()),
        listed => listed.map_err(JournalError::disk("list", "the state files"))?,
    };
    for text in listed {
        let stem = text.strip_suffix(".open");
        let name = FileName::parse(stem.unwrap_or(&text));
        if name.is_none_or(|name| !is_useless(name, stem.is_some())) {
            continue;
        }
        match disk.remove(&directory.join(&text)).await {
            Ok(()) | Err(DiskError::NotFound) => {}
            Err(error) => return Err(JournalError::disk("remove", &text)(error)),
        }
    }
    Ok(())
}

/// Removes all files of a generation, which no manifest may name.
pub async fn remove_generation(
    disk: &impl Disk,
    directory: &Path,
    generation: u32,
) -> Result<(), JournalError> {
    remove_if(disk, directory, |name, _| name.generation == generation).await
}

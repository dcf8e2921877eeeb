//! Reads what is sound of a damaged file: every whole frame, and how much lies between the frames.
//! A repair uses this; a restart refuses such a file.

use super::file::FileName;
use super::frame::FrameReader;
use super::{Entry, JournalError};
use crate::io::{Disk, File};
use std::path::Path;

pub struct SoundReader<F> {
    frames: FrameReader<F>,
    /// The number of the first entry, by the head: entries before it are in the files before.
    /// `None` if the head is damaged.
    pub first_lsn: Option<u64>,
    /// Bytes that are in no sound frame, in the order in which they were met.
    pub holes: Vec<Hole>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    pub at: u64,
    pub size_bytes: u64,
    /// False if this is the end of the file, as a power cut leaves it.
    pub is_before_frame: bool,
}

impl<F: File> SoundReader<F> {
    pub async fn open<D: Disk<File = F>>(
        disk: &D,
        directory: &Path,
        name: FileName,
    ) -> Result<SoundReader<F>, JournalError> {
        let mut frames = FrameReader::open(disk, &directory.join(name.text()), name).await?;
        let first_lsn = match frames.check_head().await {
            Ok(first_lsn) => Some(first_lsn),
            Err(error @ (JournalError::Disk { .. } | JournalError::Version { .. })) => {
                return Err(error);
            }
            Err(JournalError::Damaged { .. }) => {
                // The frames, if there are any, are where they would be behind a sound head.
                frames.at = frames.at.min(frames.file().size());
                None
            }
        };
        Ok(SoundReader { frames, first_lsn, holes: Vec::new() })
    }

    /// Returns the number of the first entry of the next whole frame, and its entries; `None` at
    /// the end.
    pub async fn next(&mut self) -> Result<Option<(u64, Vec<Entry>)>, JournalError> {
        loop {
            let size = self.frames.file().size();
            if self.frames.at >= size {
                return Ok(None);
            }
            let at = self.frames.at;
            let Some(frame) = self.frames.next_sound().await? else {
                self.holes.push(Hole { at, size_bytes: size - at, is_before_frame: false });
                self.frames.at = size;
                return Ok(None);
            };
            let begun = self.frames.at - frame.size_bytes();
            if begun > at {
                self.holes.push(Hole { at, size_bytes: begun - at, is_before_frame: true });
            }
            let read =
                |entry: Option<(u8, &[u8])>| entry.and_then(|(of, body)| Entry::read(of, body));
            match frame.entries().map(read).collect() {
                Some(entries) => return Ok(Some((frame.first_lsn, entries))),
                None => {
                    let size_bytes = frame.size_bytes();
                    self.holes.push(Hole { at: begun, size_bytes, is_before_frame: true });
                }
            }
        }
    }
}

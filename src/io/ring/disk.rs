//! Files on the ring: opened beneath the data directory, written and synced as ring operations.
//!
//! Opening, renaming and listing are plain system calls: they are rare (a file lasts for a
//! gigabyte) and the ring's versions would be served by kernel threads anyway. glommio's files were
//! refused: their write eats the buffer, which then is allocated anew for every megabyte.

use super::{Core, RingWorld};
use crate::base::Time;
use crate::io::{Disk, DiskError, File};
use crate::sys::file::{self, Directory};
use crate::sys::uring::Operation;
use std::cell::Cell;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

impl RingWorld {
    fn directory(&self) -> Result<&Directory, DiskError> {
        self.0.directory.as_ref().ok_or(DiskError::NotFound)
    }

    fn file(&self, fd: OwnedFd) -> Result<RingFile, DiskError> {
        let size = file::size(fd.as_raw_fd()).map_err(DiskError::of_system)?;
        Ok(RingFile { core: self.0.clone(), fd, size: Cell::new(size) })
    }
}

impl Disk for RingWorld {
    type File = RingFile;

    async fn create(&self, path: &Path) -> Result<RingFile, DiskError> {
        self.file(self.directory()?.create(path).map_err(DiskError::of_system)?)
    }

    async fn open(&self, path: &Path) -> Result<RingFile, DiskError> {
        self.file(self.directory()?.open_file(path).map_err(DiskError::of_system)?)
    }

    async fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        self.directory()?.rename(from, to).map_err(DiskError::of_system)
    }

    async fn remove(&self, path: &Path) -> Result<(), DiskError> {
        self.directory()?.remove(path).map_err(DiskError::of_system)
    }

    async fn create_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.directory()?.create_directory(path).map_err(DiskError::of_system)
    }

    async fn list(&self, path: &Path) -> Result<Vec<String>, DiskError> {
        self.directory()?.list(path).map_err(DiskError::of_system)
    }

    async fn sync_dir(&self, path: &Path) -> Result<(), DiskError> {
        let directory = self.directory()?.open_directory(path).map_err(DiskError::of_system)?;
        sync(&self.0, &directory).await
    }
}

pub struct RingFile {
    core: Rc<Core>,
    fd: OwnedFd,
    size: Cell<u64>,
}

impl File for RingFile {
    async fn append_back(&self, bytes: Vec<u8>) -> (Vec<u8>, Result<(), DiskError>) {
        let (mut bytes, mut from) = (bytes, 0);
        while from < bytes.len() {
            let (fd, offset) = (self.fd.as_raw_fd(), self.size.get());
            let write = move || Operation::Write { fd, bytes, from, offset };
            // Without an answer the world has stopped, and its buffers with it.
            let Ok((result, Operation::Write { bytes: back, .. })) =
                perform(&self.core, write).await
            else {
                return (Vec::new(), Err(DiskError::Os(libc::EIO)));
            };
            bytes = back;
            match result {
                ..0 => return (bytes, Err(DiskError::of_system(-result))),
                0 => return (bytes, Err(DiskError::Full)),
                _ => {
                    from += result as usize;
                    self.size.set(offset + result as u64);
                }
            }
        }
        (bytes, Ok(()))
    }

    async fn read_at(&self, offset: u64, len: usize) -> Result<Vec<u8>, DiskError> {
        let fd = self.fd.as_raw_fd();
        let mut all = Vec::new();
        while all.len() < len {
            let (at, want) = (offset + all.len() as u64, len - all.len());
            let read = move || Operation::Read { fd, bytes: Vec::with_capacity(want), offset: at };
            let (result, operation) = perform(&self.core, read).await?;
            if result < 0 {
                return Err(DiskError::of_system(-result));
            }
            let mut piece = operation.into_read_bytes(result).unwrap_or_default();
            piece.truncate(want);
            if piece.is_empty() {
                break;
            }
            if all.is_empty() { all = piece } else { all.extend_from_slice(&piece) }
        }
        Ok(all)
    }

    async fn sync(&self) -> Result<(), DiskError> {
        sync(&self.core, &self.fd).await
    }

    async fn truncate(&self, size: u64) -> Result<(), DiskError> {
        file::truncate(self.fd.as_raw_fd(), size).map_err(DiskError::of_system)?;
        self.size.set(size);
        Ok(())
    }

    fn size(&self) -> u64 {
        self.size.get()
    }
}

async fn sync(core: &Rc<Core>, fd: &OwnedFd) -> Result<(), DiskError> {
    let fd = fd.as_raw_fd();
    let (result, _) = perform(core, move || Operation::Sync { fd }).await?;
    if result < 0 { Err(DiskError::of_system(-result)) } else { Ok(()) }
}

async fn perform(
    core: &Rc<Core>,
    make: impl FnOnce() -> Operation,
) -> Result<(i32, Operation), DiskError> {
    core.perform(make, Time::NEVER).await.ok_or(DiskError::Os(libc::EIO))
}

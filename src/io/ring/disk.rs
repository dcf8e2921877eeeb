//! Files on the ring: opened beneath the data directory, written and synced as ring operations.
//!
//! Opening, renaming and listing are plain system calls: they are rare (a file lasts for a
//! gigabyte), and kernel threads would serve the ring's versions anyway. glommio's files were
//! refused, because their write consumes the buffer, which then must be allocated anew for every
//! megabyte.

use super::direct::Direct;
use super::{Core, RingWorld};
use crate::base::Time;
use crate::io::{Disk, DiskError, File};
use crate::sys::file::{self, Directory};
use crate::sys::uring::Operation;
use std::cell::{Cell, RefCell};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::rc::Rc;

impl RingWorld {
    fn directory(&self) -> Result<&Directory, DiskError> {
        self.0.directory.as_ref().ok_or(DiskError::NotFound)
    }

    fn file(&self, fd: OwnedFd) -> Result<RingFile, DiskError> {
        let size = file::size(fd.as_raw_fd()).map_err(DiskError::of_system)?;
        let (core, size) = (self.0.clone(), Cell::new(size));
        Ok(RingFile { core, fd, size, direct: RefCell::default() })
    }
}

impl Disk for RingWorld {
    type File = RingFile;

    async fn create(&self, path: &Path) -> Result<RingFile, DiskError> {
        self.file(self.directory()?.create(path).map_err(DiskError::of_system)?)
    }

    async fn create_bulk(&self, path: &Path) -> Result<RingFile, DiskError> {
        let file = self.create(path).await?;
        match self.directory()?.open_direct(path) {
            Ok(fd) => *file.direct.borrow_mut() = Some(Rc::new(Direct::new(fd))),
            Err(number) => {
                let error = DiskError::of_system(number);
                tracing::debug!(
                    "{} is written through the page cache, because the file system does not \
                     support direct writes: {error}",
                    path.display()
                );
            }
        }
        Ok(file)
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
    /// The way past the page cache, while there is one.
    direct: RefCell<Option<Rc<Direct>>>,
}

impl RingFile {
    /// Writes `bytes[from..to]` at the end; returns the bytes, and the result of the write.
    async fn write(
        &self,
        fd: RawFd,
        bytes: Vec<u8>,
        from: usize,
        to: usize,
        offset: u64,
    ) -> (Vec<u8>, i32) {
        let write = move || Operation::Write { fd, bytes, from, to, offset };
        match perform(&self.core, write).await {
            Ok((result, Operation::Write { bytes, .. })) => (bytes, result),
            // There is no answer only if the world has stopped, and its buffers are gone with it.
            _ => (Vec::new(), -libc::EIO),
        }
    }

    /// Appends past the page cache the part of `bytes` that makes whole blocks, and returns the
    /// bytes and where that part ends. After a failed write everything goes through the page cache.
    async fn append_blocks(
        &self,
        direct: &Direct,
        mut bytes: Vec<u8>,
        mut from: usize,
    ) -> (Vec<u8>, usize) {
        while let Some(step) = direct.step(self.size.get(), &bytes[from..]) {
            let (len, offset) = (step.byte_count, self.size.get() - step.again_byte_count);
            let (wanted, result) = match step.staged {
                Some((room, start)) => {
                    let (fd, end) = (direct.fd(), room.len());
                    let (room, result) = self.write(fd, room, start, end, offset).await;
                    direct.take_back(room);
                    (end - start, result)
                }
                None => {
                    let result;
                    (bytes, result) =
                        self.write(direct.fd(), bytes, from, from + len, offset).await;
                    (len, result)
                }
            };
            if usize::try_from(result).ok() != Some(wanted) {
                let why = direct_failure_text(wanted, result);
                tracing::warn!(
                    "a direct write failed: {why}. This file is written through the page cache \
                     from now on"
                );
                *self.direct.borrow_mut() = None;
                break;
            }
            direct.wrote_blocks();
            from += len;
            self.size.set(self.size.get() + len as u64);
        }
        (bytes, from)
    }
}

impl File for RingFile {
    async fn append_from(&self, bytes: Vec<u8>, from: usize) -> (Vec<u8>, Result<(), DiskError>) {
        let (mut bytes, mut from) = (bytes, from);
        let direct = self.direct.borrow().clone();
        if let Some(direct) = &direct {
            (bytes, from) = self.append_blocks(direct, bytes, from).await;
            match bytes.get(from..) {
                Some(rest) => direct.keep_tail(rest),
                None => return (bytes, Err(DiskError::Os(libc::EIO))),
            }
        }
        while from < bytes.len() {
            let (fd, offset, to) = (self.fd.as_raw_fd(), self.size.get(), bytes.len());
            let result;
            (bytes, result) = self.write(fd, bytes, from, to, offset).await;
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
        // The contents of the last block are not known here, so the file goes through the page
        // cache from now on. Truncation is rare: it follows a failure of the disk.
        *self.direct.borrow_mut() = None;
        Ok(())
    }

    fn size(&self) -> u64 {
        self.size.get()
    }
}

/// Says why a direct write of `wanted` bytes failed, and what to do. A full disk shows itself
/// either by an error, or by a write that ends early without one.
fn direct_failure_text(wanted: usize, result: i32) -> String {
    match (usize::try_from(result), DiskError::of_system(result.saturating_neg())) {
        (Ok(written), _) => format!(
            "only {written} of {wanted} bytes were written, so the disk is probably full; free \
             space on it"
        ),
        (Err(_), DiskError::Full) => "the disk is full; free space on it".to_owned(),
        (Err(_), error) => format!("{error}; check the disk and the kernel log"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direct_write_to_a_full_disk_says_so_whether_it_ends_early_or_fails() {
        let text = |result| direct_failure_text(8_192, result);
        assert!(text(4_096).contains("only 4096 of 8192 bytes") && text(4_096).contains("full"));
        assert!(text(0).contains("only 0 of 8192 bytes") && text(0).contains("free space"));
        for number in [libc::ENOSPC, libc::EDQUOT] {
            assert_eq!(text(-number), "the disk is full; free space on it");
        }
        assert!(text(-libc::EIO).starts_with("system error 5; check the disk"));
    }
}

//! Files as the crawler uses them: written by appending, read by position, durable when synced.
//!
//! All paths are under the data directory that the world was made with, and relative to it. No
//! operation follows a symbolic link out of it.

use std::fmt;
use std::future::Future;
use std::path::Path;

pub trait Disk {
    type File: File;

    /// A new, empty file. Fails with [`DiskError::Exists`] if the name is taken.
    fn create(&self, path: &Path) -> impl Future<Output = Result<Self::File, DiskError>>;

    /// As [`Disk::create`], for a file that is written in large buffers and not read soon: past the
    /// page cache, where the world has one and the file system lets it.
    fn create_bulk(&self, path: &Path) -> impl Future<Output = Result<Self::File, DiskError>> {
        self.create(path)
    }

    /// An existing file, to read or to go on appending at its end.
    fn open(&self, path: &Path) -> impl Future<Output = Result<Self::File, DiskError>>;

    fn rename(&self, from: &Path, to: &Path) -> impl Future<Output = Result<(), DiskError>>;

    fn remove(&self, path: &Path) -> impl Future<Output = Result<(), DiskError>>;

    /// Makes a directory and its parents; an existing one is fine.
    fn create_dir(&self, path: &Path) -> impl Future<Output = Result<(), DiskError>>;

    /// Names of the entries of a directory, sorted.
    fn list(&self, path: &Path) -> impl Future<Output = Result<Vec<String>, DiskError>>;

    /// Makes creations, renames and removals in a directory durable.
    fn sync_dir(&self, path: &Path) -> impl Future<Output = Result<(), DiskError>>;
}

/// Makes a directory and its parents, whose own names survive a power cut.
pub async fn make_dir(disk: &impl Disk, path: &Path) -> Result<(), DiskError> {
    disk.create_dir(path).await?;
    for above in path.ancestors().skip(1) {
        disk.sync_dir(above).await?;
    }
    Ok(())
}

/// One open file with one writer. Dropping it closes it; what was not synced may be lost.
pub trait File: 'static {
    /// Writes `bytes[from..]` at the end and gives the buffer back, as it was, whatever came of it.
    /// One append at a time. After an error the file's end is unknown: truncate to the last good
    /// size or abandon. What begins in memory where it begins in the file, by the last bits that
    /// [`DIRECT_BLOCK_BYTES`](crate::base::limits::DIRECT_BLOCK_BYTES) leaves, need not be copied.
    fn append_from(
        &self,
        bytes: Vec<u8>,
        from: usize,
    ) -> impl Future<Output = (Vec<u8>, Result<(), DiskError>)>;

    /// As [`File::append_from`], all of `bytes`.
    fn append_back(
        &self,
        bytes: Vec<u8>,
    ) -> impl Future<Output = (Vec<u8>, Result<(), DiskError>)> {
        self.append_from(bytes, 0)
    }

    /// As [`File::append_back`], for callers that do not write the same bytes again.
    fn append(&self, bytes: Vec<u8>) -> impl Future<Output = Result<Vec<u8>, DiskError>> {
        async {
            let (bytes, result) = self.append_back(bytes).await;
            result.map(|()| bytes)
        }
    }

    /// Up to `len` bytes at `offset`; fewer only at the end of the file.
    fn read_at(&self, offset: u64, len: usize) -> impl Future<Output = Result<Vec<u8>, DiskError>>;

    /// When it resolves, everything appended before it was called survives a power cut. A failed
    /// sync is never repaired by a second one: the caller rewrites or stops.
    fn sync(&self) -> impl Future<Output = Result<(), DiskError>>;

    fn truncate(&self, size: u64) -> impl Future<Output = Result<(), DiskError>>;

    /// Bytes appended or found so far.
    fn size(&self) -> u64;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskError {
    Full,
    Exists,
    NotFound,
    /// A path that leaves the data directory, or a link inside it.
    OutsideDirectory,
    PermissionDenied,
    /// Anything else, as the system's error number.
    Os(i32),
}

impl DiskError {
    /// What one of the system's error numbers means.
    pub fn of_system(number: i32) -> DiskError {
        match number {
            libc::ENOSPC | libc::EDQUOT => DiskError::Full,
            libc::EEXIST => DiskError::Exists,
            libc::ENOENT => DiskError::NotFound,
            libc::EXDEV | libc::ELOOP => DiskError::OutsideDirectory,
            // The last: a file that was opened for reading alone.
            libc::EACCES | libc::EPERM | libc::EROFS | libc::EBADF => DiskError::PermissionDenied,
            other => DiskError::Os(other),
        }
    }
}

impl fmt::Display for DiskError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskError::Full => out.write_str("disk full"),
            DiskError::Exists => out.write_str("file exists"),
            DiskError::NotFound => out.write_str("no such file"),
            DiskError::OutsideDirectory => out.write_str("path leaves the data directory"),
            DiskError::PermissionDenied => out.write_str("permission denied"),
            DiskError::Os(number) => write!(out, "system error {number}"),
        }
    }
}

impl std::error::Error for DiskError {}

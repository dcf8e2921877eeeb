//! Files as the crawler uses them: written by appending, read by position, durable once synced.
//!
//! All paths are relative to the data directory that the world was made with. No operation follows
//! a symbolic link out of it.

use std::fmt;
use std::future::Future;
use std::path::Path;

pub trait Disk {
    type File: File;

    /// Creates an empty file. Fails with [`DiskError::Exists`] if the name is taken.
    fn create(&self, path: &Path) -> impl Future<Output = Result<Self::File, DiskError>>;

    /// Does the same as [`Disk::create`] for a file that is written in large buffers and not read
    /// soon. It is written past the page cache where the world has one and the file system allows
    /// it.
    fn create_bulk(&self, path: &Path) -> impl Future<Output = Result<Self::File, DiskError>> {
        self.create(path)
    }

    /// Opens an existing file, to read it or to append at its end.
    fn open(&self, path: &Path) -> impl Future<Output = Result<Self::File, DiskError>>;

    fn rename(&self, from: &Path, to: &Path) -> impl Future<Output = Result<(), DiskError>>;

    fn remove(&self, path: &Path) -> impl Future<Output = Result<(), DiskError>>;

    /// Makes a directory and its parents; a directory that exists is no error.
    fn create_dir(&self, path: &Path) -> impl Future<Output = Result<(), DiskError>>;

    /// Returns the names of the entries of a directory, sorted.
    fn list(&self, path: &Path) -> impl Future<Output = Result<Vec<String>, DiskError>>;

    /// Makes creations, renames and removals in a directory durable.
    fn sync_dir(&self, path: &Path) -> impl Future<Output = Result<(), DiskError>>;
}

/// Makes a directory and its parents, and makes their names durable.
pub async fn make_dir(disk: &impl Disk, path: &Path) -> Result<(), DiskError> {
    disk.create_dir(path).await?;
    for above in path.ancestors().skip(1) {
        disk.sync_dir(above).await?;
    }
    Ok(())
}

/// An open file with one writer. Dropping it closes it; what was not synced may be lost.
pub trait File: 'static {
    /// Writes `bytes[from..]` at the end and gives the buffer back unchanged, whether the write
    /// succeeds or fails. Only one append may be under way. After an error the file's end is
    /// unknown: the caller truncates the file to the last good size or abandons it. If the bytes
    /// begin at the same offset in memory as in the file, modulo
    /// [`DIRECT_BLOCK_BYTES`](crate::base::limits::DIRECT_BLOCK_BYTES), they need not be copied.
    fn append_from(
        &self,
        bytes: Vec<u8>,
        from: usize,
    ) -> impl Future<Output = (Vec<u8>, Result<(), DiskError>)>;

    /// Does the same as [`File::append_from`] with all of `bytes`.
    fn append_back(
        &self,
        bytes: Vec<u8>,
    ) -> impl Future<Output = (Vec<u8>, Result<(), DiskError>)> {
        self.append_from(bytes, 0)
    }

    /// Does the same as [`File::append_back`], for callers that never write the same bytes again.
    fn append(&self, bytes: Vec<u8>) -> impl Future<Output = Result<Vec<u8>, DiskError>> {
        async {
            let (bytes, result) = self.append_back(bytes).await;
            result.map(|()| bytes)
        }
    }

    /// Returns up to `len` bytes at `offset`, and fewer only at the end of the file.
    fn read_at(&self, offset: u64, len: usize) -> impl Future<Output = Result<Vec<u8>, DiskError>>;

    /// Makes everything durable that was appended before the call: when the future resolves, it
    /// survives a power cut. A second sync never repairs a failed one; the caller writes the bytes
    /// again or stops.
    fn sync(&self) -> impl Future<Output = Result<(), DiskError>>;

    fn truncate(&self, size: u64) -> impl Future<Output = Result<(), DiskError>>;

    /// Returns the file's size: the bytes found at opening and those appended since.
    fn size(&self) -> u64;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskError {
    Full,
    Exists,
    NotFound,
    /// The path leads out of the data directory, or through a link inside it.
    OutsideDirectory,
    PermissionDenied,
    /// Any other error, with the system's error number.
    Os(i32),
}

impl DiskError {
    /// Returns the meaning of one of the system's error numbers.
    pub fn of_system(number: i32) -> DiskError {
        match number {
            libc::ENOSPC | libc::EDQUOT => DiskError::Full,
            libc::EEXIST => DiskError::Exists,
            libc::ENOENT => DiskError::NotFound,
            libc::EXDEV | libc::ELOOP => DiskError::OutsideDirectory,
            // EBADF: the file was opened for reading only.
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

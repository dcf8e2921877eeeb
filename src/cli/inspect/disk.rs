//! A world (see `crate::io`) for commands that work on a crawl's directory. Its disk makes plain
//! system calls, one after the other, and its clock stands still.
//!
//! While the crawl is running nothing may be changed, so files are opened for reading only,
//! whatever the caller asks for, and the operating system refuses the rest. Files can be created
//! only by a caller that holds the crawl's lock ([`PlainDisk::writable`]). The monotonic clock is
//! the wall clock, and both always return the same moment, so times from state files stay as they
//! are.

use crate::base::{Time, WallTime};
use crate::io::{Clock, Disk, DiskError, File};
use crate::sys::file::Directory;
use crate::sys::process;
use std::cell::Cell;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// The disk and the clock of a crawl's directory.
pub struct PlainDisk {
    directory: Directory,
    is_writable: bool,
    now: WallTime,
}

/// A file of a [`PlainDisk`].
pub struct PlainFile {
    file: std::fs::File,
    size: Cell<u64>,
    is_writable: bool,
}

impl PlainDisk {
    pub fn open(path: &Path) -> std::io::Result<PlainDisk> {
        let directory = Directory::open(path).map_err(std::io::Error::from_raw_os_error)?;
        let now = WallTime(process::realtime_ns());
        Ok(PlainDisk { directory, is_writable: false, now })
    }

    /// Makes the disk writable. Only a caller that holds the crawl's lock may do this.
    pub fn writable(self) -> PlainDisk {
        PlainDisk { is_writable: true, ..self }
    }

    /// Runs a future that waits for nothing but this disk, and returns its value.
    ///
    /// # Panics
    ///
    /// If the future waits for anything else.
    pub fn run<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => unreachable!("a plain disk never makes its caller wait"),
        }
    }

    /// Returns when a file was last written to.
    pub fn modified_at(&self, path: &Path) -> Option<WallTime> {
        let file = std::fs::File::from(self.directory.open_to_read(path).ok()?);
        let modified = file.metadata().ok()?.modified().ok()?;
        let since = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(WallTime(u64::try_from(since.as_nanos()).ok()?))
    }

    /// Opens a file for reading from its first byte.
    pub fn reader(&self, path: &Path) -> std::io::Result<std::fs::File> {
        let fd = self.directory.open_to_read(path);
        fd.map(std::fs::File::from).map_err(std::io::Error::from_raw_os_error)
    }

    fn check_writable(&self) -> Result<(), DiskError> {
        if self.is_writable { Ok(()) } else { Err(DiskError::PermissionDenied) }
    }
}

impl Clock for PlainDisk {
    fn now(&self) -> Time {
        Time(self.now.0)
    }

    fn wall(&self) -> WallTime {
        self.now
    }

    fn cpu_ns(&self) -> u64 {
        process::thread_cpu_ns()
    }

    async fn sleep_until(&self, _: Time) {}

    async fn yield_now(&self) {}
}

impl Disk for PlainDisk {
    type File = PlainFile;

    async fn create(&self, path: &Path) -> Result<PlainFile, DiskError> {
        self.check_writable()?;
        let fd = self.directory.create(path).map_err(DiskError::of_system)?;
        PlainFile::new(fd.into(), true)
    }

    async fn open(&self, path: &Path) -> Result<PlainFile, DiskError> {
        let fd = self.directory.open_to_read(path).map_err(DiskError::of_system)?;
        PlainFile::new(fd.into(), self.is_writable)
    }

    async fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        self.check_writable()?;
        self.directory.rename(from, to).map_err(DiskError::of_system)
    }

    async fn remove(&self, path: &Path) -> Result<(), DiskError> {
        self.check_writable()?;
        self.directory.remove(path).map_err(DiskError::of_system)
    }

    async fn create_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.check_writable()?;
        self.directory.create_directory(path).map_err(DiskError::of_system)
    }

    async fn list(&self, path: &Path) -> Result<Vec<String>, DiskError> {
        self.directory.list(path).map_err(DiskError::of_system)
    }

    /// Syncs a directory. Does nothing if the disk is not writable, because nothing can have been
    /// written then.
    async fn sync_dir(&self, path: &Path) -> Result<(), DiskError> {
        if !self.is_writable {
            return Ok(());
        }
        let directory = self.directory.open_directory(path).map_err(DiskError::of_system)?;
        std::fs::File::from(directory).sync_all().map_err(io_error)
    }
}

impl PlainFile {
    fn new(file: std::fs::File, is_writable: bool) -> Result<PlainFile, DiskError> {
        let size = Cell::new(file.metadata().map_err(io_error)?.len());
        Ok(PlainFile { file, size, is_writable })
    }
}

impl File for PlainFile {
    async fn append_from(&self, bytes: Vec<u8>, from: usize) -> (Vec<u8>, Result<(), DiskError>) {
        let written = self.file.write_all_at(&bytes[from..], self.size.get()).map_err(io_error);
        if written.is_ok() {
            self.size.set(self.size.get() + (bytes.len() - from) as u64);
        }
        (bytes, written)
    }

    async fn read_at(&self, offset: u64, len: usize) -> Result<Vec<u8>, DiskError> {
        // A damaged file may claim any length, so the buffer is no larger than the rest of the
        // file.
        let left = self.size.get().saturating_sub(offset);
        let mut bytes = vec![0; len.min(usize::try_from(left).unwrap_or(usize::MAX))];
        let mut count = 0;
        while count < bytes.len() {
            match self.file.read_at(&mut bytes[count..], offset + count as u64) {
                Ok(0) => break,
                Ok(read) => count += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(io_error(error)),
            }
        }
        bytes.truncate(count);
        Ok(bytes)
    }

    async fn sync(&self) -> Result<(), DiskError> {
        if self.is_writable { self.file.sync_all().map_err(io_error) } else { Ok(()) }
    }

    async fn truncate(&self, size: u64) -> Result<(), DiskError> {
        self.file.set_len(size).map_err(io_error)?;
        self.size.set(size);
        Ok(())
    }

    fn size(&self) -> u64 {
        self.size.get()
    }
}

fn io_error(error: std::io::Error) -> DiskError {
    DiskError::of_system(error.raw_os_error().unwrap_or(libc::EIO))
}

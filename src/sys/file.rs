//! Opens files beneath a directory, so that no path and no link leads out of it.

use super::{check, last_error};
use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// An open directory. All names are resolved beneath it (openat2, RESOLVE_BENEATH and no links).
pub struct Directory(OwnedFd);

impl Directory {
    pub fn open(path: &Path) -> Result<Directory, i32> {
        let name = c_path(path)?;
        // SAFETY: the name outlives the call; the descriptor is owned at once.
        let fd = check(unsafe {
            libc::open(name.as_ptr(), libc::O_DIRECTORY | libc::O_RDONLY | libc::O_CLOEXEC)
        })?;
        // SAFETY: the descriptor is new and nobody else owns it.
        Ok(Directory(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Creates a file for reading and writing; fails if the name exists.
    pub fn create(&self, path: &Path) -> Result<OwnedFd, i32> {
        self.open_at(path, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL, 0o644)
    }

    /// Opens a file once more for writes past the page cache, which must be whole blocks from
    /// aligned memory.
    pub fn open_direct(&self, path: &Path) -> Result<OwnedFd, i32> {
        self.open_at(path, libc::O_WRONLY | libc::O_DIRECT, 0)
    }

    pub fn open_file(&self, path: &Path) -> Result<OwnedFd, i32> {
        self.open_at(path, libc::O_RDWR, 0)
    }

    /// Opens a file for reading only.
    pub fn open_to_read(&self, path: &Path) -> Result<OwnedFd, i32> {
        self.open_at(path, libc::O_RDONLY, 0)
    }

    pub fn open_directory(&self, path: &Path) -> Result<OwnedFd, i32> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        self.open_at(path, libc::O_DIRECTORY | libc::O_RDONLY, 0)
    }

    /// Makes the directory and its parents.
    pub fn create_directory(&self, path: &Path) -> Result<(), i32> {
        let mut partial = std::path::PathBuf::new();
        for part in path.components() {
            let parent = self.open_directory(&partial)?;
            let name = c_path(Path::new(part.as_os_str()))?;
            // SAFETY: the name outlives the call.
            let made = unsafe { libc::mkdirat(parent.as_raw_fd(), name.as_ptr(), 0o755) };
            if made != 0 && last_error() != libc::EEXIST {
                return Err(last_error());
            }
            partial.push(part);
        }
        self.open_directory(&partial).map(|_| ())
    }

    pub fn rename(&self, from: &Path, to: &Path) -> Result<(), i32> {
        let (from_parent, from_name) = self.parent_of(from)?;
        let (to_parent, to_name) = self.parent_of(to)?;
        // SAFETY: names and descriptors outlive the call.
        check(unsafe {
            libc::renameat(
                from_parent.as_raw_fd(),
                from_name.as_ptr(),
                to_parent.as_raw_fd(),
                to_name.as_ptr(),
            )
        })
        .map(|_| ())
    }

    pub fn remove(&self, path: &Path) -> Result<(), i32> {
        let (parent, name) = self.parent_of(path)?;
        // SAFETY: the name outlives the call.
        check(unsafe { libc::unlinkat(parent.as_raw_fd(), name.as_ptr(), 0) }).map(|_| ())
    }

    /// Returns the names of a directory's entries, sorted.
    pub fn list(&self, path: &Path) -> Result<Vec<String>, i32> {
        let directory = self.open_directory(path)?;
        let seen_as = format!("/proc/self/fd/{}", directory.as_raw_fd());
        let number = |error: std::io::Error| error.raw_os_error().unwrap_or(libc::EIO);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(seen_as).map_err(number)? {
            names.push(entry.map_err(number)?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    fn parent_of(&self, path: &Path) -> Result<(OwnedFd, CString), i32> {
        let name = path.file_name().ok_or(libc::EINVAL)?;
        let parent = self.open_directory(path.parent().unwrap_or(Path::new("")))?;
        Ok((parent, c_path(Path::new(name))?))
    }

    fn open_at(&self, path: &Path, flags: i32, mode: u64) -> Result<OwnedFd, i32> {
        let name = c_path(path)?;
        // SAFETY: an all-zero open_how is valid; name and open_how outlive the call; the descriptor
        // is owned at once.
        unsafe {
            let mut how: libc::open_how = std::mem::zeroed();
            how.flags = (flags | libc::O_CLOEXEC) as u64;
            how.mode = mode;
            how.resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS;
            let fd = libc::syscall(
                libc::SYS_openat2,
                self.0.as_raw_fd(),
                name.as_ptr(),
                &raw const how,
                size_of::<libc::open_how>(),
            );
            Ok(OwnedFd::from_raw_fd(check(fd as i32)?))
        }
    }
}

pub fn truncate(fd: RawFd, size: u64) -> Result<(), i32> {
    // SAFETY: plain call on an open descriptor.
    check(unsafe { libc::ftruncate(fd, size as libc::off_t) }).map(|_| ())
}

pub fn size(fd: RawFd) -> Result<u64, i32> {
    // SAFETY: plain call on an open descriptor.
    let end = unsafe { libc::lseek(fd, 0, libc::SEEK_END) };
    if end < 0 { Err(last_error()) } else { Ok(end as u64) }
}

fn c_path(path: &Path) -> Result<CString, i32> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| libc::EINVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_the_directory() {
        let place = tempfile::tempdir().expect("a directory");
        std::os::unix::fs::symlink("/etc", place.path().join("link")).expect("a link");
        let directory = Directory::open(place.path()).expect("open");
        assert!(directory.open_file(Path::new("../x")).is_err());
        assert!(directory.create(Path::new("link/nephila-test")).is_err());
        assert!(directory.open_file(Path::new("/etc/hostname")).is_err());
        directory.create_directory(Path::new("a/b")).expect("make");
        directory.create(Path::new("a/b/c")).expect("create");
        assert_eq!(directory.create(Path::new("a/b/c")).unwrap_err(), libc::EEXIST);
        directory.rename(Path::new("a/b/c"), Path::new("a/d")).expect("rename");
        assert_eq!(directory.list(Path::new("a")).expect("list"), ["b", "d"]);
        directory.remove(Path::new("a/d")).expect("remove");
        assert_eq!(directory.list(Path::new("a")).expect("list"), ["b"]);
    }
}

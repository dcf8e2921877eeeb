//! The data directory: created, locked and described before anything is written into it.

use super::manifest::Manifest;
use std::fmt;
use std::fs::TryLockError;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Why a data directory cannot be used.
#[derive(Debug)]
pub enum DirectoryError {
    Io {
        doing: &'static str,
        path: PathBuf,
        error: std::io::Error,
    },
    /// Another process works in the directory.
    Locked(PathBuf),
    /// The directory holds a crawl already.
    HoldsCrawl(PathBuf),
    /// The directory holds no crawl to resume.
    NoCrawl(PathBuf),
    Manifest {
        path: PathBuf,
        what: String,
    },
    /// The directory holds a crawl that has lost its manifest, and a copy of the manifest.
    ManifestGone(PathBuf),
    /// A setting has changed that decides what the state means.
    Changed {
        was: String,
        now: String,
    },
}

impl fmt::Display for DirectoryError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DirectoryError::Io { doing, path, error } => {
                write!(out, "cannot {doing} {}: {error}", path.display())
            }
            DirectoryError::Locked(path) => {
                write!(out, "another nephila process uses {}", path.display())
            }
            DirectoryError::HoldsCrawl(path) => {
                let path = path.display();
                write!(
                    out,
                    "{path} holds a crawl already: add --resume to go on with it, or give --out a \
                     new directory"
                )
            }
            DirectoryError::NoCrawl(path) => {
                let path = path.display();
                write!(out, "{path} holds no crawl to resume: begin one without --resume")
            }
            DirectoryError::ManifestGone(path) => write!(
                out,
                "{0} holds a crawl that has lost its MANIFEST.json: `nephila repair {0} --apply` \
                 restores it from its copy",
                path.display()
            ),
            DirectoryError::Manifest { path, what } => write!(out, "{}: {what}", path.display()),
            DirectoryError::Changed { was, now } => write!(
                out,
                "the crawl was begun with `{was}`, and its state would be wrong with `{now}`: \
                 leave that setting as it was, or begin a new crawl"
            ),
        }
    }
}

impl std::error::Error for DirectoryError {}

/// An open data directory. The lock ends with the process.
pub struct DataDirectory {
    path: PathBuf,
    lock: std::fs::File,
}

/// Unlocks explicitly. Otherwise the lock would last until the last copy of its descriptor is
/// closed, and a process that is being started at the same time holds a copy until it runs.
impl Drop for DataDirectory {
    fn drop(&mut self) {
        // If unlocking fails, the descriptor is closed in a moment anyway.
        let _ = self.lock.unlock();
    }
}

impl DataDirectory {
    /// Creates the directory, takes its lock and writes its manifest.
    pub(super) fn create(
        path: &Path,
        manifest: &Manifest,
    ) -> Result<DataDirectory, DirectoryError> {
        let failed =
            |doing| move |error| DirectoryError::Io { doing, path: path.to_owned(), error };
        std::fs::create_dir_all(path).map_err(failed("make"))?;
        let directory = DataDirectory::lock(path)?;
        if Manifest::is_in(&directory.path) || Manifest::has_copy(&directory.path) {
            return Err(DirectoryError::HoldsCrawl(directory.path.clone()));
        }
        manifest.save(&directory.path)?;
        Ok(directory)
    }

    /// Takes the lock of a directory that holds a crawl, and reads its manifest.
    pub fn open(path: &Path) -> Result<(DataDirectory, Manifest), DirectoryError> {
        if !Manifest::is_in(path) {
            // No LOCK file is made in a directory without a manifest. The error says what is there.
            Manifest::load(path)?;
        }
        let directory = DataDirectory::lock(path)?;
        let manifest = Manifest::load(&directory.path)?;
        Ok((directory, manifest))
    }

    /// Takes the lock of a directory that holds a crawl, whatever the state of its manifest.
    pub fn lock_any(path: &Path) -> Result<DataDirectory, DirectoryError> {
        if !Manifest::is_in(path) && !Manifest::has_copy(path) {
            return Err(DirectoryError::NoCrawl(path.to_owned()));
        }
        DataDirectory::lock(path)
    }

    fn lock(path: &Path) -> Result<DataDirectory, DirectoryError> {
        let failed =
            |doing| move |error| DirectoryError::Io { doing, path: path.to_owned(), error };
        let path = path.canonicalize().map_err(failed("find"))?;
        let lock = std::fs::OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            // A symbolic link would lead out of the directory.
            .custom_flags(libc::O_NOFOLLOW)
            .open(path.join("LOCK"))
            .map_err(failed("lock"))?;
        match lock.try_lock() {
            Ok(()) => Ok(DataDirectory { path, lock }),
            Err(TryLockError::WouldBlock) => Err(DirectoryError::Locked(path)),
            Err(TryLockError::Error(error)) => Err(failed("lock")(error)),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the WARC files so far, sorted.
    pub(super) fn warc_files(&self) -> Result<Vec<PathBuf>, DirectoryError> {
        let warc = self.path.join("warc");
        let failed = |error| DirectoryError::Io { doing: "list", path: warc.clone(), error };
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&warc).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|ending| ending == "gz") {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_free_at_once_though_another_process_has_a_copy_of_the_lock() {
        let place = tempfile::tempdir().expect("a directory");
        let first = DataDirectory::lock(place.path()).expect("a lock");
        let second = DataDirectory::lock(place.path());
        assert!(matches!(second, Err(DirectoryError::Locked(_))));
        let copy = first.lock.try_clone().expect("a copy");
        drop(first);
        assert!(DataDirectory::lock(place.path()).is_ok());
        drop(copy);
    }
}

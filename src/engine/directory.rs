//! The data directory: made, locked and described before anything is written into it.

use crate::config::Settings;
use crate::limits;
use crate::sys::file;
use std::fmt;
use std::io::Write as _;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Layout and meaning of the files; another version is refused.
const FORMAT_VERSION: u32 = 1;

#[derive(Debug)]
pub enum DirectoryError {
    Io {
        doing: &'static str,
        path: PathBuf,
        error: std::io::Error,
    },
    /// Another process works in it.
    Locked(PathBuf),
    /// There is a crawl in it already.
    HoldsCrawl(PathBuf),
}

impl fmt::Display for DirectoryError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DirectoryError::Io { doing, path, error } => {
                write!(out, "cannot {doing} {}: {error}", path.display())
            }
            DirectoryError::Locked(path) => {
                write!(out, "another nephila works in {}", path.display())
            }
            DirectoryError::HoldsCrawl(path) => {
                write!(out, "{} holds a crawl already; give --out a new directory", path.display())
            }
        }
    }
}

impl std::error::Error for DirectoryError {}

/// An open data directory. The lock goes with the process.
pub(super) struct DataDirectory {
    path: PathBuf,
    _lock: std::fs::File,
}

impl DataDirectory {
    /// Makes the directory, takes its lock and writes its manifest.
    pub(super) fn create(
        path: &Path,
        settings: &Settings,
        shard_count: usize,
    ) -> Result<DataDirectory, DirectoryError> {
        let failed =
            |doing| move |error| DirectoryError::Io { doing, path: path.to_owned(), error };
        std::fs::create_dir_all(path).map_err(failed("make"))?;
        let path = path.canonicalize().map_err(failed("find"))?;
        let lock = std::fs::OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            // A link would lead out of the directory.
            .custom_flags(libc::O_NOFOLLOW)
            .open(path.join("LOCK"))
            .map_err(failed("lock"))?;
        match file::lock(lock.as_raw_fd()) {
            Ok(()) => {}
            Err(libc::EWOULDBLOCK) => return Err(DirectoryError::Locked(path)),
            Err(number) => {
                return Err(failed("lock")(std::io::Error::from_raw_os_error(number)));
            }
        }
        let manifest = path.join("MANIFEST.json");
        if manifest.symlink_metadata().is_ok() {
            return Err(DirectoryError::HoldsCrawl(path));
        }
        let text = serde_json::json!({
            "format": FORMAT_VERSION,
            "version": env!("CARGO_PKG_VERSION"),
            "slots": limits::SLOT_COUNT,
            "shards": shard_count,
            // What robots.txt calls us, and the settings: by these a crawl is judged.
            "product": env!("CARGO_PKG_NAME"),
            "settings": settings.to_toml(),
        });
        // Written aside and renamed: a manifest is whole or absent.
        let aside = path.join("MANIFEST.json.new");
        match std::fs::remove_file(&aside) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed("remove")(error));
            }
            _ => {}
        }
        // A new file: whatever had that name, a link too, is not written through.
        let mut file = std::fs::File::create_new(&aside).map_err(failed("write"))?;
        file.write_all(format!("{text:#}\n").as_bytes()).map_err(failed("write"))?;
        file.sync_all().map_err(failed("sync"))?;
        std::fs::rename(&aside, &manifest).map_err(failed("rename"))?;
        std::fs::File::open(&path).and_then(|dir| dir.sync_all()).map_err(failed("sync"))?;
        Ok(DataDirectory { path, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The WARC files so far, sorted.
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

//! A crawl's directory: its manifest, the state of each shard, and whether a crawl is running in
//! it.

use super::InspectError;
use super::disk::PlainDisk;
use crate::base::{HashKey, WallTime};
use crate::crawl::config::Settings;
use crate::crawl::flow::ShardIndex;
use crate::crawl::flow::state_dir;
use crate::engine::{DataDirectory, DirectoryError, Manifest};
use crate::io::Clock as _;
use crate::proto::url::{HostKey, Normaliser, Url};
use crate::shard::{Inspection, Past, Placement};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A crawl's directory, opened.
pub struct Place {
    pub path: PathBuf,
    pub disk: PlainDisk,
    pub past: Past,
    pub settings: Settings,
    pub hash_key: HashKey,
    /// Another process holds the directory's lock.
    pub is_running: bool,
    /// The directory's lock, if this place may write.
    _lock: Option<DataDirectory>,
}

impl Place {
    /// Opens the directory for reading.
    pub fn open(path: &Path) -> Result<Place, InspectError> {
        let manifest = Manifest::load(path).map_err(|error| refused(path, error))?;
        let is_running = is_locked(path);
        Ok(Place { is_running, ..Place::with_manifest(path, manifest)? })
    }

    /// Opens the directory for writing and takes its lock. While the place exists, no crawl can run
    /// in the directory.
    pub fn lock(path: &Path) -> Result<Place, InspectError> {
        let (lock, manifest) = DataDirectory::open(path).map_err(|error| refused(path, error))?;
        let place = Place::with_manifest(path, manifest)?;
        Ok(Place { disk: place.disk.writable(), _lock: Some(lock), ..place })
    }

    fn with_manifest(path: &Path, manifest: Manifest) -> Result<Place, InspectError> {
        let failed = |error| InspectError::Io { doing: "open", path: path.to_owned(), error };
        let disk = PlainDisk::open(path).map_err(failed)?;
        let Manifest { past, settings, hash_secret, .. } = manifest;
        let (path, hash_key) = (path.to_owned(), HashKey::new(hash_secret));
        Ok(Place { path, disk, past, settings, hash_key, is_running: false, _lock: None })
    }

    pub fn now(&self) -> WallTime {
        self.disk.wall()
    }

    /// Reads the state of the shard that owns the host of `url`, with all queued URLs of this host.
    pub fn shard_of(&self, url: &Url) -> Result<Inspection<PlainDisk>, InspectError> {
        self.shard(self.owner(url), Some(url.host_key(&self.hash_key)))
    }

    /// Reads the whole state of all shards. All queues are then in memory, packed.
    pub fn shards(&self) -> Result<Vec<Inspection<PlainDisk>>, InspectError> {
        (0..self.past.shard_count).map(|index| self.shard(ShardIndex(index), None)).collect()
    }

    fn shard(
        &self,
        index: ShardIndex,
        host: Option<HostKey>,
    ) -> Result<Inspection<PlainDisk>, InspectError> {
        let terms = (&self.settings, &self.hash_key);
        let read = Inspection::read(&self.disk, index, self.past, terms, host);
        PlainDisk::run(read).map_err(InspectError::Shard)
    }

    /// Returns the shard that owns the host of `url`.
    pub fn owner(&self, url: &Url) -> ShardIndex {
        Placement::new(self.past.shard_count).of_host(url.host_key(&self.hash_key))
    }

    /// Returns when the shard's journal or one of its checkpoints was last written to.
    pub fn as_of(&self, shard: &Inspection<PlainDisk>) -> Option<WallTime> {
        let directory = state_dir(shard.index);
        let checkpoints = shard.checkpoints.iter().map(|checkpoint| &checkpoint.name);
        let names = shard.journal_names.iter().chain(checkpoints);
        names.filter_map(|name| self.disk.modified_at(&directory.join(name))).max()
    }

    /// Parses a URL and normalises it as the crawl does.
    pub fn url(&self, text: &str) -> Result<Url, InspectError> {
        let url = Url::parse(text).map_err(|_| InspectError::BadName(text.to_owned()))?;
        Ok(Normaliser::new(&self.settings.extra_parameters).normalise(url))
    }

    /// Returns a URL of the host that `text` names. `text` is the host's name or one of its URLs.
    pub fn host_url(&self, text: &str) -> Result<Url, InspectError> {
        let is_url = text.contains("://");
        let text_url = if is_url { text.to_owned() } else { format!("http://{text}/") };
        Url::parse(&text_url).map_err(|_| InspectError::BadName(text.to_owned()))
    }
}

fn refused(path: &Path, error: DirectoryError) -> InspectError {
    let path = path.to_owned();
    match error {
        DirectoryError::Locked(path) => InspectError::Locked(path),
        DirectoryError::NoCrawl(_) => {
            InspectError::NoCrawl { path, what: "this directory holds no crawl".into() }
        }
        DirectoryError::ManifestGone(_) => {
            let what = "the crawl there has lost its MANIFEST.json: `nephila repair DIR --apply` \
                        restores it from its copy";
            InspectError::NoCrawl { path, what: what.into() }
        }
        error => InspectError::NoCrawl { path, what: error.to_string() },
    }
}

/// Reports whether a process holds the lock of the crawl in `path`. The answer comes from the
/// system's list of locks. This function does not try to take the lock: it would hold the lock for
/// a moment, and a crawl that starts in that moment would be turned away.
fn is_locked(path: &Path) -> bool {
    let Ok(about) = path.join("LOCK").symlink_metadata() else { return false };
    let Ok(locks) = std::fs::read_to_string("/proc/locks") else { return false };
    let inode = about.ino().to_string();
    locks.lines().any(|line| {
        let mut columns = line.split_ascii_whitespace();
        columns.nth(1) == Some("FLOCK")
            && columns.nth(3).and_then(|place| place.rsplit(':').next()) == Some(inode.as_str())
    })
}

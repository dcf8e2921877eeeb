//! The simulated disk behind the traits of `io`: the tree of names and files, with the time that
//! operations take and the ways they fail.
//!
//! An operation takes effect when it is called and then takes its time, so a task that is killed
//! meanwhile leaves what it wrote, as on a real kernel. Only a sync takes effect when it ends, and
//! it covers what was there when it was called.

use super::ailment::{DiskOperation, Failure};
use super::tree::{FileRef, Tree};
use super::world::SimWorld;
use crate::io::clock::Clock;
use crate::io::disk::{Disk, DiskError, File};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// How long disk operations take.
#[derive(Clone, Copy, Debug)]
pub struct DiskModel {
    pub latency_us_min: u64,
    pub latency_us_max: u64,
    pub sync_us_min: u64,
    pub sync_us_max: u64,
}

impl Default for DiskModel {
    fn default() -> DiskModel {
        DiskModel { latency_us_min: 10, latency_us_max: 200, sync_us_min: 50, sync_us_max: 5_000 }
    }
}

impl DiskModel {
    pub(super) fn check(&self) {
        assert!(self.latency_us_min <= self.latency_us_max, "the range of latencies is empty");
        assert!(self.sync_us_min <= self.sync_us_max, "the range of sync latencies is empty");
    }
}

impl SimWorld {
    /// Draws whether an operation fails. Every disk operation calls this once.
    fn disk_failure(&self, operation: DiskOperation, path: &Path) -> Option<Failure> {
        let mut ailments = self.shared.ailments.borrow_mut();
        let failure = ailments.strike(operation, path, &self.shared.disk_fault_chance)?;
        let Failure { error, takes_effect } = &failure;
        let detail =
            format_args!("{} {}: {error}, {takes_effect}", operation.name(), path.display());
        self.record("disk fault", detail);
        Some(failure)
    }

    async fn disk_wait(&self, min_us: u64, max_us: u64) {
        let takes = self.shared.span(&self.shared.disk_chance, min_us, max_us);
        let spike = self.shared.ailments.borrow().faults.spike(&self.shared.disk_fault_chance);
        self.sleep_until(self.now() + takes + spike).await;
    }

    async fn disk_latency(&self) {
        let model = self.shared.disk_model.get();
        self.disk_wait(model.latency_us_min, model.latency_us_max).await;
    }

    async fn disk_sync_latency(&self) {
        let model = self.shared.disk_model.get();
        self.disk_wait(model.sync_us_min, model.sync_us_max).await;
    }

    /// Applies `effect` to the names, takes the time, and fails if a fault was drawn.
    async fn on_names<T>(
        &self,
        operation: DiskOperation,
        path: &Path,
        effect: impl FnOnce(&Tree) -> Result<T, DiskError>,
    ) -> Result<T, DiskError> {
        self.record(operation.name(), format_args!("{}", path.display()));
        let failure = self.disk_failure(operation, path);
        let done = match &failure {
            Some(Failure { error, takes_effect: false }) => Err(error.clone()),
            _ => Ok(effect(&self.shared.tree)?),
        };
        self.disk_latency().await;
        failure.map_or(done, |failure| Err(failure.error))
    }
}

impl Disk for SimWorld {
    type File = SimFile;

    async fn create(&self, path: &Path) -> Result<SimFile, DiskError> {
        let create = |tree: &Tree| tree.create(&self.directory, path);
        let content = self.on_names(DiskOperation::Create, path, create).await?;
        Ok(SimFile::new(self, path, content))
    }

    async fn open(&self, path: &Path) -> Result<SimFile, DiskError> {
        let open = |tree: &Tree| tree.open(&self.directory, path);
        let content = self.on_names(DiskOperation::Open, path, open).await?;
        Ok(SimFile::new(self, path, content))
    }

    async fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        self.record("rename from", format_args!("{}", from.display()));
        let rename = |tree: &Tree| tree.rename(&self.directory, from, to);
        self.on_names(DiskOperation::Rename, to, rename).await
    }

    async fn remove(&self, path: &Path) -> Result<(), DiskError> {
        let remove = |tree: &Tree| tree.remove(&self.directory, path);
        self.on_names(DiskOperation::Remove, path, remove).await
    }

    async fn create_dir(&self, path: &Path) -> Result<(), DiskError> {
        let create = |tree: &Tree| tree.create_dir(&self.directory, path).map(|_| ());
        self.on_names(DiskOperation::CreateDir, path, create).await
    }

    async fn list(&self, path: &Path) -> Result<Vec<String>, DiskError> {
        let list = |tree: &Tree| tree.list(&self.directory, path);
        self.on_names(DiskOperation::List, path, list).await
    }

    async fn sync_dir(&self, path: &Path) -> Result<(), DiskError> {
        let tree = &self.shared.tree;
        tree.list(&self.directory, path)?;
        self.record("sync dir", format_args!("{}", path.display()));
        let (covered, failure) = (tree.cover(), self.disk_failure(DiskOperation::SyncDir, path));
        self.disk_sync_latency().await;
        if failure.as_ref().is_none_or(|failure| failure.takes_effect) {
            tree.sync_dir(&self.directory, path, covered)?;
        }
        failure.map_or(Ok(()), |failure| Err(failure.error))
    }
}

pub struct SimFile {
    world: SimWorld,
    /// The path as it was opened; a rename does not change it.
    path: PathBuf,
    content: FileRef,
    appending: Cell<bool>,
}

impl SimFile {
    fn new(world: &SimWorld, path: &Path, content: FileRef) -> SimFile {
        SimFile {
            world: world.clone(),
            path: path.to_owned(),
            content,
            appending: Cell::new(false),
        }
    }

    fn failure(&self, operation: DiskOperation) -> Option<Failure> {
        self.world.disk_failure(operation, &self.path)
    }

    async fn transfer(&self, kind: &'static str, at: u64, bytes: &[u8]) {
        let digest = xxh3_64(bytes);
        self.world.record(kind, format_args!("{} bytes at {at} {digest:x}", bytes.len()));
        self.world.disk_latency().await;
    }

    /// Returns how many of `len` bytes are written, and the error if not all are.
    fn admitted(&self, len: usize) -> (usize, Option<DiskError>) {
        let shared = &self.world.shared;
        if let Some(failure) = self.failure(DiskOperation::Append) {
            let part = shared.disk_fault_chance.between(0, len as u64) as usize;
            return (part, Some(failure.error));
        }
        let capacity_bytes = shared.ailments.borrow().capacity_bytes(self.world.now());
        let room = capacity_bytes.map(|bytes| bytes.saturating_sub(shared.tree.used_bytes()));
        match room {
            Some(room) if room < len as u64 => (room as usize, Some(DiskError::Full)),
            _ => (len, None),
        }
    }
}

impl File for SimFile {
    async fn append_from(&self, bytes: Vec<u8>, from: usize) -> (Vec<u8>, Result<(), DiskError>) {
        assert!(!self.appending.replace(true), "one append at a time");
        let _append = Append(&self.appending);
        let at = self.size();
        let (part, error) = self.admitted(bytes.len() - from);
        let written = &bytes[from..from + part];
        self.content.borrow_mut().bytes.extend_from_slice(written);
        self.transfer("append", at, written).await;
        (bytes, error.map_or(Ok(()), Err))
    }

    async fn read_at(&self, offset: u64, len: usize) -> Result<Vec<u8>, DiskError> {
        let failure = self.failure(DiskOperation::Read);
        let bytes = {
            let content = self.content.borrow();
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(content.bytes.len());
            let end = start.saturating_add(len).min(content.bytes.len());
            content.bytes[start..end].to_vec()
        };
        self.transfer("read", offset, &bytes).await;
        failure.map_or(Ok(bytes), |failure| Err(failure.error))
    }

    async fn sync(&self) -> Result<(), DiskError> {
        let covered = self.content.borrow().cover();
        self.world.record("sync", format_args!("{} {}", self.path.display(), covered.len));
        let failure = self.failure(DiskOperation::Sync);
        self.world.disk_sync_latency().await;
        let mut content = self.content.borrow_mut();
        match failure {
            None => {
                content.note_synced(covered);
                Ok(())
            }
            Some(failure) => {
                content.note_sync_failed(&self.world.shared.disk_fault_chance);
                Err(failure.error)
            }
        }
    }

    async fn truncate(&self, size: u64) -> Result<(), DiskError> {
        let failure = self.failure(DiskOperation::Truncate);
        if failure.as_ref().is_none_or(|failure| failure.takes_effect) {
            let size = usize::try_from(size).map_err(|_| DiskError::Full)?;
            self.content.borrow_mut().truncate(size);
        }
        self.transfer("truncate", size, &[]).await;
        failure.map_or(Ok(()), |failure| Err(failure.error))
    }

    fn size(&self) -> u64 {
        self.content.borrow().bytes.len() as u64
    }
}

struct Append<'file>(&'file Cell<bool>);

impl Drop for Append<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

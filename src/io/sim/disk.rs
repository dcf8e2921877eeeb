//! The simulated disk behind the seam: the tree, with the time its operations take.
//!
//! An operation takes effect when it is asked for and then takes its time, so a task killed in the
//! middle leaves what it wrote, as the kernel would. Only a sync counts when it is over.

use super::tree::{self, FileRef};
use super::world::SimWorld;
use crate::io::clock::Clock;
use crate::io::disk::{Disk, DiskError, File};
use std::cell::Cell;
use std::path::Path;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// How long the disk takes.
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
        assert!(self.latency_us_min <= self.latency_us_max, "a range of latencies");
        assert!(self.sync_us_min <= self.sync_us_max, "a range of latencies");
    }
}

impl SimWorld {
    /// Every disk operation passes here once.
    async fn disk_wait(&self, min_us: u64, max_us: u64) -> Result<(), DiskError> {
        let us = self.shared.disk_chance.between(min_us, max_us);
        self.sleep_until(self.now() + Duration::from_micros(us)).await;
        Ok(())
    }

    async fn disk_operation(&self, kind: &'static str, path: &Path) -> Result<(), DiskError> {
        self.record(kind, format_args!("{}", path.display()));
        let model = self.shared.disk_model.get();
        self.disk_wait(model.latency_us_min, model.latency_us_max).await
    }

    async fn disk_sync(&self, kind: &'static str, serial: u64) -> Result<(), DiskError> {
        self.record(kind, format_args!("{serial}"));
        let model = self.shared.disk_model.get();
        self.disk_wait(model.sync_us_min, model.sync_us_max).await
    }
}

impl Disk for SimWorld {
    type File = SimFile;

    async fn create(&self, path: &Path) -> Result<SimFile, DiskError> {
        let content = tree::create(&self.directory, path)?;
        self.disk_operation("create", path).await?;
        Ok(SimFile::new(self, content))
    }

    async fn open(&self, path: &Path) -> Result<SimFile, DiskError> {
        let content = tree::open(&self.directory, path)?;
        self.disk_operation("open", path).await?;
        Ok(SimFile::new(self, content))
    }

    async fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        tree::rename(&self.directory, from, to)?;
        self.record("rename", format_args!("{}", from.display()));
        self.disk_operation("rename to", to).await
    }

    async fn remove(&self, path: &Path) -> Result<(), DiskError> {
        tree::remove(&self.directory, path)?;
        self.disk_operation("remove", path).await
    }

    async fn create_dir(&self, path: &Path) -> Result<(), DiskError> {
        tree::create_dir(&self.directory, path)?;
        self.disk_operation("create dir", path).await
    }

    async fn list(&self, path: &Path) -> Result<Vec<String>, DiskError> {
        let names = tree::list(&self.directory, path)?;
        self.disk_operation("list", path).await?;
        Ok(names)
    }

    async fn sync_dir(&self, path: &Path) -> Result<(), DiskError> {
        tree::list(&self.directory, path)?;
        self.disk_sync("sync dir", xxh3_64(path.as_os_str().as_encoded_bytes())).await?;
        tree::sync_dir(&self.directory, path)
    }
}

pub struct SimFile {
    world: SimWorld,
    content: FileRef,
    appending: Cell<bool>,
}

impl SimFile {
    fn new(world: &SimWorld, content: FileRef) -> SimFile {
        SimFile { world: world.clone(), content, appending: Cell::new(false) }
    }

    async fn transfer(&self, kind: &'static str, at: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let digest = xxh3_64(bytes);
        self.world.record(kind, format_args!("{} bytes at {at} {digest:x}", bytes.len()));
        let model = self.world.shared.disk_model.get();
        self.world.disk_wait(model.latency_us_min, model.latency_us_max).await
    }
}

impl File for SimFile {
    async fn append(&self, bytes: Vec<u8>) -> Result<Vec<u8>, DiskError> {
        assert!(!self.appending.replace(true), "one append at a time");
        let _append = Append(&self.appending);
        let at = self.size();
        self.content.borrow_mut().bytes.extend_from_slice(&bytes);
        self.transfer("append", at, &bytes).await?;
        Ok(bytes)
    }

    async fn read_at(&self, offset: u64, len: usize) -> Result<Vec<u8>, DiskError> {
        let bytes = {
            let content = self.content.borrow();
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(content.bytes.len());
            let end = start.saturating_add(len).min(content.bytes.len());
            content.bytes[start..end].to_vec()
        };
        self.transfer("read", offset, &bytes).await?;
        Ok(bytes)
    }

    async fn sync(&self) -> Result<(), DiskError> {
        let (len, truncate_count) = {
            let content = self.content.borrow();
            (content.bytes.len(), content.truncate_count)
        };
        self.world.disk_sync("sync", len as u64).await?;
        let mut content = self.content.borrow_mut();
        if content.truncate_count == truncate_count {
            content.synced_len = content.synced_len.max(len);
        }
        Ok(())
    }

    async fn truncate(&self, size: u64) -> Result<(), DiskError> {
        {
            let mut content = self.content.borrow_mut();
            let size = usize::try_from(size).map_err(|_| DiskError::Full)?;
            content.bytes.resize(size, 0);
            content.synced_len = content.synced_len.min(size);
            content.truncate_count += 1;
        }
        self.transfer("truncate", size, &[]).await
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

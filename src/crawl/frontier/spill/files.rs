//! The open files of the segments.
//!
//! This module owns up to [`QUEUE_OPEN_FILE_COUNT_MAX`] of them; beyond that the one not used for
//! longest is closed. Whoever runs the frontier's jobs keeps them beside it, because the frontier
//! itself has no files. One core touches them.

use super::TailError;
use super::segments::name_of;
use crate::base::limits::QUEUE_OPEN_FILE_COUNT_MAX;
use crate::crawl::flow::Class;
use crate::io::{Disk, DiskError, File};
use hashbrown::HashMap;
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;

pub struct Files<F> {
    directory: PathBuf,
    open: RefCell<HashMap<u32, (Rc<F>, u64)>>,
    use_count: Cell<u64>,
}

impl<F: File> Files<F> {
    pub fn new(directory: PathBuf) -> Files<F> {
        Files { directory, open: RefCell::default(), use_count: Cell::new(0) }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the file of a segment, opened if it is not open.
    pub(super) async fn segment<D: Disk<File = F>>(
        &self,
        disk: &D,
        class: Class,
        serial: u32,
    ) -> Result<Rc<F>, TailError> {
        if let Some((file, used)) = self.open.borrow_mut().get_mut(&serial) {
            *used = self.tick();
            return Ok(file.clone());
        }
        let name = name_of(class, serial);
        let file = disk.open(&self.directory.join(&name)).await;
        let file = file.map_err(|error| TailError::disk("open", &name, error))?;
        Ok(self.keep(serial, file))
    }

    /// Creates the file of a new segment and makes its name durable. If an earlier attempt has left
    /// the file, it is emptied: serials are never used twice, so a file of that name is ours.
    pub(super) async fn begin<D: Disk<File = F>>(
        &self,
        disk: &D,
        class: Class,
        serial: u32,
    ) -> Result<Rc<F>, TailError> {
        let name = name_of(class, serial);
        let path = self.directory.join(&name);
        let failed = |doing| move |error| TailError::disk(doing, &name_of(class, serial), error);
        let file = match disk.create(&path).await {
            Err(DiskError::Exists) => {
                let file = disk.open(&path).await.map_err(failed("open"))?;
                file.truncate(0).await.map_err(failed("cut"))?;
                file
            }
            created => created.map_err(failed("create"))?,
        };
        let file = self.keep(serial, file);
        let synced = disk.sync_dir(&self.directory).await;
        synced.map_err(failed("sync the directory of"))?;
        Ok(file)
    }

    pub(super) fn forget(&self, serial: u32) {
        self.open.borrow_mut().remove(&serial);
    }

    fn keep(&self, serial: u32, file: F) -> Rc<F> {
        let mut open = self.open.borrow_mut();
        if open.len() >= QUEUE_OPEN_FILE_COUNT_MAX {
            let oldest = open.iter().min_by_key(|(_, (_, used))| *used).map(|(serial, _)| *serial);
            oldest.and_then(|oldest| open.remove(&oldest));
        }
        let file = Rc::new(file);
        open.insert(serial, (file.clone(), self.tick()));
        file
    }

    fn tick(&self) -> u64 {
        self.use_count.set(self.use_count.get() + 1);
        self.use_count.get()
    }
}

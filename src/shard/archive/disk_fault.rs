//! What a shard does while the disk fails: it starts no fetches, keeps what is not yet
//! written, tells the operator, retries with back-off, and continues when the disk works again.
//!
//! The store and the logs keep what is not durable: full write buffers that wait in line, and those
//! that wait for their sync. When these reach their bound, writers wait. So what is kept is bounded
//! by them and by the fetch slots. Touched by one core.

use super::{Archive, as_store_error};
use crate::base::Time;
use crate::base::limits::{COMPLETION_CHECK_MS, DISK_RETRY_MS_MAX, DISK_RETRY_MS_MIN};
use crate::crawl::metrics::Count;
use crate::crawl::store::StoreError;
use crate::io::World;
use crate::shard::Notice;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// What the archive knows about a failure of its disk.
#[derive(Default)]
pub(super) struct DiskFault {
    /// The last failure that the operator was told of; `None` while the disk works.
    told: RefCell<Option<StoreError>>,
    retry_at: Cell<Time>,
    retry_ms: Cell<u64>,
    is_trying: Cell<bool>,
    /// Whether the files are being closed, and (`is_closed`) whether they are closed.
    is_closing: Cell<bool>,
    is_closed: Cell<bool>,
}

impl<W: World> Archive<W> {
    /// Returns the failure of the disk, if it fails. Nothing may be started then.
    pub(in crate::shard) fn failure(&self) -> Option<StoreError> {
        let logs = || self.request_log.failure().or_else(|| self.dead_letters.failure());
        let journal = || self.journal.as_ref()?.failure().map(as_store_error);
        self.store.failure().or_else(logs).or_else(journal)
    }

    /// Tells the operator of a failure, and tries the disk again when its time has come. Called
    /// once a second.
    pub(in crate::shard) fn mind(self: &Rc<Self>) {
        let Some(error) = self.failure() else { return };
        let (fault, now) = (&self.fault, self.kit.world.now());
        let is_new = fault.told.borrow().is_none();
        if is_new {
            fault.retry_ms.set(DISK_RETRY_MS_MIN);
            fault.retry_at.set(now + Duration::from_millis(DISK_RETRY_MS_MIN));
            self.kit.probe.add(Count::DiskPauses, 1);
        }
        if fault.told.borrow().as_ref() != Some(&error)
            && self.kit.notice(Notice::DiskFailed { shard: self.kit.index, error: error.clone() })
        {
            *fault.told.borrow_mut() = Some(error);
        }
        if now >= fault.retry_at.get() && !fault.is_trying.replace(true) {
            let archive = self.clone();
            self.kit.beside(async move { archive.try_disk().await });
        }
    }

    async fn try_disk(&self) {
        let fault = &self.fault;
        let recovered = self.recover_files().await;
        fault.is_trying.set(false);
        if recovered.is_ok() {
            *fault.told.borrow_mut() = None;
            self.kit.notice(Notice::DiskWorks(self.kit.index));
            return self.kit.wake.poke();
        }
        let retry_ms = (fault.retry_ms.get() * 2).min(DISK_RETRY_MS_MAX);
        fault.retry_ms.set(retry_ms);
        fault.retry_at.set(self.kit.world.now() + Duration::from_millis(retry_ms));
    }

    async fn recover_files(&self) -> Result<(), StoreError> {
        self.store.recover().await?;
        self.request_log.recover().await?;
        self.dead_letters.recover().await?;
        match &self.journal {
            Some(journal) => journal.recover().await.map_err(as_store_error),
            None => Ok(()),
        }
    }

    /// Closes the files beside the shard's loop; the first call starts it. Returns true once all
    /// are closed. If the disk fails, closing waits for it, unless the shard is halted.
    pub(in crate::shard) fn close_files_once(self: &Rc<Self>) -> bool {
        if !self.fault.is_closing.replace(true) {
            let archive = self.clone();
            self.kit.beside(async move { archive.close_patiently().await });
        }
        self.fault.is_closed.get()
    }

    async fn close_patiently(&self) {
        // This has no effect if the disk fails: the ends then become durable when it has recovered.
        let _ = self.store.sync().await;
        while !self.is_settled() {
            if self.kit.life.is_halted() {
                return;
            }
            let soon = self.kit.world.now() + Duration::from_millis(COMPLETION_CHECK_MS);
            self.kit.world.sleep_until(soon).await;
        }
        while self.close_files().await.is_err() {
            while self.failure().is_some() {
                if self.kit.life.is_halted() {
                    return;
                }
                let soon = self.kit.world.now() + Duration::from_millis(DISK_RETRY_MS_MIN);
                self.kit.world.sleep_until(soon).await;
            }
        }
        self.kit.wake.poke();
    }

    /// Closes all files, if they are not closed yet.
    pub(in crate::shard) async fn close_files(&self) -> Result<(), StoreError> {
        if !self.fault.is_closed.get() {
            self.store.close().await?;
            self.request_log.close().await?;
            self.dead_letters.close().await?;
            self.fault.is_closed.set(true);
        }
        Ok(())
    }
}

//! What a shard does while the disk fails: it stops starting fetches, keeps what it has in hand,
//! tells the operator, tries again with back-off, and goes on.
//!
//! The store and the logs keep what is not durable (full write buffers in line and those that await
//! their sync) and let writers wait when these are as many as may be, so what is in hand is bounded
//! by them and by the fetch slots. Nothing is counted as stored before it survives a power cut:
//! [`Ledger`] holds the figures until the store has synced so far. Belongs to one core.

use super::checkpoints::as_store_error;
use super::probe::Probe;
use super::{Notice, Shard};
use crate::base::Time;
use crate::base::limits::{DISK_RETRY_MS_MAX, DISK_RETRY_MS_MIN, PROMISE_CHECK_MS};
use crate::crawl::metrics::Count;
use crate::crawl::store::{Position, StoreError};
use crate::io::World;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// The shard's view of its disk.
#[derive(Default)]
pub(super) struct DiskCare {
    ledger: RefCell<Ledger>,
    /// The last failure that the operator was told of; none while the disk works.
    told: RefCell<Option<StoreError>>,
    retry_at: Cell<Time>,
    retry_ms: Cell<u64>,
    is_trying: Cell<bool>,
    /// The files are being closed, and are closed.
    is_closing: Cell<bool>,
    is_closed: Cell<bool>,
}

/// Figures of records by the mark at which they are durable.
#[derive(Default)]
struct Ledger {
    entries: VecDeque<(u64, Count, u64)>,
}

impl Ledger {
    fn settle(&mut self, synced_through: u64, probe: &Probe) {
        while let Some((mark, count, amount)) = self.entries.front().copied()
            && mark <= synced_through
        {
            probe.add(count, amount);
            self.entries.pop_front();
        }
    }
}

impl<W: World> Shard<W> {
    /// Counts what was stored at `position` once it is durable.
    pub(super) fn count_stored(&self, position: &Position) {
        self.settle();
        let mut ledger = self.disk.ledger.borrow_mut();
        let mark = position.mark;
        ledger.entries.push_back((mark, Count::BytesStored, position.length));
        ledger.entries.push_back((mark, Count::WarcRecords, 1));
    }

    /// What was stored last is a page.
    pub(super) fn count_page(&self) {
        let mut ledger = self.disk.ledger.borrow_mut();
        let mark = ledger.entries.back().map_or(0, |(mark, ..)| *mark);
        ledger.entries.push_back((mark, Count::Pages, 1));
    }

    /// Counts what has become durable.
    pub(super) fn settle(&self) {
        let synced_through = self.store.synced_through();
        self.disk.ledger.borrow_mut().settle(synced_through, &self.kit.probe);
    }

    /// Why nothing is started: the disk fails.
    pub(super) fn disk_failure(&self) -> Option<StoreError> {
        let logs = || self.request_log.failure().or_else(|| self.dead_letters.failure());
        let journal = || self.journal.as_ref()?.failure().map(as_store_error);
        self.store.failure().or_else(logs).or_else(journal)
    }

    /// Once a second: tells of a failure, and tries the disk again when its time has come.
    pub(super) fn mind_disk(self: &Rc<Self>) {
        let Some(error) = self.disk_failure() else { return };
        let (care, now) = (&self.disk, self.kit.world.now());
        let is_new = care.told.borrow().is_none();
        if is_new {
            care.retry_ms.set(DISK_RETRY_MS_MIN);
            care.retry_at.set(now + Duration::from_millis(DISK_RETRY_MS_MIN));
            self.kit.probe.add(Count::DiskPauses, 1);
        }
        if care.told.borrow().as_ref() != Some(&error)
            && self.kit.notice(Notice::DiskFailed { shard: self.kit.index, error: error.clone() })
        {
            *care.told.borrow_mut() = Some(error);
        }
        if now >= care.retry_at.get() && !care.is_trying.replace(true) {
            let shard = self.clone();
            self.kit.beside(async move { shard.try_disk().await });
        }
    }

    async fn try_disk(self: &Rc<Self>) {
        let care = &self.disk;
        let recovered = self.recover_files().await;
        care.is_trying.set(false);
        if recovered.is_ok() {
            *care.told.borrow_mut() = None;
            self.kit.notice(Notice::DiskWorks(self.kit.index));
            return self.kit.wake.poke();
        }
        let retry_ms = (care.retry_ms.get() * 2).min(DISK_RETRY_MS_MAX);
        care.retry_ms.set(retry_ms);
        care.retry_at.set(self.kit.world.now() + Duration::from_millis(retry_ms));
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

    /// True once all files are closed; the first question starts it. A disk that fails is waited
    /// for, unless the shard is halted.
    pub(super) fn is_put_away(self: &Rc<Self>) -> bool {
        if !self.disk.is_closing.replace(true) {
            let shard = self.clone();
            self.kit.beside(async move { shard.put_away().await });
        }
        self.disk.is_closed.get()
    }

    async fn put_away(self: &Rc<Self>) {
        // In vain if the disk fails: the ends are told when it has recovered.
        let _ = self.store.sync().await;
        while !self.promises.are_kept() {
            if self.kit.life.is_halted() {
                return;
            }
            let soon = self.kit.world.now() + Duration::from_millis(PROMISE_CHECK_MS);
            self.kit.world.sleep_until(soon).await;
        }
        while self.close_files().await.is_err() {
            while self.disk_failure().is_some() {
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
    pub(super) async fn close_files(&self) -> Result<(), StoreError> {
        if !self.disk.is_closed.get() {
            self.store.close().await?;
            self.request_log.sync().await?;
            self.dead_letters.sync().await?;
            self.disk.is_closed.set(true);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_counted_when_its_bytes_are_durable_and_not_before() {
        let (mut ledger, probe) = (Ledger::default(), Probe::new());
        ledger.entries.extend([(100, Count::Pages, 1), (200, Count::Pages, 1)]);
        ledger.settle(99, &probe);
        assert_eq!(probe.count(Count::Pages), 0);
        ledger.settle(100, &probe);
        assert_eq!(probe.count(Count::Pages), 1);
        ledger.settle(1_000, &probe);
        ledger.settle(1_000, &probe);
        assert_eq!(probe.count(Count::Pages), 2);
    }
}

//! The one task of a store that touches the disk: it appends, syncs, closes and recovers, in order.

use super::gather::Batch;
use super::salvage::{finish_file, salvage_file, sync_dir};
use super::series::Stem;
use super::state::Work;
use super::warc_store::Shared;
use super::{StoreError, StoreWorld};
use crate::base::Time;
use crate::io::{DiskError, File};
use crate::limits::WRITE_BUFFER_BYTES;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

struct OpenFile<F> {
    stem: Stem,
    file: F,
    synced_bytes: u64,
}

pub(super) struct WriterTask<W: StoreWorld> {
    shared: Rc<Shared<W>>,
    open: Option<OpenFile<W::File>>,
    /// A file that a failure left open, and how many of its bytes are durable.
    broken: Option<(Stem, u64)>,
}

impl<W: StoreWorld> WriterTask<W> {
    pub(super) fn new(shared: Rc<Shared<W>>) -> WriterTask<W> {
        WriterTask { shared, open: None, broken: None }
    }

    /// Until the store is closed or dropped.
    pub(super) async fn run(mut self) {
        loop {
            let result = match self.next_work().await {
                Work::Write(batch) => self.write(batch).await,
                Work::Sync => self.sync().await,
                Work::Recover => self.recover().await,
                Work::Stop => break,
            };
            if let Err(error) = result {
                let mut state = self.shared.state.borrow_mut();
                state.recovering = false;
                state.failed = Some(error);
            }
            self.shared.wake_waiters();
        }
        self.shared.wake_waiters();
    }

    async fn next_work(&self) -> Work {
        let shared = &self.shared;
        loop {
            let now = shared.world.now();
            let due = {
                let mut state = shared.state.borrow_mut();
                if let Some(work) = state.next_work(now, shared.sync_span, shared.sync_bytes) {
                    return work;
                }
                let idle = state.failed.is_some();
                state.oldest().filter(|_| !idle).map_or(Time::NEVER, |at| at + shared.sync_span)
            };
            let mut sleep = pin!(shared.world.sleep_until(due));
            let mut first = true;
            poll_fn(|context| {
                // Woken, by whomever: look again at what there is to do.
                if !std::mem::take(&mut first) {
                    return Poll::Ready(());
                }
                shared.state.borrow_mut().worker = Some(context.waker().clone());
                sleep.as_mut().poll(context)
            })
            .await;
        }
    }

    async fn write(&mut self, batch: Batch) -> Result<(), StoreError> {
        let world = &self.shared.world;
        let open = match &mut self.open {
            Some(open) => open,
            none => {
                let path = batch.stem.open();
                let file = world.create(&path).await;
                let file = file.map_err(StoreError::disk("create WARC file"))?;
                let open = OpenFile { stem: batch.stem.clone(), file, synced_bytes: 0 };
                // Kept before anything else may fail, so that a recovery finds it.
                let open = none.insert(open);
                sync_dir(world).await?;
                open
            }
        };
        debug_assert_eq!(open.stem, batch.stem);
        let mut buffer = batch.bytes;
        if !buffer.is_empty() {
            let append = open.file.append(buffer).await;
            buffer = append.map_err(StoreError::disk("write WARC file"))?;
        }
        if let Some(index) = batch.ends_file {
            finish_file(world, &open.file, &open.stem, index).await?;
            self.open = None;
        }
        buffer.clear();
        buffer.shrink_to(2 * WRITE_BUFFER_BYTES);
        let mut state = self.shared.state.borrow_mut();
        state.note_flushed(buffer, batch.mark);
        if self.open.is_none() {
            state.note_synced(batch.mark);
        }
        Ok(())
    }

    async fn sync(&mut self) -> Result<(), StoreError> {
        let Some(open) = &mut self.open else { return Ok(()) };
        // Only this task appends, so what is flushed now is what the sync covers.
        let (mark, size) = (self.shared.state.borrow().flushed_through, open.file.size());
        open.file.sync().await.map_err(StoreError::disk("sync WARC file"))?;
        open.synced_bytes = size;
        self.shared.state.borrow_mut().note_synced(mark);
        Ok(())
    }

    async fn recover(&mut self) -> Result<(), StoreError> {
        let world = &self.shared.world;
        if let Some(open) = self.open.take() {
            self.broken = Some((open.stem, open.synced_bytes));
        }
        if let Some((stem, synced_bytes)) = &self.broken {
            match salvage_file(world, stem, *synced_bytes).await {
                Ok(_) => {}
                // It has its final name: only the last step of its closing had failed.
                Err(StoreError::Disk { error: DiskError::NotFound, .. }) => sync_dir(world).await?,
                Err(error) => return Err(error),
            }
            self.broken = None;
        }
        self.shared.state.borrow_mut().note_recovered();
        Ok(())
    }
}

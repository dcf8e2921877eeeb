//! The writer task of a store, the only one that touches the disk: it appends, syncs, closes and
//! recovers, one step after the other.

use super::gather::Batch;
use super::salvage::{close_file, sync_dir};
use super::series::Stem;
use super::state::Work;
use super::warc_store::Shared;
use super::{StoreError, StoreWorld};
use crate::base::Time;
use crate::base::race::{First, race};
use crate::io::{Disk, DiskError, File};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

/// The file that is being written.
struct OpenFile<F> {
    stem: Stem,
    file: Rc<F>,
    synced_bytes: u64,
    /// Whether the name of the file is durable.
    is_named: bool,
}

/// What a sync proves once it has succeeded.
struct Covered {
    mark: u64,
    file_bytes: u64,
    batch_count: usize,
}

pub(super) struct WriterTask<W: StoreWorld> {
    shared: Rc<Shared<W>>,
    open: Option<OpenFile<W::File>>,
    /// The batches of the open file that are not proven durable. The state knows how many they are.
    unsynced: Vec<Batch>,
}

impl<W: StoreWorld> WriterTask<W> {
    pub(super) fn new(shared: Rc<Shared<W>>) -> WriterTask<W> {
        WriterTask { shared, open: None, unsynced: Vec::new() }
    }

    /// Runs until the store is closed or dropped.
    pub(super) async fn run(mut self) {
        loop {
            let result = match self.next_work().await {
                Work::Write(batch) => self.write(batch).await,
                Work::Sync => self.sync_while_writing().await,
                Work::Recover => self.recover().await,
                Work::Stop => break,
            };
            if let Err(error) = result {
                self.shared.state.borrow_mut().note_failed(error);
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
                // Whatever has woken the task, it looks again at what there is to do.
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
        let mark = batch.mark;
        self.unsynced.push(batch);
        self.note_unsynced();
        self.append_from(self.unsynced.len() - 1).await?;
        self.shared.state.borrow_mut().note_flushed(mark);
        if self.ends_file() { self.finish().await } else { Ok(()) }
    }

    fn note_unsynced(&self) {
        let mut state = self.shared.state.borrow_mut();
        state.unsynced_count = self.unsynced.len();
        state.unsynced_bytes = self.unsynced.iter().map(|batch| batch.bytes.len()).sum();
    }

    /// Appends the batches from `first` on to the file, which is created if it does not exist yet.
    async fn append_from(&mut self, first: usize) -> Result<(), StoreError> {
        let world = &self.shared.world;
        let open = match &mut self.open {
            Some(open) => open,
            none => {
                let stem = self.unsynced[first].stem.clone();
                let file = Rc::new(create_anew(world, &stem).await?);
                // The file is kept before anything else can fail, so that a recovery finds it.
                none.insert(OpenFile { stem, file, synced_bytes: 0, is_named: false })
            }
        };
        if !open.is_named {
            sync_dir(world).await?;
            open.is_named = true;
        }
        for batch in &mut self.unsynced[first..] {
            debug_assert_eq!(open.stem, batch.stem);
            if batch.bytes.len() == batch.from {
                continue;
            }
            let (bytes, begun) = (std::mem::take(&mut batch.bytes), world.now());
            let (bytes, result) = open.file.append_from(bytes, batch.from).await;
            let took = world.now().since(begun);
            tracing::debug!("WARC: {} bytes written in {took:?}", bytes.len() - batch.from);
            batch.bytes = bytes;
            result.map_err(StoreError::disk("write WARC file"))?;
        }
        Ok(())
    }

    /// Reports whether the last batch ends its file.
    fn ends_file(&self) -> bool {
        self.unsynced.last().is_some_and(|batch| batch.ends_file.is_some())
    }

    async fn sync(&mut self) -> Result<(), StoreError> {
        let Some(open) = &self.open else { return Ok(()) };
        let covered = self.covered(open.file.size());
        let synced = open.file.sync().await;
        self.end_sync(covered, synced)
    }

    /// Syncs the file and goes on writing meanwhile, because a sync may take long. The sync proves
    /// only what was in the file when it began.
    async fn sync_while_writing(&mut self) -> Result<(), StoreError> {
        let Some(open) = &self.open else { return Ok(()) };
        let (file, covered) = (open.file.clone(), self.covered(open.file.size()));
        let begun = self.shared.world.now();
        let mut syncing = pin!(file.sync());
        let mut written = Ok(());
        let synced = loop {
            let shared = self.shared.clone();
            let sealed = poll_fn(|context| {
                let mut state = shared.state.borrow_mut();
                match state.take_sealed_of_file() {
                    Some(batch) => Poll::Ready(batch),
                    None => {
                        state.worker = Some(context.waker().clone());
                        Poll::Pending
                    }
                }
            });
            match race(syncing.as_mut(), sealed).await {
                First::Left(synced) => break synced,
                First::Right(batch) => written = self.write(batch).await,
            }
            self.shared.wake_waiters();
            if written.is_err() {
                break syncing.await;
            }
        };
        tracing::debug!("WARC: synced in {:?}", self.shared.world.now().since(begun));
        self.end_sync(covered, synced)?;
        written
    }

    /// Returns what a sync that begins now covers. Only this task appends, so that is what is
    /// flushed now.
    fn covered(&self, file_bytes: u64) -> Covered {
        let mark = self.shared.state.borrow_mut().note_syncing();
        Covered { mark, file_bytes, batch_count: self.unsynced.len() }
    }

    fn end_sync(
        &mut self,
        covered: Covered,
        synced: Result<(), DiskError>,
    ) -> Result<(), StoreError> {
        synced.map_err(StoreError::disk("sync WARC file"))?;
        let Some(open) = &mut self.open else { return Ok(()) };
        open.synced_bytes = covered.file_bytes;
        self.shared.state.borrow_mut().note_synced(covered.mark);
        // The last batch of a file that is about to be closed stays, because its index is still
        // needed.
        let ending = if self.ends_file() { self.unsynced.pop() } else { None };
        let batch_count = covered.batch_count.min(self.unsynced.len());
        let durable = self.unsynced.drain(..batch_count).map(|batch| batch.bytes);
        self.shared.state.borrow_mut().keep_spare(durable);
        self.unsynced.extend(ending.map(|batch| Batch { bytes: Vec::new(), from: 0, ..batch }));
        self.note_unsynced();
        Ok(())
    }

    /// Syncs and closes the file that the last batch has ended.
    async fn finish(&mut self) -> Result<(), StoreError> {
        self.sync().await?;
        let world = &self.shared.world;
        if let Some(Batch { stem, ends_file: Some(index), .. }) = self.unsynced.last() {
            close_file(world, stem, index).await?;
        }
        self.unsynced.clear();
        self.note_unsynced();
        self.open = None;
        Ok(())
    }

    /// Writes again all that no sync has proven, behind what a sync has proven. A second sync alone
    /// would prove nothing, because after a failed sync the kernel marks the pages as clean.
    async fn recover(&mut self) -> Result<(), StoreError> {
        if let Some(open) = &self.open {
            let cut = open.file.truncate(open.synced_bytes).await;
            cut.map_err(StoreError::disk("cut WARC file"))?;
        }
        if let Some(last) = self.unsynced.last() {
            let mark = last.mark;
            self.append_from(0).await?;
            if self.shared.state.borrow().flushed_through < mark {
                self.shared.state.borrow_mut().note_flushed(mark);
            }
            if self.ends_file() { self.finish().await? } else { self.sync().await? }
        }
        self.shared.state.borrow_mut().note_recovered();
        Ok(())
    }
}

/// Creates a file, or empties what is left of an earlier attempt to create it. Serials are never
/// used twice, so a file of that name is ours.
async fn create_anew<D: Disk>(disk: &D, stem: &Stem) -> Result<D::File, StoreError> {
    match disk.create_bulk(&stem.open()).await {
        Err(DiskError::Exists) => {
            let file = disk.open(&stem.open()).await;
            let file = file.map_err(StoreError::disk("open WARC file"))?;
            file.truncate(0).await.map_err(StoreError::disk("cut WARC file"))?;
            Ok(file)
        }
        created => created.map_err(StoreError::disk("create WARC file")),
    }
}

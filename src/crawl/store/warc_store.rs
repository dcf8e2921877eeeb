//! The shard's WARC files: pages flow in, positions flow out, and callers can wait until a page is
//! durable.
//!
//! [`WarcStore::write`] only copies into the filling buffer. One task per store does all I/O, in
//! order: it appends a full buffer, syncs when enough bytes or time have passed, and closes a full
//! file. Full buffers wait for the disk in line, so a disk that stands still for some hundred
//! milliseconds delays nobody. Buffers in line and buffers that no sync has proven are bounded
//! together ([`crate::base::limits::WRITE_BUFFER_COUNT_MAX`]); beyond the bound writers wait. No
//! borrow is held across an await; the file itself belongs to the task alone.

use super::gather::{Gatherer, Seal};
use super::series::{WARC_DIR, next_serial};
use super::state::State;
use super::writer_task::WriterTask;
use super::{Position, StoreError, StoreSettings, StoreWorld, StoredPage};
use crate::base::limits::{HEAD_BYTES_MAX, WARC_RECORD_BYTES_MAX};
use crate::io::make_dir;
use std::cell::RefCell;
use std::future::poll_fn;
use std::path::Path;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// The WARC files of one shard. Dropping the store without [`WarcStore::close`] ends it as a crash
/// would.
pub struct WarcStore<W: StoreWorld> {
    shared: Rc<Shared<W>>,
}

impl<W: StoreWorld> WarcStore<W> {
    /// Opens the series of shard `shard` behind its existing files. Files that were left open have
    /// to be closed with [`super::salvage`] before this.
    pub async fn open(
        world: &W,
        shard: u16,
        settings: StoreSettings,
    ) -> Result<WarcStore<W>, StoreError> {
        let dir = Path::new(WARC_DIR);
        make_dir(world, dir).await.map_err(StoreError::disk("create WARC directory"))?;
        let names = world.list(dir).await.map_err(StoreError::disk("list WARC files"))?;
        let sync_span = Duration::from_millis(settings.sync_ms);
        let sync_bytes = settings.sync_bytes;
        let gatherer = Gatherer::new(settings, shard, next_serial(&names, shard));
        let state = RefCell::new(State::new(gatherer));
        let shared = Rc::new(Shared { world: world.clone(), state, sync_span, sync_bytes });
        world.spawn(WriterTask::new(shared.clone()).run());
        Ok(WarcStore { shared })
    }

    /// Gathers the records of a page. Waits while all buffers are full, however long the disk takes
    /// to recover. The position is final, but the page is durable only after
    /// [`WarcStore::durable`].
    pub async fn write(&self, page: &StoredPage<'_>) -> Result<Position, StoreError> {
        if page.response.len() > WARC_RECORD_BYTES_MAX - HEAD_BYTES_MAX
            || page.request_head.len() > HEAD_BYTES_MAX
        {
            return Err(StoreError::TooLarge);
        }
        let shared = &self.shared;
        shared.wait(Waiting::Room, State::has_room).await?;
        // Nothing else runs on this core between the end of the wait and this line, so there is
        // still room.
        let world = &shared.world;
        let (position, waker) = {
            let mut state = shared.state.borrow_mut();
            let position = state.gatherer.gather(page, world.wall(), || world.random_u64());
            let is_first = state.oldest().is_none();
            state.filling_since.get_or_insert(world.now());
            let sealed = state.gatherer.is_full() && state.try_seal(Seal::Blocks);
            (position, if sealed || is_first { state.worker.take() } else { None })
        };
        wake(waker);
        Ok(position)
    }

    /// Waits until the page at `position` survives a power cut. Does not return while the disk
    /// fails.
    pub async fn durable(&self, position: &Position) {
        let durable = |state: &mut State| state.durability(position.mark);
        let waited: Result<(), StoreError> = self.shared.wait(Waiting::Durable, durable).await;
        debug_assert!(waited.is_ok(), "waiting for durability never fails");
    }

    /// Makes all that was written durable now, without waiting for the next group sync. Fails if
    /// the store stands still.
    pub async fn sync(&self) -> Result<(), StoreError> {
        let (mark, waker) = {
            let mut state = self.shared.state.borrow_mut();
            state.sync_wanted = state.gatherer.mark();
            (state.sync_wanted, state.worker.take())
        };
        wake(waker);
        self.shared
            .wait(Waiting::Durable, |state| {
                state.durability(mark).or_else(|| state.failed.clone().map(Err))
            })
            .await
    }

    /// Closes the file that is being written, with its index. Pages written meanwhile are refused.
    pub async fn close(&self) -> Result<(), StoreError> {
        let waker = {
            let mut state = self.shared.state.borrow_mut();
            state.closing = true;
            state.worker.take()
        };
        wake(waker);
        self.shared
            .wait(Waiting::Durable, |state| {
                if state.closed { Some(Ok(())) } else { state.failed.clone().map(Err) }
            })
            .await
    }

    /// Recovers after a [`StoreError::Disk`], once there is reason to think that the disk works
    /// again: cuts the file behind its last durable byte, writes again all that came after it,
    /// syncs that and goes on. Nothing is lost. If the disk fails again, this fails too, and may be
    /// called again.
    pub async fn recover(&self) -> Result<(), StoreError> {
        let waker = {
            let mut state = self.shared.state.borrow_mut();
            if state.failed.is_none() {
                return Ok(());
            }
            state.recovering = true;
            state.worker.take()
        };
        wake(waker);
        self.shared
            .wait(Waiting::Durable, |state| {
                let end = || state.failed.clone().map_or(Ok(()), Err);
                (!state.recovering).then(end)
            })
            .await
    }

    /// Returns why the store stands still, if it does.
    pub fn failure(&self) -> Option<StoreError> {
        self.shared.state.borrow().failed.clone()
    }

    /// Returns the number of WARC files begun since the store was opened. All but the last are
    /// closed.
    pub fn file_count(&self) -> u64 {
        self.shared.state.borrow().gatherer.begun_count()
    }

    /// Returns how many bytes of the series were handed to the operating system, to be compared
    /// with [`Position::mark`].
    pub fn flushed_through(&self) -> u64 {
        self.shared.state.borrow().flushed_through
    }

    /// Returns how many bytes of the series survive a power cut.
    pub fn synced_through(&self) -> u64 {
        self.shared.state.borrow().synced_through
    }
}

impl<W: StoreWorld> Drop for WarcStore<W> {
    fn drop(&mut self) {
        let waker = {
            let mut state = self.shared.state.borrow_mut();
            state.abandoned = true;
            state.worker.take()
        };
        wake(waker);
    }
}

pub(super) struct Shared<W> {
    pub(super) world: W,
    pub(super) state: RefCell<State>,
    pub(super) sync_span: Duration,
    pub(super) sync_bytes: u64,
}

#[derive(Clone, Copy)]
enum Waiting {
    Room,
    Durable,
}

impl<W: StoreWorld> Shared<W> {
    /// Waits until `ready` returns a result. `waiting` names the list of waiters to join.
    async fn wait<T>(
        &self,
        waiting: Waiting,
        mut ready: impl FnMut(&mut State) -> Option<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        // The round in which this waiter joined the list, and its waker. Searching the list for the
        // waker instead took half of a core's time with some thousand pages waiting.
        let mut listed: Option<(u64, Waker)> = None;
        poll_fn(|context| {
            let (result, waker) = {
                let mut state = self.state.borrow_mut();
                let result = ready(&mut state);
                let round = state.wake_round;
                let is_listed = listed.as_ref().is_some_and(|(at, as_whom)| {
                    *at == round && as_whom.will_wake(context.waker())
                });
                if result.is_none() && !is_listed {
                    listed = Some((round, context.waker().clone()));
                    let waiters = match waiting {
                        Waiting::Room => &mut state.room,
                        Waiting::Durable => &mut state.durable,
                    };
                    waiters.push(context.waker().clone());
                }
                (result, if state.has_sealed() { state.worker.take() } else { None })
            };
            wake(waker);
            result.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    pub(super) fn wake_waiters(&self) {
        let (room, durable) = {
            let mut state = self.state.borrow_mut();
            state.wake_round += 1;
            (std::mem::take(&mut state.room), std::mem::take(&mut state.durable))
        };
        room.into_iter().chain(durable).for_each(Waker::wake);
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

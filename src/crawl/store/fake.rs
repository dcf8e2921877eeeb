//! A world for the store's own tests: an executor that polls only woken tasks, a clock that jumps
//! to the next timer when all tasks sleep, and files in memory that know what was synced.

use crate::base::{Time, WallTime};
use crate::io::{Clock, Disk, DiskError, File, Random, Spawn};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::rc::Rc;
#[allow(clippy::disallowed_types)] // A waker must be Send, even here.
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use std::task::{Context, Poll, Wake, Waker};

#[derive(Clone, Default)]
pub(super) struct Fake(Rc<Inner>);

#[derive(Default)]
struct Inner {
    now: Cell<u64>,
    random: Cell<u64>,
    tasks: RefCell<Vec<Task>>,
    timers: RefCell<Vec<(Time, Waker)>>,
    files: RefCell<BTreeMap<PathBuf, Rc<RefCell<Data>>>>,
    faults: RefCell<Vec<(&'static str, DiskError)>>,
    held: Cell<bool>,
    held_wakers: RefCell<Vec<Waker>>,
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    flag: Flag,
}

#[derive(Clone, Default)]
struct Data {
    bytes: Vec<u8>,
    synced: usize,
}

pub(super) struct FakeFile {
    world: Fake,
    data: Rc<RefCell<Data>>,
}

#[allow(clippy::disallowed_types)]
#[derive(Clone)]
struct Flag(Arc<Woken>);

#[allow(clippy::disallowed_types)]
struct Woken(AtomicBool);

#[allow(clippy::disallowed_types)]
impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[allow(clippy::disallowed_types)]
impl Flag {
    fn new() -> Flag {
        Flag(Arc::new(Woken(AtomicBool::new(true))))
    }

    fn take(&self) -> bool {
        self.0.0.swap(false, Ordering::Relaxed)
    }

    fn waker(&self) -> Waker {
        Waker::from(self.0.clone())
    }
}

impl Fake {
    /// Runs until `future` is done. Panics if all tasks sleep and no timer is set, which means that
    /// a wake-up was lost.
    pub(super) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let flag = Flag::new();
        loop {
            let woken = flag.take();
            if woken
                && let Poll::Ready(value) =
                    future.as_mut().poll(&mut Context::from_waker(&flag.waker()))
            {
                return value;
            }
            if !self.run_tasks() && !woken {
                assert!(self.fire_timer(), "all tasks sleep and no timer is set");
            }
        }
    }

    /// Polls `future` and all tasks until nothing can go on without the clock. Returns the result
    /// if `future` is done.
    pub(super) fn settle<T>(&self, future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        let flag = Flag::new();
        let mut future = future;
        loop {
            let woken = flag.take();
            if woken
                && let Poll::Ready(value) =
                    future.as_mut().poll(&mut Context::from_waker(&flag.waker()))
            {
                return Some(value);
            }
            if !self.run_tasks() && !woken {
                return None;
            }
        }
    }

    pub(super) fn task_count(&self) -> usize {
        self.0.tasks.borrow().len()
    }

    /// Makes the next operation of this name fail with `error`.
    pub(super) fn fail_next(&self, operation: &'static str, error: DiskError) {
        self.0.faults.borrow_mut().push((operation, error));
    }

    /// Makes appends wait, until it is called with false.
    pub(super) fn hold_appends(&self, held: bool) {
        self.0.held.set(held);
        self.0.held_wakers.take().into_iter().for_each(Waker::wake);
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.0.files.borrow().keys().map(|path| path.display().to_string()).collect()
    }

    pub(super) fn bytes(&self, path: &str) -> Vec<u8> {
        self.0.files.borrow()[Path::new(path)].borrow().bytes.clone()
    }

    pub(super) fn put(&self, path: &str, bytes: &[u8]) {
        let data = Data { bytes: bytes.to_vec(), synced: bytes.len() };
        self.0.files.borrow_mut().insert(path.into(), Rc::new(RefCell::new(data)));
    }

    /// Returns the world after a power cut: the synced part of each file, and `torn` more bytes.
    pub(super) fn after_crash(&self, torn: usize) -> Fake {
        let next = Fake::default();
        next.0.now.set(self.0.now.get());
        next.0.random.set(self.0.random.get());
        for (path, data) in self.0.files.borrow().iter() {
            let data = data.borrow();
            let len = data.bytes.len().min(data.synced + torn);
            next.put(&path.display().to_string(), &data.bytes[..len]);
        }
        next
    }

    fn run_tasks(&self) -> bool {
        let mut any = false;
        let tasks = std::mem::take(&mut *self.0.tasks.borrow_mut());
        let mut kept = Vec::new();
        for mut task in tasks {
            let mut done = false;
            if task.flag.take() {
                any = true;
                let waker = task.flag.waker();
                done = task.future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
            }
            if !done {
                kept.push(task);
            }
        }
        self.0.tasks.borrow_mut().splice(0..0, kept);
        any
    }

    fn fire_timer(&self) -> bool {
        let mut timers = self.0.timers.borrow_mut();
        timers.sort_by_key(|(at, _)| *at);
        if timers.first().is_none_or(|(at, _)| *at == Time::NEVER) {
            return false;
        }
        let (at, waker) = timers.remove(0);
        self.0.now.set(self.0.now.get().max(at.0));
        waker.wake();
        true
    }

    /// Yields once, as an operation of a disk does, then fails if it was told to.
    async fn operate(&self, operation: &str) -> Result<(), DiskError> {
        self.yield_now().await;
        let mut faults = self.0.faults.borrow_mut();
        match faults.iter().position(|(name, _)| *name == operation) {
            Some(index) => Err(faults.remove(index).1),
            None => Ok(()),
        }
    }

    fn file(&self, data: Rc<RefCell<Data>>) -> FakeFile {
        FakeFile { world: self.clone(), data }
    }
}

impl Clock for Fake {
    fn cpu_ns(&self) -> u64 {
        0
    }

    fn now(&self) -> Time {
        Time(self.0.now.get())
    }

    fn wall(&self) -> WallTime {
        WallTime(1_767_225_599_000_000_000 + self.0.now.get())
    }

    async fn sleep_until(&self, at: Time) {
        poll_fn(|context| {
            if self.now() >= at {
                return Poll::Ready(());
            }
            self.0.timers.borrow_mut().push((at, context.waker().clone()));
            Poll::Pending
        })
        .await
    }

    async fn yield_now(&self) {
        let mut first = true;
        poll_fn(|context| {
            context.waker().wake_by_ref();
            if std::mem::take(&mut first) { Poll::Pending } else { Poll::Ready(()) }
        })
        .await
    }
}

impl Random for Fake {
    fn random_u64(&self) -> u64 {
        self.0.random.set(self.0.random.get() + 1);
        xxhash_rust::xxh3::xxh3_64(&self.0.random.get().to_le_bytes())
    }
}

impl Spawn for Fake {
    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        let task = Task { future: Box::pin(task), flag: Flag::new() };
        self.0.tasks.borrow_mut().push(task);
    }
}

impl Disk for Fake {
    type File = FakeFile;

    async fn create(&self, path: &Path) -> Result<FakeFile, DiskError> {
        self.operate("create").await?;
        if self.0.files.borrow().contains_key(path) {
            return Err(DiskError::Exists);
        }
        let data = Rc::new(RefCell::new(Data::default()));
        self.0.files.borrow_mut().insert(path.into(), data.clone());
        Ok(self.file(data))
    }

    async fn open(&self, path: &Path) -> Result<FakeFile, DiskError> {
        self.operate("open").await?;
        let data = self.0.files.borrow().get(path).cloned().ok_or(DiskError::NotFound)?;
        Ok(self.file(data))
    }

    async fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        self.operate("rename").await?;
        let data = self.0.files.borrow_mut().remove(from).ok_or(DiskError::NotFound)?;
        self.0.files.borrow_mut().insert(to.into(), data);
        Ok(())
    }

    async fn remove(&self, path: &Path) -> Result<(), DiskError> {
        self.operate("remove").await?;
        self.0.files.borrow_mut().remove(path).map(|_| ()).ok_or(DiskError::NotFound)
    }

    async fn create_dir(&self, _: &Path) -> Result<(), DiskError> {
        self.operate("create_dir").await
    }

    async fn list(&self, path: &Path) -> Result<Vec<String>, DiskError> {
        self.operate("list").await?;
        let files = self.0.files.borrow();
        let inside = files.keys().filter_map(|file| file.strip_prefix(path).ok());
        Ok(inside.map(|name| name.display().to_string()).collect())
    }

    async fn sync_dir(&self, _: &Path) -> Result<(), DiskError> {
        self.operate("sync_dir").await
    }
}

impl File for FakeFile {
    async fn append_from(&self, bytes: Vec<u8>, from: usize) -> (Vec<u8>, Result<(), DiskError>) {
        let inner = &self.world.0;
        poll_fn(|context| {
            if !inner.held.get() {
                return Poll::Ready(());
            }
            inner.held_wakers.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
        let result = self.world.operate("append").await;
        // A failed append leaves half of its bytes in the file.
        let written = &bytes[from..];
        let len = if result.is_ok() { written.len() } else { written.len() / 2 };
        self.data.borrow_mut().bytes.extend_from_slice(&written[..len]);
        (bytes, result)
    }

    async fn read_at(&self, offset: u64, len: usize) -> Result<Vec<u8>, DiskError> {
        self.world.operate("read").await?;
        let data = self.data.borrow();
        let rest = data.bytes.get(offset as usize..).unwrap_or_default();
        Ok(rest[..rest.len().min(len)].to_vec())
    }

    async fn sync(&self) -> Result<(), DiskError> {
        let len = self.data.borrow().bytes.len();
        self.world.operate("sync").await?;
        self.data.borrow_mut().synced = len;
        Ok(())
    }

    async fn truncate(&self, size: u64) -> Result<(), DiskError> {
        self.world.operate("truncate").await?;
        let mut data = self.data.borrow_mut();
        data.bytes.truncate(size as usize);
        data.synced = data.synced.min(size as usize);
        Ok(())
    }

    fn size(&self) -> u64 {
        self.data.borrow().bytes.len() as u64
    }
}

//! The journal as it is written: entries flow in, their numbers flow out, and a caller can wait
//! until an entry is durable.
//!
//! [`Journal::append`] only copies into a buffer. One task per journal does all I/O, in order: it
//! appends a frame, syncs it, and begins a new file when asked to. No borrow is held across an
//! await.

use super::JournalError;
use super::file::{FileKind, FileName};
use super::frame::{self, Frame};
use crate::base::Time;
use crate::base::limits::{JOURNAL_FRAME_BYTES, JOURNAL_PENDING_BYTES_MAX};
use crate::base::notify::Notify;
use crate::base::race::race;
use crate::base::watermark::Watermark;
use crate::io::{Clock, Disk, DiskError, File, Spawn, make_dir};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// What a journal needs of a world. It needs no network.
pub trait JournalWorld: Clock + Spawn + Disk + Clone + 'static {}

impl<W: Clock + Spawn + Disk + Clone + 'static> JournalWorld for W {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalSettings {
    /// The sync of an entry begins at most this long after the entry came.
    pub sync_ms: u64,
    pub generation: u32,
    /// The sequence of the first file.
    pub sequence: u64,
    /// The number of the first entry.
    pub first_lsn: u64,
}

/// A shard's journal. Dropping it without [`Journal::close`] ends it as a crash would.
pub struct Journal<W: JournalWorld> {
    shared: Rc<Shared<W>>,
}

struct Shared<W> {
    world: W,
    directory: PathBuf,
    sync_span: Duration,
    state: RefCell<State>,
    /// The notification that wakes the task when there is something to do.
    work: Notify,
    durable: Watermark,
    /// A count that rises whenever the task has done something, or has failed to.
    round: Watermark,
}

/// Entries that become one frame.
struct Group {
    /// The bytes of the frame, which begin with room for its head.
    buffer: Vec<u8>,
    first_lsn: u64,
    entry_count: u32,
}

enum Item {
    Group(Group),
    NewFile,
}

struct State {
    filling: Group,
    /// When the first entry of `filling` came.
    since: Option<Time>,
    /// Groups and new files in their order; all of them come before `filling`.
    items: VecDeque<Item>,
    pending_bytes: usize,
    /// Bytes of entries since the last new file was asked for.
    cut_bytes: u64,
    file_name: FileName,
    /// Entries up to this number are to be synced at once.
    sync_wanted: u64,
    rotated_count: u64,
    failed: Option<JournalError>,
    recovering: bool,
    closing: bool,
    abandoned: bool,
}

impl State {
    fn lsn(&self) -> u64 {
        self.filling.first_lsn + u64::from(self.filling.entry_count) - 1
    }

    /// Moves the entries gathered so far behind the other items.
    fn seal(&mut self) {
        if self.filling.entry_count == 0 {
            return;
        }
        let next = Group::new(self.lsn() + 1);
        let full = std::mem::replace(&mut self.filling, next);
        self.since = None;
        self.items.push_back(Item::Group(full));
    }
}

impl Group {
    fn new(first_lsn: u64) -> Group {
        let mut buffer = Vec::new();
        frame::begin(&mut buffer);
        Group { buffer, first_lsn, entry_count: 0 }
    }

    fn last_lsn(&self) -> u64 {
        self.first_lsn + u64::from(self.entry_count) - 1
    }
}

impl<W: JournalWorld> Journal<W> {
    /// Begins a journal with a new file in `directory`, which is created if it is missing. The file
    /// begins with `again`, a frame that is not proven durable elsewhere.
    pub async fn create(
        world: &W,
        directory: &Path,
        settings: JournalSettings,
        again: Option<&Frame>,
    ) -> Result<Journal<W>, JournalError> {
        let JournalSettings { sync_ms, generation, sequence, first_lsn } = settings;
        assert!(first_lsn > 0, "entries are numbered from one on");
        let text = directory.display().to_string();
        make_dir(world, directory).await.map_err(JournalError::disk("make", &text))?;
        let name = FileName { kind: FileKind::Journal, generation, sequence };
        let file = create_file(world, directory, name, first_lsn, again).await?;
        let state = State {
            filling: Group::new(first_lsn),
            since: None,
            items: VecDeque::new(),
            pending_bytes: 0,
            cut_bytes: 0,
            file_name: name,
            sync_wanted: 0,
            rotated_count: 0,
            failed: None,
            recovering: false,
            closing: false,
            abandoned: false,
        };
        let shared = Rc::new(Shared {
            world: world.clone(),
            directory: directory.to_owned(),
            sync_span: Duration::from_millis(sync_ms),
            state: RefCell::new(state),
            work: Notify::default(),
            durable: Watermark::at(first_lsn - 1),
            round: Watermark::default(),
        });
        let task = Task { shared: shared.clone(), file };
        world.spawn(task.run());
        Ok(Journal { shared })
    }

    /// Adds the entry that `push` writes, and returns its number.
    pub fn append(&self, push: impl FnOnce(&mut Vec<u8>)) -> u64 {
        let shared = &self.shared;
        let mut state = shared.state.borrow_mut();
        let before = state.filling.buffer.len();
        push(&mut state.filling.buffer);
        let added = state.filling.buffer.len() - before;
        state.filling.entry_count += 1;
        state.pending_bytes += added;
        state.cut_bytes += added as u64;
        let lsn = state.lsn();
        let is_first = state.since.is_none();
        state.since.get_or_insert_with(|| shared.world.now());
        let is_full = state.filling.buffer.len() >= JOURNAL_FRAME_BYTES;
        if is_full {
            state.seal();
        }
        drop(state);
        if is_first || is_full {
            shared.work.poke();
        }
        lsn
    }

    /// Returns the number of the last entry.
    pub fn lsn(&self) -> u64 {
        self.shared.state.borrow().lsn()
    }

    /// Returns the number up to which entries survive a power cut.
    pub fn durable_lsn(&self) -> u64 {
        self.shared.durable.level()
    }

    /// Resolves once the entry with this number survives a power cut, which cannot be while the
    /// disk fails.
    pub async fn durable(&self, lsn: u64) {
        self.shared.durable.reached(lsn).await;
    }

    /// Makes all entries durable now, without waiting for the group. Returns an error if it cannot.
    pub async fn sync(&self) -> Result<(), JournalError> {
        let lsn = self.lsn();
        self.shared.state.borrow_mut().sync_wanted = lsn;
        self.shared.work.poke();
        self.wait(|shared| shared.durable.level() >= lsn).await
    }

    /// Begins a new file for entries from now on. Returns the number of the last entry before it,
    /// and the file's sequence.
    pub async fn rotate(&self) -> Result<(u64, u64), JournalError> {
        let (lsn, rotated_count) = {
            let mut state = self.shared.state.borrow_mut();
            state.seal();
            state.items.push_back(Item::NewFile);
            state.cut_bytes = 0;
            let waiting = state.items.iter().filter(|item| matches!(item, Item::NewFile)).count();
            (state.lsn(), state.rotated_count + waiting as u64)
        };
        self.shared.work.poke();
        self.wait(|shared| shared.state.borrow().rotated_count >= rotated_count).await?;
        Ok((lsn, self.shared.state.borrow().file_name.sequence))
    }

    /// Returns the bytes of entries since the last [`Journal::rotate`].
    pub fn size_bytes(&self) -> u64 {
        self.shared.state.borrow().cut_bytes
    }

    /// Reports whether so much is not durable that nothing should be begun that adds to it.
    pub fn is_backed_up(&self) -> bool {
        self.shared.state.borrow().pending_bytes >= JOURNAL_PENDING_BYTES_MAX
    }

    /// Returns why the journal stands still, if it does.
    pub fn failure(&self) -> Option<JournalError> {
        self.shared.state.borrow().failed.clone()
    }

    /// Goes on after an error of the disk, once there is reason to think that the disk works again:
    /// writes all that is not durable to a new file.
    pub async fn recover(&self) -> Result<(), JournalError> {
        {
            let mut state = self.shared.state.borrow_mut();
            if state.failed.is_none() {
                return Ok(());
            }
            state.recovering = true;
        }
        self.shared.work.poke();
        while self.shared.state.borrow().recovering {
            self.shared.round.stepped().await;
        }
        self.failure().map_or(Ok(()), Err)
    }

    /// Makes all entries durable. The journal takes no more entries after this.
    pub async fn close(&self) -> Result<(), JournalError> {
        self.sync().await?;
        self.shared.state.borrow_mut().closing = true;
        self.shared.work.poke();
        Ok(())
    }

    async fn wait(&self, is_done: impl Fn(&Shared<W>) -> bool) -> Result<(), JournalError> {
        loop {
            if is_done(&self.shared) {
                return Ok(());
            }
            if let Some(error) = self.failure() {
                return Err(error);
            }
            self.shared.round.stepped().await;
        }
    }
}

impl<W: JournalWorld> Drop for Journal<W> {
    fn drop(&mut self) {
        self.shared.state.borrow_mut().abandoned = true;
        self.shared.work.poke();
    }
}

/// The one task that touches the disk.
struct Task<W: JournalWorld> {
    shared: Rc<Shared<W>>,
    file: W::File,
}

enum Work {
    Do(Item),
    Recover,
    Stop,
}

impl<W: JournalWorld> Task<W> {
    async fn run(mut self) {
        loop {
            let done = match self.next_work().await {
                Work::Do(Item::Group(group)) => self.write(group).await,
                Work::Do(Item::NewFile) => {
                    let done = self.begin_file().await;
                    let mut state = self.shared.state.borrow_mut();
                    match done {
                        Ok(()) => state.rotated_count += 1,
                        Err(_) => state.items.push_front(Item::NewFile),
                    }
                    done
                }
                Work::Recover => {
                    let done = self.begin_file().await;
                    let mut state = self.shared.state.borrow_mut();
                    state.recovering = false;
                    if done.is_ok() {
                        state.failed = None;
                    }
                    done
                }
                Work::Stop => return,
            };
            if let Err(error) = done {
                self.shared.state.borrow_mut().failed = Some(error);
            }
            self.shared.round.step();
        }
    }

    async fn next_work(&self) -> Work {
        let shared = &self.shared;
        loop {
            let due = {
                let mut state = shared.state.borrow_mut();
                if state.abandoned || (state.closing && state.pending_bytes == 0) {
                    return Work::Stop;
                }
                if state.recovering {
                    return Work::Recover;
                }
                let due = state.since.map_or(Time::NEVER, |since| since + shared.sync_span);
                let is_due =
                    due <= shared.world.now() || state.sync_wanted >= state.filling.first_lsn;
                if state.failed.is_none() {
                    if is_due && state.items.is_empty() {
                        state.seal();
                    }
                    if let Some(item) = state.items.pop_front() {
                        return Work::Do(item);
                    }
                }
                if state.failed.is_some() { Time::NEVER } else { due }
            };
            race(shared.work.wait(), shared.world.sleep_until(due)).await;
        }
    }

    async fn write(&mut self, mut group: Group) -> Result<(), JournalError> {
        let name = self.shared.state.borrow().file_name;
        frame::seal(&mut group.buffer, name.sequence, group.first_lsn, group.entry_count);
        let (buffer, appended) = self.file.append_back(std::mem::take(&mut group.buffer)).await;
        group.buffer = buffer;
        let mut done = appended.map_err(JournalError::disk("write", &name.text()));
        if done.is_ok() {
            done = self.file.sync().await.map_err(JournalError::disk("sync", &name.text()));
        }
        let mut state = self.shared.state.borrow_mut();
        match done {
            Ok(()) => {
                state.pending_bytes -= group.buffer.len() - frame::FRAME_HEAD_BYTES;
                drop(state);
                self.shared.durable.rise(group.last_lsn());
                Ok(())
            }
            Err(error) => {
                state.items.push_front(Item::Group(group));
                Err(error)
            }
        }
    }

    /// Begins the next file. The file before it is left as it is, whatever became of it.
    async fn begin_file(&mut self) -> Result<(), JournalError> {
        let shared = &self.shared;
        let name = {
            let mut state = shared.state.borrow_mut();
            state.file_name.sequence += 1;
            state.file_name
        };
        // What no sync has proven is written to this file again.
        let first_lsn = shared.durable.level() + 1;
        self.file = create_file(&shared.world, &shared.directory, name, first_lsn, None).await?;
        Ok(())
    }
}

/// Begins file `name` with its head and the frame that is written again. It has its name only when
/// these are durable, so a file under a journal's name is never empty.
async fn create_file<D: Disk>(
    disk: &D,
    directory: &Path,
    name: FileName,
    first_lsn: u64,
    again: Option<&Frame>,
) -> Result<D::File, JournalError> {
    let aside = name.aside();
    let path = directory.join(&aside);
    match disk.remove(&path).await {
        // An earlier attempt may have left a file.
        Ok(()) | Err(DiskError::NotFound) => {}
        Err(error) => return Err(JournalError::disk("remove", &aside)(error)),
    }
    let file = disk.create(&path).await.map_err(JournalError::disk("create", &aside))?;
    let mut bytes = name.head(again.map_or(first_lsn, |again| again.first_lsn));
    bytes.extend(again.into_iter().flat_map(|again| again.sealed(name.sequence)));
    file.append(bytes).await.map_err(JournalError::disk("write", &aside))?;
    file.sync().await.map_err(JournalError::disk("sync", &aside))?;
    let named = disk.rename(&path, &directory.join(name.text())).await;
    named.map_err(JournalError::disk("rename", &aside))?;
    disk.sync_dir(directory).await.map_err(JournalError::disk("sync the directory of", &aside))?;
    Ok(file)
}

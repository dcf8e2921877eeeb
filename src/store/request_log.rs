//! `requests/shard-NN.log`: what was asked when, one line a request; the input of `nephila audit`.
//!
//! Fields, separated by one space: monotonic nanoseconds of the start, wall time, host, address,
//! method, URL, status, outcome, body bytes, total milliseconds; `-` where there is none. Lines
//! that begin with `#` are remarks: one at each start of the process (monotonic times before and
//! after it do not compare), one where a disk error lost lines.
//!
//! Lines gather in a buffer, and a spawned task appends it when it is full, so that a request waits
//! for the log only if the disk falls two buffers behind. Synced only when asked: a crash costs the
//! last lines, which the journal makes good.

use super::{StoreError, StoreWorld};
use crate::base::{Time, WallTime};
use crate::flow::Outcome;
use crate::io::{Disk, DiskError, File};
use crate::limits::REQUEST_LOG_BUFFER_BYTES;
use crate::url::Url;
use std::cell::RefCell;
use std::future::poll_fn;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::task::{Poll, Waker};

/// One request, when all is known of it.
#[derive(Clone, Copy, Debug)]
pub struct RequestLine<'a> {
    pub started: Time,
    pub at: WallTime,
    /// `None` if no connection was tried.
    pub address: Option<SocketAddr>,
    pub method: &'a str,
    pub url: &'a Url,
    pub status: Option<u16>,
    pub outcome: Outcome,
    pub body_bytes: u64,
    pub total_ms: u64,
}

impl RequestLine<'_> {
    pub fn push(&self, out: &mut Vec<u8>) {
        // Writing to a Vec cannot fail.
        let _ = write!(out, "{} {} {} ", self.started.0, self.at, self.url.host());
        let _ = match self.address {
            Some(address) => write!(out, "{address} "),
            None => write!(out, "- "),
        };
        push_escaped(out, self.method);
        out.push(b' ');
        push_escaped(out, self.url.as_str());
        let _ = match self.status {
            Some(status) => write!(out, " {status} "),
            None => write!(out, " - "),
        };
        let _ = writeln!(out, "{} {} {}", self.outcome.name(), self.body_bytes, self.total_ms);
    }
}

pub struct RequestLog<W: StoreWorld> {
    world: W,
    file: Rc<W::File>,
    state: Rc<RefCell<State>>,
}

#[derive(Default)]
struct State {
    buffer: Vec<u8>,
    /// The other buffer, while it is not with the disk.
    spare: Vec<u8>,
    appending: bool,
    good_bytes: u64,
    failed: Option<StoreError>,
    lost_lines: usize,
    waiting: Vec<Waker>,
}

impl<W: StoreWorld> RequestLog<W> {
    /// Opens the shard's log behind its last whole line.
    pub async fn open(world: &W, shard: u16) -> Result<RequestLog<W>, StoreError> {
        let dir = Path::new("requests");
        world.create_dir(dir).await.map_err(StoreError::disk("create request log directory"))?;
        let path = PathBuf::from(format!("requests/shard-{shard:02}.log"));
        let file = match world.create(&path).await {
            Err(DiskError::Exists) => open_cut(world, &path).await?,
            created => created.map_err(StoreError::disk("create request log"))?,
        };
        world.sync_dir(dir).await.map_err(StoreError::disk("sync request log directory"))?;
        let mut state = State { good_bytes: file.size(), ..State::default() };
        let _ = writeln!(state.buffer, "# start {} {}", world.now().0, world.wall());
        let (file, state) = (Rc::new(file), Rc::new(RefCell::new(state)));
        Ok(RequestLog { world: world.clone(), file, state })
    }

    /// Adds a line; waits while the disk is two buffers behind.
    pub async fn write(&self, line: &RequestLine<'_>) -> Result<(), StoreError> {
        self.wait(|state| state.buffer.len() < 2 * REQUEST_LOG_BUFFER_BYTES).await?;
        let full = {
            let mut state = self.state.borrow_mut();
            line.push(&mut state.buffer);
            state.buffer.len() >= REQUEST_LOG_BUFFER_BYTES
        };
        if full {
            self.begin_append();
        }
        Ok(())
    }

    /// Hands all lines to the operating system.
    pub async fn flush(&self) -> Result<(), StoreError> {
        loop {
            self.wait(|state| !state.appending).await?;
            if self.state.borrow().buffer.is_empty() {
                return Ok(());
            }
            self.begin_append();
        }
    }

    /// Makes all lines durable.
    pub async fn sync(&self) -> Result<(), StoreError> {
        self.flush().await?;
        match self.file.sync().await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.fail(StoreError::disk("sync request log")(error))),
        }
    }

    pub async fn close(self) -> Result<(), StoreError> {
        self.sync().await
    }

    /// After an error: cuts the file behind the last good append, notes how many lines were lost,
    /// and goes on.
    pub async fn recover(&self) -> Result<(), StoreError> {
        let good_bytes = {
            let state = self.state.borrow();
            if state.failed.is_none() {
                return Ok(());
            }
            state.good_bytes
        };
        self.file.truncate(good_bytes).await.map_err(StoreError::disk("cut request log"))?;
        let mut state = self.state.borrow_mut();
        state.failed = None;
        let mut buffer = format!("# lost {} lines\n", state.lost_lines).into_bytes();
        state.lost_lines = 0;
        buffer.append(&mut state.buffer);
        state.buffer = buffer;
        Ok(())
    }

    /// Starts a task that appends the buffer, unless one is at it.
    fn begin_append(&self) {
        let mut state = self.state.borrow_mut();
        if !state.appending && state.failed.is_none() {
            state.appending = true;
            let bytes = state.take_buffer();
            self.world.spawn(append(self.file.clone(), self.state.clone(), bytes));
        }
    }

    async fn wait(&self, ready: impl Fn(&State) -> bool) -> Result<(), StoreError> {
        poll_fn(|context| {
            let mut state = self.state.borrow_mut();
            if let Some(error) = &state.failed {
                return Poll::Ready(Err(error.clone()));
            }
            if ready(&state) {
                return Poll::Ready(Ok(()));
            }
            if !state.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                state.waiting.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    fn fail(&self, error: StoreError) -> StoreError {
        self.state.borrow_mut().failed = Some(error.clone());
        error
    }
}

impl State {
    fn take_buffer(&mut self) -> Vec<u8> {
        let spare = std::mem::take(&mut self.spare);
        std::mem::replace(&mut self.buffer, spare)
    }

    /// Takes note of an append; gives the next bytes if there are enough again.
    fn note_appended(
        &mut self,
        line_count: usize,
        result: Result<Vec<u8>, DiskError>,
    ) -> Option<Vec<u8>> {
        match result {
            Ok(mut bytes) => {
                self.good_bytes += bytes.len() as u64;
                bytes.clear();
                self.spare = bytes;
            }
            Err(error) => {
                self.lost_lines += line_count;
                self.failed = Some(StoreError::disk("write request log")(error));
            }
        }
        self.appending = self.failed.is_none() && self.buffer.len() >= REQUEST_LOG_BUFFER_BYTES;
        self.appending.then(|| self.take_buffer())
    }
}

/// Appends `bytes`, and the buffer again for as long as it has filled up meanwhile.
async fn append(file: Rc<impl File>, state: Rc<RefCell<State>>, bytes: Vec<u8>) {
    let mut next = Some(bytes);
    while let Some(bytes) = next {
        let line_count = memchr::memchr_iter(b'\n', &bytes).count();
        let result = file.append(bytes).await;
        let waiting = {
            let mut state = state.borrow_mut();
            next = state.note_appended(line_count, result);
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// Opens an existing log and cuts a line that a crash left half written.
async fn open_cut<W: Disk>(disk: &W, path: &Path) -> Result<W::File, StoreError> {
    let file = disk.open(path).await.map_err(StoreError::disk("open request log"))?;
    let mut end = file.size();
    while end > 0 {
        let len = (REQUEST_LOG_BUFFER_BYTES as u64).min(end);
        let tail = file.read_at(end - len, len as usize).await;
        let tail = tail.map_err(StoreError::disk("read request log"))?;
        if let Some(at) = memchr::memrchr(b'\n', &tail) {
            end = end - len + at as u64 + 1;
            break;
        }
        end -= len;
    }
    if end < file.size() {
        file.truncate(end).await.map_err(StoreError::disk("cut request log"))?;
    }
    Ok(file)
}

/// A [`Url`] has neither spaces nor controls; whatever else has is escaped like one.
fn push_escaped(out: &mut Vec<u8>, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_graphic() {
            out.push(byte);
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

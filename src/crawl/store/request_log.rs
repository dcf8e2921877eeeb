//! `requests/shard-NN.log`: which requests were made when, one line for each request. It is the
//! input of `nephila audit`.
//!
//! The fields are separated by one space: monotonic nanoseconds of the start, wall time, host,
//! address, method, URL, status, outcome, body bytes, total milliseconds. A `-` stands for a
//! missing value. Lines that begin with `#` are remarks:
//!
//! - `# start MONOTONIC_NS UNIX_NS DATE` at each start of the process. The monotonic clock may have
//!   begun anew; the wall clock then says how much time lies between. If the crawl is resumed,
//!   ` resumed` follows: the earlier process may have died before it had a line here.
//! - `# end MONOTONIC_NS UNIX_NS DATE` where a process has ended with all of its lines written.
//! - `# unproven BYTES` where a sync failed: lines from that byte of the file on may be missing
//!   after a power cut.
//!
//! `requests/dead-NN.log` beside it has a line for each URL that was given up: wall time, outcome,
//! tries, depth, how it was found, URL.
//!
//! Lines gather in a buffer, and a spawned task appends the buffer when it is full. So a request
//! waits for the log only if the disk is two buffers behind or fails; after a failure the buffers
//! are kept until [`RequestLog::recover`]. Lines are handed to the operating system once a second
//! and synced only when asked, so a power cut costs the last lines. Only the audit reads them.

use super::{StoreError, StoreWorld};
use crate::base::limits::{REQUEST_LOG_BUFFER_BYTES, REQUEST_LOG_CHECK_BYTES};
use crate::base::waiters::Waiters;
use crate::base::{Time, WallTime, text};
use crate::crawl::flow::{Outcome, Via};
use crate::io::{Disk, DiskError, File, make_dir};
use crate::proto::url::Url;
use std::cell::RefCell;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// One request after its end.
#[derive(Clone, Copy, Debug)]
pub struct RequestLine<'a> {
    pub started: Time,
    pub at: WallTime,
    /// `None` if no connection was attempted.
    pub address: Option<SocketAddr>,
    pub method: &'a str,
    pub url: &'a Url,
    pub status: Option<u16>,
    pub outcome: Outcome,
    pub body_bytes: u64,
    pub total_ms: u64,
}

/// A URL that was given up for good.
#[derive(Clone, Copy, Debug)]
pub struct DeadLetter<'a> {
    pub at: WallTime,
    pub outcome: Outcome,
    /// The number of requests made for the URL, or for its robots.txt.
    pub tries: u8,
    pub depth: u16,
    pub via: Via,
    pub url: &'a Url,
}

/// A value that is written to a log as one line.
pub trait LogLine {
    /// Appends the line and its line break.
    fn push(&self, out: &mut Vec<u8>);
}

impl LogLine for DeadLetter<'_> {
    fn push(&self, out: &mut Vec<u8>) {
        let DeadLetter { at, outcome, tries, depth, via, url } = self;
        let (outcome, via) = (outcome.name(), via.name());
        // Writing to a Vec cannot fail.
        let _ = write!(out, "{at} {outcome} {tries} {depth} {via} ");
        push_escaped(out, url.as_str());
        out.push(b'\n');
    }
}

impl LogLine for RequestLine<'_> {
    fn push(&self, out: &mut Vec<u8>) {
        // There is one line for each request, so this avoids `fmt`, which took a microsecond of it.
        text::push_number(out, self.started.0);
        out.push(b' ');
        text::push_date(out, self.at);
        out.push(b' ');
        out.extend_from_slice(self.url.host().as_bytes());
        out.push(b' ');
        match self.address {
            Some(address) => text::push_socket_address(out, address),
            None => out.push(b'-'),
        }
        out.push(b' ');
        push_escaped(out, self.method);
        out.push(b' ');
        push_escaped(out, self.url.as_str());
        out.push(b' ');
        match self.status {
            Some(status) => text::push_number(out, status.into()),
            None => out.push(b'-'),
        }
        out.push(b' ');
        out.extend_from_slice(self.outcome.name().as_bytes());
        for number in [self.body_bytes, self.total_ms] {
            out.push(b' ');
            text::push_number(out, number);
        }
        out.push(b'\n');
    }
}

/// A log that one shard writes.
pub struct RequestLog<W: StoreWorld> {
    world: W,
    file: Rc<W::File>,
    state: Rc<RefCell<State>>,
}

/// Whether the process that writes is the first of its crawl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    First,
    Resumed,
}

#[derive(Default)]
struct State {
    buffer: Vec<u8>,
    /// The other buffer, while no task is appending it.
    spare: Vec<u8>,
    appending: bool,
    /// The length of the file up to the last append without an error.
    good_bytes: u64,
    /// The length of the file that is proven durable.
    synced_bytes: u64,
    failed: Option<StoreError>,
    /// The remark that ends the log is written.
    is_ended: bool,
    waiters: Rc<Waiters>,
}

impl<W: StoreWorld> RequestLog<W> {
    /// Opens the shard's request log behind its last whole line.
    pub async fn open(world: &W, shard: u16, life: Life) -> Result<RequestLog<W>, StoreError> {
        RequestLog::open_as(world, "shard", shard, life).await
    }

    /// Opens the shard's log of URLs that were given up.
    pub async fn open_dead(world: &W, shard: u16, life: Life) -> Result<RequestLog<W>, StoreError> {
        RequestLog::open_as(world, "dead", shard, life).await
    }

    async fn open_as(
        world: &W,
        name: &str,
        shard: u16,
        life: Life,
    ) -> Result<RequestLog<W>, StoreError> {
        let dir = Path::new("requests");
        let made = make_dir(world, dir).await;
        made.map_err(StoreError::disk("create request log directory"))?;
        let path = PathBuf::from(format!("requests/{name}-{shard:02}.log"));
        let file = match world.create(&path).await {
            Err(DiskError::Exists) => open_cut(world, &path).await?,
            created => created.map_err(StoreError::disk("create request log"))?,
        };
        world.sync_dir(dir).await.map_err(StoreError::disk("sync request log directory"))?;
        let size = file.size();
        let mut state = State { good_bytes: size, synced_bytes: size, ..State::default() };
        let (now, wall) = (world.now(), world.wall());
        let resumed = if life == Life::Resumed { " resumed" } else { "" };
        let _ = writeln!(state.buffer, "# start {} {} {wall}{resumed}", now.0, wall.0);
        let (file, state) = (Rc::new(file), Rc::new(RefCell::new(state)));
        Ok(RequestLog { world: world.clone(), file, state })
    }

    /// Adds a line. Waits while the disk is two buffers behind, however long the disk takes to
    /// recover.
    pub async fn write(&self, line: &impl LogLine) {
        let has_room = |state: &State| state.buffer.len() < 2 * REQUEST_LOG_BUFFER_BYTES;
        self.wait(|state| has_room(state).then_some(())).await;
        let full = {
            let mut state = self.state.borrow_mut();
            line.push(&mut state.buffer);
            state.buffer.len() >= REQUEST_LOG_BUFFER_BYTES
        };
        if full {
            self.begin_append();
        }
    }

    /// Begins to hand all lines to the operating system. Called once a second: a killed process
    /// loses the lines of the last second and not a whole buffer.
    pub fn begin_flush(&self) {
        if !self.state.borrow().buffer.is_empty() {
            self.begin_append();
        }
    }

    /// Returns why the log stands still, if it does.
    pub fn failure(&self) -> Option<StoreError> {
        self.state.borrow().failed.clone()
    }

    /// Hands all lines to the operating system.
    pub async fn flush(&self) -> Result<(), StoreError> {
        loop {
            self.wait(|state| match &state.failed {
                Some(error) => Some(Err(error.clone())),
                None => (!state.appending).then_some(Ok(())),
            })
            .await?;
            if self.state.borrow().buffer.is_empty() {
                return Ok(());
            }
            self.begin_append();
        }
    }

    /// Makes all lines durable, except those that an earlier failure has left unproven.
    pub async fn sync(&self) -> Result<(), StoreError> {
        self.flush().await?;
        let good_bytes = self.state.borrow().good_bytes;
        let synced = self.file.sync().await.map_err(StoreError::disk("sync request log"));
        let mut state = self.state.borrow_mut();
        match synced {
            Ok(()) => {
                state.synced_bytes = good_bytes;
                Ok(())
            }
            Err(error) => {
                let unproven = format!("# unproven {}\n", state.synced_bytes);
                state.buffer.splice(0..0, unproven.into_bytes());
                state.failed = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Ends the log with a remark that no line is missing. May be called again if the disk refused.
    pub async fn close(&self) -> Result<(), StoreError> {
        if !self.state.borrow().is_ended {
            let (now, wall) = (self.world.now(), self.world.wall());
            let mut state = self.state.borrow_mut();
            state.is_ended = true;
            // Writing to a Vec cannot fail.
            let _ = writeln!(state.buffer, "# end {} {} {wall}", now.0, wall.0);
        }
        self.sync().await
    }

    /// Recovers from an error: cuts the file behind the last good append and writes again what came
    /// after it.
    pub async fn recover(&self) -> Result<(), StoreError> {
        let good_bytes = {
            let state = self.state.borrow();
            if state.failed.is_none() {
                return Ok(());
            }
            state.good_bytes
        };
        self.file.truncate(good_bytes).await.map_err(StoreError::disk("cut request log"))?;
        self.state.borrow_mut().failed = None;
        self.flush().await
    }

    /// Starts a task that appends the buffer, unless one is running.
    fn begin_append(&self) {
        let mut state = self.state.borrow_mut();
        if !state.appending && state.failed.is_none() {
            state.appending = true;
            let bytes = state.take_buffer();
            self.world.spawn(append(self.file.clone(), self.state.clone(), bytes));
        }
    }

    async fn wait<T>(&self, ready: impl Fn(&State) -> Option<T>) -> T {
        let waiters = self.state.borrow().waiters.clone();
        waiters.wait(|| ready(&self.state.borrow())).await
    }
}

impl State {
    fn take_buffer(&mut self) -> Vec<u8> {
        let spare = std::mem::take(&mut self.spare);
        std::mem::replace(&mut self.buffer, spare)
    }

    /// Notes the result of an append. Returns the next bytes if there are enough again.
    fn note_appended(
        &mut self,
        mut bytes: Vec<u8>,
        result: Result<(), DiskError>,
    ) -> Option<Vec<u8>> {
        match result {
            Ok(()) => {
                self.good_bytes += bytes.len() as u64;
                bytes.clear();
                self.spare = bytes;
            }
            Err(error) => {
                // The bytes go back in front of what has come since.
                bytes.append(&mut self.buffer);
                self.spare = std::mem::replace(&mut self.buffer, bytes);
                self.failed = Some(StoreError::disk("write request log")(error));
            }
        }
        self.appending = self.failed.is_none() && self.buffer.len() >= REQUEST_LOG_BUFFER_BYTES;
        self.appending.then(|| self.take_buffer())
    }
}

/// Appends `bytes`, and then the buffer again for as long as it has filled up meanwhile.
async fn append(file: Rc<impl File>, state: Rc<RefCell<State>>, bytes: Vec<u8>) {
    let mut next = Some(bytes);
    while let Some(bytes) = next {
        let (bytes, result) = file.append_back(bytes).await;
        let waiters = {
            let mut state = state.borrow_mut();
            next = state.note_appended(bytes, result);
            state.waiters.clone()
        };
        waiters.wake_all();
    }
}

/// Opens an existing log and cuts what a crash left behind its last good line: half a line, or
/// zeros where one block never reached the disk and a later one did.
async fn open_cut<W: Disk>(disk: &W, path: &Path) -> Result<W::File, StoreError> {
    let file = disk.open(path).await.map_err(StoreError::disk("open request log"))?;
    let size = file.size();
    let (mut end, mut at) = (size, size);
    let window_start = size.saturating_sub(REQUEST_LOG_CHECK_BYTES);
    let mut has_line_end = false;
    while at > window_start || (at > 0 && !has_line_end) {
        let len = (REQUEST_LOG_BUFFER_BYTES as u64).min(at);
        at -= len;
        let piece = file.read_at(at, len as usize).await;
        let piece = piece.map_err(StoreError::disk("read request log"))?;
        if let Some(hole) = memchr::memchr(0, &piece) {
            (end, has_line_end) = (at + hole as u64, false);
        }
        let known = piece.len().min(end.saturating_sub(at) as usize);
        if !has_line_end && let Some(last) = memchr::memrchr(b'\n', &piece[..known]) {
            (end, has_line_end) = (at + last as u64 + 1, true);
        }
    }
    let end = if has_line_end { end } else { 0 };
    if end < size {
        file.truncate(end).await.map_err(StoreError::disk("cut request log"))?;
    }
    // What can be read now may still be in memory only.
    file.sync().await.map_err(StoreError::disk("sync request log"))?;
    Ok(file)
}

/// Appends text and escapes spaces and control characters. A [`Url`] has none of them; other texts
/// may.
fn push_escaped(out: &mut Vec<u8>, text: &str) {
    if text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return out.extend_from_slice(text.as_bytes());
    }
    for byte in text.bytes() {
        if byte.is_ascii_graphic() {
            out.push(byte);
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

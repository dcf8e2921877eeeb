//! Reads the blocks of a run in order, whole pieces at a time, one piece ahead.
//!
//! While a piece is looked at the next is on its way: two buffers, and the disk is never idle.
//! Which blocks are read is up to the caller: all, those of a range, or those that could hold a
//! needle.

use super::SeenError;
use super::run::{Run, block_offset};
use crate::io::{DiskError, File};
use crate::limits::{SEEN_BLOCK_BYTES, SEEN_TRANSFER_BYTES};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

/// Blocks in one read.
pub(super) const PIECE_BLOCK_COUNT: usize = SEEN_TRANSFER_BYTES / SEEN_BLOCK_BYTES;

/// Blocks that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) first: usize,
    pub(super) count: usize,
}

/// Blocks `from` up to and without `to`, piece by piece.
pub(super) fn extents(from: usize, to: usize) -> impl Iterator<Item = Extent> {
    (from..to)
        .step_by(PIECE_BLOCK_COUNT)
        .map(move |first| Extent { first, count: PIECE_BLOCK_COUNT.min(to - first) })
}

type Reading = Pin<Box<dyn Future<Output = Result<Vec<u8>, DiskError>>>>;

enum Ahead {
    None,
    Reading(Extent, Reading),
    Read(Extent, Result<Vec<u8>, DiskError>),
}

pub(super) struct Reader<F, E> {
    run: Rc<Run<F>>,
    extents: E,
    ahead: Ahead,
}

pub(super) struct Piece {
    extent: Extent,
    bytes: Vec<u8>,
}

impl Piece {
    pub(super) fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The blocks with their numbers.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (usize, &[u8])> {
        (self.extent.first..).zip(self.bytes.chunks(SEEN_BLOCK_BYTES)).take(self.extent.count)
    }
}

impl<F: File, E: Iterator<Item = Extent>> Reader<F, E> {
    pub(super) fn new(run: Rc<Run<F>>, extents: E) -> Reader<F, E> {
        Reader { run, extents, ahead: Ahead::None }
    }

    pub(super) fn run(&self) -> &Run<F> {
        &self.run
    }

    /// The next piece, with the one behind it on its way; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Piece>, SeenError> {
        if matches!(self.ahead, Ahead::None) {
            self.read_ahead().await;
        }
        let (extent, read) = match std::mem::replace(&mut self.ahead, Ahead::None) {
            Ahead::None => return Ok(None),
            Ahead::Reading(extent, reading) => (extent, reading.await),
            Ahead::Read(extent, read) => (extent, read),
        };
        let bytes = read.map_err(|error| SeenError::disk("read", &self.run.name(), error))?;
        if bytes.len() != extent.count * SEEN_BLOCK_BYTES {
            return Err(SeenError::damaged(&self.run.name(), "the file is cut short"));
        }
        self.read_ahead().await;
        Ok(Some(Piece { extent, bytes }))
    }

    /// Asks for the next extent and does not wait: polled once, the read is with the disk.
    async fn read_ahead(&mut self) {
        let Some(extent) = self.extents.next() else { return };
        let run = self.run.clone();
        let offset = block_offset(extent.first as u32);
        let mut reading: Reading =
            Box::pin(
                async move { run.file.read_at(offset, extent.count * SEEN_BLOCK_BYTES).await },
            );
        let first = std::future::poll_fn(|context| Poll::Ready(reading.as_mut().poll(context)));
        self.ahead = match first.await {
            Poll::Ready(read) => Ahead::Read(extent, read),
            Poll::Pending => Ahead::Reading(extent, reading),
        };
    }
}

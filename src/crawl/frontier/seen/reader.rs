//! Reads the blocks of a run in order, many at a time, one haul ahead.
//!
//! A haul is up to [`SEEN_TRANSFER_BYTES`] in up to [`SEEN_TRANSFER_PIECE_COUNT`] pieces, which are
//! requested at once: the blocks that are wanted of a large run lie far apart, and a wait for each
//! block would be longer than all the reads. While a haul is processed the next is being read, so
//! the disk is never idle. The caller says which blocks are read: all, those of a range, or those
//! that could hold a needle.

use super::SeenError;
use super::run::{Run, block_offset};
use crate::base::limits::{SEEN_BLOCK_BYTES, SEEN_TRANSFER_BYTES, SEEN_TRANSFER_PIECE_COUNT};
use crate::io::{DiskError, File};
use std::future::{Future, poll_fn};
use std::iter::Peekable;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Blocks in one haul.
pub(super) const HAUL_BLOCK_COUNT: usize = SEEN_TRANSFER_BYTES / SEEN_BLOCK_BYTES;

/// Blocks that follow each other, no more than a haul has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) first: usize,
    pub(super) count: usize,
}

/// Returns the blocks from `from` up to and without `to`, haul by haul.
pub(super) fn extents(from: usize, to: usize) -> impl Iterator<Item = Extent> {
    (from..to)
        .step_by(HAUL_BLOCK_COUNT)
        .map(move |first| Extent { first, count: HAUL_BLOCK_COUNT.min(to - first) })
}

type Reading = Pin<Box<dyn Future<Output = Result<Vec<u8>, DiskError>>>>;

/// One read of a haul.
enum Piece {
    Asked(Extent, Reading),
    Read(Extent, Result<Vec<u8>, DiskError>),
}

impl Piece {
    /// Returns true once the piece has been read.
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        if let Piece::Asked(extent, reading) = self
            && let Poll::Ready(read) = reading.as_mut().poll(context)
        {
            *self = Piece::Read(*extent, read);
        }
        matches!(self, Piece::Read(..))
    }
}

pub(super) struct Reader<F, E: Iterator<Item = Extent>> {
    run: Rc<Run<F>>,
    extents: Peekable<E>,
    ahead: Vec<Piece>,
}

/// Blocks that were read together.
pub(super) struct Haul(Vec<(Extent, Vec<u8>)>);

impl Haul {
    pub(super) fn size_bytes(&self) -> usize {
        self.0.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    /// Returns the blocks with their numbers, in order.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (usize, &[u8])> {
        self.0.iter().flat_map(|(extent, bytes)| {
            (extent.first..).zip(bytes.chunks(SEEN_BLOCK_BYTES)).take(extent.count)
        })
    }
}

impl<F: File, E: Iterator<Item = Extent>> Reader<F, E> {
    pub(super) fn new(run: Rc<Run<F>>, extents: E) -> Reader<F, E> {
        Reader { run, extents: extents.peekable(), ahead: Vec::new() }
    }

    pub(super) fn run(&self) -> &Run<F> {
        &self.run
    }

    /// Returns the next haul, and requests the one behind it; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Haul>, SeenError> {
        if self.ahead.is_empty() {
            self.read_ahead().await;
        }
        poll_fn(|context| poll_all(&mut self.ahead, context)).await;
        let mut haul = Vec::with_capacity(self.ahead.len());
        for piece in std::mem::take(&mut self.ahead) {
            let Piece::Read(extent, read) = piece else { unreachable!("all were waited for") };
            let bytes = read.map_err(|error| SeenError::disk("read", &self.run.name(), error))?;
            if bytes.len() != extent.count * SEEN_BLOCK_BYTES {
                return Err(SeenError::damaged(&self.run.name(), "the file is cut short"));
            }
            haul.push((extent, bytes));
        }
        if haul.is_empty() {
            return Ok(None);
        }
        self.read_ahead().await;
        Ok(Some(Haul(haul)))
    }

    /// Requests the next haul without waiting for it: once polled, its reads are with the disk.
    async fn read_ahead(&mut self) {
        debug_assert!(self.ahead.is_empty(), "one haul ahead");
        let mut room = HAUL_BLOCK_COUNT;
        while self.ahead.len() < SEEN_TRANSFER_PIECE_COUNT
            && let Some(extent) = self.extents.next_if(|extent| extent.count <= room)
        {
            room -= extent.count;
            let run = self.run.clone();
            let offset = block_offset(extent.first as u32);
            let reading =
                Box::pin(
                    async move { run.file.read_at(offset, extent.count * SEEN_BLOCK_BYTES).await },
                );
            self.ahead.push(Piece::Asked(extent, reading));
        }
        poll_fn(|context| Poll::Ready(_ = poll_all(&mut self.ahead, context))).await;
    }
}

/// Is ready when all pieces have been read.
fn poll_all(pieces: &mut [Piece], context: &mut Context<'_>) -> Poll<()> {
    let is_done = pieces.iter_mut().fold(true, |is_done, piece| piece.poll(context) & is_done);
    if is_done { Poll::Ready(()) } else { Poll::Pending }
}

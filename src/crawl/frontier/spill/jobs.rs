//! Jobs: the work of the tails that needs the disk. [`Frontier::next_tail_job`] makes them, a task
//! of the shard runs them on its [`Files`], and [`Frontier::finish_tail_job`] takes in their
//! outcomes.
//!
//! A job touches nothing of the frontier, so offers and visits go on beside it.
//!
//! [`Frontier::next_tail_job`]: crate::crawl::frontier::Frontier::next_tail_job
//! [`Frontier::finish_tail_job`]: crate::crawl::frontier::Frontier::finish_tail_job

use super::chunk::ChunkRef;
use super::files::Files;
use super::segments::{name_of, serial_of};
use super::{Place, TailError};
use crate::crawl::flow::Class;
use crate::io::{Disk, DiskError, File};
use std::rc::Rc;

pub struct Job(pub(super) Work);

pub(super) enum Work {
    /// Writes a batch of chunks behind `base`, where the segment's last durable byte is.
    Append { class: Class, serial: u32, base: u64, bytes: Rc<Vec<u8>>, is_torn: bool },
    /// Reads the oldest chunks of some queues; chunks that are still in RAM come with their bytes.
    Refill { wanted: Vec<(Place, ChunkRef, Option<Vec<u8>>)> },
    /// Reads a piece of a segment under compaction.
    Compact { class: Class, serial: u32, offset: u64, size_bytes: usize },
    /// Removes files that nothing refers to any more.
    Remove { names: Vec<String> },
}

/// The outcome of a job.
pub struct Finished {
    pub(super) outcome: Outcome,
    pub(super) bytes: u64,
}

pub(super) enum Outcome {
    Appended(Result<(), TailError>),
    Refilled(Vec<(Place, ChunkRef, Result<Vec<u8>, TailError>)>),
    Compacted { offset: u64, read: Result<Vec<u8>, TailError> },
    Removed(Vec<String>, Result<(), TailError>),
}

impl Job {
    /// Runs the job to its end.
    pub async fn run<W: Disk>(self, world: &W, files: &Files<W::File>) -> Finished {
        let mut bytes = 0;
        let outcome = match self.0 {
            Work::Append { class, serial, base, bytes: batch, is_torn } => {
                bytes = batch.len() as u64;
                let segment = (class, serial, base);
                Outcome::Appended(append(world, files, segment, &batch, is_torn).await)
            }
            Work::Refill { wanted } => {
                let mut refilled = Vec::with_capacity(wanted.len());
                for (place, chunk, in_ram) in wanted {
                    let (offset, size) = (u64::from(chunk.offset), chunk.footprint() as usize);
                    let from = (place.class(), chunk.segment);
                    let read = match in_ram {
                        Some(in_ram) => Ok(in_ram),
                        None => read(world, files, from, offset, size).await,
                    };
                    bytes += chunk.footprint();
                    refilled.push((place, chunk, read));
                }
                Outcome::Refilled(refilled)
            }
            Work::Compact { class, serial, offset, size_bytes } => {
                bytes = size_bytes as u64;
                let read = read(world, files, (class, serial), offset, size_bytes).await;
                Outcome::Compacted { offset, read }
            }
            Work::Remove { names } => {
                let removed = remove(world, files, &names).await;
                Outcome::Removed(names, removed)
            }
        };
        Finished { outcome, bytes }
    }
}

/// Appends the batch and syncs it. After a failure the batch is written again behind the last good
/// byte: Linux takes the pages of a failed sync for clean, so a second sync would succeed and prove
/// nothing.
async fn append<W: Disk>(
    world: &W,
    files: &Files<W::File>,
    (class, serial, base): (Class, u32, u64),
    batch: &[u8],
    is_torn: bool,
) -> Result<(), TailError> {
    let failed = |doing| move |error| TailError::disk(doing, &name_of(class, serial), error);
    let file = if base == 0 {
        files.begin(world, class, serial).await?
    } else {
        files.segment(world, class, serial).await?
    };
    if is_torn && base > 0 {
        file.truncate(base).await.map_err(failed("cut"))?;
    }
    file.append(batch.to_vec()).await.map_err(failed("write"))?;
    file.sync().await.map_err(failed("sync"))
}

async fn read<W: Disk>(
    world: &W,
    files: &Files<W::File>,
    (class, serial): (Class, u32),
    offset: u64,
    size_bytes: usize,
) -> Result<Vec<u8>, TailError> {
    let file = files.segment(world, class, serial).await?;
    let read = file.read_at(offset, size_bytes).await;
    read.map_err(|error| TailError::disk("read", &name_of(class, serial), error))
}

async fn remove<W: Disk>(
    world: &W,
    files: &Files<W::File>,
    names: &[String],
) -> Result<(), TailError> {
    for name in names {
        if let Some((_, serial)) = serial_of(name) {
            files.forget(serial);
        }
        match world.remove(&files.directory().join(name)).await {
            // An earlier try may have removed it.
            Ok(()) | Err(DiskError::NotFound) => {}
            Err(error) => return Err(TailError::disk("remove", name, error)),
        }
    }
    Ok(())
}

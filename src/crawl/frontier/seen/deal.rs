//! Deals runs anew: what one core's runs hold of another core's slots is written as runs of that
//! core. The runs that are read stay as they are.

use super::SeenError;
use super::jobs::Toil;
use super::reader::{Reader, extents};
use super::run::{Run, RunImage, serial_of};
use super::writer::RunWriter;
use crate::io::{Clock, Disk, DiskError};
use crate::proto::url::Slot;
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

/// Copies what `run`, which lies in `from`, holds of a range of slots to a new run in `into`.
/// Returns `None` if it holds nothing of them.
pub async fn deal_run<W: Disk + Clock>(
    world: &W,
    from: &Path,
    run: &RunImage,
    into: &Path,
    (first, last): (Slot, Slot),
) -> Result<Option<RunImage>, SeenError> {
    let run = Rc::new(Run::open(world, from, run).await?);
    let (first, last) = (first.fingerprints().0.0, last.fingerprints().1.0);
    if run.index[0] > last || run.last < first {
        return Ok(None);
    }
    let is_awaited = Cell::new(true);
    let begun = world.now();
    let mut toil = Toil { world, directory: into, is_awaited: &is_awaited, begun, bytes: 0 };
    let serial = next_serial(world, into).await?;
    let mut writer = None;
    let blocks = extents(run.block_of(first), run.block_of(last) + 1);
    let mut reader = Reader::new(run.clone(), blocks);
    while let Some(haul) = reader.next().await? {
        for (number, block) in haul.blocks() {
            let known = run.block(number, block)?.iter().map(|of| u128::from_le_bytes(*of));
            for known in known.filter(|known| (first..=last).contains(known)) {
                let writer = match &mut writer {
                    Some(writer) => writer,
                    none => none.insert(RunWriter::create(world, into, serial).await?),
                };
                if writer.push(known) {
                    writer.flush().await?;
                }
            }
        }
        toil.step(haul.size_bytes()).await;
    }
    match writer {
        Some(writer) => Ok(Some(writer.finish(world, into).await?.image())),
        None => Ok(None),
    }
}

/// Reads a run from end to end and checks it.
pub async fn check_run<D: Disk>(
    disk: &D,
    directory: &Path,
    image: &RunImage,
) -> Result<(), SeenError> {
    let run = Rc::new(Run::open(disk, directory, image).await?);
    let mut reader = Reader::new(run.clone(), extents(0, run.block_count()));
    let mut count = 0;
    while let Some(haul) = reader.next().await? {
        for (number, block) in haul.blocks() {
            count += run.block(number, block)?.len() as u64;
        }
    }
    if count == run.count {
        Ok(())
    } else {
        Err(SeenError::damaged(&image.name, "the number of URLs is not what the trailer says"))
    }
}

/// Writes a new run of these fingerprints, which must be sorted.
pub async fn write_run<D: Disk>(
    disk: &D,
    directory: &Path,
    sorted: &[u128],
) -> Result<RunImage, SeenError> {
    let serial = next_serial(disk, directory).await?;
    let mut writer = RunWriter::create(disk, directory, serial).await?;
    for fingerprint in sorted {
        if writer.push(*fingerprint) {
            writer.flush().await?;
        }
    }
    Ok(writer.finish(disk, directory).await?.image())
}

/// Returns a serial that no run in the directory has.
async fn next_serial(disk: &impl Disk, directory: &Path) -> Result<u64, SeenError> {
    let names = match disk.list(directory).await {
        Err(DiskError::NotFound) => Vec::new(),
        names => names.map_err(|error| SeenError::disk("list", "the runs", error))?,
    };
    Ok(names.iter().filter_map(|name| serial_of(name)).max().map_or(1, |last| last + 1))
}

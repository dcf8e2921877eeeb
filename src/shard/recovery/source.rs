//! The source of a state: whose files are read, which shard reads them, and the newest checkpoint
//! among them that can be used.
//!
//! The files of one shard of one generation go in, and a checkpoint comes out, opened at its first
//! host. This module only reads.

use crate::base::HashKey;
use crate::crawl::config::Settings;
use crate::crawl::flow::{Class, ShardIndex, state_dir};
use crate::crawl::frontier::Middle;
use crate::crawl::frontier::seen::{RunImage, SeenImage};
use crate::crawl::frontier::spill::{self, ChunkRef, Files, SegmentImage};
use crate::crawl::journal::{CheckpointReader, Entry, FileName, JournalError, newest_first};
use crate::io::{Clock, Disk, File, World};
use crate::proto::url::HostKey;
use crate::shard::{Placement, ShardError};
use std::path::PathBuf;

/// Where a shard's state comes from.
#[derive(Clone, Copy)]
pub(in crate::shard) struct Source<'p> {
    pub settings: &'p Settings,
    pub hash_key: &'p HashKey,
    pub placement: Placement,
    /// The shard that reads the state.
    pub index: ShardIndex,
    /// The shard whose files are read.
    pub of: ShardIndex,
    pub generation: u32,
    pub chunks: ChunksWanted,
}

/// What is done with the parts of hosts' queues that are on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::shard) enum ChunksWanted {
    /// The chunks stay where they are, in files that belong to the reader.
    Kept,
    /// The chunks of all hosts are read.
    Read,
    /// Only the chunks of this host are read. Those of other hosts are left out.
    ReadOf(HostKey),
}

impl Source<'_> {
    /// Fails if a generation after the first has no checkpoint. Such a generation begins with a
    /// checkpoint, so its files are lost.
    pub(super) fn check_checkpoints(&self, names: &[FileName]) -> Result<(), ShardError> {
        if self.generation > 1 && names.is_empty() {
            let name = self.directory().display().to_string();
            let what = "its checkpoints are missing";
            return Err(ShardError::Journal(JournalError::Damaged { name, what, at: 0 }));
        }
        Ok(())
    }

    pub fn directory(&self) -> PathBuf {
        state_dir(self.of)
    }

    /// Returns the middle part of a host's queues. With [`ChunksWanted::Kept`] its chunks stay on
    /// disk; otherwise their records are read, for example because the files of an old generation
    /// are about to be removed.
    pub(super) async fn middle<W: Disk + Clock>(
        &self,
        world: &W,
        files: &Files<W::File>,
        key: HostKey,
        chunks: [Vec<ChunkRef>; 4],
    ) -> Result<Middle, ShardError> {
        let mut records: [Vec<u8>; 4] = Default::default();
        match self.chunks {
            ChunksWanted::Kept => return Ok(Middle::Chunks),
            ChunksWanted::ReadOf(of) if of != key => return Ok(Middle::Records(records)),
            ChunksWanted::Read | ChunksWanted::ReadOf(_) => {}
        }
        for (class, chunks) in Class::ALL.into_iter().zip(chunks) {
            for chunk in chunks {
                let read = spill::read_chunk(world, files, (class, chunk), key).await;
                records[class.index()].extend(read.map_err(ShardError::Tails)?);
            }
        }
        Ok(Middle::Records(records))
    }

    /// Reports whether the reader takes over the totals of the source. Exactly one shard does.
    pub(super) fn keeps_totals(&self) -> bool {
        self.of.0 % self.placement.shard_count() == self.index.0
    }

    /// Reports whether a host of the source belongs to the reader now.
    pub(super) fn is_ours(&self, host: HostKey) -> bool {
        self.placement.of_host(host) == self.index
    }
}

/// Opens the newest checkpoint of a source that is sound from end to end.
pub(super) async fn newest_sound<W: World>(
    world: &W,
    source: Source<'_>,
    refused: &mut Vec<String>,
) -> Result<Option<Opened<W::File>>, ShardError> {
    let names = newest_first(world, &source.directory(), source.generation).await;
    let names = names.map_err(ShardError::Journal)?;
    source.check_checkpoints(&names)?;
    for name in names {
        let checked = async {
            CheckpointReader::open(world, &source.directory(), name).await?.read_out().await
        };
        match checked.await.map_err(ShardError::Journal) {
            Ok(()) => return Ok(Some(Opened::open(world, source, name).await?)),
            Err(error) => refuse(Some(name), error, refused)?,
        }
    }
    Ok(None)
}

/// A checkpoint that was read up to its first host.
pub(in crate::shard) struct Opened<F> {
    pub(super) reader: CheckpointReader<F>,
    /// The number of the last journal entry before the checkpoint, and the sequence of the journal
    /// file that begins after it.
    pub cut: (u64, u64),
    pub seen: SeenImage,
    pub(super) segments: Vec<SegmentImage>,
    /// The entry that was read last: the first one after the runs and segments.
    pub(super) next: Option<Entry>,
}

impl<F: File> Opened<F> {
    pub async fn open<W: Disk<File = F>>(
        world: &W,
        source: Source<'_>,
        name: FileName,
    ) -> Result<Opened<F>, ShardError> {
        let failed = ShardError::Journal;
        let directory = source.directory();
        let mut reader = CheckpointReader::open(world, &directory, name).await.map_err(failed)?;
        let begun = reader.next().await.map_err(failed)?;
        let Some(Entry::Begun { cut_lsn, cut_sequence, .. }) = begun else {
            return Err(failed(reader.damaged("it has no beginning")));
        };
        let mut seen = SeenImage::default();
        let mut next = reader.next().await.map_err(failed)?;
        while let Some(Entry::Run { image }) = next {
            let run = RunImage::unpack(&image);
            seen.runs.push(run.ok_or_else(|| failed(reader.damaged("a run makes no sense")))?);
            next = reader.next().await.map_err(failed)?;
        }
        let mut segments = Vec::new();
        while let Some(Entry::Segment { image }) = next {
            let segment = SegmentImage::unpack(&image);
            segments.push(segment.ok_or_else(|| failed(reader.damaged("a segment has no sense")))?);
            next = reader.next().await.map_err(failed)?;
        }
        Ok(Opened { reader, cut: (cut_lsn, cut_sequence), seen, segments, next })
    }
}

/// Notes why a checkpoint cannot be used. Fails if the error is not damage, or if there is nothing
/// else to try.
pub(super) fn refuse(
    name: Option<FileName>,
    error: ShardError,
    refused: &mut Vec<String>,
) -> Result<(), ShardError> {
    if error.is_damage() && name.is_some() {
        tracing::warn!(
            "a checkpoint is damaged and is not used: {error}; the one before it is used with the \
             journal since then, so nothing is lost; check the disk"
        );
        refused.push(error.to_string());
        return Ok(());
    }
    // If no checkpoint can be used, the first journal is usually missing too, so that error
    // explains nothing. The damage that was found first is the reason.
    Err(refused.first().cloned().map_or(error, ShardError::Refused))
}

//! Compaction: makes one run of several of about one size, by taking the least of their heads, over
//! and over.
//!
//! A fingerprint is moved two or three times in a crawl of ten million URLs, so this loop is short:
//! the heads lie side by side, the least of them is found without a branch (none could be
//! predicted), and whatever is rare (a run's next haul, a full buffer) is done outside of it.

use super::SeenError;
use super::jobs::Toil;
use super::reader::{Extent, Reader, extents};
use super::run::Run;
use super::writer::RunWriter;
use crate::io::{Clock, Disk, File};
use std::rc::Rc;

impl<W: Disk + Clock> Toil<'_, W> {
    pub(super) async fn compact(
        &mut self,
        runs: Vec<Rc<Run<W::File>>>,
        serial: u64,
    ) -> Result<Run<W::File>, SeenError> {
        let mut writer = RunWriter::create(self.world, self.directory, serial).await?;
        let (mut cursors, mut heads) = (Vec::new(), Vec::new());
        for run in runs {
            let all = extents(0, run.block_count());
            let mut cursor = Cursor { reader: Reader::new(run, all), known: Vec::new(), at: 0 };
            // A run is never empty.
            heads.extend(cursor.next_haul(self).await?);
            cursors.push(cursor);
        }
        while !heads.is_empty() {
            let pause = push_until_pause(&mut heads, &mut cursors, &mut writer);
            if pause.is_full {
                let bytes = writer.flush().await?;
                self.step(bytes).await;
            }
            if let Some(dry) = pause.dry {
                match cursors[dry].next_haul(self).await? {
                    Some(head) => heads[dry] = head,
                    None => _ = (heads.swap_remove(dry), cursors.swap_remove(dry)),
                }
            }
        }
        writer.finish(self.world, self.directory).await
    }
}

/// Why no more was pushed: the writer's buffer is full, or a cursor has come to the end of its
/// haul.
struct Pause {
    is_full: bool,
    dry: Option<usize>,
}

/// Pushes the least heads, over and over, until the writer or a cursor needs the disk. There must
/// be a cursor.
fn push_until_pause<F: File, E: Iterator<Item = Extent>>(
    heads: &mut [u128],
    cursors: &mut [Cursor<F, E>],
    writer: &mut RunWriter<F>,
) -> Pause {
    loop {
        let least = index_of_least(heads);
        let is_full = writer.push(heads[least]);
        let dry = match cursors[least].next() {
            Some(head) => {
                heads[least] = head;
                None
            }
            None => Some(least),
        };
        if is_full || dry.is_some() {
            return Pause { is_full, dry };
        }
    }
}

/// Returns the index of the least head. There must be a head.
#[inline]
fn index_of_least(heads: &[u128]) -> usize {
    let (mut least, mut index) = (heads[0], 0);
    for (other, head) in heads.iter().enumerate().skip(1) {
        let is_less = *head < least;
        least = std::hint::select_unpredictable(is_less, *head, least);
        index = std::hint::select_unpredictable(is_less, other, index);
    }
    index
}

/// One of the runs that are compacted into one.
struct Cursor<F, E: Iterator<Item = Extent>> {
    reader: Reader<F, E>,
    /// The fingerprints of the last haul; the one at `at` is the run's head.
    known: Vec<u128>,
    at: usize,
}

impl<F: File, E: Iterator<Item = Extent>> Cursor<F, E> {
    /// Returns the next fingerprint of this haul.
    #[inline]
    fn next(&mut self) -> Option<u128> {
        self.at += 1;
        self.known.get(self.at).copied()
    }

    /// Reads the next haul and returns its first fingerprint; `None` at the end of the run.
    async fn next_haul<W: Disk + Clock>(
        &mut self,
        toil: &mut Toil<'_, W>,
    ) -> Result<Option<u128>, SeenError> {
        self.known.clear();
        self.at = 0;
        let Some(haul) = self.reader.next().await? else { return Ok(None) };
        for (number, block) in haul.blocks() {
            let known = self.reader.run().block(number, block)?;
            self.known.extend(known.iter().map(|of| u128::from_le_bytes(*of)));
        }
        toil.step(haul.size_bytes()).await;
        Ok(self.known.first().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{DIRECTORY, in_sim, run_of};
    use super::*;
    use crate::io::Random;
    use std::cell::Cell;
    use std::path::Path;

    #[test]
    fn one_run_holds_what_several_held_in_order_and_once() {
        for seed in 0..20 {
            in_sim(seed, async |world| {
                // Runs of one block and of many hauls, and some fingerprints that are in two runs.
                let mut all: Vec<u128> = Vec::new();
                let mut runs = Vec::new();
                for serial in 1..=1 + seed % 5 {
                    let mut of_run: Vec<u128> = (0..1 + world.random_u64() % 40_000)
                        .map(|_| u128::from(world.random_u64() % 100_000) << 100)
                        .collect();
                    of_run.sort_unstable();
                    of_run.dedup();
                    runs.push(run_of(&world, serial, &of_run).await);
                    all.extend(of_run);
                }
                all.sort_unstable();
                all.dedup();
                let (is_awaited, begun) = (Cell::new(true), world.now());
                let directory = Path::new(DIRECTORY);
                let mut toil =
                    Toil { world: &world, directory, is_awaited: &is_awaited, begun, bytes: 0 };
                let run = Rc::new(toil.compact(runs, 99).await.expect("sound runs"));
                assert_eq!((run.count, run.last), (all.len() as u64, all[all.len() - 1]));
                let blocks = extents(0, run.block_count());
                let mut cursor =
                    Cursor { reader: Reader::new(run, blocks), known: Vec::new(), at: 0 };
                let mut found = Vec::new();
                while cursor.next_haul(&mut toil).await.expect("a sound run").is_some() {
                    found.append(&mut cursor.known);
                }
                assert!(found == all, "seed {seed}: {} of {}", found.len(), all.len());
            });
        }
    }
}

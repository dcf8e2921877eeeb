//! Opening: makes a sieve from what a checkpoint names. It checks the runs, and builds the filter
//! from them.

use super::filter::{Filter, slice_of, slice_range};
use super::jobs::Toil;
use super::run::{Run, serial_of};
use super::{DiskSieve, SeenError, SeenImage, SeenLimits};
use crate::base::limits::SEEN_SLICE_COUNT;
use crate::crawl::frontier::bloom::Bloom;
use crate::io::{Clock, Disk, File};
use crate::proto::url::Fingerprint;
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

impl<F: File> DiskSieve<F> {
    /// Opens the runs of `image` in `directory`, which is created if it is missing. Every block of
    /// them is read and checked. Runs that the image does not name are superseded: they are removed
    /// when no checkpoint that names them can be fallen back upon.
    pub async fn open<W>(
        world: &W,
        directory: &Path,
        image: &SeenImage,
        limits: SeenLimits,
    ) -> Result<DiskSieve<F>, SeenError>
    where
        W: Disk<File = F> + Clock,
    {
        let failed = |doing| move |error| SeenError::disk(doing, "the runs", error);
        world.create_dir(directory).await.map_err(failed("make the directory of"))?;
        let mut sieve = DiskSieve::new(limits);
        for run in &image.runs {
            sieve.runs.push(Rc::new(Run::open(world, directory, run).await?));
        }
        for name in world.list(directory).await.map_err(failed("list"))? {
            let Some(serial) = serial_of(&name) else { continue };
            sieve.next_serial = sieve.next_serial.max(serial + 1);
            if image.runs.iter().all(|run| run.name != name) {
                sieve.leftovers.supersede([name]);
            }
        }
        sieve.fill_filter(world, directory).await?;
        Ok(sieve)
    }

    async fn fill_filter<W>(&mut self, world: &W, directory: &Path) -> Result<(), SeenError>
    where
        W: Disk<File = F> + Clock,
    {
        let counts = self.counts_by_slice();
        let least = self.limits.slice_url_count;
        self.filter = Filter::new(|slice| least.max(counts[slice] * 9 / 8));
        let is_awaited = Cell::new(true);
        let mut toil =
            Toil { world, directory, is_awaited: &is_awaited, begun: world.now(), bytes: 0 };
        for (slice, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            let empty = Bloom::with_room_for(least.max(count * 9 / 8));
            let filled = toil.fill(empty, slice_range(slice), &self.runs).await?;
            self.filter.replace(slice, filled);
        }
        self.seen.job_bytes += toil.bytes;
        Ok(())
    }

    /// Estimates how many fingerprints each slice has: those of a block are divided among the
    /// slices that it may reach into, and rounded up.
    fn counts_by_slice(&self) -> Vec<usize> {
        let mut counts = vec![0; SEEN_SLICE_COUNT];
        for run in &self.runs {
            let per_block = (run.count as usize).div_ceil(run.block_count());
            let ends = run.index.iter().skip(1).copied().chain([run.last]);
            for (first, end) in run.index.iter().zip(ends) {
                let slices = slice_of(Fingerprint(*first))..=slice_of(Fingerprint(end));
                let share = per_block.div_ceil(slices.clone().count());
                slices.for_each(|slice| counts[slice] += share);
            }
        }
        counts
    }
}

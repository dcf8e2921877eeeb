//! Merge: finds which deferred fingerprints are in the runs. The needles are sorted and looked for
//! in one pass over each run.
//!
//! A batch and the runs flow in; a bit for each candidate flows out ([`Found`]). Only blocks that
//! could hold a needle are looked at; those that lie close to each other come in one read. The
//! links of a page are for the most part of its own host, and their fingerprints lie together.

use super::SeenError;
use super::batch::{Batch, Needle};
use super::jobs::Toil;
use super::order::sorted;
use super::reader::{Extent, HAUL_BLOCK_COUNT, Haul, Reader};
use super::run::Run;
use crate::base::limits::SEEN_GAP_BLOCK_COUNT;
use crate::io::{Clock, Disk};
use std::rc::Rc;

/// One bit for each candidate of the batch, in the order in which they came: it is in a run.
pub(super) struct Found(Vec<u64>);

impl Found {
    fn none(count: usize) -> Found {
        Found(vec![0; count.div_ceil(64)])
    }

    fn mark(&mut self, index: u32) {
        self.0[index as usize / 64] |= 1 << (index % 64);
    }

    pub(super) fn has(&self, index: usize) -> bool {
        self.0[index / 64] >> (index % 64) & 1 == 1
    }
}

impl<W: Disk + Clock> Toil<'_, W> {
    /// Looks for the batch in all runs, the largest first: that settles most, and what is settled
    /// is not looked for again.
    pub(super) async fn merge(
        &mut self,
        batch: &Batch,
        mut runs: Vec<Rc<Run<W::File>>>,
    ) -> Result<Found, SeenError> {
        let mut found = Found::none(batch.count());
        let mut needles: Rc<[Needle]> = sorted(batch.needles(), self.world).await.into();
        runs.sort_by_key(|run| std::cmp::Reverse(run.count));
        for run in runs {
            let wanted = Wanted::new(run.clone(), needles.clone());
            let mut reader = Reader::new(run, wanted);
            let mut next = 0;
            while let Some(haul) = reader.next().await? {
                next = mark_found(reader.run(), &haul, &needles, next, &mut found)?;
                self.step(haul.size_bytes()).await;
            }
            drop(reader);
            let is_open = |needle: &&Needle| !found.has(needle.index as usize);
            needles = needles.iter().filter(is_open).copied().collect();
        }
        Ok(found)
    }
}

/// An iterator over the blocks of a run that could hold a needle; those that lie close together are
/// one extent, for one read.
struct Wanted<F> {
    run: Rc<Run<F>>,
    needles: Rc<[Needle]>,
    next: usize,
    /// The blocks before this one were passed.
    block: usize,
}

impl<F> Iterator for Wanted<F> {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        let first = self.next_block()?;
        self.pass(first);
        while let Some(block) = self.next_block()
            && block < first + HAUL_BLOCK_COUNT
            && block - self.block <= SEEN_GAP_BLOCK_COUNT
        {
            self.pass(block);
        }
        Some(Extent { first, count: self.block - first })
    }
}

impl<F> Wanted<F> {
    fn new(run: Rc<Run<F>>, needles: Rc<[Needle]>) -> Wanted<F> {
        // Needles before the run's first fingerprint are in no block.
        let next = needles.partition_point(|needle| needle.fingerprint() < run.index[0]);
        Wanted { run, needles, next, block: 0 }
    }

    /// Returns the block that could hold the next needle.
    fn next_block(&self) -> Option<usize> {
        let needle = self.needles.get(self.next)?.fingerprint();
        if needle > self.run.last {
            return None;
        }
        // Most needles lie near: the search goes in strides that double, then in halves.
        let (mut low, mut stride) = (self.block, 1);
        while self.run.index.get(low + stride).is_some_and(|first| *first <= needle) {
            low += stride;
            stride *= 2;
        }
        let end = self.run.index.len().min(low + stride);
        Some(low + self.run.index[low + 1..end].partition_point(|first| *first <= needle))
    }

    /// Moves past a block and the needles that it could hold.
    fn pass(&mut self, block: usize) {
        self.block = block + 1;
        self.next += count_in(&self.run, block, &self.needles[self.next..]);
    }
}

/// Returns how many of the needles, none of which is before the block, are not behind it either.
fn count_in<F>(run: &Run<F>, block: usize, needles: &[Needle]) -> usize {
    run.index.get(block + 1).map_or(needles.len(), |behind| {
        needles.iter().take_while(|needle| needle.fingerprint() < *behind).count()
    })
}

/// Needles lie close in a block that has fewer fingerprints than this for each of them.
const DENSE_COUNT: usize = 32;

/// Marks the needles that the haul holds; returns the index of the first needle behind the haul.
/// Blocks that were read only because they lie between others are not looked at.
fn mark_found<F>(
    run: &Run<F>,
    haul: &Haul,
    needles: &[Needle],
    mut next: usize,
    found: &mut Found,
) -> Result<usize, SeenError> {
    for (number, block) in haul.blocks() {
        // There may be needles before the run, but there are none between its blocks.
        while needles.get(next).is_some_and(|needle| needle.fingerprint() < run.index[number]) {
            next += 1;
        }
        let count = count_in(run, number, &needles[next..]);
        if count == 0 {
            continue;
        }
        let mut known = run.block(number, block)?;
        // Where needles lie close, the branches of a linear search are predicted; those of a binary
        // search are not.
        let is_dense = count * DENSE_COUNT > known.len();
        for needle in &needles[next..next + count] {
            let fingerprint = needle.fingerprint();
            let is_before = |of: &[u8; 16]| u128::from_le_bytes(*of) < fingerprint;
            let before = if is_dense {
                known.iter().take_while(|of| is_before(of)).count()
            } else {
                known.partition_point(is_before)
            };
            known = &known[before..];
            if known.first().is_some_and(|of| u128::from_le_bytes(*of) == fingerprint) {
                found.mark(needle.index);
            }
        }
        next += count;
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{DIRECTORY, in_sim, run_of};
    use super::*;
    use crate::base::Time;
    use crate::base::limits::SEEN_BLOCK_BYTES;
    use crate::crawl::flow::{Candidate, Class, Trail, Via};
    use crate::io::Random;
    use crate::io::sim::SimWorld;
    use crate::proto::url::{Fingerprint, HostKey, Url};
    use std::cell::Cell;
    use std::path::Path;

    fn batch_of(known: impl Iterator<Item = u128>) -> Batch {
        let url = Url::parse("http://a.test/").expect("a URL");
        let (depth, class, via) = (1, Class::Normal, Via::Link);
        let candidate = Candidate { url, depth, class, via, trail: Trail::default() };
        let mut batch = Batch::default();
        known.for_each(|of| batch.push(Fingerprint(of), &candidate.lent(), Time::ZERO));
        batch
    }

    /// Merges `wanted` with a run of `all`; returns the bytes that were read, and what was found.
    async fn merged(world: &SimWorld, all: &[u128], wanted: &[u128]) -> (u64, Vec<bool>) {
        let run = run_of(world, 1, all).await;
        let batch = batch_of(wanted.iter().copied());
        let (begun, is_awaited) = (world.now(), Cell::new(true));
        let directory = Path::new(DIRECTORY);
        let mut toil = Toil { world, directory, is_awaited: &is_awaited, begun, bytes: 0 };
        let found = toil.merge(&batch, vec![run]).await.expect("a sound run");
        (toil.bytes, (0..wanted.len()).map(|index| found.has(index)).collect())
    }

    #[test]
    fn a_merge_finds_what_is_there_however_far_apart_it_lies() {
        for seed in 0..30 {
            in_sim(seed, async |world| {
                // Runs of many blocks and of few, with needles in nearly all of them and in nearly
                // none.
                let count = 1 << (4 + seed % 4 * 4);
                let mut all: Vec<u128> = (0..count).map(|_| random(&world)).collect();
                all.sort_unstable();
                let wanted: Vec<u128> = (0..1 << (seed % 5 * 3))
                    .map(|_| match world.random_u64() % 3 {
                        0 => random(&world),
                        _ => all[(world.random_u64() % count) as usize],
                    })
                    .chain([0, u128::MAX, all[0], all[all.len() - 1]])
                    .collect();
                let (bytes, found) = merged(&world, &all, &wanted).await;
                let naive: Vec<bool> =
                    wanted.iter().map(|of| all.binary_search(of).is_ok()).collect();
                assert_eq!(found, naive, "seed {seed}");
                let each = (2 * SEEN_GAP_BLOCK_COUNT + 1) * SEEN_BLOCK_BYTES;
                assert!(bytes <= (wanted.len() * each) as u64, "seed {seed}: {bytes} bytes");
            });
        }
    }

    #[test]
    fn the_links_of_a_page_are_looked_for_in_few_blocks_of_a_large_run() {
        in_sim(1, async |world| {
            let mut all: Vec<u128> = (0..100_000u64)
                .map(|number| {
                    let host = HostKey(xxhash_rust::xxh3::xxh3_64(&(number % 1_000).to_le_bytes()));
                    Fingerprint::new(host, random(&world)).0
                })
                .collect();
            all.sort_unstable();
            // Each host has a hundred URLs; fifty of one host are looked for.
            let wanted: Vec<u128> = all[54_321 / 100 * 100..][..50].to_vec();
            let (bytes, found) = merged(&world, &all, &wanted).await;
            assert!(found.iter().all(|is_found| *is_found));
            assert!(bytes <= 2 * SEEN_BLOCK_BYTES as u64, "{bytes} bytes");
        });
    }

    fn random(world: &SimWorld) -> u128 {
        u128::from(world.random_u64()) << 64 | u128::from(world.random_u64())
    }
}

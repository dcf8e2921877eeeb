//! Finds near-duplicates by SimHash: all pages within three bits, by the pigeonhole principle.
//!
//! The 64 bits are divided into four blocks of 16. Two hashes that differ in at most three bits
//! agree in at least one whole block. A page is filed under each of its four block values. Each
//! shard owns some of the block values, so a question goes to at most four shards. For each block
//! value only the newest [`NEAR_BUCKET_COUNT_MAX`] pages are kept: a value that more pages share
//! comes from boilerplate.

use crate::base::limits::{NEAR_BUCKET_COUNT_MAX, NEAR_DISTANCE_MAX};
use crate::crawl::flow::ShardIndex;
use crate::sys::memory;

const BLOCK_COUNT: u32 = 4;
const BLOCKS: [u32; BLOCK_COUNT as usize] = [0, 1, 2, 3];
const BLOCK_BITS: u32 = 16;

#[derive(Clone, Copy)]
struct Filed {
    simhash: u64,
    page: u64,
}

#[derive(Clone, Default)]
struct Bucket {
    pages: Vec<Filed>,
    /// The index that the next page overwrites once the bucket is full.
    next: u8,
}

/// This shard's part of the table of SimHash blocks.
pub struct NearTable {
    /// The buckets by block and value, [`ROW_COUNT`] in a row. A row stays empty until one of its
    /// buckets is needed.
    rows: Box<[Vec<Bucket>]>,
    overwritten_count: u64,
}

const ROW_COUNT: usize = 256;

impl Default for NearTable {
    fn default() -> NearTable {
        let rows = vec![Vec::new(); (BLOCK_COUNT << BLOCK_BITS) as usize / ROW_COUNT];
        NearTable { rows: rows.into(), overwritten_count: 0 }
    }
}

/// Returns the shard that owns a block of a SimHash.
pub fn block_owner(simhash: u64, block: u32, shard_count: u16) -> ShardIndex {
    let spread = bucket_key(simhash, block).wrapping_mul(0x9E37_79B1);
    ShardIndex(((u64::from(spread) * u64::from(shard_count)) >> 32) as u16)
}

/// Returns the shards that must be asked about a SimHash, each with its blocks as a bit mask.
pub fn masks(simhash: u64, shard_count: u16) -> impl Iterator<Item = (ShardIndex, u8)> {
    let owners = BLOCKS.map(|block| block_owner(simhash, block, shard_count));
    BLOCKS.into_iter().filter_map(move |block| {
        let owner = owners[block as usize];
        let mask = BLOCKS
            .iter()
            .fold(0, |mask, other| mask | u8::from(owners[*other as usize] == owner) << other);
        // The first block of an owner stands for all its blocks.
        (mask.trailing_zeros() == block).then_some((owner, mask))
    })
}

impl NearTable {
    /// Returns the nearest other page within the distance, looked up in the blocks of `mask`. Then
    /// files this page in those blocks.
    pub fn ask(&mut self, simhash: u64, page: u64, mask: u8) -> Option<u64> {
        let mut nearest: Option<(u32, u64)> = None;
        let blocks = || (0..BLOCK_COUNT).filter(move |block| mask & (1 << block) != 0);
        self.prefetch(simhash);
        self.prefetch_pages(simhash);
        for block in blocks() {
            let bucket = self.bucket(bucket_key(simhash, block) as usize);
            for filed in bucket.pages.iter().filter(|filed| filed.page != page) {
                let distance = (filed.simhash ^ simhash).count_ones();
                if distance <= NEAR_DISTANCE_MAX && nearest.is_none_or(|(best, _)| distance < best)
                {
                    nearest = Some((distance, filed.page));
                }
            }
            let filed = Filed { simhash, page };
            if bucket.pages.len() < NEAR_BUCKET_COUNT_MAX {
                bucket.pages.push(filed);
            } else {
                bucket.pages[bucket.next as usize] = filed;
                bucket.next = (bucket.next + 1) % NEAR_BUCKET_COUNT_MAX as u8;
                self.overwritten_count += 1;
            }
        }
        nearest.map(|(_, page)| page)
    }

    /// Prefetches the buckets of a SimHash for a call of [`NearTable::ask`] that comes soon.
    pub fn prefetch(&self, simhash: u64) {
        let buckets = BLOCKS.iter().filter_map(|block| self.peek(bucket_key(simhash, *block)));
        buckets.for_each(memory::prefetch);
    }

    /// Prefetches the pages of the four buckets. They lie in four different places, as the buckets
    /// do; waiting for all of them at once takes a quarter of the time.
    fn prefetch_pages(&self, simhash: u64) {
        let buckets = BLOCKS.iter().filter_map(|block| self.peek(bucket_key(simhash, *block)));
        buckets.for_each(|bucket| memory::prefetch(&bucket.pages[..]));
    }

    fn peek(&self, key: u32) -> Option<&Bucket> {
        let key = key as usize;
        self.rows[key / ROW_COUNT].get(key % ROW_COUNT)
    }

    fn bucket(&mut self, key: usize) -> &mut Bucket {
        let row = &mut self.rows[key / ROW_COUNT];
        if row.is_empty() {
            row.resize(ROW_COUNT, Bucket::default());
        }
        &mut row[key % ROW_COUNT]
    }

    pub fn overwritten_count(&self) -> u64 {
        self.overwritten_count
    }
}

fn bucket_key(simhash: u64, block: u32) -> u32 {
    let value = (simhash >> (block * BLOCK_BITS)) as u16;
    block << BLOCK_BITS | u32::from(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_pair_within_three_bits_is_found_on_any_number_of_shards(
            first: u64,
            flips in prop::collection::vec(0u32..64, 0..6),
            shard_count in 1u16..9,
        ) {
            let second = flips.iter().fold(first, |hash, bit| hash ^ (1 << bit));
            let mut shards: Vec<NearTable> =
                (0..shard_count).map(|_| NearTable::default()).collect();
            let mut ask = |simhash, page| {
                let mut found = None;
                for (shard, mask) in masks(simhash, shard_count) {
                    found = found.or(shards[shard.0 as usize].ask(simhash, page, mask));
                }
                found
            };
            prop_assert_eq!(ask(first, 1), None);
            let expected = ((first ^ second).count_ones() <= 3).then_some(1);
            prop_assert_eq!(ask(second, 2), expected);
        }
    }

    #[test]
    fn a_page_is_not_its_own_neighbour() {
        let mut table = NearTable::default();
        assert_eq!(table.ask(42, 7, 0b1111), None);
        assert_eq!(table.ask(42, 7, 0b1111), None);
        assert_eq!(table.ask(42, 8, 0b1111), Some(7));
    }

    #[test]
    fn a_bucket_keeps_its_newest_pages_only() {
        let mut table = NearTable::default();
        // One shared block value, the others all different.
        let hash = |number: u64| number.wrapping_mul(0x0101_0101_0101) << 16 | 0xBEEF;
        for number in 0..1_000 {
            table.ask(hash(number), number, 0b0001);
        }
        let buckets = table.rows.iter().flatten().filter(|bucket| !bucket.pages.is_empty());
        let counts: Vec<usize> = buckets.map(|bucket| bucket.pages.len()).collect();
        assert_eq!(counts, [NEAR_BUCKET_COUNT_MAX]);
        assert_eq!(table.overwritten_count(), 1_000 - NEAR_BUCKET_COUNT_MAX as u64);
    }
}

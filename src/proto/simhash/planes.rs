//! Sixty-four counters in planes: plane `k` holds bit `k` of each.
//!
//! Adding a shingle's 64 bits one counter at a time takes 64 additions. In planes, three rows of
//! bits add up with five operations on whole words (a full adder in each bit), and eight rows with
//! seven such adders leave one carry for the planes above (the Harley-Seal method of counting
//! bits); four sets of eight go through a vector register side by side.

use crate::base::limits::SIMHASH_SHINGLE_COUNT_MAX;
use std::array::from_fn;

const PLANE_COUNT: usize = 24;
const _: () = assert!(SIMHASH_SHINGLE_COUNT_MAX < 1 << PLANE_COUNT, "no counter may overflow");

/// The number of rows side by side, as a vector register holds them. Each lane is counted
/// separately, and all are added up at the end.
const LANE_COUNT: usize = 4;
type Lanes = [u64; LANE_COUNT];
/// The number of rows added at a time.
const BATCH: usize = 8 * LANE_COUNT;

#[derive(Clone, Debug, Default)]
pub(super) struct Planes {
    planes: [Lanes; PLANE_COUNT],
    total_count: usize,
}

impl Planes {
    /// Returns the number of rows added so far.
    pub(super) fn total_count(&self) -> usize {
        self.total_count
    }

    /// Adds one to each counter whose bit is set, for every row.
    pub(super) fn add(&mut self, rows: &[u64]) {
        debug_assert!(self.total_count + rows.len() <= SIMHASH_SHINGLE_COUNT_MAX);
        self.total_count += rows.len();
        let bit_count = self.total_count.checked_ilog2().map_or(0, |bits| bits as usize + 1);
        let (batches, rest) = rows.as_chunks::<BATCH>();
        for batch in batches {
            self.add_batch(batch, bit_count);
        }
        if !rest.is_empty() {
            // The rest is filled up with rows without bits, which add nothing: that is cheaper than
            // a carry for each row of the rest.
            let mut last = [0; BATCH];
            last[..rest.len()].copy_from_slice(rest);
            self.add_batch(&last, bit_count);
        }
    }

    /// Adds one batch. `bit_count` is the number of planes that no counter exceeds.
    #[inline(always)]
    fn add_batch(&mut self, rows: &[u64; BATCH], bit_count: usize) {
        let (lanes, _) = rows.as_chunks::<LANE_COUNT>();
        let [ones, twos, fours, higher @ ..] = &mut self.planes;
        let mut carries = [[0; LANE_COUNT]; 4];
        for (two, carry) in lanes.as_chunks::<2>().0.iter().zip(&mut carries) {
            (*ones, *carry) = full_add(*ones, two[0], two[1]);
        }
        let (first, second, mut carry);
        (*twos, first) = full_add(*twos, carries[0], carries[1]);
        (*twos, second) = full_add(*twos, carries[2], carries[3]);
        (*fours, carry) = full_add(*fours, first, second);
        // The loop goes as far as any carry can come, and not as far as this one does, which cannot
        // be predicted.
        for plane in &mut higher[..bit_count.clamp(3, PLANE_COUNT) - 3] {
            let sum = *plane;
            *plane = from_fn(|lane| sum[lane] ^ carry[lane]);
            carry = from_fn(|lane| sum[lane] & carry[lane]);
        }
        debug_assert_eq!(carry, [0; LANE_COUNT]);
    }

    /// Returns the bits whose counter exceeds half of all rows.
    pub(super) fn majority(&self) -> u64 {
        let mut carries = [0; LANE_COUNT - 1];
        let counters = self.planes.map(|lanes| {
            let mut total = lanes[0];
            for (lane, carry) in lanes[1..].iter().zip(&mut carries) {
                (total, *carry) = full_add_one(total, *lane, *carry);
            }
            total
        });
        let half = self.total_count / 2;
        let (mut over, mut equal) = (0, !0);
        for (index, plane) in counters.iter().enumerate().rev() {
            let half_bit = if half >> index & 1 == 1 { !0 } else { 0 };
            over |= equal & plane & !half_bit;
            equal &= !(plane ^ half_bit);
        }
        over
    }
}

/// Returns sum and carry of three bits, in each of 64 places of each lane.
#[inline(always)]
fn full_add(a: Lanes, b: Lanes, c: Lanes) -> (Lanes, Lanes) {
    let half: Lanes = from_fn(|lane| a[lane] ^ b[lane]);
    let sum = from_fn(|lane| half[lane] ^ c[lane]);
    (sum, from_fn(|lane| a[lane] & b[lane] | half[lane] & c[lane]))
}

#[inline(always)]
fn full_add_one(a: u64, b: u64, c: u64) -> (u64, u64) {
    let half = a ^ b;
    (half ^ c, a & b | half & c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_majority_is_that_of_counting_one_by_one(
            batches in prop::collection::vec(
                prop::collection::vec(any::<u64>().prop_map(|row| row | 0xff00), 0..70), 0..6),
        ) {
            let mut planes = Planes::default();
            batches.iter().for_each(|rows| planes.add(rows));
            let rows = batches.concat();
            let mut wanted = 0u64;
            for bit in 0..64 {
                let ones = rows.iter().filter(|row| **row >> bit & 1 == 1).count();
                wanted |= u64::from(2 * ones > rows.len()) << bit;
            }
            prop_assert_eq!(planes.total_count(), rows.len());
            prop_assert_eq!(planes.majority(), wanted);
        }
    }
}

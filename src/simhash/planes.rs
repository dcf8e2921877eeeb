//! Sixty-four counters in planes: plane `k` holds bit `k` of each.
//!
//! Adding a shingle's 64 bits one counter at a time costs 64 additions. Laid out in planes, three
//! rows of bits add up with five operations on whole words (a full adder in each bit), and sixteen
//! rows with fifteen such adders leave one carry for the planes above (Harley and Seal's way to
//! count bits).

use crate::limits::SIMHASH_SHINGLE_COUNT_MAX;

const PLANE_COUNT: usize = 24;
const _: () = assert!(SIMHASH_SHINGLE_COUNT_MAX < 1 << PLANE_COUNT, "no counter overflows");

#[derive(Clone, Debug, Default)]
pub(super) struct Planes {
    planes: [u64; PLANE_COUNT],
    total_count: usize,
}

impl Planes {
    /// Rows added so far.
    pub(super) fn total_count(&self) -> usize {
        self.total_count
    }

    /// Adds one to each counter whose bit is set, for every row.
    pub(super) fn add(&mut self, rows: &[u64]) {
        debug_assert!(self.total_count + rows.len() <= SIMHASH_SHINGLE_COUNT_MAX);
        self.total_count += rows.len();
        let (sixteens, rest) = rows.as_chunks::<16>();
        let [mut ones, mut twos, mut fours, mut eights, ..] = self.planes;
        for rows in sixteens {
            let mut carries = [0; 8];
            for (pair, carry) in rows.as_chunks::<2>().0.iter().zip(&mut carries) {
                (ones, *carry) = full_add(ones, pair[0], pair[1]);
            }
            let mut next = [0; 4];
            for (pair, carry) in carries.as_chunks::<2>().0.iter().zip(&mut next) {
                (twos, *carry) = full_add(twos, pair[0], pair[1]);
            }
            let (low, high);
            (fours, low) = full_add(fours, next[0], next[1]);
            (fours, high) = full_add(fours, next[2], next[3]);
            let sixteen;
            (eights, sixteen) = full_add(eights, low, high);
            self.carry_up(4, sixteen);
        }
        self.planes[..4].copy_from_slice(&[ones, twos, fours, eights]);
        for row in rest {
            self.carry_up(0, *row);
        }
    }

    /// Bits whose counter is over half of all rows.
    pub(super) fn majority(&self) -> u64 {
        let half = self.total_count / 2;
        let (mut over, mut equal) = (0, !0);
        for (index, plane) in self.planes.iter().enumerate().rev() {
            let half_bit = if half >> index & 1 == 1 { !0 } else { 0 };
            over |= equal & plane & !half_bit;
            equal &= !(plane ^ half_bit);
        }
        over
    }

    fn carry_up(&mut self, from: usize, mut carry: u64) {
        for plane in &mut self.planes[from..] {
            if carry == 0 {
                return;
            }
            (*plane, carry) = (*plane ^ carry, *plane & carry);
        }
        debug_assert_eq!(carry, 0);
    }
}

/// Sum and carry of three bits, in each of 64 places.
#[inline(always)]
fn full_add(a: u64, b: u64, c: u64) -> (u64, u64) {
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

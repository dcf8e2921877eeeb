//! Seeded random numbers: SplitMix64 (Steele, Lea, Flood 2014), with one stream for each purpose.
//!
//! The streams are separate, so that a world that draws one number more does not change the numbers
//! of the network.

use std::cell::Cell;

const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// One stream of numbers. It belongs to one simulation; its state is interior, so that `&self`
/// draws.
pub(super) struct Chance(Cell<u64>);

impl Chance {
    pub fn new(seed: u64, stream: u64) -> Chance {
        Chance(Cell::new(mix(seed.wrapping_add(mix(stream.wrapping_add(GAMMA))))))
    }

    pub fn draw(&self) -> u64 {
        let state = self.0.get().wrapping_add(GAMMA);
        self.0.set(state);
        mix(state)
    }

    /// Draws a number from `low` to `high`, both included.
    pub fn between(&self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "the range is empty");
        // Multiply and shift: the bias is below 2^-40 for the small ranges drawn here.
        let span = u128::from(high - low) + 1;
        low + ((u128::from(self.draw()) * span) >> 64) as u64
    }

    pub fn index(&self, count: usize) -> usize {
        if count == 1 { 0 } else { self.between(0, count as u64 - 1) as usize }
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_gives_its_published_numbers() {
        let chance = Chance(Cell::new(1_234_567));
        let drawn: Vec<_> = (0..3).map(|_| chance.draw()).collect();
        assert_eq!(
            drawn,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn a_range_reaches_both_its_ends_and_nothing_beyond() {
        let chance = Chance::new(1, 1);
        let drawn: std::collections::BTreeSet<_> = (0..200).map(|_| chance.between(3, 6)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [3, 4, 5, 6]);
        assert_eq!(chance.between(u64::MAX, u64::MAX), u64::MAX);
        chance.between(0, u64::MAX);
    }

    #[test]
    fn streams_of_one_seed_differ() {
        assert_ne!(Chance::new(1, 1).draw(), Chance::new(1, 2).draw());
        assert_ne!(Chance::new(1, 1).draw(), Chance::new(2, 1).draw());
    }
}

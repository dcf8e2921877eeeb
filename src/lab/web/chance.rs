//! Chance without state. Every attribute of the synthetic web is a hash of the seed and of what the
//! attribute belongs to, so ten million pages cost no memory and any page can be made alone.

/// Folds `value` into `state` (splitmix64's finaliser: full avalanche, a few cycles).
pub fn mix(state: u64, value: u64) -> u64 {
    let mut z = state.wrapping_add(value.wrapping_mul(0x9E37_79B9_7F4A_7C15)) ^ (state >> 32);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Turns a hash into a number in `0.0..1.0`.
pub fn unit(hash: u64) -> f64 {
    (hash >> 11) as f64 / (1u64 << 53) as f64
}

/// Returns true for `fraction` of all hashes.
pub fn chance(hash: u64, fraction: f64) -> bool {
    unit(hash) < fraction
}

/// Turns a hash into a draw from the standard normal distribution (Box and Muller).
pub fn normal(hash: u64) -> f64 {
    let radius = (-2.0 * (1.0 - unit(hash)).ln()).sqrt();
    radius * (std::f64::consts::TAU * unit(mix(hash, 1))).cos()
}

/// A sequence of hashes, for things that are drawn in order.
pub struct Dice(u64);

impl Dice {
    pub fn new(hash: u64) -> Dice {
        Dice(hash)
    }

    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0, 0)
    }

    /// Draws a number that is uniform in `0..bound`, without a division; zero for a bound of zero.
    pub fn below(&mut self, bound: u32) -> u32 {
        scale(self.roll(), bound)
    }
}

/// Scales the top half of a hash to a number in `0..bound`.
pub fn scale(hash: u64, bound: u32) -> u32 {
    (((hash >> 32) * u64::from(bound)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_the_moments_of_their_distribution() {
        let draws: Vec<f64> = (0..20_000).map(|i| normal(mix(7, i))).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!(mean.abs() < 0.03, "{mean}");
        assert!((variance - 1.0).abs() < 0.05, "{variance}");
        let hits = (0..20_000).filter(|&i| chance(mix(9, i), 0.25)).count();
        assert!((4_700..5_300).contains(&hits), "{hits}");
    }

    #[test]
    fn dice_stay_below_their_bound_and_reach_it() {
        let mut dice = Dice::new(3);
        let rolls: Vec<u32> = (0..1_000).map(|_| dice.below(6)).collect();
        assert!((0..6).all(|face| rolls.contains(&face)) && rolls.iter().all(|&r| r < 6));
        assert_eq!(dice.below(0), 0);
    }
}

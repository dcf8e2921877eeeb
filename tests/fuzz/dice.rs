//! A seeded random generator that gives the same numbers in every run.

/// The generator xorshift64*, which is small and good enough to mutate bytes.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        // The state must not be zero, or the generator would stay there. The seed is mixed, so that
        // seeds 1 and 2 differ from the first number on.
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x2545_F491_4F6C_DD1D | 1)
    }

    /// Makes dice that depend on `input` alone, so that a kept input can be replayed without its
    /// history.
    pub fn of(input: &[u8]) -> Dice {
        Dice::new(fnv(input))
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, end: usize) -> usize {
        assert!(end > 0, "nothing to choose from");
        (self.next() >> 11) as usize % end
    }

    /// Returns true once in `count` calls, on average.
    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// Returns a size that is mostly small and sometimes up to `max`. Such sizes find bugs.
    pub fn size(&mut self, max: usize) -> usize {
        let bits = self.below(usize::BITS as usize - max.leading_zeros() as usize + 1);
        self.below(1usize.checked_shl(bits as u32).unwrap_or(usize::MAX).min(max + 1).max(1))
    }

    /// Cuts `bytes` into pieces, none of them empty: a few large ones, single bytes, or mixed
    /// sizes.
    pub fn cut<'a>(&mut self, bytes: &'a [u8]) -> Vec<&'a [u8]> {
        let size_max = [1, 3, 16, 300, 5_000, bytes.len().max(1)][self.below(6)];
        let mut pieces = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at((1 + self.size(size_max - 1)).min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        pieces
    }
}

/// FNV-1a.
pub fn fnv(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, step)
}

#[test]
fn dice_repeat_themselves_and_pieces_make_the_whole() {
    let bytes: Vec<u8> = (0..10_000u32).map(|index| index as u8).collect();
    for seed in 0..50 {
        let (mut one, mut other) = (Dice::new(seed), Dice::new(seed));
        let pieces = one.cut(&bytes);
        assert_eq!(pieces, other.cut(&bytes));
        assert!(pieces.iter().all(|piece| !piece.is_empty()));
        assert_eq!(pieces.concat(), bytes);
        assert!((0..100).all(|_| one.size(7) <= 7));
    }
}

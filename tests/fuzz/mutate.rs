//! Makes new inputs from known ones: bit flips, insertions, deletions, splices, repetitions, and
//! words of the language under test.

use crate::dice::Dice;

/// The most mutations of one input.
const MUTATION_COUNT_MAX: usize = 8;
/// The most bytes that a repetition may add.
const REPEATED_BYTES_MAX: usize = 4_096;

pub struct Mutator<'a> {
    /// Words of the language under test.
    pub words: &'a [&'a [u8]],
    pub input_bytes_max: usize,
}

impl Mutator<'_> {
    /// Makes an input from `pool`: a mutated input of it, or a random sequence of words.
    pub fn input(&self, pool: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
        let mut input = if pool.is_empty() || dice.one_in(6) {
            self.soup(dice)
        } else {
            dice.pick(pool).clone()
        };
        for _ in 0..dice.below(MUTATION_COUNT_MAX) {
            self.mutate(&mut input, pool, dice);
        }
        input.truncate(self.input_bytes_max);
        input
    }

    fn soup(&self, dice: &mut Dice) -> Vec<u8> {
        let mut soup = Vec::new();
        for _ in 0..dice.below(40) {
            self.push_word(&mut soup, dice);
        }
        soup
    }

    fn push_word(&self, out: &mut Vec<u8>, dice: &mut Dice) {
        if self.words.is_empty() || dice.one_in(8) {
            out.push(byte(dice));
        } else {
            out.extend_from_slice(dice.pick::<&[u8]>(self.words));
        }
    }

    fn mutate(&self, input: &mut Vec<u8>, pool: &[Vec<u8>], dice: &mut Dice) {
        let at = dice.below(input.len() + 1);
        let len = dice.size(input.len() - at);
        match dice.below(9) {
            0 if at < input.len() => input[at] ^= 1 << dice.below(8),
            1 if at < input.len() => input[at] = byte(dice),
            2 => insert(input, at, &[byte(dice)]),
            3 => drop(input.drain(at..at + len)),
            4 => input.truncate(at),
            5 => {
                let mut word = Vec::new();
                self.push_word(&mut word, dice);
                insert(input, at, &word);
            }
            6 => {
                let mut word = Vec::new();
                self.push_word(&mut word, dice);
                let end = (at + word.len()).min(input.len());
                input.splice(at..end, word);
            }
            7 => {
                let piece = input[at..at + len].to_vec();
                let count = REPEATED_BYTES_MAX / piece.len().max(1);
                let repeated = piece.repeat(dice.size(count));
                insert(input, at, &repeated);
            }
            _ if !pool.is_empty() => {
                // The start of this input and the end of another.
                let other = dice.pick(pool);
                let from = dice.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            _ => {}
        }
        input.truncate(self.input_bytes_max);
    }
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    input.splice(at..at, bytes.iter().copied());
}

/// Returns any byte, but the ends of ranges more often than others.
fn byte(dice: &mut Dice) -> u8 {
    const EDGES: &[u8] = b"\0\x01\t\n\x0c\r\x1b !\"#$%&'()*+,-./09:;<=>?@AZ[\\]^_`az{|}~\x7f\x80\
                           \xbf\xc0\xc3\xe2\xef\xf0\xf4\xfe\xff";
    if dice.one_in(2) { *dice.pick(EDGES) } else { dice.next() as u8 }
}

#[test]
fn mutants_are_bounded_and_the_words_are_used() {
    let mutator = Mutator { words: &[b"needle"], input_bytes_max: 500 };
    let pool = [b"some seed".to_vec()];
    let mut dice = Dice::new(3);
    let inputs: Vec<_> = (0..2_000).map(|_| mutator.input(&pool, &mut dice)).collect();
    assert!(inputs.iter().all(|input| input.len() <= 500));
    let with = |word: &[u8]| {
        inputs.iter().filter(|input| memchr::memmem::find(input, word).is_some()).count()
    };
    assert!(with(b"needle") > 200 && with(b"some seed") > 200);
    let distinct: std::collections::BTreeSet<_> = inputs.iter().collect();
    assert!(distinct.len() > 1_000, "{} distinct", distinct.len());
}

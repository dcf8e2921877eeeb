//! Where words start and end in a text, window by window.
//!
//! A word is a run of ASCII letters, digits and bytes outside ASCII, with two amendments:
//! - Characters of U+0080 to U+00BF and U+2000 to U+2FFF (UTF-8 that starts with C2 or E2: no-break
//!   space, typographic quotes and dashes, arrows, symbols) separate words like a blank. The few
//!   letters among them, as in Glagolitic, are the price of looking at one byte only.
//! - Each character of U+3000 to U+9FFF (starts with E3 to E9: kana and ideographs) starts a word.
//!   Those scripts put no blanks between words, and a word of a whole paragraph would make one
//!   shingle of three paragraphs.
//!
//! Both hold for broken UTF-8 as well: only continuation bytes are taken to belong to a lead byte.

use crate::sys::block::{self, BLOCK_BYTES};

/// Where words lie in a window of 64 bytes that begins with a word or between words: bit `i` for
/// byte `i`.
pub(super) struct Words {
    pub starts: u64,
    /// The byte behind a word. Beyond the last: behind the window.
    pub ends: u64,
    /// Words that end, and so count.
    pub count: usize,
    /// To the next window: behind this one, or at the word that this one cuts.
    pub step: usize,
}

/// What the last window means for the next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Carry {
    separator: Separator,
    /// In a word that has filled a window: the rest of it does not count.
    is_skipping: bool,
    /// One of the two above means something.
    is_live: bool,
}

/// Bit 0 of masks that were shifted out of the window before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Separator {
    /// A separator's lead byte was last.
    lead: u64,
    /// It was one of three bytes.
    long_lead: u64,
    /// Its second byte was.
    second: u64,
}

/// The words of a window, and whether all its bytes are ASCII. No list of them is made: one of all
/// places in a kilobyte took as long as all the hashing.
#[inline(always)]
pub(super) fn find(window: &[u8; BLOCK_BYTES], carry: &mut Carry) -> (Words, bool) {
    let (word, has_others) = block::words(window);
    if has_others || carry.is_live {
        return (find_others(window, word, carry), !has_others);
    }
    let after = word << 1;
    let (starts, ends) = (word & !after, after & !word);
    (Words::of(word, starts, ends, carry), true)
}

/// [`find`] where some bytes are outside ASCII, or a word or a separator of a window before goes
/// on.
#[inline(never)]
fn find_others(window: &[u8; BLOCK_BYTES], mut word: u64, carry: &mut Carry) -> Words {
    let (separator, ideograph) = classify_others(window, &mut carry.separator);
    word &= !separator;
    if carry.is_skipping {
        let rest = (!word | ideograph).trailing_zeros();
        carry.is_skipping = rest as usize == BLOCK_BYTES;
        word &= !u64::MAX.unbounded_shr(BLOCK_BYTES as u32 - rest);
    }
    let after = word << 1;
    let (starts, ends) = (word & (!after | ideograph), after & (!word | ideograph));
    let words = Words::of(word, starts, ends, carry);
    if words.step < BLOCK_BYTES {
        // A word begins there, so no separator goes on.
        carry.separator = Separator::default();
    }
    carry.is_live = carry.is_skipping || carry.separator != Separator::default();
    words
}

impl Words {
    #[inline(always)]
    fn of(word: u64, starts: u64, ends: u64, carry: &mut Carry) -> Words {
        let step = step(word, starts);
        if step == 0 {
            return Words::fill(carry);
        }
        Words { starts, ends, count: ends.count_ones() as usize, step }
    }

    /// A word that fills the window counts as if it ended there.
    #[cold]
    fn fill(carry: &mut Carry) -> Words {
        (carry.is_skipping, carry.is_live) = (true, true);
        Words { starts: 1, ends: 0, count: 1, step: BLOCK_BYTES }
    }
}

/// Without a branch: whether a window cuts a word cannot be predicted.
#[inline(always)]
fn step(word: u64, starts: u64) -> usize {
    let is_cut = word >> (BLOCK_BYTES - 1);
    // Of the word that is cut, or none.
    let rest = (starts | 1).leading_zeros() as usize + 1;
    BLOCK_BYTES - (rest & (is_cut as usize).wrapping_neg())
}

/// The masks of bytes that separate although they are outside ASCII, and of those that start a
/// word of their own.
fn classify_others(bytes: &[u8; BLOCK_BYTES], carry: &mut Separator) -> (u64, u64) {
    let short_lead = block::in_range(bytes, 0xc2, 0xc2);
    let long_lead = block::in_range(bytes, 0xe2, 0xe2);
    let trail = block::in_range(bytes, 0x80, 0xbf);
    let ideograph = block::in_range(bytes, 0xe3, 0xe9);
    let lead = short_lead | long_lead;
    let first = (lead << 1 | carry.lead) & trail;
    let second_of_long = (long_lead << 1 | carry.long_lead) & trail;
    let third = (second_of_long << 1 | carry.second) & trail;
    *carry =
        Separator { lead: lead >> 63, long_lead: long_lead >> 63, second: second_of_long >> 63 };
    (lead | first | third, ideograph)
}

//! Finds where words start and end in a text, window by window.
//!
//! A word is a run of ASCII letters, digits and bytes outside ASCII, with two exceptions:
//! - Characters of U+0080 to U+00BF and U+2000 to U+2FFF (UTF-8 that starts with C2 or E2: no-break
//!   space, typographic quotes and dashes, arrows, symbols) separate words like a blank. The few
//!   letters among them, such as Glagolitic, are lost: that is the price of looking at one byte
//!   only.
//! - Each character of U+3000 to U+9FFF (starts with E3 to E9: kana and ideographs) starts a word.
//!   Those scripts put no blanks between words; without this rule a paragraph would be one word,
//!   and a shingle would span three paragraphs.
//!
//! Both rules hold for broken UTF-8 too: only continuation bytes are taken to belong to a lead
//! byte.

use crate::sys::block::{self, BLOCK_BYTES};

/// Where words lie in a window of 64 bytes, which begins with a word or between words. Bit `i`
/// stands for byte `i`.
pub(super) struct Words {
    pub starts: u64,
    /// The bytes right behind a word. If no bit is left, the word ends with the window.
    pub ends: u64,
    /// The number of words that end in the window; only these are counted.
    pub count: usize,
    /// The distance to the next window, which begins behind this one, or at the word that is cut
    /// here.
    pub step: usize,
}

/// What the previous window means for the next one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Carry {
    separator: Separator,
    /// We are in a word that has filled a window; the rest of it does not count.
    is_skipping: bool,
    /// One of the two fields above is set.
    is_live: bool,
}

/// The state of a separator, as bit 0 of masks that were shifted out of the previous window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Separator {
    /// The last byte was a separator's lead byte.
    lead: u64,
    /// That lead byte was of a separator of three bytes.
    long_lead: u64,
    /// The last byte was the second of such a separator.
    second: u64,
}

/// Returns the words of a window, and whether all its bytes are ASCII. No list of words is made: a
/// list of all places in a kilobyte took as long as all the hashing.
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

/// Does what [`find`] does, if some bytes are outside ASCII, or if a word or a separator of an
/// earlier window goes on.
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
        // A word begins at the next window, so no separator goes on.
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

    /// Ends a word that fills the window, as if the word ended there.
    #[cold]
    fn fill(carry: &mut Carry) -> Words {
        (carry.is_skipping, carry.is_live) = (true, true);
        Words { starts: 1, ends: 0, count: 1, step: BLOCK_BYTES }
    }
}

/// Returns the distance to the next window. It has no branch, because it cannot be predicted
/// whether the window cuts a word.
#[inline(always)]
fn step(word: u64, starts: u64) -> usize {
    let is_cut = word >> (BLOCK_BYTES - 1);
    // The length of the word that is cut, if there is one.
    let rest = (starts | 1).leading_zeros() as usize + 1;
    BLOCK_BYTES - (rest & (is_cut as usize).wrapping_neg())
}

/// Returns the mask of bytes outside ASCII that separate words, and the mask of those that start a
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

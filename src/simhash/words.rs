//! Where words start and end in a buffer of text.
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

/// Text read at a time: the text, its word positions and its hashes stay in the first-level cache.
pub(super) const BUFFER_BYTES: usize = 1_024;
/// Loads of a word's hash reach this far over the end of the text.
pub(super) const LOAD_BYTES: usize = 16;
const _: () = assert!(BUFFER_BYTES.is_multiple_of(64));

/// Start and end of each word of one buffer, in turn.
pub(super) struct Edges {
    positions: [u16; 2 * BUFFER_BYTES + 64],
    count: usize,
}

/// What the last byte of a buffer means for the first of the next: bit 0 of masks that were
/// shifted out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Carry {
    /// A separator's lead byte was last.
    lead: u64,
    /// It was one of three bytes.
    long_lead: u64,
    /// Its second byte was.
    second: u64,
}

impl Edges {
    pub(super) fn new() -> Edges {
        Edges { positions: [0; 2 * BUFFER_BYTES + 64], count: 0 }
    }

    /// Start and end of each word that ends in the buffer.
    pub(super) fn words(&self) -> &[[u16; 2]] {
        self.positions[..self.count].as_chunks().0
    }

    /// Where a word starts that reaches the end of the buffer and may go on in the next.
    pub(super) fn unfinished(&self) -> Option<usize> {
        self.positions[..self.count].as_chunks::<2>().1.first().map(|start| usize::from(*start))
    }

    /// Appends `base` plus the index of each set bit. Eight are written whether there are so many
    /// or not: a loop that ended at the right one would end where the processor cannot foresee.
    #[inline(always)]
    fn push(&mut self, base: u16, mut edges: u64) {
        let end = self.count + edges.count_ones() as usize;
        while self.count < end {
            let Some(slots) = self.positions[self.count..].first_chunk_mut::<8>() else { break };
            for slot in slots {
                *slot = base + edges.trailing_zeros() as u16;
                edges &= edges.wrapping_sub(1);
            }
            self.count += 8;
        }
        self.count = end;
    }

    /// As [`Edges::push`], where one word's end may be the next one's start.
    fn push_with_shared(&mut self, base: u16, starts: u64, ends: u64) {
        let mut edges = starts | ends;
        while edges != 0 {
            let index = edges.trailing_zeros();
            edges &= edges - 1;
            self.positions[self.count] = base + index as u16;
            self.count += 1;
            if (starts & ends) >> index & 1 == 1 {
                self.positions[self.count] = base + index as u16;
                self.count += 1;
            }
        }
    }
}

/// Folds `buffer[..text_len]` to ASCII lower case and finds its words. `text_len` is a multiple of
/// 64.
pub(super) fn find(
    buffer: &mut [u8; BUFFER_BYTES + LOAD_BYTES],
    text_len: usize,
    carry: &mut Carry,
    edges: &mut Edges,
) {
    edges.count = 0;
    let mut after_word = 0;
    let (blocks, _) = buffer[..text_len].as_chunks_mut::<64>();
    for (index, block) in blocks.iter_mut().enumerate() {
        let base = (index * 64) as u16;
        let (mut word, has_high) = fold_and_classify(block);
        let mut ideograph = 0;
        if has_high {
            let separator;
            (separator, ideograph) = classify_high(block, carry);
            word &= !separator;
        } else {
            *carry = Carry::default();
        }
        let after = word << 1 | after_word;
        if ideograph == 0 {
            edges.push(base, word ^ after);
        } else {
            let starts = word & (!after | ideograph);
            edges.push_with_shared(base, starts, after & (!word | ideograph));
        }
        after_word = word >> 63;
    }
}

/// The mask of word bytes by the plain rule, and whether any byte is outside ASCII. Written so that
/// the compiler turns the loop over bytes into vector code.
#[inline(always)]
fn fold_and_classify(block: &mut [u8; 64]) -> (u64, bool) {
    let mut classes = [0u8; 64];
    let mut all = 0;
    for (byte, class) in block.iter_mut().zip(&mut classes) {
        all |= *byte;
        let is_upper = byte.wrapping_sub(b'A') < 26;
        *byte |= u8::from(is_upper) << 5;
        let is_letter = byte.wrapping_sub(b'a') < 26;
        let is_digit = byte.wrapping_sub(b'0') < 10;
        *class = u8::from(is_letter | is_digit | (*byte >= 0x80));
    }
    (pack(&classes), all >= 0x80)
}

/// The masks of bytes that separate although they are outside ASCII, and of those that start a
/// word of their own.
fn classify_high(block: &[u8; 64], carry: &mut Carry) -> (u64, u64) {
    let mask = |is_in: fn(u8) -> bool| pack(&block.map(|byte| u8::from(is_in(byte))));
    let short_lead = mask(|byte| byte == 0xc2);
    let long_lead = mask(|byte| byte == 0xe2);
    let trail = mask(|byte| byte.wrapping_sub(0x80) < 0x40);
    let ideograph = mask(|byte| byte.wrapping_sub(0xe3) < 7);
    let lead = short_lead | long_lead;
    let first = (lead << 1 | carry.lead) & trail;
    let second_of_long = (long_lead << 1 | carry.long_lead) & trail;
    let third = (second_of_long << 1 | carry.second) & trail;
    *carry = Carry { lead: lead >> 63, long_lead: long_lead >> 63, second: second_of_long >> 63 };
    (lead | first | third, ideograph)
}

/// Sixty-four zeros and ones as bits.
#[inline(always)]
fn pack(classes: &[u8; 64]) -> u64 {
    let mut mask = 0;
    for (index, group) in classes.as_chunks::<8>().0.iter().enumerate() {
        // The product brings byte i's bit to place 56 + i, and nothing else there.
        let bits = u64::from_le_bytes(*group).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        mask |= bits << (8 * index);
    }
    mask
}

use super::*;
use proptest::prelude::*;

/// The definition, byte by byte: the oracle of the fast code.
fn naive(text: &[u8]) -> Option<u64> {
    let mut words = Vec::<Vec<u8>>::new();
    let mut is_open = false;
    let mut separator_trail = 0;
    for &byte in text {
        let is_trail = (0x80..0xc0).contains(&byte);
        let is_separator_trail = is_trail && separator_trail > 0;
        separator_trail = match byte {
            0xc2 => 1,
            0xe2 => 2,
            _ if is_separator_trail => separator_trail - 1,
            _ => 0,
        };
        let is_word = byte.is_ascii_alphanumeric()
            || (byte >= 0x80 && byte != 0xc2 && byte != 0xe2 && !is_separator_trail);
        if is_word && (!is_open || (0xe3..=0xe9).contains(&byte)) {
            words.push(Vec::new());
        }
        is_open = is_word;
        if let Some(word) = words.last_mut()
            && is_word
            && word.len() < SIMHASH_WORD_BYTES_MAX
        {
            word.push(byte.to_ascii_lowercase());
        }
    }
    let hashes: Vec<u64> = words.iter().map(|word| naive_word_hash(word)).collect();
    let mut votes = [0i32; 64];
    for shingle in hashes.windows(3) {
        let hash = shingle_hash(shingle[0], shingle[1], shingle[2]);
        for (bit, vote) in votes.iter_mut().enumerate() {
            *vote += if hash >> bit & 1 == 1 { 1 } else { -1 };
        }
    }
    let simhash = (0..64).fold(0, |hash, bit| hash | u64::from(votes[bit] > 0) << bit);
    (words.len() >= SIMHASH_WORD_COUNT_MIN).then_some(simhash)
}

fn naive_word_hash(word: &[u8]) -> u64 {
    let mut numbers = word
        .chunks(8)
        .map(|chunk| chunk.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte)));
    let mut next = || numbers.next();
    let mut hash = mix(next().unwrap_or(0) ^ KEYS[0], next().unwrap_or(0) ^ KEYS[1]);
    while let Some(number) = next() {
        hash = mix(hash ^ KEYS[2], number ^ KEYS[3]);
    }
    hash
}

fn simhash(text: impl AsRef<[u8]>) -> Option<u64> {
    let mut hasher = SimHasher::new();
    hasher.push_text(text);
    hasher.finish()
}

fn article(seed: u64, word_count: usize) -> String {
    let mut state = seed | 1;
    let mut text = String::new();
    for _ in 0..word_count {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!("w{} ", (state >> 33) % 5_000));
    }
    text
}

#[test]
fn few_words_have_no_fingerprint() {
    assert_eq!(simhash(""), None);
    assert_eq!(simhash(article(1, SIMHASH_WORD_COUNT_MIN - 1)), None);
    assert!(simhash(article(1, SIMHASH_WORD_COUNT_MIN)).is_some());
}

#[test]
fn case_punctuation_and_white_space_do_not_matter() {
    let text = article(2, 50);
    let loud = text.to_uppercase().replace(' ', ",\u{a0}\u{2014}\n");
    assert_eq!(simhash(&loud), simhash(&text));
    assert_ne!(simhash(text.replace("w1", "v1")), simhash(&text));
}

#[test]
fn ideographs_are_words_of_their_own() {
    // Twenty characters are twenty words, although there is no blank between them.
    let text = "\u{87f2}\u{7db2}\u{91d1}\u{7403}\u{85dd}".repeat(4);
    assert!(simhash(&text).is_some());
    let blanks: String = text.chars().flat_map(|ideograph| [ideograph, ' ']).collect();
    assert_eq!(simhash(&blanks), simhash(&text));
}

#[test]
fn a_small_edit_moves_few_bits_and_another_text_moves_many() {
    let text = article(3, 1_000);
    let edited = text.replacen("w4", "changed", 2);
    assert_ne!(edited, text);
    let of = |text: &str| simhash(text).unwrap();
    assert!(distance(of(&text), of(&edited)) <= 6, "{}", distance(of(&text), of(&edited)));
    assert!(distance(of(&text), of(&article(4, 1_000))) >= 16);
}

#[test]
fn a_hasher_is_as_new_after_finish_and_after_reset() {
    let text = article(5, 300);
    let mut hasher = SimHasher::new();
    hasher.push_text(&text);
    let first = hasher.finish();
    hasher.push_text("left over \u{2014} words and half a wo");
    hasher.reset();
    hasher.push_text(&text);
    assert_eq!(hasher.finish(), first);
    assert_eq!(hasher.finish(), None);
}

#[test]
fn of_endless_words_the_beginning_counts() {
    let mut text = article(6, 20);
    let plain = simhash(format!("{text}{}", "x".repeat(SIMHASH_WORD_BYTES_MAX)));
    text.push_str(&"x".repeat(10_000));
    assert_eq!(simhash(&text), plain);
    assert_eq!(simhash(&text), naive(text.as_bytes()));
    let mut hasher = SimHasher::new();
    text.as_bytes().chunks(7).for_each(|piece| hasher.push_text(piece));
    assert_eq!(hasher.finish(), plain);
}

#[test]
fn blocks_are_the_four_quarters() {
    assert_eq!(blocks(0x1111_2222_3333_4444), [0x4444, 0x3333, 0x2222, 0x1111]);
    assert_eq!(distance(0b1011, 0b0110), 3);
}

/// Makes texts that reach the buffer's edges: words of all lengths, punctuation, ideographs, broken
/// UTF-8.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(vec![
        "a",
        "Word",
        "words0",
        "eighteen-letters",
        "internationalisation",
        " ",
        "  ",
        ". ",
        "\n",
        "\u{a0}",
        "\u{2014}",
        "\u{201c}",
        "caf\u{e9}",
        "\u{87f2}\u{7db2}",
        "\u{3002}",
        "\u{1f577}",
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    ]);
    let words = prop::collection::vec((word, prop::option::weighted(0.1, any::<u8>())), 0..500);
    words.prop_map(|words| {
        words.into_iter().flat_map(|(word, odd)| word.bytes().chain(odd).chain([b' '])).collect()
    })
}

proptest! {
    #[test]
    fn fast_equals_naive_however_the_text_is_cut(
        text in text(),
        lengths in prop::collection::vec(1usize..90, 1..6),
        drop_blanks in any::<bool>(),
    ) {
        let mut text = text;
        text.retain(|byte| !(drop_blanks && *byte == b' '));
        let wanted = naive(&text);
        prop_assert_eq!(simhash(&text), wanted);
        let mut hasher = SimHasher::new();
        text.chunks(1).for_each(|piece| hasher.push_text(piece));
        prop_assert_eq!(hasher.finish(), wanted);
        let mut rest = text.as_slice();
        for length in lengths.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at((*length).min(rest.len()));
            hasher.push_text(piece);
            rest = after;
        }
        prop_assert_eq!(hasher.finish(), wanted);
        let (mut at, mut broken) = (0, Vec::new());
        let mut parting = SimHasher::new();
        for (index, length) in lengths.iter().cycle().enumerate() {
            let end = (at + *length).min(text.len());
            hasher.push_short(false, &text, at, end);
            hasher.push_break(false);
            parting.push_short(index % 3 == 0, &text, at, end);
            parting.push_break(index % 5 == 0);
            broken.extend((index % 3 == 0).then_some(b' '));
            broken.extend_from_slice(&text[at..end]);
            broken.extend((index % 5 == 0).then_some(b' '));
            at = end;
            if at == text.len() {
                break;
            }
        }
        prop_assert_eq!(hasher.finish(), wanted);
        prop_assert_eq!(parting.finish(), naive(&broken));
    }

    #[test]
    fn fast_equals_naive_on_any_bytes(text in prop::collection::vec(any::<u8>(), 0..3_000)) {
        prop_assert_eq!(simhash(&text), naive(&text));
    }
}

//! A URL's shape: what is left of its path and query when everything that a machine counts up is
//! taken out. The endless URLs of a calendar, or of a session id in links, share one shape.
//!
//! These are replaced by one mark each: runs of digits; tokens (8 or more hex digits, or 16 or more
//! letters and digits, with a digit among them); UUIDs. These are dropped: the values of
//! parameters, in the query and behind `;` in the path; a parameter's name if it repeats the name
//! just before it; a segment of the path that is all text and stood there before, so `/a/b/a/b` is
//! `/a/b`. Percent-escapes are letters of some script and stay unchanged.
//!
//! What is left is a text, which is hashed with the crawl's key. Someone who can choose words can
//! choose as many shapes as they like, and is stopped by the host's budget; but they cannot choose
//! a shape that is taken for another.

use super::{Text, Url};
use crate::base::HashKey;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Skeleton(pub u64);

/// Stands for what was taken out; it never occurs in a serialised URL.
const MARK: u8 = 0;
const HEX_TOKEN_BYTES_MIN: usize = 8;
const TOKEN_BYTES_MIN: usize = 16;
const UUID_GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

impl Skeleton {
    /// Returns the shape of a URL. It is meaningful for normalised URLs, and among URLs of one
    /// host. It is taken of the compared form, so a trap that shuffles its parameters has one
    /// shape.
    pub fn of<T: Text>(key: &HashKey, url: &Url<T>) -> Skeleton {
        Skeleton::of_target(key, &url.compared().as_bytes()[url.parts.path_start as usize..])
    }

    /// Returns the shape of `/path?query`, whose parameters are in order.
    fn of_target(key: &HashKey, target: &[u8]) -> Skeleton {
        let question = target.iter().position(|byte| *byte == b'?');
        let path = &target[..question.unwrap_or(target.len())];
        let mut shape = Shape(Vec::with_capacity(target.len()));
        let segments = || path[1..].split(|byte| *byte == b'/');
        // A bit for each segment so far, by length and first letter: it tells most segments apart.
        let mut seen_bits = 0u64;
        for (index, segment) in segments().enumerate() {
            let first = segment.first().copied().unwrap_or_default();
            let bit = 1 << ((usize::from(first) + 7 * segment.len()) % 64);
            if seen_bits & bit != 0
                && !segment.iter().any(u8::is_ascii_digit)
                && segments().take(index).any(|before| before == segment)
            {
                continue;
            }
            seen_bits |= bit;
            shape.feed(b'/');
            shape.segment(segment);
        }
        if let Some(question) = question {
            shape.feed(b'?');
            shape.parameters(&target[question + 1..], b'&');
        }
        Skeleton(key.hash(&shape.0) as u64)
    }
}

/// The bytes that stay.
struct Shape(Vec<u8>);

impl Shape {
    fn feed(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn feed_word(&mut self, word: &[u8]) {
        self.0.extend_from_slice(word);
    }

    /// Adds a segment of the path: `name;parameter=value`.
    fn segment(&mut self, segment: &[u8]) {
        let name_end = segment.iter().position(|byte| *byte == b';').unwrap_or(segment.len());
        self.words(&segment[..name_end]);
        if let Some(parameters) = segment.get(name_end + 1..) {
            self.feed(b';');
            self.parameters(parameters, b';');
        }
    }

    fn parameters(&mut self, parameters: &[u8], separator: u8) {
        let mut last: Option<&[u8]> = None;
        for parameter in parameters.split(|byte| *byte == separator) {
            let name = parameter.split(|byte| *byte == b'=').next().unwrap_or_default();
            if last == Some(name) {
                continue;
            }
            last = Some(name);
            self.words(name);
            self.feed(separator);
        }
    }

    fn words(&mut self, mut text: &[u8]) {
        while let [first, rest @ ..] = text {
            let run = Run::at(text);
            text = if *first == b'%' {
                let (escape, behind) = text.split_at(text.len().min(3));
                self.feed_word(escape);
                behind
            } else if run.bytes == 0 {
                self.feed(*first);
                rest
            } else if let Some(uuid_bytes) = uuid(text, run.bytes) {
                self.feed(MARK);
                &text[uuid_bytes..]
            } else {
                let (word, behind) = text.split_at(run.bytes);
                match run.has_digit() {
                    false => self.feed_word(word),
                    true if run.is_token() => self.feed(MARK),
                    true => self.mixed(word),
                }
                behind
            };
        }
    }

    /// Adds a word with numbers in it.
    fn mixed(&mut self, word: &[u8]) {
        for part in word.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()) {
            if part[0].is_ascii_digit() {
                self.feed(MARK);
            } else {
                self.feed_word(part);
            }
        }
    }
}

/// The kind of each byte for a [`Run`]: one of the bits below, or none for a byte that ends it.
static KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        kinds[byte] = match byte as u8 {
            b'0'..=b'9' => DIGIT,
            b'a'..=b'f' | b'A'..=b'F' => HEX_LETTER,
            b'g'..=b'z' | b'G'..=b'Z' => LETTER,
            _ => 0,
        };
        byte += 1;
    }
    kinds
};
const DIGIT: u8 = 1;
const HEX_LETTER: u8 = 2;
const LETTER: u8 = 4;

/// Letters and digits up to another byte.
struct Run {
    bytes: usize,
    /// The kinds of all its bytes.
    kinds: u8,
}

impl Run {
    fn at(text: &[u8]) -> Run {
        let mut run = Run { bytes: 0, kinds: 0 };
        for byte in text {
            let kind = KINDS[usize::from(*byte)];
            if kind == 0 {
                break;
            }
            run.bytes += 1;
            run.kinds |= kind;
        }
        run
    }

    fn has_digit(&self) -> bool {
        self.kinds & DIGIT != 0
    }

    /// Reports whether the run is a number, an id or a session. It must have a digit.
    fn is_token(&self) -> bool {
        self.kinds == DIGIT
            || self.bytes >= TOKEN_BYTES_MIN
            || (self.bytes >= HEX_TOKEN_BYTES_MIN && self.kinds & LETTER == 0)
    }
}

/// Returns the length of the UUID that `text` begins with; `run_bytes` is the length of its first
/// run of letters and digits.
fn uuid(text: &[u8], run_bytes: usize) -> Option<usize> {
    if run_bytes != UUID_GROUPS[0] {
        return None;
    }
    let mut at = 0;
    for (index, group_bytes) in UUID_GROUPS.into_iter().enumerate() {
        if index > 0 {
            (text.get(at) == Some(&b'-')).then_some(())?;
            at += 1;
        }
        text.get(at..at + group_bytes)?.iter().all(u8::is_ascii_hexdigit).then_some(())?;
        at += group_bytes;
    }
    let is_over = text.get(at).is_none_or(|byte| !byte.is_ascii_alphanumeric());
    is_over.then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::hash_key::test_key;
    use proptest::prelude::*;

    fn skeleton(target: &str) -> Skeleton {
        let url = Url::parse(&format!("http://h.test{target}")).expect("a test's URL");
        Skeleton::of(&test_key(), &url)
    }

    #[test]
    fn what_is_counted_up_is_no_part_of_the_shape() {
        for (one, other) in [
            ("/article/1", "/article/987654321"),
            ("/calendar/2026/01/31", "/calendar/1999/12/1"),
            ("/c?day=1&month=2", "/c?day=monday&month=march"),
            ("/s/8f14e45fceea167a5a36dedd4bea2543/x", "/s/1f0e3dad99908345f7439f8ffabdffc4/x"),
            ("/s/deadbee1", "/s/12345678"),
            ("/u/550e8400-e29b-41d4-a716-446655440000", "/u/dededede-dede-dede-dede-000000000000"),
            ("/x;jsessionid=AB12/y", "/x;jsessionid=CDEFGH/y"),
            ("/a/b/a/b/a/b", "/a/b"),
            ("/calendar/2001/01/01", "/calendar/2001/01/02"),
            ("/t/aB3dE6gH9jK2mN5pQ8", "/t/1"),
            ("/p?f=1&f=2&f=3", "/p?f=4"),
            ("/p?f=1&g=2&f=3", "/p?g=4&f=5"),
            ("/page12b", "/page3b"),
        ] {
            assert_eq!(skeleton(one), skeleton(other), "{one} {other}");
        }
    }

    #[test]
    fn what_people_name_is_the_shape() {
        let targets = [
            "/",
            "/article",
            "/article/",
            "/article/1",
            "/article/1/",
            "/news/1",
            "/article/1/2",
            "/article/1-2",
            "/c?day=1",
            "/c?month=1",
            "/c?day=1&month=2",
            "/article/how-to-crawl",
            "/article/how-to-crawl-politely",
            "/%D0%B0",
            "/%D0%B1",
            "/x;jsessionid=1",
            "/x;v=1",
            "/decade",
            "/facade",
            "/b/a",
            "/a/b",
            "/cafe-babe",
            "/page12b",
            "/page12c",
        ];
        for (index, one) in targets.iter().enumerate() {
            for other in &targets[..index] {
                assert_ne!(skeleton(one), skeleton(other), "{one} {other}");
            }
        }
    }

    proptest! {
        /// Digits of escapes are letters; parameter values leave nothing behind anyway.
        #[test]
        fn other_digits_have_the_same_shape(
            target in "/[a-f0-9g-j/;=&?._-]{0,60}",
            shift in 1..10u8,
        ) {
            let shifted: String = target
                .chars()
                .map(|c| match c {
                    '0'..='9' => char::from(b'0' + (c as u8 - b'0' + shift) % 10),
                    other => other,
                })
                .collect();
            // In a name a digit may change the order in which parameters are compared.
            let shape = |target: &str| Url::parse(&format!("http://h.test{target}")).map(|url| {
                Skeleton::of_target(&test_key(), url.path_and_query().as_bytes())
            });
            prop_assert_eq!(shape(&target), shape(&shifted), "{} {}", target, shifted);
        }

        #[test]
        fn longer_numbers_have_the_same_shape(
            before in "/[a-z/-]{0,20}[/-]", one in 0..u64::MAX, other in 0..u64::MAX,
        ) {
            prop_assert_eq!(
                skeleton(&format!("{before}{one}")),
                skeleton(&format!("{before}{other}"))
            );
        }

        #[test]
        fn nothing_panics(target in "/\\PC{0,80}") {
            if let Ok(url) = Url::parse(&format!("http://h.test{target}")) {
                Skeleton::of(&test_key(), &url);
            }
        }
    }
}

//! The fast path through tags that lie in one chunk: it keeps no state and copies no byte.
//!
//! It does exactly what the states of `tag` do. They are its twin, and take over where the chunk
//! ends: at the tag if its name may be cut, at an attribute if that is cut. The chunking tests
//! compare the two. What the fast path has passed is never passed again: otherwise a tag with many
//! attributes that does not end in its chunk would cost the square of the chunk's length.

use super::tag::{ends_tag_name, find_name_end, find_unquoted_end, is_space, skip_space};
use super::{State, Tag, TokenSink, Tokenizer, Value};
use crate::base::limits::{ATTRIBUTE_BYTES_MAX, NAME_BYTES_MAX};
use crate::proto::html::name::TagName;
use crate::proto::html::plain::Plain;
use crate::proto::html::tree::Tree;
use crate::sys::block::{self, SHORT_BYTES, ValueMarks};
use crate::sys::scan;

/// How far the fast path through attributes got.
pub(super) enum Passed {
    /// To the tag's `>`.
    TagEnd { at: usize, self_closing: bool },
    /// To the attribute that is cut at the end of this chunk, or to the chunk's end: the states go
    /// on from there.
    ChunkEnd { at: usize },
}

impl Tokenizer {
    /// Reports whether a plain tag changes nothing here, because there is a tree with nothing
    /// foreign in it.
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        self.tree.as_ref().is_some_and(Tree::is_plain)
    }

    /// Does what [`Tokenizer::quick_tag`] does, for most tags of a page, in a third of the
    /// instructions. It is called behind a `<`, where [`is_plain`](Tokenizer::is_plain) holds;
    /// `window` begins at `at`. `None` if it is another tag.
    #[inline(always)]
    pub(super) fn plain_tag<S: TokenSink>(
        &mut self,
        chunk: &[u8],
        at: usize,
        window: &[u8; scan::WINDOW_BYTES],
        sink: &mut S,
    ) -> Option<usize> {
        let plain = Plain::read(window)?;
        let is_end_tag = plain.is_end_tag();
        let raw = window.get(plain.start()..plain.end).unwrap_or_default();
        let tag = Tag { name: plain.name(), raw, traits: plain.traits(), foreign: false };
        let end = at + plain.end;
        let (at, self_closing) = match window[plain.end % scan::WINDOW_BYTES] {
            b'>' => (end, false),
            byte if !is_end_tag && ends_tag_name(byte) => match skip_one(chunk, end) {
                Some(at) => (at, false),
                None => match skip(chunk, end) {
                    Passed::TagEnd { at, self_closing } => (at, self_closing),
                    Passed::ChunkEnd { .. } => return None,
                },
            },
            _ => return None,
        };
        sink.plain_tag(tag, is_end_tag, self_closing);
        Some(at + 1)
    }

    /// Reads a tag behind a `<` in markup. Returns where to go on, or `None` if nothing was done,
    /// because this is no tag or one that the states must read.
    #[inline(always)]
    pub(super) fn quick_tag<S: TokenSink>(
        &mut self,
        chunk: &[u8],
        at: usize,
        sink: &mut S,
    ) -> Option<usize> {
        let is_end_tag = *chunk.get(at)? == b'/';
        let start = at + usize::from(is_end_tag);
        let (name, end) = TagName::read(chunk, start)?;
        let raw = &chunk[start..end];
        let is_over = chunk[end] == b'>';
        let traits = name.traits();
        if traits.is_plain() && self.is_plain() {
            let tag = Tag { name, raw, traits, foreign: false };
            if is_over {
                sink.plain_tag(tag, is_end_tag, false);
                return Some(end + 1);
            }
            if !is_end_tag
                && ends_tag_name(chunk[end])
                && let Passed::TagEnd { at, self_closing } = skip(chunk, end)
            {
                sink.plain_tag(tag, is_end_tag, self_closing);
                return Some(at + 1);
            }
        }
        if is_end_tag {
            return is_over.then(|| {
                self.quick_end_tag(name, raw, sink);
                end + 1
            });
        }
        if !ends_tag_name(chunk[end]) {
            return None;
        }
        self.is_end_tag = false;
        self.begin_start_tag(name, raw, sink);
        if is_over {
            self.start_tag_over(false, sink);
            return Some(end + 1);
        }
        match self.pass_attributes(chunk, end, sink) {
            Passed::TagEnd { at, self_closing } => {
                self.start_tag_over(self_closing, sink);
                Some(at + 1)
            }
            Passed::ChunkEnd { at } => {
                self.tag_piece.begin(start, NAME_BYTES_MAX);
                self.tag_piece.end(end);
                self.state = State::BeforeAttribute;
                Some(at)
            }
        }
    }

    #[inline(always)]
    fn quick_end_tag<S: TokenSink>(&mut self, name: TagName, raw: &[u8], sink: &mut S) {
        let traits = name.traits();
        let foreign = self.tree.as_ref().is_some_and(|tree| tree.is_foreign(name, traits));
        sink.end_tag(Tag { name, raw, traits, foreign });
        if let Some(tree) = &mut self.tree {
            tree.end_tag(name);
        }
    }

    /// Passes the attributes of a tag; `at` is between attributes.
    #[inline(always)]
    pub(super) fn pass_attributes<S: TokenSink>(
        &mut self,
        chunk: &[u8],
        at: usize,
        sink: &mut S,
    ) -> Passed {
        if !self.wants_attributes() {
            return skip(chunk, at);
        }
        walk(chunk, at, |name, value| {
            if name.len() > NAME_BYTES_MAX {
                return;
            }
            let raw = &value[..value.len().min(ATTRIBUTE_BYTES_MAX)];
            if let Some(tree) = &mut self.tree
                && self.tree_wants_attributes
            {
                tree.attribute(self.tag, name, raw);
            }
            if self.sink_wants_attributes {
                let cut = raw.len() < value.len();
                sink.attribute(name, Value { raw, cut });
            }
        })
    }
}

/// Does what [`skip`] does, for a tag with one short attribute in double quotes, which is what most
/// tags with attributes have. Returns where the tag's `>` is. Takes a third of the instructions.
#[inline(always)]
fn skip_one(chunk: &[u8], at: usize) -> Option<usize> {
    let bytes: &[u8; SHORT_BYTES] = chunk.get(at..)?.first_chunk()?;
    let ValueMarks { quotes, others } = block::value_marks(bytes);
    let open = quotes.trailing_zeros() as usize;
    let close = (quotes & quotes.wrapping_sub(1)).trailing_zeros() as usize;
    // There must be a name, an equals sign and a quote in a row, and no other sign before them.
    let equals = 1u32.checked_shl((open as u32).wrapping_sub(1))?;
    let is_value = others & (equals | (equals - 1)) == equals && bytes[open - 1] == b'=';
    let before = *bytes.get(open.wrapping_sub(2))?;
    let is_name = !is_space(before) && before != b'/';
    (is_value && is_name && *bytes.get(close + 1)? == b'>').then_some(at + close + 1)
}

/// Does what [`walk`] does, for attributes that nobody wants: it jumps from quote to quote.
///
/// A quote opens a value if an equals sign stands before it, a name before that, and no other
/// equals sign since the last attribute; another equals sign would have begun an unquoted value, or
/// a name. What is not so simple is read by a step of [`walk`].
#[inline(always)]
fn skip(chunk: &[u8], mut at: usize) -> Passed {
    while let Some(window) = scan::window(chunk, at) {
        let scan::Signs { stop, equals } = scan::signs(window);
        let stop = stop.unwrap_or(0);
        let equals = equals & !(!0 << stop);
        match window[stop] {
            b'>' if stop == 0 || window[stop - 1] != b'/' || equals == 0 => {
                let self_closing = stop > 0 && window[stop - 1] == b'/';
                return Passed::TagEnd { at: at + stop, self_closing };
            }
            quote @ (b'"' | b'\'')
                if stop >= 2
                    && equals == 1 << (stop - 1)
                    && !is_space(window[stop - 2])
                    && window[stop - 2] != b'/' =>
            {
                let close = scan::find_byte(chunk, at + stop + 1, quote);
                if close == chunk.len() {
                    break;
                }
                at = close + 1;
            }
            _ => {
                at = skip_space(chunk, at);
                match step(chunk, at, &mut |_, _| ()) {
                    Some(Step::Attribute { end }) => at = end,
                    Some(Step::TagEnd { at, self_closing }) => {
                        return Passed::TagEnd { at, self_closing };
                    }
                    None => return Passed::ChunkEnd { at },
                }
            }
        }
    }
    walk(chunk, at, |_, _| ())
}

/// Calls `take` with the name and the value of each attribute that lies wholly in the chunk.
#[inline(always)]
fn walk(chunk: &[u8], mut at: usize, mut take: impl FnMut(&[u8], &[u8])) -> Passed {
    loop {
        at = skip_space(chunk, at);
        match step(chunk, at, &mut take) {
            Some(Step::Attribute { end }) => at = end,
            Some(Step::TagEnd { at, self_closing }) => {
                return Passed::TagEnd { at, self_closing };
            }
            None => return Passed::ChunkEnd { at },
        }
    }
}

enum Step {
    Attribute { end: usize },
    TagEnd { at: usize, self_closing: bool },
}

/// Makes one step of [`walk`]. `None`: the chunk ends before the step does, and nothing was taken.
#[inline(always)]
fn step(chunk: &[u8], at: usize, take: &mut impl FnMut(&[u8], &[u8])) -> Option<Step> {
    match *chunk.get(at)? {
        b'>' => return Some(Step::TagEnd { at, self_closing: false }),
        b'/' => {
            return Some(match *chunk.get(at + 1)? {
                b'>' => Step::TagEnd { at: at + 1, self_closing: true },
                _ => Step::Attribute { end: at + 1 },
            });
        }
        _ => {}
    }
    // The first byte belongs to the name whatever it is, even `=`.
    let name_end = find_name_end(chunk, at + 1);
    let name = &chunk[at..name_end];
    let equals = skip_space(chunk, name_end);
    if *chunk.get(equals)? != b'=' {
        take(name, b"");
        return Some(Step::Attribute { end: equals });
    }
    let start = skip_space(chunk, equals + 1);
    let (value, end) = match *chunk.get(start)? {
        quote @ (b'"' | b'\'') => {
            let close = scan::find_byte(chunk, start + 1, quote);
            chunk.get(close)?;
            (&chunk[start + 1..close], close + 1)
        }
        // A `>` here ends the tag, which the next step sees.
        b'>' => (&b""[..], start),
        // The value may continue in the next chunk, where its rest would look like a name.
        _ => {
            let end = find_unquoted_end(chunk, start);
            chunk.get(end)?;
            (&chunk[start..end], end)
        }
    };
    take(name, value);
    Some(Step::Attribute { end })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns where the fast path stops, whether that is the tag's end, and what it took on the
    /// way.
    fn stop(chunk: &str) -> (usize, bool, String) {
        let mut taken = String::new();
        let passed = walk(chunk.as_bytes(), 0, |name, value| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            taken += &format!("{}={};", text(name), text(value));
        });
        match passed {
            Passed::TagEnd { at, .. } => (at, true, taken),
            Passed::ChunkEnd { at } => (at, false, taken),
        }
    }

    #[test]
    fn attributes_that_nobody_wants_are_skipped_as_they_are_walked() {
        let parts = [
            "a",
            "b",
            "=",
            "=",
            "\"",
            "\"",
            "'",
            "'",
            " ",
            " ",
            "/",
            ">",
            "\n",
            "class=\"",
            "id='x'",
            " href=/x/y?z",
            "\0",
            "long-name-of-an-attribute",
            " checked",
            "\u{e9}",
        ];
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let (mut ended_count, mut cut_count, mut one_count) = (0, 0, 0);
        for _ in 0..100_000 {
            let mut chunk = String::new();
            for _ in 0..state >> 60 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                chunk += parts[(state >> 33) as usize % parts.len()];
            }
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let bytes = chunk.as_bytes();
            // A copy with enough bytes behind it for the search that looks at many bytes at once.
            let long = format!("{chunk}{:1$}", "", SHORT_BYTES);
            if let Some(at) = skip_one(long.as_bytes(), 0) {
                let passed = walk(long.as_bytes(), 0, |_, _| ());
                let Passed::TagEnd { at: wanted, self_closing: false } = passed else {
                    panic!("skip_one found an end that walk did not: {chunk}");
                };
                assert_eq!(at, wanted, "{chunk}");
                one_count += 1;
            }
            match (skip(bytes, 0), walk(bytes, 0, |_, _| ())) {
                (
                    Passed::TagEnd { at, self_closing },
                    Passed::TagEnd { at: wanted, self_closing: wanted_closing },
                ) => {
                    assert_eq!((at, self_closing), (wanted, wanted_closing), "{chunk}");
                    ended_count += 1;
                }
                (Passed::ChunkEnd { at }, Passed::ChunkEnd { at: wanted }) => {
                    assert_eq!(at, wanted, "{chunk}");
                    cut_count += 1;
                }
                _ => panic!("skip and walk differ on whether the tag is cut: {chunk}"),
            }
        }
        assert!(ended_count > 10_000 && cut_count > 10_000, "{ended_count} {cut_count}");
        assert!(one_count > 100, "{one_count}");
    }

    #[test]
    fn attributes_that_were_passed_are_not_passed_again() {
        for (chunk, at, taken) in [
            ("", 0, ""),
            ("  ", 2, ""),
            ("a=1 b='2' c", 10, "a=1;b=2;"),
            ("a=1 b='2' c=3", 10, "a=1;b=2;"),
            ("a=1 b='2' c = ", 10, "a=1;b=2;"),
            ("a=1 b='2' c='> ", 10, "a=1;b=2;"),
            ("a=1 b='2'c=\"", 9, "a=1;b=2;"),
            ("a b c d", 6, "a=;b=;c=;"),
            ("a/b /", 4, "a=;b=;"),
        ] {
            assert_eq!(stop(chunk), (at, false, taken.into()), "{chunk}");
        }
        assert_eq!(stop("a=1 b='>' c=> d"), (12, true, "a=1;b=>;c=;".into()));
        assert_eq!(stop("a=1/> d"), (4, true, "a=1/;".into()));
        assert_eq!(stop("a /> d"), (3, true, "a=;".into()));
        assert_eq!(stop("=a=1 \u{1}b = \"x\"c>"), (14, true, "=a=1;\u{1}b=x;c=;".into()));
    }
}

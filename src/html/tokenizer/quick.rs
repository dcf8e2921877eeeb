//! The fast way through tags that lie in one chunk: no state is kept, no byte copied.
//!
//! Takes the same way as the states of `tag` do, which are its twin and take over where the chunk
//! ends: at the tag if its name may be cut, at an attribute if that is. The chunking tests hold the
//! two against each other. What was passed is never passed again: a tag of many attributes that
//! does not end in its chunk would cost the square of the chunk.

use super::tag::{ends_tag_name, find_name_end, find_unquoted_end, is_space, skip_space};
use super::{State, Tag, TokenSink, Tokenizer, Value};
use crate::html::name::TagName;
use crate::html::tree::Tree;
use crate::limits::{ATTRIBUTE_BYTES_MAX, NAME_BYTES_MAX};
use crate::sys::scan;

/// How far the fast way through attributes led.
pub(super) enum Passed {
    /// To the tag's `>`.
    TagEnd { at: usize, self_closing: bool },
    /// To the attribute that this chunk cuts, or to the chunk's end: the states take it from there.
    ChunkEnd { at: usize },
}

impl Tokenizer {
    /// Behind a `<` in markup. Returns where to go on, or `None` if nothing was done: this is no
    /// tag, or one that the states must read.
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
        if traits.is_plain() && self.tree.as_ref().is_some_and(Tree::is_plain) {
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

    /// From `at`, between attributes.
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

/// As [`walk`] for attributes that nobody wants: from quote to quote.
///
/// A quote opens a value if an equals sign stands before it, a name before that, and no other
/// equals sign since the last attribute: else that one began an unquoted value, or a name. What is
/// not so simple is a step of [`walk`]'s.
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

/// Calls `take` with the name and the value of each attribute that lies in the chunk whole.
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

/// One step of [`walk`]. `None`: the chunk ends before the step does, and nothing was taken.
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
    // The first byte is the name's whatever it is, `=` as well.
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
        // `>` here ends the tag, which the next step sees.
        b'>' => (&b""[..], start),
        // A value may go on in the next chunk, where it would look like a name.
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

    /// Where the fast way leaves off, whether at the tag's end, and what it took on the way.
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
        let (mut ended_count, mut cut_count) = (0, 0);
        for _ in 0..100_000 {
            let mut chunk = String::new();
            for _ in 0..state >> 60 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                chunk += parts[(state >> 33) as usize % parts.len()];
            }
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let bytes = chunk.as_bytes();
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
                _ => panic!("one ends and one is cut: {chunk}"),
            }
        }
        assert!(ended_count > 10_000 && cut_count > 10_000, "{ended_count} {cut_count}");
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

//! Reads `<a href="…">text</a>` in one piece. Most links of a page have this form, and it takes a
//! tenth of the instructions that the tags and the text take one by one.

use super::{Run, Tag, TokenSink, Value};
use crate::proto::html::name::TagName;
use crate::sys::block::{self, TextMarks};

/// A link in one chunk. The value and the text have up to [`block::BLOCK_BYTES`] each, and the
/// chunk has at least that many bytes from the beginning of each.
#[derive(Clone, Copy)]
pub struct WholeLink<'a> {
    pub chunk: &'a [u8],
    /// Where the value of `href` begins.
    pub href: usize,
    /// The length of the value.
    pub href_len: usize,
    /// Where the text begins; it has no references.
    pub text: usize,
    pub text_len: usize,
}

impl<'a> WholeLink<'a> {
    const HEAD: u64 = u64::from_le_bytes(*b"a href=\"");

    /// Reports whether these bytes, which follow a `<`, may begin a link.
    #[inline(always)]
    pub fn begins(bytes: &[u8; 8]) -> bool {
        u64::from_le_bytes(*bytes) == WholeLink::HEAD
    }

    /// Reads the link that [`begins`](WholeLink::begins) at `at`; returns it and where it ends.
    #[inline(always)]
    pub fn read(chunk: &'a [u8], at: usize) -> Option<(WholeLink<'a>, usize)> {
        let href = at + size_of::<u64>();
        let href_len = block::equal(block::block(chunk, href)?, b'"').trailing_zeros() as usize;
        let text = href + href_len + 2;
        let TextMarks { stops, .. } = block::text_marks(block::block(chunk, text)?);
        let text_len = stops.trailing_zeros() as usize;
        // If a block has no such byte, the index is the block's length: the byte may stand right
        // behind it.
        let end = text + text_len + 4;
        let is_whole = chunk.get(text - 2..text)? == b"\">" && chunk.get(end - 4..end)? == b"</a>";
        is_whole.then_some((WholeLink { chunk, href, href_len, text, text_len }, end))
    }

    /// Hands the link on as its tags and its text.
    pub fn by_parts<S: TokenSink + ?Sized>(self, sink: &mut S) {
        let WholeLink { chunk, href, href_len, text, text_len } = self;
        let (name, traits) = (TagName::A, TagName::A.traits());
        let tag = Tag { name, raw: b"a", traits, foreign: false };
        if sink.start_tag(tag) {
            sink.attribute(b"href", Value { raw: &chunk[href..href + href_len], cut: false });
        }
        sink.start_tag_end(false);
        let stop = text + text_len;
        let is_space = |byte: &u8| super::is_space(*byte);
        let blank_count = chunk[text..stop].iter().take_while(|byte| is_space(byte)).count();
        sink.run(Run { chunk, at: text, start: text + blank_count, stop });
        sink.end_tag(tag);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::html::collector::{Collector, CollectorSink};
    use crate::proto::html::{Page, TextSink};
    use crate::sys::block::BLOCK_BYTES;

    /// A sink that takes blanks, as the parse stage's does.
    #[derive(Default)]
    struct Visible(Vec<u8>);

    impl TextSink for Visible {
        const TAKES_BLANKS: bool = true;
        fn text(&mut self, piece: &[u8]) {
            self.0.extend_from_slice(piece);
        }
    }

    const PARTS: [&str; 20] = [
        "/p/1",
        "x",
        "word",
        "two words",
        " ",
        "  ",
        "\n",
        "\t",
        "\r",
        "\0",
        "&amp;",
        "&",
        "'",
        "\u{e9}",
        "\u{4e00}",
        "=",
        ">",
        "?a=1",
        "a-name-of-some-length",
        "#",
    ];

    /// Makes a text of up to fifteen parts, without the characters in `not`.
    fn some(state: &mut u64, not: &[char]) -> String {
        let mut text = String::new();
        let mut step = || {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (*state >> 33) as usize
        };
        for _ in 0..step() % 16 {
            text += PARTS[step() % PARTS.len()];
        }
        text.replace(not, "")
    }

    /// Returns what is kept of a page with this link, which stands inside another link if
    /// `is_nested`.
    fn page(is_nested: bool, take: impl Fn(&mut CollectorSink<'_, Visible>)) -> (String, Vec<u8>) {
        let (mut collector, mut text) = (Collector::default(), Visible::default());
        let mut sink = CollectorSink { collector: &mut collector, text: &mut text };
        let outer = b"<a href=\"/outer\">and";
        if is_nested {
            super::super::Tokenizer::new().push(outer, &mut sink);
        }
        take(&mut sink);
        let page: Page = collector.finish("UTF-8");
        (format!("{:?}", page.links().collect::<Vec<_>>()), text.0)
    }

    #[test]
    fn a_link_in_one_piece_is_what_its_parts_are() {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut whole_count = 0;
        for round in 0..20_000 {
            let (href, text) = (some(&mut state, &['"']), some(&mut state, &['<', '&']));
            let chunk = format!("<a href=\"{href}\">{text}</a>{:64}", "");
            assert!(chunk.as_bytes()[1..].first_chunk().is_some_and(WholeLink::begins));
            let Some((link, end)) = WholeLink::read(chunk.as_bytes(), 1) else {
                assert!(href.len() > BLOCK_BYTES || text.len() > BLOCK_BYTES, "{chunk}");
                continue;
            };
            assert_eq!(end, chunk.trim_end_matches(' ').len(), "{chunk}");
            let is_nested = round % 4 == 0;
            let whole = page(is_nested, |sink| sink.whole_link(link));
            assert_eq!(whole, page(is_nested, |sink| link.by_parts(sink)), "{chunk}");
            whole_count += 1;
        }
        assert!(whole_count > 5_000, "{whole_count}");
    }

    #[test]
    fn what_is_more_than_a_link_and_its_text_is_left_to_others() {
        for chunk in [
            "<a href=\"/x\" rel=nofollow>text</a>",
            "<a href=\"/x\"/>text</a>",
            "<a href=\"/x\">text</A>",
            "<a href=\"/x\">text</a >",
            "<a href=\"/x\">te<b>xt</b></a>",
            "<a href=\"/x\">te&amp;xt</a>",
            "<a href=\"/x",
        ] {
            let chunk = format!("{chunk}{:128}", "");
            assert!(WholeLink::read(chunk.as_bytes(), 1).is_none(), "{chunk}");
        }
        let short = b"<a href=\"/x\">text</a>";
        assert!(WholeLink::read(short, 1).is_none(), "too few bytes behind it for a block");
        assert!(!WholeLink::begins(b"A href=\""));
    }
}

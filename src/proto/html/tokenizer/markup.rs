//! Reads what begins with `<!` or ends like it: comments, doctypes, CDATA sections. None of it
//! reaches the sink, except the text of a CDATA section.

use super::{Content, State, Tokenizer};
use memchr::memchr;

/// The keyword that `<!` may begin, and how many bytes of it have come.
#[derive(Clone, Copy, Default)]
pub struct Keyword {
    text: &'static [u8],
    matched: usize,
}

impl Tokenizer {
    pub(super) fn begin_markup(&mut self) {
        self.keyword = Keyword::default();
        self.state = State::Markup;
    }

    pub(super) fn markup(&mut self, chunk: &[u8], at: usize) -> usize {
        let byte = chunk[at];
        self.state = match (self.state, byte) {
            (State::Markup, _) => return self.markup_keyword(byte, at),
            (State::BogusComment, _) => {
                let Some(index) = memchr(b'>', &chunk[at..]) else {
                    return chunk.len();
                };
                self.state = State::Text;
                return at + index + 1;
            }
            (State::Comment, _) => {
                let Some(index) = memchr(b'-', &chunk[at..]) else {
                    return chunk.len();
                };
                self.state = State::CommentDash;
                return at + index + 1;
            }
            // `<!-->` and `<!--->` are whole comments.
            (State::CommentStart | State::CommentStartDash, b'>') => State::Text,
            (State::CommentStart, b'-') => State::CommentStartDash,
            (State::CommentStartDash | State::CommentDash, b'-') => State::CommentEnd,
            (State::CommentEnd | State::CommentBang, b'>') => State::Text,
            (State::CommentEnd, b'-') => State::CommentEnd,
            (State::CommentEnd, b'!') => State::CommentBang,
            (State::CommentBang, b'-') => State::CommentDash,
            _ => State::Comment,
        };
        at + 1
    }

    /// Reads a byte of a keyword. No keyword holds a `>`, so the bytes that matched one can be
    /// skipped even if the rest does not match.
    fn markup_keyword(&mut self, byte: u8, at: usize) -> usize {
        if self.keyword.matched == 0 {
            let foreign = self.tree.as_ref().is_some_and(|tree| tree.in_foreign());
            self.keyword.text = match byte {
                b'-' => b"--",
                b'[' if foreign => b"[CDATA[",
                _ => b"",
            };
        }
        if self.keyword.text.get(self.keyword.matched) != Some(&byte) {
            // This reads a doctype too: `>` ends one even inside its quotes, as it ends a bogus
            // comment.
            self.state = State::BogusComment;
            return at;
        }
        self.keyword.matched += 1;
        if self.keyword.matched == self.keyword.text.len() {
            self.state = match byte {
                b'-' => State::CommentStart,
                _ => {
                    self.content = Content::CData;
                    State::Text
                }
            };
        }
        at + 1
    }
}

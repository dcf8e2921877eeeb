//! Plain lists: one URL per line, nothing else (sitemaps.org, "Text file").
//!
//! A line that does not begin with `http://` or `https://` is no entry, so a PDF or a picture that
//! someone calls a sitemap gives none. One line is held at a time; of a line that is longer than a
//! URL may be, nothing is kept.

use crate::base::limits::URL_BYTES_MAX;

#[derive(Default)]
pub struct Lines {
    line: Vec<u8>,
    is_too_long: bool,
}

/// A line that is not empty.
pub enum Line<'a> {
    Url(&'a [u8]),
    Refused,
}

impl Lines {
    pub fn push(&mut self, mut bytes: &[u8], take: &mut impl FnMut(Line<'_>)) {
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            self.keep(&bytes[..end]);
            self.finish(take);
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
    }

    /// Ends a line, and hands it on unless it is empty.
    pub fn finish(&mut self, take: &mut impl FnMut(Line<'_>)) {
        let line = self.line.trim_ascii();
        if self.is_too_long || !(line.is_empty() || is_http(line)) {
            take(Line::Refused);
        } else if !line.is_empty() {
            take(Line::Url(line));
        }
        self.line.clear();
        self.is_too_long = false;
    }

    fn keep(&mut self, piece: &[u8]) {
        if self.is_too_long || self.line.len() + piece.len() > URL_BYTES_MAX {
            self.is_too_long |= !piece.is_empty();
            return self.line.clear();
        }
        self.line.extend_from_slice(piece);
    }
}

fn is_http(line: &[u8]) -> bool {
    let begins = |scheme: &[u8]| {
        line.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    begins(b"http://") || begins(b"https://")
}

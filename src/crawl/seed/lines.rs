//! Reads the lines of an untrusted file. Lines may have any length; memory is bounded.

use std::io::{self, BufRead};

/// One line of the file.
pub enum Line<'a> {
    /// A whole line, without its line break.
    Whole(&'a [u8]),
    /// The start of a line that is longer than the limit. The rest of the line was skipped.
    TooLong(&'a [u8]),
}

/// Reads lines and keeps at most `line_bytes_max` bytes of each.
pub struct LineReader<R> {
    reader: R,
    line_bytes_max: usize,
    line: Vec<u8>,
    line_number: usize,
}

impl<R: BufRead> LineReader<R> {
    pub fn new(reader: R, line_bytes_max: usize) -> LineReader<R> {
        LineReader { reader, line_bytes_max, line: Vec::new(), line_number: 0 }
    }

    /// Returns the next line and its number, counted from one.
    pub fn next_line(&mut self) -> io::Result<Option<(usize, Line<'_>)>> {
        self.line.clear();
        let (mut any, mut too_long) = (false, false);
        loop {
            let piece = match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                piece => piece?,
            };
            if piece.is_empty() {
                break;
            }
            any = true;
            let end = memchr::memchr(b'\n', piece);
            let bytes = &piece[..end.unwrap_or(piece.len())];
            let room = self.line_bytes_max - self.line.len();
            too_long |= bytes.len() > room;
            self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
            let used = end.map_or(piece.len(), |end| end + 1);
            self.reader.consume(used);
            if end.is_some() {
                break;
            }
        }
        if !any {
            return Ok(None);
        }
        self.line_number += 1;
        let content = if too_long { Line::TooLong(&self.line) } else { Line::Whole(&self.line) };
        Ok(Some((self.line_number, content)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    const LINE_BYTES_MAX: usize = 1_000;

    fn lines(text: &[u8], buffer_bytes: usize) -> Vec<(usize, Option<Vec<u8>>)> {
        let mut reader =
            LineReader::new(BufReader::with_capacity(buffer_bytes, text), LINE_BYTES_MAX);
        let mut lines = Vec::new();
        while let Some((number, line)) = reader.next_line().unwrap() {
            let whole = match line {
                Line::Whole(bytes) => Some(bytes.to_vec()),
                Line::TooLong(_) => None,
            };
            lines.push((number, whole));
        }
        lines
    }

    #[test]
    fn lines_are_the_same_whatever_the_reads_are() {
        let text = b"one\n\ntwo\r\nlast";
        let expected: Vec<(usize, Option<Vec<u8>>)> = [&b"one"[..], b"", b"two\r", b"last"]
            .iter()
            .enumerate()
            .map(|(index, line)| (index + 1, Some(line.to_vec())))
            .collect();
        for buffer_bytes in 1..=text.len() {
            assert_eq!(lines(text, buffer_bytes), expected);
        }
        assert!(lines(b"", 1).is_empty());
    }

    #[test]
    fn a_line_over_the_limit_is_skipped_whole_and_the_next_is_read() {
        let longest = vec![b'a'; LINE_BYTES_MAX];
        let mut text = longest.clone();
        text.extend_from_slice(b"\n");
        text.extend_from_slice(&vec![b'b'; LINE_BYTES_MAX * 3]);
        text.extend_from_slice(b"\nnext\n");
        let expected = vec![(1, Some(longest)), (2, None), (3, Some(b"next".to_vec()))];
        assert_eq!(lines(&text, 100), expected);
    }
}

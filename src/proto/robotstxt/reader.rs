//! Turns bytes, in pieces of any size, into lines.
//!
//! The reader knows byte order marks, the three line ends and the size limits; the meaning of lines
//! is left to `line` and `groups`. A line that lies whole in one piece is read in place.

use super::groups::Groups;
use super::{Robots, line};
use crate::base::limits::{ROBOTS_BYTES_MAX, ROBOTS_LINE_BYTES_MAX};

/// Reads a robots.txt as it arrives.
#[derive(Debug)]
pub struct RobotsReader {
    groups: Groups,
    encoding: Encoding,
    /// The number of bytes of the file taken so far; those beyond the limit are not taken.
    taken_count: usize,
    /// The file has bytes beyond the limit.
    is_cut: bool,
    /// The beginning of a line whose end has not come yet, cut at the limit.
    line: Vec<u8>,
    line_number: u32,
    /// The last byte was a carriage return, so a line feed right behind it ends no second line.
    after_return: bool,
}

#[derive(Debug)]
enum Encoding {
    /// Too few bytes have come: so far they begin the UTF-8 mark, or a UTF-16 one.
    Unknown {
        start: [u8; 2],
        len: usize,
    },
    Utf8,
    Utf16 {
        is_big: bool,
        half: Option<u8>,
        surrogate: Option<u16>,
    },
}

const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

impl RobotsReader {
    /// Makes a reader; see [`Robots::parse`] for `product_token`.
    pub fn new(product_token: &str) -> RobotsReader {
        RobotsReader {
            groups: Groups::new(product_token),
            encoding: Encoding::Unknown { start: [0; 2], len: 0 },
            taken_count: 0,
            is_cut: false,
            line: Vec::new(),
            line_number: 1,
            after_return: false,
        }
    }

    /// Takes the next piece of the file. Bytes beyond [`ROBOTS_BYTES_MAX`] are ignored.
    pub fn push(&mut self, piece: &[u8]) {
        let room = ROBOTS_BYTES_MAX - self.taken_count;
        self.is_cut |= piece.len() > room;
        let piece = &piece[..piece.len().min(room)];
        self.taken_count += piece.len();
        let mut rest = piece;
        while let (Encoding::Unknown { start, len }, [byte, after @ ..]) =
            (&mut self.encoding, rest)
        {
            rest = after;
            match (&start[..*len], byte) {
                (b"", 0xef | 0xfe | 0xff) | (b"\xef", 0xbb) => {
                    start[*len] = *byte;
                    *len += 1;
                }
                (b"\xef\xbb", 0xbf) => self.encoding = Encoding::Utf8,
                (b"\xfe", 0xff) | (b"\xff", 0xfe) => {
                    let is_big = *byte == 0xff;
                    self.encoding = Encoding::Utf16 { is_big, half: None, surrogate: None };
                }
                _ => {
                    self.settle_without_mark();
                    self.push_utf8(&[*byte]);
                }
            }
        }
        match self.encoding {
            Encoding::Utf16 { .. } => self.push_utf16(rest),
            _ => self.push_utf8(rest),
        }
    }

    /// Reports whether the limit has been passed: then the rest of the file need not be fetched. A
    /// file that ends at the limit is whole, and so is its last line.
    pub fn is_full(&self) -> bool {
        self.is_cut
    }

    pub fn finish(mut self) -> Robots {
        if matches!(self.encoding, Encoding::Unknown { .. }) {
            self.settle_without_mark();
        }
        // A cut last line is not read: half a Disallow forbids more than the whole, and half an
        // Allow allows more.
        if !self.is_cut {
            self.end_line(&[]);
        }
        self.groups.finish()
    }

    /// Decides that there is no mark, so bytes that were kept back are text. An incomplete UTF-8
    /// mark is dropped.
    fn settle_without_mark(&mut self) {
        let Encoding::Unknown { start, len } =
            std::mem::replace(&mut self.encoding, Encoding::Utf8)
        else {
            return;
        };
        if !UTF8_MARK.starts_with(&start[..len]) {
            self.push_utf8(&start[..len]);
        }
    }

    fn push_utf8(&mut self, mut piece: &[u8]) {
        if self.after_return && !piece.is_empty() {
            self.after_return = false;
            piece = piece.strip_prefix(b"\n").unwrap_or(piece);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', piece) {
            self.end_line(&piece[..end]);
            let is_return = piece[end] == b'\r';
            piece = &piece[end + 1..];
            if is_return {
                match piece {
                    [] => self.after_return = true,
                    [b'\n', rest @ ..] => piece = rest,
                    _ => {}
                }
            }
        }
        let room = ROBOTS_LINE_BYTES_MAX - self.line.len();
        self.line.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    /// Ends a line. `tail` is the rest of it; its beginning may be in `line` already.
    fn end_line(&mut self, tail: &[u8]) {
        let room = ROBOTS_LINE_BYTES_MAX - self.line.len();
        let tail = &tail[..tail.len().min(room)];
        let text = if self.line.is_empty() {
            tail
        } else {
            self.line.extend_from_slice(tail);
            &self.line
        };
        if let Some(line) = line::read(text) {
            self.groups.push(line, self.line_number);
        }
        self.line.clear();
        self.line_number += 1;
    }

    fn push_utf16(&mut self, piece: &[u8]) {
        for &byte in piece {
            let Encoding::Utf16 { is_big, half, surrogate } = &mut self.encoding else { return };
            let Some(first) = half.take() else {
                *half = Some(byte);
                continue;
            };
            let unit = if *is_big { [first, byte] } else { [byte, first] };
            let unit = u16::from_be_bytes(unit);
            if (0xd800..0xdc00).contains(&unit) {
                *surrogate = Some(unit);
                continue;
            }
            let units = [surrogate.take().unwrap_or(0), unit];
            let units = if units[0] == 0 { &units[1..] } else { &units[..] };
            for decoded in char::decode_utf16(units.iter().copied()) {
                let decoded = decoded.unwrap_or(char::REPLACEMENT_CHARACTER);
                let mut utf8 = [0; 4];
                let utf8 = decoded.encode_utf8(&mut utf8);
                self.push_utf8(utf8.as_bytes());
            }
        }
    }
}

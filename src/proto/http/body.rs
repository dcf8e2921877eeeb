//! Removes the chunked transfer coding (RFC 9112 7.1) without copying.
//!
//! Size lines and trailers go byte by byte through a state machine; chunk data is lent from the
//! piece it came in. Extensions and trailers are skipped and bounded. Unlike lines of a head, chunk
//! lines must end in CRLF: a bare LF there is the classic way to make two readers see two different
//! bodies.

use super::HttpError;
use crate::base::limits::{CHUNK_EXTENSION_BYTES_MAX, CHUNK_LINE_BYTES_MAX, TRAILER_BYTES_MAX};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChunkEvent<'i> {
    NeedMore,
    Data(&'i [u8]),
    End,
}

#[derive(Debug, Default)]
pub(super) struct ChunkReader {
    state: State,
    /// The chunk's size while its line is read, then the number of data bytes still to come.
    size: u64,
    line_bytes: usize,
    extension_bytes: usize,
    trailer_bytes: usize,
    lenient: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Before the first digit of a chunk size.
    #[default]
    SizeStart,
    Size,
    /// Blanks behind the size; the grammar allows them only before a `;`.
    SizeBlank,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    Trailer,
    /// A CR was the first byte of a trailer line, so the line should be the empty one.
    TrailerLf,
    End,
}

impl ChunkReader {
    /// Returns how many bytes of `piece` were used, and what they led to. `NeedMore` uses all of
    /// them.
    pub(super) fn feed<'i>(
        &mut self,
        piece: &'i [u8],
    ) -> Result<(usize, ChunkEvent<'i>), HttpError> {
        let mut used = 0;
        while self.state != State::End {
            let rest = &piece[used..];
            if rest.is_empty() {
                return Ok((used, ChunkEvent::NeedMore));
            }
            if self.state == State::Data {
                let len = usize::try_from(self.size).unwrap_or(usize::MAX).min(rest.len());
                self.size -= len as u64;
                if self.size == 0 {
                    self.state = State::DataCr;
                }
                return Ok((used + len, ChunkEvent::Data(&rest[..len])));
            }
            self.state = if self.is_in_trailers() {
                self.step_trailer(rest[0])?
            } else {
                self.step_line(rest[0])?
            };
            used += 1;
        }
        Ok((used, ChunkEvent::End))
    }

    /// Reports whether the last chunk has come. RFC 9112 8 calls the message complete then, though
    /// its trailers may be cut.
    pub(super) fn has_last_chunk(&self) -> bool {
        self.is_in_trailers() || self.state == State::End
    }

    /// Reports whether something was tolerated: the connection should not be used again then.
    pub(super) fn was_lenient(&self) -> bool {
        self.lenient
    }

    fn is_in_trailers(&self) -> bool {
        matches!(self.state, State::TrailerStart | State::Trailer | State::TrailerLf)
    }

    fn step_line(&mut self, byte: u8) -> Result<State, HttpError> {
        match (self.state, byte) {
            (State::SizeStart | State::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                self.count_line_byte()?;
                let digit = (byte as char).to_digit(16).unwrap_or_default();
                let size = self.size.checked_mul(16).ok_or(HttpError::ChunkSize)?;
                self.size = size | u64::from(digit);
                Ok(State::Size)
            }
            (State::Size | State::SizeBlank, b' ' | b'\t') => {
                self.count_line_byte()?;
                Ok(State::SizeBlank)
            }
            (State::Size | State::SizeBlank, b';') => {
                // Extensions are skipped and not parsed, so this one may be none that the grammar
                // allows (`5;`, an open quote), and another reader may see its end elsewhere.
                self.lenient = true;
                self.count_line_byte()?;
                Ok(State::Extension)
            }
            (State::Size | State::SizeBlank, b'\r') => {
                self.lenient |= self.state == State::SizeBlank;
                Ok(State::SizeLf)
            }
            (State::Extension, b'\r') => Ok(State::SizeLf),
            (State::Extension, b'\t' | b' '..=b'~' | 0x80..) => {
                self.count_line_byte()?;
                self.extension_bytes += 1;
                if self.extension_bytes > CHUNK_EXTENSION_BYTES_MAX {
                    return Err(HttpError::ChunkLineTooLarge);
                }
                Ok(State::Extension)
            }
            (State::SizeLf, b'\n') => {
                self.line_bytes = 0;
                Ok(if self.size == 0 { State::TrailerStart } else { State::Data })
            }
            (State::DataCr, b'\r') => Ok(State::DataLf),
            (State::DataLf, b'\n') => Ok(State::SizeStart),
            (State::SizeStart | State::Size | State::SizeBlank, _) => Err(HttpError::ChunkSize),
            (State::DataCr | State::DataLf, _) => Err(HttpError::ChunkEnd),
            _ => Err(HttpError::ChunkLine),
        }
    }

    fn count_line_byte(&mut self) -> Result<(), HttpError> {
        self.line_bytes += 1;
        if self.line_bytes > CHUNK_LINE_BYTES_MAX {
            return Err(HttpError::ChunkLineTooLarge);
        }
        Ok(())
    }

    /// Trailers are field lines, so a bare LF ends one, as in a head. No trailer is used.
    fn step_trailer(&mut self, byte: u8) -> Result<State, HttpError> {
        self.trailer_bytes += 1;
        if self.trailer_bytes > TRAILER_BYTES_MAX {
            return Err(HttpError::TrailersTooLarge);
        }
        match (self.state, byte) {
            (State::TrailerLf, b'\n') => Ok(State::End),
            (State::TrailerLf, _) => Err(HttpError::LineEnd),
            (State::TrailerStart, b'\n') => {
                self.lenient = true;
                Ok(State::End)
            }
            (State::TrailerStart, b'\r') => Ok(State::TrailerLf),
            (_, b'\n') => Ok(State::TrailerStart),
            _ => Ok(State::Trailer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the body, the bytes used and whether the end was reached; feeds pieces of `step`
    /// bytes.
    fn read(wire: &[u8], step: usize) -> Result<(Vec<u8>, usize, bool), HttpError> {
        let (mut reader, mut body, mut at) = (ChunkReader::default(), Vec::new(), 0);
        for piece in wire.chunks(step) {
            let mut rest = piece;
            loop {
                let (used, event) = reader.feed(rest)?;
                (rest, at) = (&rest[used..], at + used);
                match event {
                    ChunkEvent::NeedMore => break,
                    ChunkEvent::Data(data) => body.extend_from_slice(data),
                    ChunkEvent::End => return Ok((body, at, true)),
                }
            }
        }
        Ok((body, at, reader.has_last_chunk()))
    }

    fn read_both(wire: &[u8]) -> Result<(Vec<u8>, usize, bool), HttpError> {
        let whole = read(wire, wire.len().max(1));
        assert_eq!(whole, read(wire, 1), "{}", String::from_utf8_lossy(wire));
        whole
    }

    #[test]
    fn rfc_chunks_extensions_and_trailers_are_removed() {
        let wire = b"5;a=b;c=\"d;e\"\r\nhello\r\n0006 ; x\r\n world\r\n0\r\nA: b\r\n\r\nNEXT";
        let (body, used, ended) = read_both(wire).unwrap();
        assert_eq!((body.as_slice(), used, ended), (&b"hello world"[..], wire.len() - 4, true));
    }

    #[test]
    fn data_is_lent_from_the_piece() {
        let wire = b"5\r\nhello\r\n";
        let (used, event) = ChunkReader::default().feed(wire).unwrap();
        assert_eq!((used, event), (8, ChunkEvent::Data(&wire[3..8])));
    }

    #[test]
    fn broken_chunks_are_refused_by_cause() {
        for (wire, error) in [
            (&b"\r\n"[..], HttpError::ChunkSize),
            (b"g\r\n", HttpError::ChunkSize),
            (b"-1\r\n", HttpError::ChunkSize),
            (b"0x5\r\n", HttpError::ChunkSize),
            (b"5 5\r\n", HttpError::ChunkSize),
            (b"5\nhello", HttpError::ChunkSize),
            (b"5\rhello", HttpError::ChunkLine),
            (b"5;a\nhello", HttpError::ChunkLine),
            (b"5;a\0\r\n", HttpError::ChunkLine),
            (b"10000000000000000\r\n", HttpError::ChunkSize),
            (b"5\r\nhelloo\r\n", HttpError::ChunkEnd),
            (b"5\r\nhello\n0\r\n", HttpError::ChunkEnd),
            (b"0\r\n\rx", HttpError::LineEnd),
        ] {
            assert_eq!(read_both(wire), Err(error), "{}", String::from_utf8_lossy(wire));
        }
        assert!(read_both(b"ffffffffffffffff\r\nx").is_ok(), "u64::MAX itself fits");
    }

    #[test]
    fn lines_extensions_and_trailers_are_bounded() {
        let long = |before: &str, fill_bytes: usize| [before, &"x".repeat(fill_bytes)].concat();
        assert!(read_both(long("5;", CHUNK_LINE_BYTES_MAX - 2).as_bytes()).is_ok());
        let large = Err(HttpError::ChunkLineTooLarge);
        assert_eq!(read_both(long("5;", CHUNK_LINE_BYTES_MAX - 1).as_bytes()), large);
        assert_eq!(read_both("0".repeat(CHUNK_LINE_BYTES_MAX + 1).as_bytes()), large);
        let chunk = format!("1;{}\r\na\r\n", "x".repeat(1024));
        assert!(read_both(chunk.repeat(CHUNK_EXTENSION_BYTES_MAX / 1024).as_bytes()).is_ok());
        assert_eq!(read_both(chunk.repeat(CHUNK_EXTENSION_BYTES_MAX / 1024 + 1).as_bytes()), large);
        let trailers = long("0\r\n", TRAILER_BYTES_MAX + 1);
        assert_eq!(read_both(trailers.as_bytes()), Err(HttpError::TrailersTooLarge));
    }

    #[test]
    fn lenient_blanks_behind_a_size_are_read_and_noted() {
        let mut reader = ChunkReader::default();
        assert!(matches!(reader.feed(b"2  \r\nab\r\n"), Ok((_, ChunkEvent::Data(b"ab")))));
        assert!(reader.was_lenient());
    }

    #[test]
    fn rfc_the_last_chunk_completes_the_body_even_without_trailers() {
        assert_eq!(read_both(b"1\r\na\r\n0\r\n").unwrap(), (b"a".to_vec(), 9, true));
        assert_eq!(read_both(b"1\r\na\r\n0\r").unwrap(), (b"a".to_vec(), 8, false));
    }
}

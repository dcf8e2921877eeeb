//! DEFLATE in its three wrappers: gzip (RFC 1952), zlib (RFC 1950), and none.
//!
//! The gzip wrapper is read here and not by the library, for two reasons. The context can then be
//! reset for any of the three (a reset loses the library's own gzip mode), and junk that servers
//! append to a member is distinguished from the next member. Wrapper bytes are skipped, never kept.

use super::decode::Fault;
use flate2::{Decompress, FlushDecompress, Status};

/// Takes the output; an error from it stops decoding.
pub(super) type Output<'o> = &'o mut dyn FnMut(&[u8]) -> Result<(), Fault>;

/// Decodes `Content-Encoding: gzip`, which is one or more members.
pub(super) struct Gzip {
    state: GzipState,
    inflate: Decompress,
    checksum: crc32fast::Hasher,
    size: u32,
    /// A member has ended well, so what follows is another member or junk.
    has_member: bool,
}

enum GzipState {
    /// No byte of the stream has come yet.
    Empty,
    /// Inside a member's ten fixed bytes; `len` of them have come.
    Fixed {
        flags: u8,
        len: u8,
    },
    ExtraLen {
        flags: u8,
        len: u16,
        count: u8,
    },
    Extra {
        flags: u8,
        left: u16,
    },
    Name {
        flags: u8,
    },
    Comment {
        flags: u8,
    },
    HeaderChecksum {
        left: u8,
    },
    Data,
    Trailer {
        bytes: [u8; 8],
        len: u8,
    },
    /// Behind a member: another member may follow, or junk, which is ignored, as gzip(1) and
    /// browsers do.
    Between,
    Junk,
}

const FLAG_CHECKSUM: u8 = 1 << 1;
const FLAG_EXTRA: u8 = 1 << 2;
const FLAG_NAME: u8 = 1 << 3;
const FLAG_COMMENT: u8 = 1 << 4;
const FLAGS_RESERVED: u8 = 0xe0;

impl Gzip {
    pub(super) fn new(mut inflate: Decompress) -> Gzip {
        inflate.reset(false);
        Gzip {
            state: GzipState::Empty,
            inflate,
            checksum: crc32fast::Hasher::new(),
            size: 0,
            has_member: false,
        }
    }

    pub(super) fn into_inflate(self) -> Decompress {
        self.inflate
    }

    pub(super) fn push(
        &mut self,
        mut input: &[u8],
        scratch: &mut [u8],
        output: Output<'_>,
    ) -> Result<(), Fault> {
        while let Some(&byte) = input.first() {
            match self.state {
                GzipState::Junk => return Ok(()),
                GzipState::Data => {
                    let (checksum, size) = (&mut self.checksum, &mut self.size);
                    let rest = inflate(&mut self.inflate, input, scratch, &mut |piece| {
                        checksum.update(piece);
                        *size = size.wrapping_add(piece.len() as u32);
                        output(piece)
                    })?;
                    let Some(rest) = rest else { return Ok(()) };
                    self.state = GzipState::Trailer { bytes: [0; 8], len: 0 };
                    input = rest;
                }
                _ => {
                    self.state = self.step_wrapper(byte)?;
                    input = &input[1..];
                }
            }
        }
        Ok(())
    }

    pub(super) fn finish(&self) -> Result<(), Fault> {
        match self.state {
            GzipState::Empty | GzipState::Between | GzipState::Junk => Ok(()),
            GzipState::Fixed { len: 1, .. } if self.has_member => Ok(()),
            _ => Err(Fault::Cut),
        }
    }

    fn step_wrapper(&mut self, byte: u8) -> Result<GzipState, Fault> {
        use GzipState::*;
        Ok(match self.state {
            Empty if byte != 0x1f => return Err(Fault::Corrupt),
            Between if byte != 0x1f => Junk,
            Empty | Between => Fixed { flags: 0, len: 1 },
            Fixed { len: 1, .. } if byte != 0x8b && self.has_member => Junk,
            Fixed { len: 1, .. } if byte != 0x8b => return Err(Fault::Corrupt),
            Fixed { len: 2, .. } if byte != 8 => return Err(Fault::Corrupt),
            Fixed { len: 3, .. } if byte & FLAGS_RESERVED != 0 => return Err(Fault::Corrupt),
            Fixed { len: 3, .. } => Fixed { flags: byte, len: 4 },
            Fixed { flags, len: 9 } => Gzip::after_fixed(flags),
            Fixed { flags, len } => Fixed { flags, len: len + 1 },
            ExtraLen { flags, count: 0, .. } => ExtraLen { flags, len: u16::from(byte), count: 1 },
            ExtraLen { flags, len, .. } => match len | u16::from(byte) << 8 {
                0 => Gzip::after_extra(flags),
                left => Extra { flags, left },
            },
            Extra { flags, left: 1 } => Gzip::after_extra(flags),
            Extra { flags, left } => Extra { flags, left: left - 1 },
            Name { flags } if byte == 0 => Gzip::after_name(flags),
            Comment { flags } if byte == 0 => Gzip::after_comment(flags),
            HeaderChecksum { left: 1 } => Data,
            HeaderChecksum { left } => HeaderChecksum { left: left - 1 },
            Trailer { mut bytes, len } => {
                bytes[usize::from(len)] = byte;
                if len == 7 { self.end_member(bytes)? } else { Trailer { bytes, len: len + 1 } }
            }
            Name { flags } => Name { flags },
            Comment { flags } => Comment { flags },
            Data => Data,
            Junk => Junk,
        })
    }

    fn after_fixed(flags: u8) -> GzipState {
        match flags & FLAG_EXTRA {
            0 => Gzip::after_extra(flags),
            _ => GzipState::ExtraLen { flags, len: 0, count: 0 },
        }
    }

    fn after_extra(flags: u8) -> GzipState {
        match flags & FLAG_NAME {
            0 => Gzip::after_name(flags),
            _ => GzipState::Name { flags },
        }
    }

    fn after_name(flags: u8) -> GzipState {
        match flags & FLAG_COMMENT {
            0 => Gzip::after_comment(flags),
            _ => GzipState::Comment { flags },
        }
    }

    fn after_comment(flags: u8) -> GzipState {
        match flags & FLAG_CHECKSUM {
            0 => GzipState::Data,
            _ => GzipState::HeaderChecksum { left: 2 },
        }
    }

    /// Checks a member's CRC and size, and resets the context for another member.
    fn end_member(&mut self, trailer: [u8; 8]) -> Result<GzipState, Fault> {
        let [c0, c1, c2, c3, s0, s1, s2, s3] = trailer;
        let checksum = std::mem::take(&mut self.checksum).finalize();
        let size = std::mem::take(&mut self.size);
        if u32::from_le_bytes([c0, c1, c2, c3]) != checksum
            || u32::from_le_bytes([s0, s1, s2, s3]) != size
        {
            return Err(Fault::Corrupt);
        }
        self.inflate.reset(false);
        self.has_member = true;
        Ok(GzipState::Between)
    }
}

/// Decodes `Content-Encoding: deflate`: zlib by the RFC, but raw DEFLATE from servers that took the
/// name literally.
pub(super) struct Deflate {
    state: DeflateState,
    inflate: Decompress,
}

#[derive(Clone, Copy)]
enum DeflateState {
    Empty,
    /// The first byte, held until the second one distinguishes zlib from raw.
    First(u8),
    Data,
    End,
}

impl Deflate {
    pub(super) fn new(inflate: Decompress) -> Deflate {
        Deflate { state: DeflateState::Empty, inflate }
    }

    pub(super) fn into_inflate(self) -> Decompress {
        self.inflate
    }

    pub(super) fn push(
        &mut self,
        mut input: &[u8],
        scratch: &mut [u8],
        output: Output<'_>,
    ) -> Result<(), Fault> {
        while let Some(&byte) = input.first() {
            match self.state {
                DeflateState::Empty => {
                    self.state = DeflateState::First(byte);
                    input = &input[1..];
                }
                DeflateState::First(first) => {
                    self.inflate.reset(is_zlib_header(first, byte));
                    self.state = DeflateState::Data;
                    self.data(&[first], scratch, output)?;
                }
                DeflateState::Data => return self.data(input, scratch, output),
                // Bytes behind the end are ignored, as behind gzip members.
                DeflateState::End => return Ok(()),
            }
        }
        Ok(())
    }

    fn data(&mut self, input: &[u8], scratch: &mut [u8], output: Output<'_>) -> Result<(), Fault> {
        if inflate(&mut self.inflate, input, scratch, output)?.is_some() {
            self.state = DeflateState::End;
        }
        Ok(())
    }

    pub(super) fn finish(&self) -> Result<(), Fault> {
        match self.state {
            DeflateState::Empty | DeflateState::End => Ok(()),
            DeflateState::First(_) | DeflateState::Data => Err(Fault::Cut),
        }
    }
}

/// Reports whether these are a zlib header. RFC 1950 2.2: method 8, window up to 32 KiB, and both
/// bytes together are a multiple of 31.
fn is_zlib_header(first: u8, second: u8) -> bool {
    first & 0x0f == 8 && first >> 4 <= 7 && u16::from_be_bytes([first, second]).is_multiple_of(31)
}

/// Inflates `input`. Returns the rest of it if the DEFLATE stream has ended, else `None`.
fn inflate<'i>(
    context: &mut Decompress,
    mut input: &'i [u8],
    scratch: &mut [u8],
    output: Output<'_>,
) -> Result<Option<&'i [u8]>, Fault> {
    loop {
        let (in_before, out_before) = (context.total_in(), context.total_out());
        let status = context.decompress(input, scratch, FlushDecompress::None);
        let used = (context.total_in() - in_before) as usize;
        let made = (context.total_out() - out_before) as usize;
        input = &input[used..];
        if made > 0 {
            output(&scratch[..made])?;
        }
        match status {
            Err(_) => return Err(Fault::Corrupt),
            Ok(Status::StreamEnd) => return Ok(Some(input)),
            // A full scratch buffer may mean that more output waits, even without input.
            Ok(_) if made == scratch.len() || (!input.is_empty() && used + made > 0) => {}
            Ok(_) if input.is_empty() => return Ok(None),
            Ok(_) => return Err(Fault::Corrupt),
        }
    }
}

//! DNS over TCP (RFC 1035 4.2.2): each message follows its length in two bytes.

use super::DnsError;
use crate::base::limits::DNS_TCP_BYTES_MAX;

/// The fixed part of every message; a shorter frame holds no message.
const HEADER_BYTES: usize = 12;

/// Writes `message` with its length to `out`, replacing what was in it.
pub fn encode_frame(message: &[u8], out: &mut Vec<u8>) -> Result<(), DnsError> {
    let len = u16::try_from(message.len()).map_err(|_| DnsError::FrameSize)?;
    out.clear();
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(message);
    Ok(())
}

/// Takes messages out of a byte stream, however the stream is cut into pieces.
#[derive(Debug, Default)]
pub struct FrameReader {
    /// The bytes of the length that have come.
    prefix: [u8; 2],
    prefix_count: usize,
    message: Vec<u8>,
    is_done: bool,
}

impl FrameReader {
    pub fn new() -> FrameReader {
        FrameReader::default()
    }

    /// Takes bytes from the front of `piece` up to the end of the next message, and returns that
    /// message if it is whole. To be called again while `piece` is not empty. After an error no
    /// more frames can be found in the stream: close it.
    pub fn push(&mut self, piece: &mut &[u8]) -> Result<Option<&[u8]>, DnsError> {
        if self.is_done {
            self.message.clear();
            self.prefix_count = 0;
            self.is_done = false;
        }
        while self.prefix_count < 2 {
            let Some((&byte, rest)) = piece.split_first() else { return Ok(None) };
            self.prefix[self.prefix_count] = byte;
            self.prefix_count += 1;
            *piece = rest;
        }
        let len = usize::from(u16::from_be_bytes(self.prefix));
        if !(HEADER_BYTES..=DNS_TCP_BYTES_MAX).contains(&len) {
            return Err(DnsError::FrameSize);
        }
        let take = (len - self.message.len()).min(piece.len());
        self.message.extend_from_slice(&piece[..take]);
        *piece = &piece[take..];
        self.is_done = self.message.len() == len;
        Ok(self.is_done.then_some(self.message.as_slice()))
    }

    /// Reports whether the stream is between messages, where the peer may close without cutting
    /// one.
    pub fn is_between_frames(&self) -> bool {
        self.is_done || self.prefix_count == 0
    }
}

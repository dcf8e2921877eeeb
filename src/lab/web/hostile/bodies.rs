//! Servers whose bodies are decompression bombs, broken codings or huge pages.
//!
//! A bomb is a few bytes that repeat, so that the server needs no more memory than its victim
//! should.

use super::Ask;
use super::script::{End, Script};
use flate2::{Compress, Compression, FlushCompress};
use std::fmt::Write as _;
use std::io::Write;

/// How many bytes a bomb unpacks to, if the client reads all of it.
const BOMB_BYTES: u64 = 10 * 1024 * 1024 * 1024;
const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const LINK_COUNT: u32 = 1_000_000;
const NESTED_COUNT: usize = 1_000_000;
const ATTRIBUTE_BYTES: u64 = 10 * 1024 * 1024;

fn coded(coding: &str, body_bytes: u64) -> Script {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: {coding}\r\n\
         Content-Length: {body_bytes}\r\n\r\n"
    );
    Script::raw(200, head)
}

/// Sends `start`, then `unit` `count` times.
fn bomb(coding: &str, start: &[u8], unit: &[u8], count: u64) -> Script {
    coded(coding, start.len() as u64 + unit.len() as u64 * count).send(start).repeat(unit, count)
}

/// Sends blocks that each unpack to a mebibyte of blanks; a full flush makes each block
/// independent. Deflate packs no more than a thousand to one, so this bomb unpacks to only 1 GB.
pub(super) fn bomb_gzip(_: &Ask<'_>) -> Script {
    let blanks = vec![b' '; 1024 * 1024];
    let mut block = Vec::with_capacity(8 * 1024);
    let mut deflate = Compress::new(Compression::best(), false);
    // The output is in memory and has room enough, so this cannot fail.
    let _ = deflate.compress_vec(&blanks, &mut block, FlushCompress::Full);
    bomb("gzip", &GZIP_HEAD, &block, BOMB_BYTES / 10 / blanks.len() as u64)
}

/// RFC 8878 3.1.1.2: a run-length block is four bytes for up to 128 KiB.
pub(super) fn bomb_zstd(_: &Ask<'_>) -> Script {
    // Window descriptor: 2^(10 + 7) bytes.
    let start = [&ZSTD_MAGIC[..], &[0, 7 << 3]].concat();
    let block_bytes: u32 = 128 * 1024;
    let header = (block_bytes << 3) | (1 << 1);
    let [first, second, third, _] = header.to_le_bytes();
    let block = [first, second, third, b' '];
    bomb("zstd", &start, &block.repeat(64), BOMB_BYTES / u64::from(block_bytes) / 64)
}

/// Sends what an encoder makes of 16 MiB of blanks, flushed, after others of the same (RFC 7932
/// 9.2).
pub(super) fn bomb_br(_: &Ask<'_>) -> Script {
    bomb("br", &BROTLI_START, &BROTLI_BLOCK, BOMB_BYTES / (16 * 1024 * 1024))
}

#[rustfmt::skip]
const BROTLI_START: [u8; 27] = [
    0xcb, 0xff, 0xff, 0x3f, 0x00, 0x24, 0x40, 0xe2, 0xb1, 0x40, 0x72, 0xef, 0xff, 0xf8,
    0xff, 0xff, 0x07, 0x80, 0x04, 0x40, 0x1c, 0x16, 0x80, 0xee, 0xfd, 0x9f, 0x01,
];
#[rustfmt::skip]
const BROTLI_BLOCK: [u8; 26] = [
    0xfc, 0xff, 0xff, 0x03, 0x40, 0x02, 0x20, 0x0e, 0x0b, 0x40, 0xf7, 0xfe, 0x8f,
    0xff, 0xff, 0x7f, 0x00, 0x48, 0x00, 0xc4, 0x61, 0x01, 0xe8, 0xde, 0xff, 0x19,
];

/// Declares ten layers of gzip; a client would have to undo each to see the next.
pub(super) fn codings_ten(_: &Ask<'_>) -> Script {
    let body = b"nobody will ever know";
    coded(&["gzip"; 10].join(", "), body.len() as u64).send(*body)
}

/// Sends a frame that asks for 2 GiB of memory to unpack five bytes.
pub(super) fn zstd_window(_: &Ask<'_>) -> Script {
    let block: [u8; 3] = [5 << 3 | 1, 0, 0];
    let frame = [&ZSTD_MAGIC[..], &[0, 21 << 3], &block, b"hello"].concat();
    coded("zstd", frame.len() as u64).send(frame)
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to a Vec does not fail.
    let _ = encoder.write_all(body);
    encoder.finish().unwrap_or_default()
}

/// Makes text that does not repeat, so that half of the packed bytes are half of the text.
fn prose() -> String {
    (0..4_000u32).map(|n| format!("word{:x} ", n.wrapping_mul(2_654_435_761))).collect()
}

pub(super) fn gzip_corrupt(_: &Ask<'_>) -> Script {
    let mut body = gzip(prose().as_bytes());
    let middle = body.len() / 2;
    body[middle..middle + 64].fill(0xff);
    coded("gzip", body.len() as u64).send(body)
}

/// Sends half of a gzip body with a Content-Length that is right for the half. Only the coding
/// shows that something is missing.
pub(super) fn gzip_cut(_: &Ask<'_>) -> Script {
    let mut body = gzip(prose().as_bytes());
    body.truncate(body.len() / 2);
    coded("gzip", body.len() as u64).send(body)
}

pub(super) fn links_million(ask: &Ask<'_>) -> Script {
    if ask.target != "/" {
        return super::framing::genuine(ask);
    }
    let mut page = String::with_capacity(LINK_COUNT as usize * 15);
    for link in 0..LINK_COUNT {
        page.push_str("<a href=");
        page.push_str(&link.to_string());
        page.push('>');
    }
    let body = gzip(page.as_bytes());
    coded("gzip", body.len() as u64).send(body)
}

pub(super) const CROWDED_LINK_COUNT: u32 = 20_000;

pub(super) fn links_crowded(ask: &Ask<'_>) -> Script {
    if ask.target != "/" {
        return super::framing::genuine(ask);
    }
    let mut page = String::new();
    for link in 0..CROWDED_LINK_COUNT {
        // Writing to a String does not fail.
        let _ = write!(
            page,
            "<link rel=stylesheet href=/{link}.css><a href=data:,{link}>d</a>\
             <a href=/0#{link}>a</a><a rel=nofollow href=/n{link}>n</a><a href=/{link}>{link}</a>"
        );
    }
    let body = gzip(page.as_bytes());
    coded("gzip", body.len() as u64).send(body)
}

pub(super) fn links_head(ask: &Ask<'_>) -> Script {
    if ask.target != "/" {
        return super::framing::genuine(ask);
    }
    let mut fields = String::new();
    for field in 0..30 {
        fields.push_str("Link: ,,");
        for link in 0..20 {
            // Writing to a String does not fail.
            let _ = write!(fields, "</{field},{link}>; title=\"\\\", <x>\"; rel=\"next\",");
        }
        fields.push_str("<unended>; rel=\"\r\n");
    }
    Script::with_fields(200, &fields, b"<p>a page with a long head").then(End::Close)
}

pub(super) fn attribute_huge(_: &Ask<'_>) -> Script {
    let piece = [b'a'; 64 * 1024];
    Script::raw(200, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<a title=\"")
        .repeat(piece, ATTRIBUTE_BYTES / piece.len() as u64)
        .send("\" href=/after>after</a>")
        .then(End::Close)
}

pub(super) fn tags_nested(_: &Ask<'_>) -> Script {
    Script::page(&"<b>".repeat(NESTED_COUNT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::web::hostile::script::Step;
    use crate::proto::http::{Coding, DecodeError, Decoder};

    /// Returns how many bytes of a script's body were decoded, and the decoder's verdict on it.
    fn decode(script: &Script, coding: &str) -> (usize, Result<(), DecodeError>) {
        let mut decoder = match Decoder::new(coding.as_bytes()) {
            Ok(decoder) => decoder,
            Err(error) => return (0, Err(error)),
        };
        let mut decoded_bytes = 0;
        for step in &script.steps[1..] {
            let (piece, count) = match step {
                Step::Send(bytes) => (bytes, 1),
                Step::Repeat { bytes, count, .. } => (bytes, *count),
                Step::Pause { .. } => continue,
            };
            for _ in 0..count {
                if let Err(error) = decoder.push(piece, &mut |out| decoded_bytes += out.len()) {
                    return (decoded_bytes, Err(error));
                }
            }
        }
        (decoded_bytes, decoder.finish())
    }

    fn ask() -> Ask<'static> {
        Ask::of("/")
    }

    #[test]
    fn bombs_are_bombs_and_the_rest_is_broken_as_its_row_says() {
        for (script, coding) in
            [(bomb_gzip(&ask()), "gzip"), (bomb_br(&ask()), "br"), (bomb_zstd(&ask()), "zstd")]
        {
            let (decoded_bytes, verdict) = decode(&script, coding);
            assert_eq!(verdict, Err(DecodeError::Bomb), "{coding}");
            assert!(decoded_bytes > 0, "{coding} unpacks");
        }
        let corrupt = decode(&gzip_corrupt(&ask()), "gzip");
        assert_eq!(corrupt.1, Err(DecodeError::Corrupt(Coding::Gzip)));
        let (cut_bytes, cut) = decode(&gzip_cut(&ask()), "gzip");
        assert!(cut_bytes > 10_000 && cut == Err(DecodeError::Cut(Coding::Gzip)), "{cut:?}");
        let window = decode(&zstd_window(&ask()), "zstd").1;
        assert_eq!(window, Err(DecodeError::WindowTooLarge));
        assert_eq!(decode(&links_million(&ask()), "gzip").1, Ok(()));
    }
}

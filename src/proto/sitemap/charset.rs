//! Turns the bytes of a sitemap into UTF-8.
//!
//! The sources of the charset, the strongest first (RFC 7303 3.2): byte order mark, charset of the
//! Content-Type header, XML declaration; without any of them it is UTF-8. UTF-8 passes through
//! unchecked and without a copy: those who take it replace what is malformed. At most
//! [`SITEMAP_DECLARATION_BYTES_MAX`] bytes are held back, and only while they may still be a
//! declaration.

use crate::base::limits::SITEMAP_DECLARATION_BYTES_MAX;
use encoding_rs::{CoderResult, Encoding, UTF_8};

const BOM_BYTES_MAX: usize = 3;
const DECLARATION: &[u8] = b"<?xml";
const OUT_BYTES: usize = 4 * 1024;

enum Stage {
    /// Nothing is decided yet; the bytes so far are in `held`.
    Start,
    Utf8,
    Legacy(Box<encoding_rs::Decoder>),
}

pub struct Decoder {
    stage: Stage,
    header: Option<&'static Encoding>,
    held: Vec<u8>,
}

impl Decoder {
    /// Makes a decoder. `header_label` is the charset of the Content-Type header; an unknown label
    /// counts as none.
    pub fn new(header_label: Option<&str>) -> Decoder {
        let header = header_label.and_then(|label| Encoding::for_label(label.as_bytes()));
        Decoder { stage: Stage::Start, header, held: Vec::new() }
    }

    pub fn push(&mut self, bytes: &[u8], take: &mut impl FnMut(&[u8])) {
        let Stage::Start = self.stage else { return self.flow(bytes, false, take) };
        let room = SITEMAP_DECLARATION_BYTES_MAX - self.held.len();
        let (head, rest) = bytes.split_at(bytes.len().min(room));
        self.held.extend_from_slice(head);
        if self.is_decidable() {
            self.begin(take);
            self.flow(rest, false, take);
        }
    }

    pub fn finish(&mut self, take: &mut impl FnMut(&[u8])) {
        if let Stage::Start = self.stage {
            self.begin(take);
        }
        self.flow(&[], true, take);
    }

    /// Reports whether the charset can be decided, because more bytes could not change it.
    fn is_decidable(&self) -> bool {
        let held = &self.held;
        if held.len() < BOM_BYTES_MAX {
            return false;
        }
        let is_declaration =
            held.starts_with(DECLARATION) || DECLARATION.starts_with(held.as_slice());
        let ends = memchr::memchr(b'>', held).is_some();
        self.header.is_some()
            || !is_declaration
            || ends
            || held.len() == SITEMAP_DECLARATION_BYTES_MAX
    }

    fn begin(&mut self, take: &mut impl FnMut(&[u8])) {
        let held = std::mem::take(&mut self.held);
        let (encoding, bom_bytes) = match Encoding::for_bom(&held) {
            Some(found) => found,
            None => (self.header.or_else(|| declared(&held)).unwrap_or(UTF_8), 0),
        };
        self.stage = if encoding == UTF_8 {
            Stage::Utf8
        } else {
            Stage::Legacy(Box::new(encoding.new_decoder_without_bom_handling()))
        };
        self.flow(&held[bom_bytes..], false, take);
    }

    fn flow(&mut self, bytes: &[u8], last: bool, take: &mut impl FnMut(&[u8])) {
        match &mut self.stage {
            Stage::Legacy(decoder) => transcode(decoder, bytes, last, take),
            Stage::Utf8 if !bytes.is_empty() => take(bytes),
            Stage::Utf8 | Stage::Start => {}
        }
    }
}

fn transcode(
    decoder: &mut encoding_rs::Decoder,
    mut bytes: &[u8],
    last: bool,
    take: &mut impl FnMut(&[u8]),
) {
    let mut out = [0; OUT_BYTES];
    loop {
        let (result, used, made, _) = decoder.decode_to_utf8(bytes, &mut out, last);
        if made > 0 {
            take(&out[..made]);
        }
        bytes = &bytes[used..];
        if result == CoderResult::InputEmpty {
            return;
        }
    }
}

/// Returns the encoding that an XML declaration at the very beginning names. A declaration of
/// UTF-16 in bytes that read as ASCII is wrong; UTF-8 is assumed then (as WHATWG does for `meta`).
fn declared(head: &[u8]) -> Option<&'static Encoding> {
    let declaration = head.strip_prefix(DECLARATION)?;
    let declaration = &declaration[..memchr::memchr(b'>', declaration)?];
    let at = memchr::memmem::find(declaration, b"encoding")? + b"encoding".len();
    let rest = declaration[at..].trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
    let (quote, rest) = rest.split_first()?;
    let label = &rest[..memchr::memchr(*quote, rest)?];
    matches!(quote, b'"' | b'\'').then(|| Encoding::for_label(label))?.map(|found| {
        if found == encoding_rs::UTF_16LE || found == encoding_rs::UTF_16BE { UTF_8 } else { found }
    })
}

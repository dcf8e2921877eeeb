//! Turns the bytes of a page into UTF-8: finds the charset, and transcodes what is not UTF-8
//! already.
//!
//! A [`Decoder`] owns the undecided bytes of one page; bytes flow in, UTF-8 flows to the caller's
//! `take`. The sources of the charset, the strongest first (WHATWG Encoding "decode", WHATWG HTML
//! 13.2.3):
//!
//! 1. a byte order mark
//! 2. the Content-Type header
//! 3. a `meta` in the first [`CHARSET_SNIFF_BYTES`]
//! 4. a `meta` that is met later, while all was still ASCII, or in the [`CHARSET_GUESS_BYTES`] from
//!    the first byte that is not ASCII
//! 5. chardetng's guess over those [`CHARSET_GUESS_BYTES`]
//!
//! Up to the first byte beyond ASCII every charset reads the same, so undecided pages stream on
//! until then.
//!
//! UTF-8 passes through without a copy and unchecked: those who take it replace what is malformed.
//! At most the bytes of one of the two bounds are held back at a time. A decoder belongs to one
//! core.

use super::prescan::prescan;
use crate::base::limits::{CHARSET_GUESS_BYTES, CHARSET_SNIFF_BYTES};
use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{CoderResult, Encoding, UTF_8, WINDOWS_1252};

/// The longest byte order mark. No more need be seen if the header has named the charset.
const BOM_BYTES_MAX: usize = 3;
const OUT_BYTES: usize = 8 * 1024;

enum Stage {
    /// Waiting for enough bytes to sniff; they are in `held`.
    Start,
    /// Nothing was declared, and nothing but ASCII has come.
    Ascii,
    /// The bytes for the guess are collected in `held`.
    Guess,
    Utf8,
    Legacy(Box<encoding_rs::Decoder>),
}

/// Decodes one page. Fed with [`push`](Decoder::push), it calls `take` with UTF-8; `take` returns
/// the charset that the page has declared so far, if any.
pub struct Decoder {
    stage: Stage,
    header: Option<&'static Encoding>,
    encoding: &'static Encoding,
    held: Vec<u8>,
    out: Vec<u8>,
}

impl Default for Decoder {
    /// Makes a decoder for a page without a charset in its header.
    #[inline]
    fn default() -> Decoder {
        Decoder {
            stage: Stage::Start,
            header: None,
            encoding: WINDOWS_1252,
            held: Vec::new(),
            out: Vec::new(),
        }
    }
}

impl Decoder {
    /// Makes a decoder. `header_label` is the charset parameter of the Content-Type header. An
    /// unknown label counts as none.
    pub fn new(header_label: Option<&str>) -> Decoder {
        let header = header_label.and_then(|label| Encoding::for_label(label.as_bytes()));
        Decoder { header, ..Decoder::default() }
    }

    /// Returns the charset as far as it is known; it is final once bytes beyond ASCII have come.
    pub fn charset(&self) -> &'static str {
        self.encoding.name()
    }

    pub fn push<F>(&mut self, bytes: &[u8], take: &mut F)
    where
        F: FnMut(&[u8]) -> Option<&'static Encoding>,
    {
        let Stage::Start = self.stage else {
            return self.flow(bytes, take);
        };
        let needed = if self.header.is_some() { BOM_BYTES_MAX } else { CHARSET_SNIFF_BYTES };
        if self.held.is_empty() && bytes.len() >= needed {
            let bom_len = self.sniff(bytes);
            return self.flow(&bytes[bom_len..], take);
        }
        let (head, rest) = bytes.split_at(bytes.len().min(needed - self.held.len()));
        self.held.extend_from_slice(head);
        if self.held.len() == needed {
            self.sniff_held(take);
            self.flow(rest, take);
        }
    }

    pub fn finish<F>(&mut self, take: &mut F)
    where
        F: FnMut(&[u8]) -> Option<&'static Encoding>,
    {
        if let Stage::Start = self.stage {
            self.sniff_held(take);
        }
        if let Stage::Guess = self.stage {
            self.guess(true, take);
        }
        if let Stage::Legacy(_) = self.stage {
            self.transcode(&[], true, take);
        }
    }

    fn sniff_held<F>(&mut self, take: &mut F)
    where
        F: FnMut(&[u8]) -> Option<&'static Encoding>,
    {
        let held = std::mem::take(&mut self.held);
        let bom_len = self.sniff(&held);
        self.flow(&held[bom_len..], take);
    }

    /// Decides what can be decided at the page's beginning; returns the length of its byte order
    /// mark.
    fn sniff(&mut self, head: &[u8]) -> usize {
        if let Some((encoding, bom_len)) = Encoding::for_bom(head) {
            self.settle(encoding);
            return bom_len;
        }
        let sniffed = &head[..head.len().min(CHARSET_SNIFF_BYTES)];
        match self.header.or_else(|| prescan(sniffed)) {
            Some(encoding) => self.settle(encoding),
            None => self.stage = Stage::Ascii,
        }
        0
    }

    fn settle(&mut self, encoding: &'static Encoding) {
        self.encoding = encoding;
        self.stage = if encoding == UTF_8 {
            Stage::Utf8
        } else {
            Stage::Legacy(Box::new(encoding.new_decoder_without_bom_handling()))
        };
    }

    fn flow<F>(&mut self, bytes: &[u8], take: &mut F)
    where
        F: FnMut(&[u8]) -> Option<&'static Encoding>,
    {
        match self.stage {
            Stage::Utf8 => {
                take(bytes);
            }
            Stage::Legacy(_) => self.transcode(bytes, false, take),
            Stage::Ascii => self.flow_ascii(bytes, take),
            Stage::Guess | Stage::Start => {
                let room = CHARSET_GUESS_BYTES - self.held.len();
                let (head, rest) = bytes.split_at(bytes.len().min(room));
                self.held.extend_from_slice(head);
                if self.held.len() == CHARSET_GUESS_BYTES {
                    self.guess(false, take);
                    self.flow(rest, take);
                }
            }
        }
    }

    fn flow_ascii<F>(&mut self, bytes: &[u8], take: &mut F)
    where
        F: FnMut(&[u8]) -> Option<&'static Encoding>,
    {
        let plain = Encoding::ascii_valid_up_to(bytes);
        // An escape byte may begin ISO-2022-JP, which has only seven-bit bytes.
        let plain = memchr::memchr(0x1B, &bytes[..plain]).unwrap_or(plain);
        let (plain, rest) = bytes.split_at(plain);
        // A declaration found here takes effect at the first byte that is not plain ASCII, and not
        // at the end of this chunk. Otherwise the cut would matter: `iso-2022-kr`, which is never
        // decoded, would blot out even the ASCII behind it.
        let declared = take(plain);
        self.encoding = declared.unwrap_or(self.encoding);
        if rest.is_empty() {
            return;
        }
        match declared {
            Some(encoding) => self.settle(encoding),
            None => self.stage = Stage::Guess,
        }
        self.flow(rest, take);
    }

    fn guess<F>(&mut self, last: bool, take: &mut F)
    where
        F: FnMut(&[u8]) -> Option<&'static Encoding>,
    {
        // The title may stand before the meta: a late declaration is better than a guess.
        let encoding = prescan(&self.held).unwrap_or_else(|| {
            let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
            detector.feed(&self.held, last);
            detector.guess(None, Utf8Detection::Allow)
        });
        self.settle(encoding);
        let held = std::mem::take(&mut self.held);
        self.flow(&held, take);
    }

    fn transcode<F>(&mut self, mut bytes: &[u8], last: bool, take: &mut F)
    where
        F: FnMut(&[u8]) -> Option<&'static Encoding>,
    {
        let Stage::Legacy(decoder) = &mut self.stage else {
            return;
        };
        self.out.resize(OUT_BYTES, 0);
        loop {
            let (result, read, written, _) = decoder.decode_to_utf8(bytes, &mut self.out, last);
            bytes = &bytes[read..];
            if written > 0 {
                take(&self.out[..written]);
            }
            if result == CoderResult::InputEmpty {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(header: Option<&str>, chunks: &[&[u8]]) -> (String, &'static str) {
        let mut decoder = Decoder::new(header);
        let mut out = Vec::new();
        let mut take = |piece: &[u8]| {
            out.extend_from_slice(piece);
            None
        };
        chunks.iter().for_each(|chunk| decoder.push(chunk, &mut take));
        decoder.finish(&mut take);
        (String::from_utf8_lossy(&out).into_owned(), decoder.charset())
    }

    #[test]
    fn a_byte_order_mark_beats_the_header_and_the_header_beats_meta() {
        let meta = b"<meta charset=koi8-r>\xE9";
        assert_eq!(decode(Some("latin1"), &[b"\xEF\xBB\xBF\xC3\xA9"]), ("é".into(), "UTF-8"));
        assert_eq!(decode(None, &[b"\xFE\xFF\0a\0b"]), ("ab".into(), "UTF-16BE"));
        assert_eq!(decode(Some("iso-8859-1"), &[meta]).1, "windows-1252");
        assert_eq!(decode(Some("no such"), &[meta]).1, "KOI8-R");
    }

    #[test]
    fn undeclared_pages_are_guessed_from_their_first_byte_beyond_ascii() {
        let ascii = "word ".repeat(1_000);
        let russian = "Привет, это обычный русский текст без объявления.";
        let utf8 = format!("{ascii}{russian}");
        assert_eq!(decode(None, &[utf8.as_bytes()]), (utf8.clone(), "UTF-8"));
        let (legacy, _, _) = encoding_rs::WINDOWS_1251.encode(&utf8);
        assert_eq!(decode(None, &[&legacy]), (utf8.clone(), "windows-1251"));
        let bytes: Vec<_> = legacy.chunks(1).collect();
        assert_eq!(decode(None, &bytes), (utf8, "windows-1251"));
        assert_eq!(decode(None, &[ascii.as_bytes()]).1, "windows-1252");
    }

    #[test]
    fn a_declaration_found_late_by_the_parser_holds() {
        let mut decoder = Decoder::new(None);
        let mut out = Vec::new();
        let mut take = |piece: &[u8]| {
            out.extend_from_slice(piece);
            out.ends_with(b"<meta>").then_some(encoding_rs::KOI8_R)
        };
        let page = [" ".repeat(5_000).as_bytes(), b"<meta>\xC1"].concat();
        decoder.push(&page, &mut take);
        decoder.finish(&mut take);
        assert_eq!(decoder.charset(), "KOI8-R");
        assert!(out.ends_with("<meta>а".as_bytes()));
    }

    #[test]
    fn a_late_declaration_holds_from_the_same_byte_in_any_chunks() {
        let read = |label: &'static Encoding, chunk_bytes: usize| {
            let mut decoder = Decoder::new(None);
            let mut out = Vec::new();
            let mut take = |piece: &[u8]| {
                out.extend_from_slice(piece);
                memchr::memmem::find(&out, b"<meta>").map(|_| label)
            };
            let page = [" ".repeat(2_000).as_bytes(), b"<meta>plain\x0e still\xC1."].concat();
            page.chunks(chunk_bytes).for_each(|chunk| decoder.push(chunk, &mut take));
            decoder.finish(&mut take);
            (String::from_utf8_lossy(&out[2_000..]).into_owned(), decoder.charset())
        };
        for label in [encoding_rs::REPLACEMENT, encoding_rs::ISO_2022_JP, encoding_rs::KOI8_R] {
            let whole = read(label, usize::MAX);
            assert!(whole.0.starts_with("<meta>plain\x0e still"), "{whole:?}");
            assert_eq!(whole.1, label.name());
            for chunk_bytes in [1, 7, 2_010] {
                assert_eq!(read(label, chunk_bytes), whole, "chunks of {chunk_bytes}");
            }
        }
    }

    #[test]
    fn characters_cut_by_chunks_are_whole_again() {
        let (text, _, _) = encoding_rs::SHIFT_JIS.encode("日本語のページ");
        let bytes: Vec<_> = text.chunks(1).collect();
        assert_eq!(decode(Some("shift_jis"), &bytes).0, "日本語のページ");
        // A character that is never completed is replaced.
        assert_eq!(decode(Some("shift_jis"), &[&text[..3]]).0, "日\u{fffd}");
    }
}

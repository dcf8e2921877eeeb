//! CDXJ lines, which replay tools look up: one line per response, `key timestamp {json}`, sorted by
//! bytes.
//!
//! Fields and spelling (numbers as strings) are pywb's, so its tools can read the lines unchanged.
//! `simhash`, `near`, `undecoded` and `links_left_out` are ours; readers skip fields they do not
//! know.

use super::digest::{Sha1, push_labelled};
use super::surt;
use crate::base::{WallTime, text};
use crate::proto::url::Url;

/// The JSON key of [`CdxjLine::links_left_out`].
pub const LINKS_LEFT_OUT_KEY: &str = "links_left_out";

/// The contents of one line.
#[derive(Clone, Copy, Debug)]
pub struct CdxjLine<'a> {
    pub url: &'a Url,
    pub at: WallTime,
    /// The media type as the server gave it, without parameters. Unused for a revisit.
    pub mime: &'a str,
    pub status: u16,
    pub digest: Sha1,
    pub revisit: bool,
    pub offset: u64,
    pub length: u64,
    pub filename: &'a str,
    pub simhash: Option<u64>,
    /// The page that this one nearly repeats.
    pub near: Option<u64>,
    /// Why the body's content coding could not be undone.
    pub undecoded: Option<&'static str>,
    /// Links beyond those that were followed; zero on nearly every page, and then not written.
    pub links_left_out: u32,
}

impl CdxjLine<'_> {
    /// Appends the line and its line feed.
    pub fn push(&self, out: &mut Vec<u8>) {
        surt::push_key(out, self.url);
        out.push(b' ');
        text::push_timestamp(out, self.at);
        out.extend_from_slice(b" {\"url\": ");
        push_json_string(out, self.url.as_str());
        out.extend_from_slice(b", \"mime\": ");
        let mime = if self.mime.is_empty() { "unk" } else { self.mime };
        push_json_string(out, if self.revisit { "warc/revisit" } else { mime });
        push_value(out, "status", |out| text::push_number(out, self.status.into()));
        push_value(out, "digest", |out| push_labelled(out, &self.digest));
        push_value(out, "length", |out| text::push_number(out, self.length));
        push_value(out, "offset", |out| text::push_number(out, self.offset));
        out.extend_from_slice(b", \"filename\": ");
        push_json_string(out, self.filename);
        for (name, value) in [("simhash", self.simhash), ("near", self.near)] {
            if let Some(value) = value {
                push_value(out, name, |out| text::push_hex(out, value.into(), 16));
            }
        }
        if let Some(why) = self.undecoded {
            push_value(out, "undecoded", |out| out.extend_from_slice(why.as_bytes()));
        }
        if self.links_left_out > 0 {
            push_value(out, LINKS_LEFT_OUT_KEY, |out| {
                text::push_number(out, self.links_left_out.into());
            });
        }
        out.extend_from_slice(b"}\n");
    }
}

/// Appends another field, whose value consists of characters that need no escape.
fn push_value(out: &mut Vec<u8>, name: &str, push: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(b", \"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\": \"");
    push(out);
    out.push(b'"');
}

/// Appends a JSON string (RFC 8259 7): quotes, backslashes and controls are escaped, the rest is
/// unchanged.
fn push_json_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    // Nearly every text passes this check, and then it is copied at once.
    if text.bytes().all(|byte| !matches!(byte, b'"' | b'\\' | 0..32 | 127)) {
        out.extend_from_slice(text.as_bytes());
        return out.push(b'"');
    }
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..32 | 127 => {
                out.extend_from_slice(b"\\u");
                text::push_hex(out, byte.into(), 4);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::warc::PayloadDigest;

    fn line(url: &Url) -> CdxjLine<'_> {
        CdxjLine {
            url,
            at: WallTime(1_767_225_599_000_000_000),
            mime: "text/html",
            status: 200,
            digest: PayloadDigest::of(b"abc"),
            revisit: false,
            offset: 512,
            length: 2048,
            filename: "nephila-1.warc.gz",
            simhash: None,
            near: None,
            undecoded: None,
            links_left_out: 0,
        }
    }

    fn text(line: &CdxjLine<'_>) -> String {
        let mut out = Vec::new();
        line.push(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_is_key_timestamp_and_json() {
        let url = Url::parse("http://www.example.com/A?b").unwrap();
        assert_eq!(
            text(&line(&url)),
            "com,example)/a?b 20251231235959 {\"url\": \"http://www.example.com/A?b\", \
             \"mime\": \"text/html\", \"status\": \"200\", \
             \"digest\": \"sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5\", \"length\": \"2048\", \
             \"offset\": \"512\", \"filename\": \"nephila-1.warc.gz\"}\n"
        );
    }

    #[test]
    fn revisits_and_fingerprints_are_marked() {
        let url = Url::parse("http://example.com/").unwrap();
        let mut line = line(&url);
        (line.revisit, line.simhash, line.near) = (true, Some(0xbeef), Some(7));
        let text = text(&line);
        assert!(text.contains("\"mime\": \"warc/revisit\""));
        assert!(
            text.ends_with("\"simhash\": \"000000000000beef\", \"near\": \"0000000000000007\"}\n")
        );
    }

    #[test]
    fn a_servers_media_type_cannot_break_the_json() {
        let url = Url::parse("http://example.com/").unwrap();
        for mime in ["a\"}\n{\\", "x\u{1}\t\u{7f}é", ""] {
            let text = text(&CdxjLine { mime, ..line(&url) });
            assert_eq!(text.matches('\n').count(), 1);
            let json = text.splitn(3, ' ').nth(2).unwrap();
            let value: serde_json::Value = serde_json::from_str(json).unwrap();
            assert_eq!(value["mime"], if mime.is_empty() { "unk" } else { mime });
        }
    }
}

//! Reads the body of a sitemap and collects the URLs that it lists.
//!
//! Sites serve packed sitemaps (`.xml.gz`) as files, not with a content coding. So a body that
//! begins with gzip's magic bytes is unpacked here, under the same limits as a content coding, so
//! that a decompression bomb is stopped in the same way. The URLs are kept in one buffer until they
//! are routed, bounded in number and in bytes. A reader belongs to one body, on one core.

use crate::base::limits::SITEMAP_KEPT_BYTES_MAX;
use crate::proto::http::{DecodeError, Decoder};
use crate::proto::sitemap::{Entry, Form, SitemapReader, Summary};

/// The first bytes of a gzip file (RFC 1952 2.3.1).
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];

/// The URLs that a sitemap listed, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    text: String,
    /// Where each URL ends in `text`.
    ends: Vec<u32>,
    pub summary: Summary,
    /// URLs beyond [`SITEMAP_KEPT_BYTES_MAX`], which are dropped.
    pub unkept_count: u32,
}

impl Listed {
    /// Reports whether the body is an index, which lists sitemaps and not pages.
    pub fn is_index(&self) -> bool {
        self.summary.form == Some(Form::Index)
    }

    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// Returns the listed URLs as they were written, not yet parsed.
    pub fn locs(&self) -> impl Iterator<Item = &str> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let loc = &self.text[start..*end as usize];
            start = *end as usize;
            loc
        })
    }

    fn keep(&mut self, entry: Entry<'_>) {
        if self.text.len() + entry.loc.len() > SITEMAP_KEPT_BYTES_MAX {
            self.unkept_count = self.unkept_count.saturating_add(1);
            return;
        }
        self.text.push_str(entry.loc);
        self.ends.push(self.text.len() as u32);
    }
}

/// Reads one sitemap, piece by piece.
pub struct ListReader {
    /// The first bytes, until there are enough to tell whether the body is packed.
    start: Vec<u8>,
    packing: Packing,
    reader: SitemapReader,
    listed: Listed,
    failed: Option<DecodeError>,
}

enum Packing {
    Unknown,
    None,
    Gzip(Decoder),
}

impl ListReader {
    /// Returns the memory for the URLs found so far and for unpacking.
    pub fn held_bytes(&self) -> usize {
        let listed_bytes = self.listed.text.capacity() + self.listed.ends.capacity() * 4;
        let unpacking_bytes = match &self.packing {
            Packing::Gzip(decoder) => decoder.held_bytes(),
            Packing::Unknown | Packing::None => 0,
        };
        self.start.capacity() + listed_bytes + unpacking_bytes
    }

    /// Creates a reader. `charset` comes from the Content-Type header.
    pub fn new(charset: Option<&str>) -> ListReader {
        ListReader {
            start: Vec::new(),
            packing: Packing::Unknown,
            reader: SitemapReader::new(charset),
            listed: Listed::default(),
            failed: None,
        }
    }

    /// Reads the next piece of the body, with the content coding removed.
    pub fn push(&mut self, piece: &[u8]) {
        if !matches!(self.packing, Packing::Unknown) {
            return self.unpack(piece);
        }
        let (head, rest) = piece.split_at(piece.len().min(GZIP_MAGIC.len() - self.start.len()));
        self.start.extend_from_slice(head);
        if self.start.len() == GZIP_MAGIC.len() {
            self.begin();
            self.unpack(rest);
        }
    }

    /// Ends the body. Returns `None` if it was no sitemap, and the error if it could not be
    /// unpacked to its end.
    pub fn finish(mut self) -> (Option<Listed>, Option<DecodeError>) {
        if matches!(self.packing, Packing::Unknown) {
            self.begin();
        }
        if let (Packing::Gzip(decoder), None) = (&mut self.packing, self.failed) {
            self.failed = decoder.finish().err();
        }
        let ListReader { reader, mut listed, failed, .. } = self;
        listed.summary = reader.finish(&mut |entry: Entry<'_>| listed.keep(entry));
        (listed.summary.form.is_some().then_some(listed), failed)
    }

    fn begin(&mut self) {
        let start = std::mem::take(&mut self.start);
        self.packing = if start == GZIP_MAGIC {
            match Decoder::new(b"gzip") {
                Ok(decoder) => Packing::Gzip(decoder),
                Err(error) => {
                    self.failed = Some(error);
                    Packing::None
                }
            }
        } else {
            Packing::None
        };
        self.unpack(&start);
    }

    fn unpack(&mut self, piece: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        let ListReader { packing, reader, listed, .. } = self;
        let mut take =
            |bytes: &[u8]| reader.push(bytes, &mut |entry: Entry<'_>| listed.keep(entry));
        match packing {
            Packing::Gzip(decoder) => self.failed = decoder.push(piece, &mut take).err(),
            Packing::Unknown | Packing::None => take(piece),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    }

    fn read(bytes: &[u8], piece_bytes: usize) -> (Option<Listed>, Option<DecodeError>) {
        let mut reader = ListReader::new(None);
        bytes.chunks(piece_bytes).for_each(|piece| reader.push(piece));
        reader.finish()
    }

    const LIST: &[u8] = b"<urlset><url><loc>http://a.test/1</loc></url>\
        <url><loc>http://a.test/2</loc></url></urlset>";

    #[test]
    fn a_packed_sitemap_lists_what_the_plain_one_does() {
        let (plain, failed) = read(LIST, LIST.len());
        let plain = plain.expect("a sitemap");
        assert_eq!(failed, None);
        assert_eq!(plain.locs().collect::<Vec<_>>(), ["http://a.test/1", "http://a.test/2"]);
        let packed = packed(LIST);
        for piece_bytes in [1, 2, 3, 7, packed.len()] {
            assert_eq!(read(&packed, piece_bytes), (Some(plain.clone()), None));
            assert_eq!(read(LIST, piece_bytes), (Some(plain.clone()), None));
        }
    }

    #[test]
    fn a_bomb_ends_at_the_decoders_cap_and_what_came_before_it_stands() {
        let mut text = LIST[..LIST.len() - b"</urlset>".len()].to_vec();
        text.resize(text.len() + (64 << 20), b' ');
        let (listed, failed) = read(&packed(&text), 4_096);
        assert_eq!(failed, Some(DecodeError::Bomb));
        assert_eq!(listed.expect("a sitemap").count(), 2);
    }

    #[test]
    fn a_torn_file_gives_what_it_has_and_one_that_is_none_gives_nothing() {
        let packed = packed(LIST);
        let (_, failed) = read(&packed[..packed.len() - 4], 5);
        assert!(matches!(failed, Some(DecodeError::Cut(_))), "{failed:?}");
        assert_eq!(read(b"<html></html>", 3), (None, None));
        assert_eq!(read(b"", 1), (None, None));
        assert_eq!(read(&[0x1f], 1), (None, None));
    }

    #[test]
    fn addresses_beyond_the_kept_bytes_are_counted() {
        let line = format!("http://a.test/{}\n", "x".repeat(4_000));
        let count = SITEMAP_KEPT_BYTES_MAX / 4_000;
        let (listed, _) = read(line.repeat(count).as_bytes(), 1 << 16);
        let listed = listed.expect("a list");
        assert_eq!(listed.count() + listed.unkept_count as usize, count);
        assert!(listed.unkept_count > 0 && listed.text.len() <= SITEMAP_KEPT_BYTES_MAX);
    }
}

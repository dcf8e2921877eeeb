//! The part of the store that touches no disk: it writes records into the filling buffer and index
//! lines beside them, and decides when a buffer is full and when a file is full.

use super::series::Stem;
use super::{Position, StoreSettings, StoredPage};
use crate::base::WallTime;
use crate::base::limits::{
    CDXJ_BYTES_MAX, DIRECT_BLOCK_BYTES, WRITE_BUFFER_BYTES, WRITE_BUFFER_OVER_BYTES,
};
use crate::proto::warc::{
    CdxjLine, PayloadDigest, Record, RecordId, RecordKind, RecordWriter, RefersTo,
};

/// Bytes for one file, in order, with the index of the file if they are its last.
pub(super) struct Batch {
    pub(super) stem: Stem,
    pub(super) bytes: Vec<u8>,
    /// Where the batch starts in `bytes`. The bytes before it only align the buffer.
    pub(super) from: usize,
    /// The series' byte count after this batch.
    pub(super) mark: u64,
    pub(super) ends_file: Option<Index>,
}

/// How much of the filling buffer goes into a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seal {
    /// Whole blocks of the file; the rest begins the next batch. The disk takes whole blocks in one
    /// write. A rest needs another write through the page cache, and its block needs one more
    /// later. At full load the end of each write is noticed one turn of the core late: 16 MB took
    /// 36 ms at the median in three writes, and take 14.5 ms in one.
    Blocks,
    /// All of the buffer.
    All,
    /// All of the buffer, and the file ends with it.
    EndFile,
}

/// The index lines of a file, in one allocation that is sorted only when the file ends.
#[derive(Default)]
pub(super) struct Index {
    text: Vec<u8>,
}

/// Gathers the records of one shard into buffers.
pub(super) struct Gatherer {
    settings: StoreSettings,
    shard: u16,
    next_serial: u32,
    /// The number of files that this process has begun.
    begun_count: u64,
    writer: RecordWriter,
    file: Option<FileUnderWay>,
    buffer: Vec<u8>,
    /// Where the gathered records start in the buffer.
    from: usize,
    mark: u64,
}

struct FileUnderWay {
    stem: Stem,
    warc_name: String,
    serial: u32,
    bytes: u64,
    index: Index,
}

/// Returns an empty buffer with its full capacity, so that only a last record of unusual size makes
/// it grow. A buffer that grows is moved to pages that have never been touched.
pub(super) fn new_buffer() -> Vec<u8> {
    Vec::with_capacity(WRITE_BUFFER_BYTES + WRITE_BUFFER_OVER_BYTES)
}

impl Index {
    pub(super) fn push(&mut self, line: &CdxjLine<'_>) {
        line.push(&mut self.text);
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Returns the lines in byte order, in pieces of about a write buffer each.
    pub(super) fn sorted_pieces(&self) -> impl Iterator<Item = Vec<u8>> {
        let mut starts = vec![0];
        starts.extend(memchr::memchr_iter(b'\n', &self.text).map(|end| end + 1));
        let mut lines: Vec<(u32, u32)> =
            starts.windows(2).map(|pair| (pair[0] as u32, pair[1] as u32)).collect();
        let text = &self.text;
        lines.sort_unstable_by_key(|(start, end)| &text[*start as usize..*end as usize]);
        let mut lines = lines.into_iter();
        std::iter::from_fn(move || {
            let mut piece = Vec::new();
            while piece.len() < WRITE_BUFFER_BYTES
                && let Some((start, end)) = lines.next()
            {
                piece.extend_from_slice(&text[start as usize..end as usize]);
            }
            (!piece.is_empty()).then_some(piece)
        })
    }
}

impl Gatherer {
    pub(super) fn new(settings: StoreSettings, shard: u16, next_serial: u32) -> Gatherer {
        let writer = RecordWriter::new(settings.deflate_level, settings.block_digest);
        let (file, buffer, from, mark) = (None, new_buffer(), 0, 0);
        let begun_count = 0;
        Gatherer { settings, shard, next_serial, begun_count, writer, file, buffer, from, mark }
    }

    pub(super) fn begun_count(&self) -> u64 {
        self.begun_count
    }

    /// Appends the records of a page to the buffer, behind a warcinfo record if they are the first
    /// of their file.
    pub(super) fn gather(
        &mut self,
        page: &StoredPage<'_>,
        wall: WallTime,
        random: impl Fn() -> u64,
    ) -> Position {
        check(page);
        debug_assert!(!self.is_full(), "a full buffer is sealed before more is gathered");
        let id = || RecordId::from_random(random(), random());
        self.lay_out(self.file_rest_len());
        let before = self.buffer.len();
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.begin_file(wall, id()),
        };
        let (response_id, response_at) = (id(), self.buffer.len());
        let (head, body) = page.response.split_at(page.head_len);
        let whole = [head, body];
        let response = match page.revisit_of {
            Some(original) => {
                let refers_to = RefersTo {
                    url: &original.url,
                    at: WallTime(original.at_seconds.saturating_mul(1_000_000_000)),
                };
                let (url, digest) = (page.url, page.payload_digest);
                Record::revisit(response_id, page.at, url, digest, refers_to, &whole[..1])
            }
            None => Record::response(response_id, page.at, page.url, page.payload_digest, &whole),
        };
        let address = Some(page.address.ip());
        let length = self.writer.append(
            &mut self.buffer,
            &Record {
                address,
                links_left_out: page.links_left_out,
                truncated: page.truncated.filter(|_| response.kind == RecordKind::Response),
                content_coded: page.content_coded,
                ..response
            },
        );
        let request_block = [page.request_head];
        let request = Record::request(id(), page.at, page.url, &request_block);
        self.writer.append(
            &mut self.buffer,
            &Record { address, concurrent_to: Some(response_id), ..request },
        );
        let offset = file.bytes + (response_at - before) as u64;
        index_page(&mut file, page, offset, length);
        let grown = (self.buffer.len() - before) as u64;
        file.bytes += grown;
        self.mark += grown;
        let serial = file.serial;
        self.file = Some(file);
        Position { serial, offset, length, mark: self.mark }
    }

    /// Reports whether the buffer or the file is full, so that the buffer must be sealed before
    /// more is gathered.
    pub(super) fn is_full(&self) -> bool {
        self.buffer.len() - self.from >= WRITE_BUFFER_BYTES || self.file_is_full()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.buffer.len() == self.from
    }

    pub(super) fn has_file(&self) -> bool {
        self.file.is_some()
    }

    pub(super) fn mark(&self) -> u64 {
        self.mark
    }

    /// Takes what was gathered and goes on in `empty`. Returns `empty` as the error if there is
    /// nothing to write and no file to end.
    pub(super) fn seal(&mut self, empty: Vec<u8>, seal: Seal) -> Result<Batch, Vec<u8>> {
        debug_assert!(empty.is_empty());
        let ends = seal == Seal::EndFile || self.file_is_full();
        let Some(file) = self.file.as_ref().filter(|_| ends || !self.is_empty()) else {
            return Err(empty);
        };
        let stem = file.stem.clone();
        let mut bytes = std::mem::replace(&mut self.buffer, empty);
        let from = std::mem::take(&mut self.from);
        let mut mark = self.mark;
        if seal == Seal::Blocks && !ends {
            let rest_len = self.file_rest_len().min(bytes.len() - from);
            self.lay_out(0);
            self.buffer.extend_from_slice(&bytes[bytes.len() - rest_len..]);
            bytes.truncate(bytes.len() - rest_len);
            mark -= rest_len as u64;
        }
        let ends_file = if ends { self.file.take().map(|file| file.index) } else { None };
        Ok(Batch { stem, bytes, from, mark, ends_file })
    }

    /// Returns the number of bytes behind the last whole block of the file.
    fn file_rest_len(&self) -> usize {
        let file_bytes = self.file.as_ref().map_or(0, |file| file.bytes);
        (file_bytes % DIRECT_BLOCK_BYTES as u64) as usize
    }

    /// Begins an empty buffer so that the disk can take it without a copy: as far behind the start
    /// of a block in memory as in the file. A buffer that grows later is moved, and then copied.
    fn lay_out(&mut self, behind_block: usize) {
        if self.buffer.is_empty() && self.buffer.capacity() >= WRITE_BUFFER_BYTES {
            let block = self.buffer.as_ptr().align_offset(DIRECT_BLOCK_BYTES);
            self.from = block + behind_block;
            self.buffer.resize(self.from, 0);
        }
    }

    fn file_is_full(&self) -> bool {
        self.file.as_ref().is_some_and(|file| {
            file.bytes >= self.settings.roll_bytes || file.index.len() >= CDXJ_BYTES_MAX
        })
    }

    /// Names the next file and writes its warcinfo record into the buffer.
    fn begin_file(&mut self, wall: WallTime, id: RecordId) -> FileUnderWay {
        let serial = self.next_serial;
        self.next_serial += 1;
        self.begun_count += 1;
        let stem = Stem::new(wall, self.shard, serial);
        let warc_name = stem.warc_name();
        let fields = warcinfo_fields(&self.settings);
        let block = [fields.as_bytes()];
        let record = Record::warcinfo(id, wall, &block);
        self.writer.append(&mut self.buffer, &Record { filename: Some(&warc_name), ..record });
        FileUnderWay { stem, warc_name, serial, bytes: 0, index: Index::default() }
    }
}

/// Checks what the caller promises about a page. A breach is a mistake in the crawler, not in the
/// page.
fn check(page: &StoredPage<'_>) {
    assert!(page.head_len <= page.response.len(), "a head is part of its response");
    debug_assert!(
        page.transfer_coded
            || page.revisit_of.is_some()
            || PayloadDigest::of(&page.response[page.head_len..]) == page.payload_digest,
        "without transfer coding the body is the payload"
    );
}

fn index_page(file: &mut FileUnderWay, page: &StoredPage<'_>, offset: u64, length: u64) {
    file.index.push(&CdxjLine {
        url: page.url,
        at: page.at,
        mime: page.mime,
        status: page.status,
        digest: page.payload_digest,
        revisit: page.revisit_of.is_some(),
        offset,
        length,
        filename: &file.warc_name,
        simhash: page.simhash,
        near: page.near,
        undecoded: page.undecoded,
        links_left_out: page.links_left_out,
    });
}

/// Returns the fields of the warcinfo record. The name of the machine is left out, because a
/// published archive need not say where it was made.
fn warcinfo_fields(settings: &StoreSettings) -> String {
    let mut fields = concat!(
        "software: nephila/",
        env!("CARGO_PKG_VERSION"),
        "\r\nformat: WARC File Format 1.1\r\n",
        "conformsTo: http://iipc.github.io/warc-specifications/specifications/warc-format/",
        "warc-1.1/\r\n",
    )
    .to_owned();
    for (name, value) in [
        ("robots", &settings.robots_policy),
        ("http-header-user-agent", &settings.user_agent),
        ("operator", &settings.contact),
    ] {
        if !value.is_empty() {
            let one_line: String =
                value.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
            fields.push_str(&format!("{name}: {one_line}\r\n"));
        }
    }
    fields
}

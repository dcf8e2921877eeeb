//! Salvage after a crash or a disk error: a file that was left `.open` is copied up to its last
//! whole record, indexed and closed under its final name.
//!
//! The file is copied and not just synced. If a sync had failed before the crash, Linux marked the
//! pages as clean, so another sync would succeed and prove nothing: what is read may be in memory
//! only.
//!
//! Nothing is trusted: every record is unpacked, and its CRC checked, on the way. What the old
//! index knew beyond the records (SimHash, near-duplicates) is not in the file, so it is not in the
//! new index.

use super::StoreError;
use super::gather::Index;
use super::series::{Stem, WARC_DIR};
use crate::base::limits::SALVAGE_READ_BYTES;
use crate::io::{Disk, DiskError, File};
use crate::proto::url::Url;
use crate::proto::warc::record::LINKS_LEFT_OUT;
use crate::proto::warc::{CdxjLine, ReadError, Reader, StoredRecord, digest};
use std::path::Path;

/// What became of one file that was left open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// The final name; `None` if the file held no whole record and was removed.
    pub name: Option<String>,
    pub records: u64,
    pub kept_bytes: u64,
    pub cut_bytes: u64,
    /// What was wrong behind the last whole record, if anything was.
    pub damage: Option<ReadError>,
}

/// Closes all files that an earlier process left open, of the shards that `is_ours` accepts. To be
/// called before the stores of those shards are opened. A second call finds nothing to do.
pub async fn salvage(
    disk: &impl Disk,
    is_ours: impl Fn(u16) -> bool,
) -> Result<Vec<Salvaged>, StoreError> {
    let names = match disk.list(Path::new(WARC_DIR)).await {
        Err(DiskError::NotFound) => return Ok(Vec::new()),
        names => names.map_err(StoreError::disk("list WARC files"))?,
    };
    let mut salvaged = Vec::new();
    let is_ours = |stem: &Stem| stem.shard().is_none_or(&is_ours);
    for stem in names.iter().filter_map(|name| Stem::of_open(name)).filter(is_ours) {
        salvaged.push(salvage_file(disk, &stem).await?);
    }
    Ok(salvaged)
}

async fn salvage_file(disk: &impl Disk, stem: &Stem) -> Result<Salvaged, StoreError> {
    let file = disk.open(&stem.open()).await.map_err(StoreError::disk("open torn WARC file"))?;
    let size = file.size();
    remove_stale(disk, &stem.copy()).await?;
    let copy = disk.create(&stem.copy()).await;
    let copy = copy.map_err(StoreError::disk("copy torn WARC file"))?;
    let found = scan(&file, &copy, stem, size).await?;
    let kept_bytes = found.whole_through;
    let salvaged = Salvaged {
        name: (found.records > 0).then(|| stem.warc_name()),
        records: found.records,
        kept_bytes,
        cut_bytes: size - kept_bytes,
        damage: found.damage,
    };
    if found.records > 0 {
        copy.truncate(kept_bytes).await.map_err(StoreError::disk("cut torn WARC file"))?;
        copy.sync().await.map_err(StoreError::disk("sync WARC file"))?;
        name_file(disk, stem, &stem.copy(), &found.index).await?;
    }
    remove_stale(disk, &stem.copy()).await?;
    remove_stale(disk, &stem.open()).await?;
    sync_dir(disk).await?;
    Ok(salvaged)
}

async fn remove_stale(disk: &impl Disk, path: &Path) -> Result<(), StoreError> {
    match disk.remove(path).await {
        Ok(()) | Err(DiskError::NotFound) => Ok(()),
        Err(error) => Err(StoreError::disk("remove stale file")(error)),
    }
}

/// Writes the index of a synced file beside it and gives the file its final name. The name comes
/// last, so a file with a final name is whole and has its index, even after a power cut. May be
/// called again after an error.
pub(super) async fn close_file(
    disk: &impl Disk,
    stem: &Stem,
    index: &Index,
) -> Result<(), StoreError> {
    name_file(disk, stem, &stem.open(), index).await
}

async fn name_file(
    disk: &impl Disk,
    stem: &Stem,
    from: &Path,
    index: &Index,
) -> Result<(), StoreError> {
    match disk.open(&stem.warc()).await {
        // An earlier attempt has renamed the file. Only the name has to be made durable.
        Ok(_) => return sync_dir(disk).await,
        Err(DiskError::NotFound) => {}
        // It is not known whether the file has its final name. If it has, its index must not be
        // touched.
        Err(error) => return Err(StoreError::disk("look for WARC file")(error)),
    }
    let path = stem.cdxj();
    // This index is left from an earlier attempt to close the file.
    remove_stale(disk, &path).await?;
    let beside = disk.create(&path).await.map_err(StoreError::disk("create index"))?;
    for piece in index.sorted_pieces() {
        beside.append(piece).await.map_err(StoreError::disk("write index"))?;
    }
    beside.sync().await.map_err(StoreError::disk("sync index"))?;
    // Names become durable one by one. Without this sync the file's name could survive a power cut
    // and its index's not.
    sync_dir(disk).await?;
    disk.rename(from, &stem.warc()).await.map_err(StoreError::disk("rename WARC file"))?;
    sync_dir(disk).await
}

pub(super) async fn sync_dir(disk: &impl Disk) -> Result<(), StoreError> {
    disk.sync_dir(Path::new(WARC_DIR)).await.map_err(StoreError::disk("sync WARC directory"))
}

struct Found {
    records: u64,
    whole_through: u64,
    damage: Option<ReadError>,
    index: Index,
}

/// Reads `file`, and copies it up to the end of its records.
async fn scan(
    file: &impl File,
    copy: &impl File,
    stem: &Stem,
    trusted: u64,
) -> Result<Found, StoreError> {
    let warc_name = stem.warc_name();
    let mut found = Found { records: 0, whole_through: 0, damage: None, index: Index::default() };
    let mut reader = Reader::new();
    let mut offset = 0;
    while offset < trusted {
        let len = SALVAGE_READ_BYTES.min((trusted - offset) as usize);
        let bytes = file.read_at(offset, len).await;
        let bytes = bytes.map_err(StoreError::disk("read torn WARC file"))?;
        if bytes.is_empty() {
            break;
        }
        offset += bytes.len() as u64;
        let copied = copy.append(bytes).await;
        let bytes = copied.map_err(StoreError::disk("copy torn WARC file"))?;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            match reader.feed(rest) {
                Ok((taken, record)) => {
                    rest = &rest[taken..];
                    if let Some(record) = record {
                        found.records += 1;
                        found.whole_through = reader.whole_through();
                        index_record(&mut found.index, &record, &warc_name);
                    }
                }
                Err(damage) => {
                    found.damage = Some(damage);
                    return Ok(found);
                }
            }
        }
    }
    found.damage = reader.finish().err();
    Ok(found)
}

fn index_record(index: &mut Index, record: &StoredRecord, filename: &str) {
    let revisit = record.kind() == "revisit";
    if record.kind() != "response" && !revisit {
        return;
    }
    let url = record.header("WARC-Target-URI").and_then(|text| Url::parse(text).ok());
    let digest = record.header("WARC-Payload-Digest").and_then(digest::parse_labelled);
    let (Some(url), Some(digest)) = (url, digest) else { return };
    let left_out = record.header(LINKS_LEFT_OUT).and_then(|text| text.parse().ok());
    let links_left_out = left_out.unwrap_or_default();
    index.push(&CdxjLine {
        url: &url,
        at: record.date().unwrap_or_default(),
        mime: record.http_media_type(),
        status: record.http_status().unwrap_or_default(),
        digest,
        revisit,
        offset: record.offset,
        length: record.length,
        filename,
        simhash: None,
        near: None,
        undecoded: None,
        links_left_out,
    });
}

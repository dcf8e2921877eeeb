//! The WARC records of a URL, read from the indexes beside the WARC files.

use super::InspectError;
use super::logs::{each_line, names_in};
use super::place::Place;
use crate::proto::url::Url;
use crate::proto::warc::cdxj::LINKS_LEFT_OUT_KEY;
use crate::proto::warc::surt;
use serde_json::Value;

pub const WARC_DIR: &str = "warc";

/// Where a record is, and what its index line says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub file: String,
    pub offset: u64,
    pub length: u64,
    /// The record's date, such as `20260131235959`.
    pub at: String,
    pub status: String,
    pub is_revisit: bool,
    /// The number of the page's links that were not followed. Most index lines do not have it.
    pub links_left_out: Option<u64>,
}

pub struct Records {
    pub found: Vec<Record>,
    /// The number of WARC files without an index yet. They are being written, or a crash left them
    /// open.
    pub open_file_count: usize,
}

/// Finds the records of `url`, the oldest first.
pub fn records(place: &Place, url: &Url) -> Result<Records, InspectError> {
    let names = names_in(place, WARC_DIR)?;
    let open_file_count = names.iter().filter(|name| name.ends_with(".warc.gz.open")).count();
    let mut key = Vec::new();
    surt::push_key(&mut key, url);
    key.push(b' ');
    let mut found = Vec::new();
    for name in names.iter().filter(|name| name.ends_with(".cdxj")) {
        each_line(place, WARC_DIR, name, |line| {
            if line.as_bytes().starts_with(&key) {
                found.extend(read_record(line, url));
            }
        })?;
    }
    found.sort_by(|one: &Record, two| one.at.cmp(&two.at));
    Ok(Records { found, open_file_count })
}

/// Reads an index line. The result is `None` if the line is damaged, or if it belongs to another
/// URL with the same key.
fn read_record(line: &str, url: &Url) -> Option<Record> {
    let (_, rest) = line.split_once(' ')?;
    let (at, fields) = rest.split_once(' ')?;
    let fields: Value = serde_json::from_str(fields).ok()?;
    let text = |name: &str| fields[name].as_str();
    if text("url")? != url.as_str() {
        return None;
    }
    Some(Record {
        file: text("filename")?.to_owned(),
        offset: text("offset")?.parse().ok()?,
        length: text("length")?.parse().ok()?,
        at: at.to_owned(),
        status: text("status")?.to_owned(),
        is_revisit: text("mime") == Some("warc/revisit"),
        links_left_out: text(LINKS_LEFT_OUT_KEY).and_then(|count| count.parse().ok()),
    })
}

//! A URL's WARC records, by the indexes beside the files.

use super::InspectError;
use super::logs::{each_line, names_in};
use super::place::Place;
use crate::proto::url::Url;
use crate::proto::warc::cdxj::LINKS_LEFT_OUT_KEY;
use crate::proto::warc::surt;
use serde_json::Value;

pub const WARC_DIR: &str = "warc";

/// Where a record lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub file: String,
    pub offset: u64,
    pub length: u64,
    /// `20260131235959`.
    pub at: String,
    pub status: String,
    pub is_revisit: bool,
    /// Links of the page that were not followed, as the index has it: absent on most.
    pub links_left_out: Option<u64>,
}

pub struct Records {
    pub found: Vec<Record>,
    /// Files without an index yet: being written, or left open by a crash.
    pub open_file_count: usize,
}

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

/// `None` if the line speaks of another URL with the same key, or is damaged.
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

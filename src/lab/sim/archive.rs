//! Reads the WARC files of a simulated crawl as any reader would: from the first record to the
//! last, unpacking each record and checking its digest, and checking the index against the records.

use crate::lab::sim::knowledge::place_of;
use crate::lab::web::Web;
use crate::lab::web::graph::Place;
use crate::proto::warc::{StoredRecord, records};
use hashbrown::{HashMap, HashSet};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Default)]
pub(super) struct Archive {
    /// How often each URL is in the indexes with status 200 and a whole record.
    pub stored: HashMap<Place, u32>,
    /// Files and records that are not whole, and lines of an index that lead to no record.
    pub torn: Vec<String>,
    /// Revisits of a payload that no record has.
    pub dangling: Vec<String>,
    /// The URL of each whole response or revisit record, by file name and offset.
    urls: HashMap<(String, u64), String>,
    payloads: HashSet<String>,
    revisits: Vec<(String, String)>,
}

impl Archive {
    pub fn read(web: &Web, files: &BTreeMap<PathBuf, Vec<u8>>) -> Archive {
        let mut archive = Archive::default();
        let named = files.iter().filter_map(|(path, bytes)| Some((name(path)?, bytes)));
        for (name, bytes) in named.clone().filter(|(name, _)| name.contains(".warc.gz")) {
            archive.read_file(name, bytes);
        }
        for (name, bytes) in named.filter(|(name, _)| name.ends_with(".cdxj")) {
            archive.read_index(web, name, bytes);
        }
        let is_lost = |revisit: &&(String, String)| !archive.payloads.contains(&revisit.1);
        let lost = archive.revisits.iter().filter(is_lost);
        archive.dangling = lost.map(|(url, payload)| format!("{url} {payload}")).collect();
        archive
    }

    fn read_file(&mut self, name: &str, bytes: &[u8]) {
        if name.ends_with(".open") {
            self.torn.push(format!("{name} is left open"));
        }
        for record in records(bytes) {
            let checked = record.and_then(|record| record.verify().map(|()| record));
            match checked {
                Ok(record) => self.add(name, &record),
                Err(error) => self.torn.push(format!("{name}: {error}")),
            }
        }
    }

    fn add(&mut self, name: &str, record: &StoredRecord) {
        let header = |name: &str| record.header(name).unwrap_or_default().to_owned();
        let (url, payload) = (header("WARC-Target-URI"), header("WARC-Payload-Digest"));
        match record.kind() {
            "response" => {
                self.payloads.insert(payload);
            }
            "revisit" => self.revisits.push((url.clone(), payload)),
            _ => return,
        }
        self.urls.insert((name.to_owned(), record.offset), url);
    }

    fn read_index(&mut self, web: &Web, name: &str, bytes: &[u8]) {
        for line in String::from_utf8_lossy(bytes).lines() {
            let fields = line.find('{').map(|start| serde_json::from_str(&line[start..]));
            let Some(Ok::<serde_json::Value, _>(fields)) = fields else {
                self.torn.push(format!("{name}: {line}"));
                continue;
            };
            let text = |field: &str| fields[field].as_str().unwrap_or_default();
            let offset = text("offset").parse().unwrap_or(u64::MAX);
            let found = self.urls.get(&(text("filename").to_owned(), offset));
            if found.is_none_or(|url| url != text("url")) {
                self.torn.push(format!("{name}: this line leads to no such record: {line}"));
            } else if text("status") == "200"
                && let Some(place) = place_of(web, text("url"))
            {
                *self.stored.entry(place).or_insert(0) += 1;
            }
        }
    }
}

fn name(path: &Path) -> Option<&str> {
    path.starts_with("warc").then(|| path.file_name()?.to_str())?
}

//! The names of a shard's files: `nephila-<time>-<shard>-<serial>.warc.gz`, followed by `.open`
//! while the file is written. The serials of a shard only grow, over restarts too, so a serial
//! names one file.

use crate::base::WallTime;
use std::path::PathBuf;

pub(super) const WARC_DIR: &str = "warc";
const OPEN_SUFFIX: &str = ".open";
const WARC_SUFFIX: &str = ".warc.gz";

/// A file name without its suffixes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stem(String);

impl Stem {
    pub(super) fn new(at: WallTime, shard: u16, serial: u32) -> Stem {
        Stem(format!("nephila-{}-{shard:03}-{serial:06}", at.compact()))
    }

    /// Returns the stem of a file that was left open, if `name` belongs to one.
    pub(super) fn of_open(name: &str) -> Option<Stem> {
        let stem = name.strip_suffix(OPEN_SUFFIX)?.strip_suffix(WARC_SUFFIX)?;
        stem.starts_with("nephila-").then(|| Stem(stem.to_owned()))
    }

    /// Returns the shard that wrote the file.
    pub(super) fn shard(&self) -> Option<u16> {
        self.0.split('-').nth(2)?.parse().ok()
    }

    pub(super) fn warc_name(&self) -> String {
        format!("{}{WARC_SUFFIX}", self.0)
    }

    pub(super) fn warc(&self) -> PathBuf {
        PathBuf::from(format!("{WARC_DIR}/{}{WARC_SUFFIX}", self.0))
    }

    pub(super) fn open(&self) -> PathBuf {
        PathBuf::from(format!("{WARC_DIR}/{}{WARC_SUFFIX}{OPEN_SUFFIX}", self.0))
    }

    /// Returns the path to which a file that was left open is copied before it is closed.
    pub(super) fn copy(&self) -> PathBuf {
        PathBuf::from(format!("{WARC_DIR}/{}{WARC_SUFFIX}.copy", self.0))
    }

    pub(super) fn cdxj(&self) -> PathBuf {
        PathBuf::from(format!("{WARC_DIR}/{}.cdxj", self.0))
    }
}

/// Returns the serial after all that this shard has used, given the names in the directory.
pub(super) fn next_serial(names: &[String], shard: u16) -> u32 {
    let used = names.iter().filter_map(|name| {
        let mut parts = name.strip_prefix("nephila-")?.split('.').next()?.splitn(3, '-').skip(1);
        let owner: u16 = parts.next()?.parse().ok()?;
        let serial: u32 = parts.next()?.parse().ok()?;
        (owner == shard).then_some(serial)
    });
    used.max().map_or(0, |serial| serial + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_stem_and_serial() {
        let stem = Stem::new(WallTime(1_767_225_599_000_000_000), 7, 12);
        assert_eq!(stem.warc_name(), "nephila-20251231235959-007-000012.warc.gz");
        assert_eq!(stem.cdxj().to_str(), Some("warc/nephila-20251231235959-007-000012.cdxj"));
        let open = stem.open();
        let name = open.file_name().unwrap().to_str().unwrap();
        assert_eq!(Stem::of_open(name), Some(stem.clone()));
        assert_eq!(stem.shard(), Some(7));
        assert_eq!(Stem::of_open(&stem.warc_name()), None);
        assert_eq!(Stem::of_open("notes.warc.gz.open"), None);
    }

    #[test]
    fn a_serial_is_never_used_twice_by_a_shard() {
        let names = [
            "nephila-20251231235959-007-000012.warc.gz".to_owned(),
            "nephila-20251231235959-007-000013.warc.gz.open".to_owned(),
            "nephila-20251231235959-008-000099.warc.gz".to_owned(),
            "nephila-20251231235959-007-x.cdxj".to_owned(),
            "lost+found".to_owned(),
        ];
        assert_eq!(next_serial(&names, 7), 14);
        assert_eq!(next_serial(&names, 8), 100);
        assert_eq!(next_serial(&names, 9), 0);
    }
}

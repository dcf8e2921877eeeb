//! `nephila repair DIR`: what is damaged in a crawl's directory and what it costs; with `--apply`,
//! a directory that the crawl can go on with.
//!
//! Without `--apply` nothing is changed. With it, damaged files go to `DIR/damaged/`, under their
//! own names, and nothing is removed; `DIR/REPAIRS.log` says what was done. Neither works beside a
//! crawl that runs in the directory. What is read and written of a shard is `shard::Salvage`'s
//! business; this is about files, and about what people read.

use crate::base::{HashKey, WallTime};
use crate::cli::inspect::disk::PlainDisk;
use crate::crawl::flow::ShardIndex;
use crate::crawl::store::{DeadLetter, LogLine as _};
use crate::engine::report::counted;
use crate::engine::{DataDirectory, DirectoryError, Manifest};
use crate::io::{Clock as _, Disk as _};
use crate::proto::url::Url;
use crate::shard::{Finding, Placement, Salvage, ShardError};
use std::fmt::{self, Write as _};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

/// Where damaged files go, and what was done.
pub const DAMAGED: &str = "damaged";
pub const LOG: &str = "REPAIRS.log";

#[derive(Debug)]
pub enum RepairError {
    Directory(DirectoryError),
    /// Neither the manifest nor its copy can be read.
    NoManifest {
        path: PathBuf,
        why: String,
    },
    Shard {
        shard: u16,
        error: ShardError,
    },
    Io {
        doing: &'static str,
        path: PathBuf,
        error: std::io::Error,
    },
}

impl fmt::Display for RepairError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RepairError::Directory(error) => write!(out, "{error}"),
            RepairError::NoManifest { path, why } => write!(
                out,
                "{why}; and there is no sound copy of it in {}. Without the hash_secret in it \
                 nothing that the crawl knows is found again: put a copy of the manifest back, or \
                 begin a new crawl. What was fetched is in warc/ and stays as it is",
                path.join("state").display()
            ),
            RepairError::Shard { shard, error } => write!(out, "state of shard {shard}: {error}"),
            RepairError::Io { doing, path, error } => {
                write!(out, "cannot {doing} {}: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for RepairError {}

fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> RepairError {
    let path = path.to_owned();
    move |error| RepairError::Io { doing, path, error }
}

/// What was found, and what became of it.
pub struct Repair {
    pub text: String,
    /// The crawl can go on: nothing was wrong, or it was put right.
    pub is_sound: bool,
}

/// Looks at the crawl in `path`, and repairs it if `is_applied`.
pub fn repair(path: &Path, is_applied: bool) -> Result<Repair, RepairError> {
    let _lock = DataDirectory::lock_any(path).map_err(RepairError::Directory)?;
    let disk = PlainDisk::open(path).map_err(io_error("open", path))?.writable();
    let mut bench = Bench { path, is_applied, text: String::new(), log: String::new(), disk };
    let mut is_sound = true;
    let manifest = bench.manifest(&mut is_sound)?;
    let hash_key = HashKey::new(manifest.hash_secret);
    for shard in 0..manifest.past.shard_count {
        let terms = (&manifest.settings, &hash_key);
        let examined = Salvage::examine(&bench.disk, ShardIndex(shard), manifest.past, terms);
        let salvage = PlainDisk::run(examined);
        let salvage = salvage.map_err(|error| RepairError::Shard { shard, error })?;
        is_sound &= !salvage.is_needed();
        bench.mend(shard, salvage, &manifest, &hash_key)?;
    }
    bench.conclude(is_sound)
}

struct Bench<'p> {
    path: &'p Path,
    is_applied: bool,
    /// For whoever asked, and for the log.
    text: String,
    log: String,
    disk: PlainDisk,
}

impl Bench<'_> {
    fn say(&mut self, line: &str) {
        // Writing to a String does not fail.
        let _ = writeln!(self.text, "{line}");
        let _ = writeln!(self.log, "{} {line}", self.disk.wall());
    }

    fn tell(&mut self, finding: &Finding) {
        let Finding { name, what, lost, is_fatal } = finding;
        let weight = if *is_fatal { "damaged" } else { "noted" };
        let what =
            if what.contains(name.as_str()) { what.clone() } else { format!("{name}: {what}") };
        self.say(&format!("{weight}  {what}\n         lost: {lost}"));
    }

    /// The manifest, or its copy.
    fn manifest(&mut self, is_sound: &mut bool) -> Result<Manifest, RepairError> {
        let why = match Manifest::load(self.path) {
            Ok(manifest) => return Ok(manifest),
            Err(DirectoryError::ManifestGone(_)) => "MANIFEST.json is missing".to_owned(),
            Err(error @ DirectoryError::Manifest { .. }) => error.to_string(),
            Err(error) => return Err(RepairError::Directory(error)),
        };
        let (path, about) = (self.path.to_owned(), why.clone());
        let copy =
            Manifest::load_copy(self.path).map_err(|_| RepairError::NoManifest { path, why })?;
        *is_sound = false;
        self.say(&format!("damaged  {about}\n         lost: nothing, its copy in state/ is sound"));
        if self.is_applied {
            if Manifest::is_in(self.path) {
                self.put_aside(&[PathBuf::from("MANIFEST.json")])?;
            }
            copy.save(self.path).map_err(RepairError::Directory)?;
            self.say("mended   MANIFEST.json, from its copy");
        }
        Ok(copy)
    }

    /// Tells what is wrong with a shard's state, and writes it anew.
    fn mend(
        &mut self,
        shard: u16,
        salvage: Salvage<PlainDisk>,
        manifest: &Manifest,
        hash_key: &HashKey,
    ) -> Result<(), RepairError> {
        if salvage.findings.is_empty() {
            return Ok(());
        }
        self.say(&format!("state/shard-{shard:02}:"));
        salvage.findings.iter().for_each(|finding| self.tell(finding));
        if !salvage.is_needed() {
            return Ok(());
        }
        let hosts = counted(salvage.host_count(), "host", "hosts");
        let urls = counted(salvage.url_count(), "URL", "URLs");
        self.say(&format!("left     {hosts} and {urls} still to come"));
        if !self.is_applied {
            return Ok(());
        }
        self.note_dead(shard, &salvage)?;
        let placement = Placement::new(manifest.past.shard_count);
        let owns = |url: &Url| placement.of_host(url.host_key(hash_key)) == ShardIndex(shard);
        let asked = if salvage.misses_seen { self.asked(owns)? } else { Vec::new() };
        let asked_count = asked.len();
        let written = PlainDisk::run(salvage.write(&self.disk, &asked));
        let useless = written.map_err(|error| RepairError::Shard { shard, error })?;
        self.put_aside(&useless)?;
        if asked_count > 0 {
            let requests = counted(asked_count as u64, "request", "requests");
            self.say(&format!("mended   the URLs that are known, by {requests} in the logs"));
        }
        self.say(&format!("mended   state/shard-{shard:02}: a new checkpoint of what is left"));
        Ok(())
    }

    /// Dead letters that only the journal may have go to the list of them.
    fn note_dead(&self, shard: u16, salvage: &Salvage<PlainDisk>) -> Result<(), RepairError> {
        let path = self.path.join(format!("requests/dead-{shard:02}.log"));
        let known = match fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            known => known.map_err(io_error("read", &path))?,
        };
        let mut lines = Vec::new();
        for (queued, outcome, at) in salvage.buried() {
            let mut line = Vec::new();
            let (tries, depth, via) = (queued.tries_made(), queued.depth, queued.via);
            let (at, outcome, url) = (*at, *outcome, &queued.url);
            DeadLetter { at, outcome, tries, depth, via, url }.push(&mut line);
            if memchr::memmem::find(&known, &line).is_none() {
                lines.extend(line);
            }
        }
        if lines.is_empty() {
            return Ok(());
        }
        let opened = fs::OpenOptions::new().create(true).append(true).open(&path);
        let mut file = opened.map_err(io_error("open", &path))?;
        let written = file.write_all(&lines).and_then(|()| file.sync_all());
        written.map_err(io_error("write", &path))
    }

    /// URLs that were asked for, by the request logs and the indexes of the WARC files.
    fn asked(&self, is_wanted: impl Fn(&Url) -> bool) -> Result<Vec<Url>, RepairError> {
        let mut urls = Vec::new();
        for (folder, ending) in [("requests", ".log"), ("warc", ".cdxj")] {
            let folder = self.path.join(folder);
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries {
                let path = entry.map_err(io_error("list", &folder))?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let is_log = name.ends_with(ending) && !name.starts_with("dead-");
                if is_log {
                    let file = fs::File::open(&path).map_err(io_error("open", &path))?;
                    urls.extend(urls_in(file, ending).filter(&is_wanted));
                }
            }
        }
        Ok(urls)
    }

    /// Moves files to `damaged/`, where nothing is overwritten.
    fn put_aside(&self, names: &[PathBuf]) -> Result<(), RepairError> {
        for name in names {
            let from = self.path.join(name);
            if from.symlink_metadata().is_err() {
                continue;
            }
            let to = self.path.join(DAMAGED).join(name);
            let folder = to.parent().unwrap_or(&to);
            fs::create_dir_all(folder).map_err(io_error("make", folder))?;
            let free = (0..).map(|number| match number {
                0 => to.clone(),
                number => PathBuf::from(format!("{}.{number}", to.display())),
            });
            let to = free.into_iter().find(|to| to.symlink_metadata().is_err()).unwrap_or(to);
            fs::rename(&from, &to).map_err(io_error("move", &from))?;
        }
        let folders = names.iter().filter_map(|name| name.parent());
        for folder in folders {
            let synced = PlainDisk::run(self.disk.sync_dir(folder));
            let failed = |error| RepairError::Io {
                doing: "sync",
                path: self.path.join(folder),
                error: std::io::Error::other(format!("{error}")),
            };
            synced.map_err(failed)?;
        }
        Ok(())
    }

    fn conclude(mut self, is_sound: bool) -> Result<Repair, RepairError> {
        let last = match (is_sound, self.is_applied) {
            (true, _) => "sound: the crawl can go on with `nephila crawl --resume`".to_owned(),
            (false, false) => "the crawl cannot go on as it is. `nephila repair DIR --apply` goes \
                               on without what is lost; nothing was changed yet"
                .to_owned(),
            (false, true) => format!(
                "repaired: go on with `nephila crawl --resume`. Damaged files are in {DAMAGED}/, \
                 and what was done is in {LOG}"
            ),
        };
        self.say(&last);
        if self.is_applied && !is_sound {
            let path = self.path.join(LOG);
            let opened = fs::OpenOptions::new().create(true).append(true).open(&path);
            let mut file = opened.map_err(io_error("open", &path))?;
            let written = file.write_all(self.log.as_bytes()).and_then(|()| file.sync_all());
            written.map_err(io_error("write", &path))?;
        }
        Ok(Repair { text: self.text, is_sound: is_sound || self.is_applied })
    }
}

/// The URLs of a request log's lines, or of an index's. What is no line of ours has none.
fn urls_in(file: fs::File, ending: &str) -> impl Iterator<Item = Url> {
    let is_index = ending == ".cdxj";
    BufReader::new(file).split(b'\n').map_while(Result::ok).filter_map(move |line| {
        let line = std::str::from_utf8(&line).ok()?;
        if !is_index {
            return Url::parse(line.split(' ').nth(5).filter(|_| !line.starts_with('#'))?).ok();
        }
        let json = &line[line.find('{')?..];
        let about: serde_json::Value = serde_json::from_str(json).ok()?;
        Url::parse(about["url"].as_str()?).ok()
    })
}

/// When a directory was last repaired, if it was: for those who look at it.
pub fn last_repair(path: &Path) -> Option<WallTime> {
    let modified = path.join(LOG).metadata().ok()?.modified().ok()?;
    let since = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(WallTime(u64::try_from(since.as_nanos()).ok()?))
}

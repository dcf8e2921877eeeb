//! Reads the directory of a crawl as hits: `requests/shard-*.log` with the crawler's own times, the
//! answers that oblige it from the WARC files, and the terms from `MANIFEST.json`.
//!
//! This is weaker evidence than a server's log, because the times are the crawler's own. But a
//! crawl of the real web has nothing else, and its log is what its operator can show.

use super::archive::{self, Archive, Stored};
use super::hit::{AuditError, Fate, Hit, Hits, Terms};
use super::lines::{Line, Log, Segment, TimeLine, line_at};
use super::origin::split_authority_and_path;
use super::stop::Stop;
use crate::base::Time;
use hashbrown::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct CrawlDir {
    logs: Vec<Log>,
    archive: Archive,
    /// The rules that the crawl had to keep, without its stops, which [`CrawlDir::stops`] finds.
    pub terms: Terms,
    /// The longest time between two syncs of the crawl's store, and of its journal, in
    /// milliseconds.
    pub synced_ms: [u64; 2],
}

impl CrawlDir {
    pub fn open(folder: &Path) -> Result<CrawlDir, AuditError> {
        let (terms, synced_ms) = read_manifest(&folder.join("MANIFEST.json"))?;
        let requests = folder.join("requests");
        let unreadable = |error| AuditError::Unreadable { path: requests.clone(), error };
        let mut paths: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(&requests).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with("shard-") && name.ends_with(".log") {
                paths.push(path);
            }
        }
        paths.sort();
        let archive = Archive::open(&folder.join("warc"))?;
        let logs = paths.into_iter().map(Log::File).collect();
        Ok(CrawlDir { logs, archive, terms, synced_ms })
    }

    /// Finds the stops of the crawl. Where a log has a new start line, an earlier process had
    /// ended: not before the time of the last line that any shard's log has of it.
    ///
    /// A killed process loses the last lines of each shard's log, and even the line of its start if
    /// it was young. So each start in each log is compared with all logs, and starts without a
    /// request between them in any log are taken for one start.
    pub fn stops(&self) -> Result<Vec<Stop>, AuditError> {
        let (mut starts, mut signs) = (Vec::new(), Vec::new());
        let (mut begun, mut logs) = (Vec::new(), LogEnds::default());
        self.each_line(&mut |line| match line {
            LogLine::Start(at, is_first) => {
                if !is_first {
                    starts.push((at, logs.is_cut()));
                }
                signs.push(at);
                logs.began();
            }
            LogLine::End(at) => {
                signs.push(at);
                logs.ended();
            }
            LogLine::Hit(hit) => {
                signs.push(hit.end);
                begun.push(hit.start);
            }
            LogLine::NextLog => logs = LogEnds::default(),
        })?;
        starts.sort_unstable();
        signs.sort_unstable();
        begun.sort_unstable();
        let mut stops: Vec<Stop> = Vec::new();
        for (back, is_log_cut) in starts {
            if let Some(stop) = stops.last_mut()
                && !is_any_between(&begun, stop.back, back)
            {
                stop.is_log_cut |= is_log_cut;
                continue;
            }
            let before = signs.partition_point(|sign| *sign < back);
            // Without an earlier line in any log there was nothing to forget.
            let at = before.checked_sub(1).map_or(back, |last| signs[last]);
            stops.push(Stop { is_log_cut, ..Stop::new(at, back, self.synced_ms) });
        }
        Ok(stops)
    }
}

fn is_any_between(sorted: &[Time], from: Time, to: Time) -> bool {
    let first = sorted.partition_point(|time| *time < from);
    sorted.get(first).is_some_and(|time| *time < to)
}

/// Tracks whether the process that wrote a log before had ended it.
#[derive(Default)]
struct LogEnds {
    is_open: bool,
    has_any: bool,
}

impl LogEnds {
    fn began(&mut self) {
        *self = LogEnds { is_open: true, has_any: true };
    }

    fn ended(&mut self) {
        self.is_open = false;
    }

    /// Reports whether an earlier process may have had lines that are missing in the log.
    fn is_cut(&self) -> bool {
        self.is_open || !self.has_any
    }
}

/// What a line of a log means.
enum LogLine<'a> {
    /// The log of another shard begins.
    NextLog,
    /// A process began; the flag says whether it is the crawl's first.
    Start(Time, bool),
    /// The process ended, and all its lines are before this one.
    End(Time),
    Hit(Hit<'a>),
}

impl Hits for CrawlDir {
    fn each(&self, visit: &mut dyn FnMut(&Hit<'_>)) -> Result<(), AuditError> {
        self.each_line(&mut |line| {
            if let LogLine::Hit(hit) = line {
                visit(&hit);
            }
        })
    }

    fn line(&self, place: u64) -> String {
        line_at(&self.logs, place)
    }
}

impl CrawlDir {
    fn each_line(&self, visit: &mut dyn FnMut(LogLine<'_>)) -> Result<(), AuditError> {
        let mut time_line = TimeLine::default();
        // Requests for one URL within one second are in the same order as their stored answers.
        let mut seen: HashMap<(u64, u64), usize> = HashMap::new();
        for (index, log) in self.logs.iter().enumerate() {
            let mut segment = Segment::default();
            let mut is_log_empty = true;
            visit(LogLine::NextLog);
            log.each(index, &mut |line| match line.text.strip_prefix("# start ") {
                Some(start) => match read_start(start) {
                    Some((monotonic_ns, unix_ns)) => {
                        segment = time_line.segment(monotonic_ns, unix_ns);
                        let is_resumed = start.ends_with(" resumed");
                        let is_first = std::mem::take(&mut is_log_empty) && !is_resumed;
                        visit(LogLine::Start(segment.time(monotonic_ns), is_first));
                        true
                    }
                    None => false,
                },
                None if line.text.starts_with("# end ") => match read_start(&line.text[6..]) {
                    Some((monotonic_ns, _)) => {
                        visit(LogLine::End(segment.time(monotonic_ns)));
                        true
                    }
                    None => false,
                },
                None if line.text.starts_with('#') => true,
                None => self.read(line, segment, &mut seen, visit).is_some(),
            })?;
        }
        Ok(())
    }

    /// Reads a line and passes its hit to `visit`, if a connection was tried; returns `None` if the
    /// line is not valid.
    fn read(
        &self,
        line: Line<'_>,
        segment: Segment,
        seen: &mut HashMap<(u64, u64), usize>,
        visit: &mut dyn FnMut(LogLine<'_>),
    ) -> Option<()> {
        let mut columns = line.text.split(' ');
        let mut column = || columns.next();
        let (start, date, _host): (u64, _, _) = (column()?.parse().ok()?, column()?, column()?);
        let (address, _method, url) = (column()?, column()?, column()?);
        let (status, outcome, _bytes) = (column()?, column()?, column()?);
        let total_ms: u64 = column()?.parse().ok()?;
        if columns.next().is_some() {
            return None;
        }
        if address == "-" {
            return Some(());
        }
        let address: SocketAddr = address.parse().ok()?;
        let status = if status == "-" { 0 } else { status.parse().ok()? };
        let (is_https, authority, path) = split_authority_and_path(url)?;
        let start = segment.time(start);
        let stored = self.stored(archive::key(url, date), seen);
        visit(LogLine::Hit(Hit {
            place: line.place,
            start,
            // The log does not say when the answer began, only that it was not before the request.
            sent: start,
            end: Time(start.0.saturating_add(total_ms.saturating_mul(1_000_000))),
            wall_ahead_ns: segment.wall_ahead_ns(),
            fate: fate(status, outcome),
            address: address.ip(),
            is_https,
            authority,
            path,
            status,
            retry_after: stored.and_then(|stored| stored.retry_after.as_deref()),
            location: stored.and_then(|stored| stored.location.as_deref()),
            body: stored.and_then(|stored| stored.body.as_deref()),
        }));
        Some(())
    }

    fn stored(&self, key: (u64, u64), seen: &mut HashMap<(u64, u64), usize>) -> Option<&Stored> {
        let answers = self.archive.answers(key);
        if answers.len() < 2 {
            return answers.first();
        }
        let count = seen.entry(key).or_default();
        *count += 1;
        answers.get(*count - 1)
    }
}

/// Returns the fate by the name of the crawler's outcome: the listed outcomes have a whole answer,
/// or all that the crawler wanted of it.
fn fate(status: u16, outcome: &str) -> Fate {
    const WHOLE: [&str; 12] = [
        "fetched",
        "cut_length",
        "cut_time",
        "cut_memory",
        "not_modified",
        "redirected",
        "redirect_loop",
        "redirect_limit",
        "redirect_refused",
        "client_error",
        "server_error",
        "throttled",
    ];
    match status {
        // The crawler had no descriptor, port or buffer, so no request left the machine.
        0 if outcome == "shed" => Fate::Unasked,
        0 => Fate::Unsent,
        _ if WHOLE.contains(&outcome) => Fate::Whole,
        _ => Fate::Cut,
    }
}

fn read_start(text: &str) -> Option<(u64, u64)> {
    let mut columns = text.split(' ');
    Some((columns.next()?.parse().ok()?, columns.next()?.parse().ok()?))
}

/// Reports whether a manifest is as it was written. Since format 5 it ends with a checksum over the
/// rest of it, written without spaces and with its names in order.
fn is_as_written(manifest: &serde_json::Value) -> bool {
    let told = manifest["checksum"].as_str();
    if told.is_none() && manifest["format"].as_u64().is_none_or(|format| format < 5) {
        return true;
    }
    let mut rest = manifest.clone();
    rest.as_object_mut().map(|fields| fields.remove("checksum"));
    told == Some(&format!("{:016x}", xxhash_rust::xxh3::xxh3_64(rest.to_string().as_bytes())))
}

/// Reads the terms of a crawl, and how often it synced its store and its journal.
fn read_manifest(path: &Path) -> Result<(Terms, [u64; 2]), AuditError> {
    let bad = |why: String| AuditError::Manifest { path: path.into(), why };
    let text = std::fs::read_to_string(path)
        .map_err(|error| AuditError::Unreadable { path: path.into(), error })?;
    let manifest: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| bad(format!("it is not JSON: {error}")))?;
    if !is_as_written(&manifest) {
        return Err(bad(
            "its checksum is wrong: the file is damaged, or was changed by hand".into()
        ));
    }
    let settings = manifest["settings"].as_str().ok_or_else(|| bad("it has no settings".into()))?;
    let settings: toml::Table =
        settings.parse().map_err(|error| bad(format!("its settings are not TOML: {error}")))?;
    let number = |name: &str| {
        let value = settings.get(name).and_then(toml::Value::as_integer);
        value.and_then(|value| u64::try_from(value).ok())
    };
    let wanted =
        |name: &str| number(name).ok_or_else(|| bad(format!("it has no setting `{name}`")));
    let crawl_delay_ms_max = wanted("crawl_delay_ms_max")?;
    let retries = wanted("retry_count_max")?;
    let product = manifest["product"].as_str().ok_or_else(|| bad("it has no product".into()))?;
    let terms = Terms {
        // The least delay of all runs of the crawl; a manifest without this field knows of one run
        // only.
        delay_ms: match manifest["delay_ms_least"].as_u64() {
            Some(delay_ms) => delay_ms,
            None => wanted("delay_ms")?,
        },
        ipv6_pace_prefix: manifest["ipv6_pace_prefix_most"]
            .as_u64()
            .or_else(|| number("ipv6_pace_prefix"))
            // Crawlers without that setting paced each address by itself.
            .map_or(128, |bits| u8::try_from(bits).unwrap_or(128)),
        crawl_delay_ms_max,
        retry_after_ms_max: number("retry_after_ms_max").unwrap_or(crawl_delay_ms_max),
        product_token: product.to_owned(),
        try_count_max: Some(u32::try_from(retries).unwrap_or(u32::MAX).saturating_add(1)),
        ..Terms::default()
    };
    // The settings of crawlers that kept no journal have no interval for it.
    let synced_ms = ["sync_ms", "journal_sync_ms"].map(|name| number(name).unwrap_or(0));
    Ok((terms, synced_ms))
}

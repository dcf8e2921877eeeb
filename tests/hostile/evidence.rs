//! One crawl of the hostile web over real sockets, and everything that it left: the servers' log,
//! the crawler's request log, and the WARC files.

use nephila::crawl::config::{Settings, Stay};
use nephila::engine::{self, EndReason, Summary};
use nephila::lab::web::hostile::{ROWS, Row};
use nephila::lab::web::truth::Expect;
use nephila::lab::web::{Stand, StandPlan, Web, WebSpec, log::Entry};
use nephila::proto::url::Url;
use nephila::proto::warc::{StoredRecord, records};
use std::net::IpAddr;
use std::path::Path;
use std::sync::OnceLock;

pub const DELAY_MS: u64 = 50;
pub const RETRY_COUNT_MAX: u8 = 2;
pub const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
pub const HOST_PAGE_CAP: u64 = 60;
/// The smallest value that the setting allows. Retry-After and Crawl-delay are clamped to it.
pub const LONGEST_DELAY_MS: u64 = 1_000;

pub struct Evidence {
    /// The ports of the plain hosts and of the hosts with TLS.
    ports: (u16, u16),
    pub farm: IpAddr,
    /// The ordinary pages beside the hostile hosts.
    pub ordinary: Vec<String>,
    /// What the servers saw, in order.
    pub asked: Vec<Entry>,
    pub logged: Vec<Logged>,
    pub records: Vec<StoredRecord>,
    /// CDXJ lines of all files.
    pub index: Vec<String>,
    pub summary: Summary,
}

/// A line of the crawler's own request log.
#[derive(Debug)]
pub struct Logged {
    pub url: String,
    pub outcome: String,
    pub total_ms: u64,
}

/// Short deadlines, within the settings' ranges.
pub fn settings(stand: &Stand) -> Settings {
    Settings {
        allow_private: true,
        contact: "http://crawler.test/".into(),
        stay: Stay::Web,
        dns: vec![stand.dns],
        delay_ms: DELAY_MS,
        host_page_cap: HOST_PAGE_CAP,
        dns_timeout_ms: 300,
        dns_tries: 2,
        connect_timeout_ms: 2_000,
        tls_timeout_ms: 2_000,
        first_byte_timeout_ms: 1_000,
        head_timeout_ms: 1_500,
        body_timeout_ms: 2_500,
        body_bytes_max: BODY_BYTES_MAX,
        retry_count_max: RETRY_COUNT_MAX,
        retry_base_ms: DELAY_MS,
        crawl_delay_ms_max: LONGEST_DELAY_MS,
        robots_ttl_seconds: 2,
        max_seconds: 300,
        ..Settings::default()
    }
}

/// Returns the crawl of all rows. It runs once, and every test judges it.
pub fn evidence() -> &'static Evidence {
    static EVIDENCE: OnceLock<Evidence> = OnceLock::new();
    EVIDENCE.get_or_init(|| {
        crawl(|stand, web| {
            let index = web.hostile().expect("hostile hosts").index_url();
            (settings(stand), vec![index])
        })
    })
}

/// Crawls the hostile web with the settings and from the seeds that `how` chooses.
pub fn crawl(how: impl FnOnce(&Stand, &Web) -> (Settings, Vec<String>)) -> Evidence {
    let place = tempfile::tempdir().expect("a directory");
    let (log, authority) = (place.path().join("web.log"), place.path().join("ca.pem"));
    let mut spec = WebSpec::profile("hostile").expect("a profile");
    let plan = StandPlan {
        log: Some(log.clone()),
        ca_out: Some(authority.clone()),
        ..StandPlan::default()
    };
    let stand = Stand::start(spec.clone(), plan).expect("a web");
    let (stand_port, stand_tls_port) = (stand.port, stand.tls_port);
    (spec.port, spec.tls_port) = (stand_port, stand_tls_port);
    let web = Web::new(spec).expect("a sound spec");
    let (settings, seeds) = how(&stand, &web);
    let settings = Settings { extra_ca: Some(authority), ..settings };
    let seeds = seeds.iter().map(|seed| Url::parse(seed).expect("a URL")).collect();
    let out = place.path().join("crawl");
    let summary = engine::crawl(settings, seeds, &out, None, &mut |_| {}).expect("a crawl");
    stand.stop().expect("a whole log");
    assert!(matches!(summary.reason, EndReason::Done | EndReason::TimeLimit));
    let text = std::fs::read_to_string(&log).expect("the log");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut asked: Vec<Entry> = lines.map(|l| Entry::parse(l).expect("a log line")).collect();
    // The log's lines are in the order in which answers ended.
    asked.sort_by_key(|entry| entry.at);
    let logged = files(&out.join("requests"), "shard-", ".log");
    let logged = logged.iter().flat_map(|bytes| request_lines(bytes)).collect();
    let warcs = files(&out.join("warc"), "nephila-", ".warc.gz");
    let records =
        warcs.iter().flat_map(|file| records(file).map(|r| r.expect("a sound record"))).collect();
    let index = files(&out.join("warc"), "nephila-", ".cdxj");
    let index = index.iter().flat_map(|bytes| text_lines(bytes)).collect();
    let ports = (stand_port, stand_tls_port);
    let farm = web.hostile().expect("hostile hosts").farm_address();
    let ordinary = ordinary(&web);
    Evidence { ports, farm, ordinary, asked, logged, records, index, summary }
}

fn ordinary(web: &Web) -> Vec<String> {
    let truth = web.truth().expect("a truth");
    let fetched = truth.iter().filter(|entry| entry.expect == Expect::Fetched);
    fetched.map(|entry| web.url(entry.place)).collect()
}

fn files(directory: &Path, beginning: &str, ending: &str) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> = std::fs::read_dir(directory)
        .expect("a directory")
        .map(|entry| entry.expect("an entry"))
        .filter(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name.starts_with(beginning) && name.ends_with(ending)
        })
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a file")).collect()
}

fn text_lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect()
}

/// Reads the crawler's own request log.
pub fn request_lines(bytes: &[u8]) -> Vec<Logged> {
    let lines = text_lines(bytes);
    let lines = lines.iter().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let columns: Vec<&str> = line.split(' ').collect();
            Logged {
                url: columns[5].to_owned(),
                outcome: columns[7].to_owned(),
                total_ms: columns[9].parse().expect("a number"),
            }
        })
        .collect()
}

impl Evidence {
    pub fn url(&self, row: &str, target: &str) -> String {
        match named(row).is_secret() {
            false => format!("http://{row}.hostile.test:{}{target}", self.ports.0),
            true => format!("https://{row}.hostile.test:{}{target}", self.ports.1),
        }
    }

    /// Returns the outcomes that the crawler logged for a target, in order.
    pub fn outcomes(&self, row: &str, target: &str) -> Vec<&str> {
        let url = self.url(row, target);
        let lines = self.logged.iter().filter(|line| line.url == url);
        lines.map(|line| line.outcome.as_str()).collect()
    }

    /// Returns what the row's server saw.
    pub fn asked_of(&self, row: &str) -> Vec<&Entry> {
        let name = format!("{row}.hostile.test");
        let is_here = |entry: &&Entry| entry.host.rsplit_once(':').is_some_and(|(h, _)| h == name);
        self.asked.iter().filter(is_here).collect()
    }

    /// Returns the requests for one target that the row's server saw.
    pub fn asked_for(&self, row: &str, target: &str) -> Vec<&Entry> {
        self.asked_of(row).into_iter().filter(|entry| entry.path == target).collect()
    }

    /// Returns the stored responses of a target.
    pub fn stored(&self, row: &str, target: &str) -> Vec<&StoredRecord> {
        let url = self.url(row, target);
        let is_its = |record: &&StoredRecord| {
            record.kind() == "response" && record.header("WARC-Target-URI") == Some(&url)
        };
        self.records.iter().filter(is_its).collect()
    }

    /// Returns the only stored response of a target.
    pub fn only(&self, row: &str, target: &str) -> &StoredRecord {
        let stored = self.stored(row, target);
        assert_eq!(stored.len(), 1, "{row}{target}");
        stored[0]
    }

    /// Returns the CDXJ line of a target.
    pub fn index_line(&self, row: &str, target: &str) -> &str {
        let url = format!("\"{}\"", self.url(row, target));
        self.index.iter().find(|line| line.contains(&url)).expect("an index line")
    }
}

pub fn named(row: &str) -> &'static Row {
    ROWS.iter().find(|known| known.name == row).expect("a row")
}

//! What an operator may set. Owns [`Settings`]: every setting is declared here once, with its type,
//! default, range, unit and reason; the reading, the checks and the documentation are made from it.
//!
//! A TOML file and the flags of the command line flow in, a checked `Settings` flows out before the
//! first socket opens; each shard gets its own copy, which nobody changes.

mod declare;
mod value;

pub use declare::Setting;
pub use value::{Any, Extractor, Stay, Text, Value};

use crate::base::limits;
use crate::proto::http;
use declare::settings;
use std::fmt;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use value::{assign, check};

const DAY_MS: u64 = 86_400_000;
const MIB: u64 = 1024 * 1024;

settings! {
    /// All settings of a crawl. Fields are public; [`Settings::check`] before use.
    Settings {
        contact: String = String::new(), Text::Contact, "",
            "Where webmasters reach you: sent in the User-Agent. Required for public hosts.";
        delay_ms: u64 = 1_000, 0..=DAY_MS, "ms",
            "Least time between two requests to one host, and to one address. Robots.txt may ask \
             for more.";
        ipv6_pace_prefix: u8 = 64, 48..=128, "bits",
            "IPv6 addresses that begin with the same so many bits are one address for their pace: \
             a server has a /64 of them as a rule, and asking each would be asking it at once.";
        max_pages: u64 = 0, 0..=u64::MAX >> 1, "pages",
            "The crawl ends after this many pages; 0 is no limit.";
        max_seconds: u64 = 0, 0..=u64::MAX >> 1, "s",
            "The crawl ends after this time; 0 is no limit.";
        depth_max: u16 = 64, 0..=u16::MAX, "links",
            "Links followed from a seed; deeper ones are not queued. Traps are deep.";
        host_page_cap: u64 = 100_000, 1..=u64::MAX >> 1, "URLs",
            "URLs taken from one host; more are dropped and counted.";
        skeleton_page_cap: u64 = limits::SKELETON_PAGE_COUNT, 0..=u64::MAX >> 1, "URLs",
            "URLs of one shape (digits, ids and parameter values aside) taken from one host: what \
             a calendar or session ids in links may cost, a fifth of host_page_cap. 0 is no \
             limit.";
        seen_batch: usize = limits::SEEN_FRESH_COUNT, 16..=limits::SEEN_FRESH_COUNT_LARGEST,
            "URLs per core",
            "New URLs that go to disk together, and possibly known ones that are looked up there \
             together. About 250 bytes of RAM each; the more, the fewer passes over the disk.";
        frontier_memory_mb: u64 = limits::QUEUE_RESIDENT_MB, 0..=limits::QUEUE_RESIDENT_MB_MAX,
            "MB per core",
            "Queued URLs held in RAM, beyond the next few of each host; the rest is on disk. 0 \
             keeps no others: for tests.";
        seen_memory_mb: usize = limits::RECENT_MB, 1..=limits::RECENT_MB_MAX,
            "MB per core",
            "URLs that are known without asking the disk, 8 bytes each, the last ones that came: \
             enough if it holds what a core finds between two visits to a host. It takes no more \
             than it needs.";
        link_memory_mb: usize = limits::LINK_MEMO_MB, 1..=limits::LINK_MEMO_MB_MAX,
            "MB per core",
            "Links that are known by their text, without being joined and normalised, 8 bytes \
             each. It takes no more than it needs.";
        host_cold_seconds: u64 = 3_600, 0..=u64::MAX >> 34, "s",
            "A host that has had nothing to fetch for so long leaves RAM; its page count stays.";
        host_memory_count: usize = limits::HOST_MEMORY_COUNT, 0..=limits::HOST_COUNT_MAX,
            "hosts per core",
            "While there are more hosts in RAM, those with nothing to fetch leave at once. About \
             200 bytes of RAM each.";
        sitemaps: bool = true, Any, "",
            "Ask for the sitemaps that robots.txt files name, and for the pages they list.";
        stay: Stay = Stay::Domain, Any, "",
            "How far from the seeds links are followed: anywhere (web), on the registrable domains \
             of all seeds (domain), or on their hosts alone (host). A seed that is an IP address \
             stands for itself.";
        follow_nofollow: bool = false, Any, "",
            "Follow links marked rel=nofollow, and those of pages that ask for nofollow.";
        page_link_count_max: usize = limits::PAGE_LINK_COUNT_MAX, 0..=10_000_000, "",
            "Distinct links to pages that are followed of one page; 0 is no limit but the size of \
             the page. What is left out is counted, told, and marked in the index.";
        extra_parameters: Vec<String> = Vec::new(), Text::Parameter, "",
            "Query parameters to strip from URLs, beyond the known tracking and session ones.";
        allow_private: bool = false, Any, "",
            "Connect to private, loopback and other non-public addresses.";

        ready_memory_mb: usize = 0, 0..=1_048_576, "MB per core",
            "Memory that is touched before the crawl begins, so that tables and buffers need not \
             wait for it as they grow: worth it where the system is slow to give it.";
        cores: Vec<usize> = Vec::new(), 0..=1_023, "",
            "Cores to run on, one shard each; empty is all that the system lets us use.";
        fetch_slots: usize = 8_192, 1..=65_536, "per core",
            "Requests under way at once.";
        body_memory_mb: usize = limits::BODY_MEMORY_MB,
            limits::BODY_MEMORY_MB_MIN..=limits::BODY_MEMORY_MB_MAX, "MB per core",
            "Memory for bodies, from their first byte until they are stored. Above three quarters \
             of it no fetch starts and slow bodies are cut; a body that would go beyond it is cut \
             or let go and asked for again. Four of body_bytes_max must fit.";
        keep_alive_count_max: usize = 32_768, 0..=1_048_576, "per core",
            "Idle connections kept open for the next request to their host.";
        keep_alive_ms: u64 = 60_000, 0..=DAY_MS, "ms",
            "How long an idle connection is kept.";

        dns: Vec<SocketAddr> = Vec::new(), Any, "",
            "Resolvers to ask, in order of preference; empty is those of /etc/resolv.conf.";
        dns_timeout_ms: u64 = 2_000, 10..=60_000, "ms",
            "Wait for one answer of one resolver.";
        dns_tries: u8 = 3, 1..=10, "",
            "Questions asked for one name before it counts as failed.";
        connect_timeout_ms: u64 = 10_000, 10..=120_000, "ms",
            "Wait for a TCP connection.";
        tls_timeout_ms: u64 = 10_000, 10..=120_000, "ms",
            "Wait for a TLS handshake.";
        first_byte_timeout_ms: u64 = 20_000, 10..=300_000, "ms",
            "Wait for the first byte of a response, from the request on.";
        head_timeout_ms: u64 = 30_000, 10..=300_000, "ms",
            "Wait for the end of a response's head, from the request on.";
        accept_encoding: String = http::ACCEPT_ENCODING.to_owned(), Text::Codings, "",
            "Content codings that servers are offered, the best first: gzip, deflate, br, zstd; \
             empty offers none. Bodies are stored as they come, and gzip alone is read by all who \
             replay them: warcio 1.8 knows no zstd, shows br as noise without its brotli package \
             and fails with a new one. br also takes about three times as long to decode. What a \
             server sends unasked is decoded all the same.";
        body_timeout_ms: u64 = 60_000, 10..=500_000, "ms",
            "Wait for the end of a body, from its first byte; then it is cut and so marked.";
        body_bytes_max: usize = limits::BODY_BYTES, 1_024..=limits::BODY_BYTES_MAX, "bytes",
            "Longest body as received; longer ones are cut and so marked. A body is held in RAM \
             until it is stored, and its digest is made in one go: 100 MB keep a core for a \
             tenth of a second.";

        retry_count_max: u8 = 3, 0..=10, "",
            "Retries of a transient failure before a URL becomes a dead letter.";
        retry_base_ms: u64 = 1_000, 1..=DAY_MS, "ms",
            "A URL is tried again after 1, 5 and 30 times this, or times its host's delay if that \
             is longer; a failing origin waits as long, then twice, four times...";
        breaker_failure_count: u8 = 5, 1..=100, "failures",
            "An origin that fails so often in a row is left alone for a while.";
        breaker_open_ms: u64 = 300_000, 1..=DAY_MS, "ms",
            "That while; then one request decides. It doubles with each that fails.";
        breaker_give_up_count: u8 = 3, 0..=20, "",
            "After so many whiles in vain the origin's URLs become dead letters.";
        slow_host_factor: u64 = 5, 0..=1_000, "",
            "A host is asked no sooner than after so many times its usual response time; 0 is off, \
             and so is a delay_ms of 0.";
        slow_host_ms_max: u64 = 30_000, 0..=DAY_MS, "ms",
            "The longest delay that slowness alone brings about.";
        start_spread_ms: u64 = 0, 0..=DAY_MS, "ms",
            "The first turns of the seeds' hosts are spread over so long: hosts that began at once \
             come due at once, again and again.";
        domain_delay_ms: u64 = 0, 0..=DAY_MS, "ms",
            "Least time between two requests to one registrable domain, all its hosts together; \
             0 is no such limit.";
        crawl_delay_ms_max: u64 = 3_600_000, 1_000..=DAY_MS, "ms",
            "A longer Crawl-delay or Retry-After is taken as this.";
        robots_ttl_seconds: u64 = 86_400, 1..=86_400, "s",
            "A robots.txt older than this is fetched again. RFC 9309 2.4: at most a day.";
        robots_relax_seconds: u64 = 30 * 86_400, 1..=u64::MAX >> 34, "s",
            "A robots.txt that has not answered for so long counts as absent. RFC 9309 2.3.1.4: \
             30 days.";

        extra_ca: Option<PathBuf> = None, Any, "",
            "A PEM file of certificate authorities to trust besides the public ones.";
        insecure_tls: bool = false, Any, "",
            "Take any certificate: expired, self-signed, for another name.";

        extractor: Extractor = Extractor::Own, Any, "",
            "Who finds links: our tokenizer, or lol_html for comparison.";

        warc_file_bytes: u64 = 1024 * MIB, MIB..=1024 * 1024 * MIB, "bytes",
            "A WARC file of this size is closed and the next one begun.";
        warc_deflate_level: u8 = 0, 0..=9, "",
            "Compression of WARC records; 0 stores them, for speed.";
        warc_block_digest: bool = false, Any, "",
            "Also write WARC-Block-Digest: a second digest over each record.";
        sync_ms: u64 = 1_000, 1..=60_000, "ms",
            "Files are synced this often: what a power failure can cost.";
        journal: bool = true, Any, "",
            "Keep a journal and checkpoints, so that the crawl can be resumed after a crash. \
             Without them it cannot; for measurements.";
        journal_sync_ms: u64 = 100, 1..=60_000, "ms",
            "The journal is synced this often: what a crash makes the crawl learn again.";
        checkpoint_seconds: u64 = 300, 1..=86_400, "s",
            "Time between two checkpoints: the longer, the more journal a restart reads.";
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The file cannot be read, or is longer than [`limits::CONFIG_BYTES_MAX`].
    Unreadable {
        path: PathBuf,
        why: String,
    },
    /// Not TOML; the message says where.
    Syntax(String),
    UnknownKey {
        key: String,
        closest: Option<&'static str>,
    },
    /// Of the wrong type, or out of range.
    BadValue {
        key: &'static str,
        value: String,
        allowed: String,
    },
    /// Good each, but not together.
    Conflict(&'static str),
    /// A core that does not exist, that we may not use, or that is named twice.
    Core {
        core: usize,
        why: &'static str,
    },
}

impl Settings {
    pub fn load(path: &Path) -> Result<Settings, ConfigError> {
        Settings::default().with_file(path)
    }

    /// These settings, and over them what the file at `path` sets.
    pub fn with_file(self, path: &Path) -> Result<Settings, ConfigError> {
        let unreadable = |why: String| ConfigError::Unreadable { path: path.to_owned(), why };
        let file = std::fs::File::open(path).map_err(|error| unreadable(error.to_string()))?;
        let mut text = String::new();
        let mut file = file.take(limits::CONFIG_BYTES_MAX + 1);
        file.read_to_string(&mut text).map_err(|error| unreadable(error.to_string()))?;
        if text.len() as u64 > limits::CONFIG_BYTES_MAX {
            return Err(unreadable(format!("longer than {} bytes", limits::CONFIG_BYTES_MAX)));
        }
        self.with_toml(&text)
    }

    /// Defaults, and over them what `text` sets.
    pub fn from_toml(text: &str) -> Result<Settings, ConfigError> {
        Settings::default().with_toml(text)
    }

    fn with_toml(mut self, text: &str) -> Result<Settings, ConfigError> {
        let table: toml::Table = text
            .parse()
            .map_err(|error: toml::de::Error| ConfigError::Syntax(error.to_string()))?;
        for (key, value) in &table {
            self.set(key, value)?;
        }
        Ok(self)
    }

    /// Sets from `key=value`, as on the command line: the value in TOML, or a bare word for text.
    pub fn set_text(&mut self, assignment: &str) -> Result<(), ConfigError> {
        let (key, text) = assignment
            .split_once('=')
            .ok_or_else(|| ConfigError::Syntax(format!("`{assignment}` is not KEY=VALUE")))?;
        let (key, text) = (key.trim(), text.trim());
        let parsed = format!("value = {text}").parse::<toml::Table>().ok();
        let value = parsed.filter(|table| table.len() == 1).and_then(|mut t| t.remove("value"));
        self.set(key, &value.unwrap_or_else(|| toml::Value::String(text.to_owned())))
    }

    /// All that can be wrong without looking at the system: each value, and values together.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_each()?;
        if self.first_byte_timeout_ms > self.head_timeout_ms {
            return Err(ConfigError::Conflict(
                "first_byte_timeout_ms is longer than head_timeout_ms, which would end first",
            ));
        }
        if self.body_bytes_max > (self.body_memory_mb << 20) / limits::BODY_MEMORY_COUNT_MIN {
            return Err(ConfigError::Conflict(
                "body_memory_mb has no room for four bodies of body_bytes_max: raise it",
            ));
        }
        if self.crawl_delay_ms_max < self.delay_ms {
            return Err(ConfigError::Conflict(
                "crawl_delay_ms_max is less than delay_ms: hosts that ask for more would get less",
            ));
        }
        if self.insecure_tls && self.extra_ca.is_some() {
            return Err(ConfigError::Conflict(
                "insecure_tls takes any certificate, so extra_ca has no use: set one of them",
            ));
        }
        Ok(())
    }

    /// The cores to run on, out of those the system lets us use.
    pub fn cores_among(&self, usable: &[usize]) -> Result<Vec<usize>, ConfigError> {
        if self.cores.is_empty() {
            return Ok(usable.iter().copied().take(limits::SHARD_COUNT_MAX).collect());
        }
        for (index, core) in self.cores.iter().enumerate() {
            let refused = |why| Err(ConfigError::Core { core: *core, why });
            if !usable.contains(core) {
                return refused("does not exist or is not ours to use");
            }
            if self.cores[..index].contains(core) {
                return refused("is named twice");
            }
            if index >= limits::SHARD_COUNT_MAX {
                return refused("is one more than there may be");
            }
        }
        Ok(self.cores.clone())
    }

    /// `nephila/VERSION (+CONTACT)`.
    pub fn user_agent(&self) -> String {
        let product = concat!("nephila/", env!("CARGO_PKG_VERSION"));
        match self.contact.as_str() {
            "" => product.to_owned(),
            contact => format!("{product} (+{contact})"),
        }
    }
}

/// `0,2-3` as the cores 0, 2 and 3.
pub fn parse_cores(text: &str) -> Result<Vec<usize>, ConfigError> {
    let bad = || ConfigError::BadValue {
        key: "cores",
        value: text.to_owned(),
        allowed: "a list like 0,2-3".to_owned(),
    };
    let number = |part: &str| part.trim().parse::<usize>().ok().filter(|core| *core < 1_024);
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = number(first).zip(number(last)).ok_or_else(bad)?;
        if first > last || cores.len() > limits::SHARD_COUNT_MAX {
            return Err(bad());
        }
        cores.extend(first..=last);
    }
    Ok(cores)
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Unreadable { path, why } => write!(out, "{}: {why}", path.display()),
            ConfigError::Syntax(message) => out.write_str(message.trim_end()),
            ConfigError::UnknownKey { key, closest: Some(name) } => {
                write!(out, "unknown setting `{key}`; did you mean `{name}`?")
            }
            ConfigError::UnknownKey { key, closest: None } => {
                write!(out, "unknown setting `{key}`; `nephila settings` lists them all")
            }
            ConfigError::BadValue { key, value, allowed } => {
                write!(out, "{key} = {value}: must be {allowed}")
            }
            ConfigError::Conflict(rule) => out.write_str(rule),
            ConfigError::Core { core, why } => write!(out, "cores: core {core} {why}"),
        }
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests;

//! The settings of a crawl. This module owns [`Settings`]: every setting is declared here once,
//! with its type, default, range, unit and reason. The code that reads settings, the checks and the
//! documentation are generated from that declaration.
//!
//! A TOML file and the flags of the command line flow in. A checked `Settings` flows out, before
//! the first socket opens. Each shard gets its own copy, which never changes.

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
    /// All settings of a crawl. The fields are public, so call [`Settings::check`] before use.
    Settings {
        contact: String = String::new(), Text::Contact, "",
            "The URL or e-mail address where webmasters can reach you. It is sent in the \
             User-Agent. Required for public hosts.";
        delay_ms: u64 = 1_000, 0..=DAY_MS, "ms",
            "The least time between two requests to one host, and between two requests to one \
             address. A robots.txt may ask for more.";
        ipv6_pace_prefix: u8 = 64, 48..=128, "bits",
            "IPv6 addresses that share this many leading bits count as one address for pacing. A \
             server usually has a whole /64, so pacing each address alone would send it many \
             requests at once.";
        max_pages: u64 = 0, 0..=u64::MAX >> 1, "pages",
            "The crawl ends after this many pages; 0 means no limit.";
        max_seconds: u64 = 0, 0..=u64::MAX >> 1, "s",
            "The crawl ends after this time; 0 means no limit.";
        depth_max: u16 = 64, 0..=u16::MAX, "links",
            "The greatest number of links from a seed to a page. Links that lie deeper are not \
             queued, because traps are deep.";
        host_page_cap: u64 = 100_000, 1..=u64::MAX >> 1, "URLs",
            "The greatest number of URLs taken from one host. Further URLs are dropped and \
             counted.";
        skeleton_page_cap: u64 = limits::SKELETON_PAGE_COUNT, 0..=u64::MAX >> 1, "URLs",
            "The greatest number of URLs of one shape taken from one host. URLs have one shape if \
             they differ only in digits, ids and parameter values. This limits what a calendar or \
             session ids in links can cost; the default is a fifth of host_page_cap. 0 means no \
             limit.";
        seen_batch: usize = limits::SEEN_FRESH_COUNT, 16..=limits::SEEN_FRESH_COUNT_LARGEST,
            "URLs per core",
            "How many new URLs are written to disk together, and how many possibly known URLs are \
             looked up there together. Each takes about 250 bytes of RAM. A larger batch means \
             fewer passes over the disk.";
        frontier_memory_mb: u64 = limits::QUEUE_RESIDENT_MB, 0..=limits::QUEUE_RESIDENT_MB_MAX,
            "MB per core",
            "RAM for queued URLs, beyond the next few URLs of each host; the rest is on disk. 0 \
             keeps only those next few in RAM and is meant for tests.";
        seen_memory_mb: usize = limits::RECENT_MB, 1..=limits::RECENT_MB_MAX,
            "MB per core",
            "RAM for a cache of the newest known URLs, 8 bytes each. A URL in it is known without \
             a look at the disk. The cache is large enough if it holds the URLs that a core finds \
             between two visits to a host. It uses no more memory than it needs.";
        link_memory_mb: usize = limits::LINK_MEMO_MB, 1..=limits::LINK_MEMO_MB_MAX,
            "MB per core",
            "RAM for a cache of recent links by their text, 8 bytes each. A link in it does not \
             have to be joined and normalised again. The cache uses no more memory than it needs.";
        host_cold_seconds: u64 = 3_600, 0..=u64::MAX >> 34, "s",
            "A host that has had nothing to fetch for this long is evicted from RAM. Only its page \
             count is kept.";
        host_memory_count: usize = limits::HOST_MEMORY_COUNT, 0..=limits::HOST_COUNT_MAX,
            "hosts per core",
            "While more hosts than this are in RAM, a host with nothing to fetch is evicted at \
             once. A host takes about 200 bytes of RAM.";
        sitemaps: bool = true, Any, "",
            "Fetch the sitemaps that robots.txt files name, and the pages that they list.";
        stay: Stay = Stay::Domain, Any, "",
            "How far from the seeds links are followed: anywhere (web), on the registrable domains \
             of all seeds (domain), or only on the hosts of the seeds (host). A seed that is an IP \
             address stands for itself.";
        follow_nofollow: bool = false, Any, "",
            "Follow links marked rel=nofollow, and the links of pages that ask for nofollow.";
        page_link_count_max: usize = limits::PAGE_LINK_COUNT_MAX, 0..=10_000_000, "",
            "The greatest number of distinct links to pages that are followed from one page; 0 \
             means that only the size of the page limits it. Links that are left out are counted \
             and reported, and the page is marked in the index.";
        extra_parameters: Vec<String> = Vec::new(), Text::Parameter, "",
            "Query parameters to remove from URLs, in addition to the known tracking and session \
             parameters.";
        allow_private: bool = false, Any, "",
            "Allow connections to private, loopback and other addresses that are not public.";

        ready_memory_mb: usize = 0, 0..=1_048_576, "MB per core",
            "Memory that is touched once before the crawl begins, so that tables and buffers do \
             not wait for the system as they grow. Use it where the system is slow to provide \
             memory.";
        cores: Vec<usize> = Vec::new(), 0..=1_023, "",
            "The cores to run on, with one shard on each. An empty list means all cores that the \
             system lets us use.";
        fetch_slots: usize = 8_192, 1..=65_536, "per core",
            "The greatest number of requests under way at once.";
        body_memory_mb: usize = limits::BODY_MEMORY_MB,
            limits::BODY_MEMORY_MB_MIN..=limits::BODY_MEMORY_MB_MAX, "MB per core",
            "Memory for bodies, from their first byte until they are stored. While more than three \
             quarters of it is used, no fetch starts and slow bodies are cut. A body that would \
             exceed the limit is cut, or discarded and requested again. There must be room for \
             four bodies of body_bytes_max.";
        keep_alive_count_max: usize = 32_768, 0..=1_048_576, "per core",
            "The greatest number of idle connections that are kept open for the next request to \
             their host.";
        keep_alive_ms: u64 = 60_000, 0..=DAY_MS, "ms",
            "How long an idle connection is kept open.";

        dns: Vec<SocketAddr> = Vec::new(), Any, "",
            "The DNS resolvers to ask, in order of preference. An empty list means those of \
             /etc/resolv.conf.";
        dns_timeout_ms: u64 = 2_000, 10..=60_000, "ms",
            "How long to wait for one answer from one DNS resolver.";
        dns_tries: u8 = 3, 1..=10, "",
            "The number of queries for one name before its lookup counts as failed.";
        connect_timeout_ms: u64 = 10_000, 10..=120_000, "ms",
            "How long to wait for a TCP connection.";
        tls_timeout_ms: u64 = 10_000, 10..=120_000, "ms",
            "How long to wait for a TLS handshake.";
        first_byte_timeout_ms: u64 = 20_000, 10..=300_000, "ms",
            "How long to wait for the first byte of a response, counted from the request.";
        head_timeout_ms: u64 = 30_000, 10..=300_000, "ms",
            "How long to wait for the end of a response's head, counted from the request.";
        accept_encoding: String = http::ACCEPT_ENCODING.to_owned(), Text::Codings, "",
            "The content codings that servers are offered, the best first: gzip, deflate, br, \
             zstd. An empty text offers none. Bodies are stored as they come, and gzip is the only \
             coding that all replay tools can read: warcio 1.8 does not know zstd, shows br as \
             noise without its brotli package, and fails with a new version of that package. \
             Decoding br also takes about three times as long. A coding that a server uses without \
             being offered it is decoded all the same.";
        body_timeout_ms: u64 = 60_000, 10..=500_000, "ms",
            "How long to wait for the end of a body, counted from the end of the head. After that \
             the body is cut and marked as cut.";
        body_bytes_max: usize = limits::BODY_BYTES, 1_024..=limits::BODY_BYTES_MAX, "bytes",
            "The longest body, as received. A longer body is cut and marked as cut. A body is held \
             in RAM until it is stored, and its digest is computed in one step: 100 MB occupy a \
             core for a tenth of a second.";

        retry_count_max: u8 = 3, 0..=10, "",
            "How many times a URL is tried again after transient failures before it becomes a dead \
             letter.";
        retry_base_ms: u64 = 1_000, 1..=DAY_MS, "ms",
            "The unit of the waits after a failure. If the host's delay is longer, that delay is \
             the unit. A failed URL is tried again after 1, 5 and 30 units. A failing origin is \
             left alone for 1 unit, then 2, 4 and so on.";
        breaker_failure_count: u8 = 5, 1..=100, "failures",
            "After this many failures in a row the circuit breaker of the origin opens, and the \
             origin is left alone for breaker_open_ms.";
        breaker_open_ms: u64 = 300_000, 1..=DAY_MS, "ms",
            "How long the circuit breaker stays open. After that, one test request decides. The \
             time doubles with each test request that fails, up to crawl_delay_ms_max.";
        breaker_give_up_count: u8 = 3, 0..=20, "",
            "How many times in a row the circuit breaker may open without a success. After that \
             the URLs of the origin become dead letters. An origin that still answers, if only \
             with errors, gets more tries.";
        slow_host_factor: u64 = 5, 0..=1_000, "",
            "The delay between two requests to a host is at least this many times its usual \
             response time. 0 turns this off, and so does a delay_ms of 0.";
        slow_host_ms_max: u64 = 30_000, 0..=DAY_MS, "ms",
            "The longest delay that slow_host_factor can cause.";
        start_spread_ms: u64 = 0, 0..=DAY_MS, "ms",
            "The first requests to the seeds' hosts are spread over this time. Hosts that all \
             began at once would come due at once again and again.";
        domain_delay_ms: u64 = 0, 0..=DAY_MS, "ms",
            "The least time between two requests to one registrable domain, all its hosts \
             together; 0 means no such limit.";
        crawl_delay_ms_max: u64 = 3_600_000, 1_000..=DAY_MS, "ms",
            "The greatest Crawl-delay or Retry-After that is obeyed. A longer one is shortened to \
             this.";
        robots_ttl_seconds: u64 = 86_400, 1..=86_400, "s",
            "A robots.txt older than this is fetched again. RFC 9309 section 2.4 allows at most a \
             day.";
        robots_relax_seconds: u64 = 30 * 86_400, 1..=u64::MAX >> 34, "s",
            "A robots.txt that has been unreachable for this long counts as absent. RFC 9309 \
             section 2.3.1.4 suggests 30 days.";

        extra_ca: Option<PathBuf> = None, Any, "",
            "A PEM file of certificate authorities to trust in addition to the public ones.";
        insecure_tls: bool = false, Any, "",
            "Accept any certificate, even one that is expired, self-signed or for another name.";

        extractor: Extractor = Extractor::Own, Any, "",
            "Which parser finds the links of a page: our own tokenizer (own), or lol_html for \
             comparison (lol).";

        warc_file_bytes: u64 = 1024 * MIB, MIB..=1024 * 1024 * MIB, "bytes",
            "A WARC file that reaches this size is closed, and the next one is begun.";
        warc_deflate_level: u8 = 0, 0..=9, "",
            "The compression level of WARC records; 0 stores them uncompressed, for speed.";
        warc_block_digest: bool = false, Any, "",
            "Also write WARC-Block-Digest, which takes a second digest over each record.";
        sync_ms: u64 = 1_000, 1..=60_000, "ms",
            "The time between two syncs of the WARC files. A power failure can cost what was \
             written in that time.";
        journal: bool = true, Any, "",
            "Keep a journal and checkpoints, so that the crawl can be resumed after a crash. Turn \
             this off only for measurements: the crawl then cannot be resumed.";
        journal_sync_ms: u64 = 100, 1..=60_000, "ms",
            "The time between two syncs of the journal. After a crash the crawl has to learn again \
             what happened since the last sync.";
        checkpoint_seconds: u64 = 300, 1..=86_400, "s",
            "The time between two checkpoints. The longer it is, the more of the journal a restart \
             has to read.";
    }
}

/// Why the settings cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The file cannot be read, or it is longer than [`limits::CONFIG_BYTES_MAX`].
    Unreadable {
        path: PathBuf,
        why: String,
    },
    /// The text is not TOML. The message says where.
    Syntax(String),
    UnknownKey {
        key: String,
        closest: Option<&'static str>,
    },
    /// The value is of the wrong type, or out of range.
    BadValue {
        key: &'static str,
        value: String,
        allowed: String,
    },
    /// Two values that are each allowed, but not together.
    Conflict(&'static str),
    /// A core that does not exist, that the system does not let us use, or that is named twice.
    Core {
        core: usize,
        why: &'static str,
    },
}

impl Settings {
    /// Reads settings from the file at `path`. What the file does not set has its default.
    pub fn load(path: &Path) -> Result<Settings, ConfigError> {
        Settings::default().with_file(path)
    }

    /// Returns these settings, changed by those that the file at `path` sets.
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

    /// Reads settings from `text`. What it does not set has its default.
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

    /// Sets one setting from `key=value`, as on the command line. The value is TOML, or a bare word
    /// for text.
    pub fn set_text(&mut self, assignment: &str) -> Result<(), ConfigError> {
        let (key, text) = assignment
            .split_once('=')
            .ok_or_else(|| ConfigError::Syntax(format!("`{assignment}` is not KEY=VALUE")))?;
        let (key, text) = (key.trim(), text.trim());
        let parsed = format!("value = {text}").parse::<toml::Table>().ok();
        let value = parsed.filter(|table| table.len() == 1).and_then(|mut t| t.remove("value"));
        self.set(key, &value.unwrap_or_else(|| toml::Value::String(text.to_owned())))
    }

    /// Checks all that can be checked without looking at the system: each value, and values
    /// together.
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
                "insecure_tls accepts any certificate, so extra_ca has no effect: set only one",
            ));
        }
        Ok(())
    }

    /// Returns the cores to run on, chosen from those that the system lets us use.
    pub fn cores_among(&self, usable: &[usize]) -> Result<Vec<usize>, ConfigError> {
        if self.cores.is_empty() {
            return Ok(usable.iter().copied().take(limits::SHARD_COUNT_MAX).collect());
        }
        for (index, core) in self.cores.iter().enumerate() {
            let refused = |why| Err(ConfigError::Core { core: *core, why });
            if !usable.contains(core) {
                return refused("does not exist or may not be used");
            }
            if self.cores[..index].contains(core) {
                return refused("is named twice");
            }
            if index >= limits::SHARD_COUNT_MAX {
                return refused("is one more than the limit allows");
            }
        }
        Ok(self.cores.clone())
    }

    /// Returns the text of the User-Agent header, `nephila/VERSION (+CONTACT)`.
    pub fn user_agent(&self) -> String {
        let product = concat!("nephila/", env!("CARGO_PKG_VERSION"));
        match self.contact.as_str() {
            "" => product.to_owned(),
            contact => format!("{product} (+{contact})"),
        }
    }
}

/// Parses a list of cores: `0,2-3` gives the cores 0, 2 and 3.
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

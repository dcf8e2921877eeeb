//! What may stand behind `nephila bench`.

use crate::base::limits::{QUEUE_RESIDENT_MB, QUEUE_RESIDENT_MB_MAX};
use crate::crawl::config::{ConfigError, Settings, parse_cores};
use crate::lab::bench::course::Grounds;
use crate::lab::bench::suites;
use crate::sys::affinity;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct BenchFlags {
    /// What to measure
    pub suite: Suite,
    /// Runs of each course
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// Seconds measured in each run, after those of the warm-up
    #[arg(long, value_name = "S", default_value_t = 30)]
    #[arg(value_parser = clap::value_parser!(u64).range(3..=86_400))]
    pub seconds: u64,
    #[arg(long, value_name = "S", default_value_t = 15)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub warm: u64,
    /// Fetches under way at once
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub slots: usize,
    /// Pages a second that the load of `latency` and `scale` goes by (default: measured, and 1000)
    #[arg(long, value_name = "PAGES/S")]
    pub capacity: Option<f64>,
    /// Pages that the web of `real` serves (default: ../shared/corpus/pages, or generated ones)
    #[arg(long, value_name = "DIR")]
    pub bodies: Option<PathBuf>,
    /// Another setting of the crawl, as key=value; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Core of the web (default: the first)
    #[arg(long, value_name = "N")]
    pub web_core: Option<usize>,
    /// Ports of the web and of its name server: this one and the next
    #[arg(long, value_name = "N", default_value_t = 8_580)]
    pub port: u16,
    /// File the report (Markdown, JSON, HTML, HdrHistogram log) in this folder
    #[arg(long, value_name = "DIR")]
    pub file: Option<PathBuf>,
    /// URLs offered, nine of ten of them known (seen); URLs queued (frontier); hosts of one URL
    /// each (hosts)
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(10..=10_000_000_000))]
    pub urls: u64,
    /// How known URLs are drawn: popular ones often (as links are), or all alike
    #[arg(long, value_enum, default_value = "skewed")]
    pub draw: Draw,
    /// What is measured of the frontier: pages with the texts of their links, pages whose links
    /// come as URLs, or the queues alone
    #[arg(long, value_enum, default_value = "pages")]
    pub course: Course,
    /// Hosts of the web, or that the queued URLs belong to (default: as the suite says)
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub hosts: Option<u32>,
    /// Hosts do not leave RAM (hosts)
    #[arg(long)]
    pub stay: bool,
    /// RAM for queued URLs, as the setting frontier_memory_mb
    #[arg(long, value_name = "MB", default_value_t = QUEUE_RESIDENT_MB)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=QUEUE_RESIDENT_MB_MAX))]
    pub memory: u64,
    /// An empty directory for the files (default: one in the system's temporary directory, removed)
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Cores of the crawler, the first of them alone but in `scale` (default: all but the web's)
    #[arg(long, value_name = "LIST")]
    pub cores: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Where the pages of `real` are looked for.
const CORPUS_PAGES: &str = "../shared/corpus/pages";

impl BenchFlags {
    /// The cores of the web and of the crawler: one is the web's, the others are the crawler's; on
    /// a machine with one core they share it.
    pub fn cores(&self) -> Result<(usize, Vec<usize>), ConfigError> {
        let allowed = affinity::allowed_cores();
        let web = self.web_core.or(allowed.first().copied()).unwrap_or(0);
        let mut cores: Vec<usize> = allowed.into_iter().filter(|core| *core != web).collect();
        if let Some(list) = &self.cores {
            cores = parse_cores(list)?;
        } else if cores.is_empty() {
            cores.push(web);
        }
        Ok((web, cores))
    }

    /// Where pages are read from, if they are there.
    pub fn bodies(&self) -> PathBuf {
        self.bodies.clone().unwrap_or_else(|| PathBuf::from(CORPUS_PAGES))
    }

    /// The one setting of a crawl that means something to a part of it alone.
    pub fn ready_memory_mb(&self) -> Result<usize, ConfigError> {
        let mut settings = Settings::default();
        for change in &self.set {
            if !change.starts_with("ready_memory_mb") {
                return Err(ConfigError::Conflict(
                    "a suite without a crawl knows one setting, ready_memory_mb",
                ));
            }
            settings.set_text(change)?;
        }
        settings.check()?;
        Ok(settings.ready_memory_mb)
    }

    pub fn options(
        &self,
        directory: &Path,
        command: String,
    ) -> Result<suites::Options, ConfigError> {
        let (web_core, cores) = self.cores()?;
        Ok(suites::Options {
            run_count: self.runs,
            window_seconds: self.seconds,
            warm_seconds: self.warm,
            fetch_slots: self.slots,
            host_count: self.hosts,
            capacity: self.capacity,
            cores,
            bodies: Some(self.bodies()).filter(|folder| folder.is_dir()),
            changes: self.set.clone(),
            grounds: Grounds {
                web_core: Some(web_core),
                port: self.port,
                directory: directory.to_owned(),
                seed: 1,
            },
            command,
        })
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Suite {
    /// Fetch only, nothing parsed: the ceiling
    Limit,
    /// 25 KB pages, 20,000 hosts, 1 s delay, full pipeline: the headline
    Small,
    /// Bodies of real pages, gzip-coded
    Real,
    /// As small over TLS 1.3, 30 % new connections
    Tls,
    /// Every page on a new host
    Cold,
    /// More cores, and more hosts at equal load
    Scale,
    /// Open loop at 50, 80 and 95 % of capacity
    Latency,
    /// The tokenizer beside lol_html and html5gum, links compared
    Parse,
    /// URL seen, its files on disk
    Seen,
    /// Pop, 60 links in, 6 new; or queues larger than RAM
    Frontier,
    /// Hosts that have nothing left to fetch
    Hosts,
}

impl Suite {
    /// Of whole crawls; the others measure single parts.
    pub fn of_crawls(self) -> Option<suites::Suite> {
        Some(match self {
            Suite::Limit => suites::Suite::Limit,
            Suite::Small => suites::Suite::Small,
            Suite::Real => suites::Suite::Real,
            Suite::Tls => suites::Suite::Tls,
            Suite::Cold => suites::Suite::Cold,
            Suite::Scale => suites::Suite::Scale,
            Suite::Latency => suites::Suite::Latency,
            Suite::Parse | Suite::Seen | Suite::Frontier | Suite::Hosts => return None,
        })
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Course {
    Pages,
    Urls,
    Queues,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Draw {
    Skewed,
    Uniform,
}

//! The flags of `nephila bench`.

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
    /// Number of runs of each measurement
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// Seconds measured in each run, after the warm-up
    #[arg(long, value_name = "S", default_value_t = 30)]
    #[arg(value_parser = clap::value_parser!(u64).range(3..=86_400))]
    pub seconds: u64,
    /// Seconds of warm-up before each measurement
    #[arg(long, value_name = "S", default_value_t = 15)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub warm: u64,
    /// Number of fetches in flight at the same time
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub slots: usize,
    /// Pages per second from which the load of `latency` and `scale` is computed (default:
    /// `latency` measures it, `scale` uses 1000)
    #[arg(long, value_name = "PAGES/S")]
    pub capacity: Option<f64>,
    /// Folder of the pages that the web of `real` serves (default: ../shared/corpus/pages, or
    /// generated pages if it does not exist)
    #[arg(long, value_name = "DIR")]
    pub bodies: Option<PathBuf>,
    /// A setting of the crawl, as key=value; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Core of the web (default: the first allowed core)
    #[arg(long, value_name = "N")]
    pub web_core: Option<usize>,
    /// Port of the web; its name server uses the next port
    #[arg(long, value_name = "N", default_value_t = 8_580)]
    pub port: u16,
    /// Write the report into this folder, as Markdown, JSON, HTML and an HdrHistogram log
    #[arg(long, value_name = "DIR")]
    pub file: Option<PathBuf>,
    /// Number of URLs: in `seen` those offered, of which nine in ten are known; in `frontier` those
    /// queued; in `hosts` the hosts, with one URL each
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(10..=10_000_000_000))]
    pub urls: u64,
    /// How `seen` draws the known URLs: popular ones more often, as real links do (skewed), or all
    /// equally often (uniform)
    #[arg(long, value_enum, default_value = "skewed")]
    pub draw: Draw,
    /// What `frontier` measures: pages with the texts of their links, pages whose links come as
    /// parsed URLs, or the queues alone
    #[arg(long, value_enum, default_value = "pages")]
    pub course: Course,
    /// Number of hosts of the web, or of the queued URLs in `frontier` (default: the suite's own)
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub hosts: Option<u32>,
    /// Keep all hosts in RAM: `hosts` then evicts none of them
    #[arg(long)]
    pub stay: bool,
    /// RAM for queued URLs in `frontier`, like the setting frontier_memory_mb
    #[arg(long, value_name = "MB", default_value_t = QUEUE_RESIDENT_MB)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=QUEUE_RESIDENT_MB_MAX))]
    pub memory: u64,
    /// An empty directory for the files of the run (default: a new one in the system's temporary
    /// directory, removed at the end)
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Cores of the crawler, such as 0,2-3. Only `scale` uses more than the first of them (default:
    /// all but the web's)
    #[arg(long, value_name = "LIST")]
    pub cores: Option<String>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// The folder that has the pages of `real`, unless `--bodies` names another.
const CORPUS_PAGES: &str = "../shared/corpus/pages";

impl BenchFlags {
    /// Returns the core of the web and those of the crawler. The web gets one core and the crawler
    /// gets the others; on a machine with one core they share it.
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

    /// Returns the folder of the pages; it may not exist.
    pub fn bodies(&self) -> PathBuf {
        self.bodies.clone().unwrap_or_else(|| PathBuf::from(CORPUS_PAGES))
    }

    /// Returns `ready_memory_mb`, the only setting of a crawl that also applies to a suite that
    /// measures one part alone.
    pub fn ready_memory_mb(&self) -> Result<usize, ConfigError> {
        let mut settings = Settings::default();
        for change in &self.set {
            if !change.starts_with("ready_memory_mb") {
                return Err(ConfigError::Conflict(
                    "this suite measures one part without a crawl, and takes only the setting \
                     ready_memory_mb",
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
    /// Fetch pages without parsing them: the upper limit of the machine
    Limit,
    /// The main benchmark: 25 KB pages, 20,000 hosts, 1 s delay, the full pipeline
    Small,
    /// Bodies of real pages, gzip-coded
    Real,
    /// Like `small`, over TLS 1.3 with 30 % of requests on new connections
    Tls,
    /// Every page is on a new host
    Cold,
    /// More cores, and more hosts at equal load
    Scale,
    /// Open loop at 50, 80 and 95 % of capacity
    Latency,
    /// The HTML parser compared with lol_html and html5gum, in speed and in the links found
    Parse,
    /// The URL-seen test, with its files on disk
    Seen,
    /// The host queues: take one URL, offer 60 links with 6 new ones; or queues larger than RAM
    Frontier,
    /// Memory for hosts that have nothing left to fetch
    Hosts,
}

impl Suite {
    /// Returns the suite if it measures whole crawls, and `None` if it measures a single part.
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

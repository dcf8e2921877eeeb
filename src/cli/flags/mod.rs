//! The command line's flags, and how they become settings: the configuration file is read first,
//! and flags override it.

#[cfg(feature = "lab")]
mod bench;
#[cfg(feature = "lab")]
mod lab;

#[cfg(feature = "lab")]
pub use bench::{BenchFlags, Course, Draw, Suite};
#[cfg(feature = "lab")]
pub use lab::{AuditFlags, DemoFlags, SimFlags, WebFlags};

use crate::base::limits::INSPECT_LINE_COUNT;
use crate::cli::inspect::{DeadFilter, Manner, Question};
use crate::cli::parsers;
use crate::crawl::config::{ConfigError, Settings, parse_cores};
use crate::crawl::flow::Outcome;
use crate::engine::Manifest;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::fmt::Write;
use std::path::PathBuf;

/// A web crawler engine for one Linux box: io_uring, one thread per core, polite by construction.
#[derive(Parser)]
#[command(version = env!("NEPHILA_VERSION"), arg_required_else_help = true)]
pub struct Flags {
    #[command(subcommand)]
    pub command: Commands,
}

#[derive(Subcommand)]
pub enum Commands {
    /// Crawl from seed URLs until nothing is left to fetch, and write the pages to WARC files
    Crawl(CrawlFlags),
    /// Serve a synthetic web on 127/8 with its own DNS, and print its seed URL on stdout
    #[cfg(feature = "lab")]
    Web(WebFlags),
    /// Crawl a synthetic web and judge the crawl; needs no flags
    #[cfg(feature = "lab")]
    Demo(DemoFlags),
    /// Judge a crawl by its directory or by a web's log: exit 0 if it kept its promises, 1 if not
    #[cfg(feature = "lab")]
    Audit(AuditFlags),
    /// Report damaged files in a crawl's directory and what is lost; with --apply, repair it
    Repair(RepairFlags),
    /// Show the state of a crawl, running or not: URLs by state, one host, one URL, dead letters
    Inspect(InspectFlags),
    /// Show what a host is waiting for, and why
    Explain(ExplainFlags),
    /// Run a parser on JSON lines from stdin, and print one JSON line for each, in order
    Try(TryFlags),
    /// Crawl synthetic webs with faults in simulation, on virtual time, and judge each crawl
    #[cfg(feature = "lab")]
    Sim(SimFlags),
    /// Measure one part of the crawler, on this machine
    #[cfg(feature = "lab")]
    Bench(BenchFlags),
    /// Print every setting as a configuration file, with its default, range and reason
    Settings,
}

impl Commands {
    /// Whether the command's own speed matters to who gives it.
    pub fn is_for_speed(&self) -> bool {
        match self {
            Commands::Crawl(_) => true,
            #[cfg(feature = "lab")]
            Commands::Demo(_) | Commands::Bench(_) => true,
            _ => false,
        }
    }
}

#[derive(Args)]
pub struct CrawlFlags {
    /// URLs to start from
    #[arg(value_name = "URL")]
    pub urls: Vec<String>,
    /// File of more seed URLs, one per line; # starts a comment; - is stdin; may be repeated
    #[arg(long, value_name = "FILE")]
    pub seeds: Vec<PathBuf>,
    /// Directory for WARC files and state. Without --resume it must not hold a crawl yet
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Continue the crawl in --out with its own settings; seeds and flags may be added
    #[arg(long)]
    pub resume: bool,
    /// TOML file of settings; `nephila settings` prints one. Flags override the file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Cores to run on, such as 0,2-3 (default: all allowed cores)
    #[arg(long, value_name = "LIST")]
    pub cores: Option<String>,
    /// Stop after this many pages
    #[arg(long, value_name = "N")]
    pub max_pages: Option<u64>,
    /// Stop after this many seconds
    #[arg(long, value_name = "S")]
    pub max_seconds: Option<u64>,
    /// Least time in milliseconds between two requests to one host or one address (default: 1000)
    #[arg(long, value_name = "N")]
    pub delay_ms: Option<u64>,
    /// DNS resolver to ask; may be repeated (default: those in /etc/resolv.conf)
    #[arg(long, value_name = "IP:PORT")]
    pub dns: Vec<String>,
    /// Also connect to private and loopback addresses
    #[arg(long)]
    pub allow_private: bool,
    /// URL or e-mail address for webmasters, sent in the User-Agent; required for public hosts
    #[arg(long, value_name = "URL")]
    pub contact: Option<String>,
    /// How far links are followed: on the seeds' hosts (host), on their domains (domain), or
    /// anywhere (web) (default: domain)
    #[arg(long, value_name = "HOW")]
    pub stay: Option<String>,
    /// The HTML parser that finds the links: own (nephila's) or lol (lol_html)
    #[arg(long, value_name = "WHO")]
    pub extractor: Option<String>,
    /// Any other setting; `nephila settings` lists them; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Print the summary as one JSON object on stdout
    #[arg(long)]
    pub json: bool,
    /// Show no progress, and log warnings only
    #[arg(long)]
    pub quiet: bool,
}

impl CrawlFlags {
    /// Returns the settings of the configuration file, overridden by the flags, and checked. A
    /// crawl that is resumed without a file starts from its own settings instead of the defaults.
    /// With a file, it keeps only those of its settings that decide what its state means.
    pub fn settings(&self) -> Result<Settings, String> {
        let manifest = self.resume.then(|| Manifest::load(&self.out)).transpose();
        let manifest = manifest.map_err(|error| error.to_string())?;
        let mut settings = match (&self.config, manifest) {
            (None, None) => Settings::default(),
            (None, Some(manifest)) => manifest.lasting_settings(),
            (Some(path), manifest) => {
                let before = manifest.map_or_else(Settings::default, |m| m.binding_settings());
                before.with_file(path).map_err(|error| match error {
                    error @ ConfigError::Unreadable { .. } => error.to_string(),
                    error => format!("{}: {error}", path.display()),
                })?
            }
        };
        self.put(&mut settings).map_err(|error| error.to_string())?;
        settings.check().map_err(|error| error.to_string())?;
        Ok(settings)
    }

    fn put(&self, settings: &mut Settings) -> Result<(), ConfigError> {
        for assignment in &self.set {
            settings.set_text(assignment)?;
        }
        if let Some(cores) = &self.cores {
            settings.cores = parse_cores(cores)?;
        }
        settings.max_pages = self.max_pages.unwrap_or(settings.max_pages);
        settings.max_seconds = self.max_seconds.unwrap_or(settings.max_seconds);
        settings.delay_ms = self.delay_ms.unwrap_or(settings.delay_ms);
        settings.allow_private |= self.allow_private;
        let texts =
            [("contact", &self.contact), ("stay", &self.stay), ("extractor", &self.extractor)];
        for (key, text) in texts {
            if let Some(text) = text {
                settings.set(key, &toml::Value::String(text.clone()))?;
            }
        }
        if !self.dns.is_empty() {
            settings.set("dns", &toml::Value::from(self.dns.clone()))?;
        }
        Ok(())
    }
}

#[derive(Args)]
#[command(after_help = REPAIR_HELP)]
pub struct RepairFlags {
    /// The directory of a crawl that is not running
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Repair: move damaged files to DIR/damaged, and write a new state from what is left
    #[arg(long)]
    pub apply: bool,
}

const REPAIR_HELP: &str = "\
Without --apply nothing is changed.

Exit codes: 0 the crawl can be resumed, 1 it cannot be resumed without --apply, 2 the directory
could not be read or repaired.";

#[derive(Args)]
#[command(after_help = INSPECT_HELP)]
pub struct InspectFlags {
    /// The directory of a crawl
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Show the history of this URL: its requests, records and state
    #[arg(value_name = "URL", conflicts_with_all = ["host", "dead", "reason"])]
    pub url: Option<String>,
    /// List the URLs of this host that are still to come; with --dead, list its dead letters
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// List dead letters, which are URLs that were given up
    #[arg(long)]
    pub dead: bool,
    /// Select only dead letters with this outcome, named as in the output of `nephila inspect DIR`
    #[arg(long, value_name = "NAME", value_parser = outcome)]
    pub reason: Option<Outcome>,
    /// Put these dead letters back into the queue; no crawl may be running in DIR
    #[arg(long, value_name = "URL", num_args = 1.., conflicts_with_all = ["url", "host", "dead"])]
    #[arg(conflicts_with_all = ["reason", "reinject_dead"])]
    pub reinject: Vec<String>,
    /// Put all dead letters back into the queue, or those that match --reason and --host
    #[arg(long, conflicts_with_all = ["url", "dead"])]
    pub reinject_dead: bool,
    /// Show at most this many lines of a list
    #[arg(long, value_name = "N", default_value_t = INSPECT_LINE_COUNT)]
    pub limit: usize,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

impl InspectFlags {
    pub fn question(&self) -> Result<Question, String> {
        let filter = DeadFilter { reason: self.reason, host: self.host.clone() };
        if self.reinject_dead {
            return Ok(Question::ReinjectDead(filter));
        }
        if !self.reinject.is_empty() {
            return Ok(Question::Reinject(self.reinject.clone()));
        }
        match (&self.url, &self.host) {
            _ if self.dead => Ok(Question::Dead(filter)),
            _ if self.reason.is_some() => {
                Err("--reason needs --dead or --reinject-dead".to_owned())
            }
            (Some(url), _) => Ok(Question::Url(url.clone())),
            (None, Some(host)) => Ok(Question::Host(host.clone())),
            (None, None) => Ok(Question::Overview),
        }
    }

    pub fn manner(&self) -> Manner {
        Manner { is_json: self.json, line_count_max: self.limit }
    }
}

const INSPECT_HELP: &str = "\
This command only reads, and works while the crawl is running, except with --reinject and
--reinject-dead. It shows the state as of the last entry of the crawl's journal. A URL is queued,
waiting (for its next try, outside of its host's queue), open (handed out, and its end is not
durable yet) or ended.

Exit codes: 0 done, 1 failed or the crawl does not know the URL or host, 2 bad usage or no crawl.";

#[derive(Args)]
pub struct ExplainFlags {
    /// The directory of a crawl
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// The name of a host, or one of its URLs
    #[arg(value_name = "HOST")]
    pub host: String,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(after_help = TRY_HELP)]
pub struct TryFlags {
    /// The parser to try
    pub what: Try,
    /// The HTML parser: own (nephila's) or lol (lol_html)
    #[arg(long, default_value = "own")]
    pub extractor: Reader,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Try {
    Url,
    Robots,
    Html,
    Sitemap,
    Http,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Reader {
    Own,
    Lol,
}

impl TryFlags {
    pub fn parser(&self) -> parsers::Parser {
        match (self.what, self.extractor) {
            (Try::Url, _) => parsers::Parser::Url,
            (Try::Robots, _) => parsers::Parser::Robots,
            (Try::Html, Reader::Own) => parsers::Parser::Html,
            (Try::Html, Reader::Lol) => parsers::Parser::HtmlLol,
            (Try::Sitemap, _) => parsers::Parser::Sitemap,
            (Try::Http, _) => parsers::Parser::Http,
        }
    }
}

const TRY_HELP: &str = r#"If a line cannot be answered, its answer is {"error": "..."}.

url     {"url", "base"?}
     -> {"url" (resolved), "normal" (normalised), "host", "slot", "fingerprint"}
robots  {"robots", "agent" (product token or whole User-Agent), "url" (or path)}
     -> {"allowed", "rule" ("Disallow: /x/" or null), "crawl_delay_ms", "sitemaps"}
html    {"html" or "html_base64" or "file", "base", "content_type"?}
     -> {"links": [{"url", "kind" (a, area, link, iframe, frame, refresh), "nofollow", "text"}],
         "title", "canonical", "robots" ("noindex, nofollow", one of them, or ""), "language",
         "charset", "text", "simhash" (hex; null for short texts), "links_dropped"}
sitemap {"sitemap" or "sitemap_base64" or "file", "url", "submitter"? (a host), "charset"?}
     -> {"form" (urlset, index, rss, atom, lines, or null), "error"? (why unpacking ended),
         "entries": [{"url", "allowed" (to be listed there), "lastmod", "priority"}],
         "refused", "over_cap"}
http    {"response_base64", "eof": bool, "method"? (GET or HEAD)}
     -> {"status", "headers": [[name, value], ...], "body_base64" (transfer coding removed),
         "complete", "reusable" (never after eof), "error"? (what was wrong behind the head)}"#;

fn outcome(name: &str) -> Result<Outcome, String> {
    Outcome::by_name(name).ok_or_else(|| format!("there is no outcome {name:?}"))
}

/// Returns every setting with its default, as a file that can be given to `--config`.
pub fn settings_text() -> String {
    let mut text = String::new();
    for setting in Settings::describe() {
        let _ = writeln!(text, "# {}", setting.why);
        let unit = if setting.unit.is_empty() { "" } else { ", in " };
        let _ = writeln!(text, "# {}{unit}{}.", setting.allowed, setting.unit);
        let _ = writeln!(text, "{} = {}\n", setting.name, setting.default);
    }
    text
}

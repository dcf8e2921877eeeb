//! What may stand on the command line, and how it becomes settings: file first, flags over it.

mod bench;

pub use bench::{BenchFlags, Course, Draw, Suite};

use clap::{Args, Parser, Subcommand, ValueEnum};
use nephila::config::{ConfigError, Settings, parse_cores};
use nephila::engine::Manifest;
use nephila::flow::Outcome;
use nephila::limits::INSPECT_LINE_COUNT;
use nephila::shard::Sabotage;
use nephila::tools::inspect::{DeadFilter, Manner, Question};
use nephila::tools::parsers;
use nephila::tools::sim::ScenePlan;
use nephila::web::{PROFILES, StandPlan, WebSpec};
use std::fmt::Write;
use std::net::SocketAddrV4;
use std::path::PathBuf;

/// A web crawler engine for one Linux box: io_uring, one thread per core, polite by construction.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
pub struct Flags {
    #[command(subcommand)]
    pub command: Commands,
}

#[derive(Subcommand)]
pub enum Commands {
    /// Crawl from seeds until nothing is left, into WARC files
    Crawl(CrawlFlags),
    /// Serve a synthetic web on 127/8, with its own DNS; its seed URL goes to stdout
    Web(WebFlags),
    /// Crawl a synthetic web: no flags needed
    Demo(DemoFlags),
    /// Judge a crawl by its directory or by a web's log: exit 0 if it kept its promises, 1 if not
    Audit(AuditFlags),
    /// Say what is damaged in a crawl's directory and what it costs; go on without it on request
    Repair(RepairFlags),
    /// Look inside a crawl, running or not: URLs by state, one host, one URL, dead letters
    Inspect(InspectFlags),
    /// Say what a host is waiting for, and why
    Explain(ExplainFlags),
    /// Try the parsers: JSON lines on stdin, one JSON line out for each, in order
    Try(TryFlags),
    /// Crawl stormy webs in simulation, on virtual time, and judge each crawl from outside
    Sim(SimFlags),
    /// Measure one part of the crawler, on this machine
    Bench(BenchFlags),
    /// Print every setting as a configuration file, with its default, range and reason
    Settings,
}

#[derive(Args)]
pub struct CrawlFlags {
    /// Where to start
    #[arg(value_name = "URL")]
    pub urls: Vec<String>,
    /// More seeds, one a line; # starts a comment; - is stdin
    #[arg(long, value_name = "FILE")]
    pub seeds: Vec<PathBuf>,
    /// Directory for WARC files and state; must not hold a crawl yet, unless --resume
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Go on with the crawl in DIR, by the settings it has; seeds and flags may be added
    #[arg(long)]
    pub resume: bool,
    /// TOML file of settings; `nephila settings` prints one. Flags go over it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Cores to run on, as 0,2-3 (default: all that are allowed)
    #[arg(long, value_name = "LIST")]
    pub cores: Option<String>,
    /// End after this many pages
    #[arg(long, value_name = "N")]
    pub max_pages: Option<u64>,
    /// End after this many seconds
    #[arg(long, value_name = "S")]
    pub max_seconds: Option<u64>,
    /// Least time between requests to one host, and to one address (default: 1000)
    #[arg(long, value_name = "N")]
    pub delay_ms: Option<u64>,
    /// Resolver to ask; may be repeated (default: those of /etc/resolv.conf)
    #[arg(long, value_name = "IP:PORT")]
    pub dns: Vec<String>,
    /// Also connect to private and loopback addresses
    #[arg(long)]
    pub allow_private: bool,
    /// URL or e-mail address for webmasters, sent in the User-Agent; required for public hosts
    #[arg(long, value_name = "URL")]
    pub contact: Option<String>,
    /// How far from the seeds links are followed: web, domain or host (default: domain)
    #[arg(long, value_name = "HOW")]
    pub stay: Option<String>,
    /// Who finds the links: own or lol
    #[arg(long, value_name = "WHO")]
    pub extractor: Option<String>,
    /// Any other setting; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Print the summary as one JSON object on stdout
    #[arg(long)]
    pub json: bool,
    /// No progress
    #[arg(long)]
    pub quiet: bool,
}

impl CrawlFlags {
    /// The configuration file and over it the flags, checked. A crawl that goes on has its own
    /// settings instead of the defaults, and beside a file those that decide what its state means.
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
pub struct WebFlags {
    /// Hosts, each with an address of its own (default: the profile's)
    #[arg(long, value_name = "N")]
    pub hosts: Option<u32>,
    /// URLs of all hosts together (default: the profile's)
    #[arg(long, value_name = "N")]
    pub pages: Option<u64>,
    /// The same seed gives the same web
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// What kind of web: default, plain, small, bench, rough or hostile
    #[arg(long, value_name = "NAME", default_value = "default", help = profile_help())]
    pub profile: String,
    /// Where the hosts answer: each has its own address in 127/8, so 0.0.0.0 and a port
    #[arg(long, value_name = "IP:PORT", default_value = "0.0.0.0:8080")]
    pub listen: SocketAddrV4,
    /// Where the name server answers, over UDP and TCP
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:5353")]
    pub dns: SocketAddrV4,
    /// Speak HTTPS, with an authority made at the start
    #[arg(long)]
    pub tls: bool,
    /// Write that authority's certificate here
    #[arg(long, value_name = "FILE")]
    pub ca_out: Option<PathBuf>,
    /// Serve the files of this folder, gzip-coded, in the place of pages
    #[arg(long, value_name = "DIR")]
    pub bodies: Option<PathBuf>,
    /// Write down each request and what its answer asks of a crawler, for `nephila audit`
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Write what a perfect crawl would find: JSON lines
    #[arg(long, value_name = "FILE")]
    pub truth: Option<PathBuf>,
    /// Core to run on (default: any)
    #[arg(long, value_name = "N")]
    pub core: Option<usize>,
}

impl WebFlags {
    /// Which web, and where it stands.
    pub fn stand(&self) -> Result<(WebSpec, StandPlan), String> {
        let address = self.listen.ip();
        if !address.is_unspecified() && !address.is_loopback() {
            return Err(format!("--listen {address}: the hosts are in 127/8; use 0.0.0.0:PORT"));
        }
        let profile = WebSpec::profile(&self.profile).map_err(|error| error.to_string())?;
        let host_count = self.hosts.unwrap_or(profile.host_count);
        // With other hosts than the profile's: as many pages on each, unless said otherwise.
        let pages_each = profile.page_count / u64::from(profile.host_count.max(1));
        let page_count = self.pages.unwrap_or(pages_each * u64::from(host_count));
        let tls = self.tls || profile.tls;
        let spec = WebSpec { host_count, page_count, seed: self.seed, tls, ..profile };
        spec.check().map_err(|error| error.to_string())?;
        if self.ca_out.is_some() && !spec.tls && !spec.hostile {
            return Err("--ca-out: there is no authority without --tls".to_owned());
        }
        let plan = StandPlan {
            port: self.listen.port(),
            dns: Some(self.dns.into()),
            log: self.log.clone(),
            truth: self.truth.clone(),
            ca_out: self.ca_out.clone(),
            bodies: self.bodies.clone(),
            core: self.core,
        };
        Ok((spec, plan))
    }
}

#[derive(Args)]
pub struct DemoFlags {
    /// Directory for WARC files (default: demo-crawl-TIME)
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the summary as one JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct SimFlags {
    /// The first seed; one seed is one history, byte for byte
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// So many seeds, from the first on
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub seeds: u64,
    /// Virtual hours after which a crawl is stopped
    #[arg(long, value_name = "H", default_value_t = 6)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=8_760))]
    pub hours: u64,
    /// Hosts of each web (default: drawn from the seed)
    #[arg(long, value_name = "N")]
    pub hosts: Option<u32>,
    /// URLs of each web (default: drawn from the seed)
    #[arg(long, value_name = "N")]
    pub pages: Option<u64>,
    /// Shards of each crawl (default: drawn from the seed)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub shards: Option<u16>,
    /// What kind of web: storm has weather and faulty lines, the others are calm
    #[arg(long, value_name = "NAME", default_value = "storm", help = profile_help())]
    pub profile: String,
    /// Break a rule on purpose, to see the judge notice: delay-short, robots-late, turn-skipped or
    /// retry-after-ignored
    #[arg(long, value_name = "RULE", value_parser = sabotage)]
    pub sabotage: Option<Sabotage>,
    /// Draw a page limit for each crawl, and let many hosts share an address
    #[arg(long)]
    pub limited: bool,
    /// Let a fifth to three fifths of all URLs answer 500 for ever
    #[arg(long)]
    pub broken: bool,
    /// Kill the crawler or cut its power so many times in each run, and start it again; the disk
    /// fails now and then
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub crashes: u32,
    /// Compare two versions of the code: tasks run in a fixed order, latencies are even and crashes
    /// come by the clock, so that `requests` in the JSON is the same where the crawl is
    #[arg(long)]
    pub steady: bool,
    /// Each of these kills one shard alone: the rest of the crawler must end by itself, in time
    #[arg(long)]
    pub lone: bool,
    /// Write each run's files and its web's log below this directory, as seed-N
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// One JSON object a seed on stdout
    #[arg(long)]
    pub json: bool,
}

impl SimFlags {
    pub fn plan(&self) -> ScenePlan {
        ScenePlan {
            profile: self.profile.clone(),
            hours: self.hours,
            host_count: self.hosts,
            page_count: self.pages,
            shard_count: self.shards,
            sabotage: self.sabotage,
            is_limited: self.limited,
            is_broken: self.broken,
            crash_count: self.crashes,
            is_steady: self.steady,
            is_lone: self.lone,
        }
    }
}

#[derive(Args)]
#[command(after_help = REPAIR_HELP)]
pub struct RepairFlags {
    /// The directory of a crawl that does not run
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Go on without what is lost: move damaged files to DIR/damaged and write the state anew
    #[arg(long)]
    pub apply: bool,
}

const REPAIR_HELP: &str = "\
Exit codes: 0 the crawl can go on, 1 it cannot as it is (--apply was not given), 2 nothing could be
done.";

#[derive(Args)]
#[command(after_help = AUDIT_HELP)]
pub struct AuditFlags {
    /// The directory of a crawl
    #[arg(value_name = "DIR", required_unless_present = "log")]
    pub dir: Option<PathBuf>,
    /// Judge by this log of `nephila web` instead, on the terms of DIR if it is given; may be
    /// repeated
    #[arg(long, value_name = "FILE")]
    pub log: Vec<PathBuf>,
    /// The delay that was promised (default: that of DIR, or 1000)
    #[arg(long, value_name = "N")]
    pub delay_ms: Option<u64>,
    /// IPv6 addresses that begin with the same so many bits are one address (default: what DIR
    /// was told, or 64)
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u8).range(1..=128))]
    pub ipv6_pace_prefix: Option<u8>,
    /// The crawler was killed, or lost power, and was started again then, both in nanoseconds of
    /// Unix time; may be repeated (default: what the logs of DIR tell of it). What had ended just
    /// before may be asked for again
    #[arg(long, value_name = "KILLED:STARTED", value_parser = stop_times)]
    pub stop: Vec<[u64; 2]>,
    /// Requests for one URL beyond the first that were promised to be enough (default: what DIR was
    /// told, or any number)
    #[arg(long, value_name = "N")]
    pub retries: Option<u32>,
    /// What should have been fetched, as `nephila web --truth` writes it
    #[arg(long, value_name = "FILE")]
    pub truth: Option<PathBuf>,
    /// Print the verdict as one JSON object
    #[arg(long)]
    pub json: bool,
}

const AUDIT_HELP: &str = "\
Judged: gaps between requests per host and per address, requests at once, robots.txt (known, obeyed,
reachable, fresh), Crawl-delay, Retry-After, URLs asked for again, and with --truth whether all that
is reachable was fetched and nothing else. No tolerance. A crawl that was resumed is judged over all
its lives.

Exit codes: 0 PASS, 1 FAIL, 2 nothing could be judged.";

#[derive(Args)]
#[command(after_help = INSPECT_HELP)]
pub struct InspectFlags {
    /// The directory of a crawl
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// One URL's history: requests, records, state
    #[arg(value_name = "URL", conflicts_with_all = ["host", "dead", "reason"])]
    pub url: Option<String>,
    /// List this host's URLs that are still to come; with --dead, its dead letters
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// List dead letters: URLs that were given up
    #[arg(long)]
    pub dead: bool,
    /// Only dead letters with this reason, an outcome as `nephila inspect DIR` names them
    #[arg(long, value_name = "NAME", value_parser = outcome)]
    pub reason: Option<Outcome>,
    /// Put these dead letters back into the queue; no crawl may run in DIR
    #[arg(long, value_name = "URL", num_args = 1.., conflicts_with_all = ["url", "host", "dead"])]
    #[arg(conflicts_with_all = ["reason", "reinject_dead"])]
    pub reinject: Vec<String>,
    /// Put all dead letters back, or those of --reason and --host
    #[arg(long, conflicts_with_all = ["url", "dead"])]
    pub reinject_dead: bool,
    /// Lines of a list
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
            _ if self.reason.is_some() => Err("--reason goes with --dead".to_owned()),
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
Reads alone, also beside a running crawl, but for --reinject and --reinject-dead. The state is that
of the last entry of the crawl's journal. URLs are queued, waiting (for another try by themselves),
open (handed out, and their end not durable) or ended.

Exit codes: 0 done, 1 failed or nothing known of it, 2 bad usage or no crawl.";

#[derive(Args)]
pub struct ExplainFlags {
    /// The directory of a crawl
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// A host's name, or a URL of it
    #[arg(value_name = "HOST")]
    pub host: String,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(after_help = TRY_HELP)]
pub struct TryFlags {
    /// Which parser
    pub what: Try,
    /// Who reads HTML
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

const TRY_HELP: &str = r#"A line that cannot be answered is answered with {"error": "..."}.

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

fn stop_times(text: &str) -> Result<[u64; 2], String> {
    let times = text.split_once(':').and_then(|(killed, started)| {
        let times = [killed.parse().ok()?, started.parse().ok()?];
        times.is_sorted().then_some(times)
    });
    times.ok_or_else(|| "must be two times in nanoseconds, the later behind a colon".to_owned())
}

fn outcome(name: &str) -> Result<Outcome, String> {
    Outcome::by_name(name).ok_or_else(|| format!("no outcome {name:?}"))
}

fn sabotage(name: &str) -> Result<Sabotage, String> {
    Sabotage::by_name(name).ok_or_else(|| format!("no rule {name:?} to break"))
}

fn profile_help() -> String {
    let mut text = "What kind of web:".to_owned();
    for profile in PROFILES {
        let _ = write!(text, "\n- {}: {}", profile.name, profile.about);
    }
    text + "\n"
}

/// Every setting as a file that could be given to `--config`.
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

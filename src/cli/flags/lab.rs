//! Flags of the laboratory: `web`, `demo`, `audit` and `sim`.

use crate::lab::sim::ScenePlan;
use crate::lab::web::{PROFILES, StandPlan, WebSpec};
use crate::shard::Sabotage;
use clap::Args;
use std::fmt::Write;
use std::net::SocketAddrV4;
use std::path::PathBuf;

const AUDIT_HELP: &str = "\
Judged: gaps between requests per host and per address, requests at once, robots.txt (known, obeyed,
reachable, fresh), Crawl-delay, Retry-After, URLs asked for again, and with --truth whether all that
is reachable was fetched and nothing else. No tolerance. A crawl that was resumed is judged over all
its lives.

Exit codes: 0 PASS, 1 FAIL, 2 nothing could be judged.";

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

fn stop_times(text: &str) -> Result<[u64; 2], String> {
    let times = text.split_once(':').and_then(|(killed, started)| {
        let times = [killed.parse().ok()?, started.parse().ok()?];
        times.is_sorted().then_some(times)
    });
    times.ok_or_else(|| "must be two times in nanoseconds, the later behind a colon".to_owned())
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

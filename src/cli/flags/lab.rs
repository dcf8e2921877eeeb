//! Flags of the lab's commands: `web`, `demo`, `audit` and `sim`.

use crate::lab::sim::ScenePlan;
use crate::lab::web::{PROFILES, StandPlan, WebSpec};
use crate::shard::Sabotage;
use clap::Args;
use std::fmt::Write;
use std::net::SocketAddrV4;
use std::path::PathBuf;

const AUDIT_HELP: &str = "\
The audit checks the gaps between requests to one host and to one address, requests at the same
time, robots.txt (it was known, obeyed, reachable and fresh), Crawl-delay, Retry-After, and URLs
that were requested again. With --truth it also checks that everything reachable was fetched and
nothing else. There is no tolerance. A crawl that was resumed is judged over all of its runs.

Exit codes: 0 PASS, 1 FAIL, 2 nothing could be judged.";

#[derive(Args)]
pub struct WebFlags {
    /// Number of hosts, each with its own address (default: the profile's number)
    #[arg(long, value_name = "N")]
    pub hosts: Option<u32>,
    /// Number of URLs on all hosts together (default: as many per host as in the profile)
    #[arg(long, value_name = "N")]
    pub pages: Option<u64>,
    /// Seed of the web: the same seed gives the same web
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// What kind of web: default, plain, small, bench, rough or hostile
    #[arg(long, value_name = "NAME", default_value = "default", help = profile_help())]
    pub profile: String,
    /// Where the hosts listen. Each host has its own address in 127/8, so give 0.0.0.0 and a port
    #[arg(long, value_name = "IP:PORT", default_value = "0.0.0.0:8080")]
    pub listen: SocketAddrV4,
    /// Where the name server listens, over UDP and TCP
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:5353")]
    pub dns: SocketAddrV4,
    /// Serve HTTPS, with certificates of an authority that is created at the start
    #[arg(long)]
    pub tls: bool,
    /// Write the certificate of the --tls authority to this file
    #[arg(long, value_name = "FILE")]
    pub ca_out: Option<PathBuf>,
    /// Serve the files of this folder, gzip-coded, instead of generated pages
    #[arg(long, value_name = "DIR")]
    pub bodies: Option<PathBuf>,
    /// Log each request, and what its answer asks of a crawler, for `nephila audit`
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Write what a perfect crawl would find, as JSON lines
    #[arg(long, value_name = "FILE")]
    pub truth: Option<PathBuf>,
    /// Core to run on (default: any)
    #[arg(long, value_name = "N")]
    pub core: Option<usize>,
}

impl WebFlags {
    /// Returns which web to serve, and where to serve it.
    pub fn stand(&self) -> Result<(WebSpec, StandPlan), String> {
        let address = self.listen.ip();
        if !address.is_unspecified() && !address.is_loopback() {
            return Err(format!(
                "--listen {address}: each host has its own address in 127/8; use 0.0.0.0:PORT"
            ));
        }
        let profile = WebSpec::profile(&self.profile).map_err(|error| error.to_string())?;
        let host_count = self.hosts.unwrap_or(profile.host_count);
        // With another number of hosts than the profile's, each host has as many pages as in the
        // profile, unless --pages says otherwise.
        let pages_each = profile.page_count / u64::from(profile.host_count.max(1));
        let page_count = self.pages.unwrap_or(pages_each * u64::from(host_count));
        let tls = self.tls || profile.tls;
        let spec = WebSpec { host_count, page_count, seed: self.seed, tls, ..profile };
        spec.check().map_err(|error| error.to_string())?;
        if self.ca_out.is_some() && !spec.tls && !spec.hostile {
            return Err("--ca-out needs --tls: there is no authority without it".to_owned());
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
    /// Directory for the crawl and the web's log (default: demo-crawl-TIME)
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the summary as one JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct SimFlags {
    /// First seed. A seed always gives the same run, byte for byte
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Number of seeds to run, counted up from the first
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub seeds: u64,
    /// Stop each crawl after this many virtual hours
    #[arg(long, value_name = "H", default_value_t = 6)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=8_760))]
    pub hours: u64,
    /// Number of hosts of each web (default: drawn from the seed)
    #[arg(long, value_name = "N")]
    pub hosts: Option<u32>,
    /// Number of URLs of each web (default: drawn from the seed)
    #[arg(long, value_name = "N")]
    pub pages: Option<u64>,
    /// Number of shards of each crawl (default: drawn from the seed)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub shards: Option<u16>,
    /// What kind of web: storm has weather and faulty lines, the others are calm
    #[arg(long, value_name = "NAME", default_value = "storm", help = profile_help())]
    pub profile: String,
    /// Break a rule on purpose, to check that the referee finds it: delay-short, robots-late,
    /// turn-skipped or retry-after-ignored
    #[arg(long, value_name = "RULE", value_parser = sabotage)]
    pub sabotage: Option<Sabotage>,
    /// Draw a page limit for each crawl, and let many hosts share an address
    #[arg(long)]
    pub limited: bool,
    /// Let a fifth to three fifths of all URLs always answer 500
    #[arg(long)]
    pub broken: bool,
    /// In each run, kill the crawler or cut its power this many times, and start it again each
    /// time. The disk also fails now and then
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub crashes: u32,
    /// For comparing two versions of the code: tasks run in a fixed order, latencies are even and
    /// crashes come at fixed times, so that the same crawl gives the same `requests` in the JSON
    #[arg(long)]
    pub steady: bool,
    /// Let each of the --crashes kill one shard alone: the rest of the crawler must then end by
    /// itself, in time
    #[arg(long)]
    pub lone: bool,
    /// Write the files of each run and the log of its web into this directory, as seed-N
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print one JSON object per seed on stdout
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
    /// Judge by this log of `nephila web` instead of the logs in DIR. If DIR is given too, its
    /// settings apply; may be repeated
    #[arg(long, value_name = "FILE")]
    pub log: Vec<PathBuf>,
    /// The promised delay between requests, in milliseconds (default: the one set in DIR, or 1000)
    #[arg(long, value_name = "N")]
    pub delay_ms: Option<u64>,
    /// IPv6 addresses that share this many leading bits count as one address (default: the setting
    /// of DIR, or 64)
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u8).range(1..=128))]
    pub ipv6_pace_prefix: Option<u8>,
    /// When the crawler was killed or lost power, and when it was started again, both as Unix time
    /// in nanoseconds; may be repeated (default: what the logs of DIR say). Pages that ended just
    /// before a stop may be requested again
    #[arg(long, value_name = "KILLED:STARTED", value_parser = stop_times)]
    pub stop: Vec<[u64; 2]>,
    /// How often one URL may be requested again after its first request (default: the setting of
    /// DIR, or any number)
    #[arg(long, value_name = "N")]
    pub retries: Option<u32>,
    /// The list of what should have been fetched, as `nephila web --truth` writes it
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
    times.ok_or_else(|| {
        "must be two times in nanoseconds, as KILLED:STARTED, the later one second".to_owned()
    })
}

fn sabotage(name: &str) -> Result<Sabotage, String> {
    Sabotage::by_name(name).ok_or_else(|| format!("there is no rule {name:?} to break"))
}

fn profile_help() -> String {
    let mut text = "What kind of web:".to_owned();
    for profile in PROFILES {
        let _ = write!(text, "\n- {}: {}", profile.name, profile.about);
    }
    text + "\n"
}

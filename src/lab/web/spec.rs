//! The spec of a synthetic web: its size, its seed, how it behaves, and the named profiles.
//!
//! A spec is a plain value. Equal specs give the same web, byte for byte, on every core.

use crate::base::limits::{WEB_HOST_COUNT_MAX, WEB_LINK_COUNT_MAX, WEB_PAGE_BYTES_MAX};
use crate::lab::web::weather::SPELL_SECONDS_MIN;
use std::fmt;

/// A web in numbers. Fractions are of hosts or of URLs, as their names say.
#[derive(Clone, Debug, PartialEq)]
pub struct WebSpec {
    pub host_count: u32,
    /// URLs of all kinds, over all hosts: pages, redirects, errors and denied pages.
    pub page_count: u64,
    pub seed: u64,
    pub split: Split,
    /// Links on a page that is large enough to hold them.
    pub link_count: u32,
    /// How many of these links may be new to a crawler. The rest are the site's navigation and the
    /// roots of well-known hosts, which repeat.
    pub fresh_link_count: u32,
    /// Writes the same link in many ways: relative, with fragments, tracking parameters, entities.
    pub varied_links: bool,
    /// Writes half of the links that have query parameters with the parameters in another order.
    pub turned_queries: bool,
    /// Page sizes are log-normal: this is the mean, and the next field is the sigma of the
    /// underlying normal. With sigma 0 all pages have one size.
    pub page_bytes_mean: u32,
    pub page_bytes_sigma: f64,
    /// The share of hosts with a robots.txt that denies `/private/`, and the share of their URLs
    /// under it.
    pub robots_deny_fraction: f64,
    pub denied_page_fraction: f64,
    pub crawl_delay_fraction: f64,
    /// The share of hosts that deny everything, and of those that answer robots.txt with 500. Only
    /// hosts without children in the host tree do so.
    pub robots_closed_fraction: f64,
    pub robots_failing_fraction: f64,
    pub sitemap_fraction: f64,
    /// The share of URLs, on hosts with a sitemap, that only the sitemap leads to.
    pub orphan_fraction: f64,
    /// Sitemaps are indexes full of tricks; the pages to learn from them are the same.
    pub hostile_sitemaps: bool,
    pub redirect_fraction: f64,
    pub duplicate_fraction: f64,
    pub near_duplicate_fraction: f64,
    /// The share of URLs that answer 404, 410, 500, or at times 503 with Retry-After.
    pub error_fraction: f64,
    /// All of these URLs answer 500.
    pub errors_are_500: bool,
    /// Delays are log-normal as well; half of the variance belongs to the host. With zero, answers
    /// come at once.
    pub latency_ms_median: f64,
    pub latency_sigma: f64,
    pub gzip_fraction: f64,
    pub chunked_fraction: f64,
    /// The share of responses after which the server closes the connection, in addition to its
    /// limit of requests for each connection.
    pub close_fraction: f64,
    /// How long an answer of the name server is valid.
    pub dns_ttl_seconds: u32,
    /// The share of hosts whose UDP answers are truncated, so that the question must come again
    /// over TCP.
    pub dns_truncated_fraction: f64,
    /// The share of addresses whose hosts change their behaviour over time (`weather`), and how
    /// long each spell lasts. The hosts at all other addresses are healthy.
    pub weather_fraction: f64,
    pub weather_spell_seconds: u32,
    pub hosts_per_address: u32,
    pub hosts_per_site: u32,
    /// The first two octets of the first address. The second one grows with the number of hosts.
    pub network: [u8; 2],
    pub tls: bool,
    pub port: u16,
    /// Adds the hostile hosts. Those of them that use TLS answer at `tls_port`.
    pub hostile: bool,
    pub tls_port: u16,
}

/// How the URLs are divided among the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    Even,
    /// A Pareto tail: most hosts are small, a few very large.
    Skewed,
}

pub struct Profile {
    pub name: &'static str,
    pub about: &'static str,
    pub spec: WebSpec,
}

pub const PROFILES: &[Profile] = &[
    profile("default", "a mild web: some redirects, errors and duplicates, 5 ms latency", DEFAULT),
    profile("plain", "every URL is a page, links are written in one way, no latency", PLAIN),
    profile("small", "one plain host of 200 pages of 25 KB, to compare crawlers with", SMALL),
    profile("bench", "20,000 hosts, 10 million pages of 25 KB on average (log-normal)", BENCH),
    profile("bench-gzip", "like bench, but every page is gzip-coded", BENCH_GZIP),
    profile(
        "bench-tls",
        "like bench over TLS; 30 % of connections are closed after an answer",
        BENCH_TLS,
    ),
    profile("rough", "many errors and redirects, closed and slow hosts", ROUGH),
    profile("storm", "like rough, and most hosts change their behaviour every 15 minutes", STORM),
    profile("hostile", "20 plain hosts, and one host for each way to hurt a crawler", HOSTILE),
];

const fn profile(name: &'static str, about: &'static str, spec: WebSpec) -> Profile {
    Profile { name, about, spec }
}

const DEFAULT: WebSpec = WebSpec {
    host_count: 1_000,
    page_count: 100_000,
    seed: 1,
    split: Split::Even,
    link_count: 60,
    fresh_link_count: 6,
    varied_links: true,
    turned_queries: false,
    page_bytes_mean: 25_000,
    page_bytes_sigma: 0.6,
    robots_deny_fraction: 0.3,
    denied_page_fraction: 0.05,
    crawl_delay_fraction: 0.0,
    robots_closed_fraction: 0.01,
    robots_failing_fraction: 0.0,
    sitemap_fraction: 0.1,
    orphan_fraction: 0.0,
    hostile_sitemaps: false,
    redirect_fraction: 0.04,
    duplicate_fraction: 0.03,
    near_duplicate_fraction: 0.02,
    error_fraction: 0.03,
    errors_are_500: false,
    latency_ms_median: 5.0,
    latency_sigma: 0.5,
    gzip_fraction: 0.5,
    chunked_fraction: 0.3,
    close_fraction: 0.01,
    dns_ttl_seconds: 300,
    dns_truncated_fraction: 0.0,
    weather_fraction: 0.0,
    weather_spell_seconds: 900,
    hosts_per_address: 1,
    hosts_per_site: 4,
    network: [127, 16],
    tls: false,
    port: 80,
    hostile: false,
    tls_port: 443,
};

const PLAIN: WebSpec = WebSpec {
    split: Split::Even,
    varied_links: false,
    robots_deny_fraction: 0.0,
    robots_closed_fraction: 0.0,
    sitemap_fraction: 0.0,
    redirect_fraction: 0.0,
    duplicate_fraction: 0.0,
    near_duplicate_fraction: 0.0,
    error_fraction: 0.0,
    latency_ms_median: 0.0,
    gzip_fraction: 0.0,
    chunked_fraction: 0.0,
    close_fraction: 0.0,
    ..DEFAULT
};

const SMALL: WebSpec = WebSpec { host_count: 1, page_count: 200, page_bytes_sigma: 0.0, ..PLAIN };

/// Names are valid for longer than any bench lasts. With five minutes, the number of hosts would
/// decide whether a name is asked for again within the measured time.
const BENCH: WebSpec = WebSpec {
    host_count: 20_000,
    page_count: 10_000_000,
    varied_links: true,
    robots_deny_fraction: 0.3,
    dns_ttl_seconds: 3_600,
    ..PLAIN
};

const BENCH_GZIP: WebSpec = WebSpec { gzip_fraction: 1.0, ..BENCH };
const BENCH_TLS: WebSpec = WebSpec { tls: true, close_fraction: 0.3, ..BENCH };

const ROUGH: WebSpec = WebSpec {
    split: Split::Skewed,
    robots_deny_fraction: 0.5,
    denied_page_fraction: 0.1,
    crawl_delay_fraction: 0.2,
    robots_closed_fraction: 0.05,
    robots_failing_fraction: 0.02,
    sitemap_fraction: 0.3,
    redirect_fraction: 0.1,
    duplicate_fraction: 0.1,
    near_duplicate_fraction: 0.05,
    error_fraction: 0.1,
    latency_ms_median: 40.0,
    latency_sigma: 1.2,
    close_fraction: 0.1,
    dns_truncated_fraction: 0.1,
    hosts_per_address: 4,
    ..DEFAULT
};

/// Pages are smaller than in the other profiles, because a storm is about requests and not about
/// bytes.
const STORM: WebSpec = WebSpec {
    page_bytes_mean: 6_000,
    link_count: 30,
    denied_page_fraction: 0.05,
    crawl_delay_fraction: 0.1,
    redirect_fraction: 0.06,
    duplicate_fraction: 0.05,
    error_fraction: 0.06,
    latency_ms_median: 20.0,
    latency_sigma: 1.0,
    close_fraction: 0.05,
    dns_truncated_fraction: 0.05,
    hosts_per_address: 2,
    weather_fraction: 0.6,
    ..ROUGH
};
const HOSTILE: WebSpec = WebSpec { host_count: 20, page_count: 400, hostile: true, ..PLAIN };

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecError {
    NoProfile(String),
    /// The name of a setting, and the rule that it breaks.
    Setting(&'static str, &'static str),
}

impl fmt::Display for SpecError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpecError::NoProfile(name) => {
                write!(out, "there is no profile {name:?}; choose one of:")?;
                PROFILES.iter().try_for_each(|profile| write!(out, " {}", profile.name))
            }
            SpecError::Setting(name, rule) => write!(out, "{name} must be {rule}"),
        }
    }
}

impl std::error::Error for SpecError {}

impl Default for WebSpec {
    fn default() -> WebSpec {
        DEFAULT
    }
}

impl WebSpec {
    pub fn profile(name: &str) -> Result<WebSpec, SpecError> {
        let profile = PROFILES.iter().find(|profile| profile.name == name);
        profile.map(|p| p.spec.clone()).ok_or_else(|| SpecError::NoProfile(name.to_owned()))
    }

    /// Sets mean and sigma so that half of the pages are smaller than `median` bytes.
    pub fn with_page_bytes_median(mut self, median: u32, sigma: f64) -> WebSpec {
        self.page_bytes_sigma = sigma;
        self.page_bytes_mean = (f64::from(median) * (sigma * sigma / 2.0).exp()).round() as u32;
        self
    }

    pub fn page_bytes_median(&self) -> f64 {
        f64::from(self.page_bytes_mean)
            * (-self.page_bytes_sigma * self.page_bytes_sigma / 2.0).exp()
    }

    /// Checks every rule that a spec must keep before a web can be made from it.
    pub fn check(&self) -> Result<(), SpecError> {
        let fractions = [
            ("robots_deny_fraction", self.robots_deny_fraction),
            ("denied_page_fraction", self.denied_page_fraction),
            ("crawl_delay_fraction", self.crawl_delay_fraction),
            ("robots_closed_fraction", self.robots_closed_fraction),
            ("robots_failing_fraction", self.robots_failing_fraction),
            ("sitemap_fraction", self.sitemap_fraction),
            ("orphan_fraction", self.orphan_fraction),
            ("redirect_fraction", self.redirect_fraction),
            ("duplicate_fraction", self.duplicate_fraction),
            ("near_duplicate_fraction", self.near_duplicate_fraction),
            ("error_fraction", self.error_fraction),
            ("gzip_fraction", self.gzip_fraction),
            ("chunked_fraction", self.chunked_fraction),
            ("close_fraction", self.close_fraction),
            ("dns_truncated_fraction", self.dns_truncated_fraction),
            ("weather_fraction", self.weather_fraction),
        ];
        for (name, fraction) in fractions {
            rule((0.0..=1.0).contains(&fraction), name, "between 0 and 1")?;
        }
        // Each leaf is linked from a content page: with more leaves than pages, pages would be all
        // links.
        let leaves = 1.5 * (self.redirect_fraction + self.denied_page_fraction)
            + self.duplicate_fraction
            + self.near_duplicate_fraction
            + self.orphan_fraction
            + self.error_fraction;
        rule(
            leaves <= 0.75,
            "the sum of page fractions",
            "at most 0.75 (denied and redirects x 1.5)",
        )?;
        let hosts = 1..=WEB_HOST_COUNT_MAX;
        rule(hosts.contains(&self.host_count), "host_count", "between 1 and a million")?;
        let pages = u64::from(self.host_count)..=u64::from(u32::MAX);
        rule(pages.contains(&self.page_count), "page_count", "between host_count and 2^32")?;
        let bytes = 1..=WEB_PAGE_BYTES_MAX as u32;
        rule(bytes.contains(&self.page_bytes_mean), "page_bytes_mean", "at most 4 MB")?;
        let sigmas = 0.0..=3.0;
        rule(sigmas.contains(&self.page_bytes_sigma), "page_bytes_sigma", "between 0 and 3")?;
        rule(sigmas.contains(&self.latency_sigma), "latency_sigma", "between 0 and 3")?;
        rule(self.latency_ms_median >= 0.0, "latency_ms_median", "at least 0")?;
        rule(self.link_count <= WEB_LINK_COUNT_MAX, "link_count", "at most 500")?;
        rule(self.fresh_link_count <= self.link_count, "fresh_link_count", "at most link_count")?;
        let spells = SPELL_SECONDS_MIN..=86_400;
        let spell = self.weather_spell_seconds;
        rule(spells.contains(&spell), "weather_spell_seconds", "ten minutes to a day")?;
        let is_still = self.weather_fraction == 0.0 || self.dns_ttl_seconds <= spell / 2;
        rule(is_still, "dns_ttl_seconds", "half of weather_spell_seconds at most")?;
        rule(self.hosts_per_address > 0, "hosts_per_address", "at least 1")?;
        rule(self.hosts_per_site > 0, "hosts_per_site", "at least 1")?;
        rule(self.network[1] <= 128, "network", "a second octet of at most 128")?;
        rule(self.port > 0, "port", "at least 1")?;
        rule(!(self.hostile && self.tls), "tls", "off in a hostile web, which has its own")?;
        rule(self.tls_port > 0, "tls_port", "at least 1")
    }
}

fn rule(kept: bool, name: &'static str, rule: &'static str) -> Result<(), SpecError> {
    if kept { Ok(()) } else { Err(SpecError::Setting(name, rule)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_is_found_by_name_and_keeps_the_rules() {
        for profile in PROFILES {
            assert_eq!(WebSpec::profile(profile.name), Ok(profile.spec.clone()));
            assert_eq!(profile.spec.check(), Ok(()), "{}", profile.name);
        }
        let error = WebSpec::profile("nope").unwrap_err().to_string();
        assert!(error.contains("default plain small bench bench-gzip bench-tls rough"), "{error}");
    }

    #[test]
    fn a_spec_that_breaks_a_rule_names_the_setting() {
        let broken = WebSpec { redirect_fraction: f64::NAN, ..DEFAULT };
        assert_eq!(broken.check(), Err(SpecError::Setting("redirect_fraction", "between 0 and 1")));
        assert!(WebSpec { page_count: 10, ..DEFAULT }.check().is_err());
        assert!(WebSpec { error_fraction: 0.9, ..DEFAULT }.check().is_err());
        assert!(WebSpec { dns_ttl_seconds: 451, ..STORM }.check().is_err());
        assert!(WebSpec { dns_ttl_seconds: 450, ..STORM }.check().is_ok());
    }

    #[test]
    fn the_median_can_be_asked_for_exactly() {
        let spec = DEFAULT.with_page_bytes_median(20_000, 0.7);
        assert!((spec.page_bytes_median() - 20_000.0).abs() < 1.0);
    }
}

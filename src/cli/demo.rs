//! `nephila demo`: starts a synthetic web, crawls it politely, and lets the referee judge the crawl
//! by the log of the web's servers. The web and the crawl have no options.

use crate::crawl::config::{Settings, Stay};
use crate::crawl::metrics::Report;
use crate::engine::{self, EndReason, EngineError, Summary};
use crate::lab::audit::{self, AuditError, Verdict, crawl_dir::CrawlDir, web_log::WebLogs};
use crate::lab::web::{Split, Stand, StandError, StandPlan, WebSpec};
use crate::proto::url::{Url, UrlError};
use crate::sys::process::Signals;
use std::fmt;
use std::path::{Path, PathBuf};

/// With ten URLs per host and one request per second, the crawl takes little more than ten seconds.
const HOST_COUNT: u32 = 600;
const PAGE_COUNT: u64 = 6_000;
/// This is less than the default of a crawl, because the third retry would make the demo wait for
/// half a minute.
const RETRY_COUNT_MAX: u8 = 2;

#[derive(Debug)]
pub enum DemoError {
    Stand(StandError),
    Seed(UrlError),
    Engine(EngineError),
    Directory(std::io::Error),
    Audit(AuditError),
}

/// A synthetic web that is running, and the crawl of it that has not begun yet.
pub struct Demo {
    stand: Stand,
    settings: Settings,
    seed: Url,
    out: PathBuf,
    log: PathBuf,
    truth: PathBuf,
}

impl Demo {
    /// Starts the synthetic web. The log of its servers and the list of what a crawl should fetch
    /// are written into `out`, beside the crawl.
    pub fn start(out: &Path) -> Result<Demo, DemoError> {
        let spec = WebSpec {
            host_count: HOST_COUNT,
            page_count: PAGE_COUNT,
            split: Split::Even,
            ..WebSpec::default()
        };
        std::fs::create_dir_all(out).map_err(DemoError::Directory)?;
        let (log, truth) = (out.join("web.log"), out.join("web-truth.jsonl"));
        let plan = StandPlan {
            log: Some(log.clone()),
            truth: Some(truth.clone()),
            ..StandPlan::default()
        };
        let stand = Stand::start(spec, plan).map_err(DemoError::Stand)?;
        let seed = Url::parse(&stand.seed_url).map_err(DemoError::Seed)?;
        let dns = vec![stand.dns];
        let settings = Settings {
            allow_private: true,
            dns,
            retry_count_max: RETRY_COUNT_MAX,
            stay: Stay::Web,
            ..Settings::default()
        };
        Ok(Demo { stand, settings, seed, out: out.to_owned(), log, truth })
    }

    /// Returns one line that tells the operator what is crawled, and how fast.
    pub fn about(&self) -> String {
        format!(
            "a synthetic web of {HOST_COUNT} hosts and {PAGE_COUNT} URLs, from {}, at most one \
             request a second to each host",
            self.seed
        )
    }

    /// Crawls, and lets the referee judge the crawl by the web's log. For an interrupted crawl the
    /// referee does not check whether everything was fetched.
    pub fn crawl(
        self,
        signals: Option<&Signals>,
        watch: &mut dyn FnMut(&[Report]),
    ) -> Result<(Summary, Verdict), DemoError> {
        let summary = engine::crawl(self.settings, vec![self.seed], &self.out, signals, watch);
        self.stand.stop().map_err(DemoError::Stand)?;
        let summary = summary.map_err(DemoError::Engine)?;
        let terms = CrawlDir::open(&self.out).map_err(DemoError::Audit)?.terms;
        let truth = (summary.reason == EndReason::Done)
            .then(|| audit::truth::read(&self.truth))
            .transpose()
            .map_err(DemoError::Audit)?;
        let verdict = audit::judge(&WebLogs::files(vec![self.log]), &terms, truth);
        Ok((summary, verdict.map_err(DemoError::Audit)?))
    }
}

impl fmt::Display for DemoError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DemoError::Stand(error) => write!(out, "{error}"),
            DemoError::Seed(error) => write!(out, "{error}"),
            DemoError::Engine(error) => write!(out, "{error}"),
            DemoError::Directory(error) => write!(out, "cannot create the directory: {error}"),
            DemoError::Audit(error) => write!(out, "{error}"),
        }
    }
}

impl std::error::Error for DemoError {}

//! `nephila demo`: a synthetic web and a polite crawl of it, with nothing to set.

use crate::config::Settings;
use crate::engine::{self, EngineError, Summary};
use crate::metrics::Report;
use crate::sys::process::Signals;
use crate::url::{Url, UrlError};
use crate::web::{Split, Stand, StandError, StandPlan, WebSpec};
use std::fmt;
use std::path::Path;

/// Ten URLs a host at one a second: the crawl takes little more than as many seconds.
const HOST_COUNT: u32 = 600;
const PAGE_COUNT: u64 = 6_000;

#[derive(Debug)]
pub enum DemoError {
    Stand(StandError),
    Seed(UrlError),
    Engine(EngineError),
}

/// A synthetic web that stands, and the crawl that is about to begin.
pub struct Demo {
    stand: Stand,
    settings: Settings,
    seed: Url,
}

impl Demo {
    /// Starts the synthetic web.
    pub fn start() -> Result<Demo, DemoError> {
        let spec = WebSpec {
            host_count: HOST_COUNT,
            page_count: PAGE_COUNT,
            split: Split::Even,
            ..WebSpec::default()
        };
        let stand = Stand::start(spec, StandPlan::default()).map_err(DemoError::Stand)?;
        let seed = Url::parse(&stand.seed_url).map_err(DemoError::Seed)?;
        let dns = vec![stand.dns];
        let settings = Settings { allow_private: true, dns, ..Settings::default() };
        Ok(Demo { stand, settings, seed })
    }

    /// One sentence for the operator.
    pub fn about(&self) -> String {
        format!(
            "a synthetic web of {HOST_COUNT} hosts and {PAGE_COUNT} URLs, from {}, at most one \
             request a second to each host",
            self.seed
        )
    }

    pub fn crawl(
        self,
        out: &Path,
        signals: Option<&Signals>,
        watch: &mut dyn FnMut(&[Report]),
    ) -> Result<Summary, DemoError> {
        let summary = engine::crawl(self.settings, vec![self.seed], out, signals, watch);
        self.stand.stop().map_err(DemoError::Stand)?;
        summary.map_err(DemoError::Engine)
    }
}

impl fmt::Display for DemoError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DemoError::Stand(error) => write!(out, "{error}"),
            DemoError::Seed(error) => write!(out, "{error}"),
            DemoError::Engine(error) => write!(out, "{error}"),
        }
    }
}

impl std::error::Error for DemoError {}

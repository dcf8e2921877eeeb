//! `nephila bench`: named suites, each one command, with a table, JSON, HdrHistogram logs and a
//! page with plots.
//!
//! Suites of whole crawls ([`suites`]) run a [`course`] several times; [`limit`] is the ceiling
//! they are judged by; [`frontier`], [`seen`], [`hosts`] and [`parse`] measure single parts: real
//! files, real memory, one core. A [`report`] says what, where and how it was measured. They use
//! the crate's modules as the crawler does; nothing imports them.

pub mod course;
pub mod frontier;
pub mod hosts;
pub mod limit;
pub mod parse;
pub mod parts;
mod plot;
pub mod report;
pub mod seen;
pub mod suites;

use crate::audit::AuditError;
use crate::config::ConfigError;
use crate::engine::{EndReason, EngineError};
use crate::io::ring::RingError;
use crate::url::UrlError;
use crate::web::SpecError;
use std::fmt;

#[derive(Debug)]
pub enum BenchError {
    Spec(SpecError),
    Setting(ConfigError),
    Seed(UrlError),
    Engine(EngineError),
    Audit(AuditError),
    Ring(RingError),
    /// The web ended before its time, and what it said last.
    Web(String),
    /// The crawl ended before the window did.
    Short(EndReason),
    /// What the system was asked for, and why it refused.
    System(&'static str, std::io::Error),
    Histogram(String),
    Frontier(frontier::BenchError),
    Seen(seen::BenchError),
    Parse(parse::BenchError),
    /// A thread died.
    Died,
}

impl fmt::Display for BenchError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Spec(error) => write!(out, "{error}"),
            BenchError::Setting(error) => write!(out, "{error}"),
            BenchError::Seed(error) => write!(out, "{error}"),
            BenchError::Engine(error) => write!(out, "{error}"),
            BenchError::Audit(error) => write!(out, "{error}"),
            BenchError::Ring(error) => write!(out, "{error}"),
            BenchError::Web(text) => write!(out, "the web ended: {text}"),
            BenchError::Short(reason) => {
                write!(out, "the crawl ended before the measurement did: {}", reason.name())
            }
            BenchError::System(what, error) => write!(out, "cannot {what}: {error}"),
            BenchError::Histogram(text) => write!(out, "histogram log: {text}"),
            BenchError::Frontier(error) => write!(out, "{error}"),
            BenchError::Seen(error) => write!(out, "{error}"),
            BenchError::Parse(error) => write!(out, "{error}"),
            BenchError::Died => out.write_str("the benchmark's thread died"),
        }
    }
}

impl std::error::Error for BenchError {}

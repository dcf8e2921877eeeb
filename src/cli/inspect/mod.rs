//! `nephila inspect` and `nephila explain`: these commands read a crawl's directory and show what
//! the crawl has done, what it waits for, and why.
//!
//! A directory and a [`Question`] go in, and text or one JSON object comes out. The module only
//! reads, and it also works while the crawl is running ([`disk`]). The exceptions are the two
//! questions that put dead letters back: they take the crawl's lock, and are refused while another
//! process has it. The state shown is that of the journal's last entry. Everything runs on one
//! thread. Questions about a host or a URL need as much memory as a restart, without URL seen.
//! Questions about the whole crawl or its dead letters keep all queues in memory, packed.

mod dead;
pub(in crate::cli) mod disk;
mod explain;
mod history;
mod left_out;
mod listing;
mod logs;
mod overview;
mod place;
mod records;
mod reinject;
mod words;

pub use explain::explain;

use crate::crawl::flow::Outcome;
use crate::shard::ShardError;
use place::Place;
use std::fmt;
use std::path::{Path, PathBuf};

/// What the operator wants to know, or wants to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    Overview,
    /// The URLs of a host.
    Host(String),
    /// One URL's history.
    Url(String),
    Dead(DeadFilter),
    /// Put these dead letters back.
    Reinject(Vec<String>),
    ReinjectDead(DeadFilter),
}

/// Selects dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadFilter {
    pub reason: Option<Outcome>,
    pub host: Option<String>,
}

/// How an answer is shown.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    pub is_json: bool,
    /// The most lines of a list that are shown.
    pub line_count_max: usize,
}

#[derive(Debug)]
pub enum InspectError {
    /// The directory holds no crawl, or none that this version can read.
    NoCrawl {
        path: PathBuf,
        what: String,
    },
    Io {
        doing: &'static str,
        path: PathBuf,
        error: std::io::Error,
    },
    Shard(ShardError),
    /// The text is neither a host's name nor a URL.
    BadName(String),
    /// The crawl does not know this host or URL.
    Unknown(String),
    /// A crawl is running in the directory.
    Locked(PathBuf),
    /// The URL is not a dead letter, for the reason in `why`.
    NotDead {
        url: String,
        why: &'static str,
    },
}

impl fmt::Display for InspectError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        use crate::base::escape::escape;
        match self {
            InspectError::NoCrawl { path, what } => write!(out, "{}: {what}", path.display()),
            InspectError::Io { doing, path, error } => {
                write!(out, "cannot {doing} {}: {error}", path.display())
            }
            InspectError::Shard(error) => write!(out, "{error}"),
            InspectError::BadName(text) => {
                write!(out, "{} is neither a host name nor a URL", escape(text))
            }
            InspectError::Unknown(text) => {
                write!(out, "this crawl knows nothing of {}", escape(text))
            }
            InspectError::Locked(path) => write!(
                out,
                "another nephila process is using {}: end its crawl first, because dead letters \
                 can be put back only while no crawl is running",
                path.display()
            ),
            InspectError::NotDead { url, why } => {
                write!(out, "{} cannot be put back: {why}; nothing was put back", escape(url))
            }
        }
    }
}

impl std::error::Error for InspectError {}

/// Answers a question about the crawl in `directory`.
pub fn ask(directory: &Path, question: &Question, manner: Manner) -> Result<String, InspectError> {
    match question {
        Question::Overview => overview::overview(&Place::open(directory)?, manner),
        Question::Host(name) => listing::host(&Place::open(directory)?, name, manner),
        Question::Url(url) => history::history(&Place::open(directory)?, url, manner),
        Question::Dead(filter) => listing::dead(&Place::open(directory)?, filter, manner),
        Question::Reinject(urls) => reinject::named(&Place::lock(directory)?, urls, manner),
        Question::ReinjectDead(filter) => {
            reinject::filtered(&Place::lock(directory)?, filter, manner)
        }
    }
}

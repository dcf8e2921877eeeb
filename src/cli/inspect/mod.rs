//! `nephila inspect` and `nephila explain`: what a crawl has done, what it waits for and why, out
//! of its directory.
//!
//! In: a directory and a [`Question`]. Out: text, or one JSON object. Reads alone, beside a crawl
//! under way too ([`disk`]), but for the two questions that put dead letters back: those take the
//! crawl's lock, and are refused while anyone else has it. The state is that of the journal's last
//! entry. One thread. Questions about a host or a URL need the memory of a restart, without URL
//! seen; those about the whole crawl or its dead letters have all queues in memory, packed.

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

/// What an operator may want to know, or have done.
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

/// Which dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadFilter {
    pub reason: Option<Outcome>,
    pub host: Option<String>,
}

/// How an answer is shown.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    pub is_json: bool,
    /// Lines of a list.
    pub line_count_max: usize,
}

#[derive(Debug)]
pub enum InspectError {
    /// No crawl is there, or none that this version reads.
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
    /// Not a host's name, nor a URL.
    BadName(String),
    /// The crawl knows nothing of it.
    Unknown(String),
    /// A crawl runs in the directory.
    Locked(PathBuf),
    /// It is no dead letter; why not.
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
            InspectError::BadName(text) => write!(out, "{} is no host and no URL", escape(text)),
            InspectError::Unknown(text) => {
                write!(out, "this crawl knows nothing of {}", escape(text))
            }
            InspectError::Locked(path) => write!(
                out,
                "another nephila works in {}: dead letters are put back while no crawl runs",
                path.display()
            ),
            InspectError::NotDead { url, why } => {
                write!(out, "{} is no dead letter: {why}; nothing was put back", escape(url))
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

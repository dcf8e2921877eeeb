//! Errors of the runs of URL-seen.

use crate::io::DiskError;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeenError {
    /// The disk refused an operation, which can be tried again.
    Disk { doing: &'static str, name: String, error: DiskError },
    /// The content of a file is not what was written. Nothing of it is used.
    Damaged { name: String, what: &'static str },
}

impl SeenError {
    pub(super) fn disk(doing: &'static str, name: &str, error: DiskError) -> SeenError {
        SeenError::Disk { doing, name: name.to_owned(), error }
    }

    pub(super) fn damaged(name: &str, what: &'static str) -> SeenError {
        SeenError::Damaged { name: name.to_owned(), what }
    }
}

impl fmt::Display for SeenError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SeenError::Disk { doing, name, error } => write!(out, "cannot {doing} {name}: {error}"),
            SeenError::Damaged { name, what } => write!(out, "{name}: {what}"),
        }
    }
}

impl std::error::Error for SeenError {}

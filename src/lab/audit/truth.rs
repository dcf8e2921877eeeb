//! What a crawl should have fetched: one JSON object on each line, `{"url": ..., "expect": ...}`,
//! as `nephila web --truth` writes it. Other fields are ignored.

use super::hit::AuditError;
use super::lines::Log;
use super::origin;
use serde::Deserialize;
use std::path::Path;

/// What happens to a URL in a perfect crawl.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expect {
    Fetched,
    Redirected,
    ClientError,
    ServerError,
    /// robots.txt forbids it, so it must not be asked for.
    Denied,
    RobotsUnreachable,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Expectation {
    pub url: Box<str>,
    pub expect: Expect,
}

impl Expectation {
    pub(super) fn key(&self, scratch: &mut String) -> u64 {
        match origin::split_url(&self.url) {
            Some((origin, path)) => origin::url_key(&origin, path, scratch),
            // Nobody can ask for such a URL, so it will be reported as missed.
            None => origin::url_key(&self.url, "", scratch),
        }
    }
}

pub fn read(path: &Path) -> Result<Vec<Expectation>, AuditError> {
    let mut truth = Vec::new();
    Log::File(path.to_owned()).each(0, &mut |line| match serde_json::from_str(line.text) {
        Ok(expected) => {
            truth.push(expected);
            true
        }
        Err(_) => false,
    })?;
    Ok(truth)
}

//! The truth: what a perfect, polite crawl from the seed URL fetches. It is found by walking the
//! graph under the rules of robots.txt, redirects and errors. A crawl is judged against it, from
//! the server's log.
//!
//! The truth leaves out `/robots.txt` and sitemaps, which a crawl may ask for as it likes (it must
//! read the sitemaps of a web that has orphans), and URLs that a crawl must never learn of. A
//! request for any other URL that is not in the truth is a fault.
//!
//! The walk holds every URL in memory, so it is made only on demand and its size is limited.

use crate::base::limits::WEB_TRUTH_URL_COUNT_MAX;
use crate::lab::web::Web;
use crate::lab::web::graph::{Kind, Place, Rules};
use hashbrown::{HashMap, HashSet};
use serde::Serialize;
use std::fmt;
use std::io::{self, Write};

/// What happens to a URL in a perfect crawl. Each URL is asked for once, except those that answer
/// with a server error, which are asked for again, and denied ones, which are never asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Expect {
    /// The answer is 200. A busy URL may be asked for again after its Retry-After.
    Fetched,
    Redirected,
    ClientError,
    ServerError,
    Denied,
    /// The robots.txt of its host fails, so nothing on the host may be fetched.
    RobotsUnreachable,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub place: Place,
    pub expect: Expect,
    /// The URL with the same bytes that was found first, or that this one repeats.
    pub duplicate_of: Option<Place>,
    pub near_duplicate_of: Option<Place>,
}

#[derive(Debug)]
pub enum TruthError {
    /// More URLs than [`WEB_TRUTH_URL_COUNT_MAX`].
    TooLarge,
    Write(io::Error),
}

impl fmt::Display for TruthError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TruthError::TooLarge => {
                write!(out, "the web has over {WEB_TRUTH_URL_COUNT_MAX} URLs: too many to list")
            }
            TruthError::Write(error) => write!(out, "cannot write the truth file: {error}"),
        }
    }
}

impl std::error::Error for TruthError {}

/// One line of the truth file.
#[derive(Serialize)]
struct Line {
    url: String,
    expect: Expect,
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicate_of: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    near_duplicate_of: Option<String>,
}

impl Web {
    /// Returns every URL that a perfect crawl learns of, nearest to the seed first.
    pub fn truth(&self) -> Result<Vec<Entry>, TruthError> {
        let mut found: Vec<Entry> = Vec::new();
        let mut seen: HashSet<(u32, u32)> = HashSet::new();
        let mut presses: HashMap<u64, Place> = HashMap::new();
        let mut read_hosts: HashSet<u32> = HashSet::new();
        let mut next: Vec<Place> = vec![self.graph().root(0)];
        let mut walked = 0;
        loop {
            for place in next.drain(..) {
                if seen.insert((place.host, place.page)) {
                    found.push(self.entry(place, &mut presses));
                }
            }
            if found.len() > WEB_TRUTH_URL_COUNT_MAX {
                return Err(TruthError::TooLarge);
            }
            let Some(entry) = found.get(walked) else { return Ok(found) };
            // With a host's first URL the crawl reads its robots.txt, and through that its sitemap.
            if self.graph().has_sitemap(entry.place.host) && read_hosts.insert(entry.place.host) {
                next.extend(self.graph().orphans(entry.place.host));
            }
            walked += 1;
            match entry.expect {
                Expect::Fetched => {
                    let bytes = self.page_bytes(entry.place);
                    self.graph().links(entry.place, bytes, &mut next);
                }
                Expect::Redirected => next.push(self.graph().redirect_target(entry.place)),
                _ => {}
            }
        }
    }

    /// Writes the truth as JSON lines: `{"url":...,"expect":...,"duplicate_of":...}`. Returns how
    /// many lines there are.
    pub fn write_truth(&self, out: &mut impl Write) -> Result<usize, TruthError> {
        let truth = self.truth()?;
        for entry in &truth {
            let line = Line {
                url: self.url(entry.place),
                expect: entry.expect,
                duplicate_of: entry.duplicate_of.map(|place| self.url(place)),
                near_duplicate_of: entry.near_duplicate_of.map(|place| self.url(place)),
            };
            serde_json::to_writer(&mut *out, &line)
                .map_err(|error| TruthError::Write(error.into()))?;
            out.write_all(b"\n").map_err(TruthError::Write)?;
        }
        out.flush().map_err(TruthError::Write)?;
        Ok(truth.len())
    }

    fn entry(&self, place: Place, presses: &mut HashMap<u64, Place>) -> Entry {
        let expect = self.expect(place);
        let mut entry = Entry { place, expect, duplicate_of: None, near_duplicate_of: None };
        if expect == Expect::Fetched {
            match place.kind {
                Kind::Print => entry.duplicate_of = Some(self.graph().original(place)),
                Kind::Variant => entry.near_duplicate_of = Some(self.graph().original(place)),
                Kind::Press => {
                    let first = *presses.entry(self.graph().body_key(place)).or_insert(place);
                    entry.duplicate_of = (first != place).then_some(first);
                }
                _ => {}
            }
        }
        entry
    }

    fn expect(&self, place: Place) -> Expect {
        match (self.graph().rules(place.host), place.kind) {
            (Rules::Failing, _) => Expect::RobotsUnreachable,
            (Rules::Closed, _) | (_, Kind::Denied) => Expect::Denied,
            (_, Kind::Redirect) => Expect::Redirected,
            (_, Kind::Missing | Kind::Gone) => Expect::ClientError,
            (_, Kind::Broken) => Expect::ServerError,
            _ => Expect::Fetched,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::web::WebSpec;

    #[test]
    fn all_is_reachable_but_what_hides_behind_denied_pages_and_closed_hosts() {
        let rough = WebSpec::profile("rough").unwrap();
        let web = Web::new(WebSpec { host_count: 60, page_count: 6_000, ..rough }).unwrap();
        let truth = web.truth().unwrap();
        let known: HashSet<Place> = truth.iter().map(|entry| entry.place).collect();
        assert_eq!(known.len(), truth.len());
        for host in 0..60 {
            let open = !matches!(web.graph().rules(host), Rules::Closed | Rules::Failing);
            for page in 0..web.graph().page_count(host) {
                let place = web.graph().place(host, page).unwrap();
                if open {
                    assert_eq!(known.contains(&place), place.kind != Kind::Behind, "{place:?}");
                }
            }
        }
        for expect in [Expect::Denied, Expect::ClientError, Expect::ServerError] {
            assert!(truth.iter().any(|entry| entry.expect == expect), "{expect:?}");
        }
    }

    #[test]
    fn the_plain_web_is_pages_and_nothing_else() {
        let plain = WebSpec::profile("plain").unwrap();
        let web = Web::new(WebSpec { host_count: 10, page_count: 500, ..plain }).unwrap();
        let truth = web.truth().unwrap();
        assert_eq!(truth.len(), 500);
        assert!(truth.iter().all(|entry| entry.expect == Expect::Fetched));
    }

    #[test]
    fn the_file_has_a_line_for_each_url() {
        let web =
            Web::new(WebSpec { host_count: 5, page_count: 200, ..WebSpec::default() }).unwrap();
        let mut out = Vec::new();
        let count = web.write_truth(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), count);
        assert_eq!(lines[0]["url"], web.seed_url());
        assert_eq!(lines[0]["expect"], "fetched");
        assert!(lines.iter().any(|line| line["duplicate_of"].is_string()));
    }
}

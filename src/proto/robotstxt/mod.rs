//! robots.txt (RFC 9309): what a site asks of us, kept so small that a cache holds millions.
//!
//! This module owns the reading of the file and the judgement of a path by it. Bytes flow into a
//! [`RobotsReader`] in pieces of any size; a [`Robots`] comes out. It has the rules of the groups
//! that name our product token, merged if there are several; if there is none, it has the rules of
//! `*`. This module does not know whether and when the file is fetched, nor what an error status
//! means ([`Robots::allow_all`] and [`Robots::disallow_all`] stand for those answers).
//!
//! Invariant: rules lie in the order of their precedence (most octets first, allow before
//! disallow), so the first one that matches decides.
//!
//! Where the RFC leaves room, leniency follows Google's open-source parser: common misspellings, a
//! missing colon, `/index.html` standing for its directory. On one point we follow the RFC against
//! that parser: records other than rules (Sitemap, Crawl-delay, unknown ones) never end a group
//! (2.2.4). One point is our own: a file in UTF-16 with a byte order mark is read, because the site
//! meant something by it.
//!
//! Any core may use it; all types are plain values.

mod groups;
mod image;
mod line;
mod pattern;
mod reader;
#[cfg(test)]
mod tests;

pub use reader::RobotsReader;

use crate::base::limits::ROBOTS_MATCH_STEP_COUNT_MAX;

/// The rules of one robots.txt for one product token.
///
/// One text holds all patterns and sitemap addresses; an entry is 8 bytes. A file without a rule
/// for us costs no allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Robots {
    text: Box<str>,
    /// Rules by precedence, then sitemaps.
    entries: Box<[Entry]>,
    rule_count: u32,
    /// Milliseconds; `None` if the groups that apply have no Crawl-delay.
    crawl_delay_ms: Option<u32>,
    /// The line of the Crawl-delay that counts; zero if there is none.
    crawl_delay_line: u32,
}

const _: () = assert!(size_of::<Robots>() <= 48, "a cache holds millions of these");

/// A piece of [`Robots::text`], from the end of the previous entry to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    end: u32,
    /// Line number times two, plus one for Allow.
    line_and_allow: u32,
}

/// What robots.txt says about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict<'a> {
    pub allowed: bool,
    /// The rule that decided; `None` if no rule matched, or if none was found within the step
    /// limit.
    pub rule: Option<Rule<'a>>,
}

impl Verdict<'_> {
    /// Reports whether the rules took more than [`ROBOTS_MATCH_STEP_COUNT_MAX`] steps: the path is
    /// forbidden then, although no rule says so.
    pub fn is_undecided(&self) -> bool {
        !self.allowed && self.rule.is_none()
    }
}

/// One Allow or Disallow line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule<'a> {
    pub allow: bool,
    /// The path pattern in normal form: see [`pattern`].
    pub pattern: &'a str,
    /// The line number, counted from one; zero if the rule came from no file.
    pub line: u32,
}

impl std::fmt::Display for Rule<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verb = if self.allow { "Allow" } else { "Disallow" };
        write!(out, "line {}: {verb}: {}", self.line, self.pattern)
    }
}

impl Robots {
    /// Reads a whole file. `product_token` is our name as sites write it after `User-agent:`, with
    /// letters, `-` and `_` only; it is compared without case.
    pub fn parse(bytes: &[u8], product_token: &str) -> Robots {
        let mut reader = RobotsReader::new(product_token);
        reader.push(bytes);
        reader.finish()
    }

    /// Returns the rules for a site without a robots.txt (RFC 9309 2.3.1.3).
    pub fn allow_all() -> Robots {
        Robots::default()
    }

    /// Returns the rules for a site whose robots.txt is unreachable (RFC 9309 2.3.1.4).
    pub fn disallow_all() -> Robots {
        Robots {
            text: "/".into(),
            entries: Box::new([Entry { end: 1, line_and_allow: 0 }]),
            rule_count: 1,
            crawl_delay_ms: None,
            crawl_delay_line: 0,
        }
    }

    /// Judges `/path?query`, as [`crate::proto::url::Url::path_and_query`] gives it.
    pub fn check(&self, path_and_query: &str) -> Verdict<'_> {
        // RFC 9309 2.2.2: "The /robots.txt URI is implicitly allowed."
        if self.rule_count == 0 || path_and_query == "/robots.txt" {
            return Verdict { allowed: true, rule: None };
        }
        let path = pattern::normal_path(path_and_query);
        let spellings = pattern::query_spellings(&path);
        let mut step_count_left = ROBOTS_MATCH_STEP_COUNT_MAX;
        for rule in self.rules() {
            let mut is_match =
                |path: &[u8]| pattern::matches(rule.pattern.as_bytes(), path, &mut step_count_left);
            if is_match(&path) || spellings.iter().any(|path| is_match(path)) {
                return Verdict { allowed: rule.allow, rule: Some(rule) };
            }
            if step_count_left < 0 {
                return Verdict { allowed: false, rule: None };
            }
        }
        Verdict { allowed: true, rule: None }
    }

    /// Returns the time between requests that the site asks for: the longest, if it names several.
    pub fn crawl_delay_ms(&self) -> Option<u64> {
        self.crawl_delay_ms.map(u64::from)
    }

    /// Returns the line of the Crawl-delay that counts, counted from one.
    pub fn crawl_delay_line(&self) -> Option<u32> {
        self.crawl_delay_ms.map(|_| self.crawl_delay_line)
    }

    /// Returns sitemap addresses in the order of the file, each once, whatever group they stand in.
    /// They are as written: an absolute http or https URL, or a path to be resolved against the
    /// site's origin.
    pub fn sitemaps(&self) -> impl Iterator<Item = &str> {
        self.pieces().skip(self.rule_count as usize).map(|(_, text)| text)
    }

    /// Returns the rules by precedence: the first one that matches decides.
    pub fn rules(&self) -> impl Iterator<Item = Rule<'_>> {
        self.pieces().take(self.rule_count as usize).map(|(entry, pattern)| Rule {
            allow: entry.line_and_allow & 1 == 1,
            pattern,
            line: entry.line_and_allow >> 1,
        })
    }

    /// Returns the bytes on the heap, for a cache that is bounded by them.
    pub fn heap_bytes(&self) -> usize {
        self.text.len() + std::mem::size_of_val(&*self.entries)
    }

    fn pieces(&self) -> impl Iterator<Item = (Entry, &str)> {
        let mut start = 0;
        self.entries.iter().map(move |entry| {
            let end = entry.end as usize;
            let text = &self.text[start..end];
            start = end;
            (*entry, text)
        })
    }
}

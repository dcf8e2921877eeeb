//! Seeds: the URLs a crawl begins with, from the command line and from files.
//!
//! Lines flow in; normalised [`Url`]s flow out, and beside them every [`SeedProblem`] with its file
//! and line, so that a bad seed costs itself and not the crawl. Memory is bounded: lines, seeds and
//! the problems that are kept. Runs on the control thread, before the first shard starts.

pub mod lines;
mod public;

pub use public::is_public;

use crate::base::{escape, escape_cut};
use crate::limits::{SEED_COUNT_MAX, SEED_LINE_BYTES_MAX, SEED_PROBLEM_COUNT_MAX};
use crate::url::{Normaliser, Url, UrlError};
use lines::{Line, LineReader};
use std::fmt;
use std::io::{self, BufRead};
use std::rc::Rc;

/// The seeds taken so far, and what was wrong with the others.
pub struct Seeds {
    normaliser: Normaliser,
    urls: Vec<Url>,
    problems: Vec<SeedProblem>,
    problem_count: usize,
}

/// Where a seed stood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The nth on the command line, from one.
    Argument(usize),
    File {
        name: Rc<str>,
        line: usize,
    },
}

/// Something to tell the operator about one seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedProblem {
    pub place: Place,
    /// The seed as it was written, cut to what fits a message.
    pub text: Box<str>,
    pub fault: SeedFault,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeedFault {
    Url(UrlError),
    NotUtf8,
    LineTooLong,
    /// More than [`SEED_COUNT_MAX`]; this one and all after it are not taken.
    TooMany,
    /// It had no scheme and was taken as http: a notice, not an error.
    SchemeAssumed(Url),
}

impl Seeds {
    pub fn new(normaliser: Normaliser) -> Seeds {
        Seeds { normaliser, urls: Vec::new(), problems: Vec::new(), problem_count: 0 }
    }

    pub fn add_arguments<S: AsRef<str>>(&mut self, arguments: &[S]) {
        for (index, argument) in arguments.iter().enumerate() {
            self.add(Place::Argument(index + 1), argument.as_ref().trim());
        }
    }

    /// A URL a line; blank lines and comments from `#` on (at the start or after a blank) are
    /// skipped. Fails only if `reader` does; what was read until then is taken.
    pub fn add_lines(&mut self, name: &str, reader: impl BufRead) -> io::Result<()> {
        let name: Rc<str> = name.into();
        let mut lines = LineReader::new(reader, SEED_LINE_BYTES_MAX);
        while let Some((line, content)) = lines.next_line()? {
            let place = Place::File { name: name.clone(), line };
            match content {
                Line::Whole(bytes) => match std::str::from_utf8(bytes) {
                    Ok(text) => self.add_line(place, text),
                    Err(_) => self.tell(place, bytes, SeedFault::NotUtf8),
                },
                Line::TooLong(start) => self.tell(place, start, SeedFault::LineTooLong),
            }
        }
        Ok(())
    }

    pub fn urls(&self) -> &[Url] {
        &self.urls
    }

    pub fn into_urls(self) -> Vec<Url> {
        self.urls
    }

    /// The first [`SEED_PROBLEM_COUNT_MAX`] problems, in order.
    pub fn problems(&self) -> &[SeedProblem] {
        &self.problems
    }

    /// All problems, also those that were not kept.
    pub fn problem_count(&self) -> usize {
        self.problem_count
    }

    fn add_line(&mut self, place: Place, line: &str) {
        let line = line.trim_start_matches('\u{feff}').trim();
        let comment = line
            .match_indices('#')
            .find(|(at, _)| *at == 0 || line.as_bytes()[at - 1].is_ascii_whitespace());
        let seed = comment.map_or(line, |(at, _)| line[..at].trim_end());
        if !seed.is_empty() {
            self.add(place, seed);
        }
    }

    fn add(&mut self, place: Place, text: &str) {
        if self.urls.len() == SEED_COUNT_MAX {
            return self.tell(place, text.as_bytes(), SeedFault::TooMany);
        }
        match Url::parse(text) {
            Ok(url) => self.take(url),
            Err(error) => match with_scheme(text) {
                Some(url) => {
                    self.tell(place, text.as_bytes(), SeedFault::SchemeAssumed(url.clone()));
                    self.take(url);
                }
                None => self.tell(place, text.as_bytes(), SeedFault::Url(error)),
            },
        }
    }

    fn take(&mut self, url: Url) {
        self.urls.push(self.normaliser.normalise(url));
    }

    fn tell(&mut self, place: Place, bytes: &[u8], fault: SeedFault) {
        self.problem_count += 1;
        if self.problems.len() < SEED_PROBLEM_COUNT_MAX {
            let text = escape_cut(bytes, 80).to_string().into_boxed_str();
            self.problems.push(SeedProblem { place, text, fault });
        }
    }
}

/// `example.org/x` and `localhost:8080` as http URLs. Not `word`, `/path` or `mailto:a@b`: what has
/// neither a dot nor a port is no host that someone meant.
fn with_scheme(text: &str) -> Option<Url> {
    let end = text.find(['/', '?', '#']).unwrap_or(text.len());
    let authority = &text[..end];
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !authority.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let has_port = port.is_some_and(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()));
    let is_host = host.starts_with('[') || host.contains('.') || host == "localhost" || has_port;
    if !is_host || host.is_empty() || authority.contains('@') || (port.is_some() && !has_port) {
        return None;
    }
    Url::parse(&format!("http://{text}")).ok()
}

impl SeedProblem {
    /// A notice about a seed that was taken all the same.
    pub fn is_notice(&self) -> bool {
        matches!(self.fault, SeedFault::SchemeAssumed(_))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Argument(index) => write!(out, "argument {index}"),
            Place::File { name, line } => write!(out, "{}:{line}", escape(name.as_ref())),
        }
    }
}

/// `seeds.txt:3: not a valid URL: http://[`: fit for a terminal.
impl fmt::Display for SeedProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: ", self.place)?;
        match &self.fault {
            SeedFault::Url(error) => write!(out, "{error}: {}", self.text),
            SeedFault::NotUtf8 => write!(out, "not UTF-8: {}", self.text),
            SeedFault::LineTooLong => write!(out, "line too long: {}", self.text),
            SeedFault::TooMany => {
                write!(out, "more than {SEED_COUNT_MAX} seeds: {} is not taken", self.text)
            }
            SeedFault::SchemeAssumed(url) => {
                write!(out, "no scheme: {} is taken as {url}", self.text)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Seeds {
        let mut seeds = Seeds::new(Normaliser::new(&[]));
        seeds.add_lines("seeds.txt", text).unwrap();
        seeds
    }

    fn urls(seeds: &Seeds) -> Vec<&str> {
        seeds.urls().iter().map(Url::as_str).collect()
    }

    fn told(seeds: &Seeds) -> Vec<String> {
        seeds.problems().iter().map(SeedProblem::to_string).collect()
    }

    #[test]
    fn blank_lines_and_comments_are_skipped_and_urls_normalised() {
        let seeds = read(
            b"\xef\xbb\xbf# seeds\n\n  HTTP://A.example:80/x?b=1&a=2#frag \r\n\
              http://b.example/ # why\n#http://c.example/\nhttp://d.example/#/app",
        );
        let expected = ["http://a.example/x?b=1&a=2", "http://b.example/", "http://d.example/"];
        assert_eq!(urls(&seeds), expected);
        assert_eq!(seeds.problem_count(), 0);
    }

    #[test]
    fn bad_seeds_are_told_with_their_line_and_the_rest_is_taken() {
        let seeds = read(
            b"http://a.example/\nhttp://[\nftp://x/\n\xff\xfe\nhttp://b.example/\n\
              word\nmailto:a@b.example\n/path\nhttp://\n",
        );
        assert_eq!(urls(&seeds), ["http://a.example/", "http://b.example/"]);
        let told = told(&seeds);
        assert_eq!(told[0], "seeds.txt:2: not a valid URL: http://[");
        assert_eq!(told[1], "seeds.txt:3: not an http or https URL: ftp://x/");
        assert_eq!(told[2], "seeds.txt:4: not UTF-8: \\xff\\xfe");
        for (told, line) in told[3..].iter().zip(6..) {
            assert!(told.starts_with(&format!("seeds.txt:{line}: ")), "{told}");
        }
        assert_eq!((told.len(), seeds.problem_count()), (7, 7));
    }

    #[test]
    fn lenient_a_seed_without_a_scheme_is_taken_as_http_and_told() {
        let seeds = read(b"example.org/x\nlocalhost:8080\n127.0.0.1:81/y\n[::1]\nhost:80/z\n");
        assert_eq!(
            urls(&seeds),
            [
                "http://example.org/x",
                "http://localhost:8080/",
                "http://127.0.0.1:81/y",
                "http://[::1]/",
                "http://host/z"
            ]
        );
        assert!(seeds.problems().iter().all(SeedProblem::is_notice));
        assert_eq!(
            told(&seeds)[0],
            "seeds.txt:1: no scheme: example.org/x is taken as http://example.org/x"
        );
    }

    #[test]
    fn a_seed_cannot_write_to_the_terminal() {
        let told = told(&read(b"http://\x1b[2J/\n"));
        assert!(told[0].contains("\\x1b[2J"), "{}", told[0]);
    }

    #[test]
    fn problems_are_kept_up_to_a_limit_and_counted_beyond_it() {
        let text = "bad\n".repeat(SEED_PROBLEM_COUNT_MAX + 5);
        let seeds = read(text.as_bytes());
        assert_eq!(seeds.problems().len(), SEED_PROBLEM_COUNT_MAX);
        assert_eq!(seeds.problem_count(), SEED_PROBLEM_COUNT_MAX + 5);
    }

    #[test]
    fn arguments_are_seeds_too_and_named_by_their_place() {
        let mut seeds = Seeds::new(Normaliser::new(&["sid".to_owned()]));
        seeds.add_arguments(&["http://a.example/?sid=1", "http://x y/"]);
        assert_eq!(urls(&seeds), ["http://a.example/"]);
        assert!(told(&seeds)[0].starts_with("argument 2: "));
    }
}

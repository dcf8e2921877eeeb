//! The history of one URL: how it was found, every request for it, its WARC records, and what it
//! waits for.

use super::dead::{DeadLetters, DeadUrl};
use super::listing::{line, state_text, view_json};
use super::place::Place;
use super::records::{Records, records};
use super::words::{Table, moment_json, moment_text};
use super::{DeadFilter, InspectError, Manner, explain, logs};
use crate::base::WallTime;
use crate::base::escape::escape;
use crate::crawl::flow::Outcome;
use crate::engine::report::counted;
use crate::engine::report::summary::advice;
use crate::proto::url::Url;
use crate::shard::view::UrlView;
use serde_json::{Value, json};
use std::collections::VecDeque;

/// A copy of what the history shows of one request.
struct Asked {
    at: WallTime,
    address: String,
    status: Option<u16>,
    outcome: Outcome,
    body_bytes: u64,
    total_ms: u64,
}

struct History {
    url: Url,
    /// The URL in its host's queues, if it is still to come.
    view: Option<UrlView>,
    dead: Option<DeadUrl>,
    /// The last requests, as many as are shown.
    asked: VecDeque<Asked>,
    asked_count: usize,
    records: Records,
    /// Whether the robots.txt rules known now allow the URL, and the rule that decides.
    robots: Option<(bool, Option<String>)>,
    /// What the URL's host waits for, if the URL is still to come.
    host: Option<explain::Explanation>,
}

/// Answers with the history of the URL in `text`.
pub fn history(place: &Place, text: &str, manner: Manner) -> Result<String, InspectError> {
    let url = place.url(text)?;
    let owner = place.shard_of(&url)?;
    let view = owner.url(&url);
    let host = match view {
        Some(_) => explain::Explanation::of(place, &owner, &url)?,
        None => None,
    };
    let robots = owner.robots_verdict(&url);
    let filter = DeadFilter { reason: None, host: Some(url.host().to_owned()) };
    let shards = [owner];
    let dead = DeadLetters::gather(place, &shards, &filter)?.remove(&url);
    let (mut asked, mut asked_count) = (VecDeque::new(), 0);
    logs::each_request(place, |request| {
        if request.url != url.as_str() {
            return;
        }
        asked_count += 1;
        if asked.len() == manner.line_count_max {
            asked.pop_front();
        }
        let &logs::Request { at, status, outcome, body_bytes, total_ms, .. } = request;
        let address = request.address.to_owned();
        asked.push_back(Asked { at, address, status, outcome, body_bytes, total_ms });
    })?;
    let records = records(place, &url)?;
    if view.is_none() && dead.is_none() && asked_count == 0 && records.found.is_empty() {
        return Err(InspectError::Unknown(url.as_str().to_owned()));
    }
    let history = History { url, view, dead, asked, asked_count, records, robots, host };
    if manner.is_json { line(&history.json(place.now())) } else { Ok(history.text(place.now())) }
}

impl History {
    /// Returns the URL's state as one word for programs and as text for people.
    fn state(&self, now: WallTime) -> (&'static str, String) {
        match (&self.view, &self.dead, self.asked.back()) {
            (Some(view), ..) => ("to_come", state_text(now, view.state)),
            (None, Some(dead), _) => {
                let (outcome, at) = (dead.outcome.name(), moment_text(now, dead.at));
                ("dead", format!("dead: {outcome}, {at}: {}", advice(dead.outcome)))
            }
            (None, None, Some(asked)) => ("ended", format!("ended: {}", asked.outcome.name())),
            (None, None, None) => {
                ("ended", "ended; the request log has no request for it".to_owned())
            }
        }
    }

    fn text(&self, now: WallTime) -> String {
        let mut table = Table(String::new());
        table.head(&escape(self.url.as_str()).to_string());
        table.row("state", self.state(now).1);
        let found = self.view.as_ref().map(|view| &view.queued);
        match found.or(self.dead.as_ref().map(|dead| &dead.queued)) {
            Some(queued) => {
                let (via, depth, class) = (queued.via.name(), queued.depth, queued.class.name());
                table.row("found", format!("by {via}, depth {depth}, class {class}"));
            }
            None => table.row("found", "not kept for URLs that have ended"),
        }
        let tries = self.view.as_ref().map(|view| view.queued.tries_made());
        if let Some(tries) = tries.or(self.dead.as_ref().map(|dead| dead.tries)) {
            table.row("tries", tries.to_string());
        }
        table.row("robots.txt", self.robots_text());
        if let Some(host) = &self.host {
            table.row("its host", host.summary(now));
        }
        table.head(&format!("requests: {}", self.asked_count));
        for asked in &self.asked {
            let status = asked.status.map_or("-".to_owned(), |status| status.to_string());
            let (at, took, address) = (asked.at, asked.total_ms, escape(&asked.address));
            table.row(asked.outcome.name(), format!("{at}  {status}  {took} ms  {address}"));
        }
        table.head(&format!("records: {}", self.records.found.len()));
        for record in &self.records.found {
            let kind = if record.is_revisit { "revisit" } else { "response" };
            let bytes = counted(record.length, "byte", "bytes");
            let place = format!("{} at {}, {bytes}", escape(&record.file), record.offset);
            table.row(kind, format!("{}  {}  {place}", escape(&record.at), escape(&record.status)));
            if let Some(count) = record.links_left_out {
                let links = counted(count, "link", "links");
                table.row("", format!("{links} of it left out (page_link_count_max)"));
            }
        }
        if self.records.open_file_count > 0 {
            let count = self.records.open_file_count as u64;
            let files = counted(count, "WARC file is", "WARC files are");
            table.row("", format!("{files} open and without an index yet"));
        }
        table.0
    }

    fn robots_text(&self) -> String {
        match &self.robots {
            None => "not known now; it is fetched before the URL".to_owned(),
            Some((true, None)) => "allowed: no rule speaks of it".to_owned(),
            Some((true, Some(rule))) => format!("allowed by {}", escape(rule)),
            Some((false, Some(rule))) => format!("forbidden by {}", escape(rule)),
            Some((false, None)) => "forbidden: matching its rules takes too long".to_owned(),
        }
    }

    fn json(&self, now: WallTime) -> Value {
        let requests = self.asked.iter().map(|asked| {
            json!({
                "at": asked.at.to_string(), "address": asked.address, "status": asked.status,
                "outcome": asked.outcome.name(), "bytes": asked.body_bytes,
                "total_ms": asked.total_ms,
            })
        });
        let records = self.records.found.iter().map(|record| {
            json!({
                "file": record.file, "offset": record.offset, "length": record.length,
                "timestamp": record.at, "status": record.status, "revisit": record.is_revisit,
                "links_left_out": record.links_left_out,
            })
        });
        json!({
            "url": self.url.as_str(),
            "state": self.state(now).0,
            "to_come": self.view.as_ref().map(|view| view_json(now, view)),
            "dead": self.dead.as_ref().map(DeadUrl::json),
            "dead_since": self.dead.as_ref().map(|dead| moment_json(now, dead.at)),
            "robots": self.robots.as_ref().map(|(is_allowed, rule)| {
                json!({ "allowed": is_allowed, "rule": rule })
            }),
            "host": self.host.as_ref().map(|host| host.json(now)),
            "request_count": self.asked_count,
            "requests": requests.collect::<Vec<_>>(),
            "records": records.collect::<Vec<_>>(),
            "open_warc_files": self.records.open_file_count,
        })
    }
}

//! Lists: a host's URLs in their order, and dead letters.

use super::dead::{DeadLetters, DeadUrl};
use super::place::Place;
use super::words::{Table, distance_text, moment_json};
use super::{DeadFilter, InspectError, Manner};
use crate::base::WallTime;
use crate::base::escape::escape;
use crate::engine::report::{counted, json_line};
use crate::shard::view::{UrlState, UrlView};
use serde_json::{Value, json};

/// The URLs of a host that have not come to their end: handed out, waiting, queued.
pub fn host(place: &Place, name: &str, manner: Manner) -> Result<String, InspectError> {
    let url = place.host_url(name)?;
    let shard = place.shard_of(&url)?;
    let unknown = || InspectError::Unknown(url.host().to_owned());
    let host = shard.host_named(url.host()).ok_or_else(unknown)?;
    let mut views: Vec<UrlView> = shard.urls_of(host).collect();
    let count = views.len();
    views.truncate(manner.line_count_max);
    let more = count - views.len();
    if manner.is_json {
        let urls: Vec<Value> = views.iter().map(|view| view_json(place.now(), view)).collect();
        return line(&json!({ "host": url.host(), "urls": urls, "more": more }));
    }
    let mut table = Table(String::new());
    let shown = counted(count as u64, "URL", "URLs");
    table.head(&format!("{}: {shown} to come", escape(url.host())));
    for view in &views {
        table.row(&state_text(place.now(), view.state), url_text(view));
    }
    table.more(more);
    Ok(table.0)
}

pub fn dead(place: &Place, filter: &DeadFilter, manner: Manner) -> Result<String, InspectError> {
    let shards = place.shards()?;
    let letters = DeadLetters::gather(place, &shards, filter)?;
    let unseen_count = letters.unseen_count;
    let mut all = letters.into_sorted();
    let count = all.len();
    all.truncate(manner.line_count_max);
    let more = count - all.len();
    if manner.is_json {
        let letters: Vec<Value> = all.iter().map(DeadUrl::json).collect();
        return line(&json!({ "dead": letters, "more": more, "unseen": unseen_count }));
    }
    let mut table = Table(String::new());
    table.head(&counted(count as u64, "dead letter", "dead letters"));
    for dead in &all {
        table.row(dead.outcome.name(), dead.text());
    }
    table.more(more);
    if unseen_count > 0 {
        let unseen = counted(unseen_count, "more letter was", "more letters were");
        table.head(&format!("{unseen} not looked at"));
    }
    Ok(table.0)
}

pub fn state_text(now: WallTime, state: UrlState) -> String {
    match state {
        UrlState::Queued => "queued".to_owned(),
        UrlState::Waiting(until) if until <= now => "waits, due".to_owned(),
        UrlState::Waiting(until) => format!("waits, {}", distance_text(now, until)),
        UrlState::Open => "open".to_owned(),
    }
}

pub fn view_json(now: WallTime, view: &UrlView) -> Value {
    let UrlView { queued, state } = view;
    let (state, until) = match state {
        UrlState::Queued => ("queued", None),
        UrlState::Waiting(until) => ("waiting", Some(moment_json(now, *until))),
        UrlState::Open => ("open", None),
    };
    json!({
        "url": queued.url.as_str(),
        "state": state,
        "until": until,
        "class": queued.class.name(),
        "depth": queued.depth,
        "tries": queued.tries_made(),
        "via": queued.via.name(),
    })
}

pub fn line(value: &Value) -> Result<String, InspectError> {
    json_line(value).map_err(|error| InspectError::Io {
        doing: "print",
        path: "JSON".into(),
        error: error.into(),
    })
}

fn url_text(view: &UrlView) -> String {
    let queued = &view.queued;
    let (class, via, tries) = (queued.class.name(), queued.via.name(), queued.tries_made());
    let tried = match tries {
        0 => String::new(),
        tries => format!(", tried {}", counted(tries.into(), "time", "times")),
    };
    format!("{} ({class}, {via}, depth {}{tried})", escape(queued.url.as_str()), queued.depth)
}

impl DeadUrl {
    pub fn json(&self) -> Value {
        json!({
            "url": self.queued.url.as_str(),
            "reason": self.outcome.name(),
            "at": self.at.to_string(),
            "tries": self.tries,
            "depth": self.queued.depth,
            "via": self.queued.via.name(),
        })
    }

    fn text(&self) -> String {
        let (via, depth) = (self.queued.via.name(), self.queued.depth);
        let (at, url) = (self.at, escape(self.queued.url.as_str()));
        let tries = counted(self.tries.into(), "time", "times");
        format!("{at}  {url} ({via}, depth {depth}, tried {tries})")
    }
}

//! `nephila explain`: what a host is waiting for, clock by clock.
//!
//! A host's turn comes when every clock that holds it has run out: the delay since its last
//! request, what it asked for (Retry-After), its origin's breaker, its robots.txt. Each is told
//! with its cause; the last of them is the answer. Turns at addresses are in a running crawl's
//! memory alone and not told of.

use super::disk::PlainDisk;
use super::listing::line;
use super::overview::running_text;
use super::place::Place;
use super::words::{Table, moment_json, moment_text};
use super::{InspectError, logs};
use crate::base::WallTime;
use crate::base::escape::escape;
use crate::crawl::flow::{Class, Outcome, Penalty};
use crate::crawl::metrics::is_failure;
use crate::engine::report::summary::advice;
use crate::engine::report::{count_text, counted, span_text};
use crate::proto::url::Url;
use crate::shard::Inspection;
use crate::shard::view::{BreakerView, DelayView, HostView, OriginView, RobotsView, UrlState};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

/// What a host waits for, in words or as one JSON object.
pub fn explain(directory: &Path, host: &str, is_json: bool) -> Result<String, InspectError> {
    let place = Place::open(directory)?;
    let url = place.host_url(host)?;
    let shard = place.shard_of(&url)?;
    let now = place.now();
    let Some(explanation) = Explanation::of(&place, &shard, &url)? else {
        let unknown = || InspectError::Unknown(url.host().to_owned());
        let page_count = shard.cold_page_count(url.host()).ok_or_else(unknown)?;
        return cold(url.host(), page_count, is_json);
    };
    if is_json { line(&explanation.json(now)) } else { Ok(explanation.text(now)) }
}

/// Of a host that has left RAM.
fn cold(name: &str, page_count: u32, is_json: bool) -> Result<String, InspectError> {
    let words = "cold: nothing of it is left to fetch, and it has left RAM";
    if is_json {
        let state = "cold";
        return line(&json!({
            "host": name, "state": state, "words": words, "fetched": page_count,
        }));
    }
    let mut table = Table(String::new());
    table.head(&format!("{}: {words}", escape(name)));
    table.row("pages", count_text(page_count.into()));
    Ok(table.0)
}

pub struct Explanation {
    view: HostView,
    /// When the first of the URLs that wait by themselves has waited long enough.
    first_waiting: Option<WallTime>,
    as_of: Option<WallTime>,
    running: &'static str,
    is_running: bool,
    /// When the last request ended, by the log, and what came of it.
    last_asked: Option<(WallTime, Outcome)>,
    /// By origin: when the last request that was a failure began.
    last_failed: HashMap<String, WallTime>,
}

const RETRY_AFTER_WORDS: &str = "what it asked for (Retry-After)";

/// One of the clocks.
struct Hold {
    kind: &'static str,
    until: WallTime,
    words: String,
}

impl Explanation {
    /// Of the host of `url`; `None` if the shard does not know it.
    pub fn of(
        place: &Place,
        shard: &Inspection<PlainDisk>,
        url: &Url,
    ) -> Result<Option<Explanation>, InspectError> {
        let Some(host) = shard.host_named(url.host()) else { return Ok(None) };
        let mut last_asked: Option<(WallTime, Outcome)> = None;
        let mut last_failed = HashMap::new();
        logs::each_request(place, |request| {
            if request.host != url.host() {
                return;
            }
            let took = Duration::from_millis(request.total_ms).as_nanos() as u64;
            let ended = WallTime(request.at.0.saturating_add(took));
            if request.address != "-" && last_asked.is_none_or(|(last, _)| last <= ended) {
                last_asked = Some((ended, request.outcome));
            }
            // A robots.txt is logged as fetched, whatever its status says.
            let is_refusal = request.status.is_some_and(|status| status >= 500 || status == 429);
            if (is_refusal || request.outcome.row().penalty == Penalty::BackOff)
                && let Ok(url) = Url::parse(request.url)
            {
                last_failed.insert(url.origin().to_owned(), request.at);
            }
        })?;
        let waiting = shard.urls_of(host).filter_map(|view| match view.state {
            UrlState::Waiting(until) => Some(until),
            _ => None,
        });
        Ok(Some(Explanation {
            first_waiting: waiting.min(),
            view: shard.host(host),
            as_of: place.as_of(shard),
            running: running_text(place),
            is_running: place.is_running,
            last_asked,
            last_failed,
        }))
    }

    /// The clocks that have not run out, the last first.
    fn holds(&self, now: WallTime) -> Vec<Hold> {
        let view = &self.view;
        let mut holds = Vec::new();
        let mut hold = |kind, until: WallTime, words: String| {
            if until > now {
                holds.push(Hold { kind, until, words });
            }
        };
        if let Some((last, _)) = self.last_asked {
            let delay_ns = view.delay.delay_ms.saturating_mul(1_000_000);
            let until = WallTime(last.0.saturating_add(delay_ns));
            hold("delay", until, format!("its delay of {}", delay_text(&view.delay)));
        }
        if let Some(until) = view.stays_away_until {
            hold("retry_after", until, RETRY_AFTER_WORDS.to_owned());
        }
        if let Some(origin) = self.next_origin() {
            if let Some(breaker) = &origin.breaker {
                let kind = if breaker.is_open { "breaker" } else { "back_off" };
                let words = self.breaker_text(now, origin, breaker);
                hold(kind, breaker.until, format!("{}: {words}", escape(&origin.origin)));
            }
            if let RobotsView::Unreachable { since, retry_at, counts_as_absent: false } =
                origin.robots
            {
                let since = moment_text(now, since);
                let words = format!("its robots.txt, unreachable since {since}");
                hold("robots_unreachable", retry_at, words);
            }
        }
        // What a checkpoint kept of a wait, without its reason. Waits of the delay are told above.
        let told = holds.iter().map(|hold| hold.until).max();
        if let Some(until) = view.rests_until
            && told.is_none_or(|told| until.0 > told.0.saturating_add(1_000_000_000))
        {
            let is_asked =
                self.last_asked.is_some_and(|(_, outcome)| outcome == Outcome::Throttled);
            let (kind, words) = if is_asked {
                ("retry_after", RETRY_AFTER_WORDS)
            } else {
                ("rest", "a wait that the checkpoint has kept without its cause")
            };
            holds.push(Hold { kind, until, words: words.to_owned() });
        }
        if let Some(until) = self.first_waiting.filter(|until| *until > now)
            && view.next.is_none()
        {
            let words = "the next try of a URL that failed".to_owned();
            holds.push(Hold { kind: "retry", until, words });
        }
        holds.sort_by_key(|hold| std::cmp::Reverse(hold.until));
        holds
    }

    fn next_origin(&self) -> Option<&OriginView> {
        let next = self.view.next.as_ref()?;
        self.view.origins.iter().find(|origin| origin.origin == next.url.origin())
    }

    /// One word for programs, and the sentence for people.
    fn state(&self, now: WallTime) -> (&'static str, String) {
        let tally = &self.view.tally;
        if tally.queued_count() + tally.waiting_count == 0 {
            return match tally.open_count {
                0 => ("idle", "idle: no URL of it is left to fetch".to_owned()),
                _ => ("open", "its last URLs are under way, or not yet durable".to_owned()),
            };
        }
        let breaker = self.next_origin().and_then(|origin| origin.breaker);
        if breaker.is_some_and(|breaker| breaker.is_given_up && breaker.until > now) {
            let text = "given up: its URLs become dead letters until its next try";
            return ("given_up", text.to_owned());
        }
        match self.holds(now).first() {
            Some(hold) => (hold.kind, format!("waits for {}", hold.words)),
            None if self.is_running => {
                ("ready", "ready: it is asked when a slot and its address's turn come".to_owned())
            }
            None => ("ready", "ready: a resumed crawl asks it after its delay".to_owned()),
        }
    }

    /// When its next request may be made; `None` if it has no URL for one.
    fn eligible_at(&self, now: WallTime) -> Option<WallTime> {
        let tally = &self.view.tally;
        let has_urls = tally.queued_count() + tally.waiting_count > 0;
        has_urls.then(|| self.holds(now).first().map_or(now, |hold| hold.until))
    }

    /// One line.
    pub fn summary(&self, now: WallTime) -> String {
        let at = self.eligible_at(now).filter(|at| *at > now);
        let at = at.map_or(String::new(), |at| format!(", {}", moment_text(now, at)));
        self.state(now).1 + &at
    }

    fn text(&self, now: WallTime) -> String {
        let (view, tally) = (&self.view, &self.view.tally);
        let mut table = Table(String::new());
        table.head(&format!("{}: {}", escape(&view.name), self.state(now).1));
        let as_of = self.as_of.map_or("no state".to_owned(), |at| moment_text(now, at));
        table.row("state as of", format!("{as_of}; {}", self.running));
        if let Some(at) = self.eligible_at(now) {
            let text = if at > now { moment_text(now, at) } else { "now".to_owned() };
            table.row("next eligible", text);
        }
        for hold in self.holds(now) {
            table.row("waits for", format!("{}, {}", hold.words, moment_text(now, hold.until)));
        }
        table.row("delay", delay_text(&view.delay));
        let asked = self
            .last_asked
            .map(|(at, outcome)| format!("{}: {}", moment_text(now, at), outcome.name()));
        table.row("last asked", asked.as_deref().unwrap_or("never"));
        if let Some((_, outcome)) = self.last_asked.filter(|(_, outcome)| is_failure(*outcome)) {
            table.row("", advice(outcome));
        }
        let by_class = Class::ALL.iter().map(|class| {
            format!("{} {}", class.name(), count_text(tally.queued_counts[class.index()]))
        });
        let by_class = by_class.collect::<Vec<_>>().join(", ");
        table.row("queued", format!("{} ({by_class})", count_text(tally.queued_count())));
        table.row("waiting, open", format!("{}, {}", tally.waiting_count, tally.open_count));
        if let Some(next) = &view.next {
            let url = escape(next.url.as_str());
            table.row("next URL", format!("{url} ({})", next.class.name()));
            if let Some(rule) = &next.denied_by {
                let robots = escape(next.url.origin());
                table.row("", format!("forbidden by {robots}/robots.txt, {}", escape(rule)));
            }
        }
        for origin in &view.origins {
            table.head(&format!("{}", escape(&origin.origin)));
            table.row("robots.txt", robots_text(now, &origin.robots));
            let breaker = origin.breaker.as_ref();
            let fine = || "closed, no failure since the last success".to_owned();
            let text = breaker.map_or_else(fine, |of| self.breaker_text(now, origin, of));
            table.row("breaker", text);
            if let Some(breaker) = breaker {
                table.row("", advice(breaker.cause));
            }
        }
        table.0
    }

    fn breaker_text(&self, now: WallTime, origin: &OriginView, breaker: &BreakerView) -> String {
        let cause = breaker.cause.name();
        let failures = counted(breaker.failure_count.into(), "failure", "failures");
        let since = self.last_failed.get(&origin.origin);
        let since = since.map_or(String::new(), |at| format!(" since {}", moment_text(now, *at)));
        let state = match breaker {
            BreakerView { is_open: true, .. } => format!("open{since}"),
            BreakerView { open_count: 0, .. } => format!("closed, backing off{since}"),
            _ => "half open: the next request decides".to_owned(),
        };
        let until = if breaker.until > now {
            format!(", until {}", moment_text(now, breaker.until))
        } else {
            String::new()
        };
        let given_up = if breaker.is_given_up { ", given up" } else { "" };
        let opened = match breaker.open_count {
            0 => String::new(),
            count => format!(", opened {} in vain", counted(count.into(), "time", "times")),
        };
        format!("{state}{until}; {cause}, {failures} in a row{opened}{given_up}")
    }

    pub fn json(&self, now: WallTime) -> Value {
        let (view, tally) = (&self.view, &self.view.tally);
        let moment = |at: WallTime| moment_json(now, at);
        let (state, words) = self.state(now);
        let queued = Class::ALL
            .iter()
            .map(|class| (class.name().to_owned(), tally.queued_counts[class.index()].into()));
        let holds = self.holds(now).into_iter().map(
            |hold| json!({ "kind": hold.kind, "until": moment(hold.until), "words": hold.words }),
        );
        json!({
            "host": view.name,
            "state": state,
            "words": words,
            "as_of": self.as_of.map(moment),
            "running": self.is_running,
            "next_eligible": self.eligible_at(now).map(moment),
            "holds": holds.collect::<Vec<_>>(),
            "delay": delay_json(&view.delay),
            "retry_after_until": view.stays_away_until.map(moment),
            "last_asked": self.last_asked.map(|(at, _)| moment(at)),
            "last_outcome": self.last_asked.map(|(_, outcome)| outcome.name()),
            "last_outcome_means": self.last_asked.map(|(_, outcome)| advice(outcome)),
            "fetched": view.fetched_count,
            "queued": queued.collect::<Map<_, _>>(),
            "waiting": tally.waiting_count,
            "open": tally.open_count,
            "next_url": view.next.as_ref().map(|next| json!({
                "url": next.url.as_str(), "class": next.class.name(), "denied_by": next.denied_by,
            })),
            "origins": view.origins.iter().map(|of| self.origin_json(now, of)).collect::<Vec<_>>(),
        })
    }

    fn origin_json(&self, now: WallTime, origin: &OriginView) -> Value {
        let breaker = origin.breaker.as_ref().map(|breaker| {
            let since = self.last_failed.get(&origin.origin);
            json!({
                "open": breaker.is_open, "since": since.map(|at| moment_json(now, *at)),
                "until": moment_json(now, breaker.until), "cause": breaker.cause.name(),
                "cause_means": advice(breaker.cause),
                "failures": breaker.failure_count, "opened": breaker.open_count,
                "given_up": breaker.is_given_up,
            })
        });
        json!({
            "origin": origin.origin, "breaker": breaker,
            "robots": robots_json(now, &origin.robots),
        })
    }
}

/// Which of a delay's parts is the longest.
fn delay_cause(delay: &DelayView) -> &'static str {
    let asked_ms = delay.crawl_delay.as_ref().map_or(0, |(ms, ..)| *ms);
    let asked_ms = asked_ms.min(delay.crawl_delay_ms_max);
    if asked_ms > delay.configured_ms && asked_ms >= delay.slowness_ms {
        "crawl_delay"
    } else if delay.slowness_ms > delay.configured_ms {
        "slow_host"
    } else {
        "delay_ms"
    }
}

fn delay_text(delay: &DelayView) -> String {
    let span = span_text(Duration::from_millis(delay.delay_ms));
    match (delay_cause(delay), &delay.crawl_delay) {
        ("crawl_delay", Some((asked_ms, line, origin))) => {
            let is_clamped = *asked_ms > delay.crawl_delay_ms_max;
            let clamped = if is_clamped { ", clamped by crawl_delay_ms_max" } else { "" };
            format!("{span} (Crawl-delay, line {line} of {}/robots.txt{clamped})", escape(origin))
        }
        ("slow_host", _) => {
            let usual = span_text(Duration::from_micros(delay.response_us.into()));
            format!("{span} (slow_host_factor: it usually answers within {usual})")
        }
        _ => format!("{span} (delay_ms)"),
    }
}

fn delay_json(delay: &DelayView) -> Value {
    json!({
        "ms": delay.delay_ms,
        "because": delay_cause(delay),
        "configured_ms": delay.configured_ms,
        "crawl_delay": delay.crawl_delay.as_ref().map(|(ms, line, origin)| {
            json!({ "ms": ms, "line": line, "origin": origin })
        }),
        "usual_response_us": delay.response_us,
        "slow_host_ms": delay.slowness_ms,
    })
}

fn robots_text(now: WallTime, robots: &RobotsView) -> String {
    match robots {
        RobotsView::Unknown => "not known: asked for before the next page".to_owned(),
        RobotsView::Known { since, rule_count, is_fresh } => {
            let stale = if *is_fresh { "" } else { ", too old: asked for again first" };
            let rules = counted(*rule_count as u64, "rule", "rules");
            format!("known since {}, {rules}{stale}", moment_text(now, *since))
        }
        RobotsView::Unreachable { since, retry_at, counts_as_absent } => {
            let absent = if *counts_as_absent { "; counts as absent by now" } else { "" };
            let (since, at) = (moment_text(now, *since), moment_text(now, *retry_at));
            format!("unreachable since {since}, asked again {at}{absent}")
        }
    }
}

fn robots_json(now: WallTime, robots: &RobotsView) -> Value {
    match robots {
        RobotsView::Unknown => json!({ "state": "unknown" }),
        RobotsView::Known { since, rule_count, is_fresh } => json!({
            "state": "known", "since": moment_json(now, *since), "rules": rule_count,
            "fresh": is_fresh,
        }),
        RobotsView::Unreachable { since, retry_at, counts_as_absent } => json!({
            "state": "unreachable", "since": moment_json(now, *since),
            "retry": moment_json(now, *retry_at), "counts_as_absent": counts_as_absent,
        }),
    }
}

//! The judge of a simulated crawl. The servers' log and the files on disk come in; the rules that
//! were broken go out, by kind, with the first cases of each.
//!
//! 1. Politeness and robots.txt: the referee (`audit`) reads the log as it would read any other.
//! 2. Every URL of a healthy host that a seed or a healthy host told of is fetched exactly once,
//!    and stored once, unless robots.txt denies it.
//! 3. Every other URL that the crawler learnt is accounted for: the servers' log shows a request
//!    for it, or the crawl's own logs name it with an outcome. If the run was stopped, it may still
//!    be in a queue.
//! 4. No URL is fetched twice, under any name; no URL is asked for that nothing links to; and no
//!    name is asked for at an address that DNS no longer gives for it.
//! 5. WARC files are whole and closed, their indexes lead to records, and no revisit refers to a
//!    payload that is not stored.
//! 6. With a page limit, and in a single life: never more pages than the limit, and exactly as many
//!    if the crawl was stopped on a web without weather. (In a storm the limit also counts pages
//!    that came only in part; the servers' log has them among the cut ones.)
//! 7. No URL is given up with its origin, without a request, unless the origin gave no sound answer
//!    for at least the time that a breaker is open before an origin is given up. On a healthy host
//!    no URL is given up at all (rule 2).
//!
//! All of this is judged over all lives of a crawl with crashes, whose log is one. What had ended
//! within a window before a crash ([`stops`]) may be asked for and stored again; anything older may
//! not.

use crate::base::Time;
use crate::crawl::flow::Outcome;
use crate::crawl::metrics::merged;
use crate::lab::audit::web_log::WebLogs;
use crate::lab::audit::{self, AuditError, Stop, Terms, Verdict};
use crate::lab::sim::archive::Archive;
use crate::lab::sim::crash::Downfall;
use crate::lab::sim::crawl::{Crawl, CrawlPlan};
use crate::lab::sim::knowledge::{Knowledge, Tally, is_denied, place_of};
use crate::lab::sim::memory::{Asked, Memory};
use crate::lab::web::Web;
use crate::lab::web::graph::{Kind, Place};
use crate::lab::web::log::{Entry, Fate};
use hashbrown::{HashMap, HashSet};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Breach {
    /// A URL of a healthy host was not fetched, or not as often as it should be.
    Missed,
    /// A page of a healthy host that was fetched is not in the index of the WARC files.
    NotStored,
    /// A URL that was learnt has no outcome.
    Lost,
    FetchedTwice,
    /// A request for a URL that nothing links to.
    Unlinked,
    /// A request at an address that DNS no longer gave for the name.
    Misdirected,
    /// A WARC file, or its index, that cannot be read in full.
    Torn,
    /// A revisit of a payload that is not stored.
    Dangling,
    /// A URL was given up without a request, although its origin had answered others all the time.
    GivenUp,
    /// More pages than the limit allows.
    OverLimit,
    /// The crawl ended below its page limit, with URLs left to ask for.
    UnderLimit,
}

impl Breach {
    pub fn name(self) -> &'static str {
        match self {
            Breach::Missed => "missed",
            Breach::NotStored => "not_stored",
            Breach::Lost => "lost",
            Breach::FetchedTwice => "fetched_twice",
            Breach::Unlinked => "unlinked",
            Breach::Misdirected => "misdirected",
            Breach::Torn => "torn",
            Breach::Dangling => "dangling",
            Breach::GivenUp => "given_up",
            Breach::OverLimit => "over_limit",
            Breach::UnderLimit => "under_limit",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Judgement {
    /// The verdict of the referee.
    pub verdict: Verdict,
    /// The breaches by kind: how many there are, and the first of them.
    pub breaches: BTreeMap<Breach, (u64, Vec<String>)>,
    pub page_count: u64,
    /// How many fetches of pages repeated an earlier one.
    pub refetch_count: u64,
    /// How many URLs a stopped run left in its queues.
    pub waiting_count: u64,
}

impl Judgement {
    /// Judges a crawl. It fails only if the referee cannot read the log.
    pub fn of(web: &Web, plan: &CrawlPlan, crawl: &Crawl) -> Result<Judgement, AuditError> {
        let hits = WebLogs::text(crawl.log_text.as_bytes());
        let mut judgement = Judgement {
            verdict: audit::judge(&hits, &terms(plan, crawl), None)?,
            breaches: BTreeMap::new(),
            page_count: 0,
            refetch_count: 0,
            waiting_count: 0,
        };
        let knowledge = Knowledge::new(web, &plan.seeds, &crawl.log);
        for entry in &knowledge.misdirected {
            judgement.add(Breach::Misdirected, || line(entry));
        }
        for entry in &knowledge.strange {
            judgement.add(Breach::Unlinked, || line(entry));
        }
        let archive = Archive::read(web, &crawl.files);
        archive.torn.iter().for_each(|what| judgement.add(Breach::Torn, || what.clone()));
        archive.dangling.iter().for_each(|what| judgement.add(Breach::Dangling, || what.clone()));
        let stops = stops(plan, crawl, 0);
        judgement.judge_requests(web, &stops, &knowledge);
        judgement.judge_healthy(web, plan, crawl, &knowledge, &archive);
        judgement.judge_accounts(web, crawl, &knowledge);
        judgement.judge_limit(plan, crawl);
        judgement.judge_given_up(web, plan, crawl, &knowledge);
        Ok(judgement)
    }

    pub fn is_pass(&self) -> bool {
        self.verdict.pass && self.breaches.is_empty()
    }

    fn add(&mut self, breach: Breach, what: impl FnOnce() -> String) {
        let (count, shown) = self.breaches.entry(breach).or_default();
        *count += 1;
        if shown.len() < crate::base::limits::SIM_BREACH_COUNT_SHOWN {
            shown.push(what());
        }
    }

    fn judge_requests(&mut self, web: &Web, stops: &[Stop], knowledge: &Knowledge) {
        for (place, asked) in sorted(&knowledge.asked) {
            let page_count = knowledge.tally(&place).page_count;
            self.page_count += u64::from(page_count.min(1));
            self.refetch_count += u64::from(page_count.saturating_sub(1));
            for repeat in &Memory::new(asked, stops).repeats {
                let seconds = repeat.at.0 as f64 / 1e9;
                self.add(Breach::FetchedTwice, || {
                    format!(
                        "fetched {page_count} times, needlessly at {seconds:.3} s: {}",
                        web.url(place)
                    )
                });
            }
            if !knowledge.may_know(&place) {
                self.add(Breach::Unlinked, || web.url(place));
            }
        }
    }

    fn judge_healthy(
        &mut self,
        web: &Web,
        plan: &CrawlPlan,
        crawl: &Crawl,
        known: &Knowledge,
        archive: &Archive,
    ) {
        let tries = u32::from(plan.settings.retry_count_max) + 1;
        let stops = stops(plan, crawl, 0);
        for place in ordered(&known.told_by_healthy) {
            if !web.is_healthy(place.host) {
                continue;
            }
            let tally = known.tally(&place);
            let stored_count = archive.stored.get(&place).copied().unwrap_or(0);
            // A page that was fetched again may have been stored the first time, or not.
            if tally.page_count > 0 && !(1..=tally.page_count).contains(&stored_count) {
                let url = web.url(place);
                self.add(Breach::NotStored, || format!("in the index {stored_count} times: {url}"));
            }
            let denied = is_denied(web, &place);
            if crawl.is_stopped && tally.request_count == 0 && !denied {
                // Counted as waiting by `judge_accounts`.
                continue;
            }
            let memory = Memory::new(known.asked(&place), &stops);
            let is_right = |tally| {
                // If the run was stopped, the URL may be waiting for its next try.
                let waits = crawl.is_stopped && matches!(place.kind, Kind::Busy);
                is_right(&place, tally, denied, tries)
                    || waits && tally.put_off_count == tally.request_count
            };
            if !memory.tallies().any(is_right) {
                self.add(Breach::Missed, || format!("{} {tally:?}", web.url(place)));
            }
        }
    }

    fn judge_accounts(&mut self, web: &Web, crawl: &Crawl, known: &Knowledge) {
        let named = named_places(web, crawl, |_| true);
        // A crash loses the last lines of these logs, so after one only the URLs that had to be
        // asked for count.
        let may_be_unnamed = |place: &Place| {
            let is_owed = web.is_healthy(place.host) && !is_denied(web, place);
            !crawl.downfalls.is_empty() && !is_owed
        };
        let lost: Vec<Place> = ordered(&known.learnt)
            .into_iter()
            .filter(|place| known.asked(place).is_empty() && !named.contains(place))
            .filter(|place| !may_be_unnamed(place))
            .collect();
        let (_, gauges) = merged(&crawl.reports);
        // A host that waits for the robots.txt of another host holds a URL outside of its queue.
        let room = gauges.urls_queued + gauges.seen_deferred + gauges.hosts;
        if crawl.is_stopped && lost.len() as u64 <= room {
            self.waiting_count = lost.len() as u64;
            return;
        }
        for place in lost {
            self.add(Breach::Lost, || web.url(place));
        }
    }

    fn judge_given_up(&mut self, web: &Web, plan: &CrawlPlan, crawl: &Crawl, known: &Knowledge) {
        let given_up = named_places(web, crawl, |outcome| outcome == Outcome::OriginDown.name());
        let unasked: Vec<Place> =
            ordered(&given_up).into_iter().filter(|place| known.asked(place).is_empty()).collect();
        if unasked.is_empty() {
            return;
        }
        let mut sound_ends: HashMap<u32, Vec<Time>> = HashMap::new();
        for entry in crawl.log.iter().filter(|entry| is_sound(entry)) {
            let name = entry.host.split(':').next().unwrap_or_default();
            if let Some(host) = web.host_index(name) {
                sound_ends.entry(host).or_default().push(entry.end);
            }
        }
        let settings = &plan.settings;
        // Each time the breaker stays open twice as long as the time before.
        let open_count = (1u64 << settings.breaker_give_up_count.min(20)) - 1;
        let least = Duration::from_millis(settings.breaker_open_ms.saturating_mul(open_count));
        for place in unasked {
            let mut ends = sound_ends.get(&place.host).cloned().unwrap_or_default();
            ends.extend([crawl.began, crawl.ended]);
            ends.sort_unstable();
            let silent = ends.windows(2).map(|pair| pair[1].since(pair[0])).max();
            if silent.is_none_or(|silent| silent < least) {
                self.add(Breach::GivenUp, || {
                    format!("{}: its origin was silent for {silent:?}", web.url(place))
                });
            }
        }
    }

    fn judge_limit(&mut self, plan: &CrawlPlan, crawl: &Crawl) {
        let (limit, page_count) = (plan.settings.max_pages, self.page_count);
        if limit == 0 || !crawl.downfalls.is_empty() {
            return;
        }
        let line = || format!("{page_count} pages, the limit is {limit}");
        if page_count > limit {
            self.add(Breach::OverLimit, line);
        }
        if page_count < limit && crawl.is_stopped && plan.spec.weather_fraction == 0.0 {
            self.add(Breach::UnderLimit, line);
        }
    }
}

/// Returns the rules that the crawler of this plan had to keep.
fn terms(plan: &CrawlPlan, crawl: &Crawl) -> Terms {
    let settings = &plan.settings;
    Terms {
        delay_ms: settings.delay_ms,
        crawl_delay_ms_max: settings.crawl_delay_ms_max,
        retry_after_ms_max: settings.crawl_delay_ms_max,
        // The referee's time line is Unix time.
        stops: stops(plan, crawl, crawl.wall_ahead_ns),
        repeat_count_max: Some(repeat_count_max(plan)),
        ..Terms::default()
    }
}

/// Returns the crawl's downfalls as stops, on a clock that is `ahead_ns` ahead of the crawl's.
/// While a disk fails, nothing becomes durable, so the windows reach back to the moment when it
/// began to fail. Packets that the dead process had sent may still arrive while the next life
/// begins.
fn stops(plan: &CrawlPlan, crawl: &Crawl, ahead_ns: u64) -> Vec<Stop> {
    let on_its_way = Duration::from_micros(plan.net.latency_us_max);
    let stop = |downfall: &Downfall| {
        let back_at = downfall.back_at.max(downfall.at + on_its_way);
        let [at, back] = [downfall.at, back_at].map(|time| Time(time.0 + ahead_ns));
        Stop::new(at, back, synced_ms(plan)).widened(downfall.unwritten_ms())
    };
    crawl.downfalls.iter().map(stop).collect()
}

fn synced_ms(plan: &CrawlPlan) -> [u64; 2] {
    [plan.settings.sync_ms, plan.settings.journal_sync_ms]
}

/// Returns how many URLs may be fetched again because of one crash: as many as the shards have
/// under way, and as many as the addresses can have answered in the window before it.
fn repeat_count_max(plan: &CrawlPlan) -> u64 {
    let settings = &plan.settings;
    let shard_count = plan.crashes.iter().map(|crash| crash.shard_count);
    let shard_count = shard_count.chain([plan.shard_count]).max().unwrap_or_default();
    let slot_count = u64::from(shard_count) * settings.fetch_slots as u64;
    let window_ms = Stop::new(Time::ZERO, Time::ZERO, synced_ms(plan)).repeated_ms;
    let address_count = plan.spec.host_count.div_ceil(plan.spec.hosts_per_address);
    let answer_count = window_ms / settings.delay_ms.max(1) + 1;
    slot_count + u64::from(address_count) * answer_count
}

/// Reports whether a URL of a healthy host was asked for as often as it should be.
fn is_right(place: &Place, tally: Tally, denied: bool, tries: u32) -> bool {
    let Tally { request_count, page_count, redirect_count, put_off_count } = tally;
    if denied {
        return request_count == 0;
    }
    match place.kind {
        Kind::Redirect => (request_count, redirect_count) == (1, 1),
        Kind::Missing | Kind::Gone => request_count == 1,
        Kind::Broken => (1..=tries).contains(&request_count),
        // It was put off some times and then fetched, or put off at every try.
        Kind::Busy => {
            request_count == page_count + put_off_count
                && (page_count == 1 || put_off_count == tries)
        }
        _ => (request_count, page_count) == (1, 1),
    }
}

/// Reports whether an answer shows that the server is well: it is whole, no error of the server's,
/// and for a page. A robots.txt does not count: one that redirects to nowhere forbids all pages,
/// however well it is answered.
fn is_sound(entry: &Entry) -> bool {
    let is_robots = entry.path == "/robots.txt" || entry.path.starts_with("/robots-of/");
    !is_robots
        && entry.fate == Fate::Whole
        && (200..500).contains(&entry.status)
        && entry.status != 429
}

/// Returns the places that the crawl's own logs, of requests and of URLs given up, name with an
/// outcome that `is_meant` accepts. The URL is the sixth field of a line in both; the outcome is
/// the second one of a dead letter.
fn named_places(web: &Web, crawl: &Crawl, is_meant: impl Fn(&str) -> bool) -> HashSet<Place> {
    let is_log = |path: &Path| path.starts_with("requests");
    let logs = crawl.files.iter().filter(|(path, _)| is_log(path));
    let texts = logs.map(|(_, bytes)| String::from_utf8_lossy(bytes));
    let mut named = HashSet::new();
    for text in texts {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        named.extend(lines.filter_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let place = place_of(web, words.get(5)?)?;
            words.get(1).is_some_and(|outcome| is_meant(outcome)).then_some(place)
        }));
    }
    named
}

/// Sorts the places, so that the order does not depend on a hash table: equal runs print equal
/// lines.
fn sorted(asked: &HashMap<Place, Vec<Asked>>) -> Vec<(Place, &[Asked])> {
    let mut all: Vec<_> = asked.iter().map(|(place, asked)| (*place, &asked[..])).collect();
    all.sort_unstable_by_key(|(place, _)| *place);
    all
}

fn ordered(places: &HashSet<Place>) -> Vec<Place> {
    let mut all: Vec<_> = places.iter().copied().collect();
    all.sort_unstable();
    all
}

fn line(entry: &Entry) -> String {
    let seconds = entry.at.0 as f64 / 1e9;
    format!("{seconds:.3} s {} {} {} {}", entry.local, entry.host, entry.path, entry.status)
}

impl fmt::Display for Judgement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (breach, (count, shown)) in &self.breaches {
            writeln!(out, "  {}: {count}", breach.name())?;
            for what in shown {
                writeln!(out, "    {what}")?;
            }
        }
        if self.verdict.pass {
            return Ok(());
        }
        self.verdict.to_string().lines().try_for_each(|line| writeln!(out, "  {line}"))
    }
}

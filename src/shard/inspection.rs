//! A shard's state as its files have it, for people to inspect.
//!
//! An inspection reads what a restart would read, with the same code, and nothing else: the runs of
//! URL seen are not loaded, no journal is opened for writing, and nothing is created, changed or
//! removed. So it works while the crawl is running, when the last frame of the journal may be half
//! written. [`HostView`]s and [`UrlView`]s come out. All times are of the wall clock, and the state
//! is that of the journal's last entry. Everything runs on one thread.

use super::image::Clocks;
use super::recovery::{Applied, ChunksWanted, Opened, Restored, Source};
use super::view::{
    BreakerView, CheckpointView, DelayView, HostView, NextView, OriginView, RobotsView, UrlCounts,
    UrlState, UrlView,
};
use super::{Past, Placement, ShardError};
use crate::base::limits::LOOK_TRY_COUNT_MAX;
use crate::base::{HashKey, WallTime};
use crate::crawl::config::Settings;
use crate::crawl::flow::{Class, Outcome, OutcomeCounts, Queued, ShardIndex, state_dir};
use crate::crawl::frontier::spill::TailError;
use crate::crawl::frontier::{HostId, Origin};
use crate::crawl::journal::{
    CheckpointReader, Entry, FileKind, FileName, JournalError, Replayed, add_file, journal_files,
    newest_first, replay,
};
use crate::crawl::resolve::RobotsState;
use crate::io::{Clock, Disk, DiskError};
use crate::proto::url::{HostKey, Url};
use std::collections::{HashMap, HashSet};

/// What the journal records besides the state that it leads to.
#[derive(Default)]
pub struct News {
    pub entry_count: u64,
    pub admitted_count: u64,
    pub retried_count: u64,
    pub revived_count: u64,
    /// The number of URLs that ended, by outcome.
    pub ended_counts: OutcomeCounts,
    pub dead: Vec<(Queued, Outcome, WallTime)>,
    /// The URLs that were put back and are not dead again, in the form in which URLs are compared.
    revived: HashSet<String>,
    /// The hosts that asked the crawler to stay away, and until when.
    waiting: HashMap<HostKey, WallTime>,
}

/// The state of one shard, read once.
pub struct Inspection<W: Clock + Disk> {
    pub index: ShardIndex,
    pub generation: u32,
    pub checkpoints: Vec<CheckpointView>,
    /// Why each checkpoint that could not be used was refused.
    pub refused: Vec<String>,
    pub journal_names: Vec<String>,
    /// What the journal after the checkpoint has. A torn tail is being written now, or was being
    /// written when the power was cut.
    pub replayed: Replayed,
    pub news: News,
    /// The number of URLs in the runs that the checkpoint names.
    seen_count: u64,
    settings: Settings,
    clocks: Clocks,
    restored: Restored<W>,
}

impl<W: Clock + Disk> Inspection<W> {
    /// Reads the state of shard `index` as process `past` left it, or as it is now if the process
    /// is running. With a `host`, the parts of other hosts' queues that are on disk are left out.
    pub async fn read(
        world: &W,
        index: ShardIndex,
        past: Past,
        (settings, hash_key): (&Settings, &HashKey),
        host: Option<HostKey>,
    ) -> Result<Inspection<W>, ShardError> {
        let placement = Placement::new(past.shard_count);
        let generation = past.generation;
        let chunks = host.map_or(ChunksWanted::Read, ChunksWanted::ReadOf);
        let source = Source { settings, hash_key, placement, index, of: index, generation, chunks };
        let mut try_count = 1;
        loop {
            let is_patient = try_count < LOOK_TRY_COUNT_MAX;
            match Inspection::read_once(world, source, is_patient).await {
                // A checkpoint was taken in the meantime, and the files that it replaces are gone.
                Err(error) if is_missing(&error) && is_patient => try_count += 1,
                read => return read,
            }
        }
    }

    async fn read_once(
        world: &W,
        source: Source<'_>,
        is_patient: bool,
    ) -> Result<Inspection<W>, ShardError> {
        let names = newest_first(world, &source.directory(), source.generation).await;
        let names = names.map_err(ShardError::Journal)?;
        let mut refused = Vec::new();
        for name in names.iter().copied().map(Some).chain([None]) {
            match Inspection::read_from(world, source, name).await {
                Ok(mut inspection) => {
                    inspection.checkpoints = checkpoints(world, source.of, &names, name).await;
                    return Ok(Inspection { refused, ..inspection });
                }
                Err(error) if is_patient && is_missing(&error) => return Err(error),
                Err(error) if error.is_damage() && name.is_some() => {
                    refused.push(error.to_string());
                }
                // If no checkpoint can be used, the first journal is usually missing too. The
                // damage that was found first is the reason.
                Err(error) => {
                    return Err(refused.first().cloned().map_or(error, ShardError::Refused));
                }
            }
        }
        unreachable!("the last attempt returns")
    }

    async fn read_from(
        world: &W,
        source: Source<'_>,
        name: Option<FileName>,
    ) -> Result<Inspection<W>, ShardError> {
        let Source { settings, hash_key, of: index, generation, .. } = source;
        let clocks = Clocks::of(world, settings.crawl_delay_ms_max);
        let mut restored = Restored::for_a_look(settings, hash_key);
        let (mut cut, mut seen_count) = ((0, 0), 0);
        if let Some(name) = name {
            let opened = Opened::open(world, source, name).await?;
            cut = opened.cut;
            seen_count = opened.seen.runs.iter().map(|run| run.count).sum();
            restored.take_hosts(world, source, opened, clocks).await?;
        }
        let mut news = News::default();
        let mut applied = Applied { restored: &mut restored, source, clocks };
        let directory = source.directory();
        let replayed = replay(world, &directory, generation, cut, |lsn, entry| {
            news.take(&entry);
            applied.apply(lsn, entry)
        });
        let replayed = replayed.await.map_err(ShardError::Journal)?;
        let journals = journal_files(world, &directory, generation).await;
        let journals = journals.map_err(ShardError::Journal)?;
        Ok(Inspection {
            index,
            generation,
            checkpoints: Vec::new(),
            refused: Vec::new(),
            journal_names: journals.into_iter().map(FileName::text).collect(),
            seen_count,
            settings: settings.clone(),
            replayed,
            news,
            clocks,
            restored,
        })
    }

    /// Returns how many URLs were ever taken: those in the runs of URL seen, and those taken since.
    /// This is an upper bound: while a crawl is running, URLs taken between a checkpoint's cut and
    /// its runs are counted twice.
    pub fn known_url_count(&self) -> u64 {
        self.seen_count + self.news.admitted_count
    }

    pub fn host_ids(&self) -> impl Iterator<Item = HostId> + use<W> {
        self.restored.frontier.host_ids()
    }

    /// Returns the number of cold hosts, which were not in RAM. Only their page counts are known.
    pub fn cold_host_count(&self) -> u64 {
        self.restored.frontier.cold_count() as u64
    }

    /// Returns the page count of the host of this name, if it is cold.
    pub fn cold_page_count(&self, name: &str) -> Option<u32> {
        let count = self
            .restored
            .frontier
            .cold_page_count(HostKey::of(self.restored.frontier.hash_key(), name));
        (count > 0).then_some(count)
    }

    pub fn host_name(&self, host: HostId) -> &str {
        self.restored.frontier.host_name(host)
    }

    /// Returns the host of this name, if the shard knows it.
    pub fn host_named(&self, name: &str) -> Option<HostId> {
        let host = self
            .restored
            .frontier
            .host_by_key(HostKey::of(self.restored.frontier.hash_key(), name))?;
        (self.host_name(host) == name).then_some(host)
    }

    /// Returns a host's URLs that have not ended: those handed out or waiting first, then the
    /// queued ones, in order within each class.
    pub fn urls_of(&self, host: HostId) -> impl Iterator<Item = UrlView> {
        let frontier = &self.restored.frontier;
        let is_good = move |queued: &Queued| !frontier.is_stale(host, queued);
        let open = frontier.open_of(host).map(|open| {
            let until = open.waits_until.map(|until| self.clocks.wall_of(until));
            let state = until.map_or(UrlState::Open, UrlState::Waiting);
            UrlView { queued: open.queued.clone(), state }
        });
        let queued = frontier.queued_in(host);
        let queued = queued.map(|queued| UrlView { queued, state: UrlState::Queued });
        open.chain(queued).filter(move |view| is_good(&view.queued))
    }

    /// Returns the URL as its host has it, or `None` if the host does not have it or it has ended.
    pub fn url(&self, url: &Url) -> Option<UrlView> {
        let host = self.host_named(url.host())?;
        self.urls_of(host).find(|view| view.queued.url == *url)
    }

    /// Counts a host's URLs that have not ended, by state.
    pub fn tally(&self, host: HostId) -> UrlCounts {
        let mut tally = UrlCounts::default();
        for view in self.urls_of(host) {
            match view.state {
                UrlState::Queued => tally.queued_counts[view.queued.class.index()] += 1,
                UrlState::Waiting(_) => tally.waiting_count += 1,
                UrlState::Open => tally.open_count += 1,
            }
        }
        tally
    }

    /// Returns those origins of a host that fail, with their breakers.
    pub fn breakers(&self, host: HostId) -> impl Iterator<Item = (String, BreakerView)> {
        let origins = self.restored.frontier.host_origins(host);
        origins.filter_map(move |(origin, text)| Some((text, self.breaker(host, origin)?)))
    }

    /// Returns when a host's rest ends, if it has one. The host named the time itself, or the
    /// crawler chose it.
    pub fn rests_until(&self, host: HostId) -> Option<WallTime> {
        let eligible_at = self.restored.frontier.host_eligible_at(host);
        (eligible_at > self.clocks.now()).then(|| self.clocks.wall_of(eligible_at))
    }

    pub fn host(&self, host: HostId) -> HostView {
        let frontier = &self.restored.frontier;
        let key = frontier.host_key(host);
        let waits = self.news.waiting.get(&key).copied();
        let now = self.clocks.wall_of(self.clocks.now());
        let origin = |(origin, text): (Origin, String)| OriginView {
            breaker: self.breaker(host, origin),
            robots: self.robots(&text),
            origin: text,
        };
        HostView {
            name: frontier.host_name(host).to_owned(),
            tally: self.tally(host),
            fetched_count: frontier.host_fetched_count(host),
            rests_until: self.rests_until(host),
            stays_away_until: waits.filter(|until| *until > now),
            delay: self.delay(host),
            origins: frontier.host_origins(host).map(origin).collect(),
            next: frontier.peek_url(host).map(|queued| self.next(queued)),
        }
    }

    /// Reports whether the rules that are known now allow a URL, and which rule decides.
    pub fn robots_verdict(&self, url: &Url) -> Option<(bool, Option<String>)> {
        let state = self.restored.robots.state(url.origin(), self.clocks.now());
        let RobotsState::Ready(rules) = state else { return None };
        let verdict = rules.check(url.path_and_query());
        Some((verdict.allowed, verdict.rule.map(|rule| rule.to_string())))
    }

    /// Reports whether a URL that has ended can be put back once more.
    pub fn can_revive(&self, url: &Url) -> bool {
        let host = self.host_named(url.host());
        let fingerprint = url.fingerprint(self.restored.frontier.hash_key());
        host.is_none_or(|host| self.restored.frontier.can_revive(host, fingerprint))
    }

    /// Puts URLs back into the queues of the shard's hosts, durably: a restart finds them there.
    /// The breakers of their origins that were given up are reset, because otherwise the URLs would
    /// end as before without a request. The caller must hold the crawl's lock, and must have read
    /// the state after it took the lock.
    pub async fn revive(&self, world: &W, urls: Vec<Queued>) -> Result<(), ShardError> {
        let mut entries = Vec::new();
        let mut forgiven: HashSet<Box<str>> = HashSet::new();
        for queued in urls {
            let host = self.host_named(queued.url.host());
            let breaker = host.and_then(|host| self.breaker(host, Origin::of(&queued.url)));
            let origin = queued.url.origin();
            if breaker.is_some_and(|breaker| breaker.is_given_up) && forgiven.insert(origin.into())
            {
                entries.push(Entry::Health { origin: origin.to_owned(), image: Vec::new() });
            }
            entries.push(Entry::Revived(queued));
        }
        let (generation, sequence) = (self.generation, self.replayed.next_sequence.max(1));
        let name = FileName { kind: FileKind::Journal, generation, sequence };
        let directory = state_dir(self.index);
        let (first_lsn, again) = (self.replayed.last_lsn + 1, self.replayed.unproven.as_ref());
        let added = add_file(world, &directory, name, first_lsn, &entries, again).await;
        added.map_err(ShardError::Journal)
    }

    fn next(&self, queued: Queued) -> NextView {
        let verdict = self.robots_verdict(&queued.url);
        let denied_by = match verdict {
            Some((false, rule)) => {
                Some(rule.unwrap_or_else(|| "rules that take too long to match".to_owned()))
            }
            _ => None,
        };
        NextView { url: queued.url, class: queued.class, denied_by }
    }

    fn breaker(&self, host: HostId, origin: Origin) -> Option<BreakerView> {
        let ailing = self.restored.health.ailing(host, origin)?;
        Some(BreakerView {
            is_open: ailing.open_count > 0 && ailing.until > self.clocks.now(),
            failure_count: ailing.failure_count,
            open_count: ailing.open_count,
            is_given_up: ailing.given_up,
            cause: ailing.cause,
            until: self.clocks.wall_of(ailing.until),
        })
    }

    fn robots(&self, origin: &str) -> RobotsView {
        let wall_of = |time| self.clocks.wall_of(time);
        let Some(known) = self.restored.robots.known(origin) else { return RobotsView::Unknown };
        let state = self.restored.robots.state(origin, self.clocks.now());
        match (known.unreachable, known.rules) {
            (Some((since, retry_at)), _) => RobotsView::Unreachable {
                since: wall_of(since),
                retry_at: wall_of(retry_at),
                counts_as_absent: matches!(state, RobotsState::Ready(_)),
            },
            (None, Some(rules)) => RobotsView::Known {
                since: wall_of(known.answered),
                rule_count: rules.rules().count(),
                is_fresh: matches!(state, RobotsState::Ready(_)),
            },
            (None, None) => RobotsView::Unknown,
        }
    }

    fn delay(&self, host: HostId) -> DelayView {
        let frontier = &self.restored.frontier;
        let pace = frontier.host_lore(host);
        let of_origin = |(_, text): (Origin, String)| {
            let rules = self.restored.robots.known(&text)?.rules?;
            Some((rules.crawl_delay_ms()?, rules.crawl_delay_line()?, text))
        };
        let crawl_delay = frontier.host_origins(host).filter_map(of_origin).max();
        let asked_ms = crawl_delay.as_ref().map(|(ms, ..)| *ms);
        DelayView {
            delay_ms: pace.delay(asked_ms, &self.settings).as_millis() as u64,
            configured_ms: self.settings.delay_ms,
            crawl_delay,
            crawl_delay_ms_max: self.settings.crawl_delay_ms_max,
            response_us: pace.response_us(),
            slowness_ms: pace.slowness(&self.settings).as_millis() as u64,
        }
    }
}

impl News {
    /// Reports whether the journal puts the URL back and has no later end of it as a dead letter.
    pub fn is_revived(&self, url: &Url) -> bool {
        self.revived.contains(&*url.compared())
    }

    fn take(&mut self, entry: &Entry) {
        self.entry_count += 1;
        match entry {
            Entry::Admitted(_) => self.admitted_count += 1,
            Entry::Retried { .. } => self.retried_count += 1,
            Entry::Revived(queued) => {
                self.revived_count += 1;
                self.revived.insert(queued.url.compared().into_owned());
            }
            Entry::Ended { outcome, .. } => self.ended_counts.0[*outcome as usize] += 1,
            Entry::Dead { queued, outcome, at } => {
                self.ended_counts.0[*outcome as usize] += 1;
                self.revived.remove(&*queued.url.compared());
                self.dead.push((queued.clone(), *outcome, *at));
            }
            Entry::Waiting { host, until } => _ = self.waiting.insert(*host, *until),
            _ => {}
        }
    }
}

impl UrlCounts {
    pub fn queued_count(&self) -> u64 {
        Class::ALL.iter().map(|class| self.queued_counts[class.index()]).sum()
    }
}

/// Reports whether the error is a missing file: one that was listed, or one that must exist.
fn is_missing(error: &ShardError) -> bool {
    match error {
        ShardError::Journal(JournalError::Disk { error, .. }) => *error == DiskError::NotFound,
        ShardError::Journal(error) => error.is_missing(),
        ShardError::Tails(TailError::Disk { error, .. }) => *error == DiskError::NotFound,
        _ => false,
    }
}

/// Returns all checkpoints in `names`, in the same order, with the time at which each was begun.
async fn checkpoints<W: Clock + Disk>(
    world: &W,
    index: ShardIndex,
    names: &[FileName],
    used: Option<FileName>,
) -> Vec<CheckpointView> {
    let mut views = Vec::new();
    for name in names {
        let begun = async {
            match CheckpointReader::open(world, &state_dir(index), *name).await {
                Ok(mut reader) => reader.next().await,
                Err(error) => Err(error),
            }
        };
        let taken_at = match begun.await {
            Ok(Some(Entry::Begun { at, .. })) => Some(at),
            _ => None,
        };
        views.push(CheckpointView { name: name.text(), taken_at, is_used: used == Some(*name) });
    }
    views
}

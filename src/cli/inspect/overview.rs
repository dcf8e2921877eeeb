//! All of a crawl at one look: URLs by state, hosts, breakers, checkpoints, journal.

use super::dead::DeadLetters;
use super::disk::PlainDisk;
use super::left_out::LeftOut;
use super::listing::line;
use super::place::Place;
use super::words::{Table, distance_text, moment_json, moment_text};
use super::{DeadFilter, InspectError, Manner, logs};
use crate::base::WallTime;
use crate::base::escape::escape;
use crate::base::limits::INSPECT_TOP_COUNT;
use crate::cli::repair::last_repair;
use crate::crawl::flow::{Class, Outcome, OutcomeCounts};
use crate::engine::report::{bytes_text, count_text, counted};
use crate::shard::Inspection;
use crate::shard::view::{BreakerView, CheckpointView, UrlCounts};
use serde_json::{Map, Value, json};
use std::cmp::Reverse;

/// Sums over all shards.
#[derive(Default)]
struct Overview {
    as_of: Option<WallTime>,
    known_count: u64,
    tally: UrlCounts,
    /// Those that are no longer in RAM included.
    host_count: u64,
    cold_host_count: u64,
    /// Hosts with URLs to come.
    busy_host_count: u64,
    resting_count: u64,
    most_queued: Vec<(u64, String, Option<WallTime>)>,
    breaker_open_count: u64,
    given_up_count: u64,
    breakers: Vec<(String, BreakerView)>,
    ended_counts: OutcomeCounts,
    request_counts: OutcomeCounts,
    dead: Vec<(Outcome, u64)>,
    dead_count: u64,
    left_out: LeftOut,
    checkpoints: Vec<(u16, CheckpointView)>,
    refused: Vec<String>,
    journal_file_count: u64,
    journal_bytes: u64,
    entry_count: u64,
    torn_bytes: u64,
}

pub fn overview(place: &Place, manner: Manner) -> Result<String, InspectError> {
    let shards = place.shards()?;
    let mut overview = Overview::default();
    for shard in &shards {
        overview.add(place, shard);
    }
    logs::each_request(place, |request| overview.request_counts.0[request.outcome as usize] += 1)?;
    let dead = DeadLetters::gather(place, &shards, &DeadFilter::default())?;
    overview.dead_count = dead.count() as u64;
    overview.dead = dead.count_by_reason();
    overview.left_out = LeftOut::gather(place)?;
    if manner.is_json { line(&overview.json(place)) } else { Ok(overview.text(place)) }
}

impl Overview {
    fn add(&mut self, place: &Place, shard: &Inspection<PlainDisk>) {
        self.as_of = self.as_of.max(place.as_of(shard));
        self.known_count += shard.known_url_count();
        self.cold_host_count += shard.cold_host_count();
        self.host_count += shard.cold_host_count();
        for host in shard.host_ids() {
            self.host_count += 1;
            let tally = shard.tally(host);
            self.tally.add(&tally);
            let count = tally.all_count();
            let rest = shard.rests_until(host);
            self.busy_host_count += u64::from(count > 0);
            self.resting_count += u64::from(count > 0 && rest.is_some());
            let least = self.most_queued.last().map_or(0, |(count, ..)| *count);
            if count > 0 && (self.most_queued.len() < INSPECT_TOP_COUNT || count > least) {
                self.most_queued.push((count, shard.host_name(host).to_owned(), rest));
                self.most_queued.sort_by(|one, two| two.0.cmp(&one.0).then(one.1.cmp(&two.1)));
                self.most_queued.truncate(INSPECT_TOP_COUNT);
            }
            for (origin, breaker) in shard.breakers(host).filter(|(_, breaker)| breaker.is_open) {
                self.breaker_open_count += 1;
                self.given_up_count += u64::from(breaker.is_given_up);
                if self.breakers.len() < INSPECT_TOP_COUNT {
                    self.breakers.push((origin, breaker));
                }
            }
        }
        let counts = self.ended_counts.0.iter_mut().zip(shard.news.ended_counts.0);
        counts.for_each(|(sum, count)| *sum += count);
        let index = shard.index.0;
        self.checkpoints.extend(shard.checkpoints.iter().map(|of| (index, of.clone())));
        self.refused.extend(shard.refused.iter().cloned());
        self.journal_file_count += shard.journal_names.len() as u64;
        self.journal_bytes += shard.replayed.size_bytes;
        self.entry_count += shard.news.entry_count;
        self.torn_bytes += shard.replayed.torn.iter().map(|tail| tail.bytes).sum::<u64>();
    }

    /// Known, and neither queued nor waiting nor open.
    fn ended_count(&self) -> u64 {
        self.known_count.saturating_sub(self.tally.all_count())
    }

    fn last_checkpoint(&self) -> Option<WallTime> {
        // Of the shard whose is the oldest: what a crash costs at the most.
        let mut newest: Vec<Option<WallTime>> = Vec::new();
        for (shard, checkpoint) in &self.checkpoints {
            let index = usize::from(*shard);
            newest.resize(newest.len().max(index + 1), None);
            newest[index] = newest[index].max(checkpoint.taken_at);
        }
        newest.into_iter().flatten().min()
    }

    fn text(&self, place: &Place) -> String {
        let now = place.now();
        let mut table = Table(String::new());
        table.head(&format!("{}: {}", place.path.display(), running_text(place)));
        let as_of = self.as_of.map_or("there is no state".into(), |at| moment_text(now, at));
        table.row("state as of", as_of);
        let checkpoint = self.last_checkpoint();
        table.row("checkpoint", checkpoint.map_or("none".into(), |at| moment_text(now, at)));
        let entries = counted(self.entry_count, "entry", "entries");
        let journal = format!("{} since, {}", entries, bytes_text(self.journal_bytes));
        table.row("journal", journal);
        if self.torn_bytes > 0 {
            table.row("", format!("{} half written at its end", bytes_text(self.torn_bytes)));
        }
        if let Some(at) = last_repair(&place.path) {
            table.row("repaired", format!("{}: see REPAIRS.log", moment_text(now, at)));
        }
        self.urls_text(place, &mut table);
        self.hosts_text(&mut table, now);
        if !self.checkpoints.is_empty() {
            table.head("\ncheckpoints");
        }
        for (shard, checkpoint) in self.checkpoints.iter().take(INSPECT_TOP_COUNT) {
            let taken = checkpoint.taken_at;
            let taken = taken.map_or("unreadable".into(), |at| distance_text(now, at));
            let used = if checkpoint.is_used { ", in use" } else { "" };
            table.row(&format!("shard {shard}"), format!("{}  {taken}{used}", checkpoint.name));
        }
        self.refused.iter().for_each(|why| table.row("refused", escape(why).to_string()));
        table.0
    }

    fn urls_text(&self, place: &Place, table: &mut Table) {
        table.head("\nURLs");
        let at_most = if place.is_running { " at the most" } else { "" };
        table.row("known", count_text(self.known_count) + at_most);
        let by_class: Vec<String> = Class::ALL
            .iter()
            .map(|class| (class.name(), self.tally.queued_counts[class.index()]))
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| format!("{name} {}", count_text(count)))
            .collect();
        let queued = count_text(self.tally.queued_count());
        table.row("queued", format!("{queued}  {}", by_class.join(", ")).trim_end());
        table.row("waiting", count_text(self.tally.waiting_count));
        table.row("open", count_text(self.tally.open_count));
        table.row("ended", count_text(self.ended_count()));
        for (title, counts) in [
            ("\nended since the checkpoint, by outcome", &self.ended_counts.0),
            ("\nrequests, by outcome", &self.request_counts.0),
        ] {
            let counts = nonzero(counts);
            if !counts.is_empty() {
                table.head(title);
            }
            for (outcome, count) in counts {
                table.row(outcome.name(), count_text(count));
            }
        }
        table.head(&format!("\ndead letters: {}", count_text(self.dead_count)));
        for (outcome, count) in &self.dead {
            table.row(outcome.name(), count_text(*count));
        }
        self.left_out.text(table);
    }

    fn hosts_text(&self, table: &mut Table, now: WallTime) {
        table.head("\nhosts");
        table.row("known", count_text(self.host_count));
        table.row("of these cold", count_text(self.cold_host_count));
        table.row("with URLs", count_text(self.busy_host_count));
        table.row("of these resting", count_text(self.resting_count));
        for (count, name, rest) in &self.most_queued {
            let rest =
                rest.map_or(String::new(), |at| format!("  rests, {}", distance_text(now, at)));
            table.row("", format!("{:>9}  {}{rest}", count_text(*count), escape(name)));
        }
        let (open, given_up) = (self.breaker_open_count, self.given_up_count);
        table.head(&format!("\nbreakers open: {open}, given up: {given_up}"));
        for (origin, breaker) in &self.breakers {
            let cause = breaker.cause.name();
            let until = distance_text(now, breaker.until);
            table.row(cause, format!("{}  next try {until}", escape(origin)));
        }
    }

    fn json(&self, place: &Place) -> Value {
        let now = place.now();
        let moment = |at: WallTime| moment_json(now, at);
        let tally = &self.tally;
        let by_class = Class::ALL.iter().map(|class| (class.name(), class.index()));
        let by_class: Map<String, Value> = by_class
            .map(|(name, index)| (name.to_owned(), tally.queued_counts[index].into()))
            .collect();
        let hosts = self.most_queued.iter().map(|(count, name, rest)| {
            json!({ "host": name, "urls": count, "rests_until": rest.map(moment) })
        });
        let breakers = self.breakers.iter().map(|(origin, breaker)| {
            json!({
                "origin": origin, "cause": breaker.cause.name(), "until": moment(breaker.until),
                "given_up": breaker.is_given_up, "failures": breaker.failure_count,
            })
        });
        let checkpoints = self.checkpoints.iter().map(|(shard, checkpoint)| {
            json!({
                "shard": shard, "name": checkpoint.name, "in_use": checkpoint.is_used,
                "taken": checkpoint.taken_at.map(moment),
            })
        });
        let dead =
            self.dead.iter().map(|(outcome, count)| (outcome.name().to_owned(), (*count).into()));
        json!({
            "running": place.is_running,
            "shards": place.past.shard_count,
            "generation": place.past.generation,
            "as_of": self.as_of.map(moment),
            "checkpoint": self.last_checkpoint().map(moment),
            "journal": {
                "files": self.journal_file_count, "entries": self.entry_count,
                "bytes": self.journal_bytes, "torn_bytes": self.torn_bytes,
            },
            "urls": {
                "known": self.known_count, "queued": tally.queued_count(),
                "queued_by_class": by_class, "waiting": tally.waiting_count,
                "open": tally.open_count, "ended": self.ended_count(),
            },
            "ended_since_checkpoint": counts_json(&self.ended_counts.0),
            "requests": counts_json(&self.request_counts.0),
            "links_left_out": self.left_out.json(),
            "dead_letters": { "count": self.dead_count, "by_reason": dead.collect::<Map<_, _>>() },
            "hosts": {
                "known": self.host_count, "cold": self.cold_host_count,
                "with_urls": self.busy_host_count,
                "resting": self.resting_count, "most_queued": hosts.collect::<Vec<_>>(),
            },
            "breakers": {
                "open": self.breaker_open_count, "given_up": self.given_up_count,
                "first": breakers.collect::<Vec<_>>(),
            },
            "checkpoints": checkpoints.collect::<Vec<_>>(),
            "refused": self.refused,
        })
    }
}

impl UrlCounts {
    fn add(&mut self, other: &UrlCounts) {
        let counts = self.queued_counts.iter_mut().zip(other.queued_counts);
        counts.for_each(|(sum, count)| *sum += count);
        self.waiting_count += other.waiting_count;
        self.open_count += other.open_count;
    }

    fn all_count(&self) -> u64 {
        self.queued_count() + self.waiting_count + self.open_count
    }
}

pub fn running_text(place: &Place) -> &'static str {
    if place.is_running { "a crawl runs here" } else { "no crawl runs here" }
}

fn nonzero(counts: &[u64; Outcome::COUNT]) -> Vec<(Outcome, u64)> {
    let all = Outcome::ALL.into_iter().zip(*counts).filter(|(_, count)| *count > 0);
    let mut found: Vec<(Outcome, u64)> = all.collect();
    found.sort_by_key(|(_, count)| Reverse(*count));
    found
}

fn counts_json(counts: &[u64; Outcome::COUNT]) -> Map<String, Value> {
    let of = nonzero(counts).into_iter();
    of.map(|(outcome, count)| (outcome.name().to_owned(), count.into())).collect()
}

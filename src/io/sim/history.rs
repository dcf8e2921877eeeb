//! What happened in a simulation, as a list for people and as one number for tests.
//!
//! Every operation on the network and the disk is recorded with its time and shard. The digest
//! covers all events, kept or not: two runs with equal digests did the same things in the same
//! order at the same times.

use crate::base::Time;
use crate::base::limits::SIM_EVENT_COUNT_MAX;
use std::collections::VecDeque;
use std::fmt::{self, Write};
use xxhash_rust::xxh3::xxh3_64_with_seed;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub at: Time,
    pub shard: u16,
    pub kind: &'static str,
    pub detail: String,
}

impl fmt::Display for Event {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, ns) = (self.at.0 / 1_000_000_000, self.at.0 % 1_000_000_000);
        write!(out, "{seconds}.{ns:09} shard {} {} {}", self.shard, self.kind, self.detail)
    }
}

#[derive(Default)]
pub(super) struct History {
    digest: u64,
    /// The latest events, if someone asked for them.
    events: Option<VecDeque<Event>>,
    line: String,
}

impl History {
    pub fn record(&mut self, at: Time, shard: u16, kind: &'static str, detail: fmt::Arguments<'_>) {
        self.line.clear();
        // Writing to a String cannot fail.
        let _ = self.line.write_fmt(detail);
        for part in [&at.0.to_le_bytes()[..], &shard.to_le_bytes(), kind.as_bytes()] {
            self.digest = xxh3_64_with_seed(part, self.digest);
        }
        self.digest = xxh3_64_with_seed(self.line.as_bytes(), self.digest);
        if let Some(events) = &mut self.events {
            if events.len() == SIM_EVENT_COUNT_MAX {
                events.pop_front();
            }
            events.push_back(Event { at, shard, kind, detail: self.line.clone() });
        }
    }

    pub fn keep_events(&mut self) {
        self.events.get_or_insert_default();
    }

    pub fn events(&self) -> Vec<Event> {
        self.events.iter().flatten().cloned().collect()
    }

    pub fn digest(&self) -> u64 {
        self.digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_tells_histories_apart_by_time_shard_kind_detail_and_order() {
        let digest = |events: &[(u64, u16, &'static str, u32)]| {
            let mut history = History::default();
            for (at, shard, kind, detail) in events {
                history.record(Time(*at), *shard, kind, format_args!("{detail}"));
            }
            history.digest()
        };
        let one = digest(&[(1, 2, "sent", 3)]);
        assert_eq!(one, digest(&[(1, 2, "sent", 3)]));
        let others = [
            digest(&[(2, 2, "sent", 3)]),
            digest(&[(1, 1, "sent", 3)]),
            digest(&[(1, 2, "lost", 3)]),
            digest(&[(1, 2, "sent", 4)]),
            digest(&[(1, 2, "sent", 3), (1, 2, "sent", 3)]),
        ];
        assert!(!others.contains(&one));
        let pair = [(1, 1, "sent", 1), (1, 1, "sent", 2)];
        assert_ne!(digest(&pair), digest(&[pair[1], pair[0]]));
    }

    #[test]
    fn only_the_latest_events_are_kept() {
        let mut history = History::default();
        history.record(Time(1), 0, "before", format_args!("not kept"));
        history.keep_events();
        for index in 0..SIM_EVENT_COUNT_MAX + 2 {
            history.record(Time(2), 0, "after", format_args!("{index}"));
        }
        let events = history.events();
        assert_eq!(events.len(), SIM_EVENT_COUNT_MAX);
        assert_eq!(events[0].detail, "2");
        assert_eq!(events[0].to_string(), "0.000000002 shard 0 after 2");
    }
}

//! Termination detection: a crawl is over when nothing is queued, nothing is in flight, and no
//! message is on its way between shards.
//!
//! The control thread asks all shards in rounds. A message that was sent before a shard answers
//! "idle" may arrive after the answer and bring it work, so one round of "idle" proves nothing. Two
//! rounds prove that the crawl is over, if in both every shard was idle, as many messages were
//! received as were sent, and these totals are the same in both rounds (Mattern's four counters,
//! 1987).

use crate::crawl::flow::ShardIndex;

/// A shard's answer in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulse {
    pub shard: ShardIndex,
    pub round: u64,
    pub is_idle: bool,
    pub sent_count: u64,
    pub received_count: u64,
    /// The number of pages stored so far.
    pub page_count: u64,
}

/// Gathers the answers of a round.
pub struct Rounds {
    shard_count: usize,
    round: u64,
    answers: Vec<Option<Pulse>>,
    /// The messages sent and received, as of the last round, if all shards were idle in it and both
    /// numbers were equal.
    last_idle: Option<(u64, u64)>,
}

/// What the answers so far mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Some answers of the round are missing.
    Waiting,
    /// The round is over, and another one is needed.
    Again,
    /// The crawl is over.
    Quiet,
}

impl Rounds {
    pub fn new(shard_count: usize) -> Rounds {
        Rounds { shard_count, round: 0, answers: vec![None; shard_count], last_idle: None }
    }

    /// Begins a round and returns its number.
    pub fn begin(&mut self) -> u64 {
        self.round += 1;
        self.answers.fill(None);
        self.round
    }

    /// Takes a shard's answer. An answer to an earlier round is ignored.
    pub fn answer(&mut self, pulse: Pulse) -> Verdict {
        if pulse.round != self.round {
            return Verdict::Waiting;
        }
        self.answers[pulse.shard.0 as usize] = Some(pulse);
        if self.answers.iter().flatten().count() < self.shard_count {
            return Verdict::Waiting;
        }
        let all = || self.answers.iter().flatten();
        let sent_count = all().map(|pulse| pulse.sent_count).sum();
        let received_count = all().map(|pulse| pulse.received_count).sum();
        let idle = all().all(|pulse| pulse.is_idle) && sent_count == received_count;
        let totals = idle.then_some((sent_count, received_count));
        let quiet = totals.is_some() && totals == self.last_idle;
        self.last_idle = totals;
        if quiet { Verdict::Quiet } else { Verdict::Again }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pulse(shard: u16, round: u64, is_idle: bool, sent: u64, received: u64) -> Pulse {
        Pulse {
            shard: ShardIndex(shard),
            round,
            is_idle,
            sent_count: sent,
            received_count: received,
            page_count: 0,
        }
    }

    #[test]
    fn two_idle_rounds_with_equal_counts_end_the_crawl() {
        let mut rounds = Rounds::new(2);
        let round = rounds.begin();
        assert_eq!(rounds.answer(pulse(0, round, true, 5, 3)), Verdict::Waiting);
        assert_eq!(rounds.answer(pulse(1, round, true, 3, 5)), Verdict::Again);
        let round = rounds.begin();
        rounds.answer(pulse(0, round, true, 5, 3));
        assert_eq!(rounds.answer(pulse(1, round, true, 3, 5)), Verdict::Quiet);
    }

    #[test]
    fn a_message_on_its_way_is_noticed() {
        let mut rounds = Rounds::new(2);
        for _ in 0..3 {
            let round = rounds.begin();
            rounds.answer(pulse(0, round, true, 6, 3));
            assert_eq!(rounds.answer(pulse(1, round, true, 3, 5)), Verdict::Again);
        }
    }

    #[test]
    fn work_between_two_rounds_is_noticed() {
        let mut rounds = Rounds::new(1);
        let round = rounds.begin();
        assert_eq!(rounds.answer(pulse(0, round, true, 1, 1)), Verdict::Again);
        let round = rounds.begin();
        assert_eq!(rounds.answer(pulse(0, round, true, 2, 2)), Verdict::Again);
        assert_eq!(rounds.answer(pulse(0, round - 1, true, 2, 2)), Verdict::Waiting, "late answer");
    }
}

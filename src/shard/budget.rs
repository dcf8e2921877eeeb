//! The budget desk of the control thread: which shard may fetch how many more pages under
//! `max_pages`. What a shard does with its share is in `slots`.
//!
//! Every page that the crawl may still fetch is in one of four places: at the desk, on its way,
//! with a shard that has not spent it, or with a visit. A visit that stores no page gives it back
//! to its shard. No shard may wait for pages which another shard keeps and cannot use. So the desk
//! calls pages in as soon as it has none left and a shard wants some: from then on, and until it is
//! given some again, a shard sends back what it cannot spend at once. In: the shards' notices. Out:
//! commands for them. The desk does no I/O and is touched by the control thread alone.

use crate::base::limits::BUDGET_PORTION_MAX;
use crate::crawl::flow::{Command, ShardIndex};
use std::collections::VecDeque;

pub struct BudgetDesk {
    /// The number of pages that no shard has been given.
    page_count: u64,
    /// Shards that have no pages left and something to fetch, in the order in which they asked.
    wanting: VecDeque<ShardIndex>,
    /// Whether each shard was told to send back what it cannot spend.
    called_in: Vec<bool>,
}

impl BudgetDesk {
    pub fn new(page_count_max: u64, shard_count: usize) -> BudgetDesk {
        let called_in = vec![false; shard_count];
        BudgetDesk { page_count: page_count_max, wanting: VecDeque::new(), called_in }
    }

    /// Notes that a shard has something to fetch and no pages left.
    pub fn wanted(&mut self, shard: ShardIndex) {
        if !self.wanting.contains(&shard) {
            self.wanting.push_back(shard);
        }
    }

    /// Takes back pages that a shard cannot spend.
    pub fn returned(&mut self, page_count: u64) {
        self.page_count += page_count;
    }

    /// Sends the commands that are due. `send` returns false for a shard whose mailbox is full;
    /// that shard is tried again with the next call.
    pub fn deal(&mut self, mut send: impl FnMut(ShardIndex, Command) -> bool) {
        while let Some(shard) = self.wanting.front().copied().filter(|_| self.page_count > 0) {
            // The portions are small, so that no shard keeps pages that another could fetch.
            let fair = self.page_count / (2 * self.called_in.len() as u64);
            let portion = fair.clamp(1, BUDGET_PORTION_MAX);
            if !send(shard, Command::Budget(portion)) {
                return;
            }
            self.page_count -= portion;
            self.called_in[usize::from(shard.0)] = false;
            self.wanting.pop_front();
        }
        if self.wanting.is_empty() {
            return;
        }
        for (index, called_in) in self.called_in.iter_mut().enumerate() {
            if !*called_in {
                *called_in = send(ShardIndex(index as u16), Command::CallBudgetIn);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ShardIndex = ShardIndex(0);
    const B: ShardIndex = ShardIndex(1);

    /// Returns what the desk sends: each budget as its page count, each call as zero.
    fn dealt(desk: &mut BudgetDesk) -> Vec<(ShardIndex, u64)> {
        let mut dealt = Vec::new();
        desk.deal(|shard, command| {
            dealt.push((shard, if let Command::Budget(count) = command { count } else { 0 }));
            true
        });
        dealt
    }

    #[test]
    fn pages_are_dealt_in_portions_to_whoever_asked_first() {
        let mut desk = BudgetDesk::new(9, 2);
        assert_eq!(dealt(&mut desk), []);
        desk.wanted(B);
        desk.wanted(A);
        desk.wanted(B);
        assert_eq!(dealt(&mut desk), [(B, 2), (A, 1)]);
        desk.wanted(A);
        assert_eq!(dealt(&mut desk), [(A, 1)]);
    }

    #[test]
    fn with_none_left_all_shards_are_told_once_to_send_back_what_they_cannot_spend() {
        let mut desk = BudgetDesk::new(2, 2);
        desk.wanted(A);
        desk.wanted(B);
        assert_eq!(dealt(&mut desk), [(A, 1), (B, 1)]);
        assert_eq!(dealt(&mut desk), [], "nobody wants any");
        desk.wanted(A);
        assert_eq!(dealt(&mut desk), [(A, 0), (B, 0)]);
        assert_eq!(dealt(&mut desk), [], "all shards were already told");
        desk.returned(1);
        assert_eq!(dealt(&mut desk), [(A, 1)]);
        desk.wanted(B);
        assert_eq!(dealt(&mut desk), [(A, 0)], "B was called and was given none since");
    }

    #[test]
    fn a_full_mailbox_costs_nothing_but_time() {
        let mut desk = BudgetDesk::new(1, 2);
        desk.wanted(A);
        desk.deal(|_, _| false);
        assert_eq!(dealt(&mut desk), [(A, 1)]);
        desk.wanted(B);
        desk.deal(|_, _| false);
        assert_eq!(dealt(&mut desk), [(A, 0), (B, 0)]);
    }
}

//! Figures of records that are written and not yet durable. Nothing is counted as stored before it
//! would survive a power cut.

use crate::crawl::metrics::Count;
use crate::crawl::store::Position;
use crate::shard::probe::Probe;
use std::collections::VecDeque;

/// The figures, in the order of the marks at which the store will have synced them. Bounded by what
/// the store lets wait for the disk.
#[derive(Default)]
pub(super) struct Unproven {
    entries: VecDeque<(u64, Count, u64)>,
}

impl Unproven {
    pub(super) fn record_stored(&mut self, position: &Position) {
        let mark = position.mark;
        self.entries.push_back((mark, Count::BytesStored, position.length));
        self.entries.push_back((mark, Count::WarcRecords, 1));
    }

    /// Notes that the record stored last is a page.
    pub(super) fn page_stored(&mut self) {
        let mark = self.entries.back().map_or(0, |(mark, ..)| *mark);
        self.entries.push_back((mark, Count::Pages, 1));
    }

    /// Counts what has become durable.
    pub(super) fn settle(&mut self, synced_through: u64, probe: &Probe) {
        while let Some((mark, count, amount)) = self.entries.front().copied()
            && mark <= synced_through
        {
            probe.add(count, amount);
            self.entries.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_counted_when_its_bytes_are_durable_and_not_before() {
        let (mut unproven, probe) = (Unproven::default(), Probe::new());
        unproven.entries.extend([(100, Count::Pages, 1), (200, Count::Pages, 1)]);
        unproven.settle(99, &probe);
        assert_eq!(probe.count(Count::Pages), 0);
        unproven.settle(100, &probe);
        assert_eq!(probe.count(Count::Pages), 1);
        unproven.settle(1_000, &probe);
        unproven.settle(1_000, &probe);
        assert_eq!(probe.count(Count::Pages), 2);
    }
}

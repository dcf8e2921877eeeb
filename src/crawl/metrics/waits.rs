//! What a core waits for at the moment of its report, so that a crawl that fetches little can say
//! why. The shard has most of these figures at hand. Figures that would need a walk over all hosts
//! are taken from a bounded number of them.

use super::Hold;
use crate::base::Time;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Hosts in line for the turn at an address or a domain.
    pub hosts_in_line: u64,
    /// Hosts that wait for another host's answer about their robots.txt.
    pub hosts_at_errands: u64,
    /// Origins with URLs whose circuit breaker is open. This and the next two figures look only at
    /// the first [`crate::base::limits::WAITS_LOOK_COUNT_MAX`] failing origins.
    pub origins_at_breaker: u64,
    /// Origins with URLs that back off after a failure.
    pub origins_backing_off: u64,
    /// Origins with URLs whose robots.txt does not answer.
    pub origins_without_robots: u64,
    /// Names being looked up.
    pub names_in_lookup: u64,
    /// URLs that failed and wait for their next try.
    pub urls_retrying: u64,
    /// When the delay of the next host is over. Zero if there is no such host; the same holds for
    /// the next two times.
    pub next_turn: Time,
    /// When the next failing origin is asked again.
    pub next_probe: Time,
    /// When the next failed URL is tried again.
    pub next_retry: Time,
    /// Indexed by [`Hold::index`]: the number of cores that start no visits for this reason.
    pub holds: [u64; Hold::COUNT],
}

impl Waits {
    /// Counts one core that starts no visits for this reason.
    pub fn hold(&mut self, hold: Hold) {
        self.holds[hold.index()] += 1;
    }

    /// Adds the figures of another core: sums, and the earlier of two times.
    pub fn merge(&mut self, other: &Waits) {
        self.hosts_in_line += other.hosts_in_line;
        self.hosts_at_errands += other.hosts_at_errands;
        self.origins_at_breaker += other.origins_at_breaker;
        self.origins_backing_off += other.origins_backing_off;
        self.origins_without_robots += other.origins_without_robots;
        self.names_in_lookup += other.names_in_lookup;
        self.urls_retrying += other.urls_retrying;
        self.next_turn = earlier(self.next_turn, other.next_turn);
        self.next_probe = earlier(self.next_probe, other.next_probe);
        self.next_retry = earlier(self.next_retry, other.next_retry);
        self.holds.iter_mut().zip(other.holds).for_each(|(sum, count)| *sum += count);
    }
}

/// Returns the earlier of two times. Zero stands for no time.
pub fn earlier(one: Time, other: Time) -> Time {
    match (one, other) {
        (Time::ZERO, time) | (time, Time::ZERO) => time,
        (one, other) => one.min(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_add_up_and_the_earliest_time_counts() {
        let mut one = Waits { hosts_in_line: 2, next_turn: Time(9), ..Waits::default() };
        one.hold(Hold::Budget);
        let mut other = Waits { hosts_in_line: 3, next_probe: Time(7), ..Waits::default() };
        other.next_turn = Time(4);
        other.hold(Hold::Budget);
        one.merge(&other);
        assert_eq!((one.hosts_in_line, one.holds[Hold::Budget.index()]), (5, 2));
        assert_eq!((one.next_turn, one.next_probe, one.next_retry), (Time(4), Time(7), Time::ZERO));
    }
}

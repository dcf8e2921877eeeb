//! Host eviction: a cursor (the hand) goes round over all host slots, and hosts that are cold leave
//! RAM.
//!
//! A crawl of weeks meets hundreds of millions of hosts, most of which stay idle for ever after a
//! few pages. A host is cold when nothing of it is queued, open or waiting, when its last turn's
//! delay is over, and when that was long enough ago or more hosts are in RAM than may be. Its page
//! count is kept ([`super::cold`]), because a page cap needs the count. Its next-eligible time need
//! not be kept: it has passed. A host whose URLs' shapes are counted stays in RAM, because these
//! counts are its cap by shape.
//!
//! Its id goes to the next host that comes. So whoever holds an id over a wait must have something
//! of that host under way: busy, open or queued. Structures that only list hosts (for spills and
//! evictions) list slots: the bit that says so stays with the slot, and the next host there
//! inherits it.

use super::host::{HostId, HostState};
use super::{Frontier, Sieve};
use crate::base::Time;
use crate::crawl::flow::Class;
use crate::proto::url::HostKey;
use std::time::Duration;

/// How far a call of [`Frontier::sweep`] moves the hand, and which hosts are cold.
#[derive(Clone, Copy, Debug)]
pub struct HostSweep {
    pub slot_count: usize,
    pub now: Time,
    /// A host leaves when its last turn's delay has been over for this long.
    pub idle: Duration,
    /// While more hosts are in RAM, a host leaves as soon as that delay is over.
    pub host_count_max: usize,
}

impl<S: Sieve, X: Default> Frontier<S, X> {
    /// Moves the hand on. Cold hosts leave if `may_leave` allows it, which is asked of cold hosts
    /// only. Returns how many left.
    pub fn sweep(
        &mut self,
        sweep: HostSweep,
        mut may_leave: impl FnMut(&Frontier<S, X>, HostId) -> bool,
    ) -> usize {
        self.now = self.now.max(sweep.now);
        let slot_count = self.hosts.slot_count();
        let mut left_count = 0;
        for _ in 0..sweep.slot_count.min(slot_count) {
            let host = HostId(self.hand);
            self.hand = if self.hand as usize + 1 < slot_count { self.hand + 1 } else { 0 };
            if !self.is_cold(host, &sweep) {
                continue;
            }
            if self.cold.count() >= self.caps.cold_count_max {
                self.figures.uncooled_count += 1;
            } else if may_leave(self, host) {
                self.leave(host);
                left_count += 1;
            }
        }
        self.figures.left_count += left_count as u64;
        left_count
    }

    /// Returns the number of host slots, free ones included. [`Frontier::host_in_slot`] accepts
    /// slots below it.
    pub fn slot_count(&self) -> usize {
        self.hosts.slot_count()
    }

    pub fn host_in_slot(&self, slot: u32) -> Option<HostId> {
        (!self.hosts[HostId(slot)].is_vacant()).then_some(HostId(slot))
    }

    pub fn cold_count(&self) -> usize {
        self.cold.count()
    }

    /// Returns how many pages a cold host has had; zero if the host is not cold.
    pub fn cold_page_count(&self, key: HostKey) -> u32 {
        self.cold.page_count(key)
    }

    /// Returns the cold hosts of one of [`crate::base::limits::COLD_PART_COUNT`] parts, with their
    /// page counts.
    pub fn cold_in_part(&self, part: usize) -> impl Iterator<Item = (HostKey, u32)> {
        self.cold.in_part(part)
    }

    /// Restores a cold host after a restart. Returns false if the host is in RAM or cold already.
    pub fn restore_cold(&mut self, key: HostKey, page_count: u32) -> bool {
        let is_new = self.hosts.by_key(key).is_none() && self.cold.page_count(key) == 0;
        if is_new {
            self.cold.insert(key, page_count);
        }
        is_new
    }

    fn is_cold(&self, host: HostId, sweep: &HostSweep) -> bool {
        let of = &self.hosts[host];
        if of.is_vacant() || of.state != HostState::Idle || of.eligible_at > sweep.now {
            return false;
        }
        let is_crowded = self.hosts.count() > sweep.host_count_max;
        (is_crowded || sweep.now.since(of.eligible_at) >= sweep.idle)
            && !self.open.has(host)
            // A stale copy may still wait for its time when all live URLs have ended.
            && !self.retries.has(host)
            && !self.traps.is_watched(host)
    }

    fn leave(&mut self, host: HostId) {
        assert!(!self.wheel.has(host) && !self.front.has(host), "an idle host has no turn");
        assert!(Class::ALL.into_iter().all(|class| self.tails.behind(host, class).is_none()));
        // Its queues are empty, so no copy that could be stale is left.
        self.stale.lay(host);
        let (key, page_count) = self.hosts.remove(host);
        self.cold.insert(key, page_count);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{candidate, offer};
    use super::super::{Caps, DropReason, MemorySieve, Offered, Queued};
    use super::*;
    use crate::base::WallTime;
    use crate::base::hash_key::test_key;
    use crate::base::limits::SKELETON_WATCH_COUNT_MIN;
    use crate::base::pack::{Pack, Unpack};
    use crate::crawl::frontier::Middle;

    const NOW: Time = Time(60_000_000_000);

    fn id(frontier: &Frontier, name: &str) -> Option<HostId> {
        frontier.host_by_key(HostKey::of(&test_key(), name))
    }

    /// Takes all URLs of the next ready host to their ends.
    fn visit(frontier: &mut Frontier, eligible_at: Time) -> HostId {
        let host = frontier.pop_ready().expect("a ready host");
        while let Some(queued) = frontier.next_url(host).url() {
            frontier.complete(host, queued.url.fingerprint(&test_key()));
        }
        frontier.release(host, eligible_at);
        host
    }

    fn sweep_all(frontier: &mut Frontier, idle: Duration, host_count_max: usize) -> usize {
        let slot_count = frontier.slot_count();
        let sweep = HostSweep { slot_count, now: NOW, idle, host_count_max };
        frontier.sweep(sweep, |_, _| true)
    }

    #[test]
    fn a_host_stays_for_its_delay_and_for_a_while_but_only_for_its_delay_where_it_is_crowded() {
        let mut frontier = Frontier::<MemorySieve>::new(Caps::default(), test_key());
        let second = Duration::from_secs(1);
        for (name, eligible_at) in
            [("long", NOW - 9 * second), ("just", NOW - second), ("not", NOW + second)]
        {
            offer(&mut frontier, &format!("http://{name}.test/"), Class::Normal);
            visit(&mut frontier, eligible_at);
        }
        assert_eq!(sweep_all(&mut frontier, 2 * second, 9), 1);
        assert!(id(&frontier, "long.test").is_none() && id(&frontier, "just.test").is_some());
        assert_eq!(sweep_all(&mut frontier, 2 * second, 2), 0);
        assert_eq!(sweep_all(&mut frontier, 2 * second, 1), 1);
        assert_eq!(sweep_all(&mut frontier, 2 * second, 0), 0, "its delay is not over");
        assert!(id(&frontier, "not.test").is_some());
        assert_eq!((frontier.figures().left_count, frontier.cold_count()), (2, 2));
    }

    #[test]
    fn a_host_at_its_page_cap_stays_cold_and_one_below_it_comes_back_with_what_it_had() {
        let caps = Caps { host_page_count_max: 2, ..Caps::default() };
        let mut frontier = Frontier::<MemorySieve>::new(caps, test_key());
        for url in ["http://full.test/1", "http://full.test/2", "http://half.test/1"] {
            offer(&mut frontier, url, Class::Normal);
        }
        visit(&mut frontier, Time::ZERO);
        visit(&mut frontier, Time::ZERO);
        assert_eq!(sweep_all(&mut frontier, Duration::ZERO, 9), 2);
        let full = Offered::Dropped(DropReason::HostPagesFull);
        assert_eq!(offer(&mut frontier, "http://full.test/3", Class::Normal), full);
        assert_eq!(id(&frontier, "full.test"), None);
        assert_eq!(offer(&mut frontier, "http://half.test/2", Class::Normal), Offered::Queued);
        assert_eq!(offer(&mut frontier, "http://half.test/3", Class::Normal), full);
        assert_eq!((frontier.host_count(), frontier.cold_count()), (1, 1));
        assert_eq!(frontier.figures().returned_count, 1);
    }

    #[test]
    fn whoever_has_something_left_stays() {
        let mut frontier = Frontier::<MemorySieve>::new(Caps::default(), test_key());
        for name in ["queued", "busy", "open", "retried"] {
            offer(&mut frontier, &format!("http://{name}.test/"), Class::Normal);
        }
        offer(&mut frontier, "http://queued.test/2", Class::Low);
        for _ in 0..4 {
            let host = frontier.pop_ready().expect("ready");
            let queued = frontier.next_url(host).url().expect("a URL");
            let name = frontier.host_name(host).to_owned();
            match name.as_str() {
                "queued.test" => frontier.complete(host, queued.url.fingerprint(&test_key())),
                "retried.test" => frontier.retry_at(host, queued, NOW + Duration::from_secs(9)),
                _ => {}
            }
            if name != "busy.test" {
                frontier.release(host, NOW);
            }
        }
        assert_eq!(sweep_all(&mut frontier, Duration::ZERO, 0), 0);
        for page in 0..=u64::from(SKELETON_WATCH_COUNT_MIN) {
            offer(&mut frontier, &format!("http://large.test/{page}"), Class::Urgent);
        }
        let large = visit(&mut frontier, Time::ZERO);
        assert_eq!(frontier.host_name(large), "large.test");
        assert_eq!(sweep_all(&mut frontier, Duration::ZERO, 0), 0, "its shape counts are its cap");
    }

    /// Two copies of a URL wait after a restart; the live one is due first and ends.
    #[test]
    fn a_host_stays_while_a_stale_copy_of_it_waits_for_its_time() {
        let mut frontier = Frontier::<MemorySieve>::new(Caps::default(), test_key());
        let queued: Queued = candidate("http://h.test/", Class::Normal).into();
        let host = frontier.host_again(&queued.url).expect("a host");
        let tried = |tries| Queued { tries, ..queued.clone() };
        frontier.retry_again(host, tried(1), NOW + Duration::from_secs(9));
        frontier.retry_again(host, tried(2), NOW);
        frontier.advance(NOW);
        assert_eq!(visit(&mut frontier, NOW), host);
        assert_eq!(
            sweep_all(&mut frontier, Duration::ZERO, 0),
            0,
            "else the stale copy would be another host's"
        );
        frontier.advance(NOW + Duration::from_secs(9));
        visit(&mut frontier, NOW);
        assert_eq!((sweep_all(&mut frontier, Duration::ZERO, 0), frontier.cold_count()), (1, 1));
        assert_eq!(frontier.figures().stale_count, 1);
    }

    #[test]
    fn where_too_many_have_left_no_more_do_and_that_is_counted() {
        let caps = Caps { cold_count_max: 1, ..Caps::default() };
        let mut frontier = Frontier::<MemorySieve>::new(caps, test_key());
        for name in ["one", "two", "three"] {
            offer(&mut frontier, &format!("http://{name}.test/"), Class::Normal);
            visit(&mut frontier, Time::ZERO);
        }
        assert_eq!(sweep_all(&mut frontier, Duration::ZERO, 0), 1);
        assert_eq!((frontier.host_count(), frontier.cold_count()), (2, 1));
        assert_eq!(frontier.figures().uncooled_count, 2);
    }

    #[test]
    fn the_next_host_in_a_slot_can_be_evicted_from_once_and_its_predecessor_not_at_all() {
        let caps = Caps { queued_count_max: 2, ..Caps::default() };
        let mut frontier = Frontier::<MemorySieve>::new(caps, test_key());
        offer(&mut frontier, "http://old.test/", Class::Low);
        let slot = visit(&mut frontier, Time::ZERO);
        assert_eq!(sweep_all(&mut frontier, Duration::ZERO, 0), 1);
        offer(&mut frontier, "http://empty.test/", Class::Normal);
        assert_eq!(visit(&mut frontier, Time::ZERO), slot);
        offer(&mut frontier, "http://new.test/", Class::Low);
        assert_eq!(sweep_all(&mut frontier, Duration::ZERO, 0), 1, "the free slot stays listed");
        offer(&mut frontier, "http://other.test/", Class::Low);
        for (page, class) in [Class::Urgent, Class::High].into_iter().enumerate() {
            let url = format!("http://better.test/{page}");
            assert_eq!(offer(&mut frontier, &url, class), Offered::Queued);
        }
        let refused = Offered::Dropped(DropReason::QueueFull);
        assert_eq!(offer(&mut frontier, "http://better.test/9", Class::Low), refused);
        assert_eq!(frontier.figures().dropped_count[DropReason::Evicted as usize], 2);
    }

    #[test]
    fn a_host_that_came_back_while_a_checkpoint_was_taken_is_restored_once() {
        let mut frontier = Frontier::<MemorySieve>::new(Caps::default(), test_key());
        offer(&mut frontier, "http://h.test/1", Class::Normal);
        let host = visit(&mut frontier, Time::ZERO);
        let mut image = Vec::new();
        frontier.pack_host(host, &mut Pack(&mut image), |time| WallTime(time.0));
        let mut again = Frontier::<MemorySieve>::new(Caps::default(), test_key());
        let key = HostKey::of(&test_key(), "h.test");
        assert!(again.restore_cold(key, 7) && !again.restore_cold(key, 7));
        let time_of = |wall: WallTime| Time(wall.0);
        let back = again.unpack_host(&mut Unpack(&image), &Middle::Chunks, time_of);
        let back = back.expect("an image");
        assert_eq!((again.host_fetched_count(back), again.cold_count()), (7, 0));
        assert!(!again.restore_cold(key, 7), "it is in RAM");
        let readmitted = again.readmit(&candidate("http://h.test/2", Class::Low).into());
        assert_eq!(readmitted, Some(back));
    }

    #[test]
    fn after_a_restart_hosts_come_back_past_the_cap_that_their_successors_fill() {
        let caps = Caps { host_count_max: 1, ..Caps::default() };
        let mut frontier = Frontier::<MemorySieve>::new(caps, test_key());
        frontier.restore_cold(HostKey::of(&test_key(), "cold.test"), 3);
        offer(&mut frontier, "http://h.test/", Class::Normal);
        let full = Offered::Dropped(DropReason::HostsFull);
        assert_eq!(offer(&mut frontier, "http://cold.test/", Class::Normal), full);
        let back = frontier.readmit(&candidate("http://cold.test/", Class::Normal).into());
        assert_eq!(back.map(|host| frontier.host_fetched_count(host)), Some(3));
    }
}

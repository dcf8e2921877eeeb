//! Entries of the journal, applied to what a checkpoint gave: to the hosts that had not seen them.

use super::Restored;
use super::source::Source;
use crate::crawl::flow::Queued;
use crate::crawl::frontier::{HostId, Origin};
use crate::crawl::journal::Entry;
use crate::io::{Clock, Disk};
use crate::proto::url::{HostKey, Url};
use crate::shard::image::Clocks;

/// Entries of the journal, applied to what a checkpoint gave.
pub(in crate::shard) struct Applied<'r, W: Disk> {
    pub restored: &'r mut Restored<W>,
    pub source: Source<'r>,
    pub clocks: Clocks,
}

impl<W: Disk + Clock> Applied<'_, W> {
    pub fn apply(&mut self, lsn: u64, entry: Entry) -> Result<(), &'static str> {
        match entry {
            Entry::Admitted(queued) => self.admit(lsn, &queued),
            Entry::Ended { host, fingerprint, outcome, is_page } => {
                self.restored.count_ended(lsn, self.source, outcome, is_page);
                if let Some(host) = self.unaware(lsn, host) {
                    self.restored.frontier.end_again(host, fingerprint);
                }
            }
            Entry::Dead { queued, outcome, at } => {
                self.restored.count_ended(lsn, self.source, outcome, false);
                if let Some(host) = self.unaware(lsn, queued.url.host_key(self.source.hash_key)) {
                    self.restored
                        .frontier
                        .end_again(host, queued.url.fingerprint(self.source.hash_key));
                }
                if self.source.is_ours(queued.url.host_key(self.source.hash_key)) {
                    self.restored.dead.push((queued, outcome, at));
                }
            }
            Entry::Retried { queued, at } => {
                if let Some(host) = self.unaware(lsn, queued.url.host_key(self.source.hash_key)) {
                    let at = self.clocks.time_of(at);
                    self.restored.frontier.retry_again(host, queued, at);
                }
            }
            Entry::Waiting { host, until } => {
                if let Some(host) = self.unaware(lsn, host) {
                    let until = self.clocks.time_of(until);
                    self.restored.frontier.postpone(host, until);
                }
            }
            Entry::Robots { origin, image } => self.learn(lsn, &origin, |this, _, _| {
                let clocks = this.clocks;
                let robots = &mut this.restored.robots;
                robots.unpack(&origin, &image, |wall| clocks.past_time_of(wall))
            })?,
            Entry::Health { origin, image } => self.learn(lsn, &origin, |this, host, of| {
                let clocks = this.clocks;
                this.restored.health.unpack(host, of, &image, |wall| clocks.time_of(wall))
            })?,
            Entry::Revived(queued) => {
                self.restored.count_revived(lsn, self.source);
                self.revive(lsn, &queued);
            }
            Entry::Met { origin } => self.meet(&origin)?,
            Entry::RunBegan => self.restored.count_run(lsn, self.source),
            Entry::Begun { .. }
            | Entry::Run { .. }
            | Entry::Segment { .. }
            | Entry::Cold { .. }
            | Entry::Host { .. }
            | Entry::Totals { .. }
            | Entry::Finished { .. } => return Err("an entry of a checkpoint"),
        }
        Ok(())
    }

    fn admit(&mut self, lsn: u64, queued: &Queued) {
        if !self.source.is_ours(queued.url.host_key(self.source.hash_key)) {
            return;
        }
        let frontier = &mut self.restored.frontier;
        let host = frontier.host_by_key(queued.url.host_key(self.source.hash_key));
        if host.is_some_and(|host| self.restored.has_seen(host, lsn)) {
            use crate::crawl::frontier::Sieve as _;
            self.restored.frontier.sieve_mut().admit(queued.url.fingerprint(self.source.hash_key));
        } else {
            self.restored.frontier.readmit(queued);
        }
    }

    fn revive(&mut self, lsn: u64, queued: &Queued) {
        let host = self.restored.frontier.host_by_key(queued.url.host_key(self.source.hash_key));
        let has_seen = host.is_some_and(|host| self.restored.has_seen(host, lsn));
        if self.source.is_ours(queued.url.host_key(self.source.hash_key)) && !has_seen {
            self.restored.frontier.revive(queued);
        }
    }

    fn meet(&mut self, origin: &str) -> Result<(), &'static str> {
        let url = Url::parse(origin).map_err(|_| "an origin makes no sense")?;
        if self.source.is_ours(url.host_key(self.source.hash_key)) {
            self.restored.frontier.host_again(&url);
        }
        Ok(())
    }

    /// The host, if it is there and its image does not have this entry.
    fn unaware(&self, lsn: u64, host: HostKey) -> Option<HostId> {
        let host = self.restored.frontier.host_by_key(host)?;
        (!self.restored.has_seen(host, lsn)).then_some(host)
    }

    fn learn(
        &mut self,
        lsn: u64,
        origin: &str,
        take: impl FnOnce(&mut Self, HostId, Origin) -> Option<()>,
    ) -> Result<(), &'static str> {
        let url = Url::parse(origin).map_err(|_| "an origin makes no sense")?;
        match self.unaware(lsn, url.host_key(self.source.hash_key)) {
            Some(host) => take(self, host, Origin::of(&url)).ok_or("what is known makes no sense"),
            None => Ok(()),
        }
    }
}

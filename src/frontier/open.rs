//! URLs that were handed out and have not come to their end: in flight, waiting for another try, or
//! fetched and not yet durable. What a checkpoint must put back into the queues.
//!
//! Owns a copy of each. In: URLs as they leave the queues. Out: those of one host. Bounded by the
//! fetch slots, the retries and the pages that await their sync.

use super::Queued;
use super::host::HostId;
use crate::base::Time;
use crate::flow::Via;
use crate::url::Fingerprint;
use hashbrown::HashMap;
use std::collections::VecDeque;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenUrl {
    fingerprint: Fingerprint,
    pub queued: Queued,
    /// Waits for another try by itself.
    pub waits_until: Option<Time>,
}

#[derive(Default)]
pub struct OpenUrls {
    /// URLs end mostly in the order in which they were handed out: the first is found at once, and
    /// nothing behind it moves.
    by_host: HashMap<HostId, VecDeque<OpenUrl>>,
    count: usize,
}

impl OpenUrls {
    /// Takes note of a URL that leaves its queue. A robots.txt is asked for anew after a restart.
    pub fn hand_out(&mut self, host: HostId, queued: &Queued, waits_until: Option<Time>) {
        if queued.via == Via::Robots {
            return;
        }
        let fingerprint = queued.url.fingerprint();
        self.close(host, fingerprint);
        let open = OpenUrl { fingerprint, queued: queued.clone(), waits_until };
        self.by_host.entry(host).or_default().push_back(open);
        self.count += 1;
    }

    /// It is back in its queue, or at its end. False if it was not open.
    pub fn close(&mut self, host: HostId, fingerprint: Fingerprint) -> bool {
        let Some(open) = self.by_host.get_mut(&host) else { return false };
        let Some(index) = open.iter().position(|open| open.fingerprint == fingerprint) else {
            return false;
        };
        open.remove(index);
        if open.is_empty() {
            self.by_host.remove(&host);
        }
        self.count -= 1;
        true
    }

    /// In the order in which they were handed out.
    pub fn of(&self, host: HostId) -> impl ExactSizeIterator<Item = &OpenUrl> {
        self.by_host.get(&host).map(VecDeque::iter).unwrap_or_default()
    }

    pub fn has(&self, host: HostId) -> bool {
        self.by_host.contains_key(&host)
    }

    pub fn count(&self) -> usize {
        self.count
    }
}

//! When a URL has come to its end: when its WARC record is durable, and every link it brought is
//! durable too, with this shard or with the peer that owns it.
//!
//! Owns the ends that are not yet told to the journal. In: URLs that were fetched, stored and whose
//! links were routed. Out: `Ended` entries. Until then a URL is open: after a crash it is asked for
//! again, and its links are found again.
//!
//! Each end waits for four things, all of which only rise: the store's synced bytes, the batches of
//! URL seen that were judged, the journal's durable entries, and the links that each peer has
//! acknowledged. They are noted in order, so the first in line is always the first to be done.
//!
//! A peer acknowledges links when its own journal has them (or URL seen knows them): one message
//! for many, by their count. Belongs to one core.

use super::Shard;
use crate::base::limits::COMPLETION_COUNT_MAX;
use crate::base::notify::Notify;
use crate::base::watermark::Watermark;
use crate::crawl::flow::{Message, Outcome, Queued, ShardIndex};
use crate::crawl::frontier::HostId;
use crate::crawl::journal;
use crate::crawl::metrics::{Count, is_failure};
use crate::crawl::store::Position;
use crate::io::World;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

pub(super) struct Promises {
    ends: RefCell<VecDeque<End>>,
    end_added: Notify,
    /// Batches of URL seen that are judged, their new URLs queued.
    judged: Watermark,
    peers: Vec<Peer>,
    owed: RefCell<VecDeque<Owed>>,
    owed_added: Notify,
}

/// Links between this shard and one other, counted.
#[derive(Default)]
struct Peer {
    sent_count: Cell<u64>,
    /// Of those sent: durable with the peer.
    kept: Watermark,
    received_count: Cell<u64>,
}

/// What was stored of a URL.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored {
    pub position: Position,
    /// It is a page, and no list of pages, redirect or error.
    pub is_page: bool,
}

/// A URL at its end.
struct End {
    host: HostId,
    queued: Queued,
    outcome: Outcome,
    record: Option<Stored>,
    needs: Needs,
    /// Links sent to each peer by then.
    sent_counts: Box<[u64]>,
}

/// What must be durable here.
#[derive(Clone, Copy)]
struct Needs {
    lsn: u64,
    batch: u64,
}

/// Links of a peer that it waits to hear of.
struct Owed {
    to: ShardIndex,
    through_count: u64,
    needs: Needs,
}

impl Promises {
    pub(super) fn new(shard_count: u16) -> Promises {
        Promises {
            ends: RefCell::default(),
            end_added: Notify::default(),
            judged: Watermark::default(),
            peers: (0..shard_count).map(|_| Peer::default()).collect(),
            owed: RefCell::default(),
            owed_added: Notify::default(),
        }
    }

    /// Nobody waits for anything.
    pub(super) fn are_kept(&self) -> bool {
        self.ends.borrow().is_empty() && self.owed.borrow().is_empty()
    }

    /// So many ends wait that no more fetches should start.
    pub(super) fn are_backed_up(&self) -> bool {
        self.ends.borrow().len() >= COMPLETION_COUNT_MAX
    }

    pub(super) fn judged(&self, mark: u64) {
        self.judged.rise(mark);
    }

    pub(super) fn link_sent(&self, to: ShardIndex) {
        let sent = &self.peers[usize::from(to.0)].sent_count;
        sent.set(sent.get() + 1);
    }

    pub(super) fn links_kept(&self, by: ShardIndex, through_count: u64) {
        self.peers[usize::from(by.0)].kept.rise(through_count);
    }
}

impl<W: World> Shard<W> {
    /// A URL has come to its end; its record and its links are on their way to the disk.
    pub(super) fn end(
        &self,
        host: HostId,
        queued: Queued,
        outcome: Outcome,
        record: Option<Stored>,
    ) {
        if self.journal.is_none() {
            let fingerprint = queued.url.fingerprint(&self.kit.plan.hash_key);
            return self.frontier.borrow_mut().complete(host, fingerprint);
        }
        let sent_counts = self.promises.peers.iter().map(|peer| peer.sent_count.get()).collect();
        let end = End { host, queued, outcome, record, needs: self.needs(), sent_counts };
        self.promises.ends.borrow_mut().push_back(end);
        self.promises.end_added.poke();
    }

    /// Links of a peer were taken from the mail and offered.
    pub(super) fn owe(&self, to: ShardIndex, link_count: u64) {
        if link_count == 0 || self.journal.is_none() {
            return;
        }
        let received = &self.promises.peers[usize::from(to.0)].received_count;
        received.set(received.get() + link_count);
        let owed = Owed { to, through_count: received.get(), needs: self.needs() };
        self.promises.owed.borrow_mut().push_back(owed);
        self.promises.owed_added.poke();
    }

    fn needs(&self) -> Needs {
        let lsn = self.journal.as_ref().map_or(0, |journal| journal.lsn());
        Needs { lsn, batch: self.frontier.borrow().sieve().deferred_mark() }
    }

    /// Tells the journal of ends, one by one.
    pub(super) async fn keep_ends(self: Rc<Self>) {
        let Some(journal) = &self.journal else { return };
        let promises = &self.promises;
        loop {
            let first = promises.ends.borrow().front().map(|end| (end.record, end.needs));
            let Some((record, needs)) = first else {
                promises.end_added.wait().await;
                continue;
            };
            if let Some(record) = record {
                self.store.durable(&record.position).await;
            }
            self.settle_needs(needs).await;
            for (index, peer) in promises.peers.iter().enumerate() {
                let sent_count = promises.ends.borrow().front().map(|end| end.sent_counts[index]);
                peer.kept.reached(sent_count.unwrap_or(0)).await;
            }
            let Some(end) = promises.ends.borrow_mut().pop_front() else { continue };
            self.kit.probe.add(Count::UrlsEnded, 1);
            let fingerprint = end.queued.url.fingerprint(&self.kit.plan.hash_key);
            let is_page = end.record.is_some_and(|record| record.is_page);
            // In the same breath as the entry: a checkpoint has both or neither.
            self.totals.borrow_mut().ended(end.outcome, is_page);
            journal.append(|out| {
                if is_failure(end.outcome) {
                    journal::push_dead(out, &end.queued, end.outcome, self.kit.world.wall());
                } else {
                    let host = end.queued.url.host_key(&self.kit.plan.hash_key);
                    journal::push_ended(out, host, fingerprint, end.outcome, is_page);
                }
            });
            self.frontier.borrow_mut().complete(end.host, fingerprint);
            if promises.ends.borrow().is_empty() {
                self.kit.wake.poke();
            }
        }
    }

    /// Acknowledges the links of peers, as they become durable.
    pub(super) async fn keep_owed(self: Rc<Self>) {
        if self.journal.is_none() {
            return;
        }
        let promises = &self.promises;
        loop {
            let first = promises.owed.borrow().front().map(|owed| owed.needs);
            let Some(needs) = first else {
                promises.owed_added.wait().await;
                continue;
            };
            self.settle_needs(needs).await;
            let mut kept_counts = vec![0; promises.peers.len()];
            let next = || {
                let mut owed = promises.owed.borrow_mut();
                if owed.front().is_some_and(|owed| self.is_settled(owed.needs)) {
                    return owed.pop_front();
                }
                None
            };
            while let Some(owed) = next() {
                kept_counts[usize::from(owed.to.0)] = owed.through_count;
            }
            for (index, through_count) in kept_counts.into_iter().enumerate() {
                if through_count > 0 {
                    let kept = Message::LinksKept { by: self.kit.index, through_count };
                    self.mesh.borrow_mut().post(ShardIndex(index as u16), kept);
                }
            }
            self.kit.wake.poke();
        }
    }

    fn is_settled(&self, needs: Needs) -> bool {
        self.promises.judged.level() >= needs.batch
            && self.journal.as_ref().is_none_or(|journal| journal.durable_lsn() >= needs.lsn)
    }

    /// What was deferred is judged, and what that brought is durable.
    async fn settle_needs(&self, needs: Needs) {
        let Some(journal) = &self.journal else { return };
        let mut lsn = needs.lsn;
        if self.promises.judged.level() < needs.batch {
            self.promises.judged.reached(needs.batch).await;
            lsn = journal.lsn();
        }
        journal.durable(lsn).await;
    }
}

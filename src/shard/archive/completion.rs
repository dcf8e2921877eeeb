//! Completion: when the end of a URL is durable. Its WARC record must be durable, and so must every
//! link that it brought, with this shard or with the peer that owns it.
//!
//! Owns the ends that are not yet in the journal. In: URLs that were fetched and stored and whose
//! links were routed. Out: `Ended` entries. Until its entry is written, a URL is open: after a
//! crash it is requested again, and its links are found again.
//!
//! Each end waits for four things, all of which only rise: the store's synced bytes, the batches of
//! URL seen that were judged, the journal's durable entries, and the links that each peer has
//! acknowledged. Ends are queued in order, so the first in the queue is always the first to be
//! done.
//!
//! A peer acknowledges links when its own journal has them (or URL seen knows them). One message
//! acknowledges many links, by their count. Touched by one core.

use super::Archive;
use crate::base::limits::COMPLETION_COUNT_MAX;
use crate::base::notify::Notify;
use crate::base::watermark::Watermark;
use crate::crawl::flow::{Outcome, Queued, ShardIndex};
use crate::crawl::frontier::HostId;
use crate::crawl::journal;
use crate::crawl::metrics::{Count, is_failure};
use crate::crawl::store::Position;
use crate::io::World;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

pub(super) struct Completion {
    ends: RefCell<VecDeque<Waiting>>,
    end_added: Notify,
    /// The batches of URL seen that are judged and whose new URLs are queued.
    judged: Watermark,
    peers: Vec<Peer>,
    owed: RefCell<VecDeque<OwedLinks>>,
    owed_added: Notify,
}

/// The counts of links between this shard and one other.
#[derive(Default)]
struct Peer {
    sent_count: Cell<u64>,
    /// How many of the links that were sent are durable with the peer.
    kept: Watermark,
    received_count: Cell<u64>,
}

/// What was stored for a URL.
#[derive(Clone, Copy, Debug)]
pub(in crate::shard) struct Stored {
    pub position: Position,
    /// Whether the record is a page, and no sitemap, redirect or error.
    pub is_page: bool,
}

/// A URL that has ended.
#[derive(Debug)]
pub(in crate::shard) struct End {
    pub host: HostId,
    pub queued: Queued,
    pub outcome: Outcome,
    pub record: Option<Stored>,
}

/// An end that is not yet durable, and what it waits for.
struct Waiting {
    end: End,
    needs: Needs,
    /// The number of links sent to each peer when the URL ended.
    sent_counts: Box<[u64]>,
}

/// What must be durable in this shard.
#[derive(Clone, Copy)]
struct Needs {
    lsn: u64,
    /// The last batch of URL seen in which a link of the page may wait.
    batch: u64,
}

/// Links of a peer that still have to be acknowledged to it.
struct OwedLinks {
    to: ShardIndex,
    through_count: u64,
    needs: Needs,
}

impl Completion {
    pub(super) fn new(shard_count: u16) -> Completion {
        Completion {
            ends: RefCell::default(),
            end_added: Notify::default(),
            judged: Watermark::default(),
            peers: (0..shard_count).map(|_| Peer::default()).collect(),
            owed: RefCell::default(),
            owed_added: Notify::default(),
        }
    }

    fn is_done(&self) -> bool {
        self.ends.borrow().is_empty() && self.owed.borrow().is_empty()
    }

    pub(super) fn is_backed_up(&self) -> bool {
        self.ends.borrow().len() >= COMPLETION_COUNT_MAX
    }
}

impl<W: World> Archive<W> {
    /// Takes a URL that has ended, while its record and its links are on their way to the disk.
    /// `batch` is the last batch of URL seen in which one of its links may wait. Without a journal
    /// nothing is waited for, and the end is returned as complete.
    pub(in crate::shard) fn end(&self, end: End, batch: u64) -> Option<End> {
        let Some(journal) = &self.journal else { return Some(end) };
        let own = &self.completion;
        let needs = Needs { lsn: journal.lsn(), batch };
        let sent_counts = own.peers.iter().map(|peer| peer.sent_count.get()).collect();
        own.ends.borrow_mut().push_back(Waiting { end, needs, sent_counts });
        own.end_added.poke();
        None
    }

    /// Notes that links of a peer were taken, so that they are acknowledged once they are durable.
    pub(in crate::shard) fn owe(&self, to: ShardIndex, link_count: u64, batch: u64) {
        let Some(journal) = self.journal.as_ref().filter(|_| link_count > 0) else { return };
        let own = &self.completion;
        let received = &own.peers[usize::from(to.0)].received_count;
        received.set(received.get() + link_count);
        let needs = Needs { lsn: journal.lsn(), batch };
        own.owed.borrow_mut().push_back(OwedLinks { to, through_count: received.get(), needs });
        own.owed_added.poke();
    }

    /// Notes that the batches of URL seen up to this one are judged.
    pub(in crate::shard) fn judged(&self, batch: u64) {
        self.completion.judged.rise(batch);
    }

    pub(in crate::shard) fn link_sent(&self, to: ShardIndex) {
        let sent = &self.completion.peers[usize::from(to.0)].sent_count;
        sent.set(sent.get() + 1);
    }

    /// Notes that a peer has made durable the first `through_count` links that were sent to it.
    pub(in crate::shard) fn links_kept(&self, by: ShardIndex, through_count: u64) {
        let peer = &self.completion.peers[usize::from(by.0)];
        assert!(through_count <= peer.sent_count.get(), "a peer has kept more than it was sent");
        peer.kept.rise(through_count);
    }

    /// Reports whether every end is in the journal, and all links of peers are acknowledged.
    pub(in crate::shard) fn is_settled(&self) -> bool {
        self.completion.is_done()
    }

    pub(in crate::shard) fn has_no_ends(&self) -> bool {
        self.completion.ends.borrow().is_empty()
    }

    /// Waits for the next URL whose end is durable, and writes its end to the journal. May be
    /// called only if there is a journal.
    pub(in crate::shard) async fn next_completed(&self) -> End {
        let own = &self.completion;
        loop {
            let first = own.ends.borrow().front().map(|first| (first.end.record, first.needs));
            let Some((record, needs)) = first else {
                own.end_added.wait().await;
                continue;
            };
            if let Some(record) = record {
                self.store.durable(&record.position).await;
            }
            self.settle_needs(needs).await;
            for (index, peer) in own.peers.iter().enumerate() {
                let sent_count = own.ends.borrow().front().map(|first| first.sent_counts[index]);
                peer.kept.reached(sent_count.unwrap_or(0)).await;
            }
            let Some(Waiting { end, .. }) = own.ends.borrow_mut().pop_front() else { continue };
            self.note_end(&end);
            return end;
        }
    }

    fn note_end(&self, end: &End) {
        self.kit.probe.add(Count::UrlsEnded, 1);
        let is_page = end.record.is_some_and(|record| record.is_page);
        // The totals change together with the entry, without a wait in between, so that a
        // checkpoint has both or neither.
        self.totals.borrow_mut().ended(end.outcome, is_page);
        self.entry(|out| {
            if is_failure(end.outcome) {
                journal::push_dead(out, &end.queued, end.outcome, self.kit.world.wall());
            } else {
                let hash_key = &self.kit.plan.hash_key;
                let (host, fingerprint) =
                    (end.queued.url.host_key(hash_key), end.queued.url.fingerprint(hash_key));
                journal::push_ended(out, host, fingerprint, end.outcome, is_page);
            }
        });
    }

    /// Waits until links of peers have become durable. Returns how many of each peer's links are.
    pub(in crate::shard) async fn next_owed(&self) -> Vec<(ShardIndex, u64)> {
        let own = &self.completion;
        loop {
            let first = own.owed.borrow().front().map(|owed| owed.needs);
            let Some(needs) = first else {
                own.owed_added.wait().await;
                continue;
            };
            self.settle_needs(needs).await;
            let mut kept_counts = vec![0; own.peers.len()];
            let next = || {
                let mut owed = own.owed.borrow_mut();
                if owed.front().is_some_and(|owed| self.are_met(owed.needs)) {
                    return owed.pop_front();
                }
                None
            };
            while let Some(owed) = next() {
                kept_counts[usize::from(owed.to.0)] = owed.through_count;
            }
            let kept = kept_counts.into_iter().enumerate().filter(|(_, count)| *count > 0);
            return kept.map(|(index, count)| (ShardIndex(index as u16), count)).collect();
        }
    }

    fn are_met(&self, needs: Needs) -> bool {
        self.completion.judged.level() >= needs.batch
            && self.journal.as_ref().is_none_or(|journal| journal.durable_lsn() >= needs.lsn)
    }

    /// Waits until the deferred links are judged, and the journal entries of their new URLs are
    /// durable.
    async fn settle_needs(&self, needs: Needs) {
        let Some(journal) = &self.journal else { return };
        let mut lsn = needs.lsn;
        if self.completion.judged.level() < needs.batch {
            self.completion.judged.reached(needs.batch).await;
            lsn = journal.lsn();
        }
        journal.durable(lsn).await;
    }
}

//! The shard's side of the mesh: messages to other shards, gathered into batches.
//!
//! Posting never waits and never fails. A batch that a full mailbox gives back stays here. When too
//! much is waiting, the shard starts no new fetches until the peer has caught up, which bounds what
//! waits. Touched by one core.

use crate::base::limits;
use crate::crawl::flow::{Candidate, Mail, Message, Parcel, ShardIndex};
use crate::io::Outbox;
use crate::proto::url::UrlId;

pub struct Mesh {
    index: ShardIndex,
    peers: Vec<Option<Peer>>,
    /// The numbers of messages handed over to mailboxes and of messages taken from our own. The
    /// control thread compares them to know that no message is on its way.
    sent_count: u64,
    received_count: u64,
}

struct Peer {
    outbox: Box<dyn Outbox<Mail>>,
    pending: Vec<Message>,
    /// The number of pending messages; each link counts as one.
    pending_count: usize,
    /// The batch that found the mailbox full.
    stuck: Option<Vec<Message>>,
}

impl Mesh {
    /// Returns the mesh of shard `index`. `outboxes[i]` leads to shard i; the shard's own is
    /// `None`.
    pub fn new(index: ShardIndex, outboxes: Vec<Option<impl Outbox<Mail>>>) -> Mesh {
        let mut peers = Vec::new();
        for outbox in outboxes {
            peers.push(outbox.map(|outbox| Peer {
                outbox: Box::new(outbox),
                pending: Vec::new(),
                pending_count: 0,
                stuck: None,
            }));
        }
        Mesh { index, peers, sent_count: 0, received_count: 0 }
    }

    pub fn post(&mut self, to: ShardIndex, message: Message) {
        let peer = self.peer(to);
        peer.pending.push(message);
        peer.pending_count += 1;
    }

    /// Posts a link. Links posted one after the other travel in one parcel, until it is full.
    pub fn post_link(&mut self, to: ShardIndex, id: UrlId, candidate: &Candidate<&str>) {
        let peer = self.peer(to);
        peer.pending_count += 1;
        if let Some(Message::Links(parcel)) = peer.pending.last_mut()
            && !parcel.is_full()
        {
            parcel.push(id, candidate);
        } else {
            let mut parcel = Box::<Parcel>::default();
            parcel.push(id, candidate);
            peer.pending.push(Message::Links(parcel));
        }
    }

    fn peer(&mut self, to: ShardIndex) -> &mut Peer {
        let peer = self.peers.get_mut(to.0 as usize).and_then(Option::as_mut);
        peer.expect("a shard posts to its peers only")
    }

    /// Hands pending messages over, as far as the mailboxes have room. Returns true if nothing is
    /// left.
    pub fn flush(&mut self) -> bool {
        let mut clear = true;
        for peer in self.peers.iter_mut().flatten() {
            loop {
                let batch = match peer.stuck.take() {
                    Some(batch) => batch,
                    None if peer.pending.is_empty() => break,
                    None => {
                        peer.pending_count = 0;
                        std::mem::take(&mut peer.pending)
                    }
                };
                let count = batch.len() as u64;
                match peer.outbox.try_send(Mail::Batch { from: self.index, messages: batch }) {
                    Ok(()) => self.sent_count += count,
                    Err(Mail::Batch { messages, .. }) => {
                        peer.stuck = Some(messages);
                        clear = false;
                        break;
                    }
                    Err(Mail::Command(_)) => break,
                }
            }
        }
        clear
    }

    pub fn received(&mut self, count: usize) {
        self.received_count += count as u64;
    }

    /// Reports whether so many messages wait for a peer that no new fetch may start.
    pub fn is_backed_up(&self) -> bool {
        self.peers
            .iter()
            .flatten()
            .any(|peer| peer.stuck.is_some() && peer.pending_count > limits::MESH_PENDING_COUNT_MAX)
    }

    pub fn is_clear(&self) -> bool {
        self.peers.iter().flatten().all(|peer| peer.stuck.is_none() && peer.pending.is_empty())
    }

    pub fn counts(&self) -> (u64, u64) {
        (self.sent_count, self.received_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::hash_key::test_key;
    use crate::crawl::flow::{Class, Trail, Via};
    use crate::io::Inbox;
    use crate::io::sim::Sim;
    use crate::proto::url::Url;

    fn message() -> Message {
        Message::NearAnswered { ticket: crate::crawl::flow::Ticket(1), near: None }
    }

    #[test]
    fn a_full_mailbox_loses_nothing_and_keeps_the_order_of_batches() {
        let sim = Sim::new(1);
        let (outbox, inbox) = sim.mailbox::<Mail>(1);
        let mut mesh: Mesh = Mesh::new(ShardIndex(0), vec![None, Some(outbox)]);
        for _ in 0..3 {
            mesh.post(ShardIndex(1), message());
            mesh.flush();
        }
        assert!(!mesh.is_clear());
        let mut got = 0;
        while let Some(Mail::Batch { messages, .. }) = inbox.try_receive() {
            got += messages.len();
            mesh.flush();
        }
        assert_eq!((got, mesh.counts().0, mesh.is_clear()), (3, 3, true));
    }

    #[test]
    fn links_travel_in_parcels_among_other_messages_and_each_counts() {
        let sim = Sim::new(1);
        let (outbox, inbox) = sim.mailbox::<Mail>(1);
        let mut mesh: Mesh = Mesh::new(ShardIndex(0), vec![None, Some(outbox)]);
        let url = |number: usize| Url::parse(&format!("http://h.test/{number}")).expect("a URL");
        let mut post_links = |numbers: std::ops::Range<usize>| {
            for number in numbers {
                let (class, via, trail) = (Class::Normal, Via::Link, Trail::default());
                let found = Candidate { url: url(number), depth: 1, class, via, trail };
                mesh.post_link(ShardIndex(1), found.url.id(&test_key()), &found.lent());
            }
            mesh.post(ShardIndex(1), message());
            mesh.flush();
            mesh.is_backed_up()
        };
        // The first batch fills the mailbox, the second is stuck, the others wait behind it.
        assert!(!post_links(0..3) && !post_links(3..9));
        assert!(!post_links(9..limits::MESH_PENDING_COUNT_MAX), "as many as may wait");
        let last = limits::MESH_PENDING_COUNT_MAX + 9;
        assert!(post_links(limits::MESH_PENDING_COUNT_MAX..last), "each link counts");
        let mut got = 0;
        while let Some(Mail::Batch { messages, .. }) = inbox.try_receive() {
            assert!(matches!(messages[..], [Message::Links(_), Message::NearAnswered { .. }, ..]));
            for message in &messages {
                let Message::Links(parcel) = message else { continue };
                assert_eq!(message.link_count(), parcel.count());
                for index in 0..parcel.count() {
                    assert_eq!(parcel.candidate(index).url, url(got).lent());
                    got += 1;
                }
            }
            mesh.flush();
        }
        assert_eq!((got, mesh.is_clear()), (last, true));
    }

    #[test]
    fn a_full_parcel_is_followed_by_another() {
        let sim = Sim::new(1);
        let (outbox, inbox) = sim.mailbox::<Mail>(1);
        let mut mesh: Mesh = Mesh::new(ShardIndex(0), vec![None, Some(outbox)]);
        let text = format!("http://h.test/{}", "x".repeat(4_000));
        let (class, via, trail) = (Class::Normal, Via::Link, Trail::default());
        let url = Url::parse(&text).expect("a URL");
        let found = Candidate { url, depth: 1, class, via, trail };
        let count = 3 * limits::PARCEL_BYTES_MAX / text.len();
        for _ in 0..count {
            mesh.post_link(ShardIndex(1), found.url.id(&test_key()), &found.lent());
        }
        mesh.flush();
        let Some(Mail::Batch { messages, .. }) = inbox.try_receive() else { panic!("a batch") };
        assert_eq!(messages.iter().map(Message::link_count).sum::<usize>(), count);
        let most = limits::PARCEL_BYTES_MAX / text.len() + 1;
        assert!(messages.len() >= 3 && messages.iter().all(|links| links.link_count() <= most));
    }
}

//! Which pages are the same: who stored a body first, and which page is nearly like another.
//!
//! Owns this shard's part of the crawl's payload digests and of the near-duplicate table, and the
//! open questions to other shards. In: digests and SimHashes of this shard's pages, and the
//! questions and answers of other shards. Out: answers, at once or through a [`Receiver`], and
//! letters. Invariant: a ticket is answered once, and a question whose asker has gone leaves
//! nothing behind. Touched by one core.
//!
//! Digests and SimHashes are distributed over the shards by their own values, so that one body has
//! one original on any number of shards.

mod digest_desk;

use super::kit::Kit;
use super::out::Out;
use super::placement::Placement;
use crate::base::oneshot::{self, Receiver};
use crate::crawl::dedup::{self, Digests, NearTable};
use crate::crawl::flow::{Message, Original, ShardIndex, Ticket};
use crate::crawl::metrics::Stage;
use crate::io::World;
use crate::proto::warc::Sha1;
use digest_desk::DigestDesk;
use hashbrown::HashMap;
use std::cell::{Cell, RefCell};

pub(super) struct Sameness {
    own: ShardIndex,
    placement: Placement,
    tables: RefCell<Tables>,
    desk: DigestDesk,
}

#[derive(Default)]
struct Tables {
    digests: Digests,
    near: NearTable,
    questions: Questions,
}

/// The open questions to other shards, by ticket. Bounded by the fetch slots: a visit has at most
/// four open.
#[derive(Default)]
struct Questions {
    next: u32,
    open: HashMap<u32, oneshot::Sender<Reply>>,
}

#[derive(Debug, PartialEq)]
enum Reply {
    Payload(Option<Original>),
    Near(Option<u64>),
}

/// The answer to the question who stored a payload first.
#[must_use]
pub(super) enum AskedPayload {
    /// This shard owns the digest.
    Here(Option<Original>),
    /// Another shard owns the digest and was asked.
    Elsewhere(Answer),
}

/// The answer to the question which page is nearly the same: this shard's own part of it, and those
/// of the shards that own other parts of the table.
#[must_use]
pub(super) struct AskedNear {
    here: Option<u64>,
    elsewhere: Vec<Answer>,
}

/// The awaited answer of another shard.
pub(super) struct Answer(Receiver<Reply>);

impl Sameness {
    pub(super) fn new(own: ShardIndex, placement: Placement) -> Sameness {
        let (tables, desk) = (RefCell::default(), DigestDesk::default());
        Sameness { own, placement, tables, desk }
    }

    /// Computes the digest of the part of a response after its head, together with those of other
    /// pages: see [`DigestDesk`]. `visit_count` is the number of visits under way.
    pub(super) async fn digest<W: World>(
        &self,
        kit: &Kit<W>,
        visit_count: &Cell<usize>,
        response: &mut Vec<u8>,
        head_len: usize,
    ) -> Sha1 {
        let work_off = || kit.spend(Stage::Digest, || self.desk.work_off());
        self.desk.digest(&kit.world, visit_count, work_off, response, head_len).await
    }

    /// Prefetches the memory that [`Sameness::near`] will read.
    pub(super) fn prefetch(&self, simhash: u64) {
        self.tables.borrow().near.prefetch(simhash);
    }

    /// Asks who stored this payload first. If nobody has, `original` becomes the first.
    pub(super) fn payload(
        &self,
        digest: &Sha1,
        original: Original,
        out: &mut impl Out,
    ) -> AskedPayload {
        let (tables, owner) = (&mut *self.tables.borrow_mut(), self.placement.of_digest(digest));
        if owner == self.own {
            return AskedPayload::Here(tables.digests.ask(digest, original));
        }
        let (ticket, answer) = tables.questions.open();
        let (digest, asker) = (*digest, self.own);
        out.letter(owner, Message::DigestAsked { digest, original, asker, ticket });
        AskedPayload::Elsewhere(answer)
    }

    /// Asks for a page whose SimHash is near this one, and stores `page` under this SimHash.
    pub(super) fn near(&self, simhash: u64, page: u64, out: &mut impl Out) -> AskedNear {
        let (tables, asker) = (&mut *self.tables.borrow_mut(), self.own);
        let mut asked = AskedNear { here: None, elsewhere: Vec::new() };
        for (owner, blocks) in dedup::masks(simhash, self.placement.shard_count()) {
            if owner == self.own {
                asked.here = asked.here.or(tables.near.ask(simhash, page, blocks));
            } else {
                let (ticket, answer) = tables.questions.open();
                out.letter(owner, Message::NearAsked { simhash, page, blocks, asker, ticket });
                asked.elsewhere.push(answer);
            }
        }
        asked
    }

    /// Takes a question or an answer of another shard. Returns the message if it is neither.
    pub(super) fn take(&self, message: Message, out: &mut impl Out) -> Result<(), Message> {
        let tables = &mut *self.tables.borrow_mut();
        match message {
            Message::DigestAsked { digest, original, asker, ticket } => {
                let known = tables.digests.ask(&digest, original);
                out.letter(asker, Message::DigestAnswered { ticket, known });
            }
            Message::NearAsked { simhash, page, blocks, asker, ticket } => {
                let near = tables.near.ask(simhash, page, blocks);
                out.letter(asker, Message::NearAnswered { ticket, near });
            }
            Message::DigestAnswered { ticket, known } => {
                tables.questions.answer(ticket, Reply::Payload(known));
            }
            Message::NearAnswered { ticket, near } => {
                tables.questions.answer(ticket, Reply::Near(near));
            }
            other => return Err(other),
        }
        Ok(())
    }
}

impl AskedPayload {
    pub(super) fn is_elsewhere(&self) -> bool {
        matches!(self, AskedPayload::Elsewhere(_))
    }

    /// Waits for the answer. Returns `None` if nobody stored the payload before, or if no answer
    /// comes because the shard ends.
    pub(super) async fn known(self) -> Option<Original> {
        match self {
            AskedPayload::Here(known) => known,
            AskedPayload::Elsewhere(answer) => match answer.0.await {
                Some(Reply::Payload(known)) => known,
                _ => None,
            },
        }
    }
}

impl AskedNear {
    pub(super) fn is_elsewhere(&self) -> bool {
        !self.elsewhere.is_empty()
    }

    /// Waits for the answers. The first in the order of the table's parts counts.
    pub(super) async fn found(self) -> Option<u64> {
        let mut near = self.here;
        for answer in self.elsewhere {
            if let Some(Reply::Near(found)) = answer.0.await {
                near = near.or(found);
            }
        }
        near
    }
}

impl Questions {
    fn open(&mut self) -> (Ticket, Answer) {
        let (sender, receiver) = oneshot::channel();
        self.next = self.next.wrapping_add(1);
        let before = self.open.insert(self.next, sender);
        assert!(before.is_none(), "more questions are open than tickets exist");
        (Ticket(self.next), Answer(receiver))
    }

    fn answer(&mut self, ticket: Ticket, reply: Reply) {
        if let Some(sender) = self.open.remove(&ticket.0) {
            sender.send(reply);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::out::Kept;
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn shards(count: u16) -> Vec<Sameness> {
        let shard = |index| Sameness::new(ShardIndex(index), Placement::new(count));
        (0..count).map(shard).collect()
    }

    /// Carries letters between the shards until none is left.
    fn carry(shards: &[Sameness], mut kept: Kept) {
        for _ in 0..10 {
            let mut next = Kept::default();
            for (to, message) in kept.letters.drain(..) {
                assert!(shards[usize::from(to.0)].take(message, &mut next).is_ok());
            }
            kept = next;
        }
        assert!(kept.letters.is_empty());
    }

    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    fn original(name: &str) -> Original {
        Original { url: name.into(), at_seconds: 7 }
    }

    fn ask_payload(shards: &[Sameness], by: usize, digest: Sha1, name: &str) -> Option<Original> {
        let mut kept = Kept::default();
        let asked = shards[by].payload(&digest, original(name), &mut kept);
        assert_eq!(asked.is_elsewhere(), !kept.letters.is_empty());
        carry(shards, kept);
        now(asked.known()).expect("an answer")
    }

    #[test]
    fn one_body_has_one_original_on_any_number_of_shards() {
        for count in [1, 2, 3, 7] {
            let shards = shards(count);
            for seed in 0..40u8 {
                let digest = [seed.wrapping_mul(37); 20];
                let mut asker = 0;
                let mut ask = |name: &str| {
                    asker = (asker + 1) % usize::from(count);
                    ask_payload(&shards, asker, digest, name)
                };
                let is_known = (0..seed).any(|before| before.wrapping_mul(37) == digest[0]);
                assert!(is_known || ask("first").is_none());
                assert_eq!(ask("second"), Some(original("first")));
                assert_eq!(ask("third"), Some(original("first")));
            }
        }
    }

    #[test]
    fn a_page_within_three_bits_is_found_whichever_shard_asks() {
        let shards = shards(3);
        let near = |by: usize, simhash, page| {
            let mut kept = Kept::default();
            let asked = shards[by].near(simhash, page, &mut kept);
            assert_eq!(asked.is_elsewhere(), !kept.letters.is_empty());
            carry(&shards, kept);
            now(asked.found()).expect("an answer")
        };
        assert_eq!(near(0, 0xdead_beef_1234_5678, 11), None);
        assert_eq!(near(1, 0xdead_beef_1234_5679, 12), Some(11));
        assert_eq!(near(2, !0xdead_beef_1234_5678, 13), None);
    }

    #[test]
    fn each_asker_gets_its_own_answer() {
        let shards = shards(2);
        let digest = (0..=255)
            .map(|byte| [byte; 20])
            .find(|digest| Placement::new(2).of_digest(digest) == ShardIndex(1));
        let (digest, mut kept) = (digest.expect("a digest of shard 1"), Kept::default());
        let first = shards[0].payload(&digest, original("a"), &mut kept);
        let second = shards[0].payload(&digest, original("b"), &mut kept);
        // The answers arrive in the other order.
        kept.letters.reverse();
        carry(&shards, kept);
        assert_eq!(now(second.known()), Some(None), "the second question arrived first");
        assert_eq!(now(first.known()), Some(Some(original("b"))));
    }

    #[test]
    fn a_question_whose_visit_is_gone_leaves_nothing() {
        let shards = shards(2);
        let mut kept = Kept::default();
        for byte in 0..=255 {
            drop(shards[0].payload(&[byte; 20], original("gone"), &mut kept));
        }
        assert!(!shards[0].tables.borrow().questions.open.is_empty());
        carry(&shards, kept);
        assert!(shards[0].tables.borrow().questions.open.is_empty());
        let strange = Message::NearAnswered { ticket: Ticket(9), near: None };
        assert!(shards[0].take(strange, &mut Kept::default()).is_ok(), "an answer to nothing");
    }
}

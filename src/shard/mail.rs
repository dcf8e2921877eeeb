//! What a shard does with its mail.

use super::errand::Errand;
use super::turns::Wanted;
use super::{Notice, Pulse, Reply, Shard};
use crate::flow::{Command, Mail, Message, Ticket};
use crate::io::{Inbox, Outbox, World};
use crate::metrics::Count;
use std::rc::Rc;

impl<W: World, O: Outbox<Mail>, C: Outbox<Notice>> Shard<W, O, C> {
    pub(super) async fn take_mail(self: Rc<Self>, inbox: impl Inbox<Mail>) {
        while !self.ended.get() {
            match inbox.receive().await {
                Mail::Command(command) => self.obey(command),
                Mail::Batch(messages) => {
                    self.mesh.borrow_mut().received(messages.len());
                    for message in messages {
                        self.take_message(message);
                    }
                    // A flood of batches must not keep the visits from running.
                    self.world.yield_now().await;
                }
            }
            self.wake.poke();
        }
    }

    fn obey(&self, command: Command) {
        match command {
            Command::Seeds(candidates) => {
                candidates.into_iter().for_each(|candidate| self.offer(candidate));
            }
            Command::Probe { round } => self.answer_probe(round),
            Command::Budget(pages) => {
                self.budget.set(self.budget.get().saturating_add(pages));
                self.budget_asked.set(false);
            }
            Command::Drain => self.draining.set(true),
            Command::Halt => self.halted.set(true),
        }
    }

    fn answer_probe(&self, round: u64) {
        let is_idle = self.is_idle();
        if is_idle && self.plan.has_budget && self.budget.get() > 0 {
            let unused = self.budget.replace(0);
            if !self.notice(Notice::BudgetReturned(unused)) {
                self.budget.set(unused);
            }
        }
        let (sent_count, received_count) = self.mesh.borrow().counts();
        self.settle();
        let page_count = self.metrics.borrow().count(Count::Pages);
        let shard = self.index;
        self.notice(Notice::Pulse(Pulse {
            shard,
            round,
            is_idle,
            sent_count,
            received_count,
            page_count,
        }));
    }

    fn take_message(&self, message: Message) {
        match message {
            Message::Link(candidate) => self.offer(candidate),
            Message::TurnWanted { place, host, asker, delay_ms } => {
                let wanted = Wanted { host, asker, delay_ms };
                let now = self.world.now();
                let granted = self.turns.borrow_mut().ask(place, wanted, now);
                if granted {
                    self.grant(place, wanted);
                }
            }
            Message::TurnGranted { place, host } => self.turn_granted(place, host),
            Message::TurnReturned { place, host, used_at } => {
                self.turns.borrow_mut().give_back(place, host, used_at);
            }
            Message::DigestAsked { digest, original, asker, ticket } => {
                let known = self.digests.borrow_mut().ask(&digest, original);
                let answer = Message::DigestAnswered { ticket, known };
                self.mesh.borrow_mut().post(asker, answer);
            }
            Message::DigestAnswered { ticket, known } => {
                self.question_answered(ticket, Reply::Digest(known));
            }
            Message::NearAsked { simhash, page, blocks, asker, ticket } => {
                let near = self.near.borrow_mut().ask(simhash, page, blocks);
                self.mesh.borrow_mut().post(asker, Message::NearAnswered { ticket, near });
            }
            Message::NearAnswered { ticket, near } => {
                self.question_answered(ticket, Reply::Near(near));
            }
            Message::RobotsWanted { target, origin, asker, hops } => {
                self.take_errand(target, Errand { origin, asker, hops });
            }
            Message::RobotsAnswered { origin, answer } => self.errand_answered(&origin, &answer),
        }
    }

    fn question_answered(&self, ticket: Ticket, reply: Reply) {
        let sender = self.questions.borrow_mut().open.remove(&ticket.0);
        if let Some(sender) = sender {
            sender.send(reply);
        }
    }
}

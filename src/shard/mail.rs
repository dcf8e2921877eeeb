//! What a shard does with its mail.

use super::errand::Errand;
use super::turns::Wanted;
use super::{Notice, Pulse, Reply, Shard};
use crate::base::Time;
use crate::flow::{Candidate, Command, Mail, Message, Ticket};
use crate::io::{Inbox, Outbox, World};
use crate::limits::SEED_STEP_COUNT;
use crate::metrics::Count;
use crate::url::HostKey;
use std::rc::Rc;
use std::time::Duration;

impl<W: World, O: Outbox<Mail>, C: Outbox<Notice>> Shard<W, O, C> {
    pub(super) async fn take_mail(self: Rc<Self>, inbox: impl Inbox<Mail>) {
        while !self.ended.get() {
            match inbox.receive().await {
                Mail::Command(command) => self.obey(command).await,
                Mail::Batch { from, messages } => {
                    self.mesh.borrow_mut().received(messages.len());
                    let link_count = messages.iter().map(Message::link_count).sum::<usize>() as u64;
                    messages.into_iter().for_each(|message| self.take_message(message));
                    self.owe(from, link_count);
                    // A flood of batches must not keep the visits from running.
                    self.world.yield_now().await;
                }
            }
            self.wake.poke();
        }
    }

    /// Offers seeds a few at a time: a list of millions must neither stop the core nor outrun the
    /// journal.
    async fn take_seeds(&self, candidates: Vec<Candidate>) {
        self.begin_checkpoints();
        let mut candidates = candidates.into_iter().peekable();
        while candidates.peek().is_some() {
            // Each step from its own time: those that were taken late would all be due at once.
            let now = self.world.now();
            for candidate in candidates.by_ref().take(SEED_STEP_COUNT) {
                let host = candidate.url.host_key();
                self.offer(candidate);
                self.spread_start(host, now);
            }
            self.world.yield_now().await;
            if let Some(journal) = &self.journal
                && journal.is_backed_up()
            {
                journal.durable(journal.lsn()).await;
            }
        }
    }

    /// A seed's host has its first turn at a moment of the opening that its name decides.
    fn spread_start(&self, host: HostKey, now: Time) {
        let spread_ms = self.plan.settings.start_spread_ms;
        if spread_ms == 0 {
            return;
        }
        let mut frontier = self.frontier.borrow_mut();
        if let Some(id) = frontier.host_by_key(host) {
            // Not the top bits: they say which core a host is on.
            let share = f64::from(host.0 as u32) / f64::from(u32::MAX);
            let wait = Duration::from_millis(spread_ms).mul_f64(share);
            frontier.postpone(id, now + wait);
        }
    }

    async fn obey(&self, command: Command) {
        match command {
            Command::Seeds(candidates) => self.take_seeds(candidates).await,
            Command::Probe { round } => self.answer_probe(round),
            Command::Budget(pages) => {
                self.budget.set(self.budget.get().saturating_add(pages));
                self.budget_asked.set(false);
                self.budget_called_in.set(false);
            }
            Command::CallBudgetIn => self.budget_called_in.set(true),
            Command::Drain => self.draining.set(true),
            Command::Halt => self.halted.set(true),
        }
    }

    fn answer_probe(&self, round: u64) {
        let is_idle = self.is_idle();
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
            Message::Links(parcel) => {
                let now = self.world.now();
                let tally = self.links.borrow_mut().take(self, &parcel, now);
                self.count_links(tally);
            }
            Message::LinksKept { by, through_count } => self.promises.links_kept(by, through_count),
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

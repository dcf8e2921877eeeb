//! The shard's mail: commands of the control thread are obeyed, and messages of other shards are
//! passed to the services that they concern. Touched by one core.

use super::manners::{Errand, Wanted};
use super::{Notice, Pulse, Shard};
use crate::crawl::flow::{Command, Mail, Message};
use crate::crawl::metrics::Count;
use crate::io::{Inbox, World};
use std::rc::Rc;

impl<W: World> Shard<W> {
    pub(super) async fn take_mail(self: Rc<Self>, inbox: impl Inbox<Mail>) {
        while !self.kit.life.is_ended() {
            match inbox.receive().await {
                Mail::Command(command) => self.obey(command),
                Mail::Batch { from, messages } => {
                    self.mesh.borrow_mut().received(messages.len());
                    let link_count = messages.iter().map(Message::link_count).sum::<usize>() as u64;
                    messages.into_iter().for_each(|message| self.take_message(message));
                    let batch = self.frontier().sieve().deferred_mark();
                    self.archive.owe(from, link_count, batch);
                    // The task yields after each batch, so that a flood of batches does not keep
                    // the visits from running.
                    self.kit.world.yield_now().await;
                }
            }
            self.kit.wake.poke();
        }
    }

    /// Obeys a command of the control thread. Nothing here may wait, because the next command could
    /// be `Halt`.
    fn obey(&self, command: Command) {
        match command {
            Command::Open => {
                self.kit.life.open();
                self.archive.begin_checkpoints();
            }
            Command::Seeds(candidates) => self.take_seeds(candidates),
            Command::Probe { round } => self.answer_probe(round),
            Command::Budget(page_count) => self.slots.add_budget(page_count),
            Command::CallBudgetIn => self.slots.call_budget_in(),
            Command::Drain => self.kit.life.drain(),
            Command::Halt => self.kit.life.halt(),
        }
    }

    fn answer_probe(&self, round: u64) {
        let is_idle = self.is_idle();
        let (sent_count, received_count) = self.mesh.borrow().counts();
        self.archive.settle();
        let page_count = self.kit.probe.count(Count::Pages);
        let shard = self.kit.index;
        self.kit.notice(Notice::Pulse(Pulse {
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
                let now = self.kit.world.now();
                let tally = self.discovery.borrow_mut().offer_parcel(&parcel, now, &mut self.out());
                self.count_links(tally);
            }
            Message::LinksKept { by, through_count } => self.archive.links_kept(by, through_count),
            Message::TurnWanted { place, host, asker, delay_ms } => {
                let wanted = Wanted { host, asker, delay_ms };
                let now = self.kit.world.now();
                self.manners.borrow_mut().turn_wanted(place, wanted, now, &mut self.out());
            }
            Message::TurnGranted { place, host } => self.turn_granted(place, host),
            Message::TurnReturned { place, host, used_at } => {
                self.manners.borrow_mut().turn_returned(place, host, used_at);
            }
            Message::RobotsWanted { target, origin, asker, hops } => {
                self.take_errand(target, Errand { origin, asker, hops });
            }
            Message::RobotsAnswered { origin, answer } => self.errand_answered(&origin, &answer),
            question => {
                let taken = self.sameness.take(question, &mut self.out());
                assert!(taken.is_ok(), "no service takes this message");
            }
        }
    }
}

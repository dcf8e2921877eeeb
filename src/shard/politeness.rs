//! When a host may be asked again: delays, back-off and turns, as a shard applies them.
//!
//! The rules are in `pace` (delays), `health` (failures) and `turns` (addresses and domains), each
//! without I/O. Here they meet the frontier, the mesh, the settings and the counters.

use super::health::{self, Failure, Sign, Turning};
use super::pace::{self, Clamped};
use super::turns::{Hands, Wanted};
use super::{Sabotage, Shard};
use crate::base::Time;
use crate::base::pack::Pack;
use crate::crawl::fetch::Answer;
use crate::crawl::flow::{Message, Outcome, Penalty, TurnPlace};
use crate::crawl::frontier::{HostId, Origin, Queued};
use crate::crawl::journal::{self, Entry};
use crate::crawl::metrics::Count;
use crate::crawl::resolve::pace_place;
use crate::io::World;
use crate::proto::url::{HostKey, Url, registrable_domain};
use std::net::IpAddr;
use std::time::Duration;

impl<W: World> Shard<W> {
    /// After a request: when the host may be asked again, by its delay and by what it asked for.
    /// Counted from the moment at which the server had surely seen the request.
    pub(super) fn pace(&self, host: HostId, url: &Url, answer: &Answer, outcome: Outcome) -> Time {
        if let Some(took) = answer.first_byte_took {
            self.frontier.borrow_mut().host_data(host).answered(took);
        }
        let mut next = answer.seen_by + self.delay(host, url);
        if outcome == Outcome::Throttled
            && let Some(head) = &answer.head
            && let Some((until, clamped)) =
                pace::retry_after(head, answer.seen_by, &self.kit.world, &self.kit.plan.settings)
            && !self.kit.is_sabotaged(Sabotage::RetryAfterIgnored)
        {
            if until > next {
                let until = self.clocks().wall_of(until);
                let host_key = url.host_key(&self.kit.plan.hash_key);
                self.archive.entry(|out| journal::push_waiting(out, host_key, until));
            }
            next = next.max(until);
            self.tell_clamped("Retry-After", url, clamped);
        }
        next
    }

    /// After a request: what it says of its origin.
    pub(super) fn book(
        &self,
        host: HostId,
        url: &Url,
        tries: u8,
        answer: &Answer,
        outcome: Outcome,
    ) {
        if outcome.row().penalty == Penalty::BackOff {
            if !answer.was_stale {
                let sign = match answer.head {
                    Some(_) => Sign::Answered,
                    None if answer.was_sent => Sign::Unanswered,
                    None => Sign::Unreached,
                };
                self.ail(host, url, outcome, answer.seen_by, (sign, tries == 0));
            }
        } else if answer.head.is_some() {
            self.recover(host, url);
        }
    }

    /// An origin failed: how long is it left alone? `is_first`: `url` has not failed before.
    pub(super) fn ail(
        &self,
        host: HostId,
        url: &Url,
        cause: Outcome,
        at: Time,
        (sign, is_first): (Sign, bool),
    ) {
        let unit = self.wait_unit(host, url);
        let failure = Failure { at, cause, sign, is_first, unit };
        let key = (host, Origin::of(url));
        let settings = &self.kit.plan.settings;
        let draw = self.kit.world.random_u64();
        let turning = self.health.borrow_mut().failed(key, failure, settings, draw);
        self.note_health(host, url);
        let probe = &self.kit.probe;
        match turning {
            Turning::BackedOff | Turning::AskedOn => {}
            Turning::Opened => {
                probe.add(Count::BreakersOpened, 1);
                // URLs that fail often lie side by side: the next one to be asked is another.
                self.frontier.borrow_mut().rotate_queues(host, self.kit.world.random_u64());
            }
            Turning::GivenUp { is_news } => {
                probe.add(Count::OriginsGivenUp, u64::from(is_news));
                let (origin, cause) = (url.origin(), cause.name());
                // There may be a million: the summary counts them, the dead letters list them.
                tracing::debug!(
                    "{origin} is given up, for it failed for so long ({cause}): its URLs become \
                     dead letters"
                );
            }
        }
    }

    pub(super) fn recover(&self, host: HostId, url: &Url) {
        if !self.health.borrow().is_ailing(host, Origin::of(url)) {
            return;
        }
        if self.health.borrow_mut().recovered(host, Origin::of(url)) {
            self.kit.probe.add(Count::BreakersClosed, 1);
        }
        self.note_health(host, url);
    }

    /// Tells the journal how the origin of `url` fares now.
    fn note_health(&self, host: HostId, url: &Url) {
        if !self.archive.has_journal() {
            return;
        }
        let (clocks, mut image) = (self.clocks(), Vec::new());
        let wall_of = |time| clocks.wall_of(time);
        self.health.borrow().pack(host, Origin::of(url), &mut Pack(&mut image), wall_of);
        let origin = url.origin().to_owned();
        self.archive.entry(|out| Entry::Health { origin, image }.push(out));
    }

    /// Tells the journal what is known of the robots.txt of `url`'s origin.
    pub(super) fn note_robots(&self, url: &Url) {
        if !self.archive.has_journal() {
            return;
        }
        let (clocks, mut image) = (self.clocks(), Vec::new());
        let wall_of = |time| clocks.wall_of(time);
        self.robots.borrow().pack(url.origin(), &mut Pack(&mut image), wall_of);
        let origin = url.origin().to_owned();
        self.archive.entry(|out| Entry::Robots { origin, image }.push(out));
    }

    /// The delay between two requests to the host of `url`.
    pub(super) fn delay(&self, host: HostId, url: &Url) -> Duration {
        let asked_ms = self.robots.borrow().crawl_delay_ms(url.origin());
        let mut frontier = self.frontier.borrow_mut();
        let delay = frontier.host_data(host).delay(asked_ms, &self.kit.plan.settings);
        if self.kit.is_sabotaged(Sabotage::DelayShort) { delay * 9 / 10 } else { delay }
    }

    /// How long a URL waits for its next try.
    pub(super) fn retry_wait(&self, host: HostId, queued: &Queued) -> Duration {
        let unit = self.wait_unit(host, &queued.url);
        let draw = self.kit.world.random_u64();
        health::retry_wait(queued.tries_made(), unit, &self.kit.plan.settings, draw)
    }

    fn wait_unit(&self, host: HostId, url: &Url) -> Duration {
        self.delay(host, url).max(Duration::from_millis(self.kit.plan.settings.retry_base_ms))
    }

    pub(super) fn tell_clamped(&self, what: &str, url: &Url, clamped: Option<Clamped>) {
        let Some(Clamped { asked_ms }) = clamped else { return };
        self.kit.probe.add(Count::DelaysClamped, 1);
        let (origin, taken_ms) = (url.origin(), self.kit.plan.settings.crawl_delay_ms_max);
        tracing::debug!(
            "{origin} asks for a {what} of {asked_ms} ms; by crawl_delay_ms_max it is {taken_ms} ms"
        );
    }

    /// The turns a visit begins with.
    pub(super) fn hands(&self, host: HostId, name: &str, granted: Option<TurnPlace>) -> Hands {
        let mut frontier = self.frontier.borrow_mut();
        let pace = frontier.host_data(host);
        pace.holds_domain |= matches!(granted, Some(TurnPlace::Domain(_)));
        let address = match granted {
            Some(TurnPlace::Address(address)) => Some(address),
            _ => None,
        };
        let has_limit = self.kit.plan.settings.domain_delay_ms > 0;
        let hash_key = &self.kit.plan.hash_key;
        let domain = has_limit.then(|| hash_key.hash(registrable_domain(name).as_bytes()) as u64);
        Hands { key: HostKey::of(hash_key, name), address, domain, has_domain: pace.holds_domain }
    }

    /// True if the host may speak to `address` now. False: it waits in line, still busy.
    pub(super) fn take_turns(&self, host: HostId, hands: &mut Hands, address: IpAddr) -> bool {
        if let (Some(domain), false) = (hands.domain, hands.has_domain) {
            if !self.ask_turn(TurnPlace::Domain(domain), hands.key) {
                return false;
            }
            hands.has_domain = true;
            self.frontier.borrow_mut().host_data(host).holds_domain = true;
        }
        let place = pace_place(address, self.kit.plan.settings.ipv6_pace_prefix);
        if hands.address == Some(place) || self.kit.is_sabotaged(Sabotage::TurnSkipped) {
            return true;
        }
        // The name has moved to another address since the turn was asked for.
        if let Some(old) = hands.address.take() {
            self.return_turn(TurnPlace::Address(old), hands.key, None);
        }
        if self.ask_turn(TurnPlace::Address(place), hands.key) {
            hands.address = Some(place);
            return true;
        }
        false
    }

    /// True if the turn is ours at once; else it is granted when it comes.
    fn ask_turn(&self, place: TurnPlace, host: HostKey) -> bool {
        let settings = &self.kit.plan.settings;
        let delay_ms = match place {
            TurnPlace::Address(_) => settings.delay_ms,
            TurnPlace::Domain(_) => settings.domain_delay_ms,
        };
        let is_short = self.kit.is_sabotaged(Sabotage::DelayShort);
        let delay_ms = if is_short { delay_ms * 9 / 10 } else { delay_ms };
        let delay_ms = u32::try_from(delay_ms).unwrap_or(u32::MAX);
        let (owner, asker) =
            (self.kit.plan.placement.of_turn(&self.kit.plan.hash_key, place), self.kit.index);
        if owner == self.kit.index {
            let wanted = Wanted { host, asker, delay_ms };
            return self.turns.borrow_mut().ask(place, wanted, self.kit.world.now());
        }
        let message = Message::TurnWanted { place, host, asker, delay_ms };
        self.mesh.borrow_mut().post(owner, message);
        false
    }

    /// The visit makes no request: what it holds is free again.
    pub(super) fn let_go(&self, host: HostId, hands: Hands) {
        self.give_back(host, hands, None);
    }

    /// Returns the turns; `used_at` is when the server had seen the request.
    pub(super) fn give_back(&self, host: HostId, hands: Hands, used_at: Option<Time>) {
        if let Some(address) = hands.address {
            self.return_turn(TurnPlace::Address(address), hands.key, used_at);
        }
        if let (Some(domain), true) = (hands.domain, hands.has_domain) {
            self.frontier.borrow_mut().host_data(host).holds_domain = false;
            self.return_turn(TurnPlace::Domain(domain), hands.key, used_at);
        }
    }
}

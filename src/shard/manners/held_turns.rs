//! The turns that a visit holds, and how it gets them.
//!
//! A visit that makes a request holds the turn of its address and, where domains have a limit, that
//! of its domain. [`HeldTurns`] cannot be copied. They are redeemed when they are given back, used
//! or not, or when the host waits in line while its [`Pace`] keeps the domain's turn. Touched by
//! one core.

use super::turn_lines::Wanted;
use super::{Manners, Pace};
use crate::base::Time;
use crate::base::owed::Owed;
use crate::crawl::flow::{Message, TurnPlace};
use crate::crawl::resolve::pace_place;
use crate::proto::url::{HostKey, registrable_domain};
use crate::shard::Sabotage;
use crate::shard::out::Out;
use std::net::IpAddr;

pub(in crate::shard) type HeldTurns = Owed<Turns>;

/// The turns of one visit: at an address, at a domain, or none yet.
#[derive(Debug)]
pub(in crate::shard) struct Turns {
    key: HostKey,
    /// The place of the address whose turn is held: [`pace_place`].
    address: Option<IpAddr>,
    /// The host's registrable domain, if domains have a limit; `has_domain` says whether its turn
    /// is held.
    domain: Option<u64>,
    has_domain: bool,
}

/// Whether a visit has the turns that it needs.
#[must_use]
pub(in crate::shard) enum Turn {
    Held(HeldTurns),
    /// The host waits in line. [`Manners::next_turn`] or a letter will name it.
    InLine,
}

impl Manners {
    /// Returns the turns that a visit begins with. `granted` is the turn that its host was called
    /// for.
    pub(in crate::shard) fn held(
        &self,
        name: &str,
        granted: Option<TurnPlace>,
        pace: &mut Pace,
    ) -> HeldTurns {
        pace.holds_domain |= matches!(granted, Some(TurnPlace::Domain(_)));
        let address = match granted {
            Some(TurnPlace::Address(address)) => Some(address),
            _ => None,
        };
        let has_limit = self.settings.domain_delay_ms > 0;
        let hash = |name: &str| self.hash_key.hash(registrable_domain(name).as_bytes()) as u64;
        let domain = has_limit.then(|| hash(name));
        let key = HostKey::of(&self.hash_key, name);
        self.turns.issue(Turns { key, address, domain, has_domain: pace.holds_domain })
    }

    /// Takes the turns that a request to `address` needs, beside those already held.
    pub(in crate::shard) fn take_turns(
        &mut self,
        held: HeldTurns,
        pace: &mut Pace,
        address: IpAddr,
        now: Time,
        out: &mut impl Out,
    ) -> Turn {
        let mut held = held.redeem();
        if let (Some(domain), false) = (held.domain, held.has_domain) {
            if !self.ask_turn(TurnPlace::Domain(domain), held.key, now, out) {
                return line_up(held);
            }
            held.has_domain = true;
            pace.holds_domain = true;
        }
        let place = pace_place(address, self.settings.ipv6_pace_prefix);
        if held.address == Some(place) || self.is_sabotaged(Sabotage::TurnSkipped) {
            return Turn::Held(self.turns.issue(held));
        }
        // The name has moved to another address since the turn was requested.
        if let Some(old) = held.address.take() {
            let _ = self.return_turn(TurnPlace::Address(old), held.key, None, out);
        }
        if self.ask_turn(TurnPlace::Address(place), held.key, now, out) {
            held.address = Some(place);
            return Turn::Held(self.turns.issue(held));
        }
        line_up(held)
    }

    /// Asks for a turn. Returns true if the host has it at once; otherwise the host waits in line.
    fn ask_turn(&mut self, place: TurnPlace, host: HostKey, now: Time, out: &mut impl Out) -> bool {
        let delay_ms = match place {
            TurnPlace::Address(_) => self.settings.delay_ms,
            TurnPlace::Domain(_) => self.settings.domain_delay_ms,
        };
        let is_short = self.is_sabotaged(Sabotage::DelayShort);
        let delay_ms = if is_short { delay_ms * 9 / 10 } else { delay_ms };
        let delay_ms = u32::try_from(delay_ms).unwrap_or(u32::MAX);
        let (owner, asker) = (self.placement.of_turn(&self.hash_key, place), self.index);
        if owner == self.index {
            return self.lines.ask(place, Wanted { host, asker, delay_ms }, now);
        }
        out.letter(owner, Message::TurnWanted { place, host, asker, delay_ms });
        false
    }

    /// Gives the turns back. `used_at` is when the server had seen the request, or `None` if none
    /// was made. Returns true if a line of this shard has moved, so that the loop must check it.
    #[must_use]
    pub(in crate::shard) fn give_back(
        &mut self,
        held: HeldTurns,
        pace: &mut Pace,
        used_at: Option<Time>,
        out: &mut impl Out,
    ) -> bool {
        let Turns { key, address, domain, has_domain } = held.redeem();
        let mut has_moved = false;
        if let Some(address) = address {
            has_moved |= self.return_turn(TurnPlace::Address(address), key, used_at, out);
        }
        if let (Some(domain), true) = (domain, has_domain) {
            pace.holds_domain = false;
            has_moved |= self.return_turn(TurnPlace::Domain(domain), key, used_at, out);
        }
        has_moved
    }

    /// Returns a turn to the shard that owns its line. The result is true if that is this shard.
    #[must_use]
    pub(in crate::shard) fn return_turn(
        &mut self,
        place: TurnPlace,
        host: HostKey,
        used_at: Option<Time>,
        out: &mut impl Out,
    ) -> bool {
        let owner = self.placement.of_turn(&self.hash_key, place);
        if owner == self.index {
            self.lines.give_back(place, host, used_at);
            return true;
        }
        out.letter(owner, Message::TurnReturned { place, host, used_at });
        false
    }

    /// Takes another shard's request for a turn at a place of this shard.
    pub(in crate::shard) fn turn_wanted(
        &mut self,
        place: TurnPlace,
        wanted: Wanted,
        now: Time,
        out: &mut impl Out,
    ) {
        if self.lines.ask(place, wanted, now) {
            out.letter(wanted.asker, Message::TurnGranted { place, host: wanted.host });
        }
    }

    /// Takes back a turn at a place of this shard from another shard.
    pub(in crate::shard) fn turn_returned(
        &mut self,
        place: TurnPlace,
        host: HostKey,
        used_at: Option<Time>,
    ) {
        self.lines.give_back(place, host, used_at);
    }

    /// Returns the next turn that has come for a host of this shard. Turns that have come for hosts
    /// of other shards are sent to them by letter.
    pub(in crate::shard) fn next_turn(
        &mut self,
        now: Time,
        out: &mut impl Out,
    ) -> Option<(HostKey, TurnPlace)> {
        loop {
            let (place, wanted) = self.lines.advance(now)?;
            if wanted.asker == self.index {
                return Some((wanted.host, place));
            }
            out.letter(wanted.asker, Message::TurnGranted { place, host: wanted.host });
        }
    }

    /// Returns when the next turn comes, as far as is known.
    pub(in crate::shard) fn next_turn_due(&self) -> Option<Time> {
        self.lines.next_due()
    }

    /// Panics if a visit has forgotten its turns. Called when no visit is under way.
    pub(in crate::shard) fn assert_returned(&self) {
        assert_eq!(self.turns.lost_count(), 0, "a visit has lost its turns");
        assert_eq!(self.turns.open_count(), 0, "a visit has kept its turns");
    }
}

/// Makes the host wait in line. It keeps its domain's turn, which its pace remembers, and no other.
fn line_up(turns: Turns) -> Turn {
    assert!(turns.address.is_none(), "a host that holds an address's turn does not wait in line");
    Turn::InLine
}

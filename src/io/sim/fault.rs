//! What may go wrong on the way to an address, as rates, and the fate that a connection draws.
//!
//! This module owns no traffic. Connects call it in `Network::route` and `SimWorld::dial`, bytes in
//! `End::post` and `SimStream::poll_send`, datagrams in `SimDatagram::post`. A rate of zero draws
//! no number, so adding a fault does not change the history of a world without it.
//!
//! What delays a request on its way to the server stays short (`spike_ms_max`): a packet that
//! arrives after its sender gave up would make the server's log blame a crawler for what it can
//! neither see nor stop. What delays an answer (stall, trickle) may take as long as a test likes.

use super::chance::Chance;
use std::time::Duration;

/// Rates per thousand of what they strike; zero means never. Set for one address by
/// [`super::Sim::set_faults`], for all others by [`super::NetModel`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Connects, and connected datagram sockets, that find no descriptor, port or memory on our
    /// side.
    pub exhausted_per_mille: u64,
    pub refused_per_mille: u64,
    /// Connects that nobody answers.
    pub unanswered_per_mille: u64,
    /// First packets of a connection that are lost. Each is sent again after one, two, four and so
    /// on seconds (RFC 6298 2.1 and 5.5).
    pub syn_loss_per_mille: u64,
    /// Segments and datagrams that take up to `spike_ms_max` longer, either way.
    pub spike_per_mille: u64,
    pub spike_ms_max: u64,
    /// Connections that are reset, vanish, close or pause at some byte, which is at most number
    /// `strike_bytes_max` in its direction.
    pub reset_per_mille: u64,
    pub vanish_per_mille: u64,
    pub close_per_mille: u64,
    pub stall_per_mille: u64,
    pub strike_bytes_max: u64,
    pub stall_ms_max: u64,
    /// Connections whose answers come at `trickle_bytes_per_second`.
    pub trickle_per_mille: u64,
    pub trickle_bytes_per_second: u64,
    pub datagram_loss_per_mille: u64,
    /// Datagrams that arrive twice.
    pub datagram_double_per_mille: u64,
    /// Datagrams that arrive up to `datagram_late_ms_max` later, so that others overtake them.
    pub datagram_late_per_mille: u64,
    pub datagram_late_ms_max: u64,
}

/// Index into `Link::ends` for bytes on the way to the side that dialled; 1 is the way to the
/// other.
pub(super) const TO_DIALLER: usize = 0;

/// What happens to a connection at one byte of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strike {
    /// Both ends are told that the connection is gone.
    Reset,
    /// Nothing arrives any more at either end, and neither is told: the connection is half-open.
    Vanish,
    /// The accepting side closes before its answer is complete.
    Close,
    /// The answer pauses.
    Stall(Duration),
}

impl Strike {
    pub fn name(self) -> &'static str {
        match self {
            Strike::Reset => "reset",
            Strike::Vanish => "vanish",
            Strike::Close => "close",
            Strike::Stall(_) => "stall",
        }
    }
}

/// The faults of a connection, drawn when it is dialled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fate {
    /// The side, the byte on the way to it, and what happens there.
    pub strike: Option<(usize, u64, Strike)>,
    pub trickle_bytes_per_second: Option<u64>,
    pub spike_per_mille: u64,
    pub spike_ms_max: u64,
}

/// What happens to one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carriage {
    Lost,
    /// It arrives this much later than it would without faults, once or twice.
    Carried {
        late: Duration,
        doubled: bool,
    },
}

/// Retries of a first packet before the sender gives up (Linux: `tcp_syn_retries`).
const SYN_RETRY_COUNT_MAX: u32 = 6;
/// The largest position of a strike is halved up to this many times, because protocols break at
/// early bytes.
const STRIKE_HALVINGS: usize = 12;

impl Faults {
    pub(super) fn check(&self) {
        let rates = [
            self.exhausted_per_mille,
            self.refused_per_mille,
            self.unanswered_per_mille,
            self.syn_loss_per_mille,
            self.spike_per_mille,
            self.reset_per_mille
                + self.vanish_per_mille
                + self.close_per_mille
                + self.stall_per_mille,
            self.trickle_per_mille,
            self.datagram_loss_per_mille,
            self.datagram_double_per_mille,
            self.datagram_late_per_mille,
        ];
        assert!(rates.iter().all(|rate| *rate <= 1_000), "a rate is above a thousand");
        let trickles = self.trickle_per_mille > 0;
        assert!(!trickles || self.trickle_bytes_per_second > 0, "a trickle needs a rate");
    }

    /// Returns how late the first packet of a connection arrives; `None` if it never does.
    pub(super) fn syn_delay(&self, chance: &Chance) -> Option<Duration> {
        let mut delay_seconds = 0;
        for retry in 0..=SYN_RETRY_COUNT_MAX {
            if !strikes(chance, self.syn_loss_per_mille) {
                return Some(Duration::from_secs(delay_seconds));
            }
            delay_seconds += 1 << retry;
        }
        None
    }

    pub(super) fn fate(&self, chance: &Chance) -> Fate {
        Fate {
            strike: self.strike(chance),
            trickle_bytes_per_second: strikes(chance, self.trickle_per_mille)
                .then_some(self.trickle_bytes_per_second),
            spike_per_mille: self.spike_per_mille,
            spike_ms_max: self.spike_ms_max,
        }
    }

    /// Draws at most one of the four strikes, so that each keeps its rate.
    fn strike(&self, chance: &Chance) -> Option<(usize, u64, Strike)> {
        let rates = [
            self.reset_per_mille,
            self.vanish_per_mille,
            self.close_per_mille,
            self.stall_per_mille,
        ];
        if rates.iter().sum::<u64>() == 0 {
            return None;
        }
        let mut roll = chance.between(1, 1_000);
        let kind = rates.iter().position(|rate| {
            let hit = roll <= *rate;
            roll = roll.saturating_sub(*rate);
            hit
        })?;
        let bytes_max = self.strike_bytes_max >> chance.index(STRIKE_HALVINGS);
        let at = chance.between(0, bytes_max);
        let either = chance.index(2);
        Some(match kind {
            0 => (either, at, Strike::Reset),
            1 => (either, at, Strike::Vanish),
            2 => (TO_DIALLER, at, Strike::Close),
            _ => {
                let pause = Duration::from_millis(chance.between(0, self.stall_ms_max));
                (TO_DIALLER, at, Strike::Stall(pause))
            }
        })
    }

    pub(super) fn carriage(&self, chance: &Chance) -> Carriage {
        if strikes(chance, self.datagram_loss_per_mille) {
            return Carriage::Lost;
        }
        let mut late = spike(chance, self.spike_per_mille, self.spike_ms_max);
        late += spike(chance, self.datagram_late_per_mille, self.datagram_late_ms_max);
        Carriage::Carried { late, doubled: strikes(chance, self.datagram_double_per_mille) }
    }
}

impl Fate {
    pub fn spike(&self, chance: &Chance) -> Duration {
        spike(chance, self.spike_per_mille, self.spike_ms_max)
    }
}

/// Returns true `per_mille` times of a thousand; a rate of zero draws nothing.
pub(super) fn strikes(chance: &Chance, per_mille: u64) -> bool {
    per_mille > 0 && chance.between(1, 1_000) <= per_mille
}

fn spike(chance: &Chance, per_mille: u64, ms_max: u64) -> Duration {
    match strikes(chance, per_mille) {
        true => Duration::from_millis(chance.between(0, ms_max)),
        false => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_of_zero_draws_no_number() {
        let (chance, untouched) = (Chance::new(1, 1), Chance::new(1, 1));
        let faults = Faults::default();
        assert_eq!(faults.fate(&chance), Fate::default());
        assert_eq!(faults.syn_delay(&chance), Some(Duration::ZERO));
        let carried = Carriage::Carried { late: Duration::ZERO, doubled: false };
        assert_eq!(faults.carriage(&chance), carried);
        assert_eq!(chance.draw(), untouched.draw());
    }

    #[test]
    fn strikes_come_at_their_rates_and_early_bytes_are_common() {
        let faults = Faults {
            reset_per_mille: 200,
            vanish_per_mille: 100,
            close_per_mille: 300,
            stall_per_mille: 400,
            strike_bytes_max: 100_000,
            stall_ms_max: 5_000,
            ..Faults::default()
        };
        faults.check();
        let chance = Chance::new(7, 7);
        let mut counts = [0; 4];
        let (mut early, mut to_listener) = (0, 0);
        for _ in 0..10_000 {
            let (side, at, strike) = faults.fate(&chance).strike.expect("rates sum to a thousand");
            let kind = match strike {
                Strike::Reset => 0,
                Strike::Vanish => 1,
                Strike::Close => 2,
                Strike::Stall(pause) => {
                    assert!(pause <= Duration::from_secs(5));
                    3
                }
            };
            counts[kind] += 1;
            early += usize::from(at < 1_000);
            to_listener += usize::from(side != TO_DIALLER);
            assert!(at <= 100_000 && (side == TO_DIALLER || kind < 2));
        }
        for (count, rate) in counts.into_iter().zip([2_000, 1_000, 3_000, 4_000]) {
            assert!((rate - 250..rate + 250).contains(&count), "{counts:?}");
        }
        assert!(early > 4_000 && early < 9_000, "{early}");
        assert!((1_300..1_700).contains(&to_listener), "{to_listener}");
    }

    #[test]
    fn a_first_packet_is_sent_again_after_one_two_and_four_seconds() {
        let faults = Faults { syn_loss_per_mille: 500, ..Faults::default() };
        let chance = Chance::new(3, 3);
        let mut delays: Vec<_> = (0..1_000).map(|_| faults.syn_delay(&chance)).collect();
        delays.sort_unstable();
        delays.dedup();
        let seconds = |n| Some(Duration::from_secs(n));
        assert_eq!(delays[..5], [None, seconds(0), seconds(1), seconds(3), seconds(7)]);
    }
}

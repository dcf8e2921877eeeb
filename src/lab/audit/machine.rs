//! Machines: which addresses are paced as one, because servers see them as one machine.
//!
//! The code works on the octets of an address. It is written from the RFCs and shares nothing with
//! the crawler's code.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IPv4 address, or an IPv6 network of `bits` bits that counts as one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Machine {
    V4(Ipv4Addr),
    V6 { network: Ipv6Addr, bits: u8 },
}

impl Machine {
    /// Returns the machine at `address`, if an IPv6 machine has a network of `bits` bits.
    pub fn at(address: IpAddr, bits: u8) -> Machine {
        let octets = match address {
            IpAddr::V4(v4) => return Machine::V4(v4),
            IpAddr::V6(v6) => v6.octets(),
        };
        if let Some(v4) = inner(&octets) {
            return Machine::V4(v4);
        }
        let mut network = [0; 16];
        for bit in 0..usize::from(bits.min(128)) {
            network[bit / 8] |= octets[bit / 8] & (0x80 >> (bit % 8));
        }
        Machine::V6 { network: Ipv6Addr::from(network), bits }
    }
}

/// Returns the IPv4 address that an IPv6 address stands for or leads to.
fn inner(octets: &[u8; 16]) -> Option<Ipv4Addr> {
    let at = |start: usize| {
        let [a, b, c, d] = std::array::from_fn(|index| octets[start + index]);
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match octets {
        // RFC 4291 2.5.5.2: mapped; the system uses IPv4 to reach it.
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ..] => at(12),
        // RFC 6052 2.1: the well-known prefix of a translator (NAT64).
        [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, ..] => at(12),
        // RFC 3056 2 (6to4): all of 2002:V4ADDR::/48 is behind V4ADDR.
        [0x20, 0x02, ..] => at(2),
        _ => None,
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Machine::V4(v4) => write!(out, "{v4}"),
            Machine::V6 { network, bits: 128 } => write!(out, "{network}"),
            Machine::V6 { network, bits } => write!(out, "{network}/{bits}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_an_address_are_one_machine_and_so_is_a_network() {
        let at = |text: &str, bits| Machine::at(text.parse().unwrap(), bits).to_string();
        for same in ["192.0.2.7", "::ffff:192.0.2.7", "64:ff9b::c000:207", "2002:c000:207:9::1"] {
            assert_eq!(at(same, 64), "192.0.2.7", "{same}");
        }
        assert_eq!(at("2001:db8:1:2:3:4:5:6", 64), "2001:db8:1:2::/64");
        assert_eq!(at("2001:db8:1:2:3:4:5:6", 128), "2001:db8:1:2:3:4:5:6");
        assert_eq!(at("2001:db8:1:ffff::", 49), "2001:db8:1:8000::/49");
        assert_eq!(at("::1", 64), "::/64");
    }
}

//! Which addresses a crawler may contact (those of the public internet and no others), and which of
//! them count as one server for pacing.
//!
//! A page can name any host, and any host can claim any address. Without this check a link could
//! make the crawler send requests to the machine it runs on, to its network's routers or to a
//! cloud's metadata service. The lists are IANA's special-purpose registries (RFC 6890): every
//! address that they do not call globally reachable is refused. The functions are pure, so any core
//! may call them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns the one spelling of an address, which is used to compare, connect and log. An IPv4
/// address that is written as an IPv6 one (`::ffff:a.b.c.d`) becomes the IPv4 address, because the
/// system connects to that. Every address passes through here where it enters the crawler.
///
/// `::a.b.c.d` is not changed: RFC 4291 2.5.5.1 deprecates that form, and no system connects to the
/// IPv4 address for it (`::1` is one of them).
pub fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// Returns the address that stands for all addresses that share a pace with this one. No connection
/// is made to it.
///
/// A server that has one IPv6 address usually has a whole /64, so IPv6 addresses share a pace if
/// their first `ipv6_prefix` bits are equal. An address that leads to an IPv4 address (through
/// NAT64, or through 6to4, where a whole /48 belongs to the IPv4 address) shares the pace of that
/// address.
pub fn pace_place(address: IpAddr, ipv6_prefix: u8) -> IpAddr {
    debug_assert!((1..=128).contains(&ipv6_prefix), "the settings check the prefix");
    let IpAddr::V6(v6) = canonical(address) else { return canonical(address) };
    let bits = v6.to_bits();
    if is_in(v6, NAT64) {
        return Ipv4Addr::from_bits(bits as u32).into();
    }
    if is_in(v6, SIX_TO_FOUR) {
        return Ipv4Addr::from_bits((bits >> 80) as u32).into();
    }
    let kept = u128::MAX << (128 - u32::from(ipv6_prefix));
    Ipv6Addr::from_bits(bits & kept).into()
}

/// Reports whether an address is public. This is false for an address that is private, local,
/// reserved or not for single hosts, and for an IPv6 address that leads to such an IPv4 address
/// through a tunnel or a translator.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

const REFUSED_V4: [(Ipv4Addr, u32); 15] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),       // this network
    (Ipv4Addr::new(10, 0, 0, 0), 8),      // private, RFC 1918
    (Ipv4Addr::new(100, 64, 0, 0), 10),   // carrier-grade NAT, RFC 6598
    (Ipv4Addr::new(127, 0, 0, 0), 8),     // loopback
    (Ipv4Addr::new(169, 254, 0, 0), 16),  // link-local; metadata services of clouds
    (Ipv4Addr::new(172, 16, 0, 0), 12),   // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),    // IETF protocol assignments
    (Ipv4Addr::new(192, 0, 2, 0), 24),    // documentation, RFC 5737
    (Ipv4Addr::new(192, 88, 99, 0), 24),  // 6to4 relays, withdrawn by RFC 7526
    (Ipv4Addr::new(192, 168, 0, 0), 16),  // private
    (Ipv4Addr::new(198, 18, 0, 0), 15),   // benchmarks, RFC 2544
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),  // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 4),     // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4),     // reserved; 255.255.255.255 is broadcast
];

/// The refused blocks inside 2000::/3, the only block of global unicast addresses. Loopback, unique
/// local, link-local and multicast addresses lie outside of 2000::/3, so they are refused without
/// an entry here.
const REFUSED_V6: [(Ipv6Addr, u32); 3] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // IETF protocol assignments; not for the web
    (Ipv6Addr::new(0x2001, 0x0db8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation, RFC 9637
];

const GLOBAL_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
/// An IPv4 address in the form of an IPv6 one. The system connects to the IPv4 address.
const MAPPED: (Ipv6Addr, u32) = (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96);
/// RFC 6052's well-known prefix. A network's own NAT64 prefix cannot be told apart from other
/// addresses.
const NAT64: (Ipv6Addr, u32) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);
const SIX_TO_FOUR: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16);
const TEREDO: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32);

fn is_public_v4(address: Ipv4Addr) -> bool {
    let bits = address.to_bits();
    REFUSED_V4.iter().all(|(block, len)| (bits ^ block.to_bits()) >> (32 - len) != 0)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let bits = address.to_bits();
    if is_in(address, MAPPED) || is_in(address, NAT64) {
        return is_public_v4(Ipv4Addr::from_bits(bits as u32));
    }
    if is_in(address, SIX_TO_FOUR) {
        return is_public_v4(Ipv4Addr::from_bits((bits >> 80) as u32));
    }
    if is_in(address, TEREDO) {
        // RFC 4380 4: the address holds the server's address, and the client's with every bit
        // flipped.
        let server = Ipv4Addr::from_bits((bits >> 64) as u32);
        let client = Ipv4Addr::from_bits(!(bits as u32));
        return is_public_v4(server) && is_public_v4(client);
    }
    is_in(address, GLOBAL_V6) && !REFUSED_V6.iter().any(|block| is_in(address, *block))
}

fn is_in(address: Ipv6Addr, (block, len): (Ipv6Addr, u32)) -> bool {
    (address.to_bits() ^ block.to_bits()) >> (128 - len) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(text: &str) -> bool {
        is_public(text.parse().unwrap())
    }

    #[test]
    fn both_ends_of_every_refused_ipv4_block_are_refused_and_their_neighbours_are_not() {
        #[rustfmt::skip]
        let blocks = [
            // Before, first, last, after. A dash stands for a neighbour that is refused itself.
            ("-", "0.0.0.0", "0.255.255.255", "1.0.0.0"),
            ("9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0"),
            ("100.63.255.255", "100.64.0.0", "100.127.255.255", "100.128.0.0"),
            ("126.255.255.255", "127.0.0.0", "127.255.255.255", "128.0.0.0"),
            ("169.253.255.255", "169.254.0.0", "169.254.255.255", "169.255.0.0"),
            ("172.15.255.255", "172.16.0.0", "172.31.255.255", "172.32.0.0"),
            ("191.255.255.255", "192.0.0.0", "192.0.0.255", "192.0.1.0"),
            ("192.0.1.255", "192.0.2.0", "192.0.2.255", "192.0.3.0"),
            ("192.88.98.255", "192.88.99.0", "192.88.99.255", "192.88.100.0"),
            ("192.167.255.255", "192.168.0.0", "192.168.255.255", "192.169.0.0"),
            ("198.17.255.255", "198.18.0.0", "198.19.255.255", "198.20.0.0"),
            ("198.51.99.255", "198.51.100.0", "198.51.100.255", "198.51.101.0"),
            ("203.0.112.255", "203.0.113.0", "203.0.113.255", "203.0.114.0"),
            ("223.255.255.255", "224.0.0.0", "239.255.255.255", "-"),
            ("-", "240.0.0.0", "255.255.255.255", "-"),
        ];
        for (before, first, last, after) in blocks {
            for refused in [first, last] {
                assert!(!verdict(refused), "{refused}");
                assert!(!verdict(&format!("::ffff:{refused}")), "mapped {refused}");
                assert!(!verdict(&format!("64:ff9b::{refused}")), "translated {refused}");
            }
            for public in [before, after].into_iter().filter(|text| *text != "-") {
                assert!(verdict(public), "{public}");
                assert!(verdict(&format!("::ffff:{public}")), "mapped {public}");
                assert!(verdict(&format!("64:ff9b::{public}")), "translated {public}");
            }
        }
    }

    #[test]
    fn ipv6_addresses_outside_of_global_unicast_are_refused() {
        for refused in [
            "::",
            "::1",
            "::8.8.8.8",
            "64:ff9b:1::808:808",
            "100::1",
            "fc00::1",
            "fdff::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "1fff:ffff::1",
            "4000::1",
            "2001:1::1",
            "2001:1ff:ffff::1",
            "2001:db8::1",
            "2001:db8:ffff::1",
            "3fff::1",
            "3fff:fff:ffff::1",
        ] {
            assert!(!verdict(refused), "{refused}");
        }
        for public in ["2000::1", "2001:200::1", "2001:4860:4860::8888", "2a00:1450::1", "3ffe::1"]
        {
            assert!(verdict(public), "{public}");
        }
    }

    fn place(text: &str, prefix: u8) -> String {
        pace_place(text.parse().unwrap(), prefix).to_string()
    }

    #[test]
    fn an_address_has_one_spelling() {
        let canonical = |text: &str| canonical(text.parse().unwrap()).to_string();
        assert_eq!(canonical("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(canonical("::ffff:c000:207"), "192.0.2.7");
        for same in ["192.0.2.7", "::1", "::", "::c000:207", "64:ff9b::c000:207", "2001:db8::7"] {
            assert_eq!(canonical(same), same);
        }
    }

    #[test]
    fn addresses_of_one_server_have_one_pace() {
        for same in ["192.0.2.7", "::ffff:192.0.2.7", "64:ff9b::192.0.2.7", "2002:c000:207::5"] {
            assert_eq!(place(same, 64), "192.0.2.7", "{same}");
            assert_eq!(place(same, 128), "192.0.2.7", "{same}");
        }
        assert_eq!(place("2001:db8:1:2:3:4:5:6", 64), "2001:db8:1:2::");
        assert_eq!(place("2001:db8:1:2:ffff::6", 64), "2001:db8:1:2::");
        assert_eq!(place("2001:db8:1:3::6", 64), "2001:db8:1:3::");
        assert_eq!(place("2001:db8:1:2:3:4:5:6", 48), "2001:db8:1::");
        assert_eq!(place("2001:db8:1:2:3:4:5:6", 128), "2001:db8:1:2:3:4:5:6");
    }

    #[test]
    fn tunnels_are_judged_by_the_ipv4_addresses_inside() {
        assert!(!verdict("2002:7f00:1::1"), "6to4 to 127.0.0.1");
        assert!(!verdict("2002:c0a8:101::1"), "6to4 to 192.168.1.1");
        assert!(verdict("2002:808:808::1"), "6to4 to 8.8.8.8");
        // Server 8.8.8.8, client 8.8.4.4 (flipped: f7f7:fbfb).
        assert!(verdict("2001:0:808:808:0:0:f7f7:fbfb"));
        assert!(!verdict("2001:0:808:808:0:0:80ff:fffe"), "a client at 127.0.0.1");
        assert!(!verdict("2001:0:a00:1:0:0:f7f7:fbfb"), "a server at 10.0.0.1");
    }
}

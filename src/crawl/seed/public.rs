//! Which seeds lead to other people's servers. A crawl of such seeds needs a contact in the
//! User-Agent.

use crate::proto::url::{HostKind, Url};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Names that never lead to a public host (RFC 6761 6, RFC 8375).
const RESERVED: [&str; 5] = ["test", "localhost", "invalid", "example", "home.arpa"];

/// Reports whether `url` leads to a public server. This is false for loopback and private addresses
/// and for names reserved for tests. Names are not resolved: if in doubt, a seed counts as public.
pub fn is_public(url: &Url) -> bool {
    match url.host_kind() {
        HostKind::Ipv4(address) => is_public_v4(address),
        HostKind::Ipv6(address) => is_public_v6(address),
        HostKind::Domain => {
            let host = url.host().trim_end_matches('.');
            !RESERVED.iter().any(|name| {
                let rest = host.strip_suffix(name);
                rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            })
        }
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    let shared = a == 100 && (64..128).contains(&b);
    !(address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_unspecified()
        || shared)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    match address.to_ipv4_mapped() {
        Some(address) => is_public_v4(address),
        None => {
            !(address.is_loopback()
                || address.is_unspecified()
                || address.is_unique_local()
                || address.is_unicast_link_local())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public(url: &str) -> bool {
        is_public(&Url::parse(url).unwrap())
    }

    #[test]
    fn loopback_private_and_reserved_names_need_no_contact() {
        for url in [
            "http://127.0.0.1/",
            "http://10.1.2.3:8080/",
            "http://100.64.0.1/",
            "http://[::1]/",
            "http://[fd00::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://localhost/",
            "http://h1.site.test/",
            "http://h1.site.test./",
            "http://a.invalid/",
        ] {
            assert!(!public(url), "{url}");
        }
    }

    #[test]
    fn everything_else_is_public() {
        for url in [
            "http://example.org/",
            "http://latest/",
            "http://protest.com/",
            "http://test.com/",
            "http://8.8.8.8/",
            "http://100.128.0.1/",
            "http://[2606:4700::1111]/",
        ] {
            assert!(public(url), "{url}");
        }
    }
}

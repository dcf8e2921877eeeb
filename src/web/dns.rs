//! The synthetic web's name server: every host has one IPv4 address, and nothing else exists.

use crate::dnswire::{self, Kind, Rcode};
use crate::web::Web;
use crate::web::chance::{chance, mix};
use std::net::Ipv4Addr;

pub const DNS_TTL_SECONDS: u32 = 300;

/// What the web knows of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    Found(Ipv4Addr),
    /// The name exists, but not with this kind of address.
    NoData,
    NoName,
}

/// How a question arrived: an answer over UDP may be cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    Udp,
    Tcp,
}

impl Web {
    /// `kind` is `None` for a question that is not for addresses.
    pub fn resolve(&self, name: &str, kind: Option<Kind>) -> Resolution {
        match (self.host_index(name), kind) {
            (None, _) => Resolution::NoName,
            (Some(host), Some(Kind::A)) => Resolution::Found(self.address(host)),
            (Some(_), _) => Resolution::NoData,
        }
    }

    /// The answer to a DNS message; `None` for bytes that are no question and deserve silence.
    pub fn answer_dns(&self, message: &[u8], carrier: Carrier) -> Option<Vec<u8>> {
        let query = dnswire::decode_query(message).ok()?;
        let resolution = self.resolve(&query.name, query.kind);
        let truncated = carrier == Carrier::Udp && self.is_truncated(&query.name);
        let (rcode, address) = match resolution {
            Resolution::Found(address) => (Rcode::NoError, Some(address.into())),
            Resolution::NoData => (Rcode::NoError, None),
            Resolution::NoName => (Rcode::NoName, None),
        };
        let addresses = address.as_slice();
        Some(dnswire::encode_answer(&query, addresses, DNS_TTL_SECONDS, rcode, truncated))
    }

    fn is_truncated(&self, name: &str) -> bool {
        let draw = |host| mix(mix(self.spec().seed, 50), u64::from(host));
        let host = self.host_index(name);
        host.is_some_and(|host| chance(draw(host), self.spec().dns_truncated_fraction))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dnswire::{DnsOutcome, decode_answer, encode_query};
    use crate::web::WebSpec;

    fn ask(web: &Web, name: &str, kind: Kind, carrier: Carrier) -> dnswire::Answer {
        let mut query = Vec::new();
        encode_query(77, name, kind, &mut query).unwrap();
        let answer = web.answer_dns(&query, carrier).unwrap();
        decode_answer(&answer, 77, name, kind).unwrap()
    }

    #[test]
    fn names_have_their_address_and_others_do_not_exist() {
        let web = Web::new(WebSpec::default()).unwrap();
        let found = ask(&web, "h000123.site30.test", Kind::A, Carrier::Udp);
        assert_eq!(found.outcome, DnsOutcome::Found);
        assert_eq!(found.addresses, [web.address(123)]);
        let outcome = |name, kind| ask(&web, name, kind, Carrier::Udp).outcome;
        assert_eq!(outcome("h000123.site30.test", Kind::Aaaa), DnsOutcome::NoData);
        assert_eq!(outcome("h000123.site31.test", Kind::A), DnsOutcome::NoName);
        assert_eq!(web.answer_dns(b"not a question", Carrier::Udp), None);
    }

    #[test]
    fn cut_answers_are_whole_over_tcp() {
        let web = Web::new(WebSpec { dns_truncated_fraction: 1.0, ..WebSpec::default() }).unwrap();
        let outcome = |carrier| ask(&web, "h000001.site0.test", Kind::A, carrier).outcome;
        assert_eq!(outcome(Carrier::Udp), DnsOutcome::Truncated);
        assert_eq!(outcome(Carrier::Tcp), DnsOutcome::Found);
    }
}

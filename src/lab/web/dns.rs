//! The synthetic web's name server. Every host has one IPv4 address (a host with weather has two,
//! one at a time), and no other name exists.

use crate::base::Time;
use crate::lab::web::Web;
use crate::lab::web::chance::{chance, mix};
use crate::lab::web::hostile::Lie;
use crate::lab::web::weather::NameSpell;
use crate::proto::dnswire::{self, Kind, Rcode};
use std::net::Ipv4Addr;

/// What the web's zone says about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    Found(Ipv4Addr),
    /// The name exists, but not with this kind of address.
    NoData,
    NoName,
}

/// The protocol by which a question arrived. An answer over UDP may be truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    Udp,
    Tcp,
}

impl Web {
    /// Looks a name up. `kind` is `None` for a question about something other than addresses.
    pub fn resolve(&self, name: &str, kind: Option<Kind>) -> Resolution {
        match (self.host_index(name), kind) {
            (None, _) => Resolution::NoName,
            (Some(host), Some(Kind::A)) => Resolution::Found(self.address(host)),
            (Some(_), _) => Resolution::NoData,
        }
    }

    /// Answers a DNS message. The flag says whether the answer is to be sent from another port than
    /// the one that was asked. The result is `None` for bytes that are no question and for
    /// questions that get no answer.
    pub(super) fn reply_dns(
        &self,
        message: &[u8],
        carrier: Carrier,
        now: Time,
    ) -> Option<(Vec<u8>, bool)> {
        if let Some(hostile) = self.hostile() {
            let query = dnswire::decode_query(message).ok()?;
            match hostile.answer_dns(message, &query, carrier) {
                Lie::NotOurs => {}
                Lie::Silence => return None,
                Lie::Answer(bytes) => return Some((bytes, false)),
                Lie::FromElsewhere(bytes) => return Some((bytes, true)),
            }
        }
        Some((self.answer_dns(message, carrier, now)?, false))
    }

    /// Returns the honest answer to a DNS message, or `None` for bytes that are no question.
    pub fn answer_dns(&self, message: &[u8], carrier: Carrier, now: Time) -> Option<Vec<u8>> {
        let query = dnswire::decode_query(message).ok()?;
        let ttl_seconds = self.spec().dns_ttl_seconds;
        let spell = self.host_index(&query.name).map(|host| (host, self.name_spell(host, now)));
        let mut resolution = self.resolve(&query.name, query.kind);
        let mut truncated = self.is_truncated(&query.name);
        match spell {
            Some((_, NameSpell::Failing(rcode))) => {
                return Some(dnswire::encode_answer(&query, &[], ttl_seconds, rcode, false));
            }
            Some((host, NameSpell::Aliased { count })) if query.kind == Some(Kind::A) => {
                let address = self.address(host).into();
                return Some(dnswire::encode_aliases(&query, count, address, ttl_seconds));
            }
            Some((host, NameSpell::Moved)) if query.kind == Some(Kind::A) => {
                resolution = Resolution::Found(self.second_address(host));
            }
            Some((_, NameSpell::Truncated)) => truncated = true,
            _ => {}
        }
        let truncated = truncated && carrier == Carrier::Udp;
        let (rcode, address) = match resolution {
            Resolution::Found(address) => (Rcode::NoError, Some(address.into())),
            Resolution::NoData => (Rcode::NoError, None),
            Resolution::NoName => (Rcode::NoName, None),
        };
        let addresses = address.as_slice();
        Some(dnswire::encode_answer(&query, addresses, ttl_seconds, rcode, truncated))
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
    use crate::lab::web::WebSpec;
    use crate::proto::dnswire::{DnsOutcome, decode_answer, encode_query};

    fn ask(web: &Web, name: &str, kind: Kind, carrier: Carrier) -> dnswire::Answer {
        ask_at(web, name, kind, carrier, Time::ZERO).unwrap()
    }

    fn ask_at(
        web: &Web,
        name: &str,
        kind: Kind,
        carrier: Carrier,
        now: Time,
    ) -> Result<dnswire::Answer, dnswire::DnsError> {
        let mut query = Vec::new();
        encode_query(77, name, kind, &mut query).unwrap();
        let answer = web.answer_dns(&query, carrier, now).unwrap();
        decode_answer(&answer, 77, name, kind)
    }

    #[test]
    fn names_have_their_address_and_others_do_not_exist() {
        let web = Web::new(WebSpec { dns_ttl_seconds: 77, ..WebSpec::default() }).unwrap();
        let found = ask(&web, "h000123.site30.test", Kind::A, Carrier::Udp);
        assert_eq!(found.outcome, DnsOutcome::Found);
        assert_eq!(
            (found.addresses.as_slice(), found.ttl_seconds),
            (&[web.address(123).into()][..], 77)
        );
        let outcome = |name, kind| ask(&web, name, kind, Carrier::Udp).outcome;
        assert_eq!(outcome("h000123.site30.test", Kind::Aaaa), DnsOutcome::NoData);
        assert_eq!(outcome("h000123.site31.test", Kind::A), DnsOutcome::NoName);
        assert_eq!(web.answer_dns(b"not a question", Carrier::Udp, Time::ZERO), None);
    }

    #[test]
    fn cut_answers_are_whole_over_tcp() {
        let web = Web::new(WebSpec { dns_truncated_fraction: 1.0, ..WebSpec::default() }).unwrap();
        let outcome = |carrier| ask(&web, "h000001.site0.test", Kind::A, carrier).outcome;
        assert_eq!(outcome(Carrier::Udp), DnsOutcome::Truncated);
        assert_eq!(outcome(Carrier::Tcp), DnsOutcome::Found);
    }

    #[test]
    fn names_fail_move_and_hide_behind_aliases_as_their_weather_has_it() {
        let storm = WebSpec::profile("storm").unwrap();
        let web = Web::new(WebSpec { host_count: 100, page_count: 100, ..storm }).unwrap();
        let mut seen = [0; 6];
        for (host, step) in (0..100).flat_map(|host| (0..40).map(move |step| (host, step))) {
            let now = Time::from_ms(step * 600_000);
            let answer = ask_at(&web, &web.host_name(host), Kind::A, Carrier::Tcp, now);
            let kind = match web.name_spell(host, now) {
                NameSpell::Failing(Rcode::NoName) => {
                    assert_eq!(answer.unwrap().outcome, DnsOutcome::NoName);
                    0
                }
                NameSpell::Failing(_) => {
                    assert_eq!(answer.unwrap().outcome, DnsOutcome::ServerFailure);
                    1
                }
                NameSpell::Moved => {
                    assert_eq!(answer.unwrap().addresses, [web.second_address(host)]);
                    2
                }
                NameSpell::Aliased { count: 13.. } => {
                    assert_eq!(answer, Err(dnswire::DnsError::AliasLimit));
                    3
                }
                spell => {
                    assert_eq!(answer.unwrap().addresses, [web.address(host)]);
                    4 + usize::from(matches!(spell, NameSpell::Aliased { .. }))
                }
            };
            seen[kind] += 1;
        }
        assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
    }
}

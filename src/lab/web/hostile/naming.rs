//! A name server that lies: it answers the questions for hostile names, in bytes.
//!
//! The messages are written by hand and not with the crawler's DNS library. What is wrong here must
//! be wrong on the wire, and a library might not write it.

use crate::lab::web::dns::Carrier;
use crate::proto::dnswire::{Kind, Query};
use std::net::IpAddr;

/// How a row's name resolves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// The name resolves to the row's own address.
    Own,
    /// The owner name of the answer is a compression pointer to itself.
    Loop,
    /// The right answer under another message id.
    WrongId,
    /// The right answer, sent from another port than the one that was asked.
    WrongPort,
    /// Truncated over UDP, whole over TCP.
    Cut,
    /// Truncated over TCP as well.
    CutAlways,
    /// This number of aliases before the address.
    Chain(u8),
    /// An alias that points to itself.
    ChainLoop,
    /// An address that belongs to someone else.
    Fixed(IpAddr),
    /// The row's own address, spelled as an IPv6 address: `::ffff:a.b.c.d`.
    Mapped,
    /// The row's own address the first time, and from then on the crawler's own machine
    /// (127.0.0.1).
    Rebound,
}

const TTL_SECONDS: u32 = 1;
const TYPE_A: u16 = 1;
const TYPE_CNAME: u16 = 5;
const TYPE_AAAA: u16 = 28;
/// A compression pointer to the name in the question, which starts right after the header.
const QUESTION_POINTER: [u8; 2] = [0xc0, 12];
const HEADER_BYTES: usize = 12;
const FLAG_TRUNCATED: u16 = 0x0200;
const FLAGS: u16 = 0x8180;

/// Answers `query`, which came as `message`. `asked_count` is how many questions for addresses of
/// this name were answered before.
pub(super) fn answer(
    naming: Naming,
    own: IpAddr,
    message: &[u8],
    query: &Query,
    carrier: Carrier,
    asked_count: u32,
) -> Option<Vec<u8>> {
    let address = match naming {
        Naming::Fixed(address) => address,
        Naming::Mapped => match own {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().into(),
            own => own,
        },
        Naming::Rebound if asked_count > 0 => IpAddr::from([127, 0, 0, 1]),
        _ => own,
    };
    let mut reply = Reply::new(message)?;
    let is_cut = naming == Naming::CutAlways || (naming == Naming::Cut && carrier == Carrier::Udp);
    if is_cut {
        reply.set_flags(FLAGS | FLAG_TRUNCATED);
        return Some(reply.bytes);
    }
    if naming == Naming::WrongId {
        reply.bytes[1] ^= 0xff;
    }
    if !query.kind.is_some_and(|kind| kind.holds(address)) {
        return Some(reply.bytes);
    }
    let address_type = if query.kind == Some(Kind::Aaaa) { TYPE_AAAA } else { TYPE_A };
    let data: Vec<u8> = match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    match naming {
        Naming::Loop => {
            let here = 0xc000 | reply.bytes.len() as u16;
            reply.push(&here.to_be_bytes(), address_type, &data);
        }
        Naming::ChainLoop => reply.push(&QUESTION_POINTER, TYPE_CNAME, &QUESTION_POINTER),
        Naming::Chain(count) => {
            let mut owner = QUESTION_POINTER.to_vec();
            for link in 0..count {
                let target = alias(link);
                reply.push(&owner, TYPE_CNAME, &target);
                owner = target;
            }
            reply.push(&owner, address_type, &data);
        }
        _ => reply.push(&QUESTION_POINTER, address_type, &data),
    }
    Some(reply.bytes)
}

/// Returns the name `a<link>.test` in wire format.
fn alias(link: u8) -> Vec<u8> {
    let label = format!("a{link}");
    let mut name = vec![label.len() as u8];
    name.extend_from_slice(label.as_bytes());
    name.extend_from_slice(b"\x04test\0");
    name
}

/// A reply: header and question as they were asked, followed by answers.
struct Reply {
    bytes: Vec<u8>,
}

impl Reply {
    fn new(message: &[u8]) -> Option<Reply> {
        let mut end = HEADER_BYTES;
        while *message.get(end)? != 0 {
            end += 1 + usize::from(*message.get(end)?);
        }
        // The root label, the type and the class.
        end += 5;
        let mut reply = Reply { bytes: message.get(..end)?.to_vec() };
        reply.set_flags(FLAGS);
        reply.bytes[4..HEADER_BYTES].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
        Some(reply)
    }

    fn set_flags(&mut self, flags: u16) {
        self.bytes[2..4].copy_from_slice(&flags.to_be_bytes());
    }

    fn push(&mut self, owner: &[u8], record_type: u16, data: &[u8]) {
        self.bytes.extend_from_slice(owner);
        self.bytes.extend_from_slice(&record_type.to_be_bytes());
        self.bytes.extend_from_slice(&[0, 1]);
        self.bytes.extend_from_slice(&TTL_SECONDS.to_be_bytes());
        self.bytes.extend_from_slice(&(data.len() as u16).to_be_bytes());
        self.bytes.extend_from_slice(data);
        self.bytes[7] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::dnswire::{DnsError, DnsOutcome, decode_answer, decode_query, encode_query};

    const OWN: [u8; 4] = [127, 200, 0, 9];

    fn ask(naming: Naming, carrier: Carrier, asked_count: u32) -> Result<Vec<IpAddr>, DnsError> {
        let mut message = Vec::new();
        encode_query(0x1234, "x.hostile.test", Kind::A, &mut message).unwrap();
        let query = decode_query(&message).unwrap();
        let bytes = answer(naming, OWN.into(), &message, &query, carrier, asked_count).unwrap();
        let answer = decode_answer(&bytes, 0x1234, "x.hostile.test", Kind::A)?;
        assert_eq!(answer.outcome == DnsOutcome::Found, !answer.addresses.is_empty());
        Ok(answer.addresses)
    }

    #[test]
    fn every_naming_is_wrong_in_its_own_way_and_no_other() {
        let own = Ok(vec![IpAddr::from(OWN)]);
        let udp = |naming| ask(naming, Carrier::Udp, 0);
        assert_eq!(udp(Naming::Own), own);
        assert_eq!(udp(Naming::WrongPort), own, "the bytes are right");
        assert_eq!(udp(Naming::Loop), Err(DnsError::Malformed));
        assert_eq!(udp(Naming::WrongId), Err(DnsError::WrongId));
        assert_eq!(
            (udp(Naming::Cut), ask(Naming::Cut, Carrier::Tcp, 0)),
            (Ok(vec![]), own.clone())
        );
        assert_eq!(ask(Naming::CutAlways, Carrier::Tcp, 0), Ok(vec![]));
        assert_eq!(udp(Naming::Chain(8)), own);
        assert_eq!(udp(Naming::Chain(40)), Err(DnsError::AliasLimit));
        assert_eq!(udp(Naming::ChainLoop), Err(DnsError::AliasLimit));
        let elsewhere = IpAddr::from([10, 0, 0, 1]);
        assert_eq!(udp(Naming::Fixed(elsewhere)), Ok(vec![elsewhere]));
        assert_eq!(udp(Naming::Rebound), own);
        let later = ask(Naming::Rebound, Carrier::Udp, 1);
        assert_eq!(later, Ok(vec![IpAddr::from([127, 0, 0, 1])]));
    }
}

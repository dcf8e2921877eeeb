//! The crawler's side: writes a question, and reads the reply to it.

use super::{Answer, DnsError, DnsOutcome, Kind, labels, wire_name};
use crate::base::limits::{
    DNS_ADDRESS_COUNT_MAX, DNS_ALIAS_COUNT_MAX, DNS_RECORD_COUNT_MAX, DNS_UDP_BYTES_MAX,
};
use hickory_proto::op::{
    Edns, Header, Message, MessageType, Metadata, OpCode, Query as Question, ResponseCode,
};
use hickory_proto::rr::{DNSClass, Name, RData, Record};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder, BinEncodable, BinEncoder};
use std::net::IpAddr;

/// Writes a recursive query for `name` to `out`, replacing what was in it. The case of `name` is
/// kept, so a caller may scramble it against forgery; [`decode_answer`] ignores case.
pub fn encode_query(id: u16, name: &str, kind: Kind, out: &mut Vec<u8>) -> Result<(), DnsError> {
    let mut message = Message::new(id, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Question::query(wire_name(name)?, kind.record_type()));
    let mut edns = Edns::new();
    edns.set_max_payload(DNS_UDP_BYTES_MAX);
    message.set_edns(edns);
    out.clear();
    message.emit(&mut BinEncoder::new(out)).map_err(|_| DnsError::BadName)
}

/// Reads the reply to the query that [`encode_query`] wrote from the same `id`, `name` and `kind`.
///
/// An error means that the message is not a usable reply to this question. Over UDP the caller
/// should keep waiting for the real reply until the deadline.
pub fn decode_answer(bytes: &[u8], id: u16, name: &str, kind: Kind) -> Result<Answer, DnsError> {
    let mut decoder = BinDecoder::new(bytes);
    let header = Header::read(&mut decoder).map_err(|_| DnsError::Malformed)?;
    check_header(&header.metadata, id)?;
    let asked = read_question(&mut decoder, &header, name, kind)?;
    if header.metadata.truncation && asked.is_some() {
        // The rest may be cut anywhere, so it is not read.
        return Ok(without_addresses(DnsOutcome::Truncated, 0));
    }
    let answers = read_section(&mut decoder, header.counts.answers)?;
    let authorities = read_section(&mut decoder, header.counts.authorities)?;
    let code = extended_code(&mut decoder, &header);
    if let Some(outcome) = failure(code) {
        return Ok(without_addresses(outcome, 0));
    }
    // Failures may come without the question (RFC 1035 4.1.1, FORMERR); answers may not.
    let asked = asked.ok_or(DnsError::WrongQuestion)?;
    let chain = follow_aliases(&asked, kind, &answers)?;
    if code == ResponseCode::NXDomain {
        // RFC 6604 3: the code is about the name at the end of the chain.
        return Ok(negative(DnsOutcome::NoName, &chain, &authorities));
    }
    if chain.addresses.is_empty() {
        let outcome = if is_referral(&answers, &authorities) {
            DnsOutcome::ServerFailure
        } else {
            DnsOutcome::NoData
        };
        return Ok(negative(outcome, &chain, &authorities));
    }
    let outcome = DnsOutcome::Found;
    Ok(Answer { outcome, addresses: chain.addresses, ttl_seconds: chain.ttl_seconds })
}

fn without_addresses(outcome: DnsOutcome, ttl_seconds: u32) -> Answer {
    Answer { outcome, addresses: Vec::new(), ttl_seconds }
}

fn check_header(metadata: &Metadata, id: u16) -> Result<(), DnsError> {
    if metadata.id != id {
        return Err(DnsError::WrongId);
    }
    if metadata.message_type != MessageType::Response || metadata.op_code != OpCode::Query {
        return Err(DnsError::WrongType);
    }
    Ok(())
}

/// Reads the question. Returns its name as the server spelt it, or `None` if the server repeated no
/// question.
fn read_question(
    decoder: &mut BinDecoder<'_>,
    header: &Header,
    name: &str,
    kind: Kind,
) -> Result<Option<Name>, DnsError> {
    match header.counts.queries {
        0 => return Ok(None),
        1 => {}
        _ => return Err(DnsError::WrongQuestion),
    }
    let question = Question::read(decoder).map_err(|_| DnsError::Malformed)?;
    let same_kind =
        question.query_type == kind.record_type() && question.query_class == DNSClass::IN;
    let mut wanted = labels(name)?;
    let mut got = question.name.iter();
    let same_name = loop {
        match (wanted.next(), got.next()) {
            (None, None) => break true,
            (Some(wanted), Some(got)) if wanted.eq_ignore_ascii_case(got) => {}
            _ => break false,
        }
    };
    if !(same_kind && same_name) {
        return Err(DnsError::WrongQuestion);
    }
    Ok(Some(question.name))
}

fn read_section(decoder: &mut BinDecoder<'_>, count: u16) -> Result<Vec<Record>, DnsError> {
    let count = usize::from(count);
    if count > DNS_RECORD_COUNT_MAX {
        return Err(DnsError::TooManyRecords);
    }
    let (records, _, _) = Message::read_records(decoder, count, false, OpCode::Query)
        .map_err(|_| DnsError::Malformed)?;
    Ok(records)
}

/// Returns the response code with the high bits of EDNS. The additional records are read only for
/// these: if they are broken, the code stays as in the header.
fn extended_code(decoder: &mut BinDecoder<'_>, header: &Header) -> ResponseCode {
    let low = header.metadata.response_code;
    let count = usize::from(header.counts.additionals);
    if count > DNS_RECORD_COUNT_MAX {
        return low;
    }
    match Message::read_records(decoder, count, true, OpCode::Query) {
        Ok((_, Some(edns), _)) => ResponseCode::from(edns.rcode_high(), low.low()),
        _ => low,
    }
}

fn failure(code: ResponseCode) -> Option<DnsOutcome> {
    match code {
        ResponseCode::NoError | ResponseCode::NXDomain => None,
        ResponseCode::ServFail => Some(DnsOutcome::ServerFailure),
        ResponseCode::FormErr | ResponseCode::NotImp => Some(DnsOutcome::NotUnderstood),
        ResponseCode::BADVERS | ResponseCode::BADSIG => Some(DnsOutcome::NotUnderstood),
        _ => Some(DnsOutcome::Refused),
    }
}

/// The chain from the name asked for to the end of its aliases.
struct Chain {
    end: Name,
    addresses: Vec<IpAddr>,
    /// The shortest time of all records used; `u32::MAX` while none has been used.
    ttl_seconds: u32,
}

/// Follows the aliases. Records come in any order, so each step looks through the whole section: at
/// most the alias limit times the record limit of comparisons, most of which fail at the first
/// label.
fn follow_aliases(asked: &Name, kind: Kind, answers: &[Record]) -> Result<Chain, DnsError> {
    let mut chain = Chain { end: asked.clone(), addresses: Vec::new(), ttl_seconds: u32::MAX };
    for _ in 0..=DNS_ALIAS_COUNT_MAX {
        let mut alias: Option<(&Name, u32)> = None;
        for record in answers.iter().filter(|record| record.dns_class == DNSClass::IN) {
            let (address, target) = match &record.data {
                RData::A(a) if kind == Kind::A => (Some(IpAddr::V4(a.0)), None),
                RData::AAAA(aaaa) if kind == Kind::Aaaa => (Some(IpAddr::V6(aaaa.0)), None),
                RData::CNAME(target) => (None, Some(&target.0)),
                _ => continue,
            };
            if !record.name.eq_ignore_root(&chain.end) {
                continue;
            }
            if let Some(address) = address {
                chain.ttl_seconds = chain.ttl_seconds.min(sane_ttl(record.ttl));
                if chain.addresses.len() < DNS_ADDRESS_COUNT_MAX {
                    chain.addresses.push(address);
                }
            }
            alias = alias.or(target.map(|target| (target, sane_ttl(record.ttl))));
        }
        match alias {
            Some((target, ttl_seconds)) if chain.addresses.is_empty() => {
                chain.ttl_seconds = chain.ttl_seconds.min(ttl_seconds);
                chain.end = target.clone();
            }
            _ => return Ok(chain),
        }
    }
    Err(DnsError::AliasLimit)
}

/// Returns the time to live. RFC 2181 8: a time with the top bit set counts as zero.
fn sane_ttl(ttl_seconds: u32) -> u32 {
    if ttl_seconds > i32::MAX as u32 { 0 } else { ttl_seconds }
}

/// Makes a negative answer. RFC 2308 5: it holds for the smaller of the SOA's own time and its
/// minimum field, and without an SOA is not kept at all. An alias that led here may expire sooner.
fn negative(outcome: DnsOutcome, chain: &Chain, authorities: &[Record]) -> Answer {
    let soa_seconds = authorities.iter().find_map(|record| match &record.data {
        RData::SOA(soa) if record.name.zone_of(&chain.end) => {
            Some(sane_ttl(record.ttl).min(sane_ttl(soa.minimum)))
        }
        _ => None,
    });
    without_addresses(outcome, soa_seconds.unwrap_or(0).min(chain.ttl_seconds))
}

/// Reports a referral. RFC 2308 2.2: name servers without an SOA and without an answer refer us to
/// another server; they do not say that there is no address.
fn is_referral(answers: &[Record], authorities: &[Record]) -> bool {
    let any = |wanted: fn(&RData) -> bool| authorities.iter().any(|record| wanted(&record.data));
    answers.is_empty()
        && any(|data| matches!(data, RData::NS(_)))
        && !any(|data| matches!(data, RData::SOA(_)))
}

//! The name server's side, for the synthetic web: reads a query, and writes the answer to it.

use super::{DnsError, Kind, Rcode};
use crate::base::limits::DNS_UDP_BYTES_MAX;
use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query as Question};
use hickory_proto::rr::rdata::{CNAME, SOA};
use hickory_proto::rr::{DNSClass, Name, RData, Record};
use hickory_proto::serialize::binary::{BinEncodable, BinEncoder};
use std::net::IpAddr;

/// A question that a client sent us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    pub id: u16,
    /// The name in lower case, without the last dot.
    pub name: String,
    /// `None` for record types other than addresses; these are answered with no address.
    pub kind: Option<Kind>,
    pub recursion_desired: bool,
    /// The longest answer that the client takes over UDP. A server over TCP sets `u16::MAX`.
    pub answer_bytes_max: u16,
    edns: bool,
    /// The question as asked: the answer repeats its case.
    question: Question,
}

pub fn decode_query(bytes: &[u8]) -> Result<Query, DnsError> {
    // This is checked before the message is read, because hickory reserves room for as many
    // questions as the count says.
    if bytes.get(4..6) != Some(&[0, 1]) {
        return Err(DnsError::WrongQuestion);
    }
    let message = Message::from_vec(bytes).map_err(|_| DnsError::Malformed)?;
    let metadata = &message.metadata;
    if metadata.message_type != MessageType::Query || metadata.op_code != OpCode::Query {
        return Err(DnsError::WrongType);
    }
    let answer_bytes_max = message.max_payload().clamp(512, DNS_UDP_BYTES_MAX);
    let (id, recursion_desired) = (metadata.id, metadata.recursion_desired);
    let edns = message.edns.is_some();
    let Ok([question]) = <[Question; 1]>::try_from(message.queries) else {
        return Err(DnsError::WrongQuestion);
    };
    if question.query_class != DNSClass::IN {
        return Err(DnsError::WrongQuestion);
    }
    let name = host_text(&question.name)?;
    let kind = Kind::of(question.query_type);
    Ok(Query { id, name, kind, recursion_desired, answer_bytes_max, edns, question })
}

/// Makes the answer to `query`, with the `addresses` that are of the kind asked for. Without any,
/// it is a negative answer whose SOA carries `ttl_seconds`. An answer longer than the client takes
/// is cut and marked as truncated. With `truncated` it is marked in any case, and carries no
/// address.
pub fn encode_answer(
    query: &Query,
    addresses: &[IpAddr],
    ttl_seconds: u32,
    rcode: Rcode,
    truncated: bool,
) -> Vec<u8> {
    let mut message = Message::new(query.id, MessageType::Response, OpCode::Query);
    message.metadata.recursion_desired = query.recursion_desired;
    message.metadata.recursion_available = true;
    message.metadata.truncation = truncated;
    message.metadata.response_code = rcode.response_code();
    message.add_query(query.question.clone());
    let name = &query.question.name;
    if rcode == Rcode::NoError && !truncated {
        for address in addresses {
            if query.kind.is_some_and(|kind| kind.holds(*address)) {
                let data = match address {
                    IpAddr::V4(v4) => RData::A((*v4).into()),
                    IpAddr::V6(v6) => RData::AAAA((*v6).into()),
                };
                message.add_answer(Record::from_rdata(name.clone(), ttl_seconds, data));
            }
        }
    }
    let is_negative = matches!(rcode, Rcode::NoError | Rcode::NoName) && message.answers.is_empty();
    if is_negative && !truncated {
        // The top label is above every name asked for, so its SOA is valid for any of them.
        let zone = name.trim_to(1);
        let soa = SOA::new(zone.clone(), zone.clone(), 1, 3_600, 600, 86_400, ttl_seconds);
        message.add_authority(Record::from_rdata(zone, ttl_seconds, RData::SOA(soa)));
    }
    finish(query, message)
}

/// Makes the answer to `query` behind a chain of `alias_count` CNAMEs.
pub fn encode_aliases(
    query: &Query,
    alias_count: u32,
    address: IpAddr,
    ttl_seconds: u32,
) -> Vec<u8> {
    let mut message = Message::new(query.id, MessageType::Response, OpCode::Query);
    message.metadata.recursion_desired = query.recursion_desired;
    message.metadata.recursion_available = true;
    message.add_query(query.question.clone());
    let mut name = query.question.name.clone();
    for index in 0..alias_count {
        // If the name becomes too long, the chain ends, and the client sees a shorter one.
        let Ok(alias) = name.prepend_label(format!("a{index}")) else { break };
        let data = RData::CNAME(CNAME(alias.clone()));
        message.add_answer(Record::from_rdata(name, ttl_seconds, data));
        name = alias;
    }
    let data = match address {
        IpAddr::V4(v4) => RData::A(v4.into()),
        IpAddr::V6(v6) => RData::AAAA(v6.into()),
    };
    message.add_answer(Record::from_rdata(name, ttl_seconds, data));
    finish(query, message)
}

fn finish(query: &Query, mut message: Message) -> Vec<u8> {
    if query.edns {
        let mut edns = Edns::new();
        edns.set_max_payload(DNS_UDP_BYTES_MAX);
        message.set_edns(edns);
    }
    emit(&message, query.answer_bytes_max)
}

/// Encodes a message. If it does not fit, the encoder writes as much as fits and marks it as
/// truncated. If it cannot be written at all, the result is empty, which no client takes for an
/// answer.
fn emit(message: &Message, bytes_max: u16) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    let mut encoder = BinEncoder::new(&mut out);
    encoder.set_max_size(bytes_max);
    let written = message.emit(&mut encoder);
    if written.is_err() {
        out.clear();
    }
    out
}

/// Returns the name as a host name; an error if a label has a byte that no host name has.
fn host_text(name: &Name) -> Result<String, DnsError> {
    let mut text = String::with_capacity(name.len());
    for label in name.iter() {
        if !text.is_empty() {
            text.push('.');
        }
        for &byte in label {
            if !byte.is_ascii_graphic() || byte == b'.' || byte == b'\\' {
                return Err(DnsError::BadName);
            }
            text.push(char::from(byte.to_ascii_lowercase()));
        }
    }
    if text.is_empty() { Err(DnsError::BadName) } else { Ok(text) }
}

//! DNS messages: the query for the address of a host, and the reading of the reply.
//!
//! This module owns the wire format and nothing else: no socket, no cache, no clock. Host names and
//! kinds go in and bytes come out; bytes go in and an [`Answer`] or a typed refusal comes out.
//! `hickory-proto` reads and writes the format. This module adds what a crawler needs: the check
//! that the reply is to our question, the alias chain, the time to live of positive and negative
//! answers, and bounds.
//!
//! Invariant: every address in an [`Answer`] belongs to the name that was asked for, by a chain of
//! aliases inside the same message. Records about any other name are ignored, whatever section they
//! come in.
//!
//! The server's side (`decode_query`, `encode_answer`) is for the synthetic web's name server.
//!
//! Any core may use it; all types are plain values.

mod client;
mod frame;
mod server;
#[cfg(test)]
mod tests;

pub use client::{decode_answer, encode_query};
pub use frame::{FrameReader, encode_frame};
pub use server::{Query, decode_query, encode_aliases, encode_answer};

use crate::base::limits::DNS_NAME_BYTES_MAX;
use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{Name, RecordType};
use std::fmt;
use std::net::IpAddr;

/// The address family asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    A,
    Aaaa,
}

impl Kind {
    /// Reports whether `address` is of the family that this kind of record holds.
    pub fn holds(self, address: IpAddr) -> bool {
        match self {
            Kind::A => address.is_ipv4(),
            Kind::Aaaa => address.is_ipv6(),
        }
    }

    fn record_type(self) -> RecordType {
        match self {
            Kind::A => RecordType::A,
            Kind::Aaaa => RecordType::AAAA,
        }
    }

    fn of(record_type: RecordType) -> Option<Kind> {
        match record_type {
            RecordType::A => Some(Kind::A),
            RecordType::AAAA => Some(Kind::Aaaa),
            _ => None,
        }
    }
}

/// What a server said about a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub outcome: DnsOutcome,
    /// In the server's order, at most [`crate::base::limits::DNS_ADDRESS_COUNT_MAX`]. Not empty if
    /// and only if the outcome is [`DnsOutcome::Found`].
    pub addresses: Vec<IpAddr>,
    /// How long the answer holds: the shortest time of the alias chain and the addresses, or the
    /// negative time of RFC 2308 for [`DnsOutcome::NoName`] and [`DnsOutcome::NoData`]. Zero if the
    /// server gave none. The cache clamps it.
    pub ttl_seconds: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DnsOutcome {
    Found,
    /// The name does not exist.
    NoName,
    /// The name exists and has no address of this kind.
    NoData,
    /// The answer did not fit, so the question must be asked again over TCP. Nothing else in it is
    /// used.
    Truncated,
    /// SERVFAIL, or a referral from a server that does not recurse; another server should be asked.
    ServerFailure,
    /// FORMERR, NOTIMP or BADVERS: the server does not understand us, perhaps because of EDNS.
    NotUnderstood,
    /// REFUSED and all other codes; another server should be asked.
    Refused,
}

/// The response code that the synthetic web's name server answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rcode {
    NoError,
    FormatError,
    ServerFailure,
    NoName,
    NotImplemented,
    Refused,
}

impl Rcode {
    fn response_code(self) -> ResponseCode {
        match self {
            Rcode::NoError => ResponseCode::NoError,
            Rcode::FormatError => ResponseCode::FormErr,
            Rcode::ServerFailure => ResponseCode::ServFail,
            Rcode::NoName => ResponseCode::NXDomain,
            Rcode::NotImplemented => ResponseCode::NotImp,
            Rcode::Refused => ResponseCode::Refused,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DnsError {
    /// The name is not a host name: it has an empty or long label or a byte that is not printable,
    /// or is too long as a whole.
    BadName,
    /// The bytes are not a DNS message: it is cut, or has a compression loop or an impossible
    /// record.
    Malformed,
    /// A section has more records than the limit.
    TooManyRecords,
    /// The reply has another id than the question, so it is stray or forged.
    WrongId,
    /// The message is a query where a response is due or the other way round, or not a standard
    /// query.
    WrongType,
    /// The question in the reply is not the one that was asked.
    WrongQuestion,
    /// The chain has more aliases than the limit; a loop of aliases ends here too.
    AliasLimit,
    /// A TCP frame is longer than the limit, or shorter than a header.
    FrameSize,
}

impl fmt::Display for DnsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            DnsError::BadName => "not a host name",
            DnsError::Malformed => "not a DNS message",
            DnsError::TooManyRecords => "too many records",
            DnsError::WrongId => "reply with another id",
            DnsError::WrongType => "not a standard query or its response",
            DnsError::WrongQuestion => "reply to another question",
            DnsError::AliasLimit => "alias chain too long or looped",
            DnsError::FrameSize => "frame too long or too short",
        })
    }
}

impl std::error::Error for DnsError {}

/// Returns the labels of a host name as text, after checking that it can be one on the wire.
/// Escapes and non-ASCII names are refused: hosts come from URLs, where they are Punycode already.
fn labels(name: &str) -> Result<impl Iterator<Item = &[u8]>, DnsError> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let fits = (1..=DNS_NAME_BYTES_MAX).contains(&name.len());
    let printable = name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let labelled = name.split('.').all(|label| (1..=63).contains(&label.len()));
    if !(fits && printable && labelled) {
        return Err(DnsError::BadName);
    }
    Ok(name.split('.').map(str::as_bytes))
}

fn wire_name(name: &str) -> Result<Name, DnsError> {
    let mut wire = Name::new();
    for label in labels(name)? {
        wire = wire.append_label(label).map_err(|_| DnsError::BadName)?;
    }
    wire.set_fqdn(true);
    Ok(wire)
}

//! The upstream resolvers that look names up for us: where they are, and one query to one of them.
//!
//! A query goes out over UDP from a socket of its own. The system draws the port, we draw the id,
//! and only the server's datagrams reach the socket, so a forger has to guess some 30 bits in the
//! time of one answer. If an answer was truncated, the query is repeated over TCP.
//!
//! Owned by the resolver of one core.

use crate::base::Time;
use crate::base::limits::{
    DNS_SILENCE_COUNT_MAX, DNS_STRAY_COUNT_MAX, DNS_UPSTREAM_COUNT_MAX, DNS_UPSTREAM_REST_MS,
};
use crate::io::{Datagram, NetError, Stream, World, deadline_in_ms};
use crate::proto::dnswire::{self, Answer, DnsError, DnsOutcome, FrameReader, Kind};
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::Duration;

pub const DNS_PORT: u16 = 53;

/// Returns the name servers of a resolv.conf(5), in its order, at most [`DNS_UPSTREAM_COUNT_MAX`].
/// Lines that name no server are skipped, as the C library does. An empty list means that the file
/// names no server at all; the caller decides what to do then.
pub fn from_resolv_conf(bytes: &[u8]) -> Vec<SocketAddr> {
    let servers = bytes.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let is_server = line.starts_with(b"nameserver") && words.next()? == b"nameserver";
        is_server.then(|| server(std::str::from_utf8(words.next()?).ok()?))?
    });
    servers.take(DNS_UPSTREAM_COUNT_MAX).collect()
}

/// Parses `1.2.3.4`, `2001:db8::1` or `fe80::1%3`. A zone by name is not known here, so it is
/// refused.
fn server(text: &str) -> Option<SocketAddr> {
    if let Some((address, zone)) = text.split_once('%') {
        let address = SocketAddrV6::new(address.parse().ok()?, DNS_PORT, 0, zone.parse().ok()?);
        return Some(address.into());
    }
    Some(SocketAddr::new(text.parse().ok()?, DNS_PORT))
}

/// One name and one kind of address, as a DNS query. Its id is drawn anew for each request.
pub(super) struct Question<'a> {
    host: &'a str,
    kind: Kind,
    wire: Vec<u8>,
}

impl Question<'_> {
    pub fn new(host: &str, kind: Kind) -> Result<Question<'_>, DnsError> {
        let mut wire = Vec::new();
        dnswire::encode_query(0, host, kind, &mut wire)?;
        Ok(Question { host, kind, wire })
    }

    fn draw_id(&mut self, random: u64) -> u16 {
        let id = random as u16;
        self.wire[..2].copy_from_slice(&id.to_be_bytes());
        id
    }

    fn read(&self, message: &[u8], id: u16) -> Result<Answer, DnsError> {
        dnswire::decode_answer(message, id, self.host, self.kind)
    }
}

/// One upstream resolver, and whether it has been answering.
pub(super) struct Upstream {
    at: SocketAddr,
    /// Queries in a row without an answer.
    silence_count: Cell<u32>,
    rests_until: Cell<Time>,
}

impl Upstream {
    pub fn new(at: SocketAddr) -> Upstream {
        Upstream { at, silence_count: Cell::new(0), rests_until: Cell::new(Time::ZERO) }
    }

    /// Reports whether it is better to ask other upstreams first, because this one has been silent
    /// lately.
    pub fn is_resting(&self, now: Time) -> bool {
        now < self.rests_until.get()
    }

    /// Returns the server's answer to the query: found, no such name or no such address. Returns
    /// `None` if no answer came in time, or only one that says nothing about the name.
    pub async fn ask<W: World>(
        &self,
        world: &W,
        question: &mut Question<'_>,
        timeout_ms: u64,
    ) -> Option<Answer> {
        let id = question.draw_id(world.random_u64());
        let deadline = deadline_in_ms(world, timeout_ms);
        let heard = self.ask_by_datagram(world, question, id, deadline).await;
        self.note(heard.as_ref().err(), world.now());
        let mut answer = heard.ok()?;
        if answer.outcome == DnsOutcome::Truncated {
            let deadline = deadline_in_ms(world, timeout_ms);
            answer = self.ask_by_stream(world, question, id, deadline).await.ok()?;
        }
        match answer.outcome {
            DnsOutcome::Found | DnsOutcome::NoName | DnsOutcome::NoData => Some(answer),
            DnsOutcome::Truncated
            | DnsOutcome::ServerFailure
            | DnsOutcome::NotUnderstood
            | DnsOutcome::Refused => None,
        }
    }

    async fn ask_by_datagram<W: World>(
        &self,
        world: &W,
        question: &Question<'_>,
        id: u16,
        deadline: Time,
    ) -> Result<Answer, NetError> {
        let socket = world.datagram(any_port(self.at.ip()), Some(self.at))?;
        socket.send(&question.wire, self.at)?;
        for _ in 0..DNS_STRAY_COUNT_MAX {
            let (message, _) = socket.receive(deadline).await?;
            match question.read(&message, id) {
                Ok(answer) => return Ok(answer),
                // This is the reply to our query, and another one would be no better.
                Err(DnsError::AliasLimit | DnsError::TooManyRecords) => {
                    return Ok(without_addresses(DnsOutcome::ServerFailure));
                }
                // A late, damaged or forged datagram: the true answer may still come.
                Err(_) => {}
            }
        }
        Ok(without_addresses(DnsOutcome::Truncated))
    }

    async fn ask_by_stream<W: World>(
        &self,
        world: &W,
        question: &Question<'_>,
        id: u16,
        deadline: Time,
    ) -> Result<Answer, NetError> {
        let unusable = || without_addresses(DnsOutcome::ServerFailure);
        let mut frame = Vec::new();
        if dnswire::encode_frame(&question.wire, &mut frame).is_err() {
            return Ok(unusable());
        }
        let mut stream = world.connect(self.at, deadline).await?;
        stream.send(frame, deadline).await?;
        let mut reader = FrameReader::new();
        while let Some(chunk) = stream.receive(deadline).await? {
            match reader.push(&mut &chunk[..]) {
                Ok(None) => {}
                // One query has one answer: if the first message is not it, there is none.
                Ok(Some(message)) => {
                    return Ok(question.read(message, id).unwrap_or_else(|_| unusable()));
                }
                Err(_) => return Ok(unusable()),
            }
        }
        Err(NetError::Closed)
    }

    fn note(&self, error: Option<&NetError>, now: Time) {
        match error {
            None => {
                self.silence_count.set(0);
                self.rests_until.set(Time::ZERO);
            }
            // Our own lack of sockets says nothing about the server.
            Some(NetError::Exhausted) => {}
            Some(_) => {
                self.silence_count.set(self.silence_count.get().saturating_add(1));
                if self.silence_count.get() >= DNS_SILENCE_COUNT_MAX {
                    self.rests_until.set(now + Duration::from_millis(DNS_UPSTREAM_REST_MS));
                }
            }
        }
    }
}

fn without_addresses(outcome: DnsOutcome) -> Answer {
    Answer { outcome, addresses: Vec::new(), ttl_seconds: 0 }
}

fn any_port(peer: IpAddr) -> SocketAddr {
    match peer {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(text: &str) -> Vec<String> {
        from_resolv_conf(text.as_bytes()).iter().map(SocketAddr::to_string).collect()
    }

    #[test]
    fn name_servers_are_read_in_order_and_all_else_is_skipped() {
        let text = "# made by a daemon\n; nameserver 9.9.9.9\nsearch example.com\n\
            nameserver 192.0.2.1\nnameserver\t2001:db8::1  # first\r\noptions edns0\n\
            nameserver 300.1.1.1\nnameserver\nnameservers 192.0.2.8\nnameserver fe80::1%3\n\
            nameserver fe80::1%eth0\n nameserver 192.0.2.9\nnameserver 192.0.2.2";
        let wanted = ["192.0.2.1:53", "[2001:db8::1]:53", "[fe80::1%3]:53", "192.0.2.2:53"];
        assert_eq!(servers(text), wanted);
    }

    #[test]
    fn a_file_without_servers_or_of_garbage_gives_none() {
        assert!(servers("").is_empty());
        assert!(servers("search a\n").is_empty());
        assert!(from_resolv_conf(b"nameserver \xff\xfe\n\0\0nameserver 1.1.1.1").is_empty());
    }

    #[test]
    fn no_more_servers_are_taken_than_the_limit() {
        assert_eq!(servers(&"nameserver 192.0.2.1\n".repeat(100)).len(), DNS_UPSTREAM_COUNT_MAX);
    }

    #[test]
    fn a_silent_upstream_rests_after_its_third_silence_until_it_is_heard() {
        let upstream = Upstream::new(SocketAddr::from(([192, 0, 2, 53], DNS_PORT)));
        let note = |error: Option<NetError>, at| upstream.note(error.as_ref(), Time::from_ms(at));
        (0..9).for_each(|at| note(Some(NetError::Exhausted), at));
        (10..12).for_each(|at| note(Some(NetError::TimedOut), at));
        assert!(!upstream.is_resting(Time::from_ms(12)));
        note(Some(NetError::Refused), 12);
        assert!(upstream.is_resting(Time::from_ms(12)));
        assert!(!upstream.is_resting(Time::from_ms(12 + DNS_UPSTREAM_REST_MS)));
        note(None, 13);
        assert!(!upstream.is_resting(Time::from_ms(13)));
    }
}

//! One request and its response: the connection, the request, the head, the body, and what to keep
//! of them.

use super::channel::{Channel, Piece};
use super::memory::{BodyHold, GiveWay};
use super::tls::{HandshakeError, TlsChannel};
use super::{Client, Sink, outcome_of};
use crate::base::limits::FETCH_BUFFER_BYTES_KEPT;
use crate::base::{Time, WallTime};
use crate::crawl::flow::Outcome;
use crate::io::{NetError, World};
use crate::proto::http::{Event, HttpError, Method, ResponseHead, ResponseReader, Validators};
use crate::proto::url::{Scheme, Url};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// All that is known of a request after it has ended.
#[derive(Debug)]
pub struct Answer {
    pub outcome: Outcome,
    pub address: SocketAddr,
    /// The wall time at which the request was made.
    pub at: WallTime,
    pub started: Time,
    /// The server had seen the request by this time, so the delay to the next request counts from
    /// here.
    pub seen_by: Time,
    pub ended: Time,
    /// The request as sent; empty if it was never sent.
    pub request: Vec<u8>,
    pub head: Option<ResponseHead>,
    /// Head and body as received, except that the transfer coding is removed (see `unframe`). The
    /// buffer is to be given back with `Client::let_go`.
    pub response: Vec<u8>,
    /// The hold on the memory that the answer uses, from its first byte on.
    pub hold: Option<BodyHold>,
    pub head_len: usize,
    /// Bytes of the request left this machine, whether they arrived or not, so this counts as a
    /// try.
    pub was_sent: bool,
    /// The connection had been kept from an earlier request and was dead. This is no failure of the
    /// server.
    pub was_stale: bool,
    pub connection: Connection,
    pub connect_took: Option<Duration>,
    pub tls_took: Option<Duration>,
    pub first_byte_took: Option<Duration>,
    pub body_took: Option<Duration>,
}

/// How the request was connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    None,
    Opened,
    OpenedTls { resumed: bool },
    Reused,
}

impl Answer {
    /// Reports whether the answer tells nothing about the server, because a kept connection was
    /// dead or because we lacked the means to make the request.
    pub fn says_nothing(&self) -> bool {
        self.was_stale || matches!(self.outcome, Outcome::Shed | Outcome::ShedMemory)
    }

    pub fn status(&self) -> Option<u16> {
        self.head.as_ref().map(ResponseHead::status)
    }
}

/// Makes one request to `url` at `address`. The result says how it ended, whatever happened.
pub(super) async fn run<W: World>(
    client: &Client<W>,
    url: &Url,
    address: IpAddr,
    known: Validators<'_>,
    sink: &mut impl Sink,
) -> Answer {
    let started = client.world.now();
    let mut answer = Answer {
        outcome: Outcome::Fetched,
        address: SocketAddr::new(address, url.port()),
        at: client.world.wall(),
        started,
        seen_by: started,
        ended: started,
        request: Vec::new(),
        head: None,
        response: Vec::new(),
        hold: None,
        head_len: 0,
        was_sent: false,
        was_stale: false,
        connection: Connection::None,
        connect_took: None,
        tls_took: None,
        first_byte_took: None,
        body_took: None,
    };
    let result = ask(client, url, known, sink, &mut answer).await;
    answer.ended = client.world.now();
    if answer.first_byte_took.is_none() {
        answer.seen_by = answer.ended;
    }
    answer.outcome = result.unwrap_or_else(|outcome| outcome);
    unframe(&mut answer);
    if let Some(hold) = &answer.hold {
        hold.arrived();
        hold.note(answer.response.capacity() + sink.held_bytes());
    }
    answer
}

/// Rewrites the head of a response that came in chunks so that it describes what is stored: the
/// payload, with its length. What the server sent stays readable under `X-Crawler-` names, as in
/// Common Crawl's files. If the response were stored with its chunks, the payload digest (of the
/// payload, RFC 9112 7.1) would differ from that of the record's bytes, and warcio, which does not
/// look inside chunks, would report it as wrong.
fn unframe(answer: &mut Answer) {
    let Some(head) = answer.head.as_ref() else { return };
    if head.header("transfer-encoding").is_none() {
        return;
    }
    let mut whole = Vec::with_capacity(answer.head_len + 128);
    for (index, line) in head.raw().split_inclusive(|byte| *byte == b'\n').enumerate() {
        let name = line.split(|byte| *byte == b':').next().unwrap_or(line);
        let framing = [&b"transfer-encoding"[..], b"content-length"];
        if line == b"\r\n" || line == b"\n" {
            break;
        }
        if index > 0 && framing.iter().any(|field| name.eq_ignore_ascii_case(field)) {
            whole.extend_from_slice(b"X-Crawler-");
        }
        whole.extend_from_slice(line);
    }
    let body_len = answer.response.len() - answer.head_len;
    whole.extend_from_slice(format!("Content-Length: {body_len}\r\n\r\n").as_bytes());
    // The head is replaced in place, because a second buffer of a body's size would be counted in
    // no account.
    answer.response.reserve_exact(whole.len().saturating_sub(answer.head_len));
    let head_len = whole.len();
    drop(answer.response.splice(..answer.head_len, whole));
    answer.head_len = head_len;
}

async fn ask<W: World>(
    client: &Client<W>,
    url: &Url,
    known: Validators<'_>,
    sink: &mut impl Sink,
    answer: &mut Answer,
) -> Result<Outcome, Outcome> {
    let address = answer.address.ip();
    let kept = kept(client, url, address).await;
    let reused = kept.is_some();
    let mut channel = match kept {
        Some(channel) => {
            answer.connection = Connection::Reused;
            channel
        }
        None => open(client, url, answer).await?,
    };
    let mut request = Vec::with_capacity(512);
    client.request(url, known).write(&mut request).map_err(|_| Outcome::Malformed)?;
    let asked = client.world.now();
    let deadline = client.deadline(asked, client.timeouts.first_byte_ms);
    let sent = channel.send(request, deadline).await;
    // Exhausted means that there was no buffer for the request, so no byte of it was sent.
    answer.was_sent = !matches!(sent, Err(NetError::Exhausted));
    let first = match sent {
        Ok(request) => {
            answer.request = request;
            channel.receive(deadline).await
        }
        Err(error) => Err(error),
    };
    let first = match first {
        Ok(Some(piece)) => piece,
        Ok(None) | Err(NetError::Reset | NetError::Closed) => {
            answer.was_stale = reused;
            return Err(Outcome::Reset);
        }
        Err(error) => {
            return Err(outcome_of(error, Outcome::FirstByteTimedOut, Outcome::Reset));
        }
    };
    answer.seen_by = client.world.now();
    answer.first_byte_took = Some(answer.seen_by.since(asked));
    let (outcome, reusable) = read(client, &mut channel, first, sink, answer, asked).await?;
    if reusable {
        let now = client.world.now();
        client.pool.borrow_mut().put(url.origin(), address, channel, now);
    }
    Ok(outcome)
}

/// Returns a connection from an earlier request on which nothing has happened since.
async fn kept<W: World>(
    client: &Client<W>,
    url: &Url,
    address: IpAddr,
) -> Option<Channel<W::Stream>> {
    let now = client.world.now();
    let mut channel = client.pool.borrow_mut().take(url.origin(), address, now)?;
    channel.is_quiet(now).await.then_some(channel)
}

async fn open<W: World>(
    client: &Client<W>,
    url: &Url,
    answer: &mut Answer,
) -> Result<Channel<W::Stream>, Outcome> {
    let begun = client.world.now();
    let deadline = client.deadline(begun, client.timeouts.connect_ms);
    let stream = client
        .world
        .connect(answer.address, deadline)
        .await
        .map_err(|error| outcome_of(error, Outcome::ConnectTimedOut, Outcome::ConnectFailed))?;
    let connected = client.world.now();
    answer.connect_took = Some(connected.since(begun));
    answer.connection = Connection::Opened;
    if url.scheme() == Scheme::Http {
        return Ok(Channel::Plain(stream));
    }
    let deadline = client.deadline(connected, client.timeouts.tls_ms);
    let tls = TlsChannel::open(stream, url.host(), &client.tls, deadline).await;
    let tls = tls.map_err(|error| match error {
        HandshakeError::Net(NetError::Exhausted) => Outcome::Shed,
        HandshakeError::Net(NetError::TimedOut) => Outcome::ConnectTimedOut,
        HandshakeError::Net(_) => Outcome::Reset,
        HandshakeError::Tls(cause) => cause,
    })?;
    answer.tls_took = Some(client.world.now().since(connected));
    answer.connection = Connection::OpenedTls { resumed: tls.is_resumed() };
    Ok(Channel::Tls(Box::new(tls)))
}

/// Reads the response that begins with `first`. Returns how it ended and whether the connection may
/// carry another request.
async fn read<W: World>(
    client: &Client<W>,
    channel: &mut Channel<W::Stream>,
    first: Piece<W::Stream>,
    sink: &mut impl Sink,
    answer: &mut Answer,
    asked: Time,
) -> Result<(Outcome, bool), Outcome> {
    let mut reader = ResponseReader::new(Method::Get);
    let mut deadline = client.deadline(asked, client.timeouts.head_ms);
    let mut head_at = None;
    let mut piece = Some(first);
    answer.hold = Some(client.budget.hold(answer.seen_by));
    let outcome = loop {
        if let Some(bytes) = piece.take() {
            let had_head = head_at.is_some();
            let step = take(client, &mut reader, &bytes, sink, answer);
            drop(bytes);
            if !had_head && answer.head.is_some() {
                let now = client.world.now();
                head_at = Some(now);
                deadline = client.deadline(now, client.timeouts.body_ms);
            }
            match step {
                Step::More => {}
                Step::End => break Outcome::Fetched,
                Step::CutLength => break Outcome::CutLength,
                Step::Unwanted => break Outcome::Fetched,
                Step::GivesWay(how) => break given_way(how, answer),
                Step::Failed(error) => return Err(failure(error)),
            }
        }
        let hold = answer.hold.as_ref().expect("the hold is open until Client::let_go");
        let received = match hold.unless_told(channel.receive(deadline)).await {
            Ok(received) => received,
            Err(how) => break given_way(how, answer),
        };
        match received {
            Ok(Some(bytes)) => piece = Some(bytes),
            Ok(None) => match reader.eof() {
                Ok(()) => break Outcome::Fetched,
                Err(error) => return Err(failure(error)),
            },
            Err(NetError::TimedOut) if head_at.is_none() => return Err(Outcome::HeadTimedOut),
            Err(NetError::TimedOut) => break Outcome::CutTime,
            Err(error) => {
                let otherwise =
                    if head_at.is_some() { Outcome::Incomplete } else { Outcome::Reset };
                return Err(match error {
                    NetError::Exhausted => Outcome::Shed,
                    _ => otherwise,
                });
            }
        }
    };
    answer.body_took = head_at.map(|head_at| client.world.now().since(head_at));
    Ok((outcome, reader.is_reusable() && outcome == Outcome::Fetched))
}

enum Step {
    More,
    End,
    CutLength,
    /// The sink refuses the body.
    Unwanted,
    /// Memory for bodies is short.
    GivesWay(GiveWay),
    Failed(HttpError),
}

/// Counts an answer that has to give way, and returns its outcome.
fn given_way(how: GiveWay, answer: &Answer) -> Outcome {
    answer.hold.iter().for_each(|hold| hold.gives_way(how));
    match how {
        GiveWay::Cut if answer.head.is_some() => Outcome::CutMemory,
        _ => Outcome::ShedMemory,
    }
}

/// Processes one received piece to its end.
fn take<W: World>(
    client: &Client<W>,
    reader: &mut ResponseReader,
    bytes: &[u8],
    sink: &mut impl Sink,
    answer: &mut Answer,
) -> Step {
    let mut rest = bytes;
    loop {
        let (used, event) = match reader.feed(rest) {
            Ok((used, event)) => (used, capped(event, reader, client.timeouts.body_bytes_max)),
            Err(error) => return Step::Failed(error),
        };
        rest = &rest[used..];
        match event {
            Event::NeedMore => {
                let held_bytes =
                    reader.held_bytes() + answer.response.capacity() + sink.held_bytes();
                return match claim(client, answer, held_bytes) {
                    Ok(()) => Step::More,
                    Err(how) => Step::GivesWay(how),
                };
            }
            Event::End => return Step::End,
            Event::Head => {
                let Some(head) = reader.take_head() else { continue };
                // The buffer is taken only now: most fetches are waiting, and a buffer that was
                // used just now is in the cache.
                answer.response = client.buffers.borrow_mut().pop().unwrap_or_default();
                let body_bytes = reader.body_bytes_left().unwrap_or(0);
                let body_bytes = body_bytes.min(FETCH_BUFFER_BYTES_KEPT as u64);
                let needed_bytes = head.raw().len() + body_bytes as usize;
                if let Err(how) = grow(client, answer, needed_bytes, needed_bytes, sink) {
                    return Step::GivesWay(how);
                }
                answer.response.extend_from_slice(head.raw());
                answer.head_len = head.raw().len();
                let wanted = sink.head(&head);
                answer.head = Some(head);
                if !wanted && !reader.is_complete() {
                    return Step::Unwanted;
                }
            }
            Event::Body(body) => {
                let needed_bytes = answer.response.len() + body.len();
                if needed_bytes > answer.response.capacity() {
                    let most_bytes = longest(client, reader, answer);
                    if let Err(how) = grow(client, answer, needed_bytes, most_bytes, sink) {
                        return Step::GivesWay(how);
                    }
                }
                if let Some(hold) = &answer.hold {
                    hold.received(body.len());
                }
                answer.response.extend_from_slice(body);
                sink.body(body);
                if reader.body_bytes() > client.timeouts.body_bytes_max {
                    return Step::CutLength;
                }
            }
        }
    }
}

/// Returns the greatest length that the response can reach: what was announced, but no more than
/// the limit.
fn longest<W: World>(client: &Client<W>, reader: &ResponseReader, answer: &Answer) -> usize {
    let announced = reader.body_bytes_left().map(|left| left.saturating_add(reader.body_bytes()));
    let body_bytes = announced.unwrap_or(u64::MAX).min(client.timeouts.body_bytes_max);
    answer.head_len.saturating_add(usize::try_from(body_bytes).unwrap_or(usize::MAX))
}

/// Makes room for `needed_bytes` of response. The capacity is doubled, so that a long response is
/// seldom moved, but does not exceed `most_bytes` unless more is needed. The new capacity is
/// claimed first.
fn grow<W: World>(
    client: &Client<W>,
    answer: &mut Answer,
    needed_bytes: usize,
    most_bytes: usize,
    sink: &impl Sink,
) -> Result<(), GiveWay> {
    let capacity = answer.response.capacity();
    let grown = needed_bytes.max(capacity.saturating_mul(2).min(most_bytes)).max(capacity);
    claim(client, answer, grown + sink.held_bytes())?;
    answer.response.reserve_exact(grown - answer.response.len());
    Ok(())
}

fn claim<W: World>(client: &Client<W>, answer: &Answer, held_bytes: usize) -> Result<(), GiveWay> {
    let hold = answer.hold.as_ref().expect("the hold is open until Client::let_go");
    hold.claim(held_bytes, || client.world.now())
}

/// Cuts a body piece where it crosses the limit. Of a piece behind the limit nothing is left.
fn capped<'i>(event: Event<'i>, reader: &ResponseReader, body_bytes_max: u64) -> Event<'i> {
    let Event::Body(body) = event else { return event };
    let over = usize::try_from(reader.body_bytes().saturating_sub(body_bytes_max));
    Event::Body(&body[..body.len().saturating_sub(over.unwrap_or(usize::MAX))])
}

fn failure(error: HttpError) -> Outcome {
    if error.is_head_too_large() {
        Outcome::HeadTooLarge
    } else if error.is_cut() {
        Outcome::Incomplete
    } else {
        Outcome::Malformed
    }
}

//! Serves one client's connection: requests come in, answers go out one after the other, and each
//! exchange goes into the log.
//!
//! The code is written against [`Transport`], which is a plain stream or a TLS stream. Pipelined
//! requests are answered in order; each waits for its own delay. Bytes that are not a valid request
//! are answered with 400 (or 431), and the connection is closed.

use crate::base::limits::{
    WEB_CONNECTION_REQUEST_COUNT_MAX, WEB_IDLE_MS_MAX, WEB_REQUEST_BYTES_MAX,
    WEB_REQUEST_HEADER_COUNT_MAX, WEB_SPARE_BUFFER_COUNT_MAX,
};
use crate::base::race::{First, race};
use crate::base::{Time, WallTime};
use crate::io::{Clock, NetError, Stream, deadline_in_ms};
use crate::lab::web::brain::{Answer, Reply, Request, Web};
use crate::lab::web::hostile::{End, Script, Secrecy};
use crate::lab::web::log::{Asked, Draft, RequestLog};
use crate::lab::web::play::{play, stare};
use crate::lab::web::weather::Sky;
use std::cell::RefCell;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Fields that carry a credential, and `x-injected`, which only a forged request line can produce.
const CREDENTIALS: [&str; 4] = ["authorization", "proxy-authorization", "cookie", "x-injected"];

/// A stream of bytes in both directions, plain or under TLS.
pub(super) trait Transport {
    const IS_HTTPS: bool;

    /// Appends what was received to `inbox`; returns false when the peer will send no more.
    fn receive(
        &mut self,
        inbox: &mut Vec<u8>,
        deadline: Time,
    ) -> impl Future<Output = Result<bool, NetError>>;

    /// Sends all bytes and returns the buffer.
    fn send(
        &mut self,
        bytes: Vec<u8>,
        deadline: Time,
    ) -> impl Future<Output = Result<Vec<u8>, NetError>>;

    /// Ends the conversation in order, if the protocol has a message for that.
    fn finish(&mut self, deadline: Time) -> impl Future<Output = ()>;

    /// Resets the connection without any closing message.
    fn reset(self);

    fn peer(&self) -> SocketAddr;

    fn local(&self) -> SocketAddr;
}

pub(super) struct Plain<S>(pub S);

impl<S: Stream> Transport for Plain<S> {
    const IS_HTTPS: bool = false;

    async fn receive(&mut self, inbox: &mut Vec<u8>, deadline: Time) -> Result<bool, NetError> {
        let Some(chunk) = self.0.receive(deadline).await? else { return Ok(false) };
        inbox.extend_from_slice(&chunk);
        Ok(true)
    }

    async fn send(&mut self, bytes: Vec<u8>, deadline: Time) -> Result<Vec<u8>, NetError> {
        self.0.send(bytes, deadline).await
    }

    async fn finish(&mut self, _: Time) {}

    fn reset(self) {
        self.0.reset();
    }

    fn peer(&self) -> SocketAddr {
        self.0.peer()
    }

    fn local(&self) -> SocketAddr {
        self.0.local()
    }
}

/// What the connections of one core share.
pub(super) struct Desk {
    pub web: Rc<Web>,
    pub log: RefCell<RequestLog>,
    /// Send buffers that are free between two responses, so that an idle connection holds none.
    spares: RefCell<Vec<Vec<u8>>>,
}

/// What is at the front of the bytes received so far.
enum Front<'a> {
    /// The request is not complete yet.
    Part,
    /// The plan for the answer, what the log records of the request, and the request's length in
    /// bytes.
    Whole(Plan, Asked<'a>, usize),
}

/// How a request will be answered.
enum Plan {
    Reply(Reply),
    Script(Script),
}

/// When and where a request arrived.
#[derive(Clone, Copy)]
struct Arrival {
    at: Time,
    wall: WallTime,
    peer: SocketAddr,
    local: SocketAddr,
    is_https: bool,
    /// How many requests came before it on the same connection.
    served_count: u32,
}

impl Desk {
    pub fn new(web: Rc<Web>, log: RequestLog) -> Desk {
        Desk { web, log: RefCell::new(log), spares: RefCell::new(Vec::new()) }
    }

    /// Answers requests until either side closes the connection.
    pub async fn converse<T: Transport>(
        &self,
        mut transport: T,
        clock: &impl Clock,
    ) -> Result<(), NetError> {
        let (peer, local) = (transport.peer(), transport.local());
        let mut inbox = Vec::new();
        let mut asked_at = clock.now();
        let mut received_at = asked_at;
        let mut served_count = 0;
        loop {
            let (is_https, wall) = (T::IS_HTTPS, clock.wall());
            let arrival = Arrival { at: asked_at, wall, peer, local, is_https, served_count };
            let (plan, mut draft, request_bytes) = match self.read(&inbox, arrival) {
                Front::Whole(plan, asked, request_bytes) => {
                    (plan, Draft::new(&self.log, clock, &asked), request_bytes)
                }
                Front::Part => {
                    let idle_end = deadline_in_ms(clock, WEB_IDLE_MS_MAX);
                    let is_first_byte = inbox.is_empty();
                    if !transport.receive(&mut inbox, idle_end).await? {
                        return Ok(());
                    }
                    received_at = clock.now();
                    if is_first_byte {
                        asked_at = received_at;
                    }
                    continue;
                }
            };
            inbox.drain(..request_bytes);
            served_count += 1;
            let mut reply = match plan {
                Plan::Reply(reply) => reply,
                Plan::Script(script) => {
                    match play(script, &mut transport, &mut inbox, draft, clock).await? {
                        End::Keep => {
                            asked_at = clock.now();
                            received_at = asked_at;
                            continue;
                        }
                        End::Reset => transport.reset(),
                        End::Close | End::Hold => {}
                    }
                    return Ok(());
                }
            };
            reply.close |= served_count >= WEB_CONNECTION_REQUEST_COUNT_MAX;
            match self.web.sky(local.ip(), clock.now()) {
                Sky::Up => {}
                Sky::Refusing => return Ok(()),
                Sky::Silent => return fall_silent(&mut transport, clock).await,
            }
            if reply.delay_ms > 0 {
                let answer_at = asked_at + Duration::from_millis(reply.delay_ms.into());
                let met = wait(&mut transport, &mut inbox, clock, answer_at).await?;
                received_at = met.unwrap_or(received_at);
            }
            // Bytes that are still in the inbox came with the last bytes received.
            asked_at = received_at;
            let mut out = self.spares.borrow_mut().pop().unwrap_or_default();
            out.clear();
            self.web.write_response(&reply, &mut out);
            self.tell(&reply, &out, &mut draft);
            draft.begin();
            let send_end = deadline_in_ms(clock, WEB_IDLE_MS_MAX);
            self.give_back(transport.send(out, send_end).await?);
            draft.deliver();
            if reply.close {
                transport.finish(send_end).await;
                return Ok(());
            }
        }
    }

    /// Plans the answer to the request at the front of `inbox`.
    fn read<'a>(&self, inbox: &'a [u8], arrival: Arrival) -> Front<'a> {
        let Arrival { at, wall, peer, local, is_https, served_count } = arrival;
        if inbox.is_empty() {
            return Front::Part;
        }
        let mut headers = [httparse::EMPTY_HEADER; WEB_REQUEST_HEADER_COUNT_MAX];
        let mut head = httparse::Request::new(&mut headers);
        let parsed = head.parse(inbox);
        let (status, request_bytes) = match parsed {
            Ok(httparse::Status::Complete(len)) if len <= WEB_REQUEST_BYTES_MAX => (200, len),
            Ok(httparse::Status::Partial) if inbox.len() < WEB_REQUEST_BYTES_MAX => {
                return Front::Part;
            }
            Ok(_) | Err(httparse::Error::TooManyHeaders) => (431, inbox.len()),
            Err(_) => (400, inbox.len()),
        };
        let request = match status {
            200 => request_of(&head).ok_or(400),
            _ => Err(status),
        };
        let (plan, host, path) = match request {
            Ok(request) => {
                let request = Request { wall, ..request };
                (self.plan(&request, local, served_count, at), request.host, request.target)
            }
            Err(status) => (Plan::Reply(Reply::note(status, 0)), "", head.path.unwrap_or("")),
        };
        let status = match &plan {
            Plan::Reply(reply) => reply.status,
            Plan::Script(script) => script.status,
        };
        let asked = Asked { at, peer, local, is_https, host, path, status };
        Front::Whole(plan, asked, request_bytes)
    }

    /// Selects a hostile host's script, or the web's honest answer.
    fn plan(&self, request: &Request<'_>, local: SocketAddr, served_count: u32, at: Time) -> Plan {
        let hostile = self.web.hostile();
        match hostile.and_then(|hostile| hostile.script(request, local.ip(), served_count)) {
            Some(script) => Plan::Script(script),
            None => Plan::Reply(self.web.respond(request, local.ip(), at)),
        }
    }

    /// At the addresses of hostile hosts that break TLS, leaves the client without an answer, or
    /// gives it one that is not TLS. At any other address it returns the stream.
    pub async fn stall<S: Stream>(&self, stream: S, clock: &impl Clock) -> Option<S> {
        let at = stream.local().ip();
        let secrecy = self.web.hostile().map(|hostile| hostile.secrecy_at(at));
        match secrecy {
            Some(Secrecy::Stalled) => stare(&mut Plain(stream), clock).await,
            Some(Secrecy::NotTls) => {
                let plain = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_vec();
                let mut stream = Plain(stream);
                // A send error is ignored: the client has gone, and needs no answer.
                let _ = stream.send(plain, Time::NEVER).await;
                stare(&mut stream, clock).await;
            }
            _ => return Some(stream),
        }
        None
    }

    /// Puts into the log what an answer obliges its client to do. Most answers oblige to nothing,
    /// so a page costs one comparison.
    fn tell(&self, reply: &Reply, answer: &[u8], draft: &mut Draft<'_, impl Clock>) {
        let has_rules = matches!(reply.answer, Answer::Robots { .. });
        if has_rules && (reply.chunked || reply.gzip) {
            let mut plain = Vec::new();
            self.web.write_response(&Reply { chunked: false, gzip: false, ..*reply }, &mut plain);
            draft.tell(&plain, has_rules);
        } else if has_rules || reply.status != 200 {
            draft.tell(answer, has_rules);
        }
    }

    fn give_back(&self, buffer: Vec<u8>) {
        let mut spares = self.spares.borrow_mut();
        if spares.len() < WEB_SPARE_BUFFER_COUNT_MAX {
            spares.push(buffer);
        }
    }
}

/// Waits until an answer is due. It notices a client that leaves meanwhile, so that the log knows
/// when the client left. Bytes that the client sends meanwhile go to `inbox`; the result is the
/// time when the first of them came.
pub(super) async fn wait(
    transport: &mut impl Transport,
    inbox: &mut Vec<u8>,
    clock: &impl Clock,
    until: Time,
) -> Result<Option<Time>, NetError> {
    let mut received_at = None;
    // A client that sends too far ahead is not read from until it is answered.
    while inbox.len() < WEB_REQUEST_BYTES_MAX {
        let was_empty = inbox.is_empty();
        match race(clock.sleep_until(until), transport.receive(inbox, Time::NEVER)).await {
            First::Left(()) => return Ok(received_at),
            First::Right(Ok(true)) if was_empty => received_at = Some(clock.now()),
            First::Right(Ok(true)) => {}
            First::Right(Ok(false)) => return Err(NetError::Closed),
            First::Right(Err(error)) => return Err(error),
        }
    }
    clock.sleep_until(until).await;
    Ok(received_at)
}

/// Receives and never answers, until the client leaves.
async fn fall_silent(transport: &mut impl Transport, clock: &impl Clock) -> Result<(), NetError> {
    let idle_end = deadline_in_ms(clock, WEB_IDLE_MS_MAX);
    let mut unheard = Vec::new();
    while transport.receive(&mut unheard, idle_end).await? {
        unheard.clear();
    }
    Ok(())
}

/// Reads the parts of a head that the brain needs; returns `None` if the head names no host or
/// announces a body.
fn request_of<'a>(head: &httparse::Request<'_, 'a>) -> Option<Request<'a>> {
    let mut request = Request {
        method: head.method?,
        target: head.path?,
        close: head.version != Some(1),
        ..Request::default()
    };
    let mut host = None;
    for header in head.headers.iter() {
        let value = header.value;
        let name = header.name;
        if name.eq_ignore_ascii_case("host") {
            // RFC 9112 3.2: a request with two Host lines is an error.
            if host.replace(std::str::from_utf8(value).ok()?).is_some() {
                return None;
            }
        } else if name.eq_ignore_ascii_case("accept-encoding") {
            request.accepts_gzip = memchr::memmem::find(value, b"gzip").is_some();
        } else if name.eq_ignore_ascii_case("connection") {
            request.close |= value.eq_ignore_ascii_case(b"close");
        } else if CREDENTIALS.iter().any(|field| name.eq_ignore_ascii_case(field)) {
            request.has_credential = true;
        } else if name.eq_ignore_ascii_case("if-none-match") {
            request.etag = etag(value);
        } else if name.eq_ignore_ascii_case("transfer-encoding")
            || (name.eq_ignore_ascii_case("content-length") && value != b"0")
        {
            return None;
        }
    }
    request.host = host?;
    Some(request)
}

/// Reads a tag such as `"0123456789abcdef"`, weak or strong.
fn etag(value: &[u8]) -> Option<u64> {
    let value = std::str::from_utf8(value).ok()?;
    let value = value.strip_prefix("W/").unwrap_or(value);
    u64::from_str_radix(value.strip_prefix('"')?.strip_suffix('"')?, 16).ok()
}

//! One client's connection: requests in, answers out, one after the other, each in the log.
//!
//! Written against [`Transport`], which is a plain stream or one under TLS. Pipelined requests are
//! answered in order; each waits out its own delay. Anything that is no request is answered 400 (or
//! 431) and the connection closed.

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

/// Fields that carry a credential, and one that only a forged request line can bring.
const CREDENTIALS: [&str; 4] = ["authorization", "proxy-authorization", "cookie", "x-injected"];

/// Bytes both ways, whatever is beneath.
pub(super) trait Transport {
    const IS_HTTPS: bool;

    /// Appends what came to `inbox`; false when the peer will send no more.
    fn receive(
        &mut self,
        inbox: &mut Vec<u8>,
        deadline: Time,
    ) -> impl Future<Output = Result<bool, NetError>>;

    /// Sends all and gives the buffer back.
    fn send(
        &mut self,
        bytes: Vec<u8>,
        deadline: Time,
    ) -> impl Future<Output = Result<Vec<u8>, NetError>>;

    /// Says goodbye where the protocol has a word for it.
    fn finish(&mut self, deadline: Time) -> impl Future<Output = ()>;

    /// Leaves without a word.
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

/// What the connections of one core have in common.
pub(super) struct Desk {
    pub web: Rc<Web>,
    pub log: RefCell<RequestLog>,
    /// Send buffers between two responses: an idle connection holds none.
    spares: RefCell<Vec<Vec<u8>>>,
}

/// What stands at the front of the bytes received so far.
enum Front<'a> {
    /// Not a whole request yet.
    Part,
    /// An answer, who asked for what, and the bytes of the request.
    Whole(Plan, Asked<'a>, usize),
}

/// What will be done about a request.
enum Plan {
    Reply(Reply),
    Script(Script),
}

/// How a request came in.
#[derive(Clone, Copy)]
struct Arrival {
    at: Time,
    wall: WallTime,
    peer: SocketAddr,
    local: SocketAddr,
    is_https: bool,
    /// Requests on the same connection before it.
    served_count: u32,
}

impl Desk {
    pub fn new(web: Rc<Web>, log: RequestLog) -> Desk {
        Desk { web, log: RefCell::new(log), spares: RefCell::new(Vec::new()) }
    }

    /// Answers until either side closes.
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
            // What is left in the inbox came with the last bytes.
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

    /// A hostile host's script, or the web's honest answer.
    fn plan(&self, request: &Request<'_>, local: SocketAddr, served_count: u32, at: Time) -> Plan {
        let hostile = self.web.hostile();
        match hostile.and_then(|hostile| hostile.script(request, local.ip(), served_count)) {
            Some(script) => Plan::Script(script),
            None => Plan::Reply(self.web.respond(request, local.ip(), at)),
        }
    }

    /// Leaves a TLS client without an answer, or gives it one that is no TLS, at the addresses of
    /// the hostile hosts that do so; gives the stream back at any other.
    pub async fn stall<S: Stream>(&self, stream: S, clock: &impl Clock) -> Option<S> {
        let at = stream.local().ip();
        let secrecy = self.web.hostile().map(|hostile| hostile.secrecy_at(at));
        match secrecy {
            Some(Secrecy::Stalled) => stare(&mut Plain(stream), clock).await,
            Some(Secrecy::NotTls) => {
                let plain = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_vec();
                let mut stream = Plain(stream);
                // A client that has gone has its answer already.
                let _ = stream.send(plain, Time::NEVER).await;
                stare(&mut stream, clock).await;
            }
            _ => return Some(stream),
        }
        None
    }

    /// Has the log take down what an answer binds its client to. Most answers bind to nothing: a
    /// page costs a comparison.
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

/// Waits until an answer is due. A client that leaves meanwhile is noticed, so that the log knows
/// when it left. What it sends meanwhile waits in `inbox`; returned is when that began to come.
pub(super) async fn wait(
    transport: &mut impl Transport,
    inbox: &mut Vec<u8>,
    clock: &impl Clock,
    until: Time,
) -> Result<Option<Time>, NetError> {
    let mut received_at = None;
    // A client that sends far ahead is not read from until it is answered.
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

/// The machine hears and never answers, until its client leaves.
async fn fall_silent(transport: &mut impl Transport, clock: &impl Clock) -> Result<(), NetError> {
    let idle_end = deadline_in_ms(clock, WEB_IDLE_MS_MAX);
    let mut unheard = Vec::new();
    while transport.receive(&mut unheard, idle_end).await? {
        unheard.clear();
    }
    Ok(())
}

/// The parts of a head that the brain wants; `None` if it has no host, or announces a body.
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
            // RFC 9112 3.2: two Host lines are an error.
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

/// `"0123456789abcdef"`, weak or not.
fn etag(value: &[u8]) -> Option<u64> {
    let value = std::str::from_utf8(value).ok()?;
    let value = value.strip_prefix("W/").unwrap_or(value);
    u64::from_str_radix(value.strip_prefix('"')?.strip_suffix('"')?, 16).ok()
}

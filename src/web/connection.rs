//! One client's connection: requests in, answers out, one after the other, each in the log.
//!
//! Written against [`Transport`], which is a plain stream or one under TLS. Pipelined requests are
//! answered in order; each waits out its own delay. Anything that is no request is answered 400 (or
//! 431) and the connection closed.

use crate::base::Time;
use crate::io::{Clock, NetError, Stream, deadline_in_ms};
use crate::limits::{
    WEB_CONNECTION_REQUEST_COUNT_MAX, WEB_IDLE_MS_MAX, WEB_REQUEST_BYTES_MAX,
    WEB_REQUEST_HEADER_COUNT_MAX, WEB_SPARE_BUFFER_COUNT_MAX,
};
use crate::web::brain::{Reply, Request, Web};
use crate::web::log::RequestLog;
use std::cell::RefCell;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Bytes both ways, whatever is beneath.
pub(super) trait Transport {
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

    fn peer(&self) -> SocketAddr;

    fn local(&self) -> SocketAddr;
}

pub(super) struct Plain<S>(pub S);

impl<S: Stream> Transport for Plain<S> {
    async fn receive(&mut self, inbox: &mut Vec<u8>, deadline: Time) -> Result<bool, NetError> {
        let Some(chunk) = self.0.receive(deadline).await? else { return Ok(false) };
        inbox.extend_from_slice(&chunk);
        Ok(true)
    }

    async fn send(&mut self, bytes: Vec<u8>, deadline: Time) -> Result<Vec<u8>, NetError> {
        self.0.send(bytes, deadline).await
    }

    async fn finish(&mut self, _: Time) {}

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
enum Front {
    /// Not a whole request yet.
    Part,
    /// An answer, and the bytes of its request.
    Whole(Reply, usize),
}

impl Desk {
    pub fn new(web: Rc<Web>, log: RequestLog) -> Desk {
        Desk { web, log: RefCell::new(log), spares: RefCell::new(Vec::new()) }
    }

    /// Answers until either side closes.
    pub async fn converse(
        &self,
        mut transport: impl Transport,
        clock: &impl Clock,
    ) -> Result<(), NetError> {
        let (peer, local) = (transport.peer(), transport.local());
        let mut inbox = Vec::new();
        let mut asked_at = clock.now();
        let mut received_at = asked_at;
        let mut served_count = 0;
        loop {
            let (mut reply, request_bytes) = match self.read(&inbox, asked_at, peer, local) {
                Front::Whole(reply, request_bytes) => (reply, request_bytes),
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
            reply.close |= served_count >= WEB_CONNECTION_REQUEST_COUNT_MAX;
            if reply.delay_ms > 0 {
                let span = Duration::from_millis(reply.delay_ms.into());
                clock.sleep_until(asked_at + span).await;
            }
            // What is left in the inbox came with the last bytes.
            asked_at = received_at;
            let mut out = self.spares.borrow_mut().pop().unwrap_or_default();
            out.clear();
            self.web.write_response(&reply, &mut out);
            let send_end = deadline_in_ms(clock, WEB_IDLE_MS_MAX);
            self.give_back(transport.send(out, send_end).await?);
            if reply.close {
                transport.finish(send_end).await;
                return Ok(());
            }
        }
    }

    /// Plans the answer to the request at the front of `inbox`, and logs it.
    fn read(&self, inbox: &[u8], at: Time, peer: SocketAddr, local: SocketAddr) -> Front {
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
        let (reply, host, target) = match request {
            Ok(request) => {
                let reply = self.web.respond(&request, local.ip(), at);
                (reply, request.host, request.target)
            }
            Err(status) => (Reply::note(status, 0), "", head.path.unwrap_or("")),
        };
        self.log.borrow_mut().push(at, peer, local, host, target, reply.status);
        Front::Whole(reply, request_bytes)
    }

    fn give_back(&self, buffer: Vec<u8>) {
        let mut spares = self.spares.borrow_mut();
        if spares.len() < WEB_SPARE_BUFFER_COUNT_MAX {
            spares.push(buffer);
        }
    }
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

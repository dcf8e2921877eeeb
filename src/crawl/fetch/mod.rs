//! The fetch stage: one request at a time, over a kept or a new connection, with a bound on every
//! wait.
//!
//! A URL flows in, with the address that its host was resolved to. An [`Answer`] flows out, which
//! is data whatever happened, and the body flows piece by piece into a [`Sink`] while it arrives.
//! Redirects are not followed here: they go back through the frontier. Owned by one core.

mod certificate;
mod channel;
mod exchange;
mod memory;
mod pool;
mod tls;

pub use exchange::{Answer, Connection};
pub use memory::{BodyBudget, BodyHold, BodyTally};
pub use tls::{TlsError, TlsPolicy};

use crate::base::Time;
use crate::crawl::config::Settings;
use crate::crawl::flow::Outcome;
use crate::io::World;
use crate::proto::http::{ACCEPT_ENCODING, Method, Request, ResponseHead, Validators};
use crate::proto::url::Url;
use pool::Pool;
use std::cell::RefCell;
use std::net::IpAddr;
use std::time::Duration;

/// How long each step of a fetch may take, and how much a fetch may bring.
#[derive(Clone, Debug)]
pub struct Timeouts {
    pub connect_ms: u64,
    pub tls_ms: u64,
    /// From the request to the first byte of the response.
    pub first_byte_ms: u64,
    /// From the request to the end of the head.
    pub head_ms: u64,
    /// From the end of the head to the end of the body.
    pub body_ms: u64,
    pub body_bytes_max: u64,
    /// Memory for all bodies under way together.
    pub body_memory_bytes: usize,
    pub keep_alive_count_max: usize,
    pub keep_alive_ms: u64,
}

impl Timeouts {
    pub fn of(settings: &Settings) -> Timeouts {
        Timeouts {
            connect_ms: settings.connect_timeout_ms,
            tls_ms: settings.tls_timeout_ms,
            first_byte_ms: settings.first_byte_timeout_ms,
            head_ms: settings.head_timeout_ms,
            body_ms: settings.body_timeout_ms,
            body_bytes_max: settings.body_bytes_max as u64,
            body_memory_bytes: settings.body_memory_mb << 20,
            keep_alive_count_max: settings.keep_alive_count_max,
            keep_alive_ms: settings.keep_alive_ms,
        }
    }
}

/// Receives a response while it arrives.
pub trait Sink {
    /// Receives the final head. Returning false refuses the body, and the connection is closed.
    fn head(&mut self, head: &ResponseHead) -> bool;

    /// Receives the next body bytes, with the transfer coding removed and the content coding kept.
    fn body(&mut self, piece: &[u8]);

    /// Returns the memory that the sink holds for this body.
    fn held_bytes(&self) -> usize {
        0
    }
}

/// The HTTP client of one core.
pub struct Client<W: World> {
    world: W,
    agent: Box<str>,
    accept_encoding: Box<str>,
    timeouts: Timeouts,
    tls: TlsPolicy,
    pool: RefCell<Pool<W::Stream>>,
    budget: BodyBudget,
    /// Empty response buffers, kept for the next fetches.
    buffers: RefCell<Vec<Vec<u8>>>,
}

impl<W: World> Client<W> {
    pub fn new(world: W, agent: &str, timeouts: Timeouts, tls: TlsPolicy) -> Client<W> {
        let pool = RefCell::new(Pool::new(timeouts.keep_alive_count_max));
        let (agent, accept_encoding) = (agent.into(), ACCEPT_ENCODING.into());
        let (budget, buffers) = (BodyBudget::new(timeouts.body_memory_bytes), RefCell::default());
        Client { world, agent, accept_encoding, timeouts, tls, pool, budget, buffers }
    }

    /// Returns a client that offers servers these content codings instead of the default ones.
    pub fn accepting(self, codings: &str) -> Client<W> {
        Client { accept_encoding: codings.into(), ..self }
    }

    /// Requests `url` at `address`, which the caller has checked. Always ends, because every step
    /// has a deadline.
    pub async fn fetch(&self, url: &Url, address: IpAddr, sink: &mut impl Sink) -> Answer {
        exchange::run(self, url, address, Validators::default(), sink).await
    }

    /// Works like [`Client::fetch`], for a URL of which a version is known, so the answer may be a
    /// 304.
    pub async fn fetch_if_changed(
        &self,
        url: &Url,
        address: IpAddr,
        known: Validators<'_>,
        sink: &mut impl Sink,
    ) -> Answer {
        exchange::run(self, url, address, known, sink).await
    }

    /// Closes the connection that is kept for the origin of `url`, so that the next request opens a
    /// new one.
    pub fn close_kept(&self, url: &Url) {
        self.pool.borrow_mut().remove(url.origin());
    }

    /// Closes connections that have been idle too long.
    pub fn close_idle(&self) {
        let since = self.world.now() - Duration::from_millis(self.timeouts.keep_alive_ms);
        self.pool.borrow_mut().expire(since);
    }

    /// Closes all idle connections.
    pub fn close_all(&self) {
        self.pool.borrow_mut().expire(Time::NEVER);
    }

    /// Returns the memory budget of the bodies under way.
    pub fn budget(&self) -> &BodyBudget {
        &self.budget
    }

    /// Releases what an answer holds once its body is no longer needed: its buffer goes to the next
    /// fetch, its memory to other bodies.
    pub fn let_go(&self, answer: &mut Answer) {
        self.recycle(std::mem::take(&mut answer.response));
        answer.hold = None;
    }

    pub fn idle_count(&self) -> usize {
        self.pool.borrow().len()
    }

    /// Returns the number of connections that were closed because the pool was full.
    pub fn crowded_count(&self) -> u64 {
        self.pool.borrow().crowded_count()
    }

    /// Keeps a response buffer for the next fetch.
    pub fn recycle(&self, mut buffer: Vec<u8>) {
        let mut buffers = self.buffers.borrow_mut();
        if buffers.len() < crate::base::limits::FETCH_BUFFER_COUNT_MAX
            && buffer.capacity() <= crate::base::limits::FETCH_BUFFER_BYTES_KEPT
        {
            buffer.clear();
            buffers.push(buffer);
        }
    }

    fn request<'a>(&'a self, url: &'a Url, validators: Validators<'a>) -> Request<'a> {
        let (agent, accept_encoding) = (&self.agent, &self.accept_encoding);
        Request { method: Method::Get, url, agent, accept_encoding, validators, extra: &[] }
    }

    fn deadline(&self, from: Time, span_ms: u64) -> Time {
        from + Duration::from_millis(span_ms)
    }
}

/// Translates a network error at a given step into an outcome.
fn outcome_of(error: crate::io::NetError, timed_out: Outcome, otherwise: Outcome) -> Outcome {
    use crate::io::NetError;
    match error {
        NetError::TimedOut => timed_out,
        NetError::Exhausted => Outcome::Shed,
        NetError::Refused => Outcome::ConnectRefused,
        NetError::Reset | NetError::Closed => Outcome::Reset,
        _ => otherwise,
    }
}

#[cfg(test)]
mod tests;

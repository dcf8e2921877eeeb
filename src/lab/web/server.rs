//! The server of the synthetic web: listeners for HTTP and HTTPS, and a name server on UDP and TCP.
//!
//! It is generic over the world, so the same code runs over real sockets and in simulation.
//! Connections and DNS questions come in, the brain's answers go out, and each request goes into
//! the log. Each core has its own server, web and log; cores that share a port each listen on it.

use crate::base::Time;
use crate::base::limits::{WEB_IDLE_MS_MAX, WEB_LOG_FLUSH_MS};
use crate::io::{Clock, Datagram, Listener, Net, NetError, Spawn, Stream, deadline_in_ms};
use crate::lab::web::brain::Web;
use crate::lab::web::connection::{Desk, Plain};
use crate::lab::web::dns::Carrier;
use crate::lab::web::log::RequestLog;
use crate::lab::web::tls::{Encrypted, Tls};
use crate::proto::dnswire::{FrameReader, encode_frame};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

/// The pause after the system has no descriptor left: long enough for a connection to end.
const ACCEPT_PAUSE_MS: u64 = 10;

/// One core's server. Clones are cheap and are the same server.
pub struct Server<W> {
    world: W,
    desk: Rc<Desk>,
}

impl<W: Clone> Clone for Server<W> {
    fn clone(&self) -> Server<W> {
        Server { world: self.world.clone(), desk: self.desk.clone() }
    }
}

impl<W: Net + Clock + Spawn + Clone + 'static> Server<W> {
    pub fn new(world: W, web: Rc<Web>, mut log: RequestLog) -> Server<W> {
        log.remark_clock(&world);
        Server { world, desk: Rc::new(Desk::new(web, log)) }
    }

    pub fn web(&self) -> &Web {
        &self.desk.web
    }

    /// Serves plain HTTP until the listener fails.
    pub async fn serve(&self, listener: W::Listener) -> NetError {
        self.accept(listener, |server, stream| async move {
            // An error here means that the client has gone; its requests are in the log.
            let _ = server.desk.converse(Plain(stream), &server.world).await;
        })
        .await
    }

    /// Serves HTTPS until the listener fails.
    pub async fn serve_tls(&self, listener: W::Listener, tls: Rc<Tls>) -> NetError {
        self.accept(listener, move |server, stream| {
            let session = tls.session();
            async move {
                let stream = server.desk.stall(stream, &server.world).await;
                if let (Some(stream), Ok(session)) = (stream, session) {
                    let transport = Encrypted::new(stream, session);
                    let _ = server.desk.converse(transport, &server.world).await;
                }
            }
        })
        .await
    }

    /// Answers DNS questions over UDP until the socket fails.
    pub async fn serve_dns(&self, socket: W::Datagram) -> NetError {
        loop {
            match socket.receive(Time::NEVER).await {
                Ok((message, from)) => {
                    let reply = self.desk.web.reply_dns(&message, Carrier::Udp, self.world.now());
                    // A lost answer is ignored, as the network may lose any datagram: the client
                    // asks again.
                    if let Some((answer, from_elsewhere)) = reply {
                        let _ = if from_elsewhere {
                            let other_port = SocketAddr::new(socket.local().ip(), 0);
                            let other = self.world.datagram(other_port, None);
                            other.and_then(|other| other.send(&answer, from))
                        } else {
                            socket.send(&answer, from)
                        };
                    }
                }
                // The kernel reports the fate of an earlier answer; the socket still works.
                Err(NetError::Refused | NetError::Reset | NetError::TimedOut) => {}
                Err(error) => return error,
            }
        }
    }

    /// Answers DNS questions over TCP until the listener fails.
    pub async fn serve_dns_tcp(&self, listener: W::Listener) -> NetError {
        self.accept(listener, |server, stream| async move {
            let _ = server.answer_frames(stream).await;
        })
        .await
    }

    /// Flushes the log at intervals, in a world that goes on until someone stops it. Returns the
    /// first error.
    pub async fn keep_log(&self) -> io::Error {
        loop {
            self.world.sleep_until(deadline_in_ms(&self.world, WEB_LOG_FLUSH_MS)).await;
            if let Err(error) = self.flush_log() {
                return error;
            }
        }
    }

    pub fn flush_log(&self) -> io::Result<()> {
        self.desk.log.borrow_mut().flush()
    }

    /// Returns how many requests have ended so far, with or without an answer.
    pub fn request_count(&self) -> u64 {
        self.desk.log.borrow().line_count()
    }

    async fn accept<F: Future<Output = ()> + 'static>(
        &self,
        listener: W::Listener,
        attend: impl Fn(Server<W>, W::Stream) -> F,
    ) -> NetError {
        loop {
            match listener.accept().await {
                Ok(stream) => self.world.spawn(attend(self.clone(), stream)),
                Err(NetError::Exhausted) => {
                    let pause_end = deadline_in_ms(&self.world, ACCEPT_PAUSE_MS);
                    self.world.sleep_until(pause_end).await;
                }
                // The client left before it was accepted.
                Err(NetError::Reset | NetError::Closed | NetError::TimedOut) => {}
                Err(error) => return error,
            }
        }
    }

    async fn answer_frames(&self, mut stream: W::Stream) -> Result<(), NetError> {
        let mut reader = FrameReader::new();
        let mut out = Vec::new();
        loop {
            let idle_end = deadline_in_ms(&self.world, WEB_IDLE_MS_MAX);
            let Some(chunk) = stream.receive(idle_end).await? else { return Ok(()) };
            let mut rest = &chunk[..];
            while !rest.is_empty() {
                let answer = match reader.push(&mut rest) {
                    Ok(Some(message)) => {
                        self.desk.web.reply_dns(message, Carrier::Tcp, self.world.now())
                    }
                    Ok(None) => continue,
                    Err(_) => return Ok(()),
                };
                let Some((answer, _)) = answer else { return Ok(()) };
                if encode_frame(&answer, &mut out).is_err() {
                    return Ok(());
                }
                out = stream.send(out, idle_end).await?;
            }
        }
    }
}

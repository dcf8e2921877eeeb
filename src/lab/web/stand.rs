//! The synthetic web on real sockets: one thread, one ring, every host at its own 127.x.y.z.
//!
//! A spec and a plan come in; a running web comes out. [`Stand::start`] binds everything before it
//! returns, so that a crawl may begin at once; the listener accepts connections at loopback
//! addresses only. [`Stand::stop`] flushes the log; after that the log is complete.
#![allow(clippy::disallowed_types)] // another thread starts and stops the web's thread

use crate::io::ring::{
    Care, RingDatagram, RingError, RingListener, RingOutbox, RingWorld, Wake, mailbox,
};
use crate::io::{Datagram, Inbox, Listener, Net, NetError, Outbox, Spawn};
use crate::lab::web::tls::{Authority, Tls};
use crate::lab::web::{Bodies, FileSink, RequestLog, Server, SpecError, Web, WebSpec};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::thread::JoinHandle;

/// How many ports the system is asked for before the start fails.
const PORT_TRIES: usize = 32;

/// Where the web listens, and which files it reads and writes.
#[derive(Clone, Debug, Default)]
pub struct StandPlan {
    /// Port of all hosts; with 0 the system chooses one.
    pub port: u16,
    /// Address of the name server; with port 0 the system chooses one.
    pub dns: Option<SocketAddr>,
    pub log: Option<PathBuf>,
    pub truth: Option<PathBuf>,
    /// The file for the certificate of the web's own authority, if the web uses TLS.
    pub ca_out: Option<PathBuf>,
    /// A folder of files that are served in the place of pages.
    pub bodies: Option<PathBuf>,
    pub core: Option<usize>,
}

pub struct Stand {
    pub seed_url: String,
    pub port: u16,
    /// The port of the hostile hosts that use TLS.
    pub tls_port: u16,
    pub dns: SocketAddr,
    stop: RingOutbox<()>,
    thread: JoinHandle<Result<Result<u64, StandError>, RingError>>,
}

#[derive(Debug)]
pub enum StandError {
    Spec(SpecError),
    Bind {
        what: &'static str,
        at: SocketAddr,
        error: NetError,
    },
    Ring(RingError),
    Tls(String),
    File {
        path: PathBuf,
        error: std::io::Error,
    },
    Truth(String),
    /// The web's thread ended unexpectedly.
    Died,
}

impl fmt::Display for StandError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StandError::Spec(error) => write!(out, "{error}"),
            StandError::Bind { what, at, error } => write!(out, "cannot bind {what} {at}: {error}"),
            StandError::Ring(error) => write!(out, "{error}"),
            StandError::Tls(text) => write!(out, "TLS: {text}"),
            StandError::File { path, error } => write!(out, "{}: {error}", path.display()),
            StandError::Truth(text) => write!(out, "{text}"),
            StandError::Died => out.write_str("the thread of the synthetic web ended unexpectedly"),
        }
    }
}

impl std::error::Error for StandError {}

/// What the web's thread reports when it is ready.
struct Ready {
    seed_url: String,
    port: u16,
    tls_port: u16,
    dns: SocketAddr,
}

impl Stand {
    /// Starts the web and returns when it answers.
    pub fn start(spec: WebSpec, plan: StandPlan) -> Result<Stand, StandError> {
        let wake = Wake::new().map_err(StandError::Ring)?;
        let (stop, stopped) = mailbox::<()>(1, &wake);
        let (tell, told) = crossbeam::channel::bounded::<Result<Ready, StandError>>(1);
        let core = plan.core;
        let main = move || async move {
            let world = RingWorld::new(wake, None).map_err(StandError::Ring)?;
            let stopped = stopped.bind(&world);
            let server = match open(&world, spec, &plan) {
                Ok((server, ready)) => {
                    // Sending fails only if the starter is gone, and then nobody needs the message.
                    let _ = tell.send(Ok(ready));
                    server
                }
                Err(error) => {
                    let _ = tell.send(Err(error));
                    world.stop();
                    return Err(StandError::Died);
                }
            };
            stopped.receive().await;
            let flushed = server.flush_log();
            world.stop();
            match flushed {
                Ok(()) => Ok(server.request_count()),
                Err(error) => Err(StandError::File { path: plan.log.unwrap_or_default(), error }),
            }
        };
        let thread = RingWorld::start(core, "web", Care::Wake, main).map_err(StandError::Ring)?;
        match told.recv() {
            Ok(Ok(Ready { seed_url, port, tls_port, dns })) => {
                Ok(Stand { seed_url, port, tls_port, dns, stop, thread })
            }
            Ok(Err(error)) => Err(error),
            Err(_) => match thread.join() {
                Ok(Err(error)) => Err(StandError::Ring(error)),
                Ok(Ok(Err(error))) => Err(error),
                _ => Err(StandError::Died),
            },
        }
    }

    /// Stops the web; returns how many requests there were.
    pub fn stop(self) -> Result<u64, StandError> {
        // A full mailbox already holds a stop message.
        let _ = self.stop.try_send(());
        let ended = self.thread.join().map_err(|_| StandError::Died)?;
        ended.map_err(StandError::Ring)?
    }
}

fn open(
    world: &RingWorld,
    mut spec: WebSpec,
    plan: &StandPlan,
) -> Result<(Server<RingWorld>, Ready), StandError> {
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, plan.port));
    let listener =
        world.listen(any).map_err(|error| StandError::Bind { what: "port", at: any, error })?;
    spec.port = listener.local().port();
    let secret_at = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let secret = match spec.hostile {
        false => None,
        true => Some(world.listen(secret_at).map_err(|error| StandError::Bind {
            what: "TLS port",
            at: secret_at,
            error,
        })?),
    };
    spec.tls_port = secret.as_ref().map_or(spec.tls_port, |listener| listener.local().port());
    let dns_at = plan.dns.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let (dns, dns_tcp) = name_server(world, dns_at).map_err(|error| StandError::Bind {
        what: "name server",
        at: dns_at,
        error,
    })?;
    let dns_at = dns.local();
    let log = match &plan.log {
        None => RequestLog::none(),
        Some(path) => {
            let file = std::fs::File::create(path)
                .map_err(|error| StandError::File { path: path.clone(), error })?;
            RequestLog::new(FileSink(file))
        }
    };
    let bodies = match &plan.bodies {
        None => None,
        Some(path) => Some(
            Bodies::read(path).map_err(|error| StandError::File { path: path.clone(), error })?,
        ),
    };
    let web = Web::new(spec.clone()).map_err(StandError::Spec)?;
    let web = Rc::new(web.with_bodies(bodies));
    if let Some(path) = &plan.truth {
        let failed = |error| StandError::File { path: path.clone(), error };
        let mut file = std::io::BufWriter::new(std::fs::File::create(path).map_err(failed)?);
        web.write_truth(&mut file).map_err(|error| StandError::Truth(error.to_string()))?;
        std::io::Write::flush(&mut file).map_err(failed)?;
    }
    let seed_url = web.hostile().map_or_else(|| web.seed_url(), |hostile| hostile.index_url());
    let server = Server::new(world.clone(), web, log);
    let (plain, secret) = if spec.tls { (None, Some(listener)) } else { (Some(listener), secret) };
    if let Some(listener) = secret {
        let (serving, tls) = (server.clone(), Rc::new(secrecy(&spec, plan)?));
        world.spawn(async move { report(serving.serve_tls(listener, tls).await) });
    }
    if let Some(listener) = plain {
        let serving = server.clone();
        world.spawn(async move { report(serving.serve(listener).await) });
    }
    let (udp, tcp, logging) = (server.clone(), server.clone(), server.clone());
    world.spawn(async move { report(udp.serve_dns(dns).await) });
    world.spawn(async move { report(tcp.serve_dns_tcp(dns_tcp).await) });
    world.spawn(async move { report(logging.keep_log().await) });
    let ready = Ready { seed_url, port: spec.port, tls_port: spec.tls_port, dns: dns_at };
    Ok((server, ready))
}

/// Makes an authority and the TLS of its sites, and writes the authority's certificate to the
/// planned file.
fn secrecy(spec: &WebSpec, plan: &StandPlan) -> Result<Tls, StandError> {
    let authority = Authority::new().map_err(|error| StandError::Tls(error.to_string()))?;
    let tls = Tls::new(&authority, spec).map_err(|error| StandError::Tls(error.to_string()))?;
    if let Some(path) = &plan.ca_out {
        std::fs::write(path, &authority.certificate_pem)
            .map_err(|error| StandError::File { path: path.clone(), error })?;
    }
    Ok(tls)
}

/// Binds one port for UDP and TCP. The system chooses a port that is free for UDP, but it may be
/// taken for TCP; in that case the system is asked for another one.
fn name_server(
    world: &RingWorld,
    at: SocketAddr,
) -> Result<(RingDatagram, RingListener), NetError> {
    for _ in 1..PORT_TRIES {
        let datagram = world.datagram(at, None)?;
        match world.listen(datagram.local()) {
            Err(NetError::AddressInUse) if at.port() == 0 => {}
            listener => return Ok((datagram, listener?)),
        }
    }
    Err(NetError::AddressInUse)
}

/// Logs that a listener has failed or that the log cannot be written; either ends its task.
fn report(error: impl fmt::Display) {
    tracing::error!("a task of the synthetic web has stopped: {error}; restart the web");
}

//! The fetch stage against servers that are written by hand, in the simulator: real bytes over
//! streams of random segments, virtual time, and the server's own log as the judge.
//!
//! A server is a script: for each request, read up to its blank line, it gets a list of [`Act`]s.
//! Every test runs with several seeds and segment sizes ([`on_every_network`]).

mod deadlines;
mod framing;
mod keep_alive;
mod tls;
mod tls_policy;

use super::*;
use crate::io::sim::{NetModel, Sim, SimStream, SimWorld, Unknown};
use crate::io::{Clock, Listener, Net, NetError, Spawn, Stream};
use rustls::ServerConnection;
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::rc::Rc;

const NEVER: Time = Time::NEVER;
const OK: &str = "HTTP/1.1 200 OK\r\n";

/// One step of a server's answer.
#[derive(Clone, Debug)]
enum Act {
    Say(Vec<u8>),
    WaitMs(u64),
    /// Sends one byte at a time.
    Drip {
        bytes: Vec<u8>,
        every_ms: u64,
    },
    /// Repeats the same bytes until the client closes.
    Flood(Vec<u8>),
    /// Ends the connection; under TLS without close_notify.
    Close,
    /// Ends the connection with a reset.
    Abort,
    /// Under TLS: sends each text in a record of its own, all at once.
    Records(Vec<Vec<u8>>),
    /// Under TLS: sends `close_notify`, then ends the connection.
    Goodbye,
    /// Under TLS: sends a record that carries no data (a key update).
    Rekey,
    /// Under TLS: sends session tickets until the client closes.
    Tickets,
    /// Writes bytes below TLS that are no record of the session.
    Garbage(Vec<u8>),
}

use Act::*;

/// A request as its server saw it.
#[derive(Clone, Debug)]
struct Asked {
    /// The number of the connection, and the number of the request on it, from zero.
    connection: usize,
    turn: usize,
    /// When the last byte of the request had arrived.
    at: Time,
    text: String,
}

impl Asked {
    fn path(&self) -> &str {
        self.text.split(' ').nth(1).unwrap_or("")
    }
}

/// What the servers of a test saw.
#[derive(Default)]
struct Witness {
    asked: RefCell<Vec<Asked>>,
    connection_count: Cell<usize>,
    ended_count: Cell<usize>,
    server_names: RefCell<Vec<String>>,
}

/// A client, its servers, and the world around them.
struct Stage {
    sim: Sim,
    client: Client<SimWorld>,
    witness: Rc<Witness>,
}

/// A sink that keeps what it receives.
#[derive(Default)]
struct Kept {
    unwanted: bool,
    statuses: Vec<u16>,
    body: Vec<u8>,
}

impl Sink for Kept {
    fn head(&mut self, head: &ResponseHead) -> bool {
        self.statuses.push(head.status());
        !self.unwanted
    }

    fn body(&mut self, piece: &[u8]) {
        assert_eq!(self.statuses.len(), 1, "a body follows one head");
        self.body.extend_from_slice(piece);
    }
}

fn timeouts() -> Timeouts {
    Timeouts {
        connect_ms: 2_000,
        tls_ms: 3_000,
        first_byte_ms: 5_000,
        head_ms: 8_000,
        body_ms: 20_000,
        body_bytes_max: 100_000,
        body_memory_bytes: 64 << 20,
        keep_alive_count_max: 8,
        keep_alive_ms: 10_000,
    }
}

fn address(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

/// Runs `test` on networks of huge, usual, small and tiny segments, with two seeds each.
fn on_every_network(test: impl Fn(Stage)) {
    for seed in 0..8 {
        let segment_bytes_max = [1 << 20, 16 * 1024, 1_400, 3][seed as usize % 4];
        let stage = Stage::new(seed, timeouts(), TlsPolicy::new(None, false).unwrap());
        stage.sim.set_net(NetModel { segment_bytes_max, ..NetModel::default() });
        test(stage);
    }
}

impl Stage {
    fn new(seed: u64, timeouts: Timeouts, tls: TlsPolicy) -> Stage {
        let sim = Sim::new(seed);
        let client = Client::new(sim.world(1), "nephila-test", timeouts, tls);
        Stage { sim, client, witness: Rc::default() }
    }

    /// Returns the same world with another client.
    fn with(self, timeouts: Timeouts, tls: TlsPolicy) -> Stage {
        let client = Client::new(self.sim.world(1), "nephila-test", timeouts, tls);
        Stage { client, ..self }
    }

    /// Starts a server at port 80 of every address.
    fn serve(&self, script: impl Fn(&Asked) -> Vec<Act> + 'static) {
        self.listen(80, |_| None, script);
    }

    /// Starts a server whose connections give `answers` in turn, whatever is requested.
    fn serve_in_turn(&self, answers: Vec<Vec<Act>>) {
        let next = Cell::new(0);
        self.serve(move |_| answers[next.replace(next.get() + 1)].clone());
    }

    /// Starts a server at `port` of every IPv4 address. `session` makes the TLS side of a
    /// connection.
    fn listen(
        &self,
        port: u16,
        session: impl Fn(usize) -> Option<ServerConnection> + 'static,
        script: impl Fn(&Asked) -> Vec<Act> + 'static,
    ) {
        let world = self.sim.world(0);
        let listener = world.listen(SocketAddr::from(([0, 0, 0, 0], port))).unwrap();
        let (witness, script) = (self.witness.clone(), Rc::new(script));
        world.clone().spawn(async move {
            while let Ok(stream) = listener.accept().await {
                let connection = witness.connection_count.get();
                witness.connection_count.set(connection + 1);
                let wire = Wire { world: world.clone(), stream, session: session(connection) };
                let (witness, script) = (witness.clone(), script.clone());
                world.spawn(async move {
                    wire.converse(connection, &witness, &*script).await;
                    witness.ended_count.set(witness.ended_count.get() + 1);
                });
            }
        });
    }

    fn fetch(&self, url: &str) -> (Answer, Kept) {
        self.fetch_at(url, address(1), Kept::default())
    }

    fn fetch_at(&self, url: &str, address: IpAddr, mut kept: Kept) -> (Answer, Kept) {
        let url = Url::parse(url).unwrap();
        let fetched = self.client.fetch(&url, address, &mut kept);
        let answer = self.sim.block_on(fetched).unwrap();
        self.check(&answer, &kept);
        (answer, kept)
    }

    /// Checks what holds for every answer, whatever the server did.
    fn check(&self, answer: &Answer, kept: &Kept) {
        assert!(answer.started <= answer.seen_by && answer.seen_by <= answer.ended);
        assert_eq!(answer.ended, self.sim.now());
        assert!(kept.body.len() as u64 <= self.client.timeouts.body_bytes_max, "over the cap");
        assert!(answer.response[answer.head_len..] == kept.body, "another body is stored");
        let raw = answer.head.as_ref().map_or(&b""[..], ResponseHead::raw);
        let is_coded =
            answer.head.as_ref().is_some_and(|head| head.header("transfer-encoding").is_some());
        if !is_coded {
            assert!(answer.response[..answer.head_len] == *raw, "another head is stored");
        }
        assert_eq!(raw.is_empty(), kept.statuses.is_empty());
        if answer.connection == Connection::None {
            assert!(answer.request.is_empty() && answer.head.is_none());
        }
        if answer.was_stale {
            assert_eq!(answer.connection, Connection::Reused);
            assert_eq!(answer.outcome, Outcome::Reset);
        }
    }

    fn outcome(&self, url: &str) -> Outcome {
        self.fetch(url).0.outcome
    }

    fn wait_ms(&self, span_ms: u64) {
        self.sim.run_until(self.sim.now() + Duration::from_millis(span_ms)).unwrap();
    }

    fn connection_count(&self) -> usize {
        self.witness.connection_count.get()
    }

    fn asked(&self) -> Vec<Asked> {
        self.witness.asked.borrow().clone()
    }
}

/// A server's end of one connection.
struct Wire {
    world: SimWorld,
    stream: SimStream,
    session: Option<ServerConnection>,
}

impl Wire {
    async fn converse(
        mut self,
        connection: usize,
        witness: &Witness,
        script: &dyn Fn(&Asked) -> Vec<Act>,
    ) {
        let mut inbox = Vec::new();
        for turn in 0.. {
            while !inbox.ends_with(b"\r\n\r\n") {
                let Some(bytes) = self.hear().await else { return };
                inbox.extend_from_slice(&bytes);
            }
            if let Some(name) = self.session.as_ref().and_then(|session| session.server_name()) {
                witness.server_names.borrow_mut().push(name.to_owned());
            }
            let text = String::from_utf8(std::mem::take(&mut inbox)).unwrap();
            let asked = Asked { connection, turn, at: self.world.now(), text };
            witness.asked.borrow_mut().push(asked.clone());
            for act in script(&asked) {
                match act {
                    Abort => return self.stream.reset(),
                    act => {
                        if !self.act(act).await {
                            return;
                        }
                    }
                }
            }
        }
    }

    /// Performs one act. Returns false if it ended the connection.
    async fn act(&mut self, act: Act) -> bool {
        match act {
            Say(bytes) => self.say(&bytes).await,
            WaitMs(span_ms) => {
                self.wait_ms(span_ms).await;
                true
            }
            Drip { bytes, every_ms } => {
                for byte in bytes {
                    self.wait_ms(every_ms).await;
                    if !self.say(&[byte]).await {
                        return false;
                    }
                }
                true
            }
            Flood(bytes) => {
                while self.say(&bytes).await {}
                false
            }
            Records(pieces) => {
                let session = self.session.as_mut().unwrap();
                session.set_buffer_limit(None);
                for piece in pieces {
                    session.writer().write_all(&piece).unwrap();
                }
                self.flush().await
            }
            Goodbye => {
                self.session.as_mut().unwrap().send_close_notify();
                self.flush().await;
                false
            }
            Rekey => {
                self.session.as_mut().unwrap().refresh_traffic_keys().unwrap();
                self.flush().await
            }
            Tickets => {
                let mut tickets = tls::Tickets::new(self.session.take().unwrap());
                while self.stream.send(tickets.next(300), NEVER).await.is_ok() {}
                false
            }
            Garbage(bytes) => self.stream.send(bytes, NEVER).await.is_ok(),
            Close | Abort => false,
        }
    }

    async fn wait_ms(&self, span_ms: u64) {
        self.world.sleep_until(self.world.now() + Duration::from_millis(span_ms)).await;
    }

    /// Returns the next bytes of requests; `None` when the client is gone or breaks the protocol.
    async fn hear(&mut self) -> Option<Vec<u8>> {
        let chunk = self.stream.receive(NEVER).await.ok()??;
        if self.session.is_none() {
            return Some(chunk.to_vec());
        }
        let (mut rest, mut plain, mut sound) = (&chunk[..], Vec::new(), true);
        while !rest.is_empty() && sound {
            let session = self.session.as_mut()?;
            session.read_tls(&mut rest).ok().filter(|len| *len > 0)?;
            sound = session.process_new_packets().is_ok();
            let _ = session.reader().read_to_end(&mut plain);
        }
        let flushed = self.flush().await;
        (sound && flushed).then_some(plain)
    }

    /// Sends bytes. Returns true while the client takes them.
    async fn say(&mut self, bytes: &[u8]) -> bool {
        match &mut self.session {
            None => self.stream.send(bytes.to_vec(), NEVER).await.is_ok(),
            Some(session) => {
                session.set_buffer_limit(None);
                session.writer().write_all(bytes).is_ok() && self.flush().await
            }
        }
    }

    async fn flush(&mut self) -> bool {
        let Some(session) = &mut self.session else { return true };
        let mut records = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut records).unwrap();
        }
        records.is_empty() || self.stream.send(records, NEVER).await.is_ok()
    }
}

fn say(text: impl AsRef<[u8]>) -> Act {
    Say(text.as_ref().to_vec())
}

/// Returns a response of known length.
fn page(body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    [format!("{OK}Content-Length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
}

fn chunked(body: impl AsRef<[u8]>) -> Vec<u8> {
    let mut wire = format!("{OK}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
    for piece in body.as_ref().chunks(1_000) {
        wire.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        wire.extend_from_slice(piece);
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(b"0\r\n\r\n");
    wire
}

/// Returns bytes in which a lost, doubled or moved piece is noticed.
fn text(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index % 251) as u8).collect()
}

fn ms(span_ms: u64) -> Duration {
    Duration::from_millis(span_ms)
}

#[test]
fn every_network_error_has_its_outcome_at_every_step() {
    use Outcome::*;
    let of = |error| outcome_of(error, HeadTimedOut, ConnectFailed);
    assert_eq!(of(NetError::TimedOut), HeadTimedOut);
    assert_eq!(of(NetError::Refused), ConnectRefused);
    assert_eq!(of(NetError::Reset), Reset);
    assert_eq!(of(NetError::Closed), Reset);
    assert_eq!(of(NetError::Exhausted), Shed, "ours, not the server's");
    for error in [NetError::Unreachable, NetError::PermissionDenied, NetError::Os(5)] {
        assert_eq!(of(error), ConnectFailed, "{error}");
    }
}

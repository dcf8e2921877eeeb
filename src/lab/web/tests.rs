//! Tests of the server in simulation: what clients see, and what the log records of them.

use crate::base::Time;
use crate::base::limits::{WEB_CONNECTION_REQUEST_COUNT_MAX, WEB_REQUEST_BYTES_MAX};
use crate::io::sim::{Sim, SimWorld};
use crate::io::{Clock, Datagram, Net, Spawn, Stream};
use crate::lab::web::graph::Kind;
use crate::lab::web::log::Fate;
use crate::lab::web::tls::{Authority, Tls};
use crate::lab::web::{MemorySink, RequestLog, Server, Web, WebSpec};
use crate::proto::dnswire::{self, DnsOutcome, FrameReader, encode_frame, encode_query};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

type Client = <SimWorld as Net>::Stream;

struct Stage {
    sim: Sim,
    world: SimWorld,
    server: Server<SimWorld>,
    log: MemorySink,
}

fn stage(spec: WebSpec) -> Stage {
    let sim = Sim::new(3);
    let (world, log) = (sim.world(0), MemorySink::default());
    let web = Rc::new(Web::new(spec).unwrap());
    let server = Server::new(world.clone(), web, RequestLog::new(log.clone()));
    let listener = world.listen(any(80)).unwrap();
    let serving = server.clone();
    world.spawn(async move {
        serving.serve(listener).await;
    });
    Stage { sim, world, server, log }
}

impl Stage {
    async fn connect(&self, host: u32, port: u16) -> Client {
        let to = SocketAddr::from((self.server.web().address(host), port));
        self.world.connect(to, Time::NEVER).await.unwrap()
    }

    fn get(&self, host: u32, target: &str) -> Vec<u8> {
        format!("GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n", self.server.web().host_name(host))
            .into()
    }

    fn statuses(&self) -> Vec<u16> {
        self.server.flush_log().unwrap();
        self.log.entries().iter().map(|entry| entry.status).collect()
    }
}

fn any(port: u16) -> SocketAddr {
    SocketAddr::from(([0, 0, 0, 0], port))
}

fn small() -> WebSpec {
    WebSpec { host_count: 3, page_count: 30, ..WebSpec::profile("plain").unwrap() }
}

/// Reads `count` responses with a Content-Length and returns their heads.
async fn responses(stream: &mut Client, count: usize) -> Vec<String> {
    let mut bytes = Vec::new();
    let mut heads = Vec::new();
    while heads.len() < count {
        let chunk = stream.receive(Time::NEVER).await.unwrap().expect("a whole response");
        bytes.extend_from_slice(&chunk);
        while let Some(at) = memchr::memmem::find(&bytes, b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..at].to_vec()).unwrap();
            let length = head.split("Content-Length:").nth(1).expect("a length");
            let length: usize = length.lines().next().unwrap().trim().parse().unwrap();
            if bytes.len() < at + 4 + length {
                break;
            }
            bytes.drain(..at + 4 + length);
            heads.push(head);
        }
    }
    assert!(bytes.is_empty(), "bytes came after the last response");
    heads
}

#[test]
fn pipelined_requests_are_answered_in_order_on_one_connection() {
    let stage = stage(small());
    let test = async {
        let mut stream = stage.connect(1, 80).await;
        let requests =
            ["/", "/nowhere", "/robots.txt", "/"].map(|path| stage.get(1, path)).concat();
        stream.send(requests, Time::NEVER).await.unwrap();
        let heads = responses(&mut stream, 4).await;
        let statuses: Vec<&str> = heads.iter().map(|head| &head[9..12]).collect();
        assert_eq!([statuses[0], statuses[1], statuses[3]], ["200", "404", "200"]);
    };
    stage.sim.block_on(test).unwrap();
    assert_eq!(stage.statuses().len(), 4);
    let entries = stage.log.entries();
    assert_eq!(entries[1].path, "/nowhere");
    assert_eq!(entries[1].host, stage.server.web().host_name(1));
    assert_eq!(entries[0].local.ip(), stage.server.web().address(1));
    assert_eq!(stage.server.request_count(), 4);
}

#[test]
fn the_answer_waits_for_its_delay_and_the_log_does_not() {
    let stage = stage(WebSpec { latency_ms_median: 700.0, latency_sigma: 0.0, ..small() });
    let test = async {
        let mut stream = stage.connect(0, 80).await;
        let asked_at = stage.world.now();
        stream.send(stage.get(0, "/"), Time::NEVER).await.unwrap();
        responses(&mut stream, 1).await;
        assert!(stage.world.now().since(asked_at) >= Duration::from_millis(700));
        asked_at
    };
    let asked_at = stage.sim.block_on(test).unwrap();
    stage.server.flush_log().unwrap();
    let logged = stage.log.entries()[0].at;
    assert!(logged >= asked_at && logged.since(asked_at) < Duration::from_millis(400));
}

#[test]
fn a_client_that_leaves_before_its_answer_is_logged_as_it_leaves() {
    let stage = stage(WebSpec { latency_ms_median: 30_000.0, latency_sigma: 0.0, ..small() });
    let test = async {
        let mut stream = stage.connect(0, 80).await;
        stream.send(stage.get(0, "/"), Time::NEVER).await.unwrap();
        stage.world.sleep_until(stage.world.now() + Duration::from_secs(5)).await;
        let left_at = stage.world.now();
        drop(stream);
        stage.world.sleep_until(left_at + Duration::from_secs(60)).await;
        left_at
    };
    let left_at = stage.sim.block_on(test).unwrap();
    stage.server.flush_log().unwrap();
    let entry = &stage.log.entries()[0];
    assert_eq!(entry.fate, Fate::Unsent);
    assert!(entry.end >= left_at && entry.end.since(left_at) < Duration::from_secs(1));
}

#[test]
fn a_request_is_logged_at_its_first_byte() {
    let stage = stage(small());
    let test = async {
        let mut stream = stage.connect(0, 80).await;
        let request = stage.get(0, "/");
        let (first, rest) = request.split_at(1);
        stream.send(first.to_vec(), Time::NEVER).await.unwrap();
        let began_at = stage.world.now();
        stage.world.sleep_until(began_at + Duration::from_secs(20)).await;
        stream.send(rest.to_vec(), Time::NEVER).await.unwrap();
        responses(&mut stream, 1).await;
        began_at
    };
    let began_at = stage.sim.block_on(test).unwrap();
    stage.server.flush_log().unwrap();
    assert!(stage.log.entries()[0].at.since(began_at) < Duration::from_secs(1));
}

#[test]
fn what_is_no_request_is_answered_and_closed() {
    let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(WEB_REQUEST_BYTES_MAX));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(100));
    let cases: [(&str, u16); 7] = [
        ("\u{1}\u{2}garbage\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 400),
        ("HEAD / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 405),
        (&long, 431),
        (&many, 431),
    ];
    for (bytes, status) in cases {
        let stage = stage(small());
        let test = async {
            let mut stream = stage.connect(0, 80).await;
            let _ = stream.send(bytes.as_bytes().to_vec(), Time::NEVER).await;
            while let Ok(Some(_)) = stream.receive(Time::NEVER).await {}
        };
        stage.sim.block_on(test).unwrap();
        assert_eq!(stage.statuses(), [status], "{:?}", &bytes[..bytes.len().min(60)]);
    }
}

#[test]
fn a_connection_ends_when_it_has_served_its_share_or_fallen_silent() {
    let spec = WebSpec { page_bytes_mean: 500, page_bytes_sigma: 0.0, link_count: 1, ..small() };
    let stage = stage(WebSpec { fresh_link_count: 1, ..spec });
    let test = async {
        let mut stream = stage.connect(0, 80).await;
        for _ in 1..WEB_CONNECTION_REQUEST_COUNT_MAX {
            stream.send(stage.get(0, "/nowhere"), Time::NEVER).await.unwrap();
            assert!(!responses(&mut stream, 1).await[0].contains("Connection: close"));
        }
        stream.send(stage.get(0, "/nowhere"), Time::NEVER).await.unwrap();
        assert!(responses(&mut stream, 1).await[0].contains("Connection: close"));
        assert!(stream.receive(Time::NEVER).await.unwrap().is_none());
        let mut silent = stage.connect(0, 80).await;
        assert!(silent.receive(Time::NEVER).await.unwrap().is_none());
    };
    stage.sim.block_on(test).unwrap();
}

#[test]
fn names_are_resolved_over_udp_and_over_tcp() {
    let stage = stage(WebSpec { dns_truncated_fraction: 1.0, ..small() });
    let test = async {
        let world = &stage.world;
        let name_server = SocketAddr::from(([127, 0, 0, 53], 53));
        let (socket, listener) =
            (world.datagram(name_server, None).unwrap(), world.listen(name_server).unwrap());
        let (udp, tcp) = (stage.server.clone(), stage.server.clone());
        world.spawn(async move {
            udp.serve_dns(socket).await;
        });
        world.spawn(async move {
            tcp.serve_dns_tcp(listener).await;
        });
        let (name, kind) = (stage.server.web().host_name(2), dnswire::Kind::A);
        let mut query = Vec::new();
        encode_query(9, &name, kind, &mut query).unwrap();
        let socket = world.datagram(any(0), Some(name_server)).unwrap();
        socket.send(b"noise", name_server).unwrap();
        socket.send(&query, name_server).unwrap();
        let (answer, _) = socket.receive(Time::NEVER).await.unwrap();
        let answer = dnswire::decode_answer(&answer, 9, &name, kind).unwrap();
        assert_eq!(answer.outcome, DnsOutcome::Truncated);
        let mut stream = world.connect(name_server, Time::NEVER).await.unwrap();
        let mut frame = Vec::new();
        encode_frame(&query, &mut frame).unwrap();
        stream.send(frame, Time::NEVER).await.unwrap();
        let mut reader = FrameReader::new();
        loop {
            let chunk = stream.receive(Time::NEVER).await.unwrap().unwrap();
            if let Some(message) = reader.push(&mut &chunk[..]).unwrap() {
                let answer = dnswire::decode_answer(message, 9, &name, kind).unwrap();
                assert_eq!(answer.addresses, [stage.server.web().address(2)]);
                return;
            }
        }
    };
    stage.sim.block_on(test).unwrap();
}

#[allow(clippy::disallowed_types)] // rustls needs an Arc
fn tls_client(authority: &Authority, name: &str) -> rustls::ClientConnection {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName};
    let mut roots = rustls::RootCertStore::empty();
    let pem = authority.certificate_pem.as_bytes();
    roots.add(CertificateDer::from_pem_slice(pem).unwrap()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    rustls::ClientConnection::new(config.into(), name).unwrap()
}

/// Sends `request` under TLS and returns what the server sends until it closes.
async fn fetch_tls(
    stream: &mut Client,
    session: &mut rustls::ClientConnection,
    request: &[u8],
) -> Result<Vec<u8>, rustls::Error> {
    use std::io::{Read, Write};
    let mut body = Vec::new();
    session.writer().write_all(request).unwrap();
    loop {
        let mut out = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut out).unwrap();
        }
        if !out.is_empty() {
            stream.send(out, Time::NEVER).await.unwrap();
        }
        let Ok(Some(chunk)) = stream.receive(Time::NEVER).await else { return Ok(body) };
        let mut piece = &chunk[..];
        while !piece.is_empty() {
            session.read_tls(&mut piece).unwrap();
            let state = session.process_new_packets()?;
            let start = body.len();
            body.resize(start + state.plaintext_bytes_to_read(), 0);
            session.reader().read_exact(&mut body[start..]).unwrap();
        }
    }
}

#[test]
fn https_serves_the_same_bytes_under_a_certificate_for_the_name() {
    let spec = WebSpec { tls: true, port: 443, hosts_per_site: 1, ..small() };
    let stage = stage(spec.clone());
    let authority = Authority::new().unwrap();
    let test = async {
        let tls = Rc::new(Tls::new(&authority, &spec).unwrap());
        let (listener, serving) = (stage.world.listen(any(443)).unwrap(), stage.server.clone());
        stage.world.spawn(async move {
            serving.serve_tls(listener, tls).await;
        });
        let name = stage.server.web().host_name(2);
        let request = format!("GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
        let mut plain = stage.connect(2, 80).await;
        plain.send(request.clone().into(), Time::NEVER).await.unwrap();
        let mut expected = Vec::new();
        while let Some(chunk) = plain.receive(Time::NEVER).await.unwrap() {
            expected.extend_from_slice(&chunk);
        }
        let mut stream = stage.connect(2, 443).await;
        let mut session = tls_client(&authority, &name);
        let got = fetch_tls(&mut stream, &mut session, request.as_bytes()).await.unwrap();
        assert!(got == expected && got.len() > 10_000);
        for stranger in ["h000000.site99.test", "example.com"] {
            let mut stream = stage.connect(2, 443).await;
            let mut session = tls_client(&authority, stranger);
            assert!(fetch_tls(&mut stream, &mut session, b"GET").await.is_err(), "{stranger}");
        }
    };
    stage.sim.block_on(test).unwrap();
    assert_eq!(stage.statuses(), [200, 200]);
}

#[test]
fn one_seed_gives_one_history() {
    let history = || {
        let rough = WebSpec::profile("rough").unwrap();
        let stage = stage(WebSpec { host_count: 3, page_count: 60, hosts_per_address: 1, ..rough });
        let test = async {
            for page in 0..stage.server.web().graph().page_count(0) {
                let web = stage.server.web();
                let place = web.graph().place(0, page).unwrap();
                if place.kind == Kind::Denied {
                    continue;
                }
                let url = web.url(place);
                let path = &url[web.seed_url().len() - 1..];
                let close = format!("{path} HTTP/1.1\r\nConnection: close\r\nX-Path:");
                let mut stream = stage.connect(0, 80).await;
                stream.send(stage.get(0, &close), Time::NEVER).await.unwrap();
                while stream.receive(Time::NEVER).await.unwrap().is_some() {}
            }
        };
        stage.sim.block_on(test).unwrap();
        stage.server.flush_log().unwrap();
        (stage.sim.digest(), stage.log.text())
    };
    let (first, second) = (history(), history());
    assert!(first.1.lines().count() > 10);
    assert_eq!(first, second);
}

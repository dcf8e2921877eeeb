//! Which certificates the client trusts, and handshakes that fail or never end.
#![allow(clippy::disallowed_types)] // rustls requires Arc; none leaves the thread.

use super::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;

/// A server's certificate, its key, and the authority that signed it.
pub(super) struct Certified {
    pub(super) authority_pem: String,
    chain: Vec<CertificateDer<'static>>,
    key: KeyPair,
}

impl Certified {
    pub(super) fn new(names: &[&str]) -> Certified {
        Certified::from_to(names, 2001, 2099)
    }

    fn from_to(names: &[&str], first: i32, last: i32) -> Certified {
        let key = || KeyPair::generate().unwrap();
        let issuer = CertifiedIssuer::self_signed(authority("an authority"), key()).unwrap();
        let key = key();
        let mut params = leaf(names);
        params.not_before = rcgen::date_time_ymd(first, 1, 1);
        params.not_after = rcgen::date_time_ymd(last, 1, 1);
        let chain = vec![params.signed_by(&key, &issuer).unwrap().der().clone()];
        Certified { authority_pem: issuer.pem(), chain, key }
    }

    /// Returns a certificate that an intermediate of an authority has signed. `shown_count` says
    /// how many certificates above it are sent with it.
    fn of_chain(names: &[&str], shown_count: usize) -> Certified {
        let key = || KeyPair::generate().unwrap();
        let root = CertifiedIssuer::self_signed(authority("a root"), key()).unwrap();
        let between = CertifiedIssuer::signed_by(authority("between"), key(), &root).unwrap();
        let key = key();
        let certificate = leaf(names).signed_by(&key, &between).unwrap().der().clone();
        let mut chain = vec![certificate, between.der().clone(), root.der().clone()];
        chain.truncate(1 + shown_count);
        Certified { authority_pem: root.pem(), chain, key }
    }

    fn self_signed(names: &[&str]) -> Certified {
        let key = KeyPair::generate().unwrap();
        let mut params = leaf(names);
        // `openssl req -x509` makes such certificates.
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        Certified { authority_pem: certificate.pem(), chain: vec![certificate.der().clone()], key }
    }

    pub(super) fn config(&self) -> ServerConfig {
        self.config_with(aws_lc_rs::default_provider())
    }

    /// Returns the configuration of [`Certified::config`], with one suite and with keys that can be
    /// taken out.
    pub(super) fn open_config(&self) -> ServerConfig {
        let mut provider = aws_lc_rs::default_provider();
        provider.cipher_suites = vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256];
        let mut config = self.config_with(provider);
        config.enable_secret_extraction = true;
        config
    }

    fn config_with(&self, provider: CryptoProvider) -> ServerConfig {
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).unwrap();
        ServerConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(self.chain.clone(), key)
            .unwrap()
    }
}

fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn leaf(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    CertificateParams::new(names).unwrap()
}

/// Returns a policy that trusts the authority of `certified` and the public ones.
pub(super) fn believing(certified: &Certified) -> TlsPolicy {
    TlsPolicy::new(Some(certified.authority_pem.as_bytes()), false).unwrap()
}

/// Returns a maker of a server's sessions.
pub(super) fn secure(config: ServerConfig) -> impl Fn(usize) -> Option<ServerConnection> {
    let config = Arc::new(config);
    move |_| Some(ServerConnection::new(config.clone()).unwrap())
}

fn outcome_with(stage: Stage, certified: &Certified, policy: TlsPolicy) -> Outcome {
    let stage = stage.with(timeouts(), policy);
    stage.listen(443, secure(certified.config()), |_| vec![say(page("x"))]);
    let answer = stage.fetch("https://a.test/").0;
    if answer.outcome.name().starts_with("tls_") {
        assert_eq!((answer.connection, answer.tls_took), (Connection::Opened, None));
        assert!(answer.request.is_empty());
        stage.wait_ms(1_000);
        assert!(stage.asked().is_empty(), "no request was sent to an untrusted server");
        assert_eq!(stage.witness.ended_count.get(), 1, "the connection is closed");
    }
    answer.outcome
}

#[test]
fn a_certificate_must_be_for_the_name_in_time_and_from_someone_believed() {
    let good = Certified::new(&["a.test"]);
    let elsewhere = Certified::new(&["b.test"]);
    let expired = Certified::from_to(&["a.test"], 2001, 2002);
    let early = Certified::from_to(&["a.test"], 2098, 2099);
    let own = Certified::self_signed(&["a.test"]);
    let [alone, linked, rooted] = [0, 1, 2].map(|count| Certified::of_chain(&["a.test"], count));
    let insecure = || TlsPolicy::new(None, true).unwrap();
    for (shown, outcome) in [
        (&good, Outcome::Fetched),
        (&linked, Outcome::Fetched),
        (&rooted, Outcome::Fetched),
        (&elsewhere, Outcome::TlsWrongName),
        (&expired, Outcome::TlsExpired),
        (&early, Outcome::TlsNotYetValid),
        (&alone, Outcome::TlsBrokenChain),
    ] {
        on_every_network(|stage| {
            assert_eq!(outcome_with(stage, shown, believing(shown)), outcome);
        });
    }
    for (stranger, outcome) in [
        (&good, Outcome::TlsBrokenChain),
        (&linked, Outcome::TlsUnknownIssuer),
        (&rooted, Outcome::TlsUnknownIssuer),
        (&own, Outcome::TlsSelfSigned),
    ] {
        on_every_network(|stage| {
            let policy = TlsPolicy::new(None, false).unwrap();
            assert_eq!(outcome_with(stage, stranger, policy), outcome);
        });
    }
    for anyone in [&good, &elsewhere, &expired, &early, &own, &alone] {
        on_every_network(|stage| {
            assert_eq!(outcome_with(stage, anyone, insecure()), Outcome::Fetched);
        });
    }
}

#[test]
fn a_certificate_for_an_address_serves_that_address() {
    let certified = Certified::new(&["192.0.2.1"]);
    on_every_network(|stage| {
        let stage = stage.with(timeouts(), believing(&certified));
        stage.listen(443, secure(certified.config()), |_| vec![say(page("x"))]);
        assert_eq!(stage.outcome("https://192.0.2.1/"), Outcome::Fetched);
        assert_eq!(stage.outcome("https://192.0.2.7/"), Outcome::TlsWrongName);
        assert!(stage.witness.server_names.borrow().is_empty(), "RFC 6066 3: no literal addresses");
    });
}

#[test]
fn an_authority_that_is_none_is_refused() {
    let none: [&[u8]; 3] =
        [b"", b"no PEM at all", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"];
    for pem in none {
        assert!(matches!(TlsPolicy::new(Some(pem), false), Err(TlsError::Authority(_))));
    }
}

/// Starts a server at port 443 that performs `acts` as soon as the first bytes have arrived.
fn serve_bytes(stage: &Stage, acts: Vec<Act>) {
    let world = stage.sim.world(0);
    let listener = world.listen(SocketAddr::from(([0, 0, 0, 0], 443))).unwrap();
    world.clone().spawn(async move {
        let mut streams = Vec::new();
        while let Ok(stream) = listener.accept().await {
            let mut wire = Wire { world: world.clone(), stream, session: None };
            if wire.hear().await.is_none() {
                continue;
            }
            for act in &acts {
                if !wire.act(act.clone()).await {
                    break;
                }
            }
            if !matches!(acts.last(), Some(Close)) {
                streams.push(wire);
            }
        }
    });
}

#[test]
fn a_handshake_that_stalls_ends_at_its_deadline() {
    let hello_of_40 = vec![0x16, 3, 3, 0, 40, 2, 0, 0, 36, 3, 3];
    let drip = Drip { bytes: [&[0x16, 3, 3, 0x3f, 0, 2][..], &[0; 90]].concat(), every_ms: 900 };
    for acts in [vec![], vec![Say(hello_of_40)], vec![drip]] {
        on_every_network(|stage| {
            serve_bytes(&stage, acts.clone());
            let answer = stage.fetch("https://a.test/").0;
            assert_eq!(answer.outcome, Outcome::ConnectTimedOut, "{acts:?}");
            let connected = answer.started + answer.connect_took.unwrap();
            assert_eq!(answer.ended, connected + ms(timeouts().tls_ms));
            assert_eq!((answer.connection, answer.tls_took), (Connection::Opened, None));
        });
    }
}

#[test]
fn a_server_that_speaks_no_tls_fails_at_once() {
    let alert = vec![0x15, 3, 3, 0, 2, 2, 40];
    let plain = page("plain HTTP at 443");
    for bytes in [plain, alert, vec![0x80; 400]] {
        on_every_network(|stage| {
            serve_bytes(&stage, vec![Say(bytes.clone())]);
            let answer = stage.fetch("https://a.test/").0;
            assert_eq!(answer.outcome, Outcome::TlsProtocol, "{bytes:?}");
            assert!(answer.ended < answer.started + ms(1_000));
        });
    }
}

#[test]
fn a_server_that_leaves_the_handshake_resets_it() {
    let close_notify = vec![0x15, 3, 3, 0, 2, 1, 0];
    for acts in [vec![Close], vec![Say(close_notify), Close]] {
        on_every_network(|stage| {
            serve_bytes(&stage, acts.clone());
            let answer = stage.fetch("https://a.test/").0;
            assert_eq!(answer.outcome, Outcome::Reset, "{acts:?}");
            assert!(answer.ended < answer.started + ms(1_000));
        });
    }
}

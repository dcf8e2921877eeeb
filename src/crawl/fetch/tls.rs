//! TLS over the seam's streams: rustls implements the protocol, the stream carries its records.
//!
//! There is one configuration per core, and so one session cache per core: resumption needs no lock
//! that another core could hold. rustls requires `Arc`, but nothing here is shared between cores.
#![allow(clippy::disallowed_types)]

use super::certificate::{self, Judge};
use crate::base::Time;
use crate::base::limits;
use crate::crawl::flow::Outcome;
use crate::io::{NetError, Stream};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConnection, Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, HandshakeKind, RootCertStore, SignatureScheme};
use std::io::{Read, Write};
use std::sync::Arc;

/// Which certificates to trust.
#[derive(Clone)]
pub struct TlsPolicy {
    config: Arc<ClientConfig>,
}

/// Why a TLS policy cannot be made.
#[derive(Debug)]
pub enum TlsError {
    /// The file of extra authorities holds no certificate, or a broken one.
    Authority(String),
    Setup(String),
}

impl std::fmt::Display for TlsError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TlsError::Authority(text) => write!(out, "extra CA: {text}"),
            TlsError::Setup(text) => write!(out, "TLS set-up: {text}"),
        }
    }
}

impl std::error::Error for TlsError {}

impl TlsPolicy {
    /// Creates a policy that trusts the public roots and the authorities in `extra` (PEM).
    /// `insecure` trusts every certificate.
    pub fn new(extra: Option<&[u8]>, insecure: bool) -> Result<TlsPolicy, TlsError> {
        let mut roots = RootCertStore::empty();
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        if let Some(pem) = extra {
            let before = roots.len();
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate =
                    certificate.map_err(|error| TlsError::Authority(format!("{error:?}")))?;
                roots.add(certificate).map_err(|error| TlsError::Authority(error.to_string()))?;
            }
            if roots.len() == before {
                return Err(TlsError::Authority("the file holds no certificate".into()));
            }
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Setup(error.to_string()))?;
        let mut config = if insecure {
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
                .with_no_client_auth()
        } else {
            let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|error| TlsError::Setup(error.to_string()))?;
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Judge(verifier)))
                .with_no_client_auth()
        };
        let session_count = limits::TLS_SESSION_HOST_COUNT_MAX * SESSIONS_PER_HOST;
        config.resumption = Resumption::in_memory_sessions(session_count);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsPolicy { config: Arc::new(config) })
    }
}

/// rustls limits its session cache by hosts of this many sessions each: that is how many tickets it
/// keeps of a host.
const SESSIONS_PER_HOST: usize = 8;

/// What went wrong in a handshake.
pub(super) enum HandshakeError {
    Net(NetError),
    /// The certificate, version or protocol is at fault. The server is the cause, and a retry would
    /// not help.
    Tls(Outcome),
}

pub(super) struct TlsChannel<S: Stream> {
    stream: S,
    connection: ClientConnection,
    /// Bytes that are decrypted and not handed on yet. rustls holds none: they are taken from it at
    /// once, so that no byte behind a response goes unseen and rustls's own bound on plaintext is
    /// never reached.
    plain: Vec<u8>,
    /// What ended the receiving side. `Ok` means that the peer sent close_notify.
    ended: Option<Result<(), NetError>>,
    /// The cause, if the session itself ended the receiving side. It says why a handshake failed.
    fault: Option<Outcome>,
}

impl<S: Stream> TlsChannel<S> {
    /// Opens a TLS session as a client for `host`.
    pub(super) async fn open(
        stream: S,
        host: &str,
        policy: &TlsPolicy,
        deadline: Time,
    ) -> Result<TlsChannel<S>, HandshakeError> {
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let failed = HandshakeError::Tls(Outcome::TlsFailed);
        let Ok(name) = ServerName::try_from(bare) else { return Err(failed) };
        let Ok(connection) = ClientConnection::new(policy.config.clone(), name) else {
            return Err(failed);
        };
        let (plain, fault) = (Vec::new(), None);
        let mut channel = TlsChannel { stream, connection, plain, ended: None, fault };
        while channel.connection.is_handshaking() {
            channel.flush(deadline).await.map_err(HandshakeError::Net)?;
            match channel.stream.receive(deadline).await.map_err(HandshakeError::Net)? {
                None => return Err(HandshakeError::Net(NetError::Closed)),
                Some(chunk) => channel.take_records(&chunk),
            }
            match channel.ended {
                None => {}
                Some(Ok(())) => return Err(HandshakeError::Net(NetError::Closed)),
                Some(Err(_)) => {
                    // The server should get the alert that says why. It does not matter if the
                    // alert is lost.
                    let _ = channel.flush(deadline).await;
                    return Err(HandshakeError::Tls(channel.fault.unwrap_or(Outcome::TlsFailed)));
                }
            }
        }
        channel.flush(deadline).await.map_err(HandshakeError::Net)?;
        Ok(channel)
    }

    pub(super) fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    pub(super) async fn send(
        &mut self,
        bytes: Vec<u8>,
        deadline: Time,
    ) -> Result<Vec<u8>, NetError> {
        self.connection.writer().write_all(&bytes).map_err(|_| NetError::Closed)?;
        self.flush(deadline).await?;
        Ok(bytes)
    }

    /// Returns the next plaintext, or `None` after the peer's close_notify. A stream that ends
    /// without one was cut ([`NetError::Closed`]), and a body that only its end delimits is then
    /// incomplete (RFC 9112 9.8).
    pub(super) async fn receive(&mut self, deadline: Time) -> Result<Option<Vec<u8>>, NetError> {
        let mut barren_bytes = 0;
        loop {
            if !self.plain.is_empty() {
                return Ok(Some(std::mem::take(&mut self.plain)));
            }
            if let Some(ended) = self.ended {
                return ended.map(|()| None);
            }
            // A peer that keeps sending records without data would outlast any deadline.
            if barren_bytes > limits::TLS_BARREN_BYTES_MAX {
                return Err(NetError::Reset);
            }
            match self.stream.receive(deadline).await? {
                None => self.ended = Some(Err(NetError::Closed)),
                Some(chunk) => {
                    barren_bytes += chunk.len();
                    self.take_records(&chunk);
                }
            }
            // This sends the answer to a key update, or an alert. If it fails, the next receive
            // reports why; what was decrypted is good all the same.
            let _ = self.flush(deadline).await;
        }
    }

    /// Reports whether the peer has neither sent data nor closed since its last response. Records
    /// without data do not make the framing doubtful and are processed here: session tickets and
    /// key updates may come at any time.
    pub(super) async fn is_quiet(&mut self, now: Time) -> bool {
        let mut barren_bytes = 0;
        while !self.stream.is_quiet() {
            // Something has arrived, so this does not wait.
            let Ok(Some(chunk)) = self.stream.receive(now).await else { return false };
            barren_bytes += chunk.len();
            self.take_records(&chunk);
            let has_spoken = !self.plain.is_empty() || self.ended.is_some();
            if has_spoken || barren_bytes > limits::TLS_BARREN_BYTES_MAX {
                return false;
            }
        }
        self.plain.is_empty() && self.ended.is_none()
    }

    /// Processes received bytes to their end, or to the close_notify or broken record that ends the
    /// session.
    fn take_records(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.ended.is_none() {
            let read = self.connection.read_tls(&mut bytes);
            let processed = self.connection.process_new_packets();
            if let Ok(state) = &processed {
                self.plain.reserve(state.plaintext_bytes_to_read());
            }
            // Data in front of a broken record is read too. The error at the end only says that
            // there is no more.
            let _ = self.connection.reader().read_to_end(&mut self.plain);
            if let Err(error) = &processed {
                self.fault = Some(certificate::outcome_of(error));
            }
            match (read, processed) {
                (_, Ok(state)) if state.peer_has_closed() => self.ended = Some(Ok(())),
                (Ok(1..), Ok(_)) => {}
                _ => self.ended = Some(Err(NetError::Reset)),
            }
        }
    }

    async fn flush(&mut self, deadline: Time) -> Result<(), NetError> {
        while self.connection.wants_write() {
            let mut records = Vec::new();
            self.connection.write_tls(&mut records).map_err(|_| NetError::Closed)?;
            if records.is_empty() {
                return Ok(());
            }
            self.stream.send(records, deadline).await?;
        }
        Ok(())
    }
}

/// The verifier for `insecure_tls`: for test webs and for archives of broken sites, never the
/// default.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

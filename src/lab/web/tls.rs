//! HTTPS for the synthetic web: an authority made at the start, a certificate for each site, and
//! the TLS stream under the same connection code.
//!
//! A certificate is made when a client first asks for its site. The authority is plain text and may
//! go to every core; each core makes its own [`Tls`] from it. All certificates share one key, so
//! issuing one costs a signature and no key generation.

#![allow(clippy::disallowed_types)] // rustls needs Arc and Sync; none of it leaves the core

use crate::base::Time;
use crate::base::limits::WEB_CERTIFICATE_COUNT_MAX;
use crate::io::{NetError, Stream};
use crate::lab::web::connection::Transport;
use crate::lab::web::hostile::{ROWS, Secrecy, ZONE};
use crate::lab::web::spec::WebSpec;
use hashbrown::HashMap;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, ServerConfig, ServerConnection};
use rustls::sign::{CertifiedKey, SigningKey};
use std::fmt;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

/// A certificate authority as text. Clients must trust `certificate_pem`.
#[derive(Clone)]
pub struct Authority {
    pub certificate_pem: String,
    key_pem: String,
}

/// One core's TLS: it issues and keeps certificates, and resumes sessions.
pub struct Tls {
    config: Arc<ServerConfig>,
}

#[derive(Debug)]
pub enum TlsError {
    Certificate(rcgen::Error),
    Session(rustls::Error),
}

impl fmt::Display for TlsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::Certificate(error) => write!(out, "cannot issue a certificate: {error}"),
            TlsError::Session(error) => write!(out, "cannot set up TLS: {error}"),
        }
    }
}

impl std::error::Error for TlsError {}

impl From<rcgen::Error> for TlsError {
    fn from(error: rcgen::Error) -> TlsError {
        TlsError::Certificate(error)
    }
}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> TlsError {
        TlsError::Session(error)
    }
}

impl Authority {
    pub fn new() -> Result<Authority, TlsError> {
        let key = KeyPair::generate()?;
        let certificate = authority_params()?.self_signed(&key)?;
        Ok(Authority { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
    }
}

impl Tls {
    pub fn new(authority: &Authority, spec: &WebSpec) -> Result<Tls, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let book = Book::new(authority, spec, &provider)?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(book));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.ticketer = aws_lc_rs::Ticketer::new()?;
        Ok(Tls { config: Arc::new(config) })
    }

    pub(super) fn session(&self) -> Result<ServerConnection, TlsError> {
        let mut session = ServerConnection::new(self.config.clone())?;
        // A response is handed over whole, and the spec bounds its size, so no limit is needed.
        session.set_buffer_limit(None);
        Ok(session)
    }
}

/// Returns the same parameters each time, so that an issuer made from the key alone can sign for
/// the authority's certificate.
fn authority_params() -> Result<CertificateParams, TlsError> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "nephila synthetic web");
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

/// Issued certificates by site: `*.site30.test` under `site30.test`.
struct Book {
    issuer: Issuer<'static, KeyPair>,
    leaf: KeyPair,
    signer: Arc<dyn SigningKey>,
    site_count: u32,
    is_hostile: bool,
    /// The lock is never contended, because only one core resolves.
    issued: Mutex<HashMap<String, Arc<CertifiedKey>>>,
}

impl fmt::Debug for Book {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Book").field("site_count", &self.site_count).finish_non_exhaustive()
    }
}

impl Book {
    fn new(
        authority: &Authority,
        spec: &WebSpec,
        provider: &CryptoProvider,
    ) -> Result<Book, TlsError> {
        let leaf = KeyPair::generate()?;
        let der = PrivateKeyDer::try_from(leaf.serialize_der())
            .map_err(|reason| TlsError::Session(rustls::Error::General(reason.to_owned())))?;
        Ok(Book {
            issuer: Issuer::new(authority_params()?, KeyPair::from_pem(&authority.key_pem)?),
            leaf,
            signer: provider.key_provider.load_private_key(der)?,
            site_count: spec.host_count.div_ceil(spec.hosts_per_site),
            is_hostile: spec.hostile,
            issued: Mutex::new(HashMap::new()),
        })
    }

    /// Returns what the hostile host of this name offers as TLS; `None` for any other name.
    fn secrecy(&self, server_name: Option<&str>) -> Option<Secrecy> {
        let label = server_name?.strip_suffix(ZONE)?.strip_suffix('.')?;
        let row = ROWS.iter().find(|row| self.is_hostile && row.name == label)?;
        Some(row.secrecy)
    }

    /// Issues a certificate that is wrong in the way that its row says.
    fn issue_hostile(&self, name: &str, secrecy: Secrecy) -> Result<CertifiedKey, TlsError> {
        let name = if secrecy == Secrecy::OtherName { "other.example" } else { name };
        let mut params = CertificateParams::new(vec![name.to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.use_authority_key_identifier_extension = true;
        if let Some((first, last)) = match secrecy {
            Secrecy::Expired => Some((2001, 2002)),
            Secrecy::NotYetValid => Some((2101, 2102)),
            _ => None,
        } {
            params.not_before = rcgen::date_time_ymd(first, 1, 1);
            params.not_after = rcgen::date_time_ymd(last, 1, 1);
        }
        let mut chain = Vec::new();
        let certificate = match secrecy {
            Secrecy::SelfSigned => params.self_signed(&self.leaf)?,
            Secrecy::BrokenChain | Secrecy::UnknownIssuer => {
                let mut issuer = authority_params()?;
                issuer.distinguished_name.push(DnType::CommonName, "an authority of nobody");
                let issuer = CertifiedIssuer::self_signed(issuer, KeyPair::generate()?)?;
                if secrecy == Secrecy::UnknownIssuer {
                    chain.push(issuer.der().clone());
                }
                params.signed_by(&self.leaf, &issuer)?
            }
            _ => params.signed_by(&self.leaf, &self.issuer)?,
        };
        chain.insert(0, certificate.der().clone());
        Ok(CertifiedKey::new(chain, self.signer.clone()))
    }

    /// Returns the site of a host name, if it is one of this web's. A client that sends no name
    /// (because it dials an address) gets the certificate for loopback.
    fn site<'a>(&self, server_name: Option<&'a str>) -> Option<&'a str> {
        let Some(name) = server_name else { return Some("localhost") };
        let (_, site) = name.split_once('.')?;
        let digits = site.strip_prefix("site")?.strip_suffix(".test")?;
        digits.parse().is_ok_and(|number: u32| number < self.site_count).then_some(site)
    }

    fn issue(&self, site: &str) -> Result<CertifiedKey, rcgen::Error> {
        let names = match site {
            "localhost" => vec![site.to_owned(), "127.0.0.1".to_owned()],
            _ => vec![format!("*.{site}"), site.to_owned()],
        };
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, site);
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&self.leaf, &self.issuer)?;
        let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
        Ok(CertifiedKey::new(chain, self.signer.clone()))
    }
}

impl ResolvesServerCert for Book {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if let Some(secrecy) = self.secrecy(hello.server_name()) {
            let fresh = self.issue_hostile(hello.server_name()?, secrecy);
            return fresh.ok().map(Arc::new);
        }
        let site = self.site(hello.server_name())?;
        let mut issued = self.issued.lock().ok()?;
        if let Some(known) = issued.get(site) {
            return Some(known.clone());
        }
        if issued.len() >= WEB_CERTIFICATE_COUNT_MAX {
            issued.clear();
        }
        let fresh = Arc::new(self.issue(site).ok()?);
        issued.insert(site.to_owned(), fresh.clone());
        Some(fresh)
    }
}

/// A stream under TLS.
pub(super) struct Encrypted<S> {
    stream: S,
    session: ServerConnection,
}

impl<S: Stream> Encrypted<S> {
    pub fn new(stream: S, session: ServerConnection) -> Encrypted<S> {
        Encrypted { stream, session }
    }

    /// Sends the session's pending records: handshake, data, alerts.
    async fn flush(&mut self, deadline: Time) -> Result<(), NetError> {
        let mut records = Vec::new();
        while self.session.wants_write() {
            self.session.write_tls(&mut records).map_err(|_| NetError::Closed)?;
        }
        if !records.is_empty() {
            self.stream.send(records, deadline).await?;
        }
        Ok(())
    }

    /// Decrypts a piece of the stream into `inbox`; returns false when the peer has closed the
    /// session.
    fn absorb(&mut self, mut piece: &[u8], inbox: &mut Vec<u8>) -> Result<bool, rustls::Error> {
        while !piece.is_empty() {
            // Reading from a slice fails only if the session takes no more bytes, and then it is
            // stuck.
            if self.session.read_tls(&mut piece).unwrap_or(0) == 0 {
                return Err(rustls::Error::General("the TLS session is stuck".to_owned()));
            }
            let state = self.session.process_new_packets()?;
            let start = inbox.len();
            inbox.resize(start + state.plaintext_bytes_to_read(), 0);
            let read = self.session.reader().read(&mut inbox[start..]).unwrap_or(0);
            inbox.truncate(start + read);
            if state.peer_has_closed() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl<S: Stream> Transport for Encrypted<S> {
    const IS_HTTPS: bool = true;

    async fn receive(&mut self, inbox: &mut Vec<u8>, deadline: Time) -> Result<bool, NetError> {
        let before = inbox.len();
        loop {
            let Some(chunk) = self.stream.receive(deadline).await? else { return Ok(false) };
            let absorbed = self.absorb(&chunk, inbox);
            drop(chunk);
            // This also sends the alert of an error.
            self.flush(deadline).await?;
            match absorbed {
                Ok(true) if inbox.len() == before => {}
                Ok(open) => return Ok(open),
                Err(_) => return Err(NetError::Reset),
            }
        }
    }

    async fn send(&mut self, bytes: Vec<u8>, deadline: Time) -> Result<Vec<u8>, NetError> {
        self.session.writer().write_all(&bytes).map_err(|_| NetError::Closed)?;
        self.flush(deadline).await?;
        Ok(bytes)
    }

    async fn finish(&mut self, deadline: Time) {
        self.session.send_close_notify();
        let _ = self.flush(deadline).await;
    }

    fn reset(self) {
        self.stream.reset();
    }

    fn peer(&self) -> SocketAddr {
        self.stream.peer()
    }

    fn local(&self) -> SocketAddr {
        self.stream.local()
    }
}

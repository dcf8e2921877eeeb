//! Why a server's certificate is not trusted, as an outcome with a name.
//!
//! rustls calls [`Judge`]. It calls the usual verifier, and examines the chain itself where the
//! verifier found no way to an authority. The verifier says "unknown issuer" for a certificate that
//! signed itself, for a server that leaves out the next certificate, and for a private authority
//! alike. The chain is examined after the verdict, and this never changes the verdict. There is no
//! state, so any core may use this.
#![allow(clippy::disallowed_types)] // rustls requires Arc; none is shared between cores.

use crate::crawl::flow::Outcome;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};
use std::fmt;
use std::sync::Arc;

/// The usual verifier, which also finds the cause of a refusal.
#[derive(Debug)]
pub(super) struct Judge(pub(super) Arc<WebPkiServerVerifier>);

/// The cause that [`Judge`] found, on its way through rustls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChainFault(Outcome);

impl fmt::Display for ChainFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0.name())
    }
}

impl std::error::Error for ChainFault {}

/// Returns the outcome of a handshake that ended with this error.
pub(super) fn outcome_of(error: &Error) -> Outcome {
    match error {
        Error::InvalidCertificate(CertificateError::Other(OtherError(other))) => {
            let found = other.downcast_ref::<ChainFault>();
            found.map_or(Outcome::TlsBadCertificate, |fault| fault.0)
        }
        Error::InvalidCertificate(error) => of_certificate(error),
        Error::NoCertificatesPresented => Outcome::TlsBadCertificate,
        Error::InappropriateMessage { .. }
        | Error::InappropriateHandshakeMessage { .. }
        | Error::InvalidMessage(_)
        | Error::DecryptError
        | Error::PeerIncompatible(_)
        | Error::PeerMisbehaved(_)
        | Error::AlertReceived(_)
        | Error::PeerSentOversizedRecord
        | Error::NoApplicationProtocol => Outcome::TlsProtocol,
        _ => Outcome::TlsFailed,
    }
}

fn of_certificate(error: &CertificateError) -> Outcome {
    use CertificateError::*;
    match error {
        Expired | ExpiredContext { .. } => Outcome::TlsExpired,
        NotValidYet | NotValidYetContext { .. } => Outcome::TlsNotYetValid,
        NotValidForName | NotValidForNameContext { .. } => Outcome::TlsWrongName,
        UnknownIssuer => Outcome::TlsUnknownIssuer,
        _ => Outcome::TlsBadCertificate,
    }
}

/// Returns the cause that the chain alone shows, where the verifier found no way to an authority.
fn chain_fault(leaf: &[u8], others: &[CertificateDer<'_>], error: &CertificateError) -> Outcome {
    let Some(Names { mut issuer, subject }) = Names::read(leaf) else {
        return Outcome::TlsBadCertificate;
    };
    if issuer == subject {
        return Outcome::TlsSelfSigned;
    }
    if *error != CertificateError::UnknownIssuer {
        return Outcome::TlsBadCertificate;
    }
    let mut is_linked = false;
    // A chain has at most as many links as there are certificates, so a circular chain ends here
    // too.
    for _ in others {
        let next = others.iter().filter_map(|other| Names::read(other));
        let Some(next) = { next }.find(|next| next.subject == issuer) else { break };
        is_linked = true;
        issuer = next.issuer;
    }
    // Servers usually leave out the root. One that sends nothing of the way there has probably left
    // out more.
    if is_linked { Outcome::TlsUnknownIssuer } else { Outcome::TlsBrokenChain }
}

impl ServerCertVerifier for Judge {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verdict =
            self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        let Err(Error::InvalidCertificate(error)) = verdict else { return verdict };
        let is_named = matches!(
            of_certificate(&error),
            Outcome::TlsExpired | Outcome::TlsNotYetValid | Outcome::TlsWrongName
        );
        Err(Error::InvalidCertificate(if is_named {
            error
        } else {
            let fault = ChainFault(chain_fault(end_entity, intermediates, &error));
            CertificateError::Other(OtherError(Arc::new(fault)))
        }))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Two fields of a certificate, as the bytes that it holds.
#[derive(Debug, PartialEq, Eq)]
struct Names<'c> {
    issuer: &'c [u8],
    subject: &'c [u8],
}

impl<'c> Names<'c> {
    /// Reads the names of a certificate (RFC 5280 4.1): Certificate and TBSCertificate are
    /// sequences. The latter holds a version (`[0]`, optional), a serial number, an algorithm, the
    /// issuer, the validity and the subject.
    fn read(certificate: &'c [u8]) -> Option<Names<'c>> {
        const VERSION: u8 = 0xa0;
        let (_, certificate, _) = element(certificate)?;
        let (_, fields, _) = element(certificate)?;
        let (tag, _, rest) = element(fields)?;
        let fields = if tag == VERSION { rest } else { fields };
        let (_, _, rest) = element(fields)?;
        let (_, _, rest) = element(rest)?;
        let (_, issuer, rest) = element(rest)?;
        let (_, _, rest) = element(rest)?;
        let (_, subject, _) = element(rest)?;
        Some(Names { issuer, subject })
    }
}

/// Returns the first DER element: its tag, its contents, and the bytes that follow it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk::<2>()?;
    let (len, rest) = match first {
        ..=0x7f => (usize::from(first), rest),
        // 0x81 to 0x84 say how many bytes of length follow. No certificate has a longer length.
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |len, digit| len << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (contents, rest) = rest.split_at_checked(len)?;
    Some((tag, contents, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    fn certificate(subject: &str) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, subject);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn issuer_and_subject_are_found_in_a_certificate_and_nowhere_else() {
        let long = "n".repeat(300);
        for subject in ["short", &long] {
            let der = certificate(subject);
            let names = Names::read(&der).expect("a certificate");
            assert_eq!(names.issuer, names.subject);
            let text = String::from_utf8_lossy(names.subject).into_owned();
            assert!(text.contains(subject), "{text:?}");
            let subject_end = names.subject.as_ptr_range().end as usize - der.as_ptr() as usize;
            for len in 0..subject_end {
                assert_eq!(Names::read(&der[..len]), None, "cut after {len} bytes");
            }
        }
    }

    #[test]
    fn any_bytes_are_read_without_harm() {
        let der = certificate("x");
        for at in 0..der.len() {
            for byte in [0, 0x7f, 0x80, 0x84, 0x85, 0xff] {
                let mut broken = der.clone();
                broken[at] = byte;
                // Whatever is found lies within the input, and nothing panics.
                let _ = Names::read(&broken);
            }
        }
    }
}

//! Writes the one kind of request a crawler sends: a GET (or HEAD) without a body.
//!
//! Every value is checked, because validators come back from servers' earlier answers. Whatever a
//! value holds, the output is one request line and the fields written here.

use crate::proto::url::Url;
use std::fmt;

const ACCEPT: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
/// The codings that servers are offered by default: see the setting `accept_encoding`.
pub const ACCEPT_ENCODING: &str = "gzip";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
}

/// What the last answer for a URL said about its version. Both are sent when both are known (RFC
/// 9110 13.1.3: a server that knows ETags ignores the date).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Validators<'a> {
    /// The ETag as received, quotes and `W/` included.
    pub etag: Option<&'a [u8]>,
    /// The Last-Modified as received.
    pub last_modified: Option<&'a [u8]>,
}

#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub method: Method,
    pub url: &'a Url,
    pub agent: &'a str,
    /// The codings that are offered. If empty, `identity` is sent, which offers none.
    pub accept_encoding: &'a str,
    pub validators: Validators<'a>,
    /// The operator's own fields, name and value.
    pub extra: &'a [(&'a str, &'a str)],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The request target or the authority holds a blank, control or non-ASCII byte.
    Target,
    /// A field name is not a token.
    FieldName,
    /// A field's value holds a line break or another control byte.
    FieldValue,
}

impl fmt::Display for RequestError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            RequestError::Target => "request target is not printable ASCII",
            RequestError::FieldName => "field name is not a token",
            RequestError::FieldValue => "control byte in a field value",
        })
    }
}

impl std::error::Error for RequestError {}

/// Appends a GET for `url` that offers [`ACCEPT_ENCODING`]. On an error `out` is left unchanged.
pub fn write_get(
    out: &mut Vec<u8>,
    url: &Url,
    agent: &str,
    validators: Validators<'_>,
    extra: &[(&str, &str)],
) -> Result<(), RequestError> {
    let accept_encoding = ACCEPT_ENCODING;
    Request { method: Method::Get, url, agent, accept_encoding, validators, extra }.write(out)
}

impl Request<'_> {
    /// Appends the request. On an error `out` is left unchanged.
    ///
    /// No Connection field is written: HTTP/1.1 persists by default. No credential, cookie or
    /// fragment is written: a [`Url`] has none.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), RequestError> {
        let start = out.len();
        let result = self.write_fields(out);
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    fn write_fields(&self, out: &mut Vec<u8>) -> Result<(), RequestError> {
        let target = self.url.path_and_query().as_bytes();
        let authority = self.url.authority().as_bytes();
        if !target.iter().chain(authority).all(u8::is_ascii_graphic) {
            return Err(RequestError::Target);
        }
        out.reserve(256 + target.len() + authority.len() + self.agent.len());
        out.extend_from_slice(match self.method {
            Method::Get => b"GET ",
            Method::Head => b"HEAD ",
        });
        out.extend_from_slice(target);
        out.extend_from_slice(b" HTTP/1.1\r\n");
        // RFC 9110 7.2 asks for Host first.
        write_field(out, "Host", authority)?;
        write_field(out, "User-Agent", self.agent.as_bytes())?;
        write_field(out, "Accept", ACCEPT.as_bytes())?;
        // RFC 9110 12.5.3: without the field, the server may use any coding.
        let codings = match self.accept_encoding {
            "" => "identity",
            codings => codings,
        };
        write_field(out, "Accept-Encoding", codings.as_bytes())?;
        if let Some(etag) = self.validators.etag {
            write_field(out, "If-None-Match", etag)?;
        }
        if let Some(date) = self.validators.last_modified {
            write_field(out, "If-Modified-Since", date)?;
        }
        for (name, value) in self.extra {
            write_field(out, name, value.as_bytes())?;
        }
        out.extend_from_slice(b"\r\n");
        Ok(())
    }
}

fn write_field(out: &mut Vec<u8>, name: &str, value: &[u8]) -> Result<(), RequestError> {
    if name.is_empty() || !name.bytes().all(is_token_byte) {
        return Err(RequestError::FieldName);
    }
    // RFC 9110 5.5 allows visible bytes, blanks and obs-text (an ETag may hold it).
    if !value.iter().all(|&byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f)) {
        return Err(RequestError::FieldValue);
    }
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Reports whether `byte` may be part of a token (RFC 9110 5.6.2).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect("a valid URL")
    }

    #[test]
    fn a_get_is_written_field_by_field() {
        let mut out = Vec::new();
        let url = url("https://user:secret@example.org:8443/a%20b?c=d#frag");
        let validators =
            Validators { etag: Some(b"W/\"x\""), last_modified: Some(b"Sun, 06 Nov 1994") };
        write_get(&mut out, &url, "nephila/1", validators, &[("From", "a@b.c")]).unwrap();
        let expected = "GET /a%20b?c=d HTTP/1.1\r\nHost: example.org:8443\r\n\
            User-Agent: nephila/1\r\n\
            Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
            Accept-Encoding: gzip\r\nIf-None-Match: W/\"x\"\r\n\
            If-Modified-Since: Sun, 06 Nov 1994\r\nFrom: a@b.c\r\n\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn the_codings_offered_are_the_callers_and_none_is_said_in_words() {
        for (accept_encoding, line) in [("br, gzip", "br, gzip"), ("", "identity")] {
            let mut out = Vec::new();
            let url = &url("http://example.org/");
            let (method, agent, validators) = (Method::Get, "n", Validators::default());
            let request = Request { method, url, agent, accept_encoding, validators, extra: &[] };
            request.write(&mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.contains(&format!("\r\nAccept-Encoding: {line}\r\n")), "{text}");
        }
    }

    #[test]
    fn default_port_is_not_sent() {
        let mut out = Vec::new();
        let url = url("http://example.org:80/");
        write_get(&mut out, &url, "n", Validators::default(), &[]).unwrap();
        assert!(out.starts_with(b"GET / HTTP/1.1\r\nHost: example.org\r\n"));
    }

    #[test]
    fn a_line_break_in_any_value_is_refused_and_leaves_no_trace() {
        let url = url("http://example.org/");
        let evil = "x\r\nEvil: 1";
        let etag = Validators { etag: Some(evil.as_bytes()), last_modified: None };
        let date = Validators { etag: None, last_modified: Some(b"a\nb") };
        let none = Validators::default();
        let mut out = b"before".to_vec();
        let refused = Err(RequestError::FieldValue);
        assert_eq!(write_get(&mut out, &url, "n", etag, &[]), refused);
        assert_eq!(write_get(&mut out, &url, "n", date, &[]), refused);
        assert_eq!(write_get(&mut out, &url, evil, none, &[]), refused);
        assert_eq!(write_get(&mut out, &url, "n", none, &[("From", evil)]), refused);
        let refused = Err(RequestError::FieldName);
        assert_eq!(write_get(&mut out, &url, "n", none, &[(evil, "x")]), refused);
        assert_eq!(write_get(&mut out, &url, "n", none, &[("", "x")]), refused);
        assert_eq!(out, b"before");
    }

    proptest! {
        #[test]
        fn whatever_the_link_and_the_etag_one_request_leaves(
            path in ".{0,40}", etag in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let Ok(url) = Url::parse(&format!("http://h.example/{path}")) else { return Ok(()) };
            let validators = Validators { etag: Some(&etag), last_modified: None };
            let mut out = Vec::new();
            if write_get(&mut out, &url, "n", validators, &[]).is_ok() {
                let text = String::from_utf8_lossy(&out);
                prop_assert_eq!(text.matches("\r\n").count(), 7);
                prop_assert_eq!(text.matches('\r').count(), 7);
                prop_assert_eq!(text.matches('\n').count(), 7);
                prop_assert!(text.ends_with("\r\n\r\n"));
            }
        }
    }
}

//! The whole WHATWG algorithm, by the `url` crate. It is slow (two parses and three allocations a
//! join), complete, and the oracle of [`super::plain`]. Text goes in; a [`Url`] or the reason for a
//! refusal comes out.

use super::{Scheme, Url, UrlError};

pub(super) fn parse(text: &str) -> Result<Url, UrlError> {
    accept(url::Url::parse(text).map_err(|_| UrlError::Invalid)?)
}

pub(super) fn join(base: &Url, reference: &str) -> Result<Url, UrlError> {
    // The crate refuses `///host/`, where the standard's "special authority ignore slashes state"
    // skips all the slashes. With a scheme in front the crate does what the standard says.
    if starts_with_three_slashes(reference) {
        return parse(&format!("{}:{}", base.scheme().as_str(), trim(reference)));
    }
    let base = url::Url::parse(&base.text).map_err(|_| UrlError::Invalid)?;
    accept(base.join(reference).map_err(|_| UrlError::Invalid)?)
}

/// Removes the C0 controls and spaces that the standard ignores around a URL.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches(|character| character <= ' ')
}

fn starts_with_three_slashes(reference: &str) -> bool {
    let seen = |byte: &u8| !matches!(byte, b'\t' | b'\n' | b'\r');
    let mut bytes = trim(reference).bytes().filter(seen);
    (0..3).all(|_| matches!(bytes.next(), Some(b'/' | b'\\')))
}

fn accept(mut parsed: url::Url) -> Result<Url, UrlError> {
    let scheme = match parsed.scheme() {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        _ => return Err(UrlError::Scheme),
    };
    parsed.set_fragment(None);
    // Both calls fail only if there is no host, and an http(s) URL has one.
    let _ = parsed.set_username("");
    let _ = parsed.set_password(None);
    let port = parsed.port_or_known_default().ok_or(UrlError::Invalid)?;
    let host_bytes = parsed.host_str().ok_or(UrlError::NoHost)?.len();
    let path_start = parsed[..url::Position::BeforePath].len();
    let text: String = parsed.into();
    Url::assemble(text, scheme, host_bytes, path_start, port)
}

//! URLs of the crawl: parsed by the WHATWG rules, http and https only, with the parts that the
//! crawler asks for at fixed offsets, and the hashes that decide which slot and core a URL belongs
//! to.
//!
//! This module owns the parsing, the normal form and the hashes of URLs. Text goes in, values come
//! out: no I/O, no DNS. Invariant: a [`Url`] is always in serialised form, which is what goes on
//! the wire, so no URL can break a request line. Any core may use it.
//!
//! | file | what |
//! |---|---|
//! | `plain` | one pass and one allocation for common links; leaves odd ones to `reference` |
//! | `reference` | the whole standard, by the `url` crate; the oracle of `plain` |
//! | `run` | how many bytes at the start of a text stand for themselves, sixteen at a time |
//! | [`Scratch`] | a URL in a buffer that is reused: most links turn out to be known |
//! | [`Normaliser`] | one spelling for the many that lead to the same page |
//! | `compared` | the form that is hashed: two orders of one query are one URL |
//! | [`Skeleton`] | the shape that the URLs of a trap share |
//! | [`registrable_domain`] | the name that someone registered, for which a budget is counted |

mod compared;
mod domain;
mod normal;
mod params;
mod plain;
mod reference;
mod run;
mod scratch;
mod skeleton;
#[cfg(test)]
mod tests;

use compared::compared;
pub use domain::registrable_domain;
pub use normal::Normaliser;
pub use scratch::{Base, Scratch};
pub use skeleton::Skeleton;

use crate::base::HashKey;
use crate::base::limits::{FINGERPRINT_HOST_BITS, SLOT_BITS, URL_BYTES_MAX};
use std::borrow::Cow;
use std::fmt::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Deref;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// Returns where the host begins, behind `scheme://`.
    fn host_start(self) -> usize {
        self.as_str().len() + 3
    }

    pub fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

/// An absolute http or https URL without user info and without fragment.
///
/// Invariants: `text` is printable ASCII without spaces; `host_start..host_end` of it is the host
/// (brackets included for IPv6); `text[path_start..]` starts with `/`. A URL owns its text, or
/// borrows it (`Url<&str>`): a link that is known, or that goes into a queue, never needs a text of
/// its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Url<T = Box<str>> {
    text: T,
    parts: Parts,
}

/// A type that can hold the text of a URL.
pub trait Text: Deref<Target = str> {}

impl Text for Box<str> {}
impl Text for &str {}

/// Where the parts are in a URL's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Parts {
    host_end: u32,
    path_start: u32,
    scheme: Scheme,
    port: u16,
}

/// What a host is: a name to resolve, or an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostKind {
    Domain,
    Ipv4(Ipv4Addr),
    Ipv6(Ipv6Addr),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlError {
    Invalid,
    /// Well-formed, but not http or https.
    Scheme,
    NoHost,
    TooLong,
}

impl fmt::Display for UrlError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            UrlError::Invalid => "not a valid URL",
            UrlError::Scheme => "not an http or https URL",
            UrlError::NoHost => "no host",
            UrlError::TooLong => "longer than the limit",
        })
    }
}

impl std::error::Error for UrlError {}

/// A 64-bit hash of the host name under the crawl's key. It decides the slot, and with it the core,
/// that owns the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostKey(pub u64);

/// A 128-bit hash of a normalised URL's compared form under the crawl's key: the URL's identity in
/// URL-seen. The top 40 bits are those of its host's key. So sorted fingerprints are ordered by
/// slot, which lets another number of cores split them by range, and by host, which puts the links
/// of a page in one place. The other 88 bits are of the whole form; code that needs evenly spread
/// bits takes those.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub u128);

/// The top 12 bits of a host key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u16);

/// The two hashes by which a normalised URL is known: its host's, and its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UrlId {
    pub host: HostKey,
    pub fingerprint: Fingerprint,
}

impl UrlId {
    /// Hashes a URL. `text` is its text, and its path begins at `path_start`.
    fn of(key: &HashKey, host: HostKey, text: &str, path_start: usize) -> UrlId {
        let hash = key.hash(compared(text, path_start).as_bytes());
        UrlId { host, fingerprint: Fingerprint::new(host, hash) }
    }
}

impl HostKey {
    /// Hashes a host, which is in serialised form: lower case, Punycode, no trailing port.
    pub fn of(key: &HashKey, host: &str) -> HostKey {
        HostKey(key.hash(host.as_bytes()) as u64)
    }

    pub fn slot(self) -> Slot {
        Slot((self.0 >> (64 - SLOT_BITS)) as u16)
    }
}

impl Fingerprint {
    /// Makes the fingerprint of a URL of `host` whose compared form hashes to `hash`.
    pub fn new(host: HostKey, hash: u128) -> Fingerprint {
        let own = u128::MAX >> FINGERPRINT_HOST_BITS;
        Fingerprint(u128::from(host.0) << 64 & !own | hash & own)
    }

    /// Returns the slot of the URL's host.
    pub fn slot(self) -> Slot {
        Slot((self.0 >> SLOT_SHIFT) as u16)
    }
}

/// The shift that brings a fingerprint's slot to the lowest bits.
const SLOT_SHIFT: u32 = u128::BITS - SLOT_BITS;

impl Slot {
    /// Returns the first and the last fingerprint that a URL of the slot can have.
    pub fn fingerprints(self) -> (Fingerprint, Fingerprint) {
        let first = u128::from(self.0) << SLOT_SHIFT;
        (Fingerprint(first), Fingerprint(first | u128::MAX >> SLOT_BITS))
    }
}

impl Parts {
    /// Makes the parts of a text in serialised form, whose host begins right behind `scheme://`.
    fn of(
        text: &str,
        scheme: Scheme,
        host_bytes: usize,
        path_start: usize,
        port: u16,
    ) -> Result<Parts, UrlError> {
        if text.len() > URL_BYTES_MAX {
            return Err(UrlError::TooLong);
        }
        debug_assert!(text.bytes().all(|byte| byte.is_ascii_graphic()));
        debug_assert!(text[path_start..].starts_with('/'));
        let host_end = (scheme.host_start() + host_bytes) as u32;
        Ok(Parts { host_end, path_start: path_start as u32, scheme, port })
    }

    fn host(self, text: &str) -> &str {
        &text[self.scheme.host_start()..self.host_end as usize]
    }
}

impl Url {
    pub fn parse(text: &str) -> Result<Url, UrlError> {
        let mut out = String::new();
        match plain::parse(text, &mut out) {
            Some(found) => found.map(|(parts, _)| Url { text: out.into_boxed_str(), parts }),
            None => reference::parse(text),
        }
    }

    /// Resolves `reference`, as found in an href or a Location, against this URL.
    pub fn join(&self, reference: &str) -> Result<Url, UrlError> {
        let mut out = String::new();
        match plain::join(self, || self.directory_end(), reference, &mut out) {
            Some(found) => found.map(|(parts, _)| Url { text: out.into_boxed_str(), parts }),
            None => reference::join(self, reference),
        }
    }

    /// Does what [`Url::join`] does, for bytes off the wire: bytes that are not UTF-8 become
    /// U+FFFD, as in a browser.
    pub fn join_bytes(&self, reference: &[u8]) -> Result<Url, UrlError> {
        self.join(&String::from_utf8_lossy(reference))
    }

    /// Puts a URL together without a parse, from its [`Url::origin`] and its
    /// [`Url::path_and_query`], which a host's queue keeps.
    pub fn rebuild(origin: &str, path_and_query: &str) -> Url {
        let scheme = if origin.starts_with("https:") { Scheme::Https } else { Scheme::Http };
        let host_start = scheme.host_start();
        let authority = origin.get(host_start..).unwrap_or("");
        // The colons of an IPv6 address stand before its closing bracket.
        let sign = authority.bytes().rposition(|byte| matches!(byte, b':' | b']'));
        let colon = sign.filter(|sign| authority.as_bytes()[*sign] == b':');
        let port = colon.and_then(|colon| authority[colon + 1..].parse().ok());
        let url = Url {
            text: [origin, path_and_query].concat().into_boxed_str(),
            parts: Parts {
                host_end: (host_start + colon.unwrap_or(authority.len())) as u32,
                path_start: origin.len() as u32,
                scheme,
                port: port.unwrap_or(scheme.default_port()),
            },
        };
        debug_assert_eq!(Url::parse(&url.text).as_ref(), Ok(&url), "a parse gives other parts");
        url
    }

    /// Does what [`Url::rebuild`] does, from the parts of the origin that a host's queue knows.
    pub fn of_host(scheme: Scheme, host: &str, port: u16, path_and_query: &str) -> Url {
        let host_end = scheme.host_start() + host.len();
        let is_default = port == scheme.default_port();
        let port_bytes = if is_default { 0 } else { port.checked_ilog10().unwrap_or(0) + 2 };
        let size_bytes = host_end + port_bytes as usize + path_and_query.len();
        let mut text = String::with_capacity(size_bytes);
        text.push_str(scheme.as_str());
        text.push_str("://");
        text.push_str(host);
        if !is_default {
            // Writing to a string cannot fail.
            let _ = write!(text, ":{port}");
        }
        let path_start = text.len() as u32;
        text.push_str(path_and_query);
        let parts = Parts { host_end: host_end as u32, path_start, scheme, port };
        let url = Url { text: text.into_boxed_str(), parts };
        debug_assert_eq!(Url::parse(&url.text).as_ref(), Ok(&url), "a parse gives other parts");
        url
    }

    /// Makes a URL from a text in serialised form, whose host begins right behind `scheme://`.
    fn assemble(
        text: String,
        scheme: Scheme,
        host_bytes: usize,
        path_start: usize,
        port: u16,
    ) -> Result<Url, UrlError> {
        let parts = Parts::of(&text, scheme, host_bytes, path_start, port)?;
        Ok(Url { text: text.into_boxed_str(), parts })
    }
}

impl<'t> Url<&'t str> {
    /// Makes the URL with the text `text`, whose parts came from [`Url::parts`].
    pub fn lend(text: &'t str, parts: Parts) -> Url<&'t str> {
        let url = Url { text, parts };
        debug_assert_eq!(
            Url::parse(text).as_ref().map(Url::lent),
            Ok(url),
            "a parse gives other parts"
        );
        url
    }
}

impl<T: Text> Url<T> {
    /// Returns the same URL, which borrows the text of this one.
    pub fn lent(&self) -> Url<&str> {
        Url { text: &self.text, parts: self.parts }
    }

    /// Returns the same URL, with a text of its own.
    pub fn owned(&self) -> Url {
        Url { text: Box::from(&*self.text), parts: self.parts }
    }

    pub fn parts(&self) -> Parts {
        self.parts
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn scheme(&self) -> Scheme {
        self.parts.scheme
    }

    pub fn host(&self) -> &str {
        self.parts.host(&self.text)
    }

    pub fn host_kind(&self) -> HostKind {
        let host = self.host();
        if let Some(address) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            return address.parse().map_or(HostKind::Domain, HostKind::Ipv6);
        }
        // The parser lets a host end in a number only if the whole host is an address.
        if host.as_bytes().last().is_some_and(u8::is_ascii_digit) {
            return host.parse().map_or(HostKind::Domain, HostKind::Ipv4);
        }
        HostKind::Domain
    }

    /// Returns the address if the host is one: then there is nothing to resolve.
    pub fn host_address(&self) -> Option<IpAddr> {
        match self.host_kind() {
            HostKind::Domain => None,
            HostKind::Ipv4(address) => Some(address.into()),
            HostKind::Ipv6(address) => Some(address.into()),
        }
    }

    /// Returns the port to connect to: the explicit one, or the scheme's default.
    pub fn port(&self) -> u16 {
        self.parts.port
    }

    /// Returns `/path?query`, which is the request target.
    pub fn path_and_query(&self) -> &str {
        &self.text[self.parts.path_start as usize..]
    }

    /// Returns `scheme://host[:port]`, with the port only if it is not the scheme's default: the
    /// unit of robots.txt.
    pub fn origin(&self) -> &str {
        &self.text[..self.parts.path_start as usize]
    }

    /// Returns `host[:port]` as the Host header needs it.
    pub fn authority(&self) -> &str {
        &self.text[self.parts.scheme.host_start()..self.parts.path_start as usize]
    }

    pub fn host_key(&self, key: &HashKey) -> HostKey {
        HostKey::of(key, self.host())
    }

    /// Returns the compared form of a normalised URL, in which its query parameters are sorted.
    pub fn compared(&self) -> Cow<'_, str> {
        compared(&self.text, self.parts.path_start as usize)
    }

    /// Hashes [`Url::compared`], so two orders of one query have the same fingerprint. Meaningful
    /// for normalised URLs only.
    pub fn fingerprint(&self, key: &HashKey) -> Fingerprint {
        self.id(key).fingerprint
    }

    /// Returns the URL's two hashes.
    pub fn id(&self, key: &HashKey) -> UrlId {
        UrlId::of(key, self.host_key(key), &self.text, self.parts.path_start as usize)
    }

    /// Returns where the path ends: at the `?`, or with the text.
    fn path_end(&self) -> usize {
        let query = memchr::memchr(b'?', self.path_and_query().as_bytes());
        query.map_or(self.text.len(), |query| self.parts.path_start as usize + query)
    }

    /// Returns the URL up to the last slash of its path, to which a relative reference is appended.
    pub fn directory(&self) -> &str {
        &self.text[..self.directory_end()]
    }

    /// Returns the index behind the last slash of the path, where a relative reference is appended.
    fn directory_end(&self) -> usize {
        let path = &self.text.as_bytes()[self.parts.path_start as usize..self.path_end()];
        let slash = memchr::memrchr(b'/', path).unwrap_or(0);
        self.parts.path_start as usize + slash + 1
    }
}

impl<T: Text> fmt::Display for Url<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

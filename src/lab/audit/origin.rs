//! Names of hosts, of origins (scheme, host and port: RFC 6454 4) and of URLs.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;

/// The keys under which the referee hashes text that servers and pages chose. They are random in
/// each process, so that nobody can make a URL that the referee takes for another. No result
/// depends on them.
static KEYS: LazyLock<[RandomState; 2]> = LazyLock::new(Default::default);

/// Hashes a text with SipHash-1-3 and a random key.
pub(super) fn digest(text: &[u8]) -> u64 {
    KEYS[0].hash_one(text)
}

/// Hashes a text that is compared by its digest alone, however many there are.
pub(super) fn long_digest(text: &[u8]) -> u128 {
    let [low, high] = [0, 1].map(|key| KEYS[key].hash_one(text));
    u128::from(high) << 64 | u128::from(low)
}

/// Returns `http://host:port` in lower case, without a default port.
pub(super) fn origin(is_https: bool, authority: &str) -> String {
    let (scheme, default_port) = if is_https { ("https", "443") } else { ("http", "80") };
    let (host, port) = split_authority(authority);
    let host = host.to_ascii_lowercase();
    match port {
        Some(port) if port != default_port => format!("{scheme}://{host}:{port}"),
        _ => format!("{scheme}://{host}"),
    }
}

/// Returns the host of an authority in lower case, without the port.
pub(super) fn host(authority: &str) -> String {
    split_authority(authority).0.to_ascii_lowercase()
}

/// Returns the key of a URL: its origin as above, its path and query as they are.
pub(super) fn url_key(origin: &str, path: &str, scratch: &mut String) -> u64 {
    scratch.clear();
    scratch.push_str(origin);
    scratch.push_str(path);
    digest(scratch.as_bytes())
}

/// Splits an absolute http or https URL into origin and path.
pub(super) fn split_url(url: &str) -> Option<(String, &str)> {
    let (is_https, authority, path) = split_authority_and_path(url)?;
    Some((origin(is_https, authority), path))
}

/// Splits an absolute URL: whether it is https, the authority, and path with query.
pub(super) fn split_authority_and_path(url: &str) -> Option<(bool, &str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let is_https = match scheme {
        "http" => false,
        "https" => true,
        _ => return None,
    };
    let path_start = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(path_start);
    let path = path.split('#').next().unwrap_or_default();
    Some((is_https, authority, if path.is_empty() { "/" } else { path }))
}

/// Resolves a Location; returns `None` if it does not lead to http or https.
pub(super) fn join(base: &str, location: &[u8]) -> Option<String> {
    let base = ::url::Url::parse(base).ok()?;
    let target = base.join(std::str::from_utf8(location).ok()?).ok()?;
    matches!(target.scheme(), "http" | "https").then(|| target.into())
}

fn split_authority(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        // A colon inside brackets belongs to an IPv6 address.
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            (host, (!port.is_empty()).then_some(port))
        }
        _ => (authority, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_scheme_host_and_the_port_that_is_not_the_default() {
        assert_eq!(origin(false, "H.test:80"), "http://h.test");
        assert_eq!(origin(true, "h.test:443"), "https://h.test");
        assert_eq!(origin(true, "h.test:80"), "https://h.test:80");
        assert_eq!(origin(false, "h.test:8080"), "http://h.test:8080");
        assert_eq!(origin(false, "[::1]"), "http://[::1]");
        assert_eq!(origin(false, "[::1]:81"), "http://[::1]:81");
        assert_eq!((host("H.test:81"), host("[::1]:81")), ("h.test".into(), "[::1]".into()));
    }

    #[test]
    fn urls_split_and_join() {
        let split = |url| split_url(url).map(|(origin, path)| format!("{origin} {path}"));
        assert_eq!(split("http://h:80/a?b#c").as_deref(), Some("http://h /a?b"));
        assert_eq!(split("https://h").as_deref(), Some("https://h /"));
        assert_eq!(split("http://h?q").as_deref(), Some("http://h ?q"));
        assert_eq!(split("ftp://h/"), None);
        let joined = |location: &str| join("http://h/robots.txt", location.as_bytes());
        assert_eq!(joined("//i/r").as_deref(), Some("http://i/r"));
        assert_eq!(joined("r.txt").as_deref(), Some("http://h/r.txt"));
        assert_eq!(joined("file:///etc"), None);
    }
}

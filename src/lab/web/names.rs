//! The names of the synthetic web: hosts, addresses and paths. They are made from numbers, and
//! numbers are read back from them.
//!
//! There is no table of names. To read a name, this module finds the number in it, makes the name
//! of that number, and accepts the name only if both are equal.

use crate::base::text;
use crate::lab::web::Web;
use crate::lab::web::chance::{mix, scale};
use crate::lab::web::graph::{Kind, Place};
use std::net::{IpAddr, Ipv4Addr};

/// Query parameters that links carry for someone's statistics. The server ignores them, as real
/// servers do; a crawler that keeps them fetches pages twice.
const TRACKING: [&str; 3] = ["utm_", "gclid", "fbclid"];
/// How many last octets are in use: 1 to 254.
const ADDRESSES_PER_NET: u32 = 254;

impl Web {
    /// Returns a host's name, for example `h000123.site30.test`.
    pub fn host_name(&self, host: u32) -> String {
        let mut out = Vec::with_capacity(32);
        self.push_host(host, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Returns the host with this name (without a port), whatever the case of its letters.
    pub fn host_index(&self, name: &str) -> Option<u32> {
        let name = name.strip_suffix('.').unwrap_or(name).as_bytes();
        let (first, digits) = name.split_first()?;
        let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
        let host = number(&digits[..end]).filter(|host| *host < self.spec().host_count)?;
        let mut again = Vec::with_capacity(32);
        self.push_host(host, &mut again);
        (first.eq_ignore_ascii_case(&b'h') && name.eq_ignore_ascii_case(&again)).then_some(host)
    }

    pub fn address(&self, host: u32) -> Ipv4Addr {
        let index = host / self.spec().hosts_per_address;
        let [first, second] = self.spec().network;
        let net = index / ADDRESSES_PER_NET;
        Ipv4Addr::new(
            first,
            second + (net / 256) as u8,
            (net % 256) as u8,
            (index % ADDRESSES_PER_NET) as u8 + 1,
        )
    }

    /// Returns the first host at an address of this web.
    pub fn host_at(&self, address: IpAddr) -> Option<u32> {
        let IpAddr::V4(v4) = address else { return None };
        let [first, second, third, last] = v4.octets().map(u32::from);
        let [net_first, net_second] = self.spec().network.map(u32::from);
        if first != net_first || second < net_second || !(1..=ADDRESSES_PER_NET).contains(&last) {
            return None;
        }
        let index = ((second - net_second) * 256 + third) * ADDRESSES_PER_NET + last - 1;
        let host = u64::from(index) * u64::from(self.spec().hosts_per_address);
        u32::try_from(host).ok().filter(|host| *host < self.spec().host_count)
    }

    /// Returns the URL where a crawl starts.
    pub fn seed_url(&self) -> String {
        self.url(self.graph().root(0))
    }

    pub fn url(&self, place: Place) -> String {
        let mut out = Vec::with_capacity(80);
        self.push_origin(place.host, &mut out);
        self.push_path(place, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Returns the place that a request target of a host means, without its tracking parameters.
    pub fn locate(&self, host: u32, target: &str) -> Option<Place> {
        if TRACKING.iter().any(|name| target.contains(name)) {
            return self.locate_exact(host, &without_tracking(target));
        }
        self.locate_exact(host, target)
    }

    fn locate_exact(&self, host: u32, target: &str) -> Option<Place> {
        let mut turned;
        let mut bytes = target.as_bytes();
        if self.spec().turned_queries && target.contains("?view=") {
            turned = bytes.to_vec();
            turn_query(&mut turned);
            bytes = &turned;
        }
        let page = match bytes.iter().rposition(|byte| byte.is_ascii_digit()) {
            None => 0,
            Some(last) => {
                let before = bytes[..last].iter().rposition(|byte| !byte.is_ascii_digit());
                number(&bytes[before.map_or(0, |at| at + 1)..=last])?
            }
        };
        let place = self.graph().place(host, page)?;
        let mut again = Vec::with_capacity(64);
        self.push_path(place, &mut again);
        (again == bytes).then_some(place)
    }

    pub(super) fn push_origin(&self, host: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(if self.spec().tls { b"https://" } else { b"http://" });
        self.push_authority(host, out);
    }

    pub(super) fn push_authority(&self, host: u32, out: &mut Vec<u8>) {
        self.push_host(host, out);
        if self.spec().port != if self.spec().tls { 443 } else { 80 } {
            out.push(b':');
            push_number(self.spec().port.into(), out);
        }
    }

    fn push_host(&self, host: u32, out: &mut Vec<u8>) {
        out.push(b'h');
        push_padded(host, 6, out);
        out.push(b'.');
        self.push_site(host / self.spec().hosts_per_site, out);
    }

    /// Appends the registrable domain, for example `site30.test`.
    pub(super) fn push_site(&self, site: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(b"site");
        push_number(site, out);
        out.extend_from_slice(b".test");
    }

    /// Appends the path and query of a URL, in normal form. The last number in it is the page's
    /// number.
    pub(super) fn push_path(&self, place: Place, out: &mut Vec<u8>) {
        let section: &[u8] = match place.kind {
            Kind::Content => return self.push_content_path(place, out),
            Kind::Print => b"/print/",
            Kind::Press => b"/press/",
            Kind::Variant => b"/edition/",
            Kind::Redirect => b"/r/",
            Kind::Denied => b"/private/",
            Kind::Missing => b"/missing/",
            Kind::Gone => b"/gone/",
            Kind::Broken => b"/broken/",
            Kind::Busy => b"/busy/",
            Kind::Moved => b"/moved/",
            Kind::Behind => b"/behind/",
            Kind::Orphan => b"/orphan/",
        };
        out.extend_from_slice(section);
        push_number(place.page, out);
    }

    fn push_content_path(&self, place: Place, out: &mut Vec<u8>) {
        let page = place.page;
        if page == 0 {
            return out.push(b'/');
        }
        let hash = mix(u64::from(place.host) << 32, u64::from(page));
        let word = || self.text().word(mix(hash, 1)).as_bytes();
        match scale(hash, 8) {
            0 => {
                out.extend_from_slice(b"/articles/");
                push_number(2015 + page % 10, out);
                out.push(b'/');
                push_padded(1 + page % 12, 2, out);
                out.push(b'/');
                push_number(page, out);
                out.extend_from_slice(b".html");
            }
            1 => {
                out.extend_from_slice(b"/category-");
                push_number(page % 24, out);
                out.extend_from_slice(b"/item-");
                push_number(page, out);
            }
            2 => {
                out.extend_from_slice(b"/news/");
                out.extend_from_slice(word());
                out.push(b'-');
                push_number(page, out);
            }
            3 => {
                out.extend_from_slice(b"/index.php?id=");
                push_number(page, out);
                out.extend_from_slice(b"&view=full");
            }
            4 => {
                out.extend_from_slice(b"/shop/");
                out.extend_from_slice(word());
                out.push(b'/');
                push_number(page, out);
                out.push(b'/');
            }
            _ => {
                out.extend_from_slice(b"/p/");
                push_number(page, out);
            }
        }
    }
}

/// Exchanges the two parameters of a query, which gives another URL for the same page.
pub(super) fn turn_query(path: &mut [u8]) {
    let find = |byte| path.iter().position(|other| *other == byte);
    if let (Some(question), Some(joint)) = (find(b'?'), find(b'&')) {
        let (first_bytes, query) = (joint - question - 1, &mut path[question + 1..]);
        // Rotated by one byte more than its first parameter has, `id=1&view=full` is
        // `view=fullid=1&`; the second rotation moves the `&` between them.
        query.rotate_left(first_bytes + 1);
        let joint = query.len() - first_bytes - 1;
        query[joint..].rotate_right(1);
    }
}

pub(super) fn push_number(number: u32, out: &mut Vec<u8>) {
    text::push_number(out, number.into());
}

/// Appends a number with leading zeros, up to ten digits.
pub(super) fn push_padded(number: u32, width: u32, out: &mut Vec<u8>) {
    let digits = number.checked_ilog10().unwrap_or(0) + 1;
    out.extend_from_slice(&b"0000000000"[..width.saturating_sub(digits).min(10) as usize]);
    push_number(number, out);
}

/// Reads a number. Leading zeros are accepted, because the caller compares the whole name.
fn number(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || digits.len() > 10 {
        return None;
    }
    let value = digits.iter().fold(0u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    u32::try_from(value).ok()
}

fn without_tracking(target: &str) -> String {
    let Some((path, query)) = target.split_once('?') else { return target.to_owned() };
    let mut out = path.to_owned();
    let kept = query.split('&').filter(|pair| !TRACKING.iter().any(|name| pair.starts_with(name)));
    for (index, pair) in kept.enumerate() {
        out.push(if index == 0 { '?' } else { '&' });
        out.push_str(pair);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::web::WebSpec;

    fn web(spec: WebSpec) -> Web {
        Web::new(spec).unwrap()
    }

    #[test]
    fn names_and_addresses_lead_back_to_their_host() {
        let web =
            web(WebSpec { host_count: 1_000_000, page_count: 1_000_000, ..WebSpec::default() });
        for host in (0..1_000_000).step_by(997).chain([999_999]) {
            let name = web.host_name(host);
            assert_eq!(web.host_index(&name), Some(host));
            assert_eq!(web.host_index(&name.to_uppercase()), Some(host));
            assert_eq!(web.host_at(web.address(host).into()), Some(host));
            let last = web.address(host).octets()[3];
            assert!(last != 0 && last != 255 && web.address(host).is_loopback());
        }
        assert_eq!(web.host_name(123), "h000123.site30.test");
        assert_eq!(web.address(0), Ipv4Addr::new(127, 16, 0, 1));
        for name in ["", "h", "h1.site0.test", "h000001.site1.test", "h9999999.site0.test", "x"] {
            assert_eq!(web.host_index(name), None, "{name}");
        }
        assert_eq!(web.host_at([127, 0, 0, 1].into()), None);
    }

    #[test]
    fn hosts_that_share_an_address_have_it_in_common() {
        let web = web(WebSpec { hosts_per_address: 4, ..WebSpec::default() });
        assert_eq!(web.address(4), web.address(7));
        assert_ne!(web.address(3), web.address(4));
        assert_eq!(web.host_at(web.address(6).into()), Some(4));
    }

    #[test]
    fn every_path_leads_back_to_its_place_and_no_other_path_does() {
        let rough = WebSpec::profile("rough").unwrap();
        let spec = WebSpec { host_count: 10, page_count: 3_000, ..rough };
        let turning = web(WebSpec { turned_queries: true, ..spec.clone() });
        let web = web(spec);
        for host in 0..10 {
            for page in 0..web.graph().page_count(host) {
                let place = web.graph().place(host, page).unwrap();
                let mut path = Vec::new();
                web.push_path(place, &mut path);
                let path = String::from_utf8(path).unwrap();
                assert_eq!(web.locate(host, &path), Some(place), "{path}");
                let joint = if path.contains('?') { '&' } else { '?' };
                let tracked = format!("{path}{joint}utm_source=feed&utm_medium=rss");
                assert_eq!(web.locate(host, &tracked), Some(place), "{tracked}");
                assert_eq!(web.locate(host, &format!("{path}x")), None);
                let mut turned = path.clone().into_bytes();
                turn_query(&mut turned);
                let turned = String::from_utf8(turned).unwrap();
                let is_plain = turned == path;
                assert_eq!(web.locate(host, &turned), is_plain.then_some(place), "{turned}");
                assert_eq!(turning.locate(host, &turned), Some(place), "{turned}");
                assert_eq!(turning.locate(host, &path), Some(place), "{path}");
            }
        }
        for wrong in ["/p/99999999999999999999", "/p/01", "", "/p/", "/trap/1", "/r/4294967295"] {
            assert_eq!(web.locate(0, wrong), None, "{wrong}");
        }
    }
}

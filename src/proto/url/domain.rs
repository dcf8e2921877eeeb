//! Registrable domains, by the Public Suffix List that the `psl` crate carries: the name that
//! someone registered and answers for. Hosts under one registrable domain share a budget. Names
//! under a public suffix (`alice.github.io`, `bob.github.io`) belong to different people and share
//! none.

use std::net::Ipv4Addr;

/// Returns the public suffix of `host` and one label before it, or `host` itself if there is no
/// such name (an address, a public suffix, a name with an empty label). `host` is in serialised
/// form: lower case, Punycode.
pub fn registrable_domain(host: &str) -> &str {
    let numeric = host.as_bytes().last().is_some_and(u8::is_ascii_digit);
    let is_address = host.starts_with('[') || numeric && host.parse::<Ipv4Addr>().is_ok();
    // Nobody can register a name with an empty label, and the `psl` crate would cut such a name.
    if is_address || host.starts_with('.') || host.contains("..") {
        return host;
    }
    // The dot of the root belongs to no name: `example.com.` has the budget of `example.com`.
    let name = host.strip_suffix('.').unwrap_or(host);
    psl::domain_str(name).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::url::{Url, tests::corpus_text};

    #[test]
    fn registrable_domains_are_those_of_the_public_suffix_list() {
        let (text, is_whole) = corpus_text("urls/public-suffix-cases.txt");
        let mut count = 0;
        for line in text.lines().filter(|line| line.starts_with("checkPublicSuffix('")) {
            let mut words = line.split('\'').skip(1).step_by(2);
            let (name, expected) = (words.next().unwrap_or(""), words.next());
            let host = serialised(name);
            let expected = expected.map_or_else(|| host.clone(), serialised);
            assert_eq!(registrable_domain(&host), expected, "{line}");
            count += 1;
        }
        // Left out are the null input, and four cases for `.local` that the list itself has
        // commented out.
        let (ran_count, left_count) = if is_whole { (77, 1 + 4) } else { (6, 0) };
        assert_eq!(count, ran_count, "cases that ran");
        assert_eq!(text.matches("checkPublicSuffix(").count(), ran_count + left_count);
    }

    /// Returns the name as [`Url::host`] gives it: lower case and Punycode.
    fn serialised(name: &str) -> String {
        let url = Url::parse(&format!("http://{name}/")).expect("a host");
        url.host().to_owned()
    }

    #[test]
    fn an_address_is_its_own_domain() {
        for host in ["127.0.0.1", "[::1]", "[2001:db8::7]"] {
            assert_eq!(registrable_domain(host), host);
        }
    }

    #[test]
    fn a_host_without_a_registrable_name_stands_for_itself() {
        for host in ["localhost", "com", "co.uk", "github.io", "", ".", "a..b.", "x.1", "9.."] {
            assert!(host.starts_with(registrable_domain(host)), "{host}");
        }
        assert_eq!(registrable_domain("www.example.com."), "example.com");
        assert_eq!(registrable_domain("{.{."), "{.{");
        assert_eq!(registrable_domain("github.io"), "github.io");
        assert_eq!(registrable_domain("alice.github.io"), "alice.github.io");
        assert_eq!(registrable_domain("www.alice.github.io"), "alice.github.io");
    }
}

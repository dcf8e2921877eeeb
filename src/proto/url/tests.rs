//! Checks that the fast path equals the reference on all URLs there are here; also holds what the
//! tests of this module share.

// `prop_oneof!` keeps its branches in an `Arc`.
#![allow(clippy::disallowed_types)]

use super::*;
use crate::base::hash_key::made_to_collide;
use proptest::prelude::*;

fn plain_parse(text: &str) -> Option<Result<Url, UrlError>> {
    let mut out = String::new();
    let found = plain::parse(text, &mut out)?;
    Some(found.map(|(parts, _)| Url { text: out.into(), parts }))
}

fn plain_join(base: &Url, reference: &str) -> Option<Result<Url, UrlError>> {
    let mut out = String::new();
    let found = plain::join(base, || base.directory_end(), reference, &mut out)?;
    Some(found.map(|(parts, _)| Url { text: out.into(), parts }))
}

#[path = "../../../tests/support/corpus.rs"]
mod corpus;

/// Returns a file of the corpus, or of our own small one, and whether it is the whole corpus.
pub(super) fn corpus_text(name: &str) -> (String, bool) {
    let found = corpus::find(name);
    (std::fs::read_to_string(&found.path).expect("a file of text"), found.is_whole)
}

/// Makes pieces of URLs, the nasty ones more often.
fn piece() -> impl Strategy<Value = String> {
    let nasty = prop::sample::select(vec![
        "/",
        "//",
        "///",
        "\\",
        ".",
        "..",
        "/.",
        "/..",
        "/./",
        "/../",
        "../",
        "%2e",
        "%2E.",
        ".%2e",
        "%",
        "%4",
        "%41",
        "%2f",
        "%%34",
        "%C3%A9",
        "?",
        "?",
        "#",
        "&",
        "=",
        ";",
        ":",
        "@",
        "|",
        "C:",
        "/C|/",
        "C:/../",
        "\t",
        "\n",
        "\r",
        " ",
        "\0",
        "\x7f",
        "\"",
        "'",
        "<",
        ">",
        "`",
        "{",
        "}",
        "[",
        "]",
        "^",
        "~",
        "+",
        "*",
        "$",
        "é",
        "食",
        "。",
        "\u{ad}",
        "\u{202e}",
        "\u{feff}",
        "\u{fffd}",
        "xn--",
        "xn--bcher-kva",
        "a--b",
        "-",
        "_",
        "0x7f",
        "0",
        "1.2.3.4",
        "256",
        "[::1]",
        ":80",
        ":443",
        ":8080",
        ":0",
        ":65536",
        ":080",
        "http:",
        "https:",
        "HTTP://",
        "//host",
        "mailto:",
        "javascript:",
        "data:,",
        "ftp://",
        "file:",
        "a",
        "B",
        "index.html",
        "utm_x=1",
        "b=2&a=1",
        ";jsessionid=1",
        "r",
        "sid=0123456789abcdef",
    ])
    .prop_map(str::to_owned);
    prop_oneof![6 => nasty, 2 => "[a-z0-9]{1,6}", 1 => any::<char>().prop_map(String::from)]
}

fn soup() -> impl Strategy<Value = String> {
    prop::collection::vec(piece(), 0..10).prop_map(|pieces| pieces.concat())
}

/// Mostly absolute http(s) URLs with something odd in them.
pub(super) fn url_text() -> impl Strategy<Value = String> {
    let scheme = prop::sample::select(vec!["http://", "https://", "HTTP://", " https://", ""]);
    let host = prop_oneof![
        4 => prop::sample::select(vec!["a.example", "Www.A-b_c.ORG", "h.", "10.0.0.1", "[::1]", ""])
            .prop_map(str::to_owned),
        1 => soup(),
    ];
    let port = prop::sample::select(vec!["", "", ":80", ":443", ":81", ":", ":00081", ":99999"]);
    (scheme, host, port, soup()).prop_map(|(scheme, host, port, rest)| {
        let slash = if rest.starts_with(['/', '?', '#', '\\']) { "" } else { "/" };
        format!("{scheme}{host}{port}{slash}{rest}")
    })
}

/// Checks what must hold for every URL.
fn check_invariants(url: &Url) {
    let text = url.as_str();
    assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text:?}");
    assert!(text.len() <= URL_BYTES_MAX && !text.contains('#'));
    assert!(url.path_and_query().starts_with('/') && !url.host().is_empty());
    assert_eq!(url.origin().len() + url.path_and_query().len(), text.len());
    assert_eq!(Url::parse(text).as_ref(), Ok(url), "serialised form parses to itself");
    assert_eq!(&Url::rebuild(url.origin(), url.path_and_query()), url);
    let (scheme, port) = (url.scheme(), url.port());
    assert_eq!(&Url::of_host(scheme, url.host(), port, url.path_and_query()), url);
    let is_name = url.host().bytes().any(|byte| byte.is_ascii_alphabetic()) && !text.contains("[");
    assert!(!is_name || url.host_kind() == HostKind::Domain, "{text}");
}

/// Returns whether the fast path answered, and checks that it answered as the reference does.
fn check_parse(text: &str) -> bool {
    let verdict = plain_parse(text);
    check(&verdict, &reference::parse(text), format_args!("parse {text:?}"))
}

fn check_join(base: &Url, text: &str) -> bool {
    let verdict = plain_join(base, text);
    check(&verdict, &reference::join(base, text), format_args!("join {text:?} to {base}"))
}

type Answer = Result<Url, UrlError>;

fn check(verdict: &Option<Answer>, expected: &Answer, what: fmt::Arguments<'_>) -> bool {
    assert_eq!(verdict.as_ref().unwrap_or(expected), expected, "{what}");
    if let Ok(url) = expected {
        check_invariants(url);
    }
    verdict.is_some()
}

const BASES: [&str; 6] = [
    "http://example.org/foo/bar",
    "https://www.example.com:8443/a/b/c/?q=/x/y",
    "http://10.0.0.1/",
    "http://[2001:db8::1]:81/C:/d//e/",
    "https://xn--bcher-kva.de//?",
    "http://a.example/..a/b;v=1/.c?d",
];

fn bases() -> Vec<Url> {
    BASES.iter().map(|base| Url::parse(base).expect(base)).collect()
}

#[test]
fn real_urls_take_the_fast_path_to_the_reference_result() {
    let (text, is_whole) = corpus_text("urls/real-urls.txt");
    let base = &bases()[1];
    let (mut count, mut parsed, mut joined) = (0, 0, 0);
    for line in text.lines() {
        count += 1;
        parsed += usize::from(check_parse(line));
        // The rest of a real URL as a relative reference: path, query and fragment.
        let relative = line.splitn(4, '/').nth(3).unwrap_or("");
        joined += usize::from(check_join(base, relative) && check_join(base, line));
    }
    assert!(count > if is_whole { 48_000 } else { 30 }, "{count} URLs ran");
    // Many of our own few URLs are odd ones.
    let percent = if is_whole { 99 } else { 80 };
    assert!(parsed * 100 >= count * percent, "{parsed} of {count} parsed on the fast path");
    assert!(joined * 100 >= count * percent, "{joined} of {count} joined on the fast path");
}

#[test]
fn whatwg_inputs_never_part_the_fast_path_from_the_reference() {
    let (text, is_whole) = corpus_text("urls/urltestdata.json");
    let cases: Vec<serde_json::Value> = serde_json::from_str(&text).expect("the corpus is JSON");
    let bases = bases();
    let inputs: Vec<&str> = cases.iter().filter_map(|case| case["input"].as_str()).collect();
    assert!(inputs.len() > if is_whole { 800 } else { 20 });
    for input in inputs {
        check_parse(input);
        bases.iter().for_each(|base| _ = check_join(base, input));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn nasty_urls_never_part_the_fast_path_from_the_reference(text in url_text(), odd in soup()) {
        check_parse(&text);
        check_parse(&odd);
    }

    #[test]
    fn nasty_references_never_part_the_fast_path_from_the_reference(
        base in url_text(), reference in soup(), absolute in url_text(),
    ) {
        let base = Url::parse(&base).or_else(|_| Url::parse(BASES[3])).expect("a base");
        check_join(&base, &reference);
        check_join(&base, &absolute);
    }

    #[test]
    fn bytes_of_any_kind_never_break_a_request_line(bytes: Vec<u8>, base in url_text()) {
        let base = Url::parse(&base).or_else(|_| Url::parse(BASES[0])).expect("a base");
        if let Ok(url) = base.join_bytes(&bytes) {
            check_invariants(&url);
        }
    }
}

#[test]
fn pages_full_of_ordinary_references_never_need_the_reference_parser() {
    let base = Url::parse("http://example.org/a/b.html?q").expect("a base");
    for (reference, expected) in [
        ("c", "http://example.org/a/c"),
        ("./c", "http://example.org/a/c"),
        ("../c/./d/..", "http://example.org/c/"),
        ("../../..", "http://example.org/"),
        ("/c d/é", "http://example.org/c%20d/%C3%A9"),
        (" \n?r='s'\t ", "http://example.org/a/b.html?r=%27s%27"),
        ("#top", "http://example.org/a/b.html?q"),
        ("", "http://example.org/a/b.html?q"),
        ("//Other.example:80", "http://other.example/"),
        ("HTTPS://other.example:8443?x", "https://other.example:8443/?x"),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/"),
    ] {
        let url = plain_join(&base, reference).expect(reference).expect(reference);
        assert_eq!(url.as_str(), expected);
    }
    for reference in ["mailto:a@b.example", "javascript:void(0)", "tel:+1", "data:,x y\n"] {
        assert_eq!(plain_join(&base, reference), Some(Err(UrlError::Scheme)), "{reference}");
    }
}

#[test]
fn rfc_slashes_before_a_host_are_all_skipped() {
    let base = Url::parse("https://example.org/a").expect("a base");
    for reference in ["///b/c", "\\/\\b/c", "/\t//\n/b/c", " ////////b/c"] {
        let url = base.join(reference).expect(reference);
        assert_eq!(url.as_str(), "https://b/c", "{reference:?}");
    }
}

/// A drive letter has a meaning only in a file URL, but the `url` crate protects it from `..` in
/// any URL. The fast path must not differ: one URL has one result, however it was written.
#[test]
fn lenient_a_drive_letter_is_left_to_the_reference() {
    let base = Url::parse("http://a/C:/d").expect("a base");
    for (reference, kept) in [("../x", "/C:/x"), ("/C|/../x", "/C|/x"), ("/b/c:/../x", "/b/c:/x")] {
        assert_eq!(plain_join(&base, reference), None, "{reference}");
        let joined = base.join(reference).expect(reference);
        assert_eq!(joined.path_and_query(), kept);
    }
    assert!(plain_join(&base, "/C:d/../x").is_some_and(|url| url.is_ok()));
}

#[test]
fn a_url_over_the_limit_is_refused_on_both_paths() {
    let fits = format!("http://a/{}", "b".repeat(URL_BYTES_MAX - 9));
    assert_eq!(Url::parse(&fits).map(|url| url.as_str().len()), Ok(URL_BYTES_MAX));
    let fragment = format!("{fits}#{}", "c".repeat(URL_BYTES_MAX));
    assert!(Url::parse(&fragment).is_ok(), "a fragment does not count");
    for too_long in [format!("{fits}b"), format!("{fits}\\")] {
        assert_eq!(Url::parse(&too_long), Err(UrlError::TooLong));
    }
}

#[test]
fn the_kind_of_a_host_comes_with_its_address() {
    let kind = |text| Url::parse(text).expect(text).host_kind();
    assert_eq!(kind("http://example.org/"), HostKind::Domain);
    assert_eq!(kind("http://a1/"), HostKind::Domain);
    assert_eq!(kind("http://0x7f.1/"), HostKind::Ipv4(Ipv4Addr::LOCALHOST));
    assert_eq!(kind("http://[::1]:80/"), HostKind::Ipv6(Ipv6Addr::LOCALHOST));
    let address = |text| Url::parse(text).expect(text).host_address();
    assert_eq!(address("http://127.0.0.1/"), Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    assert_eq!(address("http://example.org/"), None);
}

#[test]
fn user_info_never_reaches_the_wire() {
    for text in ["http://user:secret@a.example/b", "http://user@a.example/b", "http://@a.example/b"]
    {
        assert_eq!(Url::parse(text).map(|url| url.to_string()), Ok("http://a.example/b".into()));
    }
}

#[test]
fn hosts_and_urls_made_to_collide_have_keys_and_fingerprints_of_their_own_in_every_crawl() {
    let keys = [1, 2, 3].map(HashKey::new);
    let [host, made_host] = made_to_collide("host");
    let url = |text: &str| Url::parse(text).expect("a URL");
    let [victim, made] = made_to_collide("url").map(url);
    assert_eq!(victim.host(), made.host());
    for key in &keys {
        assert_ne!(HostKey::of(key, host), HostKey::of(key, made_host));
        let [victim, made] = [&victim, &made].map(|url| url.id(key));
        assert_eq!(victim.host, made.host);
        assert_ne!(victim.fingerprint.0 as u64, made.fingerprint.0 as u64);
    }
    let ids = keys.each_ref().map(|key| victim.id(key));
    assert!(ids[0].host != ids[1].host && ids[0].fingerprint != ids[1].fingerprint);
    assert!(ids[1].host != ids[2].host && ids[1].fingerprint != ids[2].fingerprint);
}

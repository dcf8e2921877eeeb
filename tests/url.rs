//! The crawler requests what a browser would request. Every case of the WHATWG suite runs,
//! including those that lead to another scheme: these must be refused and never mistaken for http.

#[path = "support/corpus.rs"]
mod corpus;

use nephila::proto::url::{Normaliser, Url, UrlError};
use serde_json::Value;

#[test]
fn rfc_every_whatwg_case_resolves_as_in_a_browser() {
    let (text, is_whole) = corpus_text("urls/urltestdata.json");
    let cases: Vec<Value> = serde_json::from_str(&text).expect("the corpus is JSON");
    let (mut fetchable, mut refused, mut other_scheme) = (0, 0, 0);
    let mut wrong = Vec::new();
    // Strings between the cases are comments.
    assert!(cases.iter().all(|case| case.is_object() || case.is_string()));
    for case in cases.iter().filter(|case| case.is_object()) {
        let input = case["input"].as_str().expect("every case has an input");
        let result = resolve(input, case["base"].as_str());
        let href = case["href"].as_str().unwrap_or("");
        let right = if case["failure"].as_bool() == Some(true) {
            refused += 1;
            result.is_err()
        } else if href.starts_with("http:") || href.starts_with("https:") {
            fetchable += 1;
            result.as_ref().is_ok_and(|url| url.as_str() == without_user_and_fragment(href))
        } else {
            other_scheme += 1;
            result.is_err()
        };
        if !right {
            wrong.push(format!("{input:?} on {}: {result:?}, not {href:?}", case["base"]));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    let expected = if is_whole { (229, 273, 367) } else { (14, 7, 3) };
    assert_eq!((fetchable, refused, other_scheme), expected, "cases that ran");
}

/// Why our result differs from that of crawler-commons' BasicURLNormalizer, where it does.
#[derive(Clone, Copy)]
enum Difference {
    /// `//` in a path is kept, because archives and proxies have whole URLs in their paths.
    Slashes,
    /// `b=` stays `b=`, and `=1` is kept, because the server's program reads them as something else
    /// than `b` or nothing.
    EmptyValueOrKey,
    /// A URL that is not http or https, or that has no host, is refused.
    OtherSchemeOrNoHost,
    /// `foo.com/` is a path for our parser. Guessing a scheme is left to the reader of seeds that
    /// people type.
    NoScheme,
}

#[test]
fn lenient_weird_urls_become_what_crawler_commons_makes_of_them() {
    let (text, is_whole) = corpus_text("urls/weirdToNormalizedUrls.csv");
    let normaliser = Normaliser::new(&[]);
    let (mut same, mut wrong) = (0, Vec::new());
    let mut counts = [0; 4];
    for (weird, normal) in text.lines().filter_map(csv_case) {
        let ours = Url::parse(&weird).map(|url| normaliser.normalise(url).compared().into_owned());
        if ours.as_deref() == Ok(normal.as_str()) {
            same += 1;
            continue;
        }
        match difference(&weird, &normal, &ours) {
            Some(difference) => counts[difference as usize] += 1,
            None => wrong.push(format!("{weird:?}: {ours:?}, not {normal:?}")),
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    let expected = if is_whole { (93, [6, 4, 8, 1]) } else { (7, [0; 4]) };
    assert_eq!((same, counts), expected, "same, and different by reason");
}

#[test]
fn hosts_with_broken_escapes_are_refused() {
    let (text, _) = corpus_text("urls/invalidUrls.csv");
    let is_case = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    let cases: Vec<&str> = text.lines().filter(is_case).collect();
    assert_eq!(cases.len(), 2);
    assert!(cases.iter().all(|case| Url::parse(case) == Err(UrlError::Invalid)));
}

fn difference(weird: &str, normal: &str, ours: &Result<String, UrlError>) -> Option<Difference> {
    use Difference::*;
    match ours {
        Err(UrlError::Invalid) if !weird.contains(':') => Some(NoScheme),
        Err(UrlError::Scheme) => Some(OtherSchemeOrNoHost),
        Err(_) => normal.ends_with(":/").then_some(OtherSchemeOrNoHost),
        Ok(ours) if single_slashes(ours) == normal => Some(Slashes),
        Ok(ours) => (full_params(ours) == normal).then_some(EmptyValueOrKey),
    }
}

fn single_slashes(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").expect("ours has a scheme");
    let segments: Vec<&str> = rest.split('/').filter(|segment| !segment.is_empty()).collect();
    let end = if rest.ends_with('/') { "/" } else { "" };
    format!("{scheme}://{}{end}", segments.join("/"))
}

fn full_params(url: &str) -> String {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let params = query.split('&').filter(|param| !param.starts_with('='));
    let params: Vec<&str> = params.map(|param| param.trim_end_matches('=')).collect();
    format!("{path}?{}", params.join("&"))
}

/// Reads a line `weird, normal`, where the first may be in quotes. The result is `None` for
/// comments and empty lines. Anything else is a failure.
fn csv_case(line: &str) -> Option<(String, String)> {
    if line.trim().is_empty() || line.starts_with('#') {
        return None;
    }
    let (weird, normal) = line.rsplit_once(',').unwrap_or_else(|| panic!("no case: {line}"));
    let quoted = weird.strip_prefix('"').and_then(|weird| weird.strip_suffix('"'));
    let weird = quoted.map_or(weird.to_owned(), |weird| weird.replace("\"\"", "\""));
    Some((weird, normal.trim().to_owned()))
}

/// A base of another scheme never gives anything to an http(s) result, so such cases need no base.
fn resolve(input: &str, base: Option<&str>) -> Result<Url, UrlError> {
    match base.map(Url::parse) {
        Some(Ok(base)) => base.join(input),
        _ => Url::parse(input),
    }
}

fn without_user_and_fragment(href: &str) -> String {
    let href = href.split('#').next().unwrap_or("");
    let (scheme, rest) = href.split_once("://").expect("an http(s) href has an authority");
    let authority_end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, target) = rest.split_at(authority_end);
    let host = authority.rsplit('@').next().unwrap_or("");
    format!("{scheme}://{host}{target}")
}

/// Returns a file of test data, and whether it belongs to the corpus.
fn corpus_text(name: &str) -> (String, bool) {
    let found = corpus::find(name);
    (std::fs::read_to_string(&found.path).expect("a file of text"), found.is_whole)
}

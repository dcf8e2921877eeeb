//! URLs: the fast parser is compared with the `url` crate, and every URL that comes out must have
//! certain properties.

use crate::dice::Dice;
use crate::engine::{Target, scale, texts};
use nephila::base::HashKey;
use nephila::base::limits::URL_BYTES_MAX;
use nephila::proto::url::{HostKey, Normaliser, Url, UrlError, registrable_domain};
use nephila::proto::warc::surt;

#[rustfmt::skip]
const WORDS: &[&[u8]] = &[
    b"http://", b"https://", b"HTTP:", b"http:", b"//", b"///", b"/", b"\\", b".", b"..", b"/./",
    b"/../", b"%2e", b"%2E%2e", b"%", b"%41", b"%zz", b"%00", b"?", b"#", b"&", b"=", b";", b":",
    b"@", b"user:pass@", b"[::1]", b"[", b"]", b"127.0.0.1", b"0x7f.1", b"1.2.3", b"256.1.1.1",
    b":80", b":443", b":8080", b":0", b":65536", b"xn--", b"xn--bcher-kva", b"a--b", b"-", b"_",
    b"example.org", b"EXAMPLE.Org.", b"co.uk", b"\xC3\xA9", b"\xE3\x80\x82", b"\xC2\xAD", b"\t",
    b"\n", b" ", b"\0", b"\x7f", b"|", b"C:", b"C|/..", b"'", b"\"", b"<", b"`", b"{", b"^",
    b"mailto:", b"javascript:", b"data:,", b"ftp://", b"file:///", b"utm_source=x", b"b=2&a=1",
    b";jsessionid=1", b"sid=0123456789abcdef",
];

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds =
        texts(&["http://example.org/a/b?c=d#e", "//[2001:db8::1]:81/x", "../a;v=1?b&a="]);
    let path = crate::corpus::find("urls/urltestdata.json").path;
    let text = std::fs::read_to_string(path).expect("a file of text");
    let cases: serde_json::Value = serde_json::from_str(&text).expect("the suite is JSON");
    let cases = cases.as_array().expect("the suite is a list");
    let inputs = cases.iter().filter_map(|case| case["input"].as_str());
    seeds.extend(inputs.map(|input| input.as_bytes().to_vec()));
    seeds
}

/// Parses with the `url` crate, and returns the URL in the form that our type has.
fn reference(parsed: Result<url::Url, url::ParseError>) -> Result<String, UrlError> {
    let mut parsed = parsed.map_err(|_| UrlError::Invalid)?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(UrlError::Scheme);
    }
    parsed.set_fragment(None);
    let _ = parsed.set_username("");
    let _ = parsed.set_password(None);
    let text = String::from(parsed);
    if text.len() > URL_BYTES_MAX { Err(UrlError::TooLong) } else { Ok(text) }
}

fn check_url(url: &Url) {
    let text = url.as_str();
    assert!(
        text.bytes().all(|byte| byte.is_ascii_graphic()),
        "the URL cannot stand in a request line: {text:?}"
    );
    assert!(text.len() <= URL_BYTES_MAX && !text.contains('#'));
    assert!(url.path_and_query().starts_with('/') && !url.host().is_empty());
    assert_eq!([url.origin(), url.path_and_query()].concat(), text);
    assert_eq!(
        Url::parse(text).as_ref(),
        Ok(url),
        "the serialised form must parse to the same URL"
    );
    assert_eq!(&Url::rebuild(url.origin(), url.path_and_query()), url);
    let hash_key = HashKey::new(7);
    assert_eq!(url.host_key(&hash_key), HostKey::of(&hash_key, url.host()));
    let domain = registrable_domain(url.host());
    assert!(url.host().ends_with(domain) || url.host().trim_end_matches('.').ends_with(domain));
    let mut key = Vec::new();
    surt::push_key(&mut key, url);
    assert!(
        !key.is_empty() && key.iter().all(|byte| *byte > b' '),
        "the key must be one word of an index line"
    );
    assert!(key.len() <= 4 * URL_BYTES_MAX);
}

#[test]
fn any_text_parses_and_joins_as_the_url_crate_does() {
    let target = Target {
        name: "url::any_text_parses_and_joins_as_the_url_crate_does",
        words: WORDS,
        seeds: seeds(),
        input_bytes_max: 5_000,
        input_count: 20_000,
    };
    const BASES: [&str; 4] = [
        "http://example.org/foo/bar?q",
        "https://www.example.com:8443/a/b/c/?q=/x/y",
        "http://[2001:db8::1]:81/C:/d//e/",
        "http://10.0.0.1/",
    ];
    target.run(|input| {
        let text = String::from_utf8_lossy(input);
        let parsed = Url::parse(&text);
        let theirs = reference(url::Url::parse(&text));
        assert_eq!(parsed.as_ref().map(|url| url.to_string()).map_err(|e| *e), theirs);
        let base = Url::parse(Dice::of(input).pick::<&str>(&BASES)).expect("a base");
        let joined = base.join(&text);
        // The crate refuses three or more slashes before a host; the standard skips them.
        let slashes = |byte: &u8| matches!(byte, b'/' | b'\\');
        let seen = text.bytes().filter(|byte| !matches!(byte, b'\t' | b'\n' | b'\r'));
        let leading =
            seen.skip_while(|byte| *byte <= b' ').take_while(|byte| slashes(byte)).count();
        if leading < 3 {
            let base = url::Url::parse(base.as_str()).expect("a base");
            let theirs = reference(base.join(&text));
            assert_eq!(joined.as_ref().map(|url| url.to_string()).map_err(|e| *e), theirs);
        }
        assert_eq!(base.join_bytes(input), joined);
        parsed.iter().chain(&joined).for_each(check_url);
        let kind = |result: &Result<Url, UrlError>| match result {
            Ok(url) => format!("{:?} {}", url.host_kind(), scale(url.path_and_query().len())),
            Err(error) => format!("{error:?}"),
        };
        (kind(&parsed), kind(&joined))
    });
}

#[test]
fn any_url_is_normalised_once_and_for_all() {
    let target = Target {
        name: "url::any_url_is_normalised_once_and_for_all",
        words: WORDS,
        seeds: seeds(),
        input_bytes_max: 5_000,
        input_count: 20_000,
    };
    let normaliser = Normaliser::new(&["ref".into(), "x-*".into()]);
    target.run(|input| {
        let text = String::from_utf8_lossy(input);
        let base = Url::parse("http://example.org/a/b?x=1&utm_id=2").expect("a base");
        let Ok(url) = base.join(&text) else { return Default::default() };
        let once = normaliser.normalise(url.clone());
        check_url(&once);
        assert_eq!(normaliser.normalise(once.clone()), once);
        assert_eq!((once.scheme(), once.port()), (url.scheme(), url.port()));
        assert_eq!(
            once.host(),
            url.host()
                .strip_suffix('.')
                .filter(|h| !h.is_empty() && !h.ends_with('.'))
                .unwrap_or(url.host())
        );
        Some((once == url, scale(once.as_str().len()), once.path_and_query().contains('?')))
    });
}

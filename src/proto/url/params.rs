//! Query parameters, and those that do not choose a page: they say where a visitor came from, or
//! which visit this is. [`UnwantedParams`] is asked about every parameter of every link, so its
//! rules are sorted by their first byte, and for most parameters the slice of that byte is empty.
//!
//! Names are compared without regard to ASCII case, in normal spelling (see `normal`).

/// Parameters that are dropped on any page, with any value.
const ALWAYS: &[&str] = &[
    // Campaigns: Google Analytics, Matomo and Piwik, HubSpot, Openstat.
    "utm_*",
    "mtm_*",
    "pk_*",
    "piwik_*",
    "matomo_*",
    "_hsenc",
    "_hsmi",
    "__hssc",
    "__hstc",
    "__hsfp",
    "hsctatracking",
    "_openstat",
    "_ga",
    "_gl",
    // Click identifiers that advertisers and social networks append.
    "gclid",
    "gclsrc",
    "dclid",
    "gbraid",
    "wbraid",
    "fbclid",
    "fb_action_ids",
    "fb_action_types",
    "fb_source",
    "fb_ref",
    "msclkid",
    "yclid",
    "ysclid",
    "twclid",
    "ttclid",
    "li_fat_id",
    "igshid",
    "igsh",
    "irclickid",
    "zanpid",
    "wickedid",
    "rb_clickid",
    "srsltid",
    "ref_src",
    "ref_url",
    // Mail.
    "mc_cid",
    "mc_eid",
    "mkt_tok",
    "vero_id",
    "vero_conv",
    "oly_anon_id",
    "oly_enc_id",
    "ml_subscriber",
    "ml_subscriber_hash",
    // Sessions under names that mean nothing else.
    "jsessionid",
    "phpsessid",
    "phpsessionid",
    "aspsessionid*",
    "cfid",
    "cftoken",
];

/// Names of sessions that other sites use for stories, sections and seminars
/// (`article.php?sid=12`). They are dropped only with a value that looks like a session's.
const WITH_TOKEN: &[&str] =
    &["sid", "s_id", "sessid", "session", "sessionid", "session_id", "oscsid", "zenid"];

/// Shorter values of a [`WITH_TOKEN`] name are kept: PHP's shortest session has 22 characters.
const TOKEN_BYTES_MIN: usize = 16;

/// Returns the texts between the `&`s of a query.
pub(super) fn params(query: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(query);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = text.bytes().position(|byte| byte == b'&');
        rest = end.map(|end| &text[end + 1..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

pub(super) fn key(param: &str) -> &[u8] {
    split_at_byte(param.as_bytes(), b'=').0
}

/// Returns the text before the first `byte`, and the text behind it. It goes byte by byte, because
/// parameters are too short for a call of `memchr` to pay off.
#[inline]
pub(super) fn split_at_byte(text: &[u8], byte: u8) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|of| *of == byte) {
        Some(index) => (&text[..index], Some(&text[index + 1..])),
        None => (text, None),
    }
}

pub(super) struct UnwantedParams {
    /// The rules, sorted by first byte; those of byte `b` are `rules[starts[b]..starts[b + 1]]`.
    rules: Box<[Rule]>,
    starts: Box<[usize; 257]>,
}

struct Rule {
    /// The name in lower case, not empty.
    name: Box<[u8]>,
    prefix: bool,
    token: bool,
}

impl UnwantedParams {
    /// Makes the rules. `extra` are the operator's names, in normal spelling; a `*` at the end
    /// makes a name a prefix.
    pub(super) fn new(extra: impl Iterator<Item = String>) -> UnwantedParams {
        let owned = |name: &&str| name.to_string();
        let always = ALWAYS.iter().map(owned).chain(extra).map(|name| (name, false));
        let with_token = WITH_TOKEN.iter().map(owned).map(|name| (name, true));
        let mut rules: Vec<Rule> =
            always.chain(with_token).filter_map(|(name, token)| Rule::new(&name, token)).collect();
        rules.sort_by_key(|rule| rule.name[0]);
        let mut starts = Box::new([rules.len(); 257]);
        for byte in 0..256 {
            starts[byte] = rules.partition_point(|rule| usize::from(rule.name[0]) < byte);
        }
        UnwantedParams { rules: rules.into_boxed_slice(), starts }
    }

    /// Reports whether `key=value` is unwanted; for a key alone the value is empty.
    #[inline]
    pub(super) fn covers(&self, key: &[u8], value: &[u8]) -> bool {
        let Some(first) = key.first() else { return false };
        let bucket = usize::from(first.to_ascii_lowercase());
        let rules = &self.rules[self.starts[bucket]..self.starts[bucket + 1]];
        rules.iter().any(|rule| rule.covers(key, value))
    }
}

impl Rule {
    /// Makes a rule. `None` for an empty name, which would cover everything.
    fn new(name: &str, token: bool) -> Option<Rule> {
        let (stem, prefix) = name.strip_suffix('*').map_or((name, false), |stem| (stem, true));
        let name = stem.to_ascii_lowercase().into_bytes().into_boxed_slice();
        (!name.is_empty()).then_some(Rule { name, prefix, token })
    }

    fn covers(&self, key: &[u8], value: &[u8]) -> bool {
        let length_fits =
            if self.prefix { key.len() >= self.name.len() } else { key.len() == self.name.len() };
        length_fits
            && key[..self.name.len()].eq_ignore_ascii_case(&self.name)
            && (!self.token || looks_like_a_token(value))
    }
}

/// Reports whether a value is long, with letters and digits mixed and nothing else: so it is no
/// word, no number and no slug.
fn looks_like_a_token(value: &[u8]) -> bool {
    value.len() >= TOKEN_BYTES_MIN
        && value.iter().all(u8::is_ascii_alphanumeric)
        && value.iter().any(u8::is_ascii_digit)
        && value.iter().any(u8::is_ascii_alphabetic)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Covered(UnwantedParams);

    impl Covered {
        fn covers(&self, param: &str) -> bool {
            let (key, value) = param.split_once('=').unwrap_or((param, ""));
            self.0.covers(key.as_bytes(), value.as_bytes())
        }
    }

    fn unwanted(extra: &[&str]) -> Covered {
        Covered(UnwantedParams::new(extra.iter().map(|name| name.to_string())))
    }

    #[test]
    fn tracking_and_session_names_are_covered_in_any_case() {
        let params = unwanted(&[]);
        for param in ["utm_source=x", "UTM_Medium", "gclid=1", "PHPSESSID=9", "_ga=", "mc_eid=a"] {
            assert!(params.covers(param), "{param}");
        }
        for param in ["", "=", "=utm_source", "utm", "utmx=1", "gclid2=1", "q=utm_source", "id=1"] {
            assert!(!params.covers(param), "{param}");
        }
        assert!(params.covers("ASPSESSIONIDQQBCRT=ABC"));
    }

    #[test]
    fn a_story_id_is_kept_where_a_session_id_is_dropped() {
        let params = unwanted(&[]);
        assert!(params.covers("sid=8f14e45fceea167a5a36dedd4bea2543"));
        for param in ["sid=12", "sid", "sid=how-to-write-2-crawlers", "sid=20260131120000000000"] {
            assert!(!params.covers(param), "{param}");
        }
    }

    #[test]
    fn the_operators_names_are_covered_and_an_empty_one_covers_nothing() {
        let params = unwanted(&["Ref", "x-*", "", "*"]);
        assert!(params.covers("ref=1") && params.covers("X-any") && params.covers("x-"));
        assert!(!params.covers("refs=1") && !params.covers("x") && !params.covers("q=1"));
    }
}

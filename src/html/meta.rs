//! The small languages inside `meta` and header values: robots directives, refresh, charset,
//! language.

/// What a page asks of crawlers, from `<meta name=robots>` or an X-Robots-Tag header. Directives
/// add up: of two that disagree the stricter holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RobotsMeta {
    pub noindex: bool,
    pub nofollow: bool,
}

impl RobotsMeta {
    /// The `name` of a meta element that speaks to this crawler alone.
    pub const AGENT: &'static str = "nephila";

    /// Whether directives for the agent `name` are for us.
    pub fn is_addressed(name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(b"robots")
            || name.eq_ignore_ascii_case(RobotsMeta::AGENT.as_bytes())
    }

    /// Adds a list such as `noindex, follow`. Unknown directives are ignored.
    pub fn add(&mut self, directives: &[u8]) {
        for directive in directives.split(|byte| *byte == b',') {
            let directive = directive.trim_ascii();
            let none = directive.eq_ignore_ascii_case(b"none");
            self.noindex |= none || directive.eq_ignore_ascii_case(b"noindex");
            self.nofollow |= none || directive.eq_ignore_ascii_case(b"nofollow");
        }
    }

    /// Adds an X-Robots-Tag value: directives, perhaps for one agent only (`otherbot: noindex`).
    pub fn add_header(&mut self, value: &[u8]) {
        let Some(colon) = memchr::memchr(b':', value) else {
            return self.add(value);
        };
        let agent = value[..colon].trim_ascii();
        // `unavailable_after: <date>` and `max-snippet: 5` have a colon of their own.
        if RobotsMeta::is_addressed(agent) {
            self.add(&value[colon + 1..]);
        } else if memchr::memchr(b',', agent).is_some() {
            self.add(value);
        }
    }
}

/// The URL of `<meta http-equiv=refresh content=…>`, if it names one (WHATWG HTML 4.2.5.3, the
/// shared declarative refresh steps).
pub fn refresh_url(content: &[u8]) -> Option<&[u8]> {
    let content = content.trim_ascii_start();
    let digit_count = content.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digit_count == 0 && content.first() != Some(&b'.') {
        return None;
    }
    let time_len =
        content.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    let rest = &content[time_len..];
    match rest.first()? {
        b';' | b',' => {}
        byte if byte.is_ascii_whitespace() => {}
        _ => return None,
    }
    let rest = rest.trim_ascii_start();
    let rest = rest.strip_prefix(b";").or(rest.strip_prefix(b",")).unwrap_or(rest);
    let rest = rest.trim_ascii_start();
    if rest.is_empty() {
        return None;
    }
    let quoted = match rest.first() {
        Some(b'u' | b'U') => match strip_url_equals(rest) {
            Some(value) => value,
            None => return Some(rest),
        },
        _ => rest,
    };
    Some(match quoted.first() {
        Some(quote @ (b'"' | b'\'')) => {
            let value = &quoted[1..];
            memchr::memchr(*quote, value).map_or(value, |end| &value[..end])
        }
        _ => quoted,
    })
}

fn strip_url_equals(rest: &[u8]) -> Option<&[u8]> {
    let head = rest.get(..3)?;
    let after = head.eq_ignore_ascii_case(b"url").then(|| rest[3..].trim_ascii_start())?;
    Some(after.strip_prefix(b"=")?.trim_ascii_start())
}

/// The label in `text/html; charset=…` (WHATWG HTML 2.4.2, extracting a character encoding).
pub fn charset_label(content: &[u8]) -> Option<&[u8]> {
    let mut rest = content;
    loop {
        let found = rest.windows(7).position(|window| window.eq_ignore_ascii_case(b"charset"))?;
        rest = rest[found + 7..].trim_ascii_start();
        if let Some(value) = rest.strip_prefix(b"=") {
            let value = value.trim_ascii_start();
            return match value.first()? {
                quote @ (b'"' | b'\'') => {
                    let end = memchr::memchr(*quote, &value[1..])?;
                    Some(&value[1..=end])
                }
                _ => {
                    let is_end = |byte: &u8| byte.is_ascii_whitespace() || *byte == b';';
                    let end = value.iter().position(is_end).unwrap_or(value.len());
                    Some(&value[..end])
                }
            };
        }
    }
}

/// The language in a Content-Language: the first word, unless there are several languages.
pub fn content_language(content: &[u8]) -> Option<&[u8]> {
    if content.contains(&b',') {
        return None;
    }
    content.split(u8::is_ascii_whitespace).find(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn robots_directives_add_up() {
        let mut robots = RobotsMeta::default();
        robots.add(b"index, Follow,max-snippet:5");
        assert_eq!(robots, RobotsMeta::default());
        robots.add(b" NoFollow ");
        assert_eq!(robots, RobotsMeta { noindex: false, nofollow: true });
        robots.add(b"none");
        assert_eq!(robots, RobotsMeta { noindex: true, nofollow: true });
    }

    #[test]
    fn a_robots_header_for_another_agent_is_not_ours() {
        let read = |value: &[u8]| {
            let mut robots = RobotsMeta::default();
            robots.add_header(value);
            (robots.noindex, robots.nofollow)
        };
        assert_eq!(read(b"noindex"), (true, false));
        assert_eq!(read(b"otherbot: noindex, nofollow"), (false, false));
        assert_eq!(read(b"Nephila: nofollow"), (false, true));
        assert_eq!(read(b"unavailable_after: 25 Jun 2030 15:00:00 GMT"), (false, false));
        assert_eq!(read(b"noindex, max-snippet: 5"), (true, false));
    }

    #[test]
    fn rfc_refresh_takes_a_url_with_or_without_its_name_and_quotes() {
        for (content, url) in [
            ("0; url=/a", Some("/a")),
            ("5;URL = '/a b' x", Some("/a b")),
            ("0,/a", Some("/a")),
            (".5 /a", Some("/a")),
            ("0;url", Some("url")),
            ("0; \"/a\"", Some("/a")),
            ("5", None),
            ("5;", None),
            ("url=/a", None),
            ("5x/a", None),
        ] {
            let found = refresh_url(content.as_bytes());
            assert_eq!(found, url.map(str::as_bytes), "{content}");
        }
    }

    #[test]
    fn charset_labels_are_found_in_content_types() {
        for (content, label) in [
            ("text/html; charset=koi8-r", Some("koi8-r")),
            ("charset = \"a;b\" c", Some("a;b")),
            ("charset charset=x;y", Some("x")),
            ("charset='x", None),
            ("text/html", None),
        ] {
            assert_eq!(charset_label(content.as_bytes()), label.map(str::as_bytes), "{content}");
        }
    }

    #[test]
    fn several_content_languages_are_none() {
        assert_eq!(content_language(b" de-AT x"), Some(&b"de-AT"[..]));
        assert_eq!(content_language(b"de, en"), None);
        assert_eq!(content_language(b" "), None);
    }
}

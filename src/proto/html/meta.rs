//! The small languages inside `meta` elements and header values: robots directives, refresh,
//! charset, language.

/// What a page asks of crawlers, from `<meta name=robots>` or an X-Robots-Tag header. Directives
/// add up: if two disagree, the stricter holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RobotsMeta {
    pub noindex: bool,
    pub nofollow: bool,
}

impl RobotsMeta {
    /// The `name` of a meta element that addresses this crawler alone.
    pub const AGENT: &'static str = "nephila";

    /// Reports whether directives for the agent `name` are for us.
    pub fn is_addressed(name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(b"robots")
            || name.eq_ignore_ascii_case(RobotsMeta::AGENT.as_bytes())
    }

    /// Adds a list such as `noindex, follow`. Unknown directives are ignored. The standard
    /// separator is the comma; blanks and semicolons are common mistakes, and no directive that we
    /// know has one inside.
    pub fn add(&mut self, directives: &[u8]) {
        let parts_words = |byte: &u8| matches!(byte, b',' | b';') || byte.is_ascii_whitespace();
        for directive in directives.split(parts_words) {
            let none = directive.eq_ignore_ascii_case(b"none");
            self.noindex |= none || directive.eq_ignore_ascii_case(b"noindex");
            self.nofollow |= none || directive.eq_ignore_ascii_case(b"nofollow");
        }
    }

    /// Adds an X-Robots-Tag value: directives for all agents, and behind an agent's name those for
    /// that agent alone, up to the next name (`noarchive, otherbot: noindex, nephila: nofollow`).
    ///
    /// `unavailable_after: <date>` only says when a page leaves an index: it asks nothing of a
    /// crawler, and neither does `max-snippet: 5`. The directives behind them count.
    pub fn add_header(&mut self, value: &[u8]) {
        let mut for_us = true;
        for part in value.split(|byte| *byte == b',') {
            let colon = memchr::memchr(b':', part);
            let name = colon.map(|colon| part[..colon].trim_ascii());
            let directives = match (name, colon) {
                (Some(name), Some(colon)) if is_agent(name) => {
                    for_us = name == b"*" || RobotsMeta::is_addressed(name);
                    &part[colon + 1..]
                }
                // This is a directive with a value, or the second half of a date.
                (Some(_), _) => continue,
                (None, _) => part,
            };
            if for_us {
                self.add(directives);
            }
        }
    }
}

/// Reports whether the text before a colon names an agent: it is one word, and not a directive that
/// has a value. The hour in `25 Jun 2030 15:00:00 GMT` is not an agent either.
fn is_agent(name: &[u8]) -> bool {
    const VALUED: [&[u8]; 4] =
        [b"unavailable_after", b"max-snippet", b"max-image-preview", b"max-video-preview"];
    let is_word = |byte: &u8| byte.is_ascii_graphic();
    !name.is_empty()
        && !name[0].is_ascii_digit()
        && name.iter().all(is_word)
        && !VALUED.iter().any(|valued| name.eq_ignore_ascii_case(valued))
}

/// Returns the URL of `<meta http-equiv=refresh content=…>`, if it names one (WHATWG HTML 4.2.5.3,
/// the shared declarative refresh steps).
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

/// Returns the label in `text/html; charset=…` (WHATWG HTML 2.4.2, extracting a character
/// encoding).
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

/// Returns the language in a Content-Language: the first word, or `None` if there are several
/// languages.
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

    fn header(values: &[&str]) -> (bool, bool) {
        let mut robots = RobotsMeta::default();
        values.iter().for_each(|value| robots.add_header(value.as_bytes()));
        (robots.noindex, robots.nofollow)
    }

    #[test]
    fn a_robots_header_for_another_agent_is_not_ours() {
        for (value, wanted) in [
            ("noindex", (true, false)),
            ("otherbot: noindex, nofollow", (false, false)),
            ("Nephila: nofollow", (false, true)),
            ("robots: none", (true, true)),
            ("*: nofollow", (false, true)),
            ("noindex, otherbot: nofollow, none", (true, false)),
            ("otherbot: none, nephila: nofollow", (false, true)),
            ("nephila: noindex, otherbot: none, nofollow", (true, false)),
            ("nephila:nofollow,noindex", (true, true)),
            ("nephila-news: none", (false, false)),
            (": nofollow", (false, false)),
            ("", (false, false)),
        ] {
            assert_eq!(header(&[value]), wanted, "{value}");
        }
    }

    #[test]
    fn a_directive_with_a_value_does_not_hide_those_behind_it() {
        for (value, wanted) in [
            ("unavailable_after: 25 Jun 2030 15:00:00 GMT", (false, false)),
            ("unavailable_after: 25 Jun 2030 15:00:00 GMT, nofollow", (false, true)),
            ("unavailable_after: Tue, 25 Jun 2030 15:00:00 GMT, noindex", (true, false)),
            ("Unavailable_After: 2030-06-25T15:00:00, none", (true, true)),
            ("max-snippet: 5, nofollow", (false, true)),
            ("noindex, max-snippet:-1, max-image-preview:large, nofollow", (true, true)),
            ("nephila: max-snippet: 5, nofollow", (false, true)),
            ("otherbot: max-snippet: 5, nofollow", (false, false)),
        ] {
            assert_eq!(header(&[value]), wanted, "{value}");
        }
    }

    #[test]
    fn several_robots_headers_add_up_and_each_names_its_own_agents() {
        assert_eq!(header(&["otherbot: none", "nofollow"]), (false, true));
        assert_eq!(header(&["noindex", "nephila: nofollow", "index, follow"]), (true, true));
    }

    #[test]
    fn lenient_blanks_and_semicolons_part_directives_too() {
        for list in ["noindex nofollow", "noindex;nofollow", "\tNOINDEX ,\n nofollow"] {
            let mut robots = RobotsMeta::default();
            robots.add(list.as_bytes());
            assert_eq!(robots, RobotsMeta { noindex: true, nofollow: true }, "{list}");
        }
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

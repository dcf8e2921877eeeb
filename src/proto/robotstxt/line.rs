//! One line of robots.txt: `key : value # comment`, with the mistakes that people make in it.

/// A line that matters to us. Values are trimmed, and otherwise as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    UserAgent(&'a [u8]),
    Allow(&'a [u8]),
    Disallow(&'a [u8]),
    CrawlDelay(&'a [u8]),
    Sitemap(&'a [u8]),
}

/// Reads a line without its line end. `None` for blank lines, comments and records we do not know.
pub(super) fn read(line: &[u8]) -> Option<Line<'_>> {
    let line = match memchr::memchr(b'#', line) {
        Some(comment) => &line[..comment],
        None => line,
    };
    let line = trim(line);
    let (key, value) = match memchr::memchr(b':', line) {
        Some(colon) => (&line[..colon], &line[colon + 1..]),
        None => split_at_blank(line)?,
    };
    let (key, value) = (trim(key), trim(value));
    const USER_AGENT: &[&[u8]] = &[b"user-agent", b"useragent", b"user agent"];
    const DISALLOW: &[&[u8]] =
        &[b"disallow", b"dissallow", b"dissalow", b"disalow", b"diasllow", b"disallaw"];
    // Google's parser compares only the beginning of the key, so `Disallow-all:` is a Disallow.
    let begins_with_any = |names: &[&[u8]]| names.iter().any(|name| begins_with(key, name));
    if begins_with_any(USER_AGENT) {
        Some(Line::UserAgent(value))
    } else if begins_with(key, b"allow") {
        Some(Line::Allow(value))
    } else if begins_with_any(DISALLOW) {
        Some(Line::Disallow(value))
    } else if begins_with_any(&[b"sitemap", b"site-map"]) {
        Some(Line::Sitemap(value))
    } else if begins_with_any(&[b"crawl-delay", b"crawldelay", b"crawl delay"]) {
        Some(Line::CrawlDelay(value))
    } else if is_bare_sitemap(key, value) {
        Some(Line::Sitemap(line))
    } else {
        None
    }
}

/// Splits a line without a colon. Blanks may stand in its place, but only if the line has exactly
/// two words.
fn split_at_blank(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let blank = line.iter().position(is_blank)?;
    let value = trim(&line[blank..]);
    if value.is_empty() || value.iter().any(is_blank) {
        return None;
    }
    Some((&line[..blank], value))
}

/// Reports whether the line is a sitemap's address alone, without `Sitemap:` before it.
fn is_bare_sitemap(key: &[u8], value: &[u8]) -> bool {
    (key.eq_ignore_ascii_case(b"http") || key.eq_ignore_ascii_case(b"https"))
        && value.starts_with(b"//")
        && value.windows(7).any(|word| word.eq_ignore_ascii_case(b"sitemap"))
}

fn begins_with(key: &[u8], name: &[u8]) -> bool {
    key.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
}

/// Removes white space at either end. A no-break space counts as white space: it comes from word
/// processors, and a rule that ends in one would forbid nothing.
fn trim(mut text: &[u8]) -> &[u8] {
    const NO_BREAK_SPACE: &[u8] = "\u{a0}".as_bytes();
    loop {
        let before = text.len();
        // Other readers of robots.txt take a vertical tab as white space, but `trim_ascii` does
        // not.
        text = text.trim_ascii();
        text = text.strip_prefix(b"\x0b").unwrap_or(text);
        text = text.strip_suffix(b"\x0b").unwrap_or(text);
        text = text.strip_prefix(NO_BREAK_SPACE).unwrap_or(text);
        text = text.strip_suffix(NO_BREAK_SPACE).unwrap_or(text);
        if text.len() == before {
            return text;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_keys_are_compared_without_case_and_values_trimmed() {
        assert_eq!(read(b"User-Agent: bot"), Some(Line::UserAgent(b"bot")));
        assert_eq!(read(b"DISALLOW:/a b\t # why"), Some(Line::Disallow(b"/a b")));
        assert_eq!(read(b" allow :\t"), Some(Line::Allow(b"")));
        assert_eq!(read(b"Sitemap: http://a/#x"), Some(Line::Sitemap(b"http://a/")));
        assert_eq!(read(b"crawl-delay: 1.5"), Some(Line::CrawlDelay(b"1.5")));
        assert_eq!(read("Disallow: /a\u{a0} \u{a0}".as_bytes()), Some(Line::Disallow(b"/a")));
    }

    #[test]
    fn lenient_common_misspellings_are_taken() {
        assert_eq!(read(b"useragent: x"), Some(Line::UserAgent(b"x")));
        assert_eq!(read(b"user agent: x"), Some(Line::UserAgent(b"x")));
        for key in ["dissallow", "dissalow", "disalow", "diasllow", "disallaw", "Disallowed"] {
            assert_eq!(read(format!("{key}: /").as_bytes()), Some(Line::Disallow(b"/")), "{key}");
        }
        assert_eq!(read(b"site-map: x"), Some(Line::Sitemap(b"x")));
        assert_eq!(
            read(b"http://a.b/My-Sitemap.xml"),
            Some(Line::Sitemap(b"http://a.b/My-Sitemap.xml"))
        );
    }

    #[test]
    fn lenient_blanks_stand_for_the_colon_between_exactly_two_words() {
        assert_eq!(read(b"disallow \t /a"), Some(Line::Disallow(b"/a")));
        assert_eq!(read(b"  disallow /a # b"), Some(Line::Disallow(b"/a")));
        assert_eq!(read(b"disallow /a b"), None);
        assert_eq!(read(b"disallow"), None);
    }

    #[test]
    fn lines_that_say_nothing_are_nothing() {
        for line in ["", "   ", "# disallow: /", ": /", "host: a", "http://a.b/", "desallow: /"] {
            assert_eq!(read(line.as_bytes()), None, "{line}");
        }
    }
}

//! One robots.txt as the referee reads it. The `robotstxt` crate, a port of Google's matcher,
//! decides who may fetch what. Crawl-delay, which neither the crate nor RFC 9309 knows, is read
//! here; its group is chosen by RFC 9309 2.2.1.

use robotstxt::DefaultMatcher;

/// The rules of a robots.txt that was served.
#[derive(Debug)]
pub(super) struct Rules {
    text: String,
    /// The Crawl-delay of the group that applies to our crawler; the longest if it has several.
    pub crawl_delay_ms: u64,
    /// Whether no line of the file can forbid anything.
    is_open: bool,
}

impl Rules {
    pub fn read(body: &[u8], product_token: &str) -> Rules {
        let text = String::from_utf8_lossy(body).into_owned();
        let crawl_delay_ms = crawl_delay_ms(&text, product_token);
        // Google's matcher also accepts five misspellings of Disallow; all end in "low" or "law".
        let small = text.to_ascii_lowercase();
        let is_open = !small.contains("low") && !small.contains("law");
        Rules { text, crawl_delay_ms, is_open }
    }

    pub fn allow(&self, product_token: &str, url: &str) -> bool {
        self.is_open
            || DefaultMatcher::default().one_agent_allowed_by_robots(&self.text, product_token, url)
    }
}

/// Returns the longest Crawl-delay of the groups that name our crawler, or of those for everyone if
/// no group names it. A line that is no rule does not end a list of agents (RFC 9309 2.2.4).
fn crawl_delay_ms(text: &str, product_token: &str) -> u64 {
    let (mut ours_ms, mut everyones_ms) = (0, 0);
    let (mut is_ours, mut is_everyones, mut was_ours, mut has_rules) = (false, false, false, false);
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for line in text.split(['\n', '\r']) {
        let line = line.split('#').next().unwrap_or_default();
        let Some((key, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        match key.trim().to_ascii_lowercase().as_str() {
            "user-agent" => {
                if std::mem::take(&mut has_rules) {
                    (is_ours, is_everyones) = (false, false);
                }
                let is_token = |c: char| c.is_ascii_alphabetic() || c == '-' || c == '_';
                let token = value.split(|c| !is_token(c)).next().unwrap_or_default();
                is_everyones |= value.split_ascii_whitespace().next() == Some("*");
                if token.eq_ignore_ascii_case(product_token) {
                    (is_ours, was_ours) = (true, true);
                }
            }
            "allow" | "disallow" => has_rules = true,
            "crawl-delay" => {
                let delay_ms = milliseconds(value);
                if is_ours {
                    ours_ms = delay_ms.max(ours_ms);
                } else if is_everyones {
                    everyones_ms = delay_ms.max(everyones_ms);
                }
            }
            _ => {}
        }
    }
    if was_ours { ours_ms } else { everyones_ms }
}

/// Reads seconds, perhaps with a fraction. Anything else counts as no delay.
fn milliseconds(value: &str) -> u64 {
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match value.parse::<f64>() {
        // A cast saturates, so a number beyond the range becomes the longest delay.
        Ok(seconds) if is_number => (seconds * 1_000.0) as u64,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delay_ms(text: &str) -> u64 {
        Rules::read(text.as_bytes(), "nephila").crawl_delay_ms
    }

    #[test]
    fn rfc_the_group_that_names_us_counts_before_that_of_everyone() {
        let text =
            "User-agent: *\nCrawl-delay: 9\n\nUser-Agent: Nephila/1.0\nCrawl-Delay: 1.5 # s\n";
        assert_eq!(delay_ms(text), 1_500, "a delay is valid for the agents named before it");
        let text =
            "User-agent: *\nDisallow:\nCrawl-delay: 9\nUser-Agent: Nephila\nCrawl-Delay: 1.5\n";
        assert_eq!(delay_ms(text), 1_500);
        let other = "User-agent: nephilax\nDisallow: /\nCrawl-delay: 9\n";
        assert_eq!(delay_ms(other), 0);
        assert_eq!(delay_ms("Crawl-delay: 3\nUser-agent: *\nDisallow:\n"), 0);
    }

    #[test]
    fn odd_delays_ask_for_nothing_or_for_all() {
        let delay = |value: &str| delay_ms(&format!("User-agent: *\nCrawl-delay: {value}\n"));
        assert_eq!((delay("-1"), delay("x"), delay(""), delay("inf")), (0, 0, 0, 0));
        assert_eq!(delay("0.25"), 250);
        assert_eq!(delay(&"9".repeat(400)), u64::MAX);
    }

    #[test]
    fn what_is_forbidden_is_for_googles_matcher_to_say() {
        let rules = Rules::read(b"user-agent: *\nDissallow: /p\nallow: /p/ok", "nephila");
        assert!(!rules.allow("nephila", "http://h/p"));
        assert!(rules.allow("nephila", "http://h/p/ok"));
        assert!(Rules::read(b"\xff\xfe", "nephila").allow("nephila", "http://h/"));
    }
}

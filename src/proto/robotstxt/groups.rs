//! Groups of lines, and which of them apply to us.
//!
//! [`Groups`] owns the drafts of the rules. Lines flow in, in file order; a [`Robots`] comes out.
//! Rules of groups that name our token and rules of `*` are kept in separate drafts; the first
//! group that names us discards the draft for `*`. At the end the remaining draft is sorted by
//! precedence.

use super::line::Line;
use super::{Entry, Robots, pattern};
use crate::base::limits::{
    ROBOTS_DELAY_MS_MAX, ROBOTS_LINE_BYTES_MAX, ROBOTS_RULE_COUNT_MAX, ROBOTS_SITEMAP_COUNT_MAX,
    URL_BYTES_MAX,
};
use std::cmp::Reverse;

const _: () = assert!(ROBOTS_DELAY_MS_MAX <= u32::MAX as u64);
const _: () = assert!(ROBOTS_LINE_BYTES_MAX > URL_BYTES_MAX, "a sitemap line must fit");

#[derive(Debug, Default)]
pub(super) struct Groups {
    product_token: Box<[u8]>,
    ours: Draft,
    everyones: Draft,
    sitemaps: Vec<Box<str>>,
    /// The group that is being read names our token.
    is_ours: bool,
    /// The group that is being read names `*`.
    is_everyones: bool,
    /// A rule was read, so the next User-agent line starts a new group (RFC 9309 2.2.1).
    has_rules: bool,
    /// Some group named our token, perhaps without a single rule.
    was_ours: bool,
}

#[derive(Debug, Default)]
struct Draft {
    text: String,
    rules: Vec<DraftRule>,
    crawl_delay_ms: Option<u32>,
    crawl_delay_line: u32,
}

#[derive(Clone, Copy, Debug)]
struct DraftRule {
    start: u32,
    end: u32,
    line: u32,
    allow: bool,
}

impl Groups {
    pub(super) fn new(product_token: &str) -> Groups {
        Groups { product_token: product_token.as_bytes().into(), ..Groups::default() }
    }

    pub(super) fn push(&mut self, line: Line<'_>, number: u32) {
        match line {
            Line::UserAgent(value) => self.push_agent(value),
            Line::Allow(value) => self.push_rule(true, value, number),
            Line::Disallow(value) => self.push_rule(false, value, number),
            Line::CrawlDelay(value) => self.push_delay(value, number),
            Line::Sitemap(value) => self.push_sitemap(value),
        }
    }

    pub(super) fn finish(self) -> Robots {
        let draft = if self.was_ours { self.ours } else { self.everyones };
        draft.lay_out(&self.sitemaps)
    }

    fn push_agent(&mut self, value: &[u8]) {
        if self.has_rules {
            self.is_ours = false;
            self.is_everyones = false;
            self.has_rules = false;
        }
        // A `*` with more words behind it still means everyone.
        if let [b'*', rest @ ..] = value
            && rest.first().is_none_or(u8::is_ascii_whitespace)
        {
            self.is_everyones = true;
            return;
        }
        // Only the beginning is a token: `nephila/1.0 (test)` names us.
        let is_token = |byte: &&u8| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_');
        let token_len = value.iter().take_while(is_token).count();
        if token_len > 0 && value[..token_len].eq_ignore_ascii_case(&self.product_token) {
            self.is_ours = true;
            self.was_ours = true;
            self.everyones = Draft::default();
        }
    }

    /// Returns where lines of the current group go, if they apply to us.
    fn draft(&mut self) -> Option<&mut Draft> {
        if self.is_ours {
            Some(&mut self.ours)
        } else if self.is_everyones && !self.was_ours {
            Some(&mut self.everyones)
        } else {
            None
        }
    }

    fn push_rule(&mut self, allow: bool, value: &[u8], line: u32) {
        self.has_rules = true;
        let Some(draft) = self.draft() else { return };
        draft.push(allow, value, line);
        // As in Google's parser, an Allow of `/dir/index.html` also allows `/dir/`.
        if allow
            && let Some(slash) = memchr::memrchr(b'/', value)
            && value[slash..].starts_with(b"/index.htm")
        {
            let directory = [&value[..=slash], b"$"].concat();
            draft.push(true, &directory, line);
        }
    }

    /// Keeps a Crawl-delay. If the groups that apply have several, the longest counts. A delay does
    /// not end the list of agents, and holds for the agents named before it.
    fn push_delay(&mut self, value: &[u8], line: u32) {
        let Some(delay_ms) = delay_ms(value) else { return };
        if let Some(draft) = self.draft()
            && draft.crawl_delay_ms < Some(delay_ms)
        {
            draft.crawl_delay_ms = Some(delay_ms);
            draft.crawl_delay_line = line;
        }
    }

    fn push_sitemap(&mut self, value: &[u8]) {
        let is_url = |scheme: &[u8]| {
            value.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        };
        let is_path = value.starts_with(b"/") && !value.starts_with(b"//");
        let is_address = is_url(b"http://") || is_url(b"https://") || is_path;
        if !is_address || value.len() > URL_BYTES_MAX {
            return;
        }
        let Ok(address) = std::str::from_utf8(value) else { return };
        let is_new = !self.sitemaps.iter().any(|known| **known == *address);
        if is_new && self.sitemaps.len() < ROBOTS_SITEMAP_COUNT_MAX {
            self.sitemaps.push(address.into());
        }
    }
}

impl Draft {
    fn push(&mut self, allow: bool, value: &[u8], line: u32) {
        // Paths start with a slash, so no other pattern can match one. An empty value is the old
        // way to say that nothing is forbidden, and makes no rule.
        let can_match = matches!(value.first(), Some(b'/' | b'*'));
        if !can_match || self.rules.len() == ROBOTS_RULE_COUNT_MAX {
            return;
        }
        let start = self.text.len() as u32;
        pattern::push_normal_pattern(value, &mut self.text);
        let end = self.text.len() as u32;
        self.rules.push(DraftRule { start, end, line, allow });
    }

    /// Makes the rules. RFC 9309 2.2.2: the match with the most octets wins, and Allow wins between
    /// equals.
    fn lay_out(mut self, sitemaps: &[Box<str>]) -> Robots {
        self.rules.sort_by_key(|rule| (Reverse(rule.end - rule.start), !rule.allow));
        let text_len =
            self.rules.iter().map(|rule| (rule.end - rule.start) as usize).sum::<usize>()
                + sitemaps.iter().map(|address| address.len()).sum::<usize>();
        let mut text = String::with_capacity(text_len);
        let mut entries = Vec::with_capacity(self.rules.len() + sitemaps.len());
        for rule in &self.rules {
            text.push_str(&self.text[rule.start as usize..rule.end as usize]);
            let line_and_allow = rule.line << 1 | u32::from(rule.allow);
            entries.push(Entry { end: text.len() as u32, line_and_allow });
        }
        for address in sitemaps {
            text.push_str(address);
            entries.push(Entry { end: text.len() as u32, line_and_allow: 0 });
        }
        Robots {
            text: text.into_boxed_str(),
            entries: entries.into_boxed_slice(),
            rule_count: self.rules.len() as u32,
            crawl_delay_ms: self.crawl_delay_ms,
            crawl_delay_line: self.crawl_delay_line,
        }
    }
}

/// Reads seconds with decimals, and returns milliseconds rounded up. Anything behind the number is
/// ignored; a value that does not start with a number is no delay.
fn delay_ms(value: &[u8]) -> Option<u32> {
    let digit_count = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (whole, rest) = value.split_at(digit_count(value));
    let fraction = match rest {
        [b'.' | b',', rest @ ..] => &rest[..digit_count(rest)],
        _ => &[],
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let push =
        |total: u64, digit: &u8| total.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    let mut ms = whole.iter().fold(0, push).saturating_mul(1_000);
    let mut unit_ms = 100;
    for digit in fraction.iter().take(3) {
        ms = ms.saturating_add(u64::from(digit - b'0') * unit_ms);
        unit_ms /= 10;
    }
    let has_more = fraction.iter().skip(3).any(|digit| *digit != b'0');
    Some(ms.saturating_add(u64::from(has_more)).min(ROBOTS_DELAY_MS_MAX) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_may_have_decimals_and_is_clamped() {
        for (text, wanted) in [
            ("10", Some(10_000)),
            ("0", Some(0)),
            ("1.5", Some(1_500)),
            (".25", Some(250)),
            ("0,5", Some(500)),
            ("2.0001", Some(2_001)),
            ("1.", Some(1_000)),
            ("5 seconds", Some(5_000)),
            ("99999999999999999999999", Some(86_400_000)),
            ("-1", None),
            ("", None),
            (".", None),
            ("fast", None),
        ] {
            assert_eq!(delay_ms(text.as_bytes()), wanted, "{text}");
        }
    }
}

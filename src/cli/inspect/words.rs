//! Times and lists as `inspect` shows them.

use crate::base::WallTime;
use crate::engine::report::span_text;
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

/// How far `at` lies before or behind `now`: `12 min ago`, `in 3.2 s`.
pub fn distance_text(now: WallTime, at: WallTime) -> String {
    match at.0.checked_sub(now.0) {
        Some(ahead) => format!("in {}", span_text(Duration::from_nanos(ahead))),
        None => format!("{} ago", span_text(Duration::from_nanos(now.0 - at.0))),
    }
}

/// `2026-01-31T23:59:59Z (in 3.2 s)`.
pub fn moment_text(now: WallTime, at: WallTime) -> String {
    format!("{at} ({})", distance_text(now, at))
}

/// A moment for programs: as a date, and seconds from now.
pub fn moment_json(now: WallTime, at: WallTime) -> Value {
    let in_s = (i128::from(at.0) - i128::from(now.0)) as f64 / 1e9;
    json!({ "at": at.to_string(), "in_s": (in_s * 1_000.0).round() / 1_000.0 })
}

/// Text in lines of `label  value`, values below each other.
pub struct Table(pub String);

/// The longest outcome has 20.
const LABEL_COLUMN_COUNT: usize = 22;

impl Table {
    pub fn head(&mut self, text: &str) {
        let _ = writeln!(self.0, "{text}");
    }

    pub fn row(&mut self, label: &str, value: impl AsRef<str>) {
        let _ = writeln!(self.0, "  {label:<LABEL_COLUMN_COUNT$}{}", value.as_ref());
    }

    /// Says that a list was cut.
    pub fn more(&mut self, count: usize) {
        if count > 0 {
            let _ = writeln!(self.0, "  and {count} more (--limit)");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_told_from_now() {
        let at = |seconds: u64| WallTime(seconds * 1_000_000_000);
        assert_eq!(distance_text(at(100), at(103)), "in 3.0 s");
        assert_eq!(distance_text(at(900), at(180)), "12 min ago");
        assert_eq!(distance_text(at(20_000), at(2_000)), "5.0 h ago");
        assert_eq!(distance_text(at(0), at(700_000)), "in 8 days");
        assert_eq!(moment_json(at(10), at(7))["in_s"], -3.0);
    }
}

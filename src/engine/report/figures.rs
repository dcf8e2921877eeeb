//! Numbers in the form in which people read them.

use crate::base::counts::count_text;
use std::time::Duration;

/// Writes bytes in decimal units, as networks and disks are sold: `301.2 MB`.
pub fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1_000 {
        return format!("{bytes} B");
    }
    let mut scaled = bytes as f64 / 1_000.0;
    let mut unit = 0;
    // Without this limit, 999.95 would be printed as 1000.0.
    while scaled >= 999.95 && unit + 1 < UNITS.len() {
        scaled /= 1_000.0;
        unit += 1;
    }
    format!("{scaled:.1} {}", UNITS[unit])
}

/// Writes a time with about three digits: `850 us`, `20 ms`, `12.3 ms`, `4.56 s`, `3.3 min`,
/// `5.0 h`, `8 days`.
pub fn span_text(span: Duration) -> String {
    let us = span.as_micros();
    let seconds = span.as_secs_f64();
    match us {
        0..1_000 => format!("{us} us"),
        1_000..100_000 => {
            format!("{:.1}", us as f64 / 1e3).trim_end_matches(".0").to_owned() + " ms"
        }
        100_000..1_000_000 => format!("{} ms", us / 1_000),
        1_000_000..10_000_000 => hundredths_text(seconds) + " s",
        10_000_000..100_000_000 => format!("{seconds:.1} s"),
        100_000_000..600_000_000 => format!("{:.1} min", seconds / 60.0),
        600_000_000..6_000_000_000 => format!("{:.0} min", seconds / 60.0),
        6_000_000_000..172_800_000_000 => format!("{:.1} h", seconds / 3_600.0),
        _ => format!("{:.0} days", seconds / 86_400.0),
    }
}

/// Writes a time as [`span_text`] does, given in microseconds.
pub fn latency_text(span_us: u64) -> String {
    span_text(Duration::from_micros(span_us))
}

/// Writes two decimals, or one if the second is a zero.
fn hundredths_text(number: f64) -> String {
    let mut text = format!("{number:.2}");
    if text.ends_with('0') {
        text.pop();
    }
    text
}

/// Writes a time as `1:02:03`, or as `02:03` within the first hour.
pub fn duration_text(span: Duration) -> String {
    let seconds = span.as_secs();
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes:02}:{seconds:02}")
    }
}

/// Writes a whole number from ten on, and one decimal below.
pub fn rate_text(rate: f64) -> String {
    if rate >= 10.0 { count_text(rate.round() as u64) } else { format!("{rate:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_the_unit_that_keeps_them_short() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.0 kB"),
            (999_949, "999.9 kB"),
            (999_950, "1.0 MB"),
            (301_200_000, "301.2 MB"),
            (u64::MAX, "18446.7 PB"),
        ] {
            assert_eq!(bytes_text(bytes), text);
        }
    }

    #[test]
    fn times_keep_about_three_digits() {
        for (span_us, text) in [
            (0, "0 us"),
            (999, "999 us"),
            (12_340, "12.3 ms"),
            (20_000, "20 ms"),
            (123_400, "123 ms"),
            (3_000_000, "3.0 s"),
            (4_560_000, "4.56 s"),
            (45_600_000, "45.6 s"),
            (200_000_000, "3.3 min"),
            (720_000_000, "12 min"),
            (18_000_000_000, "5.0 h"),
            (700_000_000_000, "8 days"),
        ] {
            assert_eq!(span_text(Duration::from_micros(span_us)), text);
        }
        assert_eq!(duration_text(Duration::from_secs(123)), "02:03");
        assert_eq!(duration_text(Duration::from_secs(3_723)), "1:02:03");
        assert_eq!((rate_text(9.96), rate_text(1234.5)), ("10.0".into(), "1,235".into()));
    }
}

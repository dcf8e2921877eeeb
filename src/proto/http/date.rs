//! HTTP-date in its three formats, and Retry-After (RFC 9110 5.6.7, 10.2.3).

use crate::base::WallTime;

/// The time at which a server wants to be asked again. The caller clamps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAfter {
    Seconds(u64),
    /// Unix seconds.
    At(u64),
}

impl RetryAfter {
    /// Returns `None` for text that is neither a number nor a date, so also for negative numbers. A
    /// number beyond u64 counts as `u64::MAX`.
    pub fn parse(value: &[u8]) -> Option<RetryAfter> {
        let value = value.trim_ascii();
        if !value.is_empty() && value.iter().all(u8::is_ascii_digit) {
            return Some(RetryAfter::Seconds(number(value).unwrap_or(u64::MAX)));
        }
        parse_date(value).map(RetryAfter::At)
    }

    /// Returns the seconds from `now`, zero for a date that has passed.
    pub fn seconds_from(self, now: WallTime) -> u64 {
        match self {
            RetryAfter::Seconds(seconds) => seconds,
            RetryAfter::At(at) => at.saturating_sub(now.unix_seconds()),
        }
    }
}

/// Returns the Unix seconds of an IMF-fixdate, an RFC 850 date or an asctime date. The weekday is
/// not checked, and the zone is taken for GMT whatever the text says. Returns `None` for text that
/// is not a date, and for dates before 1970.
pub fn parse_date(value: &[u8]) -> Option<u64> {
    let mut words = value
        .split(|byte| b" ,-".contains(byte))
        .filter(|word| !word.is_empty())
        .skip_while(|word| weekday(word));
    let (first, second, third, fourth) =
        (words.next()?, words.next()?, words.next()?, words.next()?);
    // asctime puts the month first: "Nov 6 08:49:37 1994"; the others put the day first: "06 Nov
    // 1994 08:49:37".
    let (day, month, year, time) = match month(first) {
        Some(month) => (second, month, fourth, third),
        None => (first, month(second)?, third, fourth),
    };
    let (day, year) = (small(day)?, full_year(year)?);
    let mut parts = time.split(|&byte| byte == b':').map(small);
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let is_valid = (1..=days_in_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60
        && parts.next().is_none();
    if !is_valid || year < 1970 {
        return None;
    }
    Some(days_from_epoch(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second)
}

fn weekday(word: &[u8]) -> bool {
    const DAYS: [&[u8]; 7] = [b"mon", b"tue", b"wed", b"thu", b"fri", b"sat", b"sun"];
    let start = word.get(..3);
    start.is_some_and(|start| DAYS.iter().any(|day| start.eq_ignore_ascii_case(day)))
}

/// Returns the number of the month, 1 to 12.
fn month(word: &[u8]) -> Option<u64> {
    const MONTHS: &[u8; 36] = b"janfebmaraprmayjunjulaugsepoctnovdec";
    let mut months = MONTHS.chunks_exact(3);
    months.position(|month| word.eq_ignore_ascii_case(month)).map(|index| index as u64 + 1)
}

/// Reads a year of four digits, or of two as in RFC 850. The RFC wants two-digit years within 50
/// years of now; a fixed pivot needs no clock and differs only for dates that no live server sends.
fn full_year(digits: &[u8]) -> Option<u64> {
    match (digits.len(), number(digits)?) {
        (2, year @ 70..) => Some(1900 + year),
        (2, year) => Some(2000 + year),
        (4, year) => Some(year),
        _ => None,
    }
}

fn small(digits: &[u8]) -> Option<u64> {
    if digits.len() <= 2 { number(digits) } else { None }
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |value, &digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

fn days_in_month(year: u64, month: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => 31,
    }
}

/// Returns the days since 1970-01-01: the inverse of [`WallTime::civil`], for years from 1970 on.
fn days_from_epoch(year: u64, month: u64, day: u64) -> u64 {
    let shifted_year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (shifted_year / 400, shifted_year % 400);
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rfc_the_three_formats_name_the_same_moment() {
        for date in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse_date(date.as_bytes()), Some(784_111_777), "{date}");
        }
        assert_eq!(parse_date(b"Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(parse_date(b"Thursday, 01-Jan-26 00:00:00 GMT"), Some(1_767_225_600));
    }

    #[test]
    fn what_is_no_date_is_none() {
        for date in [
            "",
            "0",
            "-1",
            "Sun",
            "Sun, 31 Feb 2020 00:00:00 GMT",
            "Sun, 29 Feb 2021 00:00:00 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:49 GMT",
            "Sun, 06 Foo 1994 08:49:37",
            "Sun, 06 Nov 19940 08:49:37 GMT",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37:00 GMT",
            "Sun, 06 Nov 1994 099:49:37 GMT",
        ] {
            assert_eq!(parse_date(date.as_bytes()), None, "{date}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = WallTime(784_111_700 * 1_000_000_000);
        let seconds =
            |value: &str| RetryAfter::parse(value.as_bytes()).map(|retry| retry.seconds_from(now));
        assert_eq!(seconds(" 120 "), Some(120));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:37 GMT"), Some(77));
        assert_eq!(seconds("Sun, 06 Nov 1993 08:49:37 GMT"), Some(0));
        assert_eq!(seconds("99999999999999999999999"), Some(u64::MAX));
        assert_eq!(seconds("-5"), None);
        assert_eq!(seconds("1.5"), None);
        assert_eq!(seconds(""), None);
    }

    proptest! {
        #[test]
        fn dates_are_the_inverse_of_wall_time(seconds in 0u64..253_402_300_800) {
            const MONTHS: [&str; 12] = [
                "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
            ];
            let seconds = seconds % (u64::MAX / 1_000_000_000);
            let at = WallTime(seconds * 1_000_000_000);
            let (year, month, day, hour, minute, second) = at.civil();
            let name = MONTHS[month as usize - 1];
            let date = format!("Mon, {day:02} {name} {year} {hour:02}:{minute:02}:{second:02} GMT");
            prop_assert_eq!(parse_date(date.as_bytes()), Some(seconds));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(
            value in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let _ = parse_date(&value);
            let _ = RetryAfter::parse(&value);
        }
    }
}

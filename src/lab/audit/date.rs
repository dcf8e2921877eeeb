//! Retry-After (RFC 9110 10.2.3) as the referee reads it: seconds, or a date in any of the three
//! formats of RFC 9110 5.6.7.

/// When a server wants to be asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryAfter {
    Seconds(u64),
    /// Unix seconds.
    At(u64),
}

/// Reads a Retry-After; returns `None` for a value that is neither seconds nor a date.
pub(super) fn retry_after(value: &[u8]) -> Option<RetryAfter> {
    let text = std::str::from_utf8(value).ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(RetryAfter::Seconds(text.parse().unwrap_or(u64::MAX)));
    }
    unix_seconds(text).map(RetryAfter::At)
}

/// Reads a date. All three formats are a weekday and then day, month, year and time; the last one
/// (asctime) has the year behind the time.
fn unix_seconds(text: &str) -> Option<u64> {
    let words: Vec<&str> = text.split([' ', ',', '-']).filter(|word| !word.is_empty()).collect();
    let (day, month, year, time) = match words[..] {
        [_, day, month, year, time, "GMT"] => (day, month, year, time),
        [_, month, day, time, year] => (day, month, year, time),
        _ => return None,
    };
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = MONTHS.iter().position(|name| *name == month)?;
    let (day, mut year): (u64, u64) = (day.parse().ok()?, year.parse().ok()?);
    if year < 100 {
        year += if year < 70 { 2_000 } else { 1_900 };
    }
    let mut parts = time.splitn(3, ':').map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let is_sound = (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    if !is_sound || !(1970..=9999).contains(&year) {
        return None;
    }
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let year_days: u64 = (1970..year).map(|year| 365 + u64::from(is_leap(year))).sum();
    const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let leap_day = u64::from(month > 1 && is_leap(year));
    let days = year_days + BEFORE[month] + leap_day + day - 1;
    Some(days * 86_400 + hour * 3_600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_seconds_and_all_three_formats_of_a_date_are_read() {
        let read = |text: &str| retry_after(text.as_bytes());
        assert_eq!(read(" 120 "), Some(RetryAfter::Seconds(120)));
        assert_eq!(read("99999999999999999999"), Some(RetryAfter::Seconds(u64::MAX)));
        for date in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(read(date), Some(RetryAfter::At(784_111_777)), "{date}");
        }
        assert_eq!(read("Tue, 29 Feb 2000 00:00:00 GMT"), Some(RetryAfter::At(951_782_400)));
        for nothing in ["", "-5", "1.5", "soon", "Sun, 06 Foo 1994 08:49:37 GMT"] {
            assert_eq!(read(nothing), None, "{nothing}");
        }
    }
}

//! Time as plain numbers: monotonic time for every delay, wall time only for what people read.
//!
//! `Time` is `CLOCK_MONOTONIC` in production and the virtual clock in simulation. All shards of a
//! process count it from the same zero, so they may send times to each other.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A monotonic moment, in nanoseconds since an arbitrary zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    pub const ZERO: Time = Time(0);
    /// A time after everything that happens: the deadline of a wait that has none.
    pub const NEVER: Time = Time(u64::MAX);

    pub fn from_ms(ms: u64) -> Time {
        Time(ms.saturating_mul(1_000_000))
    }

    pub fn as_ms(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Returns how long after `earlier` this is, or zero if it is not after it.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub<Duration> for Time {
    type Output = Time;

    fn sub(self, span: Duration) -> Time {
        Time(self.0.saturating_sub(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// Nanoseconds since the Unix epoch. Wall time may jump, so nothing is ever scheduled by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(pub u64);

impl WallTime {
    pub fn unix_seconds(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// Returns year, month, day, hour, minute and second in UTC (proleptic Gregorian, Hinnant's
    /// algorithm).
    pub fn civil(self) -> (u64, u64, u64, u64, u64, u64) {
        let seconds = self.unix_seconds();
        let (days, rest) = (seconds / 86_400, seconds % 86_400);
        let shifted = days + 719_468;
        let era = shifted / 146_097;
        let day_of_era = shifted - era * 146_097;
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        (year, month, day, rest / 3_600, rest / 60 % 60, rest % 60)
    }

    /// Reads what [`fmt::Display`] writes; returns `None` for anything else.
    pub fn parse(text: &str) -> Option<WallTime> {
        let number = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        if year < 1970 || !(1..=12).contains(&month) || day == 0 {
            return None;
        }
        // Years begin in March here, so that the leap day comes last (Hinnant's algorithm again).
        let shifted_year = year - u64::from(month <= 2);
        let (era, year_of_era) = (shifted_year / 400, shifted_year % 400);
        let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = (era * 146_097 + day_of_era).checked_sub(719_468)?;
        let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
        let at = WallTime(seconds.checked_mul(1_000_000_000)?);
        // Only the canonical text of a moment is accepted: there is no 31st of April.
        (at.to_string() == text).then_some(at)
    }

    /// Returns a text like `20260131235959`, the timestamp of CDXJ lines and WARC file names.
    pub fn compact(self) -> String {
        let (year, month, day, hour, minute, second) = self.civil();
        format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}")
    }
}

/// Prints a text like `2026-01-31T23:59:59Z`, the form of WARC-Date.
impl fmt::Display for WallTime {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day, hour, minute, second) = self.civil();
        write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_time_prints_known_moments() {
        let at = |seconds: u64| WallTime(seconds * 1_000_000_000);
        assert_eq!(at(0).to_string(), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_400).to_string(), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_767_225_599).to_string(), "2025-12-31T23:59:59Z");
        assert_eq!(at(1_767_225_599).compact(), "20251231235959");
    }

    #[test]
    fn what_wall_time_prints_reads_back_and_nothing_else_does() {
        for days in 0..60_000 {
            let at = WallTime((days * 86_400 + days % 86_400) * 1_000_000_000);
            assert_eq!(WallTime::parse(&at.to_string()), Some(at));
        }
        for text in ["", "2025-02-29T00:00:00Z", "2025-04-31T00:00:00Z", "2025-01-01T24:00:00Z"] {
            assert_eq!(WallTime::parse(text), None, "{text}");
        }
        for text in ["1969-12-31T23:59:59Z", "2025-01-01 00:00:00Z", "2025-01-01T00:00:00Zx", "ä"]
        {
            assert_eq!(WallTime::parse(text), None, "{text}");
        }
    }

    #[test]
    fn monotonic_time_saturates_at_both_ends() {
        assert_eq!(Time::NEVER + Duration::from_secs(1), Time::NEVER);
        assert_eq!(Time::ZERO - Duration::from_secs(1), Time::ZERO);
        assert_eq!(Time(5).since(Time(9)), Duration::ZERO);
    }
}

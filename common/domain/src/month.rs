//! Calendar months in UTC, by which credit and usage are counted.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use time::{Date, PrimitiveDateTime, Time};

use super::Timestamp;

/// A month, serialized as `YYYY-MM`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Month {
    first: Date,
}

/// The text is not a month.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a month of the form YYYY-MM, such as 2026-11")]
pub struct MonthError;

impl Month {
    /// Returns the month that contains `instant`.
    pub fn from_timestamp(instant: Timestamp) -> Self {
        Self::from_date(instant.as_datetime().date())
    }

    /// Returns the month that contains `day`.
    pub fn from_date(day: Date) -> Self {
        Self { first: day.replace_day(1).unwrap_or(day) }
    }

    /// Returns the first day of the month.
    pub fn first_day(self) -> Date {
        self.first
    }

    /// Returns the following month.
    #[must_use]
    pub fn next(self) -> Self {
        // No month has more than 31 days, so 31 days after the first lie in the next month.
        Self::from_date(self.first.checked_add(time::Duration::days(31)).unwrap_or(self.first))
    }

    /// Returns the start of the month.
    pub fn start(self) -> Timestamp {
        midnight(self.first)
    }
}

/// Returns the start of the UTC day `day`.
pub fn midnight(day: Date) -> Timestamp {
    PrimitiveDateTime::new(day, Time::MIDNIGHT).assume_utc().into()
}

/// Returns the end of the UTC day of `instant`.
pub fn next_midnight(instant: Timestamp) -> Timestamp {
    let day = instant.as_datetime().date();
    midnight(day.next_day().unwrap_or(day))
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.first.year(), u8::from(self.first.month()))
    }
}

impl FromStr for Month {
    type Err = MonthError;
    fn from_str(text: &str) -> Result<Self, MonthError> {
        let (year, month) = text.split_once('-').ok_or(MonthError)?;
        let digits = |part: &str, length| part.len() == length && part.bytes().all(|b| b.is_ascii_digit());
        if !digits(year, 4) || !digits(month, 2) {
            return Err(MonthError);
        }
        let month: u8 = month.parse().map_err(|_| MonthError)?;
        let month = time::Month::try_from(month).map_err(|_| MonthError)?;
        let year = year.parse().map_err(|_| MonthError)?;
        Ok(Self { first: Date::from_calendar_date(year, month, 1).map_err(|_| MonthError)? })
    }
}

impl Serialize for Month {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Month {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_months_are_read() {
        let month: Month = "2026-12".parse().unwrap();
        assert_eq!(month.to_string(), "2026-12");
        assert_eq!(month.next().to_string(), "2027-01");
        assert_eq!(month.next().start().to_string(), "2027-01-01T00:00:00Z");
        for bad in ["", "2026", "2026-1", "2026-13", "2026-00", "26-11", "2026-11-01", "+026-11", "2026-1१"] {
            assert_eq!(bad.parse::<Month>(), Err(MonthError), "{bad}");
        }
    }

    #[test]
    fn a_day_ends_at_the_next_midnight() {
        let late = Timestamp::from_unix_millis(1_798_761_599_999);
        assert_eq!(late.to_string(), "2026-12-31T23:59:59.999Z");
        assert_eq!(next_midnight(late).since(late).as_millis(), 1);
        assert_eq!(next_midnight(next_midnight(late)).since(next_midnight(late)).as_secs(), 24 * 60 * 60);
    }
}

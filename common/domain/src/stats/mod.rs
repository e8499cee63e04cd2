//! Time windows of statistics, and attribution of broken paths to deployments.

mod blame;
mod days;

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer};

pub use self::{
    blame::{TimePeriod, breaking_deployment},
    days::{
        CalendarDay, DAYS_KEPT, DateRangeError, DayError, DaySpan, MAX_DAYS_BY_HOUR, previous_hours, requested_hours,
    },
};

/// A number of hours or days to look back: a whole number from 1 to `MOST`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LookbackWindow<const MOST: u16>(u16);

/// A window of hours in live statistics.
pub type HoursBack = LookbackWindow<72>;
/// A window of days in the history.
pub type DaysBack = LookbackWindow<365>;

/// The text is not a whole number within the range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowError {
    most: u16,
}

impl fmt::Display for WindowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a whole number from 1 to {}", self.most)
    }
}

impl std::error::Error for WindowError {}

impl HoursBack {
    /// The window if the request has none.
    pub const DEFAULT: Self = Self(24);
}

impl DaysBack {
    /// The window if the request has none.
    pub const DEFAULT: Self = Self(30);
}

impl<const MOST: u16> LookbackWindow<MOST> {
    /// Returns the number.
    pub const fn count(self) -> u16 {
        self.0
    }
}

impl<const MOST: u16> FromStr for LookbackWindow<MOST> {
    type Err = WindowError;
    fn from_str(text: &str) -> Result<Self, WindowError> {
        let error = WindowError { most: MOST };
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(error);
        }
        text.parse().ok().filter(|count| (1..=MOST).contains(count)).map(Self).ok_or(error)
    }
}

impl<'de, const MOST: u16> Deserialize<'de> for LookbackWindow<MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_numbers_within_the_range_are_read() {
        assert_eq!("1".parse::<HoursBack>().unwrap().count(), 1);
        assert_eq!("72".parse::<HoursBack>().unwrap().count(), 72);
        assert_eq!("365".parse::<DaysBack>().unwrap().count(), 365);
        for bad in ["", "0", "73", "-1", "+5", "1.0", "1e1", " 5", "5h", "99999999999", "٣"] {
            assert_eq!(bad.parse::<HoursBack>(), Err(WindowError { most: 72 }), "{bad}");
        }
        assert_eq!("366".parse::<DaysBack>().unwrap_err().to_string(), "not a whole number from 1 to 365");
    }
}

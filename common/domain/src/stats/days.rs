//! Date ranges of statistics requests, in days and hours.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer};
use time::{Date, Duration, Month};

use super::{DaysBack, HoursBack};
use crate::{
    Timestamp,
    month::{midnight, next_midnight},
    traffic::{HOUR, HOURS_KEPT, hour_start},
};

/// Number of past days for which daily statistics are kept.
pub const DAYS_KEPT: u16 = 400;
/// Maximum number of days per request for hourly statistics.
pub const MAX_DAYS_BY_HOUR: u16 = 3;

/// A UTC day in the format `YYYY-MM-DD`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CalendarDay(Date);

/// The text is not a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a day of the form YYYY-MM-DD, such as 2026-11-22")]
pub struct DayError;

impl CalendarDay {
    /// Returns the date.
    pub const fn date(self) -> Date {
        self.0
    }
}

impl From<Date> for CalendarDay {
    fn from(date: Date) -> Self {
        Self(date)
    }
}

impl fmt::Display for CalendarDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for CalendarDay {
    type Err = DayError;
    fn from_str(text: &str) -> Result<Self, DayError> {
        let is_written_so = text.len() == "YYYY-MM-DD".len()
            && text.bytes().enumerate().all(|(place, byte)| match place {
                4 | 7 => byte == b'-',
                _ => byte.is_ascii_digit(),
            });
        if !is_written_so {
            return Err(DayError);
        }
        let number = |part: Option<&str>| part.and_then(|part| part.parse::<u16>().ok()).ok_or(DayError);
        let mut parts = text.split('-');
        let (year, month, day) = (number(parts.next())?, number(parts.next())?, number(parts.next())?);
        let month = u8::try_from(month).ok().and_then(|month| Month::try_from(month).ok()).ok_or(DayError)?;
        let day = u8::try_from(day).map_err(|_| DayError)?;
        Date::from_calendar_date(year.into(), month, day).map(Self).map_err(|_| DayError)
    }
}

impl<'de> Deserialize<'de> for CalendarDay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The reason a range of days or hours is rejected. The text is a sentence for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DateRangeError {
    /// Both a number and dates are given.
    #[error("`{0}` looks back from now, and `from` and `to` name days: ask for one of both.")]
    NumberAndDates(&'static str),
    /// A last day is given without a first one.
    #[error("`to` is the last day: `from`, the first, has to come with it.")]
    NoFirst,
    /// The first day is after the last.
    #[error("`from` ({from}) comes after `to` ({to}).")]
    Reversed {
        /// The first day.
        from: Date,
        /// The last day.
        to: Date,
    },
    /// A day is in the future.
    #[error("`{name}` must be {today}, which is today in UTC, or earlier.")]
    NotBegun {
        /// The parameter.
        name: &'static str,
        /// Today.
        today: Date,
    },
    /// A day is no longer kept.
    #[error("`from` must be {oldest} or later: days are kept for {DAYS_KEPT} days.")]
    DayNotKept {
        /// The first day kept.
        oldest: Date,
    },
    /// The hours of a day are no longer kept.
    #[error("`from` must be {oldest} or later: hours are kept for 7 days. `/stats/history` has earlier days.")]
    HourNotKept {
        /// The first day whose hours are kept.
        oldest: Date,
    },
    /// More days than one request may get by the hour.
    #[error("Hours are told of {MAX_DAYS_BY_HOUR} days at a time. `/stats/history` has more, by day.")]
    TooManyHours,
}

/// Consecutive UTC days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DaySpan {
    /// The first day.
    pub first: Date,
    /// The last day.
    pub last: Date,
}

impl DaySpan {
    /// Returns the `days` days that end with `last`.
    pub fn ending(last: Date, days: DaysBack) -> Self {
        Self { first: days_before(last, days.count() - 1), last }
    }

    /// Returns the requested days: either a number of days that end today, or those from one date to another.
    pub fn from_query(
        days: Option<DaysBack>,
        from: Option<CalendarDay>,
        to: Option<CalendarDay>,
        today: Date,
    ) -> Result<Self, DateRangeError> {
        let span = match span_between(from, to, today)? {
            None => return Ok(Self::ending(today, days.unwrap_or(DaysBack::DEFAULT))),
            Some(_) if days.is_some() => return Err(DateRangeError::NumberAndDates("days")),
            Some(span) => span,
        };
        let oldest = days_before(today, DAYS_KEPT);
        if span.first < oldest { Err(DateRangeError::DayNotKept { oldest }) } else { Ok(span) }
    }

    /// Returns the number of days.
    pub fn count(self) -> u16 {
        u16::try_from((self.last - self.first).whole_days() + 1).unwrap_or(u16::MAX)
    }

    /// Returns the span of the same length just before this one, or `None` if it is not fully kept any more.
    pub fn previous(self, today: Date) -> Option<Self> {
        let first = days_before(self.first, self.count());
        (first >= days_before(today, DAYS_KEPT)).then(|| Self { first, last: days_before(self.first, 1) })
    }

    /// Returns the hours of these days so far, or `None` if the span is too long or too old for hourly statistics.
    pub fn hours(self, now: Timestamp) -> Option<Vec<Timestamp>> {
        let is_told = self.count() <= MAX_DAYS_BY_HOUR && midnight(self.first) >= oldest_hour(now);
        let end = next_midnight(midnight(self.last));
        is_told.then(|| hours(midnight(self.first), now).into_iter().filter(|hour| *hour < end).collect())
    }
}

/// Returns the requested hours in order: the last `hours_back`, or those of a range of days.
pub fn requested_hours(
    hours_back: Option<HoursBack>,
    from: Option<CalendarDay>,
    to: Option<CalendarDay>,
    now: Timestamp,
) -> Result<Vec<Timestamp>, DateRangeError> {
    let Some(span) = span_between(from, to, now.as_datetime().date())? else {
        let count = hours_back.unwrap_or(HoursBack::DEFAULT).count();
        return Ok(hours(hour_start(now) - HOUR * u32::from(count - 1), now));
    };
    if hours_back.is_some() {
        return Err(DateRangeError::NumberAndDates("hours"));
    }
    let oldest = oldest_hour(now).as_datetime().date();
    if span.first < oldest {
        return Err(DateRangeError::HourNotKept { oldest });
    }
    span.hours(now).ok_or(DateRangeError::TooManyHours)
}

/// Returns the same number of hours just before these, or `None` if they are not all kept any more.
pub fn previous_hours(wanted: &[Timestamp], now: Timestamp) -> Option<Vec<Timestamp>> {
    let count = u32::try_from(wanted.len()).ok()?;
    let begin = *wanted.first()? - HOUR * count;
    (begin >= oldest_hour(now)).then(|| (0..count).map(|number| begin + HOUR * number).collect())
}

/// Returns the hours from the one starting at `begin` to the one of `last`.
fn hours(begin: Timestamp, last: Timestamp) -> Vec<Timestamp> {
    std::iter::successors(Some(begin), |hour| Some(*hour + HOUR)).take_while(|hour| *hour <= last).collect()
}

fn oldest_hour(now: Timestamp) -> Timestamp {
    midnight(now.as_datetime().date()) - HOURS_KEPT
}

fn days_before(day: Date, days: u16) -> Date {
    day.saturating_sub(Duration::days(days.into()))
}

fn span_between(
    from: Option<CalendarDay>,
    to: Option<CalendarDay>,
    today: Date,
) -> Result<Option<DaySpan>, DateRangeError> {
    let Some(CalendarDay(first)) = from else {
        return if to.is_some() { Err(DateRangeError::NoFirst) } else { Ok(None) };
    };
    let last = to.map_or(today, CalendarDay::date);
    for (name, day) in [("from", first), ("to", last)] {
        if day > today {
            return Err(DateRangeError::NotBegun { name, today });
        }
    }
    if first > last {
        return Err(DateRangeError::Reversed { from: first, to: last });
    }
    Ok(Some(DaySpan { first, last }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(text: &str) -> CalendarDay {
        text.parse().unwrap()
    }

    /// A quarter past ten on 29 November.
    fn now() -> Timestamp {
        midnight(day("2026-11-29").date()) + HOUR * 10 + HOUR / 4
    }

    fn asked(days: Option<&str>, from: Option<&str>, to: Option<&str>) -> Result<DaySpan, DateRangeError> {
        let days = days.map(|days| days.parse().unwrap());
        DaySpan::from_query(days, from.map(day), to.map(day), day("2026-11-29").date())
    }

    #[test]
    fn only_days_of_the_calendar_are_read() {
        assert_eq!(day("2024-02-29").to_string(), "2024-02-29");
        for bad in [
            "",
            "2026-2-9",
            "2025-02-29",
            "2026-13-01",
            "2026-00-10",
            "2026-11-00",
            "20261122",
            "2026-11-22T00:00:00Z",
            " 2026-11-22",
            "+026-11-22",
            "2026/11/22",
            "today",
            "٢٠٢٦-١١-٢٢",
            "2026-11-2\0",
        ] {
            assert_eq!(bad.parse::<CalendarDay>(), Err(DayError), "{bad:?}");
        }
    }

    #[test]
    fn days_are_a_number_or_dates() {
        let span = |first: &str, last: &str| Ok(DaySpan { first: day(first).date(), last: day(last).date() });
        assert_eq!(asked(None, None, None), span("2026-10-31", "2026-11-29"));
        assert_eq!(asked(Some("1"), None, None), span("2026-11-29", "2026-11-29"));
        assert_eq!(asked(None, Some("2026-11-01"), Some("2026-11-03")), span("2026-11-01", "2026-11-03"));
        assert_eq!(asked(None, Some("2026-11-27"), None), span("2026-11-27", "2026-11-29"));
        assert_eq!(asked(None, Some("2025-10-25"), None).unwrap().count(), DAYS_KEPT + 1);
    }

    #[test]
    fn days_that_cannot_be_told_are_refused_with_the_reason() {
        for (days, from, to, reason) in [
            (Some("3"), Some("2026-11-01"), None, "`days` looks back from now"),
            (None, None, Some("2026-11-01"), "`from`, the first, has to come with it"),
            (None, Some("2026-11-03"), Some("2026-11-01"), "`from` (2026-11-03) comes after `to` (2026-11-01)."),
            (None, Some("2026-11-30"), None, "`from` must be 2026-11-29, which is today"),
            (None, Some("2026-11-01"), Some("9999-12-31"), "`to` must be 2026-11-29"),
            (None, Some("2025-10-24"), Some("2025-11-01"), "2025-10-25 or later: days are kept for 400 days."),
            (None, Some("0000-01-01"), None, "400 days"),
        ] {
            let refusal = asked(days, from, to).unwrap_err().to_string();
            assert!(refusal.contains(reason), "{refusal}");
        }
    }

    #[test]
    fn the_days_before_are_as_many_while_they_are_kept() {
        let today = day("2026-11-29").date();
        let before = asked(None, Some("2026-11-01"), Some("2026-11-03")).unwrap().previous(today).unwrap();
        assert_eq!((before.first, before.last), (day("2026-10-29").date(), day("2026-10-31").date()));
        assert!(asked(Some("200"), None, None).unwrap().previous(today).is_some());
        assert_eq!(asked(Some("365"), None, None).unwrap().previous(today), None);
    }

    #[test]
    fn hours_are_told_of_few_days_of_the_last_week() {
        let asked = |hours: Option<&str>, from: Option<&str>, to: Option<&str>| {
            requested_hours(hours.map(|hours| hours.parse().unwrap()), from.map(day), to.map(day), now())
        };
        let last = asked(None, None, None).unwrap();
        assert_eq!((last.len(), last[23]), (24, hour_start(now())));
        let before = previous_hours(&last, now()).unwrap();
        assert_eq!((before.len(), before[23] + HOUR), (24, last[0]));
        assert_eq!(previous_hours(&asked(Some("72"), None, None).unwrap(), now()).unwrap().len(), 72);
        assert_eq!(asked(None, Some("2026-11-29"), None).unwrap().len(), 11, "an hour that has begun");
        let oldest = asked(None, Some("2026-11-22"), Some("2026-11-24")).unwrap();
        assert_eq!((oldest.len(), previous_hours(&oldest, now())), (72, None));
        for (hours, from, to, reason) in [
            (None, "2026-11-21", Some("2026-11-22"), "`from` must be 2026-11-22 or later: hours are kept for 7 days."),
            (None, "2026-11-22", Some("2026-11-25"), "3 days at a time"),
            (Some("3"), "2026-11-29", None, "`hours` looks back"),
            (None, "2026-11-29", Some("2026-11-28"), "comes after"),
        ] {
            let refusal = asked(hours, Some(from), to).unwrap_err().to_string();
            assert!(refusal.contains(reason), "{refusal}");
        }
    }
}

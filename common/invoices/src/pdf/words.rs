//! Formatting of amounts and dates for the page.

use time::{Date, Month};

use crate::model::ServicePeriod;

/// Formats an amount as `€1,234.56`, with a leading minus sign if negative.
pub(super) fn money(cents: i64) -> String {
    let sign = if cents < 0 { "−" } else { "" };
    let cents = cents.unsigned_abs();
    format!("{sign}€{}.{:02}", grouped(cents / 100), cents % 100)
}

/// Formats a quantity with thousands separators.
pub(super) fn quantity(number: i64) -> String {
    let sign = if number < 0 { "−" } else { "" };
    format!("{sign}{}", grouped(number.unsigned_abs()))
}

/// Formats a date as `3 Nov 2026`.
pub(super) fn date(date: Date) -> String {
    let month = match date.month() {
        Month::January => "Jan",
        Month::February => "Feb",
        Month::March => "Mar",
        Month::April => "Apr",
        Month::May => "May",
        Month::June => "Jun",
        Month::July => "Jul",
        Month::August => "Aug",
        Month::September => "Sep",
        Month::October => "Oct",
        Month::November => "Nov",
        Month::December => "Dec",
    };
    format!("{} {month} {}", date.day(), date.year())
}

/// Formats a period as `1 Nov 2026 – 30 Nov 2026`, and a single day as a date.
pub(super) fn period(period: ServicePeriod) -> String {
    if period.from == period.to { date(period.from) } else { format!("{} – {}", date(period.from), date(period.to)) }
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_with_two_decimals() {
        for (cents, written) in [
            (0, "€0.00"),
            (5, "€0.05"),
            (-150, "−€1.50"),
            (123_456, "€1,234.56"),
            (100_000_000, "€1,000,000.00"),
            (99_999, "€999.99"),
        ] {
            assert_eq!(money(cents), written);
        }
        assert_eq!(quantity(-1_000), "−1,000");
    }

    #[test]
    fn a_period_of_one_day_is_a_date() {
        let day = |day| Date::from_calendar_date(2028, Month::February, day).unwrap();
        assert_eq!(period(ServicePeriod { from: day(1), to: day(29) }), "1 Feb 2028 – 29 Feb 2028");
        assert_eq!(period(ServicePeriod { from: day(29), to: day(29) }), "29 Feb 2028");
    }
}

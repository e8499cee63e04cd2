//! Subscription months, which begin on the day of the first payment.

use time::{Date, Month};

use crate::Timestamp;

/// Returns the instant `months` months after `anchor`, on the same day or the last day of a shorter month.
///
/// Always counting from the anchor keeps a month's end from being lost after a February.
pub fn months_after(anchor: Timestamp, months: u32) -> Timestamp {
    let at = anchor.as_datetime();
    let index = i64::from(at.year()) * 12 + i64::from(u8::from(at.month())) - 1 + i64::from(months);
    let year = i32::try_from(index.div_euclid(12)).unwrap_or(i32::MAX);
    let month = u8::try_from(index.rem_euclid(12) + 1).ok().and_then(|month| Month::try_from(month).ok());
    let month = month.unwrap_or(Month::January);
    let day = at.day().min(month.length(year));
    let date = Date::from_calendar_date(year, month, day).unwrap_or(Date::MAX);
    at.replace_date(date).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        serde_json::from_value(text.into()).unwrap()
    }

    #[test]
    fn the_last_of_a_month_comes_back_after_february() {
        let anchor = at("2027-12-31T23:59:59Z");
        for (months, wanted) in [
            (0, "2027-12-31T23:59:59Z"),
            (1, "2028-01-31T23:59:59Z"),
            (2, "2028-02-29T23:59:59Z"),
            (3, "2028-03-31T23:59:59Z"),
            (4, "2028-04-30T23:59:59Z"),
            (12, "2028-12-31T23:59:59Z"),
            (14, "2029-02-28T23:59:59Z"),
        ] {
            assert_eq!(months_after(anchor, months), at(wanted), "{months}");
        }
    }
}

//! The keys of budgets in Redis, and the format of their entries.

use domain::{month::Month, usage::UsageRow};
use time::Date;

use super::OpenCompletion;

/// The text before the time in a row.
const TIME: &str = "\"at\":\"";

/// The text that occurs in every [spare](UsageRow::is_spare), and only there.
pub(super) const SPARE: &str = r#","prompt":0,"completion":0,"estimated":true,"cost":0,"#;

pub(super) fn spent_key(account: &str) -> String {
    format!("svc:ai:{{{account}}}:spent")
}

pub(super) fn open_key(account: &str) -> String {
    format!("svc:ai:{{{account}}}:open")
}

pub(super) fn minute_key(account: &str) -> String {
    format!("svc:ai:{{{account}}}:minute")
}

/// Formats an open completion, with the figures first, where scripts find them.
pub(super) fn text(edge: &str, row: &UsageRow) -> String {
    let json = serde_json::to_string(row).unwrap_or_default();
    format!("{} {} {} {edge} {json}", row.tokens(), row.cost.0, day_number(row.day()))
}

/// Returns the part of the text between the day and the time, which is known before Redis has provided the time.
pub(super) fn text_before_time(edge: &str, row: &UsageRow) -> String {
    let json = serde_json::to_string(row).unwrap_or_default();
    // The time is the last field.
    let known = json.rfind(TIME).map_or("", |start| &json[..start + TIME.len()]);
    format!("{edge} {known}")
}

pub(super) fn parse(text: &str) -> Option<OpenCompletion> {
    let mut parts = text.splitn(5, ' ');
    let (edge, json) = (parts.nth(3)?, parts.next()?);
    Some(OpenCompletion { edge: edge.to_owned(), row: serde_json::from_str(json).ok()? })
}

/// Returns `20261121`, which sorts by date and begins with its month.
pub(super) fn day_number(day: Date) -> i32 {
    (day.year() * 100 + i32::from(u8::from(day.month()))) * 100 + i32::from(day.day())
}

/// Returns `202611`.
pub(super) fn month_number(month: Month) -> i32 {
    day_number(month.first_day()) / 100
}

#[cfg(test)]
mod tests {
    use domain::{
        CompletionId, Timestamp, TokenId, UserId,
        usage::{LikelyUsage, Microcents, UsageCertainty, UsageDetails},
    };

    use super::*;

    fn row(now: Timestamp) -> UsageRow {
        UsageRow {
            id: CompletionId::new(now),
            account: UserId::new(now).into(),
            token: TokenId::new(now),
            model: "svc/small".into(),
            provider: "a provider with a long name".into(),
            prompt: 12,
            completion: 4096,
            certainty: UsageCertainty::Reserved,
            cost: Microcents(4711),
            likely: Some(LikelyUsage { prompt: 3, cost: Microcents(47) }),
            details: UsageDetails::default(),
            at: now,
        }
    }

    #[test]
    fn an_open_completion_is_read_back() {
        let now = Timestamp::from_unix_millis(1_798_761_599_999);
        let row = UsageRow { certainty: UsageCertainty::Seen, ..row(now) };
        let text = text("00ff", &row);
        assert!(text.starts_with("4108 4711 20261231 00ff {"), "{text}");
        let open = parse(&text).unwrap();
        assert_eq!((open.edge.as_str(), &open.row), ("00ff", &row));
        // Entries of a version that knew less.
        let (likely, known) = (r#""likely":{"prompt":3,"cost":47},"#, UsageRow { likely: None, ..row.clone() });
        assert!(text.contains(likely));
        assert_eq!(super::parse(&text.replace(likely, "")).unwrap().row, known);
        assert_eq!(month_number(row.month()), 202_612);
    }

    #[test]
    fn the_text_of_a_spare_says_so() {
        let now = Timestamp::from_unix_millis(1_798_761_599_999);
        let reserved = row(now);
        let mut spare = reserved.clone();
        spare.set_spare();
        let seen = UsageRow { certainty: UsageCertainty::Seen, ..spare.clone() };
        let reported = UsageRow { certainty: UsageCertainty::Reported, ..spare.clone() };
        for (row, is_spare) in [(&spare, true), (&reserved, false), (&seen, false), (&reported, false)] {
            assert_eq!(
                (row.is_spare(), text_before_time("00ff", row).contains(SPARE)),
                (is_spare, is_spare),
                "{row:?}"
            );
            assert_eq!(parse(&text("00ff", row)).unwrap().row.is_spare(), is_spare);
        }
    }
}

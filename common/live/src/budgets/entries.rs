//! The keys of budgets in Redis, and the text of what is in them.

use domain::{month::Month, usage::UsageRow};
use time::Date;

use super::Open;

/// What stands before the time in the text of a row.
const TIME: &str = "\"at\":\"";

/// The key of an account's sums.
pub(super) fn spent_key(account: &str) -> String {
    format!("svc:ai:{{{account}}}:spent")
}

/// The key of an account's open completions.
pub(super) fn open_key(account: &str) -> String {
    format!("svc:ai:{{{account}}}:open")
}

/// The key of an account's last admissions.
pub(super) fn minute_key(account: &str) -> String {
    format!("svc:ai:{{{account}}}:minute")
}

/// The text of an open completion: the figures first, where a script finds them.
pub(super) fn text(edge: &str, row: &UsageRow) -> String {
    let json = serde_json::to_string(row).unwrap_or_default();
    format!("{} {} {} {edge} {json}", row.tokens(), row.cost.0, day_number(row.day()))
}

/// The part of the text that is known before Redis has said what time it is: what stands between the day and the time.
pub(super) fn text_before_time(edge: &str, row: &UsageRow) -> String {
    let json = serde_json::to_string(row).unwrap_or_default();
    // It is the last field.
    let known = json.rfind(TIME).map_or("", |start| &json[..start + TIME.len()]);
    format!("{edge} {known}")
}

/// Reads an open completion back.
pub(super) fn parse(text: &str) -> Option<Open> {
    let mut parts = text.splitn(5, ' ');
    let (edge, json) = (parts.nth(3)?, parts.next()?);
    Some(Open { edge: edge.to_owned(), row: serde_json::from_str(json).ok()? })
}

/// `20261121`: sorts as the days do, and begins with its month.
pub(super) fn day_number(day: Date) -> i32 {
    (day.year() * 100 + i32::from(u8::from(day.month()))) * 100 + i32::from(day.day())
}

/// `202611`.
pub(super) fn month_number(month: Month) -> i32 {
    day_number(month.first_day()) / 100
}

#[cfg(test)]
mod tests {
    use domain::{
        CompletionId, Timestamp, TokenId, UserId,
        usage::{Certainty, LikelyUsage, Microcents},
    };

    use super::*;

    #[test]
    fn an_open_completion_is_read_back() {
        let now = Timestamp::from_unix_millis(1_798_761_599_999);
        let likely = Some(LikelyUsage { prompt: 3, cost: Microcents(47) });
        let row = UsageRow {
            id: CompletionId::new(now),
            account: UserId::new(now).into(),
            token: TokenId::new(now),
            model: "svc/small".into(),
            provider: "a provider with a long name".into(),
            prompt: 12,
            completion: 4096,
            certainty: Certainty::Seen,
            cost: Microcents(4711),
            likely,
            at: now,
        };
        let text = text("00ff", &row);
        assert!(text.starts_with("4108 4711 20261231 00ff {"), "{text}");
        let open = parse(&text).unwrap();
        assert_eq!((open.edge.as_str(), &open.row), ("00ff", &row));
        // Those of a version that knew less.
        let (likely, known) = (r#""likely":{"prompt":3,"cost":47},"#, UsageRow { likely: None, ..row.clone() });
        assert!(text.contains(likely));
        assert_eq!(super::parse(&text.replace(likely, "")).unwrap().row, known);
        assert_eq!(month_number(row.month()), 202_612);
    }
}

//! `svc ai usage`.

use api::usage::{AiUsage, AiUsageDays, ModelUsage, UsageTotals};
use domain::{OrgName, month::Month};

use crate::{
    client::Client,
    output::{Output, money::euros, table},
};

const BAR: u64 = 24;

pub(super) async fn show(
    month: Option<Month>,
    org: Option<OrgName>,
    client: &Client,
    output: Output,
) -> anyhow::Result<()> {
    let usage = client.get::<AiUsage>(&path(org, "", month)).await?.body;
    output.result(&usage, || format_usage(&usage))
}

pub(super) async fn show_days(
    month: Option<Month>,
    org: Option<OrgName>,
    client: &Client,
    output: Output,
) -> anyhow::Result<()> {
    let used = client.get::<AiUsageDays>(&path(org, "/days", month)).await?.body;
    output.result(&used, || format_days(&used))
}

/// Returns the API path of a person's or an organization's usage, with `below` appended.
pub(super) fn path(org: Option<OrgName>, below: &str, month: Option<Month>) -> String {
    let of = org.map(|org| format!("/orgs/{org}")).unwrap_or_default();
    let query = month.map(|month| format!("?month={month}")).unwrap_or_default();
    format!("{of}/usage/ai{below}{query}")
}

fn format_usage(usage: &AiUsage) -> String {
    let tokens = |used: &UsageTotals| used.prompt_tokens + used.completion_tokens;
    let most = usage.usage.iter().map(|model| tokens(&model.used)).max().unwrap_or(0).max(1);
    let row = |name: &str, used: &UsageTotals, bar: String| {
        vec![
            name.to_owned(),
            number(used.requests),
            number(used.prompt_tokens),
            number(used.cached_tokens),
            number(used.completion_tokens),
            number(used.reasoning_tokens),
            euros(used.cost_microcents),
            bar,
        ]
    };
    let mut rows: Vec<Vec<String>> =
        usage.usage.iter().map(|model| row(&model.model, &model.used, bar(tokens(&model.used), most))).collect();
    if !rows.is_empty() {
        rows.push(row("all", &usage.totals, String::new()));
    }
    let columns = ["MODEL", "REQUESTS", "READ", "CACHED", "WRITTEN", "REASONING", "EUR", "TOKENS"];
    table(&columns, &rows, "Nothing was used that month.")
}

fn format_days(days: &AiUsageDays) -> String {
    let rows = days.days.iter().flat_map(|day| {
        day.usage.iter().map(|ModelUsage { model, used }| {
            vec![
                day.day.clone(),
                model.clone(),
                number(used.requests),
                number(used.prompt_tokens),
                number(used.completion_tokens),
                euros(used.cost_microcents),
            ]
        })
    });
    let rows: Vec<Vec<String>> = rows.collect();
    table(&["DAY", "MODEL", "REQUESTS", "READ", "WRITTEN", "EUR"], &rows, "Nothing was used that month.")
}

fn number(number: u64) -> String {
    indicatif::HumanCount(number).to_string()
}

/// Draws a bar, with at least a sliver so that a small amount is visible.
fn bar(tokens: u64, most: u64) -> String {
    let eighths = (u128::from(tokens) * u128::from(BAR) * 8 / u128::from(most)).max(u128::from(tokens > 0));
    let (whole, part) = (usize::try_from(eighths / 8).unwrap_or(0), usize::try_from(eighths % 8).unwrap_or(0));
    let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][part];
    format!("{}{part}", "█".repeat(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_what_they_stand_for() {
        assert_eq!(bar(100, 100), "█".repeat(24));
        assert_eq!(bar(50, 100), "█".repeat(12));
        assert_eq!(bar(1, 1_000_000), "▏");
        assert_eq!(bar(0, 100), "");
        assert_eq!(bar(u64::MAX, u64::MAX), "█".repeat(24));
    }

    #[test]
    fn usage_is_a_table_with_a_sum() {
        let model = |model: &str, requests, prompt_tokens, completion_tokens| {
            let (cached_tokens, cost_microcents) = (prompt_tokens / 2, 123_450_000);
            let totals = UsageTotals::default();
            let used =
                UsageTotals { requests, prompt_tokens, completion_tokens, cached_tokens, cost_microcents, ..totals };
            ModelUsage { model: model.into(), used }
        };
        let totals = UsageTotals {
            requests: 1_501,
            prompt_tokens: 3_010,
            completion_tokens: 1_020,
            cost_microcents: 246_900_000,
            ..UsageTotals::default()
        };
        let usage = AiUsage { usage: vec![model("svc/a", 1_500, 3_000, 1_000), model("svc/b", 1, 10, 20)], totals };
        let text = format_usage(&usage);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[1].starts_with("svc/a  1,500") && lines[1].ends_with('█'), "{text}");
        assert!(lines[2].ends_with('▏'), "{text}");
        assert!(lines[3].starts_with("all") && lines[3].contains("3,010"), "{text}");
        assert!(lines[1].contains("1,500") && lines[3].contains("2.469"), "{text}");
        let nothing = AiUsage { usage: Vec::new(), totals: UsageTotals::default() };
        assert_eq!(format_usage(&nothing), "Nothing was used that month.");
    }
}

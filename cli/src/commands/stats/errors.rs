//! Prints the errors that visitors encountered.

use api::stats::{ErrorCounts, ErrorStats, ErrorsStats};
use domain::Timestamp;

use super::{
    draw::{period, previous_period, timeline},
    midnight,
};
use crate::output::{bold, count, lines};

pub(super) fn draw(errors: &ErrorsStats) -> String {
    let period = period(errors.to, errors.timeline.iter().map(|day| &*day.day));
    let what = bold(&format!("{}, {period}", errors.project));
    let totals = errors.totals;
    if totals.not_found + totals.server_errors + totals.other == 0 {
        return format!("{what}: no errors.");
    }
    let more = match totals.other {
        0 => String::new(),
        other => format!(", {other} more beyond those listed by path"),
    };
    let sum = |counts: ErrorCounts| counts.not_found + counts.server_errors + counts.other;
    let before = previous_period(errors.previous.map(sum), errors.days.into(), "day");
    let not_found = count(totals.not_found, "request");
    let head = format!("{what}: {not_found} not found, {} failed{more}.{before}", totals.server_errors);
    let begins: Vec<Timestamp> = errors.timeline.iter().map(|day| midnight(&day.day)).collect();
    let by_day: Vec<u64> =
        errors.timeline.iter().map(|day| day.counts.not_found + day.counts.server_errors + day.counts.other).collect();
    let line = timeline(&by_day, &begins, "errors by day", &errors.deployments);
    let rows = lines(
        &errors.errors,
        &["STATUS", "PATH", "REQUESTS", "LINKED FROM", "BROKEN BY"],
        "No errors by path.",
        |error: &ErrorStats| {
            let named: Vec<&str> =
                error.referrers.iter().map(|page| &*page.referrer).filter(|page| !page.is_empty()).collect();
            let broken_by = error.broken_by_deployment.as_ref().map(ToString::to_string);
            vec![
                error.status.to_string(),
                error.path.clone(),
                error.requests.to_string(),
                named.join(" "),
                broken_by.unwrap_or_default(),
            ]
        },
    );
    [head, line, rows].join("\n\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_are_a_table() {
        let mut errors = json!({
            "project": "docs", "from": "2026-11-22T00:00:00Z", "to": "2026-11-22T22:10:00Z", "days": 1,
            "totals": {"not_found": 3, "server_errors": 0, "other": 2},
            "timeline": [{"day": "2026-11-22", "not_found": 3, "server_errors": 0, "other": 2}],
            "errors": [{"status": 404, "path": "/gone", "requests": 3, "broken_by_deployment": "dep_0123456789abcdefghij",
                        "referrers": [{"referrer": "/", "requests": 2}, {"referrer": "", "requests": 1}]}],
            "deployments": [],
        });
        let show = |errors: &serde_json::Value| draw(&serde_json::from_value(errors.clone()).unwrap());
        let text = show(&errors);
        for part in ["3 requests not found, 0 failed, 2 more", "/gone", "dep_0123456789abcdefghij", "█  errors by day"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
        errors["totals"] = json!({"not_found": 0, "server_errors": 0, "other": 0});
        assert!(show(&errors).ends_with(": no errors."));
    }
}

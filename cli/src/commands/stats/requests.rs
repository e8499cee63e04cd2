//! Prints requests by hour and by day.

use api::stats::{CacheCounts, LiveStats, StatsHistory, StatsTotals, StatusCounts};
use domain::Timestamp;

use super::{
    bots,
    draw::{bars, country, period, previous_period, timeline},
    midnight,
};
use crate::output::{bold, count, lines, size, table};

pub(super) fn draw_live(live: &LiveStats) -> String {
    let requests: Vec<u64> = live.timeline.iter().map(|hour| hour.requests).collect();
    let what = format!("{}, last {}", live.project, count(requests.len() as u64, "hour"));
    let before = previous_period(live.previous.map(|sums| sums.requests), requests.len() as u64, "hour");
    let mut parts = vec![totals(&what, &live.totals, &before)];
    if live.totals.requests == 0 {
        return parts.remove(0);
    }
    let begins: Vec<Timestamp> = live.timeline.iter().map(|hour| hour.hour).collect();
    parts.push(timeline(&requests, &begins, "requests by hour", &live.deployments));
    parts.extend(live.top_paths.as_ref().map(|paths| {
        lines(paths, &["PATH", "REQUESTS", "SENT"], "No paths.", |path| {
            vec![path.path.clone(), path.requests.to_string(), size(path.bytes)]
        })
    }));
    // Hostnames are not known for a single path or country.
    if live.status.is_some() || !live.hostnames.is_empty() {
        parts.push(lines(&live.hostnames, &["HOST", "REQUESTS", "SENT"], "No hosts.", |host| {
            vec![host.hostname.clone(), host.requests.to_string(), size(host.bytes)]
        }));
    }
    parts.extend(live.top_countries.as_ref().map(|countries| {
        bars("COUNTRY", "REQUESTS", countries.iter().map(|counted| (country(&counted.country), counted.requests)))
    }));
    parts.extend(live.bots.as_ref().map(|bots| bots::classes(&bots.classes)));
    parts.extend(live.status.zip(live.cache).map(|(status, cache)| statuses(status, cache)));
    if live.truncated {
        parts.push(
            "The lists are not complete: more than 50,000 different entries were seen. The totals are exact.".into(),
        );
    }
    parts.join("\n\n")
}

fn statuses(status: StatusCounts, cache: CacheCounts) -> String {
    let rows: Vec<Vec<String>> = [
        ("2xx", status.success),
        ("3xx", status.redirection),
        ("4xx", status.client_error),
        ("5xx", status.server_error),
        ("other", status.other),
        ("from memory", cache.hit),
        ("from the store", cache.miss),
    ]
    .into_iter()
    .filter(|(_, count)| *count > 0)
    .map(|(name, count)| vec![name.to_owned(), count.to_string()])
    .collect();
    table(&["STATUS", "REQUESTS"], &rows, "No answers.")
}

pub(super) fn draw_history(history: &StatsHistory) -> String {
    let requests: Vec<u64> = history.timeline.iter().map(|day| day.requests).collect();
    let period = period(history.to, history.timeline.iter().map(|day| &*day.day));
    let before = previous_period(history.previous.map(|sums| sums.requests), history.days.into(), "day");
    let head = totals(&format!("{}, {period}", history.project), &history.totals, &before);
    if history.totals.requests == 0 {
        return head;
    }
    let begins: Vec<Timestamp> = history.timeline.iter().map(|day| midnight(&day.day)).collect();
    let line = timeline(&requests, &begins, "requests by day", &history.deployments);
    let seen: Vec<_> = history.timeline.iter().filter(|day| day.requests > 0).rev().collect();
    let headings = ["DAY", "REQUESTS", "SENT", "FROM MEMORY"];
    // Cache hits are not known for a single hostname, path or country.
    let known = if history.totals.cache_hits.is_some() { 4 } else { 3 };
    let days = lines(&seen, &headings[..known], "No days.", |day| {
        let cells = [day.day.clone(), day.requests.to_string(), size(day.bytes)];
        cells.into_iter().chain(day.cache_hits.map(|hits| hits.to_string())).collect()
    });
    [head, line, days].join("\n\n")
}

fn totals(what: &str, totals: &StatsTotals, before: &str) -> String {
    if totals.requests == 0 {
        return format!("{}: no requests.", bold(what));
    }
    let hits = totals.cache_hits.map(|hits| format!(", {}% from memory", hits * 100 / totals.requests));
    let (sent, hits) = (size(totals.bytes), hits.unwrap_or_default());
    format!("{}: {}, {sent} sent{hits}.{before}", bold(what), count(totals.requests, "request"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn live_statistics_are_tables() {
        let mut live = json!({
            "project": "docs", "from": "2026-11-22T21:00:00Z", "to": "2026-11-22T22:10:00Z",
            "totals": {"requests": 4, "bytes": 2_048, "cache_hits": 1},
            "status": {"2xx": 3, "3xx": 0, "4xx": 1, "5xx": 0, "other": 0}, "cache": {"HIT": 1, "MISS": 2},
            "hostnames": [{"hostname": "docs.svc.localhost", "requests": 4, "bytes": 2_048}],
            "timeline": [{"hour": "2026-11-22T21:00:00Z", "requests": 0, "bytes": 0, "cache_hits": 0},
                         {"hour": "2026-11-22T22:00:00Z", "requests": 4, "bytes": 2_048, "cache_hits": 1}],
            "top_paths": [{"path": "/a", "requests": 3, "bytes": 1_900}],
            "top_countries": [{"country": "XX", "requests": 4}], "truncated": false,
            "bots": {
                "people": {"requests": 1, "bytes": 2}, "declared": {"requests": 3, "bytes": 4},
                "automation": {"requests": 0, "bytes": 0},
                "classes": [{"class": "ai_training", "requests": 3, "bytes": 4}],
            },
            "deployments": [{"id": "dep_0123456789abcdefghij", "at": "2026-11-22T22:05:00Z", "git_sha": null}],
        });
        let draw = |live: &serde_json::Value| draw_live(&serde_json::from_value(live.clone()).unwrap());
        let text = draw(&live);
        for part in [
            "docs, last 2 hours",
            "4 requests, 2 KB sent, 25% from memory.",
            " █  requests by hour\n ▲  deployments",
            "/a",
            "AI training",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("5xx") && !text.contains("complete"), "{text}");
        live["truncated"] = true.into();
        assert!(draw(&live).contains("The lists are not complete"));
        for unknown in ["status", "cache", "top_paths", "top_countries", "bots"] {
            live[unknown] = json!(null);
        }
        live["totals"]["cache_hits"] = json!(null);
        let text = draw(&live);
        assert!(text.contains("4 requests, 2 KB sent.") && !text.contains("STATUS"), "{text}");
        live["totals"]["requests"] = 0.into();
        assert!(draw(&live).ends_with(": no requests."));
    }
}

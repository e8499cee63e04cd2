//! `svc stats`.

use api::stats::{LiveStats, StatsHistory, StatsTotals};

use super::projects;
use crate::{
    client::Client,
    options::ProjectOption,
    output::{Output, bold, count, lines, size, table},
    project,
};

/// Marks of a sparkline, from nothing to the most.
const MARKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Show how often a site was visited.
#[derive(Debug, clap::Args)]
pub(crate) struct Stats {
    /// The last hours, the present one included [default: 24]
    #[arg(long, value_name = "N", conflicts_with = "days", value_parser = clap::value_parser!(u16).range(1..=72))]
    hours: Option<u16>,
    /// The last days, today included, in UTC
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=365))]
    days: Option<u16>,
    #[command(flatten)]
    project: ProjectOption,
}

pub(crate) async fn run(stats: Stats, client: &Client, output: Output) -> anyhow::Result<()> {
    let name = project::named_or_remembered(stats.project.project, None)?;
    if let Some(days) = stats.days {
        let history = client.get::<StatsHistory>(&format!("/projects/{name}/stats/history?days={days}")).await;
        let history = history.map_err(|failure| projects::unknown(&name, failure))?.body;
        return output.result(&history, || draw_history(&history));
    }
    let query = stats.hours.map(|hours| format!("?hours={hours}")).unwrap_or_default();
    let live = client.get::<LiveStats>(&format!("/projects/{name}/stats{query}")).await;
    let live = live.map_err(|failure| projects::unknown(&name, failure))?.body;
    output.result(&live, || draw_live(&live))
}

fn draw_live(live: &LiveStats) -> String {
    let LiveStats { status, cache, .. } = live;
    let requests: Vec<u64> = live.timeline.iter().map(|hour| hour.requests).collect();
    let mut parts =
        vec![totals(&format!("{}, last {}", live.project, count(requests.len() as u64, "hour")), &live.totals)];
    if live.totals.requests == 0 {
        return parts.remove(0);
    }
    parts.push(format!("{}  {}", sparkline(&requests), "requests by hour"));
    let number = |number: u64| number.to_string();
    parts.push(lines(&live.top_paths, &["PATH", "REQUESTS", "SENT"], "No paths.", |path| {
        vec![path.path.clone(), number(path.requests), size(path.bytes)]
    }));
    parts.push(lines(&live.hostnames, &["HOST", "REQUESTS", "SENT"], "No hosts.", |host| {
        vec![host.hostname.clone(), number(host.requests), size(host.bytes)]
    }));
    parts.push(lines(&live.top_countries, &["COUNTRY", "REQUESTS"], "No countries.", |country| {
        vec![country.country.clone(), number(country.requests)]
    }));
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
    .map(|(name, count)| vec![name.to_owned(), number(count)])
    .collect();
    parts.push(table(&["STATUS", "REQUESTS"], &rows, "No answers."));
    if live.truncated {
        parts.push(
            "The lists are not complete: more than 50,000 different entries were seen. The totals are exact.".into(),
        );
    }
    parts.join("\n\n")
}

fn draw_history(history: &StatsHistory) -> String {
    let requests: Vec<u64> = history.timeline.iter().map(|day| day.requests).collect();
    let head = totals(&format!("{}, last {}", history.project, count(history.days.into(), "day")), &history.totals);
    if history.totals.requests == 0 {
        return head;
    }
    let seen: Vec<_> = history.timeline.iter().filter(|day| day.requests > 0).rev().collect();
    let days = lines(&seen, &["DAY", "REQUESTS", "SENT", "FROM MEMORY"], "No days.", |day| {
        vec![day.day.clone(), day.requests.to_string(), size(day.bytes), day.cache_hits.to_string()]
    });
    [head, format!("{}  requests by day", sparkline(&requests)), days].join("\n\n")
}

fn totals(what: &str, totals: &StatsTotals) -> String {
    if totals.requests == 0 {
        return format!("{}: no requests.", bold(what));
    }
    let hits = totals.cache_hits * 100 / totals.requests;
    let sent = size(totals.bytes);
    format!("{}: {}, {sent} sent, {hits}% from memory.", bold(what), count(totals.requests, "request"))
}

/// One mark for each number, as high as its part of the highest; what is more than nothing shows.
fn sparkline(numbers: &[u64]) -> String {
    let most = u128::from(numbers.iter().copied().max().unwrap_or(0).max(1));
    let steps = MARKS.len() as u128 - 1;
    let mark = |number: &u64| {
        let height = (u128::from(*number) * steps).div_ceil(most);
        MARKS[usize::try_from(height).unwrap_or(0).min(MARKS.len() - 1)]
    };
    numbers.iter().map(mark).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sparkline_shows_the_least_and_the_most() {
        assert_eq!(sparkline(&[0, 1, 500, 1_000]), " ▁▄█");
        assert_eq!(sparkline(&[0, 0]), "  ");
        assert_eq!(sparkline(&[u64::MAX]), "█");
        assert_eq!(sparkline(&[]), "");
    }

    #[test]
    fn live_statistics_are_tables() {
        let mut live = json!({
            "project": "docs", "from": "2026-11-22T21:00:00Z", "to": "2026-11-22T22:10:00Z",
            "totals": {"requests": 4, "bytes": 2_000, "cache_hits": 1},
            "status": {"2xx": 3, "3xx": 0, "4xx": 1, "5xx": 0, "other": 0}, "cache": {"HIT": 1, "MISS": 2},
            "hostnames": [{"hostname": "docs.svc.localhost", "requests": 4, "bytes": 2_000}],
            "timeline": [{"hour": "2026-11-22T21:00:00Z", "requests": 0, "bytes": 0, "cache_hits": 0},
                         {"hour": "2026-11-22T22:00:00Z", "requests": 4, "bytes": 2_000, "cache_hits": 1}],
            "top_paths": [{"path": "/a", "requests": 3, "bytes": 1_900}],
            "top_countries": [{"country": "XX", "requests": 4}], "truncated": false,
        });
        let draw = |live: &serde_json::Value| draw_live(&serde_json::from_value(live.clone()).unwrap());
        let text = draw(&live);
        for part in ["docs, last 2 hours", "4 requests, 2.00 kB sent, 25% from memory.", " █  requests by hour", "/a"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("5xx") && !text.contains("complete"), "{text}");
        live["truncated"] = true.into();
        assert!(draw(&live).contains("The lists are not complete"));
        live["totals"]["requests"] = 0.into();
        assert!(draw(&live).ends_with(": no requests."));
    }
}

//! Prints the pages that people viewed.

use api::stats::AudienceStats;
use domain::Timestamp;

use super::{
    draw::{bars, country, period, previous_period, timeline},
    midnight,
};
use crate::output::{bold, count, lines};

pub(super) fn draw(audience: &AudienceStats) -> String {
    let period = period(audience.to, audience.timeline.iter().map(|day| &*day.day));
    let what = bold(&format!("{}, {period}", audience.project));
    let pageviews = audience.totals.pageviews;
    if pageviews == 0 {
        return format!("{what}: no page views by people.");
    }
    let views: Vec<u64> = audience.timeline.iter().map(|day| day.pageviews).collect();
    let begins: Vec<Timestamp> = audience.timeline.iter().map(|day| midnight(&day.day)).collect();
    let seen: Vec<_> = audience.timeline.iter().filter(|day| day.pageviews > 0).rev().collect();
    let has_visitors = seen.iter().any(|day| day.visitors.is_some());
    let headings: &[&str] = if has_visitors { &["DAY", "VIEWS", "VISITORS"] } else { &["DAY", "VIEWS"] };
    let days = lines(&seen, headings, "No days.", |day| {
        let visitors = day.visitors.map(|visitors| visitors.to_string());
        [day.day.clone(), day.pageviews.to_string()].into_iter().chain(visitors).collect()
    });
    let referrers = match &*audience.top_referrers {
        [] => "No other site led here.".to_owned(),
        sites => bars("FROM", "VIEWS", sites.iter().map(|site| (&*site.referrer, site.views))),
    };
    let before = previous_period(audience.previous.map(|sums| sums.pageviews), audience.days.into(), "day");
    let more = if audience.truncated { " The lists are not complete: what is rare is known in sum only." } else { "" };
    [
        format!("{what}: {} by people.{before}{more}", count(pageviews, "page view")),
        timeline(&views, &begins, "page views by day", &audience.deployments),
        bars("PAGE", "VIEWS", audience.top_pages.iter().map(|page| (&*page.path, page.views))),
        referrers,
        bars(
            "COUNTRY",
            "VIEWS",
            audience.top_countries.iter().map(|counted| (country(&counted.country), counted.views)),
        ),
        days,
    ]
    .join("\n\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn views_are_tables() {
        let mut audience = json!({
            "project": "docs", "from": "2026-11-21T00:00:00Z", "to": "2026-11-22T22:10:00Z", "days": 2,
            "totals": {"pageviews": 6},
            "timeline": [{"day": "2026-11-21", "pageviews": 2, "visitors": 2},
                         {"day": "2026-11-22", "pageviews": 4, "visitors": 3}],
            "top_pages": [{"path": "/a", "views": 6}], "top_referrers": [{"referrer": "news.example", "views": 1}],
            "top_countries": [{"country": "DE", "views": 6}],
            "deployments": [{"id": "dep_0123456789abcdefghij", "at": "2026-11-21T22:05:00Z", "git_sha": null}],
        });
        let show = |audience: &serde_json::Value| draw(&serde_json::from_value(audience.clone()).unwrap());
        let text = show(&audience);
        let line = "▄█  page views by day\n▲   deployments";
        for part in ["docs, last 2 days", "6 page views by people.", line, "news.example", "VISITORS"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        audience["previous"] = json!({"pageviews": 5});
        audience["truncated"] = json!(true);
        let text = show(&audience);
        assert!(text.contains("6 page views by people. 5 in the 2 days before. The lists are not complete"), "{text}");
        audience["to"] = json!("2026-11-23T00:00:00Z");
        assert!(show(&audience).contains("docs, 2026-11-21 to 2026-11-22"));
        audience["to"] = json!("2026-11-22T22:10:00Z");
        audience["timeline"][0]["visitors"] = json!(null);
        audience["timeline"][1]["visitors"] = json!(null);
        audience["top_referrers"] = json!([]);
        let text = show(&audience);
        assert!(!text.contains("VISITORS") && text.contains("No other site led here."), "{text}");
        audience["totals"]["pageviews"] = 0.into();
        assert!(show(&audience).ends_with(": no page views by people."));
    }
}

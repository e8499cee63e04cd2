//! Days and hours that are asked for by date, the time before them, and parts of the traffic.

use domain::{
    Clock,
    stats::DAYS_KEPT,
    traffic::visitors::{ClassEvidence, VisitorClass},
};
use serde_json::{Value, json};

use super::{
    rows::{agent, sums},
    *,
};
use crate::cli::Shell;

/// The UTC day so many days ago.
fn day(days_ago: i64) -> String {
    (Clock::system().now().as_datetime().date() - time::Duration::days(days_ago)).to_string()
}

/// A site with traffic on six days: of each so many requests as the day lies back, half of them views.
async fn visited() -> Visited {
    let visited = Visited::start(&Site::page("home")).await;
    let person = agent(VisitorClass::Person, "", ClassEvidence::Behaviour);
    for days_ago in [10, 11, 12, 20, 22, 24] {
        let (all, half) = (u64::from(days_ago), u64::from(days_ago) / 2);
        let lists = json!({
            "path": [["/a", all, all * 10], ["(other)", 1, 1]],
            "country": [["DE", all, all * 10]],
            "page": [["/a", half, half], ["(other)", 1, 1]],
            "view": [["/a\tnews.example\tDE\tengine.svc.localhost", half - 1, 1], ["(other)", 2, 1]],
            "agent": [[person, all, all * 10]],
            "error": [["404\t/gone\t", all, 0]],
        });
        visited.write_day(days_ago, &sums(all, all * 10, half), 3, &lists).await;
    }
    visited
}

#[tokio::test]
async fn days_are_asked_for_by_date_and_compared_with_those_before() {
    let visited = visited().await;
    let dates = format!("from={}&to={}", day(15), day(10));
    for (report, totals, before) in [
        (
            "history",
            json!({ "requests": 33, "bytes": 330, "cache_hits": 0 }),
            json!({ "requests": 20, "bytes": 200, "cache_hits": 0 }),
        ),
        ("audience", json!({ "pageviews": 16 }), json!({ "pageviews": 10 })),
        (
            "errors",
            json!({ "not_found": 33, "server_errors": 0, "other": 0 }),
            json!({ "not_found": 20, "server_errors": 0, "other": 0 }),
        ),
    ] {
        let shown = visited.report(&format!("{report}?{dates}")).await;
        assert_eq!((&shown["totals"], &shown["previous"]), (&totals, &before), "{report}");
    }
    let bots = visited.report(&format!("bots?{dates}")).await;
    let [all, none] = [json!({ "requests": 20, "bytes": 200 }), json!({ "requests": 0, "bytes": 0 })];
    assert_eq!(bots["previous"], json!({ "totals": all, "people": all, "declared": none, "automation": none }));
    assert_eq!(bots["people"]["requests"], 33);
    for report in ["history", "audience", "bots", "errors"] {
        let shown = visited.report(&format!("{report}?{dates}")).await;
        assert_eq!(shown["days"], 6, "{report}");
        let times = [&shown["from"], &shown["to"]].map(|time| time.as_str().unwrap().to_owned());
        assert_eq!(times, [15, 9].map(|days_ago| format!("{}T00:00:00Z", day(days_ago))), "{report}");
        let timeline = shown["timeline"].as_array().unwrap();
        assert_eq!((timeline.len(), &timeline[0]["day"], &timeline[5]["day"]), (6, &json!(day(15)), &json!(day(10))));
        assert_eq!(shown["deployments"], json!([]), "what went live after the days is no mark of them: {report}");
        // Until today, without an end.
        let shown = visited.report(&format!("{report}?from={}", day(12))).await;
        assert_eq!(shown["timeline"].as_array().unwrap().len(), 13, "{report}");
        assert_eq!(shown["deployments"].as_array().unwrap().len(), 1, "{report}");
        // Days before the first that is kept are none to compare with.
        let all = visited.report(&format!("{report}?from={}", day(i64::from(DAYS_KEPT)))).await;
        assert_eq!((&all["days"], &all["previous"]), (&json!(DAYS_KEPT + 1), &Value::Null), "{report}");
    }
    assert_eq!(visited.report("history?days=11").await["previous"]["requests"], 11 + 12 + 20);

    let rows = visited.ada.get(&format!("/projects/engine/stats/export?{dates}")).await.assert_status(200);
    let text = rows.text();
    let totals: Vec<&str> = text.lines().filter(|line| line.contains(",total,")).collect();
    assert_eq!(totals, [12, 11, 10].map(|days_ago| format!("{},total,,{days_ago},{days_ago}0", day(days_ago))));

    let on = visited.ada.put("/projects/engine/stats/public").json(&json!({ "enabled": true })).await.ok();
    let url = on["url"].as_str().unwrap();
    let token = url.rsplit('/').next().unwrap();
    let shown = visited.world.nobody().get(&format!("/stats/{token}?{dates}")).await.ok();
    assert_eq!((&shown["requests"], &shown["pageviews"], &shown["days"]), (&json!(33), &json!(16), &json!(6)));
    assert_eq!(shown["previous"], json!({ "requests": 20, "bytes": 200, "pageviews": 10 }));
    let page = visited.world.edge().get(&format!("{url}?{dates}")).await.assert_status(200);
    for part in [
        "<strong>16</strong> page views by people (10 in the 6 days before)",
        &format!("{} to {}, in UTC", day(15), day(10)),
        &format!("/api/stats/{token}?from={}&#38;to={}", day(15), day(10)),
        &format!("min=\"{}\" max=\"{}\"", day(i64::from(DAYS_KEPT)), day(0)),
    ] {
        assert!(page.text().contains(part), "{part} in {}", page.text());
    }
}

#[tokio::test]
async fn days_that_cannot_be_told_are_refused_with_the_reason() {
    let visited = Visited::start(&Site::page("home")).await;
    let on = visited.ada.put("/projects/engine/stats/public").json(&json!({ "enabled": true })).await.ok();
    let url = on["url"].as_str().unwrap();
    let token = url.rsplit('/').next().unwrap();
    let too_old = i64::from(DAYS_KEPT) + 1;
    let wrong = [
        ("from=yesterday".to_owned(), "`from` is not valid: not a day of the form YYYY-MM-DD"),
        ("from=2026-02-30".to_owned(), "not a day of the form YYYY-MM-DD"),
        ("from=".to_owned(), "not a day of the form YYYY-MM-DD"),
        (format!("from={}T00:00:00Z", day(1)), "not a day of the form YYYY-MM-DD"),
        (format!("from={0}&from={0}", day(1)), "given twice"),
        (format!("to={}", day(1)), "`from`, the first, has to come with it"),
        (format!("from={}&to={}", day(1), day(2)), "comes after `to`"),
        (format!("from={}", day(-2)), "which is today in UTC, or earlier"),
        (format!("from={}&to={}", day(1), day(-2)), "`to` must be"),
        (format!("from={}", day(too_old)), "are kept for"),
    ];
    let reports = ["", "/history", "/audience", "/bots", "/errors", "/export"];
    let paths = reports.iter().map(|report| format!("/projects/engine/stats{report}"));
    for path in paths.chain([format!("/stats/{token}")]) {
        for (query, reason) in &wrong {
            let refused = visited.ada.get(&format!("{path}?{query}")).await.assert_error(400, "invalid_request");
            assert!(refused.contains(reason), "{path}?{query}: {refused}");
        }
    }
    for (number, reports) in [("hours=3", &reports[..1]), ("days=3", &reports[1..])] {
        for report in reports {
            let path = format!("/projects/engine/stats{report}?{number}&from={}", day(1));
            visited.ada.get(&path).await.assert_error(400, "invalid_request");
        }
    }
    visited.world.edge().get(&format!("{url}?from={}", day(too_old))).await.assert_status(400);
    for (from, to, reason) in [(8, 7, "hours are kept for 7 days"), (7, 4, "3 days at a time")] {
        let path = format!("/projects/engine/stats?from={}&to={}", day(from), day(to));
        let refused = visited.ada.get(&path).await.assert_error(400, "invalid_request");
        assert!(refused.contains(reason), "{refused}");
    }
}

#[tokio::test]
async fn hours_are_asked_for_by_date_and_compared_with_those_before() {
    let visited = Visited::start(&Site::page("home")).await;
    let path = |requests| [("path", "/a", requests, 10), ("country", "DE", requests, 10)];
    visited.write_hour(30, &sums(7, 70, 0), &path(4)).await;
    visited.append(0, &sums(5, 50, 0), &path(3), 0..0).await;
    let last = visited.report("").await;
    assert_eq!((&last["totals"]["requests"], &last["previous"]["requests"]), (&json!(5), &json!(7)));
    let of_page = visited.report("?page=/a").await;
    assert_eq!((&of_page["totals"]["requests"], &of_page["previous"]["requests"]), (&json!(3), &json!(4)));
    // Whichever days these hours lie in.
    let dates = format!("?from={}&to={}", day(2), day(0));
    let shown = visited.report(&dates).await;
    assert_eq!((&shown["totals"]["requests"], &shown["previous"]["requests"]), (&json!(12), &json!(0)));
    assert_eq!(shown["from"], format!("{}T00:00:00Z", day(2)));
    let timeline = shown["timeline"].as_array().unwrap();
    assert!((49..=72).contains(&timeline.len()), "hours that have not begun are none: {}", timeline.len());
    let ended = visited.report(&format!("?from={}&to={}", day(7), day(5))).await;
    assert_eq!((ended["timeline"].as_array().unwrap().len(), &ended["previous"]), (72, &Value::Null));
    assert_eq!(ended["to"], format!("{}T00:00:00Z", day(4)));
    assert_eq!(ended["deployments"], json!([]));
}

#[tokio::test]
async fn traffic_can_be_asked_for_a_path_or_a_country() {
    let visited = visited().await;
    visited
        .append(0, &sums(5, 50, 0), &[("path", "/a", 3, 30), ("path", "/b", 2, 20), ("country", "DE", 5, 50)], 0..0)
        .await;
    for (part, today, days_ago) in [("page=/a", 3, 10), ("page=/b", 2, 0), ("country=de", 5, 10), ("page=/%00", 0, 0)] {
        let live = visited.report(&format!("?hours=2&{part}")).await;
        assert_eq!(
            (&live["totals"]["requests"], &live["totals"]["cache_hits"]),
            (&json!(today), &Value::Null),
            "{part}"
        );
        assert_eq!(live["timeline"][1]["requests"], today, "{part}");
        assert_eq!((&live["hostnames"], &live["top_paths"], &live["bots"]), (&json!([]), &Value::Null, &Value::Null));
        let history = visited.report(&format!("history?days=11&{part}")).await;
        assert_eq!(history["totals"]["requests"], today + days_ago, "{part}");
        assert_eq!(history["timeline"][0]["requests"], days_ago, "{part}");
        let before = if days_ago == 0 { 0 } else { 11 + 12 + 20 };
        assert_eq!(history["previous"]["requests"], before, "{part}");
    }
    for two in ["page=/a&country=DE", "hostname=engine.svc.localhost&page=/a", "hostname=&country="] {
        for report in ["", "/history"] {
            let path = format!("/projects/engine/stats{report}?{two}");
            let refused = visited.ada.get(&path).await.assert_error(400, "invalid_request");
            assert!(refused.contains("ask for one"), "{refused}");
        }
    }
}

#[tokio::test]
async fn views_that_are_asked_for_are_told_by_hour_and_compared() {
    let visited = visited().await;
    let views = [
        ("view", "/a\tnews.example\tDE\tengine.svc.localhost", 4, 40),
        ("view", "/a\t\tFR\tengine.svc.localhost", 2, 20),
        ("view", "(other)", 9, 90),
    ];
    visited.append(0, &sums(20, 200, 15), &views, 0..3).await;
    for (filter, now) in [
        ("", 15),
        ("&page=/a", 6),
        ("&page=/a&referrer=", 2),
        ("&referrer=news.example&country=de", 4),
        ("&page=(other)", 0),
        ("&page=/%25", 0),
        ("&page=/a%00", 0),
    ] {
        let shown = visited.report(&format!("audience?days=1{filter}")).await;
        let hours = shown["hours"].as_array().unwrap();
        assert_eq!(hours.last().unwrap()["pageviews"], now, "{filter}");
        assert_eq!(shown["totals"]["pageviews"], now, "{filter}");
        assert_eq!(shown["truncated"], true, "some views are in no list: {filter}");
    }
    // No more than a few days are told by the hour, and a week's.
    assert_eq!(visited.report("audience?days=4").await["hours"], Value::Null);
    assert_eq!(visited.report(&format!("audience?from={0}&to={0}", day(8))).await["hours"], Value::Null);
    let dates = format!("from={}&to={}", day(15), day(10));
    for (filter, totals, before) in
        [("page=/a", 5 + 5 + 6, 10), ("page=/a&country=DE", 4 + 4 + 5, 9), ("page=/b", 0, 0)]
    {
        let shown = visited.report(&format!("audience?{dates}&{filter}")).await;
        let sums = [&shown["totals"], &shown["previous"]].map(|sums| sums["pageviews"].as_u64().unwrap());
        assert_eq!(sums, [totals, before], "{filter}");
    }
    assert_eq!(visited.report(&format!("audience?from={0}&to={0}", day(13))).await["truncated"], false);
}

#[tokio::test]
async fn the_client_shows_days_by_date_and_parts() {
    let visited = visited().await;
    let shell = Shell::new(&visited.world, visited.ada.token.clone());
    let (from, to) = (day(15), day(10));
    let dates = ["stats", "--project", "engine", "--from", &from, "--to", &to];
    let shown = shell.text(&dates).await;
    let head = format!("engine, {from} to {to}: 33 requests, 330 B sent, 0% from memory. 20 in the 6 days before.");
    assert!(shown.contains(&head), "{shown}");
    for (part, requests) in [(&["--page", "/a"][..], 33), (&["--page", "/b"], 0), (&["--country", "de"], 33)] {
        let document = shell.json(&[&dates[..], part].concat()).await;
        assert_eq!(document["totals"]["requests"], requests, "{part:?}");
        assert_eq!(document["previous"]["requests"], if requests == 0 { 0 } else { 20 }, "{part:?}");
    }
    let audience = [&dates[..], &["--audience"]].concat();
    let shown = shell.text(&audience).await;
    assert!(shown.contains("16 page views by people. 10 in the 6 days before. The lists are not complete"), "{shown}");
    let document = shell.json(&[&audience[..], &["--page", "/a", "--referrer", "news.example"]].concat()).await;
    assert_eq!((&document["totals"]["pageviews"], &document["truncated"]), (&json!(13), &json!(true)));
    let export = shell.text(&["stats", "--project", "engine", "export", "--from", &from, "--to", &to]).await;
    assert_eq!(export.lines().filter(|line| line.contains(",total,")).count(), 3, "{export}");
    for wrong in [
        &["--from", "15 November"][..],
        &["--to", &to],
        &["--from", &from, "--days", "3"],
        &["--from", &from, "--hours", "3"],
        &["--page", "/a", "--bots"],
        &["--referrer", "news.example"],
    ] {
        let refused = shell.run(&[&["stats", "--project", "engine"], wrong].concat()).await;
        assert_eq!(refused.code, 2, "{wrong:?}: {}", refused.err);
    }
    let refused = shell.run(&["stats", "--project", "engine", "--from", "2020-01-01"]).await;
    assert!(refused.code != 0 && refused.err.contains("kept for 400 days"), "{}", refused.err);
}

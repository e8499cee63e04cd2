//! Refusals: windows out of range, and statistics that cannot be read.

use super::*;

#[tokio::test]
async fn windows_have_their_ranges() {
    let visited = Visited::start(&Site::page("home")).await;
    let bad = ["0", "-1", "1.5", "", "abc", "+1", "%2B1", "1e1", "%20", "1&hours=2&days=2", "99999999999999999999"];
    let reports = [
        ("stats", "hours", 72, "hour"),
        ("stats/history", "days", 365, "day"),
        ("stats/audience", "days", 365, "day"),
        ("stats/bots", "days", 365, "day"),
        ("stats/errors", "days", 365, "day"),
    ];
    for (path, key, most, rows) in reports {
        let path = format!("/projects/engine/{path}");
        for value in bad.iter().map(|bad| (*bad).to_owned()).chain([(most + 1).to_string()]) {
            let message = visited.ada.get(&format!("{path}?{key}={value}")).await.assert_error(400, "invalid_request");
            assert!(message.contains(key), "{value}: {message}");
        }
        for value in [1, 2, most] {
            let answer = visited.ada.get(&format!("{path}?{key}={value}")).await.ok();
            let timeline = answer["timeline"].as_array().unwrap();
            assert_eq!(timeline.len(), value);
            // In order, without gaps, and nothing in any.
            let times: Vec<_> = timeline.iter().map(|row| row[rows].as_str().unwrap()).collect();
            assert!(times.is_sorted_by(|one, next| one < next), "{times:?}");
            let parts = timeline.iter().flat_map(|row| row.as_object().unwrap());
            let numbers: Vec<_> = parts.filter(|(name, _)| *name != rows).map(|(_, number)| number).collect();
            assert!(numbers.len() >= 2 * value && numbers.iter().all(|number| **number == 0), "{answer}");
            assert!(answer["from"].as_str().unwrap().starts_with(times[0]), "{answer}");
        }
    }
    assert_eq!(visited.ada.get("/projects/engine/stats").await.ok()["timeline"].as_array().unwrap().len(), 24);
    for wrong in ["days=0", "days=366", "format=xml", "format=", "format=CSV"] {
        let path = format!("/projects/engine/stats/export?{wrong}");
        let message = visited.ada.get(&path).await.assert_error(400, "invalid_request");
        assert!(message.contains(wrong.split('=').next().unwrap()), "{wrong}: {message}");
    }
    let history = visited.ada.get("/projects/engine/stats/history?unknown=1").await.ok();
    assert_eq!((history["days"].as_u64(), history["timeline"].as_array().map(Vec::len)), (Some(30), Some(30)));
    visited.ada.post("/projects/engine/stats").await.assert_error(405, "method_not_allowed");
}

#[tokio::test]
async fn rows_that_cannot_be_read_are_an_error_of_their_own() {
    let visited = Visited::start(&Site::page("home")).await;
    let on = serde_json::json!({ "enabled": true });
    let link = visited.ada.put("/projects/engine/stats/public").json(&on).await.ok();
    let token = link["url"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    visited.world.sql("ALTER TABLE traffic_hours RENAME TO elsewhere").await;
    visited.ada.get(&format!("/stats/{token}")).await.assert_error(502, "cdn_error");
    for path in ["stats", "stats/history", "stats/audience", "stats/bots", "stats/errors", "stats/export"] {
        let message = visited.ada.get(&format!("/projects/engine/{path}")).await.assert_error(502, "cdn_error");
        assert!(!message.contains("traffic_hours"), "{message}");
    }
    visited.world.sql("ALTER TABLE elsewhere RENAME TO traffic_hours").await;
    visited.live_with(0).await;
}

#[tokio::test]
async fn where_nothing_is_counted_no_report_pretends() {
    let visited = Visited::start_with(&Site::page("home"), |builder| builder.set("STATS__SOURCE", "none")).await;
    for path in ["stats", "stats/history", "stats/audience", "stats/bots", "stats/errors", "stats/export"] {
        visited.ada.get(&format!("/projects/engine/{path}")).await.assert_error(503, "stats_unavailable");
        visited.ada.get(&format!("/projects/another/{path}")).await.assert_error(404, "not_found");
    }
    let on = visited.ada.put("/projects/engine/stats/public").json(&serde_json::json!({ "enabled": true }));
    on.await.assert_error(503, "stats_unavailable");
}

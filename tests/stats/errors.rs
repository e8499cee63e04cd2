//! Refusals: windows out of range, and statistics that cannot be read.

use super::*;

#[tokio::test]
async fn windows_have_their_ranges() {
    let visited = Visited::start(&Site::page("home")).await;
    let bad = ["0", "-1", "1.5", "", "abc", "+1", "%2B1", "1e1", "%20", "1&hours=2&days=2", "99999999999999999999"];
    for (path, key, most, rows) in [("stats", "hours", 72, "hour"), ("stats/history", "days", 365, "day")] {
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
            assert!(timeline.iter().all(|row| row["requests"] == 0 && row["bytes"] == 0 && row["cache_hits"] == 0));
            assert!(answer["from"].as_str().unwrap().starts_with(times[0]), "{answer}");
        }
    }
    assert_eq!(visited.ada.get("/projects/engine/stats").await.ok()["timeline"].as_array().unwrap().len(), 24);
    let history = visited.ada.get("/projects/engine/stats/history?unknown=1").await.ok();
    assert_eq!((history["days"].as_u64(), history["timeline"].as_array().map(Vec::len)), (Some(30), Some(30)));
    visited.ada.post("/projects/engine/stats").await.assert_error(405, "method_not_allowed");
}

#[tokio::test]
async fn rows_that_cannot_be_read_are_an_error_of_their_own() {
    let visited = Visited::start(&Site::page("home")).await;
    visited.world.sql("ALTER TABLE traffic_hours RENAME TO elsewhere").await;
    for path in ["stats", "stats/history"] {
        let message = visited.ada.get(&format!("/projects/engine/{path}")).await.assert_error(502, "cdn_error");
        assert!(!message.contains("traffic_hours"), "{message}");
    }
    visited.world.sql("ALTER TABLE elsewhere RENAME TO traffic_hours").await;
    visited.live_with(0).await;
}

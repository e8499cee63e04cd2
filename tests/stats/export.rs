//! The export: every number of every day, once.

use std::collections::BTreeMap;

use futures_util::StreamExt as _;
use serde_json::{Value, json};

use super::{rows::sums, *};

async fn written() -> Visited {
    let visited = Visited::start(&Site::page("home")).await;
    let lists = json!({
        "path": [["/a,\"b\"", 5, 50], ["(other)", 2, 20]],
        "referrer": [["=cmd.example", 3, 30]],
        "error": [["404\t/x\t/a", 1, 10]],
    });
    visited.write_day(2, &sums(7, 70, 3), 4, &lists).await;
    visited.append(0, &sums(2, 20, 1), &[("view", "/\tnews.example\tDE\tengine.svc.localhost", 1, 10)], 0..1).await;
    visited
}

#[tokio::test]
async fn everything_is_exported_as_lines_of_json() {
    let visited = written().await;
    let answer = visited.ada.get("/projects/engine/stats/export?days=3&format=ndjson").await.assert_status(200);
    assert_eq!(answer.header("content-type"), "application/x-ndjson");
    assert_eq!(answer.header("content-disposition"), "attachment; filename=\"engine-stats.ndjson\"");
    let history = visited.report("history?days=3").await;
    let days: Vec<&str> = [0, 2].into_iter().map(|place| history["timeline"][place]["day"].as_str().unwrap()).collect();
    let mut found = BTreeMap::new();
    for line in answer.text().lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let key = [&row["day"], &row["kind"], &row["key"]].map(|part| part.as_str().unwrap().to_owned());
        let numbers = (row["count"].as_u64().unwrap(), row["bytes"].as_u64().unwrap());
        assert!(found.insert(key, numbers).is_none(), "twice: {line}");
    }
    for (day, kind, key, count, bytes) in [
        (days[0], "total", "", 7, 70),
        (days[0], "status", "2xx", 7, 0),
        (days[0], "people", "", 3, 70),
        (days[0], "visitors", "", 4, 0),
        (days[0], "path", "/a,\"b\"", 5, 50),
        (days[0], "path", "(other)", 2, 20),
        (days[0], "error", "404\t/x\t/a", 1, 10),
        (days[1], "total", "", 2, 20),
        (days[1], "visitors", "", 1, 0),
        (days[1], "page", "/", 1, 10),
        (days[1], "referrer", "news.example", 1, 10),
        (days[1], "view_country", "DE", 1, 10),
        (days[1], "view", "/\tnews.example\tDE\tengine.svc.localhost", 1, 10),
    ] {
        let key = [day, kind, key].map(str::to_owned);
        assert_eq!(found.get(&key), Some(&(count, bytes)), "{key:?} in {found:#?}");
    }
    assert!(found.keys().all(|key| days.contains(&&*key[0])), "a day without traffic has no rows");
    assert_eq!(found.len(), 2 * 10 + 4 + 4);
}

#[tokio::test]
async fn everything_is_exported_as_cells() {
    let visited = written().await;
    let answer = visited.ada.get("/projects/engine/stats/export?days=3").await.assert_status(200);
    assert!(answer.header("content-type").starts_with("text/csv"));
    let text = answer.text();
    let lines: Vec<&str> = text.split("\r\n").collect();
    assert_eq!((lines[0], *lines.last().unwrap()), ("day,kind,key,count,bytes", ""));
    assert_eq!(lines.len() - 2, 2 * 10 + 4 + 4);
    // A path is one cell, and a host that looks like a formula is none.
    for part in [",path,\"/a,\"\"b\"\"\",5,50", ",referrer,'=cmd.example,3,30", ",total,,7,70"] {
        assert!(lines.iter().any(|line| line.ends_with(part)), "{part} in {text}");
    }
    let same = visited.ada.get("/projects/engine/stats/export?days=3&format=csv").await.assert_status(200);
    assert_eq!(same.text(), text);
    // Nothing but the headings when there is nothing; a day is read at a time, and there may be a year of them.
    visited.world.sql("DELETE FROM traffic_recent; DELETE FROM traffic_days; DELETE FROM traffic_hours").await;
    let empty = visited.ada.get("/projects/engine/stats/export?days=365").await.assert_status(200);
    assert_eq!(empty.text(), "day,kind,key,count,bytes\r\n");
}

#[tokio::test]
async fn an_export_that_fails_breaks_off() {
    let visited = written().await;
    // The first day can be read, a later one cannot.
    visited.world.sql("UPDATE traffic_days SET lists = '{\"path\": 1}'").await;
    let path = "/projects/engine/stats/export?days=4";
    let through_the_edge = format!("https://api.svc.localhost{path}");
    let edge = visited.world.edge();
    let token = visited.ada.token.as_deref().unwrap();
    for (how, request) in [
        ("admin", visited.ada.get(path)),
        ("HTTP/2", edge.get(&through_the_edge).bearer(token)),
        ("HTTP/1.1", edge.get_http1(&through_the_edge).bearer(token)),
    ] {
        let (answer, response) = request.open().await;
        answer.assert_status(200);
        let mut body = response.unwrap().bytes_stream();
        let mut received = Vec::new();
        let end = loop {
            match body.next().await {
                Some(Ok(part)) => received.extend_from_slice(&part),
                Some(Err(error)) => break Some(error),
                None => break None,
            }
        };
        assert!(end.is_some(), "{how}: ended as if it was whole, with {}", String::from_utf8_lossy(&received));
    }
    // What fails before the answer has begun is a refusal.
    visited.ada.get("/projects/engine/stats/export?days=3").await.assert_error(502, "cdn_error");
}

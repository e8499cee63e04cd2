//! `svc stats`.

use serde_json::Value;

use super::*;
use crate::cli::Shell;

#[tokio::test]
async fn visits_are_shown_as_tables_and_as_json() {
    let visited = Visited::start(&Site::page("home").file("about.html", "about")).await;
    let shell = Shell::new(&visited.world, visited.ada.token.clone());
    let nothing = shell.run(&["stats", "--project", "engine"]).await;
    assert_eq!((nothing.code, nothing.out.trim()), (0, "engine, last 24 hours: no requests."), "{}", nothing.err);
    visited.visit("/", 2).await;
    visited.visit("/about", 1).await;
    visited.visit("/missing", 1).await;
    visited.live_with(4).await;
    let shown = shell.run(&["stats", "--project", "engine", "--hours", "2"]).await;
    assert_eq!(shown.code, 0, "{}", shown.err);
    for part in ["engine, last 2 hours: 4 requests", "█", "/about", "engine.svc.localhost", "XX", "4xx"] {
        assert!(shown.out.contains(part), "{part} in\n{}", shown.out);
    }
    assert!(!shown.out.contains("/missing"), "{}", shown.out);
    let live: Value = shell.json(&["stats", "--project", "engine"]).await;
    assert_eq!((live["totals"]["requests"].as_u64(), live["timeline"].as_array().map(Vec::len)), (Some(4), Some(24)));
    let history: Value = shell.json(&["stats", "--project", "engine", "--days", "7"]).await;
    assert_eq!((history["totals"]["requests"].as_u64(), history["days"].as_u64()), (Some(4), Some(7)));
    let shown = shell.run(&["stats", "--project", "engine", "--days", "3"]).await;
    assert!(shown.out.contains("engine, last 3 days: 4 requests"), "{}", shown.out);
    for wrong in [&["--hours", "73"][..], &["--days", "0"], &["--days", "1", "--hours", "1"]] {
        let refused = shell.run(&[&["stats", "--project", "engine"], wrong].concat()).await;
        assert_eq!(refused.code, 2, "{}", refused.err);
    }
    assert_eq!(shell.run(&["stats", "--project", "nowhere"]).await.code, 4);
}

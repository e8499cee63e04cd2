//! `svc stats`.

use std::process::Command;

use serde_json::Value;

use super::{rows::sums, *};
use crate::{
    BACKGROUND,
    cli::Shell,
    world::process::{Process, program},
};

#[tokio::test]
async fn visits_are_shown_as_tables_and_as_json() {
    let visited = Visited::start(&Site::page("home").file("about.html", "about")).await;
    let shell = Shell::new(&visited.world, visited.ada.token.clone());
    let nothing = shell.run(&["stats", "--project", "engine"]).await;
    assert_eq!((nothing.code, nothing.out.trim()), (0, "engine, last 24 hours: no requests."), "{}", nothing.err);
    visited.visit("/", 2).await;
    visited.visit("/about", 1).await;
    visited.visit("/missing.txt", 1).await;
    visited.live_with(4).await;
    let shown = shell.run(&["stats", "--project", "engine", "--hours", "2"]).await;
    assert_eq!(shown.code, 0, "{}", shown.err);
    for part in ["engine, last 2 hours: 4 requests", "█", "/about", "engine.svc.localhost", "unknown", "4xx"] {
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

#[tokio::test]
async fn each_report_is_shown_as_tables_and_as_json() {
    let visited = Visited::start(&Site::page("home").file("about.html", "about")).await;
    let broken_by = visited.ada.deploy("engine", &Site::page("home")).await.id;
    let shell = Shell::new(&visited.world, visited.ada.token.clone());
    let nothing = [("--audience", "no page views by people."), ("--bots", "no requests."), ("--errors", "no errors.")];
    for (report, nothing) in nothing {
        let shown = shell.text(&["stats", "--project", "engine", report]).await;
        assert_eq!(shown.trim(), format!("engine, last 30 days: {nothing}"));
    }
    visited
        .append(
            0,
            &sums(20, 2_000, 10),
            &[
                ("view", "/docs\tnews.example\tDE\tengine.svc.localhost", 9, 900),
                ("view", "/docs\t\tDE\twww.engine.localhost", 1, 100),
                ("agent", "ai_training\tGPTBot\tname", 4, 40),
                ("agent", "person\t\tbehaviour", 16, 40),
                ("path", "/about", 4, 40),
                ("hostname", "engine.svc.localhost", 15, 1_500),
                ("hostname", "www.engine.localhost", 5, 500),
                ("error", "404\t/about\t/", 4, 40),
            ],
            0..3,
        )
        .await;
    let views = ["10 page views by people.", "page views by day", "deployments", "/docs", "news.example", "VISITORS"];
    let agents = ["20% by programs that say so", "AI training", "GPTBot", "OpenAI", "100%"];
    let errors = ["4 requests not found, 0 failed.", "/about", &*broken_by];
    for (report, parts) in [("--audience", &views[..]), ("--bots", &agents), ("--errors", &errors)] {
        let shown = shell.text(&["stats", "--project", "engine", report, "--days", "7"]).await;
        for part in parts {
            assert!(shown.contains(part), "{part} in\n{shown}");
        }
        assert!(!shown.contains('\x1b'), "{shown}");
        let document = shell.json(&["stats", "--project", "engine", report, "--days", "7"]).await;
        assert_eq!(document["timeline"].as_array().map(Vec::len), Some(7), "{report}");
        assert_eq!(document["deployments"].as_array().map(Vec::len), Some(2), "{report}");
    }
    let own = ["stats", "--project", "engine", "--hostname", "www.engine.localhost"];
    assert_eq!(shell.json(&[&own[..], &["--audience"]].concat()).await["totals"]["pageviews"], 1);
    for window in [&[][..], &["--days", "2"]] {
        assert_eq!(shell.json(&[&own[..], window].concat()).await["totals"]["requests"], 5);
        let shown = shell.text(&[&own[..], window].concat()).await;
        assert!(shown.contains(": 5 requests, 500 B sent."), "{shown}");
    }
    for wrong in [
        &["--audience", "--bots"][..],
        &["--errors", "--hours", "3"],
        &["--hostname", "x", "--bots"],
        &["--json", "--watch"],
    ] {
        let refused = shell.run(&[&["stats", "--project", "engine"], wrong].concat()).await;
        assert_eq!(refused.code, 2, "{wrong:?}: {}", refused.err);
    }
}

#[tokio::test]
async fn watching_shows_what_comes() {
    let visited = Visited::start(&Site::page("home")).await;
    let world = &visited.world;
    let mut command = Command::new(program("svc"));
    command.args(["stats", "--project", "engine", "--watch"]);
    command.env("SVC_API_URL", format!("https://api.svc.localhost:{}", world.public_port()));
    command.env("SVC_CA_FILE", world.ca()).env("SVC_TOKEN", visited.ada.token.as_deref().unwrap());
    let mut watching = Process::start("watching", world.folder(), &command);
    eventually(BACKGROUND, "nothing is shown", async || watching.log().contains("no requests.")).await;
    visited.visit("/", 3).await;
    eventually(BACKGROUND, "the visits are shown", async || watching.log().contains(": 3 requests")).await;
    watching.kill();
}

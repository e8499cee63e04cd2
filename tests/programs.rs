//! `admin edges` and `admin admins`: which programs run, where, in which version, and how far they are.

use serde_json::Value;

use crate::{
    BACKGROUND,
    metrics::Page,
    world::{Site, World, eventually, ports, process},
};

async fn listed(world: &World, command: &str) -> Vec<Value> {
    let text = world.admin_prints(&[command, "--json"]).await;
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[tokio::test]
async fn an_operator_sees_every_program_and_what_it_runs() {
    let metrics = ports::free();
    let builder = World::builder()
        .edges(2)
        .set_at_edge(0, "EDGE__NAME", "north-1")
        .set_at_edge(1, "EDGE__NAME", "south-1")
        .set("ADMIN__NAME", "control-1")
        .set("ADMIN__METRICS_LISTEN", format!("127.0.0.1:{metrics}"));
    let world = builder.start().await;
    world.user("ada").await.publish("engine", &Site::page("x")).await;
    let last = world.sql_number("SELECT last_seq FROM route_counter").await;
    assert!(last > 0);
    let mut edges = Vec::new();
    eventually(BACKGROUND, "both edges have reported", async || {
        edges = listed(&world, "edges").await;
        edges.len() == 2 && edges.iter().all(|edge| edge["seq"] == last && edge["state"] == "ready")
    })
    .await;
    for (edge, name) in edges.iter().zip(["north-1", "south-1"]) {
        assert_eq!(
            (&edge["name"], &edge["version"], &edge["lag"]),
            (&name.into(), &"0.1.0".into(), &0.into()),
            "{edge}"
        );
        assert!(edge["memory_bytes"].as_u64().unwrap() > 1_000_000 && edge["age_seconds"].as_f64().unwrap() < 15.0);
        assert!(edge["most_connections"].as_u64().unwrap() > 0 && edge["commit"].is_string(), "{edge}");
    }
    let table = world.admin_prints(&["edges"]).await;
    assert!(table.starts_with("name ") && table.contains("\nnorth-1 ") && table.contains("\nsouth-1 "), "{table}");
    let top = world.admin_prints(&["edges", "top"]).await;
    assert!(top.contains(" on north-1, the last minute"), "{top}");
    let admins = listed(&world, "admins").await;
    assert_eq!((admins.len(), &admins[0]["name"]), (1, &"control-1".into()), "{admins:?}");
    eventually(BACKGROUND, "the metrics of admin name the edges", async || {
        let page = Page::of(metrics).await;
        page.text.contains("svc_edge_lag_changes{edge=\"south-1\",") && (page.sum("svc_edges") - 2.0).abs() < 0.5
    })
    .await;

    // One that ends is not there any more, and nobody is alarmed.
    world.edges[1].process.signal("TERM");
    eventually(BACKGROUND, "an edge has taken its report back", async || listed(&world, "edges").await.len() == 1)
        .await;
    eventually(BACKGROUND, "its lines are gone", async || !Page::of(metrics).await.text.contains("south-1")).await;
}

#[test]
fn every_program_says_which_commit_it_is_of() {
    for name in ["edge", "admin", "certs", "svc"] {
        let text = process::run(std::process::Command::new(process::program(name)).arg("--version"));
        let (start, commit) = text.trim().split_once(" (").unwrap_or_else(|| panic!("{text}"));
        assert_eq!(start, format!("{name} 0.1.0"));
        assert!(commit.len() > 1 && commit.ends_with(')'), "{text}");
    }
}

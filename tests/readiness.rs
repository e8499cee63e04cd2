//! `/livez` and `/readyz` of edge and admin: what a load balancer is told.

use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;

use crate::{
    BACKGROUND,
    metrics::Page,
    world::{Site, World, eventually, ports},
};

/// Longest time for an answer, whatever hangs.
const PROMPT: Duration = Duration::from_secs(1);

async fn ask(port: u16, path: &str) -> Option<(u16, Value)> {
    let asked = async {
        let answer = reqwest::get(format!("http://127.0.0.1:{port}{path}")).await.ok()?;
        Some((answer.status().as_u16(), answer.json().await.unwrap()))
    };
    timeout(PROMPT, asked).await.expect("an answer is prompt")
}

/// Waits for a status and a word in a list of `/readyz`.
async fn until_it_says(port: u16, status: u16, list: &str, word: &str) -> Value {
    let mut body = Value::Null;
    eventually(BACKGROUND, &format!("{status}, with {word} {list}"), async || {
        let Some((found, said)) = ask(port, "/readyz").await else { return false };
        body = said;
        found == status && (word.is_empty() || body[list].as_array().unwrap().contains(&word.into()))
    })
    .await;
    body
}

fn listen(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

#[tokio::test]
async fn what_an_edge_can_lose_leaves_it_ready_and_is_named() {
    let (edge, admin) = (ports::free(), ports::free());
    let builder =
        World::builder().set("EDGE__METRICS_LISTEN", listen(edge)).set("ADMIN__METRICS_LISTEN", listen(admin));
    let mut world = builder.set("EDGE__NAME", "front 1").start().await;
    let body = until_it_says(edge, 200, "missing", "").await;
    assert_eq!((&body["status"], &body["name"]), (&"ready".into(), &"front1".into()), "{body}");
    assert!(body["version"].as_str().unwrap().starts_with("0.1.0 ("), "{body}");
    until_it_says(admin, 200, "missing", "").await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("warm")).await;
    let url = world.site_url("engine");
    world.edge().get(&url).await.assert_body(200, "warm");

    world.redis.kill();
    let body = until_it_says(edge, 200, "degraded", "redis").await;
    assert_eq!(body["status"], "ready");
    until_it_says(admin, 200, "degraded", "redis").await;
    world.stop_postgres().await;
    until_it_says(edge, 200, "degraded", "postgres").await;
    let body = until_it_says(admin, 503, "missing", "postgres").await;
    assert_eq!(body["status"], "not_ready");
    for port in [edge, admin] {
        assert_eq!(ask(port, "/livez").await.unwrap().0, 200);
    }
    world.edge().get(&url).await.assert_body(200, "warm");
    let page = Page::of(edge).await;
    assert_eq!(page.labelled("svc_dependency_up", "name=\"redis\""), Some(0.0), "{}", page.text);
    assert_eq!(page.labelled("svc_dependency_up", "name=\"postgres\""), Some(0.0));
    assert_eq!(page.labelled("svc_dependency_up", "name=\"store\""), Some(1.0));

    world.start_postgres().await;
    world.restart_redis();
    for port in [edge, admin] {
        eventually(BACKGROUND, "nothing is missing any more", async || {
            let (status, body) = ask(port, "/readyz").await.unwrap();
            status == 200 && body["degraded"].as_array().unwrap().iter().all(|word| word == "admin")
        })
        .await;
    }
}

#[tokio::test]
async fn an_edge_that_starts_without_postgres_is_not_ready_until_it_is_there() {
    let port = ports::free();
    let mut world = World::builder().set("EDGE__METRICS_LISTEN", listen(port)).start().await;
    until_it_says(port, 200, "missing", "").await;
    world.stop_postgres().await;
    world.start_edge_again(0);
    let body = until_it_says(port, 503, "missing", "changes").await;
    assert_eq!(body["status"], "not_ready");
    let body = until_it_says(port, 503, "degraded", "postgres").await;
    assert!(body["missing"].as_array().unwrap().contains(&"certificates".into()), "{body}");
    assert_eq!(ask(port, "/livez").await.unwrap().0, 200);
    world.start_postgres().await;
    until_it_says(port, 200, "missing", "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edge_that_drains_says_so_before_it_refuses_anybody() {
    let port = ports::free();
    let builder = World::builder().set("EDGE__METRICS_LISTEN", listen(port)).set("EDGE__DRAIN_NOTICE_SECONDS", 3600);
    let mut world = builder.start().await;
    until_it_says(port, 200, "missing", "").await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("served")).await;
    world.edge().process.signal("TERM");
    let body = until_it_says(port, 503, "missing", "").await;
    assert_eq!(body["status"], "draining");
    let visitor = world.edge().fresh_browser();
    let url = world.edge().address(&world.site_url("engine"));
    let visit = visitor.get(url).send().await.unwrap();
    assert_eq!(visit.status(), 200, "who comes before the balancer knows is served");
    // Whoever asks a second time does not want to wait.
    let status = tokio::task::block_in_place(|| world.edges[0].process.stop());
    assert!(status.success(), "{status}");
}

#[tokio::test]
async fn an_edge_that_waits_for_its_stores_name_lives_and_is_not_ready() {
    let port = ports::free();
    let mut world = World::builder().set("EDGE__METRICS_LISTEN", listen(port)).start().await;
    world.admin.kill();
    world.edges[0].process.kill();
    std::fs::remove_file(world.store_name_file()).unwrap();
    world.restart_edge_unready(0);
    let body = until_it_says(port, 503, "missing", "store").await;
    assert_eq!(body["status"], "not_ready", "{body}");
    assert_eq!(ask(port, "/livez").await.unwrap().0, 200);
    world.restart_admin_alone().await;
    until_it_says(port, 200, "missing", "").await;
}

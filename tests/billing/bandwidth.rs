//! Bandwidth: told at 80 and 100 percent, then served at a bounded rate at every edge; never charged, never cut off.

use serde_json::json;

use super::plans::{person, small_and_large, subscribe};
use crate::{
    BACKGROUND,
    metrics::Page,
    world::{Site, World, eventually, ports},
};

const LIMIT: u32 = 1_000_000;
/// Bytes of a file that is sent at a pace: more than go out immediately.
const FILE: usize = 100_000;

/// Has the site's traffic of this hour be so many bytes, and so many of them to people, and looks at it again.
async fn sent(world: &mut World, bytes: u32, people_bytes: u32) {
    world
        .sql(&format!(
            "INSERT INTO traffic_hours (hour, project_id, requests, bytes, cache_hits, cache_misses,
                                        status_2xx, status_3xx, status_4xx, status_5xx, status_other, people_bytes)
             SELECT date_trunc('hour', now(), 'UTC'), id, 1000000, {bytes}, 0, 0, 0, 0, 0, 0, 0, {people_bytes} FROM projects
             ON CONFLICT (hour, project_id) DO UPDATE SET bytes = excluded.bytes, people_bytes = excluded.people_bytes"
        ))
        .await;
    world.restart_admin_later().await;
}

async fn level(world: &World) -> i64 {
    world.sql_number("SELECT coalesce(max(percent), 0)::bigint FROM bandwidth_levels").await
}

#[tokio::test]
async fn who_is_over_is_served_slowly_at_every_edge_and_loses_nothing() {
    let plans = small_and_large(&json!({ "bandwidth_bytes": LIMIT }), &json!({}));
    let mut world = plans.edges(2).set("EDGE__OVER_PLAN_BYTES_PER_SECOND", 32 * 1024).start().await;
    let ports = [ports::free(), ports::free()];
    for (index, port) in ports.into_iter().enumerate() {
        world.set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{port}"));
        world.edges[index].process.kill();
        world.restart_edge(index).await;
    }
    let ada = world.user("ada").await;
    let file = vec![b'x'; FILE];
    let url = ada.publish("engine", &Site::page("home").file("large.bin", &file)).await.url;
    world.sql("UPDATE users SET email = 'ada@example.com'").await;
    let paced = async |index: usize| Page::of(ports[index]).await.sum("svc_edge_over_plan_requests_total").to_string();
    let visit = async |world: &World, index: usize| {
        world.edges[index].get(&format!("{url}/large.bin")).await.assert_body(200, &file);
    };
    for index in 0..2 {
        visit(&world, index).await;
    }

    // What crawlers take does not count.
    sent(&mut world, 100 * LIMIT, LIMIT / 10 * 8 - 1).await;
    let ran = "SELECT count(*) FROM job_leases WHERE job = 'compare bandwidth with plans' AND leased_until IS NULL
               AND last_run_at > now() - interval '1 hour'";
    eventually(BACKGROUND, "the job has run", async || world.sql_number(ran).await == 1).await;
    assert_eq!(level(&world).await, 0);

    sent(&mut world, 100 * LIMIT, LIMIT / 10 * 8).await;
    eventually(BACKGROUND, "80 percent are used", async || level(&world).await == 80).await;
    for index in 0..2 {
        visit(&world, index).await;
        assert_eq!(paced(index).await, "0");
    }

    sent(&mut world, 100 * LIMIT, LIMIT).await;
    eventually(BACKGROUND, "all is used", async || level(&world).await == 100).await;
    for index in 0..2 {
        eventually(BACKGROUND, "the edge knows", async || {
            world.edges[index].get(&url).await.assert_body(200, "home");
            paced(index).await != "0"
        })
        .await;
        visit(&world, index).await;
        let http1 = world.edges[index].get_http1(&format!("{url}/large.bin")).await;
        http1.assert_body(200, &file);
    }
    let events = "SELECT string_agg((content->>'percent'), ' ' ORDER BY created_at, id) FROM letters
                  WHERE kind = 'bandwidth_reached'";
    assert_eq!(world.sql_text(events).await, "80 100");

    // A larger plan lifts it, before anybody has counted again.
    subscribe(&world, &person(&world, "ada").await, "large").await;
    for index in 0..2 {
        eventually(BACKGROUND, "the edge knows of the plan", async || {
            let before = paced(index).await;
            visit(&world, index).await;
            paced(index).await == before
        })
        .await;
    }
    world.restart_admin_later().await;
    eventually(BACKGROUND, "the level is gone", async || level(&world).await == 0).await;
}

//! A Redis of another database.

use std::time::Duration;

use super::{FORMER, assert_refuses, start, stop};
use crate::{
    BACKGROUND,
    metrics::Page,
    world::{Site, World, eventually, ports},
};

const KEY: &str = "svc:database-name";
/// Sets the name, and says whether the name is a given one.
const GIVE: &str = "redis.call('SET', ARGV[1], ARGV[2]) return 1";
const IS: &str = "return redis.call('GET', ARGV[1]) == ARGV[2] and 1 or 0";

async fn name_becomes(world: &World, name: &str) {
    eventually(BACKGROUND, "Redis has a name", async || {
        world.redis_number("EVAL", &[IS, "0", KEY, name]).await == Some(1)
    })
    .await;
}

#[tokio::test]
async fn a_redis_of_another_database_is_refused_until_it_is_taken_over_by_name() {
    let mut world = World::start().await;
    let database = world.sql_text("SELECT name FROM database_name").await;
    name_becomes(&world, &database).await;
    stop(&mut world);
    world.redis_number("EVAL", &[GIVE, "0", KEY, FORMER]).await.unwrap();
    let refusal = ["the Redis", "redis.url", FORMER, &database, "redis.take_over_from"];
    let (_, mut admin) = world.start_admin_at_a_port();
    assert_refuses(&mut admin, &refusal).await;
    world.restart_edge_unready(0);
    assert_refuses(&mut world.edges[0].process, &refusal).await;

    world.set("REDIS__TAKE_OVER_FROM", FORMER);
    start(&mut world).await;
    name_becomes(&world, &database).await;
    stop(&mut world);
    world.redis_number("EVAL", &[GIVE, "0", KEY, FORMER]).await.unwrap();
    let (_, mut admin) = world.start_admin_at_a_port();
    assert_refuses(&mut admin, &refusal).await;
}

#[tokio::test]
async fn a_redis_that_becomes_another_databases_is_not_used_and_a_flushed_one_is_named_again() {
    let port = ports::free();
    let world = World::builder().set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{port}")).start().await;
    let ada = world.user("ada").await;
    let site = ada.publish("engine", &Site::page("hello")).await;
    world.edge().get(&site.url).await.assert_body(200, "hello");
    let database = world.sql_text("SELECT name FROM database_name").await;
    world.redis_command("FLUSHALL").await;
    name_becomes(&world, &database).await;

    world.redis_number("EVAL", &[GIVE, "0", KEY, FORMER]).await.unwrap();
    let health = async || world.nobody().get("/health").await.status.as_u16();
    let is_shown = async || Page::of(port).await.labelled("svc_foreign", "part=\"redis\"") == Some(1.0);
    eventually(BACKGROUND, "neither uses it", async || health().await == 503 && is_shown().await).await;
    for log in [world.admin.log(), world.edge().process.log()] {
        assert_eq!(log.matches("not used: the Redis").count(), 1, "{log}");
    }
    // As without any.
    world.edge().get(&site.url).await.assert_body(200, "hello");
    world.redis_number("EVAL", &[GIVE, "0", KEY, &database]).await.unwrap();
    eventually(BACKGROUND, "both use it again", async || health().await == 200 && !is_shown().await).await;
}

#[tokio::test]
async fn a_cluster_has_one_name() {
    let world = World::builder().redis_cluster().start().await;
    let names = async || world.redis_sum("EVAL", &["return #redis.call('KEYS', 'svc:database-name')", "0"]).await;
    eventually(BACKGROUND, "it is named", async || names().await == Some(1)).await;
    let node = world.redis_node_of(KEY).await;
    let port = world.redis_ports().nth(node).unwrap();
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
    let mut node = client.get_multiplexed_async_connection().await.unwrap();
    redis::cmd("DEL").arg(KEY).query_async::<i64>(&mut node).await.unwrap();
    eventually(BACKGROUND + Duration::from_secs(10), "it is named again", async || names().await == Some(1)).await;
}

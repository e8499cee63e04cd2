//! Logins that Redis refuses for a while: it was started without its users, or a password was being changed. And how many edges there
//! are while Redis is away.

use serde_json::json;

use crate::{
    BACKGROUND,
    invalidation::{propagation, three_edges_of},
    stubs::provider::{KEY, Provider},
    world::{
        Site, World,
        edge_rights::{EDGE_PASSWORD, EDGE_USER},
        eventually,
    },
};

/// Runs a command of several words at every node of the world's Redis, as its default user.
async fn command(world: &World, words: &[&str]) {
    for port in world.redis_ports() {
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let (name, arguments) = words.split_first().unwrap();
        redis::cmd(name).arg(arguments).query_async::<redis::Value>(&mut connection).await.unwrap();
    }
}

/// Takes the edges' user away and cuts their connections. They are back once they are heard again after it was made anew.
async fn refuse_for_a_while(world: &World, is_heard: impl AsyncFn() -> bool) {
    command(world, &["ACL", "DELUSER", EDGE_USER]).await;
    command(world, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    command(world, &["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    eventually(BACKGROUND, "the edges are refused", async || {
        world.edges.iter().all(|edge| edge.process.log().contains("Redis refuses the login of redis.url"))
    })
    .await;
    let user = live::acl::edge_user(EDGE_USER, EDGE_PASSWORD);
    let words: Vec<&str> = ["ACL", "SETUSER"].into_iter().chain(user.split(' ')).collect();
    command(world, &words).await;
    eventually(BACKGROUND, "every edge is back", is_heard).await;
}

#[tokio::test]
async fn an_edge_that_redis_refused_comes_back_by_itself() {
    let provider = Provider::start().await;
    let world = World::builder()
        .set("GATEWAY__PROVIDER_URL", &provider.url)
        .set("GATEWAY__PROVIDER_API_KEY", KEY)
        .start()
        .await;
    let ada = world.user("ada").await;
    let one = ada.publish("engine", &Site::page("one")).await;
    let key = ada.post("/tokens").json(&json!({ "kind": "ai" })).await.created();
    let key = key["token"].as_str().unwrap().to_owned();
    let body = json!({
        "model": "svc/gpt-oss-20b", "max_tokens": 100, "messages": [{ "role": "user", "content": "hello" }],
    });
    let completes = async || {
        let request = world.edge().post("https://ai.svc.localhost/v1/chat/completions");
        request.bearer(&key).json(&body).await.status == 200
    };
    eventually(BACKGROUND, "completions are served", completes).await;
    refuse_for_a_while(&world, async || {
        let listed = world.admin_prints(&["edges", "--json"]).await;
        completes().await && propagation(&ada, &one).await.starts_with("1/1") && listed.contains("\"seq\"")
    })
    .await;
}

#[tokio::test]
async fn edges_that_a_cluster_refused_come_back_by_themselves() {
    let world = World::builder().redis_cluster().edges(2).start().await;
    let ada = world.user("ada").await;
    let one = ada.publish("engine", &Site::page("one")).await;
    refuse_for_a_while(&world, async || propagation(&ada, &one).await.starts_with("2/2")).await;
}

#[tokio::test]
async fn how_many_edges_there_are_is_known_without_redis() {
    let (mut world, ada, [one, two]) = three_edges_of(World::builder()).await;
    let recorded = async || world.sql_number("SELECT count(*) FROM edge_positions").await;
    eventually(BACKGROUND, "every edge is recorded", async || recorded().await == 3).await;
    world.redis.kill();
    // What it heard of is forgotten with it.
    world.admin.kill();
    let settings = world.settings();
    let (_, address) = settings.iter().find(|(name, _)| name == "SVC__ADMIN__LISTEN").unwrap();
    world.admin = world.start_admin_at(address.rsplit(':').next().unwrap().parse().unwrap());
    eventually(BACKGROUND, "admin knows of every edge", async || {
        let activated = ada.activate("engine", &two.id).attempt().await;
        activated.is_ok_and(|answer| answer.status == 200 && answer.header("x-svc-propagation").starts_with("0/3"))
    })
    .await;
    // An edge that leaves is not counted, whoever cannot hear it.
    let gone = world.edges.pop().unwrap();
    gone.process.signal("TERM");
    eventually(BACKGROUND, "the other two are counted", async || {
        let answer = ada.activate("engine", &one.id).await;
        answer.status == 200 && answer.header("x-svc-propagation").starts_with("0/2")
    })
    .await;
    world.restart_redis();
    eventually(BACKGROUND, "they confirm again", async || propagation(&ada, &two).await.starts_with("2/2")).await;
}

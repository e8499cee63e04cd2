//! A Postgres whose packets are lost while everybody waits for it, and another machine that has its disk and its address then.

use sqlx::{Connection as _, PgConnection};
use tokio::{task::JoinHandle, time::timeout};

use super::{
    super::{served::without_limits, *},
    *,
};
use crate::world::answer::Answer;

/// The time within which everybody is answered, whoever is away: what the bounds of the programs allow, and some for a machine
/// that is busy.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// The status of the answer to a request, which comes in time.
async fn answer(what: &str, request: impl IntoFuture<Output = Answer>) -> u16 {
    let answer = timeout(ANSWERED_WITHIN, request.into_future()).await;
    answer.unwrap_or_else(|_| panic!("{what}: no answer within {ANSWERED_WITHIN:?}")).status.as_u16()
}

/// Takes tables away from everybody else, until the connection ends.
async fn lock(world: &World, tables: &str) -> PgConnection {
    let mut connection = PgConnection::connect(world.database.as_str()).await.unwrap();
    let sql = format!("BEGIN; LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE");
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    connection
}

/// Waits until so many statements wait for a table.
async fn are_waiting(locked: &mut PgConnection, count: i64, table: &str) {
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = $1::regclass";
    eventually(BACKGROUND, "the statements wait", async || {
        sqlx::query_scalar::<_, i64>(waiting).bind(table).fetch_one(&mut *locked).await.unwrap() >= count
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_postgres_whose_packets_are_dropped_is_given_up_for_the_one_at_its_address() {
    let (mut metered, mut received) = Metered::after_one(|builder| without_limits(builder).moved_postgres()).await;
    let ada = metered.ada.clone();
    let warm = ada.publish("warm", &Site::page("warm")).await;
    // Whoever changes something waits for the others of the same account.
    let bob = metered.world.user("bob").await;
    bob.publish("bobs", &Site::page("bobs")).await;
    for name in ["cold", "colder", "coldest"] {
        ada.publish(name, &Site::page(name)).await;
    }
    let cold = |name: &str| metered.world.edge().get(&metered.world.site_url(name));
    metered.world.edge().get(&warm.url).await.assert_body(200, "warm");
    let other_key = new_key(&ada).await;
    let mut events = ada.follow(None).await;
    let jobs = "SELECT count(*) FROM job_leases WHERE last_run_at > now() - interval '10 seconds'";
    eventually(BACKGROUND, "jobs run", async || metered.world.sql_number(jobs).await > 5).await;

    // Everybody waits for an answer when packets begin to be lost.
    let stood = metered.world.postgres_connections();
    assert!(!stood.is_empty());
    let mut written = lock(&metered.world, "route_counter, pending_route_changes, ai_usage, traffic_recent").await;
    metered.ask(&Completion::of(2, 1)).await.assert_status(200);
    received.add(&Completion::of(2, 1));
    let create = ada.post("/projects").header("idempotency-key", "one").json(&json!({ "name": "fresh" }));
    let mut under_way: Vec<JoinHandle<u16>> = vec![
        tokio::spawn(answer("a change under way", create)),
        tokio::spawn(answer("an upload under way", bob.upload("bobs", &Site::page("newer")))),
        tokio::spawn(answer("a cold site under way", cold("cold"))),
    ];
    are_waiting(&mut written, 2, "pending_route_changes").await;
    are_waiting(&mut written, 1, "route_counter").await;
    let mut read = lock(&metered.world, "tokens").await;
    under_way.push(tokio::spawn(answer("a request under way", ada.get("/projects"))));
    are_waiting(&mut read, 1, "tokens").await;
    let mut taken = lock(&metered.world, "job_leases").await;
    // An admin takes its leases over one connection.
    are_waiting(&mut taken, 1, "job_leases").await;
    metered.world.silence_postgres();

    // What is known is served, and the rest is refused.
    assert_eq!(answer("a known site", metered.world.edge().get(&warm.url)).await, 200);
    let known = Completion::of(3, 1);
    assert_eq!(answer("a known key", metered.ask(&known)).await, 200);
    received.add(&known);
    let unknown = Completion::of(4, 1);
    let (site, key, read, write, upload) = tokio::join!(
        answer("a cold site", cold("colder")),
        answer("a new key", metered.ask_at(0, &other_key, &unknown)),
        answer("a read", ada.get("/me")),
        answer("a change", ada.post("/projects").json(&json!({ "name": "never" }))),
        answer("an upload", ada.upload("warm", &Site::page("never"))),
    );
    assert_eq!([site, key, read, write, upload], [503; 5]);
    for asked in under_way {
        let status = asked.await.unwrap();
        // Whoever has waited for a lock for too long, on a busy machine, was told so before.
        assert!(status >= 500, "{status}");
    }

    metered.world.move_postgres().await;
    let coldest = metered.world.site_url("coldest");
    eventually(BACKGROUND, "cold sites are served", async || metered.world.edge().get(&coldest).await.status == 200)
        .await;
    eventually(BACKGROUND, "people are answered", async || ada.get("/me").await.status == 200).await;
    eventually(BACKGROUND, "sites are published", async || {
        ada.upload("warm", &Site::page("newest")).await.status == 201
    })
    .await;
    metered.world.edge().get(&warm.url).await.assert_body(200, "newest");
    eventually(BACKGROUND, "the new key works", async || metered.ask_at(0, &other_key, &unknown).await.status == 200)
        .await;
    received.add(&unknown);
    ada.create_project("two").await;
    while events.until("project.create").await.data["project"] != "two" {}
    eventually(BACKGROUND, "what stood is given up", async || metered.world.postgres_connections().is_disjoint(&stood))
        .await;
    eventually(BACKGROUND, "jobs run", async || metered.world.sql_number(jobs).await > 5).await;
    // One before the silence, one in it, and the last.
    eventually(BACKGROUND, "all visits are counted", async || {
        ada.get("/projects/warm/stats").await.ok()["totals"]["requests"] == 3
    })
    .await;
    metered.assert_ledger(&received, 0).await;
}

//! Bandwidth: told at 80 and 100 percent, then served at a bounded rate at every edge; never charged, never cut off.

use std::sync::atomic::{AtomicU32, Ordering};

use domain::{Account, role::Role};
use serde_json::json;
use sqlx::{Connection as _, PgConnection};

use super::plans::{end_subscription, org, person, small_and_large, subscribe};
use crate::{
    BACKGROUND,
    metrics::Page,
    world::{Actor, Site, World, eventually, ports},
};

const LIMIT: u32 = 1_000_000;
/// Bytes of a file that is sent at a pace: more than go out immediately.
const FILE: usize = 100_000;
/// The job has run since admin was started.
const RAN: &str = "SELECT count(*) FROM job_leases WHERE job = 'compare bandwidth with plans' AND leased_until IS NULL
                   AND last_run_at > now() - interval '1 hour'";
/// The percentages that letters tell of, in their order.
const TOLD: &str = "SELECT coalesce(string_agg(content->>'percent', ' ' ORDER BY created_at, id), '') FROM letters
                    WHERE kind = 'bandwidth_reached'";

/// Appends a batch, as an edge does: so many more bytes of the project within this hour, and so many of them to people.
async fn append(world: &World, project: &str, bytes: u32, people_bytes: u32) {
    static BATCHES: AtomicU32 = AtomicU32::new(1);
    let batch = BATCHES.fetch_add(1, Ordering::Relaxed);
    let appended = format!(
        "SELECT append_traffic('billing', {batch}, ARRAY[now()], ARRAY['{project}'],
                               ARRAY[1, {bytes}, 0, 1, 1, 0, 0, 0, 0, 1, {people_bytes}]::bigint[],
                               '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}')::text"
    );
    assert_eq!(world.sql_text(&appended).await, "true");
}

/// Appends the first batch of an account's month, and adds it to the month. Accounts are compared from then on, and the job
/// that does this need not be the first to run when admin starts.
async fn append_first(world: &World, project: &str, bytes: u32, people_bytes: u32) {
    append(world, project, bytes, people_bytes).await;
    world.sql("SELECT fold_traffic(1000)").await;
}

/// The id of a project.
async fn id(actor: &Actor, project: &str) -> String {
    actor.project(project).await["id"].as_str().unwrap().to_owned()
}

/// Starts admin as if a day had passed, and waits until it has compared.
async fn compare(world: &mut World) {
    world.restart_admin_later().await;
    eventually(BACKGROUND, "the job has run", async || world.sql_number(RAN).await == 1).await;
}

async fn level_of(world: &World, account: &Account) -> i64 {
    let sql = format!("SELECT coalesce(max(percent), 0)::bigint FROM bandwidth_levels WHERE account = '{account}'");
    world.sql_number(&sql).await
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
    let engine = id(&ada, "engine").await;
    world.sql("UPDATE users SET email = 'ada@example.com'").await;
    let paced = async |index: usize| Page::of(ports[index]).await.sum("svc_edge_over_plan_requests_total").to_string();
    let visit = async |world: &World, index: usize| {
        world.edges[index].get(&format!("{url}/large.bin")).await.assert_body(200, &file);
    };
    for index in 0..2 {
        visit(&world, index).await;
    }

    // What crawlers take does not count.
    append_first(&world, &engine, 100 * LIMIT, LIMIT / 10 * 8 - 1).await;
    compare(&mut world).await;
    assert_eq!(level(&world).await, 0);

    append(&world, &engine, 1, 1).await;
    world.restart_admin_later().await;
    eventually(BACKGROUND, "80 percent are used", async || level(&world).await == 80).await;
    for index in 0..2 {
        visit(&world, index).await;
        assert_eq!(paced(index).await, "0");
    }

    append(&world, &engine, LIMIT / 5, LIMIT / 5).await;
    world.restart_admin_later().await;
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
    assert_eq!(world.sql_text(TOLD).await, "80 100");

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

#[tokio::test]
async fn a_deletion_gives_nothing_back_and_a_move_takes_nothing_along() {
    let plans = small_and_large(&json!({ "bandwidth_bytes": LIMIT }), &json!({}));
    let mut world = plans.start().await;
    let port = ports::free();
    world.set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{port}"));
    world.edges[0].process.kill();
    world.restart_edge(0).await;
    let owner = world.staffed_org("acme").await.owner;
    world.sql("UPDATE users SET email = vcs_login || '@example.com'").await;
    let paced = async || Page::of(port).await.sum("svc_edge_over_plan_requests_total").to_string();
    let used = async |path: &str| owner.get(path).await.ok()["usage"]["bandwidth_bytes"].as_u64().unwrap();
    owner.publish("engine", &Site::page("home")).await;
    let engine = id(&owner, "engine").await;
    let account: Account = world.sql_text("SELECT user_id FROM projects WHERE name = 'engine'").await.parse().unwrap();
    append_first(&world, &engine, LIMIT, LIMIT).await;
    compare(&mut world).await;
    assert_eq!(level_of(&world, &account).await, 100);

    // Deleted and deployed again, twice, under another name and as a share: it is as slow as before.
    owner.delete("/projects/engine").await.ok();
    compare(&mut world).await;
    assert_eq!((level_of(&world, &account).await, used("/billing").await), (100, u64::from(LIMIT)));
    let again = owner.publish("again", &Site::page("again")).await.url;
    let share = owner.share(&Site::page("share"), 1).await.url;
    compare(&mut world).await;
    for (url, body) in [(&again, "again"), (&share, "share")] {
        let before = paced().await;
        world.edge().get(url).await.assert_body(200, body);
        assert_ne!(paced().await, before, "{url}");
    }
    // What an edge had not told of by then counts, too.
    append(&world, &engine, 5, 5).await;
    assert_eq!(used("/billing").await, u64::from(LIMIT) + 5);

    // Who gets a project pays for what it sends from then on.
    let id_of_again = id(&owner, "again").await;
    owner.post("/projects/again/transfer").json(&json!({ "org": "acme" })).await.ok();
    compare(&mut world).await;
    let acme = org(&world, "acme").await;
    assert_eq!((level_of(&world, &account).await, level_of(&world, &acme).await), (100, 0));
    assert_eq!((used("/billing").await, used("/orgs/acme/billing").await), (u64::from(LIMIT) + 5, 0));
    let before = paced().await;
    world.edge().get(&again).await.assert_body(200, "again");
    assert_eq!(paced().await, before, "the new owner has all of its bandwidth");
    append_first(&world, &id_of_again, LIMIT / 10 * 8, LIMIT / 10 * 8).await;
    owner.post("/projects/again/transfer").json(&json!({ "org": null })).await.ok();
    compare(&mut world).await;
    assert_eq!((level_of(&world, &account).await, level_of(&world, &acme).await), (100, 80));
    assert_eq!(used("/orgs/acme/billing").await, u64::from(LIMIT / 10 * 8));

    // Nobody is told twice.
    assert_eq!(world.sql_text(TOLD).await, "100 80");
}

#[tokio::test]
async fn people_are_told_once_by_however_many_admins() {
    let plans = small_and_large(&json!({ "bandwidth_bytes": LIMIT }), &json!({}));
    let mut world = plans.start().await;
    let ada = world.user("ada").await;
    world.sql("UPDATE users SET email = 'ada@example.com'").await;
    ada.publish("engine", &Site::page("home")).await;
    let engine = id(&ada, "engine").await;
    append_first(&world, &engine, 1, 1).await;
    let account = person(&world, "ada").await;
    let due = "UPDATE job_leases SET last_run_at = NULL, leased_until = NULL, cursor = NULL";

    for (more, before, after) in [(80, (0, ""), (80, "80")), (20, (80, "80"), (100, "80 100"))] {
        // Killed when the level is written and the letter is not.
        let mut held = PgConnection::connect(world.database.as_str()).await.unwrap();
        let mut tx = held.begin().await.unwrap();
        sqlx::query("LOCK TABLE letters IN SHARE MODE").execute(&mut *tx).await.unwrap();
        append(&world, &engine, LIMIT / 100 * more, LIMIT / 100 * more).await;
        world.admin.kill();
        world.sql(due).await;
        let mut admins = [world.start_another_admin(), world.start_another_admin()];
        let waits = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
                     WHERE NOT granted AND relation = 'letters'::regclass AND query LIKE '%INSERT INTO letters%'";
        eventually(BACKGROUND, "one is about to write the letter", async || world.sql_number(waits).await > 0).await;
        for admin in &mut admins {
            admin.kill();
        }
        tx.rollback().await.unwrap();
        eventually(BACKGROUND, "its transaction has ended", async || world.sql_number(waits).await == 0).await;
        assert_eq!((level_of(&world, &account).await, &*world.sql_text(TOLD).await), before);

        // Then three of them, each of which takes the job to be its own again and again.
        world.sql(due).await;
        let others = [world.start_another_admin(), world.start_another_admin()];
        world.restart_admin_later().await;
        for _ in 0..3 {
            world.sql(due).await;
            compare(&mut world).await;
        }
        drop(others);
        assert_eq!((level_of(&world, &account).await, &*world.sql_text(TOLD).await), after);
    }
    // Neither a plan that is changed and changed back nor a deletion makes it news.
    subscribe(&world, &account, "large").await;
    compare(&mut world).await;
    assert_eq!(level_of(&world, &account).await, 0);
    end_subscription(&world, &account).await;
    ada.delete("/projects/engine").await.ok();
    compare(&mut world).await;
    assert_eq!((level_of(&world, &account).await, world.sql_text(TOLD).await), (100, "80 100".to_owned()));
}

#[tokio::test]
async fn accounts_are_gone_through_from_where_the_last_run_was_cut_off() {
    let plans = small_and_large(&json!({ "bandwidth_bytes": LIMIT }), &json!({}));
    let mut world = plans.start().await;
    let account = |letter: char| Account::User(format!("usr_{}", letter.to_string().repeat(20)).parse().unwrap());
    let [first, second, third] = ['a', 'b', 'c'].map(account);
    world.admin.kill();
    world
        .sql(&format!(
            "INSERT INTO bandwidth_months (month, account, people_bytes)
                 SELECT date_trunc('month', now() AT TIME ZONE 'UTC')::date, account, {LIMIT}
                 FROM unnest(ARRAY['{first}', '{second}', '{third}']) AS account;
             INSERT INTO job_leases (job, cursor) VALUES ('compare bandwidth with plans', '{second}')
                 ON CONFLICT (job) DO UPDATE SET cursor = excluded.cursor"
        ))
        .await;
    let levels = async |world: &World| {
        [level_of(world, &first).await, level_of(world, &second).await, level_of(world, &third).await]
    };
    compare(&mut world).await;
    assert_eq!(levels(&world).await, [0, 0, 100]);
    compare(&mut world).await;
    assert_eq!(levels(&world).await, [100, 100, 100]);
}

/// Organizations without a subscription share one free plan, those of one creator: no one of them alone is over.
#[tokio::test]
async fn organizations_of_one_creator_use_one_free_bandwidth() {
    let mut world = small_and_large(&json!({ "bandwidth_bytes": LIMIT }), &json!({})).start().await;
    let ada = world.user("ada").await;
    let mut projects = Vec::new();
    for name in ["acme", "band", "club", "dojo"] {
        let org = ada.create_org(name).await;
        ada.create_project_in(&org, &format!("site-of-{name}")).await;
        projects.push(id(&ada, &format!("site-of-{name}")).await);
    }
    ada.create_project("mine").await;
    let mine = id(&ada, "mine").await;
    // One is subscribed; one is deleted after it has used its part.
    subscribe(&world, &org(&world, "dojo").await, "large").await;
    append_first(&world, &projects[3], LIMIT, LIMIT).await;
    append_first(&world, &mine, LIMIT / 2, LIMIT / 2).await;
    append_first(&world, &projects[2], LIMIT / 4, LIMIT / 4).await;
    ada.delete("/projects/site-of-club").await.ok();
    ada.delete("/orgs/club").await.ok();
    append_first(&world, &projects[0], LIMIT / 4, LIMIT / 4).await;
    append_first(&world, &projects[1], LIMIT / 4, LIMIT / 4).await;
    compare(&mut world).await;
    assert_eq!(level(&world).await, 0, "three quarters are used");
    append(&world, &projects[1], LIMIT / 4, LIMIT / 4).await;
    world.restart_admin_later().await;
    let (acme, band) = (org(&world, "acme").await, org(&world, "band").await);
    eventually(BACKGROUND, "both are over", async || {
        level_of(&world, &acme).await == 100 && level_of(&world, &band).await == 100
    })
    .await;
    assert_eq!(level_of(&world, &org(&world, "dojo").await).await, 0);
    assert_eq!(level_of(&world, &person(&world, "ada").await).await, 0);
    let shown = ada.get("/orgs/acme/billing").await.ok();
    assert_eq!(shown["usage"]["bandwidth_bytes"], LIMIT / 4);
    assert_eq!(shown["shared_usage"]["usage"]["bandwidth_bytes"], LIMIT);
    // Who subscribes leaves the others room. What was used before counts for them no more than a new organization does.
    subscribe(&world, &band, "large").await;
    world.restart_admin_later().await;
    eventually(BACKGROUND, "the other has room again", async || level_of(&world, &acme).await == 0).await;
}

/// What an organization had sent until it was handed over stays with who paid for it then, for the month.
#[tokio::test]
async fn an_organization_that_is_handed_over_leaves_behind_what_it_has_used() {
    let mut world = small_and_large(&json!({ "bandwidth_bytes": LIMIT }), &json!({})).start().await;
    let (ada, bob) = (world.user("ada").await, world.user("bob").await);
    let mut projects = Vec::new();
    for name in ["acme", "band"] {
        let org = ada.create_org(name).await;
        ada.create_project_in(&org, &format!("site-of-{name}")).await;
        projects.push(id(&ada, &format!("site-of-{name}")).await);
        org.admit(&bob, Role::Owner).await;
    }
    append_first(&world, &projects[0], LIMIT / 2, LIMIT / 2).await;
    bob.delete("/orgs/acme/members/ada").await.ok();
    append_first(&world, &projects[1], LIMIT / 4, LIMIT / 4).await;
    let shown = ada.get("/orgs/band/billing").await.ok();
    assert_eq!(shown["shared_usage"]["usage"]["bandwidth_bytes"], LIMIT / 4 * 3);
    // What it sends from now on counts for its new payer alone.
    append(&world, &projects[0], LIMIT / 4, LIMIT / 4).await;
    compare(&mut world).await;
    assert_eq!(level(&world).await, 0);
    append(&world, &projects[1], LIMIT / 4, LIMIT / 4).await;
    world.restart_admin_later().await;
    let band = org(&world, "band").await;
    eventually(BACKGROUND, "the former payer is over", async || level_of(&world, &band).await == 100).await;
    assert_eq!(level_of(&world, &org(&world, "acme").await).await, 0);
}

//! Postgres behind a pooler in transaction mode, which has far fewer sessions there than the programs have connections.

use futures_util::future::join_all;
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};
use url::Url;

use crate::{
    BACKGROUND,
    stubs::provider::{KEY, Provider},
    world::{Actor, Site, World, eventually},
};

/// Clients that ask concurrently, and what each asks for in turn.
const CLIENTS: usize = 40;
const ROUNDS: usize = 5;
/// The accounts of the clients: one has few uploads at a time.
const PEOPLE: usize = 10;

async fn create_key(actor: &Actor) -> String {
    actor.post("/tokens").json(&json!({ "kind": "ai" })).await.created()["token"].as_str().unwrap().to_owned()
}

async fn complete(world: &World, key: &str) -> u16 {
    let url = format!("https://ai.svc.localhost:{}/v1/chat/completions", world.public_port());
    let body = json!({ "model": "svc/gpt-oss-20b", "messages": [{ "role": "user", "content": "Hi?" }] });
    world.edge().post(&url).bearer(key).json(&body).await.status.as_u16()
}

/// What the doctor says of the pooler: its level, and what helps.
async fn diagnosis(world: &World) -> (String, String) {
    let output = world.operate(&["doctor", "--json"]).await;
    let checks: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let check = checks.iter().find(|check| check["name"] == "pooler").unwrap_or_else(|| panic!("{checks:?}"));
    (check["level"].as_str().unwrap().to_owned(), check.to_string())
}

/// Makes and grants a role of edges through the pooler, logs in as it, and removes it.
async fn a_role_of_edges_is_made(world: &World) {
    let role = format!("svc_test_pooled_{}", std::process::id());
    let password = world.admin_prints(&["grant-edge", &role]).await;
    let mut url = world.database.clone();
    url.set_username(&role).unwrap();
    url.set_password(Some(password.trim())).unwrap();
    let mut edge = PgConnection::connect(url.as_str()).await.unwrap();
    sqlx::raw_sql("SELECT last_seq FROM route_counter").execute(&mut edge).await.unwrap();
    assert_eq!(world.admin_prints(&["grant-edge", &role]).await, "", "it is there");
    edge.close().await.unwrap();
    world
        .sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}; DELETE FROM edge_roles WHERE role_name = '{role}'"))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_works_behind_it() {
    let provider = Provider::start().await;
    let mut world = World::builder()
        .pooler()
        .edges(2)
        .set("EDGE__HTTP_MODE", "serve")
        .set("GATEWAY__PROVIDER_URL", &provider.url)
        .set("GATEWAY__PROVIDER_API_KEY", KEY)
        .set("LIMITS__GATEWAY_PER_MIN", 1_000_000)
        .set("LIMITS__GATEWAY_CONCURRENT", 1_000)
        .set("STORE__TRASH_DAYS", 0)
        .start()
        .await;
    let ada = world.user("ada").await;

    // Receipts, epochs and purges: what is acknowledged is what every edge answers.
    let first = ada.publish("engine", &Site::page("one")).await;
    let second = ada.deploy("engine", &Site::page("two")).await;
    assert!(second.propagation.starts_with("2/2;"), "{}", second.propagation);
    let everywhere = async |url: &str, body: &str| {
        for edge in &world.edges {
            edge.get(url).await.assert_body(200, body);
        }
    };
    everywhere(&first.url, "two").await;
    ada.activate("engine", &first.id).await.ok();
    everywhere(&first.url, "one").await;
    let attached = ada.post("/projects/engine/domains").json(&json!({ "domain": "www.example.com" })).await;
    assert!(attached.header("x-svc-propagation").starts_with("2/2;"));
    attached.created();
    everywhere("http://www.example.com/", "one").await;

    // Many at once.
    let key = create_key(&ada).await;
    let mut people = Vec::new();
    for number in 0..PEOPLE {
        people.push(world.user(&format!("person-{number}")).await);
    }
    let client = async |number: usize| {
        let (name, mut failed) = (format!("site-{number}"), Vec::new());
        let person = &people[number % PEOPLE];
        for round in 0..ROUNDS {
            let page = format!("{number} {round}");
            let statuses = [
                match round {
                    0 => person.post("/projects").json(&json!({ "name": name })).await.status.as_u16(),
                    _ => person.get(&format!("/projects/{name}")).await.status.as_u16(),
                },
                person.upload(&name, &Site::page(&page)).await.status.as_u16(),
                world.edges[round % 2].get(&world.site_url(&name)).await.status.as_u16(),
                complete(&world, &key).await,
                person.get(&format!("/projects/{name}/stats")).await.status.as_u16(),
            ];
            let failures = statuses.into_iter().enumerate().filter(|(_, status)| !(200..300).contains(status));
            failed.extend(failures.map(|failure| (round, failure)));
        }
        failed
    };
    let failed: Vec<_> = join_all((0..CLIENTS).map(client)).await.into_iter().flatten().collect();
    assert!(failed.is_empty(), "{} of {} failed: {failed:?}", failed.len(), 5 * CLIENTS * ROUNDS);
    let completions = i64::try_from(CLIENTS * ROUNDS).unwrap();
    let recorded = async || world.sql_number("SELECT count(*) FROM ai_usage").await == completions;
    eventually(BACKGROUND, "every completion is recorded", recorded).await;
    let live = async || people[0].get("/projects/site-0/stats").await.ok()["totals"]["requests"] == ROUNDS;
    eventually(BACKGROUND, "every visit is counted", live).await;
    let sessions = world.sql_number("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()").await;
    assert!(sessions <= 10, "{sessions} sessions");

    // Postgres away: the pooler answers in its place.
    everywhere(&first.url, "one").await;
    world.stop_postgres().await;
    ada.get("/projects").await.assert_error(503, "busy");
    everywhere(&first.url, "one").await;
    world.start_postgres().await;
    eventually(BACKGROUND, "the API answers again", async || ada.get("/projects").await.status == 200).await;

    // Every job, with something to do for some.
    ada.delete(&format!("/projects/engine/deployments/{}", second.id)).await.ok();
    people[1].delete("/projects/site-1").await.ok();
    for edge in &world.edges {
        assert_eq!(edge.get(&world.site_url("site-1")).await.status, 404);
    }
    world.restart_admin_later().await;
    let idle =
        "SELECT count(*) FROM job_leases WHERE last_error IS NOT NULL OR last_run_at < now() - interval '12 hours'";
    eventually(BACKGROUND, "every job has run", async || world.sql_number(idle).await == 0).await;
    let lacking =
        world.sql_text("SELECT coalesce(string_agg(job || ': ' || last_error, '; '), '') FROM job_leases").await;
    assert_eq!(lacking, "");

    // What holds on to a session goes around the pooler.
    let place = Url::from_directory_path(world.folder().join("backups")).unwrap();
    world.admin_prints(&["backup", place.as_str()]).await;
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
                   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    assert_eq!(world.sql_number(locks).await, 0, "a lock of a session was left behind");

    a_role_of_edges_is_made(&world).await;

    // The settings of sessions are the role's.
    let (level, check) = diagnosis(&world).await;
    assert!(level == "warn" && check.contains("SET statement_timeout = '15s'"), "{check}");
    let settings = db::pooler::SETTINGS.map(|(name, value, _)| {
        format!(
            "EXECUTE format('ALTER ROLE %I IN DATABASE %I SET {name} = ''{value}''', current_user, current_database());"
        )
    });
    world.sql(&format!("DO $$ BEGIN {} END $$", settings.concat())).await;
    world.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()").await;
    eventually(BACKGROUND, "the settings are in force", async || diagnosis(&world).await.0 == "ok").await;
}

#[tokio::test]
async fn what_it_cannot_do_is_said_at_the_start() {
    let mut world = World::start().await;
    let usual = world.settings();
    let (keeping, old) = (world.start_pooler(true).await, world.start_pooler(false).await);
    let direct = world.database.to_string();
    let transaction = ("POOLER", "transaction".to_owned());
    for (settings, sentence) in [
        (vec![("URL", old.url().to_string()), transaction.clone(), ("DIRECT_URL", direct)], "max_prepared_statements"),
        (vec![("URL", keeping.url().to_string()), transaction.clone()], "set postgres.direct_url"),
        (vec![("URL", keeping.url().to_string())], "set postgres.pooler = \"transaction\""),
    ] {
        world.replace_settings(usual.clone());
        for (key, value) in settings {
            world.set(&format!("POSTGRES__{key}"), value);
        }
        let refused = world.operate(&["resume", "engine"]).await;
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains(sentence), "{sentence}: {said}");
    }
    // The last of them is an edge's reason, too.
    let edge = &mut world.edges[0].process;
    edge.kill();
    world.restart_edge_unready(0);
    let edge = &mut world.edges[0].process;
    assert!(!edge.wait().success() && edge.log().contains("set postgres.pooler"), "{}", edge.log_tail());
}

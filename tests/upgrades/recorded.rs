//! What the programs of the version before left behind: messages on Redis, journals in the spool, packs in the store. Today's
//! programs read it.
//!
//! `SVC_WRITE_FIXTURES=1 SVC_TEST_PROGRAMS=<folder of the version's programs>` records it anew, in tests/upgrades/fixtures.

use std::{
    collections::BTreeMap,
    fs::{self, Permissions},
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use futures_util::StreamExt as _;
use serde_json::{Value, json};

use crate::{
    BACKGROUND,
    stubs::provider::Provider,
    world::{Site, World, bucket::files_below, eventually},
};

/// Completions and visits that the recorded journals hold.
const COMPLETIONS: i64 = 4;
const VISITS: i64 = 1;
/// An hour, in the unit of the journals.
const HOUR_MILLIS: u64 = 3_600_000;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("upgrades/fixtures")
}

fn site() -> Site {
    Site::page("<p>recorded</p>")
        .file("a/b.txt", "words ".repeat(300))
        .file("_headers", "/a/*\n  X-Recorded: yes\n")
        .file("_redirects", "/old /a/b.txt 301\n")
}

/// Records everything, when that is asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recordings_are_made() {
    if std::env::var_os("SVC_WRITE_FIXTURES").is_none() {
        return;
    }
    let provider = Provider::start().await;
    let mut world = World::builder().set("GATEWAY__PROVIDER_URL", &provider.url).start().await;
    let redis = redis::Client::open(format!("redis://127.0.0.1:{}", world.redis_port)).unwrap();
    let mut subscription = redis.get_async_pubsub().await.unwrap();
    subscription.psubscribe("svc:*").await.unwrap();

    let ada = world.user("ada").await;
    let live = ada.publish("engine", &site()).await;
    let key = ada.post("/tokens").json(&json!({ "kind": "ai" })).await.created();
    ada.put("/projects/engine/password").json(&json!({ "password": "open sesame" })).await.ok();
    ada.delete("/projects/engine/password").await.ok();
    ada.post("/orgs").json(&json!({ "name": "acme" })).await.created();
    ada.post("/projects/engine/domains").json(&json!({ "domain": "www.example.org" })).await.created();
    let share = ada.share(&Site::page("x"), 1).await;
    ada.delete(&format!("/shares/{}", share.share_name())).await.ok();
    let ask = async |world: &World| {
        let body = json!({ "model": "svc/gpt-oss-20b", "messages": [{ "role": "user", "content": "hello" }] });
        let url = "https://ai.svc.localhost/v1/chat/completions";
        world.edge().post(url).bearer(key["token"].as_str().unwrap()).json(&body).await.assert_status(200);
    };
    ask(&world).await;
    let rows = async || world.sql_number("SELECT count(*) FROM ai_usage").await;
    eventually(BACKGROUND, "a completion is recorded", async || rows().await == 1).await;
    world.edge().get(&live.url).await.assert_status(200);
    let database = world.sql_text("SELECT name FROM database_name").await;
    let (user, project) =
        (world.sql_text("SELECT id FROM users").await, world.sql_text("SELECT id FROM projects").await);
    let counted = async || world.sql_number("SELECT count(*) FROM traffic_recent").await;
    eventually(BACKGROUND, "the visit is counted", async || counted().await > 0).await;
    world.stop_postgres().await;
    for _ in 1..COMPLETIONS {
        ask(&world).await;
    }
    let spool = world.folder().join("spool");
    let text =
        || files_below(&spool).iter().map(|file| fs::read_to_string(file).unwrap_or_default()).collect::<String>();
    eventually(BACKGROUND, "the visits are in the journal", async || text().contains("\"parts\"")).await;
    world.edges[0].process.kill();

    let to = fixtures();
    let _ = fs::remove_dir_all(&to);
    for folder in ["spool", "pack"] {
        fs::create_dir_all(to.join(folder)).unwrap();
    }
    let mut segments = 0;
    for file in files_below(&spool).iter().filter(|file| !file.starts_with(spool.join("settled"))) {
        if let Ok(text) = fs::read_to_string(file)
            && text.lines().count() > 2
        {
            segments += 1;
            fs::copy(file, to.join("spool").join(file.file_name().unwrap())).unwrap();
        }
    }
    assert_eq!(segments, 2);
    for object in ["data", "manifest"] {
        let pack = world.folder().join("store/deployments").join(&live.id);
        fs::copy(pack.join(object), to.join("pack").join(object)).unwrap();
    }
    let facts = json!({ "database": database, "user": user, "project": project, "token": key["id"] });
    fs::write(to.join("facts.json"), serde_json::to_vec_pretty(&facts).unwrap()).unwrap();
    // One message of each kind: without the parts that differ from one to the next.
    let mut kinds = BTreeMap::new();
    let mut messages = subscription.on_message();
    while let Ok(Some(message)) = tokio::time::timeout(std::time::Duration::from_millis(500), messages.next()).await {
        let payload: String = message.get_payload().unwrap();
        let shape: String = payload.chars().filter(|c| !c.is_ascii_digit()).collect();
        let channel = message.get_channel_name().to_owned();
        kinds.entry((channel.clone(), shape.split('_').next().unwrap().to_owned())).or_insert((channel, payload));
    }
    let lines =
        kinds.into_values().fold(String::new(), |lines, (channel, payload)| lines + &format!("{channel}\t{payload}\n"));
    fs::write(to.join("messages.tsv"), lines).unwrap();
}

fn facts() -> Value {
    serde_json::from_slice(&fs::read(fixtures().join("facts.json")).unwrap()).unwrap()
}

#[tokio::test]
async fn a_pack_is_served() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let live = ada.publish("engine", &Site::page("to be replaced")).await;
    let pack = world.folder().join("store/deployments").join(&live.id);
    for object in ["data", "manifest"] {
        fs::copy(fixtures().join("pack").join(object), pack.join(object)).unwrap();
    }
    let edge = world.edge();
    edge.get(&live.url).await.assert_body(200, "<p>recorded</p>");
    let page = edge.get(&format!("{}/a/b.txt", live.url)).header("accept-encoding", "zstd").await.assert_status(200);
    assert_eq!((page.header("x-recorded"), page.header("content-encoding")), ("yes", "zstd"));
    assert_eq!(zstd::decode_all(&*page.body).unwrap(), "words ".repeat(300).as_bytes());
    edge.get(&format!("{}/old", live.url)).await.assert_redirect(301, "/a/b.txt");
    let files = ada.get(&format!("/projects/engine/deployments/{}/files", live.id)).await.ok();
    assert_eq!(files["files"].as_array().unwrap().len(), 2);
}

/// A line of a journal with its times moved to the present: what is very old is not counted any more.
fn as_of_now(line: &str) -> String {
    let now = domain::Clock::system().now();
    let mut line: Value = serde_json::from_str(line).unwrap();
    if line["hour"].is_u64() {
        line["hour"] = json!(now.unix_millis() / HOUR_MILLIS * HOUR_MILLIS);
    }
    for kind in ["open", "ended"] {
        if line[kind].is_object() {
            line[kind]["at"] = json!(now);
        }
    }
    format!("{line}\n")
}

#[tokio::test]
async fn journals_are_taken_over() {
    let mut world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    let facts = facts();
    let fact = |name: &str| facts[name].as_str().unwrap().to_owned();
    let rows = format!(
        "INSERT INTO users (id, vcs_id, vcs_login, created_at) VALUES ('{user}', 'recorded', 'recorded', now());
         INSERT INTO tokens (id, kind, user_id, secret_hash, created_at) VALUES ('{token}', 'ai', '{user}', '\\x00', now());
         INSERT INTO projects SELECT (jsonb_populate_record(p, jsonb_build_object(
             'id', '{project}', 'name', 'recorded'))).* FROM projects p",
        user = fact("user"),
        token = fact("token"),
        project = fact("project"),
    );
    world.sql(&rows).await;
    world.edges[0].process.kill();
    // Of another database they would stay where they are.
    let here = world.sql_text("SELECT name FROM database_name").await;
    let spool = world.folder().join("spool");
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&spool).unwrap();
    for file in files_below(&fixtures().join("spool")) {
        let text = fs::read_to_string(&file).unwrap().replace(&fact("database"), &here);
        let copy = spool.join(file.file_name().unwrap());
        fs::write(&copy, text.lines().map(as_of_now).collect::<String>()).unwrap();
        fs::set_permissions(&copy, Permissions::from_mode(0o600)).unwrap();
    }
    world.restart_edge(0).await;
    let usage = format!("SELECT count(*) FROM ai_usage WHERE token_id = '{}'", fact("token"));
    eventually(2 * BACKGROUND, "the completions are recorded", async || world.sql_number(&usage).await == COMPLETIONS)
        .await;
    let project = fact("project");
    let visits = format!(
        "SELECT coalesce(sum(requests), 0)::bigint FROM (
             SELECT sums[1] AS requests FROM traffic_recent WHERE project_id = '{project}'
             UNION ALL SELECT requests FROM traffic_hours WHERE project_id = '{project}') counted"
    );
    eventually(2 * BACKGROUND, "the visits are counted", async || world.sql_number(&visits).await == VISITS).await;
}

#[tokio::test]
async fn messages_are_understood() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let live = ada.publish("engine", &Site::page("engine")).await;
    let redis = redis::Client::open(format!("redis://127.0.0.1:{}", world.redis_port)).unwrap();
    let mut redis = redis.get_multiplexed_async_connection().await.unwrap();
    let recorded = fs::read_to_string(fixtures().join("messages.tsv")).unwrap();
    let messages: Vec<(&str, &str)> = recorded.lines().map(|line| line.split_once('\t').unwrap()).collect();
    for kind in ["svc:route-changes", "svc:edge-acks"] {
        assert!(messages.iter().any(|(channel, _)| *channel == kind), "{kind}");
    }
    // The recorded edge is one more that changes are to reach.
    eventually(BACKGROUND, "the recorded edge is heard", async || {
        for (channel, payload) in &messages {
            let publish = redis::cmd("PUBLISH").arg(channel).arg(payload).to_owned();
            publish.query_async::<i64>(&mut redis.clone()).await.unwrap();
        }
        let changed = ada.activate("engine", &live.id).await.assert_status(200);
        changed.header("x-svc-propagation").contains("/2;")
    })
    .await;
    for process in [&world.admin, &world.edge().process] {
        let log = process.log();
        let complaint = log.lines().find(|line| line.contains("cannot be read") || line.contains("not understood"));
        assert_eq!(complaint, None);
    }
    redis::cmd("PING").query_async::<String>(&mut redis).await.unwrap();
    world.edge().get(&live.url).await.assert_body(200, "engine");
}

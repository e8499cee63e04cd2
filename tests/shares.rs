//! `/shares`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    BACKGROUND,
    world::{
        Actor, Site, World,
        answer::{assert_keys, parse_id, parse_timestamp},
        eventually,
        site::gzip,
    },
};

const DAY: i64 = 24 * 60 * 60;

fn now() -> i64 {
    domain::Clock::system().now().unix_seconds()
}

async fn shares(actor: &Actor) -> Vec<Value> {
    let list = actor.get("/shares").await.ok();
    assert_keys(&list, "shares next_cursor");
    list["shares"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_share_is_live_at_three_words_when_it_is_answered() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let before = now();
    let share = ada.share(&Site::page("look"), 3).await;
    assert_keys(&share.body, "deployment_id url expires_at");
    parse_id(&share.body["deployment_id"], "dep_");
    let expires_at = parse_timestamp(&share.body["expires_at"]);
    assert!((before + 3 * DAY - 1..=now() + 3 * DAY + 1).contains(&expires_at));

    let host = share.url.strip_prefix("https://").unwrap();
    let (words, domain) = host.split_once('.').unwrap();
    assert_eq!(domain, format!("share.localhost:{}", world.public_port()));
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase());
    assert!(words.split('-').count() == 3 && words.split('-').all(is_word), "{words}");

    let answer = world.edge().get(&share.url).await.assert_body(200, "look");
    assert!(answer.header("x-robots-tag").contains("noindex"));

    let entry = &shares(&ada).await[0];
    assert_keys(entry, "name url project expires_at created_at files bytes protected");
    assert_eq!(entry["name"], words);
    assert_eq!(entry["url"], share.url);
    assert_eq!(entry["expires_at"], share.body["expires_at"]);
    assert_eq!(entry["files"], 1);
    assert_eq!(entry["bytes"], 4);
    assert_eq!(entry["protected"], false);
    let project = entry["project"].as_str().unwrap();
    let tail = project.strip_prefix("tmp-").unwrap();
    assert!(tail.len() == 10 && tail.bytes().all(|b| b.is_ascii_alphanumeric()), "{project}");

    // The project behind it has no address of its own, and is not among the projects.
    world.edge().get(&world.site_url(project)).await.assert_status(404);
    let permanent = format!("{}--{project}", share.id.trim_start_matches("dep_"));
    world.edge().get(&world.site_url(&permanent)).await.assert_status(404);
    assert_eq!(ada.get("/projects").await.ok()["projects"], json!([]));
}

#[tokio::test]
async fn ttl_is_1_to_30_days() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let tarball = Site::page("look").tarball();
    for bad in ["0", "31", "-1", "1.5", "x", "", "4294967297", "1e1", "7d"] {
        let path = format!("/shares?ttl={bad}");
        ada.post(&path).upload(tarball.clone()).await.assert_error(400, "invalid_request");
    }
    assert_eq!(shares(&ada).await.len(), 0);
    for (query, days) in [("", 7), ("?ttl=1", 1), ("?ttl=30", 30)] {
        let body = ada.post(&format!("/shares{query}")).upload(tarball.clone()).await.created();
        let left = parse_timestamp(&body["expires_at"]) - now();
        assert!((left - days * DAY).abs() < 60, "{query}: {left}");
    }
}

#[tokio::test]
async fn a_share_obeys_the_archive_rules_and_leaves_nothing_when_refused() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.post("/shares").upload(Site::new().tarball()).await.assert_error(400, "invalid_archive");
    ada.post("/shares").upload(gzip(b"no tar")).await.assert_error(400, "invalid_archive");
    let plain = ada.post("/shares").header("content-type", "application/x-tar").body("no tar");
    plain.await.assert_error(415, "unsupported_media_type");
    assert_eq!(shares(&ada).await.len(), 0);
    assert_eq!(world.stored_files().len(), 0);
}

#[tokio::test]
async fn a_password_stands_before_the_first_request() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let tarball = Site::page("secret").tarball();
    for bad in ["abc", &"x".repeat(129)] {
        let upload = ada.post("/shares").upload(tarball.clone()).header("x-svc-share-password", bad);
        upload.await.assert_error(400, "invalid_request");
    }
    assert_eq!(shares(&ada).await.len(), 0);
    let upload = ada.post("/shares").upload(tarball).header("x-svc-share-password", "hunter22");
    let url = upload.await.created()["url"].as_str().unwrap().to_owned();
    assert!(!world.edge().get(&url).await.assert_status(401).text().contains("secret"));
    let credentials = format!("Basic {}", base64("anyone:hunter22"));
    world.edge().get(&url).header("authorization", credentials).await.assert_body(200, "secret");
    assert_eq!(shares(&ada).await[0]["protected"], true);
}

#[tokio::test]
async fn a_share_can_be_gated_later_through_its_project() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let share = ada.share(&Site::page("secret"), 1).await;
    let project = shares(&ada).await[0]["project"].as_str().unwrap().to_owned();
    world.edge().get(&share.url).await.assert_body(200, "secret");
    let path = format!("/projects/{project}/password");
    ada.put(&path).json(&json!({ "password": "hunter22" })).await.ok();
    world.edge().get(&share.url).await.assert_status(401);
    assert_eq!(shares(&ada).await[0]["protected"], true);
}

#[tokio::test]
async fn a_deleted_share_is_gone_at_once() {
    let world = World::start().await;
    let (ada, eve) = (world.user("ada").await, world.user("eve").await);
    for by_project in [false, true] {
        let share = ada.share(&Site::page("look"), 1).await;
        world.edge().get(&share.url).await.assert_body(200, "look");
        let entry = shares(&ada).await[0].clone();
        let name = entry[if by_project { "project" } else { "name" }].as_str().unwrap();
        let path = format!("/shares/{name}");
        eve.delete(&path).await.assert_error(404, "not_found");
        assert_eq!(ada.delete(&path).await.ok(), json!({ "ok": true }));
        world.edge().get(&share.url).await.assert_status(404);
        ada.delete(&path).await.assert_error(404, "not_found");
        assert_eq!(shares(&ada).await.len(), 0);
    }
    eventually(BACKGROUND, "the files are removed", async || world.stored_files().is_empty()).await;
    ada.create_project("engine").await;
    for no_share in ["engine", "no-such-share", "%00", "tmp-0000000000"] {
        ada.delete(&format!("/shares/{no_share}")).await.assert_error(404, "not_found");
    }
    ada.project("engine").await;
}

#[tokio::test]
async fn an_expired_share_stops_at_once_and_is_reaped() {
    let mut world = World::start().await;
    let ada = world.user("ada").await;
    let lasting = ada.share(&Site::page("lasting"), 1).await;
    let kept = world.stored_files();
    let share = ada.share(&Site::page("brief"), 1).await;
    // Before any edge has heard of it, so that what an edge remembers is what the database says.
    let soon = format!(
        "UPDATE projects SET expires_at = now() + interval '3 seconds' WHERE share_name = '{}'",
        share.share_name()
    );
    world.sql(&soon).await;
    world.edge().get(&share.url).await.assert_body(200, "brief");
    eventually(Duration::from_secs(10), "the share is served no more", async || {
        world.edge().get(&share.url).await.status == 404
    })
    .await;
    assert_eq!(world.sql_number("SELECT count(*) FROM projects WHERE expires_at > now()").await, 1);
    let names: Vec<_> = shares(&ada).await.iter().map(|share| share["url"].clone()).collect();
    assert_eq!(names, [lasting.url.as_str()]);

    world.restart_admin_later().await;
    eventually(BACKGROUND, "the records are reaped", async || {
        world.sql_number("SELECT count(*) FROM projects").await == 1
            && world.sql_number("SELECT count(*) FROM deployments").await == 1
    })
    .await;
    eventually(BACKGROUND, "the files are reaped", async || world.stored_files() == kept).await;
    world.edge().get(&lasting.url).await.assert_body(200, "lasting");
}

#[tokio::test]
async fn shares_are_listed_newest_first_to_their_owner() {
    let world = World::start().await;
    let (ada, eve) = (world.user("ada").await, world.user("eve").await);
    let first = ada.share(&Site::page("1"), 1).await;
    let second = ada.share(&Site::page("2"), 1).await;
    let urls: Vec<_> = shares(&ada).await.iter().map(|share| share["url"].clone()).collect();
    assert_eq!(urls, [second.url.as_str(), first.url.as_str()]);
    assert_eq!(shares(&eve).await.len(), 0);
    let page = ada.get("/shares?limit=1").await.ok();
    let next = ada.get(&format!("/shares?limit=1&cursor={}", page["next_cursor"].as_str().unwrap())).await.ok();
    assert_eq!(next["shares"][0]["url"], first.url);
    assert_eq!(next["next_cursor"], Value::Null);
}

/// For `Authorization: Basic`.
pub fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

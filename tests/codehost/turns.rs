//! Pushes take turns, and wait for room.

use std::time::Duration;

use serde_json::{Value, json};

use super::scene::{Scene, repo_archive};
use crate::{
    stubs::codehost::hub::Fault,
    world::{Actor, eventually},
};

const SOON: Duration = Duration::from_secs(20);

/// Links projects of `actor` to branches of `acme/site` that are called after them, through the installation 7.
async fn link_all(actor: &Actor, names: &[String]) {
    for name in names {
        actor.create_project(name).await;
        let body = json!({ "installation_id": 7, "repo": "acme/site", "branch": name });
        actor.post(&format!("/projects/{name}/repo")).json(&body).await.ok();
    }
}

fn named(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}-{number}")).collect()
}

async fn push_all(scene: &Scene, names: &[String]) {
    for name in names {
        scene.push_archive(name, repo_archive("acme-site-abc", &[("index.html", name)])).await;
    }
}

/// The names of the projects whose push is worked on.
async fn working(scene: &Scene) -> Vec<String> {
    let names = "SELECT coalesce(string_agg(p.name, ' ' ORDER BY p.name), '')
                 FROM repo_deploys d JOIN projects p ON p.id = d.project_id WHERE d.leased_until IS NOT NULL";
    scene.world.sql_text(names).await.split_whitespace().map(str::to_owned).collect()
}

#[tokio::test]
async fn nobody_has_every_turn() {
    let scene = Scene::start().await;
    scene.host.install(7, "acme", "Organization", &["mona", "eve"]);
    scene.host.create_repo(7, 70, "acme/site");
    let (mona, eve) = (scene.sign_in("mona").await, scene.sign_in("eve").await);
    let (monas, eves) = (named("mona", 6), named("eve", 1));
    link_all(&mona, &monas).await;
    link_all(&eve, &eves).await;
    scene.host.fail(Fault::Holds("/tarball/"));
    push_all(&scene, &monas).await;
    eventually(SOON, "mona has her share", async || working(&scene).await.len() >= 2).await;
    push_all(&scene, &eves).await;
    eventually(SOON, "eve has a turn", async || working(&scene).await.contains(&eves[0])).await;
    assert_eq!(working(&scene).await.len(), 3);
    scene.host.fail(Fault::None);
    for name in monas.iter().chain(&eves) {
        scene.shows(name, name).await;
    }
}

async fn repo(actor: &Actor) -> Value {
    actor.project("site").await["repo"].clone()
}

/// A push waits, tells why, is not given up however often it was tried, and is deployed once `variable` has `value`.
async fn a_push_waits(scene: Scene, mona: Actor, why: &str, variable: &str, value: u64) {
    let (mut scene, mut stream) = (scene, mona.follow(None).await);
    let sha = scene.push(&[("index.html", "room")]).await;
    assert_eq!(stream.until("push").await.data["detail"]["state"], "queued");
    let waiting = stream.until("push").await.data;
    assert_eq!((&waiting["detail"]["state"], &waiting["subject"]), (&json!("waiting"), &json!(sha)), "{waiting}");
    let message = waiting["detail"]["message"].as_str().unwrap();
    assert!(message.contains(why), "{message}");
    assert_eq!(repo(&mona).await["waits_for"], message);
    for _ in 0..12 {
        scene.hurry().await;
        let due = "SELECT count(*) FROM repo_deploys WHERE next_attempt_at <= now()";
        eventually(SOON, "it was tried", async || scene.world.sql_number(due).await == 0).await;
    }
    assert!(mona.project("site").await["deployments"].as_array().unwrap().is_empty());
    assert!(scene.world.admin.log().contains(message), "the operator does not see why");
    drop(stream);
    scene.world.set(variable, value);
    scene.world.restart_admin_later().await;
    scene.hurry().await;
    scene.shows("site", "room").await;
    assert_eq!(repo(&mona).await["waits_for"], Value::Null);
}

#[tokio::test]
async fn a_push_waits_while_the_disk_is_nearly_full() {
    let (scene, mona) = Scene::with(|world, _| world.set("ADMIN__FREE_DISK_PERCENT", 100)).await.linked().await;
    a_push_waits(scene, mona, "disk", "ADMIN__FREE_DISK_PERCENT", 0).await;
}

#[tokio::test]
async fn a_push_waits_while_there_is_no_room_in_the_spool() {
    let (scene, mona) = Scene::with(|world, _| world.set("ADMIN__SPOOL_BYTES", 16)).await.linked().await;
    a_push_waits(scene, mona, "received", "ADMIN__SPOOL_BYTES", 1_000_000).await;
}

#[tokio::test]
async fn a_push_to_a_suspended_site_waits_for_its_end() {
    let (scene, mona) = Scene::with_app().await.linked().await;
    let mut stream = mona.follow(None).await;
    scene.world.admin_prints(&["suspend", "site", "--reason", "abuse"]).await;
    scene.push(&[("index.html", "poison")]).await;
    let waiting = loop {
        let told = stream.until("push").await.data;
        if told["detail"]["state"] == "waiting" {
            break told;
        }
    };
    assert_eq!(repo(&mona).await["waits_for"], waiting["detail"]["message"]);
    assert!(waiting["detail"]["message"].as_str().unwrap().contains("suspended"), "{waiting}");
    assert!(mona.project("site").await["deployments"].as_array().unwrap().is_empty());
    scene.world.admin_prints(&["resume", "site"]).await;
    scene.hurry().await;
    scene.shows("site", "poison").await;
    assert_eq!(repo(&mona).await["waits_for"], Value::Null);
}

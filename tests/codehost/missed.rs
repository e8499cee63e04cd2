//! Pushes whose webhook was lost.

use std::time::Duration;

use serde_json::{Value, json};

use super::scene::{Scene, link, repo_archive};
use crate::{
    BACKGROUND,
    stubs::codehost::hub::Fault,
    world::{Actor, eventually},
};

/// Commits to `main` of `acme/site`, and nothing is delivered.
fn commit(scene: &Scene, text: &str) -> String {
    scene.host.commit(70, "main", repo_archive("acme-site-abc", &[("index.html", text)]))
}

/// As if the links' branches had not been asked about for long; returns once they were.
async fn check(scene: &Scene) {
    // The epoch tells links that are due from those that were asked about.
    scene.world.sql("UPDATE repo_links SET check_head_at = 'epoch'").await;
    let due = "SELECT count(*) FROM repo_links WHERE check_head_at = 'epoch'";
    eventually(BACKGROUND, "the branches are asked about", async || scene.world.sql_number(due).await == 0).await;
    // The answers have come when the job ends.
    let running = "SELECT count(*) FROM job_leases WHERE job = 'find missed pushes' AND leased_until IS NOT NULL";
    eventually(BACKGROUND, "the job has ended", async || scene.world.sql_number(running).await == 0).await;
    scene.settled().await;
}

async fn deployments(actor: &Actor) -> Vec<Value> {
    actor.project("site").await["deployments"].as_array().unwrap().clone()
}

async fn assert_a_missed_push_is_deployed(scene: Scene, mona: Actor) {
    let first = scene.push(&[("index.html", "one")]).await;
    scene.shows("site", "one").await;
    let second = commit(&scene, "two");
    check(&scene).await;
    scene.shows("site", "two").await;
    let all = deployments(&mona).await;
    assert_eq!(all.iter().map(|one| &one["git_sha"]).collect::<Vec<_>>(), [&json!(second), &json!(first)]);
    assert_eq!(all[0]["created_by"], "code host");
    // What was deployed once is not deployed again: neither by asking, nor when the webhook comes after all.
    mona.activate("site", all[1]["id"].as_str().unwrap()).await.ok();
    let unchanged = scene.host.unchanged();
    for _ in 0..2 {
        check(&scene).await;
    }
    assert!(scene.host.unchanged() > unchanged, "an answer that is known is not sent again");
    scene.shows("site", "one").await;
    assert_eq!(deployments(&mona).await.len(), 2);
}

#[tokio::test]
async fn a_push_whose_webhook_was_lost_is_deployed() {
    let (scene, mona) = Scene::start().await.linked().await;
    assert_a_missed_push_is_deployed(scene, mona).await;
}

#[tokio::test]
async fn a_push_whose_webhook_was_lost_is_deployed_as_the_app() {
    let (scene, mona) = Scene::with_app().await.linked().await;
    assert_a_missed_push_is_deployed(scene, mona).await;
}

#[tokio::test]
async fn what_was_pushed_before_the_link_is_not_deployed() {
    let (scene, mona) = Scene::with_repo().await;
    commit(&scene, "before");
    mona.create_project("site").await;
    mona.post("/projects/site/repo").json(&link("acme/site")).await.ok();
    check(&scene).await;
    // Nor by a link whose head the code host did not say.
    scene.world.sql("UPDATE repo_links SET head_sha = NULL").await;
    check(&scene).await;
    assert_eq!(deployments(&mona).await.len(), 0);
    commit(&scene, "after");
    check(&scene).await;
    scene.shows("site", "after").await;
}

#[tokio::test]
async fn the_first_push_to_a_branch_is_not_missed() {
    let (scene, mona) = Scene::start().await.linked().await;
    check(&scene).await;
    commit(&scene, "first");
    check(&scene).await;
    scene.shows("site", "first").await;
    // A branch that is gone deploys nothing, and nothing is forgotten.
    scene.host.delete_branch(70, "main");
    check(&scene).await;
    scene.shows("site", "first").await;
    assert_eq!(deployments(&mona).await.len(), 1);
}

#[tokio::test]
async fn a_code_host_that_limits_us_is_not_asked_again_before_its_time() {
    let (scene, mona) = Scene::start().await.linked().await;
    commit(&scene, "two");
    scene.host.fail(Fault::RateLimited(3_000));
    scene.world.sql("UPDATE repo_links SET check_head_at = 'epoch'").await;
    let put_off = "SELECT count(*) FROM repo_links WHERE check_head_at > now() + interval '30 minutes'";
    eventually(BACKGROUND, "the branch is asked about later", async || scene.world.sql_number(put_off).await == 1)
        .await;
    for fault in [Fault::Status(500), Fault::Garbage] {
        scene.host.fail(fault);
        check(&scene).await;
    }
    assert_eq!(deployments(&mona).await.len(), 0);
    scene.host.fail(Fault::None);
    check(&scene).await;
    eventually(Duration::from_secs(30), "the push is deployed", async || deployments(&mona).await.len() == 1).await;
}

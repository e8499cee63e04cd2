//! `GET /vcs` and `/orgs/:name/installations`.

use std::time::Duration;

use serde_json::{Value, json};

use super::scene::{Scene, link};
use crate::{
    stubs::codehost::hub::Fault,
    world::{World, answer::assert_keys},
};

fn ids(list: &Value) -> Vec<i64> {
    list["installations"].as_array().unwrap().iter().map(|entry| entry["id"].as_i64().unwrap()).collect()
}

fn share(id: i64) -> Value {
    json!({ "installation_id": id })
}

#[tokio::test]
async fn own_installations_are_listed_from_every_page() {
    let scene = Scene::start().await;
    for id in 1..=5 {
        scene.host.install(id, &format!("account{id}"), "Organization", &["mona"]);
    }
    scene.host.install(6, "others", "User", &["somebody-else"]);
    scene.host.page_size(2);
    let mona = scene.sign_in("mona").await;
    let list = mona.get("/vcs").await.ok();
    assert_eq!(ids(&list), [5, 4, 3, 2, 1], "newest first");
    let newest = &list["installations"][0];
    assert_keys(newest, "id account account_type mine org shared_by created_at");
    assert_eq!(newest["account"], "account5");
    assert_eq!(newest["account_type"], "Organization");
    assert_eq!((&newest["mine"], &newest["org"], &newest["shared_by"]), (&json!(true), &Value::Null, &Value::Null));
    assert_eq!(scene.host.calls("/user/installations"), 3);
}

#[tokio::test]
async fn without_a_code_host_there_are_none() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    assert_eq!(ada.get("/vcs").await.ok(), json!({ "installations": [] }));
    ada.post("/orgs").json(&json!({ "name": "team" })).await.created();
    ada.post("/orgs/team/installations").json(&share(1)).await.assert_error(404, "not_found");
}

#[tokio::test]
async fn a_code_host_that_fails_is_told_apart() {
    let scene = Scene::start().await;
    scene.host.install(7, "acme", "Organization", &["mona"]);
    let mona = scene.sign_in("mona").await;
    for fault in [Fault::Status(500), Fault::Status(418), Fault::Garbage, Fault::RateLimited(30)] {
        scene.host.fail(fault.clone());
        let answer = mona.get("/vcs").await;
        let wait = answer.find_header("retry-after").map(str::to_owned);
        assert_eq!(wait.as_deref(), (fault == Fault::RateLimited(30)).then_some("30"), "{fault:?}");
        answer.assert_error(502, "code_host_error");
    }
    scene.host.fail(Fault::Holds(""));
    let start = std::time::Instant::now();
    mona.get("/vcs").await.assert_error(502, "code_host_error");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    scene.host.fail(Fault::None);
    assert_eq!(ids(&mona.get("/vcs").await.ok()), [7]);
}

#[tokio::test]
async fn a_shared_installation_is_seen_by_members_and_by_nobody_else() {
    let (scene, mona) = Scene::with_repo().await;
    let (ada, eve) = (scene.sign_in("ada").await, scene.sign_in("eve").await);
    scene.org(&mona, "team", &["ada"]).await;

    let shared = mona.post("/orgs/team/installations").json(&share(7)).await.created();
    assert_keys(&shared, "id account account_type mine org shared_by created_at");
    assert_eq!((&shared["org"], &shared["shared_by"], &shared["mine"]), (&json!("team"), &json!("mona"), &json!(true)));
    // Again: nothing new.
    mona.post("/orgs/team/installations").json(&share(7)).await.ok();

    let listed = ada.get("/orgs/team/installations").await.ok();
    assert_eq!(ids(&listed), [7]);
    assert_eq!(listed["installations"][0]["mine"], false);
    let seen = ada.get("/vcs").await.ok();
    assert_eq!(ids(&seen), [7]);
    assert_eq!((&seen["installations"][0]["mine"], &seen["installations"][0]["org"]), (&json!(false), &json!("team")));
    assert_eq!(mona.get("/vcs").await.ok()["installations"][0]["mine"], true);

    eve.get("/orgs/team/installations").await.assert_error(404, "not_found");
    assert_eq!(ids(&eve.get("/vcs").await.ok()), [0_i64; 0]);
    let audit = mona.get("/orgs/team/audit").await.ok().to_string();
    assert_eq!(audit.matches("installation.share").count(), 1, "{audit}");
}

#[tokio::test]
async fn only_own_installations_are_shared_and_with_one_org() {
    let (scene, mona) = Scene::with_repo().await;
    let ada = scene.sign_in("ada").await;
    scene.org(&mona, "team", &["ada"]).await;
    scene.org(&mona, "other", &[]).await;
    ada.post("/orgs/team/installations").json(&share(7)).await.assert_error(404, "not_found");
    mona.post("/orgs/team/installations").json(&share(8)).await.assert_error(404, "not_found");
    for body in [json!({}), json!({ "installation_id": "seven" }), json!({ "installation_id": null })] {
        mona.post("/orgs/team/installations").json(&body).await.assert_error(400, "invalid_request");
    }
    mona.post("/orgs/team/installations").json(&share(7)).await.created();
    mona.post("/orgs/other/installations").json(&share(7)).await.assert_error(409, "shared_elsewhere");
}

#[tokio::test]
async fn of_orgs_that_race_for_an_installation_one_gets_it() {
    let (scene, mona) = Scene::with_repo().await;
    for number in 0..8 {
        scene.org(&mona, &format!("team-{number}"), &[]).await;
    }
    let races = (0..16).map(|number| {
        let path = format!("/orgs/team-{}/installations", number % 8);
        let mona = mona.clone();
        async move { mona.post(&path).json(&share(7)).await.status.as_u16() }
    });
    let statuses = futures_util::future::join_all(races).await;
    let count = |status| statuses.iter().filter(|&&got| got == status).count();
    assert_eq!((count(201), count(200), count(409)), (1, 1, 14), "{statuses:?}");
}

#[tokio::test]
async fn who_shared_and_admins_unshare_which_ends_the_links() {
    let (scene, mona) = Scene::with_repo().await;
    let owner = scene.sign_in("owner").await;
    let ada = scene.sign_in("ada").await;
    scene.org(&owner, "team", &["mona", "ada"]).await;
    mona.post("/orgs/team/installations").json(&share(7)).await.created();
    ada.post("/projects").json(&json!({ "name": "site", "org": "team" })).await.created();
    mona.create_project("own-site").await;
    ada.post("/projects/site/repo").json(&link("acme/site")).await.ok();
    mona.post("/projects/own-site/repo").json(&link("acme/site")).await.ok();

    ada.delete("/orgs/team/installations/7").await.assert_error(403, "forbidden");
    ada.delete("/orgs/team/installations/8").await.assert_error(404, "not_found");
    owner.delete("/orgs/team/installations/7").await.ok();
    assert_eq!(ada.project("site").await["repo"], Value::Null, "the link rested on the share");
    assert_eq!(mona.project("own-site").await["repo"]["repo"], "acme/site", "a personal link does not");
    owner.delete("/orgs/team/installations/7").await.assert_error(404, "not_found");
    ada.post("/projects/site/repo").json(&link("acme/site")).await.assert_error(404, "not_found");

    mona.post("/orgs/team/installations").json(&share(7)).await.created();
    assert_eq!(mona.delete("/orgs/team/installations/7").await.ok(), json!({ "ok": true }));
    let audit = owner.get("/orgs/team/audit").await.ok().to_string();
    assert_eq!(audit.matches("installation.unshare").count(), 2);
    assert_eq!(audit.matches("repo.unlink").count(), 1);
}

#[tokio::test]
async fn who_leaves_takes_along_what_they_shared() {
    let (scene, mona) = Scene::with_repo().await;
    let owner = scene.sign_in("owner").await;
    scene.org(&owner, "team", &["mona"]).await;
    mona.post("/orgs/team/installations").json(&share(7)).await.created();
    owner.post("/projects").json(&json!({ "name": "site", "org": "team" })).await.created();
    owner.post("/projects/site/repo").json(&link("acme/site")).await.ok();
    owner.delete("/orgs/team/members/mona").await.ok();
    assert_eq!(ids(&owner.get("/orgs/team/installations").await.ok()), [0_i64; 0]);
    assert_eq!(owner.project("site").await["repo"], Value::Null);
}

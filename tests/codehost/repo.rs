//! `POST /projects/:name/repo`.

use serde_json::{Value, json};

use super::scene::{Scene, link};
use crate::{stubs::codehost::hub::Fault, world::answer::assert_keys};

#[tokio::test]
async fn a_project_is_linked_shown_and_unlinked() {
    let (scene, mona) = Scene::with_repo().await;
    scene.host.create_repo(7, 71, "acme/other");
    scene.host.page_size(1);
    mona.create_project("site").await;
    assert_eq!(mona.project("site").await["repo"], Value::Null);

    let linked = mona.post("/projects/site/repo").json(&link("Acme/OTHER")).await.ok();
    assert_keys(&linked, "ok repo branch directory");
    assert_eq!(linked, json!({ "ok": true, "repo": "acme/other", "branch": "main", "directory": "." }));

    let body =
        json!({ "installation_id": 7, "repo": "acme/site", "branch": "gh/pages", "directory": "/site//public/" });
    let linked = mona.post("/projects/site/repo").json(&body).await.ok();
    let shown = json!({ "repo": "acme/site", "branch": "gh/pages", "directory": "site/public", "waits_for": null });
    assert_eq!((&linked["branch"], &linked["directory"]), (&shown["branch"], &shown["directory"]));
    assert_eq!(mona.project("site").await["repo"], shown);

    for _ in 0..2 {
        let unlinked = mona.post("/projects/site/repo").json(&json!({ "repo": null })).await.ok();
        assert_eq!(unlinked, json!({ "ok": true, "repo": null, "branch": null, "directory": null }));
        assert_eq!(mona.project("site").await["repo"], Value::Null);
    }
    let audit = mona.get("/projects/site/audit").await.ok().to_string();
    assert_eq!((audit.matches("repo.link").count(), audit.matches("repo.unlink").count()), (2, 1), "{audit}");
}

#[tokio::test]
async fn odd_links_are_refused_before_anybody_is_asked() {
    let (scene, mona) = Scene::with_repo().await;
    mona.create_project("site").await;
    let asked = scene.host.calls("/");
    for body in [
        json!({}),
        json!({ "installation_id": 7 }),
        json!({ "repo": "acme/site" }),
        json!({ "installation_id": "7", "repo": "acme/site" }),
        json!({ "installation_id": 7, "repo": "site" }),
        json!({ "installation_id": 7, "repo": "acme/.." }),
        json!({ "installation_id": 7, "repo": "acme/site", "branch": "a..b" }),
        json!({ "installation_id": 7, "repo": "acme/site", "branch": "refs/heads/main" }),
        json!({ "installation_id": 7, "repo": "acme/site", "directory": "../etc" }),
        json!({ "installation_id": 7, "repo": "acme/site", "directory": "a/../../b" }),
        json!({ "installation_id": 7, "repo": "acme/site", "directory": "a\\b" }),
    ] {
        mona.post("/projects/site/repo").json(&body).await.assert_error(400, "invalid_request");
    }
    assert_eq!(scene.host.calls("/"), asked);
    assert_eq!(mona.project("site").await["repo"], Value::Null);
}

#[tokio::test]
async fn only_what_the_installation_reaches_can_be_linked() {
    let (scene, mona) = Scene::with_repo().await;
    scene.host.install(8, "others", "User", &["eve"]);
    scene.host.create_repo(8, 80, "others/secret");
    mona.create_project("site").await;
    let linking = |body: Value| mona.post("/projects/site/repo").json(&body);
    linking(link("acme/nothing")).await.assert_error(404, "not_found");
    linking(link("others/secret")).await.assert_error(404, "not_found");
    linking(json!({ "installation_id": 8, "repo": "others/secret" })).await.assert_error(404, "not_found");
    for fault in [Fault::Status(503), Fault::Garbage, Fault::RateLimited(5)] {
        scene.host.fail(fault);
        linking(link("acme/site")).await.assert_error(502, "code_host_error");
    }
}

#[tokio::test]
async fn an_orgs_project_takes_what_is_shared_with_the_org() {
    let (scene, mona) = Scene::with_repo().await;
    let (ada, eve) = (scene.sign_in("ada").await, scene.sign_in("eve").await);
    scene.org(&mona, "team", &["ada"]).await;
    ada.post("/projects").json(&json!({ "name": "site", "org": "team" })).await.created();
    let path = "/projects/site/repo";
    // Not even one's own, as long as it is not shared.
    mona.post(path).json(&link("acme/site")).await.assert_error(404, "not_found");
    mona.post("/orgs/team/installations").json(&json!({ "installation_id": 7 })).await.created();
    // By a member who cannot see it at the code host.
    ada.post(path).json(&link("acme/site")).await.ok();
    eve.post(path).json(&link("acme/site")).await.assert_error(404, "not_found");
    // Nobody else's personal project gets at it.
    ada.create_project("own-site").await;
    ada.post("/projects/own-site/repo").json(&link("acme/site")).await.assert_error(404, "not_found");
}

#[tokio::test]
async fn a_project_that_changes_hands_is_unlinked() {
    let (scene, mona) = Scene::with_repo().await;
    scene.org(&mona, "team", &[]).await;
    mona.post("/orgs/team/installations").json(&json!({ "installation_id": 7 })).await.created();
    mona.create_project("site").await;
    for (to, back) in [(json!("team"), json!(null)), (json!(null), json!("team"))] {
        mona.post("/projects/site/transfer").json(&json!({ "org": back })).await.ok();
        mona.post("/projects/site/repo").json(&link("acme/site")).await.ok();
        mona.post("/projects/site/transfer").json(&json!({ "org": to })).await.ok();
        assert_eq!(mona.project("site").await["repo"], Value::Null);
        mona.post("/projects/site/transfer").json(&json!({ "org": back })).await.ok();
        assert_eq!(mona.project("site").await["repo"], Value::Null, "it does not come back by itself");
    }
}

#[tokio::test]
async fn an_org_without_an_icon_shows_the_owner_of_its_repositories() {
    let (scene, mona) = Scene::with_repo().await;
    scene.org(&mona, "team", &[]).await;
    let icon = || scene.world.nobody().get("/orgs/team/icon");
    icon().await.assert_error(404, "not_found");
    mona.post("/orgs/team/installations").json(&json!({ "installation_id": 7 })).await.created();
    icon().await.assert_redirect(302, "https://avatars.githubusercontent.com/u/70007?v=4");
    mona.post("/projects").json(&json!({ "name": "site", "org": "team" })).await.created();
    mona.post("/projects/site/repo").json(&link("acme/site")).await.ok();
    icon().await.assert_redirect(302, "https://avatars.githubusercontent.com/u/9070?v=4");
}

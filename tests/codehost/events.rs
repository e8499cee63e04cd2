//! Webhooks in the form in which GitHub documents them, and what each does.

use serde_json::{Value, json};

use super::scene::{Scene, link, repo_archive};
use crate::{
    stubs::codehost::webhook::{NOTHING, Webhook},
    world::{Actor, answer::Answer},
};

/// A user or an organization, with what GitHub says of one everywhere.
fn account(login: &str, id: i64, kind: &str) -> Value {
    json!({
        "login": login, "id": id, "node_id": "MDQ6VXNlcjIxMDMxMDY3", "gravatar_id": "", "type": kind, "site_admin": false,
        "avatar_url": format!("https://avatars.githubusercontent.com/u/{id}?v=4"),
        "url": format!("https://api.github.com/users/{login}"), "html_url": format!("https://github.com/{login}"),
    })
}

fn repository(id: i64, full_name: &str) -> Value {
    let (owner, name) = full_name.split_once('/').unwrap();
    json!({
        "id": id, "node_id": "MDEwOlJlcG9zaXRvcnkxODY4NTMwMDI=", "name": name, "full_name": full_name, "private": true,
        "owner": account(owner, 70_007, "Organization"), "fork": false, "archived": false, "disabled": false,
        "created_at": "2026-01-01T00:00:00Z", "pushed_at": "2026-01-01T00:00:01Z", "default_branch": "main",
        "visibility": "private", "html_url": format!("https://github.com/{full_name}"),
    })
}

/// What an `installation` event says of one.
fn installation(id: i64, login: &str) -> Value {
    json!({
        "id": id, "account": account(login, 70_007, "Organization"), "repository_selection": "selected",
        "access_tokens_url": format!("https://api.github.com/app/installations/{id}/access_tokens"),
        "repositories_url": "https://api.github.com/installation/repositories", "app_id": 5_725, "app_slug": "svc",
        "target_id": 70_007, "target_type": "Organization", "permissions": { "contents": "read", "metadata": "read" },
        "events": ["push", "repository"], "created_at": 1_557_933_591, "updated_at": 1_557_933_591,
        "single_file_name": null, "suspended_by": null, "suspended_at": null,
    })
}

impl Scene {
    async fn tell(&self, event: &'static str, mut payload: Value) -> Answer {
        payload["sender"] = account("mona", 2, "User");
        // Two deliveries are never the same to the byte at the code host either.
        payload["sender"]["received_events_url"] = json!(format!("https://x/{}", rand::random::<u64>()));
        self.deliver(&Webhook::new(event, &payload)).await
    }

    async fn repo_of(&self, actor: &Actor, project: &str) -> Value {
        actor.project(project).await["repo"]["repo"].clone()
    }
}

/// `site`, linked to `acme/site`; and `shared`, of an org with which the installation is shared.
async fn linked() -> (Scene, Actor) {
    let (scene, mona) = Scene::start().await.linked().await;
    scene.org(&mona, "team", &[]).await;
    mona.post("/orgs/team/installations").json(&json!({ "installation_id": 7 })).await.created();
    mona.post("/projects").json(&json!({ "name": "shared", "org": "team" })).await.created();
    mona.post("/projects/shared/repo").json(&link("acme/site")).await.ok();
    (scene, mona)
}

#[tokio::test]
async fn a_ping_and_every_event_that_means_nothing_here_is_taken() {
    let scene = Scene::start().await;
    let hook = json!({
        "type": "App", "id": 109_948_940, "name": "web", "active": true, "events": ["push", "repository"], "app_id": 5_725,
        "config": { "content_type": "json", "insecure_ssl": "0", "secret": "********", "url": "https://api.example/webhooks/github" },
    });
    let ping = json!({ "zen": "Speak like a human.", "hook_id": 109_948_940, "hook": hook });
    assert_eq!(scene.tell("ping", ping).await.ok(), json!({ "ok": true, "deploys": 0 }));
    for (event, payload) in [
        (
            "create",
            json!({ "ref": "simple-tag", "ref_type": "tag", "master_branch": "main", "repository": repository(70, "acme/site") }),
        ),
        ("delete", json!({ "ref": "main", "ref_type": "branch", "repository": repository(70, "acme/site") })),
        ("star", json!({ "action": "created", "repository": repository(70, "acme/site") })),
        ("meta", json!({ "action": "deleted", "hook_id": 1 })),
        ("marketplace_purchase", json!({ "action": "purchased" })),
        ("an_event_of_next_year", json!({ "action": ["not", "even", "text"] })),
    ] {
        assert_eq!(scene.tell(event, payload).await.ok()["deploys"], 0, "{event}");
    }
}

#[tokio::test]
async fn an_installation_is_suspended_and_lives_again_and_ends() {
    let (scene, mona) = linked().await;
    let told = |action: &str| json!({ "action": action, "installation": installation(7, "acme"), "repositories": [], "requester": null });
    for harmless in ["created", "new_permissions_accepted", "something_new"] {
        scene.tell("installation", told(harmless)).await.ok();
        assert_eq!(scene.repo_of(&mona, "site").await, "acme/site", "{harmless}");
    }
    scene.tell("installation", told("suspend")).await.ok();
    let sha = scene.host.commit(70, "main", repo_archive("a", &[("index.html", "meanwhile")]));
    let push = || Webhook::push((70, "acme/site"), "refs/heads/main", NOTHING, &sha, 7);
    assert_eq!(scene.deliver(&push()).await.ok()["deploys"], 0);
    assert_eq!(scene.repo_of(&mona, "site").await, "acme/site", "a link outlives a suspension");
    scene.tell("installation", told("unsuspend")).await.ok();
    assert_eq!(scene.deliver(&push()).await.ok()["deploys"], 2);
    scene.shows("site", "meanwhile").await;

    scene.tell("installation", told("deleted")).await.ok();
    for project in ["site", "shared"] {
        assert_eq!(scene.repo_of(&mona, project).await, Value::Null);
        let audit = mona.get(&format!("/projects/{project}/audit")).await.ok();
        assert_eq!(audit["entries"][0]["action"], "repo.unlink", "{audit}");
    }
    assert_eq!(mona.get("/orgs/team/installations").await.ok(), json!({ "installations": [] }));
    // What is served stays, and what is unknown changes nothing.
    scene.shows("site", "meanwhile").await;
    scene.tell("installation", told("deleted")).await.ok();
    scene.tell("installation", told("suspend")).await.ok();
}

#[tokio::test]
async fn repositories_that_are_taken_from_an_installation_end_their_links() {
    let (scene, mona) = linked().await;
    let short = |id: i64, full_name: &str| json!({ "id": id, "node_id": "MDEw", "name": "x", "full_name": full_name, "private": true });
    let told = |action: &str, added: Vec<Value>, removed: Vec<Value>| {
        json!({
            "action": action, "installation": installation(7, "acme"), "repository_selection": "selected",
            "repositories_added": added, "repositories_removed": removed, "requester": null,
        })
    };
    scene.tell("installation_repositories", told("added", vec![short(71, "acme/other")], vec![])).await.ok();
    scene.tell("installation_repositories", told("removed", vec![], vec![short(71, "acme/other")])).await.ok();
    assert_eq!(scene.repo_of(&mona, "site").await, "acme/site");
    scene.tell("installation_repositories", told("removed", vec![], vec![short(70, "acme/site")])).await.ok();
    for project in ["site", "shared"] {
        assert_eq!(scene.repo_of(&mona, project).await, Value::Null);
    }
}

#[tokio::test]
async fn an_account_that_is_renamed_keeps_its_links() {
    let (scene, mona) = linked().await;
    let told = |from: &str, login: &str| {
        json!({
            "action": "renamed", "account": account(login, 70_007, "Organization"),
            "changes": { "login": { "from": from } }, "target_type": "Organization",
            "installation": { "id": 7, "node_id": "MDIzOkludGVncmF0aW9uSW5zdGFsbGF0aW9uNw==" },
        })
    };
    scene.tell("installation_target", told("Acme", "acme-inc")).await.ok();
    for project in ["site", "shared"] {
        assert_eq!(scene.repo_of(&mona, project).await, "acme-inc/site");
    }
    let installations = mona.get("/orgs/team/installations").await.ok();
    assert_eq!(installations["installations"][0]["account"], "acme-inc");
    // A name that is none changes nothing.
    scene.tell("installation_target", told("acme-inc", "../etc")).await.ok();
    assert_eq!(scene.repo_of(&mona, "site").await, "acme-inc/site");
    // A person's account: they are called so here as well, without signing in anew.
    let login = mona.get("/me").await.ok()["vcs_login"].as_str().unwrap().to_owned();
    let id = scene.world.sql_number(&format!("SELECT vcs_id::bigint FROM users WHERE vcs_login = '{login}'")).await;
    let renamed = json!({
        "action": "renamed", "account": account("mona-lisa", id, "User"), "changes": { "login": { "from": login } },
        "target_type": "User", "installation": { "id": 99, "node_id": "MDIz" },
    });
    scene.tell("installation_target", renamed).await.ok();
    assert_eq!(mona.get("/me").await.ok()["vcs_login"], "mona-lisa");
}

#[tokio::test]
async fn a_repository_is_followed_by_its_id_through_names_and_accounts() {
    let (scene, mona) = linked().await;
    let told = |action: &str, full_name: &str, installation: i64, changes: Value| {
        json!({
            "action": action, "changes": changes, "repository": repository(70, full_name),
            "installation": { "id": installation, "node_id": "MDIz" },
        })
    };
    let renamed = json!({ "repository": { "name": { "from": "site" } } });
    scene.tell("repository", told("renamed", "acme/home", 7, renamed)).await.ok();
    for action in ["archived", "unarchived", "edited", "privatized", "publicized"] {
        scene.tell("repository", told(action, "acme/home", 7, json!({}))).await.ok();
        assert_eq!(scene.repo_of(&mona, "site").await, "acme/home", "{action}");
    }

    // To an account whose installation is shared with the org as well: the org's link goes along, the personal one has
    // to be made anew, because nobody has shown that they may read it there.
    scene.host.install(8, "globex", "Organization", &["mona"]);
    mona.post("/orgs/team/installations").json(&json!({ "installation_id": 8 })).await.created();
    scene.host.rename_repo(70, "globex/home");
    scene.host.move_repo(70, 7, 8);
    let owner = json!({ "owner": { "from": { "organization": account("acme", 70_007, "Organization") } } });
    scene.tell("repository", told("transferred", "globex/home", 8, owner.clone())).await.ok();
    assert_eq!(scene.repo_of(&mona, "shared").await, "globex/home");
    assert_eq!(scene.repo_of(&mona, "site").await, Value::Null);
    let audit = mona.get("/projects/site/audit").await.ok();
    assert_eq!(audit["entries"][0]["action"], "repo.unlink", "{audit}");
    let sha = scene.host.commit(70, "main", repo_archive("a", &[("index.html", "from globex")]));
    let push = Webhook::push((70, "globex/home"), "refs/heads/main", NOTHING, &sha, 8);
    assert_eq!(scene.deliver(&push).await.ok()["deploys"], 1);
    scene.shows("shared", "from globex").await;

    // To one that is not: the link ends.
    scene.tell("repository", told("transferred", "initech/home", 9, owner)).await.ok();
    assert_eq!(scene.repo_of(&mona, "shared").await, Value::Null);
    scene.tell("repository", told("deleted", "initech/home", 9, json!({}))).await.ok();
    scene.shows("shared", "from globex").await;
}

#[tokio::test]
async fn whoever_takes_the_authorization_back_has_to_sign_in_again() {
    let (scene, mona) = linked().await;
    mona.get("/vcs").await.ok();
    let login = mona.get("/me").await.ok()["vcs_login"].as_str().unwrap().to_owned();
    let id = scene.world.sql_number(&format!("SELECT vcs_id::bigint FROM users WHERE vcs_login = '{login}'")).await;
    let told =
        |id: i64| json!({ "action": "revoked", "sender": account("mona", id, "User"), "nonce": rand::random::<u32>() });
    for (id, left) in [(id + 1, 1), (id, 0)] {
        scene.deliver(&Webhook::new("github_app_authorization", &told(id))).await.ok();
        assert_eq!(scene.world.sql_number("SELECT count(*) FROM code_host_grants").await, left);
    }
    let message = mona.get("/vcs").await.assert_error(502, "code_host_error");
    assert!(message.contains("svc login"), "{message}");
    scene.sign_in("mona").await;
    mona.get("/vcs").await.ok();
}

/// A push with this many commits, and whatever else is set.
fn push(reference: &str, before: &str, after: &str, commits: usize, change: impl FnOnce(&mut Value)) -> Webhook {
    let plain = Webhook::push((70, "acme/site"), reference, before, after, 7);
    let mut payload: Value = serde_json::from_slice(&plain.body).unwrap();
    let commit = payload["commits"][0].clone();
    payload["commits"] = vec![commit; commits].into();
    change(&mut payload);
    Webhook::new("push", &payload)
}

#[tokio::test]
async fn every_kind_of_push_is_judged_by_where_the_branch_is_now() {
    let (scene, mona) = linked().await;
    let commit = |text: &str| scene.host.commit(70, "main", repo_archive("a", &[("index.html", text)]));
    let first = commit("first");
    let branch = "refs/heads/main";
    // The branch's first push, and one with more commits than are told of in other places.
    scene.deliver(&push(branch, NOTHING, &first, 1, |payload| payload["created"] = json!(true))).await.ok();
    scene.shows("site", "first").await;
    let many = commit("many");
    assert_eq!(scene.deliver(&push(branch, &first, &many, 2_048, |_| {})).await.ok()["deploys"], 2);
    scene.shows("site", "many").await;
    // By force, back to the first, without a commit in it.
    scene.host.force(70, "main", &first);
    let forced = push(branch, &many, &first, 0, |payload| {
        payload["forced"] = json!(true);
        payload["head_commit"] = Value::Null;
    });
    assert_eq!(scene.deliver(&forced).await.ok()["deploys"], 2);
    scene.shows("site", "first").await;
    scene.settled().await;
    // Tags, also one that is called like the branch; other branches; the branch's end, however it is told.
    let deployments = mona.project("site").await["deployments"].as_array().unwrap().len();
    for nothing in [
        push("refs/tags/v1.0", NOTHING, &many, 0, |payload| payload["base_ref"] = json!(branch)),
        push("refs/tags/main", NOTHING, &many, 1, |_| {}),
        push("refs/heads/feature/main", NOTHING, &many, 1, |_| {}),
        push("refs/heads/Main", NOTHING, &many, 1, |_| {}),
        push(branch, &first, NOTHING, 0, |payload| payload["head_commit"] = Value::Null),
        push(branch, &first, &many, 0, |payload| payload["deleted"] = json!(true)),
    ] {
        assert_eq!(scene.deliver(&nothing).await.ok()["deploys"], 0);
    }
    scene.settled().await;
    assert_eq!(mona.project("site").await["deployments"].as_array().unwrap().len(), deployments);
    scene.shows("site", "first").await;
}

/// GitHub tells of a renamed branch as of one that ended and one that began.
#[tokio::test]
async fn a_branch_that_is_renamed_is_linked_anew() {
    let (scene, mona) = linked().await;
    let sha = scene.push_to_both(&[("index.html", "main")]).await;
    scene.shows("site", "main").await;
    scene.host.delete_branch(70, "main");
    scene.host.force(70, "trunk", &sha);
    scene.deliver(&push("refs/heads/main", &sha, NOTHING, 0, |_| {})).await.ok();
    let began = push("refs/heads/trunk", NOTHING, &sha, 0, |payload| payload["created"] = json!(true));
    assert_eq!(scene.deliver(&began).await.ok()["deploys"], 0);
    scene.shows("site", "main").await;
    let body = json!({ "installation_id": 7, "repo": "acme/site", "branch": "trunk" });
    mona.post("/projects/site/repo").json(&body).await.ok();
    let sha = scene.host.commit(70, "trunk", repo_archive("a", &[("index.html", "trunk")]));
    assert_eq!(scene.deliver(&push("refs/heads/trunk", NOTHING, &sha, 1, |_| {})).await.ok()["deploys"], 1);
    scene.shows("site", "trunk").await;
}

impl Scene {
    /// Pushes to the branch of both links.
    async fn push_to_both(&self, files: &[(&str, &str)]) -> String {
        let sha = self.host.commit(70, "main", repo_archive("a", files));
        let answer = self.deliver(&push("refs/heads/main", NOTHING, &sha, 1, |_| {})).await.ok();
        assert_eq!(answer["deploys"], 2);
        sha
    }
}

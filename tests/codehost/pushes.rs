//! Deployments from pushes.

use std::{sync::atomic::Ordering, time::Duration};

use corpus::Expect;
use serde_json::json;

use super::scene::{Scene, link, repo_archive};
use crate::{
    stubs::codehost::{
        hub::Fault,
        repos::elsewhere,
        webhook::{NOTHING, Webhook},
    },
    world::{Actor, Site, eventually},
};

/// A scene in which `site` is linked to `acme/site`.
async fn linked() -> (Scene, Actor) {
    Scene::start().await.linked().await
}

fn push_of(sha: &str) -> Webhook {
    Webhook::push((70, "acme/site"), "refs/heads/main", NOTHING, sha, 7)
}

#[tokio::test]
async fn a_push_is_deployed_with_its_commit() {
    let (scene, mona) = linked().await;
    let sha = scene.push(&[("index.html", "one"), ("README.md", "read me")]).await;
    scene.shows("site", "one").await;
    scene.settled().await;
    let detail = mona.project("site").await;
    let deployment = &detail["deployments"][0];
    assert_eq!(deployment["git_sha"], sha);
    assert_eq!((&deployment["status"], &deployment["created_by"]), (&json!("live"), &json!("mona")));
    assert_eq!((&deployment["files"], &deployment["active"]), (&json!(2), &json!(true)));
    let audit = mona.get("/projects/site/audit").await.ok().to_string();
    assert!(audit.contains("code_host") && audit.contains(&sha), "{audit}");

    scene.push(&[("index.html", "two")]).await;
    scene.shows("site", "two").await;
    // What was live before can be activated again, and no old webhook undoes that.
    let first = deployment["id"].as_str().unwrap();
    mona.activate("site", first).await.ok();
    scene.shows("site", "one").await;
}

#[tokio::test]
async fn people_are_told_of_a_push_and_of_what_becomes_of_it() {
    let (scene, mona) = linked().await;
    let mut stream = mona.follow(None).await;
    let sha = scene.push(&[("index.html", "one")]).await;
    let queued = stream.until("push").await.data;
    assert_eq!((&queued["project"], &queued["subject"]), (&json!("site"), &json!(sha)));
    assert_eq!((&queued["detail"]["state"], &queued["by"]), (&json!("queued"), &json!("mona")), "{queued}");
    assert_eq!(stream.until("deployment.upload").await.data["detail"]["git_sha"], sha);

    scene.push_archive("main", b"no archive".to_vec()).await;
    assert_eq!(stream.until("push").await.data["detail"]["state"], "queued");
    let failed = stream.until("push").await.data;
    let recorded = scene.newest_failed(&mona, "site").await;
    assert_eq!((&failed["detail"]["state"], &failed["detail"]["deployment"]), (&json!("failed"), &recorded["id"]));
    assert_eq!(failed["detail"]["message"], recorded["failure"], "{failed}");
}

#[tokio::test]
async fn only_the_directory_is_published() {
    let (scene, mona) = Scene::with_repo().await;
    mona.create_project("site").await;
    let body = json!({ "installation_id": 7, "repo": "acme/site", "directory": "site/public" });
    mona.post("/projects/site/repo").json(&body).await.ok();
    let files = [
        ("site/public/index.html", "built"),
        ("site/public/a/b.txt", "deep"),
        ("site/publicity/index.html", "no"),
        ("site/secret.env", "no"),
        ("index.html", "no"),
    ];
    scene.push(&files).await;
    scene.shows("site", "built").await;
    let url = scene.world.site_url("site");
    scene.world.edge().get(&format!("{url}/a/b.txt")).await.assert_body(200, "deep");
    for hidden in ["site/secret.env", "secret.env", "site/public/index.html"] {
        let answer = scene.world.edge().get(&format!("{url}/{hidden}")).await;
        assert!(answer.status == 404 || answer.text() == "built", "{hidden}: {}", answer.text());
    }
    assert_eq!(mona.project("site").await["deployments"][0]["files"], 2);
    // A directory that is not there any more, and one that is a file.
    scene.push(&[("index.html", "moved")]).await;
    let failed = scene.newest_failed(&mona, "site").await;
    assert!(failed["failure"].as_str().unwrap().contains("site/public"), "{failed}");
    scene.push(&[("site/public", "a file")]).await;
    scene.newest_failed(&mona, "site").await;
    scene.shows("site", "built").await;
}

/// Many cases of the corpus, each as the archive of a commit: wrapped in a folder where it is an honest tarball. Each has a
/// branch and a project of its own, so that several are worked on at a time.
#[tokio::test]
async fn bad_archives_fail_visibly_and_change_nothing() {
    let (scene, mona) = Scene::with_repo().await;
    let bad = corpus::cases().into_iter().filter(|case| case.expect == Expect::Invalid).step_by(12);
    let climbing = corpus::Tarball::new().file("acme-site-abc/../../etc/x", b"x").end();
    let cases = bad.map(|case| (case.name, case.bytes)).chain([("climbing".to_owned(), climbing)]);
    let cases: Vec<_> = cases.enumerate().map(|(number, case)| (format!("site-{number}"), case)).collect();
    let mut shas = Vec::new();
    for (site, (_, archive)) in &cases {
        mona.publish(site, &Site::page("good")).await;
        let body = json!({ "installation_id": 7, "repo": "acme/site", "branch": site });
        mona.post(&format!("/projects/{site}/repo")).json(&body).await.ok();
        shas.push(scene.push_archive(site, archive.clone()).await);
    }
    for ((site, (name, _)), sha) in cases.iter().zip(shas) {
        let failed = scene.newest_failed(&mona, site).await;
        assert_eq!(failed["git_sha"], sha, "{name}");
        assert!(!failed["failure"].as_str().unwrap().is_empty(), "{name}");
        assert_eq!(failed["created_by"], "mona");
        scene.shows(site, "good").await;
    }
    let files = scene.world.stored_files().len();
    assert_eq!(files, 2 * cases.len(), "failed deployments leave no files: one pack is two objects");
}

#[tokio::test]
async fn of_pushes_in_quick_succession_the_newest_wins() {
    let (scene, mona) = linked().await;
    let mut shas = Vec::new();
    for number in 0..6 {
        shas.push(scene.push(&[("index.html", &*format!("push {number}"))]).await);
    }
    scene.shows("site", "push 5").await;
    scene.settled().await;
    let detail = mona.project("site").await;
    let live = &detail["deployments"][0];
    assert_eq!((&live["git_sha"], &live["active"]), (&json!(shas[5]), &json!(true)), "{detail}");
    let order: Vec<usize> = detail["deployments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|deployment| shas.iter().position(|sha| deployment["git_sha"] == **sha).unwrap())
        .collect();
    assert!(order.is_sorted_by(|newer, older| newer > older), "an older commit came after a newer one: {order:?}");
}

#[tokio::test]
async fn an_old_webhook_that_comes_late_changes_nothing() {
    let (scene, mona) = linked().await;
    let old = scene.host.commit(70, "main", repo_archive("a", &[("index.html", "old")]));
    let new = scene.host.commit(70, "main", repo_archive("a", &[("index.html", "new")]));
    scene.deliver(&push_of(&new)).await.ok();
    scene.shows("site", "new").await;
    scene.deliver(&push_of(&old)).await.ok();
    scene.settled().await;
    scene.shows("site", "new").await;
    assert_eq!(mona.project("site").await["deployments"].as_array().unwrap().len(), 1);
    // A push by force is a push: the branch points there now.
    scene.host.force(70, "main", &old);
    scene.deliver(&push_of(&old)).await.ok();
    scene.shows("site", "old").await;
}

#[tokio::test]
async fn a_commit_that_is_overtaken_while_it_is_fetched_never_goes_live() {
    let (scene, mona) = linked().await;
    scene.host.fail(Fault::Holds("/tarball/"));
    let slow = scene.push(&[("index.html", "slow")]).await;
    eventually(Duration::from_secs(15), "the archive is being fetched", async || scene.host.calls("/tarball/") > 0)
        .await;
    scene.push(&[("index.html", "fast")]).await;
    scene.host.fail(Fault::None);
    scene.shows("site", "fast").await;
    scene.settled().await;
    let detail = mona.project("site").await;
    assert!(!detail["deployments"].to_string().contains(&slow), "{detail}");
}

#[tokio::test]
async fn a_branch_that_is_gone_leaves_the_site_as_it_is() {
    let (scene, mona) = linked().await;
    let sha = scene.push(&[("index.html", "here")]).await;
    scene.shows("site", "here").await;
    scene.host.commit(70, "other", repo_archive("a", &[("index.html", "other")]));
    scene.host.delete_branch(70, "main");
    scene.deliver(&Webhook::push((70, "acme/site"), "refs/heads/main", &sha, NOTHING, 7)).await.ok();
    // Deleted after the push, before it was looked at.
    scene.deliver(&push_of(&"b".repeat(40))).await.ok();
    scene.settled().await;
    scene.shows("site", "here").await;
    assert_eq!(mona.project("site").await["deployments"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn passing_faults_of_the_code_host_are_waited_out() {
    let (scene, mona) = linked().await;
    for (fault, text) in [
        (Fault::Status(500), "after 500"),
        (Fault::Garbage, "after garbage"),
        (Fault::RateLimited(3_600), "after the limit"),
        (Fault::ArchivesBreakOff, "after it broke off"),
    ] {
        scene.host.fail(fault.clone());
        scene.push(&[("index.html", text)]).await;
        eventually(Duration::from_secs(15), "an attempt has failed", async || {
            scene.world.sql_number("SELECT coalesce(max(attempts), 0)::bigint FROM repo_deploys").await > 0
        })
        .await;
        if fault == Fault::RateLimited(3_600) {
            let wait = "SELECT extract(epoch FROM next_attempt_at - now())::bigint FROM repo_deploys";
            assert!(scene.world.sql_number(wait).await > 3_000, "it is left alone for as long as it asked");
        }
        scene.host.fail(Fault::None);
        scene.hurry().await;
        scene.shows("site", text).await;
    }
    let detail = mona.project("site").await;
    assert!(!detail["deployments"].to_string().contains("failed"), "{detail}");
}

#[tokio::test]
async fn a_code_host_that_stays_away_is_given_up() {
    let (scene, mona) = linked().await;
    scene.host.fail(Fault::Status(502));
    let sha = scene.push(&[("index.html", "never")]).await;
    eventually(Duration::from_mins(1), "it is given up", async || {
        scene.hurry().await;
        scene.world.sql_number("SELECT count(*) FROM repo_deploys").await == 0
    })
    .await;
    let failed = scene.newest_failed(&mona, "site").await;
    assert_eq!(failed["git_sha"], sha);
    assert!(failed["failure"].as_str().unwrap().contains("code host"), "{failed}");
    // The same commit, pushed again, is tried again.
    scene.host.fail(Fault::None);
    scene.deliver(&push_of(&sha)).await.ok();
    scene.shows("site", "never").await;
}

#[tokio::test]
async fn what_can_never_be_read_fails_at_once_with_what_to_do() {
    let (scene, mona) = linked().await;
    scene.world.sql("UPDATE users SET email = 'mona@example.com' WHERE vcs_login = 'mona'").await;
    // The repository's name belongs to another one by now.
    scene.host.rename_repo(70, "acme/moved");
    scene.host.create_repo(7, 71, "acme/site");
    scene.host.commit(71, "main", repo_archive("a", &[("index.html", "somebody else's")]));
    let sha = scene.host.commit(70, "main", repo_archive("a", &[("index.html", "moved")]));
    scene.deliver(&push_of(&sha)).await.ok();
    let failed = scene.newest_failed(&mona, "site").await;
    assert!(failed["failure"].as_str().unwrap().contains("link it anew"), "{failed}");
    let letter = format!(
        "SELECT count(*) FROM letters WHERE recipient = 'mona@example.com' AND kind = 'deployment_failed'
                AND content ->> 'commit' = '{sha}' AND content ->> 'reason' LIKE '%link it anew%'"
    );
    assert_eq!(scene.world.sql_number(&letter).await, 1);
    // Told of the new name by the next push, it goes on.
    scene.deliver(&Webhook::push((70, "acme/moved"), "refs/heads/main", NOTHING, &sha, 7)).await.ok();
    scene.shows("site", "moved").await;

    scene.host.revoke_everything();
    let sha = scene.host.commit(70, "main", repo_archive("a", &[("index.html", "revoked")]));
    scene.deliver(&Webhook::push((70, "acme/moved"), "refs/heads/main", NOTHING, &sha, 7)).await.ok();
    let failed = scene.newest_failed(&mona, "site").await;
    assert!(failed["failure"].as_str().unwrap().contains("sign in again"), "{failed}");
}

#[tokio::test]
async fn archives_are_fetched_from_the_code_host_only() {
    let (scene, mona) = linked().await;
    let (url, visits) = elsewhere().await;
    scene.host.fail(Fault::ArchivesAt(url));
    scene.push(&[("index.html", "elsewhere")]).await;
    eventually(Duration::from_secs(15), "an attempt has failed", async || {
        scene.world.sql_number("SELECT coalesce(max(attempts), 0)::bigint FROM repo_deploys").await > 0
    })
    .await;
    assert_eq!(visits.load(Ordering::Relaxed), 0);
    assert!(mona.project("site").await["deployments"].as_array().unwrap().is_empty());
}

#[tokio::test]
async fn an_unlinked_project_takes_no_push_that_is_under_way() {
    let (scene, mona) = linked().await;
    scene.host.fail(Fault::Holds("/tarball/"));
    scene.push(&[("index.html", "too late")]).await;
    eventually(Duration::from_secs(15), "the archive is being fetched", async || scene.host.calls("/tarball/") > 0)
        .await;
    mona.post("/projects/site/repo").json(&json!({ "repo": null })).await.ok();
    scene.host.fail(Fault::None);
    eventually(Duration::from_secs(15), "the work has ended", async || scene.world.admin.log().contains("overtaken"))
        .await;
    assert_eq!(scene.world.sql_number("SELECT count(*) FROM projects WHERE active_deployment_id IS NOT NULL").await, 0);
}

#[tokio::test]
async fn a_push_survives_the_death_of_the_program() {
    let (mut scene, _mona) = linked().await;
    scene.host.fail(Fault::Holds(""));
    scene.push(&[("index.html", "survived")]).await;
    eventually(Duration::from_secs(15), "it is being worked on", async || {
        scene.world.sql_number("SELECT count(*) FROM repo_deploys WHERE leased_until IS NOT NULL").await == 1
    })
    .await;
    scene.world.admin.kill();
    scene.host.fail(Fault::None);
    // The lease of the dead program runs out.
    scene.world.sql("UPDATE repo_deploys SET leased_until = now()").await;
    scene.world.restart_admin_later().await;
    scene.world.wait_until_ready().await;
    scene.shows("site", "survived").await;
}

#[tokio::test]
async fn an_orgs_push_is_read_in_the_sharers_name_while_they_belong() {
    let (scene, mona) = Scene::with_repo().await;
    let owner = scene.sign_in("owner").await;
    scene.org(&owner, "team", &["mona"]).await;
    mona.post("/orgs/team/installations").json(&json!({ "installation_id": 7 })).await.created();
    owner.post("/projects").json(&json!({ "name": "site", "org": "team" })).await.created();
    owner.post("/projects/site/repo").json(&link("acme/site")).await.ok();
    scene.push(&[("index.html", "by the team")]).await;
    scene.shows("site", "by the team").await;
    owner.delete("/orgs/team/members/mona").await.ok();
    let sha = scene.host.commit(70, "main", repo_archive("a", &[("index.html", "no more")]));
    assert_eq!(scene.deliver(&push_of(&sha)).await.ok()["deploys"], 0);
    scene.shows("site", "by the team").await;
}

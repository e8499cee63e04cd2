//! Pushes that are read in the app's own name: with installation access tokens.

use std::time::Duration;

use serde_json::json;

use super::scene::{Scene, link, repo_archive};
use crate::{
    BACKGROUND,
    stubs::codehost::{
        app::TOKEN_PREFIX,
        hub::Fault,
        webhook::{NOTHING, Webhook},
    },
    world::{Actor, eventually},
};

async fn linked() -> (Scene, Actor) {
    Scene::with_app().await.linked().await
}

/// Breaks something, or mends it.
type Break = fn(&Scene, bool);

/// Until an attempt came to nothing, and was noted.
async fn an_attempt_failed(scene: &Scene) {
    eventually(Duration::from_secs(15), "an attempt has failed", async || {
        scene.world.sql_number("SELECT coalesce(max(attempts), 0)::bigint FROM repo_deploys").await > 0
    })
    .await;
}

/// The failure of the newest deployment, in words.
async fn failure(scene: &Scene, actor: &Actor) -> String {
    scene.newest_failed(actor, "site").await["failure"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn pushes_are_read_with_one_token_of_the_app_and_nobody_signed_in() {
    let (scene, mona) = linked().await;
    // Nothing that anybody granted works any more.
    scene.host.revoke_everything();
    let sha = scene.push(&[("index.html", "one")]).await;
    scene.shows("site", "one").await;
    scene.push(&[("index.html", "two")]).await;
    scene.shows("site", "two").await;
    assert_eq!(scene.host.app_tokens(), 1, "a token lasts an hour");
    scene.settled().await;
    let detail = mona.project("site").await;
    assert_eq!(
        (&detail["deployments"][1]["git_sha"], &detail["deployments"][1]["created_by"]),
        (&json!(sha), &json!("mona"))
    );
    assert!(!scene.world.admin.log().contains(TOKEN_PREFIX), "a token in the log");
    // One that was taken back is made anew, not at once: it might be too new for some of their servers.
    scene.host.revoke_app_tokens();
    scene.push(&[("index.html", "three")]).await;
    an_attempt_failed(&scene).await;
    let attempts = "SELECT count(*) FROM repo_deploys WHERE last_error LIKE '%refused the token%'";
    assert_eq!(scene.world.sql_number(attempts).await, 1);
}

#[tokio::test]
async fn many_who_want_a_token_ask_once() {
    let (mut scene, mona) = linked().await;
    for number in 0..5 {
        let name = format!("site-{number}");
        mona.create_project(&name).await;
        mona.post(&format!("/projects/{name}/repo")).json(&link("acme/site")).await.ok();
    }
    // Linking has asked for one already; tokens live in memory.
    scene.world.restart_admin_later().await;
    let before = scene.host.app_tokens();
    scene.host.hold_tokens(true);
    let sha = scene.host.commit(70, "main", repo_archive("a", &[("index.html", "everywhere")]));
    let push = Webhook::push((70, "acme/site"), "refs/heads/main", NOTHING, &sha, 7);
    assert_eq!(scene.deliver(&push).await.ok()["deploys"], 6);
    let at_work = "SELECT count(*) FROM repo_deploys WHERE leased_until IS NOT NULL";
    eventually(BACKGROUND, "several are at work", async || scene.world.sql_number(at_work).await > 1).await;
    scene.host.hold_tokens(false);
    for number in 0..5 {
        scene.shows(&format!("site-{number}"), "everywhere").await;
    }
    scene.shows("site", "everywhere").await;
    assert_eq!(scene.host.app_tokens(), before + 1);
}

#[tokio::test]
async fn a_token_that_ends_soon_is_not_used_again() {
    let scene = Scene::with_app().await;
    scene.host.token_lifetime(Duration::from_mins(5));
    let (scene, _mona) = scene.linked().await;
    // Linking asks for one as well.
    for (number, text) in [(2, "one"), (3, "two")] {
        scene.push(&[("index.html", text)]).await;
        scene.shows("site", text).await;
        scene.settled().await;
        assert_eq!(scene.host.app_tokens(), number);
    }
}

#[tokio::test]
async fn clocks_that_differ_do_no_harm() {
    let (scene, _mona) = linked().await;
    for (hours, text) in [(1, "ahead"), (-1, "behind")] {
        scene.host.set_clock_ahead(hours * 3_600);
        // A repository of its own, so that the token is not there yet.
        let repo = 80 + hours;
        scene.host.create_repo(7, repo, &format!("acme/{text}"));
        let mona = scene.sign_in("mona").await;
        mona.create_project(text).await;
        mona.post(&format!("/projects/{text}/repo")).json(&link(&format!("acme/{text}"))).await.ok();
        let sha = scene.host.commit(repo, "main", repo_archive("a", &[("index.html", text)]));
        let push = Webhook::push((repo, &format!("acme/{text}")), "refs/heads/main", NOTHING, &sha, 7);
        scene.deliver(&push).await.ok();
        scene.shows(text, text).await;
    }
    assert!(scene.world.admin.log().contains("clock"), "the operator is told");
}

#[tokio::test]
async fn what_the_installation_cannot_do_is_refused_at_once_with_what_to_do() {
    let (mut scene, mona) = linked().await;
    scene.push(&[("index.html", "good")]).await;
    scene.shows("site", "good").await;
    let cases: [(&str, u16, Break); 3] = [
        ("suspended", 502, |scene, broken| scene.host.suspend(7, broken)),
        ("does not reach", 404, |scene, broken| scene.host.hide_from_the_app(70, broken)),
        ("contents", 404, |scene, broken| scene.host.take_contents_away(broken)),
    ];
    for (words, status, set_broken) in cases {
        // Tokens live in memory.
        scene.world.restart_admin_later().await;
        set_broken(&scene, true);
        let sha = scene.host.commit(70, "main", repo_archive("a", &[("index.html", "never")]));
        scene.deliver(&Webhook::push((70, "acme/site"), "refs/heads/main", NOTHING, &sha, 7)).await.ok();
        let failure = failure(&scene, &mona).await;
        assert!(failure.contains(words) && failure.contains("push again"), "{words}: {failure}");
        // Nor can it be linked.
        let answer = mona.post("/projects/site/repo").json(&link("acme/site")).await;
        assert_eq!(answer.status, status, "{}", answer.text());
        assert!(answer.text().contains(words), "{words}: {}", answer.text());
        set_broken(&scene, false);
        mona.post("/projects/site/repo").json(&link("acme/site")).await.ok();
    }
    scene.world.restart_admin_later().await;
    let sha = scene.host.commit(70, "main", repo_archive("a", &[("index.html", "gone")]));
    scene.host.uninstall(7);
    scene.deliver(&Webhook::push((70, "acme/site"), "refs/heads/main", NOTHING, &sha, 7)).await.ok();
    assert!(failure(&scene, &mona).await.contains("link it anew"));
    scene.shows("site", "good").await;
}

#[tokio::test]
async fn what_passes_by_itself_is_waited_out() {
    let (mut scene, _mona) = linked().await;
    scene.host.revoke_everything();
    scene.world.restart_admin_later().await;
    // The operator puts the right key in place.
    scene.host.revoke_key(true);
    scene.push(&[("index.html", "key")]).await;
    an_attempt_failed(&scene).await;
    assert!(scene.world.admin.log().contains("code_host.private_key_file"), "the operator is told what to look at");
    scene.host.revoke_key(false);
    scene.hurry().await;
    scene.shows("site", "key").await;
    // A token that is not known everywhere yet is not thrown away for it.
    let tokens = scene.host.app_tokens();
    scene.host.lag(1);
    scene.push(&[("index.html", "lag")]).await;
    an_attempt_failed(&scene).await;
    scene.hurry().await;
    scene.shows("site", "lag").await;
    assert_eq!(scene.host.app_tokens(), tokens);
    scene.host.fail(Fault::RateLimited(3_600));
    scene.push(&[("index.html", "limit")]).await;
    an_attempt_failed(&scene).await;
    scene.host.fail(Fault::None);
    scene.hurry().await;
    scene.shows("site", "limit").await;
}

/// An installation reaches more than each of those who may use it, and people leave.
#[tokio::test]
async fn a_link_ends_to_be_read_when_its_person_may_read_no_more() {
    let (scene, mona) = linked().await;
    scene.push(&[("index.html", "while she may")]).await;
    scene.shows("site", "while she may").await;
    scene.host.set_people(7, &["somebody-else"]);
    scene.push(&[("index.html", "secret")]).await;
    let failure = failure(&scene, &mona).await;
    assert!(failure.contains("link it anew"), "{failure}");
    scene.shows("site", "while she may").await;
    scene.host.set_people(7, &["mona"]);
    scene.push(&[("index.html", "again")]).await;
    scene.shows("site", "again").await;
    // The login is somebody else's by now.
    scene.host.sign_in(4_711, "mona", None);
    scene.host.revoke_everything();
    scene.push(&[("index.html", "another mona")]).await;
    assert!(self::failure(&scene, &mona).await.contains("sign in again"));
}

#[tokio::test]
async fn where_the_app_is_not_told_who_may_read_people_read() {
    let (scene, _mona) = linked().await;
    scene.host.blind();
    scene.push(&[("index.html", "by mona")]).await;
    for _ in 0..3 {
        eventually(Duration::from_secs(15), "it is tried", async || {
            scene.hurry().await;
            scene.host.calls("/tarball/") > 0
                || scene.world.sql_number("SELECT coalesce(max(attempts), 0)::bigint FROM repo_deploys").await > 2
        })
        .await;
    }
    scene.hurry().await;
    scene.shows("site", "by mona").await;
}

/// The token that was kept still knows the old name, which by now is that of a repository that everybody may read.
#[tokio::test]
async fn a_renamed_repository_is_followed_by_its_id() {
    let (scene, mona) = linked().await;
    for (is_public, text) in [(false, "moved"), (true, "moved again")] {
        let (old, new) = if is_public { ("acme/moved", "acme/there") } else { ("acme/site", "acme/moved") };
        let heir = if is_public { 72 } else { 71 };
        scene.host.rename_repo(70, new);
        scene.host.create_repo(7, heir, old);
        if is_public {
            scene.host.make_public(heir);
        }
        let theirs = scene.host.commit(heir, "main", repo_archive("a", &[("index.html", "somebody else's")]));
        let sha = scene.host.commit(70, "main", repo_archive("a", &[("index.html", text)]));
        // The webhook still speaks of the old name.
        scene.deliver(&Webhook::push((70, old), "refs/heads/main", NOTHING, &sha, 7)).await.ok();
        scene.shows("site", text).await;
        scene.settled().await;
        let detail = mona.project("site").await;
        assert_eq!(detail["deployments"][0]["git_sha"], sha);
        assert!(!detail.to_string().contains(&theirs), "{detail}");
    }
}
